//! What the papers' ideas could break, a test a line: a device that has nothing to give, an L0 that grows, merges within it
//! (`docs/durability.md`, *Hazards of the papers*, which names the tests of the others).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use evenkeel::testing::{Random, SimulatedFileSystem};
use evenkeel::{CompressionRule, Db, Metrics, Options, Result, ScanRange, Snapshot};

use super::trust::{Attempt, layer};
use super::world::{KEYS, World, options, presets};

/// Runs of the L0 that nobody compacts.
const RUNS: u64 = if cfg!(debug_assertions) { 300 } else { 900 };

/// A strategy that lets most of them be; nobody asks for its compactions here.
const LEAVES_L0: &str =
    "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:1000 much=runs";

/// Nothing here waits so long for anything.
const HANGS_AFTER: Duration = Duration::from_secs(120);

fn moved(metrics: &Metrics, class: &str) -> u64 {
    metrics.io.iter().filter(|io| io.0 == class).map(|io| io.1 + io.2).sum()
}

/// SILK: whoever sleeps because the device has nothing to give is woken when the store is dropped.
#[test]
fn a_store_that_is_dropped_wakes_all_who_wait_for_the_device() {
    let directory = tempfile::tempdir().unwrap();
    let slow = Options { l0_limit: 1000, memory_bytes: 64 << 20, ..options("fixed:1KiB") };
    let db = Db::open(directory.path().join("store"), slow).unwrap();
    for n in 0..3000_u64 {
        db.put(&(n * 7919 % 3000).to_be_bytes(), &[7; 100]).unwrap();
    }
    // A minute's work at that rate is due, and a worker is at it.
    while db.metrics().jobs_open == 0 {
        std::thread::yield_now();
    }
    let (tell, told) = channel();
    let dropped = std::thread::scope(|scope| {
        scope.spawn(move || {
            drop(db);
            tell.send(()).unwrap();
        });
        let dropped = told.recv_timeout(HANGS_AFTER).is_ok();
        if !dropped {
            eprintln!("a store that is dropped waits for its sleepers");
            // A thread that hangs cannot be joined.
            std::process::abort();
        }
        dropped
    });
    assert!(dropped);
}

/// DLC: however many runs L0 has, every read is right, before and after a reopen, and so is what a merge makes of them.
#[test]
fn reads_are_right_with_hundreds_of_runs_in_l0() {
    let fs = SimulatedFileSystem::new();
    let options = Options {
        strategy: Some(LEAVES_L0.to_owned()),
        l0_limit: 100_000,
        l0_trigger: 1000,
        ..options("unlimited")
    };
    let open = || {
        let builder = Db::builder("/store").options(options.clone()).file_system(Arc::new(fs.clone()));
        builder.without_threads().open().unwrap()
    };
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let db = open();
    for n in 0..RUNS {
        let key = |n: u64| format!("{:03}", n % 200).into_bytes();
        // Each over the whole range: runs side by side would be made one.
        for key in [key(0), key(n), key(199)] {
            db.put(&key, &n.to_be_bytes()).unwrap();
            model.insert(key, n.to_be_bytes().to_vec());
        }
        if n % 7 == 0 {
            db.delete(&key(n / 2)).unwrap();
            model.remove(&key(n / 2));
        }
        db.flush().unwrap();
    }
    let runs = db.metrics().keyspaces[0].levels[0].runs;
    assert!(runs >= RUNS, "{runs} runs");
    check(&db, &model);
    db.close().unwrap();
    let db = open();
    assert!(db.metrics().keyspaces[0].levels[0].runs >= RUNS);
    check(&db, &model);
    db.compact_range(ScanRange::all()).unwrap();
    check(&db, &model);
    db.verify().unwrap();
}

fn check(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for n in 0..200 {
        let key = format!("{n:03}").into_bytes();
        assert_eq!(db.get(&key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice), "{n}");
    }
    let up = db.scan(ScanRange::all()).unwrap().collect::<Result<BTreeMap<_, _>>>().unwrap();
    assert_eq!(up, *model);
    assert_eq!(super::faults::scanned_down(db).unwrap(), *model);
}

/// DLC: runs of L0 that are merged among themselves keep their tombstones, for what they hide lies deeper.
#[test]
fn a_merge_within_l0_keeps_its_tombstones() {
    let mut world = World::new("dlc-part", 7);
    world.settle();
    (0..210).for_each(|_| world.tick(10, 110));
    let before = world.metrics();
    for n in 0..KEYS / 10 {
        let key = format!("{:06}", n * 10).into_bytes();
        world.db.delete(&key).unwrap();
        world.model.remove(&key);
        if n % 4 == 0 {
            world.tick(2, 110);
        }
    }
    (0..100).for_each(|_| world.tick(4, 110));
    let after = world.metrics();
    assert!(moved(&after, "intra-l0") > moved(&before, "intra-l0"), "L0 was not merged within itself");
    assert_eq!(moved(&after, "l0-to-l1"), moved(&before, "l0-to-l1"), "nor sent down");
    for n in 0..KEYS / 10 {
        let key = format!("{:06}", n * 10).into_bytes();
        assert_eq!(world.db.get(&key).unwrap().as_deref(), world.model.get(&key).map(Vec::as_slice));
    }
    world.finish();
}

