//! A Version: the whole tree of one keyspace at one moment, immutable. Readers pin one and see no change.
//!
//! Read order at a key is level by level downward and, in the group that holds the key, run by run from the newest:
//! sequence numbers of one key only fall along it (I1).

use std::sync::Arc;

use super::level::Level;
use super::run::{SortedRun, TableRef};

/// The tree. Changed only by applying a `VersionEdit`, which makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// L0 first: the level that flushes go to.
    pub levels: Vec<Level>,
}

impl Version {
    /// The runs in read order at `key`, with their level.
    pub fn runs_at(&self, key: &[u8]) -> impl Iterator<Item = (usize, &Arc<SortedRun>)> {
        self.levels
            .iter()
            .enumerate()
            .filter_map(move |(i, level)| Some((i, level.group_for(key)?)))
            .flat_map(|(i, group)| group.runs.iter().map(move |run| (i, run)))
    }

    /// Every table with its level, in no order that matters.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &TableRef)> {
        self.levels.iter().enumerate().flat_map(|(i, level)| {
            level
                .groups
                .iter()
                .flat_map(move |g| g.runs.iter().flat_map(move |r| r.tables.iter().map(move |t| (i, t))))
        })
    }

    /// Visible bytes of all levels.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(Level::bytes).sum()
    }
}
