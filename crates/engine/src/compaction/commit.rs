//! From finished work to an edit: prefix commits, moves by metadata, flushes, and the end of a job.
//!
//! A prefix commit at key c, with inputs 5 and 6 and output 9 in place of both:
//!
//! ```text
//! before  L0 5[a-m]   L1 6[a-z]
//! cut g+  L0 5[a/g+-m]   L1 9[a-g] 6[a/g+-z]
//! ```
//!
//! Every edit is checked against the tree as it is now: the inputs must still be there and the work still legal (I2), or
//! nothing is committed. Emptied runs go unless an open job holds them; neighbouring runs that do not overlap are fused
//! unless an open job has an input or its slot in either (I7). Each function answers the edit and the tree after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims::{Claims, held_runs};
use super::closure::{SlotIndex, TablePos, Target, run_at, slot_index};
use super::compaction::{Compaction, InputRun, Slot, SlotPlace};
use super::legality;
use super::level_sizes::{surplus_levels, wants_another_level};
use super::placement::Picked;
use super::strategy::{Sizes, Strategy};
use super::tree_view::Ids;
use crate::base::error::{Error, Result};
use crate::base::key_range::{KeyRange, end_at_most};
use crate::base::units::{GroupId, JobId, RunId, SeqNo, TableId};
use crate::table::meta::TableMeta;
use crate::version::edit::{EditStep, RunPlace, VersionEdit};
use crate::version::group::Group;
use crate::version::level::Level;
use crate::version::run::{SortedRun, TableRef};
use crate::version::version::Version;

/// An edit and the tree it makes.
#[derive(Clone, Debug)]
pub struct Committed {
    /// For the manifest.
    pub edit: VersionEdit,
    /// The tree after it.
    pub version: Version,
}

/// What a job has finished since its last commit.
#[derive(Clone, Debug, Default)]
pub struct CommitPart {
    /// For each slot of the compaction, in the same order, the tables made, ascending.
    pub outputs: Vec<Vec<Arc<TableMeta>>>,
    /// Everything below this key is done; `None`: everything is done.
    pub cut: Option<Box<[u8]>>,
    /// For inputs that the cut goes through: the entries of the file below the cut, all in all.
    pub consumed: Vec<(TableId, u64)>,
    /// True if the job ends here; a job without a cut always does.
    pub ends: bool,
}

/// Commits a part of the job's work. Afterwards tell the claims: `committed(&edit)`, and `release(job)` if it ended.
pub fn commit_part(
    version: &Version,
    claims: &Claims,
    job: JobId,
    part: &CommitPart,
    now_ms: u64,
) -> Result<Committed> {
    let compaction = claims.compaction(job).ok_or_else(|| gone(job))?;
    let inputs = remaining_inputs(version, claims, job, compaction)?;
    check_legal(version, compaction, &inputs)?;
    let mut edit = VersionEdit::default();
    // What these deleted may be in the consumed part of any input, and stays there until its file goes; so does what is deleted from
    // now on.
    let under_deletes_ms = compaction.tables().filter_map(TableRef::oldest_delete_ms).chain([now_ms]).min();
    for pos in &inputs {
        let table = pos.get(version).ok_or_else(|| gone(job))?;
        take_consumed(&mut edit, table, part, under_deletes_ms)?;
    }
    if part.outputs.len() > compaction.slots.len() {
        return Err(Error::invalid(format!("job {job} has outputs for slots it has not")));
    }
    for (slot, outputs) in compaction.slots.iter().zip(&part.outputs) {
        if outputs.is_empty() {
            continue;
        }
        add_slot_run(&mut edit, version, compaction, slot);
        for meta in outputs {
            check_output(slot, meta, compaction, part)?;
            inherit_access(meta, compaction);
            edit.add_whole(slot.run, Arc::clone(meta), now_ms);
        }
    }
    edit.cursors.extend(compaction.cursor.clone().map(|(_, key)| (compaction.level_in(version), key)));
    let ended = part.ends || part.cut.is_none();
    tidy(version, claims, edit, &held_runs(compaction), ended.then_some(job))
}

/// An output was last read when the last of its inputs was. Its reads are counted anew: what they cost is different now.
fn inherit_access(output: &TableMeta, compaction: &Compaction) {
    let bounds = output.bounds();
    // An input run's tables ascend.
    let near = |run: &InputRun| {
        let from = run.tables.partition_point(|t| end_at_most(t.bounds.hi.as_deref(), Some(&bounds.lo)));
        let tables = run.tables.iter().skip(from).take_while(|t| bounds.is_below_end(&t.bounds.lo));
        tables.map(|t| t.meta.access.last_ms()).max()
    };
    if let Some(last_ms) = compaction.inputs.iter().filter_map(near).max().filter(|ms| *ms > 0) {
        output.access.add(0, last_ms);
    }
}

