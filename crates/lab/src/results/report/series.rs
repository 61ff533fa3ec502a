//! A run over time, as it is plotted: one point a second, or one for several seconds of a long run.
//!
//! ```text
//! windows   0 1 2 . . 5 6 7      3 and 4 are missing: no operation ended, so throughput was 0, and latency is not known
//! points    [0 1] [2 .] [. 5] [6 7]
//! ```
//!
//! Of several seconds a point keeps what is worst for latency and for the shape of the tree, and the mean of the rest with
//! the lowest and the highest throughput, so that a long run does not look smoother than it was.

use crate::results::document::{Document, WindowRow};
use crate::run::steady::is_halted;

use super::numbers::finite;

/// At most so many points of a series: more than a screen shows apart.
pub const POINTS_MAX: u64 = 200;

/// One second of a run, or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Seconds since the begin, and where the point ends.
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// Operations a second that were to be started.
    pub offered: Option<f64>,
    /// Operations a second that ended.
    pub achieved: f64,
    /// The fewest and the most in one second.
    pub achieved_range: (f64, f64),
    /// The worst 99th percentile of a second.
    pub p99_us: Option<f64>,
    /// The largest latency.
    pub max_us: Option<f64>,
    /// Bytes a second: of clients, flushes, the first level, deeper levels ([`CLASSES`]).
    pub bytes: [Option<f64>; 4],
    /// Bytes in the levels, as they were last ([`LEVELS`]).
    pub levels: [Option<f64>; 4],
    /// The most runs in the first level.
    pub l0_runs: Option<f64>,
    /// Bytes a second that background work was allowed.
    pub internal_limit: Option<f64>,
    /// The most requests that waited.
    pub queue: Option<f64>,
    /// The most cores that other processes used.
    pub others_cores: Option<f64>,
    /// The machine stood still in one of the seconds.
    pub halted: bool,
}

/// Whom bytes were moved for, in the order of [`Point::bytes`].
pub const CLASSES: [&str; 4] = ["client", "flush", "first level", "deeper levels"];

/// Where data are, in the order of [`Point::levels`].
pub const LEVELS: [&str; 4] = ["first level", "second level", "third level", "deeper levels"];

/// A run as points, the earliest first.
pub fn points(doc: &Document) -> Vec<Point> {
    let rows: Vec<&WindowRow> = whole_seconds(doc);
    let Some(last) = rows.iter().map(|row| row.second).max() else { return Vec::new() };
    let seconds = last.saturating_add(1);
    let width = seconds.div_ceil(POINTS_MAX);
    let mut groups: Vec<Vec<&WindowRow>> = vec![Vec::new(); seconds.div_ceil(width) as usize];
    for row in rows {
        if let Some(group) = groups.get_mut((row.second / width) as usize) {
            group.push(row);
        }
    }
    let place = |i: usize| (i as u64 * width, (i as u64 * width).saturating_add(width).min(seconds));
    let groups = groups.iter().enumerate().map(|(i, group)| (place(i), group));
    groups.map(|((first, end), group)| point(doc, first, end, group)).collect()
}

/// A last second that is only begun says little, unless it is the only one.
fn whole_seconds(doc: &Document) -> Vec<&WindowRow> {
    let rows = doc.windows.iter().filter(|row| row.second == 0 || length(doc, row.second) >= 0.5);
    rows.collect()
}

/// How much of a second the run had.
fn length(doc: &Document, second: u64) -> f64 {
    finite(doc.seconds - second as f64).map_or(1.0, |left| left.clamp(0.001, 1.0))
}

