//! Decided work: what a compaction takes, and where its output goes. A running attempt at it is a `CompactionJob`.

use std::sync::Arc;

use super::strategy::FilterBits;
use crate::base::class::Class;
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId};
use crate::version::run::TableRef;
use crate::version::version::Version;

/// The tables a compaction takes from one run.
#[derive(Clone, Debug)]
pub struct InputRun {
    /// The run's level.
    pub level: usize,
    /// The run's group.
    pub group: GroupId,
    /// The run.
    pub run: RunId,
    /// Its tables that are taken, ascending.
    pub tables: Vec<TableRef>,
}

/// Where in a group the output goes; fixed when the compaction is picked, kept until it ends (I3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotPlace {
    /// Into this run, which is among or below the inputs.
    Into(RunId),
    /// A new run just above this one, which stays while the job is open even if it becomes empty.
    Above(RunId),
    /// A new run in an empty group.
    First,
    /// Into this run, the oldest of the neighbouring input runs of one group, which are merged there. (A new run beside it
    /// would be wrong: a job that is to put newer data just above this run would come between the two.)
    Collapse(RunId),
}

/// The output's place in one target group.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The target group.
    pub group: GroupId,
    /// The group's key range: outputs are cut at its bounds (I6).
    pub range: KeyRange,
    /// The place.
    pub place: SlotPlace,
    /// The run the output tables join: for `Into` and `Collapse` that run, otherwise an id given out for this compaction, whose run
    /// is added by the first commit that needs it.
    pub run: RunId,
}

/// Tables that may wait for their sync before the job waits for them.
pub const SYNCING_MAX: usize = 4;

/// Outputs of a job that are written and not committed, in tables of the usual size: one grows, the others wait for their sync, and each may
/// have half as much again where it ends with one below.
const UNCOMMITTED_MAX: u64 = (3 * (SYNCING_MAX as u64 + 1)).div_ceil(2);

/// Decided work. Pure data: holds for as long as its inputs are claimed.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Whose urgency it has.
    pub class: Class,
    /// Why: the trigger's name and figures, one line for people.
    pub reason: String,
    /// The score of what asked for it, when it was decided; 1 if that was no trigger.
    pub urgency: f64,
    /// The level the seed came from, when the work was decided.
    pub level: usize,
    /// The level the output goes to, numbered as when the work was decided; the same for a collapse.
    pub target_level: usize,
    /// Inputs in read order, newest first.
    pub inputs: Vec<InputRun>,
    /// The smallest range around all inputs.
    pub range: KeyRange,
    /// The output's place per target group that `range` touches, ascending.
    pub slots: Vec<Slot>,
    /// True if the inputs, all of one run, need only change their place.
    pub trivial_move: bool,
    /// Where older data for a key may lie outside the inputs: there, tombstones stay (I4). Ascending, disjoint.
    pub older: Vec<KeyRange>,
    /// Visible bytes of all inputs.
    pub input_bytes: u64,
    /// Output tables are cut at about this size.
    pub table_bytes: u64,
    /// Where tables of the level below the target end, ascending: good places for outputs to end.
    pub ends_below: Vec<Arc<[u8]>>,
    /// Filter bits per key for the outputs.
    pub filter_bits: FilterBits,
    /// For those among them that lie above older data.
    pub filter_bits_above: FilterBits,
    /// Where the round-robin movement goes on, if that movement chose the seed.
    pub cursor: Option<(usize, Box<[u8]>)>,
}

impl Compaction {
    /// Every input table.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.inputs.iter().flat_map(|run| run.tables.iter())
    }

    /// Bytes that it takes beside its inputs at most, if parts are committed and inputs removed as it goes: of each run the table that is
    /// not used up, and outputs that are not committed yet.
    pub fn space_sliced(&self) -> u64 {
        let largest = |run: &InputRun| run.tables.iter().map(TableRef::bytes).max().unwrap_or(0);
        let in_use = self.inputs.iter().map(largest).fold(0, u64::saturating_add);
        in_use.saturating_add(self.table_bytes.saturating_mul(UNCOMMITTED_MAX)).min(self.input_bytes)
    }

    /// The level that the output goes to in the tree as it is: levels may have come and gone since the work was decided,
    /// but the target's groups, which the job shares, stay.
    pub fn target_level_in(&self, version: &Version) -> usize {
        let group = self.slots.first().and_then(|slot| version.find_group(slot.group));
        group.map_or(self.target_level, |(level, _)| level)
    }

    /// The level that the seed is in, likewise.
    pub fn level_in(&self, version: &Version) -> usize {
        let run = self.inputs.first().and_then(|input| version.find_run(input.run));
        run.map_or(self.level, |(level, ..)| level)
    }

    /// True if older data for `key` may lie outside the inputs.
    pub fn may_have_older(&self, key: &[u8]) -> bool {
        let i = self.older.partition_point(|r| &r.lo[..] <= key);
        i > 0 && self.older.get(i - 1).is_some_and(|r| r.is_below_end(key))
    }
}
