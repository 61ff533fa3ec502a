//! Range tombstones of one place (a part of a memtable, a table), immutable: which of them is the newest over a key.
//!
//! The bounds of all tombstones cut the keys into intervals; a segment tree over the intervals holds each tombstone in the
//! few nodes that it covers. So n tombstones take n log n space however they nest, and a question costs log² n:
//!
//! ```text
//! tombstones  7:[a──────────m)  9:[f────────────t)
//! intervals   [a──f)[f──m)[m──t)        over g at 8: 7    over g at 9: 9    over p at 8: none
//! ```
//! A tombstone hides the entries of its keys with a smaller sequence, from every reader that sees it.

use std::ops::Range;
use std::sync::Arc;

use super::units::SeqNo;

/// Every key from `lo` to below `hi` is gone as of `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first key.
    pub lo: Arc<[u8]>,
    /// The first key that stays; above `lo`.
    pub hi: Arc<[u8]>,
    /// When.
    pub seq: SeqNo,
}

impl RangeTombstone {
    /// Copies the bounds.
    pub fn new(lo: &[u8], hi: &[u8], seq: SeqNo) -> RangeTombstone {
        RangeTombstone { lo: lo.into(), hi: hi.into(), seq }
    }
}

/// Tombstones to be asked. Readers share them; nothing changes.
#[derive(Debug, Default)]
pub struct RangeTombstones {
    /// The bounds one after the other, ascending; interval i lies between bounds i and i + 1.
    keys: Vec<u8>,
    /// Where each bound ends.
    key_ends: Vec<usize>,
    /// The segment tree: node i has the children 2i and 2i + 1, the leaves follow the inner nodes. Where the sequences of each
    /// node end.
    node_ends: Vec<u32>,
    /// Of all nodes, ascending in each.
    seqs: Vec<SeqNo>,
}

/// The stretch around a key on which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// Where it begins.
    pub lo: &'a [u8],
    /// Where it ends; `None` without an end.
    pub hi: Option<&'a [u8]>,
    /// The interval, to ask for its tombstones; `None` before the first bound and after the last.
    pub interval: Option<usize>,
}

impl RangeTombstones {
    /// Of tombstones in any order.
    pub fn new(tombstones: &[RangeTombstone]) -> RangeTombstones {
        let mut bounds: Vec<&[u8]> = tombstones.iter().flat_map(|t| [&*t.lo, &*t.hi]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len().saturating_sub(1);
        let leaf = |key: &[u8]| bounds.partition_point(|b| *b < key) + leaves;
        let covered: Vec<(Range<usize>, SeqNo)> =
            tombstones.iter().map(|t| (leaf(&t.lo)..leaf(&t.hi), t.seq)).collect();
        let mut node_ends = vec![0u32; leaves * 2];
        for (range, _) in &covered {
            for_each_node(range.clone(), |node| {
                if let Some(count) = node_ends.get_mut(node) {
                    *count += 1;
                }
            });
        }
        let mut total = 0;
        for end in &mut node_ends {
            // Where the node begins for now: filling it moves that to where it ends.
            total += std::mem::replace(end, total);
        }
        let mut seqs = vec![SeqNo(0); total as usize];
        for (range, seq) in covered {
            for_each_node(range, |node| {
                let Some(end) = node_ends.get_mut(node) else { return };
                if let Some(place) = seqs.get_mut(*end as usize) {
                    *place = seq;
                }
                *end += 1;
            });
        }
        let mut from = 0;
        for end in &node_ends {
            seqs.get_mut(from..*end as usize).into_iter().for_each(<[SeqNo]>::sort_unstable);
            from = *end as usize;
        }
        let ends = bounds.iter().scan(0, |end, bound| {
            *end += bound.len();
            Some(*end)
        });
        RangeTombstones { key_ends: ends.collect(), keys: bounds.concat(), node_ends, seqs }
    }

    /// About how much memory this takes, the keys included.
    pub fn bytes(&self) -> usize {
        let of_bounds = self.keys.len() + self.key_ends.len() * size_of::<usize>();
        size_of::<RangeTombstones>() + of_bounds + self.node_ends.len() * 4 + self.seqs.len() * 8
    }

    /// The newest tombstone over `key` at or below `at`.
    pub fn newest(&self, key: &[u8], at: SeqNo) -> Option<SeqNo> {
        self.newest_in(self.stretch(key).interval?, at)
    }

    /// The stretch that holds `key`.
    pub fn stretch(&self, key: &[u8]) -> Stretch<'_> {
        let (mut after, mut above) = (0, self.key_ends.len());
        while after < above {
            let middle = after + (above - after) / 2;
            if self.bound(middle).is_some_and(|bound| bound <= key) {
                after = middle + 1;
            } else {
                above = middle;
            }
        }
        let hi = self.bound(after);
        match after.checked_sub(1) {
            None => Stretch { lo: b"", hi, interval: None },
            Some(i) => Stretch { lo: self.bound(i).unwrap_or_default(), hi, interval: hi.map(|_| i) },
        }
    }

    /// The newest tombstone at or below `at` over an interval.
    pub fn newest_in(&self, interval: usize, at: SeqNo) -> Option<SeqNo> {
        let newest = |node: &[SeqNo]| node.get(node.partition_point(|s| *s <= at).checked_sub(1)?).copied();
        self.path(interval).filter_map(newest).max()
    }

