//! The block of a table's range tombstones: fragments, which do not overlap, each with the sequences that snapshots tell apart.
//!
//! ```text
//! block    = fragment…
//! fragment = | 0: begins where the one before ends, 1: its first key follows: u8 | [first key] | end | n: varint |
//!            | newest sequence: varint | distance to the next older one: varint, n - 1 times |
//! keys are length-prefixed; n ≥ 1, distances ≥ 1
//! ```
//! Read when the table is opened, and kept as long as the table is open.

use std::sync::Arc;

use super::meta::TableMeta;
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::key_range::end_at_most;
use crate::base::range_tombstones::RangeTombstone;
use crate::base::units::SeqNo;

/// Collects fragments in ascending order. Those that touch and say the same become one.
#[derive(Debug, Default)]
pub struct RangeBlockBuilder {
    payload: Vec<u8>,
    /// The last fragment, which may still grow.
    lo: Vec<u8>,
    hi: Vec<u8>,
    seqs: Vec<SeqNo>,
    /// The end of the fragment before it.
    written_hi: Option<Vec<u8>>,
}

impl RangeBlockBuilder {
    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// About how many bytes the block takes.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.lo.len() + self.hi.len() + 4 * self.seqs.len()
    }

    /// Where the last fragment ends; empty before the first.
    pub fn end(&self) -> &[u8] {
        &self.hi
    }

    /// Adds a fragment with `seqs`, newest first. True if it became a part of the one before.
    pub fn add(&mut self, lo: &[u8], hi: &[u8], seqs: &[SeqNo]) -> bool {
        if !self.is_empty() && lo == self.hi && seqs == self.seqs {
            self.hi.clear();
            self.hi.extend_from_slice(hi);
            return true;
        }
        self.write();
        self.lo.clear();
        self.lo.extend_from_slice(lo);
        self.hi.clear();
        self.hi.extend_from_slice(hi);
        self.seqs.clear();
        self.seqs.extend_from_slice(seqs);
        false
    }

    /// The block's payload, put over `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.write();
        self.seqs.clear();
        out.clear();
        out.append(&mut self.payload);
    }

    fn write(&mut self) {
        let Some(newest) = self.seqs.first() else { return };
        if self.written_hi.as_deref() == Some(&self.lo) {
            self.payload.push(0);
        } else {
            self.payload.push(1);
            put_bytes(&mut self.payload, &self.lo);
        }
        put_bytes(&mut self.payload, &self.hi);
        put_varint(&mut self.payload, self.seqs.len() as u64);
        put_varint(&mut self.payload, newest.0);
        for (newer, older) in self.seqs.iter().zip(self.seqs.iter().skip(1)) {
            put_varint(&mut self.payload, newer.0.saturating_sub(older.0));
        }
        self.written_hi = Some(self.hi.clone());
    }
}

/// What a block holds, if it is what `meta` says; otherwise what is wrong with it.
pub fn decode(payload: &[u8], meta: &TableMeta) -> Result<Vec<RangeTombstone>, &'static str> {
    const DAMAGED: &str = "a range tombstone makes no sense";
    const COUNT: &str = "the number of range tombstones is not the one on record";
    let mut from = Decoder::new(payload);
    let mut out: Vec<RangeTombstone> = Vec::new();
    let mut end: Option<Arc<[u8]>> = None;
    while !from.is_empty() {
        let lo = match (from.u8(), &end) {
            (Some(0), Some(end)) => Arc::clone(end),
            (Some(1), _) => from.bytes().ok_or(DAMAGED)?.into(),
            _ => return Err(DAMAGED),
        };
        let hi: Arc<[u8]> = from.bytes().ok_or(DAMAGED)?.into();
        if lo >= hi || end.as_ref().is_some_and(|end| *end > lo) {
            return Err("the range tombstones are out of order");
        }
        let n = from.varint().filter(|n| *n > 0).ok_or(DAMAGED)?;
        let mut seq = from.varint().ok_or(DAMAGED)?;
        for i in 0..n {
            if i > 0 {
                let distance = from.varint().filter(|d| *d > 0).ok_or(DAMAGED)?;
                seq = seq.checked_sub(distance).ok_or(DAMAGED)?;
            }
            if seq == 0 || SeqNo(seq) < meta.seqs.0 || SeqNo(seq) > meta.seqs.1 {
                return Err("a range tombstone's sequence is not in the table's range");
            }
            // Before it takes memory: a byte of the file becomes dozens there.
            if out.len() as u64 >= meta.range_tombstones {
                return Err(COUNT);
            }
            out.push(RangeTombstone { lo: Arc::clone(&lo), hi: Arc::clone(&hi), seq: SeqNo(seq) });
        }
        end = Some(hi);
    }
    if out.len() as u64 != meta.range_tombstones {
        return Err(COUNT);
    }
    let bounds = meta.bounds();
    let inside = |t: &RangeTombstone| *bounds.lo <= *t.lo && end_at_most(Some(&t.hi), bounds.hi.as_deref());
    if out.iter().all(inside) { Ok(out) } else { Err("a range tombstone leaves the table's bounds") }
}

#[cfg(test)]
#[path = "range_block_tests.rs"]
mod tests;
