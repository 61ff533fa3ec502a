//! What a failure may do, and what it may not (`docs/durability.md`, C3, C7-C9, C13): full disks at every size, directories and
//! files that cannot be made or synced, reads that fail. Panics and listeners are in `panics`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{
    CallKind, CrashPolicy, Fault, FaultError, FaultKind, ManualClock, SimulatedFileSystem,
};
use evenkeel::{Builder, Db, Durability, KeyspaceOptions, Options, Result, ScanRange, WriteBatch};

use super::trust::layer;

pub const DIR: &str = "/store";

pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn options() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        cache_bytes: 0,
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

pub fn builder(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>) -> Builder {
    let builder = Db::builder(DIR).options(options()).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::clone(clock) as _).without_threads()
}

pub fn open(fs: &SimulatedFileSystem) -> Result<Db> {
    builder(fs, &Arc::default()).open()
}

pub fn scanned(db: &Db) -> Content {
    db.scan(ScanRange::all()).unwrap().map(|entry| entry.unwrap()).collect()
}

pub fn entry(n: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("{:03}", n % 300).into_bytes(), format!("{n:0>100}").into_bytes())
}

/// A write, which is in `content` if and only if it succeeds.
pub fn put(db: &Db, n: u64, durability: Durability, content: &mut Content) -> Result<()> {
    let (key, value) = entry(n);
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    let outcome = db.write_with(batch, durability);
    if outcome.is_ok() {
        content.insert(key, value);
    } else {
        assert_eq!(
            db.get(&key).unwrap().as_deref(),
            content.get(&key).map(|v| &v[..]),
            "a failed write is seen"
        );
    }
    outcome
}

pub fn step(db: &Db, clock: &ManualClock) {
    clock.advance(Duration::from_millis(200));
    db.step(&mut |jobs| jobs.first().map(|job| job.0));
}

pub fn mode(n: u64) -> Durability {
    match n % 7 {
        0 => Durability::Sync,
        1 | 2 => Durability::Interval(Duration::from_millis(300)),
        _ => Durability::Os,
    }
}

/// The workload whose peak is cut short: writes in every mode, keyspaces made, flushes, compactions. Answers how many calls found
/// no space.
fn work(db: &Db, clock: &ManualClock, content: &mut Content) -> u64 {
    let mut refused = 0;
    let mut allowed = |outcome: Result<()>| {
        if let Err(error) = outcome {
            assert_eq!(error.kind(), "NoSpace", "{error}");
            refused += 1;
        }
    };
    for n in 0..700 {
        allowed(put(db, n * 7, mode(n), content));
        step(db, clock);
        match n {
            100 => allowed(db.create_keyspace("other", KeyspaceOptions::default()).map(drop)),
            200 => allowed(db.set_strategy("tier")),
            300 => allowed(db.flush()),
            _ => {}
        }
    }
    refused
}

fn used(fs: &SimulatedFileSystem, limit: u64) -> u64 {
    limit - fs.free_space(Path::new(DIR)).unwrap()
}

#[test]
fn a_disk_full_at_any_size_loses_nothing_and_writes_resume() {
    const LIMIT: u64 = 1 << 30;
    let layer = layer("disk-full");
    // Finer than the 4 KiB that a disk gives out.
    let finely = if layer.is_full() { 512 } else { 2 << 10 };
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    fs.set_free_space(Some(LIMIT));
    let db = builder(&fs, &clock).open().unwrap();
    let mut content = Content::new();
    let mut peak = 0;
    for n in 0..700 {
        put(&db, n * 7, mode(n), &mut content).unwrap();
        step(&db, &clock);
        peak = peak.max(used(&fs, LIMIT));
    }
    drop(db);
    let (mut points, mut full, mut lost, mut resumed) = (0, 0, 0, 0);
    for quota in (0..=peak).step_by(finely) {
        let mut attempt = layer.attempt(0);
        attempt.doing(format_args!("{quota} bytes"));
        layer.progress(quota, peak);
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        fs.set_free_space(Some(quota));
        let db = builder(&fs, &clock).open().unwrap();
        let mut content = Content::new();
        full += u64::from(work(&db, &clock, &mut content) > 0);
        lost += u64::from(scanned(&db) != content);
        // Killed while the disk is full, it opens on the full disk and answers; with space it is whole again.
        let killed = fs.process_kill();
        killed.set_free_space(Some(0));
        let again = open(&killed).unwrap_or_else(|error| panic!("{quota} bytes: {error}"));
        lost += u64::from(scanned(&again) != content);
        drop(again);
        // Space returns to the running store.
        fs.set_free_space(None);
        for _ in 0..4 {
            step(&db, &clock);
        }
        let goes_on = (1000..1100).try_for_each(|n| {
            step(&db, &clock);
            put(&db, n, mode(n), &mut content)
        });
        let goes_on = goes_on.and_then(|()| db.flush()).and_then(|()| db.wait_idle());
        resumed += u64::from(goes_on.is_ok());
        assert!(goes_on.is_ok(), "{quota} bytes, then all: {goes_on:?}");
        db.verify().unwrap();
        lost += u64::from(scanned(&db) != content);
        drop(db);
        lost += u64::from(scanned(&open(&fs.crash(quota, CrashPolicy::DropUnsynced)).unwrap()) != content);
        points += 1;
        assert_eq!(lost, 0, "{quota} bytes");
    }
    layer.report(format_args!("points={points} full={full} lost={lost} resumed={resumed} peak_bytes={peak}"));
    assert!(points > 20 && full > points / 2 && resumed == points);
}

