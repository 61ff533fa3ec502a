//! What an experiment over schedules is: rows that are run in rounds, and claims about their documents. Plain data; and the
//! figures that claims are made of.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::row::Row;
use crate::design_space::study::{median as middle, ratio};
use crate::results::document::{Document, WindowRow};

/// See the file's header.
#[derive(Debug)]
pub struct Study {
    /// What people type.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// The paper's figure, as tables have it.
    pub figure: &'static str,
    /// What is run.
    pub rows: fn() -> Vec<Row>,
    /// What makes a result say something.
    pub valid: Valid,
    /// What is claimed.
    pub claims: &'static [Claim],
}

/// When a result says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Peaks of 1.5 to 2 W* and a mean below it, the baseline in trouble or short of the load in 5 % of the seconds, all served: see
    /// `sustained`.
    Bursts,
    /// DLC's load, which is a part of X_max: the baseline in trouble or short of the load, as in `Bursts`, all served.
    High,
    /// The same where the baseline's drops are what is claimed.
    Drops,
    /// A load that is not to trouble anybody: all served, and by all but the baseline by the time the last request has come.
    Served,
    /// A load without valleys, to see when a schedule gives in: the baseline in trouble or short of the load, as in `Bursts`.
    Overload,
}

/// Something that a paper says, as a number of a round.
#[derive(Debug)]
pub struct Claim {
    /// `study.claim`; its bar has the same name in `expected.json`.
    pub id: &'static str,
    /// What the number is.
    pub text: &'static str,
    /// The number; `None` if a cell is missing, or does not tell.
    pub number: fn(&Table<'_>) -> Option<f64>,
}

/// The documents of one round, by the names of rows; it notes what is asked for.
#[derive(Debug, Default)]
pub struct Table<'a> {
    rows: BTreeMap<String, &'a Document>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Table<'a> {
    /// Of these cells.
    pub fn new(cells: impl Iterator<Item = (String, &'a Document)>) -> Table<'a> {
        Table { rows: cells.collect(), ..Table::default() }
    }

    /// The document of a row.
    pub fn of(&self, row: &Row) -> Option<&'a Document> {
        let id = row.id();
        let found = self.rows.get(&id).copied();
        self.used.borrow_mut().insert(id);
        found
    }

    /// A figure of a row.
    pub fn figure(&self, row: &Row, figure: fn(&Document) -> Option<f64>) -> Option<f64> {
        figure(self.of(row)?)
    }

    /// A figure of a row by that of another. Nothing by nothing is alike; something by nothing is no ratio.
    pub fn ratio(&self, row: &Row, to: &Row, figure: fn(&Document) -> Option<f64>) -> Option<f64> {
        let (mine, other) = (self.figure(row, figure), self.figure(to, figure));
        match (mine?, other?) {
            (mine, other) if other > 0.0 => Some(mine / other),
            (mine, _) => (mine == 0.0).then_some(1.0),
        }
    }

    /// Rows that were asked for.
    pub fn asked(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }
}

/// A p99 above this is slow: the same line for every schedule.
const SLOW_US: f64 = 50_000.0;

/// Seconds in which requests came.
fn seconds(document: &Document) -> impl Iterator<Item = &WindowRow> {
    document.windows.iter().filter(|window| comes(window))
}

fn comes(window: &WindowRow) -> bool {
    window.offered.is_none_or(|rate| rate > 0.0)
}

/// The p99s of seconds, also of those after the last request came: what waits is answered in them.
fn p99s(document: &Document) -> Vec<f64> {
    document.windows.iter().filter_map(|window| window.p99_us).collect()
}

/// Seconds in which requests came or ended.
fn busy(document: &Document) -> impl Iterator<Item = &WindowRow> {
    document.windows.iter().filter(|window| comes(window) || window.p99_us.is_some())
}

/// How long requests came, in seconds.
fn length(document: &Document) -> f64 {
    seconds(document).last().map_or(0.0, |window| window.second as f64 + 1.0)
}

/// The mean of the worst 5 % of the p99s of seconds; a second in which nothing ended is as long as the wait that it made.
pub fn worst_seconds(document: &Document) -> Option<f64> {
    let mut p99 = p99s(document);
    p99.sort_by(|a, b| b.total_cmp(a));
    let worst = p99.get(..p99.len().div_ceil(20))?;
    (!worst.is_empty()).then(|| worst.iter().sum::<f64>() / worst.len() as f64)
}

/// The largest p99 of a second.
pub fn worst_second(document: &Document) -> Option<f64> {
    p99s(document).into_iter().reduce(f64::max)
}

/// That, by the median of the seconds' p99s.
pub fn unevenness(document: &Document) -> Option<f64> {
    let mut p99 = p99s(document);
    p99.sort_by(f64::total_cmp);
    let median = p99.get(p99.len() / 2).filter(|median| **median > 0.0)?;
    Some(p99.last()? / median)
}

/// The p50, of the kind of operation in which it is worst.
pub fn median(document: &Document) -> Option<f64> {
    document.latency_us.values().map(|latency| latency.p50).reduce(f64::max)
}

/// The p99, likewise.
pub fn p99(document: &Document) -> Option<f64> {
    document.latency_us.values().map(|latency| latency.p99).reduce(f64::max)
}

/// The share of the seconds in which fewer than 95 % of the requests that came in it ended.
pub fn short_seconds(document: &Document) -> Option<f64> {
    short_seconds_from(document, 0)
}

/// The same of the seconds from this one on.
pub fn short_seconds_from(document: &Document, from: u64) -> Option<f64> {
    let of = || seconds(document).filter(|window| window.second >= from);
    let all = of().count();
    (all > 0).then(|| of().filter(|window| is_short(window)).count() as f64 / all as f64)
}

/// The first second in which L0 was merged into L1.
pub fn first_merge(document: &Document) -> Option<u64> {
    let merges = |window: &&WindowRow| window.l0_bytes.is_some_and(|bytes| bytes > 0);
    seconds(document).find(merges).map(|window| window.second)
}

/// The share of the time in which requests came that was left from then on.
pub fn share_after_first_merge(document: &Document) -> Option<f64> {
    let length = length(document);
    let first = first_merge(document).filter(|_| length > 0.0)?;
    Some(1.0 - first as f64 / length)
}

fn is_short(window: &WindowRow) -> bool {
    window.offered.is_some_and(|offered| window.achieved < 0.95 * offered)
}

/// Seconds whose p99 is more than ten times the median second's, as a share.
pub fn bad_seconds(document: &Document) -> Option<f64> {
    let mut p99 = p99s(document);
    p99.sort_by(f64::total_cmp);
    let middle = *p99.get(p99.len() / 2)?;
    let all = busy(document).count();
    let silent = busy(document).filter(|window| window.p99_us.is_none()).count();
    let bad = p99.iter().filter(|us| **us > 10.0 * middle).count();
    Some((bad + silent) as f64 / all as f64)
}

/// Seconds in which the p99 was above 50 ms, or nothing ended, as a share.
pub fn slow_seconds(document: &Document) -> Option<f64> {
    let all = busy(document).count();
    let slow = |window: &&WindowRow| window.p99_us.is_none_or(|us| us > SLOW_US);
    (all > 0).then(|| busy(document).filter(slow).count() as f64 / all as f64)
}

/// When the p99 of a second was first above this, or nothing ended in it, in seconds; `None` if that never was while requests came.
pub fn first_above(document: &Document, limit_us: f64) -> Option<f64> {
    let slow = seconds(document).find(|window| window.p99_us.is_none_or(|us| us > limit_us));
    slow.map(|window| window.second as f64)
}

/// By how many seconds the first run stayed below that limit longer than each of the others, at least; a run that always did stayed for
/// its whole length. `None` where the first and another one always did: nobody knows which would have been longer.
pub fn stays_below(one: &Document, others: &[&Document], limit_us: f64) -> Option<f64> {
    let above = |document| first_above(document, limit_us);
    if above(one).is_none() && others.iter().any(|other| above(other).is_none()) {
        return None;
    }
    let until = |document| above(document).unwrap_or_else(|| length(document));
    others.iter().map(|other| until(one) - until(other)).reduce(f64::min)
}

/// The same of one other, and of 50 ms.
pub fn stays_fast(one: &Document, other: &Document) -> Option<f64> {
    stays_below(one, &[other], SLOW_US)
}

/// The median of the p99s of seconds, in the first tenth of the measurement.
pub fn early_median(document: &Document) -> Option<f64> {
    let early = |window: &&WindowRow| (window.second as f64) < length(document) / 10.0;
    let p99: Vec<f64> = seconds(document).filter(early).filter_map(|window| window.p99_us).collect();
    middle(&p99)
}

/// What ended of what came, in the second where that is least; seconds in which the load changes count as well.
pub fn least_followed(document: &Document) -> Option<f64> {
    let followed = |window: &WindowRow| Some(window.achieved / window.offered?);
    seconds(document).filter_map(followed).reduce(f64::min)
}

/// How long writers waited, in seconds, all together.
pub fn stalled_seconds(document: &Document) -> Option<f64> {
    document.stalls.seconds
}

/// The share of the seconds in which a writer waited.
pub fn stalled_share(document: &Document) -> Option<f64> {
    let told: Vec<f64> = seconds(document).filter_map(|window| window.stall_seconds).collect();
    let stalled = told.iter().filter(|seconds| **seconds > 0.0).count();
    ratio(stalled as f64, told.len() as f64)
}

/// Bytes that compactions wrote and threw away, by all that they wrote.
pub fn lost(document: &Document) -> Option<f64> {
    let (lost, all) = (document.compaction.wasted_bytes?, document.compaction.bytes_written?);
    ratio(lost as f64, all as f64)
}

/// Flushes that waited for another one.
pub fn delayed_flushes(document: &Document) -> Option<f64> {
    let delayed: Vec<u64> = seconds(document).filter_map(|window| window.flushes_delayed).collect();
    (!delayed.is_empty()).then(|| delayed.iter().sum::<u64>() as f64)
}

/// How many times as high the p99s of ten seconds are, in the median, as those of the ten seconds before, at most.
pub fn steepest(document: &Document) -> Option<f64> {
    let p99 = p99s(document);
    let tens: Vec<f64> = p99.chunks_exact(10).filter_map(middle).collect();
    let steps = tens.iter().zip(tens.iter().skip(1)).filter(|(before, _)| **before > 0.0);
    steps.map(|(before, after)| after / before).reduce(f64::max)
}

/// Cores that the schedule's monitor used since the store was opened.
pub fn monitor(document: &Document) -> Option<f64> {
    let seconds = document.seconds + document.idle_seconds.unwrap_or(0.0);
    document.monitor_cpu_seconds.filter(|_| seconds > 0.0).map(|cpu| cpu / seconds)
}

/// The least share of the requests that had ended when the last had come.
pub fn completed(document: &Document) -> Option<f64> {
    document.open_loop.as_ref().map(|open| open.completed_share)
}

/// The most runs in L0.
pub fn most_runs(document: &Document) -> Option<f64> {
    seconds(document).filter_map(|window| window.l0_runs).max().map(|runs| runs as f64)
}

/// The fewest runs that L0 had after it had most, by those.
pub fn reset(document: &Document) -> Option<f64> {
    let runs: Vec<u64> = seconds(document).filter_map(|window| window.l0_runs).collect();
    let most = *runs.iter().max()?;
    let fewest = runs.iter().skip_while(|runs| **runs < most).min()?;
    ratio(*fewest as f64, most as f64)
}

/// Compactions that were open at the end of a second, and full memtables but for the one that was being flushed: the most.
pub fn longest_queue(document: &Document) -> Option<f64> {
    let queue = |window: &WindowRow| Some(window.jobs_open? + window.memtables_full?.saturating_sub(1));
    seconds(document).filter_map(queue).max().map(|queue| queue as f64)
}

/// What flushes and compactions wrote; the log, which is there where neither is, not.
pub fn internal_writes(document: &Document) -> Option<f64> {
    let of = |window: &WindowRow| Some(window.flush_bytes? + window.l0_bytes? + window.deep_bytes?);
    seconds(document).map(|window| of(window).map(|bytes| bytes as f64)).sum()
}

/// Operations a second until what they left to be done in the background is done as well. Who puts work off has it still to do: until
/// then it has served more than it can go on with.
pub fn throughput(document: &Document) -> Option<f64> {
    let seconds = document.seconds + document.idle_seconds?;
    (seconds > 0.0).then(|| document.ops as f64 / seconds)
}

/// What ended of what came, in the seconds in which more than half as much came as in any.
pub fn served_in_peaks(document: &Document) -> Option<f64> {
    let most = seconds(document).filter_map(|window| window.offered).reduce(f64::max)?;
    let peaks = seconds(document).filter_map(|window| Some((window.offered?, window.achieved)));
    let (came, ended) = peaks
        .filter(|(offered, _)| *offered > most / 2.0)
        .fold((0.0, 0.0), |sum, (offered, achieved)| (sum.0 + offered, sum.1 + achieved));
    (came > 0.0).then(|| ended / came)
}

/// The longest row of seconds in which fewer than 95 % of the requests that came ended, in seconds.
pub fn longest_dip(document: &Document) -> Option<f64> {
    let (mut longest, mut now) = (0u64, 0u64);
    for window in seconds(document) {
        now = if is_short(window) { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    Some(longest as f64)
}

/// Such seconds in the first burst: from the first one in which L0 had so many runs until it had fewer. `None` if it never had. What comes
/// later is not only the bursts' doing: with more runs left in L0 less is served in between too.
pub fn first_burst_dip(document: &Document, runs: u64) -> Option<f64> {
    let is_tall = |window: &&WindowRow| window.l0_runs.is_some_and(|l0| l0 >= runs);
    let mut burst = seconds(document).skip_while(|window| !is_tall(window)).take_while(is_tall).peekable();
    burst.peek()?;
    Some(burst.filter(|window| is_short(window)).count() as f64)
}

/// Operations a second in the last quarter of the measurement, by those in the second one: the first is still warm from settling.
pub fn decay(document: &Document) -> Option<f64> {
    let rates: Vec<f64> = seconds(document).map(|window| window.achieved).collect();
    let quarter = rates.len() / 4;
    let sum = |from: usize| rates.get(from..from + quarter).map(|part| part.iter().sum::<f64>());
    let (early, late) = (sum(quarter)?, sum(rates.len() - quarter)?);
    (early > 0.0).then(|| late / early)
}

/// The mean p99 of a second in the second half, by that in the first.
pub fn trend(document: &Document) -> Option<f64> {
    by_halves(p99s(document))
}

/// The same of what compactions owed at the end of a second.
pub fn debt_trend(document: &Document) -> Option<f64> {
    by_halves(seconds(document).filter_map(|window| window.debt_bytes).map(|bytes| bytes as f64).collect())
}

fn by_halves(of: Vec<f64>) -> Option<f64> {
    let (first, second) = of.split_at(of.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, second) = (mean(first), mean(second));
    (first > 0.0).then(|| second / first)
}

/// How far off the schedule's estimate of what clients use is from what their reads took from files: 0.1 for a tenth.
pub fn estimate_error(document: &Document) -> Option<f64> {
    let pair = |window: &WindowRow| Some((window.client_estimate?, window.client_read_bytes? as f64));
    let (estimated, read) =
        seconds(document).filter_map(pair).fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    (read > 0.0).then(|| (estimated / read - 1.0).abs())
}

/// How what clients move and what background work moves go together from second to second: Pearson's coefficient, −1 for a mirror.
/// Seconds without any background work say nothing.
pub fn mirrored(document: &Document) -> Option<f64> {
    let pair = |window: &WindowRow| Some((window.client_bytes as f64, window.internal_bytes? as f64));
    let pairs: Vec<(f64, f64)> =
        seconds(document).filter_map(pair).filter(|(_, internal)| *internal > 0.0).collect();
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / n, y + b / n));
    let sums = pairs.iter().fold((0.0, 0.0, 0.0), |(xy, xx, yy), (a, b)| {
        (xy + (a - x) * (b - y), xx + (a - x) * (a - x), yy + (b - y) * (b - y))
    });
    (sums.1 > 0.0 && sums.2 > 0.0).then(|| sums.0 / (sums.1 * sums.2).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::report::sample;

    fn document(change: impl Fn(u64, &mut WindowRow)) -> Document {
        let mut document = sample::document("evenkeel", 20);
        document.windows.iter_mut().for_each(|window| change(window.second, window));
        document
    }

    #[test]
    fn figures_are_of_the_seconds_in_which_requests_came() {
        let d = document(|second, window| {
            window.p99_us = Some(if second == 7 { 80_000.0 } else { 1000.0 });
            window.achieved = if second < 2 { 18_000.0 } else { 20_000.0 };
            window.flushes_delayed = Some(second % 2);
            // The last one only answers what waited.
            if second == 19 {
                (window.offered, window.p99_us, window.achieved) = (Some(0.0), Some(90_000.0), 10.0);
            }
        });
        assert_eq!((worst_second(&d), worst_seconds(&d)), (Some(90_000.0), Some(90_000.0)));
        assert_eq!(short_seconds(&d), Some(2.0 / 19.0));
        assert_eq!([bad_seconds(&d), slow_seconds(&d)], [Some(0.1); 2]);
        assert_eq!((delayed_flushes(&d), first_above(&d, 50_000.0)), (Some(9.0), Some(7.0)));
        assert_eq!(first_above(&d, 85_000.0), None, "while requests came");
        let silent = document(|second, window| window.p99_us = (second != 3).then_some(1000.0));
        assert_eq!((bad_seconds(&silent), slow_seconds(&silent)), (Some(0.05), Some(0.05)));
    }

    #[test]
    fn who_never_gives_in_is_not_longer_than_another_who_does_not() {
        let rises_at = |at: u64| {
            document(move |second, window| window.p99_us = Some(if second < at { 1.0 } else { 90_000.0 }))
        };
        let (early, late, never) = (rises_at(3), rises_at(12), rises_at(100));
        assert_eq!((stays_fast(&late, &early), stays_fast(&early, &never)), (Some(9.0), Some(-17.0)));
        assert_eq!((stays_fast(&never, &late), stays_fast(&never, &never)), (Some(8.0), None));
        assert_eq!(stays_below(&late, &[&early, &rises_at(10)], SLOW_US), Some(2.0));
        assert_eq!(stays_below(&never, &[&early, &never], SLOW_US), None);
    }

    /// Before the baseline merges for the first time nobody has trouble.
    #[test]
    fn what_falls_short_is_counted_from_the_first_merge() {
        let d = document(|second, window| {
            window.l0_bytes = Some(if second == 10 || second == 15 { 1 } else { 0 });
            window.achieved = if second % 5 == 0 { 1000.0 } else { 20_000.0 };
        });
        assert_eq!((first_merge(&d), share_after_first_merge(&d)), (Some(10), Some(0.5)));
        assert_eq!((short_seconds(&d), short_seconds_from(&d, 10)), (Some(0.2), Some(0.2)));
        assert_eq!(short_seconds_from(&d, 16), Some(0.0));
        assert_eq!(first_merge(&document(|_, window| window.l0_bytes = Some(0))), None);
    }

    #[test]
    fn what_was_put_off_is_to_be_done_all_the_same() {
        let mut d =
            document(|second, window| window.stall_seconds = Some(if second < 5 { 0.1 } else { 0.0 }));
        (d.ops, d.seconds, d.idle_seconds) = (3000, 20.0, Some(10.0));
        assert_eq!((throughput(&d), stalled_share(&d)), (Some(100.0), Some(0.25)));
        d.idle_seconds = None;
        assert_eq!(throughput(&d), None, "nobody waited for it");
    }

    #[test]
    fn a_load_is_followed_as_well_as_in_its_worst_second() {
        let d = document(|second, window| {
            window.offered = Some(if second < 10 { 20_000.0 } else { 0.0 });
            window.achieved = if second == 4 { 15_000.0 } else { 20_000.0 };
            window.p99_us = Some(if second < 5 { 1000.0 } else { 20_000.0 });
        });
        assert_eq!(least_followed(&d), Some(0.75));
        assert_eq!(
            (early_median(&d), first_above(&d, 10_000.0), first_above(&d, 1e6)),
            (Some(1000.0), Some(5.0), None)
        );
    }

    #[test]
    fn a_dip_is_looked_for_from_where_it_can_be_one() {
        let d = document(|second, window| {
            window.offered = Some(if second < 16 { 20_000.0 } else { 5000.0 });
            // Two seconds before L0 is tall, one while it is for the first time, others later.
            let short = (2..5).contains(&second) || (9..13).contains(&second) || (15..17).contains(&second);
            window.achieved = if short { 1000.0 } else { window.offered.unwrap() };
            window.l0_runs = Some([0, 2, 4, 5, 1, 3, 4, 6, 7, 8][second as usize / 2]);
        });
        let first_burst = [4, 1, 100].map(|runs| first_burst_dip(&d, runs));
        assert_eq!((longest_dip(&d), first_burst), (Some(4.0), [Some(1.0), Some(9.0), None]));
        assert_eq!(reset(&d), Some(1.0));
        let sawtooth = document(|second, window| window.l0_runs = Some([1, 3, 5, 9, 2][second as usize % 5]));
        assert_eq!(reset(&sawtooth), Some(1.0 / 9.0));
        let share = served_in_peaks(&d).unwrap();
        assert!((share - (16.0 - 7.6) / 16.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_cliff_is_steeper_than_a_slope() {
        let rise = |p99: fn(u64) -> f64| document(|second, window| window.p99_us = Some(p99(second)));
        assert_eq!(steepest(&rise(|second| if second < 10 { 1000.0 } else { 90_000.0 })), Some(90.0));
        assert!(steepest(&rise(|second| 1000.0 + second as f64 * 100.0)).unwrap() < 2.0);
        let mut d = document(|_, _| ());
        d.monitor_cpu_seconds = None;
        assert_eq!(monitor(&d), None);
        (d.monitor_cpu_seconds, d.seconds, d.idle_seconds) = (Some(0.1), 15.0, Some(5.0));
        assert_eq!(monitor(&d), Some(0.005));
    }

    #[test]
    fn what_is_thrown_away_is_a_part() {
        let mut d = document(|_, _| ());
        (d.compaction.wasted_bytes, d.compaction.bytes_written) = (Some(5), Some(100));
        assert_eq!(lost(&d), Some(0.05));
        d.compaction.wasted_bytes = None;
        assert_eq!(lost(&d), None);
    }

    #[test]
    fn a_memtable_waits_behind_the_one_that_is_being_flushed() {
        let queue = |full: fn(u64) -> Option<u64>| {
            longest_queue(&document(|second, window| {
                (window.jobs_open, window.memtables_full) = (Some(second % 2), full(second));
            }))
        };
        assert_eq!(queue(|second| Some(second % 2)), Some(1.0));
        assert_eq!(queue(|second| Some(if second == 6 { 4 } else { 0 })), Some(3.0));
        assert_eq!(queue(|_| None), None, "who does not tell of memtables has no queue to tell of");
    }

    #[test]
    fn an_estimate_is_off_by_its_part() {
        let off = |estimate| {
            estimate_error(&document(|_, window| {
                (window.client_estimate, window.client_read_bytes) = (estimate, Some(100));
            }))
        };
        assert_eq!(
            (off(Some(100.0)), off(Some(150.0)), off(Some(50.0)), off(None)),
            (Some(0.0), Some(0.5), Some(0.5), None)
        );
    }

    #[test]
    fn the_log_is_no_internal_work() {
        let written = |deep: Option<u64>| {
            internal_writes(&document(|_, window| {
                (window.flush_bytes, window.l0_bytes, window.deep_bytes) = (Some(1), Some(2), deep);
                window.internal_bytes = Some(100);
            }))
        };
        let seconds = document(|_, _| ()).windows.len() as f64;
        assert_eq!((written(Some(3)), written(None)), (Some(6.0 * seconds), None));
    }

    #[test]
    fn a_mirror_is_minus_one() {
        let of = |internal: fn(u64) -> u64| {
            mirrored(&document(|second, window| {
                window.client_bytes = 1000 + second;
                window.internal_bytes = Some(internal(second));
            }))
        };
        assert!((of(|second| 1000 - second).unwrap() + 1.0).abs() < 1e-9);
        assert!((of(|second| 1000 + second).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(of(|_| 5), None);
    }
}
