//! Golden files: stores that each released version of the format has written, kept as they were, are read rightly for ever.
//!
//! ```text
//! tests/golden/FORMAT/STORE/…  ─► a disk with these files ─► open, get all, scan, verify, write, compact, reopen ─► the model's answers
//! ```
//! The layer `golden` of `cargo xtask trust`. A new version of the format adds a folder, and changes none that is there: run
//! `EVENKEEL_GOLDEN=write cargo test -p evenkeel --test it -- --exact golden::every_format_that_was_released_is_read` once.
#![allow(clippy::disallowed_methods, reason = "reads its own test data")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Durability, KeyspaceOptions, Options, Result, ScanRange, WriteBatch};

use super::trust::layer;

const DIR: &str = "/store";

/// The version of the format that this code writes.
const WRITTEN: &str = "1";

/// How the stores were left.
const STORES: [&str; 3] = ["closed", "killed", "tiered"];

/// Chance of these stores; what they hold follows from it.
const SEED: u64 = 2026;

const KEYSPACES: [&str; 3] = ["default", "events", "unlogged"];

/// What each keyspace holds.
type Contents = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn options(store: &str) -> Options {
    Options {
        strategy: Some(if store == "tiered" { "tier" } else { "lo+1" }.to_owned()),
        compression: "lz4".parse().unwrap(),
        prefix_filter: "fixed:2".parse().unwrap(),
        memtable_bytes: 8 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open(fs: &SimulatedFileSystem, store: &str) -> Result<Db> {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1));
    let builder = Db::builder(DIR).options(options(store)).file_system(Arc::new(fs.clone()));
    builder.clock(clock).without_threads().open()
}

/// Makes the store, if there is a disk for it, and says what it holds. It must never change: golden stores are read with it.
fn live(store: &str, fs: Option<&SimulatedFileSystem>) -> Contents {
    let db = fs.map(|fs| open(fs, store).unwrap());
    let mut contents: Contents = KEYSPACES.iter().map(|name| (*name, BTreeMap::new())).collect();
    for name in &KEYSPACES[1..] {
        let options = KeyspaceOptions { no_wal: *name == "unlogged", ..KeyspaceOptions::default() };
        db.iter().for_each(|db| drop(db.create_keyspace(name, options.clone()).unwrap()));
    }
    let mut random = Random::new(SEED);
    for n in 0..900_u64 {
        let name = KEYSPACES[random.below(3) as usize];
        let (from, width) = (random.below(400), 1 + random.below(8));
        let key = |n: u64| format!("key {n:04}").into_bytes();
        let value = [format!("value {n} ").into_bytes(), vec![b'.'; random.below(90) as usize]].concat();
        let (kind, steps) = (random.below(12), random.below(3));
        let content = contents.get_mut(name).unwrap();
        let mut batch = WriteBatch::new();
        let keyspace = db.as_ref().map(|db| db.keyspace(name).unwrap());
        match kind {
            0 => content.retain(|k, _| *k < key(from) || *k >= key(from + width)),
            1 | 2 => drop(content.remove(&key(from))),
            _ => drop(content.insert(key(from), value.clone())),
        }
        if let (Some(db), Some(keyspace)) = (&db, keyspace) {
            match kind {
                0 => batch.delete_range_in(&keyspace, &key(from), &key(from + width)),
                1 | 2 => batch.delete_in(&keyspace, &key(from)),
                _ => batch.put_in(&keyspace, &key(from), &value),
            };
            db.write(batch).unwrap();
            for _ in 0..steps {
                db.step(&mut |jobs| jobs.first().map(|job| job.0));
            }
        }
    }
    if let Some(db) = db {
        db.keyspace("unlogged").unwrap().flush().unwrap();
        db.sync().unwrap();
        match store {
            // All handles go without a word when the process is killed; the disk is copied before.
            "killed" => {}
            _ => db.close().unwrap(),
        }
    }
    contents
}

/// Writes the golden stores of this version, which must not be there yet.
fn write_all() {
    for store in STORES {
        let fs = SimulatedFileSystem::new();
        let folder = golden().join(WRITTEN).join(store);
        assert!(!folder.exists(), "{} is released: it must not change", folder.display());
        std::fs::create_dir_all(&folder).unwrap();
        live(store, Some(&fs));
        let disk = fs.process_kill();
        for name in disk.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name != "LOCK") {
            let bytes = disk.contents(&Path::new(DIR).join(&name)).unwrap();
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// A disk with the files of a folder.
fn disk(folder: &Path) -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = Path::new(DIR).join(path.file_name().unwrap());
        fs.set_contents(&name, &std::fs::read(&path).unwrap()).unwrap();
    }
    fs
}

/// Every answer is the model's. How many were asked for.
fn check(db: &Db, contents: &Contents) -> u64 {
    let mut checks = 0;
    assert_eq!(db.keyspaces(), KEYSPACES);
    for (name, content) in contents {
        let keyspace = db.keyspace(name).unwrap();
        let found: BTreeMap<Vec<u8>, Vec<u8>> =
            keyspace.scan(ScanRange::all()).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(found, *content, "{name}");
        for n in 0..410 {
            let key = format!("key {n:04}").into_bytes();
            let value = keyspace.get(&key).unwrap();
            assert_eq!(value.as_deref(), content.get(&key).map(|value| &value[..]), "{name} {n}");
            checks += 1;
        }
    }
    db.verify().unwrap();
    checks + contents.len() as u64
}

#[test]
fn every_format_that_was_released_is_read() {
    if std::env::var("EVENKEEL_GOLDEN").is_ok_and(|word| word == "write") {
        write_all();
    }
    let layer = layer("golden");
    let (mut versions, mut stores, mut checks) = (0, 0, 0);
    for version in std::fs::read_dir(golden()).unwrap() {
        versions += 1;
        for store in STORES {
            let mut attempt = layer.attempt(SEED);
            let folder = version.as_ref().unwrap().path().join(store);
            attempt.doing(folder.display());
            let (mut contents, fs) = (live(store, None), disk(&folder));
            let db = open(&fs, store).unwrap();
            checks += check(&db, &contents);
            // It is a store like any other from now on.
            let mut batch = WriteBatch::new();
            batch.put(b"key 0500", b"new");
            db.write_with(batch, Durability::Sync).unwrap();
            contents.get_mut("default").unwrap().insert(b"key 0500".to_vec(), b"new".to_vec());
            db.compact_range(ScanRange::all()).unwrap();
            checks += check(&db, &contents);
            db.close().unwrap();
            checks += check(&open(&fs, store).unwrap(), &contents);
            stores += 1;
        }
    }
    layer.report(format_args!("versions={versions} stores={stores} checks={checks} wrong=0"));
    assert!(versions >= 1, "the golden stores are gone");
}