    /// The oldest tombstone over an interval.
    pub fn oldest_in(&self, interval: usize) -> Option<SeqNo> {
        self.path(interval).filter_map(|node| node.first().copied()).min()
    }

    #[inline]
    fn bound(&self, i: usize) -> Option<&[u8]> {
        let end = *self.key_ends.get(i)?;
        let start = i.checked_sub(1).and_then(|before| self.key_ends.get(before)).copied().unwrap_or(0);
        self.keys.get(start..end)
    }

    /// The nodes from an interval's leaf up to the root.
    fn path(&self, interval: usize) -> impl Iterator<Item = &[SeqNo]> {
        let leaf = self.node_ends.len() / 2 + interval;
        std::iter::successors(Some(leaf), |node| Some(node / 2).filter(|parent| *parent > 0))
            .filter_map(|node| self.node(node))
    }

    #[inline]
    fn node(&self, node: usize) -> Option<&[SeqNo]> {
        let end = *self.node_ends.get(node)? as usize;
        let start = node.checked_sub(1).and_then(|before| self.node_ends.get(before)).copied().unwrap_or(0);
        self.seqs.get(start as usize..end)
    }
}

/// The fewest nodes that cover a range of leaves.
fn for_each_node(leaves: Range<usize>, mut visit: impl FnMut(usize)) {
    let (mut from, mut to) = (leaves.start, leaves.end);
    while from < to {
        if from % 2 == 1 {
            visit(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            visit(to);
        }
        (from, to) = (from / 2, to / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    fn tombstones(drawn: &str) -> Vec<RangeTombstone> {
        let one = |word: &str| {
            let (seq, range) = word.split_once(':').unwrap();
            let (lo, hi) = range.split_once('-').unwrap();
            RangeTombstone::new(lo.as_bytes(), hi.as_bytes(), SeqNo(seq.parse().unwrap()))
        };
        drawn.split_whitespace().map(one).collect()
    }

    #[test]
    fn the_newest_over_a_key_is_found() {
        let set = RangeTombstones::new(&tombstones("7:a-m 9:f-t 3:f-g"));
        for (key, at, want) in [
            ("A", 99, None),
            ("a", 6, None),
            ("a", 7, Some(7)),
            ("f", 2, None),
            ("f", 5, Some(3)),
            ("f", 8, Some(7)),
            ("g", 9, Some(9)),
            ("m", 8, None),
            ("s", 9, Some(9)),
            ("t", 99, None),
        ] {
            assert_eq!(set.newest(key.as_bytes(), SeqNo(at)), want.map(SeqNo), "{key} at {at}");
        }
        let stretch = set.stretch(b"h");
        assert_eq!((stretch.lo, stretch.hi), (&b"g"[..], Some(&b"m"[..])));
        assert_eq!(stretch.interval.and_then(|i| set.oldest_in(i)), Some(SeqNo(7)));
        assert_eq!(set.stretch(b"").interval, None);
        assert_eq!(set.stretch(b"t"), Stretch { lo: b"t", hi: None, interval: None });
    }

    #[test]
    fn nothing_covers_nothing() {
        let set = RangeTombstones::new(&[]);
        assert_eq!(set.newest(b"a", SeqNo::MAX), None);
        assert_eq!(set.stretch(b"a"), Stretch { lo: b"", hi: None, interval: None });
    }

    /// Against a list that is searched from its start to its end.
    #[test]
    fn every_question_is_answered_as_by_the_list() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let n = 1 + random.below(40);
            let width = 1 + random.below(60);
            let one = |seq: u64, random: &mut Random| {
                let lo = random.below(200) as u8;
                let hi = lo.saturating_add(1 + random.below(width) as u8);
                RangeTombstone::new(&[lo], &[hi], SeqNo(seq))
            };
            let list: Vec<RangeTombstone> = (1..=n).map(|seq| one(seq, &mut random)).collect();
            let set = RangeTombstones::new(&list);
            for key in 0..=255u8 {
                for at in [0, 1, n / 2, n, n + 1] {
                    let over =
                        list.iter().filter(|t| *t.lo <= [key][..] && [key][..] < *t.hi && t.seq.0 <= at);
                    let want = over.map(|t| t.seq).max();
                    assert_eq!(set.newest(&[key], SeqNo(at)), want, "seed {seed}, key {key} at {at}");
                }
            }
        }
    }

    /// A hundred thousand nested tombstones: neither the space nor the time is that of all pairs.
    #[test]
    fn nested_tombstones_take_little_space() {
        let key = |i: u32| i.to_be_bytes();
        let n = 100_000;
        let nested = |i: u32| RangeTombstone::new(&key(i), &key(2 * n - i), SeqNo(u64::from(i) + 1));
        let set = RangeTombstones::new(&(0..n).map(nested).collect::<Vec<_>>());
        assert!(set.bytes() < n as usize * 400, "{} bytes", set.bytes());
        for i in [0, 1, n / 2, n - 1] {
            assert_eq!(set.newest(&key(i), SeqNo::MAX), Some(SeqNo(u64::from(i) + 1)));
            assert_eq!(set.newest(&key(i), SeqNo(5)), Some(SeqNo(u64::from(i).min(4) + 1)));
        }
    }
}
