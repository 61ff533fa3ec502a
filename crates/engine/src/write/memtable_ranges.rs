//! The range tombstones of a memtable, beside its tree: one writer adds, readers take what is there without a lock.
//!
//! What readers see is a list of immutable pieces, the newest first, swapped whole. A new tombstone is a piece of its own;
//! pieces of one size are made one, up to a size. So n tombstones cost the writer n log² n, a swap is short, and a reader
//! asks some ten pieces, and one more for each few thousand tombstones:
//!
//! ```text
//! 5 tombstones    [5] [1 2 3 4]        the 6th   [6] [5] [1 2 3 4]  ─►  [5 6] [1 2 3 4]
//! ```
//! Where there is none, a reader looks at one number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use crate::base::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::base::units::SeqNo;

/// Pieces of this many tombstones stay as they are: making one of two takes a millisecond or two, which a write waits for.
const PIECE_MAX: usize = 4096;

/// The readers' side.
#[derive(Debug, Default)]
pub struct MemtableRanges {
    /// Stored after the pieces: a reader that sees a count sees that many tombstones.
    count: AtomicU64,
    pieces: ArcSwapOption<Vec<Arc<RangeTombstones>>>,
    bytes: AtomicU64,
}

impl MemtableRanges {
    /// The newest tombstone over `key` at or below `at`; sequence 0 if there is none.
    #[inline]
    pub fn covering(&self, key: &[u8], at: SeqNo) -> SeqNo {
        if self.count.load(Ordering::Acquire) == 0 { SeqNo(0) } else { self.newest(key, at) }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The pieces, newest first: every tombstone of one is newer than every one of the next.
    pub fn pieces(&self) -> Vec<Arc<RangeTombstones>> {
        if self.count() == 0 {
            return Vec::new();
        }
        self.pieces.load().as_ref().map(|pieces| pieces.to_vec()).unwrap_or_default()
    }

    #[cold]
    fn newest(&self, key: &[u8], at: SeqNo) -> SeqNo {
        let pieces = self.pieces.load();
        let pieces = pieces.as_ref().map(|p| p.as_slice()).unwrap_or_default();
        // Pieces are of their own stretches of time: the first answer is the newest.
        pieces.iter().find_map(|piece| piece.newest(key, at)).unwrap_or_default()
    }
}

/// The one writer's side.
#[derive(Debug, Default)]
pub struct RangeWriter {
    /// All of them, oldest first.
    tombstones: Vec<RangeTombstone>,
    /// How many of them each piece has, oldest first.
    sizes: Vec<usize>,
    /// Bytes of the list.
    listed_bytes: usize,
}

impl RangeWriter {
    /// Adds a tombstone newer than all before, which `to` then shows.
    pub fn add(&mut self, to: &MemtableRanges, lo: &[u8], hi: &[u8], seq: SeqNo) {
        self.tombstones.push(RangeTombstone::new(lo, hi, seq));
        let mut size = 1;
        let mut merged = 0;
        while let Some(before) = self.sizes.last().filter(|before| **before <= size && size < PIECE_MAX) {
            size += before;
            merged += 1;
            self.sizes.pop();
        }
        self.sizes.push(size);
        let newest = self.tombstones.get(self.tombstones.len() - size..).unwrap_or_default();
        let mut pieces = to.pieces();
        pieces.splice(..merged, [Arc::new(RangeTombstones::new(newest))]);
        self.listed_bytes += size_of::<RangeTombstone>() + lo.len() + hi.len() + 32;
        let bytes = self.listed_bytes + pieces.iter().map(|piece| piece.bytes()).sum::<usize>();
        to.bytes.store(bytes as u64, Ordering::Relaxed);
        to.pieces.store(Some(Arc::new(pieces)));
        to.count.store(self.tombstones.len() as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    #[test]
    fn pieces_answer_as_the_list_does_and_stay_few() {
        let mut random = Random::new(7);
        let (ranges, mut writer) = (MemtableRanges::default(), RangeWriter::default());
        let mut list: Vec<RangeTombstone> = Vec::new();
        assert_eq!((ranges.covering(b"x", SeqNo::MAX), ranges.bytes()), (SeqNo(0), 0));
        for seq in 1..=700u64 {
            let lo = random.below(200) as u8;
            let hi = lo + 1 + random.below(50) as u8;
            writer.add(&ranges, &[lo], &[hi], SeqNo(seq));
            list.push(RangeTombstone::new(&[lo], &[hi], SeqNo(seq)));
            assert!(ranges.pieces().len() <= 10, "{} pieces of {seq}", ranges.pieces().len());
            for _ in 0..20 {
                let (key, at) = (random.below(256) as u8, random.below(seq + 2));
                let over = list.iter().filter(|t| *t.lo <= [key][..] && [key][..] < *t.hi && t.seq.0 <= at);
                let want = over.map(|t| t.seq).max().unwrap_or_default();
                assert_eq!(ranges.covering(&[key], SeqNo(at)), want, "key {key} at {at} of {seq}");
            }
        }
        assert_eq!(ranges.count(), 700);
    }

    /// A reader between any two writes: the cost of a hundred thousand is not that of all pairs.
    #[test]
    fn a_hundred_thousand_with_reads_between_are_soon_done() {
        let (ranges, mut writer) = (MemtableRanges::default(), RangeWriter::default());
        let key = |i: u64| i.to_be_bytes();
        for seq in 1..=100_000u64 {
            writer.add(&ranges, &key(seq), &key(400_000 - seq), SeqNo(seq));
            assert_eq!(ranges.covering(&key(seq), SeqNo::MAX), SeqNo(seq));
        }
        assert!(ranges.pieces().len() < 45, "{} pieces", ranges.pieces().len());
        assert_eq!(ranges.covering(&key(50_000), SeqNo(70_000)), SeqNo(50_000));
    }
}
