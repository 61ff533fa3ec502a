//! When the flush lane hurries. And stand-ins, where no thread can be raised: one for the flush lane and one for each worker there has
//! been, however often they work and rest, and however often threads are refused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_sys::{can_raise_priority, give_up_raising_priority};

use crate::base::clock::{refuse_threads_after, spawn};
use crate::base::locks::has_ended;
use crate::base::units::MIB;
use crate::db::database::Db;
use crate::db::store::state::Store;
use crate::options::Options;
use crate::storage::simulated::SimulatedFileSystem;

/// The stand-in of the flush lane, and the two lanes that have none.
const OF_FLUSHES: usize = 1;
const LANES: usize = 2;

/// Threads of the store, those of them that have ended, workers, and stand-ins of these.
fn threads(store: &Store) -> [usize; 4] {
    let threads = store.background.threads();
    let ended = threads.handles.iter().map(has_ended).filter(|ended| *ended).count();
    [threads.handles.len(), ended, threads.workers as usize, threads.stand_ins as usize]
}

/// Priorities of the store's threads, and how many of them are raised.
fn priorities(store: &Store) -> [usize; 2] {
    store.background.priorities.count()
}

/// What this comes to in a process that may not raise its threads; nothing where that cannot be had.
fn where_nobody_rises(test: impl FnOnce(Db) + Send + 'static) {
    // On a thread of its own: what it gives up is gone for good, and others may need it.
    let body = move || {
        give_up_raising_priority().unwrap();
        if can_raise_priority() {
            println!("this process may raise its threads whatever it gives up: stand-ins are NOT TESTED");
            return;
        }
        let fs = Arc::new(SimulatedFileSystem::new());
        test(Db::builder(Path::new("/db")).file_system(fs).control_socket(false).open().unwrap());
    };
    spawn("no-rights", body).unwrap().join().unwrap();
}

fn store(db: &Db) -> Arc<Store> {
    Arc::clone(&db.handle.store)
}

/// Woken for who waits and sent to rest again, hundreds of times, while workers are wanted and not wanted: the threads are those that there
/// were.
#[test]
fn stand_ins_that_come_and_go_are_always_the_same() {
    where_nobody_rises(|db| {
        const WORKERS: usize = 3;
        let store = store(&db);
        db.set_option("workers", &WORKERS.to_string()).unwrap();
        let before = threads(&store);
        assert_eq!(before[1..], [0, WORKERS, WORKERS]);
        let all = 2 * OF_FLUSHES + 2 * WORKERS + LANES;
        while priorities(&store)[0] < all {
            std::thread::yield_now();
        }
        for round in 0..200 {
            db.set_option("workers", if round % 2 == 0 { "1" } else { "3" }).unwrap();
            let waits = store.background.caller_waits(round % 3 == 0);
            // Those of workers that rest as well: they find nothing to do.
            while priorities(&store)[1] < OF_FLUSHES + WORKERS {
                store.background.priorities.raise_all();
                std::thread::yield_now();
            }
            drop(waits);
            while priorities(&store)[1] > 0 {
                store.background.wake();
                std::thread::yield_now();
            }
        }
        assert_eq!((threads(&store), priorities(&store)[0]), (before, all));
        // They still do what they are for.
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        assert_eq!(threads(&store)[..2], [0, 0], "all of them were waited for");
    });
}

/// A stand-in is there before its worker, which may be refused: the next try finds it.
#[test]
fn a_worker_that_is_refused_again_and_again_has_one_stand_in() {
    where_nobody_rises(|db| {
        let store = store(&db);
        let before = threads(&store);
        let [all, _, workers, stand_ins] = before;
        let wanted = (workers + 1).to_string();
        for left in [1, 0, 0, 0, 0, 0] {
            refuse_threads_after(Some(left));
            db.set_option("workers", &wanted).unwrap();
            refuse_threads_after(None);
            assert_eq!(threads(&store), [all + 1, 0, workers, stand_ins + 1]);
        }
        db.set_option("workers", &wanted).unwrap();
        assert_eq!(threads(&store), [all + 2, 0, workers + 1, stand_ins + 1]);
        db.close().unwrap();
    });
}

/// Of two memtables a limit is in force from the switch on, far above what these writers do: nobody is to feel the flush for it.
#[test]
fn a_flush_hurries_once_the_next_memtable_is_half_full_and_not_for_a_limit() {
    let fs = Arc::new(SimulatedFileSystem::new());
    let options = Options { memtable_bytes: MIB, memtables: 2, ..Options::default() };
    let db = Db::builder(Path::new("/db")).file_system(fs).options(options).without_threads().open().unwrap();
    let store = store(&db);
    // As beside threads.
    store.admission.timed.store(true, Ordering::Relaxed);
    let keyspace = Arc::clone(db.keyspace("default").unwrap().state());
    let _paused = db.pause_background().unwrap();
    let mut written = 0_u32;
    let mut put = || {
        db.put(&written.to_be_bytes(), &[7; 1000]).unwrap();
        written += 1;
    };
    while keyspace.view.load().immutable.is_empty() || !keyspace.gate.is_pressed() {
        put();
    }
    assert!(keyspace.view.load().active.bytes() < MIB / 2);
    assert!(!super::flush_is_urgent(&store));
    while keyspace.view.load().active.bytes() < MIB / 2 {
        assert!(!super::flush_is_urgent(&store));
        put();
    }
    assert!(super::flush_is_urgent(&store));
}
