//! Deletes that are gone in time: no table, no trimmed part and no log holds the bytes of what was deleted, however idle the
//! store, whatever the strategy does with tables on their way down.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{Fault, FaultError, FaultKind, ManualClock, SimulatedFileSystem};
use evenkeel::{Db, KeyspaceOptions, Options, ScanRange};

/// In what time deletes are to be gone.
const TTL: Duration = Duration::from_secs(3600);
/// What the values that are deleted have in them, and no other.
const VICTIM: &[u8] = b"-VICTIM-";

const SIZES: &str = "size: l0=32KiB base=48KiB ratio=3 table=8KiB";

fn strategies() -> [String; 5] {
    [
        "when=ttl:1h,saturation how=runs:1 much=file which=expired,least-overlap-parent; L0: when=ttl:1h,runs how=runs:4 much=runs",
        "when=ttl:1h,runs,saturation how=runs:3 much=runs",
        "when=saturation,ttl:1h how=runs:1 much=level",
        "when=ttl:1h,runs,saturation how=runs:3:fill much=files:16KiB which=coldest; last: how=runs:1",
        "when=saturation,ttl:1h how=runs:1 much=file which=round-robin; size: sizes=fixed",
    ]
    .map(|text| if text.contains("size:") { format!("{text} {}", &SIZES[6..]) } else { format!("{text}; {SIZES}") })
}

fn create(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>, strategy: &str) -> Db {
    let db = open(fs, clock);
    db.set_strategy(strategy).unwrap();
    db
}

fn open(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>) -> Db {
    let options = Options {
        memtable_bytes: 16 << 10,
        block_bytes: 1 << 10,
        reserve_bytes: 0,
        cache_bytes: 1 << 20,
        ..Options::default()
    };
    Db::builder("/store")
        .options(options)
        .set("compression", "none")
        .file_system(Arc::new(fs.clone()))
        .clock(Arc::clone(clock) as _)
        .without_threads()
        .open()
        .unwrap()
}

/// Background work until there is none. At first all jobs are asked to yield every so often, so that tables are trimmed.
fn work(db: &Db) {
    for n in 1..100_000 {
        if n < 200 && n % 7 == 0 {
            db.request_yields();
        }
        if !db.step(&mut |jobs| jobs.first().map(|(i, _)| *i)) {
            return;
        }
    }
    panic!("the background does not come to rest");
}

/// Lets time pass in which nobody does anything.
fn idle(db: &Db, clock: &ManualClock, time: Duration) {
    for _ in 0..60 {
        clock.advance(time / 60);
        work(db);
    }
}

/// Tables and logs that hold `bytes`.
fn files_with(fs: &SimulatedFileSystem, bytes: &[u8]) -> Vec<String> {
    let dir = Path::new("/store");
    let names = fs.list(dir).unwrap();
    let holds = |name: &String| {
        let kept = name.ends_with(".sst") || name.ends_with(".log");
        kept && fs.contents(&dir.join(name)).is_some_and(|c| c.windows(bytes.len()).any(|w| w == bytes))
    };
    names.into_iter().filter(holds).collect()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{:06}", n * 7919 % 10_000).into_bytes()
}

fn is_victim(n: u32) -> bool {
    n.is_multiple_of(9)
}

/// Three thousand keys, with what is deleted later among them, on every level.
fn fill(db: &Db) {
    for n in 0..3000 {
        let word = if is_victim(n) { VICTIM } else { b"-stays--" };
        db.put(&key(n), &[&n.to_be_bytes(), word, &[7; 40]].concat()).unwrap();
        if n % 50 == 0 {
            work(db);
        }
    }
}

fn delete_victims(db: &Db) {
    for n in (0..3000).filter(|n| is_victim(*n)) {
        db.delete(&key(n)).unwrap();
    }
}

