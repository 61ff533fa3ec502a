//! Jobs where they meet the store: how far a step goes, what a job keeps that lets go, and what a bulk load publishes when.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::install::{install_load, release_job, tree_view};
use super::planning::trees;
use super::scheduling::look;
use crate::base::class::Class;
use crate::base::clock::ManualClock;
use crate::base::random::Random;
use crate::base::units::{KIB, MIB};
use crate::compaction::picker::candidates;
use crate::db::background::flushing;
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::db::store::background::STEP_BYTES;
use crate::db::store::state::Store;
use crate::db::writing::commit::log_marker;
use crate::execution::compaction_job::CompactionJob;
use crate::execution::merge_loop::Progress;
use crate::options::Options;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::compression::CompressionRule;

mod gated;
mod measured;

/// The clock stands still, so that only bytes and keys end a step.
fn open(options: Options) -> Db {
    open_at(&Arc::default(), options)
}

fn open_at(clock: &Arc<ManualClock>, options: Options) -> Db {
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
    let builder = builder.clock(Arc::clone(clock) as _).options(options);
    builder.without_threads().open().unwrap()
}

/// A flushed run of eight megabytes.
fn fill(db: &Db, random: &mut Random) {
    for i in 0..8000_u32 {
        let mut value: Vec<u8> = (0..250).map(|_| random.below(256) as u8).collect();
        value.resize(1000, 0);
        db.put(&i.to_be_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
}

fn options() -> Options {
    Options { memtable_bytes: 64 * MIB, l0_trigger: 2, reserve_bytes: 0, ..Options::default() }
}

fn store(db: &Db) -> Arc<Store> {
    Arc::clone(&db.handle.store)
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

/// What [`fresh_job`] took is begun anew.
fn give_job_back(db: &Db) {
    let (store, keyspace) = (store(db), db.keyspace("default").unwrap());
    let id = store.background.lock().jobs.remove(0).id;
    release_job(&store, keyspace.state(), id).unwrap();
    store.background.lock().look_for_work = true;
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

/// It is a part of what was written, as of any work thrown away.
#[test]
fn a_close_counts_what_open_jobs_had_done() {
    let db = open(options());
    let mut random = Random::new(1);
    (0..2).for_each(|_| fill(&db, &mut random));
    let wrote = |db: &Db| store(db).background.lock().jobs.iter().any(|open| open.read_bytes > MIB);
    while !wrote(&db) {
        assert!(db.step(&mut first));
    }
    let store = store(&db);
    db.close().unwrap();
    let (written, wasted) = (&store.counters.compaction_bytes_written, store.counters.wasted_bytes.get());
    assert!((1..=written.get()).contains(&wasted), "{wasted} of {}", written.get());
    assert_eq!(store.background.lock().jobs.len(), 0);
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

/// What lies in a memtable while another one is flushed waits for that one; the first does not.
#[test]
fn flushes_that_wait_for_another_one_are_counted() {
    let db = open(Options { memtable_bytes: MIB, memtables: 6, ..options() });
    let (store, keyspace) = (store(&db), db.keyspace("default").unwrap());
    let full = || keyspace.state().view.load().immutable.len();
    let mut key = 0_u32;
    for (memtables, delayed) in [(1, 0), (3, 2), (1, 2)] {
        while full() < memtables {
            db.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
            key += 1;
        }
        while full() > 0 {
            let _ = flushing::step(&store);
        }
        let _ = flushing::step(&store);
        assert_eq!(store.counters.flushes_delayed.get(), delayed, "{memtables} full");
    }
}

/// It is the same one, and has waited for none.
#[test]
fn a_flush_that_is_tried_again_is_not_counted_again() {
    let fs = SimulatedFileSystem::new();
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone()));
    let builder = builder.options(Options { memtable_bytes: MIB, memtables: 6, ..options() });
    let db = builder.clock(Arc::<ManualClock>::default() as _).without_threads().open().unwrap();
    let (store, keyspace) = (store(&db), db.keyspace("default").unwrap());
    let full = || keyspace.state().view.load().immutable.len();
    let mut key = 0_u32;
    while full() == 0 {
        db.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
        key += 1;
    }
    fs.set_free_space(Some(0));
    for _ in 0..50 {
        let _ = flushing::step(&store);
    }
    assert!(store.background.lock().failed_flush.error().is_some() && full() == 1);
    assert!(store.background.flushes_fail.load(Ordering::Relaxed));
    fs.set_free_space(None);
    while full() > 0 {
        let _ = flushing::step(&store);
    }
    assert_eq!(store.counters.flushes_delayed.get(), 0);
}

/// Others' memtables wait behind it, and nobody will read what it writes.
#[test]
fn a_flush_of_a_keyspace_that_is_dropped_is_given_up() {
    let db = open(Options { memtable_bytes: 8 * MIB, ..options() });
    let (store, gone) = (store(&db), db.create_keyspace("gone", Default::default()).unwrap());
    let mut key = 0_u32;
    while gone.state().view.load().immutable.is_empty() {
        gone.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
        key += 1;
    }
    (0..4).for_each(|_| _ = flushing::step(&store));
    let flush_left = || store.admission.flush_left.load(Ordering::Relaxed);
    assert!(!store.background.lock().flush.is_free() && flush_left() > MIB);
    db.drop_keyspace("gone").unwrap();
    let _ = flushing::step(&store);
    let state = store.background.lock();
    assert!(state.flush.is_free() && state.failed_flush.error().is_none());
    assert_eq!((flush_left(), store.counters.flushes.get()), (0, 0));
}

/// Neither is ahead of the other by more than what a step reads and writes.
#[test]
fn jobs_that_share_equally_move_alike() {
    let db = open(Options { schedule: "unlimited:order=equal,jobs=2".to_owned(), ..options() });
    let mut random = Random::new(1);
    let other = db.create_keyspace("other", Default::default()).unwrap();
    for _ in 0..2 {
        fill(&db, &mut random);
        (0..8000_u32).for_each(|i| other.put(&i.to_be_bytes(), &[random.below(256) as u8; 1000]).unwrap());
        other.flush().unwrap();
    }
    let store = store(&db);
    let moved = || -> Vec<u64> {
        let state = store.background.lock();
        state.jobs.iter().map(|open| open.job.as_ref().map_or(0, |job| job.bytes_moved())).collect()
    };
    while moved().len() < 2 {
        assert!(db.step(&mut |_| None), "two jobs are there to be opened");
    }
    // One of them may have been stepped while the other tree was filled.
    let before = moved();
    let since = || [0, 1].map(|i| moved()[i] - before[i]);
    for step in 0..40 {
        assert!(db.step(&mut first));
        let [one, other] = since();
        assert!(one.abs_diff(other) <= 3 * STEP_BYTES, "{one} and {other} after {step} steps");
    }
    assert!(since().iter().all(|moved| *moved > 10 * STEP_BYTES), "{:?}", since());
}

/// A clock that was set back keeps nobody from looking.
#[test]
fn work_is_looked_for_again_where_the_clock_was_set_back() {
    let db = open(options());
    let store = store(&db);
    while db.step(&mut first) {}
    let later = store.clock.wall_ms() + 3_600_000;
    let rests = later..later + 1000;
    store.background.lock().rests_ms = Some(rests.clone());
    db.step(&mut first);
    assert_ne!(store.background.lock().rests_ms, Some(rests));
}

/// Half a megabyte in each of two runs of L0.
fn two_small_runs(options: Options) -> Db {
    let db = open(Options { table_bytes: 64 * KIB, ..options });
    let mut random = Random::new(1);
    for _ in 0..2 {
        for i in 0..500_u32 {
            let value: Vec<u8> = (0..1000).map(|_| random.below(256) as u8).collect();
            db.put(&i.to_be_bytes(), &value).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

/// Whatever became of its tables: finished, waiting for their sync, being sealed, or open.
#[test]
fn what_is_thrown_away_is_all_that_was_not_committed() {
    let db = two_small_runs(options());
    let mut most = 0;
    for stepped in 0..60 {
        let mut job = fresh_job(&db);
        (0..stepped).for_each(|_| assert!(job.step(16 * KIB).is_ok()));
        let written = job.bytes_written();
        let (lost, removed) = job.abandon();
        removed.unwrap();
        assert_eq!(lost, written, "after {stepped} steps");
        most = most.max(lost);
        give_job_back(&db);
    }
    assert!(most > 200 * KIB, "{most}");
}

/// What is open goes with it only if it is next to nothing.
#[test]
fn a_job_that_yields_loses_a_twentieth_of_a_table_at_most() {
    let db = two_small_runs(options());
    for stepped in 0..60 {
        let mut job = fresh_job(&db);
        (0..stepped).for_each(|_| assert!(job.step(16 * KIB).is_ok()));
        job.request_yield(false);
        steps(&mut job, STEP_BYTES);
        let kept = job.take_commit(false, true).is_some();
        let (lost, removed) = job.abandon();
        removed.unwrap();
        // And an entry, with its block.
        assert!(lost <= 64 * KIB / 20 + 5 * KIB, "{lost} bytes after {stepped} steps");
        assert!(kept || stepped < 6, "nothing is kept after {stepped} steps");
        give_job_back(&db);
    }
}

/// What is late by the plan has its threads run as everyone does, and what is not has not.
#[test]
fn a_late_plan_raises_the_threads() {
    let clock: Arc<ManualClock> = Arc::default();
    let schedule = "paced".to_owned();
    let db = open_at(
        &clock,
        Options {
            schedule,
            device_bytes_per_sec: 100 * MIB,
            l0_limit: 4,
            compression: CompressionRule::None,
            ..options()
        },
    );
    let store = store(&db);
    store.background.lock().retry_at = Duration::MAX;
    let urgent = || {
        clock.advance(Duration::from_millis(10));
        look(&store);
        store.background.urgent.load(Ordering::Relaxed)
    };
    for runs in 1..=4_u8 {
        db.put(b"key", &[runs; 1000]).unwrap();
        db.flush().unwrap();
        // Four are beyond three quarters of the room that there is.
        assert_eq!(urgent(), runs >= 4, "{runs} runs");
    }
    store.background.lock().retry_at = Duration::ZERO;
    for _ in 0..1000 {
        db.step(&mut first);
        clock.advance(Duration::from_millis(1));
    }
    assert!(!urgent());
}

/// Under every strategy: what there is to do by the plan is what the picker would do.
#[test]
fn a_plan_has_l0_due_when_the_picker_has() {
    for row in crate::compaction::catalog::CATALOG {
        let strategy = Some(row.name.to_owned());
        let db = open(Options { strategy, compression: CompressionRule::None, ..options() });
        let (store, handle) = (store(&db), db.keyspace("default").unwrap());
        store.background.lock().retry_at = Duration::MAX;
        for runs in 1..=8_u8 {
            db.put(&[runs], &[runs; 1000]).unwrap();
            db.flush().unwrap();
            let strategy = handle.state().strategy.load_full();
            let tree = store.tree();
            let view = tree_view(&store, &tree, handle.state().id).unwrap();
            let picks = candidates(&view, &strategy.strategy).iter().any(|candidate| candidate.level == 0);
            let plan = trees(&store, &store.background.lock())[0];
            assert_eq!(plan.l0_pending > 0, picks, "{} with {runs} runs", row.name);
            assert_eq!(plan.l0_due == 0, picks, "{} with {runs} runs", row.name);
        }
    }
}

/// What memory holds is on its way to L0, and has been let in.
#[test]
fn room_in_l0_is_less_what_memory_holds() {
    let db = open(Options { compression: CompressionRule::None, ..options() });
    let store = store(&db);
    let room = || trees(&store, &store.background.lock())[0].l0_room;
    let keyspace = db.keyspace("default").unwrap();
    let used = || keyspace.state().view.load().active.bytes();
    let before = (room(), used());
    db.put(b"key", &[7; 100_000]).unwrap();
    let more = used() - before.1;
    assert!(more > 100_000);
    assert_eq!(room(), before.0 - more);
}

/// A block that cannot be read is read seven times in a minute and not a hundred and twenty times; who waits is told, and when it can be
/// read again all goes on.
#[test]
fn work_that_fails_rests_longer_each_time() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::<ManualClock>::default());
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone()));
    let db = builder.clock(Arc::clone(&clock) as _).options(options()).without_threads().open().unwrap();
    let store = store(&db);
    store.background.lock().retry_at = Duration::MAX;
    let mut random = Random::new(1);
    (0..2).for_each(|_| fill(&db, &mut random));
    store.background.lock().retry_at = Duration::ZERO;
    let (kind, error) = (FaultKind::Read, FaultError::Eio);
    fs.inject(Fault { kind, path_contains: ".sst".into(), nth: 0, error, sticky: true });
    let pass = |seconds: u64| {
        for _ in 0..seconds * 100 {
            while db.step(&mut first) {}
            clock.advance(Duration::from_millis(10));
        }
    };
    pass(60);
    let failed = db.metrics().jobs_failed;
    assert!((6..=8).contains(&failed), "{failed} times");
    assert_eq!(db.wait_idle().unwrap_err().kind(), "Io");
    fs.clear_faults();
    pass(40);
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    assert_eq!((metrics.jobs_failed, metrics.compactions), (failed, 1));
}
