//! The tables of a simulated tree: what is in each, and the facts that decisions look at.

use std::sync::Arc;

use evenkeel::plan::{Born, KeySampler, SeqNo, TableId, TableMeta, fabricated_meta};

use crate::entry::Entry;
use crate::sizes::Sizes;
use crate::tape::{Tape, is_sampled};

/// A table's tombstones are looked at in so many stretches.
const STRETCHES: usize = 8;

/// What all tables of a tree hold, by their ids.
#[derive(Debug, Default)]
pub struct Contents {
    tables: Vec<Vec<Entry>>,
    /// Lists of tables that are gone, to be filled again.
    spare: Vec<Vec<Entry>>,
    /// Tables carry a sample of their keys as those of a store do.
    with_key_samples: bool,
}

/// What the entries of a table come to, while they are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Entries that they stand for.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub user_bytes: u64,
    /// Of these, those of puts.
    pub put_bytes: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
}

impl Sums {
    /// One more.
    #[inline]
    pub fn add(&mut self, entry: &Entry) {
        let (weight, bytes) = (u64::from(entry.weight), entry.user_bytes());
        self.entries += weight;
        self.user_bytes += bytes;
        if entry.delete {
            self.tombstones += weight;
        } else {
            self.put_bytes += bytes;
        }
    }

    /// Of all these.
    pub fn of(entries: &[Entry]) -> Sums {
        let mut sums = Sums::default();
        entries.iter().for_each(|entry| sums.add(entry));
        sums
    }

    /// The file's length.
    pub fn table_bytes(&self, sizes: &Sizes, level: usize) -> f64 {
        sizes.table_bytes + sizes.in_table(level, self.entries as f64, self.user_bytes as f64)
    }
}

/// What else a new table's facts say.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The file's length.
    pub bytes: u64,
    /// Entries, exactly where that is known.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// When the first of these was written, if there are any.
    pub oldest_tombstone_ms: Option<u64>,
    /// What made it.
    pub born: Born,
    /// When.
    pub now_ms: u64,
}

impl Contents {
    /// No tables yet; each is to carry a sample of its keys, or not.
    pub fn new(with_key_samples: bool) -> Contents {
        Contents { with_key_samples, ..Contents::default() }
    }

    /// What a table holds.
    pub fn of(&self, table: TableId) -> &[Entry] {
        self.tables.get(table.0 as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// A list to fill.
    pub fn list(&mut self) -> Vec<Entry> {
        self.spare.pop().unwrap_or_default()
    }

    /// A table that is gone.
    pub fn remove(&mut self, table: TableId) {
        if let Some(entries) = self.tables.get_mut(table.0 as usize) {
            let mut entries = std::mem::take(entries);
            entries.clear();
            self.spare.push(entries);
        }
    }

    /// A new table of these entries, of which there is at least one.
    pub fn add(&mut self, entries: Vec<Entry>, facts: Facts, tape: &Tape) -> Arc<TableMeta> {
        // Ids begin at 1.
        if self.tables.is_empty() {
            self.tables.push(Vec::new());
        }
        let id = self.tables.len() as u64;
        let first = entries.first().map_or([0; 4], Entry::key_bytes);
        let last = entries.last().map_or([0; 4], Entry::key_bytes);
        let mut meta = fabricated_meta(id, &first, &last);
        meta.bytes = facts.bytes;
        meta.entries = facts.entries.max(1);
        meta.keys = meta.entries;
        meta.tombstones = facts.tombstones.min(meta.entries);
        let seqs = entries.iter().fold((u32::MAX, 0), |(lo, hi), e| (e.seq.min(lo), e.seq.max(hi)));
        meta.seqs = (SeqNo(u64::from(seqs.0)), SeqNo(u64::from(seqs.1)));
        meta.created_ms = facts.now_ms;
        meta.born = facts.born;
        meta.blocks = (meta.entries as f64 / tape.sizes.entries_per_block).ceil() as u64;
        if meta.tombstones > 0 {
            meta.oldest_tombstone_ms = facts.oldest_tombstone_ms.or(Some(facts.now_ms));
            meta.dense_blocks = dense_blocks(&entries, meta.blocks, tape.sizes.entries_per_block);
        }
        if self.with_key_samples {
            meta.key_sample = key_sample(&entries, tape);
        }
        self.tables.push(entries);
        Arc::new(meta)
    }

    /// Tables that there have been.
    pub fn made(&self) -> u64 {
        (self.tables.len() as u64).saturating_sub(1)
    }
}

/// The sample that the table of a store would carry, of keys that stand for equally many.
fn key_sample(entries: &[Entry], tape: &Tape) -> evenkeel::plan::KeySample {
    let mut sampler = KeySampler::default();
    for entry in entries {
        let hash = tape.hashes[entry.key as usize];
        // A key that comes often is in the tape's sample more likely than others; here all are as likely.
        if is_sampled(hash, tape.weight) {
            sampler.add(hash, entry.delete);
        }
    }
    sampler.sample()
}

/// How many of a table's blocks are dense with tombstones: those of which at least half the entries are, if the tombstones of each
/// stretch lie in it by chance.
fn dense_blocks(entries: &[Entry], blocks: u64, per_block: f64) -> u64 {
    let stretch = entries.len().div_ceil(STRETCHES).max(1);
    let dense = entries.chunks(stretch).map(|part| {
        let sums = Sums::of(part);
        let share = sums.tombstones as f64 / sums.entries.max(1) as f64;
        let blocks = blocks as f64 * part.len() as f64 / entries.len().max(1) as f64;
        blocks * at_least_half(share, per_block)
    });
    dense.sum::<f64>().round() as u64
}

/// How likely at least half of `count` draws are hits, each with chance `share`: the normal approximation.
fn at_least_half(share: f64, count: f64) -> f64 {
    let deviation = (share * (1.0 - share) / count).sqrt();
    if deviation <= 0.0 {
        return if share >= 0.5 { 1.0 } else { 0.0 };
    }
    let z = (share - 0.5 + 0.25 / count) / deviation;
    // The logistic curve that lies closest to the normal one.
    1.0 / (1.0 + (-1.702 * z).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dense_where_tombstones_are_half() {
        assert!(at_least_half(0.05, 30.0) < 1e-4);
        assert!(at_least_half(0.95, 30.0) > 0.999);
        let half = at_least_half(0.5, 30.0);
        assert!((0.45..0.6).contains(&half), "{half}");
        assert_eq!((at_least_half(0.0, 9.0), at_least_half(1.0, 9.0)), (0.0, 1.0));
    }
}
