//! Checkpoints: what is in them, what they leave alone, and what is left of one that does not come to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::checkpoint::CheckpointReport;
use crate::base::durability::Durability;
use crate::base::units::{KIB, MIB};
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::options::Options;
use crate::storage::disk::DiskFileSystem;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::storage::simulated_crash::CrashPolicy;
use crate::write::batch::WriteBatch;

const SOURCE: &str = "/db";
const TARGET: &str = "/copies/one";
const UNFINISHED: &str = "/copies/one.checkpoint-tmp";

type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn options() -> Options {
    Options {
        memtable_bytes: 8 * KIB,
        table_bytes: 2 * KIB,
        block_bytes: 256,
        level_base_bytes: 16 * KIB,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 * KIB,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open_at(fs: &SimulatedFileSystem, dir: &str, create: bool) -> crate::base::error::Result<Db> {
    Db::builder(Path::new(dir))
        .file_system(Arc::new(fs.clone()))
        .options(options())
        .create_if_missing(create)
        .without_threads()
        .open()
}

/// A store with tables on several levels, memtables that are not in tables, two keyspaces, and deletes.
fn filled(fs: &SimulatedFileSystem) -> Db {
    let db = open_at(fs, SOURCE, true).unwrap();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    for i in 0..600_u32 {
        let mut batch = WriteBatch::new();
        batch.put(&(i * 7 % 400).to_be_bytes(), format!("value {i} {}", "x".repeat(40)).as_bytes());
        batch.put_in(&other, &(i % 100).to_be_bytes(), &i.to_be_bytes());
        if i % 11 == 0 {
            batch.delete(&(i % 400).to_be_bytes());
        }
        db.write(batch).unwrap();
    }
    db.wait_idle().unwrap();
    for i in 0..40_u32 {
        db.put(&(1000 + i).to_be_bytes(), b"in memory only").unwrap();
    }
    db
}

fn content(db: &Db) -> Content {
    let of = |name: String| {
        let entries = db.keyspace(&name).unwrap().scan(ScanRange::all()).unwrap();
        (name, entries.collect::<crate::base::error::Result<_>>().unwrap())
    };
    db.keyspaces().into_iter().map(of).collect()
}

fn names(fs: &SimulatedFileSystem, dir: &str) -> Vec<String> {
    fs.list(Path::new(dir)).unwrap()
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let wanted = content(&db);
    let report = db.checkpoint(TARGET).unwrap();
    assert!(
        report.tables_linked > 3 && report.tables_written >= 1 && report.tables_copied == 0,
        "{report:?}"
    );
    assert_eq!(report.sequence, db.metrics().sequence);
    assert!(names(&fs, TARGET).iter().all(|name| !name.ends_with(".log")), "no log is shared");
    assert!(!fs.exists(Path::new(UNFINISHED)).unwrap());

    // Both go their own way: they recycle logs, compact, and unlink what is shared.
    let copy = open_at(&fs, TARGET, false).unwrap();
    assert_eq!(content(&copy), wanted);
    copy.verify().unwrap();
    assert_eq!(copy.metrics().sequence, report.sequence);
    for i in 0..3000_u32 {
        db.put(&(i % 500).to_be_bytes(), &[1; 60]).unwrap();
        copy.put(&(i % 500).to_be_bytes(), &[2; 60]).unwrap();
    }
    for (one, byte) in [(&db, 1), (&copy, 2)] {
        one.compact_range(ScanRange::all()).unwrap();
        one.verify().unwrap();
        assert!((0..500_u32).all(|i| one.get(&i.to_be_bytes()).unwrap().as_deref() == Some(&[byte; 60][..])));
        assert!(one.metrics().wal_rotations > 0, "logs were used up on both sides");
    }
    let (now, copied) = (content(&db), content(&copy));
    db.close().unwrap();
    copy.close().unwrap();
    assert_eq!(content(&open_at(&fs, SOURCE, false).unwrap()), now);
    assert_eq!(content(&open_at(&fs, TARGET, false).unwrap()), copied);
    assert_eq!(now["other"], copied["other"]);
}

#[test]
fn what_exists_is_not_touched() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    fs.create_dir(Path::new("/copies/one")).unwrap();
    fs.set_contents(Path::new("/copies/one/letter"), b"dear").unwrap();
    fs.set_contents(Path::new("/copies/file"), b"dear").unwrap();
    let calls = fs.call_count();
    for target in ["/copies/one", "/copies/file", SOURCE, "/"] {
        let error = db.checkpoint(target).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{target}: {error}");
    }
    assert_eq!(fs.call_count(), calls, "nothing was changed");

    // Nor is a directory that looks like a checkpoint's own and holds something else.
    fs.create_dir(Path::new("/copies/two.checkpoint-tmp")).unwrap();
    fs.set_contents(Path::new("/copies/two.checkpoint-tmp/letter"), b"dear").unwrap();
    let error = db.checkpoint("/copies/two").unwrap_err();
    assert!(error.to_string().contains("letter"), "{error}");
    assert!(fs.contents(Path::new("/copies/two.checkpoint-tmp/letter")).is_some());
    assert!(!fs.exists(Path::new("/copies/two")).unwrap());
}

#[test]
fn where_no_link_can_be_tables_are_copied() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let fault = Fault {
        kind: FaultKind::Link,
        path_contains: String::new(),
        nth: 0,
        error: FaultError::Exdev,
        sticky: true,
    };
    fs.inject(fault);
    let report = db.checkpoint(TARGET).unwrap();
    assert!(report.tables_copied > 3 && report.bytes_copied > 0 && report.tables_linked == 0, "{report:?}");
    let copy = open_at(&fs.crash(1, CrashPolicy::DropUnsynced), TARGET, false).unwrap();
    assert_eq!(content(&copy), content(&db));
    copy.verify().unwrap();
}

