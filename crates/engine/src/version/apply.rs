//! Applying an edit: from one Version to the next, step by step, each step checked before it changes anything.
//!
//! Copy on write: groups and runs are shared by pointer with the old Version until a step touches them. An edit that
//! does not fit (an unknown run, a table twice, an overlap) is refused with a sentence that names the step, whoever
//! wrote it: a job with a stale view, or a manifest that is not ours.

use std::sync::Arc;

use super::edit::{EditStep, RunPlace, VersionEdit};
use super::group::Group;
use super::level::Level;
use super::run::{SortedRun, TableRef};
use super::version::Version;
use crate::base::error::{Error, Result};
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, IdMap, IdSet, RunId, TableId};

impl Version {
    /// The tree after `edit`. Only the groups and runs that the edit touches are copied. A step that does not fit is an
    /// error that names it, and nothing has changed.
    pub fn apply(&self, edit: &VersionEdit) -> Result<Version> {
        Applier::new(self).run(edit)
    }
}

/// What is wrong with a step.
type Wrong = String;

/// The next Version while it is made.
struct Applier {
    next: Version,
    /// Every table's run, so that a step finds its table without a search of the tree; from the first step on that needs it.
    run_of: Option<IdMap<TableId, RunId>>,
    /// Every run's level and group.
    group_of: IdMap<RunId, (usize, GroupId)>,
    /// Tables to take out of their runs together, before the next step that is not a drop.
    dropping: IdMap<RunId, IdSet<TableId>>,
}

impl Applier {
    /// Starts from `version`.
    fn new(version: &Version) -> Applier {
        let mut group_of = IdMap::default();
        for (level, l) in version.levels.iter().enumerate() {
            for group in &l.groups {
                group_of.extend(group.runs.iter().map(|run| (run.id, (level, group.id))));
            }
        }
        Applier { next: version.clone(), run_of: None, group_of, dropping: IdMap::default() }
    }

    fn run_of(&mut self) -> &mut IdMap<TableId, RunId> {
        let next = &self.next;
        self.run_of.get_or_insert_with(|| {
            let runs = || next.levels.iter().flat_map(|l| &l.groups).flat_map(|g| &g.runs);
            let mut run_of = IdMap::default();
            run_of.reserve(runs().map(|r| r.tables.len()).sum());
            run_of.extend(runs().flat_map(|run| run.tables.iter().map(|t| (t.id(), run.id))));
            run_of
        })
    }

    /// Applies every step, or says which one does not fit.
    fn run(mut self, edit: &VersionEdit) -> Result<Version> {
        for (i, step) in edit.steps.iter().enumerate() {
            self.step(step)
                .map_err(|wrong| Error::invalid(format!("edit step {} ({}): {wrong}", i + 1, step.name())))?;
        }
        self.finish_drops().map_err(Error::invalid)?;
        Ok(self.next)
    }

    fn step(&mut self, step: &EditStep) -> Result<(), Wrong> {
        if let EditStep::DropTable { table } = step {
            let run =
                self.run_of().remove(table).ok_or_else(|| format!("table {table} is not in the tree"))?;
            self.dropping.entry(run).or_default().insert(*table);
            return Ok(());
        }
        self.finish_drops()?;
        match step {
            EditStep::DropTable { .. } => Ok(()),
            EditStep::AddLevel { group, run_bound } => self.add_level(*group, *run_bound),
            EditStep::RemoveLastLevel => self.remove_last_level(),
            EditStep::InsertLevel { level, group, run_bound } => {
                self.insert_level(*level, *group, *run_bound)
            }
            EditStep::RemoveLevel { level } => self.remove_level(*level),
            EditStep::AddRun { level, group, run, place } => self.add_run(*level, *group, *run, *place),
            EditStep::RemoveRun { run } => self.remove_run(*run),
            EditStep::AddTable { run, table } => self.add_table(*run, table),
            EditStep::TrimTable { table, bounds, consumed, under_deletes_ms } => {
                self.trim_table(*table, bounds, *consumed, *under_deletes_ms)
            }
            EditStep::FuseRuns { newer, older } => self.fuse(*newer, *older),
            EditStep::SplitGroup { group, at, new_group, new_run } => {
                self.split_group(*group, at, *new_group, *new_run)
            }
            EditStep::MergeGroups { left, right } => self.merge_groups(*left, *right),
            EditStep::SetRunBound { group, run_bound } => {
                self.group_mut(*group)?.run_bound = at_least_one(*run_bound)?;
                Ok(())
            }
        }
    }

