//! What a store tells about itself in files: LOG, STATS and IDENTITY, on a simulated disk and a clock that stands still.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{Fault, FaultError, FaultKind, ManualClock, SimulatedFileSystem};
use evenkeel::{Db, Durability, Options, WriteBatch};

const DIR: &str = "/store";

fn options() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        table_bytes: 8 << 10,
        level_base_bytes: 32 << 10,
        ..Options::default()
    }
}

fn open(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>, options: Options) -> Db {
    let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::clone(clock) as _).without_threads().logs_in_steps().open().unwrap()
}

fn text(fs: &SimulatedFileSystem, name: &str) -> String {
    String::from_utf8(fs.contents(&Path::new(DIR).join(name)).unwrap_or_default()).unwrap()
}

fn files(fs: &SimulatedFileSystem, name: &str) -> Vec<String> {
    fs.list(Path::new(DIR)).unwrap().into_iter().filter(|file| file.starts_with(name)).collect()
}

fn work(db: &Db) {
    for i in 0..1000u32 {
        db.put(&(i * 7919 % 1000).to_be_bytes(), &[7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

#[test]
fn log_tells_what_an_operator_greps_for() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock, options());
    work(&db);
    db.set_strategy("tier").unwrap();
    db.set_option("memtables", "5").unwrap();
    db.close().unwrap();
    let log = text(&fs, "LOG");
    for words in [
        "opens /store, identity ",
        "Option memtable_bytes = 8192",
        "Keyspace default: 0 tables, strategy 1-leveling",
        "Opened with 0 tables of 0 B, sequence 0",
        "[default] Flushing 8.",
        "because the memtable is full",
        "[default] Flushed to 1 table, ",
        "[default] Compacting, job 1, l0-to-l1, ",
        "[default] Compacted, job 1, l0-to-l1, L0 to L1: ",
        "[default] Strategy changed to tier",
        "Option memtables changed from 2 to 5",
        "Closed; the log is sealed",
    ] {
        assert!(log.contains(words), "no `{words}` in {log}");
    }
    for line in log.lines() {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.len() == 24 && time.starts_with("1970-01-01T00:00:") && time.ends_with('Z'), "{line}");
        if let Some(json) = rest.strip_prefix("EVENT_LOG_v1 ") {
            assert!(json.starts_with("{\"time_micros\":") && json.ends_with('}'), "{line}");
        }
    }
    let events = |name: &str| log.matches(&format!("\"event\":\"{name}\"")).count();
    assert_eq!(events("flush_started"), events("flush_finished"));
    assert!(events("flush_finished") > 2 && events("compaction_finished") > 0);
    // The next open begins a LOG of its own, and tells what it found.
    let db = open(&fs, &clock, options());
    work(&db);
    db.close().unwrap();
    assert_eq!(text(&fs, "LOG.old.000001"), log);
    assert!(text(&fs, "LOG").contains("Keyspace default: "), "{}", text(&fs, "LOG"));
}

#[test]
fn an_open_and_a_close_alone_write_no_file() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    open(&fs, &clock, options()).close().unwrap();
    assert_eq!((files(&fs, "LOG"), files(&fs, "STATS")), (vec![], vec![]));
    let identity = text(&fs, "IDENTITY");
    assert_eq!(identity.len(), 37, "{identity:?}");
    let db = open(&fs, &clock, options());
    assert_eq!(db.property("evenkeel.identity").unwrap(), identity.trim_end());
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    assert_eq!(text(&fs, "IDENTITY"), identity, "it is given once");
}

