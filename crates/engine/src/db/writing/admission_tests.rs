//! Writers beside a background on one core and a clock of its own: a step of the background takes as long as the bytes it
//! writes take on a slow disk, and a writer that waits gives the core to the background.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::class::{Class, IoClass};
use crate::base::clock::{Clock, ManualClock, spawn};
use crate::base::units::{KIB, MIB};
use crate::db::background::flushing;
use crate::db::database::Db;
use crate::db::jobs::pressure;
use crate::db::jobs::stepping::Stepped;
use crate::db::keyspace::Keyspace;
use crate::db::reading::scan::ScanRange;
use crate::db::store::state::Store;
use crate::observe::event::Event;
use crate::observe::io_counters::IoCounters;
use crate::options::Options;
use crate::scheduler::admission::Pressure;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::write::batch::WriteBatch;

/// What the disk writes in a second.
const DISK: u64 = 4 * MIB;

/// Time passes as the test says, and as the disk writes for the background.
#[derive(Debug)]
struct DiskClock {
    manual: ManualClock,
    written: Arc<IoCounters>,
    /// How often it was asked.
    asked: AtomicU64,
}

impl Clock for DiskClock {
    fn now(&self) -> Duration {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let bytes: u64 =
            Class::ALL.iter().map(|class| self.written.written(IoClass::Background(*class))).sum();
        self.manual.now() + Duration::from_secs_f64(bytes as f64 / DISK as f64)
    }

    fn wall_ms(&self) -> u64 {
        self.now().as_millis() as u64
    }
}

struct World {
    fs: SimulatedFileSystem,
    clock: Arc<DiskClock>,
    db: Db,
    events: Arc<Mutex<Vec<Event>>>,
    written: u64,
}

impl World {
    fn new(options: Options) -> World {
        let fs = SimulatedFileSystem::new();
        let written = Arc::clone(fs.counters());
        let clock = Arc::new(DiskClock { manual: ManualClock::default(), written, asked: AtomicU64::new(0) });
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let heard = Arc::clone(&events);
        let db = Db::builder(Path::new("/db"))
            .file_system(Arc::new(fs.clone()))
            .clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .options(options)
            .listener(Arc::new(move |event: &Event| heard.lock().unwrap().push(event.clone())))
            .without_threads()
            .open()
            .unwrap();
        let world = World { fs, clock, db, events, written: 0 };
        world.store().admission.timed.store(true, Ordering::Relaxed);
        world
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.db.handle.store)
    }

    /// Writes, and lets the background have a step after every 64th write. Answers how long the write took.
    fn put(&mut self, keyspace: &Keyspace, bytes: usize) -> Duration {
        self.written += 1;
        if self.written.is_multiple_of(64) {
            self.db.step(&mut |jobs| jobs.first().map(|(i, _)| *i));
        }
        let key = self.written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let before = self.clock.now();
        keyspace.put(&key, &vec![7; bytes]).unwrap();
        let took = self.clock.now() - before;
        self.clock.manual.advance(Duration::from_micros(1));
        took
    }

    fn heard(&self, what: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|e| e.to_string().starts_with(what)).count()
    }
}

fn options() -> Options {
    Options {
        memtable_bytes: 256 * KIB,
        memory_bytes: 8 * MIB,
        cache_bytes: 4 * MIB,
        level_base_bytes: MIB,
        table_bytes: 256 * KIB,
        wal_bytes_max: 64 * MIB,
        reserve_bytes: 0,
        ..Options::default()
    }
}

#[test]
fn a_fill_far_faster_than_the_disk_is_slowed_and_never_stopped() {
    let mut world = World::new(options());
    let keyspace = world.db.keyspace("default").unwrap();
    let (mut longest, mut most, mut limits) = (Duration::ZERO, 0, Vec::new());
    let mut second = Duration::from_secs(1);
    while world.clock.now() < Duration::from_secs(30) {
        longest = longest.max(world.put(&keyspace, 1000));
        let metrics = world.db.metrics();
        most = most.max(metrics.memory.memtables);
        assert!(metrics.memory.total() <= metrics.memory.limit, "{:?}", metrics.memory);
        if world.clock.now() >= second {
            second += Duration::from_secs(1);
            limits.extend(metrics.admission_bytes_per_sec.map(|limit| (world.clock.now(), limit)));
        }
    }
    let metrics = world.db.metrics();
    assert!(metrics.delayed_writes > 0 && metrics.stalls > 0, "{metrics:?}");
    assert!(longest < Duration::from_secs(1), "{longest:?} for one write");
    assert!(most <= 3 * 256 * KIB, "{most} bytes of memtables where two of 256 KiB are allowed");
    assert!(limits.len() > 10 && limits.iter().all(|(_, limit)| *limit > 0.0), "{limits:?}");
    for pair in limits.windows(2) {
        let fold = (pair[1].0 - pair[0].0).as_secs_f64().exp2() * 1.001;
        let (from, to) = (pair[0].1, pair[1].1);
        assert!(to <= from * fold && from <= to * fold, "{pair:?}");
    }
    assert!(world.heard("Stalling writes") > 0);
    assert_eq!(world.heard("Stopping writes"), 0);
}

