//! All cores busy with somebody else's threads: background threads run below everyone, and still compactions go on, in a process that
//! may raise its threads again and in one that may not. The disk is simulated: how long a sync takes is no part of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::testing::SimulatedFileSystem;
use evenkeel::{Db, Options};
use evenkeel_sys::give_up_raising_priority;

/// Threads that want all of a core, for each core.
const EACH: usize = 2;
/// Compactions that have to end, and writes that they may take: some ten times as many as seen.
const COMPACTIONS: u64 = 6;
const WRITES: u64 = 600_000;

#[test]
fn threads_that_use_all_cores_starve_no_background_work() -> Result<(), String> {
    beside_busy_threads(every_schedule_goes_on)
}

#[test]
fn nor_do_they_where_no_priority_can_be_raised() -> Result<(), String> {
    beside_busy_threads(|| {
        give_up_raising_priority().unwrap();
        every_schedule_goes_on()
    })
}

/// What this comes to, run on a thread of its own.
fn beside_busy_threads(run: impl FnOnce() -> Result<(), String> + Send) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores * EACH {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = scope.spawn(run).join();
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|_| Err("it panicked, as told above".to_owned()))
    })
}

fn every_schedule_goes_on() -> Result<(), String> {
    ["unlimited", "silk", "dlc-burst-part", "paced"].into_iter().try_for_each(goes_on)
}

/// Whoever writes on without asking for anything gets compactions.
fn goes_on(schedule: &str) -> Result<(), String> {
    let options = Options {
        schedule: schedule.to_owned(),
        // So fast that no rate is what they wait for.
        device_bytes_per_sec: 1 << 30,
        memtable_bytes: 128 << 10,
        table_bytes: 64 << 10,
        level_base_bytes: 512 << 10,
        reserve_bytes: 0,
        ..Options::default()
    };
    let disk = Arc::new(SimulatedFileSystem::new());
    let db = Db::builder(Path::new("/store")).options(options).file_system(disk).open().unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for n in 0..WRITES {
        if n % 1000 == 0 && db.metrics().compactions >= COMPACTIONS {
            assert!(db.metrics().flushes > COMPACTIONS, "{schedule}: {} flushes", db.metrics().flushes);
            db.close().unwrap();
            return Ok(());
        }
        keyspace.put(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[7; 100]).unwrap();
    }
    let (flushes, compactions) = (db.metrics().flushes, db.metrics().compactions);
    Err(format!("{schedule}: {compactions} compactions and {flushes} flushes in {WRITES} writes"))
}
