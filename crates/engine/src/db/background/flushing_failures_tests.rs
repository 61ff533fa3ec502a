//! Flushes that fail: they are tried less and less often, and at once when there is reason to.

use std::path::Path;

use super::*;
use crate::base::clock::{Clock, ManualClock};
use crate::base::units::KIB;
use crate::db::database::Db;
use crate::db::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, Options};
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::simulated::SimulatedFileSystem;

/// A store that nobody waits for, with a memtable to flush.
struct World {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    db: Db,
    keyspace: Keyspace,
}

impl World {
    fn new() -> World {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::<ManualClock>::default());
        let builder = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone()));
        let options = Options { memtable_bytes: 64 * KIB, memtables: 6, ..Options::default() };
        let builder = builder.clock(Arc::clone(&clock) as _).options(options);
        let db = builder.without_threads().open().unwrap();
        let keyspace = db.keyspace("default").unwrap();
        let world = World { fs, clock, db, keyspace };
        let mut key = 0_u32;
        while world.is_flushed() {
            world.db.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
            key += 1;
        }
        world
    }

    fn is_flushed(&self) -> bool {
        self.keyspace.state().view.load().immutable.is_empty()
    }

    fn tables_fail(&self) {
        let (kind, error) = (FaultKind::Write, FaultError::Eio);
        self.fs.inject(Fault { kind, path_contains: ".sst".into(), nth: 0, error, sticky: true });
    }

    /// How often it fails in so long.
    fn failures_in(&self, time: Duration) -> u64 {
        let failures = || self.keyspace.handle.store.counters.background_errors.get();
        let (before, until) = (failures(), self.clock.now() + time);
        while self.clock.now() < until {
            self.step();
            self.clock.advance(Duration::from_millis(10));
        }
        failures() - before
    }

    /// Without any time.
    fn step(&self) {
        while step(&self.keyspace.handle.store) == Stepped::Worked {}
    }
}

/// Once it wrote what fitted and removed it again ten times a second, for as long as a disk was full.
#[test]
fn a_flush_that_fails_is_tried_less_and_less_often() {
    let world = World::new();
    world.tables_fail();
    assert_eq!(world.failures_in(Duration::from_secs(3)), 5, "after 0, 0.1, 0.3, 0.7 and 1.5 s");
    let in_a_minute = world.failures_in(Duration::from_secs(60));
    assert!((18..=20).contains(&in_a_minute), "{in_a_minute} times");
    assert!(world.keyspace.handle.store.background.lock().failed_flush.error().is_some());
    world.fs.clear_faults();
    assert_eq!(world.failures_in(Duration::from_millis(3200)), 0);
    assert!(world.is_flushed());
    assert!(world.keyspace.handle.store.background.lock().failed_flush.error().is_none());
}

#[test]
fn a_flush_goes_on_as_soon_as_a_full_disk_has_room() {
    let world = World::new();
    world.fs.set_free_space(Some(0));
    assert!((20..=26).contains(&world.failures_in(Duration::from_secs(60))));
    // A little is none.
    world.fs.set_free_space(Some(4 * KIB));
    world.step();
    assert!(!world.is_flushed());
    world.fs.set_free_space(Some(8 * MIB));
    world.step();
    assert!(world.is_flushed());
}

#[test]
fn a_flush_that_is_asked_for_does_not_rest() {
    let world = World::new();
    world.tables_fail();
    assert!(world.failures_in(Duration::from_secs(20)) < 12);
    assert_eq!(world.db.flush().unwrap_err().kind(), "Io");
    world.fs.clear_faults();
    world.step();
    assert!(!world.is_flushed(), "nobody asks");
    drop(world.db.pause_background().unwrap());
    world.step();
    assert!(world.is_flushed());
    let asked = World::new();
    asked.tables_fail();
    assert!(asked.failures_in(Duration::from_secs(20)) < 12);
    asked.fs.clear_faults();
    asked.db.flush().unwrap();
}

/// What has failed before tells nothing of the attempt that is asked for, however many failed: of that one alone.
#[test]
fn who_asks_is_told_of_the_next_attempt() {
    let fs = SimulatedFileSystem::new();
    let db = Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone())).open().unwrap();
    let options = KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() };
    let unlogged = db.create_keyspace("unlogged", options).unwrap();
    for round in 0..3_u32 {
        let (kind, error) = (FaultKind::Write, FaultError::Eio);
        fs.inject(Fault { kind, path_contains: ".sst".into(), nth: 0, error, sticky: true });
        unlogged.put(&round.to_be_bytes(), b"value").unwrap();
        (0..6).for_each(|_| drop(unlogged.flush().unwrap_err()));
        fs.clear_faults();
        match round {
            0 => unlogged.flush().unwrap(),
            1 => db.wait_idle().unwrap(),
            _ => {}
        }
    }
    db.close().unwrap();
}
