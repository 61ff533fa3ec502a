//! How many runs: what a group with too many of them does, and which neighbours it merges.
//!
//! Merging neighbouring runs of one group (a collapse) is the only way to fewer runs without moving data down. The
//! window is the cheapest one that leaves as many runs as the layout allows.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::strategy::Layout;
use super::trigger::Figures;
use crate::version::group::Group;
use crate::version::level::Level;
use crate::version::run::{SortedRun, TableRef};

/// A run as far as the layout cares, newest first in a list of them.
#[derive(Clone, Copy, Debug)]
pub struct RunFigures<'v> {
    /// The run.
    pub run: &'v SortedRun,
    /// True if some table of it belongs to an open job.
    pub busy: bool,
}

/// The groups whose tables go when their level is full, asked of this one; nothing if another of them is to be asked, or if it keeps
/// its own. Of groups by heat all hot ones answer together, and the cold ones, which wait for their runs, only if without them the
/// level would be full all the same: the one with the most runs. `figures` are those of the level's groups.
pub fn answers(layout: Layout, level: &Level, figures: &[Figures], group: usize) -> Vec<usize> {
    let Layout::ByHeat(rule) = layout else { return vec![group] };
    let of = |hot: bool| {
        let is_one = move |(_, g): &(usize, &Arc<Group>)| rule.is_hot(g) == hot && g.run_count() > 0;
        level.groups.iter().enumerate().filter(is_one)
    };
    let runs = |group: usize| figures.get(group).map_or(0, |figures| figures.runs);
    if level.groups.get(group).is_some_and(|group| rule.is_hot(group)) {
        let hot: Vec<usize> = of(true).map(|(at, _)| at).filter(|at| runs(*at) > 0).collect();
        return if hot.first() == Some(&group) { hot } else { Vec::new() };
    }
    let capacity = figures.get(group).map_or(0, |figures| figures.capacity_bytes);
    let is_cause = of(true).next().is_none() || of(false).map(|(_, g)| g.bytes()).sum::<u64>() >= capacity;
    let fullest = of(false).max_by_key(|(at, g)| (runs(*at), g.bytes(), Reverse(*at)));
    fullest.filter(|(at, _)| is_cause && *at == group).map(|(at, _)| at).into_iter().collect()
}

/// How many runs too many there are.
pub fn excess(runs: usize, max_runs: u32) -> usize {
    runs.saturating_sub(max_runs as usize)
}

/// A merge of neighbouring runs of a group into the oldest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The runs, newest first.
    pub window: Range<usize>,
    /// Bytes of all but the oldest: what stands in runs too many.
    pub newer_bytes: u64,
    /// Those, and what they overlap of the oldest: what is left to be merged once some of it is.
    pub left_bytes: u64,
    /// Bytes of all the runs.
    pub bytes: u64,
}

/// The cheapest merge of `count` neighbouring runs, the newest of equals.
pub fn cheapest_merge(runs: &[&SortedRun], count: usize) -> Option<Merge> {
    let windows = runs.windows(count.max(1)).enumerate();
    let merge = |(from, w): (usize, &[&SortedRun])| {
        let (newer_bytes, left_bytes) = merge_bytes(w);
        let bytes = w.iter().map(|run| run.bytes()).sum();
        Merge { window: from..from + w.len(), newer_bytes, left_bytes, bytes }
    };
    windows.map(merge).min_by_key(|merge| merge.left_bytes)
}

/// Bytes of all but the oldest of these runs, and those with what they overlap of it.
fn merge_bytes(runs: &[&SortedRun]) -> (u64, u64) {
    let Some((oldest, newer)) = runs.split_last() else { return (0, 0) };
    let tables = || newer.iter().flat_map(|run| &run.tables);
    let mut overlapped: Vec<Range<usize>> = tables().map(|t| oldest.overlapping_range(&t.bounds)).collect();
    overlapped.sort_unstable_by_key(|range| range.start);
    let newer_bytes = tables().map(TableRef::bytes).sum();
    let (mut bytes, mut seen) = (newer_bytes, 0);
    for range in overlapped {
        let unseen = oldest.tables.get(range.start.max(seen)..range.end).unwrap_or_default();
        bytes += unseen.iter().map(TableRef::bytes).sum::<u64>();
        seen = seen.max(range.end);
    }
    (newer_bytes, bytes)
}

/// The longest stretch of runs that pass `usable`, the newest of equals; `None` if it has less than two.
pub fn longest_window(runs: usize, usable: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let mut best = 0..0;
    let mut from = 0;
    for i in 0..=runs {
        if i < runs && usable(i) {
            continue;
        }
        if i - from > best.len() {
            best = from..i;
        }
        from = i + 1;
    }
    (best.len() >= 2).then_some(best)
}

/// Windows to merge so that `excess` runs fewer remain, best first: the cheapest, then what open jobs leave free.
pub fn windows(runs: &[RunFigures<'_>], excess: usize) -> Vec<Range<usize>> {
    let found: Vec<&SortedRun> = runs.iter().map(|r| r.run).collect();
    let cheapest = cheapest_merge(&found, excess + 1).map(|merge| merge.window);
    let free = longest_window(runs.len(), |i| runs.get(i).is_some_and(|r| !r.busy));
    let mut out: Vec<Range<usize>> = cheapest.into_iter().chain(free).collect();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::picture_parse::parse;

    /// Windows among runs of these bytes, over the same keys; `*` for one that is busy.
    fn windows_of(drawn: &str, excess: usize) -> String {
        let words: Vec<&str> = drawn.split(' ').collect();
        let run = |(i, w): (usize, &&str)| format!("{}[a-c bytes={}]", 100 - i, w.trim_end_matches('*'));
        let runs: Vec<String> = words.iter().enumerate().map(run).collect();
        let tree = parse(&format!("L0 T {}", runs.join(" | "))).unwrap();
        let runs = tree.levels[0].groups[0].runs.iter().zip(&words);
        let figures: Vec<_> = runs.map(|(run, w)| RunFigures { run, busy: w.ends_with('*') }).collect();
        windows(&figures, excess).iter().map(|w| format!("{w:?}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_cheapest_neighbours_are_merged_and_then_the_free_ones() {
        for (drawn, excess, want) in [
            ("5 1 2 9", 1, "1..3 0..4"),
            ("5 1 2 9", 3, "0..4"),
            ("5 1 2* 9", 1, "1..3 0..2"),
            ("5* 1 2* 9", 3, "0..4"),
            ("5 1* 2 2", 2, "1..4 2..4"),
        ] {
            assert_eq!(windows_of(drawn, excess), want, "{drawn} with {excess} too many");
        }
    }

    #[test]
    fn what_is_left_to_merge_is_where_newer_runs_overlap_the_oldest() {
        let tree = "L0 T 9[c-d bytes=7] 8[g-h bytes=7] | 5[a-b bytes=90] 4[c-d bytes=20] 3[e-g bytes=30] 2[x-z bytes=40]";
        let tree = parse(tree).unwrap();
        let runs: Vec<&SortedRun> = tree.levels[0].groups[0].runs.iter().map(|r| &**r).collect();
        assert_eq!(merge_bytes(&runs), (14, 14 + 20 + 30));
        assert_eq!((merge_bytes(&runs[..1]), merge_bytes(&[])), ((0, 0), (0, 0)));
    }

    #[test]
    fn leveling_allows_one_run_and_tiering_its_number() {
        assert_eq!([excess(3, 1), excess(4, 4), excess(0, 4)], [2, 0, 0]);
    }
}