/// Ends a job without committing anything more: only what it alone kept in the tree goes.
pub fn end_job(version: &Version, claims: &Claims, job: JobId) -> Result<Committed> {
    let compaction = claims.compaction(job).ok_or_else(|| gone(job))?;
    tidy(version, claims, VersionEdit::default(), &held_runs(compaction), Some(job))
}

/// Moves the inputs to their place by metadata alone; needs no claim. Includes what the pick wants before.
pub fn move_tables(version: &Version, claims: &Claims, picked: &Picked, now_ms: u64) -> Result<Committed> {
    let compaction = &picked.compaction;
    if !compaction.trivial_move || !claims.blockers(compaction).is_empty() {
        return Err(Error::invalid("the compaction is no move by metadata"));
    }
    let prepared = version.apply(&picked.before)?;
    let inputs = positions(&prepared, compaction, |_| true)?;
    check_legal(&prepared, compaction, &inputs)?;
    let mut edit = picked.before.clone();
    let tables: Vec<&TableRef> = inputs.iter().filter_map(|pos| pos.get(&prepared)).collect();
    edit.steps.extend(tables.iter().map(|t| EditStep::DropTable { table: t.id() }));
    for slot in &compaction.slots {
        let here = tables.iter().filter(|t| slot.range.covers(&t.bounds));
        let moved: Vec<TableRef> =
            here.map(|t| TableRef { entered_level_ms: now_ms, ..(*t).clone() }).collect();
        if !moved.is_empty() {
            add_slot_run(&mut edit, &prepared, compaction, slot);
        }
        edit.steps.extend(moved.into_iter().map(|table| EditStep::AddTable { run: slot.run, table }));
    }
    edit.cursors.extend(compaction.cursor.clone());
    tidy(version, claims, edit, &held_runs(compaction), None)
}

/// Takes out tables that nobody can see anything of, because newer range tombstones cover all they hold. Those that an open job
/// has, or that are gone, are left alone.
pub fn drop_covered(version: &Version, claims: &Claims, covered: &BTreeSet<TableId>) -> Result<Committed> {
    let mut edit = VersionEdit::default();
    let mut touched = Vec::new();
    for run in version.runs() {
        let free = |t: &&TableRef| covered.contains(&t.id()) && claims.holder(t.id()).is_none();
        let before = edit.steps.len();
        let steps = run.tables.iter().filter(free).map(|t| EditStep::DropTable { table: t.id() });
        edit.steps.extend(steps);
        if edit.steps.len() > before {
            touched.push(run.id);
        }
    }
    tidy(version, claims, edit, &touched, None)
}

/// A flush's tables as the newest run of the first level, in each of its groups. Flushes of a keyspace commit oldest
/// first. `tables` ascend and are cut at the groups' bounds.
pub fn flush(
    version: &Version,
    claims: &Claims,
    ids: &mut Ids,
    tables: Vec<Arc<TableMeta>>,
    flushed_through: SeqNo,
    now_ms: u64,
) -> Result<Committed> {
    let mut edit = VersionEdit { flushed_through: Some(flushed_through), ..VersionEdit::default() };
    let first = version.levels.first().ok_or_else(|| Error::invalid("the tree has no level"))?;
    let mut last: Option<(GroupId, RunId)> = None;
    let mut touched = Vec::new();
    for meta in tables {
        let group = first.group_for(&meta.smallest).ok_or_else(|| Error::invalid("a key has no group"))?;
        let run = match last.filter(|(id, _)| *id == group.id) {
            Some((_, run)) => run,
            None => {
                let (run, place) = (ids.run(), RunPlace::Newest);
                edit.steps.push(EditStep::AddRun { level: 0, group: group.id, run, place });
                last = Some((group.id, run));
                touched.push(run);
                run
            }
        };
        edit.add_whole(run, meta, now_ms);
    }
    tidy(version, claims, edit, &touched, None)
}

/// What a tree needs after recovery, where no job is open: runs that only open jobs kept go.
pub fn recover(version: &Version) -> Result<Committed> {
    let runs: Vec<RunId> = version.runs().map(|r| r.id).collect();
    tidy(version, &Claims::default(), VersionEdit::default(), &runs, None)
}

