//! Schedules on the real engine: what they hold back under load, what they never hold back, and that their sums add up.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::{Class, Device, DeviceFileSystem, FileSystem, IoClass};
use evenkeel::testing::{Clock as _, ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Event, Metrics, Options, ScanRange};

use super::world::{STRATEGY, T, TICK, VALUE, World, adds_up, moved, options, presets};

fn mixed(schedule: &str, seed: u64) -> (Metrics, Vec<Event>) {
    let mut world = World::new(schedule, seed);
    for _ in 0..2 {
        world.high(210);
        world.low(450);
    }
    let events = Arc::clone(&world.events);
    let metrics = world.finish();
    let events = std::mem::take(&mut *events.lock().unwrap());
    (metrics, events)
}

fn told(event: &Event) -> String {
    format!("{event:?}")
}

/// The most compactions of L0 into L1 that were open at a time.
fn most_out_of_l0(events: &[Event]) -> usize {
    let (mut open, mut most) = (BTreeSet::new(), 0);
    for event in events {
        match event {
            Event::CompactionPicked { job, class: Class::L0ToL1, .. } => _ = open.insert(*job),
            Event::CompactionEnded { job, .. } | Event::Discarded { job, .. } => _ = open.remove(job),
            _ => {}
        }
        most = most.max(open.len());
    }
    most
}

/// Under every schedule: right answers, an end to all work, a clean close; and the same history twice. SILK merges one L0 into L1 at a
/// time.
#[test]
fn every_schedule_takes_a_mixed_load_and_does_the_same_again() {
    for name in presets() {
        let (metrics, events) = mixed(&name, 5);
        assert!(
            metrics.flushes > 10 && metrics.compactions > 1,
            "{name}: {} flushes, {} compactions",
            metrics.flushes,
            metrics.compactions
        );
        let judges = name.starts_with("silk") || name.starts_with("dlc");
        let judges = judges && !["silk-bandwidth", "silk-priority"].contains(&name.as_str());
        assert_eq!(metrics.schedule.load_is_high.is_some(), judges, "{name}");
        assert!(!judges || metrics.schedule.high_loads >= 2, "{name}: {:?}", metrics.schedule);
        let (_, again) = mixed(&name, 5);
        assert!(events.len() > 100, "{name}: {} events", events.len());
        assert!(events.iter().map(told).eq(again.iter().map(told)), "{name}");
        let most = most_out_of_l0(&events);
        assert!(most > 0 && (most == 1 || !name.starts_with("silk")), "{name}: {most} L0 to L1 at a time");
    }
}

/// A client that never pauses and uses all of the device stops neither flushes nor L0, and deep jobs wait.
#[test]
fn under_a_load_without_end_flushes_and_l0_go_on() {
    let mut world = World::new("silk", 3);
    world.settle();
    world.high(50);
    let first = world.metrics();
    let mut before = first.clone();
    for second in 0..6 {
        world.high(100);
        let now = world.metrics();
        let progress = |classes: &[&str]| moved(&now, classes) - moved(&before, classes);
        assert_eq!(now.schedule.load_is_high, Some(true));
        assert!(now.flushes > before.flushes, "second {second}");
        assert_eq!(progress(&["deep", "upkeep"]), 0, "second {second}");
        assert!(progress(&["intra-l0", "l0-to-l1"]) > 0, "second {second}");
        before = now;
    }
    // A flush begins within 20 ms, a compaction of L0 is stepped within 50.
    for (what, most) in [("flush_wait", 20_000.0), ("l0_wait", 50_000.0)] {
        let waits = before.latencies.iter().find(|latency| latency.what == what).unwrap();
        let [_, _, p99, _] = waits.quantiles_us;
        assert!(waits.count > 0 && p99 < most, "{waits:?}");
    }
    // The floor is a quarter of the device.
    let together = moved(&before, &["flush", "intra-l0", "l0-to-l1"])
        - moved(&first, &["flush", "intra-l0", "l0-to-l1"]);
    assert!(together >= 6 * T / 4 * 9 / 10, "{together} bytes in 6 seconds");
    world.finish();
}

