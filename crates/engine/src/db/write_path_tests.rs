//! The write path where parts of it meet: log files of several sizes, batches across keyspaces, full disks, closing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::database::Db;
use super::keyspace::Keyspace;
use super::reading::scan::ScanRange;
use crate::base::clock::ManualClock;
use crate::base::durability::Durability;
use crate::base::units::{GIB, KIB, MIB};
use crate::options::{KeyspaceOptions, Options};
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::storage::simulated_crash::CrashPolicy;
use crate::write::batch::WriteBatch;

fn options() -> Options {
    Options { wal_bytes_max: 64 * KIB, memtable_bytes: 256 * KIB, ..Options::default() }
}

fn open(fs: &SimulatedFileSystem, options: Options) -> Db {
    Db::builder(Path::new("/db"))
        .file_system(Arc::new(fs.clone()))
        .options(options)
        .without_threads()
        .open()
        .unwrap()
}

/// A batch that does not fit into a log file gets one of its own, numbered above the one that was prepared before.
#[test]
fn logs_follow_each_other_in_the_order_of_their_numbers() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    let mut written = 0_u32;
    for round in 0..6 {
        // Prepares the next log.
        db.step(&mut |_| None);
        let mut large = WriteBatch::new();
        for _ in 0..20 {
            large.put(&written.to_be_bytes(), &[7; 2000]);
            written += 1;
        }
        db.write(large).unwrap();
        for _ in 0..20 {
            db.put(&written.to_be_bytes(), &[7; 2000]).unwrap();
            written += 1;
        }
        let reopened = open(&fs.process_kill(), options());
        for i in 0..written {
            assert!(
                reopened.get(&i.to_be_bytes()).unwrap().is_some(),
                "write {i} of {written}, round {round}"
            );
        }
    }
}

/// The first keyspace's part of a batch is flushed; the rest is in a log that a power cut may take.
#[test]
fn a_batch_across_keyspaces_survives_whole_or_not_at_all() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"1");
    batch.put_in(&other, b"k", b"1");
    db.write(batch).unwrap();
    db.flush().unwrap();
    let reopened = open(&fs.crash(1, CrashPolicy::DropUnsynced), options());
    let other = reopened.keyspace("other").unwrap();
    assert!(reopened.get(b"k").unwrap().is_some(), "a flush is durable");
    assert!(other.get(b"k").unwrap().is_some(), "and half a batch is never seen");
}

/// Groups, switches, rotations, flushes and compactions, all at once.
#[test]
fn what_many_threads_write_is_there_when_they_return_and_after_a_kill() {
    let fs = SimulatedFileSystem::new();
    let small = Options { memtable_bytes: 64 * KIB, level_base_bytes: 128 * KIB, ..options() };
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone())).options(small.clone());
    let db = builder.open().unwrap();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (db, other) = (&db, &other);
            scope.spawn(move || {
                for i in 0..500_u32 {
                    let key = [thread.to_be_bytes(), i.to_be_bytes()].concat();
                    let mut batch = WriteBatch::new();
                    batch.put(&key, &[7; 500]);
                    batch.put_in(other, &key, &[8; 50]);
                    let durability = if i % 50 == 0 { Durability::Sync } else { Durability::Os };
                    db.write_with(batch, durability).unwrap();
                    assert_eq!(db.get(&key).unwrap().as_deref(), Some(&[7; 500][..]));
                    assert_eq!(other.get(&key).unwrap().as_deref(), Some(&[8; 50][..]));
                }
            });
        }
    });
    let reopened = open(&fs.process_kill(), small);
    db.wait_idle().unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 2000);
    db.close().unwrap();
    assert_eq!(reopened.scan(ScanRange::all()).unwrap().count(), 2000);
    assert_eq!(reopened.keyspace("other").unwrap().scan(ScanRange::all()).unwrap().count(), 2000);
}

/// Without this a writer that waits for room holds the lock that closing needs, for good.
#[test]
fn a_writer_that_waits_for_room_ends_when_the_store_is_closed() {
    let fs = SimulatedFileSystem::new();
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs)).options(options());
    let db = builder.open().unwrap();
    // The threads end, and nobody makes room.
    db.handle.store.background.stop();
    let outcome = (0..2000_u32).try_for_each(|i| db.put(&i.to_be_bytes(), &[7; 2000]));
    assert_eq!(outcome.unwrap_err().kind(), "Poisoned");
    db.close().unwrap();
}

