//! Slow operations, each charged to a cause: a ring of the last ones, sums for each of the last seconds, and latencies of a
//! sample of all operations.
//!
//! An operation is slow when it took `slow_us` or longer. Its time is known from its first wait on, for one operation in 64
//! from its begin on; so one that was slow without waiting for anything (CPU) is found in the sample only, and counts
//! for 64 in the sums.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::histogram::Histogram;
use super::waits::{self, Cause, SAMPLE_EVERY, Wait, Waited, wait_counted};
use crate::base::clock::{Clock, ticks};
use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::KeyspaceId;

/// Operations remembered.
const OPERATIONS_KEPT: usize = 1024;
/// Seconds remembered.
pub const SECONDS_KEPT: usize = 600;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A get or a multi-get.
    Get,
    /// A put, a delete or a batch.
    Write,
    /// A move of a cursor.
    Scan,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 3] = [Op::Get, Op::Write, Op::Scan];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Write => "write",
            Op::Scan => "scan",
        }
    }
}

/// An operation that was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowOperation {
    /// When it ended, wall milliseconds.
    pub ended_ms: u64,
    /// What it was.
    pub op: Op,
    /// Whose; `None` for writes, which may be of several keyspaces.
    pub keyspace: Option<KeyspaceId>,
    /// Nanoseconds by cause, indexed as [`Cause`].
    pub nanos: [u64; 5],
    /// Blocks that came from files.
    pub block_reads: u32,
}

/// What went on around the operations of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Bytes that clients read from files.
    pub client_bytes: u64,
    /// Bytes written to the log.
    pub wal_bytes: u64,
    /// Bytes that flushes wrote.
    pub flush_bytes: u64,
    /// Bytes that compactions read and wrote.
    pub compaction_bytes: u64,
    /// Nanoseconds of CPU of background threads.
    pub background_cpu_nanos: u64,
    /// Lookups that did not find their block in the cache.
    pub cache_misses: u64,
    /// The most runs that any keyspace had in L0.
    pub l0_runs: u64,
}

/// A second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Seconds since 1970.
    pub at: u64,
    /// Slow operations, those that stand for others of the sample counted with them.
    pub operations: u64,
    /// Nanoseconds of those by cause, indexed as [`Cause`].
    pub nanos: [u64; 5],
    /// What went on, once the second is over; only kept where a thread looks each second.
    pub around: Surroundings,
}

/// What is remembered of slow operations.
#[derive(Debug)]
pub struct SlowOperations {
    /// Nanoseconds from which on an operation is slow; 0 for none.
    threshold: AtomicU64,
    /// Nanoseconds that leaders waited for syncs, and for room.
    sync_nanos: AtomicU64,
    stall_nanos: AtomicU64,
    latency: [Histogram; 3],
    /// Pages that the gets of the sample read from files.
    get_pages: AtomicU64,
    /// Slow operations and their nanoseconds by cause since open.
    total: Mutex<Remembered>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Remembered {
    operations: VecDeque<SlowOperation>,
    seconds: VecDeque<Second>,
    count: u64,
    nanos: [u64; 5],
}

impl SlowOperations {
    /// Nothing yet; `slow_us` microseconds are slow.
    pub fn new(clock: Arc<dyn Clock>, slow_us: u64) -> SlowOperations {
        SlowOperations {
            threshold: AtomicU64::new(slow_us.saturating_mul(1000)),
            sync_nanos: AtomicU64::new(0),
            stall_nanos: AtomicU64::new(0),
            latency: Default::default(),
            get_pages: AtomicU64::new(0),
            total: Mutex::default(),
            clock,
        }
    }

    /// From now on `slow_us` microseconds are slow; 0 ends all measuring.
    pub fn set_threshold(&self, slow_us: u64) {
        self.threshold.store(slow_us.saturating_mul(1000), Ordering::Relaxed);
    }

    /// Microseconds from which on an operation is slow; 0 if nothing is measured.
    pub fn threshold_us(&self) -> u64 {
        self.threshold.load(Ordering::Relaxed) / 1000
    }

    /// Does an operation, and remembers it if it was slow. Looks at no clock unless the operation waits for something, or
    /// is one of the sample.
    #[inline]
    pub fn watch<T>(&self, op: Op, keyspace: Option<KeyspaceId>, operation: impl FnOnce() -> T) -> T {
        let threshold = self.threshold.load(Ordering::Relaxed);
        if threshold == 0 {
            waits::forget();
            return operation();
        }
        let began = if waits::begin() { ticks() } else { 0 };
        let result = operation();
        let waited = waits::end();
        if waited.is_some() || began > 0 {
            self.ended(op, keyspace, began, waited, threshold);
        }
        result
    }

    /// A step of a cursor has been done: remembers it if it waited for something and was slow.
    #[inline]
    pub fn stepped(&self) {
        if waits::has_waited() {
            let threshold = self.threshold.load(Ordering::Relaxed);
            let waited = waits::end();
            if threshold > 0 {
                self.ended(Op::Scan, None, 0, waited, threshold);
            }
        }
    }