/// Or a stall of a minute would be seen when it is over.
#[test]
fn a_wait_counts_while_it_lasts() {
    let small =
        Options { memtable_bytes: 64 * KIB, memory_bytes: 4 * MIB, cache_bytes: MIB, ..Options::default() };
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
    let db = Arc::new(builder.options(small).open().unwrap());
    let pause = db.pause_background().unwrap();
    let (writer, told) = (Arc::clone(&db), channel());
    let thread = spawn("writer", move || {
        for i in 0..400_u32 {
            writer.put(&i.to_be_bytes(), &[7; 20_000]).unwrap();
            told.0.send(i).unwrap();
        }
    });
    // A wait that is over counts once before the write returns.
    let (mut last, mut risen) = ([0.0; 2], 0);
    while risen < 2 {
        match told.1.recv_timeout(Duration::from_millis(10)) {
            Ok(i) => {
                assert!(i < 399, "nobody waited");
                risen = 0;
            }
            Err(_) => {
                let metrics = db.metrics();
                let now = [metrics.stall_seconds, metrics.longest_delay_seconds];
                risen += u32::from(now[0] > last[0] && now[1] > 0.0);
                last = now;
            }
        }
    }
    drop(pause);
    thread.unwrap().join().unwrap();
}

/// Ten runs where four are wanted: the schedule says how writers are slowed for it.
#[test]
fn a_schedule_says_how_l0_slows_writers() {
    let mut world = World::new(options());
    let keyspace = world.db.keyspace("default").unwrap();
    world.db.set_option("l0_limit", "40").unwrap();
    while keyspace.state().l0().0 < 10 {
        world.put(&keyspace, 1000);
        while world.db.step(&mut |_| None) {}
    }
    let store = world.store();
    let limit = |schedule: &str, l0_limit: u32| {
        world.db.set_schedule(schedule).unwrap();
        world.db.set_option("l0_limit", &l0_limit.to_string()).unwrap();
        pressure::sample(&store, keyspace.state());
        // For longer than a second nothing has left L0: so slowly it drains.
        world.clock.manual.advance(Duration::from_secs(60));
        pressure::sample(&store, keyspace.state());
        keyspace.state().gate.limit()
    };
    let limits = |schedule| [40, 14, 10].map(|l0_limit| limit(schedule, l0_limit));
    assert_eq!(limits("unlimited:admission=steps@1MiB"), [None, Some(MIB as f64), Some(1024.0)]);
    assert_eq!(limits("unlimited:admission=none"), [None; 3]);
    let slope = limits("unlimited");
    assert!(matches!(slope, [None, Some(first), Some(last)] if first < 1e5 && last == 1024.0), "{slope:?}");
}

/// Behind the gate of a high load it does not drain, and would as soon as writers were slowed: they are not held to a rate with that time
/// in it.
#[test]
fn what_a_gate_keeps_from_draining_is_no_measure_of_how_fast_it_does() {
    let schedule = "dlc-full:low=1KiB,softness=10000,high=1KiB,every=10ms".to_owned();
    let mut world = World::new(Options { schedule, device_bytes_per_sec: 100 * MIB, ..options() });
    let keyspace = world.db.keyspace("default").unwrap();
    let (store, state) = (world.store(), Arc::clone(keyspace.state()));
    let rate = |world: &World| state.l0_drain.rate(world.clock.now());
    for _ in 0..6000 {
        world.put(&keyspace, 1000);
        world.clock.manual.advance(Duration::from_millis(1));
    }
    while world.db.metrics().jobs_open > 0 {
        world.db.step(&mut |jobs| jobs.first().map(|(i, _)| *i));
        world.clock.manual.advance(Duration::from_millis(1));
    }
    assert!(world.db.metrics().compactions > 0);
    let measured = rate(&world).unwrap();
    assert!(world.db.get(&0x9e37_79b9_7f4a_7c15_u64.to_be_bytes()).unwrap().is_some());
    world.clock.manual.advance(Duration::from_millis(10));
    world.db.step(&mut |_| None);
    assert_eq!(world.db.metrics().schedule.load_is_high, Some(true));
    for _ in 0..6000 {
        if pressure::L0Debt::of(&store, &state).debt == 0 {
            world.put(&keyspace, 1000);
        }
    }
    assert!(pressure::L0Debt::of(&store, &state).debt > 0);
    for _ in 0..70 {
        world.clock.manual.advance(Duration::from_secs(1));
        world.db.step(&mut |_| None);
    }
    let now = rate(&world).unwrap();
    assert!(now > 0.9 * measured, "{now} instead of {measured}");
}

