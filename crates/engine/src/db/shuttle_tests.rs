//! A store with all its threads under shuttle: one goes on at a time, and at each lock, wait and wake-up it is drawn which.
//!
//! ```text
//! seed ─► scheduler ─► writers, readers │ flush lane, workers, lanes, monitor │ a thread that lets time pass
//!                            └───── the store, on the simulated disk ─────┘
//! ```
//! loom tries every order of a few steps; here some orders of all steps are tried: each seed is one, and gives it again. A thread that
//! waits for ever ends the test, with the seed. Run with `RUSTFLAGS="--cfg shuttle" cargo test -p evenkeel --lib shuttle_tests`: the
//! layer `shuttle` of `cargo xtask trust`. `EVENKEEL_SEED` is the seed that is tried, and `EVENKEEL_SOAK` how many times
//! longer it runs.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::io::Write;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, MaxSteps, Runner};

use super::background::compact::CompactOptions;
use super::database::Db;
use super::keyspace::Keyspace;
use super::reading::scan::ScanRange;
use crate::base::clock::ManualClock;
use crate::base::drawn_waits::time_passes;
use crate::options::Options;
use crate::storage::simulated::SimulatedFileSystem;

/// A store's threads need more than the kilobytes that shuttle gives.
const STACK_BYTES: usize = 1 << 20;

/// Whoever takes more steps waits for something that never comes.
const STEPS_MAX: usize = 1_000_000;

/// What all runs of a test have come to.
#[derive(Debug, Default)]
struct Tally {
    flushes: AtomicU64,
    compactions: AtomicU64,
    delays: AtomicU64,
}

impl Tally {
    fn add(&self, db: &Db) {
        let metrics = db.metrics();
        self.flushes.fetch_add(metrics.flushes, SeqCst);
        self.compactions.fetch_add(metrics.compactions, SeqCst);
        self.delays.fetch_add(metrics.delayed_writes, SeqCst);
    }

    fn has_flushed(&self) -> bool {
        self.flushes.load(SeqCst) > 0
    }

    fn has_compacted(&self) -> bool {
        self.has_flushed() && self.compactions.load(SeqCst) > 0
    }

    fn has_delayed(&self) -> bool {
        self.has_flushed() && self.delays.load(SeqCst) > 0
    }
}

/// What is tried, how often at least, and what it comes to.
struct Scenario {
    name: &'static str,
    runs: u64,
    run: fn(&Tally),
    /// True if it shows anything, all runs together.
    shows: fn(&Tally) -> bool,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "flush", runs: 100, run: flush, shows: Tally::has_flushed },
    Scenario { name: "overwrites", runs: 100, run: overwrites, shows: Tally::has_flushed },
    Scenario { name: "compaction", runs: 100, run: compaction, shows: Tally::has_compacted },
    Scenario { name: "manifest", runs: 100, run: manifest, shows: Tally::has_compacted },
    Scenario { name: "stalls", runs: 100, run: stalls, shows: Tally::has_delayed },
    Scenario { name: "close", runs: 100, run: close, shows: Tally::has_delayed },
];

/// Seeds that have failed, one a line: layer, seed, what it was.
const REGRESSIONS: &str = include_str!("../../../../regressions/seeds.txt");

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Those that have failed before, then `runs` more for each time that the layer is longer; one that is asked for is tried alone.
fn seeds(runs: u64) -> Vec<u64> {
    let (seed, soak) = (number("EVENKEEL_SEED"), number("EVENKEEL_SOAK").unwrap_or(1));
    let words = REGRESSIONS.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let known = words.filter(|words| seed.is_none() && words.first() == Some(&"shuttle"));
    let known: Vec<u64> = known.map(|words| words[1].parse().expect("a seed")).collect();
    let first = seed.unwrap_or(1);
    let count = if seed.is_some() { soak } else { runs * soak };
    known.into_iter().chain(first..first + count).collect()
}

/// One order: of three seeds one gives threads priorities that change at a few points only, for the others all are equal.
fn run(scenario: &Scenario, seed: u64, tally: &Arc<Tally>) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let (counted, run) = (Arc::clone(tally), scenario.run);
    let body = move || run(&counted);
    let ran = move || match seed % 3 {
        0 => Runner::new(PctScheduler::new_from_seed(seed, 5, 1), config).run(body),
        _ => Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(body),
    };
    // On a thread of its own, so that nothing is left of the order before.
    let ran = std::thread::scope(|scope| scope.spawn(ran).join());
    if let Err(panic) = ran {
        say(format_args!("FAILED shuttle seed={seed} {}", scenario.name));
        resume_unwind(panic);
    }
}

