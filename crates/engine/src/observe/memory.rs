//! The memory budget: what each class of memory takes, counted where it is taken, against one limit for all.
//!
//! The block cache counts its own (blocks, and partitions of indexes and filters); everything else is charged here. Who
//! enforces it is `db/jobs/memory.rs`: the cache yields first, then memtables are flushed early, then writers are slowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::base::clock::thread_number;

/// What memory is taken for, the block cache aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Memtables: active, waiting, being flushed, and those that readers still hold; spare chunks for the next.
    Memtables,
    /// Buffers of open jobs, also of those that are paused, and of a trace that runs.
    Jobs,
    /// Batches on their way, where they are large or writers are slowed.
    Batches,
}

const CLASSES: usize = 3;
const STRIPES: usize = 16;

/// A counter of one thread or a few.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicI64);

/// Counters of memory.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    used: [AtomicU64; CLASSES],
    /// Readers' cursors come and go often and on all cores: each thread counts on its own line.
    cursors: [Stripe; STRIPES],
}

impl MemoryBudget {
    /// Bytes of a class.
    pub fn used(&self, class: MemoryClass) -> u64 {
        self.used.get(class as usize).map_or(0, |used| used.load(Ordering::Relaxed))
    }

    /// Bytes of cursors: what they pin and their own buffers.
    pub fn cursors(&self) -> u64 {
        let sum: i64 = self.cursors.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }

    fn change(&self, class: MemoryClass, from: u64, to: u64) {
        let Some(used) = self.used.get(class as usize) else { return };
        if to >= from {
            used.fetch_add(to - from, Ordering::Relaxed);
        } else {
            used.fetch_sub(from - to, Ordering::Relaxed);
        }
    }
}

/// Bytes charged to a class until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    class: MemoryClass,
    bytes: AtomicU64,
}

impl Charge {
    /// Charges `bytes`.
    pub fn new(budget: &Arc<MemoryBudget>, class: MemoryClass, bytes: u64) -> Charge {
        let charge = Charge { budget: Arc::clone(budget), class, bytes: AtomicU64::new(0) };
        charge.set(bytes);
        charge
    }

    /// Charges `bytes` from now on instead. One thread at a time.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.budget.change(self.class, before, bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Bytes charged for a cursor until this is dropped.
#[derive(Debug)]
pub struct CursorCharge {
    budget: Arc<MemoryBudget>,
    stripe: usize,
    bytes: i64,
}

impl CursorCharge {
    /// Charges `bytes`.
    pub fn new(budget: &Arc<MemoryBudget>, bytes: u64) -> CursorCharge {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let stripe = thread_number() % STRIPES;
        if let Some(counter) = budget.cursors.get(stripe) {
            counter.0.fetch_add(bytes, Ordering::Relaxed);
        }
        CursorCharge { budget: Arc::clone(budget), stripe, bytes }
    }
}

impl Drop for CursorCharge {
    fn drop(&mut self) {
        if let Some(counter) = self.budget.cursors.get(self.stripe) {
            counter.0.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_counted_until_it_is_dropped() {
        let budget = Arc::new(MemoryBudget::default());
        let charge = Charge::new(&budget, MemoryClass::Jobs, 100);
        let other = Charge::new(&budget, MemoryClass::Jobs, 11);
        charge.set(40);
        assert_eq!((budget.used(MemoryClass::Jobs), budget.used(MemoryClass::Batches)), (51, 0));
        drop(charge);
        drop(other);
        assert_eq!(budget.used(MemoryClass::Jobs), 0);
    }

    #[test]
    fn a_cursor_that_ends_on_another_thread_is_counted_back() {
        let budget = Arc::new(MemoryBudget::default());
        let cursors: Vec<_> = (0..40).map(|i| CursorCharge::new(&budget, i)).collect();
        assert_eq!(budget.cursors(), (0..40).sum::<u64>());
        crate::base::clock::spawn("test", move || drop(cursors)).unwrap().join().unwrap();
        assert_eq!(budget.cursors(), 0);
    }
}
