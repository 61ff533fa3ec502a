//! Range deletes through the face: one write each, in batches, snapshots, keyspaces and after crashes; what they cost a scan, and
//! tables that they empty.

use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel::fs::{FileSystem, IoClass};
use evenkeel::testing::{CrashPolicy, ManualClock, SimulatedFileSystem};
use evenkeel::{CompressionRule, Db, Durability, Error, Event, Options, Result, ScanRange, WriteBatch};

fn options() -> Options {
    Options {
        memtable_bytes: 1 << 20,
        table_bytes: 16 << 10,
        block_bytes: 512,
        level_base_bytes: 64 << 10,
        l0_trigger: 4,
        cache_bytes: 0,
        memory_bytes: 8 << 20,
        reserve_bytes: 0,
        compression: CompressionRule::None,
        ..Options::default()
    }
}

fn open_with(fs: &SimulatedFileSystem, options: Options, events: &Arc<Mutex<Vec<Event>>>) -> Result<Db> {
    let events = Arc::clone(events);
    Db::builder(Path::new("/store"))
        .options(options)
        .file_system(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::default()))
        .listener(Arc::new(move |event| events.lock().unwrap().push(event.clone())))
        .without_threads()
        .open()
}

fn open(fs: &SimulatedFileSystem) -> Db {
    open_with(fs, options(), &Arc::default()).unwrap()
}

fn store() -> (SimulatedFileSystem, Db) {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs);
    (fs, db)
}

fn keys(scan: evenkeel::Scan) -> String {
    let keys = scan.map(|entry| String::from_utf8(entry.unwrap().0).unwrap());
    keys.collect::<Vec<_>>().join(" ")
}

fn all(db: &Db) -> String {
    keys(db.scan(ScanRange::all()).unwrap())
}

fn put_all(db: &Db, keys: &str) {
    for key in keys.split_whitespace() {
        db.put(key.as_bytes(), b"v").unwrap();
    }
}

fn rest(db: &Db) {
    while db.step(&mut |jobs: &[(usize, _)]| jobs.first().map(|job| job.0)) {}
}

#[test]
fn a_range_is_gone_up_to_its_end_and_may_be_written_again() {
    let (fs, db) = store();
    put_all(&db, "a b c d e");
    db.delete_range(b"b", b"d").unwrap();
    let before = db.snapshot();
    db.put(b"c", b"again").unwrap();
    for round in ["in memory", "in a table", "opened again", "compacted"] {
        assert_eq!(all(&db), "a c d e", "{round}");
        assert_eq!(db.get(b"c").unwrap().as_deref(), Some(&b"again"[..]), "{round}");
        assert_eq!(db.get(b"b").unwrap().as_deref(), None, "{round}");
        let got = db.multi_get(&[b"a", b"b", b"c", b"d"]).unwrap();
        assert_eq!(got.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true], "{round}");
        assert_eq!(keys(before.scan(ScanRange::all()).unwrap()), "a d e", "{round}");
        match round {
            "in memory" => db.flush().unwrap(),
            "opened again" => db.compact_range(ScanRange::all()).unwrap(),
            _ => {}
        }
    }
    drop((before, db));
    let db = open(&fs.process_kill());
    assert_eq!(all(&db), "a c d e");
    db.verify().unwrap();
}

#[test]
fn batches_delete_what_they_have_put_and_nothing_else() {
    let (fs, db) = store();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    put_all(&db, "a b c");
    other.put(b"b", b"stays").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"bb", b"gone at once");
    batch.delete_range(b"b", b"c");
    batch.put(b"bc", b"new");
    batch.delete_range(b"x", b"x");
    batch.delete_range_in(&other, b"c", b"b");
    assert_eq!(batch.len(), 3, "empty ranges are no writes");
    db.write_with(batch, Durability::Sync).unwrap();
    let mut empty = WriteBatch::new();
    empty.delete_range(b"z", b"a");
    db.write(empty).unwrap();
    let sequence = db.metrics().sequence;
    db.delete_range(b"a", b"a").unwrap();
    assert_eq!(db.metrics().sequence, sequence, "nothing was written");
    for db in [db, open(&fs.crash(7, CrashPolicy::DropUnsynced))] {
        assert_eq!(all(&db), "a bc c");
        assert_eq!(keys(db.keyspace("other").unwrap().scan(ScanRange::all()).unwrap()), "b");
    }
}

