//! Carrying out a compaction on samples: merge the inputs' entries, drop what a merge drops, cut where the engine cuts.

use evenkeel::plan::{Compaction, OutputBounds};

use crate::contents::{Contents, Sums};
use crate::entry::{Entry, KeyNumber, merge_pair};
use crate::sizes::Sizes;

/// One output table.
#[derive(Debug)]
pub struct Output {
    /// The slot it goes to.
    pub slot: usize,
    /// What it holds.
    pub entries: Vec<Entry>,
    /// What that comes to.
    pub sums: Sums,
}

/// Merges; keeps its buffers from one merge to the next.
#[derive(Debug, Default)]
pub struct Merger {
    runs: Vec<Vec<Entry>>,
    merged: Vec<Entry>,
}

impl Merger {
    /// The outputs of `compaction`, in key order; its inputs are gone from `contents`.
    pub fn merge(&mut self, compaction: &Compaction, contents: &mut Contents, sizes: &Sizes) -> Vec<Output> {
        self.gather(compaction, contents);
        let mut merged = std::mem::take(&mut self.merged);
        if compaction.older.is_empty() {
            merged.retain(|e| !e.delete);
        } else {
            merged.retain(|e| !e.delete || compaction.may_have_older(&e.key_bytes()));
        }
        let outputs = cut(&merged, compaction, contents, sizes);
        self.merged = merged;
        outputs
    }

    /// All entries of the inputs, of each key the newest, into `merged`.
    fn gather(&mut self, compaction: &Compaction, contents: &mut Contents) {
        let mut lists: Vec<Vec<Entry>> = Vec::with_capacity(compaction.inputs.len());
        for run in &compaction.inputs {
            let mut list = self.runs.pop().unwrap_or_default();
            list.clear();
            for table in &run.tables {
                list.extend_from_slice(contents.of(table.id()));
                contents.remove(table.id());
            }
            lists.push(list);
        }
        // Neighbours first, so that newer stays before older and each entry is looked at few times.
        while lists.len() > 1 {
            let mut next = Vec::with_capacity(lists.len().div_ceil(2));
            let mut pairs = lists.into_iter();
            while let Some(newer) = pairs.next() {
                let Some(older) = pairs.next() else {
                    next.push(newer);
                    break;
                };
                let mut out = self.runs.pop().unwrap_or_default();
                merge_pair(&newer, &older, &mut out);
                self.runs.extend([newer, older]);
                next.push(out);
            }
            lists = next;
        }
        if let Some(list) = lists.pop() {
            self.runs.push(std::mem::replace(&mut self.merged, list));
        }
    }
}

/// The first key at or above the next bound.
fn next_bound(bounds: &OutputBounds) -> KeyNumber {
    let Some(bound) = bounds.next_bound() else { return KeyNumber::MAX };
    let mut head = [0; 4];
    let length = bound.len().min(4);
    head[..length].copy_from_slice(&bound[..length]);
    // A bound may be one byte longer than a key: then it lies above it.
    KeyNumber::from_be_bytes(head).saturating_add(u32::from(bound.len() > 4))
}

fn cut(merged: &[Entry], compaction: &Compaction, contents: &mut Contents, sizes: &Sizes) -> Vec<Output> {
    let mut bounds = OutputBounds::new(compaction);
    let level = compaction.target_level;
    let mut outputs = Vec::new();
    let mut open = contents.list();
    let mut sums = Sums::default();
    // Most keys lie before the next bound, in a table that is not full: the engine need not be asked.
    let mut next = next_bound(&bounds);
    for entry in merged {
        // An entry stands for several, of which half would still have come into the table, in the mean.
        let half = sizes.in_table(
            level,
            f64::from(entry.weight - 1),
            (entry.user_bytes() - u64::from(entry.bytes)) as f64,
        ) / 2.0;
        let bytes = if open.is_empty() { 0 } else { (sums.table_bytes(sizes, level) + half) as u64 };
        if entry.key >= next || bytes >= compaction.table_bytes {
            let cuts = bounds.cuts_before(&entry.key_bytes(), bytes);
            next = next_bound(&bounds);
            if cuts && !open.is_empty() {
                bounds.cut();
                let entries = std::mem::replace(&mut open, contents.list());
                let slot = bounds.slot_of(&entries[0].key_bytes());
                outputs.push(Output { slot, entries, sums: std::mem::take(&mut sums) });
            }
        }
        open.push(*entry);
        sums.add(entry);
    }
    if !open.is_empty() {
        let slot = bounds.slot_of(&open[0].key_bytes());
        outputs.push(Output { slot, entries: open, sums });
    }
    outputs
}