#[test]
fn a_keyspace_that_is_slowed_does_not_slow_another() {
    let mut world = World::new(options());
    let (busy, calm) = (
        world.db.keyspace("default").unwrap(),
        world.db.create_keyspace("calm", Default::default()).unwrap(),
    );
    let mut longest = Duration::ZERO;
    for round in 0..6000_u32 {
        world.put(&busy, 1000);
        // As much as a calm writer has to say.
        if round.is_multiple_of(50) {
            longest = longest.max(world.put(&calm, 100));
        }
    }
    assert!(world.db.metrics().delayed_writes > 0, "the busy one was slowed");
    let step = Duration::from_millis(1);
    assert!(longest <= step, "{longest:?}: the calm one waited");
}

/// What fails is told where there is no room left, and only there; and writes go on when there is space.
#[test]
fn a_full_disk_stops_writes_when_memory_is_full_and_space_lets_them_go_on() {
    let mut world = World::new(options());
    let keyspace = world.db.keyspace("default").unwrap();
    let fault = Fault {
        kind: FaultKind::Write,
        path_contains: ".sst".into(),
        nth: 0,
        error: FaultError::Enospc,
        sticky: true,
    };
    world.fs.inject(fault);
    let (mut failed, mut written) = (None, 0_u64);
    for i in 0..4000_u32 {
        world.db.step(&mut |_| None);
        match keyspace.put(&i.to_be_bytes(), &[7; 1000]) {
            Ok(()) => written += 1000,
            Err(error) => failed = Some(error),
        }
        if failed.is_some() {
            break;
        }
    }
    assert_eq!(failed.unwrap().kind(), "NoSpace");
    assert!((300 * KIB..2 * MIB).contains(&written), "{written}");
    assert_eq!(world.heard("Stopping writes"), 1);
    world.fs.clear_faults();
    world.clock.manual.advance(Duration::from_secs(1));
    while world.db.step(&mut |_| None) {}
    world.put(&keyspace, 1000);
    assert!(world.db.metrics().memory.memtables < 2 * 256 * KIB);
}

/// The same where memory is full before the memtables are: a disk that takes nothing is no slow disk, and nobody crawls.
#[test]
fn a_full_disk_slows_nobody_where_memory_is_what_is_short() {
    let world = World::new(Options { memtable_bytes: 4 * MIB, memory_bytes: 2 * MIB, ..options() });
    let keyspace = world.db.keyspace("default").unwrap();
    let fault = Fault {
        kind: FaultKind::Write,
        path_contains: ".sst".into(),
        nth: 0,
        error: FaultError::Enospc,
        sticky: true,
    };
    world.fs.inject(fault);
    keyspace.put(b"k", b"v").unwrap();
    assert_eq!(keyspace.flush().unwrap_err().kind(), "NoSpace");
    // So long that nothing drains is measured.
    world.clock.manual.advance(Duration::from_secs(2));
    let outcome = (0..4000_u32).try_for_each(|i| {
        world.clock.manual.advance(Duration::from_millis(1));
        keyspace.put(&i.to_be_bytes(), &[7; 1000])
    });
    assert_eq!(outcome.unwrap_err().kind(), "NoSpace");
    let metrics = world.db.metrics();
    assert_eq!(metrics.delayed_writes, 0);
    assert!(metrics.memory.memtables >= MIB, "{:?}", metrics.memory);
}