#[test]
fn bounds_have_the_limits_of_keys() {
    let (_fs, db) = store();
    let largest = vec![0xff; 64 << 10];
    db.put(&largest, b"v").unwrap();
    let after = [&largest[..], &[0]].concat();
    let too_long = [&largest[..], &[0, 0]].concat();
    assert!(matches!(db.delete_range(b"a", &too_long), Err(Error::Limit { what: "key", .. })));
    assert!(matches!(db.delete_range(&after, &too_long), Err(Error::Limit { .. })));
    assert!(db.get(&largest).unwrap().is_some());
    db.delete_range(&largest, &after).unwrap();
    assert!(db.get(&largest).unwrap().is_none());
    db.flush().unwrap();
    assert!(db.get(&largest).unwrap().is_none());
    db.verify().unwrap();
}

fn fill(db: &Db, n: u64) {
    for i in 0..n {
        db.put(format!("{i:06}").as_bytes(), &[b'v'; 64]).unwrap();
    }
    db.flush().unwrap();
    rest(db);
}

/// Twenty thousand covered keys in older tables: a scan goes around them, forward and backward.
#[test]
fn a_scan_goes_around_what_is_covered() {
    let (fs, db) = store();
    fill(&db, 20_000);
    let pinned = db.snapshot();
    let read = || fs.counters().read(IoClass::Client);
    let scanned = |db: &Db| {
        let before = read();
        assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 200);
        let forward = read() - before;
        assert_eq!(db.scan(ScanRange::all()).unwrap().rev().count(), 200);
        (forward, read() - before - forward)
    };
    db.delete_range(b"000100", b"019900").unwrap();
    let in_memory = scanned(&db);
    db.flush().unwrap();
    let in_a_table = scanned(&db);
    for (forward, backward) in [in_memory, in_a_table] {
        assert!(forward < 200_000 && backward < 200_000, "{in_memory:?} and {in_a_table:?} bytes were read");
    }
    let before = read();
    assert_eq!(pinned.scan(ScanRange::all()).unwrap().count(), 20_000);
    assert!(read() - before > 1_000_000, "the keys are still there for the snapshot");
}

/// Tables that hold nothing anyone can see go without being read; a snapshot holds them back, and nothing else.
#[test]
fn tables_under_a_range_delete_go_by_metadata() {
    let fs = SimulatedFileSystem::new();
    let events = Arc::new(Mutex::new(Vec::new()));
    let db = open_with(&fs, options(), &events).unwrap();
    fill(&db, 10_000);
    let files = || fs.list(Path::new("/store")).unwrap().iter().filter(|n| n.ends_with(".sst")).count();
    let (tables, snapshot) = (files(), db.snapshot());
    assert!(tables > 20, "{tables} tables");
    let cursor = db.cursor(ScanRange::all()).unwrap();
    db.delete_range(b"000100", b"009900").unwrap();
    db.flush().unwrap();
    rest(&db);
    assert_eq!(db.metrics().covered_drops, 0, "the snapshot sees them");
    assert_eq!(snapshot.scan(ScanRange::all()).unwrap().count(), 10_000);
    drop(snapshot);
    let read = |class| fs.counters().read(IoClass::Background(class));
    let classes = [evenkeel::fs::Class::L0ToL1, evenkeel::fs::Class::Deep, evenkeel::fs::Class::IntraL0];
    let before: u64 = classes.iter().map(|class| read(*class)).sum();
    // Any change makes the store look again.
    db.put(b"x", b"y").unwrap();
    db.flush().unwrap();
    rest(&db);
    let metrics = db.metrics();
    assert!(metrics.covered_drops as usize >= tables - 4, "{} of {tables} dropped", metrics.covered_drops);
    assert!(metrics.covered_bytes > 400_000, "{} bytes dropped", metrics.covered_bytes);
    let after: u64 = classes.iter().map(|class| read(*class)).sum();
    assert!(after - before < 100_000, "{} bytes were read to drop them", after - before);
    let covered = |event: &Event| matches!(event, Event::Covered { tables, .. } if !tables.is_empty());
    assert!(events.lock().unwrap().iter().any(covered), "an event tells of it");
    // A cursor made before goes on; the files go when it does.
    let mut cursor = cursor;
    cursor.seek(b"005000").unwrap();
    assert_eq!(cursor.key(), b"005000");
    drop(cursor);
    rest(&db);
    assert!(files() <= 8, "{} files are left of {tables}", files());
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 201);
    db.verify().unwrap();
    let stats: String = db.metrics().to_json();
    assert!(stats.contains("\"covered_drops\":"), "{stats}");
}

