//! A history of a store that bytes say, beside a map that it must agree with: what fuzzing leads into corners that no random history
//! comes to.
//!
//! ```text
//! op key len │ op key len │ …   ─►  store on a simulated disk, one thread ┐ every answer the same
//!                               ─►  BTreeMap                              ┘
//! ```
//! The disk never fails here, so an error is as wrong as another answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::class::Class;
use crate::base::clock::ManualClock;
use crate::base::error::Result;
use crate::compaction::catalog::CATALOG as STRATEGIES;
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::db::snapshot::Snapshot;
use crate::options::Options;
use crate::scheduler::catalog::CATALOG as SCHEDULES;
use crate::storage::simulated::SimulatedFileSystem;

/// What a store should hold.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";

/// So many keys: few, so that each has a history of its own.
const KEYS: u8 = 40;
/// Operations of one history.
const OPERATIONS: usize = 400;
/// Snapshots open at once.
const SNAPSHOTS: usize = 3;

/// So often a call waits ten milliseconds more.
const WAITS: usize = 100_000;

/// A store, what it should hold, and what its snapshots should.
struct Twins {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

/// Does what the bytes say.
///
/// # Panics
/// If an answer is wrong, or an error.
pub fn replay(bytes: &[u8]) {
    let mut at = (0, [0; 3]);
    let outcome = Twins::open().and_then(|mut twins| {
        for (n, operation) in bytes.as_chunks::<3>().0.iter().take(OPERATIONS).enumerate() {
            at = (n, *operation);
            twins.clock.advance(Duration::from_millis(7));
            twins = twins.does(*operation, n)?;
        }
        twins.agree()?;
        twins.snapshots.clear();
        twins.db.close()
    });
    assert!(outcome.is_ok(), "{outcome:?} at {at:?}");
}

fn key(of: u8) -> Vec<u8> {
    format!("key {:02}", of % KEYS).into_bytes()
}

/// One of the catalogue, with a rate where it wants one.
fn schedule(of: u8) -> String {
    let (form, _) = SCHEDULES[usize::from(of) % SCHEDULES.len()];
    form.split('[').next().unwrap_or(form).replace("RATE", "200kB")
}

fn open(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>) -> Result<Db> {
    let options = Options {
        device_bytes_per_sec: 1_000_000,
        memtable_bytes: 2 << 10,
        table_bytes: 1 << 10,
        block_bytes: 256,
        level_base_bytes: 2 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        reserve_bytes: 0,
        ..Options::default()
    };
    let builder = Db::builder(Path::new(DIR)).options(options).remember(false);
    builder.file_system(Arc::new(fs.clone())).clock(Arc::clone(clock) as _).without_threads().open()
}

impl Twins {
    fn open() -> Result<Twins> {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        let db = open(&fs, &clock)?;
        Ok(Twins { fs, clock, db, model: Model::new(), snapshots: Vec::new() })
    }

    fn does(mut self, [operation, at, len]: [u8; 3], n: usize) -> Result<Twins> {
        let at_key = key(at);
        match operation % 16 {
            0..=4 => {
                let value = vec![n as u8; usize::from(len)];
                self.patient(|db| db.put(&at_key, &value))?;
                self.model.insert(at_key, value);
            }
            5 => {
                self.patient(|db| db.delete(&at_key))?;
                self.model.remove(&at_key);
            }
            6 => {
                let end = key((at % KEYS).saturating_add(1 + len % 9).min(KEYS - 1));
                if at_key < end {
                    self.patient(|db| db.delete_range(&at_key, &end))?;
                    self.model.retain(|key, _| *key < at_key || *key >= end);
                }
            }
            7 => self.patient(Db::flush)?,
            8 | 9 => self.steps(at, len),
            10 => {
                let found = self.db.get(&at_key)?;
                assert_eq!(found.as_deref(), self.model.get(&at_key).map(Vec::as_slice));
            }
            11 if len % 2 == 0 && self.snapshots.len() < SNAPSHOTS => {
                self.snapshots.push((self.db.snapshot(), self.model.clone()));
            }
            11 if !self.snapshots.is_empty() => {
                let (snapshot, model) = self.snapshots.remove(usize::from(at) % self.snapshots.len());
                agree(snapshot.scan(ScanRange::all())?, &model)?;
            }
            12 => self.db.set_strategy(STRATEGIES[usize::from(at) % STRATEGIES.len()].name)?,
            13 => self.db.set_schedule(&schedule(at))?,
            14 if len % 4 == 0 => {
                // No time passes within the call, so its job is not to wait for any.
                self.db.set_schedule("unlimited")?;
                self.patient(|db| db.compact_range(ScanRange::new(Some(&at_key), None)))?;
            }
            14 => self.db.request_yields(),
            15 if len % 4 == 0 => return self.reopened(at % 2 == 0),
            _ => self.agree()?,
        }
        Ok(self)
    }

    /// Without threads nobody waits for what only time brings, so time passes here.
    fn patient(&self, mut call: impl FnMut(&Db) -> Result<()>) -> Result<()> {
        let mut outcome = call(&self.db);
        for _ in 0..WAITS {
            match &outcome {
                Err(error) if error.kind() == "Idle" => {
                    self.clock.advance(Duration::from_millis(10));
                    outcome = call(&self.db);
                }
                _ => break,
            }
        }
        outcome
    }

    /// Background work, a few steps of jobs that are named.
    fn steps(&self, at: u8, len: u8) {
        for step in 0..len % 16 {
            let mut choose = |jobs: &[(usize, Class)]| {
                let nth = usize::from(at ^ step) % jobs.len().max(1);
                jobs.get(nth).map(|job| job.0)
            };
            if !self.db.step(&mut choose) {
                return;
            }
        }
    }

    /// After the store was closed, or its process killed: what was acknowledged is there in both cases.
    fn reopened(mut self, closed: bool) -> Result<Twins> {
        self.snapshots.clear();
        if closed {
            self.db.close()?;
        } else {
            self.fs = self.fs.process_kill();
        }
        self.db = open(&self.fs, &self.clock)?;
        self.agree()?;
        Ok(self)
    }

    /// Everything, upward, downward, and as snapshots have it.
    fn agree(&self) -> Result<()> {
        agree(self.db.scan(ScanRange::all())?, &self.model)?;
        let mut cursor = self.db.cursor(ScanRange::all())?;
        cursor.seek_to_last()?;
        for (key, value) in self.model.iter().rev() {
            assert!(cursor.valid() && cursor.key() == key && cursor.value() == value, "downward, {key:?}");
            cursor.prev()?;
        }
        assert!(!cursor.valid(), "nothing is below the first key");
        for (snapshot, model) in &self.snapshots {
            agree(snapshot.scan(ScanRange::all())?, model)?;
        }
        Ok(())
    }
}

fn agree(found: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>, model: &Model) -> Result<()> {
    let found: Model = found.collect::<Result<_>>()?;
    assert_eq!(&found, model);
    Ok(())
}
