//! What a simulation counts, and what comes out of it. The definitions are those of `Metrics::costs` (`docs/observability.md`).

use evenkeel::plan::{Class, Compaction};
use serde::Serialize;

/// A compaction that was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The level it began with.
    pub level: usize,
    /// The level its output went to.
    pub target_level: usize,
    /// Whose urgency it had.
    pub class: Class,
    /// Bytes of its inputs.
    pub read_bytes: u64,
    /// Bytes of its outputs.
    pub written_bytes: u64,
    /// Tables read and written.
    pub tables: u64,
}

/// Counted so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Compactions, moves excepted.
    pub jobs: Vec<Job>,
    /// Moves by metadata.
    pub moves: u64,
    /// Bytes that they moved.
    pub moved_bytes: u64,
    /// Tables read into or written by jobs and flushes.
    pub table_operations: u64,
    /// Looks for work.
    pub decisions: u64,
}

impl Tally {
    /// A flush wrote so many bytes in so many tables.
    pub fn flushed(&mut self, bytes: u64, tables: u64) {
        self.flushed_bytes += bytes;
        self.table_operations += tables;
    }

    /// Tables changed their place.
    pub fn moved(&mut self, compaction: &Compaction) {
        self.moves += 1;
        self.moved_bytes += compaction.input_bytes;
    }

    /// A job is done.
    pub fn done(&mut self, job: Job) {
        self.table_operations += job.tables;
        self.jobs.push(job);
    }

    /// Forgets bytes and jobs, but not the work of the simulation itself: what follows is measured.
    pub fn begin_measuring(&mut self) {
        let (table_operations, decisions) = (self.table_operations, self.decisions);
        *self = Tally { table_operations, decisions, ..Tally::default() };
    }
}

/// Mean, last and largest of what changes over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean over all flushes.
    pub mean: f64,
    /// At the end.
    pub last: f64,
    /// The most.
    pub most: f64,
    #[serde(skip)]
    count: f64,
}

impl Spread {
    /// One more value.
    pub fn note(&mut self, value: f64) {
        self.count += 1.0;
        self.mean += (value - self.mean) / self.count;
        self.last = value;
        self.most = self.most.max(value);
    }
}

/// What compactions came to that went from one level to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LevelJobs {
    /// From this level …
    pub from: usize,
    /// … to this.
    pub to: usize,
    /// How many.
    pub jobs: u64,
    /// Bytes of their inputs.
    pub read_bytes: u64,
    /// Bytes of their outputs.
    pub written_bytes: u64,
}

/// What came out of one simulation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The strategy, as one line.
    pub strategy: String,
    /// Bytes of keys and values that were written.
    pub user_bytes: u64,
    /// Bytes that flushes wrote.
    pub flush_bytes: u64,
    /// Bytes that compactions read.
    pub read_bytes: u64,
    /// Bytes that compactions wrote.
    pub written_bytes: u64,
    /// Bytes that compactions wrote for each byte that users wrote.
    pub write_amplification: f64,
    /// The same with flushes: all bytes of tables for each byte that users wrote.
    pub write_amplification_with_flushes: f64,
    /// Pages of 4 KiB that a get reads if nothing is in memory.
    pub pages_per_get: f64,
    /// Runs that a seek looks into.
    pub runs_per_seek: f64,
    /// Superseded bytes for each byte that is not, at each flush.
    pub space_amplification: Spread,
    /// Runs in the tree at each flush.
    pub runs: Spread,
    /// Compactions.
    pub jobs: u64,
    /// Moves by metadata.
    pub moves: u64,
    /// Bytes that they moved.
    pub moved_bytes: u64,
    /// Bytes that the median compaction read.
    pub job_bytes_p50: u64,
    /// Bytes that the largest compaction read.
    pub job_bytes_most: u64,
    /// Compactions by level.
    pub by_level: Vec<LevelJobs>,
    /// Flushes.
    pub flushes: u64,
    /// Flushes that waited because L0 had as many runs as it may have; 0 if compactions come before writes.
    pub stalls: u64,
    /// Tombstones that are left.
    pub tombstones: u64,
    /// Levels at the end.
    pub levels: usize,
    /// Bytes of tables at the end.
    pub table_bytes: u64,
    /// Tables at the end.
    pub tables: u64,
    /// Runs in the tree after each flush, thinned out to some hundred values.
    pub runs_over_time: Vec<u32>,
    /// Tables that were read into or written by flushes and jobs, preparation included.
    pub table_operations: u64,
    /// Looks for work.
    pub decisions: u64,
    /// Seconds that the simulation took.
    pub seconds: f64,
    /// The tree at the end.
    #[serde(skip)]
    pub picture: String,
}

impl Outcome {
    /// Table operations a second.
    pub fn operations_per_sec(&self) -> f64 {
        self.table_operations as f64 / self.seconds.max(1e-9)
    }

    /// Puts in what was counted.
    pub fn count(&mut self, tally: &Tally) {
        let sum = |of: fn(&Job) -> u64| tally.jobs.iter().map(of).sum::<u64>();
        self.flush_bytes = tally.flushed_bytes;
        (self.read_bytes, self.written_bytes) = (sum(|j| j.read_bytes), sum(|j| j.written_bytes));
        let user = self.user_bytes.max(1) as f64;
        self.write_amplification = self.written_bytes as f64 / user;
        self.write_amplification_with_flushes = (self.written_bytes + self.flush_bytes) as f64 / user;
        (self.jobs, self.moves, self.moved_bytes) = (tally.jobs.len() as u64, tally.moves, tally.moved_bytes);
        let mut sizes: Vec<u64> = tally.jobs.iter().map(|j| j.read_bytes).collect();
        sizes.sort_unstable();
        self.job_bytes_p50 = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        self.job_bytes_most = sizes.last().copied().unwrap_or(0);
        for job in &tally.jobs {
            let (from, to) = (job.level, job.target_level);
            let at = self.by_level.iter().position(|l| (l.from, l.to) == (from, to)).unwrap_or_else(|| {
                self.by_level.push(LevelJobs { from, to, ..LevelJobs::default() });
                self.by_level.len() - 1
            });
            let level = &mut self.by_level[at];
            level.jobs += 1;
            level.read_bytes += job.read_bytes;
            level.written_bytes += job.written_bytes;
        }
        self.by_level.sort_by_key(|l| (l.from, l.to));
        (self.table_operations, self.decisions) = (tally.table_operations, tally.decisions);
    }
}