/// The last trace of a range delete goes with the last that it hides.
#[test]
fn a_compaction_of_everything_leaves_nothing_of_a_range_delete() {
    let (_fs, db) = store();
    fill(&db, 3000);
    db.delete_range(b"000000", b"999999").unwrap();
    db.flush().unwrap();
    assert!(db.metrics().files_live > 0);
    db.compact_range(ScanRange::all()).unwrap();
    rest(&db);
    assert_eq!(db.metrics().files_live, 0, "{}", db.keyspace("default").unwrap().picture());
    assert_eq!(all(&db), "");
    db.verify().unwrap();
}

/// The table with the range tombstone has no entries, so all of those are soon behind the job, and the tombstone is not before its
/// last part.
#[test]
fn a_range_delete_reaches_over_many_parts_of_a_compaction() {
    for free in [None, Some(400 << 10)] {
        let (fs, db) = store();
        fill(&db, 20_000);
        let before = db.snapshot();
        db.delete_range(b"000000", b"999999").unwrap();
        db.flush().unwrap();
        fs.set_free_space(free);
        db.compact_range(ScanRange::all()).unwrap();
        let metrics = db.metrics();
        assert!(metrics.prefix_commits > 3, "{} prefix commits", metrics.prefix_commits);
        assert_eq!((metrics.jobs_discarded, metrics.background_errors), (0, 0), "{free:?}");
        assert_eq!(all(&db), "");
        assert_eq!(before.scan(ScanRange::all()).unwrap().count(), 20_000);
        fs.set_free_space(None);
        db.verify().unwrap();
    }
}

#[test]
fn a_damaged_block_of_range_tombstones_is_corruption() {
    let (fs, db) = store();
    put_all(&db, "a b c");
    db.delete_range(b"b", b"bzzzz").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let name = fs.list(Path::new("/store")).unwrap().into_iter().find(|n| n.ends_with(".sst")).unwrap();
    let path = Path::new("/store").join(&name);
    let mut bytes = fs.contents(&path).unwrap();
    let at = bytes.windows(5).position(|w| w == b"bzzzz").unwrap();
    bytes[at] ^= 1;
    fs.set_contents(&path, &bytes).unwrap();
    let db = open(&fs);
    for wrong in
        [db.get(b"b").err(), db.scan(ScanRange::all()).unwrap().find_map(Result::err), db.verify().err()]
    {
        match wrong {
            Some(Error::Corruption { file, .. }) => assert!(file.ends_with(&name), "{}", file.display()),
            other => panic!("{other:?} instead of corruption"),
        }
    }
}

/// Many range deletes with reads between them are not the work of all pairs: this would take minutes.
#[test]
fn fifty_thousand_range_deletes_are_soon_done() {
    let fs = SimulatedFileSystem::new();
    let db = open_with(
        &fs,
        Options { memtable_bytes: 64 << 20, memory_bytes: 512 << 20, ..options() },
        &Arc::default(),
    )
    .unwrap();
    let key = |i: u32| i.to_be_bytes();
    for i in 0..50_000u32 {
        db.put(&key(i), b"v").unwrap();
        db.delete_range(&key(i), &key(200_000 - i)).unwrap();
        assert!(db.get(&key(i)).unwrap().is_none());
    }
    db.put(&key(60_000), b"v").unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1);
    db.flush().unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1);
    db.verify().unwrap();
}