/// Where deeper jobs have all places, work in L0 takes one of theirs. What is left to wait for is what a step before may have moved, 256 KiB.
#[test]
fn l0_takes_the_place_of_deeper_jobs() {
    let mut world = World::new("silk", 3);
    (0..3000).for_each(|_| world.tick(4, 1));
    let metrics = world.metrics();
    let waits = metrics.latencies.iter().find(|latency| latency.what == "l0_wait").unwrap();
    let longest = (256 << 10) as f64 / (0.6 * T as f64) * 1e6;
    assert!(waits.count > 20 && waits.quantiles_us[3] < longest, "{waits:?}");
    assert!(world.events.lock().unwrap().iter().any(|event| told(event).contains("Urgency")));
    world.finish();
}

/// Nor does it under any other schedule: L0 goes on too, but where it is delayed, and there only as long as it slows no writer.
#[test]
fn a_client_that_never_pauses_starves_nothing() {
    for name in presets() {
        let mut world = World::with(Options { l0_limit: 40, ..options(&name) }, 3);
        world.settle();
        world.high(210);
        let first = world.metrics();
        let mut before = first.clone();
        for second in 0..6 {
            world.high(100);
            let now = world.metrics();
            assert!(now.flushes > before.flushes, "{name}, second {second}");
            let l0 = |metrics: &Metrics| moved(metrics, &["intra-l0", "l0-to-l1"]);
            // From 22 runs on writers are slowed. Without priorities L0 waits until nobody has tables that it needs.
            let delayed =
                name.starts_with("dlc") && now.keyspaces[0].levels[0].runs <= 22 || name == "silk-bandwidth";
            assert!(delayed || l0(&now) > l0(&before), "{name}, second {second}");
            before = now;
        }
        // Merges within L0 alone would not do.
        let down = |metrics: &Metrics| moved(metrics, &["l0-to-l1"]);
        assert!(name.starts_with("dlc") || down(&before) > down(&first), "{name}");
        world.finish();
    }
}

/// Where more comes in than L0 takes, merges within L0 do not keep the way out of it from its end.
#[test]
fn merges_within_l0_do_not_starve_the_way_out_of_it() {
    let mut world = World::with(Options { strategy: Some("tier".to_owned()), ..options("silk") }, 9);
    world.settle();
    world.high(50);
    for second in 0..5 {
        let before = moved(&world.metrics(), &["l0-to-l1"]);
        world.high(100);
        assert!(moved(&world.metrics(), &["l0-to-l1"]) > before, "second {second}");
    }
    world.finish();
}

/// Where a strategy's triggers ask for less than what slows writers, they would be slowed for good.
#[test]
fn what_slows_writers_is_merged_whatever_the_strategy_waits_for() {
    for name in presets() {
        let strategy =
            STRATEGY.replace("L0: when=runs how=runs:4", "L0: when=duplicates:0.99:100 how=runs:5");
        let mut world = World::with(Options { l0_limit: 20, strategy: Some(strategy), ..options(&name) }, 9);
        world.settle();
        let (mut most, before) = (0, moved(&world.metrics(), &["l0-to-l1"]));
        for _ in 0..400 {
            world.tick(8, 1);
            most = most.max(world.metrics().keyspaces[0].levels[0].bytes);
        }
        // From half of the slack on, 12 memtables, they are slowed: without an end once, which a writer here waits for in vain.
        assert!(most >= 12 * (8 << 10), "{name}: {most} bytes");
        assert!(moved(&world.metrics(), &["l0-to-l1"]) > before, "{name}");
        world.finish();
    }
}

/// Whoever asks for a compaction, or waits for all of them, does not wait for the load; nor does who closes the store.
#[test]
fn a_pause_keeps_nobody_who_waits() {
    for schedule in [
        "silk:low=1KiB,softness=10000,high=1KiB",
        "dlc-full:low=1KiB,softness=10000,high=1KiB,every=10ms",
        "silk-artifact:low=1KiB,softness=10000,high=1KiB,every=10ms",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        let db = Db::open(&store, Options { device_bytes_per_sec: 64 << 20, ..options(schedule) }).unwrap();
        let write = |db: &Db| {
            (0..4000_u64).for_each(|i| db.put(&(i * 7919 % 4000).to_be_bytes(), &[7; 100]).unwrap());
        };
        write(&db);
        db.flush().unwrap();
        // Once high it is never low again.
        while db.metrics().schedule.load_is_high != Some(true) {
            (0..100_u64).for_each(|i| drop(db.get(&i.to_be_bytes()).unwrap()));
        }
        db.compact_range(ScanRange::all()).unwrap();
        write(&db);
        db.checkpoint(directory.path().join("copy")).unwrap();
        db.wait_idle().unwrap();
        let metrics = db.metrics();
        assert_eq!((metrics.schedule.load_is_high, metrics.jobs_open), (Some(true), 0), "{schedule}");
        write(&db);
        db.close().unwrap();
    }
}

