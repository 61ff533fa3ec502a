//! What the store counts about itself. Written by the commit leader and background threads only: reads touch no counter
//! that another thread writes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::Histogram;

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
    /// Log files begun.
    pub wal_rotations: Counter,
    /// Flushes installed.
    pub flushes: Counter,
    /// Compactions finished, trivial moves left out.
    pub compactions: Counter,
    /// Tables moved by metadata alone, and their bytes.
    pub moves: Counter,
    /// Bytes of those.
    pub moved_bytes: Counter,
    /// Bytes that compactions read.
    pub compaction_bytes_read: Counter,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: Counter,
    /// Parts of compactions committed before their end.
    pub prefix_commits: Counter,
    /// Times a job was set aside for a more urgent one.
    pub jobs_preempted: Counter,
    /// Times a job set aside went on.
    pub jobs_resumed: Counter,
    /// Jobs that committed what they had and let go of the rest.
    pub jobs_yielded: Counter,
    /// Jobs that threw their work away.
    pub jobs_discarded: Counter,
    /// Bytes of work thrown away.
    pub wasted_bytes: Counter,
    /// Jobs refused for want of disk space.
    pub jobs_refused: Counter,
    /// Times a writer had to wait for background work.
    pub stalls: Counter,
    /// Nanoseconds of those waits.
    pub stall_nanos: Counter,
    /// CPU of background threads by class, nanoseconds; index as `Class`.
    pub cpu_nanos: [Counter; 5],
    /// Microseconds a step of a job took.
    pub step_us: Histogram,
    /// Microseconds from a compaction's pick to its end.
    pub compaction_us: Histogram,
}
