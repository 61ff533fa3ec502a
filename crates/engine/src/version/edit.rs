//! A change of the tree: what it becomes, never which strategy wanted it, so any strategy opens any store (I8).
//!
//! Positions are written in the edit ("above run X"), never recomputed from sequence, file number or time (I1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::run::TableRef;
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId, SeqNo, TableId};
use crate::table::meta::TableMeta;

/// Where a new run stands among its group's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPlace {
    /// Newer than every run there.
    Newest,
    /// Older than every run there.
    Oldest,
    /// Just newer than this run.
    Above(RunId),
    /// Just older than this run.
    Below(RunId),
}

/// One step of an edit. Steps are applied in order.
#[derive(Clone, Debug)]
pub enum EditStep {
    /// A new level, with one group over all keys, below the last one.
    AddLevel {
        /// The new level's group.
        group: GroupId,
        /// What it is shaped for.
        run_bound: u32,
    },
    /// The last level goes; it must be empty.
    RemoveLastLevel,
    /// A new level, with one group over all keys, between two others: those from `level` on are one further down.
    InsertLevel {
        /// Its number; at least 1, and not below the last level.
        level: usize,
        /// Its group.
        group: GroupId,
        /// What it is shaped for.
        run_bound: u32,
    },
    /// A level below the first goes, wherever it is; it must be empty. Those below it are one further up.
    RemoveLevel {
        /// Its number.
        level: usize,
    },
    /// A new run without tables.
    AddRun {
        /// Its level.
        level: usize,
        /// Its group.
        group: GroupId,
        /// Its id.
        run: RunId,
        /// Its position.
        place: RunPlace,
    },
    /// An empty run goes.
    RemoveRun {
        /// The run.
        run: RunId,
    },
    /// A table joins a run; it must not overlap the tables there.
    AddTable {
        /// The run.
        run: RunId,
        /// The table as it is seen from now on.
        table: TableRef,
    },
    /// A table's visible part shrinks.
    TrimTable {
        /// The table.
        table: TableId,
        /// What stays visible.
        bounds: KeyRange,
        /// Entries now consumed.
        consumed: u64,
        /// Since when deletes may have taken what is trimmed.
        under_deletes_ms: Option<u64>,
    },
    /// A table goes.
    DropTable {
        /// The table.
        table: TableId,
    },
    /// The tables of `newer` join `older`, which is its neighbour and which they do not overlap; `newer` goes (I7).
    FuseRuns {
        /// The run that goes.
        newer: RunId,
        /// The run that stays.
        older: RunId,
    },
    /// A group of at most one run is split at `at`, a key that no table spans.
    SplitGroup {
        /// The group, which keeps the keys below `at`.
        group: GroupId,
        /// The first key of the new group.
        at: Box<[u8]>,
        /// The new group.
        new_group: GroupId,
        /// The new group's run, if the old one has one.
        new_run: RunId,
    },
    /// Two neighbouring groups of at most one run each become one.
    MergeGroups {
        /// The group that stays.
        left: GroupId,
        /// Its right neighbour, which goes.
        right: GroupId,
    },
    /// What a group is shaped for changes.
    SetRunBound {
        /// The group.
        group: GroupId,
        /// Its new bound.
        run_bound: u32,
    },
}

impl EditStep {
    /// The step's name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            EditStep::AddLevel { .. } => "add level",
            EditStep::RemoveLastLevel => "remove last level",
            EditStep::InsertLevel { .. } => "insert level",
            EditStep::RemoveLevel { .. } => "remove level",
            EditStep::AddRun { .. } => "add run",
            EditStep::RemoveRun { .. } => "remove run",
            EditStep::AddTable { .. } => "add table",
            EditStep::TrimTable { .. } => "trim table",
            EditStep::DropTable { .. } => "drop table",
            EditStep::FuseRuns { .. } => "fuse runs",
            EditStep::SplitGroup { .. } => "split group",
            EditStep::MergeGroups { .. } => "merge groups",
            EditStep::SetRunBound { .. } => "set run bound",
        }
    }
}

/// A change of one keyspace's tree, one manifest record.
#[derive(Clone, Debug, Default)]
pub struct VersionEdit {
    /// What changes, in this order.
    pub steps: Vec<EditStep>,
    /// Every write of the keyspace up to here is in tables.
    pub flushed_through: Option<SeqNo>,
    /// Round-robin cursors by level: hints, losing one changes speed only.
    pub cursors: Vec<(usize, Box<[u8]>)>,
}

impl VersionEdit {
    /// Applies the edit to cursors: they follow their levels, and those it sets are set.
    pub fn move_cursors(&self, cursors: &mut BTreeMap<usize, Box<[u8]>>) {
        let shifted = |cursors: &mut BTreeMap<usize, Box<[u8]>>, to: &dyn Fn(usize) -> Option<usize>| {
            let moved = std::mem::take(cursors).into_iter();
            *cursors = moved.filter_map(|(level, key)| Some((to(level)?, key))).collect();
        };
        for step in &self.steps {
            match step {
                EditStep::InsertLevel { level: at, .. } => {
                    shifted(cursors, &|level| Some(level + usize::from(level >= *at)));
                }
                EditStep::RemoveLevel { level: at } => {
                    shifted(cursors, &|level| (level != *at).then(|| level - usize::from(level > *at)));
                }
                _ => {}
            }
        }
        cursors.extend(self.cursors.iter().cloned());
    }

    /// A table that joins a run whole.
    pub fn add_whole(&mut self, run: RunId, meta: Arc<TableMeta>, now_ms: u64) {
        self.steps.push(EditStep::AddTable { run, table: TableRef::whole(meta, now_ms) });
    }
}
