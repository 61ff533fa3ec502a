//! The flush lane beside workers that are busy with compactions: a full memtable begins to become a table at the lane's next turn, whoever
//! has all places and whatever rate was used up, and a flush that is ahead of writers looks every 10 ms whether it still is.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{LOOK_AGAIN, step};
use crate::base::class::Class;
use crate::base::clock::ManualClock;
use crate::base::random::Random;
use crate::base::units::{KIB, MIB};
use crate::db::database::Db;
use crate::db::jobs::scheduling::look;
use crate::db::jobs::stepping::Stepped;
use crate::db::store::state::Store;
use crate::execution::compaction_job::CompactionJob;
use crate::observe::event::Event;
use crate::options::Options;
use crate::storage::file_system::FileSystem;
use crate::storage::hooked::HookedFileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::compression::CompressionRule;

/// Four flushes have L0 go down, and what comes down soon fills the next level.
const STRATEGY: &str = "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs; size: sizes=fixed";

/// Only to end a test that hangs: nothing else depends on it.
const HANGS_AFTER: Duration = Duration::from_secs(60);

fn store(db: &Db) -> Arc<Store> {
    Arc::clone(&db.handle.store)
}

/// A kilobyte, somewhere.
fn put(db: &Db, random: &mut Random) {
    db.put(&random.next_u64().to_be_bytes(), &[7; 1000]).unwrap();
}

fn shallow(jobs: &[(usize, Class)]) -> Option<usize> {
    jobs.iter().find(|(_, class)| *class < Class::Deep).map(|(job, _)| *job)
}

/// A store with a deep job that nobody has stepped, and room for no other.
fn with_a_deep_job(clock: &Arc<ManualClock>, random: &mut Random) -> Db {
    let options = Options {
        schedule: "unlimited:jobs=1".to_owned(),
        device_bytes_per_sec: 2 * MIB,
        strategy: Some(STRATEGY.to_owned()),
        memtable_bytes: MIB,
        memtables: 2,
        table_bytes: 256 * KIB,
        level_base_bytes: MIB,
        level_ratio: 3,
        // No writer waits for L0, which nobody brings down.
        l0_limit: 1000,
        compression: CompressionRule::None,
        reserve_bytes: 0,
        workers: 1,
        ..Options::default()
    };
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
    let db = builder.clock(Arc::clone(clock) as _).options(options).without_threads().open().unwrap();
    let store = store(&db);
    for _ in 0..200_000 {
        if store.background.lock().jobs.iter().any(|open| open.class == Class::Deep) {
            return db;
        }
        put(&db, random);
        db.step(&mut shallow);
        clock.advance(Duration::from_millis(1));
    }
    panic!("no deep job was opened");
}

/// A worker has all jobs in its hands, and has used up what compactions may move in a minute.
fn take_all_jobs(store: &Store) -> Vec<CompactionJob> {
    let mut state = store.background.lock();
    state.limiter.step_begins();
    state.limiter.charge(120 * MIB);
    state.jobs.iter_mut().for_each(|open| open.waits_since = None);
    state.jobs.iter_mut().filter_map(|open| open.job.take().map(|job| *job)).collect()
}

/// The lane as its thread has it: step after step, and then a sleep that ends at its time or with the next change.
#[derive(Default)]
struct Lane {
    seen: u64,
    sleeps_until: Duration,
    /// For how long each time the rate held it up in the middle of a flush.
    held: Vec<Duration>,
}

impl Lane {
    fn run(&mut self, store: &Store) {
        let now = store.clock.now();
        while now >= self.sleeps_until || store.background.changes() != self.seen {
            self.seen = store.background.changes();
            self.sleeps_until = match step(store) {
                Stepped::Worked => now,
                Stepped::Wait(until) => {
                    self.held.push(until.saturating_sub(now));
                    until
                }
                Stepped::Idle => Duration::MAX,
            };
        }
    }
}