#[test]
fn stats_has_a_line_a_second_while_something_changes() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock, options());
    let second = |writes: u32| {
        clock.advance(Duration::from_secs(1));
        (0..writes).for_each(|i| db.put(&i.to_be_bytes(), b"v").unwrap());
        db.step(&mut |_| None);
        text(&fs, "STATS").lines().count()
    };
    assert_eq!([second(3), second(5), second(0), second(0), second(2)], [1, 2, 2, 2, 3]);
    let stats = text(&fs, "STATS");
    let last = stats.lines().last().unwrap();
    assert!(
        last.starts_with("{\"time\":\"1970-01-01T00:00:05.000Z\",\"time_ms\":5000,\"metrics\":{"),
        "{last}"
    );
    assert!(last.contains("\"writes\":10,"), "{last}");
    // A sign of life each minute.
    clock.advance(Duration::from_secs(61));
    assert_eq!(second(0), 4);
    db.close().unwrap();
}

#[test]
fn a_log_that_cannot_be_written_costs_the_store_nothing() {
    for kind in [FaultKind::Create, FaultKind::Write, FaultKind::Entry] {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        let small = Options { log_bytes: 4096, ..options() };
        let db = open(&fs, &clock, small);
        for name in ["LOG", "STATS"] {
            let path_contains = format!("{DIR}/{name}");
            fs.inject(Fault { kind, path_contains, nth: 0, error: FaultError::Eio, sticky: true });
        }
        work(&db);
        clock.advance(Duration::from_secs(2));
        work(&db);
        assert_eq!(db.get(&7u32.to_be_bytes()).unwrap().as_deref(), Some(&[7; 100][..]));
        let told = db.control("events").unwrap();
        assert_eq!(told.matches("\"file\":\"LOG\"").count(), 1, "told once: {told}");
        assert!(db.metrics().log_failures >= 1 && db.metrics().background_errors == 0);
        db.close().unwrap();
        fs.clear_faults();
        let db = open(&fs, &clock, options());
        db.verify().unwrap();
        assert_eq!(db.scan(evenkeel::ScanRange::all()).unwrap().count(), 1000);
    }
}

#[test]
fn a_sync_is_charged_to_the_operations_that_wait_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { slow_us: 1, ..Options::default() };
    let db = Db::open(directory.path(), options).unwrap();
    let mut slow = db.metrics().slow;
    // Where a disk is memory it takes many of them to be worth advice.
    for i in 0..1_000_000u32 {
        let mut batch = WriteBatch::new();
        batch.put(&i.to_be_bytes(), b"v");
        db.write_with(batch, Durability::Sync).unwrap();
        if i % 200 == 199 {
            slow = db.metrics().slow;
        }
        if slow.nanos[1] > 20_000_000 {
            break;
        }
    }
    let [queue, sync, stall, ..] = slow.nanos;
    assert!(slow.count > 0 && sync > 0, "{slow:?}");
    assert_eq!((queue, stall), (0, 0), "nobody else writes");
    let told = db.control("slow").unwrap();
    assert!(told.contains("commit-sync") && told.contains("each commit waits for the disk"), "{told}");
    db.close().unwrap();
}

#[test]
fn an_old_snapshot_shows_and_says_what_it_pins() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock, options());
    work(&db);
    assert_eq!(db.property("evenkeel.num-snapshots").unwrap(), "0");
    clock.advance(Duration::from_secs(100));
    let snapshot = db.snapshot();
    clock.advance(Duration::from_secs(500));
    work(&db);
    assert_eq!(db.property("evenkeel.num-snapshots").unwrap(), "1");
    assert_eq!(db.property("evenkeel.oldest-snapshot-time").unwrap(), "100");
    assert_eq!(db.property("evenkeel.oldest-snapshot-sequence").unwrap(), "1000");
    let pinned: u64 = db.property("evenkeel.snapshot-pinned-bytes").unwrap().parse().unwrap();
    assert!(pinned > 5_000, "every key was written again, though they compress well: {pinned}");
    assert!(db.metrics().prometheus().contains("\nevenkeel_snapshot_oldest_seconds 500\n"));
    assert!(db.control("explain").unwrap().contains("1 snapshot open, the oldest for 8 min 20 s"));
    drop(snapshot);
    assert_eq!(db.property("evenkeel.oldest-snapshot-time").unwrap(), "0");
}
