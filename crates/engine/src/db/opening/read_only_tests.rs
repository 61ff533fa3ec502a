//! Read-only opens: what they see beside a writer, and that they change nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::base::units::{KIB, MIB};
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::options::Options;
use crate::storage::disk::DiskFileSystem;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_system::FileSystem;
use crate::storage::hooked::HookedFileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::write::batch::WriteBatch;

const DIR: &str = "/db";

fn options() -> Options {
    Options {
        memtable_bytes: 16 * KIB,
        table_bytes: 4 * KIB,
        block_bytes: 256,
        level_base_bytes: 32 * KIB,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 * KIB,
        cache_bytes: 64 * KIB,
        memory_bytes: 8 * MIB,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open(fs: &SimulatedFileSystem) -> Db {
    let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).options(options());
    builder.without_threads().open().unwrap()
}

fn look(fs: &SimulatedFileSystem) -> Result<Db> {
    let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).options(options());
    builder.read_only(true).open()
}

fn content(db: &Db, keyspace: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.keyspace(keyspace).unwrap().scan(ScanRange::all()).unwrap().collect::<Result<_>>().unwrap()
}

/// Writes `numbers` to both keyspaces, each in one batch.
fn write(db: &Db, numbers: std::ops::Range<u32>) {
    let other = db.keyspace("other").unwrap();
    for n in numbers {
        let mut batch = WriteBatch::new();
        batch.put(&(n % 700).to_be_bytes(), &[&n.to_be_bytes()[..], &[7; 40]].concat());
        batch.put_in(&other, &n.to_be_bytes(), b"");
        db.write(batch).unwrap();
    }
}

#[test]
fn a_look_sees_every_acknowledged_write_and_holds_what_it_saw() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs);
    db.create_keyspace("other", Default::default()).unwrap();
    let mut held = Vec::new();
    for round in 0..30_u32 {
        write(&db, round * 100..round * 100 + 100);
        // As many steps as it takes to catch jobs and flushes at different places.
        for _ in 0..round * 3 {
            db.step(&mut |runnable| runnable.first().map(|(job, _)| *job));
        }
        let calls = fs.call_count();
        let seen = look(&fs).unwrap();
        assert_eq!(seen.keyspaces(), ["default", "other"]);
        assert_eq!(seen.metrics().sequence, db.metrics().sequence);
        for name in ["default", "other"] {
            assert_eq!(content(&seen, name), content(&db, name), "round {round}");
        }
        seen.verify().unwrap();
        assert_eq!(fs.call_count(), calls, "not one call that changes the disk");
        held.push((seen, content(&db, "default"), content(&db, "other")));
    }
    db.compact_range(ScanRange::all()).unwrap();
    db.wait_idle().unwrap();
    db.drop_keyspace("other").unwrap();
    db.close().unwrap();
    // Tables and logs are gone or overwritten by now, but for those who hold them.
    for (seen, default, other) in held {
        assert_eq!(content(&seen, "default"), default);
        assert_eq!(content(&seen, "other"), other);
        seen.verify().unwrap();
        seen.close().unwrap();
    }
    assert_eq!(look(&fs).unwrap().keyspaces(), ["default"]);
}

