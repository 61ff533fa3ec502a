//! What a table's entries add up to: counts, bounds, samples. The writer collects it, `verify` collects it again.

use super::meta::{HISTOGRAM_KEY_BYTES, HISTOGRAM_KEYS_MAX, KeyHistogram, TableMeta};
use crate::base::key::{Kind, Trailer, compare};
use crate::base::key_range::after;
use crate::base::units::SeqNo;

/// Samples held while the number of entries is unknown; more make the histogram finer.
const SAMPLES: usize = 128;

/// How an entry follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It is of another user key, or the first.
    NewKey,
    /// It is an older entry of the same user key.
    SameKey,
    /// It is not above the one before.
    OutOfOrder,
}

/// Collects facts entry by entry.
#[derive(Debug)]
pub struct Facts {
    entries: u64,
    keys: u64,
    seqs: (SeqNo, SeqNo),
    tombstones: u64,
    range_tombstones: u64,
    dense_blocks: u64,
    /// Entries and tombstones when the current block began.
    block_start: (u64, u64),
    first: Vec<u8>,
    last: Vec<u8>,
    last_trailer: Trailer,
    /// Where the range tombstones begin and end; nothing without any.
    covered: Option<(Vec<u8>, Vec<u8>)>,
    samples: Vec<([u8; HISTOGRAM_KEY_BYTES], usize)>,
    stride: u64,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            entries: 0,
            keys: 0,
            seqs: (SeqNo::MAX, SeqNo(0)),
            tombstones: 0,
            range_tombstones: 0,
            dense_blocks: 0,
            block_start: (0, 0),
            first: Vec::new(),
            last: Vec::new(),
            last_trailer: Trailer(0),
            covered: None,
            samples: Vec::with_capacity(SAMPLES),
            stride: 1,
        }
    }
}

impl Facts {
    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The first key; empty before it.
    pub fn first_key(&self) -> &[u8] {
        &self.first
    }

    /// The last key; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// How (key, trailer) would follow the last entry.
    #[inline]
    pub fn follows(&self, key: &[u8], trailer: Trailer) -> Follows {
        if self.entries == 0 {
            return Follows::NewKey;
        }
        if key == self.last.as_slice() {
            if trailer < self.last_trailer { Follows::SameKey } else { Follows::OutOfOrder }
        } else if compare(&self.last, self.last_trailer, key, trailer).is_lt() {
            Follows::NewKey
        } else {
            Follows::OutOfOrder
        }
    }

    /// Counts an entry.
    #[inline]
    pub fn add(&mut self, key: &[u8], trailer: Trailer, follows: Follows) {
        if self.entries == 0 {
            self.first.extend_from_slice(key);
        }
        if follows == Follows::NewKey {
            self.keys += 1;
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        self.last_trailer = trailer;
        if self.entries & (self.stride - 1) == 0 {
            self.sample(key);
        }
        self.entries += 1;
        let seq = trailer.seq();
        self.seqs = (self.seqs.0.min(seq), self.seqs.1.max(seq));
        self.tombstones += u64::from(is_tombstone(trailer));
    }

    /// Counts a fragment of range tombstones, which is above all before it; `grows` if it is a part of the one before.
    pub fn add_range(&mut self, lo: &[u8], hi: &[u8], seqs: &[SeqNo], grows: bool) {
        let (_, end) = self.covered.get_or_insert_with(|| (lo.to_vec(), Vec::new()));
        end.clear();
        end.extend_from_slice(hi);
        if !grows {
            self.range_tombstones += seqs.len() as u64;
        }
        for seq in seqs {
            self.seqs = (self.seqs.0.min(*seq), self.seqs.1.max(*seq));
        }
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.entries == 0 && self.covered.is_none()
    }

    /// Says that a data block ends after the last entry.
    pub fn end_block(&mut self) {
        let entries = self.entries - self.block_start.0;
        let tombstones = self.tombstones - self.block_start.1;
        self.dense_blocks += u64::from(entries > 0 && tombstones * 2 >= entries);
        self.block_start = (self.entries, self.tombstones);
    }

    /// Fills in everything of `meta` that the entries determine.
    pub fn write_to(&self, meta: &mut TableMeta) {
        meta.entries = self.entries;
        meta.keys = self.keys;
        meta.seqs = self.seqs;
        meta.tombstones = self.tombstones;
        meta.range_tombstones = self.range_tombstones;
        meta.dense_blocks = self.dense_blocks;
        meta.smallest = self.first.as_slice().into();
        meta.largest = self.last.as_slice().into();
        meta.end = None;
        if let Some((lo, hi)) = &self.covered {
            if self.entries == 0 || lo < &self.first {
                meta.smallest = lo.as_slice().into();
            }
            if self.entries == 0 {
                meta.largest = meta.smallest.clone();
            }
            let beyond = hi.as_slice() > &*after(&self.last);
            meta.end = (self.entries == 0 || beyond).then(|| hi.as_slice().into());
        }
        meta.key_histogram = self.histogram();
    }

    /// The first fact of `meta` that the entries contradict.
    pub fn contradicts(&self, meta: &TableMeta) -> Option<&'static str> {
        let mut found = meta.clone();
        self.write_to(&mut found);
        let checks = [
            (found.entries == meta.entries, "the number of entries"),
            (found.keys == meta.keys, "the number of keys"),
            (found.seqs == meta.seqs, "the range of sequence numbers"),
            (found.tombstones == meta.tombstones, "the number of tombstones"),
            (found.range_tombstones == meta.range_tombstones, "the number of range tombstones"),
            (found.dense_blocks == meta.dense_blocks, "the number of blocks dense with tombstones"),
            (found.smallest == meta.smallest, "the smallest key"),
            (found.largest == meta.largest, "the largest key"),
            (found.end == meta.end, "the end of the range tombstones"),
            (found.key_histogram == meta.key_histogram, "the histogram of keys"),
        ];
        checks.iter().find(|(same, _)| !same).map(|(_, what)| *what)
    }

