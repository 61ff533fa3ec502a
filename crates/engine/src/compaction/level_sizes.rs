//! How much each level of a tree may hold, and how many levels it should have: [`SizeRule`] read against a tree.
//!
//! ```text
//! fixed     L1 base    L2 base x ratio    ...          a level is born below when the last is full
//! dynamic   L1 last / ratio^2   L2 last / ratio   L3 last   is never full; a level is born below L0 when L1's goal exceeds base
//! ```
//! L0's own capacity rises with what it is merged with: see [`l0_capacity_bytes`].
//!
//! With dynamic sizes the levels above the last together hold at most a ninth of it (ratio 10), so little of what is on disk
//! is superseded. A tree that has shrunk has levels too many just below L0: these take nothing more, are emptied as upkeep,
//! and go. That takes a last level of at most half of what fewer levels could hold, so that one that stays about the same
//! size, or is compressed as it is rewritten, does not make levels come and go.

use super::strategy::{SizeRule, Sizes, Strategy};
use crate::version::group::Group;
use crate::version::level::Level;
use crate::version::version::Version;

/// The deepest level that holds data, at least 1: all goals are measured from it.
fn bottom(version: &Version) -> usize {
    version.deepest().unwrap_or(0).max(1)
}

/// The bytes of a level; 0 if there is none.
pub fn bytes_of(version: &Version, level: usize) -> u64 {
    version.levels.get(level).map_or(0, Level::bytes)
}

/// `base x ratio^steps`.
fn grown(size: &SizeRule, steps: usize) -> u64 {
    let factor = size.level_ratio.saturating_pow(u32::try_from(steps).unwrap_or(u32::MAX));
    size.level_base_bytes.saturating_mul(factor)
}

/// The bytes at which L0's saturation fires. With dynamic sizes as much as it is merged with, between its two bounds: merged at
/// its lower bound with a level of four times that, each of its bytes would be written five times.
pub fn l0_capacity_bytes(size: &SizeRule, version: &Version) -> u64 {
    match size.sizes {
        Sizes::Fixed => size.l0_bytes,
        Sizes::Dynamic => merged_with_l0(size, version).min(size.l0_bytes_max).max(size.l0_bytes),
    }
}

/// The bytes of the level that L0 goes down to.
fn merged_with_l0(size: &SizeRule, version: &Version) -> u64 {
    bytes_of(version, level_below(size, version, 0))
}

/// How many runs a level may have before they are too many, whose layout says `max`. Unless it is leveled, L0 with dynamic sizes
/// may have as many of the size of its own as hold what it is merged with: a memtable of keys written again and again, or
/// compressed, becomes a small run, and four of those are little to rewrite a level for.
pub fn runs_max(size: &SizeRule, version: &Version, level: usize, max: u32) -> u32 {
    let most = most_runs(size, level, max);
    let Some(l0) = version.levels.first().filter(|_| most > max) else { return max };
    let runs = u64::try_from(l0.runs().count()).unwrap_or(u64::MAX);
    let holding = merged_with_l0(size, version).saturating_mul(runs).div_ceil(l0.bytes().max(1));
    u32::try_from(holding).unwrap_or(u32::MAX).clamp(max, most)
}

/// The most that [`runs_max`] ever says: as many times `max` as the bytes of L0 may rise.
fn most_runs(size: &SizeRule, level: usize, max: u32) -> u32 {
    if level > 0 || max <= 1 || size.sizes == Sizes::Fixed {
        return max;
    }
    let most = u128::from(max) * u128::from(size.l0_bytes_max) / u128::from(size.l0_bytes.max(1));
    u32::try_from(most).unwrap_or(u32::MAX).max(max)
}

/// The most runs that a group of a level may ever have: a tree does not lose its shape because a level that is merged with others
/// has become smaller.
pub fn group_runs_max(strategy: &Strategy, version: &Version, level: usize, group: &Group) -> u32 {
    let layout = strategy.levels.get(level, version.levels.len()).layout.of_group(group);
    most_runs(&strategy.size, level, layout.max_runs())
}

/// Bytes of a level that what comes into it is merged with: none of groups whose runs lie beside each other.
pub fn merged_bytes(strategy: &Strategy, version: &Version, level: usize) -> u64 {
    let layout = strategy.levels.get(level, version.levels.len()).layout;
    let groups = version.levels.get(level).map(|found| found.groups.as_slice()).unwrap_or_default();
    groups.iter().filter(|group| layout.of_group(group).max_runs() == 1).map(|group| group.bytes()).sum()
}

/// For each byte of a level, those that it is merged with on its way down.
pub fn merged_share(strategy: &Strategy, version: &Version, level: usize) -> f64 {
    let below = level_below(&strategy.size, version, level);
    merged_bytes(strategy, version, below) as f64 / bytes_of(version, level).max(1) as f64
}

/// The bytes at which a level's saturation fires. With dynamic sizes the last level is never full.
pub fn capacity_bytes(size: &SizeRule, version: &Version, level: usize) -> u64 {
    let Some(steps) = level.checked_sub(1) else { return l0_capacity_bytes(size, version) };
    match size.sizes {
        Sizes::Fixed => grown(size, steps),
        Sizes::Dynamic if level >= bottom(version) || level <= surplus_levels(size, version) => u64::MAX,
        Sizes::Dynamic => goal_bytes(size, version, level),
    }
}

