//! Finds the highest rate that a store sustains: a bracket, bisected by probes, each an open loop for a stated time.
//!
//! ```text
//! closed loop ─► X        probe X ─ fails ─► X/2 ─ holds ─► √(X/2 · X) ─ … until the bracket is narrow or the budget spent
//! ```
//!
//! A rate holds if the store completes at least 99 % of the requests by the time the last has come, the queue does not grow,
//! and, where a latency is asked for, the 99th percentile of every second is within it. What a probe cannot see is debt that
//! takes longer than the probe to be felt; the run that follows says whether the rate held for its length.
//! A rate that fails while the machine stands still is tried again.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::base::clock;
use crate::base::machine::Meter;
use crate::base::random::mix64;
use crate::load::arrivals::{End, Schedule, Spacing};
use crate::load::load_shape::Piece;
use crate::run::closed_loop::Run;
use crate::run::engine::{Engine, EngineError};
use crate::run::open_loop::{OpenMeasured, OpenRun, Queue};
use crate::run::phase::{Phase, Watch};
use crate::run::recorder::{Arrived, Window};
use crate::run::steady::is_halted;
use crate::workloads::generator::Shared;

/// The least share of the requests that must have ended with the last one's second.
pub const COMPLETED_MIN: f64 = 0.99;

/// The bracket is narrow enough when its ends are this close.
pub const BRACKET_MAX: f64 = 1.05;

/// While every rate fails the next is this share of it; while every rate holds, this multiple.
const DOWN: f64 = 0.5;
const UP: f64 = 1.3;

/// The queue of a probe may take so long to empty: enough to see the latencies of the last requests.
const DRAIN_SECONDS: f64 = 1.0;

/// A probe that failed in a machine that stood still is made again so often.
const AGAIN_MAX: u32 = 2;

/// A lower rate is no load; the store does not answer.
const RATE_MIN: f64 = 1.0;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The 99th percentile of every second must be within this.
    pub p99: Option<Duration>,
    /// How long a probe lasts, in seconds.
    pub probe_seconds: f64,
    /// No probe begins when probes have taken so many seconds. Waiting for an idle store is not counted: how far a search comes
    /// must not depend on how long an engine settles.
    pub budget_seconds: f64,
}

impl Search {
    /// A search within a budget: probes of a twelfth of it, and at least of a second.
    pub fn within(budget_seconds: f64, p99: Option<Duration>) -> Search {
        Search { p99, probe_seconds: (budget_seconds / 12.0).round().max(1.0), budget_seconds }
    }
}

/// One rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Probe {
    pub rate: f64,
    pub completed_share: f64,
    pub queue_at_end: u64,
    pub queue_grew: bool,
    pub worst_p99_us: Option<f64>,
    pub held: bool,
    #[serde(default)]
    pub halted: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct MaxRate {
    pub ops_per_sec: f64,
    #[serde(default)]
    pub failed_ops_per_sec: Option<f64>,
    pub closed_loop_ops_per_sec: f64,
    pub p99_limit_us: Option<f64>,
    pub probe_seconds: f64,
    pub budget_seconds: f64,
    pub spent_seconds: f64,
    pub probes: Vec<Probe>,
    #[serde(default)]
    pub others_cores: Option<f64>,
    #[serde(skip)]
    pub wrong_reads: u64,
}

impl MaxRate {
    /// True if the search came to its end: a rate little higher failed.
    pub fn is_narrow(&self) -> bool {
        self.failed_ops_per_sec.is_some_and(|failed| failed / self.ops_per_sec <= BRACKET_MAX)
    }
}

