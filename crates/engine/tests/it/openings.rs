//! What an opening may find, and what it may not do then (`docs/durability.md`, C11, C13): files that are missing, orphans that
//! stay, names and numbers that nobody gave, options that only make sense together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel::fs::FileSystem;
use evenkeel::testing::{CallKind, Fault, FaultError, FaultKind, SimulatedFileSystem};
use evenkeel::{Db, Durability, Event, KeyspaceOptions, Options, ScanRange};

use crate::failures::{Content, DIR, builder, open, put, scanned};

fn files(fs: &SimulatedFileSystem) -> BTreeMap<String, Vec<u8>> {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), fs.contents(&Path::new(DIR).join(name)).unwrap())).collect()
}

/// Everything is in the log yet: no table says that this was a store.
#[test]
fn a_store_that_has_lost_current_is_not_taken_for_a_new_one() {
    for close in [true, false] {
        let fs = SimulatedFileSystem::new();
        let db = open(&fs).unwrap();
        let other = db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
        other.put(b"k", b"v").unwrap();
        if close {
            db.close().unwrap();
        }
        let fs = fs.process_kill();
        let current = Path::new(DIR).join("CURRENT");
        let line = fs.contents(&current).unwrap();
        fs.remove(&current).unwrap();
        let before = files(&fs);
        assert!(before.keys().all(|name| !name.ends_with(".sst")));
        let error = open(&fs).unwrap_err();
        assert!(error.kind() == "Corruption" && error.to_string().contains("CURRENT"), "{error}");
        assert_eq!(files(&fs), before);
        fs.set_contents(&current, &line).unwrap();
        let other = open(&fs).unwrap().keyspace("other").unwrap();
        assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}

#[test]
fn an_orphan_that_cannot_be_removed_is_in_nobody_s_way() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs).unwrap();
    let mut content = Content::new();
    put(&db, 1, Durability::Os, &mut content).unwrap();
    drop(db);
    let fs = fs.process_kill();
    let logs = |fs: &SimulatedFileSystem| -> BTreeSet<String> {
        fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.ends_with(".log")).collect()
    };
    let old = logs(&fs);
    for name in ["900000.sst", "900001.sst"] {
        fs.set_contents(&Path::new(DIR).join(name), b"").unwrap();
    }
    let path_contains = "900000.sst".to_owned();
    fs.inject(Fault { kind: FaultKind::Entry, path_contains, nth: 0, error: FaultError::Eio, sticky: true });
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let listener = Arc::new(move |event: &Event| heard.lock().unwrap().push(event.to_string()));
    let db = builder(&fs, &Arc::default()).listener(listener).open().unwrap();
    assert!(told.lock().unwrap().iter().any(|event| event.contains("900000.sst")), "{told:?}");
    assert_eq!(scanned(&db), content);
    let names = fs.list(Path::new(DIR)).unwrap();
    assert!(names.contains(&"900000.sst".to_owned()) && !names.contains(&"900001.sst".to_owned()));
    // The logs that were replayed are used again, or removed.
    for n in 0..400 {
        put(&db, n, Durability::Os, &mut content).unwrap();
        db.step(&mut |jobs| jobs.first().map(|job| job.0));
    }
    assert!(logs(&fs).is_disjoint(&old), "{old:?}");
    db.close().unwrap();
    fs.clear_faults();
    assert_eq!(scanned(&open(&fs).unwrap()), content);
    assert!(!fs.list(Path::new(DIR)).unwrap().contains(&"900000.sst".to_owned()));
}

