//! How often and how lately a table was looked into: what read heat and access recency decide by. A hint, lost at a restart.
//!
//! Always on, so it must cost next to nothing: of each thread's operations one in 16 on average is counted, for 16. The others pay
//! a decrement of a number of their own thread. The gaps are drawn by chance, so that no pattern of reads keeps step with them.
//! A get that a filter lets pass, and that reads a block from the file, has cost so much that it is counted in any case, for
//! itself: with what the others count for, a table's probes are as many in the mean, and chance has less of a say in them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::hotness::access_window::{Looks, Operations};

/// One in so many operations is counted.
pub const SAMPLING: u32 = 16;

thread_local! {
    /// Operations until the next one that is counted, and what the gaps are drawn from.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    static STATE: Cell<u32> = const { Cell::new(0) };
}

/// Looks into one table. Shared by all clones: it belongs to the file.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    /// Of those, gets that the filter let pass, and scans.
    probes: AtomicU64,
    entered: AtomicU64,
    last_ms: AtomicU64,
    /// Operations of the keyspace before it was part of the tree.
    before: OnceLock<Operations>,
}

impl Access {
    /// Counts an operation that `sampled` let through.
    #[cold]
    pub fn note(&self, now_ms: u64) {
        self.add(u64::from(SAMPLING), now_ms);
    }

    /// Counts that such a get was let pass by the table's filter, and found all it needed in memory.
    #[cold]
    pub fn note_probe(&self) {
        self.0.probes.fetch_add(u64::from(SAMPLING), Ordering::Relaxed);
    }

    /// Counts a get, any, that was let pass and read from the file.
    #[cold]
    pub fn note_probe_of_file(&self) {
        self.0.probes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a scan that `sampled` let through.
    #[cold]
    pub fn note_entered(&self, now_ms: u64) {
        self.note(now_ms);
        self.0.entered.fetch_add(u64::from(SAMPLING), Ordering::Relaxed);
    }

    /// It becomes part of a tree, after so many operations. A table that only moves goes on.
    pub fn begin(&self, before: Operations) {
        let _ = self.0.before.set(before);
    }

    /// Operations of the keyspace before it was part of the tree; none if the store was opened with it.
    pub fn before(&self) -> Operations {
        self.0.before.get().copied().unwrap_or_default()
    }

    /// Looks of each kind since the table was made or the store opened, estimated.
    pub fn looks(&self) -> Looks {
        let entered = self.0.entered.load(Ordering::Relaxed);
        Looks {
            candidates: self.reads().saturating_sub(entered),
            probes: self.0.probes.load(Ordering::Relaxed),
            entered,
        }
    }

    /// Counts so many looks, the last of them at `now_ms`, wall milliseconds.
    pub fn add(&self, reads: u64, now_ms: u64) {
        self.0.reads.fetch_add(reads, Ordering::Relaxed);
        self.0.last_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Looks since the table was made or the store opened, estimated.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// When it was last looked into, wall milliseconds; 0 if nobody noticed.
    pub fn last_ms(&self) -> u64 {
        self.0.last_ms.load(Ordering::Relaxed)
    }
}

/// True if this operation of the calling thread is one of those that are counted.
#[inline]
pub fn sampled() -> bool {
    LEFT.with(|left| {
        let n = left.get() - 1;
        left.set(n);
        n == 0 && draw_gap(left)
    })
}

/// From 1 to twice the mean.
#[cold]
fn draw_gap(left: &Cell<u32>) -> bool {
    STATE.with(|state| {
        let next = state.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.set(next);
        left.set(1 + (next >> 16) % (2 * SAMPLING - 1));
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_sixteen_operations_is_counted_whatever_the_pattern() {
        let access = [Access::default(), Access::default(), Access::default()];
        for i in 0..300_000 {
            if sampled() {
                access[i % 3].note(i as u64);
            }
        }
        for table in &access {
            assert!((85_000..115_000).contains(&table.reads()), "{} of 100000", table.reads());
            assert!(table.last_ms() > 290_000);
        }
    }
}
