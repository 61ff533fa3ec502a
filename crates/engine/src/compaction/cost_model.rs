//! What a strategy still wants from a tree, in bytes.
//!
//! [`distance`] is the work of upkeep after a change of strategy: when no writes arrive it falls with that work, to 0, for every
//! pair of strategies; [`reshaping_bytes`] is its I/O. [`debt`] is what compaction would have to write until no trigger fires,
//! for backlogs and deadlines.

use std::borrow::Cow;
use std::sync::Arc;

use super::layout::{Merge, cheapest_merge, excess};
use super::level_sizes::{
    capacity_bytes, group_runs_max, level_below, merged_bytes, runs_max, surplus_levels,
};
use super::strategy::{Layout, LevelPolicy, Strategy, Trigger};
use super::trigger::{Figures, first_firing, score};
use crate::version::group::Group;
use crate::version::level::Level;
use crate::version::run::SortedRun;
use crate::version::version::Version;

/// Bytes that stand where the strategy would not have them: in levels too many, and in runs too many of a group. Where a
/// group may have one run those are all but the oldest, else what is left of the cheapest merge to fewer.
///
/// When no writes arrive, each part of upkeep that takes from those makes it less, and nothing makes it more but for two
/// things: a run may come to a level while those that made room for it are still leaving, and a last level of which a merge
/// found much superseded may make a level one too many.
pub fn distance(version: &Version, strategy: &Strategy) -> u64 {
    let bytes = |max_runs: u32, merge: Merge| match max_runs {
        // What comes down goes into the oldest run meanwhile, and is where it should be.
        1 => merge.newer_bytes,
        _ => merge.left_bytes,
    };
    out_of_shape(version, strategy, bytes)
}

/// Bytes to rewrite until the distance is 0: those that it counts, and the runs that they go into.
pub fn reshaping_bytes(version: &Version, strategy: &Strategy) -> u64 {
    out_of_shape(version, strategy, |_, merge| merge.bytes)
}

fn out_of_shape(version: &Version, strategy: &Strategy, of: impl Fn(u32, Merge) -> u64) -> u64 {
    let surplus = surplus_levels(&strategy.size, version);
    let of_group = |level: usize, group: &Group| {
        let max_runs = group_runs_max(strategy, version, level, group);
        mending(max_runs, group).map_or(0, |merge| of(max_runs, merge))
    };
    let of_level = |(level, found): (usize, &Level)| match (1..=surplus).contains(&level) {
        true => found.bytes(),
        false => found.groups.iter().map(|group| of_group(level, group)).sum(),
    };
    version.levels.iter().enumerate().map(of_level).sum()
}

/// The cheapest merge that leaves a group as many runs as its layout allows, if there are more. Neighbours that do not overlap
/// count as one run: they will be, without I/O, when no job has a hand on them.
fn mending(max_runs: u32, group: &Group) -> Option<Merge> {
    if excess(group.run_count(), max_runs) == 0 {
        return None;
    }
    let mut runs: Vec<Cow<'_, SortedRun>> = Vec::new();
    for run in group.runs.iter().filter(|run| !run.tables.is_empty()) {
        match runs.last_mut().filter(|newer| !newer.overlaps_run(run)) {
            Some(newer) => {
                let mut tables = newer.tables.clone();
                tables.extend(run.tables.iter().cloned());
                tables.sort_by(|a, b| a.bounds.lo.cmp(&b.bounds.lo));
                *newer = Cow::Owned(SortedRun::new(run.id, tables));
            }
            None => runs.push(Cow::Borrowed(run)),
        }
    }
    let runs: Vec<&SortedRun> = runs.iter().map(AsRef::as_ref).collect();
    let excess = excess(runs.len(), max_runs);
    cheapest_merge(&runs, excess + 1).filter(|_| excess > 0)
}

