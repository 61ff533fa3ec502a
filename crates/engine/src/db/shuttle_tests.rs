//! A store with all its threads under shuttle: one goes on at a time, and at each lock, wait and wake-up it is drawn which.
//!
//! ```text
//! seed ─► scheduler ─► writers, readers │ flush lane, workers, lanes, monitor │ a thread that lets time pass
//!                            └───── the store, on the simulated disk ─────┘
//! ```
//! loom tries every order of a few steps; here some orders of all steps are tried: each seed is one, and gives it again. A thread that
//! waits for ever ends the test, with the seed. Run with `RUSTFLAGS="--cfg shuttle" cargo test -p evenkeel --lib shuttle_tests`: the
//! layer `shuttle` of `cargo xtask trust`. `EVENKEEL_SHUTTLE_SEED` is the first seed, `EVENKEEL_SHUTTLE_RUNS` how many there are for
//! each test.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, MaxSteps, Runner};

use super::compact::CompactOptions;
use super::database::Db;
use super::keyspace::Keyspace;
use super::scan::ScanRange;
use crate::base::clock::ManualClock;
use crate::base::drawn_waits::time_passes;
use crate::options::Options;
use crate::storage::simulated::SimulatedFileSystem;

/// A store's threads need more than the kilobytes that shuttle gives.
const STACK_BYTES: usize = 1 << 20;

/// Whoever takes more steps waits for something that never comes.
const STEPS_MAX: usize = 3_000_000;

/// What all runs of a test have come to.
#[derive(Debug, Default)]
struct Tally {
    flushes: AtomicU64,
    compactions: AtomicU64,
    stalls: AtomicU64,
}