fn point(doc: &Document, first: u64, end: u64, rows: &[&WindowRow]) -> Point {
    let to = first as f64 + (end - 1 - first) as f64 + length(doc, end - 1);
    let highest =
        |get: fn(&WindowRow) -> Option<f64>| rows.iter().filter_map(|row| get(row)).reduce(f64::max);
    let mean = |get: fn(&WindowRow) -> Option<f64>| {
        let known: Vec<f64> = rows.iter().filter_map(|row| get(row)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    // Bytes are counted, so a second that is cut short is scaled up; a second without a row moved nothing for clients.
    let per_second = |get: fn(&WindowRow) -> Option<u64>| {
        let known = rows.iter().filter_map(|row| Some((get(row)? as f64, length(doc, row.second))));
        let (bytes, time) = known.fold((0.0, 0.0), |sum, (bytes, time)| (sum.0 + bytes, sum.1 + time));
        (time > 0.0).then(|| bytes / time)
    };
    let achieved: Vec<f64> = rows.iter().filter_map(|row| finite(row.achieved)).collect();
    let missing = (end - first).saturating_sub(achieved.len() as u64);
    let low = if missing > 0 { 0.0 } else { achieved.iter().copied().fold(f64::INFINITY, f64::min) };
    Point {
        from: first as f64,
        to,
        offered: mean(|row| row.offered.and_then(finite)),
        achieved: achieved.iter().sum::<f64>() / (achieved.len() as u64 + missing).max(1) as f64,
        achieved_range: (low, achieved.iter().copied().fold(0.0, f64::max)),
        p99_us: highest(|row| row.p99_us.and_then(finite)),
        max_us: highest(|row| row.max_us.and_then(finite)),
        bytes: [
            if rows.is_empty() { Some(0.0) } else { per_second(|row| Some(row.client_bytes)) },
            per_second(|row| row.flush_bytes),
            per_second(|row| row.l0_bytes),
            per_second(|row| row.deep_bytes),
        ],
        levels: rows
            .iter()
            .rev()
            .find_map(|row| row.level_bytes)
            .map_or([None; 4], |levels| levels.map(|bytes| Some(bytes as f64))),
        l0_runs: highest(|row| row.l0_runs.map(|n| n as f64)),
        internal_limit: mean(|row| row.internal_limit.and_then(finite)),
        queue: highest(|row| row.queue.map(|n| n as f64)),
        others_cores: highest(|row| row.others_cores.and_then(finite)),
        halted: rows.iter().any(|row| is_halted(row.stolen_seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::report::sample;

    fn achieved(points: &[Point]) -> Vec<f64> {
        points.iter().map(|point| point.achieved).collect()
    }

    #[test]
    fn a_second_without_an_operation_is_a_stall() {
        let mut doc = sample::document("x", 5);
        doc.windows.retain(|row| row.second != 2);
        let points = points(&doc);
        assert_eq!(points.len(), 5);
        let stall = &points[2];
        assert_eq!((stall.achieved, stall.achieved_range), (0.0, (0.0, 0.0)));
        assert_eq!((stall.p99_us, stall.bytes), (None, [Some(0.0), None, None, None]));
        assert!(points[3].achieved > 0.0 && points[3].p99_us.is_some());
    }

    #[test]
    fn a_second_that_is_only_begun_counts_if_it_is_the_only_one() {
        let mut doc = sample::document("x", 3);
        doc.seconds = 2.2;
        assert_eq!(points(&doc).len(), 2);
        doc.seconds = 2.75;
        let cut = &points(&doc)[2];
        assert_eq!((cut.from, cut.to), (2.0, 2.75));
        assert_eq!(
            cut.bytes[0],
            Some(doc.windows[2].client_bytes as f64 / 0.75),
            "bytes a second, not bytes"
        );
        doc.windows.truncate(1);
        doc.seconds = 0.01;
        assert_eq!(points(&doc).len(), 1);
        doc.windows.clear();
        assert_eq!(points(&doc), []);
    }

    #[test]
    fn long_runs_keep_what_was_worst() {
        let mut doc = sample::document("x", 1000);
        for row in &mut doc.windows {
            (row.achieved, row.p99_us, row.max_us, row.l0_runs) = (100.0, Some(10.0), Some(20.0), Some(1));
            (row.queue, row.others_cores, row.stolen_seconds) = (Some(1), Some(0.1), Some(0.01));
        }
        let worst = &mut doc.windows[503];
        (worst.achieved, worst.p99_us, worst.max_us, worst.l0_runs) =
            (0.0, Some(1000.0), Some(2000.0), Some(9));
        (worst.queue, worst.others_cores, worst.stolen_seconds) = (Some(500), Some(1.5), Some(0.02));
        let points = points(&doc);
        assert_eq!(points.len(), 200);
        let point = &points[100];
        assert_eq!((point.from, point.to), (500.0, 505.0));
        assert_eq!((point.achieved, point.achieved_range), (80.0, (0.0, 100.0)));
        assert_eq!((point.p99_us, point.max_us, point.l0_runs), (Some(1000.0), Some(2000.0), Some(9.0)));
        assert_eq!((point.queue, point.others_cores), (Some(500.0), Some(1.5)));
        assert_eq!((points[99].queue, points[99].others_cores), (Some(1.0), Some(0.1)));
        let halted: Vec<usize> = (0..200).filter(|i| points[*i].halted).collect();
        assert_eq!(halted, [100]);
        assert!(achieved(&points[..100]).iter().all(|x| *x == 100.0));
    }

    #[test]
    fn no_document_asks_for_more_memory_than_its_points() {
        let mut doc = sample::document("x", 2);
        doc.windows[1].second = u64::MAX;
        doc.seconds = f64::NAN;
        assert!(points(&doc).len() as u64 <= POINTS_MAX);
    }
}
