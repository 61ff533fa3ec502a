//! What users ask of the background: compactions by hand, a pause of everything, bulk loads, paced unlinks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::background::{CancelToken, CompactProgress};
use evenkeel::fs::FileSystem;
use evenkeel::testing::{Fault, FaultError, FaultKind, ManualClock, Random, SimulatedFileSystem};
use evenkeel::{CompactOptions, CompressionRule, Db, KeyspaceOptions, Options, ScanRange};

fn tiny() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        level_ratio: 4,
        l0_trigger: 4,
        wal_bytes_max: 1 << 20,
        reserve_bytes: 0,
        compression: CompressionRule::None,
        ..Options::default()
    }
}

fn open_on(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>, options: Options) -> Db {
    let builder = Db::builder(Path::new("/store")).options(options).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::clone(clock) as _).without_threads().open().unwrap()
}

/// A store that does its work when it is told to, on a disk and by a clock of its own.
fn quiet(options: Options) -> (SimulatedFileSystem, Arc<ManualClock>, Db) {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open_on(&fs, &clock, options);
    (fs, clock, db)
}

fn key(i: u64) -> Vec<u8> {
    format!("key-{i:05}").into_bytes()
}

/// Puts in random order, noted in `model`.
fn fill(db: &Db, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, seed: u64, puts: u64) {
    let mut random = Random::new(seed);
    for n in 0..puts {
        let (key, value) = (key(random.below(2000)), format!("{seed}-{n:080}").into_bytes());
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

fn check(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let found: BTreeMap<_, _> = db.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
    assert_eq!(found.len(), model.len());
    assert!(found == *model);
    for (key, value) in model.iter().step_by(37) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

/// Tables and runs of each level.
fn shape(db: &Db) -> Vec<(u64, u64)> {
    db.metrics().keyspaces[0].levels.iter().map(|l| (l.runs, l.tables)).collect()
}

fn step_once(db: &Db) -> bool {
    db.step(&mut |jobs| jobs.first().map(|(index, _)| *index))
}

#[test]
fn a_level_is_emptied_into_the_next_and_the_rest_is_left_alone() {
    let (_, _, db) = quiet(Options { strategy: Some("tier".into()), memtable_bytes: 64 << 10, ..tiny() });
    let mut model = BTreeMap::new();
    fill(&db, &mut model, 1, 4000);
    db.compact_range(ScanRange::all()).unwrap();
    // Two runs, which no trigger sends down.
    for seed in [2, 3] {
        fill(&db, &mut model, seed, 40);
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let before = shape(&db);
    assert!(before[0].0 > 0 && before.len() >= 2, "{before:?}");
    let report = db.compact(CompactOptions::new().from_level(0).to_level(1)).unwrap();
    let after = shape(&db);
    assert_eq!(after[0], (0, 0), "{before:?} {after:?}");
    assert!(report.bytes_read + report.bytes_moved > 0 && report.compactions > 0 && !report.cancelled);
    assert_eq!(after.len(), before.len());
    // A range takes the tables that it touches, and no others.
    fill(&db, &mut model, 4, 300);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let there = shape(&db)[0];
    assert!(there.1 > 3, "{there:?}");
    let (low, high) = (key(0), key(200));
    let range = ScanRange::new(Some(&low), Some(&high));
    db.compact(CompactOptions::new().range(range).to_level(1)).unwrap();
    assert!(
        shape(&db)[0].1 > 0 && shape(&db)[0] < there,
        "tables of other keys stay in L0: {:?}",
        shape(&db)
    );
    check(&db, &model);
    db.verify().unwrap();
    for (options, part) in [
        (CompactOptions::new().from_level(9), "there is no level 9"),
        (CompactOptions::new().from_level(1).to_level(1), "goes down"),
    ] {
        let error = db.compact(options).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn progress_comes_to_its_total_and_a_cancelled_compaction_keeps_what_it_has() {
    let (_, _, db) = quiet(Options { strategy: Some("tier".into()), l0_limit: 1000, ..tiny() });
    let mut model = BTreeMap::new();
    fill(&db, &mut model, 1, 4000);
    db.wait_idle().unwrap();
    let (token, told) = (CancelToken::new(), Arc::new(AtomicU64::new(0)));
    let (own, count) = (token.clone(), Arc::clone(&told));
    // The third time it is told of, there is a job under way.
    let progress = move |progress: &CompactProgress| {
        assert!(progress.done_bytes <= progress.total_bytes);
        if count.fetch_add(1, Ordering::Relaxed) == 6 {
            own.cancel();
        }
    };
    let report = db.compact(CompactOptions::new().progress(progress).cancel(&token)).unwrap();
    assert!(report.cancelled && told.load(Ordering::Relaxed) > 6, "{report:?}");
    assert_eq!(db.metrics().jobs_discarded, 0);
    check(&db, &model);
    // What is left is done by the next one.
    let last = Arc::new(std::sync::Mutex::new(CompactProgress::default()));
    let seen = Arc::clone(&last);
    let report = db.compact(CompactOptions::new().progress(move |p| *seen.lock().unwrap() = *p)).unwrap();
    let last = *last.lock().unwrap();
    assert!(!report.cancelled && report.tables_written > 0 && report.bytes_written > 0, "{report:?}");
    assert_eq!(
        (last.done_bytes, last.total_bytes),
        (report.bytes_read + report.bytes_moved, last.done_bytes)
    );
    let shape = shape(&db);
    assert!(shape.iter().rev().skip(1).all(|level| *level == (0, 0)), "{shape:?}");
    check(&db, &model);
    // A token that is used already ends it before it begins.
    let report = db.compact(CompactOptions::new().cancel(&token)).unwrap();
    assert!(report.cancelled && report.compactions == 0);
}

#[test]
fn a_pause_stops_every_step_and_loses_nothing() {
    let (_, _, db) = quiet(tiny());
    let mut model = BTreeMap::new();
    fill(&db, &mut model, 1, 3000);
    // Some job is open, and has been stepped.
    while db.metrics().jobs_open == 0 {
        assert!(step_once(&db));
    }
    step_once(&db);
    let open = db.metrics().jobs_open;
    let paused = db.pause_background().unwrap();
    let again = db.pause_background().unwrap();
    let written = db.metrics().compaction_bytes_written;
    assert!((0..50).all(|_| !step_once(&db)), "a step was taken");
    assert_eq!((db.metrics().jobs_open, db.metrics().background_pauses), (open, 2));
    for error in [
        db.flush().map(drop).unwrap_err(),
        db.wait_idle().unwrap_err(),
        db.compact(CompactOptions::new()).map(drop).unwrap_err(),
        db.compact(CompactOptions::new().from_level(1)).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), "Paused", "{error}");
    }
    // Writes go on until memory is full; then this thread would wait for itself.
    let mut refused = None;
    for n in 0..2000u64 {
        match db.put(&key(n), b"while paused") {
            Ok(()) => drop(model.insert(key(n), b"while paused".to_vec())),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!(refused.unwrap().kind(), "Paused");
    check(&db, &model);
    drop(again);
    assert!(!step_once(&db), "one pause is still in force");
    paused.resume();
    assert_eq!(db.metrics().compaction_bytes_written, written);
    db.put(&key(1), b"resumed").unwrap();
    model.insert(key(1), b"resumed".to_vec());
    db.wait_idle().unwrap();
    assert!(db.metrics().compaction_bytes_written > written);
    assert_eq!((db.metrics().jobs_discarded, db.metrics().wasted_bytes), (0, 0));
    check(&db, &model);
}

#[test]
fn a_keyspace_dropped_in_a_pause_keeps_its_files_until_it_ends() {
    let (fs, _, db) = quiet(tiny());
    let gone = db.create_keyspace("gone", KeyspaceOptions::default()).unwrap();
    gone.put(b"k", b"v").unwrap();
    gone.flush().unwrap();
    drop(gone);
    let tables = || {
        let names = fs.list(Path::new("/store")).unwrap();
        names.iter().filter(|name| name.ends_with(".sst")).count()
    };
    let paused = db.pause_background().unwrap();
    db.drop_keyspace("gone").unwrap();
    assert_eq!(tables(), 1);
    drop(paused);
    step_once(&db);
    assert_eq!(tables(), 0);
    // What cannot be removed is no failure of the drop, which has happened.
    let gone = db.create_keyspace("gone", KeyspaceOptions::default()).unwrap();
    gone.put(b"k", b"v").unwrap();
    gone.flush().unwrap();
    drop(gone);
    let (kind, error) = (FaultKind::Entry, FaultError::Eio);
    fs.inject(Fault { kind, path_contains: ".sst".into(), nth: 0, error, sticky: false });
    db.drop_keyspace("gone").unwrap();
    assert_eq!((tables(), db.metrics().background_errors), (1, 1));
}

#[test]
fn writers_are_slowed_by_a_pause_and_not_stopped_and_a_close_does_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: 1 << 20, cache_bytes: 64 << 10, ..tiny() };
    let db = Db::open(directory.path(), options.clone()).unwrap();
    let paused = db.pause_background().unwrap();
    let writer = {
        let db = db.clone();
        let write = move || (0..40_000u64).try_for_each(|n| db.put(&key(n % 5000), &[7; 100]));
        std::thread::Builder::new().spawn(write).unwrap()
    };
    // It fills the memory, and is slowed; the thread that has paused the work can write too.
    while db.metrics().stalls == 0 {
        std::thread::yield_now();
    }
    assert!(!writer.is_finished() && db.metrics().flushes == 0);
    db.put(b"own", b"write").unwrap();
    assert_eq!(db.flush().unwrap_err().kind(), "Paused");
    drop(paused);
    writer.join().unwrap().unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 5001);
    let paused = db.pause_background().unwrap();
    db.put(b"last", b"write").unwrap();
    db.clone().close().unwrap();
    drop((paused, db));
    let db = Db::open(directory.path(), options).unwrap();
    assert_eq!(db.get(b"last").unwrap().as_deref(), Some(&b"write"[..]));
}

#[test]
fn tables_are_unlinked_at_the_rate_that_is_set() {
    let (fs, clock, db) = quiet(tiny());
    let mut model = BTreeMap::new();
    let tables = || {
        use evenkeel::fs::FileSystem;
        fs.list(Path::new("/store")).unwrap().iter().filter(|name| name.ends_with(".sst")).count() as u64
    };
    db.set_option("unlink_bytes_per_sec", "8KiB").unwrap();
    fill(&db, &mut model, 1, 3000);
    db.wait_idle().unwrap();
    let waiting = db.metrics().pending_unlink_bytes;
    assert!(waiting > 64 << 10, "{waiting}");
    assert_eq!(tables(), db.metrics().files_on_disk);
    // A second is worth 8 KiB, and one table more that is paid for later.
    for _ in 0..4 {
        let before = db.metrics().pending_unlink_bytes;
        for _ in 0..10 {
            clock.advance(Duration::from_millis(100));
            step_once(&db);
        }
        let gone = before - db.metrics().pending_unlink_bytes;
        assert!((4 << 10..16 << 10).contains(&gone), "{gone} bytes in a second");
        assert_eq!(tables(), db.metrics().files_on_disk);
    }
    // A disk that is nearly full is not waited for.
    fs.set_free_space(Some(4 << 10));
    step_once(&db);
    assert_eq!((db.metrics().pending_unlink_bytes, tables()), (0, db.metrics().files_live));
    fs.set_free_space(None);
    // What waits at a close is removed by the next open.
    fill(&db, &mut model, 2, 1000);
    db.wait_idle().unwrap();
    assert!(db.metrics().pending_unlink_bytes > 0);
    db.close().unwrap();
    let db = open_on(&fs, &clock, tiny());
    assert_eq!(tables(), db.metrics().files_live);
    check(&db, &model);
}

/// Loads keys `from..to`, every `step`-th.
fn load(
    db: &Db,
    model: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    keys: std::iter::StepBy<std::ops::Range<u64>>,
    value: &str,
) {
    let mut load = db.bulk_load().unwrap();
    for i in keys {
        load.put(&key(i), value.as_bytes()).unwrap();
        model.insert(key(i), value.as_bytes().to_vec());
    }
    load.finish().unwrap();
}

#[test]
fn a_bulk_load_goes_straight_down_and_older_snapshots_do_not_see_it() {
    let (fs, clock, db) = quiet(tiny());
    let mut model = BTreeMap::new();
    load(&db, &mut model, (0..2000).step_by(2), "first load");
    let metrics = db.metrics();
    assert_eq!((metrics.flushes, metrics.compactions), (0, 0));
    assert_eq!(shape(&db)[0], (0, 0), "nothing in L0");
    check(&db, &model);
    // Beside what is there: all of it moves in at the deepest level. Over it: above.
    load(&db, &mut model, (3000..3500).step_by(1), "second load");
    assert_eq!(shape(&db)[0], (0, 0));
    fill(&db, &mut model, 1, 300);
    let (before, old) = (db.snapshot(), model.clone());
    let held = db.scan(ScanRange::all()).unwrap();
    load(&db, &mut model, (0..2000).step_by(3), "third load");
    let seen: BTreeMap<_, _> = before.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
    assert!(seen == old);
    assert!(held.map(Result::unwrap).collect::<BTreeMap<_, _>>() == old);
    for i in (0..2000).step_by(3) {
        assert_eq!(before.get(&key(i)).unwrap().as_deref(), old.get(&key(i)).map(|v| &v[..]), "{i}");
    }
    let backward: Vec<_> = before.scan(ScanRange::all()).unwrap().rev().map(Result::unwrap).collect();
    assert!(backward.into_iter().collect::<BTreeMap<_, _>>() == old);
    check(&db, &model);
    // Writes after it are newer, and compactions keep both apart for the snapshot.
    fill(&db, &mut model, 2, 500);
    db.delete(&key(3)).unwrap();
    model.remove(&key(3));
    db.compact_range(ScanRange::all()).unwrap();
    db.verify().unwrap();
    check(&db, &model);
    let seen: BTreeMap<_, _> = before.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
    assert!(seen == old);
    drop(before);
    load(&db, &mut model, (1..1000).step_by(5), "fourth load");
    db.verify().unwrap();
    let crashed = fs.crash(1, evenkeel::testing::CrashPolicy::DropUnsynced);
    drop(db);
    let db = open_on(&crashed, &clock, tiny());
    check(&db, &model);
    db.verify().unwrap();
}

#[test]
fn a_bulk_load_that_is_not_finished_leaves_nothing() {
    let (fs, clock, db) = quiet(tiny());
    let mut model = BTreeMap::new();
    fill(&db, &mut model, 1, 500);
    db.wait_idle().unwrap();
    let tables = |fs: &SimulatedFileSystem| {
        use evenkeel::fs::FileSystem;
        fs.list(Path::new("/store")).unwrap().iter().filter(|name| name.ends_with(".sst")).count() as u64
    };
    let before = tables(&fs);
    let mut load = db.bulk_load().unwrap();
    for i in 0..1000 {
        load.put(&key(i), &[1; 100]).unwrap();
    }
    assert!(tables(&fs) > before);
    // A record out of order is left out, and the message names both keys.
    let error = load.put(&key(5), b"late").unwrap_err();
    let shown = |i| String::from_utf8(key(i)).unwrap();
    assert_eq!(error.kind(), "InvalidArgument");
    assert!(error.to_string().contains(&shown(5)) && error.to_string().contains(&shown(999)), "{error}");
    assert_eq!(load.put(&vec![b'z'; (64 << 10) + 1], b"").unwrap_err().kind(), "Limit");
    assert_eq!(load.records(), 1000);
    drop(load);
    assert_eq!(tables(&fs), before);
    check(&db, &model);
    db.bulk_load().unwrap().finish().unwrap();
    // A crash in the middle of one: the next open removes what it left.
    let mut load = db.bulk_load().unwrap();
    for i in 0..1000 {
        load.put(&key(i), &[1; 100]).unwrap();
    }
    let crashed = fs.process_kill();
    let again = open_on(&crashed, &clock, tiny());
    assert_eq!(tables(&crashed), again.metrics().files_live);
    check(&again, &model);
    // One whose keyspace goes, and one that finds the disk full.
    let passing = db.create_keyspace("passing", KeyspaceOptions::default()).unwrap();
    let mut lost = passing.bulk_load().unwrap();
    lost.put(b"a", b"b").unwrap();
    db.drop_keyspace("passing").unwrap();
    assert_eq!(lost.finish().unwrap_err().kind(), "InvalidArgument");
    fs.set_free_space(Some(1 << 10));
    let full = (1000..5000).try_for_each(|i| load.put(&key(i), &[1; 100])).unwrap_err();
    assert_eq!(full.kind(), "NoSpace");
    assert_eq!(load.finish().unwrap_err().kind(), "NoSpace");
    fs.set_free_space(None);
    db.wait_idle().unwrap();
    assert_eq!(tables(&fs), db.metrics().files_live);
    check(&db, &model);
}

#[test]
fn a_bulk_load_goes_on_beside_writers_and_jobs() {
    let directory = tempfile::tempdir().unwrap();
    // Room enough that the writers are not slowed.
    let options = Options { workers: 4, memtable_bytes: 64 << 10, memtables: 16, l0_limit: 1000, ..tiny() };
    let db = Db::open(directory.path(), options).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2u64)
        .map(|w| {
            let (db, stop) = (db.clone(), Arc::clone(&stop));
            let write = move || {
                let mut random = Random::new(w);
                let mut written = 0u64;
                while !stop.load(Ordering::Relaxed) || written < 500 {
                    db.put(&key(random.below(4000)), format!("writer {written}").as_bytes()).unwrap();
                    written += 1;
                }
            };
            std::thread::Builder::new().spawn(write).unwrap()
        })
        .collect();
    for round in 0..8u64 {
        let snapshot = db.snapshot();
        let mut load = db.bulk_load().unwrap();
        // Keys of their own among those that the writers write.
        for i in 0..400 {
            load.put(format!("key-{i:05}-load").as_bytes(), format!("load {round}").as_bytes()).unwrap();
        }
        load.finish().unwrap();
        for i in 0..400u64 {
            let key = format!("key-{i:05}-load");
            let before = (round > 0).then(|| format!("load {}", round - 1).into_bytes());
            assert_eq!(db.get(key.as_bytes()).unwrap().as_deref(), Some(format!("load {round}").as_bytes()));
            assert_eq!(snapshot.get(key.as_bytes()).unwrap().as_deref(), before.as_deref());
        }
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    db.wait_idle().unwrap();
    db.verify().unwrap();
    let loaded = db.scan(ScanRange::all()).unwrap().map(Result::unwrap);
    assert_eq!(loaded.filter(|(key, value)| key.ends_with(b"-load") && value == b"load 7").count(), 400);
}

/// What only memory holds is flushed before a store is closed, paused or not.
#[test]
fn closing_a_paused_store_loses_nothing_without_a_log() {
    let (fs, clock, db) = quiet(tiny());
    let unlogged = KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() };
    let keyspace = db.create_keyspace("unlogged", unlogged).unwrap();
    keyspace.put(b"k", b"v").unwrap();
    let paused = db.pause_background().unwrap();
    db.clone().close().unwrap();
    drop((paused, keyspace, db));
    let db = open_on(&fs, &clock, tiny());
    assert_eq!(db.keyspace("unlogged").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}
