//! Jobs where they meet the store: how far a step goes, what a job keeps that lets go, and what a bulk load publishes when.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::install::install_load;
use super::scheduling::{look, usage};
use crate::base::class::Class;
use crate::base::clock::ManualClock;
use crate::base::units::{KIB, MIB};
use crate::db::background::flushing;
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::db::store::background::STEP_BYTES;
use crate::db::store::state::Store;
use crate::db::writing::commit::log_marker;
use crate::execution::compaction_job::CompactionJob;
use crate::execution::merge_loop::Progress;
use crate::options::Options;
use crate::scheduler::estimator::Estimator;
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::compression::CompressionRule;

/// The clock stands still, so that only bytes and keys end a step.
fn open(options: Options) -> Db {
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
    let builder = builder.clock(Arc::new(ManualClock::default())).options(options);
    builder.without_threads().open().unwrap()
}

fn options() -> Options {
    Options { memtable_bytes: 64 * MIB, l0_trigger: 2, reserve_bytes: 0, ..Options::default() }
}

fn store(db: &Db) -> Arc<Store> {
    Arc::clone(&db.keyspace("default").unwrap().handle.store)
}

fn first(jobs: &[(usize, Class)]) -> Option<usize> {
    jobs.first().map(|(i, _)| *i)
}

/// A job that nobody has stepped.
fn fresh_job(db: &Db) -> Box<CompactionJob> {
    for _ in 0..100 {
        db.step(&mut |_| None);
        if let Some(open) = store(db).background.lock().jobs.first_mut() {
            return open.job.take().unwrap();
        }
    }
    panic!("no job was opened");
}

/// Steps a job to its end, and answers what each step moved.
fn steps(job: &mut CompactionJob, budget: u64) -> Vec<u64> {
    let mut moved = Vec::new();
    loop {
        match job.step(budget).unwrap() {
            (Progress::Finished, _) => return moved,
            (_, bytes) => moved.push(bytes),
        }
    }
}

/// Where nothing is open there is nothing to pace.
#[test]
fn the_monitor_looks_seldom_while_no_work_is_open() {
    let ms = |ms| Some(Duration::from_millis(ms));
    for (schedule, at_rest, at_work) in
        [("paced", ms(100), ms(10)), ("dlc-full", ms(1000), ms(1000)), ("unlimited", None, None)]
    {
        let schedule = schedule.to_owned();
        let db = open(Options { schedule, device_bytes_per_sec: 100 * MIB, ..options() });
        for _ in 0..options().l0_trigger {
            assert_eq!(look(&store(&db)), at_rest);
            db.put(b"key", &[7; 1000]).unwrap();
            db.flush().unwrap();
        }
        fresh_job(&db);
        assert_eq!(look(&store(&db)), at_work);
    }
}

/// Where it shares what clients leave, which is nothing while the clock stands still: as far as writers are in three quarters of the
/// next memtable, and a few steps.
#[test]
fn a_flush_keeps_ahead_of_writers_and_no_further() {
    const MEMTABLE: u64 = 8 * MIB;
    let db = open(Options {
        schedule: "silk".to_owned(),
        device_bytes_per_sec: MIB,
        memtable_bytes: MEMTABLE,
        memtables: 2,
        ..options()
    });
    let handle = db.keyspace("default").unwrap();
    let keyspace = handle.state();
    let (store, mut key) = (store(&db), 0_u32);
    let mut put_until = |is_there: &dyn Fn() -> bool| {
        while !is_there() {
            db.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
            key += 1;
        }
    };
    put_until(&|| !keyspace.view.load().immutable.is_empty());
    look(&store);
    let full = keyspace.view.load().immutable[0].bytes();
    for eighth in 0..6 {
        put_until(&|| keyspace.view.load().active.bytes() >= MEMTABLE / 8 * eighth);
        (0..1000).for_each(|_| _ = flushing::step(&store));
        let (left, due) = (store.admission.flush_left.load(Ordering::Relaxed), full / 6 * (6 - eighth));
        assert!(
            (due - 3 * STEP_BYTES..=due).contains(&left),
            "{eighth}: {left} of {full} are left, {due} due"
        );
    }
    put_until(&|| keyspace.view.load().active.bytes() >= MEMTABLE / 8 * 6);
    (0..1000).for_each(|_| _ = flushing::step(&store));
    assert!(keyspace.view.load().immutable.is_empty());
}

#[test]
fn a_step_moves_its_budget_and_at_most_one_entry_more() {
    const VALUE: u64 = 200 * KIB;
    let db = open(options());
    for run in 0..2_u32 {
        for i in 0..40_u32 {
            db.put(&(2 * i + run).to_be_bytes(), &vec![7; VALUE as usize]).unwrap();
        }
        db.flush().unwrap();
    }
    let moved = steps(&mut fresh_job(&db), STEP_BYTES);
    // Read and written.
    assert!(moved.iter().sum::<u64>() > 2 * 79 * VALUE, "{moved:?}");
    assert!(moved.iter().all(|bytes| *bytes < STEP_BYTES + 2 * (VALUE + 100)), "{moved:?}");
}

