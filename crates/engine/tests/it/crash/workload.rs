//! The life that is cut short at every moment: a fixed sequence of commits, syncs, flushes, merges, yields, keyspaces
//! that come and go, and reopens, all from one seed, on small sizes so that everything happens often.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Durability, Error, KeyspaceOptions, Metrics, Options, Result, WriteBatch};

use super::oracle::{Change, Entry, Oracle, digests};

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
        direct_flush: true,
        direct_compaction: true,
        prefix_filter: "fixed:2".parse().unwrap(),
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        wal_bytes_max: 64 << 10,
        workers: 2,
        ..Options::default()
    }
}

/// The keyspace without a log.
const UNLOGGED: &str = "unlogged";

/// Opens a store on one thread.
pub fn open(fs: &SimulatedFileSystem) -> Result<Db> {
    open_at(fs, DIR, Arc::default())
}

/// Opens the store in `dir` on one thread.
pub fn open_at(fs: &SimulatedFileSystem, dir: &str, clock: Arc<ManualClock>) -> Result<Db> {
    Db::builder(Path::new(dir))
        .options(options())
        .file_system(Arc::new(fs.clone()))
        .clock(clock)
        .without_threads()
        .open()
}

/// Where checkpoint `i` lies.
pub fn copy_dir(i: usize) -> String {
    format!("/copies/{i}")
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
    pub loads: u64,
    pub loads_dropped: u64,
    pub range_deletes: u64,
    pub interval_syncs: u64,
    pub unlogged: u64,
    pub copies: u64,
}

impl Happened {
    fn add(&mut self, metrics: &Metrics) {
        self.flushes += metrics.flushes;
        self.merges += metrics.compactions;
        self.prefix_commits += metrics.prefix_commits;
        self.yields += metrics.jobs_yielded;
        self.wal_rotations += metrics.wal_rotations;
        self.interval_syncs += metrics.wal_interval_syncs;
        // One is the open's own.
        self.manifest_rotations += metrics.manifest_rotations - 1;
    }
}

/// A run of the workload. `seen` is called after each operation, with what was known while it was under way.
pub struct Workload<'a> {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    random: Random,
    pub oracle: Oracle,
    pub happened: Happened,
    seen: &'a mut dyn FnMut(&Oracle),
}