/// A store with tables, and with writes that are in the log only.
pub fn example() -> (SimulatedFileSystem, Content) {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::default());
    let db = builder(&fs, &clock).open().unwrap();
    let mut content = Content::new();
    for n in 0..500 {
        put(&db, n * 7, Durability::Os, &mut content).unwrap();
        step(&db, &clock);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for n in 500..600 {
        put(&db, n * 7, Durability::Os, &mut content).unwrap();
    }
    let killed = fs.process_kill();
    (killed, content)
}

#[test]
fn a_store_opens_on_a_full_disk_and_takes_writes_once_there_is_space() {
    let (fs, mut content) = example();
    fs.set_free_space(Some(0));
    let clock = Arc::default();
    for _ in 0..3 {
        let db = builder(&fs, &clock).open().unwrap();
        assert_eq!(scanned(&db), content);
        assert_eq!(db.snapshot().get(b"007").unwrap().as_deref(), content.get(&b"007"[..]).map(|v| &v[..]));
        for _ in 0..5 {
            step(&db, &clock);
        }
        assert_eq!(put(&db, 1, Durability::Os, &mut content).unwrap_err().kind(), "NoSpace");
        assert_eq!(db.flush().unwrap_err().kind(), "NoSpace");
        assert_eq!(db.sync().unwrap_err().kind(), "NoSpace");
        assert_eq!(db.wait_idle().unwrap_err().kind(), "NoSpace");
        assert_eq!(db.set_strategy("tier").unwrap_err().kind(), "NoSpace");
        assert_eq!(db.create_keyspace("x", KeyspaceOptions::default()).unwrap_err().kind(), "NoSpace");
        // It may be closed and opened again, as often as it pleases.
        db.close().unwrap();
    }
    // A little more at a time, so that each step of the way finds no space once.
    let db = builder(&fs, &clock).open().unwrap();
    for free in (0..200).map(|i| i * 512) {
        // A flush that failed before has rested, as little as the space has grown.
        clock.advance(Duration::from_secs(4));
        fs.set_free_space(Some(free));
        step(&db, &clock);
        assert_eq!(scanned(&db), content, "{free} bytes free");
        let killed = fs.process_kill();
        assert_eq!(scanned(&open(&killed).unwrap()), content, "{free} bytes free, then killed");
        if put(&db, free, Durability::Sync, &mut content).is_ok() {
            break;
        }
    }
    fs.set_free_space(None);
    // A compaction that was refused is tried again within half a second.
    for _ in 0..3 {
        step(&db, &clock);
    }
    put(&db, 2, Durability::Sync, &mut content).unwrap();
    db.set_strategy("tier").unwrap();
    db.wait_idle().unwrap();
    db.verify().unwrap();
    drop(db);
    let db = open(&fs.crash(3, CrashPolicy::DropUnsynced)).unwrap();
    assert_eq!(scanned(&db), content);
    assert_eq!(db.keyspace("default").unwrap().strategy_text(), "tier");
}

/// What is left of a recovery writes tables, a manifest and CURRENT: all of that is background work.
#[test]
fn a_pause_holds_the_end_of_a_recovery_too() {
    let (fs, mut content) = example();
    fs.set_free_space(Some(0));
    let clock = Arc::default();
    let db = builder(&fs, &clock).open().unwrap();
    let paused = db.pause_background().unwrap();
    fs.set_free_space(None);
    step(&db, &clock);
    assert_eq!(put(&db, 1, Durability::Os, &mut content).unwrap_err().kind(), "NoSpace");
    drop(paused);
    step(&db, &clock);
    put(&db, 1, Durability::Os, &mut content).unwrap();
    assert_eq!(scanned(&db), content);
}

