//! When a compaction starts: each trigger is a normalised score, and fires at 1 or more.
//!
//! A score leaves out what open jobs are already taking away, so that one cause starts one job. A trigger is about a group
//! ([`score`]) or about single tables ([`table_score`]), which are then what is compacted. New triggers are one arm there and one
//! row in the word table of `strategy_words.rs`.

use super::deadline::Deadlines;
use super::movement::overlap_ratio;
use super::strategy::{Saturation, Trigger};
use crate::base::units::SeqNo;
use crate::version::group::Group;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// A table that overlaps so many times its own bytes below is not worth moving for its tombstones (Pebble).
const OVERLAP_MAX: f64 = 40.0;

/// What triggers look at, for one group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Visible bytes of the level that no open job is moving away.
    pub bytes: u64,
    /// Tables of the level that no open job is moving away.
    pub tables: u64,
    /// The level's capacity.
    pub capacity_bytes: u64,
    /// The usual table size.
    pub table_bytes: u64,
    /// Runs of the group with a table that no open job has.
    pub runs: u32,
    /// The most runs the group may have.
    pub max_runs: u32,
    /// Superseded bytes per other byte of the whole tree, if merging the group lessens them.
    pub space_amp: f64,
    /// The part of the level's entries that are superseded within the level.
    pub duplicates: f64,
}

/// What a table's trigger looks at beside the table.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The tree.
    pub version: &'a Version,
    /// The table's level.
    pub level: usize,
    /// The table's group.
    pub group: &'a Group,
    /// The table's run, by its position there.
    pub run: usize,
    /// The deepest level that holds data.
    pub deepest: usize,
    /// When deletes are due, if they are.
    pub deadlines: Option<&'a Deadlines>,
    /// The oldest snapshot; the largest number without any.
    pub oldest_snapshot: SeqNo,
    /// Wall milliseconds.
    pub now_ms: u64,
}

/// How urgent; 1 or more fires.
pub fn score(trigger: Trigger, figures: &Figures) -> f64 {
    match trigger {
        Trigger::Saturation(Saturation::Bytes) => ratio(figures.bytes, figures.capacity_bytes),
        Trigger::Saturation(Saturation::Count) => {
            ratio(figures.tables, figures.capacity_bytes / figures.table_bytes.max(1))
        }
        // A single run is the best there is: leveling's count fires at two.
        Trigger::Runs => ratio(u64::from(figures.runs), u64::from(figures.max_runs.max(2))),
        Trigger::SpaceAmp { limit } => part_of(figures.space_amp, limit),
        Trigger::Duplicates { .. } if figures.runs < 2 => 0.0,
        Trigger::Duplicates { limit, runs_max } => {
            part_of(figures.duplicates, limit).max(ratio(u64::from(figures.runs), u64::from(runs_max)))
        }
        Trigger::Staleness { .. }
        | Trigger::TombstoneTtl { .. }
        | Trigger::TombstoneDensity { .. }
        | Trigger::ReadHeat { .. } => 0.0,
    }
}

/// How urgent a table is by a trigger about tables; 1 or more fires. Never where nothing can be won: a table of the deepest level
/// is moved no further, and rewritten only if that takes its tombstones away.
pub fn table_score(trigger: Trigger, table: &TableRef, around: &Surroundings<'_>) -> f64 {
    let meta = &table.meta;
    let is_deepest = around.level >= around.deepest;
    // A snapshot may still see what its tombstones hide.
    let settled = !is_deepest || meta.seqs.1 <= around.oldest_snapshot;
    match trigger {
        Trigger::Staleness { limit_ms } if !is_deepest || around.level == 0 => {
            ratio(around.now_ms.saturating_sub(table.entered_level_ms), limit_ms)
        }
        Trigger::TombstoneTtl { .. } if settled => {
            around.deadlines.map_or(0.0, |due| due.score(around.level, table, around.now_ms))
        }
        Trigger::TombstoneDensity { limit } if settled => {
            let score = part_of(table.tombstone_density(), limit);
            if score >= 1.0 && !is_deepest && overlap_below(table, around) > OVERLAP_MAX {
                0.0
            } else {
                score
            }
        }
        Trigger::ReadHeat { bytes_per_read } => {
            let score = meta.access.reads() as f64 * bytes_per_read as f64 / table.bytes().max(1) as f64;
            if score >= 1.0 && !lies_over_others(table, around) { 0.0 } else { score }
        }
        _ => 0.0,
    }
}