    fn finish_drops(&mut self) -> Result<(), Wrong> {
        for (run, tables) in std::mem::take(&mut self.dropping) {
            let found = self.shared_run_mut(run)?;
            let kept = found.tables.iter().filter(|t| !tables.contains(&t.id()));
            *found = Arc::new(SortedRun::new(run, kept.cloned().collect()));
        }
        Ok(())
    }

    fn add_level(&mut self, id: GroupId, run_bound: u32) -> Result<(), Wrong> {
        self.no_such_group(id)?;
        let run_bound = at_least_one(run_bound)?;
        let group = Group { id, range: KeyRange::all(), runs: Vec::new(), run_bound };
        self.next.levels.push(Level { groups: vec![Arc::new(group)] });
        Ok(())
    }

    fn remove_last_level(&mut self) -> Result<(), Wrong> {
        match self.next.levels.as_slice() {
            [_, .., last] if last.groups.iter().all(|g| g.runs.is_empty()) => {
                self.next.levels.pop();
                Ok(())
            }
            [_, .., _] => Err("the last level still has runs".to_owned()),
            _ => Err("the first level stays".to_owned()),
        }
    }

    fn insert_level(&mut self, level: usize, id: GroupId, run_bound: u32) -> Result<(), Wrong> {
        self.no_such_group(id)?;
        if level == 0 || level >= self.next.levels.len() {
            return Err(format!("level {level} is not between two others"));
        }
        let run_bound = at_least_one(run_bound)?;
        let group = Group { id, range: KeyRange::all(), runs: Vec::new(), run_bound };
        self.next.levels.insert(level, Level { groups: vec![Arc::new(group)] });
        self.group_of.values_mut().filter(|(at, _)| *at >= level).for_each(|(at, _)| *at += 1);
        Ok(())
    }

    fn remove_level(&mut self, level: usize) -> Result<(), Wrong> {
        match self.next.levels.get(level) {
            Some(found) if level > 0 && found.groups.iter().all(|g| g.runs.is_empty()) => {}
            Some(_) if level > 0 => return Err(format!("level {level} still has runs")),
            Some(_) => return Err("the first level stays".to_owned()),
            None => return Err(format!("there is no level {level}")),
        }
        self.next.levels.remove(level);
        self.group_of.values_mut().filter(|(at, _)| *at > level).for_each(|(at, _)| *at -= 1);
        Ok(())
    }

    fn add_run(&mut self, level: usize, group: GroupId, id: RunId, place: RunPlace) -> Result<(), Wrong> {
        if self.group_of.contains_key(&id) {
            return Err(format!("run {id} is there already"));
        }
        let wrong = || format!("level {level} has no group {group}");
        let groups = &mut self.next.levels.get_mut(level).ok_or_else(wrong)?.groups;
        let found = Arc::make_mut(groups.iter_mut().find(|g| g.id == group).ok_or_else(wrong)?);
        let anchor = |run| found.position(run).ok_or_else(|| format!("group {group} has no run {run}"));
        let at = match place {
            RunPlace::Newest => 0,
            RunPlace::Oldest => found.runs.len(),
            RunPlace::Above(run) => anchor(run)?,
            RunPlace::Below(run) => anchor(run)? + 1,
        };
        found.runs.insert(at, Arc::new(SortedRun::new(id, Vec::new())));
        self.group_of.insert(id, (level, group));
        Ok(())
    }

    fn remove_run(&mut self, id: RunId) -> Result<(), Wrong> {
        let run = self.run_mut(id)?;
        if let Some(table) = run.tables.first() {
            return Err(format!("run {id} still holds table {}", table.id()));
        }
        let (_, group) = self.group_of.remove(&id).ok_or_else(|| no_run(id))?;
        self.group_mut(group)?.runs.retain(|r| r.id != id);
        Ok(())
    }