impl Tally {
    fn add(&self, db: &Db) {
        let metrics = db.metrics();
        self.flushes.fetch_add(metrics.flushes, SeqCst);
        self.compactions.fetch_add(metrics.compactions, SeqCst);
        self.stalls.fetch_add(metrics.stalls, SeqCst);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Runs `test` once a seed: every third time threads have priorities that change at a few points only, else all are equal.
fn explore(name: &str, runs: u64, test: fn(&Tally)) -> Arc<Tally> {
    let first = number("EVENKEEL_SHUTTLE_SEED").unwrap_or(1);
    let runs = number("EVENKEEL_SHUTTLE_RUNS").unwrap_or(runs);
    let tally = Arc::new(Tally::default());
    for seed in first..first + runs {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        let counted = Arc::clone(&tally);
        let body = move || test(&counted);
        let ran = catch_unwind(AssertUnwindSafe(|| match seed % 3 {
            0 => Runner::new(PctScheduler::new_from_seed(seed, 5, 1), config).run(body),
            _ => Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(body),
        }));
        if let Err(panic) = ran {
            println!("FAILED shuttle seed={seed} {name}");
            resume_unwind(panic);
        }
    }
    let (flushes, compactions) = (tally.flushes.load(SeqCst), tally.compactions.load(SeqCst));
    println!("shuttle test={name} runs={runs} flushes={flushes} compactions={compactions} first={first}");
    tally
}

/// A disk, a clock, and a thread that lets time pass now and then, so that a wait with an end comes to it.
struct World {
    disk: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    over: Arc<AtomicBool>,
    time: JoinHandle<()>,
}

impl World {
    fn begin() -> World {
        let (clock, over) = (Arc::new(ManualClock::default()), Arc::new(AtomicBool::new(false)));
        let (moved, ends) = (Arc::clone(&clock), Arc::clone(&over));
        let time = spawn(move || {
            let mut turns = 0_u64;
            while !ends.load(SeqCst) {
                yield_now();
                turns += 1;
                if turns.is_multiple_of(TICK_EVERY) {
                    moved.advance(Duration::from_millis(20));
                    time_passes();
                }
            }
        });
        World { disk: SimulatedFileSystem::new(), clock, over, time }
    }

    fn open(&self, options: Options) -> Db {
        self.open_on(&self.disk, options)
    }

    fn open_on(&self, disk: &SimulatedFileSystem, options: Options) -> Db {
        let clock = Arc::clone(&self.clock);
        let builder = Db::builder(Path::new("/store")).options(options).clock(clock);
        builder.file_system(Arc::new(disk.clone())).open().unwrap()
    }

    fn end(self) {
        self.over.store(true, SeqCst);
        self.time.join().unwrap();
    }
}

/// So many of the timekeeper's turns are a tick.
const TICK_EVERY: u64 = 50;

fn tiny() -> Options {
    Options {
        memtable_bytes: 2 << 10,
        memtables: 3,
        table_bytes: 2 << 10,
        block_bytes: 512,
        level_base_bytes: 8 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        l0_limit: 24,
        workers: 2,
        wal_bytes_max: 256 << 10,
        cache_bytes: 16 << 10,
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        log_files: 0,
        device_test: false,
        ..Options::default()
    }
}

fn key(writer: usize, key: usize) -> Vec<u8> {
    format!("{writer}-{key:03}").into_bytes()
}

fn value(round: u64) -> Vec<u8> {
    format!("{round:0200}").into_bytes()
}

fn round(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn content(keyspace: &Keyspace) -> Content {
    keyspace.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect()
}

const KEYS: usize = 6;

/// Keys of two writers, and of each the round of the last write that was acknowledged.
#[derive(Default)]
struct Acknowledged([[AtomicU64; KEYS]; 2]);

impl Acknowledged {
    /// A writer's thread: `rounds` times all its keys.
    fn write(self: &Arc<Self>, db: &Db, writer: usize, rounds: u64) -> JoinHandle<()> {
        let (all, db) = (Arc::clone(self), db.clone());
        spawn(move || {
            for round in 1..=rounds {
                for (k, done) in all.0[writer].iter().enumerate() {
                    db.put(&key(writer, k), &value(round)).unwrap();
                    done.store(round, SeqCst);
                }
            }
        })
    }

    /// What `rounds` of both writers leave.
    fn all(rounds: u64) -> Content {
        let of = |writer| (0..KEYS).map(move |k| (key(writer, k), value(rounds)));
        of(0).chain(of(1)).collect()
    }
}

/// Nobody reads less than was acknowledged before, while memtables are switched and flushed beneath.
fn flush(tally: &Tally) {
    const ROUNDS: u64 = 6;
    let world = World::begin();
    let db = world.open(tiny());
    let acknowledged = Arc::new(Acknowledged::default());
    let writers = [0, 1].map(|writer| acknowledged.write(&db, writer, ROUNDS));
    let reader = {
        let (acknowledged, db) = (Arc::clone(&acknowledged), db.clone());
        spawn(move || {
            for turn in 0..40 {
                let (writer, k) = (turn % 2, turn / 2 % KEYS);
                let least = acknowledged.0[writer][k].load(SeqCst);
                let found = db.get(&key(writer, k)).unwrap().map_or(0, |value| round(&value));
                assert!(found >= least, "{writer}-{k}: {found} after {least}");
            }
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    reader.join().unwrap();
    let default = db.keyspace("default").unwrap();
    assert_eq!(content(&default), Acknowledged::all(ROUNDS));
    tally.add(&db);
    drop(default);
    db.close().unwrap();
    world.end();
}

#[test]
fn readers_see_what_was_acknowledged_while_memtables_are_flushed() {
    let tally = explore("flush", 60, flush);
    assert!(tally.flushes.load(SeqCst) > 0);
}

/// A snapshot stays as it was and the content comes out right, while runs are merged by themselves and by hand, and jobs are asked to
/// let go.
fn compaction(tally: &Tally) {
    const ROUNDS: u64 = 8;
    let world = World::begin();
    let db = world.open(tiny());
    let acknowledged = Arc::new(Acknowledged::default());
    let writers = [0, 1].map(|writer| acknowledged.write(&db, writer, ROUNDS));
    let scanner = {
        let db = db.clone();
        spawn(move || {
            for _ in 0..2 {
                let snapshot = db.snapshot();
                let seen =
                    || snapshot.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect::<Content>();
                let before = seen();
                db.request_yields();
                assert_eq!(seen(), before, "a snapshot has changed");
            }
        })
    };
    let asker = {
        let db = db.clone();
        spawn(move || {
            db.flush().unwrap();
            db.compact(CompactOptions::new()).unwrap();
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    scanner.join().unwrap();
    asker.join().unwrap();
    db.wait_idle().unwrap();
    let default = db.keyspace("default").unwrap();
    assert_eq!(content(&default), Acknowledged::all(ROUNDS));
    db.verify().unwrap();
    tally.add(&db);
    drop(default);
    db.close().unwrap();
    world.end();
}

#[test]
fn snapshots_and_content_outlive_compactions() {
    let tally = explore("compaction", 40, compaction);
    assert!(tally.flushes.load(SeqCst) > 0 && tally.compactions.load(SeqCst) > 0);
}

/// Keyspaces come and go beside flushes and compactions of others; a process that is killed then, and one that closes, find the same.
fn manifest(tally: &Tally) {
    const ROUNDS: u64 = 5;
    let world = World::begin();
    let db = world.open(tiny());
    let acknowledged = Arc::new(Acknowledged::default());
    let writers = [0, 1].map(|writer| acknowledged.write(&db, writer, ROUNDS));
    let fill = |keyspace: &Keyspace| {
        for k in 0..KEYS {
            keyspace.put(&key(2, k), &value(1)).unwrap();
        }
    };
    let [kept, dropped] = ["kept", "dropped"].map(|name| {
        let db = db.clone();
        spawn(move || {
            let keyspace = db.create_keyspace(name, Default::default()).unwrap();
            fill(&keyspace);
            keyspace.flush().unwrap();
            fill(&keyspace);
            if name == "dropped" {
                drop(keyspace);
                db.drop_keyspace(name).unwrap();
            }
        })
    });
    for thread in writers.into_iter().chain([kept, dropped]) {
        thread.join().unwrap();
    }
    // While jobs are under way.
    let killed = world.disk.process_kill();
    tally.add(&db);
    db.close().unwrap();
    for disk in [&killed, &world.disk] {
        let db = world.open_on(disk, tiny());
        let mut names = db.keyspaces();
        names.sort();
        assert_eq!(names, ["default", "kept"]);
        assert_eq!(content(&db.keyspace("default").unwrap()), Acknowledged::all(ROUNDS));
        let kept: Content = (0..KEYS).map(|k| (key(2, k), value(1))).collect();
        assert_eq!(content(&db.keyspace("kept").unwrap()), kept);
        db.verify().unwrap();
        db.close().unwrap();
    }
    world.end();
}

#[test]
fn edits_side_by_side_are_all_found_again() {
    let tally = explore("manifest", 40, manifest);
    assert!(tally.flushes.load(SeqCst) > 0 && tally.compactions.load(SeqCst) > 0);
}

/// Few memtables, a short L0 and a slow schedule: writers are held back.
fn pressed() -> Options {
    Options { memtables: 2, l0_limit: 4, schedule: "fixed:64KiB".to_owned(), ..tiny() }
}

/// Every writer that is held back is let go again.
fn stalls(tally: &Tally) {
    const ROUNDS: u64 = 5;
    let world = World::begin();
    let db = world.open(pressed());
    let acknowledged = Arc::new(Acknowledged::default());
    let writers = [0, 1].map(|writer| acknowledged.write(&db, writer, ROUNDS));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(content(&db.keyspace("default").unwrap()), Acknowledged::all(ROUNDS));
    tally.add(&db);
    db.close().unwrap();
    world.end();
}

#[test]
fn writers_that_are_held_back_are_let_go() {
    let tally = explore("stalls", 40, stalls);
    assert!(tally.flushes.load(SeqCst) > 0 && tally.stalls.load(SeqCst) > 0);
}

/// A store that is closed beside writers, held back or not: each of them ends, and what was acknowledged is found again.
fn close(tally: &Tally) {
    let world = World::begin();
    let db = world.open(pressed());
    let writers = [0, 1].map(|writer| {
        let db = db.clone();
        spawn(move || {
            (1..=60)
                .find(|round| db.put(&key(writer, 0), &value(*round)).is_err())
                .map_or(60, |failed| failed - 1)
        })
    });
    while db.metrics().stalls == 0 && db.metrics().writes < 100 {
        yield_now();
    }
    tally.add(&db);
    db.close().unwrap();
    let acknowledged = writers.map(|writer| writer.join().unwrap());
    let db = world.open(tiny());
    for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
        let found = db.get(&key(writer, 0)).unwrap().map_or(0, |value| round(&value));
        assert!(found >= acknowledged, "writer {writer}: {found} of {acknowledged}");
    }
    db.close().unwrap();
    world.end();
}

#[test]
fn a_close_ends_every_wait() {
    let tally = explore("close", 40, close);
    assert!(tally.stalls.load(SeqCst) > 0);
}