/// Each key but the first has two versions in the inputs: a job that looked only after an even number of entries would never see
/// itself between two keys.
#[test]
fn a_job_that_is_asked_to_yield_stops_at_the_next_key() {
    let db = open(options());
    for run in 0..2_u32 {
        for i in run..2000 {
            db.put(&i.to_be_bytes(), &[7; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let mut job = fresh_job(&db);
    assert!(matches!(job.step(KIB).unwrap(), (Progress::More, _)));
    job.request_yield(true);
    let moved = steps(&mut job, STEP_BYTES);
    // A few entries, and what sealing a table of them writes; all entries would be 800 KiB.
    assert!(moved.iter().sum::<u64>() < 16 * KIB, "{moved:?}");
    assert!(job.has_yielded());
}

/// Eight megabytes in the last level, and a tombstone for every key of it in a run above; another run, of one, asks for a compaction.
fn all_deleted(table_bytes: u64) -> Db {
    const KEYS: u32 = 10_000;
    let db = open(Options { table_bytes, ..options() });
    for i in 0..KEYS {
        db.put(&i.to_be_bytes(), &[7; 800]).unwrap();
    }
    db.compact_range(ScanRange::all()).unwrap();
    // Flushes step the background: no job is opened before all is there.
    store(&db).background.lock().retry_at = Duration::MAX;
    for keys in [KEYS, 1] {
        for i in 0..keys {
            db.delete(&i.to_be_bytes()).unwrap();
        }
        db.flush().unwrap();
    }
    store(&db).background.lock().retry_at = Duration::ZERO;
    db
}

/// Sent away after each step, as a deep job is while L0 wants its tables, it gets on all the same.
#[test]
fn a_job_that_yields_where_nothing_is_left_keeps_its_progress() {
    let db = all_deleted(64 * MIB);
    for _ in 0..400 {
        db.step(&mut first);
        db.request_yields();
    }
    let metrics = db.metrics();
    assert!(metrics.jobs_yielded >= 5, "{} yields", metrics.jobs_yielded);
    assert!(metrics.files_live <= 1, "{} files", metrics.files_live);
    assert_eq!((metrics.jobs_open, metrics.jobs_discarded), (0, 0));
    db.verify().unwrap();
}

/// What a job deletes goes as it gets on, not when it ends.
#[test]
fn a_long_stretch_of_which_nothing_is_left_is_committed_in_parts() {
    let db = all_deleted(32 * KIB);
    let before = db.metrics().files_live;
    let mut between = Vec::new();
    while db.step(&mut first) {
        between.push(db.metrics().files_live);
    }
    let metrics = db.metrics();
    assert!(metrics.files_live <= 1, "{} files", metrics.files_live);
    assert!(metrics.prefix_commits >= 3, "{} prefix commits", metrics.prefix_commits);
    assert!(between.iter().any(|files| (1..before / 2).contains(files)), "{between:?} of {before}");
    db.verify().unwrap();
}

/// Else a compaction that finds the load's tables could list its snapshots, drop what they hide, and only then would someone take
/// a snapshot that does not see the load.
#[test]
fn a_bulk_load_is_visible_before_the_tree_is_let_go() {
    let db = open(options());
    let store = store(&db);
    db.put(b"k", b"1").unwrap();
    let keyspace = db.keyspace("default").unwrap();
    let mut commit = store.commit_state();
    let seq = log_marker(&store, &mut commit).unwrap();
    assert!(store.visible.load(Ordering::Acquire) < seq.0);
    install_load(&store, keyspace.state(), Vec::new(), seq).unwrap();
    assert_eq!(store.visible.load(Ordering::Acquire), seq.0);
}

/// Eq 6 of DLC with a measured factor: also where blocks are compressed, the estimate is within 10 % of what is read from files.
#[test]
fn fills_of_the_cache_tell_what_is_read_of_compressed_blocks() {
    let db = open(Options { compression: CompressionRule::Lz4, cache_bytes: MIB, ..options() });
    for i in 0..20_000_u32 {
        db.put(&i.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 400]).unwrap();
    }
    db.compact_range(ScanRange::all()).unwrap();
    let store = store(&db);
    let fills = Estimator::CacheFills { gamma: None };
    let before = usage(&store, &fills);
    for i in 0..20_000_u32 {
        assert!(db.get(&i.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap().is_some());
    }
    let used = usage(&store, &fills).since(&before);
    let by = |gamma| Estimator::CacheFills { gamma }.bytes(&used);
    let read = used.client_read_bytes as f64;
    assert!(read > MIB as f64 && (by(None) / read - 1.0).abs() < 0.1, "{} of {read}", by(None));
    assert!(by(Some(1.0)) > 2.0 * read, "{} of {read}: nothing is compressed", by(Some(1.0)));
}
