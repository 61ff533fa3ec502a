//! What a run was like in the seconds in which the machine did not stand still.
//!
//! ```text
//! second      0   1   2   3   4   5   6
//! stolen      0   0   .1  0   .01 0   0     .1 is a halt; .01 may be a tick that was counted late
//! counted     ×   ×   –   –   ×   ×   ×     what came during a halt may end in the second after it
//! ```
//!
//! A virtual machine that its host does not let run answers nobody, whatever the engine: a tenth of a second in a minute decides
//! p99.9, the largest latency and the worst second of every engine alike. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::run::phase::Sample;
use crate::run::recorder::{SecondLatencies, Window, window_histogram};
use crate::workloads::workload::OpKind;

/// In a second in which so many seconds or more were stolen, summed over all cores, the machine stood still. The kernel counts in
/// hundredths; a single one is also what a core shows that gave way for a moment while others ran on, so it takes two.
pub const HALTED_SECONDS_MIN: f64 = 0.02;

/// A run of which a larger share had to be left out says little.
pub const LEFT_OUT_SHARE_MAX: f64 = 0.5;

/// A run without the seconds in which the machine stood still, and those after them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Steady {
    pub seconds: u64,
    pub halted_seconds: u64,
    pub left_out_seconds: u64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
    pub max_us: Option<f64>,
    pub worst_second_p99_us: Option<f64>,
    #[serde(default)]
    pub slowest_second_ops: Option<f64>,
    pub latency_us: BTreeMap<String, SteadyLatency>,
}

/// Latencies of one kind of operation in those seconds, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct SteadyLatency {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Seconds in which the machine stood still, and all that are left out for it.
#[derive(Debug, Default)]
struct Halts {
    halted: BTreeSet<u64>,
    left_out: BTreeSet<u64>,
}

impl Steady {
    /// Of a run that took so many seconds; `None` if nobody knows what was stolen.
    pub fn of(
        seconds: f64,
        windows: &[Window],
        latencies: &[SecondLatencies],
        samples: &BTreeMap<u64, Sample>,
    ) -> Option<Steady> {
        let halts = halts(samples)?;
        let whole = (seconds.round() as u64).max(1);
        let mut by_kind: BTreeMap<&'static str, Histogram<u64>> = BTreeMap::new();
        let mut all = window_histogram();
        for second in latencies.iter().filter(|second| !halts.left_out.contains(&second.second)) {
            for (kind, kept) in &second.by_kind {
                kept.add_to(by_kind.entry(OpKind::name(*kind)).or_insert_with(window_histogram));
                kept.add_to(&mut all);
            }
        }
        let all = latency(&all);
        let ops: BTreeMap<u64, u64> = windows.iter().map(|w| (w.second, w.ops)).collect();
        let served = |second: u64| ops.get(&second).map_or(0.0, |ops| *ops as f64);
        let slowest = (0..seconds as u64).filter(|second| !halts.left_out.contains(second)).map(served);
        let counted = |w: &&Window| (w.second + 1) as f64 <= seconds && !halts.left_out.contains(&w.second);
        Some(Steady {
            seconds: whole,
            halted_seconds: halts.halted.range(..whole).count() as u64,
            left_out_seconds: halts.left_out.range(..whole).count() as u64,
            p50_us: all.map(|l| l.p50),
            p99_us: all.map(|l| l.p99),
            p999_us: all.map(|l| l.p999),
            max_us: all.map(|l| l.max),
            worst_second_p99_us: windows.iter().filter(counted).filter_map(|w| w.p99_us).reduce(f64::max),
            slowest_second_ops: slowest.reduce(f64::min),
            latency_us: by_kind
                .iter()
                .filter_map(|(kind, h)| Some(((*kind).to_owned(), latency(h)?)))
                .collect(),
        })
    }

    /// How much of the run is left out.
    pub fn left_out_share(&self) -> f64 {
        self.left_out_seconds as f64 / self.seconds.max(1) as f64
    }
}

/// True if the machine stood still in a second of which so many seconds were stolen.
pub fn is_halted(stolen_seconds: Option<f64>) -> bool {
    stolen_seconds.is_some_and(|stolen| stolen >= HALTED_SECONDS_MIN)
}

/// A look tells of all seconds since the one before, and the one after the last of them may have got some of it.
fn halts(samples: &BTreeMap<u64, Sample>) -> Option<Halts> {
    let mut halts = Halts::default();
    let nexts = samples.keys().skip(1).map(|next| Some(*next)).chain([None]);
    for ((second, sample), next) in samples.iter().zip(nexts) {
        if is_halted(Some(sample.stolen_seconds?)) {
            let next = next.unwrap_or(second + 1);
            halts.halted.extend(*second..next);
            halts.left_out.extend(*second..=next);
        }
    }
    (!samples.is_empty()).then_some(halts)
}

