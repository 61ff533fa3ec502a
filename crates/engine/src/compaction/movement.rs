//! Which table goes first: each movement orders a run's tables, best first (CDS §3.1.4).
//!
//! More of the order is given than its head, because the best table may belong to an open job or its closure may be
//! too large: then the next one is tried. New movements are one arm in [`rank`] and one word in `strategy_words.rs`.

use super::strategy::{Heat, Movement, Relative};
use crate::version::level::Level;
use crate::version::run::TableRef;
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

/// Indices into `tables`, which ascend by key and do not overlap, best first, at most `most` of them. A later movement decides
/// between equals of an earlier one.
pub fn order(
    movements: &[Movement],
    tables: &[&TableRef],
    around: &Surroundings<'_>,
    most: usize,
) -> Vec<usize> {
    let ranks: Vec<Vec<f64>> = movements.iter().map(|m| rank(*m, tables, around)).collect();
    let mut out: Vec<usize> = (0..tables.len()).collect();
    let rank_of = |ranks: &Vec<f64>, i: usize| ranks.get(i).copied().unwrap_or(f64::INFINITY);
    let compare = |a: &usize, b: &usize| {
        let by_rank = |r: &Vec<f64>| rank_of(r, *a).total_cmp(&rank_of(r, *b));
        ranks.iter().map(by_rank).find(|o| o.is_ne()).unwrap_or_else(|| a.cmp(b))
    };
    if most < out.len() {
        out.select_nth_unstable_by(most, compare);
        out.truncate(most);
    }
    out.sort_unstable_by(compare);
    out
}

/// A number for each table; the smallest goes first.
fn rank(movement: Movement, tables: &[&TableRef], around: &Surroundings<'_>) -> Vec<f64> {
    match movement {
        Movement::RoundRobin => {
            // From the first table at or above the cursor, once around.
            let n = tables.len();
            let start = around.cursor.map_or(0, |c| tables.partition_point(|t| &t.bounds.lo[..] < c));
            (0..n).map(|i| ((i + n - start.min(n)) % n) as f64).collect()
        }
        Movement::LeastOverlap(relative) => {
            let overlap = overlapped_level(around, relative);
            overlap.map_or_else(|| vec![0.0; tables.len()], |level| overlap_ratios(level, tables))
        }
        Movement::Coldest(Heat::Write) => tables.iter().map(|t| t.meta.seqs.1.0 as f64).collect(),
        Movement::Coldest(Heat::Access) => tables.iter().map(|t| coldness(t)).collect(),
        Movement::MostTombstones => tables.iter().map(|t| -(t.meta.tombstones as f64)).collect(),
        Movement::TombstoneDensity { above } => {
            let density = |t: &&TableRef| t.meta.tombstones as f64 / t.meta.entries.max(1) as f64;
            let rank = |density: f64| if density > f64::from(above) { -density } else { 0.0 };
            tables.iter().map(|t| rank(density(t))).collect()
        }
        Movement::Expired => {
            let due = |t: &&TableRef| t.oldest_delete_ms().filter(|ms| *ms <= around.due_before_ms);
            tables.iter().map(|t| due(t).map_or(f64::INFINITY, |ms| ms as f64)).collect()
        }
        Movement::Oldest => tables.iter().map(|t| t.meta.seqs.0.0 as f64).collect(),
    }
}

/// By the last read; before all of these, tables that nobody was seen to read, by age.
fn coldness(table: &TableRef) -> f64 {
    match table.meta.access.last_ms() {
        0 => table.meta.created_ms as f64 - 1e15,
        read_ms => read_ms as f64,
    }
}

/// Bytes of `level` that overlap the table, per byte of the table.
pub fn overlap_ratio(level: &Level, table: &TableRef) -> f64 {
    overlap_bytes(level, table) as f64 / table.bytes().max(1) as f64
}

/// The same for tables that ascend and do not overlap, in one walk beside each of the level's runs.
fn overlap_ratios(level: &Level, tables: &[&TableRef]) -> Vec<f64> {
    let mut bytes = vec![0; tables.len()];
    for run in level.runs() {
        let sums = &run.totals().bytes_before;
        let before = |i: usize| sums.get(i).copied().unwrap_or(0);
        let mut from = 0;
        for (table, sum) in tables.iter().zip(&mut bytes) {
            let overlapped = run.overlapping_after(&table.bounds, from);
            *sum += before(overlapped.end) - before(overlapped.start);
            // The last of them may go on under the next table.
            from = overlapped.start.max(overlapped.end.saturating_sub(1));
        }
    }
    tables.iter().zip(bytes).map(|(t, bytes)| bytes as f64 / t.bytes().max(1) as f64).collect()
}

fn overlap_bytes(level: &Level, table: &TableRef) -> u64 {
    let runs = level.groups_over(&table.bounds).1.iter().flat_map(|g| &g.runs);
    runs.flat_map(|r| r.overlapping(&table.bounds)).map(TableRef::bytes).sum()
}

/// The level to measure with. Near the bottom, where there is no grandparent, the parent counts (CDS-11).
fn overlapped_level<'a>(around: &Surroundings<'a>, relative: Relative) -> Option<&'a Level> {
    let level = |steps| around.version.levels.get(around.level + steps).filter(|l: &&Level| !l.is_empty());
    match relative {
        Relative::Parent => level(1),
        Relative::Grandparent => level(2).or_else(|| level(1)),
    }
}