/// Time that stands still, and jumps by years; and a close in the middle of it.
#[test]
fn odd_clocks_stop_nothing() {
    for name in presets() {
        let mut world = World::new(&name, 17);
        world.high(120);
        for _ in 0..50 {
            world.put();
            world.step();
        }
        world.clock.advance(Duration::from_secs(10 * 365 * 24 * 3600));
        world.high(3);
        let before = world.metrics();
        world.high(200);
        let after = world.metrics();
        assert!(after.flushes > before.flushes, "{name}");
        let l0 = |metrics: &Metrics| moved(metrics, &["intra-l0", "l0-to-l1"]);
        assert!(name.starts_with("dlc") || l0(&after) > l0(&before), "{name}");
        world.finish();

        let mut world = World::new(&name, 17);
        world.high(3);
        world.clock.advance(Duration::from_secs(10 * 365 * 24 * 3600));
        world.high(3);
        world.db.clone().close().unwrap();
        assert_eq!(world.metrics().jobs_open, 0, "{name}");
    }
}

/// `paced` goes no faster than it must and is never late: what `unlimited` does at once is spread over the time that there is, and nobody
/// waits for it.
#[test]
fn paced_spreads_its_work_and_holds_up_nobody() {
    let most_at_once = |schedule: &str| {
        let sizes = Options {
            memtable_bytes: 1 << 20,
            table_bytes: 128 << 10,
            level_base_bytes: 1 << 20,
            device_bytes_per_sec: 64 << 20,
            memory_bytes: 64 << 20,
            l0_limit: 20,
            memtables: 2,
            ..options(schedule)
        };
        let mut world = World::with(sizes, 9);
        let work = |world: &World| moved(&world.metrics(), &["flush", "intra-l0", "l0-to-l1", "deep"]);
        let mut most = 0;
        for tick in 0..600 {
            let (before, puts) = (work(&world), if tick / 100 % 2 == 0 { 300 } else { 30 });
            world.tick(puts, 10);
            most = most.max(work(&world) - before);
        }
        let metrics = world.metrics();
        assert!(
            metrics.flushes > 8 && metrics.compactions > 1,
            "{} {}",
            metrics.flushes,
            metrics.compactions
        );
        assert_eq!((metrics.schedule.flushes_delayed, metrics.stalls), (0, 0), "{schedule}");
        world.finish();
        most
    };
    most_at_once("silk");
    let (paced, unlimited) = (most_at_once("paced"), most_at_once("unlimited"));
    assert!(paced * 2 < unlimited, "{paced} bytes in ten milliseconds, and {unlimited}");
}

/// A rate is of what compactions read and write, as the file layer counts it. One step may take more than its share, as where a merge of
/// a hundred runs begins, and later ones pay.
#[test]
fn a_rate_bounds_what_compactions_read_and_write() {
    const RATE: u64 = 200_000;
    let mut world = World::new(&format!("fixed:{RATE}"), 9);
    world.high(100);
    let compactions = |world: &World| moved(&world.metrics(), &["intra-l0", "l0-to-l1", "deep", "upkeep"]);
    let (before, since) = (compactions(&world), world.clock.now());
    (0..600).for_each(|_| world.tick(10, 0));
    let most = (world.clock.now() - since).as_secs_f64() * RATE as f64;
    let share = (compactions(&world) - before) as f64 / most;
    assert!((0.8..1.25).contains(&share), "{share} of the rate");
    world.finish();
}

