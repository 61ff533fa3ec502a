//! What a strategy still wants from a tree, in bytes.
//!
//! [`distance`] is the work of upkeep after a change of strategy: it falls to 0 when no writes arrive, for every pair of
//! strategies. [`debt`] is what compaction would have to write until no trigger fires, for backlogs and deadlines.

use super::layout::{RunFigures, cheapest_window};
use super::level_sizes::{capacity_bytes, level_below, surplus_levels};
use super::strategy::{Strategy, Trigger};
use super::trigger::{Figures, first_firing, score};
use crate::version::level::Level;
use crate::version::version::Version;

/// Bytes to rewrite until every group has as few runs as its layout allows, and no level too many holds any.
pub fn distance(version: &Version, strategy: &Strategy) -> u64 {
    let surplus = surplus_levels(&strategy.size, version);
    let mut bytes = version.levels.iter().skip(1).take(surplus).map(Level::bytes).sum();
    for (level, found) in version.levels.iter().enumerate() {
        let layout = strategy.levels.get(level, version.levels.len()).layout;
        for group in &found.groups {
            let runs = group.runs.iter().filter(|r| !r.tables.is_empty());
            let figures: Vec<RunFigures> =
                runs.map(|r| RunFigures { bytes: r.bytes(), busy: false }).collect();
            let excess = layout.excess(figures.len());
            if excess > 0 {
                let window = cheapest_window(&figures, excess + 1).unwrap_or_default();
                bytes += figures.get(window).unwrap_or_default().iter().map(|f| f.bytes).sum::<u64>();
            }
        }
    }
    bytes
}

/// An estimate of the bytes to write until no trigger fires: what is too much in a level moves down, and where the next
/// level is leveled, each byte takes its share of that level along. What time, reads and tombstones ask for is not counted.
pub fn debt(version: &Version, strategy: &Strategy) -> u64 {
    debt_by_level(version, strategy).into_iter().fold(distance(version, strategy), u64::saturating_add)
}

/// The part of the debt that each level's triggers ask for; what [`distance`] counts is in none of them.
pub fn debt_by_level(version: &Version, strategy: &Strategy) -> Vec<u64> {
    let levels = version.levels.len();
    let (mut debts, mut arriving) = (Vec::with_capacity(levels), 0u64);
    for (level, found) in version.levels.iter().enumerate() {
        let policy = strategy.levels.get(level, levels);
        let figures = Figures {
            bytes: found.bytes() + arriving,
            tables: found.groups.iter().flat_map(|g| &g.runs).map(|r| r.tables.len() as u64).sum(),
            capacity_bytes: capacity_bytes(&strategy.size, version, level),
            table_bytes: strategy.cut.table_bytes,
            runs: found.groups.iter().map(|g| g.run_count() as u32).max().unwrap_or(0),
            max_runs: policy.layout.max_runs(),
            ..Figures::default()
        };
        let leaving = match first_firing(&policy.triggers, |trigger| score(trigger, &figures)) {
            None => 0,
            Some((Trigger::Saturation(_), _)) if !policy.granularity.needs_movement() => figures.bytes,
            Some((Trigger::Saturation(_), _)) => figures.bytes.saturating_sub(figures.capacity_bytes).max(1),
            Some(_) => figures.bytes,
        };
        let below = level_below(&strategy.size, version, level);
        let next = version.levels.get(below).map_or(0, Level::bytes);
        let leveled = strategy.levels.get(below, levels.max(below + 1)).layout.max_runs() == 1;
        let along = if leveled {
            u128::from(leaving) * u128::from(next) / u128::from(figures.bytes.max(1))
        } else {
            0
        };
        debts.push(leaving.saturating_add(along as u64));
        arriving = leaving;
    }
    debts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::picture_parse::parse;

    fn strategy(text: &str) -> Strategy {
        format!("{text}; size: l0=400 base=400 ratio=10 table=100 sizes=fixed").parse().unwrap()
    }

    #[test]
    fn distance_is_the_cheapest_merge_that_leaves_as_many_runs_as_allowed() {
        let tree = parse("L0 T 5[a-c bytes=500] | 4[a-c] | 3[a-c bytes=50]\nL1 T 2[a-c] | 1[a-c]").unwrap();
        let of = |how: &str| distance(&tree, &strategy(&format!("when=saturation,runs how={how} much=runs")));
        assert_eq!((of("runs:4"), of("runs:2"), of("runs:1")), (0, 150, 650 + 200));
    }

    #[test]
    fn debt_counts_what_moves_and_what_it_takes_along() {
        let leveled = strategy("when=saturation how=runs:1 much=level");
        let quiet = parse("L0 L 1[a-c]\nL1 L 2[a-c bytes=300]").unwrap();
        assert_eq!(debt(&quiet, &leveled), 0);
        let full = parse("L0 L 1[a-c bytes=400]\nL1 L 2[a-c bytes=300]").unwrap();
        // All of L0 and all of L1 into L1, which then is too full and moves on whole.
        assert_eq!(debt(&full, &leveled), 700 + 700);
        assert_eq!(debt_by_level(&full, &leveled), [700, 700]);
        let tiered = strategy("when=runs how=runs:2 much=runs");
        assert_eq!(debt(&parse("L0 T 2[a-c] | 1[a-c]\nL1 T 3[a-c]").unwrap(), &tiered), 200);
    }
}