    /// Keeps every `stride`-th key; when there are too many, every second of them.
    fn sample(&mut self, key: &[u8]) {
        if self.samples.len() == SAMPLES {
            let mut i = 0;
            self.samples.retain(|_| {
                i += 1;
                i % 2 == 1
            });
            self.stride *= 2;
            if self.entries & (self.stride - 1) != 0 {
                return;
            }
        }
        let mut bytes = [0; HISTOGRAM_KEY_BYTES];
        for (to, from) in bytes.iter_mut().zip(key) {
            *to = *from;
        }
        self.samples.push((bytes, key.len().min(HISTOGRAM_KEY_BYTES)));
    }

    fn histogram(&self) -> KeyHistogram {
        let n = self.entries.min(HISTOGRAM_KEYS_MAX as u64);
        let keys = (0..n).filter_map(|i| {
            let rank = (i + 1) * self.entries / (n + 1);
            let sample = usize::try_from(rank / self.stride).ok()?.min(self.samples.len().checked_sub(1)?);
            let (bytes, len) = self.samples.get(sample)?;
            Some(bytes.get(..*len)?.into())
        });
        KeyHistogram { keys: keys.collect() }
    }
}

fn is_tombstone(trailer: Trailer) -> bool {
    trailer.is_delete() || trailer.kind() == Some(Kind::SingleDelete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_is_of_equal_depth() {
        for n in [1u32, 2, 14, 15, 16, 100, 128, 129, 1000, 70_001] {
            let mut facts = Facts::default();
            for i in 0..n {
                let key = i.to_be_bytes();
                let trailer = Trailer::new(SeqNo(9), Kind::Put);
                let follows = facts.follows(&key, trailer);
                assert_eq!(follows, Follows::NewKey);
                facts.add(&key, trailer, follows);
            }
            let keys = facts.histogram().keys;
            assert_eq!(keys.len(), 15.min(n as usize));
            for (i, key) in keys.iter().enumerate() {
                let at = f64::from(u32::from_be_bytes(key[..].try_into().unwrap()));
                let wanted = (i + 1) as f64 / (keys.len() + 1) as f64 * f64::from(n);
                assert!(
                    (at - wanted).abs() <= f64::from(n) / 60.0 + 1.0,
                    "{n}: key {i} at {at}, not {wanted}"
                );
            }
        }
    }

    #[test]
    fn order_and_counts() {
        let mut facts = Facts::default();
        let put = |seq| Trailer::new(SeqNo(seq), Kind::Put);
        let delete = |seq| Trailer::new(SeqNo(seq), Kind::Delete);
        for (key, trailer) in [(&b"a"[..], put(5)), (b"a", delete(4)), (b"b", delete(9))] {
            let follows = facts.follows(key, trailer);
            facts.add(key, trailer, follows);
        }
        assert_eq!(facts.follows(b"b", delete(9)), Follows::OutOfOrder);
        assert_eq!(facts.follows(b"b", put(10)), Follows::OutOfOrder);
        assert_eq!(facts.follows(b"aa", put(1)), Follows::OutOfOrder);
        assert_eq!(facts.follows(b"b", put(8)), Follows::SameKey);
        facts.end_block();
        assert_eq!((facts.entries, facts.keys, facts.tombstones, facts.dense_blocks), (3, 2, 2, 1));
        assert_eq!(facts.seqs, (SeqNo(4), SeqNo(9)));
    }
}
