//! What a compaction keeps: per key the newest entry of each snapshot stripe (I5), and of those no tombstone that has
//! nothing left to hide (I4).
//!
//! ```text
//! snapshots  5, 8          stripe: entries that no snapshot tells apart
//! entries    a·9  a·7  a·6  a·3
//! stripes     2    1    1    0      kept: a·9  a·7  a·3
//! ```
//! In the oldest stripe a tombstone may go if no older data for its key lies outside the inputs: the caller says. A range
//! tombstone hides what it covers of its own stripe, and may go like any other.
//! Not an iterator but a judge: it sees each entry once, in order, and keeps no entry.

use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::units::SeqNo;
use crate::merge::visible_iterator::is_put;

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// A newer entry of its key, or a range tombstone over it, in the same stripe hides it from everyone.
    Hidden,
    /// A tombstone with nothing left to hide.
    Spent,
}

/// Judges entries that arrive in the tree's order.
#[derive(Debug)]
pub struct RetentionFilter {
    /// Ascending.
    snapshots: Vec<SeqNo>,
    key: Vec<u8>,
    any: bool,
    last_stripe: usize,
}

impl RetentionFilter {
    /// `snapshots`: every open one, in any order, listed after the inputs were fixed.
    pub fn new(mut snapshots: Vec<SeqNo>) -> RetentionFilter {
        snapshots.sort_unstable();
        snapshots.dedup();
        RetentionFilter { snapshots, key: Vec::new(), any: false, last_stripe: 0 }
    }

    /// True if `key` is not the key of the entry judged last.
    #[inline]
    pub fn is_new_key(&self, key: &[u8]) -> bool {
        !self.any || self.key != key
    }

    /// The key of the entry judged last.
    pub fn last_key(&self) -> &[u8] {
        &self.key
    }

    /// Judges the next entry. `covering` are the range tombstones over its key, newest first, one of each stripe that has any.
    /// `may_have_older` is asked only about tombstones of the oldest stripe.
    #[inline]
    pub fn judge(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        covering: &[SeqNo],
        may_have_older: impl FnOnce() -> bool,
    ) -> Result<Verdict> {
        let stripe = self.stripe(trailer.seq());
        if self.is_new_key(key) {
            self.any = true;
            self.key.clear();
            self.key.extend_from_slice(key);
        } else if stripe == self.last_stripe {
            return Ok(Verdict::Hidden);
        }
        self.last_stripe = stripe;
        if covering.iter().any(|seq| *seq > trailer.seq() && self.stripe(*seq) == stripe) {
            return Ok(Verdict::Hidden);
        }
        if !is_put(trailer)? && stripe == 0 && !may_have_older() {
            return Ok(Verdict::Spent);
        }
        Ok(Verdict::Keep)
    }

    /// How many of `seqs`, newest first and one of each stripe, stay: the last goes if it is of the oldest stripe and there is no
    /// older data in its range outside the inputs.
    pub fn keep_ranges(&self, seqs: &[SeqNo], may_have_older: bool) -> usize {
        let spent = !may_have_older && seqs.last().is_some_and(|oldest| self.stripe(*oldest) == 0);
        seqs.len() - usize::from(spent)
    }

    #[inline]
    fn stripe(&self, seq: SeqNo) -> usize {
        if self.snapshots.is_empty() { 0 } else { self.snapshots.partition_point(|s| *s < seq) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::Kind;

    /// Entries as `a9 a7- ...` (`-` is a delete) in, the kept ones out.
    fn kept(snapshots: &[u64], older: bool, entries: &str) -> String {
        kept_under(&[], snapshots, older, entries)
    }

    fn kept_under(ranges: &[u64], snapshots: &[u64], older: bool, entries: &str) -> String {
        let covering: Vec<SeqNo> = ranges.iter().copied().map(SeqNo).collect();
        let mut filter = RetentionFilter::new(snapshots.iter().copied().map(SeqNo).collect());
        let mut out = Vec::new();
        for word in entries.split_whitespace() {
            let kind = if word.ends_with('-') { Kind::Delete } else { Kind::Put };
            let seq = word[1..].trim_end_matches('-').parse().map(SeqNo).unwrap();
            if filter.judge(&word.as_bytes()[..1], Trailer::new(seq, kind), &covering, || older).unwrap()
                == Verdict::Keep
            {
                out.push(word);
            }
        }
        out.join(" ")
    }

    #[test]
    fn stripes_and_tombstones() {
        assert_eq!(kept(&[], false, "a9 a7 a6 a3"), "a9");
        assert_eq!(kept(&[5, 8], false, "a9 a7 a6 a3"), "a9 a7 a3");
        assert_eq!(kept(&[9], false, "a9 a3"), "a9");
        assert_eq!(kept(&[8], false, "a9 a3"), "a9 a3");
        assert_eq!(kept(&[], false, "a9- a3 b2"), "b2");
        assert_eq!(kept(&[], true, "a9- a3 b2"), "a9- b2");
        assert_eq!(kept(&[5], false, "a9- a3"), "a9- a3");
        assert_eq!(kept(&[5], false, "a9 a3- a2"), "a9");
        assert_eq!(kept(&[5], true, "a9 a3- a2"), "a9 a3-");
    }

    #[test]
    fn what_a_range_tombstone_covers_goes_unless_a_snapshot_lies_between() {
        assert_eq!(
            kept_under(&[8], &[], true, "a9 a7 b7 c8"),
            "a9 c8",
            "newer than the tombstone, or it itself"
        );
        assert_eq!(kept_under(&[8], &[7], true, "a9 a7 b6-"), "a9 a7 b6-");
        assert_eq!(kept_under(&[8], &[6], true, "a9 a7 a5"), "a9 a5");
        assert_eq!(kept_under(&[8, 4], &[6], true, "a9 a7 a5 b5 b3 c3"), "a9 a5 b5");
        assert_eq!(kept_under(&[8, 4], &[6], true, "a7- b3"), "");
        assert_eq!(kept_under(&[9], &[5], true, "a7 a4-"), "a4-");
    }

    #[test]
    fn range_tombstones_go_as_the_others_do() {
        for (seqs, snapshots, older, want) in [
            (&[9][..], &[][..], true, 1),
            (&[9], &[], false, 0),
            (&[9], &[5], false, 1),
            (&[9], &[9], false, 0),
            (&[9, 4], &[5], false, 1),
            (&[9, 4], &[5], true, 2),
        ] {
            let filter = RetentionFilter::new(snapshots.iter().copied().map(SeqNo).collect());
            let seqs: Vec<SeqNo> = seqs.iter().copied().map(SeqNo).collect();
            assert_eq!(filter.keep_ranges(&seqs, older), want, "{seqs:?} {snapshots:?} {older}");
        }
    }
}
