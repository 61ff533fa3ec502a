//! The life that is cut short at every moment: a fixed sequence of commits, syncs, flushes, merges, yields, keyspaces
//! that come and go, and reopens, all from one seed, on small sizes so that everything happens often.

use std::path::Path;
use std::sync::Arc;

use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Durability, Error, KeyspaceOptions, Metrics, Options, Result, WriteBatch};

use super::oracle::{Entry, Oracle};

/// Where the store lives on the simulated disk.
pub const DIR: &str = "/store";

const KEYS: u64 = 160;
const MEMTABLE_BYTES: u64 = 4 << 10;

/// Settings that make everything happen within a few thousand calls.
pub fn options() -> Options {
    Options {
        memtable_bytes: MEMTABLE_BYTES,
        table_bytes: 1 << 10,
        block_bytes: 256,
        level_base_bytes: 8 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        l0_limit: 8,
        cache_bytes: 64 << 10,
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        wal_bytes_max: 64 << 10,
        workers: 2,
        ..Options::default()
    }
}

/// Opens a store on one thread.
pub fn open(fs: &SimulatedFileSystem) -> Result<Db> {
    let clock = Arc::new(ManualClock::default());
    Db::builder(Path::new(DIR))
        .options(options())
        .file_system(Arc::new(fs.clone()))
        .clock(clock)
        .without_threads()
        .open()
}

/// What must have happened for a run to mean anything.
#[derive(Clone, Debug, Default)]
pub struct Happened {
    pub flushes: u64,
    pub merges: u64,
    pub prefix_commits: u64,
    pub yields: u64,
    pub wal_rotations: u64,
    pub manifest_rotations: u64,
    pub created: u64,
    pub dropped: u64,
    pub reopened: u64,
    pub oversized: u64,
    pub syncs: u64,
    pub deletes: u64,
}

impl Happened {
    fn add(&mut self, metrics: &Metrics) {
        self.flushes += metrics.flushes;
        self.merges += metrics.compactions;
        self.prefix_commits += metrics.prefix_commits;
        self.yields += metrics.jobs_yielded;
        self.wal_rotations += metrics.wal_rotations;
        // One is the open's own.
        self.manifest_rotations += metrics.manifest_rotations - 1;
    }
}

/// A run of the workload. `seen` is called after each operation, with what was known while it was under way.
pub struct Workload<'a> {
    fs: SimulatedFileSystem,
    random: Random,
    pub oracle: Oracle,
    pub happened: Happened,
    seen: &'a mut dyn FnMut(&Oracle),
}

