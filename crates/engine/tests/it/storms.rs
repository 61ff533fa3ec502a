//! Storms: load that flips every 50 ms, schedules that change under it, readers beside, kills in the middle. And all of the
//! background in an order that chance chooses, which is the same for the same seed.
//!
//! Release builds take 60 seconds of the clock that the test moves, others 24. The layers `preempt` and `determinism` of `cargo xtask
//! trust`.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Metrics, Options, ScanRange};

use super::trust::{Layer, layer};
use super::world::{KEYS, TICK, World, Written, options, presets};

/// What the device can do, as the store is told.
const T: u64 = 4_000_000;
/// What is in the cache counts as well, so that the load flips with the clients and not with what they find there.
const SILK: &str = "silk:jobs=2,estimator=op-bytes";

/// Of 100 ms each: half of it high load, half of it low.
fn rounds(layer: Layer) -> u64 {
    layer.soak() * if cfg!(debug_assertions) { 240 } else { 600 }
}

/// Gets and scans, a few each time it is told to: all that it can would be a load of its own.
fn read(db: &Db, written: &Written, seed: u64, told: &Receiver<()>) -> u64 {
    let (mut random, mut found) = (Random::new(seed), 0);
    while told.recv().is_ok() {
        for _ in 0..3 {
            let key = random.below(KEYS);
            let least = written.least(key);
            written.check(key, least, &db.get(format!("{key:06}").as_bytes()).unwrap().unwrap());
            found += 1;
        }
        let first = random.below(KEYS - 5);
        let least: Vec<u64> = (first..first + 5).map(|key| written.least(key)).collect();
        let (from, to) = (format!("{first:06}"), format!("{:06}", first + 5));
        let range = ScanRange::new(Some(from.as_bytes()), Some(to.as_bytes()));
        let pairs: Vec<_> = db.scan(range).unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs.len(), 5);
        for ((key, least), pair) in (first..).zip(least).zip(pairs) {
            assert_eq!(pair.0, format!("{key:06}").as_bytes());
            written.check(key, least, &pair.1);
        }
    }
    found
}

fn tables(fs: &SimulatedFileSystem) -> Vec<String> {
    fs.list(Path::new("/store")).unwrap().into_iter().filter(|name| name.ends_with(".sst")).collect()
}

/// What a kill leaves now holds every write, and once it is open no file that nobody needs. Answers how many there were.
fn kill(world: &World, settles: bool) -> usize {
    let (fs, clock) = (world.fs.process_kill(), Arc::new(ManualClock::default()));
    let before = tables(&fs);
    let builder = Db::builder(Path::new("/store")).options(options("silk:jobs=2"));
    let builder = builder.file_system(Arc::new(fs.clone())).clock(Arc::clone(&clock) as _);
    let db = builder.without_threads().open().unwrap();
    let check = |db: &Db| {
        let found = db.scan(ScanRange::all()).unwrap().map(Result::unwrap);
        assert!(found.eq(world.model.clone()), "a kill lost something");
        db.verify().unwrap();
        let left = tables(&fs);
        assert_eq!(left.len() as u64, db.metrics().files_live, "{left:?}");
        let names = fs.list(Path::new("/store")).unwrap();
        let count = |what: &str| names.iter().filter(|name| name.contains(what)).count();
        assert_eq!([count("MANIFEST-"), count("OPTIONS-"), count(".dbtmp")], [1, 1, 0], "{names:?}");
        left
    };
    let left = check(&db);
    if settles {
        while db.wait_idle().is_err() {
            clock.advance(TICK);
        }
        db.step(&mut |_| None);
        check(&db);
    }
    before.iter().filter(|name| !left.contains(name)).count()
}

/// The ways out of a pause that have been taken, and the pauses now.
fn ways(m: &Metrics) -> [u64; 4] {
    [m.jobs_resumed, m.jobs_yielded, m.jobs_discarded, m.jobs_paused]
}

/// Each way out of a pause is taken, the sums add up at every moment, whatever is read is right, a kill at any moment loses nothing
/// and leaves nothing, and work gets done all the time.
#[test]
fn a_storm_of_preemptions_loses_nothing_and_adds_up() {
    let layer = layer("preempt");
    layer.seeds(1).into_iter().for_each(|seed| storm(layer, seed));
}