/// The only worker is in the middle of a deep job's step for a whole minute, in which a memtable fills every four seconds.
#[test]
fn a_full_memtable_waits_for_no_worker_and_for_no_rate() {
    // Where flushes have a part of one rate for all, they look whether writers come near.
    for (schedule, looks) in
        [("unlimited", false), ("silk:jobs=1", true), ("dlc-full:jobs=1", true), ("paced", false)]
    {
        let (clock, mut random) = (Arc::<ManualClock>::default(), Random::new(1));
        let db = with_a_deep_job(&clock, &mut random);
        let (store, keyspace) = (store(&db), db.keyspace("default").unwrap());
        db.set_schedule(schedule).unwrap();
        look(&store);
        let (flushes, steps) = (store.counters.flushes.get(), store.counters.step_us.count());
        let before = [store.counters.flushes_delayed.get(), store.counters.stalls.get()];
        let _step = store.background.begin_step().unwrap();
        let jobs = take_all_jobs(&store);
        assert!(!jobs.is_empty());
        let mut lane = Lane::default();
        for ms in 0..60_000 {
            if ms % 4 == 0 {
                put(&db, &mut random);
            }
            if ms % 10 == 0 {
                look(&store);
            }
            lane.run(&store);
            let view = keyspace.state().view.load();
            let begun = view.immutable.last().is_none_or(|oldest| oldest.is_being_flushed());
            assert!(begun, "{schedule}: a full memtable waits at {ms} ms");
            clock.advance(Duration::from_millis(1));
        }
        let flushes = store.counters.flushes.get() - flushes;
        assert!(flushes >= 10, "{schedule}: {flushes} flushes");
        let waited = Duration::from_micros(store.counters.flush_wait_us.max());
        assert!(waited <= LOOK_AGAIN, "{schedule}: {waited:?}");
        // Nor does one wait for the one before, or a writer for any.
        let after = [store.counters.flushes_delayed.get(), store.counters.stalls.get()];
        assert_eq!(after, before, "{schedule}");
        let longest = lane.held.iter().max();
        assert!(!looks || longest.is_some_and(|held| *held <= LOOK_AGAIN), "{schedule}: {longest:?}");
        assert_eq!(store.counters.step_us.count(), steps, "{schedule}: somebody has stepped a compaction");
    }
}

/// True for a thread that steps compactions.
fn is_worker(name: &str) -> bool {
    name.starts_with("keel-work-") || (name.starts_with("keel-urgent-") && name != "keel-urgent-flush")
}

/// With threads: the worker is stopped in the middle of a step until the test lets it go on.
#[test]
fn memtables_are_flushed_while_the_worker_is_stuck() {
    let disk = SimulatedFileSystem::new();
    let fs = Arc::new(HookedFileSystem::new(Arc::new(disk.clone())));
    let ((stuck, is_stuck), (go, goes)) = (channel(), channel::<()>());
    let goes = Mutex::new(goes);
    fs.set(Box::new(move |path| {
        let makes_a_table = path.extension().is_some_and(|end| end == "sst") && !disk.exists(path).unwrap();
        if makes_a_table && std::thread::current().name().is_some_and(is_worker) {
            let _ = stuck.send(());
            // It ends when the other end is dropped.
            let _ = goes.lock().unwrap().recv();
        }
    }));
    let (tell, told) = channel();
    let listener = move |event: &Event| {
        if matches!(event, Event::Flushed { .. }) {
            let _ = tell.send(());
        }
    };
    let options = Options {
        schedule: "unlimited:jobs=1".to_owned(),
        memtable_bytes: 64 * KIB,
        memtables: 4,
        l0_trigger: 2,
        l0_limit: 1000,
        reserve_bytes: 0,
        workers: 1,
        ..Options::default()
    };
    let builder = Db::builder(Path::new("/db")).file_system(fs).options(options);
    // What is declared last is dropped first: a test that fails lets the worker go, and the store can be closed.
    let (db, go) = (builder.listener(Arc::new(listener)).open().unwrap(), go);
    let mut random = Random::new(1);
    // More than a memtable, and less than there may be: where nothing is flushed the wait for it fails, and no writer hangs.
    let mut flush_one = || {
        let before = db.metrics().flushes;
        (0..100).for_each(|_| put(&db, &mut random));
        while db.metrics().flushes == before {
            told.recv_timeout(HANGS_AFTER).expect("a memtable is flushed");
        }
    };
    // A compaction that makes its table while the lane makes one passes the hook, and another one comes.
    let is_caught = (0..HANGS_AFTER.as_secs() * 10).any(|_| {
        flush_one();
        is_stuck.recv_timeout(Duration::from_millis(100)).is_ok()
    });
    assert!(is_caught, "no compaction begins");
    let compactions = db.metrics().compactions;
    (0..6).for_each(|_| flush_one());
    assert_eq!(db.metrics().compactions, compactions);
    drop(go);
    db.wait_idle().unwrap();
    assert!(db.metrics().compactions > compactions);
    db.close().unwrap();
}
