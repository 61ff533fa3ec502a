//! Which table goes first: each movement orders a run's tables, best first (CDS §3.1.4).
//!
//! More of the order is given than its head, because the best table may belong to an open job or its closure may be
//! too large: then the next one is tried. New movements are one arm in [`rank`] and one word in `strategy_words.rs`.

use std::ops::Range;

use super::closure::{TablePos, run_at};
use super::strategy::{Heat, Movement, Relative};
use crate::version::level::Level;
use crate::version::run::{SortedRun, TableRef};
use crate::version::version::Version;

/// What movements look at.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The tree.
    pub version: &'a Version,
    /// The level the tables are in.
    pub level: usize,
    /// Where the round-robin goes on.
    pub cursor: Option<&'a [u8]>,
    /// Deletes acknowledged by then are due to leave the level; 0 if none ever are.
    pub due_before_ms: u64,
}

/// Indices into `tables` of the level, which ascend by key and do not overlap, best first, at most `most` of them. A later movement
/// decides between equals of an earlier one.
pub fn order(
    movements: &[Movement],
    tables: &[TablePos],
    around: &Surroundings<'_>,
    most: usize,
) -> Vec<usize> {
    let mut ranks = movements.iter().filter_map(|m| rank(*m, tables, around));
    let first = ranks.next().unwrap_or_else(|| vec![0.0; tables.len()]);
    let others: Vec<Vec<f64>> = ranks.collect();
    let rank_of = |ranks: &Vec<f64>, i: usize| ranks.get(i).copied().unwrap_or(f64::INFINITY);
    // The first rank beside its table, as it nearly always decides.
    let mut out: Vec<(f64, usize)> = first.into_iter().zip(0..).collect();
    let compare = |a: &(f64, usize), b: &(f64, usize)| {
        let by_rank = |r: &Vec<f64>| rank_of(r, a.1).total_cmp(&rank_of(r, b.1));
        let by_others = || others.iter().map(by_rank).find(|o| o.is_ne());
        a.0.total_cmp(&b.0).then_with(|| by_others().unwrap_or_else(|| a.1.cmp(&b.1)))
    };
    if most < out.len() {
        out.select_nth_unstable_by(most, compare);
        out.truncate(most);
    }
    out.sort_unstable_by(compare);
    out.into_iter().map(|(_, table)| table).collect()
}

/// A number for each table; the smallest goes first. `None` if all are alike.
fn rank(movement: Movement, tables: &[TablePos], around: &Surroundings<'_>) -> Option<Vec<f64>> {
    let each = |number: &dyn Fn(&TableRef) -> f64| -> Vec<f64> {
        tables.iter().map(|pos| pos.get(around.version).map_or(f64::INFINITY, number)).collect()
    };
    Some(match movement {
        Movement::RoundRobin => {
            // From the first table at or above the cursor, once around.
            let n = tables.len();
            let begins_below =
                |pos: &TablePos, key| pos.get(around.version).is_some_and(|t| &t.bounds.lo[..] < key);
            let start = around.cursor.map_or(0, |key| tables.partition_point(|pos| begins_below(pos, key)));
            (0..n).map(|i| ((i + n - start.min(n)) % n) as f64).collect()
        }
        Movement::LeastOverlap(relative) => {
            overlap_ratios(overlapped_level(around, relative)?, tables, around.version)
        }
        Movement::Coldest(Heat::Write) => each(&|t| t.meta.seqs.1.0 as f64),
        Movement::Coldest(Heat::Access) => each(&coldness),
        Movement::MostTombstones => each(&|t| -(t.meta.tombstones as f64)),
        Movement::TombstoneDensity { above } => {
            let is_dense = |part: f64| part > f64::from(above);
            let mut runs = runs_of(tables, around.version);
            if runs.all(|(run, _)| !is_dense(run.totals().most_tombstones)) {
                return None;
            }
            each(&|t| Some(t.tombstone_part()).filter(|part| is_dense(*part)).map_or(0.0, |part| -part))
        }
        Movement::Expired => {
            let is_due = |ms: &u64| *ms <= around.due_before_ms;
            let mut runs = runs_of(tables, around.version);
            if runs.all(|(run, _)| run.totals().oldest_delete_ms.filter(is_due).is_none()) {
                return None;
            }
            each(&|t| t.oldest_delete_ms().filter(is_due).map_or(f64::INFINITY, |ms| ms as f64))
        }
        Movement::Oldest => each(&|t| t.meta.seqs.0.0 as f64),
    })
}

/// By the last read; before all of these, tables that nobody was seen to read, by age.
fn coldness(table: &TableRef) -> f64 {
    match table.meta.access.last_ms() {
        0 => table.meta.created_ms as f64 - 1e15,
        read_ms => read_ms as f64,
    }
}

/// The runs that these tables are in, each with its own.
fn runs_of<'t, 'v>(
    tables: &'t [TablePos],
    version: &'v Version,
) -> impl Iterator<Item = (&'v SortedRun, &'t [TablePos])> {
    let same = |a: &TablePos, b: &TablePos| (a.level, a.group, a.run) == (b.level, b.group, b.run);
    tables.chunk_by(same).filter_map(move |tables| {
        let first = tables.first()?;
        Some((run_at(version, first.level, first.group, first.run)?, tables))
    })
}

/// Bytes of `level` that overlap the table, per byte of the table.
pub fn overlap_ratio(level: &Level, table: &TableRef) -> f64 {
    overlap_bytes(level, table) as f64 / table.bytes().max(1) as f64
}

/// The same for tables that ascend and do not overlap, in one walk beside each of the level's runs.
fn overlap_ratios(level: &Level, tables: &[TablePos], version: &Version) -> Vec<f64> {
    let between = |run: &SortedRun, range: Range<usize>| {
        let sums = &run.totals().bytes_before;
        let before = |i: usize| sums.get(i).copied().unwrap_or(0);
        before(range.end) - before(range.start)
    };
    let mut ratios = Vec::with_capacity(tables.len());
    for (own, tables) in runs_of(tables, version) {
        let mut bytes = vec![0; tables.len()];
        for run in level.runs() {
            let overlapped = run.overlapping_each(own, tables.iter().map(|pos| pos.table));
            bytes.iter_mut().zip(overlapped).for_each(|(sum, range)| *sum += between(run, range));
        }
        let ratio = |(pos, bytes): (&TablePos, u64)| {
            bytes as f64 / between(own, pos.table..pos.table + 1).max(1) as f64
        };
        ratios.extend(tables.iter().zip(bytes).map(ratio));
    }
    ratios
}

fn overlap_bytes(level: &Level, table: &TableRef) -> u64 {
    let runs = level.groups_over(&table.bounds).1.iter().flat_map(|g| &g.runs);
    runs.flat_map(|r| r.overlapping(&table.bounds)).map(TableRef::bytes).sum()
}

/// The level to measure with. Near the bottom, where there is no grandparent, the parent counts.
fn overlapped_level<'a>(around: &Surroundings<'a>, relative: Relative) -> Option<&'a Level> {
    let level = |steps| around.version.levels.get(around.level + steps).filter(|l: &&Level| !l.is_empty());
    match relative {
        Relative::Parent => level(1),
        Relative::Grandparent => level(2).or_else(|| level(1)),
    }
}