impl<'a> Workload<'a> {
    pub fn new(fs: &SimulatedFileSystem, seed: u64, seen: &'a mut dyn FnMut(&Oracle)) -> Workload<'a> {
        let (oracle, happened) = (Oracle::default(), Happened::default());
        Workload { fs: fs.clone(), random: Random::new(seed), oracle, happened, seen }
    }

    /// Runs until the disk has seen `calls` calls, or an error.
    pub fn run(&mut self, calls: u64) -> Result<()> {
        let default = self.oracle.incarnation();
        // There is no store before there is one.
        self.oracle.alive_next.insert("default".to_owned(), default);
        let mut db = Some(self.open()?);
        self.oracle.alive = self.oracle.alive_next.clone();
        for name in ["alpha", "beta"] {
            self.create(db.as_ref().expect("open"), name)?;
        }
        while self.fs.call_count() < calls {
            if self.random.one_in(600) {
                let old = db.take().expect("open");
                self.happened.add(&old.metrics());
                self.close(old)?;
                db = Some(self.open()?);
                self.happened.reopened += 1;
            }
            self.operation(db.as_ref().expect("open"))?;
        }
        let db = db.expect("open");
        self.happened.add(&db.metrics());
        self.close(db)
    }

    fn open(&mut self) -> Result<Db> {
        let opened = open(&self.fs);
        (self.seen)(&self.oracle);
        opened
    }

    /// Closing seals the log, so everything is safe then.
    fn close(&mut self, db: Db) -> Result<()> {
        let closed = db.close();
        (self.seen)(&self.oracle);
        closed?;
        self.oracle.promised = self.oracle.acked;
        Ok(())
    }

    fn operation(&mut self, db: &Db) -> Result<()> {
        match self.random.below(100) {
            0..64 => self.commit(db)?,
            64 => self.create_or_drop(db)?,
            65 => self.flush(db)?,
            66..68 => {
                db.sync().inspect_err(|_| (self.seen)(&self.oracle))?;
                (self.seen)(&self.oracle);
                self.oracle.promised = self.oracle.acked;
                self.happened.syncs += 1;
            }
            68 if self.random.one_in(4) => {
                let strategy = ["tier", "1-leveling", "full", "rr"][self.random.below(4) as usize];
                let set = db.set_strategy(strategy);
                (self.seen)(&self.oracle);
                set?;
            }
            69..72 => db.request_yields(),
            _ => {
                let pick = self.random.next_u64() as usize;
                db.step(&mut |jobs| (!jobs.is_empty()).then(|| jobs[pick % jobs.len()].0));
                (self.seen)(&self.oracle);
            }
        }
        Ok(())
    }

    fn commit(&mut self, db: &Db) -> Result<()> {
        let random = &mut self.random;
        let oversized = random.one_in(300);
        let entries = if oversized { 1 } else { 1 + random.below(5) };
        let alive: Vec<(String, usize)> = self.oracle.alive.clone().into_iter().collect();
        let (mut batch, mut told): (WriteBatch, Vec<Entry>) = (WriteBatch::new(), Vec::new());
        for _ in 0..entries {
            let (name, incarnation) = &alive[random.below(alive.len() as u64) as usize];
            let keyspace = db.keyspace(name).ok_or_else(|| Error::InvalidArgument(name.clone()))?;
            let key = format!("{:04}", random.below(KEYS)).into_bytes();
            if random.one_in(4) && !oversized {
                batch.delete_in(&keyspace, &key);
                told.push((*incarnation, key, None));
                self.happened.deletes += 1;
                continue;
            }
            // Larger than a log file at times: it gets one of its own.
            let len = if oversized { 17 << 10 } else { 8 + random.below(120) };
            let mut value = format!("{:06}-", self.oracle.tried).into_bytes();
            value.resize(value.len() + len as usize, b'a' + (self.oracle.tried % 26) as u8);
            batch.put_in(&keyspace, &key, &value);
            told.push((*incarnation, key, Some(value)));
        }
        let sync = self.random.one_in(6);
        self.oracle.begin(&told);
        let written = db.write_with(batch, if sync { Durability::Sync } else { Durability::Os });
        (self.seen)(&self.oracle);
        written?;
        self.oracle.ack(sync);
        self.happened.syncs += u64::from(sync);
        self.happened.oversized += u64::from(oversized);
        Ok(())
    }

    fn flush(&mut self, db: &Db) -> Result<()> {
        let alive: Vec<(String, usize)> = self.oracle.alive.clone().into_iter().collect();
        let (name, incarnation) = &alive[self.random.below(alive.len() as u64) as usize];
        let flushed = db.keyspace(name).map_or(Ok(()), |keyspace| keyspace.flush());
        (self.seen)(&self.oracle);
        flushed?;
        // What is in tables is safe, and with it everything before.
        self.oracle.promised = self.oracle.promised.max(self.oracle.last_commit_of(*incarnation));
        Ok(())
    }

    fn create_or_drop(&mut self, db: &Db) -> Result<()> {
        if self.oracle.alive.contains_key("passing") {
            self.oracle.alive_next.remove("passing");
            let dropped = db.drop_keyspace("passing");
            (self.seen)(&self.oracle);
            dropped?;
            self.oracle.alive = self.oracle.alive_next.clone();
            self.happened.dropped += 1;
            Ok(())
        } else {
            self.create(db, "passing")
        }
    }

    fn create(&mut self, db: &Db, name: &str) -> Result<()> {
        let incarnation = self.oracle.incarnation();
        self.oracle.alive_next.insert(name.to_owned(), incarnation);
        let options =
            KeyspaceOptions { strategy: Some("rr".to_owned()), memtable_bytes: Some(MEMTABLE_BYTES) };
        let created = db.create_keyspace(name, options);
        (self.seen)(&self.oracle);
        created?;
        self.oracle.alive = self.oracle.alive_next.clone();
        self.happened.created += 1;
        Ok(())
    }
}
