//! The engines: one row each of what it is and what it supports, and the way from its name to its file.

pub mod coordinode;
pub mod fjall;
pub mod lmdb;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;

use std::fmt::Write as _;

use evenkeel_lab::base::clock;
use evenkeel_lab::run::engine::Abilities;

use crate::Failure;
use crate::asked::{Asked, Durability};
use crate::bench::Args;

/// One row.
struct Row {
    /// As `--engine` takes it.
    name: &'static str,
    /// For people.
    what: &'static str,
    /// The crate whose version counts.
    package: &'static str,
    /// What its writes can promise.
    durabilities: &'static [Durability],
    abilities: Abilities,
}

const ROCKSDB: Row = Row {
    name: "rocksdb",
    what: "RocksDB",
    package: "librocksdb-sys",
    durabilities: &[Durability::Os, Durability::Sync, Durability::NoWal],
    abilities: Abilities::ALL,
};

const ROWS: [Row; 9] = [
    ROCKSDB,
    Row {
        name: "rocksdb-recycle",
        what: "RocksDB that writes over old log files",
        durabilities: &[Durability::Os, Durability::Sync],
        ..ROCKSDB
    },
    Row {
        name: "rocksdb-low-priority",
        what: "RocksDB whose background threads have low CPU and I/O priority",
        ..ROCKSDB
    },
    Row {
        name: "rocksdb-rate-limited",
        what: "RocksDB whose background work writes 150 MB/s at most",
        ..ROCKSDB
    },
    Row {
        name: "rocksdb-auto-tuned",
        what: "RocksDB whose background work has a limit of 200 MB/s that follows the work",
        ..ROCKSDB
    },
    Row {
        name: "fjall",
        what: "fjall, an LSM tree in Rust",
        package: "fjall",
        durabilities: &[Durability::Os, Durability::Sync],
        abilities: fjall::ABILITIES,
    },
    Row {
        name: "redb",
        what: "redb, a B-tree in Rust",
        package: "redb",
        durabilities: &[Durability::Sync, Durability::NoWal],
        abilities: Abilities::ALL,
    },
    Row {
        name: "lmdb",
        what: "LMDB, a memory-mapped B-tree",
        package: "heed",
        durabilities: &[Durability::Os, Durability::Sync],
        abilities: Abilities::ALL,
    },
    Row {
        name: "coordinode",
        what: "coordinode-lsm-tree, an LSM tree in Rust without a log",
        package: "coordinode-lsm-tree",
        durabilities: &[Durability::NoWal],
        abilities: Abilities::ALL,
    },
];

/// Opens the engine of this name and runs `args` on it.
pub fn measure(name: &str, asked: &Asked, args: &Args) -> Result<(), Failure> {
    let row = ROWS.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| Failure::usage(format!("there is no engine `{name}`")))?;
    check(row, asked)?;
    macro_rules! run {
        ($open:expr) => {{
            let opening = clock::now();
            let (engine, config) = $open.map_err(|error| Failure::work(format!("{name}: {error}")))?;
            args.measure(&engine, &asked.dir, config, opening)
        }};
    }
    match name {
        #[cfg(not(feature = "rocksdb"))]
        name if name.starts_with("rocksdb") => Err(Failure::work(format!(
            "{name}: this binary was built without RocksDB (cargo feature `rocksdb`)"
        ))),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => run!(rocksdb::open(asked, rocksdb::Variant::Plain)),
        #[cfg(feature = "rocksdb")]
        "rocksdb-recycle" => run!(rocksdb::open(asked, rocksdb::Variant::Recycle)),
        #[cfg(feature = "rocksdb")]
        "rocksdb-low-priority" => run!(rocksdb::open(asked, rocksdb::Variant::LowPriority)),
        #[cfg(feature = "rocksdb")]
        "rocksdb-rate-limited" => run!(rocksdb::open(asked, rocksdb::Variant::RateLimited)),
        #[cfg(feature = "rocksdb")]
        "rocksdb-auto-tuned" => run!(rocksdb::open(asked, rocksdb::Variant::AutoTuned)),
        "fjall" => run!(fjall::open(asked)),
        "redb" => run!(redb::open(asked)),
        "lmdb" => run!(lmdb::open(asked)),
        _ => run!(coordinode::open(asked)),
    }
}

/// Refuses what an engine cannot promise, rather than measuring something else.
fn check(row: &Row, asked: &Asked) -> Result<(), Failure> {
    if row.durabilities.contains(&asked.durability) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} has no durability `{}`; it can be measured with --sync {}",
        row.name,
        asked.durability.name(),
        names(row).join(" or --sync ")
    )))
}

fn names(row: &Row) -> Vec<&'static str> {
    row.durabilities.iter().map(|mode| mode.name()).collect()
}

/// The engines and what each supports, for people.
pub fn list() -> String {
    let mut out = String::new();
    for row in &ROWS {
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{:<21} {:<15} sync: {:<14} delete_range: {:<4} batches: {:<4} {}",
            row.name,
            crate::account::crate_version(row.package),
            names(row).join(" "),
            yes(row.abilities.delete_range),
            yes(row.abilities.batches),
            row.what
        );
    }
    out
}

/// What an engine cannot do.
fn cannot(engine: &str, what: &str) -> evenkeel_lab::run::engine::EngineError {
    format!("{engine} has no {what}; choose a workload without, or another engine").into()
}