    fn add_table(&mut self, run: RunId, table: &TableRef) -> Result<(), Wrong> {
        let id = table.id();
        if let Some(other) = self.run_of().get(&id) {
            return Err(format!("table {id} is in run {other} already"));
        }
        if table.bounds.is_empty() || !table.meta.bounds().covers(&table.bounds) {
            return Err(format!("table {id} shows {:?} of {:?}", table.bounds, table.meta.bounds()));
        }
        let (_, group) = *self.group_of.get(&run).ok_or_else(|| no_run(run))?;
        let range = self.group(group)?.range.clone();
        if !range.covers(&table.bounds) {
            return Err(format!("table {id} at {:?} leaves group {group} at {range:?}", table.bounds));
        }
        let found = self.run_mut(run)?;
        if let [other, ..] = found.overlapping(&table.bounds) {
            return Err(format!("table {id} overlaps table {} in run {run}", other.id()));
        }
        let at = found.tables.partition_point(|t| t.bounds.lo < table.bounds.lo);
        found.tables.insert(at, table.clone());
        self.run_of().insert(id, run);
        Ok(())
    }

    fn trim_table(
        &mut self,
        id: TableId,
        bounds: &KeyRange,
        consumed: u64,
        under_deletes_ms: Option<u64>,
    ) -> Result<(), Wrong> {
        let run = *self.run_of().get(&id).ok_or_else(|| format!("table {id} is not in the tree"))?;
        let run = self.run_mut(run)?;
        let table = run.tables.iter_mut().find(|t| t.id() == id);
        let table = table.ok_or_else(|| format!("table {id} is not in its run"))?;
        if bounds.is_empty() || bounds.lo < table.bounds.lo || bounds.hi != table.bounds.hi {
            return Err(format!("table {id} at {:?} cannot be trimmed to {bounds:?}", table.bounds));
        }
        if consumed < table.consumed || consumed > table.meta.entries {
            let (was, all) = (table.consumed, table.meta.entries);
            return Err(format!("table {id} of {all} entries cannot have {consumed} consumed after {was}"));
        }
        table.bounds = bounds.clone();
        table.consumed = consumed;
        table.under_deletes_ms = [table.under_deletes_ms, under_deletes_ms].into_iter().flatten().min();
        Ok(())
    }

    fn fuse(&mut self, newer: RunId, older: RunId) -> Result<(), Wrong> {
        let (_, group) = *self.group_of.get(&newer).ok_or_else(|| no_run(newer))?;
        let found = self.group_mut(group)?;
        let at = found.position(newer).ok_or_else(|| no_run(newer))?;
        let [a, b] = found.runs.get(at..at + 2).unwrap_or_default() else {
            return Err(format!("run {newer} has no older neighbour"));
        };
        if b.id != older {
            return Err(format!("run {older} is not the older neighbour of run {newer}"));
        }
        if a.overlaps_run(b) {
            return Err(format!("runs {newer} and {older} overlap"));
        }
        let mut tables: Vec<TableRef> = a.tables.iter().chain(&b.tables).cloned().collect();
        tables.sort_by(|x, y| x.bounds.lo.cmp(&y.bounds.lo));
        let moved: Vec<TableId> = a.tables.iter().map(TableRef::id).collect();
        let fused = Arc::new(SortedRun::new(older, tables));
        found.runs.splice(at..at + 2, [fused]);
        self.group_of.remove(&newer);
        if let Some(run_of) = &mut self.run_of {
            run_of.extend(moved.into_iter().map(|t| (t, older)));
        }
        Ok(())
    }

    fn split_group(
        &mut self,
        id: GroupId,
        at: &[u8],
        new_group: GroupId,
        new_run: RunId,
    ) -> Result<(), Wrong> {
        self.no_such_group(new_group)?;
        let (level, index) = self.next.find_group(id).ok_or_else(|| no_group(id))?;
        let group = self.group(id)?.clone();
        if at <= &group.range.lo[..] || !group.range.is_below_end(at) {
            return Err(format!("{:?} cannot be split there", group.range));
        }
        let old = only_run(&group)?;
        if let Some(old) = &old {
            let spans = |t: &&TableRef| &t.bounds.lo[..] < at && t.bounds.is_below_end(at);
            if let Some(table) = old.tables.iter().find(spans) {
                return Err(format!("table {} spans the new bound", table.id()));
            }
            if self.group_of.contains_key(&new_run) {
                return Err(format!("run {new_run} is there already"));
            }
        }
        let (mut left, mut right) = (group.clone(), group);
        left.range.hi = Some(at.into());
        right.range.lo = at.into();
        right.id = new_group;
        (left.runs, right.runs) = (Vec::new(), Vec::new());
        if let Some(old) = old {
            let tables = old.tables.iter().cloned();
            let (below, above): (Vec<_>, Vec<_>) = tables.partition(|t| &t.bounds.lo[..] < at);
            self.place_only_run(&mut left, level, old.id, below);
            self.place_only_run(&mut right, level, new_run, above);
        }
        let groups = self.next.levels.get_mut(level).ok_or_else(|| no_group(id))?;
        groups.groups.splice(index..=index, [Arc::new(left), Arc::new(right)]);
        Ok(())
    }

