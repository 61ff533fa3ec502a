//! Durability modes, keyspaces without a log, and what the log costs whom (`docs/durability.md`). Time is a clock in the test's hand.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{CallKind, Clock, CrashPolicy, ManualClock, SimulatedFileSystem, SystemClock};
use evenkeel::{Db, Durability, Keyspace, KeyspaceOptions, Options, ScanRange, WriteBatch};

const DIR: &str = "/store";

struct World {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        World { fs: SimulatedFileSystem::new(), clock: Arc::default() }
    }

    fn open(&self) -> Db {
        let options = Options {
            memtable_bytes: 64 << 10,
            wal_bytes_max: 256 << 10,
            level_base_bytes: 1 << 20,
            reserve_bytes: 0,
            ..Options::default()
        };
        let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::new(self.fs.clone()));
        builder.clock(Arc::clone(&self.clock) as _).without_threads().open().unwrap()
    }

    /// The same disk after the process was killed.
    fn killed(&self) -> World {
        World { fs: self.fs.process_kill(), clock: Arc::clone(&self.clock) }
    }

    /// The same disk after a power cut that takes what was not synced.
    fn cut(&self) -> World {
        World { fs: self.fs.crash(1, CrashPolicy::DropUnsynced), clock: Arc::clone(&self.clock) }
    }
}

fn no_wal() -> KeyspaceOptions {
    KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() }
}

fn put(db: &Db, keyspace: &Keyspace, key: u32, durability: Durability) -> evenkeel::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_in(keyspace, &key.to_be_bytes(), &[7; 100]);
    db.write_with(batch, durability)
}

fn count(keyspace: &Keyspace) -> usize {
    keyspace.scan(ScanRange::all()).unwrap().collect::<evenkeel::Result<Vec<_>>>().unwrap().len()
}

/// A step of background work, without compactions.
fn step(db: &Db) {
    db.step(&mut |_| None);
}

#[test]
fn a_keyspace_without_a_log_keeps_what_was_flushed_and_all_when_closed() {
    let world = World::new();
    let db = world.open();
    let (logged, fast) = (db.keyspace("default").unwrap(), db.create_keyspace("fast", no_wal()).unwrap());
    for i in 0..50 {
        fast.put(&i_to_key(i), b"flushed").unwrap();
        logged.put(&i_to_key(i), b"logged").unwrap();
    }
    fast.flush().unwrap();
    // Sequences of the unlogged writes lie between those of the log, and above them at its end.
    for i in 0..50 {
        fast.put(&i_to_key(i), b"in memory").unwrap();
        fast.put(&i_to_key(100 + i), b"in memory").unwrap();
        if i < 40 {
            logged.put(&i_to_key(i), b"logged again").unwrap();
        }
    }
    let killed = world.killed();
    let again = killed.open();
    let fast_again = again.keyspace("fast").unwrap();
    assert!(fast_again.no_wal() && !again.keyspace("default").unwrap().no_wal(), "remembered");
    assert_eq!(count(&fast_again), 50);
    assert_eq!(fast_again.get(&i_to_key(0)).unwrap().as_deref(), Some(&b"flushed"[..]));
    assert_eq!(again.get(&i_to_key(39)).unwrap().as_deref(), Some(&b"logged again"[..]));
    assert_eq!(again.get(&i_to_key(40)).unwrap().as_deref(), Some(&b"logged"[..]));
    // What is written next is newer than everything that survived.
    fast_again.put(&i_to_key(0), b"newest").unwrap();
    again.put(&i_to_key(0), b"newest").unwrap();
    again.verify().unwrap();
    again.close().unwrap();
    let third = killed.killed().open();
    assert_eq!(third.get(&i_to_key(0)).unwrap().as_deref(), Some(&b"newest"[..]));
    assert_eq!(
        third.keyspace("fast").unwrap().get(&i_to_key(0)).unwrap().as_deref(),
        Some(&b"newest"[..]),
        "closing flushes"
    );
    // Dropping the last handle closes too.
    drop((fast, logged));
    drop(db);
    assert_eq!(count(&world.cut().open().keyspace("fast").unwrap()), 100);
}

fn i_to_key(i: u32) -> Vec<u8> {
    i.to_be_bytes().to_vec()
}