/// The bytes a level is meant to hold; unlike its capacity never without bound. No level is meant to hold less than L0: one that is
/// filled beyond its goal each time L0 comes down is emptied again each time, at the price of the level below.
pub fn goal_bytes(size: &SizeRule, version: &Version, level: usize) -> u64 {
    let Some(steps) = level.checked_sub(1) else { return size.l0_bytes };
    if size.sizes == Sizes::Fixed {
        return grown(size, steps);
    }
    let bottom = bottom(version);
    let above = u32::try_from(bottom.saturating_sub(level)).unwrap_or(u32::MAX);
    let last = bytes_of(version, bottom).max(size.level_base_bytes);
    (last / size.level_ratio.saturating_pow(above)).max(size.l0_bytes).max(1)
}

/// How many levels just below L0 are too many: dynamic sizes want fewer for what the last level holds.
pub fn surplus_levels(size: &SizeRule, version: &Version) -> usize {
    if size.sizes == Sizes::Fixed {
        return 0;
    }
    let bottom = bottom(version);
    let last = bytes_of(version, bottom);
    let wanted = (1..bottom).find(|levels| last <= grown(size, levels - 1) / 2).unwrap_or(bottom);
    bottom - wanted
}

/// True if a level should be born just below L0.
pub fn wants_another_level(size: &SizeRule, version: &Version) -> bool {
    let last = version.levels.len().saturating_sub(1);
    size.sizes == Sizes::Dynamic
        && last >= 1
        && last == bottom(version)
        && bytes_of(version, last) > grown(size, last - 1)
}

/// The level that data of `level` goes down to: the next one, past those that are too many.
pub fn level_below(size: &SizeRule, version: &Version, level: usize) -> usize {
    (level + 1).max(surplus_levels(size, version) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::picture_parse::parse;

    fn rule(sizes: Sizes) -> SizeRule {
        SizeRule { l0_bytes: 50, l0_bytes_max: 100, level_base_bytes: 100, level_ratio: 10, sizes }
    }

    #[test]
    fn l0_waits_for_more_where_it_is_merged_with_much() {
        let of = |sizes, l0: &str, l1: u64| {
            let tree = parse(&format!("{l0}\nL1 L 1[a-c bytes={l1}]")).unwrap();
            let size = rule(sizes);
            let runs = [1, 4].map(|max| runs_max(&size, &tree, 0, max));
            (capacity_bytes(&size, &tree, 0), runs, runs_max(&size, &tree, 1, 4))
        };
        let (large, small) = ("L0 T 9[a-c bytes=12]", "L0 T 8[a-c bytes=4] | 9[a-c bytes=6]");
        assert_eq!(of(Sizes::Dynamic, large, 48), (50, [1, 4], 4));
        assert_eq!(of(Sizes::Dynamic, large, 75), (75, [1, 7], 4));
        assert_eq!(of(Sizes::Dynamic, large, 100_000), (100, [1, 8], 4));
        assert_eq!(of(Sizes::Dynamic, small, 33), (50, [1, 7], 4));
        assert_eq!(of(Sizes::Dynamic, "L0 T", 33), (50, [1, 4], 4));
        assert_eq!(of(Sizes::Fixed, small, 100_000), (50, [1, 4], 4));
    }

    #[test]
    fn fixed_sizes_grow_downward_from_the_base() {
        let tree = parse("L0 T 9[a-c]\nL1 L 1[a-c bytes=5]\nL2 L 2[a-c bytes=9]").unwrap();
        let fixed = rule(Sizes::Fixed);
        assert_eq!([0, 1, 2, 3].map(|l| capacity_bytes(&fixed, &tree, l)), [50, 100, 1000, 10_000]);
        assert_eq!((surplus_levels(&fixed, &tree), wants_another_level(&fixed, &tree)), (0, false));
    }

    #[test]
    fn dynamic_sizes_shrink_upward_from_the_last_level() {
        let dynamic = rule(Sizes::Dynamic);
        let tree =
            parse("L0 T 9[a-c]\nL1 L 1[a-c bytes=5]\nL2 L 2[a-c bytes=9]\nL3 L 3[a-c bytes=5000]").unwrap();
        assert_eq!([0, 1, 2, 3].map(|l| capacity_bytes(&dynamic, &tree, l)), [50, 50, 500, u64::MAX]);
        assert_eq!(goal_bytes(&dynamic, &tree, 3), 5000);
        assert_eq!((surplus_levels(&dynamic, &tree), wants_another_level(&dynamic, &tree)), (0, false));
        let grown = parse("L0 T 9[a-c]\nL1 L 1[a-c bytes=5]\nL2 L 3[a-c bytes=1001]").unwrap();
        assert!(wants_another_level(&dynamic, &grown));
        let fits = parse("L0 T 9[a-c]\nL1 L 1[a-c bytes=5]\nL2 L 3[a-c bytes=1000]").unwrap();
        assert!(!wants_another_level(&dynamic, &fits));
    }

    #[test]
    fn a_tree_that_has_shrunk_has_levels_too_many() {
        let dynamic = rule(Sizes::Dynamic);
        let tree = parse("L0 T\nL1 L 1[a-c bytes=5]\nL2 L 2[a-c bytes=9]\nL3 L 3[a-c bytes=500]").unwrap();
        assert_eq!(surplus_levels(&dynamic, &tree), 1);
        assert_eq!([0, 1, 2].map(|level| level_below(&dynamic, &tree, level)), [2, 2, 3]);
        assert_eq!(capacity_bytes(&dynamic, &tree, 1), u64::MAX);
        let small = parse("L0 T\nL1 L 1[a-c bytes=5]\nL2 L 2[a-c bytes=9]\nL3 L 3[a-c bytes=50]").unwrap();
        assert_eq!(surplus_levels(&dynamic, &small), 2);
    }
}
