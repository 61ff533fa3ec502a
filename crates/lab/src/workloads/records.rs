//! Which records exist: shared by all threads of a run.
//!
//! Records inserted by several threads are counted like YCSB does: a record may be chosen once it and all before it are
//! acknowledged. A record that somebody is about to delete is marked first, so that who finds nothing knows why.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The first chunk of marks holds so many words of 64; each further one twice as many.
const FIRST_WORDS: u64 = 1024;
/// Enough chunks for every number.
const CHUNKS: usize = 49;

/// See the file's header.
#[derive(Debug)]
pub struct Records {
    next: AtomicU64,
    acknowledged: AtomicU64,
    /// Acknowledged out of order: all above `acknowledged`.
    early: Mutex<BTreeSet<u64>>,
    turns: AtomicU64,
    /// A bit a record: set once it may be deleted.
    doomed: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
}

impl Records {
    /// Records `0..count` exist.
    pub fn new(count: u64) -> Records {
        Records {
            next: count.into(),
            acknowledged: count.into(),
            early: Mutex::default(),
            turns: 0.into(),
            doomed: [const { OnceLock::new() }; CHUNKS],
        }
    }

    /// The number of a record to insert.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// How many numbers have been taken.
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Record `number` is in the store.
    pub fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = self.acknowledged.load(Ordering::Relaxed);
        if number != count {
            early.insert(number);
            return;
        }
        count += 1;
        while early.first() == Some(&count) {
            early.pop_first();
            count += 1;
        }
        // Release pairs with the reader's acquire: who sees the count may read what was written before it.
        self.acknowledged.store(count, Ordering::Release);
    }

    /// Records `0..count()` are in the store, but for those that were deleted since.
    pub fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Counts what all threads draw in turn.
    pub fn turns(&self) -> &AtomicU64 {
        &self.turns
    }

    /// Record `number` is about to be deleted; false if it was already.
    pub fn doom(&self, number: u64) -> bool {
        let (chunk, word, bit) = place(number);
        let words = FIRST_WORDS << chunk;
        let chunk = self.doomed[chunk].get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        chunk[word].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// True if record `number` may be deleted.
    pub fn doomed(&self, number: u64) -> bool {
        let (chunk, word, bit) = place(number);
        // A reader that misses a record has met its deletion in the engine, which came after the mark.
        self.doomed[chunk].get().is_some_and(|chunk| chunk[word].load(Ordering::Relaxed) & bit != 0)
    }
}

/// Chunk, word and bit of a record's mark.
fn place(number: u64) -> (usize, usize, u64) {
    let word = number / 64;
    let chunk = (word / FIRST_WORDS + 1).ilog2();
    (chunk as usize, (word - FIRST_WORDS * ((1 << chunk) - 1)) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_once_all_before_them_are_there() {
        let records = Records::new(10);
        let taken: Vec<u64> = (0..4).map(|_| records.take()).collect();
        assert_eq!(taken, [10, 11, 12, 13]);
        records.acknowledge(12);
        records.acknowledge(11);
        assert_eq!(records.count(), 10);
        records.acknowledge(10);
        assert_eq!(records.count(), 13);
        assert_eq!(records.taken(), 14);
    }

    #[test]
    fn a_mark_is_one_record_s_and_set_once() {
        let records = Records::new(0);
        let marked = [0, 1, 63, 64, 65_535, 65_536, 65_537, 196_607, 196_608, 10_000_000];
        for number in marked {
            assert!(!records.doomed(number), "{number}");
            assert!(records.doom(number), "{number}");
            assert!(!records.doom(number), "{number}");
        }
        let found: Vec<u64> = (0..200_000).filter(|number| records.doomed(*number)).collect();
        assert_eq!(found[..], marked[..9]);
        assert!(!records.doomed(1 << 48));
    }
}
