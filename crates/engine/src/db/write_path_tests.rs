//! The write path where parts of it meet: log files of several sizes, batches across keyspaces, full disks, closing.

use std::path::Path;
use std::sync::Arc;

use super::database::Db;
use crate::base::units::KIB;
use crate::options::Options;
use crate::storage::simulated::SimulatedFileSystem;
use crate::storage::simulated_crash::CrashPolicy;
use crate::write::batch::WriteBatch;

fn options() -> Options {
    Options { wal_bytes_max: 64 * KIB, memtable_bytes: 256 * KIB, ..Options::default() }
}

fn open(fs: &SimulatedFileSystem, options: Options) -> Db {
    Db::builder(Path::new("/db"))
        .file_system(Arc::new(fs.clone()))
        .options(options)
        .without_threads()
        .open()
        .unwrap()
}

/// A batch that does not fit into a log file gets one of its own, numbered above the one that was prepared before.
#[test]
fn logs_follow_each_other_in_the_order_of_their_numbers() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    let mut written = 0_u32;
    for round in 0..6 {
        // Prepares the next log.
        db.step(&mut |_| None);
        let mut large = WriteBatch::new();
        for _ in 0..20 {
            large.put(&written.to_be_bytes(), &[7; 2000]);
            written += 1;
        }
        db.write(large).unwrap();
        for _ in 0..20 {
            db.put(&written.to_be_bytes(), &[7; 2000]).unwrap();
            written += 1;
        }
        let reopened = open(&fs.process_kill(), options());
        for i in 0..written {
            assert!(
                reopened.get(&i.to_be_bytes()).unwrap().is_some(),
                "write {i} of {written}, round {round}"
            );
        }
    }
}

/// The first keyspace's part of a batch is flushed; the rest is in a log that a power cut may take.
#[test]
fn a_batch_across_keyspaces_survives_whole_or_not_at_all() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, options());
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"1");
    batch.put_in(&other, b"k", b"1");
    db.write(batch).unwrap();
    db.flush().unwrap();
    let reopened = open(&fs.crash(1, CrashPolicy::DropUnsynced), options());
    let other = reopened.keyspace("other").unwrap();
    assert!(reopened.get(b"k").unwrap().is_some(), "a flush is durable");
    assert!(other.get(b"k").unwrap().is_some(), "and half a batch is never seen");
}

/// Without this a writer that waits for room holds the lock that closing needs, for good.
#[test]
fn a_writer_that_waits_for_room_ends_when_the_store_is_closed() {
    let fs = SimulatedFileSystem::new();
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs)).options(options());
    let db = builder.open().unwrap();
    // The threads end, and nobody makes room.
    db.keyspace("default").unwrap().handle.store.background.stop();
    let outcome = (0..2000_u32).try_for_each(|i| db.put(&i.to_be_bytes(), &[7; 2000]));
    assert_eq!(outcome.unwrap_err().kind(), "Poisoned");
    db.close().unwrap();
}