/// Somebody else has made it, or an open that died: then nobody has synced the directory that it is in.
#[test]
fn a_new_store_makes_its_own_name_durable() {
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    let synced = |fs: &SimulatedFileSystem| {
        let calls = fs.calls();
        let current = calls.iter().position(|call| call.path.ends_with("CURRENT")).unwrap();
        let parent = Path::new(DIR).parent().unwrap();
        calls[..current].iter().any(|call| call.kind == CallKind::SyncDir && call.path == parent)
    };
    drop(open(&fs).unwrap());
    assert!(synced(&fs));
    let again = fs.process_kill();
    drop(open(&again).unwrap());
    assert!(!synced(&again), "and only a new one");
    // A failure is one.
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    let path_contains = String::new();
    fs.inject(Fault { kind: FaultKind::Sync, path_contains, nth: 0, error: FaultError::Eio, sticky: false });
    assert_eq!(open(&fs).unwrap_err().kind(), "Io");
}

/// Given alone it contradicts the default of `l0_limit`, and not what the store remembers.
#[test]
fn options_are_judged_with_what_the_store_remembers() {
    let fs = SimulatedFileSystem::new();
    let given = |fs: &SimulatedFileSystem| builder(fs, &Arc::default()).set("l0_trigger", "30").open();
    let error = given(&fs).unwrap_err();
    assert_eq!((error.kind(), fs.call_count()), ("InvalidArgument", 0), "nothing is made: {error}");
    let db = open(&fs).unwrap();
    db.set_option("l0_limit", "40").unwrap();
    db.close().unwrap();
    let db = given(&fs).unwrap();
    assert_eq!((db.options().l0_trigger, db.options().l0_limit), (30, 40));
    db.set_option("l0_trigger", "5").unwrap();
    db.set_option("l0_limit", "20").unwrap();
    db.close().unwrap();
    let before = files(&fs);
    assert_eq!(given(&fs).unwrap_err().kind(), "InvalidArgument");
    assert_eq!(files(&fs), before);
}

/// File numbers count up from the highest there is, so one name must not decide where they end.
#[test]
fn a_stray_file_does_not_make_numbers_wrap() {
    let fs = SimulatedFileSystem::new();
    let mut content = Content::new();
    drop(open(&fs).unwrap());
    let at = |name: &str| Path::new(DIR).join(name);
    // Not ours: no store gets there.
    for name in ["18446744073709551615.dbtmp", "18446744073709551614.log", "72057594037927937.sst"] {
        fs.set_contents(&at(name), b"").unwrap();
    }
    for round in 0..3 {
        let db = open(&fs).unwrap();
        assert_eq!(scanned(&db), content, "round {round}");
        for n in 0..200 {
            put(&db, round * 200 + n, Durability::Os, &mut content).unwrap();
        }
    }
    assert!(fs.exists(&at("18446744073709551615.dbtmp")).unwrap(), "what is not ours stays");
    // Ours by its name, and yet nobody's.
    fs.set_contents(&at("72057594037927936.dbtmp"), b"").unwrap();
    let error = open(&fs).unwrap_err();
    assert!(error.to_string().contains("72057594037927936.dbtmp"), "{error}");
    fs.remove(&at("72057594037927936.dbtmp")).unwrap();
    assert_eq!(scanned(&open(&fs).unwrap()), content);
}

/// A cursor opens tables as it comes to them: nobody else may have the store meanwhile and remove them.
#[test]
fn a_cursor_keeps_its_store_open() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { memtable_bytes: 16 << 10, table_bytes: 4 << 10, ..Options::default() };
    let db = Db::open(directory.path(), options()).unwrap();
    (0..2000_u32).for_each(|i| db.put(&i.to_be_bytes(), &[7; 100]).unwrap());
    db.flush().unwrap();
    let mut cursor = db.cursor(ScanRange::all()).unwrap();
    cursor.seek_to_first().unwrap();
    drop(db);
    assert_eq!(Db::open(directory.path(), options()).unwrap_err().kind(), "Locked");
    let mut seen = 0;
    while cursor.valid() {
        seen += 1;
        cursor.next().unwrap();
    }
    assert_eq!(seen, 2000);
    drop(cursor);
    assert_eq!(Db::open(directory.path(), options()).unwrap().scan(ScanRange::all()).unwrap().count(), 2000);
}