    /// The leader waits for a sync of the log.
    pub fn wait_for_sync(&self) -> Wait<'_> {
        wait_counted(Cause::Sync, Some(&self.sync_nanos))
    }

    /// The leader waits for room.
    pub fn wait_for_room(&self) -> Wait<'_> {
        wait_counted(Cause::Stall, Some(&self.stall_nanos))
    }

    /// Waits in the writers' queue. What the leader meanwhile waited for, its followers have waited for too.
    pub fn queue<T>(&self, wait: impl FnOnce() -> T) -> T {
        if self.threshold.load(Ordering::Relaxed) == 0 {
            return wait();
        }
        let sums = || [&self.sync_nanos, &self.stall_nanos].map(|sum| sum.load(Ordering::Relaxed));
        let (since, [sync, stall]) = (ticks(), sums());
        let result = wait();
        let (waited, [sync_now, stall_now]) = (ticks().saturating_sub(since), sums());
        waits::charge(since, split_queue(waited, sync_now - sync, stall_now - stall));
        result
    }

    #[cold]
    fn ended(&self, op: Op, keyspace: Option<KeyspaceId>, began: u64, waited: Option<Waited>, slow: u64) {
        let now = ticks();
        let sampled = began > 0;
        let weight = if sampled && waited.is_none() { SAMPLE_EVERY } else { 1 };
        let waited = waited.unwrap_or_default();
        let took = now.saturating_sub(if sampled { began } else { waited.since }).max(waited.total());
        if sampled {
            self.latency[op as usize].add(took);
            if op == Op::Get {
                self.get_pages.fetch_add(waited.pages.into(), Ordering::Relaxed);
            }
        }
        if took < slow {
            return;
        }
        let mut nanos = waited.nanos;
        nanos[Cause::Cpu as usize] += took.saturating_sub(waited.total());
        let ended_ms = self.clock.wall_ms();
        let operation = SlowOperation { ended_ms, op, keyspace, nanos, block_reads: waited.block_reads };
        self.remember(operation, weight);
    }

    /// Remembers a slow operation that stands for `weight`.
    pub fn remember(&self, operation: SlowOperation, weight: u64) {
        let mut all = self.lock();
        let nanos = operation.nanos.map(|n| n.saturating_mul(weight));
        all.count += weight;
        add(&mut all.nanos, nanos);
        let second = all.second(operation.ended_ms / 1000);
        second.operations += weight;
        add(&mut second.nanos, nanos);
        if all.operations.len() == OPERATIONS_KEPT {
            all.operations.pop_front();
        }
        all.operations.push_back(operation);
    }

    /// Notes what went on in the second `at`, and answers it.
    pub fn close_second(&self, at: u64, around: Surroundings) -> Second {
        let mut all = self.lock();
        let second = all.second(at);
        second.around = around;
        *second
    }

    /// The seconds remembered, oldest first.
    pub fn seconds(&self) -> Vec<Second> {
        self.lock().seconds.iter().copied().collect()
    }

    /// The last `n` slow operations, oldest first.
    pub fn last(&self, n: usize) -> Vec<SlowOperation> {
        let all = self.lock();
        all.operations.iter().skip(all.operations.len().saturating_sub(n)).cloned().collect()
    }

    /// Slow operations since open, and their nanoseconds by cause.
    pub fn total(&self) -> (u64, [u64; 5]) {
        let all = self.lock();
        (all.count, all.nanos)
    }

    /// Latencies in nanoseconds of the sample, by kind of operation.
    pub fn latency(&self, op: Op) -> &Histogram {
        &self.latency[op as usize]
    }

    /// Pages that a get reads from files, in the mean of the sample; `None` before there is one.
    pub fn pages_per_get(&self) -> Option<f64> {
        let gets = self.latency(Op::Get).count();
        (gets > 0).then(|| self.get_pages.load(Ordering::Relaxed) as f64 / gets as f64)
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    /// The second `at`, or the last one if the wall clock went back.
    fn second(&mut self, at: u64) -> &mut Second {
        if self.seconds.back().is_none_or(|last| last.at < at) {
            if self.seconds.len() == SECONDS_KEPT {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second { at, ..Second::default() });
        }
        // An operation may end in a second while the one before is closed.
        let found = self.seconds.iter().rposition(|s| s.at <= at).unwrap_or(self.seconds.len() - 1);
        &mut self.seconds[found]
    }
}

/// A follower's wait: first what its leader waited for, the rest for the queue itself.
fn split_queue(waited: u64, sync: u64, stall: u64) -> [u64; 5] {
    let stall = stall.min(waited);
    let sync = sync.min(waited - stall);
    [waited - stall - sync, sync, stall, 0, 0]
}

fn add(sums: &mut [u64; 5], more: [u64; 5]) {
    for (sum, n) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(n);
    }
}

#[cfg(test)]
#[path = "slow_tests.rs"]
mod tests;