/// Flushes, compactions, the limiter and the manifest in an order that chance chooses: rates down to a byte a second and back, a clock
/// that stands and jumps, strategies and schedules that change, snapshots held over all that, kills in the middle. One
/// thread steps it all, so a seed gives the same history.
#[test]
fn chance_orders_the_background_and_no_answer_changes() {
    let layer = layer("simulation");
    let seeds = layer.seeds(if layer.is_full() { 60 } else { 6 });
    let mut done = Done::default();
    for (n, seed) in (0..).zip(&seeds) {
        layer.progress(n, seeds.len() as u64);
        let mut attempt = layer.attempt(*seed);
        simulate(*seed, &mut attempt, &mut done);
    }
    let Done { operations, steps, compactions, snapshots, kills, rates } = done;
    layer.report(format_args!(
        "seeds={} operations={operations} steps={steps} compactions={compactions} snapshots={snapshots} kills={kills} rates={rates} \
         lost=0 wrong=0",
        seeds.len()
    ));
    assert!(
        steps > 1000 && compactions > 10 && snapshots > 10 && kills > 2 && rates > 10,
        "{steps} steps, {compactions} compactions, {snapshots} snapshots, {kills} kills, {rates} rates"
    );
}

/// What a simulation came to.
#[derive(Default)]
struct Done {
    operations: u64,
    steps: u64,
    compactions: u64,
    snapshots: u64,
    kills: u64,
    rates: u64,
}

/// What makes rare things common, each in half of all seeds.
const CORNERS: [fn(&mut Options); 10] = [
    |o| o.memtable_bytes = 4 << 10,
    |o| o.memtables = 2,
    |o| o.l0_limit = 8,
    |o| o.cache_bytes = 0,
    |o| o.table_bytes = 1 << 10,
    |o| o.block_bytes = 256,
    |o| o.wal_bytes_max = 64 << 10,
    |o| o.unlink_bytes_per_sec = 1 << 10,
    |o| o.filter_bits = 0.0,
    |o| o.heat_operations = 1024,
];

fn in_corners(random: &mut Random) -> Options {
    let mut options = Options { compression: CompressionRule::Auto, ..options("unlimited") };
    CORNERS.iter().filter(|_| random.one_in(2)).for_each(|corner| corner(&mut options));
    options
}

fn simulate(seed: u64, attempt: &mut Attempt, done: &mut Done) {
    let mut random = Random::new(seed.wrapping_mul(31) + 7);
    let mut world = World::with(in_corners(&mut random), seed);
    world.chance = Some(Random::new(seed));
    // In some seeds every job is asked to yield before each step.
    let always_yields = random.one_in(4);
    let mut held: Vec<(Snapshot, BTreeMap<Vec<u8>, Vec<u8>>)> = Vec::new();
    let schedules = presets();
    for n in 0..3000 {
        done.operations += 1;
        attempt.doing(format_args!("operation {n}"));
        match random.below(400) {
            0 => world.db.set_schedule(&schedules[random.below(schedules.len() as u64) as usize]).unwrap(),
            1..5 => {
                // From nothing to speak of to more than anybody moves.
                world.db.set_schedule(&format!("fixed:{}", 1 << (10 + random.below(20)))).unwrap();
                done.rates += 1;
            }
            5 => {
                let names = ["tier", "1-leveling", "lo+1", "l-leveling", "ltg"];
                world.db.set_strategy(names[random.below(names.len() as u64) as usize]).unwrap();
            }
            6..9 => world.db.request_yields(),
            9 => world.clock.advance(Duration::from_secs(random.below(20 * 365 * 24 * 3600))),
            10..14 => {
                held.truncate(3);
                held.insert(0, (world.db.snapshot(), world.model.clone()));
                done.snapshots += 1;
            }
            14..18 if !held.is_empty() => {
                let (snapshot, model) = held.swap_remove(random.below(held.len() as u64) as usize);
                let found = snapshot.scan(ScanRange::all()).unwrap().map(Result::unwrap);
                assert!(found.eq(model), "a snapshot has changed");
            }
            18..20 => {
                check_disk(&world);
                done.kills += 1;
            }
            20 => {
                // Heat that has nothing to do with what is read.
                let hot = random.below(KEYS);
                world.db.pretend_heat(&|key| Some(f64::from(key > format!("{hot:06}").as_bytes())));
            }
            21..130 => world.put(),
            130..160 => world.get(),
            160..220 => world.clock.advance(Duration::from_millis(random.below(400))),
            _ => {
                if always_yields {
                    world.db.request_yields();
                }
                done.steps += u64::from(world.step());
            }
        }
    }
    drop(held);
    done.compactions += world.metrics().compactions;
    world.db.set_schedule("unlimited").unwrap();
    world.finish();
}

/// What a kill leaves now is what was written.
fn check_disk(world: &World) {
    let fs = Arc::new(world.fs.process_kill());
    let builder = Db::builder("/store").options(options("unlimited")).file_system(fs);
    let db = builder.without_threads().open().unwrap();
    let found = db.scan(ScanRange::all()).unwrap().map(Result::unwrap);
    assert!(found.eq(world.model.clone()), "a kill lost something");
    db.verify().unwrap();
}