/// Sets the bound that groups are shaped for where they fit it and nobody is at work in them: after a change of strategy.
pub fn set_bounds(version: &Version, claims: &Claims, strategy: &Strategy) -> Result<Option<Committed>> {
    let mut edit = VersionEdit::default();
    for (level, found) in version.levels.iter().enumerate() {
        let layout = strategy.levels.get(level, version.levels.len()).layout;
        let bound = |g: &Arc<Group>| layout.of_group(g).max_runs();
        let fits = |g: &&Arc<Group>| {
            g.run_bound != bound(g)
                && g.run_count() <= bound(g) as usize
                && claims.group_holders(g.id).is_empty()
        };
        let groups = found.groups.iter().filter(fits);
        edit.steps.extend(groups.map(|g| EditStep::SetRunBound { group: g.id, run_bound: bound(g) }));
    }
    if edit.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(Committed { version: version.apply(&edit)?, edit }))
}

/// Brings the number of levels to what dynamic sizes want: a level is born just below L0, an empty one that is too many
/// goes. Asked before each look for work; open jobs find their levels by their groups, which stay.
pub fn set_levels(
    version: &Version,
    claims: &Claims,
    strategy: &Strategy,
    ids: &mut Ids,
) -> Result<Option<Committed>> {
    if strategy.size.sizes == Sizes::Fixed {
        return Ok(None);
    }
    let mut edit = VersionEdit::default();
    let surplus = surplus_levels(&strategy.size, version);
    let last = version.levels.len().saturating_sub(1);
    let free = |level: &Level| {
        level.groups.iter().all(|g| g.runs.is_empty() && claims.group_holders(g.id).is_empty())
    };
    for (level, found) in version.levels.iter().enumerate().skip(1).rev() {
        let deepest = level + edit.steps.len() == last;
        if (level <= surplus || deepest) && free(found) {
            edit.steps.push(EditStep::RemoveLevel { level });
        }
    }
    if edit.steps.is_empty() && wants_another_level(&strategy.size, version) {
        let run_bound = strategy.levels.get(1, version.levels.len() + 1).layout.max_runs();
        edit.steps.push(EditStep::InsertLevel { level: 1, group: ids.group(), run_bound });
    }
    if edit.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(Committed { version: version.apply(&edit)?, edit }))
}

/// Where the job's inputs are that it has not consumed.
fn remaining_inputs(
    version: &Version,
    claims: &Claims,
    job: JobId,
    compaction: &Compaction,
) -> Result<BTreeSet<TablePos>> {
    positions(version, compaction, |table| claims.holder(table) == Some(job))
}

fn positions(
    version: &Version,
    compaction: &Compaction,
    wanted: impl Fn(TableId) -> bool,
) -> Result<BTreeSet<TablePos>> {
    let mut out = BTreeSet::new();
    for input in &compaction.inputs {
        let mut tables = input.tables.iter().filter(|t| wanted(t.id())).peekable();
        if tables.peek().is_none() {
            continue;
        }
        let not_there = |what: String| Error::invalid(format!("input {what} is not in the tree any more"));
        let (level, group, run) =
            version.find_run(input.run).ok_or_else(|| not_there(format!("run {}", input.run)))?;
        let found =
            run_at(version, level, group, run).ok_or_else(|| not_there(format!("run {}", input.run)))?;
        for wanted in tables {
            // Trimmed since or not, it overlaps what it was.
            let mut near = found.overlapping_range(&wanted.bounds);
            let is_it = |at: &usize| found.tables.get(*at).is_some_and(|t| t.id() == wanted.id());
            let table = near.find(is_it).ok_or_else(|| not_there(format!("table {}", wanted.id())))?;
            out.insert(TablePos { level, group, run, table });
        }
    }
    Ok(out)
}

/// I2 again, against the tree as it is now.
fn check_legal(version: &Version, compaction: &Compaction, inputs: &BTreeSet<TablePos>) -> Result<()> {
    let level = compaction.target_level_in(version);
    let slot = |index: usize, id: GroupId| -> Option<SlotIndex> {
        let group = version.levels.get(level)?.groups.get(index)?;
        let slot = compaction.slots.iter().find(|s| s.group == id)?;
        slot_index(group, slot.place, Some(slot.run))
    };
    let target = Target { level, slot: &slot };
    legality::check(version, inputs, &target)
        .map_err(|what| Error::invalid(format!("the compaction is not legal any more: {what}")))
}