fn latency(h: &Histogram<u64>) -> Option<SteadyLatency> {
    let us = |quantile: f64| h.value_at_quantile(quantile) as f64 / 1e3;
    (!h.is_empty()).then(|| SteadyLatency {
        count: h.len(),
        p50: us(0.5),
        p99: us(0.99),
        p999: us(0.999),
        max: h.max() as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::compact::Compact;

    /// A thousand reads of 10 µs and an update of 20 µs a second; in second 3 a hundred reads of 100 ms, in second 4 ten.
    fn run() -> (Vec<Window>, Vec<SecondLatencies>) {
        let second = |second: u64| {
            let (mut reads, mut updates) = (window_histogram(), window_histogram());
            reads.saturating_record_n(10_000, 1000);
            reads.saturating_record_n(100_000_000, [0, 0, 0, 100, 10, 0][second as usize]);
            updates.saturating_record(20_000);
            let p99_us = Some(if second == 3 { 1e5 } else { 10.0 + second as f64 });
            let window =
                Window { second, ops: reads.len() + 1, p99_us, max_us: None, client_bytes: 0, arrived: None };
            let kinds = [(OpKind::Read, Compact::of(&reads)), (OpKind::Update, Compact::of(&updates))];
            (window, SecondLatencies { second, by_kind: kinds.into() })
        };
        (0..6).map(second).unzip()
    }

    fn samples(stolen: &[(u64, Option<f64>)]) -> BTreeMap<u64, Sample> {
        stolen
            .iter()
            .map(|&(second, s)| (second, Sample { stolen_seconds: s, ..Sample::default() }))
            .collect()
    }

    fn steady(seconds: f64, stolen: &[(u64, Option<f64>)]) -> Option<Steady> {
        let (windows, latencies) = run();
        Steady::of(seconds, &windows, &latencies, &samples(stolen))
    }

    const CALM: Option<f64> = Some(0.01);

    #[test]
    fn a_halt_and_the_second_after_it_are_left_out() {
        let calm: Vec<_> = (0..6).map(|second| (second, CALM)).collect();
        let all = steady(6.0, &calm).unwrap();
        assert_eq!((all.seconds, all.halted_seconds, all.left_out_seconds), (6, 0, 0));
        assert_eq!(all.latency_us["read"].count, 6110);
        assert!(all.p999_us.unwrap() > 99_000.0 && all.worst_second_p99_us == Some(1e5), "{all:?}");

        let mut halted = calm.clone();
        halted[3].1 = Some(HALTED_SECONDS_MIN);
        let without = steady(6.0, &halted).unwrap();
        assert_eq!((without.seconds, without.halted_seconds, without.left_out_seconds), (6, 1, 2));
        assert_eq!((without.latency_us["read"].count, without.latency_us["update"].count), (4000, 4));
        assert!(without.max_us.unwrap() < 21.0 && without.p99_us.unwrap() < 10.1, "{without:?}");
        assert!(without.latency_us["read"].max < 10.1 && without.latency_us["update"].p50 > 19.9);
        assert_eq!(without.worst_second_p99_us, Some(15.0));
        assert_eq!(without.left_out_share(), 1.0 / 3.0);
        // The last second was cut off: it counts, but not as a second.
        assert_eq!(steady(5.6, &halted).unwrap().worst_second_p99_us, Some(12.0));
        assert_eq!(steady(5.6, &halted).unwrap().latency_us["read"].count, 4000);
    }

    #[test]
    fn a_look_that_came_late_tells_of_all_seconds_before_it() {
        // Nobody looked in second 3: what was stolen since second 2 began may have been stolen in it.
        let late = steady(6.0, &[(0, CALM), (1, CALM), (2, Some(1.2)), (4, CALM), (5, CALM)]).unwrap();
        assert_eq!((late.halted_seconds, late.left_out_seconds), (2, 3));
        assert_eq!(late.latency_us["read"].count, 3000);
    }

    #[test]
    fn what_nobody_knows_is_not_made_up() {
        assert_eq!(steady(6.0, &[]), None);
        assert_eq!(steady(6.0, &[(0, CALM), (1, None), (2, CALM)]), None);
        let nothing = steady(2.0, &[(0, Some(2.0)), (1, Some(2.0)), (5, Some(1.0))]).unwrap();
        assert_eq!((nothing.left_out_seconds, nothing.p99_us, nothing.max_us), (2, None, None));
        assert!(nothing.latency_us.is_empty() && nothing.worst_second_p99_us.is_none());
    }
}
