//! Everything a decision may look at, as plain data: the tree, what open jobs hold, the hints, the time.
//!
//! Whoever decides gives the same answer for the same view; numbers for new runs and groups come from the view and go
//! back with the decision, so that even they are part of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claims::Claims;
use super::closure::{TablePos, run_at};
use super::duplicates::duplicate_part;
use super::level_sizes::{capacity_bytes, runs_max};
use super::strategy::{LevelPolicy, Strategy, Trigger};
use super::trigger::Figures;
use crate::base::units::{GroupId, RunId, SeqNo};
use crate::version::group::Group;
use crate::version::run::{SortedRun, TableRef};
use crate::version::version::Version;

/// The numbers that new runs and groups get. Kept with the tree; never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The next run's number.
    pub next_run: u64,
    /// The next group's number.
    pub next_group: u64,
}

impl Ids {
    /// A number for a new run.
    pub fn run(&mut self) -> RunId {
        self.next_run += 1;
        RunId(self.next_run - 1)
    }

    /// A number for a new group.
    pub fn group(&mut self) -> GroupId {
        self.next_group += 1;
        GroupId(self.next_group - 1)
    }

    /// The first numbers above all that the tree uses. A store also remembers those that are gone.
    pub fn above(version: &Version) -> Ids {
        let groups = || version.levels.iter().flat_map(|l| &l.groups);
        let runs = version.runs().map(|r| r.id.0);
        Ids {
            next_run: runs.max().unwrap_or(0) + 1,
            next_group: groups().map(|g| g.id.0).max().unwrap_or(0) + 1,
        }
    }
}

/// What a decision looks at.
#[derive(Clone, Copy, Debug)]
pub struct TreeView<'a> {
    /// The tree.
    pub version: &'a Version,
    /// What open jobs hold.
    pub claims: &'a Claims,
    /// Round-robin cursors by level.
    pub cursors: &'a BTreeMap<usize, Box<[u8]>>,
    /// Numbers for new runs and groups.
    pub ids: Ids,
    /// Wall milliseconds.
    pub now_ms: u64,
    /// The oldest snapshot; the largest number without any.
    pub oldest_snapshot: SeqNo,
    /// Superseded bytes per other byte, as `duplicates.rs` estimates them; 0 where no trigger asks.
    pub space_amp: f64,
}

impl<'a> TreeView<'a> {
    /// A group by its level and index.
    pub fn group(&self, level: usize, group: usize) -> Option<&'a Group> {
        Some(self.version.levels.get(level)?.groups.get(group)?)
    }

    /// The deepest level that holds data; 0 without any.
    pub fn deepest(&self) -> usize {
        self.version.deepest().unwrap_or(0)
    }

    /// The policy of a level in the tree as it is.
    pub fn policy<'s>(&self, strategy: &'s Strategy, level: usize) -> &'s LevelPolicy {
        strategy.levels.get(level, self.version.levels.len())
    }

    /// True if an open job has some table of the run.
    pub fn is_busy(&self, level: usize, group: usize, run: usize) -> bool {
        if self.claims.is_empty() {
            return false;
        }
        let run = run_at(self.version, level, group, run);
        run.is_some_and(|r| r.tables.iter().any(|t| self.claims.holder(t.id()).is_some()))
    }

    /// The free tables of a run.
    pub fn free_tables(&self, level: usize, group: usize, run: usize) -> Vec<TablePos> {
        let tables = run_at(self.version, level, group, run).map(|r| r.tables.as_slice()).unwrap_or_default();
        let at = |table| TablePos { level, group, run, table };
        if self.claims.is_empty() {
            return (0..tables.len()).map(at).collect();
        }
        let free = tables.iter().enumerate().filter(|(_, t)| self.claims.holder(t.id()).is_none());
        free.map(|(table, _)| at(table)).collect()
    }

    /// What triggers look at, for each group of a level. Tables that open jobs are taking elsewhere no longer count.
    pub fn figures(&self, strategy: &Strategy, level: usize) -> Vec<Figures> {
        let policy = self.policy(strategy, level);
        let counts_duplicates = |t: &Trigger| matches!(t, Trigger::Duplicates { .. });
        let mut whole = Figures {
            capacity_bytes: capacity_bytes(&strategy.size, self.version, level),
            table_bytes: strategy.cut.table_bytes,
            ..Figures::default()
        };
        if policy.triggers.iter().any(counts_duplicates) {
            whole.duplicates = self.version.levels.get(level).map_or(0.0, duplicate_part);
        }
        let groups = self.version.levels.get(level).map(|l| l.groups.as_slice()).unwrap_or_default();
        for run in groups.iter().flat_map(|g| &g.runs) {
            whole.bytes += run.bytes();
            whole.tables += run.tables.len() as u64;
        }
        for table in self.leaving(level) {
            whole.bytes = whole.bytes.saturating_sub(table.bytes());
            whole.tables = whole.tables.saturating_sub(1);
        }
        let free = |run: &&Arc<SortedRun>| run.tables.iter().any(|t| self.claims.holder(t.id()).is_none());
        let deepest = self.deepest();
        let runs_of = |g: &Arc<Group>| g.runs.iter().filter(free).count() as u32;
        // At the bottom it is merged where that takes most away for what it writes: not where there is one run.
        let worth = |g: &&Arc<Group>| g.newer_part();
        let several = groups.iter().filter(|g| runs_of(g) > 1);
        let worst = several.max_by(|a, b| worth(a).total_cmp(&worth(b))).map(|g| g.id);
        let of_group = |g: &Arc<Group>| {
            let runs = runs_of(g);
            let space_amp = if level < deepest || worst == Some(g.id) { self.space_amp } else { 0.0 };
            let max_runs = policy.layout.of_group(g).max_runs();
            let max_runs = runs_max(&strategy.size, self.version, level, max_runs);
            Figures { runs, max_runs, space_amp, ..whole }
        };
        groups.iter().map(of_group).collect()
    }

    /// Runs that stay in a group when the open jobs are done, and those that these will add.
    pub fn lasting_runs(&self, group: &Group) -> usize {
        let into: BTreeSet<RunId> = self.claims.slots_in(group.id).map(|s| s.run).collect();
        let stays = |run: &&Arc<SortedRun>| {
            into.contains(&run.id) || run.tables.iter().any(|t| self.claims.holder(t.id()).is_none())
        };
        let there = group.runs.iter().filter(stays).count();
        there + into.iter().filter(|run| group.position(**run).is_none()).count()
    }

    /// The tables that open jobs take out of the level.
    fn leaving(&self, level: usize) -> impl Iterator<Item = &'a TableRef> {
        let (version, claims) = (self.version, self.claims);
        let jobs = claims.jobs().filter(move |(_, c)| c.target_level_in(version) != level);
        let inputs = jobs.flat_map(|(job, compaction)| compaction.inputs.iter().map(move |i| (job, i)));
        inputs.flat_map(move |(job, input)| {
            let run = version.find_run(input.run).filter(|(at, ..)| *at == level);
            let run = run.and_then(|(level, group, run)| run_at(version, level, group, run));
            let held = input.tables.iter().filter(move |t| claims.holder(t.id()) == Some(job));
            held.filter_map(move |t| run?.overlapping(&t.bounds).iter().find(|seen| seen.id() == t.id()))
        })
    }
}