fn oldest_deletes(db: &Db) -> Vec<u64> {
    let metrics = db.metrics();
    let levels = metrics.keyspaces.iter().flat_map(|k| &k.levels);
    levels.map(|level| level.oldest_tombstone_ms).filter(|ms| *ms > 0).collect()
}

fn check_gone(db: &Db, fs: &SimulatedFileSystem, what: &str) {
    assert_eq!(files_with(fs, VICTIM), Vec::<String>::new(), "{what}");
    assert_eq!(oldest_deletes(db), Vec::<u64>::new(), "{what}: tombstones are left");
    for n in 0..3000 {
        assert_eq!(db.get(&key(n)).unwrap().is_some(), !is_victim(n), "{what}: key {n}");
    }
}

#[test]
fn an_idle_store_is_rid_of_every_delete_in_time() {
    for (strategy, workers) in strategies().into_iter().flat_map(|s| [(s.clone(), "1"), (s, "2")]) {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        clock.advance(Duration::from_secs(1_000_000));
        let db = create(&fs, &clock, &strategy);
        db.set_option("workers", workers).unwrap();
        // Another keyspace, which wants nothing of the kind, has its writes in the same log.
        let other = db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
        other.put(b"a", b"b").unwrap();
        fill(&db);
        assert!(!files_with(&fs, VICTIM).is_empty(), "nothing to be found: the test is blind");
        delete_victims(&db);
        idle(&db, &clock, TTL);
        check_gone(&db, &fs, &format!("{workers} workers: {strategy}"));
        assert_eq!(&*other.get(b"a").unwrap().unwrap(), b"b");
        db.close().unwrap();
    }
}

#[test]
fn the_clock_goes_on_while_the_store_is_killed_and_opened_again() {
    for strategy in strategies() {
        let (mut fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        clock.advance(Duration::from_secs(1_000_000));
        let db = create(&fs, &clock, &strategy);
        fill(&db);
        delete_victims(&db);
        idle(&db, &clock, TTL / 100);
        fs = fs.process_kill();
        drop(db);
        clock.advance(TTL / 3);
        let db = open(&fs, &clock);
        idle(&db, &clock, TTL / 3);
        fs = fs.process_kill();
        drop(db);
        let db = open(&fs, &clock);
        idle(&db, &clock, TTL * 33 / 100);
        check_gone(&db, &fs, &strategy);
    }
}

/// Each attempt would leave a table of what had come since the one before.
#[test]
fn where_no_log_can_be_made_memory_is_not_cut_to_pieces() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    clock.advance(Duration::from_secs(1_000_000));
    let db = create(&fs, &clock, &strategies()[0]);
    fill(&db);
    let path_contains = ".log".to_owned();
    let no_log =
        Fault { kind: FaultKind::Create, path_contains, nth: 0, error: FaultError::Enospc, sticky: true };
    fs.inject(no_log);
    delete_victims(&db);
    clock.advance(TTL / 2);
    work(&db);
    let before = db.metrics().flushes;
    for _ in 0..40 {
        db.delete(b"other").unwrap();
        clock.advance(TTL);
        work(&db);
    }
    // As many as there were logs ready.
    let flushes = db.metrics().flushes - before;
    assert!(flushes <= 4, "{flushes} flushes of one write each");
    fs.clear_faults();
    idle(&db, &clock, TTL);
    check_gone(&db, &fs, "once there was a log");
    db.close().unwrap();
}

#[test]
fn a_snapshot_is_waited_for_and_no_longer() {
    let [strategy, ..] = strategies();
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    clock.advance(Duration::from_secs(1_000_000));
    let db = create(&fs, &clock, &strategy);
    fill(&db);
    let snapshot = db.snapshot();
    delete_victims(&db);
    idle(&db, &clock, TTL * 2);
    assert_eq!(snapshot.get(&key(9)).unwrap().map(|v| v[4..12].to_vec()), Some(VICTIM.to_vec()));
    drop(snapshot);
    idle(&db, &clock, Duration::from_secs(120));
    check_gone(&db, &fs, "after the snapshot");
}