/// Bytes by class are all bytes.
#[test]
fn classes_sum_to_what_the_device_moved() {
    let clock = Arc::new(ManualClock::default());
    let device = Device::on_manual_clock(64 << 20, Duration::ZERO, Arc::clone(&clock)).unwrap();
    let fs = Arc::new(DeviceFileSystem::new(Arc::new(SimulatedFileSystem::new()), Arc::clone(&device)));
    let builder = Db::builder(Path::new("/store")).options(options("unlimited"));
    let builder = builder.file_system(Arc::clone(&fs) as Arc<dyn FileSystem>).clock(Arc::clone(&clock) as _);
    let db = builder.without_threads().open().unwrap();
    for i in 0..12_000_u32 {
        if i == 6000 {
            db.set_schedule("silk").unwrap();
        }
        db.put(&(i * 7919 % 3000).to_be_bytes(), &[7; 100]).unwrap();
        db.get(&(i * 31 % 3000).to_be_bytes()).unwrap();
        db.step(&mut |jobs| jobs.first().map(|(job, _)| *job));
    }
    while db.wait_idle().is_err() {
        clock.advance(TICK);
    }
    let metrics = db.metrics();
    let by_class: u64 = metrics.io.iter().map(|(_, read, written)| read + written).sum();
    for class in ["client", "wal", "flush", "l0-to-l1", "deep"] {
        assert!(moved(&metrics, &[class]) > 0, "{class}");
    }
    let counters = fs.counters();
    let background = Class::ALL.map(IoClass::Background);
    let all = [IoClass::Client, IoClass::Wal, IoClass::Manifest].into_iter().chain(background);
    assert_eq!(by_class, all.map(|class| counters.read(class) + counters.written(class)).sum::<u64>());
    // The log is charged by the MiB, the rest of it when it is closed.
    db.close().unwrap();
    let classes = [IoClass::Client, IoClass::Wal, IoClass::Manifest].into_iter().chain(background);
    assert_eq!(classes.map(|c| counters.read(c) + counters.written(c)).sum::<u64>(), device.charged_bytes());
}

/// Real threads, the monitor among them, on a real disk: each schedule is set on the running store, which goes on and can be closed.
#[test]
fn a_store_with_threads_lives_under_every_schedule() {
    const THREADS: u64 = 2;
    let directory = tempfile::tempdir().unwrap();
    let options =
        Options { device_bytes_per_sec: 64 << 20, memtable_bytes: 32 << 10, ..options("unlimited") };
    let db = Db::open(directory.path(), options.clone()).unwrap();
    for (round, name) in presets().iter().enumerate() {
        db.set_schedule(name).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let db = &db;
                scope.spawn(move || {
                    for i in 0..1500_u64 {
                        let key = format!("{thread}-{:05}", i * 7919 % 2000);
                        db.put(key.as_bytes(), format!("{round:0>VALUE$}").as_bytes()).unwrap();
                        let found = db.get(key.as_bytes()).unwrap();
                        assert_eq!(found.as_deref(), Some(format!("{round:0>VALUE$}").as_bytes()), "{name}");
                    }
                });
            }
        });
        adds_up(&db.metrics());
        if round % 4 == 3 {
            db.wait_idle().unwrap();
        }
    }
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    adds_up(&metrics);
    assert_eq!((metrics.jobs_open, metrics.jobs_failed), (0, 0));
    for class in ["flush", "l0-to-l1", "deep"] {
        let cpu = metrics.cpu_seconds.iter().find(|(of, _)| of == class);
        assert!(cpu.is_some_and(|(_, seconds)| *seconds > 0.0), "no CPU of {class}");
    }
    let (last, all) = (presets().len() - 1, 1500 * THREADS as usize);
    let values = db.scan(ScanRange::all()).unwrap().map(|pair| pair.unwrap().1).collect::<Vec<_>>();
    assert!(
        values.len() >= all
            && values.iter().filter(|v| **v == format!("{last:0>VALUE$}").as_bytes()).count() == all
    );
    db.verify().unwrap();
    db.close().unwrap();
    // What was set last is in force at the next open.
    let db = Db::open(directory.path(), Options { schedule: "unlimited".to_owned(), ..options }).unwrap();
    assert_eq!(Some(&db.options().schedule), presets().last());
}

/// Bytes that deep jobs have moved.
fn deep(world: &World) -> u64 {
    moved(&world.metrics(), &["deep"])
}

/// A world in which the load has become high in the middle of a deep job.
fn with_a_paused_deep_job() -> World {
    // L0 waits for what a deep job has, instead of having it thrown away.
    let mut world = World::new("silk:conflict=wait", 4);
    for _ in 0..4000 {
        let before = deep(&world);
        world.tick(4, 1);
        if deep(&world) == before || world.metrics().jobs_open == 0 {
            continue;
        }
        (0..20).for_each(|_| world.tick(0, 110));
        if world.metrics().jobs_paused > 0 {
            return world;
        }
    }
    panic!("no deep job was paused");
}