/// Tries rates on the store as it is, each from an idle store, until the budget is spent or the bracket narrow.
///
/// # Errors
/// The first error of the engine, or that no rate held and what to do.
pub fn find<E: Engine>(
    engine: &E,
    threads: usize,
    spacing: Spacing,
    search: Search,
    shared: &Shared<'_>,
    watch: &dyn Watch,
    idle: &dyn Fn() -> Result<(), EngineError>,
) -> Result<MaxRate, EngineError> {
    let (meter, seconds) = (Meter::start(), search.probe_seconds);
    let mut spent = Spent::default();
    let started = clock::now();
    // Each probe draws other operations, as clients would that go on.
    let nth = |n: usize| Shared { seed: mix64(shared.seed ^ mix64(n as u64 + 1)), ..*shared };
    let closed =
        Run { engine, threads, ops: None, seconds: Some(seconds), watch }.go(Phase::Search, &nth(0))?;
    spent.since(started);
    let mut found = MaxRate {
        ops_per_sec: 0.0,
        failed_ops_per_sec: None,
        closed_loop_ops_per_sec: closed.ops as f64 / closed.seconds,
        p99_limit_us: search.p99.map(|limit| limit.as_secs_f64() * 1e6),
        probe_seconds: seconds,
        budget_seconds: search.budget_seconds,
        spent_seconds: 0.0,
        probes: Vec::new(),
        others_cores: None,
        wrong_reads: closed.wrong_reads,
    };
    let (mut bracket, mut again) = (Bracket::new(found.closed_loop_ops_per_sec), 0);
    while let Some(rate) = bracket.next() {
        if spent.0.as_secs_f64() >= search.budget_seconds {
            break;
        }
        idle()?;
        let started = clock::now();
        let shared = nth(found.probes.len() + 1);
        let end = End { ops: None, seconds: Some(seconds) };
        let schedule = Schedule::new(std::iter::once(Piece { rate, seconds }), end, spacing, shared.seed);
        let run = OpenRun { engine, threads, schedule: &schedule, drain_seconds: DRAIN_SECONDS, watch };
        let OpenMeasured { measured, queue, .. } = run.go(Phase::Search, &shared)?;
        spent.since(started);
        found.wrong_reads += measured.wrong_reads;
        let halted = measured.samples.values().any(|second| is_halted(second.stolen_seconds));
        let probe = Probe { halted, ..judge(rate, &queue, &measured.windows, threads, search.p99) };
        found.probes.push(probe);
        if !probe.held && halted && again < AGAIN_MAX {
            // It says nothing of the store.
            again += 1;
            continue;
        }
        again = 0;
        bracket.learn(rate, probe.held);
    }
    found.ops_per_sec = bracket.held().ok_or_else(|| nothing_held(&search, &found.probes))?;
    found.failed_ops_per_sec = bracket.failed;
    found.spent_seconds = spent.0.as_secs_f64();
    found.others_cores = meter.used().and_then(|used| used.others_cores);
    Ok(found)
}

/// What probes have taken.
#[derive(Default)]
struct Spent(Duration);

impl Spent {
    fn since(&mut self, started: Instant) {
        self.0 += started.elapsed();
    }
}

fn nothing_held(search: &Search, probes: &[Probe]) -> String {
    let Some(last) = probes.last() else {
        return "no rate was tried within the budget; give a larger --budget, or --rate in requests a second"
            .to_owned();
    };
    let missed = match (search.p99, last.worst_p99_us) {
        (Some(limit), Some(worst)) if worst > limit.as_secs_f64() * 1e6 => {
            format!("the worst second's p99 was {:.1} ms", worst / 1e3)
        }
        _ => format!("{:.1} % of the requests ended in time", last.completed_share * 100.0),
    };
    format!(
        "no rate held, not even {} requests a second: {missed}; give a larger --budget, a larger --p99, or more --threads",
        last.rate
    )
}

/// Judges a probe, or a run: `threads` served `queue` second by second.
pub fn judge(rate: f64, queue: &Queue, windows: &[Window], threads: usize, p99: Option<Duration>) -> Probe {
    let worst_p99_us = windows.iter().filter_map(|window| window.p99_us).reduce(f64::max);
    let completed_share = queue.completed_share();
    let queue_grew = grew(queue, windows, threads);
    let quick = p99.is_none_or(|limit| worst_p99_us.is_some_and(|worst| worst <= limit.as_secs_f64() * 1e6));
    let held = completed_share >= COMPLETED_MIN && !queue_grew && quick && queue.unfinished == 0;
    Probe { rate, completed_share, queue_at_end: queue.at_end, queue_grew, worst_p99_us, held, halted: false }
}

/// The queue grows if its shortest in the second half is longer than in the first by more than the threads hold and a
/// hundredth of a second's requests. A spike that goes away again is no growth.
fn grew(queue: &Queue, windows: &[Window], threads: usize) -> bool {
    // While requests come; a last second that is only begun is none.
    let seconds = windows.iter().filter(|window| (window.second + 1) as f64 <= queue.seconds + 1e-6);
    let arrived: Vec<_> = seconds.filter_map(|window| window.arrived).collect();
    let (first, second) = arrived.split_at(arrived.len() / 2);
    let shortest = |half: &[Arrived]| half.iter().map(|arrived| arrived.queue).min();
    let slack = threads as u64 + queue.requests / (queue.seconds.max(1.0) * 100.0) as u64;
    shortest(first).zip(shortest(second)).is_some_and(|(first, second)| second > first + slack)
}

/// The highest rate that held and the lowest that failed, and what to try next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    first: f64,
    held: Option<f64>,
    failed: Option<f64>,
}

