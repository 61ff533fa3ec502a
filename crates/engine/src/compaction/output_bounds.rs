//! Where a compaction's tables must end, and where they had better: at its targets' bounds, at gaps that no input covers (I6), at
//! their size, where tables below end. The one rule for jobs that write tables and for simulations that only count them.

use super::compaction::Compaction;
use super::cut::Cutter;
use crate::base::key_range::{KeyRange, end_at_most};

/// Walks along the output's keys, which ascend.
#[derive(Clone, Debug)]
pub struct OutputBounds {
    /// The union of the inputs' bounds, ascending, disjoint: no table may span two of these.
    islands: Vec<KeyRange>,
    island: usize,
    /// The target groups' ranges.
    slots: Vec<KeyRange>,
    slot: usize,
    cutter: Cutter,
}

impl OutputBounds {
    /// For the outputs of `compaction`.
    pub fn new(compaction: &Compaction) -> OutputBounds {
        let mut bounds: Vec<&KeyRange> = compaction.tables().map(|t| &t.bounds).collect();
        bounds.sort_by(|a, b| a.lo.cmp(&b.lo));
        let mut islands: Vec<KeyRange> = Vec::new();
        for range in bounds {
            match islands.last_mut() {
                // Bounds that touch leave no gap between them.
                Some(last) if end_at_most(Some(&range.lo), last.hi.as_deref()) => *last = last.hull(range),
                _ => islands.push(range.clone()),
            }
        }
        let slots = compaction.slots.iter().map(|slot| slot.range.clone()).collect();
        OutputBounds { islands, island: 0, slots, slot: 0, cutter: Cutter::new(compaction) }
    }

    /// True if a table that holds `open_bytes` ends before `key`, a key above all before it.
    #[inline]
    pub fn cuts_before(&mut self, key: &[u8], open_bytes: u64) -> bool {
        let before = (self.island, self.slot);
        while self.islands.get(self.island).is_some_and(|r| !r.is_below_end(key)) {
            self.island += 1;
        }
        while self.slots.get(self.slot).is_some_and(|r| !r.is_below_end(key)) {
            self.slot += 1;
        }
        self.cutter.cuts_before(key, open_bytes) || before != (self.island, self.slot)
    }

    /// Below this key tables end only because of their size; `None`: everywhere.
    pub fn next_bound(&self) -> Option<&[u8]> {
        let island = self.islands.get(self.island).and_then(|r| r.hi.as_deref());
        let slot = self.slots.get(self.slot).and_then(|r| r.hi.as_deref());
        [island, slot, self.cutter.next_end()].into_iter().flatten().min()
    }

    /// A table has ended.
    pub fn cut(&mut self) {
        self.cutter.cut();
    }

    /// A table that holds as much ends in any case.
    pub fn most_bytes(&self) -> u64 {
        self.cutter.most_bytes()
    }

    /// The index of the slot that `key` goes to.
    pub fn slot_of(&self, key: &[u8]) -> usize {
        self.slots.partition_point(|range| &range.lo[..] <= key).saturating_sub(1)
    }
}