fn storm(layer: Layer, seed: u64) {
    let rounds = rounds(layer);
    let mut attempt = layer.attempt(seed);
    // Filters and indexes of such small tables are a seventh of what jobs move.
    let mut world = World::with(Options { device_bytes_per_sec: T / 7 * 8, ..options(SILK) }, seed);
    let (mut all_at_once, mut orphans, mut most_paused, mut kills) = (false, 0, 0, 0);
    let reads = std::thread::scope(|scope| {
        let start = |seed| {
            let (db, written, (tell, told)) = (world.db.clone(), Arc::clone(&world.written), channel());
            (tell, scope.spawn(move || read(&db, &written, seed, &told)))
        };
        let readers = [start(1), start(2)];
        let mut before = world.metrics();
        for round in 0..rounds {
            attempt.doing(format_args!("round {round}"));
            layer.progress(round, rounds);
            // Work is thrown away under the one, and kept under the other.
            let name = match round % 20 {
                0..13 => SILK,
                13..18 => "dlc-full:every=10ms,softness=1",
                _ => "paced",
            };
            world.db.set_schedule(name).unwrap();
            // At times more comes in than L0 takes, at times there is time for deeper levels.
            let more = round / 20 % 2;
            for tick in 0..10 {
                readers.iter().for_each(|(tell, _)| tell.send(()).unwrap());
                let (puts, gets) = if tick < 5 { (12 + 8 * more, 320) } else { (3 + 7 * more, 0) };
                world.tick(puts, gets);
                let m = world.metrics();
                all_at_once |= ways(&m).iter().all(|n| *n > 0);
                most_paused = most_paused.max(m.jobs_paused);
                if round % 8 == 5 && tick == round % 10 {
                    orphans += kill(&world, round % 40 == 5);
                    kills += 1;
                }
            }
            if round % 20 == 19 {
                let now = world.metrics();
                assert!(
                    now.compactions > before.compactions + 4,
                    "round {round}: {} compactions",
                    now.compactions
                );
                before = now;
            }
        }
        let join = |(tell, reader)| {
            drop::<Sender<()>>(tell);
            std::thread::ScopedJoinHandle::<u64>::join(reader).unwrap()
        };
        readers.map(join)
    });
    let m = world.metrics();
    assert!(
        all_at_once || !layer.has_usual_seeds(),
        "at no moment resumed, yielded, discarded and paused ones: {:?}",
        ways(&m)
    );
    assert!(orphans > 0, "no kill came in the middle of anything");
    assert!(m.jobs_preempted > 50, "{} preemptions", m.jobs_preempted);
    assert!(m.wasted_bytes > 0 && m.wasted_bytes < m.compaction_bytes_written, "{} wasted", m.wasted_bytes);
    assert!(reads.iter().all(|found| *found == rounds * 30), "{reads:?}");
    assert!(most_paused > 0);
    let m = world.finish();
    assert_eq!(ways(&m)[3], 0);
    let [resumed, yielded, discarded, _] = ways(&m);
    layer.report(format_args!(
        "rounds={rounds} preempted={} resumed={resumed} yielded={yielded} discarded={discarded} kills={kills} orphans_removed={orphans} \
         reads={} lost=0 wrong=0",
        m.jobs_preempted,
        reads.iter().sum::<u64>()
    ));
}

/// The log of events of a store whose whole background runs on one thread: which job is stepped, what clients do and what they change
/// follows from the seed.
fn event_log(seed: u64) -> Vec<u8> {
    let mut world = World::new("silk", seed);
    world.chance = Some(Random::new(seed));
    let (mut random, names) = (Random::new(!seed), presets());
    for _ in 0..6000 {
        match random.below(1000) {
            0..3 => world.db.set_schedule(&names[random.below(names.len() as u64) as usize]).unwrap(),
            3 => world.db.set_strategy(["tier", "1-leveling", "lo+1"][random.below(3) as usize]).unwrap(),
            4 => world.db.request_yields(),
            5 => world.db.flush().unwrap(),
            6..300 => world.put(),
            300..500 => (0..60).for_each(|_| world.get()),
            500..600 => world.clock.advance(Duration::from_millis(random.below(30))),
            _ => (0..3).for_each(|_| {
                world.step();
            }),
        }
    }
    let fs = world.fs.clone();
    let m = world.finish();
    assert!(m.compactions > 4, "{} compactions", m.compactions);
    let log = fs.contents(Path::new("/store/LOG")).unwrap();
    // A store's identity is its own.
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.windows(8).any(|word| word == b"identity")).flatten().copied().collect()
}

#[test]
fn a_seed_gives_the_same_event_log_to_the_byte() {
    let layer = layer("determinism");
    // Work is thrown away seldom: of so many seeds in some.
    let seeds = layer.seeds(30);
    let mut logs: Vec<Vec<u8>> = Vec::new();
    for (done, seed) in (0..).zip(&seeds) {
        layer.progress(done, seeds.len() as u64);
        let mut attempt = layer.attempt(*seed);
        attempt.doing("a history and the same again");
        logs.push(event_log(*seed));
        assert!(logs.last() == Some(&event_log(*seed)), "seed {seed}");
    }
    let bytes: usize = logs.iter().map(Vec::len).sum();
    layer.report(format_args!("seeds={} log_bytes={bytes} differences=0", seeds.len()));
    if seeds.len() < 4 {
        return;
    }
    // The same for each seed would be no wonder if nothing happened.
    assert!(logs.windows(2).all(|two| two[0] != two[1]), "another seed is another history");
    let all = String::from_utf8(logs.concat()).unwrap();
    for what in ["preempted", "resumed", "yielded", "discarded", "finished"] {
        assert!(all.contains(&format!("\"compaction_{what}\"")), "none {what}");
    }
    assert!(all.contains("load_changed"));
}