/// A flush of one keyspace without a log neither syncs the log nor lets go of it.
#[test]
fn keyspaces_without_a_log_are_each_a_world_of_their_own() {
    let world = World::new();
    let db = world.open();
    let (a, b) = (db.create_keyspace("a", no_wal()).unwrap(), db.create_keyspace("b", no_wal()).unwrap());
    for i in 0..20 {
        db.put(&i_to_key(i), b"os").unwrap();
        a.put(&i_to_key(i), b"a").unwrap();
        b.put(&i_to_key(i), b"b").unwrap();
    }
    let syncs = |world: &World| {
        let calls = world.fs.calls();
        calls
            .iter()
            .filter(|c| c.kind == CallKind::Sync && c.path.to_string_lossy().ends_with(".log"))
            .count()
    };
    let before = syncs(&world);
    a.flush().unwrap();
    assert_eq!(syncs(&world), before, "the log is no concern of it");
    let cut = world.cut().open();
    assert_eq!((count(&cut.keyspace("a").unwrap()), count(&cut.keyspace("b").unwrap())), (20, 0));
    assert!(count(&cut.keyspace("default").unwrap()) < 20);
    let killed = world.killed().open();
    assert_eq!((count(&killed.keyspace("a").unwrap()), count(&killed.keyspace("b").unwrap())), (20, 0));
    assert_eq!(count(&killed.keyspace("default").unwrap()), 20);
}

#[test]
fn modes_that_make_no_sense_are_refused_before_anything_is_written() {
    let world = World::new();
    let db = world.open();
    let logged = db.keyspace("default").unwrap();
    let (a, b) = (db.create_keyspace("a", no_wal()).unwrap(), db.create_keyspace("b", no_wal()).unwrap());
    let sequence = db.metrics().sequence;
    let refused = |outcome: evenkeel::Result<()>, what: &str| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{what}: {error}");
        assert!(!error.to_string().contains('\n'));
    };
    refused(put(&db, &logged, 1, Durability::NoWal), "no-wal where there is a log");
    for durability in [Durability::Os, Durability::Sync, Durability::Interval(Duration::from_millis(5))] {
        refused(put(&db, &a, 1, durability), "a promise without a log");
    }
    for interval in [Duration::ZERO, Duration::from_micros(1500), Duration::from_secs(86_400)] {
        refused(put(&db, &logged, 1, Durability::Interval(interval)), "an interval out of range");
    }
    for (first, second) in [(&a, &logged), (&logged, &a), (&a, &b)] {
        let mut batch = WriteBatch::new();
        batch.put_in(first, b"k", b"v");
        batch.put_in(second, b"k", b"v");
        refused(db.write(batch), "a batch over both kinds");
    }
    assert_eq!(db.metrics().sequence, sequence);
    assert_eq!([&logged, &a, &b].map(count), [0, 0, 0]);
    // What makes sense goes on.
    put(&db, &a, 1, Durability::NoWal).unwrap();
    put(&db, &logged, 1, Durability::Sync).unwrap();
    let error =
        Db::builder("/other").options(Options { durability: Durability::NoWal, ..Options::default() });
    assert_eq!(
        error.file_system(Arc::new(SimulatedFileSystem::new())).open().unwrap_err().kind(),
        "InvalidArgument"
    );
}

#[test]
fn an_interval_sync_begins_by_its_time_and_only_when_asked_for() {
    let world = World::new();
    let db = world.open();
    let logged = db.keyspace("default").unwrap();
    let interval = Durability::Interval(Duration::from_millis(100));
    let on_disk = || count(&world.cut().open().keyspace("default").unwrap());
    put(&db, &logged, 0, Durability::Os).unwrap();
    world.clock.advance(Duration::from_secs(10));
    step(&db);
    assert_eq!((db.metrics().wal_interval_syncs, on_disk()), (0, 0), "`os` asks for none");
    put(&db, &logged, 1, interval).unwrap();
    world.clock.advance(Duration::from_millis(60));
    put(&db, &logged, 2, interval).unwrap();
    world.clock.advance(Duration::from_millis(39));
    step(&db);
    assert_eq!(db.metrics().wal_interval_syncs, 0, "not before its time");
    world.clock.advance(Duration::from_millis(1));
    put(&db, &logged, 3, Durability::Os).unwrap();
    step(&db);
    // One sync for all that were waiting, and for what came before and between.
    assert_eq!((db.metrics().wal_interval_syncs, on_disk()), (1, 4));
    world.clock.advance(Duration::from_secs(10));
    step(&db);
    assert_eq!(db.metrics().wal_interval_syncs, 1, "nobody has asked since");
    // A shorter interval goes first.
    put(&db, &logged, 4, interval).unwrap();
    put(&db, &logged, 5, Durability::Interval(Duration::from_millis(3))).unwrap();
    world.clock.advance(Duration::from_millis(3));
    step(&db);
    assert_eq!((db.metrics().wal_interval_syncs, on_disk()), (2, 6));
}

