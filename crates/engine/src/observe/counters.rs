//! What the store counts about itself. Written by the commit leader and background threads only: reads touch no counter
//! that another thread writes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::Histogram;

use crate::base::locks::Mutex;

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One number that is what it was last set to.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// What it was last set to.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The largest number seen.
#[derive(Debug, Default)]
pub struct Maximum(AtomicU64);

impl Maximum {
    /// Notes a number.
    pub fn note(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    /// The largest so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The store's counters.
#[derive(Debug, Default)]
pub struct Counters {
    /// Writes acknowledged.
    pub writes: Counter,
    /// Key and value bytes of those.
    pub user_bytes: Counter,
    /// Groups committed; writes / groups is the mean group.
    pub groups: Counter,
    /// Syncs of the log on behalf of writers.
    pub wal_syncs: Counter,
    /// Syncs of the log because an interval was over.
    pub wal_interval_syncs: Counter,
    /// Log files begun.
    pub wal_rotations: Counter,
    /// Of those, the ones that a writer had to make itself because the lane had none ready.
    pub wal_made_by_writer: Counter,
    /// Flushes installed.
    pub flushes: Counter,
    /// Bytes that their memtables had.
    pub flushed_memtable_bytes: Counter,
    /// Bytes of the tables that those became.
    pub flushed_table_bytes: Counter,
    /// Compactions finished, trivial moves left out.
    pub compactions: Counter,
    /// Tables moved by metadata alone, and their bytes.
    pub moves: Counter,
    /// Bytes of those.
    pub moved_bytes: Counter,
    /// Tables dropped unread, because newer range tombstones cover all they hold.
    pub covered_drops: Counter,
    /// Bytes of those.
    pub covered_bytes: Counter,
    /// Bytes that compactions read.
    pub compaction_bytes_read: Counter,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: Counter,
    /// Entries that flushes and bulk loads brought into the trees.
    pub entries_in: Counter,
    /// Entries that compactions wrote and committed.
    pub entries_rewritten: Counter,
    /// Parts of compactions committed before their end.
    pub prefix_commits: Counter,
    /// Times a job was set aside for a more urgent one.
    pub jobs_preempted: Counter,
    /// Times a job set aside went on.
    pub jobs_resumed: Counter,
    /// Jobs that committed what they had and let go of the rest.
    pub jobs_yielded: Counter,
    /// Jobs that threw their work away for a more urgent one.
    pub jobs_discarded: Counter,
    /// Jobs that failed and lost their work.
    pub jobs_failed: Counter,
    /// Flushes that could not begin at once because another one was under way.
    pub flushes_delayed: Counter,
    /// CPU of the thread that looks at the clients' load, nanoseconds.
    pub monitor_nanos: Gauge,
    /// Bytes of work thrown away.
    pub wasted_bytes: Counter,
    /// Jobs refused for want of disk space.
    pub jobs_refused: Counter,
    /// Times a limit began to hold writers up.
    pub stalls: Counter,
    /// Nanoseconds that writers waited for their turn.
    pub stall_nanos: Counter,
    /// Writes that waited for their turn.
    pub delays: Counter,
    /// Times that a writer woke while it waited.
    pub delay_wakeups: Counter,
    /// The longest of those waits, as far as it has come.
    pub longest_delay_nanos: Maximum,
    /// Memtables flushed before they were full, for want of memory.
    pub early_flushes: Counter,
    /// CPU of background threads by class, nanoseconds; index as `Class`.
    pub cpu_nanos: [Counter; 5],
    /// Microseconds a step of a job took.
    pub step_us: Histogram,
    /// Microseconds from a compaction's pick to its end.
    pub compaction_us: Histogram,
    /// Microseconds from a memtable's last write to its flush's begin.
    pub flush_wait_us: Histogram,
    /// Microseconds that a compaction of L0 waited for its first step: from its pick, or from when L0 was due and other work had all
    /// places. What a gate of the schedule delays on purpose does not count until it is let go.
    pub l0_wait_us: Histogram,
    /// Microseconds from a flush's begin to its end.
    pub flush_us: Histogram,
    /// Waits of writers by reason, and their nanoseconds; index as [`StallReason`].
    pub stalls_by_reason: [(Counter, Counter); 3],
    /// Bytes that finished compactions read and wrote.
    pub compaction_bytes: CompactionBytes,
    /// Failures of background work.
    pub background_errors: Counter,
    /// Times that `LOG` or `STATS` could not be written.
    pub log_failures: Gauge,
}

impl Counters {
    /// A writer begins to wait for background work.
    pub fn stall(&self, reason: StallReason, now: Duration) -> Stall<'_> {
        self.delays.add(1);
        self.stalls_by_reason[reason as usize].0.add(1);
        Stall { counters: self, reason, since: now, counted: Cell::new(now) }
    }
}

/// A wait of a writer. Its time counts as it passes, so that whoever looks meanwhile sees it.
#[derive(Debug)]
pub struct Stall<'a> {
    counters: &'a Counters,
    reason: StallReason,
    since: Duration,
    /// Up to when it has been counted.
    counted: Cell<Duration>,
}

impl Stall<'_> {
    /// It has lasted until now.
    pub fn lasts(&self, now: Duration) {
        let before = self.counted.replace(self.counted.get().max(now));
        let nanos = now.saturating_sub(before).as_nanos() as u64;
        self.counters.stall_nanos.add(nanos);
        self.counters.stalls_by_reason[self.reason as usize].1.add(nanos);
        self.counters.longest_delay_nanos.note(now.saturating_sub(self.since).as_nanos() as u64);
    }
}

/// Why writers waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// Their keyspace owes flushes or compactions of L0.
    Backlog,
    /// The memtables of all keyspaces take what memory there is.
    Memory,
    /// A compaction is due, and the option `compaction_first` lets it go first.
    Compactions,
}

impl StallReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [StallReason; 3] = [StallReason::Backlog, StallReason::Memory, StallReason::Compactions];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            StallReason::Backlog => "backlog",
            StallReason::Memory => "memory",
            StallReason::Compactions => "compactions",
        }
    }
}

/// Bytes of compactions by what they were.
#[derive(Debug, Default)]
pub struct CompactionBytes(Mutex<BTreeMap<CompactionKind, [u64; 3]>>);

/// What a compaction was: its output's level, and what asked for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompactionKind {
    /// The level the output went to.
    pub level: usize,
    /// The trigger's word, for instance `runs`; `manual` if a user asked.
    pub trigger: String,
}

impl CompactionBytes {
    /// A compaction has ended.
    pub fn add(&self, kind: CompactionKind, read: u64, written: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = all.entry(kind).or_default();
        *sums = [sums[0] + 1, sums[1] + read, sums[2] + written];
    }

    /// Compactions, bytes read and bytes written by kind.
    pub fn list(&self) -> Vec<(CompactionKind, [u64; 3])> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(kind, sums)| (kind.clone(), *sums)).collect()
    }
}
