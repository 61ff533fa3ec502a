//! The end of a store, and of a keyspace: nothing that was promised is lost, and nobody waits for work that is not wanted any more.

use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel::fs::{Class, FileSystem};
use evenkeel::inspect::{ManifestItem, manifest};
use evenkeel::testing::{ManualClock, SimulatedFileSystem};
use evenkeel::{Db, Event, KeyspaceOptions, Options, ScanRange};

const DIR: &str = "/store";

fn unlogged() -> KeyspaceOptions {
    KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() }
}

/// The listener may be the last who holds the store: what only memory holds becomes tables all the same.
#[test]
fn a_store_that_its_listener_lets_go_of_last_has_lost_nothing() {
    let fs = SimulatedFileSystem::new();
    let held: Arc<Mutex<Option<Db>>> = Arc::default();
    let of_listener = Arc::clone(&held);
    let listener = move |event: &Event| {
        if matches!(event, Event::StrategyChanged { .. }) {
            drop(of_listener.lock().unwrap().take());
        }
    };
    let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone()));
    let db = builder.clone().listener(Arc::new(listener)).open().unwrap();
    let keyspace = db.create_keyspace("fast", unlogged()).unwrap();
    keyspace.put(b"key", b"value").unwrap();
    drop(keyspace);
    // The listener is told on a thread of its own, and finds the only handle that is left.
    let mut own = held.lock().unwrap();
    db.set_strategy("tier").unwrap();
    *own = Some(db);
    drop(own);
    let db = loop {
        match builder.clone().open() {
            Ok(db) => break db,
            Err(error) => assert_eq!(error.kind(), "Locked", "{error}"),
        }
        std::thread::yield_now();
    };
    assert_eq!(db.keyspace("fast").unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// What only memory holds becomes tables at once, however little background work may move.
#[test]
fn closing_waits_for_no_limit() {
    const RECORDS: u32 = 4000;
    for schedule in ["silk:floor=1KiB", "dlc-full:floor=1KiB", "paced"] {
        let fs = SimulatedFileSystem::new();
        let options =
            Options { schedule: schedule.to_owned(), device_bytes_per_sec: 64 << 10, ..Options::default() };
        // By a clock that stands still nothing is ever let through.
        let clock = Arc::new(ManualClock::default());
        let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(fs)).options(options).clock(clock);
        let db = builder.clone().open().unwrap();
        let keyspace = db.create_keyspace("fast", unlogged()).unwrap();
        let key = |i: u32| i.to_be_bytes();
        (0..RECORDS).for_each(|i| keyspace.put(&key(i), &[7; 100]).unwrap());
        drop(keyspace);
        db.close().unwrap();
        let keyspace = builder.open().unwrap().keyspace("fast").unwrap();
        let found = (0..RECORDS).filter(|i| keyspace.get(&key(*i)).unwrap().is_some()).count();
        assert_eq!(found, RECORDS as usize, "{schedule}");
    }
}

/// Who closes a store that another closes is told how that went, when it is done.
#[test]
fn whoever_closes_a_store_is_told_how_it_went() {
    let fs = SimulatedFileSystem::new();
    let db = Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).open().unwrap();
    let keyspace = db.create_keyspace("fast", unlogged()).unwrap();
    (0..2000_u32).for_each(|i| keyspace.put(&i.to_be_bytes(), &[7; 100]).unwrap());
    drop(keyspace);
    fs.set_free_space(Some(0));
    let again = db.clone();
    let outcomes = std::thread::scope(|scope| {
        let threads = [db, again].map(|db| scope.spawn(move || db.close()));
        threads.map(|thread| thread.join().unwrap().map_err(|error| error.kind()))
    });
    assert_eq!(outcomes, [Err("NoSpace"), Err("NoSpace")]);
}

/// Nobody will read what they write: they end at their next step, and let go of their files.
#[test]
fn jobs_of_a_keyspace_that_is_dropped_end() {
    let options = Options {
        memtable_bytes: 64 << 10,
        table_bytes: 64 << 10,
        l0_trigger: 2,
        reserve_bytes: 0,
        ..Options::default()
    };
    let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(SimulatedFileSystem::new()));
    let db = builder.options(options).without_threads().open().unwrap();
    let gone = db.create_keyspace("gone", KeyspaceOptions::default()).unwrap();
    let first = |jobs: &[(usize, Class)]| jobs.first().map(|(job, _)| *job);
    let mut i = 0_u32;
    while db.metrics().jobs_open == 0 {
        gone.put(&i.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 500]).unwrap();
        i += 1;
        db.step(&mut |_| None);
    }
    assert!(db.step(&mut { first }));
    db.drop_keyspace("gone").unwrap();
    db.step(&mut { first });
    let metrics = db.metrics();
    assert_eq!((metrics.jobs_open, metrics.jobs_discarded, metrics.jobs_failed), (0, 1, 0));
    assert_eq!(metrics.jobs_preempted, 1);
    db.wait_idle().unwrap();
    db.close().unwrap();
}