/// Past what the test's harness captures.
fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

#[test]
fn a_store_keeps_its_promises_in_every_order_that_is_drawn() {
    let (mut executions, all) = (0, Tally::default());
    for scenario in SCENARIOS {
        let tally = Arc::new(Tally::default());
        for seed in seeds(scenario.runs) {
            run(scenario, seed, &tally);
            executions += 1;
        }
        assert!(
            number("EVENKEEL_SEED").is_some() || (scenario.shows)(&tally),
            "{} shows nothing: {tally:?}",
            scenario.name
        );
        all.flushes.fetch_add(tally.flushes.load(SeqCst), SeqCst);
        all.compactions.fetch_add(tally.compactions.load(SeqCst), SeqCst);
        all.delays.fetch_add(tally.delays.load(SeqCst), SeqCst);
    }
    let [flushes, compactions, delays] =
        [&all.flushes, &all.compactions, &all.delays].map(|sum| sum.load(SeqCst));
    let (scenarios, first) = (SCENARIOS.len(), number("EVENKEEL_SEED").unwrap_or(1));
    say(format_args!(
        "shuttle executions={executions} scenarios={scenarios} flushes={flushes} compactions={compactions} delayed={delays} seed={first}"
    ));
}

/// A disk, a clock, and a thread that lets time pass now and then, so that a wait with an end comes to it.
struct World {
    disk: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    over: Arc<AtomicBool>,
    time: Option<JoinHandle<()>>,
}

impl World {
    /// Time stands still: who waits is told, or waits for ever.
    fn still() -> World {
        let (disk, clock) = (SimulatedFileSystem::new(), Arc::default());
        World { disk, clock, over: Arc::default(), time: None }
    }

    /// Time passes.
    fn begin() -> World {
        let world = World::still();
        let (moved, ends) = (Arc::clone(&world.clock), Arc::clone(&world.over));
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
        World { time: Some(time), ..world }
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
        self.time.into_iter().for_each(|time| time.join().unwrap());
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
        // Nothing is measured by a clock that runs on.
        slow_us: 0,
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

/// Nobody reads less than was acknowledged before, while memtables are switched and flushed beneath. No writer is held back, and time
/// stands still: nobody hangs on a wait's end to be woken.
fn flush(tally: &Tally) {
    const ROUNDS: u64 = 6;
    let world = World::still();
    let db = world.open(Options { memtables: 64, l0_limit: 1000, ..tiny() });
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
    // Writers have filled more than one memtable; nobody asks for a flush.
    while db.metrics().flushes == 0 {
        yield_now();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(content(&db.keyspace("default").unwrap()), Acknowledged::all(ROUNDS));
    tally.add(&db);
    db.close().unwrap();
    world.end();
}

/// A key that is overwritten within a memtable is never gone between two looks: a flush keeps its newest version only, so who reads takes
/// the view before the sequence.
fn overwrites(tally: &Tally) {
    const ROUNDS: u64 = 40;
    let world = World::still();
    let db = world.open(Options { memtables: 64, l0_limit: 1000, ..tiny() });
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writer = {
        let (acknowledged, db) = (Arc::clone(&acknowledged), db.clone());
        spawn(move || {
            for round in 1..=ROUNDS {
                db.put(&key(0, 0), &value(round)).unwrap();
                acknowledged.store(round, SeqCst);
            }
        })
    };
    let readers = [0, 1].map(|_| {
        let (acknowledged, db) = (Arc::clone(&acknowledged), db.clone());
        spawn(move || {
            for _ in 0..ROUNDS {
                let least = acknowledged.load(SeqCst);
                let found = db.get(&key(0, 0)).unwrap().map_or(0, |value| round(&value));
                assert!(found >= least, "{found} after {least}");
            }
        })
    });
    writer.join().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    tally.add(&db);
    db.close().unwrap();
    world.end();
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
    while db.metrics().delayed_writes == 0 && db.metrics().writes < 100 {
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
