//! The engine's byte counters beside the kernel's: over a run of flushes, compactions, gets and scans, what it counts
//! as read and written is what `/proc/self/io` counts, within one part in a hundred.
//!
//! The log is a mapping of a file, which the kernel does not count as written, so the records go to a keyspace without one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use evenkeel::testing::Random;
use evenkeel::{Db, KeyspaceOptions, Options, ScanRange, WriteBatch};

/// Bytes of all calls that read and write, of this process.
#[expect(clippy::disallowed_methods, reason = "the kernel's own word, past everything that is tested")]
fn of_the_kernel() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let figure = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    figure("rchar:") + figure("wchar:")
}

/// Bytes that the engine counts, the log's left out.
fn of_the_engine(db: &Db) -> u64 {
    let metrics = db.metrics();
    let counted = metrics.io.iter().filter(|(class, ..)| class != "wal");
    counted.map(|(_, read, written)| read + written).sum()
}

#[test]
fn the_kernel_counts_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        memtable_bytes: 512 << 10,
        table_bytes: 256 << 10,
        level_base_bytes: 1 << 20,
        level_ratio: 4,
        cache_bytes: 256 << 10,
        reserve_bytes: 0,
        // They would be the store's own words about itself.
        log_files: 0,
        ..Options::default()
    };
    let db = Db::builder(dir.path()).options(options).open().unwrap();
    let unlogged = KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() };
    let keyspace = db.create_keyspace("unlogged", unlogged).unwrap();
    let before = (of_the_kernel(), of_the_engine(&db));
    let mut random = Random::new(11);
    for _ in 0..120_000 {
        let mut batch = WriteBatch::new();
        batch.put_in(&keyspace, format!("{:010}", random.below(60_000)).as_bytes(), &[b'v'; 100]);
        db.write(batch).unwrap();
    }
    keyspace.flush().unwrap();
    db.wait_idle().unwrap();
    for _ in 0..5000 {
        keyspace.get(format!("{:010}", random.below(120_000)).as_bytes()).unwrap();
    }
    assert!(keyspace.scan(ScanRange::all()).unwrap().count() > 40_000);
    let after = (of_the_kernel(), of_the_engine(&db));
    let (kernel, engine) = (after.0 - before.0, after.1 - before.1);
    let off = (kernel as f64 / engine as f64 - 1.0).abs();
    println!("IO kernel {kernel} engine {engine}: {:.3} % apart", off * 100.0);
    assert!(kernel > 30 << 20, "{kernel} bytes say nothing");
    assert!(off <= 0.01, "the kernel counts {kernel} bytes, the engine {engine}: {:.2} % apart", off * 100.0);
}