/// What a deep job has done before ten seconds of high load is not done again after them.
#[test]
fn a_pause_of_ten_seconds_loses_no_work() {
    let mut world = with_a_paused_deep_job();
    let before = (deep(&world), world.metrics().jobs_paused);
    (0..1000).for_each(|_| world.tick(0, 110));
    assert_eq!((deep(&world), world.metrics().jobs_paused), before);
    let metrics = world.finish();
    assert!(metrics.jobs_resumed >= before.1, "{} resumed", metrics.jobs_resumed);
    assert_eq!((metrics.jobs_yielded, metrics.jobs_discarded, metrics.wasted_bytes), (0, 0, 0));
}

/// A store that is closed while jobs are paused says what becomes of them.
#[test]
fn a_close_gives_up_what_is_paused() {
    let world = with_a_paused_deep_job();
    let (before, told) = (world.metrics(), world.events.lock().unwrap().len());
    world.db.clone().close().unwrap();
    let metrics = world.metrics();
    assert_eq!(
        (metrics.jobs_paused, metrics.jobs_discarded),
        (0, before.jobs_discarded + before.jobs_paused)
    );
    let events = world.events.lock().unwrap();
    let lost = events[told..].iter().filter_map(|event| match event {
        Event::Discarded { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let (lost, wasted) = (lost.sum::<u64>(), metrics.wasted_bytes - before.wasted_bytes);
    assert_eq!(lost, wasted);
}

/// Where nobody gives way, a job that has not been stepped for half a minute lets go all the same of what others want.
#[test]
fn a_forgotten_job_lets_go_of_what_others_want() {
    let mut world = World::new("unlimited:conflict=wait", 4);
    let put_and_step = |world: &mut World| {
        world.put();
        let not_deep = |jobs: &[(usize, Class)]| jobs.iter().find(|(_, class)| *class < Class::Deep).copied();
        world.db.step(&mut |jobs| not_deep(jobs).map(|(job, _)| job));
    };
    // One that is deep is open, and nobody steps it; L0 grows because it is in the way.
    (0..4000).for_each(|_| put_and_step(&mut world));
    let runs = world.metrics().keyspaces[0].levels[0].runs;
    assert!(runs > 8, "{runs} runs in L0");
    world.clock.advance(Duration::from_secs(29));
    (0..300).for_each(|_| put_and_step(&mut world));
    assert_eq!(world.metrics().jobs_preempted, 0);
    world.clock.advance(Duration::from_secs(2));
    (0..300).for_each(|_| put_and_step(&mut world));
    world.settle();
    let metrics = world.metrics();
    assert_eq!(metrics.jobs_yielded, metrics.jobs_preempted);
    assert!(metrics.jobs_yielded > 0);
    world.finish();
}

/// While clients rest `paced` has L0 merged from half as many runs on; others leave it until it is due.
#[test]
fn a_rest_is_used_for_l0() {
    for (schedule, goes) in [("paced", true), ("unlimited", false)] {
        let mut world = World::new(schedule, 9);
        world.settle();
        let l0 = |world: &World| {
            let metrics = world.metrics();
            (metrics.keyspaces[0].levels[0].runs, metrics.jobs_open)
        };
        (0..100).for_each(|_| world.tick(20, 20));
        while l0(&world) != (3, 0) {
            world.tick(20, 20);
            world.settle();
        }
        (0..300).for_each(|_| world.tick(0, 0));
        let (runs, _) = l0(&world);
        assert_eq!(runs < 3, goes, "{schedule}: {runs} runs");
        world.finish();
    }
}

/// SILK and DLC bring one L0 down at a time, also where others would find tables of their own.
#[test]
fn one_job_at_a_time_brings_l0_down_unless_it_may_be_more() {
    let most = |schedule: &str| {
        let strategy = Some(STRATEGY.replace("how=runs:4 much=runs", "how=runs:4 much=file which=oldest"));
        let sizes = Options { strategy, table_bytes: 1 << 10, workers: 4, ..options(schedule) };
        let mut world = World::with(sizes, 5);
        world.chance = Some(Random::new(1));
        (0..300).for_each(|_| world.tick(20, 1));
        let events = Arc::clone(&world.events);
        world.finish();
        most_out_of_l0(&events.lock().unwrap())
    };
    assert_eq!((most("silk:jobs=4"), most("dlc-full:jobs=4")), (1, 1));
    assert!(most("silk:jobs=4,l0-down=any") > 1);
}
