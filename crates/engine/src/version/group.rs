//! A group: a key range of a level with runs of its own. A classic level has exactly one group over all keys.

use std::sync::Arc;

use super::run::SortedRun;
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId};

/// Runs over one key range, newest first.
#[derive(Clone, Debug)]
pub struct Group {
    /// Never reused.
    pub id: GroupId,
    /// The keys it holds; groups of a level tile the key space.
    pub range: KeyRange,
    /// Newest first. A run may be empty while an open job has its slot there.
    pub runs: Vec<Arc<SortedRun>>,
    /// How many runs it was last shaped for; 1 is leveled.
    pub run_bound: u32,
}

impl Group {
    /// The position of a run, 0 for the newest.
    pub fn position(&self, run: RunId) -> Option<usize> {
        self.runs.iter().position(|r| r.id == run)
    }

    /// Visible bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.bytes()).sum()
    }

    /// Runs that hold a table.
    pub fn run_count(&self) -> usize {
        self.runs.iter().filter(|r| !r.tables.is_empty()).count()
    }

    /// The part of its bytes that is in newer runs than the oldest, 0 to 1.
    pub fn newer_part(&self) -> f64 {
        let oldest = self.runs.iter().rfind(|run| !run.tables.is_empty()).map_or(0, |run| run.bytes());
        1.0 - oldest as f64 / self.bytes().max(1) as f64
    }
}