/// With real files and a mapped log that is appended to, rotated and recycled all the time.
#[test]
fn a_look_beside_a_busy_writer_is_a_prefix() {
    for durability in [Durability::Os, Durability::Sync] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db");
        let options = Options { durability, ..options() };
        let db = Db::open(&dir, options.clone()).unwrap();
        db.create_keyspace("other", Default::default()).unwrap();
        let (stop, acked, looked) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    // A look costs as much as there is, so the writer does not run away from it.
                    while n > looked.load(Ordering::Relaxed) + 500 && !stop.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    write(&db, n..n + 1);
                    n += 1;
                    acked.store(n, Ordering::Release);
                }
            });
            // Until the log has been recycled many times, and looks have been taken all the while.
            let mut looks = 0;
            while looks < 25 || db.metrics().wal_rotations < 20 {
                let least = acked.load(Ordering::Acquire);
                let seen = Db::open_read_only(&dir, options.clone()).unwrap_or_else(|e| panic!("{e}"));
                let other = content(&seen, "other");
                let count = other.len() as u32;
                assert!(count >= least, "{count} of {least} acknowledged writes");
                assert!(
                    other.keys().eq((0..count).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>().iter())
                );
                for (key, value) in content(&seen, "default") {
                    let key = u32::from_be_bytes(key[..].try_into().unwrap());
                    let newest = (0..count).rev().find(|n| n % 700 == key).unwrap();
                    assert_eq!(value[..4], newest.to_be_bytes(), "key {key} of the first {count}");
                }
                assert_eq!(seen.metrics().sequence, u64::from(count) * 2);
                looks += 1;
                looked.store(count, Ordering::Relaxed);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Name, inode, length, times and bytes of every file.
#[expect(clippy::disallowed_methods, reason = "looks at the directory from outside")]
fn everything(dir: &Path) -> Vec<(String, [i64; 6], Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = |path: &Path| {
        let m = std::fs::metadata(path).unwrap();
        [m.ino() as i64, m.len() as i64, m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()]
    };
    let mut all = vec![(String::new(), facts(dir), Vec::new())];
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.push((path.display().to_string(), facts(&path), std::fs::read(&path).unwrap()));
    }
    all.sort();
    all
}

#[test]
fn not_a_byte_and_not_a_time_changes() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    // Killed, so that a log is to be replayed; with orphans, which an open for writing would remove.
    let db = Db::builder(&dir).options(options()).without_threads().open().unwrap();
    db.create_keyspace("other", Default::default()).unwrap();
    write(&db, 0..2000);
    let disk = DiskFileSystem::new();
    drop(disk.create(&dir.join("999999.sst"), crate::base::class::IoClass::Client).unwrap());
    drop(disk.create(&dir.join("999998.dbtmp"), crate::base::class::IoClass::Client).unwrap());
    // The writer is open and at rest.
    db.wait_idle().unwrap();
    let before = everything(&dir);
    let seen = Db::open_read_only(&dir, options()).unwrap();
    assert_eq!(content(&seen, "other").len(), 2000);
    seen.verify().unwrap();
    for error in [
        seen.put(b"k", b"v").unwrap_err(),
        seen.delete(b"k").unwrap_err(),
        seen.flush().unwrap_err(),
        seen.sync().unwrap_err(),
        seen.compact_range(ScanRange::all()).unwrap_err(),
        seen.set_strategy("tier").unwrap_err(),
        seen.set_schedule("fixed:1MiB").unwrap_err(),
        seen.create_keyspace("new", Default::default()).unwrap_err(),
        seen.drop_keyspace("other").unwrap_err(),
        seen.checkpoint(temp.path().join("copy")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), "ReadOnly", "{error}");
        assert!(error.to_string().contains("opened read-only"), "{error}");
    }
    seen.wait_idle().unwrap();
    let again = seen.clone();
    seen.close().unwrap();
    assert_eq!(again.get(&1_u32.to_be_bytes()).unwrap().unwrap()[..4], 1401_u32.to_be_bytes());
    drop(again);
    assert_eq!(everything(&dir), before);
    assert!(!temp.path().join("copy").exists() && !temp.path().join("copy.checkpoint-tmp").exists());
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs);
    db.create_keyspace("other", Default::default()).unwrap();
    write(&db, 0..1000);
    let wanted = content(&db, "default");
    // A full disk, then a failed log.
    fs.set_free_space(Some(0));
    assert_eq!(content(&look(&fs).unwrap(), "default"), wanted);
    let path_contains = ".log".to_owned();
    fs.inject(Fault { kind: FaultKind::Sync, path_contains, nth: 0, error: FaultError::Eio, sticky: true });
    assert!(db.sync().is_err());
    assert_eq!(content(&look(&fs).unwrap(), "default"), wanted);
    assert_eq!(look(&fs).unwrap().put(b"k", b"v").unwrap_err().kind(), "ReadOnly");
}