fn overlap_below(table: &TableRef, around: &Surroundings<'_>) -> f64 {
    around.version.levels.get(around.level + 1).map_or(0.0, |below| overlap_ratio(below, table))
}

/// True if a lookup in the table's range goes on to an older table of the group or of a deeper level.
fn lies_over_others(table: &TableRef, around: &Surroundings<'_>) -> bool {
    let older = around.group.runs.iter().skip(around.run + 1);
    let below = around.version.levels.iter().skip(around.level + 1);
    let below = below.flat_map(|level| level.groups_over(&table.bounds).1).flat_map(|group| &group.runs);
    older.chain(below).any(|run| !run.overlapping(&table.bounds).is_empty())
}

/// The first trigger that fires, with its score.
pub fn first_firing(triggers: &[Trigger], score_of: impl Fn(Trigger) -> f64) -> Option<(Trigger, f64)> {
    triggers.iter().map(|t| (*t, score_of(*t))).find(|(_, score)| *score >= 1.0)
}

/// In the precision that limits are written in: a tenth is not below 0.1.
pub fn part_of(figure: f64, limit: f32) -> f64 {
    f64::from(figure as f32 / limit)
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trigger_of_a_group_fires_at_its_bound_and_not_below() {
        let base = Figures { capacity_bytes: 1000, table_bytes: 100, max_runs: 4, ..Figures::default() };
        let bytes = Trigger::Saturation(Saturation::Bytes);
        let count = Trigger::Saturation(Saturation::Count);
        for (trigger, figures, want) in [
            (bytes, Figures { bytes: 999, tables: 99, runs: 9, ..base }, 0.999),
            (bytes, Figures { bytes: 2000, ..base }, 2.0),
            (count, Figures { tables: 9, bytes: 9999, ..base }, 0.9),
            (count, Figures { tables: 10, ..base }, 1.0),
            (Trigger::Runs, Figures { runs: 3, bytes: 9999, ..base }, 0.75),
            (Trigger::Runs, Figures { runs: 4, ..base }, 1.0),
            (Trigger::Runs, Figures { runs: 1, max_runs: 1, ..base }, 0.5),
            (Trigger::Runs, Figures { runs: 2, max_runs: 1, ..base }, 1.0),
            (Trigger::SpaceAmp { limit: 0.5 }, Figures { space_amp: 0.25, ..base }, 0.5),
            (
                Trigger::Duplicates { limit: 0.5, runs_max: 8 },
                Figures { runs: 2, duplicates: 0.5, ..base },
                1.0,
            ),
            (
                Trigger::Duplicates { limit: 0.5, runs_max: 8 },
                Figures { runs: 1, duplicates: 0.9, ..base },
                0.0,
            ),
            (Trigger::Duplicates { limit: 0.5, runs_max: 8 }, Figures { runs: 8, ..base }, 1.0),
        ] {
            assert_eq!(score(trigger, &figures), want, "{trigger:?} of {figures:?}");
        }
    }

    #[test]
    fn the_first_that_fires_wins() {
        let of = |figures: &Figures| {
            let figures = *figures;
            move |trigger| score(trigger, &figures)
        };
        let full = Figures { bytes: 20, capacity_bytes: 10, runs: 8, max_runs: 4, ..Figures::default() };
        let bytes = Trigger::Saturation(Saturation::Bytes);
        assert_eq!(first_firing(&[Trigger::Runs, bytes], of(&full)), Some((Trigger::Runs, 2.0)));
        let few = Figures { runs: 1, ..full };
        assert_eq!(first_firing(&[Trigger::Runs, bytes], of(&few)), Some((bytes, 2.0)));
        assert_eq!(first_firing(&[Trigger::Runs], of(&few)), None);
    }
}