#[cfg(test)]
mod tests {
    use evenkeel_lab::results::settings::{Common, PEERS, Settings};
    use evenkeel_lab::run::engine::{Change, Engine};

    use super::*;

    fn asked(dir: &tempfile::TempDir, durability: Durability, settings: Settings) -> Asked {
        Asked { dir: dir.path().to_owned(), settings, common: Common::default(), durability }
    }

    /// Puts, reads, scans and deletes as the lab does, and counts.
    fn exercise<E: Engine>(name: &str, engine: &E) {
        assert_eq!(engine.name(), name);
        assert!(engine.version().starts_with(|c: char| c.is_ascii_digit()), "{name}: {}", engine.version());
        let key = |i: u32| format!("key-{i:04}").into_bytes();
        for i in 0..100 {
            engine.put(&key(i), &[7; 50]).unwrap();
        }
        assert_eq!(engine.get(&key(3)).unwrap(), Some(50), "{name}");
        assert_eq!(engine.get(b"none").unwrap(), None, "{name}");
        let scanned = engine.scan(&key(10), 20).unwrap();
        assert_eq!((scanned.entries, scanned.bytes), (20, 20 * 58), "{name}");
        let scanned = engine.scan_down(&key(10), 5).unwrap();
        assert_eq!((scanned.entries, scanned.bytes), (5, 5 * 58), "{name}");
        let between = |from: &[u8], to: &[u8]| engine.scan_between(from, to).unwrap().entries;
        assert_eq!(
            (between(&key(10), &key(20)), between(b"", &key(4)), between(b"z", b"a")),
            (10, 4, 0),
            "{name}"
        );
        assert_eq!(engine.scan(b"", usize::MAX).unwrap().entries, 100, "{name}");
        engine.delete(&key(3)).unwrap();
        engine.write(&[Change::Put(b"new", b"1"), Change::Delete(&key(4))]).unwrap();
        assert_eq!(engine.get(&key(3)).unwrap(), None, "{name}");
        assert_eq!(engine.get(&key(4)).unwrap(), None, "{name}");
        assert_eq!(engine.get(b"new").unwrap(), Some(1), "{name}");
        let ranged = engine.delete_range(&key(50), &key(60));
        assert_eq!(ranged.is_ok(), engine.abilities().delete_range, "{name}: {ranged:?}");
        let left = if ranged.is_ok() { 98 - 10 + 1 } else { 98 + 1 };
        assert_eq!(engine.scan(b"", usize::MAX).unwrap().entries, left, "{name}");
        engine.wait_idle().unwrap();
        assert!(engine.disk_bytes() > 0, "{name}");
        if name != "coordinode" {
            // Its memtable is still in memory, and it has no log.
            assert!(engine.figures().write_amplification.unwrap() > 0.5, "{name}");
        }
    }

    #[test]
    fn every_engine_does_what_its_row_says() {
        for row in &ROWS {
            for &durability in row.durabilities {
                for (_, settings) in Settings::ALL {
                    let dir = tempfile::tempdir().unwrap();
                    let asked = asked(&dir, durability, settings);
                    macro_rules! run {
                        ($open:expr) => {{
                            let (engine, config) = $open.unwrap();
                            assert_eq!(engine.abilities(), row.abilities, "{}", row.name);
                            assert_eq!(config["settings"], settings.name());
                            assert!(
                                config["options"].as_object().is_some_and(|o| !o.is_empty()),
                                "{}",
                                row.name
                            );
                            exercise(row.name, &engine);
                        }};
                    }
                    match row.name {
                        #[cfg(not(feature = "rocksdb"))]
                        name if name.starts_with("rocksdb") => continue,
                        #[cfg(feature = "rocksdb")]
                        "rocksdb" => run!(rocksdb::open(&asked, rocksdb::Variant::Plain)),
                        #[cfg(feature = "rocksdb")]
                        "rocksdb-recycle" => run!(rocksdb::open(&asked, rocksdb::Variant::Recycle)),
                        #[cfg(feature = "rocksdb")]
                        "rocksdb-low-priority" => run!(rocksdb::open(&asked, rocksdb::Variant::LowPriority)),
                        #[cfg(feature = "rocksdb")]
                        "rocksdb-rate-limited" => run!(rocksdb::open(&asked, rocksdb::Variant::RateLimited)),
                        #[cfg(feature = "rocksdb")]
                        "rocksdb-auto-tuned" => run!(rocksdb::open(&asked, rocksdb::Variant::AutoTuned)),
                        "fjall" => run!(fjall::open(&asked)),
                        "redb" => run!(redb::open(&asked)),
                        "lmdb" => run!(lmdb::open(&asked)),
                        _ => run!(coordinode::open(&asked)),
                    }
                }
            }
        }
    }

    #[test]
    fn what_an_engine_cannot_promise_is_refused() {
        assert_eq!(ROWS.each_ref().map(|row| row.name), PEERS);
        let dir = tempfile::tempdir().unwrap();
        for row in &ROWS {
            for (_, durability) in Durability::ALL {
                let asked = asked(&dir, durability, Settings::Equal);
                let refused = check(row, &asked).err();
                assert_eq!(refused.is_none(), row.durabilities.contains(&durability));
                if let Some(Failure(code, message)) = refused {
                    assert!(
                        code == 2 && message.contains(row.name) && message.contains("--sync"),
                        "{message}"
                    );
                }
            }
            assert!(list().contains(row.what));
        }
    }
}