impl<'a> Workload<'a> {
    pub fn new(fs: &SimulatedFileSystem, seed: u64, seen: &'a mut dyn FnMut(&Oracle)) -> Workload<'a> {
        let (oracle, happened) = (Oracle::default(), Happened::default());
        Workload { fs: fs.clone(), clock: Arc::default(), random: Random::new(seed), oracle, happened, seen }
    }

    /// Runs until the disk has seen `calls` calls, or an error.
    pub fn run(&mut self, calls: u64) -> Result<()> {
        let default = self.oracle.incarnation();
        // There is no store before there is one.
        self.oracle.alive_next.insert("default".to_owned(), default);
        let mut db = Some(self.open()?);
        self.oracle.alive = self.oracle.alive_next.clone();
        for name in ["alpha", "beta", UNLOGGED] {
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
        let opened = open_at(&self.fs, DIR, Arc::clone(&self.clock));
        (self.seen)(&self.oracle);
        opened
    }

    /// Closing seals the log and flushes what has none, so everything is safe then.
    fn close(&mut self, db: Db) -> Result<()> {
        let closed = db.close();
        (self.seen)(&self.oracle);
        closed?;
        self.oracle.promised = self.oracle.acked;
        self.promise_unlogged();
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
            68 => self.bulk_load(db)?,
            69..72 => db.request_yields(),
            72..75 => self.clock.advance(Duration::from_millis(1 + self.random.below(8))),
            75..79 => self.commit_unlogged(db)?,
            79 if self.random.one_in(3) => self.copy(db)?,
            _ => {
                let pick = self.random.next_u64() as usize;
                let before = db.metrics().wal_interval_syncs;
                db.step(&mut |jobs| (!jobs.is_empty()).then(|| jobs[pick % jobs.len()].0));
                (self.seen)(&self.oracle);
                if db.metrics().wal_interval_syncs > before {
                    self.oracle.promised = self.oracle.acked;
                }
            }
        }
        Ok(())
    }

    /// A batch for the keyspace without a log, which takes no part in the order of the others.
    fn commit_unlogged(&mut self, db: &Db) -> Result<()> {
        let incarnation = self.oracle.alive[UNLOGGED];
        let keyspace = db.keyspace(UNLOGGED).ok_or_else(|| Error::InvalidArgument(UNLOGGED.to_owned()))?;
        let (mut batch, mut told): (WriteBatch, Vec<Entry>) = (WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.random.below(8) {
            let key = format!("{:04}", self.random.below(KEYS)).into_bytes();
            let value = format!("{:0>60}", self.oracle.tried).into_bytes();
            batch.put_in(&keyspace, &key, &value);
            told.push((incarnation, key, Change::Put(value)));
        }
        self.oracle.begin(&told);
        let written = db.write(batch);
        (self.seen)(&self.oracle);
        written?;
        self.oracle.ack(false);
        self.happened.unlogged += 1;
        Ok(())
    }

    /// The keyspace without a log has been flushed.
    fn promise_unlogged(&mut self) {
        if let Some(incarnation) = self.oracle.alive.get(UNLOGGED) {
            let last = self.oracle.last_commit_of(*incarnation);
            self.oracle.unlogged.insert(UNLOGGED.to_owned(), last);
        }
    }

    fn commit(&mut self, db: &Db) -> Result<()> {
        let random = &mut self.random;
        let oversized = random.one_in(300);
        let entries = if oversized { 1 } else { 1 + random.below(5) };
        let mut alive: Vec<(String, usize)> = self.oracle.alive.clone().into_iter().collect();
        alive.retain(|(name, _)| name != UNLOGGED);
        let (mut batch, mut told): (WriteBatch, Vec<Entry>) = (WriteBatch::new(), Vec::new());
        for _ in 0..entries {
            let (name, incarnation) = &alive[random.below(alive.len() as u64) as usize];
            let keyspace = db.keyspace(name).ok_or_else(|| Error::InvalidArgument(name.clone()))?;
            let number = random.below(KEYS);
            let key = format!("{number:04}").into_bytes();
            if random.one_in(4) && !oversized {
                batch.delete_in(&keyspace, &key);
                told.push((*incarnation, key, Change::Delete));
                self.happened.deletes += 1;
                continue;
            }
            if random.one_in(12) && !oversized {
                let width = if random.one_in(20) { KEYS } else { 1 + random.below(12) };
                let end = format!("{:04}", number + width).into_bytes();
                batch.delete_range_in(&keyspace, &key, &end);
                told.push((*incarnation, key, Change::DeleteTo(end)));
                self.happened.range_deletes += 1;
                continue;
            }
            // Larger than a log file at times: it gets one of its own.
            let len = if oversized { 17 << 10 } else { 8 + random.below(120) };
            let mut value = format!("{:06}-", self.oracle.tried).into_bytes();
            value.resize(value.len() + len as usize, b'a' + (self.oracle.tried % 26) as u8);
            batch.put_in(&keyspace, &key, &value);
            told.push((*incarnation, key, Change::Put(value)));
        }
        let durability = match self.random.below(24) {
            0..4 => Durability::Sync,
            4..7 => Durability::Interval(Duration::from_millis(1 + self.random.below(10))),
            _ => Durability::Os,
        };
        let sync = durability == Durability::Sync;
        self.oracle.begin(&told);
        let written = db.write_with(batch, durability);
        (self.seen)(&self.oracle);
        written?;
        self.oracle.ack(sync);
        self.happened.syncs += u64::from(sync);
        self.happened.oversized += u64::from(oversized);
        Ok(())
    }

    /// Sorted records into one keyspace, all at once; at times given up before the end.
    fn bulk_load(&mut self, db: &Db) -> Result<()> {
        let alive: Vec<(String, usize)> = self.oracle.alive.clone().into_iter().collect();
        let (name, incarnation) = &alive[self.random.below(alive.len() as u64) as usize];
        let keyspace = db.keyspace(name).ok_or_else(|| Error::InvalidArgument(name.clone()))?;
        let (first, count) = (self.random.below(KEYS), 1 + self.random.below(40));
        let mut told: Vec<Entry> = Vec::new();
        let mut load = keyspace.bulk_load()?;
        for n in first..first + count {
            let key = format!("{n:04}").into_bytes();
            let value = format!("{:06}-loaded-{:060}", self.oracle.tried, n).into_bytes();
            load.put(&key, &value).inspect_err(|_| (self.seen)(&self.oracle))?;
            told.push((*incarnation, key, Change::Put(value)));
        }
        (self.seen)(&self.oracle);
        if self.random.one_in(4) {
            drop(load);
            (self.seen)(&self.oracle);
            self.happened.loads_dropped += 1;
            return Ok(());
        }
        self.oracle.begin(&told);
        let finished = load.finish();
        (self.seen)(&self.oracle);
        finished?;
        // It is durable, and so is everything before it.
        self.oracle.ack(true);
        if name == UNLOGGED {
            self.promise_unlogged();
        }
        self.happened.loads += 1;
        Ok(())
    }

    fn flush(&mut self, db: &Db) -> Result<()> {
        let alive: Vec<(String, usize)> = self.oracle.alive.clone().into_iter().collect();
        let (name, incarnation) = &alive[self.random.below(alive.len() as u64) as usize];
        let flushed = db.keyspace(name).map_or(Ok(()), |keyspace| keyspace.flush());
        (self.seen)(&self.oracle);
        flushed?;
        if name == UNLOGGED {
            self.promise_unlogged();
            return Ok(());
        }
        // What is in tables is safe, and with it everything before.
        self.oracle.promised = self.oracle.promised.max(self.oracle.last_commit_of(*incarnation));
        Ok(())
    }

    /// A checkpoint, which stays.
    fn copy(&mut self, db: &Db) -> Result<()> {
        let target = copy_dir(self.oracle.copies.len());
        self.oracle.copies.push(digests(db)?);
        self.oracle.copying = true;
        let made = db.checkpoint(target);
        (self.seen)(&self.oracle);
        made?;
        self.oracle.copying = false;
        self.happened.copies += 1;
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
        if name == UNLOGGED {
            self.oracle.unlogged.insert(name.to_owned(), 0);
        }
        let options = KeyspaceOptions {
            strategy: Some("rr".to_owned()),
            memtable_bytes: Some(MEMTABLE_BYTES),
            no_wal: name == UNLOGGED,
            compression: Some("lz4".parse().unwrap()),
            prefix_filter: None,
        };
        let created = db.create_keyspace(name, options);
        (self.seen)(&self.oracle);
        created?;
        self.oracle.alive = self.oracle.alive_next.clone();
        self.happened.created += 1;
        Ok(())
    }
}
