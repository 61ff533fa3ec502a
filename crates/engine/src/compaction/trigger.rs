//! When a compaction starts: each trigger is a normalised score, and fires at 1 or more (CDS-2).
//!
//! A score leaves out what open jobs are already taking away, so that one cause starts one job. New triggers are one arm
//! in [`score`] and one row in the word table of `strategy_text.rs`.

use super::strategy::{Saturation, Trigger};

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
    }
}

/// The first trigger that fires, with its score.
pub fn first_firing(triggers: &[Trigger], figures: &Figures) -> Option<(Trigger, f64)> {
    triggers.iter().map(|t| (*t, score(*t, figures))).find(|(_, score)| *score >= 1.0)
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trigger_fires_at_its_bound_and_not_below() {
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
        ] {
            assert_eq!(score(trigger, &figures), want, "{trigger:?} of {figures:?}");
        }
    }

    #[test]
    fn the_first_that_fires_wins() {
        let full = Figures { bytes: 20, capacity_bytes: 10, runs: 8, max_runs: 4, ..Figures::default() };
        let bytes = Trigger::Saturation(Saturation::Bytes);
        assert_eq!(first_firing(&[Trigger::Runs, bytes], &full), Some((Trigger::Runs, 2.0)));
        let few = Figures { runs: 1, ..full };
        assert_eq!(first_firing(&[Trigger::Runs, bytes], &few), Some((bytes, 2.0)));
        assert_eq!(first_firing(&[Trigger::Runs], &few), None);
    }
}