/// Many keyspaces, each far from full, together take the memory: the largest goes to tables early, and the cache yields first. Once none
/// of 40 was large enough for that.
#[test]
fn many_small_memtables_stay_within_the_memory_together() {
    for count in [6, 40] {
        let mut world = World::new(Options { memtable_bytes: 4 * MIB, ..options() });
        let keyspaces = keyspaces(&world, count);
        let mut smallest_cache = u64::MAX;
        for round in 0..18_000 / count {
            for keyspace in &keyspaces {
                world.put(keyspace, 1000);
            }
            let memory = world.db.metrics().memory;
            assert!(memory.total() <= memory.limit, "{count}, round {round}: {memory:?}");
            smallest_cache = smallest_cache.min(world.store().tables.block_cache().capacity());
        }
        let metrics = world.db.metrics();
        assert!(metrics.early_flushes > 0, "{count}");
        assert!(smallest_cache < 4 * MIB, "the cache has yielded");
    }
}

fn keyspaces(world: &World, count: usize) -> Vec<Keyspace> {
    let create = |i| world.db.create_keyspace(&format!("k{i}"), Default::default()).unwrap();
    (0..count).map(create).collect()
}

/// The leader sends the largest memtable away by itself: under writers that sync, the lane may never find the lock free.
#[test]
fn a_leader_flushes_early_without_the_lane() {
    let world = World::new(Options { memtable_bytes: 4 * MIB, ..options() });
    let keyspaces: Vec<Keyspace> =
        (0..6).map(|i| world.db.create_keyspace(&format!("k{i}"), Default::default()).unwrap()).collect();
    world.store().admission.timed.store(false, Ordering::Relaxed);
    for i in 0..1000_u32 {
        keyspaces.iter().for_each(|keyspace| keyspace.put(&i.to_be_bytes(), &[7; 1000]).unwrap());
    }
    let metrics = world.db.metrics();
    assert_eq!((metrics.early_flushes, metrics.flushes), (1, 0), "one is on its way, and nobody has stepped");
}

/// Ends on a thread of its own, or the test fails.
fn ends(what: impl FnOnce() + Send + 'static) {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = spawn("ends", move || {
        what();
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it ends, and waits for no lock");
    thread.unwrap().join().unwrap();
}

/// A bulk load that is being finished holds the commit lock while it waits for the flush lane. Once the lane went for that lock
/// when memory was short, and everybody waited for ever.
#[test]
fn the_flush_lane_does_not_wait_for_the_commit_lock() {
    let world = World::new(Options { memtable_bytes: 4 * MIB, ..options() });
    let (store, keyspace) = (world.store(), world.db.keyspace("default").unwrap());
    for i in 0..1500_u32 {
        keyspace.put(&i.to_be_bytes(), &[7; 1000]).unwrap();
    }
    world.db.set_option("memory_bytes", "2MiB").unwrap();
    let held = store.commit_state();
    let lane = Arc::clone(&store);
    ends(move || assert_eq!(flushing::step(&lane), Stepped::Idle));
    assert_eq!(world.db.metrics().early_flushes, 0);
    drop(held);
    while flushing::step(&store) == Stepped::Worked {}
    assert_eq!(world.db.metrics().early_flushes, 1);
    assert!(keyspace.state().view.load().is_flushed());
}

/// A gate that nobody samples any more stays as it is: once a keyspace dropped under load left every other one's writers on the
/// slow path for good, and its own waiting.
#[test]
fn a_keyspace_dropped_under_pressure_presses_nobody_and_lets_its_writers_go() {
    let world = World::new(options());
    let store = world.store();
    let gone = world.db.create_keyspace("gone", Default::default()).unwrap();
    gone.put(b"k", b"v").unwrap();
    gone.flush().unwrap();
    assert_eq!(gone.state().l0_runs(), 1);
    let paused = world.db.pause_background().unwrap();
    let mut written = 0_u32;
    while !gone.state().gate.is_pressed() {
        gone.put(&written.to_be_bytes(), &[7; 1000]).unwrap();
        written += 1;
    }
    assert_eq!(store.admission.pressed.load(Ordering::Relaxed), 1);
    // A writer in front of the gate: the first goes ahead, the second waits.
    let gate = &gone.state().gate;
    let now = store.clock.now();
    gate.lock().turnstile.enter(now, MIB).ok();
    let (place, _) = gate.lock().turnstile.enter(now, MIB).unwrap_err();
    world.db.drop_keyspace("gone").unwrap();
    assert_eq!(store.admission.pressed.load(Ordering::Relaxed), 0);
    // One that has measured before, and steers after.
    let high = Pressure { debt: 10, slack: 1, relief: 10, room: None, drain: Some(1.0), step: None };
    gate.steer(now, vec![(high, String::new())], None);
    assert!(!gate.is_pressed());
    assert_eq!(gate.lock().turnstile.ask(now, place), Ok(()));
    assert_eq!(gone.put(b"k", b"v").unwrap_err().kind(), "InvalidArgument");
    assert_eq!(gone.state().l0(), (0, 0));
    drop(paused);
}