fn fault(kind: FaultKind, path: &str, error: FaultError, sticky: bool) -> Fault {
    Fault { kind, path_contains: path.to_owned(), nth: 0, error, sticky }
}

/// Too many open files, for instance. Nothing is lost by it, so nothing ends.
#[test]
fn a_log_that_cannot_be_made_refuses_writes_until_it_can() {
    let (fs, mut content) = example();
    let clock = Arc::default();
    let db = builder(&fs, &clock).open().unwrap();
    fs.inject(fault(FaultKind::Create, ".log", FaultError::Eio, true));
    let error =
        (0..2000).find_map(|n| put(&db, n, Durability::Os, &mut content).err()).expect("the log is full");
    assert_eq!(error.kind(), "Io");
    assert!(error.to_string().contains(".log"), "{error}");
    assert_eq!(put(&db, 1, Durability::Sync, &mut content).unwrap_err().kind(), "Io", "and not `Poisoned`");
    step(&db, &clock);
    fs.clear_faults();
    for n in 0..500 {
        put(&db, n, mode(n), &mut content).unwrap();
        step(&db, &clock);
    }
    drop(db);
    assert_eq!(scanned(&open(&fs.process_kill()).unwrap()), content);
}

#[test]
fn a_directory_that_cannot_be_synced_makes_the_store_read_only() {
    let (fs, mut content) = example();
    let db = open(&fs).unwrap();
    put(&db, 1, Durability::Sync, &mut content).unwrap();
    // The first sync below it is that of the new OPTIONS, which alone would be no reason; the second one is its own.
    fs.inject(Fault { nth: 1, ..fault(FaultKind::Sync, DIR, FaultError::Eio, true) });
    assert_eq!(db.set_strategy("tier").unwrap_err().kind(), "Io");
    fs.clear_faults();
    assert_eq!(put(&db, 2, Durability::Os, &mut content).unwrap_err().kind(), "Poisoned");
    assert_eq!(db.set_strategy("full").unwrap_err().kind(), "Poisoned");
    assert_eq!(scanned(&db), content);
    drop(db);
    for policy in CrashPolicy::ALL {
        assert_eq!(scanned(&open(&fs.crash(5, policy)).unwrap()), content, "{policy:?}");
    }
}

/// The work is done again, into another file: a number that a failed file had is never given out again.
#[test]
fn a_table_that_cannot_be_synced_is_thrown_away_and_its_number_with_it() {
    for (nth, losing) in (0..6).flat_map(|nth| [(nth, false), (nth, true)]) {
        let (fs, mut content) = example();
        let clock = Arc::default();
        let db = builder(&fs, &clock).open().unwrap();
        let calls = fs.call_count() as usize;
        let kind = if losing { FaultKind::SyncLosing } else { FaultKind::Sync };
        fs.inject(Fault { nth, ..fault(kind, ".sst", FaultError::Eio, false) });
        for n in 0..600 {
            put(&db, n, Durability::Os, &mut content).unwrap_or_else(|e| {
                // The writer that waits for the flush is told; the next try of the lane succeeds.
                assert_eq!(e.kind(), "Io");
                step(&db, &clock);
            });
            step(&db, &clock);
        }
        let _ = db.flush();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(fs.faults_fired(), 1);
        db.verify().unwrap();
        assert_eq!(scanned(&db), content);
        let made = fs.calls().split_off(calls).into_iter().filter(|call| call.kind == CallKind::Create);
        let names: Vec<_> = made.map(|call| call.path).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a number was used twice");
        drop(db);
        assert_eq!(scanned(&open(&fs.crash(nth, CrashPolicy::DropUnsynced)).unwrap()), content);
    }
}