/// With threads: the lane wakes up by itself. There is no time in this test but that of the machine, and nothing compares it.
#[test]
fn the_lane_wakes_up_for_an_interval() {
    let fs = SimulatedFileSystem::new();
    let db = Db::builder(DIR).file_system(Arc::new(fs.clone())).open().unwrap();
    let logged = db.keyspace("default").unwrap();
    for round in 1..=20 {
        put(&db, &logged, round, Durability::Interval(Duration::from_millis(1))).unwrap();
        while db.metrics().wal_interval_syncs < u64::from(round) {
            std::thread::yield_now();
        }
        let cut = fs.crash(u64::from(round), CrashPolicy::DropUnsynced);
        let cut = Db::builder(DIR).file_system(Arc::new(cut)).without_threads().open().unwrap();
        assert_eq!(count(&cut.keyspace("default").unwrap()), round as usize);
    }
}

/// A `sync` write saves everything that was logged before it; what no log has it does not.
#[test]
fn a_sync_write_saves_every_earlier_logged_write() {
    let world = World::new();
    let db = world.open();
    let other = db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
    let fast = db.create_keyspace("fast", no_wal()).unwrap();
    let interval = Durability::Interval(Duration::from_secs(60));
    // Enough to rotate the log several times, and to have a backlog.
    for i in 0..2000 {
        put(&db, &other, i, if i % 2 == 0 { Durability::Os } else { interval }).unwrap();
        step(&db);
    }
    fast.put(b"k", b"v").unwrap();
    put(&db, &db.keyspace("default").unwrap(), 0, Durability::Sync).unwrap();
    let cut = world.cut().open();
    assert_eq!(count(&cut.keyspace("other").unwrap()), 2000);
    assert_eq!(count(&cut.keyspace("default").unwrap()), 1);
    assert_eq!(count(&cut.keyspace("fast").unwrap()), 0);
}

/// The idle keyspace's one write pins the oldest log until the log has grown to its limit; then it is flushed.
#[test]
fn the_log_is_bounded_beside_an_idle_keyspace() {
    let world = World::new();
    let db = world.open();
    let idle = db.create_keyspace("idle", KeyspaceOptions::default()).unwrap();
    let busy = db.create_keyspace("busy", KeyspaceOptions::default()).unwrap();
    let fast = db.create_keyspace("fast", no_wal()).unwrap();
    idle.put(b"once", b"and never again").unwrap();
    fast.put(b"once", b"pins no log").unwrap();
    let mut most = 0;
    for i in 0..20_000_u32 {
        busy.put(&(i % 500).to_be_bytes(), &[7; 100]).unwrap();
        if i % 16 == 0 {
            db.step(&mut |jobs| jobs.first().map(|job| job.0));
        }
        most = most.max(db.metrics().wal_bytes);
    }
    // The files that are being let go of, and those that are being filled.
    assert!(most < 2 * (256 << 10), "{most} bytes of log");
    assert!(db.metrics().wal_rotations > 20);
    let of = |name: &str| db.metrics().keyspaces.into_iter().find(|k| k.name == name).unwrap();
    assert!(of("idle").levels.iter().any(|level| level.entries == 1), "the idle keyspace was flushed");
    assert!(of("fast").levels.iter().all(|level| level.entries == 0), "and not for the log's sake");
    assert_eq!(idle.get(b"once").unwrap().as_deref(), Some(&b"and never again"[..]));
}

