//! A level: groups that tile the key space, ascending.

use std::sync::Arc;

use super::group::Group;
use super::run::{SortedRun, TableRef};
use crate::base::key_range::KeyRange;

/// Groups that tile the key space.
#[derive(Clone, Debug)]
pub struct Level {
    /// Ascending by range; never empty.
    pub groups: Vec<Arc<Group>>,
}

impl Level {
    /// The group that holds `key`.
    pub fn group_for(&self, key: &[u8]) -> Option<&Arc<Group>> {
        match self.groups.as_slice() {
            [only] => Some(only),
            groups => groups.get(groups.partition_point(|g| &g.range.lo[..] <= key).checked_sub(1)?),
        }
    }

    /// The group with this id.
    #[cfg(test)]
    pub fn group(&self, id: crate::base::units::GroupId) -> Option<&Arc<Group>> {
        self.groups.iter().find(|g| g.id == id)
    }

    /// The groups that overlap `range`, with the index of the first.
    pub fn groups_over(&self, range: &KeyRange) -> (usize, &[Arc<Group>]) {
        let ends = |g: &Arc<Group>| g.range.hi.as_deref().is_some_and(|hi| hi <= &range.lo[..]);
        let from = self.groups.partition_point(ends);
        let to = self.groups.partition_point(|g| range.is_below_end(&g.range.lo));
        (from, self.groups.get(from..to.max(from)).unwrap_or_default())
    }

    /// Every run, of one group after the other.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<SortedRun>> {
        self.groups.iter().flat_map(|g| &g.runs)
    }

    /// Every table, of one run after the other.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.runs().flat_map(|r| &r.tables)
    }

    /// Visible bytes.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(|g| g.bytes()).sum()
    }

    /// True if no run holds a table.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|g| g.run_count() == 0)
    }
}