/// Whenever power is lost or the process killed, the target is not there or it is whole, the source is what it was, and the next
/// checkpoint to the same place goes through.
#[test]
fn an_interrupted_checkpoint_is_nowhere_or_whole() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    db.sync().unwrap();
    let wanted = content(&db);
    fs.record_states();
    db.checkpoint(TARGET).unwrap();
    let states = fs.take_states();
    assert!(states.len() > 20, "{}", states.len());
    let (mut absent, mut whole, mut unfinished) = (0, 0, 0);
    for (call, state) in states {
        // All policies take turns, and from the rename on each has its own.
        let policy = |i: u64| CrashPolicy::ALL[((call * 2 + i) % 8) as usize];
        let turns = if state.exists(Path::new(TARGET)).unwrap() { 8 } else { 2 };
        let disks = (0..turns).map(|i| state.crash(call, policy(i))).chain([state.process_kill()]);
        for (i, disk) in disks.enumerate() {
            let at = format!("call {call}, way {i}");
            if disk.exists(Path::new(TARGET)).unwrap() {
                whole += 1;
                check_whole(&disk, TARGET, &wanted, &at);
            } else {
                absent += 1;
            }
            if disk.exists(Path::new(UNFINISHED)).unwrap() {
                unfinished += 1;
                // CURRENT is the last file: with it, all is there; without it, this is no store.
                if disk.exists(&Path::new(UNFINISHED).join("CURRENT")).unwrap() {
                    check_whole(&disk.process_kill(), UNFINISHED, &wanted, &at);
                } else {
                    assert!(open_at(&disk.process_kill(), UNFINISHED, false).is_err(), "{at}");
                }
            }
            let source = open_at(&disk, SOURCE, false).unwrap_or_else(|e| panic!("{at}: {e}"));
            assert_eq!(content(&source), wanted, "{at}");
            source.verify().unwrap_or_else(|e| panic!("{at}: {e}"));
            if !disk.exists(Path::new(TARGET)).unwrap() {
                source.checkpoint(TARGET).unwrap_or_else(|e| panic!("{at}: {e}"));
                check_whole(&disk, TARGET, &wanted, &at);
                assert!(!disk.exists(Path::new(UNFINISHED)).unwrap(), "{at}");
            }
        }
    }
    assert!(absent > 50 && whole > 1 && unfinished > 50, "{absent} {whole} {unfinished}");
}

