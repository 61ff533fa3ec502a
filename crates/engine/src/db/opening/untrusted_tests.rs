//! Stores that somebody else has made to do harm.

use std::path::Path;
use std::sync::Arc;

use super::builder::Builder;
use crate::base::error::Result;
use crate::base::units::{KIB, MIB};
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::db::settings::options_file::{self, Stored};
use crate::options::Options;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::write::batch::WriteBatch;

const DIR: &str = "/db";

fn builder(fs: &SimulatedFileSystem) -> Builder {
    let options = Options {
        memtable_bytes: 16 * KIB,
        table_bytes: 4 * KIB,
        block_bytes: 256,
        wal_bytes_max: 64 * KIB,
        memory_bytes: 8 * MIB,
        compression: "lz4".parse().unwrap(),
        reserve_bytes: 0,
        ..Options::default()
    };
    Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).options(options).without_threads()
}

/// A closed store with tables, range tombstones, and something in its log.
fn example() -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).open().unwrap();
    for n in 0..600_u32 {
        let mut batch = WriteBatch::new();
        batch.put(&n.to_be_bytes(), &[7; 40]);
        if n % 50 == 0 {
            batch.delete_range(&(n / 2).to_be_bytes(), &(n / 2 + 3).to_be_bytes());
        }
        db.write(batch).unwrap();
    }
    db.flush().unwrap();
    db.put(b"last", b"in the log").unwrap();
    db.close().unwrap();
    fs
}

fn named(fs: &SimulatedFileSystem, part: &str) -> String {
    let mut names = fs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name.contains(part));
    names.pop().unwrap()
}

fn kind(fs: &SimulatedFileSystem) -> &'static str {
    builder(fs).untrusted().open().map_or_else(|error| error.kind(), |_| "open")
}

#[test]
fn an_untrusted_store_is_read_and_not_changed() {
    let fs = example();
    let calls = fs.call_count();
    let db = builder(&fs).untrusted().read_only(false).open().unwrap();
    assert_eq!(db.get(b"last").unwrap().as_deref(), Some(&b"in the log"[..]));
    let found = db.scan(ScanRange::all()).unwrap().collect::<Result<Vec<_>>>().unwrap();
    assert!(found.len() > 500, "{}", found.len());
    assert_eq!(db.put(b"k", b"v").unwrap_err().kind(), "ReadOnly");
    assert_eq!(fs.call_count(), calls, "nothing was changed");
}

/// An ordinary open finds damage when it reads it, this one before it answers anything.
#[test]
fn an_untrusted_store_is_verified_before_it_is_read() {
    let fs = example();
    let table = named(&fs, ".sst");
    let path = Path::new(DIR).join(&table);
    let mut bytes = fs.contents(&path).unwrap();
    bytes[10] ^= 1;
    fs.set_contents(&path, &bytes).unwrap();
    assert!(builder(&fs).read_only(true).open().is_ok());
    assert_eq!(kind(&fs), "Corruption");
}

#[test]
fn what_an_untrusted_store_remembers_is_not_believed() {
    let fs = example();
    let number = match FileName::parse(&named(&fs, "OPTIONS")) {
        Some(FileName::Options(number)) => number,
        other => panic!("{other:?}"),
    };
    let mut stored = Stored::default();
    for (name, value) in [("cache_bytes", "1TiB"), ("memory_bytes", "1TiB"), ("memtable_bytes", "4GiB")] {
        stored.options.insert(name.to_owned(), value.to_owned());
    }
    let text = options_file::print(&stored);
    fs.set_contents(&FileName::Options(number).path(Path::new(DIR)), text.as_bytes()).unwrap();
    let db = builder(&fs).untrusted().open().unwrap();
    assert_eq!((db.options().memory_bytes, db.options().memtable_bytes), (8 * MIB, 16 * KIB));
}

/// What a few bytes may become in memory is refused by its size before it is made.
#[test]
fn an_untrusted_store_is_held_to_its_memory() {
    let fs = example();
    let small = |bytes: u64| {
        let opened = builder(&fs).set("memory_bytes", &bytes.to_string()).untrusted().open();
        opened.map_or_else(|error| error.to_string(), |_| "open".to_owned())
    };
    assert_eq!(small(4 * MIB), "open");
    let refused = small(16 * KIB);
    assert!(refused.contains("manifest of an untrusted store"), "{refused}");
}

/// A range tombstone of a few bytes takes dozens in memory, so they are counted before the first is read.
#[test]
fn the_range_tombstones_of_an_untrusted_store_are_counted_first() {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).open().unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..6000_u32 {
        batch.delete_range(&(2 * n).to_be_bytes(), &(2 * n + 1).to_be_bytes());
    }
    db.write(batch).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let opened = |bytes: u64| builder(&fs).set("memory_bytes", &bytes.to_string()).untrusted().open();
    let error = opened(300 * KIB).unwrap_err().to_string();
    assert!(error.contains("range tombstones of an untrusted store"), "{error}");
    assert!(opened(8 * MIB).is_ok());
}
