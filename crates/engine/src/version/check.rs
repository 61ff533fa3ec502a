//! The invariants of a tree that can be seen without opening a file.
//!
//! - [`check_shape`]: groups tile, runs are sorted and disjoint, bounds are inside their group and their table. Cheap
//!   enough for release builds after every edit: one pass, nothing allocated.
//! - [`check`]: the above; every table and run referenced once; empty runs only where an open job holds them; open jobs'
//!   inputs there and pairwise disjoint (I3); order of sequences where whole tables decide it (I1).
//! - [`check_order`]: I1 for certain keys, by asking for their entries. For tests, which know what is in a table.

use std::collections::HashSet;

use super::group::Group;
use super::level::Level;
use super::run::{SortedRun, TableRef};
use super::version::Version;
use crate::base::error::key_start;
use crate::base::key_range::end_at_most;
use crate::base::units::{JobId, RunId, SeqNo, TableId};

/// What an open job holds in the tree.
#[derive(Clone, Debug)]
pub struct OpenClaim {
    /// The job.
    pub job: JobId,
    /// Its input tables that are not yet consumed.
    pub tables: Vec<TableId>,
    /// Runs with an input or a slot of it; they stay even when they are empty.
    pub runs: Vec<RunId>,
}

/// Everything that can be seen without files. `Err` is the sentence of the first violated invariant.
pub fn check(version: &Version, open: &[OpenClaim]) -> Result<(), String> {
    check_shape(version)?;
    check_once(version)?;
    check_claims(version, open)?;
    check_order_by_tables(version)
}

/// The same for a tree as the manifest has it, which does not know of jobs: there a run may be empty, because an open job
/// holds it or, after a crash, held it.
pub fn check_recorded(version: &Version) -> Result<(), String> {
    check_shape(version)?;
    check_once(version)?;
    check_order_by_tables(version)
}

/// The cheap form: positions and bounds only.
pub fn check_shape(version: &Version) -> Result<(), String> {
    for (i, level) in version.levels.iter().enumerate() {
        check_tiling(level).map_err(|what| format!("level {i}: {what}"))?;
        for group in &level.groups {
            for run in &group.runs {
                check_run(group, run).map_err(|what| format!("level {i}, run {}: {what}", run.id))?;
            }
        }
    }
    Ok(())
}

/// I1 at the given keys: along the read path the sequences of one key only fall. `entries` answers the sequences that a
/// table holds for a key, newest first.
pub fn check_order<'k>(
    version: &Version,
    keys: impl IntoIterator<Item = &'k [u8]>,
    entries: impl Fn(TableId, &[u8]) -> Vec<SeqNo>,
) -> Result<(), String> {
    for key in keys {
        let mut last: Option<SeqNo> = None;
        for (level, run) in version.runs_at(key) {
            let Some(table) = run.table_for(key) else { continue };
            for seq in entries(table.id(), key) {
                if last.is_some_and(|last| seq >= last) {
                    return Err(format!(
                        "key {} at level {level}: table {} has sequence {seq} below a smaller one",
                        key_start(key),
                        table.id()
                    ));
                }
                last = Some(seq);
            }
        }
    }
    Ok(())
}

fn check_tiling(level: &Level) -> Result<(), String> {
    let (Some(first), Some(last)) = (level.groups.first(), level.groups.last()) else {
        return Err("it has no group".to_owned());
    };
    if !first.range.lo.is_empty() || last.range.hi.is_some() {
        return Err("its groups do not cover the key space".to_owned());
    }
    for pair in level.groups.windows(2) {
        if let [a, b] = pair
            && (a.range.is_empty() || a.range.hi.as_deref() != Some(&b.range.lo[..]))
        {
            return Err(format!("groups {} and {} do not meet", a.id, b.id));
        }
    }
    match level.groups.iter().find(|g| g.run_bound == 0) {
        Some(group) => Err(format!("group {} has no room for a run", group.id)),
        None => Ok(()),
    }
}