fn check_whole(disk: &SimulatedFileSystem, dir: &str, wanted: &Content, at: &str) {
    let copy = open_at(disk, dir, false).unwrap_or_else(|e| panic!("{at}, {dir}: {e}"));
    assert_eq!(&content(&copy), wanted, "{at}, {dir}");
    copy.verify().unwrap_or_else(|e| panic!("{at}, {dir}: {e}"));
}

/// Every call that a checkpoint makes fails once: an error, nothing left behind, and the store goes on.
#[test]
fn a_checkpoint_that_fails_leaves_nothing() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let wanted = content(&db);
    let mut failed = 0;
    for kind in [FaultKind::Create, FaultKind::Write, FaultKind::Sync, FaultKind::Entry, FaultKind::Link] {
        for nth in 0..60 {
            let path_contains = "/copies/one.checkpoint-tmp".to_owned();
            let error = if nth % 2 == 0 { FaultError::Eio } else { FaultError::Enospc };
            fs.inject(Fault { kind, path_contains, nth, error, sticky: false });
            let fired = fs.faults_fired();
            let outcome = db.checkpoint(TARGET);
            let hit = fs.faults_fired() > fired;
            fs.clear_faults();
            if outcome.is_ok() {
                // The last step removes what is there anyway.
                remove_all(&fs, TARGET);
                if !hit {
                    break;
                }
                continue;
            }
            failed += 1;
            assert!(!fs.exists(Path::new(TARGET)).unwrap(), "{kind:?} {nth}");
            db.put(b"after a failure", &[failed]).unwrap();
            assert_eq!(content(&db)["other"], wanted["other"]);
        }
    }
    assert!(failed > 20, "{failed}");
    db.checkpoint(TARGET).unwrap();
    check_whole(&fs, TARGET, &content(&db), "at last");
}

/// Somebody keeps a store under the name that an interrupted checkpoint would have left.
#[test]
fn a_store_under_the_name_of_a_leftover_is_left_alone() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let other = open_at(&fs, UNFINISHED, true).unwrap();
    other.put(b"k", b"v").unwrap();
    other.flush().unwrap();
    other.close().unwrap();
    let before = names(&fs, UNFINISHED);
    let error = db.checkpoint(TARGET).unwrap_err();
    assert!(error.kind() == "InvalidArgument" && error.to_string().contains(UNFINISHED), "{error}");
    assert_eq!(names(&fs, UNFINISHED), before);
    let kept = open_at(&fs, UNFINISHED, false).unwrap();
    assert_eq!(kept.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// A link would be followed, and then renamed.
#[test]
fn a_link_under_the_name_of_a_leftover_is_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let elsewhere = Db::open(at("elsewhere"), options()).unwrap();
    elsewhere.close().unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), at("copy.checkpoint-tmp")).unwrap();
    for name in ["LOG", "IDENTITY", "STATS"] {
        let _ = DiskFileSystem::new().remove(&at("elsewhere").join(name));
    }
    let before = DiskFileSystem::new().list(&at("elsewhere")).unwrap();
    let db = Db::open(at("db"), options()).unwrap();
    let error = db.checkpoint(at("copy")).unwrap_err();
    assert_eq!(error.kind(), "InvalidArgument", "{error}");
    assert_eq!(DiskFileSystem::new().list(&at("elsewhere")).unwrap(), before);
    assert!(!at("copy").exists());
}

