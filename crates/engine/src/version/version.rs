//! A Version: the whole tree of one keyspace at one moment, immutable. Readers pin one and see no change.
//!
//! Read order at a key is level by level downward and, in the group that holds the key, run by run from the newest:
//! sequence numbers of one key only fall along it (I1).

use std::slice;
use std::sync::Arc;

use super::group::Group;
use super::level::Level;
use super::run::{SortedRun, TableRef};
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId};

/// The tree. Changed only by applying a `VersionEdit`, which makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// L0 first: the level that flushes go to.
    pub levels: Vec<Level>,
}

impl Version {
    /// A tree without tables: the first level, one group over all keys.
    pub fn empty(l0_group: GroupId, run_bound: u32) -> Version {
        let group = Group { id: l0_group, range: KeyRange::all(), runs: Vec::new(), run_bound };
        Version { levels: vec![Level { groups: vec![Arc::new(group)] }] }
    }

    /// Where a group is: its level and its index there.
    pub fn find_group(&self, id: GroupId) -> Option<(usize, usize)> {
        self.levels
            .iter()
            .enumerate()
            .find_map(|(level, l)| Some((level, l.groups.iter().position(|g| g.id == id)?)))
    }

    /// Where a run is: its level, its group's index there and its position in the group.
    pub fn find_run(&self, id: RunId) -> Option<(usize, usize, usize)> {
        self.levels.iter().enumerate().find_map(|(level, l)| {
            l.groups.iter().enumerate().find_map(|(g, group)| Some((level, g, group.position(id)?)))
        })
    }

    /// The runs in read order at `key`, with their level.
    pub fn runs_at(&self, key: &[u8]) -> impl Iterator<Item = (usize, &Arc<SortedRun>)> + Clone {
        self.levels
            .iter()
            .enumerate()
            .filter_map(move |(i, level)| Some((i, level.group_for(key)?)))
            .flat_map(|(i, group)| group.runs.iter().map(move |run| (i, run)))
    }

    /// The tables over `key`, in read order.
    #[inline]
    pub fn tables_at<'a>(&'a self, key: &'a [u8]) -> TablesAt<'a> {
        TablesAt { key, levels: self.levels.iter(), runs: [].iter() }
    }

    /// Every run, in read order: levels downward, newest first.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<SortedRun>> {
        self.levels.iter().flat_map(Level::runs)
    }

    /// Every table with its level, in read order: levels downward, runs newest first.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &TableRef)> {
        let of_level = |(i, level): (usize, _)| Level::tables(level).map(move |table| (i, table));
        self.levels.iter().enumerate().flat_map(of_level)
    }

    /// The deepest level that holds data.
    pub fn deepest(&self) -> Option<usize> {
        self.levels.iter().rposition(|level| !level.is_empty())
    }

    /// Visible bytes of all levels.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(Level::bytes).sum()
    }
}

/// The tables over one key, in read order. Written out, and not made of adapters, because every get goes through it: whether the
/// compiler keeps those in one piece changes with code that has nothing to do with them.
#[derive(Clone, Debug)]
pub struct TablesAt<'a> {
    key: &'a [u8],
    levels: slice::Iter<'a, Level>,
    /// What is left of the level last come to.
    runs: slice::Iter<'a, Arc<SortedRun>>,
}

impl<'a> Iterator for TablesAt<'a> {
    type Item = &'a TableRef;

    #[inline]
    fn next(&mut self) -> Option<&'a TableRef> {
        loop {
            for run in self.runs.by_ref() {
                if let Some(table) = run.table_for(self.key) {
                    return Some(table);
                }
            }
            self.runs = self.levels.next()?.group_for(self.key).map_or([].iter(), |group| group.runs.iter());
        }
    }
}