#[test]
fn a_log_that_does_not_fit_into_memory_is_refused() {
    let fs = SimulatedFileSystem::new();
    let options = Options { memtable_bytes: MIB, wal_bytes_max: 4 * MIB, ..options() };
    let builder = |options: &Options| {
        Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).options(options.clone())
    };
    let db = builder(&options).without_threads().open().unwrap();
    db.create_keyspace("other", Default::default()).unwrap();
    write(&db, 0..3000);
    let small = Options { memory_bytes: 64 * KIB, ..options.clone() };
    let error = builder(&small).read_only(true).open().unwrap_err();
    assert_eq!(error.kind(), "Limit");
    assert!(error.to_string().contains("memory_bytes"), "{error}");
    assert_eq!(content(&builder(&options).read_only(true).open().unwrap(), "other").len(), 3000);
}

/// A bulk load leaves a mark in the log and its records in the manifest alone: a look that has read the manifest before it ended
/// and the log after it must not see what was written behind it.
#[test]
fn a_look_across_the_end_of_a_bulk_load_looks_again() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs);
    db.put(b"before", b"").unwrap();
    let load = |key: &[u8]| {
        let mut load = db.bulk_load().unwrap();
        load.put(key, b"loaded").unwrap();
        load
    };
    let loads = Mutex::new(vec![load(b"one"), load(b"two")]);
    let hooked = Arc::new(HookedFileSystem::new(Arc::new(fs.clone())));
    let writer = db.clone();
    // The manifest has been read when the first log is opened.
    hooked.set(Box::new(move |path| {
        let load = path.to_string_lossy().ends_with(".log").then(|| loads.lock().unwrap().pop()).flatten();
        if let Some(load) = load {
            load.finish().unwrap();
            writer.put(b"after", b"").unwrap();
        }
    }));
    let builder = Db::builder(Path::new(DIR)).file_system(hooked).options(options());
    let seen = content(&builder.read_only(true).open().unwrap(), "default");
    let keys: Vec<&[u8]> = seen.keys().map(Vec::as_slice).collect();
    assert_eq!(keys, [&b"after"[..], b"before", b"one", b"two"]);
}

#[test]
fn what_is_not_there_or_damaged_is_said() {
    let fs = SimulatedFileSystem::new();
    let error = look(&fs).unwrap_err();
    assert_eq!(error.kind(), "InvalidArgument", "{error}");
    assert_eq!(fs.call_count(), 0);
    let db = open(&fs);
    db.create_keyspace("other", Default::default()).unwrap();
    write(&db, 0..1500);
    db.wait_idle().unwrap();
    drop(db);
    let names = fs.list(Path::new(DIR)).unwrap();
    let victim = |end: &str| Path::new(DIR).join(names.iter().rfind(|name| name.contains(end)).unwrap());
    for end in [".sst", "MANIFEST", "CURRENT", "OPTIONS"] {
        let path = victim(end);
        let whole = fs.contents(&path).unwrap();
        fs.remove(&path).unwrap();
        match (end, look(&fs)) {
            // To look needs no settings, but they belong to a sound store.
            ("OPTIONS", looked) => assert_eq!(looked.unwrap().verify().unwrap_err().kind(), "Corruption"),
            (_, Err(error)) => {
                assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
            }
            (_, Ok(_)) => panic!("opened without {}", path.display()),
        }
        let mut bad = whole.clone();
        bad[whole.len() / 2] ^= 1;
        fs.set_contents(&path, &bad).unwrap();
        let outcome = look(&fs).and_then(|db| db.verify());
        assert_eq!(outcome.unwrap_err().kind(), "Corruption", "{end}");
        fs.set_contents(&path, &whole).unwrap();
    }
    look(&fs).unwrap().verify().unwrap();
}
