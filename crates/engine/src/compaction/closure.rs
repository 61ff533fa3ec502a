//! Closing a seed under convexity (I2): whatever lies between an input and the output's place, over the input's keys,
//! is an input too. Otherwise the output would overtake it, or be overtaken.
//!
//! ```text
//! L0  9[c-z] | 8[a-k]      seed 9, output into L1: 8 lies between (over c-k), and so do 4 and 5 in the run it goes into;
//! L1  4[a-f] 5[g-m] 6[n-z] 8 reaches down to a, 9 up to z: all of L1 is in.
//! ```
//!
//! One rule for every shape of tree; no strategy has a special case. Each table looks only at the runs below itself, so
//! the cost is the number of tables found, not the size of the tree.

use std::collections::BTreeSet;

use super::compaction::SlotPlace;
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId};
use crate::version::group::Group;
use crate::version::run::{SortedRun, TableRef};
use crate::version::version::Version;

/// Where a table is in a Version. The order of these is the read order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TablePos {
    /// The level.
    pub level: usize,
    /// The group's index in its level.
    pub group: usize,
    /// The run's position in its group, 0 the newest.
    pub run: usize,
    /// The table's index in its run.
    pub table: usize,
}

impl TablePos {
    /// The table.
    pub fn get<'v>(&self, version: &'v Version) -> Option<&'v TableRef> {
        run_at(version, self.level, self.group, self.run)?.tables.get(self.table)
    }
}

/// The run at these indices.
pub fn run_at(version: &Version, level: usize, group: usize, run: usize) -> Option<&SortedRun> {
    Some(version.levels.get(level)?.groups.get(group)?.runs.get(run)?)
}

/// An output's place in one group, as a position among its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotIndex {
    /// Runs below this index lie above the output.
    pub above: usize,
    /// Runs at or above this index lie below it. One more than `above` if the output goes into a run.
    pub below: usize,
}

/// Finds a place in a group. `born` is the slot's own run if it has been added already.
pub fn slot_index(group: &Group, place: SlotPlace, born: Option<RunId>) -> Option<SlotIndex> {
    if let Some(at) = born.and_then(|run| group.position(run)) {
        return Some(SlotIndex { above: at, below: at + 1 });
    }
    Some(match place {
        SlotPlace::Into(run) | SlotPlace::Collapse(run) => {
            let at = group.position(run)?;
            SlotIndex { above: at, below: at + 1 }
        }
        SlotPlace::Above(run) => {
            let at = group.position(run)?;
            SlotIndex { above: at, below: at }
        }
        // At the keys of this job's inputs nothing can have come to the group in the meantime.
        SlotPlace::First => SlotIndex { above: 0, below: 0 },
    })
}

/// A compaction's target: a level and the output's place in each of its groups.
pub struct Target<'a> {
    /// The level; may be one that is yet to be born.
    pub level: usize,
    /// The place in the group with this index and id; `None` if there is none to be had.
    pub slot: &'a dyn Fn(usize, GroupId) -> Option<SlotIndex>,
}

/// The closed set of inputs, in read order, or `None` where there is no place for the output.
pub fn close(version: &Version, seed: &[TablePos], target: &Target<'_>) -> Option<BTreeSet<TablePos>> {
    let mut inputs: BTreeSet<TablePos> = seed.iter().copied().collect();
    let mut open: Vec<TablePos> = inputs.iter().copied().collect();
    while let Some(pos) = open.pop() {
        let bounds = &pos.get(version)?.bounds;
        for_each_below(version, pos, bounds, target, &mut |found| {
            if inputs.insert(found) {
                open.push(found);
            }
        })?;
    }
    Some(inputs)
}

/// Calls `visit` for every table between `pos` and the output's place that overlaps `bounds`. `None` if some group that
/// `bounds` touches has no place, or the table lies below it.
pub fn for_each_below(
    version: &Version,
    pos: TablePos,
    bounds: &KeyRange,
    target: &Target<'_>,
    visit: &mut dyn FnMut(TablePos),
) -> Option<()> {
    if pos.level > target.level {
        return None;
    }
    for level in pos.level..=target.level {
        let Some(found) = version.levels.get(level) else { break };
        let (first, groups) = found.groups_over(bounds);
        for (offset, group) in groups.iter().enumerate() {
            let index = first + offset;
            let from = if level == pos.level { pos.run + 1 } else { 0 };
            let to = if level == target.level {
                let slot = (target.slot)(index, group.id)?;
                if level == pos.level && pos.run >= slot.below {
                    return None;
                }
                slot.below
            } else {
                group.runs.len()
            };
            visit_runs(group, from..to, bounds, TablePos { level, group: index, run: 0, table: 0 }, visit);
        }
    }
    Some(())
}

fn visit_runs(
    group: &Group,
    runs: std::ops::Range<usize>,
    bounds: &KeyRange,
    at: TablePos,
    visit: &mut dyn FnMut(TablePos),
) {
    for (run, found) in group.runs.iter().enumerate().take(runs.end).skip(runs.start) {
        let tables = found.overlapping_range(bounds);
        for table in tables {
            #[cfg(test)]
            if broken::CONVEXITY.get() {
                continue;
            }
            visit(TablePos { run, table, ..at });
        }
    }
}

/// Switches the rule off on this thread, so that a test can show that it would notice.
#[cfg(test)]
pub mod broken {
    use std::cell::Cell;

    thread_local! {
        /// True: nothing lies between anything.
        pub static CONVEXITY: Cell<bool> = const { Cell::new(false) };
    }
}