/// Each measurement asks the clock. Once there was one for each entry of a batch that goes to and fro, and everybody waited.
#[test]
fn a_batch_is_looked_at_once_for_each_of_its_keyspaces() {
    let world = World::new(Options { memory_bytes: 64 * MIB, ..options() });
    let keyspaces: Vec<Keyspace> =
        (0..3).map(|i| world.db.create_keyspace(&format!("k{i}"), Default::default()).unwrap()).collect();
    // One that fills memtables, and one that is large enough to be looked at before it queues.
    for (entries, value) in [(3000_u32, 100), (12_000, 200)] {
        let mut batch = WriteBatch::new();
        for i in 0..entries {
            batch.put_in(&keyspaces[i as usize % 3], &i.to_be_bytes(), &vec![7; value]);
        }
        let before = world.clock.asked.load(Ordering::Relaxed);
        world.db.write(batch).unwrap();
        let asked = world.clock.asked.load(Ordering::Relaxed) - before;
        assert!(asked < 100, "{asked} times for {entries} entries");
        for (at, keyspace) in keyspaces.iter().enumerate() {
            assert!(keyspace.get(&(entries - 3 + at as u32).to_be_bytes()).unwrap().is_some());
            assert_eq!(keyspace.state().gate.reserved(), 0);
        }
    }
}

/// Threads of low priority hold the background's lock, and may be stopped while they do; behind the leader everybody waits.
#[test]
fn a_leader_that_switches_a_memtable_does_not_wait_for_the_background() {
    let world = World::new(options());
    let (store, keyspace) = (world.store(), world.db.keyspace("default").unwrap());
    let held = store.background.lock();
    let writer = keyspace.clone();
    ends(move || (0..300_u32).for_each(|i| writer.put(&i.to_be_bytes(), &[7; 1000]).unwrap()));
    drop(held);
    assert_eq!(keyspace.state().view.load().immutable.len(), 1);
}

#[test]
fn the_flush_lane_is_woken_without_a_lock_and_misses_nothing() {
    let world = World::new(options());
    let store = world.store();
    let lane = Arc::clone(&store);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let waker = spawn("waker", move || {
        let seen: u64 = is_ready.recv().unwrap();
        let held = store.background.lock();
        store.background.wake_flusher();
        drop(held);
        assert_ne!(store.background.changes(), seen);
    });
    ends(move || {
        lane.background.be_flusher(false);
        let seen = lane.background.changes();
        ready.send(seen).unwrap();
        // Whether it comes before the sleep or in it.
        while lane.background.changes() == seen {
            lane.background.sleep_as_flusher(seen, Duration::from_secs(3600));
        }
    });
    waker.unwrap().join().unwrap();
}

/// What is counted is there as long as somebody holds it: cursors, memtables that readers still have, open jobs.
#[test]
fn memory_is_counted_as_long_as_it_is_held() {
    let mut world = World::new(options());
    let keyspace = world.db.keyspace("default").unwrap();
    for _ in 0..200 {
        world.put(&keyspace, 1000);
    }
    let mut cursor = keyspace.cursor(ScanRange::all()).unwrap();
    cursor.seek_to_first().unwrap();
    let memory = || world.db.metrics().memory;
    assert!(memory().cursors > 0);
    keyspace.flush().unwrap();
    let held = memory().memtables;
    assert!(held >= 200_000, "{held}: the cursor still reads the old memtable");
    drop(cursor);
    assert!(memory().memtables < 100_000, "{:?}", memory());
    assert_eq!((memory().cursors, memory().jobs), (0, 0));
    assert_eq!(keyspace.scan(ScanRange::all()).unwrap().count(), 200);
    assert!(memory().tables > 0, "an open table keeps its index");
    let mut jobs = 0;
    for i in 0..400_u32 {
        keyspace.put(&i.to_be_bytes(), &[7; 4000]).unwrap();
        world.db.step(&mut |jobs| jobs.first().map(|(i, _)| *i));
        jobs = jobs.max(memory().jobs);
    }
    assert!(jobs > 0, "a flush has buffers");
    world.db.wait_idle().unwrap();
    assert_eq!(memory().jobs, 0);
}