fn remove_all(fs: &SimulatedFileSystem, dir: &str) {
    names(fs, dir).iter().for_each(|name| fs.remove(&Path::new(dir).join(name)).unwrap());
    fs.remove_dir(Path::new(dir)).unwrap();
}

/// Between one table and the next the store compacts and unlinks: what was frozen stays.
#[test]
fn compactions_meanwhile_take_nothing_away() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let wanted = content(&db);
    let mut rounds = 0_u32;
    let report = db
        .checkpoint_with(TARGET, &mut |progress| {
            assert!(progress.bytes_done <= progress.bytes_total, "{progress:?}");
            rounds += 1;
            if rounds < 6 {
                for i in 0..100_u32 {
                    db.put(&i.to_be_bytes(), &rounds.to_be_bytes()).unwrap();
                }
                db.compact_range(ScanRange::all()).unwrap();
                db.wait_idle().unwrap();
            }
        })
        .unwrap();
    assert!(rounds >= 6 && report.tables_linked >= 5, "{report:?}");
    check_whole(&fs, TARGET, &wanted, "while compactions ran");
    let on_disk = |fs: &SimulatedFileSystem| names(fs, SOURCE).iter().filter(|n| n.ends_with(".sst")).count();
    db.wait_idle().unwrap();
    assert_eq!(on_disk(&fs) as u64, db.metrics().files_live, "what was held is let go");
}

/// Writers write the same number to both keyspaces in one batch; a checkpoint taken meanwhile holds the first so many.
#[test]
fn a_checkpoint_beside_writers_is_one_commit() {
    let fs = SimulatedFileSystem::new();
    let options = Options { memtable_bytes: 32 * KIB, cache_bytes: MIB, ..options() };
    let db =
        Db::builder(Path::new(SOURCE)).file_system(Arc::new(fs.clone())).options(options).open().unwrap();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let reports: Vec<CheckpointReport> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut n = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let mut batch = WriteBatch::new();
                batch.put(&n.to_be_bytes(), b"one");
                batch.put_in(&other, &n.to_be_bytes(), b"two");
                db.write(batch).unwrap();
                n += 1;
                written.store(n, Ordering::Relaxed);
            }
        });
        let checkpoint = |i: u32| {
            while written.load(Ordering::Relaxed) < 200 * i && !writer.is_finished() {
                std::thread::yield_now();
            }
            db.checkpoint(format!("/copies/{i}")).unwrap()
        };
        let reports = (1..7).map(checkpoint).collect();
        stop.store(true, Ordering::Relaxed);
        reports
    });
    for (i, report) in reports.iter().enumerate() {
        let copy = open_at(&fs, &format!("/copies/{}", i + 1), false).unwrap();
        let content = content(&copy);
        let numbers: Vec<u32> =
            content["default"].keys().map(|k| u32::from_be_bytes(k[..].try_into().unwrap())).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "the first so many");
        assert!(content["other"].keys().eq(content["default"].keys()), "of both keyspaces");
        assert_eq!(report.sequence, 2 * numbers.len() as u64);
        assert!(numbers.len() >= 200 * (i + 1));
        copy.verify().unwrap();
    }
}

/// What was acknowledged can be saved from a store that takes no more writes.
#[test]
fn a_store_that_has_failed_can_be_saved() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let wanted = content(&db);
    fs.inject(Fault {
        kind: FaultKind::Sync,
        path_contains: ".log".to_owned(),
        nth: 0,
        error: FaultError::Eio,
        sticky: true,
    });
    let mut batch = WriteBatch::new();
    batch.put(b"lost", b"1");
    assert!(db.write_with(batch, Durability::Sync).is_err());
    assert_eq!(db.put(b"k", b"v").unwrap_err().kind(), "Poisoned");
    db.checkpoint(TARGET).unwrap();
    check_whole(&fs, TARGET, &wanted, "of a failed store");
    let _ = db.clone().close();
    assert!(db.checkpoint("/copies/two").unwrap_err().to_string().contains("closed"));
}