/// A whole store is read for this, and a client at the socket who asked for it keeps nobody from closing it.
#[test]
fn a_store_can_be_closed_while_its_space_is_measured() {
    let db = Db::builder(Path::new(DIR)).file_system(Arc::new(SimulatedFileSystem::new())).open().unwrap();
    for i in 0..20_000_u32 {
        db.put(&i.to_be_bytes(), &[7; 100]).unwrap();
    }
    let keyspace = db.keyspace("default").unwrap();
    std::thread::scope(|scope| {
        let measuring = scope
            .spawn(|| (0..10_000).find_map(|_| keyspace.measure_space().err()).map(|error| error.kind()));
        db.close().unwrap();
        assert_eq!(measuring.join().unwrap(), Some("Poisoned"));
    });
}

/// Records of the only manifest that is there.
fn records(fs: &SimulatedFileSystem) -> u64 {
    let names = fs.list(Path::new(DIR)).unwrap();
    let manifests: Vec<&String> = names.iter().filter(|name| name.starts_with("MANIFEST-")).collect();
    let [name] = manifests[..] else { panic!("{names:?}") };
    let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let key = |key: &[u8]| format!("{key:?}");
    let report = manifest(&fs, &Path::new(DIR).join(name), &key, &mut |_: &ManifestItem| Ok(())).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    report.records
}

/// What was begun before comes too late, and so does whatever is asked of handles that are left: the record that says how long the logs are
/// stays the only one.
#[test]
fn nothing_follows_the_end_of_a_manifest() {
    let fs = SimulatedFileSystem::new();
    let open = |fs: SimulatedFileSystem| {
        Db::builder(Path::new(DIR)).file_system(Arc::new(fs)).without_threads().open().unwrap()
    };
    let db = open(fs.clone());
    let (keyspace, again) = (db.keyspace("default").unwrap(), db.clone());
    db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
    keyspace.put(b"in memory", b"1").unwrap();
    let mut load = keyspace.bulk_load().unwrap();
    load.put(b"loaded", b"1").unwrap();
    db.close().unwrap();
    assert_eq!(records(&fs), 1);
    let closed = fs.call_count() as usize;
    let late = [
        ("put", keyspace.put(b"late", b"1")),
        ("flush", again.flush()),
        ("set_strategy", again.set_strategy("tier")),
        ("set_option", again.set_option("level_ratio", "8")),
        ("create_keyspace", again.create_keyspace("late", KeyspaceOptions::default()).map(drop)),
        ("drop_keyspace", again.drop_keyspace("other")),
        ("bulk load", load.finish()),
        ("compact_range", again.compact_range(ScanRange::all())),
    ];
    for (what, outcome) in late {
        assert_eq!(outcome.map_err(|error| error.kind()), Err("Poisoned"), "{what}");
    }
    let calls = fs.calls().split_off(closed);
    let of_the_store = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("MANIFEST-") || name == "CURRENT" || name.ends_with(".log")
    };
    assert!(!calls.iter().any(|call| of_the_store(&call.path)), "{calls:?}");
    assert_eq!(records(&fs), 1);
    let db = open(fs.process_kill());
    assert_eq!(db.keyspaces(), ["default", "other"]);
    assert_eq!(db.get(b"in memory").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1);
}

/// With threads that make keyspaces and flush them meanwhile: each of these changes comes before the end of the manifest, and is kept, or is
/// refused.
#[test]
fn what_is_changed_beside_a_close_is_kept_or_refused() {
    for round in 0..20 {
        let fs = SimulatedFileSystem::new();
        let builder = Db::builder(Path::new(DIR)).options(Options { reserve_bytes: 0, ..Options::default() });
        let db = builder.clone().file_system(Arc::new(fs.clone())).open().unwrap();
        let made = std::thread::scope(|scope| {
            let threads = [0, 1].map(|thread| {
                let db = db.clone();
                scope.spawn(move || {
                    let mut made = Vec::new();
                    loop {
                        let name = format!("{thread}-{}", made.len());
                        let Ok(keyspace) = db.create_keyspace(&name, KeyspaceOptions::default()) else {
                            return made;
                        };
                        made.push(name);
                        if keyspace.put(b"key", b"value").and_then(|()| keyspace.flush()).is_err() {
                            return made;
                        }
                    }
                })
            });
            while db.keyspaces().len() < 4 + round {
                std::thread::yield_now();
            }
            db.close().unwrap();
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        let killed = fs.process_kill();
        assert_eq!(records(&killed), 1, "round {round}");
        let db = builder.file_system(Arc::new(killed)).without_threads().open().unwrap();
        let there = db.keyspaces();
        assert!(made.iter().all(|name| there.contains(name)), "round {round}: {made:?}, and {there:?}");
    }
}
