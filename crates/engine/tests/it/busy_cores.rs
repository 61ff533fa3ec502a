//! All cores busy with somebody else's threads: background threads run below everyone, and still flushes and compactions go on.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::{Db, Options};

/// Threads that want all of a core, for each core.
const EACH: usize = 2;
/// Compactions that have to end, and writes that they may take.
const COMPACTIONS: u64 = 6;
const WRITES: u64 = 600_000;

#[test]
fn threads_that_use_all_cores_starve_no_background_work() {
    let stop = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores * EACH {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = std::panic::catch_unwind(|| {
            for schedule in ["unlimited", "silk", "dlc-burst-part", "paced"] {
                goes_on(schedule);
            }
        });
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

/// Whoever writes on without asking for anything gets compactions.
fn goes_on(schedule: &str) {
    let dir = tempfile::tempdir().unwrap();
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
    let db = Db::builder(dir.path()).options(options).open().unwrap();
    let keyspace = db.keyspace("default").unwrap();
    let mut written = 0_u64;
    while db.metrics().compactions < COMPACTIONS {
        assert!(written < WRITES, "{schedule}: {} compactions", db.metrics().compactions);
        for _ in 0..1000 {
            written += 1;
            keyspace.put(&written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[7; 100]).unwrap();
        }
    }
    let metrics = db.metrics();
    assert!(metrics.flushes > COMPACTIONS, "{schedule}: {} flushes", metrics.flushes);
    db.close().unwrap();
}
