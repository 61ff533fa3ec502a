//! Opening and changing a store from within: threads that are refused, settings changed one at a time, logs that
//! nobody has written.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::class::IoClass;
use crate::base::clock::refuse_threads_after;
use crate::base::error::Result;
use crate::base::units::{COUNT_MAX, SeqNo};
use crate::db::database::Db;
use crate::db::settings::options_file;
use crate::options::KeyspaceOptions;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::hooked::HookedFileSystem;
use crate::storage::record::{LogHeader, LogKind};
use crate::storage::record_writer::RecordWriter;
use crate::storage::simulated::SimulatedFileSystem;
use crate::write::batch::WriteBatch;

fn builder(fs: &SimulatedFileSystem) -> crate::db::opening::builder::Builder {
    Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone()))
}

/// A schedule that was taken once, and is refused since, by another version or for another device, does not shut its owner out.
#[test]
fn a_remembered_schedule_that_is_refused_is_told_with_the_way_out() {
    let fs = SimulatedFileSystem::new();
    let open = |schedule: Option<&str>| {
        let builder = builder(&fs).without_threads();
        schedule.map_or(builder.clone(), |schedule| builder.set("schedule", schedule)).open()
    };
    let db = open(None).unwrap();
    db.set_option("schedule", "fixed:1MiB").unwrap();
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let mut names = fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.starts_with("OPTIONS"));
    let path = Path::new("/db").join(names.iter().max().unwrap());
    let mut stored = options_file::parse(&fs.contents(&path).unwrap()).unwrap();
    stored.options.insert("schedule".to_owned(), "fixed:0".to_owned());
    fs.set_contents(&path, options_file::print(&stored).as_bytes()).unwrap();
    let refused = open(None).unwrap_err().to_string();
    assert!(refused.contains("remembers this schedule"), "{refused}");
    assert!(builder(&fs).read_only(true).open().unwrap_err().to_string().contains("remembers this schedule"));
    // One that is given is not what is remembered.
    assert!(!open(Some("fixed:0")).unwrap_err().to_string().contains("remembers"));
    let db = open(Some("fixed:2MiB")).unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    db.set_option("schedule", "fixed:2MiB").unwrap();
    db.close().unwrap();
    assert_eq!(open(None).unwrap().options().schedule, "fixed:2MiB");
}

/// What OPTIONS is to hold is looked up, written and put in force without another such change in between.
#[test]
fn settings_are_changed_one_at_a_time() {
    let fs = Arc::new(HookedFileSystem::new(Arc::new(SimulatedFileSystem::new())));
    let db = Db::builder(Path::new("/db")).file_system(fs.clone()).without_threads().open().unwrap();
    let store = Arc::clone(&db.handle.store);
    let (writes, free) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&writes), Arc::clone(&free));
    fs.set(Box::new(move |path| {
        if path.to_string_lossy().ends_with(".dbtmp") {
            counts.0.fetch_add(1, Ordering::Relaxed);
            counts.1.fetch_add(u32::from(store.changing_options.try_lock().is_ok()), Ordering::Relaxed);
        }
    }));
    let changes: [&dyn Fn() -> Result<()>; 4] = [
        &|| db.set_option("level_ratio", "8"),
        &|| db.set_strategy("tier"),
        &|| db.create_keyspace("other", KeyspaceOptions::default()).map(drop),
        &|| db.drop_keyspace("other"),
    ];
    for change in changes {
        let before = writes.load(Ordering::Relaxed);
        change().unwrap();
        assert!(writes.load(Ordering::Relaxed) > before);
        assert_eq!(free.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_handle_on_a_dropped_keyspace_leaves_its_namesake_alone() {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).without_threads().open().unwrap();
    let old = db.create_keyspace("x", KeyspaceOptions::default()).unwrap();
    db.drop_keyspace("x").unwrap();
    let new = db.create_keyspace("x", KeyspaceOptions::default()).unwrap();
    assert_eq!(old.set_strategy("tier").unwrap_err().kind(), "InvalidArgument");
    let text = new.strategy_text();
    drop((old, new));
    db.close().unwrap();
    let db = builder(&fs).without_threads().open().unwrap();
    assert_eq!(db.keyspace("x").unwrap().strategy_text(), text);
}

#[test]
fn an_open_that_gets_no_thread_is_an_error_and_lets_go_of_the_store() {
    let fs = SimulatedFileSystem::new();
    let mut refused = 0;
    loop {
        refuse_threads_after(Some(refused));
        let opened = builder(&fs).control_socket(false).open();
        refuse_threads_after(None);
        match opened {
            Ok(db) => {
                db.put(b"k", b"v").unwrap();
                db.close().unwrap();
                break;
            }
            Err(error) => assert!(error.to_string().contains("keel-"), "{error}"),
        }
        refused += 1;
    }
    assert!(refused >= 4, "the flush lane, a worker, the lane, the log: {refused}");
}

#[test]
fn workers_that_cannot_be_started_are_told_and_done_without() {
    let fs = SimulatedFileSystem::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let listener = Arc::new(move |event: &crate::observe::event::Event| {
        heard.lock().unwrap().push(event.to_string());
    });
    let db = builder(&fs).listener(listener).open().unwrap();
    refuse_threads_after(Some(1));
    db.set_option("workers", "64").unwrap();
    refuse_threads_after(None);
    assert_eq!(db.options().workers, 64);
    db.put(b"k", b"v").unwrap();
    // What is to be told has been then.
    db.close().unwrap();
    assert!(told.lock().unwrap().iter().any(|event| event.contains("keel-work-")), "{told:?}");
}

/// A log made by somebody who can compute a checksum.
#[test]
fn a_sequence_that_no_store_gets_to_is_damage() {
    for (first, seq, refused) in
        [(1, 1, false), (1, COUNT_MAX + 1, true), (1, u64::MAX, true), (u64::MAX, u64::MAX, true)]
    {
        let fs = SimulatedFileSystem::new();
        let db = builder(&fs).without_threads().open().unwrap();
        let fs = fs.process_kill();
        drop(db);
        let names = fs.list(Path::new("/db")).unwrap();
        let id = names.iter().find_map(|name| match FileName::parse(name)? {
            FileName::Wal(number) => Some(number),
            _ => None,
        });
        let path = FileName::Wal(id.unwrap()).path(Path::new("/db"));
        fs.remove(&path).unwrap();
        let header = LogHeader {
            kind: LogKind::Wal,
            id: id.unwrap(),
            predecessor: None,
            first_seq: first,
            allocated: 0,
        };
        let file = fs.create(&path, IoClass::Wal).unwrap();
        let mut log = RecordWriter::on_file(file, &path, &header).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"v");
        batch.set_sequence(SeqNo(seq));
        log.append(&[batch.encoded()]).unwrap();
        drop(log);
        match builder(&fs).without_threads().open() {
            Ok(db) => assert!(!refused && db.get(b"k").unwrap().is_some(), "{first} {seq}"),
            Err(error) => assert!(refused && error.kind() == "Corruption", "{first} {seq}: {error}"),
        }
    }
}