/// An estimate of the bytes to write until no trigger fires: what is too much in a level moves down, and where the next
/// level is leveled, each byte takes its share of that level along. What time, reads and tombstones ask for is not counted.
pub fn debt(version: &Version, strategy: &Strategy) -> u64 {
    debt_by_level(version, strategy).into_iter().fold(reshaping_bytes(version, strategy), u64::saturating_add)
}

/// The part of the debt that each level's triggers ask for; what [`reshaping_bytes`] counts is in none of them.
pub fn debt_by_level(version: &Version, strategy: &Strategy) -> Vec<u64> {
    let levels = version.levels.len();
    let (mut debts, mut arriving) = (Vec::with_capacity(levels), 0u64);
    for (level, found) in version.levels.iter().enumerate() {
        let policy = strategy.levels.get(level, levels);
        let (runs, max_runs) = fullest(&found.groups, policy);
        let figures = Figures {
            bytes: found.bytes() + arriving,
            tables: found.runs().map(|r| r.tables.len() as u64).sum(),
            capacity_bytes: capacity_bytes(&strategy.size, version, level),
            table_bytes: strategy.cut.table_bytes,
            runs,
            max_runs: runs_max(&strategy.size, version, level, max_runs),
            ..Figures::default()
        };
        let leaving = match first_firing(&policy.triggers, |trigger| score(trigger, &figures)) {
            None => 0,
            Some((Trigger::Saturation(_), _)) if !policy.granularity.needs_movement() => figures.bytes,
            Some((Trigger::Saturation(_), _)) => figures.bytes.saturating_sub(figures.capacity_bytes).max(1),
            Some(_) => figures.bytes,
        };
        let below = level_below(&strategy.size, version, level);
        let next = merged_bytes(strategy, version, below);
        let along = u128::from(leaving) * u128::from(next) / u128::from(figures.bytes.max(1));
        debts.push(leaving.saturating_add(along as u64));
        arriving = leaving;
    }
    debts
}

/// Runs, and how many there may be, of the group that is nearest to having them all.
fn fullest(groups: &[Arc<Group>], policy: &LevelPolicy) -> (u32, u32) {
    let of_group = |group: &Arc<Group>| {
        let own = policy.of_group(group);
        let counts = own.triggers.contains(&Trigger::Runs) || !matches!(policy.layout, Layout::ByHeat(_));
        (if counts { group.run_count() as u32 } else { 0 }, own.layout.max_runs())
    };
    let share = |(runs, max): &(u32, u32)| f64::from(*runs) / f64::from((*max).max(1));
    let all = groups.iter().map(of_group);
    all.max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or((0, policy.layout.max_runs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::picture_parse::parse;

    fn strategy(text: &str) -> Strategy {
        format!("{text}; size: l0=400 base=400 ratio=10 table=100 sizes=fixed").parse().unwrap()
    }

    #[test]
    fn distance_is_what_the_cheapest_merge_takes_out_of_runs_too_many() {
        let tree = parse("L0 T 5[a-c bytes=500] | 4[a-c] | 3[a-c bytes=50]\nL1 T 2[a-c] | 1[a-c]").unwrap();
        let of = |how: &str| {
            let strategy = strategy(&format!("when=saturation,runs how={how} much=runs"));
            (distance(&tree, &strategy), reshaping_bytes(&tree, &strategy))
        };
        assert_eq!([of("runs:4"), of("runs:2"), of("runs:1")], [(0, 0), (150, 150), (600 + 100, 650 + 200)]);
    }

    #[test]
    fn runs_that_do_not_overlap_are_one() {
        let one = strategy("when=saturation,runs how=runs:1 much=runs");
        let tree = parse("L0 T 5[a-c] | 4[d-f] | 3[g-i]").unwrap();
        assert_eq!(distance(&tree, &one), 0);
        let tree = parse("L0 T 5[a-c] | 4[d-f] | 3[e-i]").unwrap();
        assert_eq!((distance(&tree, &one), reshaping_bytes(&tree, &one)), (200, 300));
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