/// Drops or trims one input.
fn take_consumed(
    edit: &mut VersionEdit,
    table: &TableRef,
    part: &CommitPart,
    under_deletes_ms: Option<u64>,
) -> Result<()> {
    let id = table.id();
    let Some(cut) = part.cut.as_deref() else {
        edit.steps.push(EditStep::DropTable { table: id });
        return Ok(());
    };
    if end_at_most(table.bounds.hi.as_deref(), Some(cut)) {
        edit.steps.push(EditStep::DropTable { table: id });
    } else if cut > &table.bounds.lo[..] {
        let consumed = part.consumed.iter().find(|(t, _)| *t == id).map(|(_, n)| *n);
        let consumed = consumed.ok_or_else(|| Error::invalid(format!("what of table {id} is consumed?")))?;
        let bounds = KeyRange { lo: cut.into(), hi: table.bounds.hi.clone() };
        edit.steps.push(EditStep::TrimTable { table: id, bounds, consumed, under_deletes_ms });
    }
    Ok(())
}

/// Adds the slot's run if no commit has done so yet.
fn add_slot_run(edit: &mut VersionEdit, version: &Version, compaction: &Compaction, slot: &Slot) {
    let place = match slot.place {
        SlotPlace::Into(_) | SlotPlace::Collapse(_) => return,
        SlotPlace::Above(run) => RunPlace::Above(run),
        SlotPlace::First => RunPlace::Newest,
    };
    if version.find_run(slot.run).is_none() {
        let level = compaction.target_level_in(version);
        edit.steps.push(EditStep::AddRun { level, group: slot.group, run: slot.run, place });
    }
}

/// An output stays in its slot's group and below the cut: above it the inputs are still seen.
fn check_output(slot: &Slot, meta: &TableMeta, compaction: &Compaction, part: &CommitPart) -> Result<()> {
    let bounds = meta.bounds();
    let below_cut = part.cut.as_deref().is_none_or(|cut| end_at_most(bounds.hi.as_deref(), Some(cut)));
    if below_cut && slot.range.covers(&bounds) && compaction.range.covers(&bounds) {
        return Ok(());
    }
    Err(Error::invalid(format!("output {} at {:?} leaves its place", meta.id, meta.bounds())))
}

/// Finishes an edit that no job makes.
pub fn finish_edit(
    version: &Version,
    claims: &Claims,
    edit: VersionEdit,
    touched: &[RunId],
) -> Result<Committed> {
    tidy(version, claims, edit, touched, None)
}

/// Finishes an edit: empty runs go, neighbours that do not overlap are fused. `ended` no longer counts as an open job.
/// Looks only at the groups of `touched` runs.
fn tidy(
    version: &Version,
    claims: &Claims,
    mut edit: VersionEdit,
    touched: &[RunId],
    ended: Option<JobId>,
) -> Result<Committed> {
    let mut next = version.apply(&edit)?;
    let held = |run: RunId| claims.holds_run(run, ended);
    let mut places: Vec<(usize, usize)> = touched
        .iter()
        .filter_map(|run| next.find_run(*run))
        .map(|(level, group, _)| (level, group))
        .collect();
    places.sort_unstable();
    places.dedup();
    let mut more = VersionEdit::default();
    for (level, group) in places {
        let Some(group) = next.levels.get(level).and_then(|l| l.groups.get(group)) else { continue };
        let empty = group.runs.iter().filter(|r| r.tables.is_empty() && !held(r.id));
        more.steps.extend(empty.map(|r| EditStep::RemoveRun { run: r.id }));
        let stay: Vec<_> = group.runs.iter().filter(|r| !r.tables.is_empty() || held(r.id)).collect();
        fuse_neighbours(&stay, &held, &mut more);
    }
    if !more.steps.is_empty() {
        next = next.apply(&more)?;
        edit.steps.append(&mut more.steps);
    }
    Ok(Committed { edit, version: next })
}

/// Fuses from the newest on: each run with the next older one as long as they do not overlap.
fn fuse_neighbours(runs: &[&Arc<SortedRun>], held: &dyn Fn(RunId) -> bool, edit: &mut VersionEdit) {
    // The tables of what has been fused so far, for the test against the next older run.
    let mut newer: Option<SortedRun> = None;
    for pair in runs.windows(2) {
        let [a, b] = pair else { continue };
        let current = newer.take().unwrap_or_else(|| (***a).clone());
        if held(current.id) || held(b.id) || current.overlaps_run(b) {
            continue;
        }
        edit.steps.push(EditStep::FuseRuns { newer: current.id, older: b.id });
        let mut tables = current.tables;
        tables.extend(b.tables.iter().cloned());
        tables.sort_by(|x, y| x.bounds.lo.cmp(&y.bounds.lo));
        newer = Some(SortedRun::new(b.id, tables));
    }
}

fn gone(job: JobId) -> Error {
    Error::invalid(format!("job {job} has no claim"))
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