impl Bracket {
    /// Begins at this rate.
    pub fn new(first: f64) -> Bracket {
        Bracket { first: three_digits(first), held: None, failed: None }
    }

    /// The next rate to try; `None` if the bracket is narrow enough, or nothing holds.
    pub fn next(&self) -> Option<f64> {
        let rate = match (self.held, self.failed) {
            (None, None) => self.first,
            (Some(held), None) => three_digits(held * UP),
            (None, Some(failed)) => three_digits(failed * DOWN),
            (Some(held), Some(failed)) if failed / held <= BRACKET_MAX => return None,
            (Some(held), Some(failed)) => three_digits((held * failed).sqrt()),
        };
        (rate >= RATE_MIN && self.held != Some(rate) && self.failed != Some(rate)).then_some(rate)
    }

    /// Takes in what a probe said. Rates do not always fail from one rate on: the lowest that failed bounds the bracket.
    pub fn learn(&mut self, rate: f64, held: bool) {
        if held {
            self.held = Some(rate.max(self.held.unwrap_or(0.0)));
        } else {
            self.failed = Some(rate.min(self.failed.unwrap_or(f64::INFINITY)));
        }
    }

    /// The highest rate that held.
    pub fn held(&self) -> Option<f64> {
        self.held
    }
}

/// Rates that people can read, and that a later run can be given.
fn three_digits(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.max(1.0).log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // Below 100 the unit is a fraction, and multiplying by it leaves dust.
    (rounded * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recorder::with_arrivals;

    /// Bisects a store that holds up to `maximum`; the rates tried.
    fn search(first: f64, maximum: f64) -> (Option<f64>, Vec<f64>) {
        let (mut bracket, mut tried) = (Bracket::new(first), Vec::new());
        while let Some(rate) = bracket.next() {
            tried.push(rate);
            bracket.learn(rate, rate <= maximum);
        }
        (bracket.held(), tried)
    }

    #[test]
    fn the_bracket_closes_on_the_maximum_from_either_side() {
        for maximum in [140_000.0, 77_777.0, 20_000.0, 300_000.0, 1_234.0] {
            let (found, tried) = search(140_000.0, maximum);
            let found = found.unwrap();
            assert!(found <= maximum && found * BRACKET_MAX * 1.01 >= maximum, "{found} of {maximum}");
            assert!(tried.len() <= 13, "{tried:?}");
        }
        assert_eq!(search(140_000.0, 100_000.0).1[..3], [140_000.0, 70_000.0, 99_000.0]);
        let (found, tried) = search(1000.0, 0.0);
        assert_eq!((found, tried.len()), (None, 10));
    }

    fn windows(ended: &[(u64, f64)], came: &[u64]) -> (Queue, Vec<Window>) {
        let window = |(second, &(ops, p99)): (usize, &(u64, f64))| Window {
            second: second as u64,
            ops,
            p99_us: Some(p99),
            max_us: Some(p99),
            client_bytes: 0,
            arrived: None,
        };
        let rows = with_arrivals(&ended.iter().enumerate().map(window).collect::<Vec<_>>(), came);
        let at_end = rows[came.len() - 1].arrived.unwrap().queue;
        let requests: u64 = came.iter().sum();
        let unfinished = requests - ended.iter().map(|(ops, _)| ops).sum::<u64>();
        (Queue { requests, seconds: came.len() as f64, at_end, max: at_end, unfinished }, rows)
    }

    #[test]
    fn a_rate_holds_if_all_is_served_in_time() {
        let limit = Some(Duration::from_millis(10));
        let verdict = |ended: &[(u64, f64)]| {
            let (queue, rows) = windows(ended, &[1000; 4]);
            let probe = |p99| judge(1000.0, &queue, &rows, 2, p99);
            (probe(None).held, probe(limit).held, probe(None).queue_grew)
        };
        assert_eq!(verdict(&[(1000, 50.0); 4]), (true, true, false));
        // One bad second is too many where a latency is asked for.
        assert_eq!(
            verdict(&[(1000, 50.0), (500, 9.0), (1500, 500_000.0), (1000, 50.0)]),
            (true, false, false)
        );
        assert!(!verdict(&[(1000, 50.0), (1000, 50.0), (1000, 50.0), (950, 50.0), (50, 50.0)]).0);
        // Each second a little more is left over: 98.9 % in the end, but growing from the start.
        let slowly = [(989, 50.0), (989, 50.0), (989, 50.0), (989, 50.0), (44, 50.0)];
        assert_eq!(verdict(&slowly), (false, false, true));
        // The last was never served.
        assert!(!verdict(&[(1000, 50.0), (1000, 50.0), (1000, 50.0), (999, 50.0)]).0);
    }
}