fn files(fs: &SimulatedFileSystem, extension: &str) -> Vec<PathBuf> {
    let names = fs.list(Path::new("/db")).unwrap();
    names.iter().filter(|n| n.ends_with(extension)).map(|n| Path::new("/db").join(n)).collect()
}

/// The pages of a log may reach the disk after those of its successor.
#[test]
fn a_log_that_a_power_cut_emptied_ends_recovery_unless_it_was_promised() {
    for durability in [Durability::Os, Durability::Sync] {
        let fs = SimulatedFileSystem::new();
        let db = open(&fs, options());
        let mut written = 0_u32;
        while files(&fs, ".log").len() < 3 {
            db.put(&written.to_be_bytes(), &[7; 1000]).unwrap();
            written += 1;
        }
        for i in 0..2 {
            let mut batch = WriteBatch::new();
            batch.put(b"last", &[i]);
            db.write_with(batch, durability).unwrap();
        }
        let cut = fs.process_kill();
        let logs = files(&cut, ".log");
        let emptied = vec![0; cut.contents(&logs[1]).unwrap().len()];
        cut.set_contents(&logs[1], &emptied).unwrap();
        let builder = Db::builder(Path::new("/db")).file_system(Arc::new(cut)).options(options());
        match (durability, builder.without_threads().open()) {
            (Durability::Os, Ok(db)) => {
                let there = |i: u32| db.get(&i.to_be_bytes()).unwrap().is_some();
                let prefix = (0..written).take_while(|i| there(*i)).count() as u32;
                assert!(prefix > 0 && prefix < written);
                assert!((prefix..written).all(|i| !there(i)));
                assert!(db.get(b"last").unwrap().is_none());
            }
            (Durability::Sync, Err(error)) => assert_eq!(error.kind(), "Corruption"),
            (_, outcome) => panic!("{durability:?}: {outcome:?}"),
        }
    }
}

/// Writes and flushes until a compaction is open, or `runs` times.
fn fill(db: &Db, runs: u32) -> crate::base::error::Result<()> {
    for run in 0..runs {
        for i in 0..40_u32 {
            db.put(&(i * 7 + run).to_be_bytes(), &[7; 1000])?;
        }
        db.flush()?;
    }
    Ok(())
}

#[test]
fn a_failure_does_not_hold_up_the_jobs_that_are_open() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, Options { level_base_bytes: 64 * KIB, memtable_bytes: 64 * KIB, ..options() });
    let store = Arc::clone(&db.handle.store);
    fill(&db, 4).unwrap();
    let mut choose = |jobs: &[(usize, crate::base::class::Class)]| jobs.first().map(|(i, _)| *i);
    for _ in 0..1000 {
        if !store.background.lock().jobs.is_empty() {
            break;
        }
        db.step(&mut choose);
    }
    let open = store.background.lock().jobs.first().map(|job| job.id).expect("a job");
    store.background.lock().retry_at = store.clock.now() + Duration::from_secs(3600);
    store.background.lock().look_for_work = true;
    for _ in 0..1000 {
        db.step(&mut choose);
    }
    assert!(store.background.lock().jobs.iter().all(|job| job.id != open));
}

/// The keyspaces are looked at in the order of their names: what the first one suffers from is no reason to leave out the next.
#[test]
fn a_tree_that_cannot_be_worked_on_does_not_hold_up_the_others() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, Options { level_base_bytes: 64 * KIB, memtable_bytes: 64 * KIB, ..options() });
    let store = Arc::clone(&db.handle.store);
    let first = db.create_keyspace("aaa", Default::default()).unwrap();
    fill(&db, 4).unwrap();
    let mut choose = |jobs: &[(usize, crate::base::class::Class)]| jobs.first().map(|(i, _)| *i);
    let mut claimed = None;
    while claimed.is_none() {
        db.step(&mut |_| None);
        claimed = store.background.lock().jobs.first().map(|job| (job.id, job.keyspace.id));
    }
    let compaction = {
        let (job, keyspace) = claimed.unwrap();
        Arc::clone(store.tree().claims[&keyspace].compaction(job).unwrap())
    };
    while db.step(&mut choose) {}
    // Both trees get work, and nobody looks for it yet.
    let never = store.clock.now() + Duration::from_secs(3600);
    for run in 0..6_u32 {
        store.background.lock().retry_at = never;
        for i in 0..40_u32 {
            first.put(&(i * 7 + run).to_be_bytes(), &[7; 1000]).unwrap();
        }
        first.flush().unwrap();
        fill(&db, 1).unwrap();
    }
    // The next job's number is taken in the first keyspace: what is begun there fails.
    let next = {
        let mut tree = store.tree();
        let next = crate::base::units::JobId(tree.last_job + 1);
        tree.claims.get_mut(&first.state().id).unwrap().claim(next, compaction).unwrap();
        next
    };
    assert!(store.background.lock().jobs.is_empty());
    store.background.lock().retry_at = Duration::ZERO;
    store.background.lock().look_for_work = true;
    db.step(&mut |_| None);
    assert!(store.tree().last_job > next.0, "the first keyspace was tried");
    let state = store.background.lock();
    assert!(state.jobs.iter().all(|job| job.id != next));
    assert!(state.jobs.iter().any(|job| job.keyspace.id != first.state().id), "{:?}", state.compaction_error);
}