    fn merge_groups(&mut self, left: GroupId, right: GroupId) -> Result<(), Wrong> {
        let (level, index) = self.next.find_group(left).ok_or_else(|| no_group(left))?;
        let groups = self.next.levels.get(level).map(|l| l.groups.as_slice()).unwrap_or_default();
        let Some([a, b]) = groups.get(index..index + 2) else {
            return Err(format!("group {left} has no right neighbour"));
        };
        if b.id != right {
            return Err(format!("group {right} is not the right neighbour of group {left}"));
        }
        let (first, second) = (only_run(a)?, only_run(b)?);
        let mut merged = (**a).clone();
        merged.range.hi = b.range.hi.clone();
        merged.runs = Vec::new();
        let keep = first.as_ref().or(second.as_ref()).map(|r| r.id);
        let tables: Vec<TableRef> =
            [&first, &second].into_iter().flatten().flat_map(|r| r.tables.iter().cloned()).collect();
        for run in [&first, &second].into_iter().flatten() {
            self.group_of.remove(&run.id);
        }
        if let Some(keep) = keep {
            self.place_only_run(&mut merged, level, keep, tables);
        }
        let groups = self.next.levels.get_mut(level).ok_or_else(|| no_group(left))?;
        groups.groups.splice(index..index + 2, [Arc::new(merged)]);
        Ok(())
    }

    /// Gives a group its only run; without tables, none.
    fn place_only_run(&mut self, group: &mut Group, level: usize, id: RunId, tables: Vec<TableRef>) {
        self.group_of.remove(&id);
        if tables.is_empty() {
            return;
        }
        self.run_of().extend(tables.iter().map(|t| (t.id(), id)));
        self.group_of.insert(id, (level, group.id));
        group.runs = vec![Arc::new(SortedRun::new(id, tables))];
    }

    fn no_such_group(&self, id: GroupId) -> Result<(), Wrong> {
        match self.next.find_group(id) {
            Some(_) => Err(format!("group {id} is there already")),
            None => Ok(()),
        }
    }

    fn group(&self, id: GroupId) -> Result<&Group, Wrong> {
        let groups = self.next.levels.iter().flat_map(|l| &l.groups);
        groups.map(|g| &**g).find(|g| g.id == id).ok_or_else(|| no_group(id))
    }

    fn group_mut(&mut self, id: GroupId) -> Result<&mut Group, Wrong> {
        let mut groups = self.next.levels.iter_mut().flat_map(|l| &mut l.groups);
        groups.find(|g| g.id == id).map(Arc::make_mut).ok_or_else(|| no_group(id))
    }

    fn shared_run_mut(&mut self, id: RunId) -> Result<&mut Arc<SortedRun>, Wrong> {
        let (_, group) = *self.group_of.get(&id).ok_or_else(|| no_run(id))?;
        let runs = &mut self.group_mut(group)?.runs;
        runs.iter_mut().find(|r| r.id == id).ok_or_else(|| no_run(id))
    }

    fn run_mut(&mut self, id: RunId) -> Result<&mut SortedRun, Wrong> {
        self.shared_run_mut(id).map(|run| Arc::make_mut(run).changed())
    }
}

fn only_run(group: &Group) -> Result<Option<Arc<SortedRun>>, Wrong> {
    match group.runs.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(Arc::clone(only))),
        more => Err(format!("group {} has {} runs, merge them first", group.id, more.len())),
    }
}

fn at_least_one(run_bound: u32) -> Result<u32, Wrong> {
    if run_bound == 0 { Err("a group has room for at least one run".to_owned()) } else { Ok(run_bound) }
}

fn no_run(id: RunId) -> Wrong {
    format!("there is no run {id}")
}

fn no_group(id: GroupId) -> Wrong {
    format!("there is no group {id}")
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