/// Writes go on all the time, of other keys, and the log is not left alone either.
#[test]
fn a_busy_store_is_rid_of_every_delete_in_time() {
    for strategy in strategies() {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        clock.advance(Duration::from_secs(1_000_000));
        let db = create(&fs, &clock, &strategy);
        fill(&db);
        delete_victims(&db);
        for n in 0..600u32 {
            clock.advance(TTL / 600);
            db.put(&format!("other{:03}", n % 97).into_bytes(), &[5; 60]).unwrap();
            work(&db);
        }
        check_gone(&db, &fs, &strategy);
    }
}

/// Clients use three quarters of the device all the time, and all of the deepest level is due at once: `paced` plans for what has no place
/// yet, and is through in time, not at once.
#[test]
fn a_plan_has_what_is_due_together_done_in_time() {
    const KEYS: u64 = 30_000;
    let ttl = Duration::from_secs(80);
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1_000_000));
    let options = Options {
        schedule: "paced".to_owned(),
        device_bytes_per_sec: 20 << 20,
        block_bytes: 64 << 10,
        cache_bytes: 0,
        reserve_bytes: 0,
        workers: 1,
        ..Options::default()
    };
    let db = Db::builder("/store").options(options).set("compression", "none");
    let db = db.file_system(Arc::new(SimulatedFileSystem::new())).clock(Arc::clone(&clock) as _);
    let db = db.without_threads().open().unwrap();
    db.set_strategy(
        "when=ttl:80s,saturation how=runs:1 much=file which=expired,least-overlap-parent; size: table=512KiB",
    )
    .unwrap();
    let key = |n: u64| n.to_be_bytes();
    for n in 0..KEYS {
        db.put(&key(n), &[7; 1000]).unwrap();
    }
    // With a snapshot open the tombstones stay in the deepest level.
    let snapshot = db.snapshot();
    for n in (0..KEYS).step_by(100) {
        db.delete(&key(n)).unwrap();
    }
    db.compact_range(ScanRange::all()).unwrap();
    drop(snapshot);
    let mut gone_after = None;
    for step in 0..8000_u32 {
        for get in 0..2_u64 {
            let n = (u64::from(step) * 2 + get) * 7919 % KEYS;
            assert_eq!(db.get(&key(n)).unwrap().is_some(), !n.is_multiple_of(100));
        }
        clock.advance(Duration::from_millis(10));
        while db.step(&mut |jobs| jobs.first().map(|(i, _)| *i)) {}
        if oldest_deletes(&db).is_empty() {
            gone_after = Some(Duration::from_millis(10) * (step + 1));
            break;
        }
    }
    let gone_after = gone_after.expect("all deletes are gone in their time");
    assert!(gone_after > ttl * 3 / 4 + Duration::from_secs(2), "{gone_after:?}: no plan was needed");
}

#[test]
fn staleness_moves_every_table_on_in_time() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    clock.advance(Duration::from_secs(1_000_000));
    let strategy =
        format!("when=staleness:100s,saturation how=runs:1 much=file which=oldest; {SIZES} sizes=fixed");
    let db = create(&fs, &clock, &strategy);
    fill(&db);
    db.flush().unwrap();
    work(&db);
    let above_last = |db: &Db| {
        let metrics = db.metrics();
        let levels = &metrics.keyspaces.first().unwrap().levels;
        let deepest = levels.iter().rposition(|level| level.bytes > 0).unwrap_or(0);
        levels.iter().take(deepest).map(|level| level.bytes).sum::<u64>()
    };
    assert!(above_last(&db) > 0, "nothing has to move");
    // A level takes a tenth longer than the limit at most, and there are three above the last.
    idle(&db, &clock, Duration::from_secs(330));
    assert_eq!(above_last(&db), 0);
}