/// A writer that waits for compactions which there is no space for must not wait for ever.
#[test]
fn a_refused_compaction_is_told_to_writers() {
    let fs = SimulatedFileSystem::new();
    let tight = Options { l0_limit: 6, reserve_bytes: GIB, strategy: Some("tier".into()), ..options() };
    let db = open(&fs, tight);
    fs.set_free_space(Some(64 * MIB));
    assert_eq!(fill(&db, 20).unwrap_err().kind(), "NoSpace");
    assert!(db.metrics().jobs_refused > 0);
}

/// What is smaller may fit, and who writes elsewhere has nothing to do with it.
#[test]
fn without_space_for_a_large_compaction_smaller_ones_go_on() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let tight = Options {
        l0_limit: 20,
        reserve_bytes: 0,
        memtable_bytes: 64 * KIB,
        table_bytes: 200 * KIB,
        strategy: Some(
            "when=saturation how=runs:20 much=level; L0: when=runs how=runs:4; size: base=500KiB sizes=fixed"
                .into(),
        ),
        ..options()
    };
    let db = Db::builder(Path::new("/db"))
        .file_system(Arc::new(fs.clone()))
        .clock(Arc::clone(&clock) as _)
        .options(tight)
        .set("compression", "none")
        .without_threads()
        .open()
        .unwrap();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let store = Arc::clone(&db.handle.store);
    // Some runs of 64 KiB fit into it; what the next level has is more, and so is what it takes in slices.
    for flush in 0..60_u32 {
        fs.set_free_space(Some(700 * KIB));
        for i in 0..60_u32 {
            db.put(&(i * 1000 + flush).to_be_bytes(), &[7; 1000]).unwrap();
        }
        db.flush().unwrap();
        clock.advance(Duration::from_secs(1));
        while db.step(&mut |jobs| jobs.first().map(|(i, _)| *i)) {}
    }
    assert!(db.metrics().jobs_refused > 0);
    let runs: Vec<u64> = db.metrics().keyspaces[0].levels.iter().map(|level| level.runs).collect();
    assert!(runs[0] < 4 && runs[1] > 4, "{runs:?}");
    let state = store.background.lock();
    let fails_for = |id| state.lasting_error(|keyspace, class| keyspace == id && class.is_l0()).is_some();
    let of = |keyspace: &Keyspace| keyspace.state().id;
    assert!(fails_for(of(&db.keyspace("default").unwrap())) && !fails_for(of(&other)), "{:?}", state.refused);
}

/// Both are begun before either has written anything.
#[test]
fn beside_others_a_compaction_without_space_for_all_of_it_is_committed_in_parts() {
    for (free, sliced) in [(10 * MIB, false), (270 * KIB, true)] {
        let fs = SimulatedFileSystem::new();
        let tight = Options { workers: 2, table_bytes: 4 * KIB, reserve_bytes: 0, ..options() };
        let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone())).options(tight);
        let db = builder.set("compression", "none").without_threads().open().unwrap();
        let other = db.create_keyspace("other", Default::default()).unwrap();
        let store = Arc::clone(&db.handle.store);
        store.background.lock().retry_at = store.clock.now() + Duration::from_secs(3600);
        for run in 0..4_u32 {
            for i in 0..40_u32 {
                let key = (i * 7 + run).to_be_bytes();
                db.put(&key, &[7; 1000]).unwrap();
                other.put(&key, &[7; 1000]).unwrap();
            }
            db.flush().unwrap();
            other.flush().unwrap();
        }
        fs.set_free_space(Some(free));
        store.background.lock().retry_at = Duration::ZERO;
        store.background.lock().look_for_work = true;
        (0..10).for_each(|_| _ = db.step(&mut |_| None));
        let found: Vec<bool> = store.background.lock().jobs.iter().map(|job| job.sliced).collect();
        assert_eq!(found, [false, sliced], "{free}");
        while db.step(&mut |jobs| jobs.first().map(|(i, _)| *i)) {}
        let metrics = db.metrics();
        assert_eq!((metrics.jobs_refused, metrics.jobs_failed), (0, 0), "{free}");
        assert!(metrics.keyspaces.iter().all(|keyspace| keyspace.levels[0].runs < 4), "{free}");
    }
}