/// Every failed read is an error of the call that met it, names the file, and heals.
#[test]
fn a_failed_read_is_never_taken_for_an_answer() {
    let (fs, content) = example();
    let clock = Arc::default();
    let db = builder(&fs, &clock).open().unwrap();
    db.flush().unwrap();
    let keys: Vec<&Vec<u8>> = content.keys().collect();
    let (mut failed, mut right) = (0, 0);
    for nth in 0..40 {
        fs.inject(Fault { nth, ..fault(FaultKind::Read, ".sst", FaultError::Eio, false) });
        for key in &keys {
            match db.get(key) {
                Ok(value) => {
                    assert_eq!(value.as_deref(), content.get(*key).map(|v| &v[..]));
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), "Io");
                    assert!(error.to_string().contains(".sst"), "{error}");
                    failed += 1;
                }
            }
        }
        fs.clear_faults();
        fs.inject(Fault { nth, ..fault(FaultKind::Read, ".sst", FaultError::Eio, false) });
        let scan: Result<Content> = db.scan(ScanRange::all()).unwrap().collect();
        match scan {
            Ok(found) => assert_eq!(found, content, "read {nth}"),
            Err(error) => {
                assert_eq!(error.kind(), "Io");
                failed += 1;
            }
        }
        fs.clear_faults();
        // A compaction that meets one is given up, with its inputs kept.
        fs.inject(Fault { nth, ..fault(FaultKind::Read, ".sst", FaultError::Eio, false) });
        let _ = db.compact_range(ScanRange::all());
        fs.clear_faults();
        clock.advance(Duration::from_secs(1));
        assert_eq!(scanned(&db), content, "after a compaction that failed at read {nth}");
    }
    assert!(failed > 40 && right > 1000, "{failed} {right}");
    db.wait_idle().unwrap();
    db.verify().unwrap();
}

fn files(fs: &SimulatedFileSystem, prefix: &str) -> Vec<String> {
    fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn an_options_file_that_is_gone_is_not_silently_done_without() {
    let (fs, content) = example();
    let db = open(&fs).unwrap();
    db.set_strategy("tier").unwrap();
    db.close().unwrap();
    let [options] = &files(&fs, "OPTIONS-")[..] else { panic!("one OPTIONS file") };
    fs.remove(&Path::new(DIR).join(options)).unwrap();
    let fs = fs.process_kill();
    let error = open(&fs).unwrap_err();
    assert_eq!(error.kind(), "Corruption");
    assert!(error.to_string().contains(options) && error.to_string().contains("--strategy"), "{error}");
    // As the message says: a strategy given goes on, and an event tells.
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&told);
    let given = Options { strategy: Some("full".into()), ..self::options() };
    let db = builder(&fs, &Arc::default())
        .options(given)
        .listener(Arc::new(move |event| noted.lock().unwrap().push(event.to_string())))
        .open()
        .unwrap();
    assert!(told.lock().unwrap().iter().any(|event| event.contains(options)), "{told:?}");
    assert_eq!(scanned(&db), content);
    drop(db);
    assert_eq!(open(&fs.process_kill()).unwrap().keyspace("default").unwrap().strategy_text(), "full");
}

/// Settings and the change they belong to are one record: wherever it fails, neither holds.
#[test]
fn a_change_of_settings_that_cannot_be_kept_is_not_made() {
    let places = [(FaultKind::Create, "tmp"), (FaultKind::Write, "tmp"), (FaultKind::Sync, "tmp")];
    let later = [(FaultKind::Entry, "OPTIONS"), (FaultKind::Write, "MANIFEST")];
    for (kind, path) in places.into_iter().chain(later) {
        let (fs, content) = example();
        let db = open(&fs).unwrap();
        db.create_keyspace("stays", KeyspaceOptions::default()).unwrap();
        let before = db.keyspace("default").unwrap().strategy_text();
        fs.inject(fault(kind, path, FaultError::Enospc, true));
        let check =
            |outcome: Result<()>| assert_eq!(outcome.unwrap_err().kind(), "NoSpace", "{kind:?} {path}");
        check(db.set_strategy("tier"));
        check(db.create_keyspace("new", KeyspaceOptions::default()).map(drop));
        check(db.drop_keyspace("stays"));
        check(db.set_option("memtables", "7"));
        fs.clear_faults();
        let same = |db: &Db| {
            assert_eq!(db.keyspaces(), ["default", "stays"]);
            assert_eq!(db.keyspace("default").unwrap().strategy_text(), before);
            assert_eq!(scanned(db), content);
        };
        same(&db);
        same(&open(&fs.process_kill()).unwrap());
        db.set_strategy("tier").unwrap();
        db.create_keyspace("new", KeyspaceOptions::default()).unwrap();
        drop(db);
        let db = open(&fs.crash(1, CrashPolicy::DropUnsynced)).unwrap();
        assert_eq!(db.keyspaces(), ["default", "new", "stays"]);
        assert_eq!(db.keyspace("default").unwrap().strategy_text(), "tier");
        assert_eq!(files(&fs.process_kill(), "OPTIONS-").len(), 1);
    }
}
