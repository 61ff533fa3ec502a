//! How many runs: what a group with too many of them does, and which neighbours it merges.
//!
//! Merging neighbouring runs of one group (a collapse) is the only way to fewer runs without moving data down. The
//! window is the cheapest one that leaves as many runs as the layout allows. Other layouts (by heat) come here too.

use std::ops::Range;

use super::strategy::Layout;

/// A run as far as the layout cares, newest first in a list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFigures {
    /// Visible bytes.
    pub bytes: u64,
    /// True if some table of it belongs to an open job.
    pub busy: bool,
}

impl Layout {
    /// How many runs too many there are.
    pub fn excess(self, runs: usize) -> usize {
        runs.saturating_sub(self.max_runs() as usize)
    }
}

/// The cheapest `count` neighbouring runs.
pub fn cheapest_window(runs: &[RunFigures], count: usize) -> Option<Range<usize>> {
    let windows = runs.windows(count.max(1)).enumerate();
    let cheapest = windows.min_by_key(|(_, w)| w.iter().map(|r| r.bytes).sum::<u64>());
    cheapest.map(|(from, w)| from..from + w.len())
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
pub fn windows(runs: &[RunFigures], excess: usize) -> Vec<Range<usize>> {
    let cheapest = cheapest_window(runs, excess + 1);
    let free = longest_window(runs.len(), |i| runs.get(i).is_some_and(|r| !r.busy));
    let mut out: Vec<Range<usize>> = cheapest.into_iter().chain(free).collect();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Vec<RunFigures> {
        let run =
            |w: &str| RunFigures { bytes: w.trim_end_matches('*').parse().unwrap(), busy: w.ends_with('*') };
        text.split(' ').map(run).collect()
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
            let got: Vec<String> = windows(&runs(drawn), excess).iter().map(|w| format!("{w:?}")).collect();
            assert_eq!(got.join(" "), want, "{drawn} with {excess} too many");
        }
    }

    #[test]
    fn leveling_allows_one_run_and_tiering_its_number() {
        assert_eq!(Layout::Runs { max: 1, fill: false }.excess(3), 2);
        assert_eq!(Layout::Runs { max: 4, fill: false }.excess(4), 0);
        assert_eq!(Layout::Runs { max: 4, fill: false }.excess(0), 0);
    }
}