#[test]
fn a_part_that_is_not_recorded_leaves_no_files() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, Options { level_base_bytes: 64 * KIB, memtable_bytes: 64 * KIB, ..options() });
    let store = Arc::clone(&db.handle.store);
    fill(&db, 4).unwrap();
    let fault = Fault {
        kind: FaultKind::Write,
        path_contains: "MANIFEST".into(),
        nth: 0,
        error: FaultError::Enospc,
        sticky: true,
    };
    fs.inject(fault);
    for _ in 0..1000 {
        db.step(&mut |jobs| jobs.first().map(|(i, _)| *i));
    }
    assert!(db.metrics().jobs_failed > 0);
    assert!(store.background.lock().jobs.is_empty());
    let referred: usize = store.tree().versions.trees().values().map(|t| t.version.tables().count()).sum();
    assert_eq!(files(&fs, ".sst").len(), referred);
    fs.clear_faults();
    db.put(b"more", b"1").unwrap();
    db.flush().unwrap();
}

/// Nothing would switch a memtable once for each batch, and 16 GiB are more than one can hold: the writer that filled it panicked.
#[test]
fn a_keyspace_is_not_made_with_a_memtable_that_the_store_would_be_refused() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    for bytes in [0, KIB - 1, 4 * GIB + 1, 16 * GIB, u64::MAX] {
        let options = KeyspaceOptions { memtable_bytes: Some(bytes), ..KeyspaceOptions::default() };
        let error = db.create_keyspace("sized", options).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{bytes}");
        assert!(error.to_string().contains("memtable_bytes"), "{error}");
    }
    for (name, bytes) in [("least", KIB), ("most", 4 * GIB)] {
        let options = KeyspaceOptions { memtable_bytes: Some(bytes), ..KeyspaceOptions::default() };
        let made = db.create_keyspace(name, options).unwrap();
        assert_eq!(made.state().memtable_bytes(), bytes);
        made.put(b"k", b"v").unwrap();
    }
    assert!(db.keyspace("sized").is_none());
}

#[test]
fn a_dropped_keyspace_reads_as_empty_but_for_older_snapshots() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    let gone = db.create_keyspace("gone", Default::default()).unwrap();
    gone.put(b"flushed", b"1").unwrap();
    gone.flush().unwrap();
    gone.put(b"in memory", b"1").unwrap();
    let before = db.snapshot();
    db.put(b"elsewhere", b"1").unwrap();
    db.drop_keyspace("gone").unwrap();
    assert_eq!(before.get_in(&gone, b"flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(before.scan_in(&gone, ScanRange::all()).unwrap().count(), 2);
    assert!(db.snapshot().get_in(&gone, b"flushed").unwrap().is_none());
    assert!(gone.get(b"flushed").unwrap().is_none());
    assert!(gone.get(b"in memory").unwrap().is_none());
    assert!(gone.put(b"k", b"v").is_err());
    // Its tables go with the last snapshot that sees them, though there is a handle still.
    let tables = || {
        db.step(&mut |_| None);
        fs.list(Path::new("/db")).unwrap().iter().filter(|name| name.ends_with(".sst")).count()
    };
    let second = before.clone();
    drop(before);
    assert_eq!((tables(), second.get_in(&gone, b"flushed").unwrap().is_some()), (1, true));
    drop(second);
    assert_eq!(tables(), 0);
    assert!(gone.get(b"flushed").unwrap().is_none());
}

/// An option that is changed from outside is changed as by `Db::set_option`, threads included.
#[test]
fn more_workers_are_started_whoever_asks() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options { workers: 1, ..options() }).unwrap();
    let workers = || db.handle.store.background.threads().workers;
    assert_eq!(workers(), 1);
    db.control("set-option workers 3").unwrap();
    assert_eq!(workers(), 3);
    db.set_option("workers", "4").unwrap();
    assert_eq!(workers(), 4);
}