/// While the lane keeps up, a writer only appends: it makes, renames, syncs and removes no file.
#[test]
fn rotation_is_off_the_write_path() {
    let world = World::new();
    let db = world.open();
    let logged = db.keyspace("default").unwrap();
    step(&db);
    for i in 0..3000 {
        let before = world.fs.call_count() as usize;
        put(&db, &logged, i, Durability::Os).unwrap();
        let calls: Vec<_> = world.fs.calls().split_off(before);
        assert!(calls.iter().all(|call| call.kind == CallKind::Append), "{calls:?}");
        for _ in 0..4 {
            step(&db);
        }
    }
    let metrics = db.metrics();
    assert!(metrics.wal_rotations > 4 && metrics.wal_made_by_writer == 0, "{metrics:?}");
    // Where it has none, here for a batch that is larger than a log, the writer helps itself, and that is counted.
    db.put(b"large", &vec![7; 1 << 20]).unwrap();
    assert_eq!(db.metrics().wal_made_by_writer, 1);
}

/// Whatever is cut off a log after the store was closed is noticed, also in `os` mode and before any promise in the log itself.
#[test]
fn no_cut_of_a_closed_store_s_log_goes_unnoticed() {
    let world = World::new();
    let db = world.open();
    for i in 0..300 {
        db.put(&i_to_key(i), &[7; 100]).unwrap();
    }
    db.close().unwrap();
    let names = world.fs.list(Path::new(DIR)).unwrap();
    let (mut refused, mut whole) = (0, 0);
    for name in names.iter().filter(|name| name.ends_with(".log")) {
        let path = Path::new(DIR).join(name);
        let bytes = world.fs.contents(&path).unwrap();
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        for len in (0..used).step_by(97).chain([used, used + 100]) {
            let cut = world.killed();
            cut.fs.set_contents(&path, &bytes[..len.min(bytes.len())]).unwrap();
            let builder = Db::builder(DIR).file_system(Arc::new(cut.fs.clone())).without_threads();
            match builder.open() {
                Err(error) => {
                    assert_eq!(error.kind(), "Corruption", "{name} cut to {len}: {error}");
                    refused += 1;
                }
                Ok(db) => {
                    assert!(len >= used, "{name} cut to {len} of {used} opens");
                    assert_eq!(count(&db.keyspace("default").unwrap()), 300);
                    whole += 1;
                }
            }
        }
        let gone = world.killed();
        gone.fs.remove(&path).unwrap();
        let builder = Db::builder(DIR).file_system(Arc::new(gone.fs.clone())).without_threads();
        assert_eq!(builder.open().unwrap_err().kind(), "Corruption", "{name} is missing");
    }
    assert!(refused > 100 && whole > 0, "{refused} {whole}");
}

/// What one writer in mode `sync` costs others in mode `os`: prints ratios, decides nothing.
#[test]
#[ignore = "a measurement: cargo test --release -p evenkeel --test it -- --ignored --nocapture what_a_sync"]
fn what_a_sync_writer_costs_os_writers() {
    let run = |beside: Option<Durability>| {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let clock = SystemClock::default();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (mut latencies, mut syncs) = (Vec::new(), 0_u64);
        std::thread::scope(|scope| {
            let beside = beside.map(|durability| {
                let (db, stop) = (&db, &stop);
                scope.spawn(move || {
                    let mut done = 0_u64;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let mut batch = WriteBatch::new();
                        batch.put(&done.to_be_bytes(), &[8; 100]);
                        db.write_with(batch, durability).unwrap();
                        done += 1;
                    }
                    done
                })
            });
            let end = clock.now() + Duration::from_secs(3);
            let mut before = clock.now();
            for i in 0_u64.. {
                db.put(&(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes(), &[7; 100]).unwrap();
                let now = clock.now();
                latencies.push((now - before).as_nanos() as u64);
                before = now;
                if now >= end {
                    break;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            syncs = beside.map_or(0, |thread| thread.join().unwrap());
        });
        latencies.sort_unstable();
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
        (latencies.len() as f64 / 3.0, at(0.5), at(0.99), at(0.999), syncs as f64 / 3.0)
    };
    let alone = run(None);
    for (what, durability) in [
        ("os", Durability::Os),
        ("interval:10", Durability::Interval(Duration::from_millis(10))),
        ("sync", Durability::Sync),
    ] {
        let with = run(Some(durability));
        println!(
            "SYNCBESIDE beside={what} os_rate_ratio={:.3} p50_ratio={:.2} p99_ratio={:.2} p999_ratio={:.2} others_per_sec={:.0}",
            with.0 / alone.0,
            with.1 as f64 / alone.1 as f64,
            with.2 as f64 / alone.2 as f64,
            with.3 as f64 / alone.3 as f64,
            with.4,
        );
    }
}