fn check_run(group: &Group, run: &SortedRun) -> Result<(), String> {
    for table in &run.tables {
        let (id, bounds) = (table.id(), &table.bounds);
        if bounds.is_empty() || !covered_by_file(table) {
            return Err(format!("table {id} shows {bounds:?} of {:?}", table.meta.bounds()));
        }
        if !group.range.covers(bounds) {
            return Err(format!("table {id} at {bounds:?} leaves its group at {:?}", group.range));
        }
        if table.consumed > table.meta.entries {
            return Err(format!(
                "table {id} of {} entries has {} consumed",
                table.meta.entries, table.consumed
            ));
        }
    }
    for pair in run.tables.windows(2) {
        if let [a, b] = pair
            && !end_at_most(a.bounds.hi.as_deref(), Some(&b.bounds.lo))
        {
            return Err(format!("tables {} and {} overlap or are out of order", a.id(), b.id()));
        }
    }
    Ok(())
}

/// `bounds` within the file's keys, without making a range for it: the end may be the key after the largest.
fn covered_by_file(table: &TableRef) -> bool {
    let meta = &table.meta;
    if let Some(end) = &meta.end {
        return *meta.smallest <= *table.bounds.lo && end_at_most(table.bounds.hi.as_deref(), Some(end));
    }
    let end_fits = table.bounds.hi.as_deref().is_some_and(|hi| match hi.split_last() {
        Some((0, head)) if head == &meta.largest[..] => true,
        _ => hi <= &meta.largest[..],
    });
    *meta.smallest <= *table.bounds.lo && end_fits
}

fn check_once(version: &Version) -> Result<(), String> {
    let (mut tables, mut runs, mut groups) = (HashSet::new(), HashSet::new(), HashSet::new());
    for group in version.levels.iter().flat_map(|l| &l.groups) {
        if !groups.insert(group.id) {
            return Err(format!("group {} is there twice", group.id));
        }
        for run in &group.runs {
            if !runs.insert(run.id) {
                return Err(format!("run {} is there twice", run.id));
            }
            if let Some(table) = run.tables.iter().find(|t| !tables.insert(t.id())) {
                return Err(format!("table {} is there twice", table.id()));
            }
        }
    }
    Ok(())
}

fn check_claims(version: &Version, open: &[OpenClaim]) -> Result<(), String> {
    let there: HashSet<TableId> = version.tables().map(|(_, t)| t.id()).collect();
    let mut claimed = HashSet::new();
    for claim in open {
        for table in &claim.tables {
            if !there.contains(table) {
                return Err(format!("job {} claims table {table}, which is not in the tree", claim.job));
            }
            if !claimed.insert(*table) {
                return Err(format!("table {table} is claimed twice, last by job {}", claim.job));
            }
        }
    }
    let held: HashSet<RunId> = open.iter().flat_map(|c| c.runs.iter().copied()).collect();
    match version.runs().find(|r| r.tables.is_empty() && !held.contains(&r.id)) {
        Some(run) => Err(format!("run {} is empty and no open job holds it", run.id)),
        None => Ok(()),
    }
}

/// Sequence ranges of whole tables may interleave rightly, but a table's smallest and largest keys are known to be in
/// it: where two tables are both known to hold a key, the one read first must hold a newer entry of it.
fn check_order_by_tables(version: &Version) -> Result<(), String> {
    for (_, table) in version.tables() {
        for key in [&table.meta.smallest, &table.meta.largest] {
            if !table.bounds.contains(key) {
                continue;
            }
            let mut above: Option<&TableRef> = None;
            for (level, run) in version.runs_at(key) {
                let Some(here) = run.table_for(key) else { continue };
                if here.meta.smallest != *key && here.meta.largest != *key {
                    continue;
                }
                if let Some(above) = above.filter(|a| a.meta.seqs.1 <= here.meta.seqs.0) {
                    let (a, b) = (above.id(), here.id());
                    return Err(format!("table {a} is read before table {b} at level {level} but is older"));
                }
                above = Some(here);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
