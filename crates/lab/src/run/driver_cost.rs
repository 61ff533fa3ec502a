//! What the lab itself costs: the same loop, the same operations and the same number of threads on an engine that does
//! nothing, right before the run, so that a result says how much of it is the instrument.

use std::hint::black_box;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::load::arrivals::{End, Schedule, Spacing};
use crate::load::load_shape::Piece;
use crate::run::closed_loop::Run;
use crate::run::engine::{Change, Engine, EngineError, Figures, Scanned};
use crate::run::open_loop::{OpenMeasured, OpenRun};
use crate::run::phase::{Measured, Phase, Unwatched};
use crate::run::recorder::{Latencies, run_histogram};
use crate::workloads::generator::Shared;
use crate::workloads::records::Records;

/// Operations over which the cost is taken.
const OPS: u64 = 1 << 16;

/// A rate at which every request is overdue as soon as it is taken.
const OVERDUE: f64 = 1e12;

/// How long the floor of an open loop is looked for: this part of the run, and no longer and no shorter than these seconds; and the
/// rates at which that says something.
const FLOOR_SHARE: f64 = 0.1;
const FLOOR_SECONDS: (f64, f64) = (0.5, 6.0);
const FLOOR_RATES: (f64, f64) = (200.0, 200_000.0);

/// What the instrument costs on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverCost {
    /// CPU that a thread spends on an operation beside the engine's: drawing it, looking at the clock, recording.
    pub ns_per_op: f64,
    /// Latencies that an engine which takes no time would have: the floor of all others.
    pub floor_us: Percentiles,
    /// How late threads woke for requests that they slept for; `None` in a closed loop, where nobody sleeps.
    pub wake_up_us: Option<Percentiles>,
}

/// Points of a distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50: f64,
    pub p99: f64,
    #[serde(default)]
    pub p999: f64,
    #[serde(default)]
    pub max: f64,
}

impl Percentiles {
    /// Of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Percentiles { p50: us(0.5), p99: us(0.99), p999: us(0.999), max: histogram.max() as f64 / 1e3 }
    }
}

/// The cost in a closed loop.
///
/// # Errors
/// If a thread dies.
pub fn closed(shared: &Shared<'_>, threads: usize) -> Result<DriverCost, EngineError> {
    with_own_records(shared, |shared| {
        let run = Run { engine: &Nothing, threads, ops: Some(OPS), seconds: None, watch: &Unwatched };
        of_closed(&run.go(Phase::Settle, shared)?)
    })
}

/// The cost, from a closed loop of any kind on [`Nothing`].
///
/// # Errors
/// None that could happen.
pub(crate) fn of_closed(measured: &Measured) -> Result<DriverCost, EngineError> {
    Ok(DriverCost { ns_per_op: ns_per_op(measured), floor_us: floor(&measured.latencies)?, wake_up_us: None })
}

/// The cost in an open loop of this schedule: the floor is taken at its mean rate and with its spacing.
///
/// # Errors
/// If a thread dies.
pub fn open(shared: &Shared<'_>, threads: usize, schedule: &Schedule) -> Result<DriverCost, EngineError> {
    of_open(schedule, shared.seed, |schedule| {
        with_own_records(shared, |shared| {
            let run = OpenRun { engine: &Nothing, threads, schedule, drain_seconds: 10.0, watch: &Unwatched };
            run.go(Phase::Settle, shared)
        })
    })
}

/// The cost of an open loop of any kind, which `serve` runs on [`Nothing`] by a schedule like the given one.
///
/// # Errors
/// Those of `serve`.
pub(crate) fn of_open(
    schedule: &Schedule,
    seed: u64,
    serve: impl Fn(&Schedule) -> Result<OpenMeasured, EngineError>,
) -> Result<DriverCost, EngineError> {
    let spacing = if schedule.spacing() == Spacing::Recorded { Spacing::Even } else { schedule.spacing() };
    let constant = |rate: f64, end: End| {
        Schedule::new(std::iter::once(Piece { rate, seconds: 1e3 }), end, spacing, seed)
    };
    let overdue = constant(OVERDUE, End { ops: Some(OPS), seconds: None });
    let rate = schedule.requests() as f64 / schedule.seconds().max(1e-3);
    let seconds = (schedule.seconds() * FLOOR_SHARE).clamp(FLOOR_SECONDS.0, FLOOR_SECONDS.1);
    let end = End { ops: None, seconds: Some(seconds) };
    let calm = constant(rate.clamp(FLOOR_RATES.0, FLOOR_RATES.1), end);
    let (busy, calm) = (serve(&overdue)?, serve(&calm)?);
    Ok(DriverCost {
        ns_per_op: ns_per_op(&busy.measured),
        floor_us: floor(&calm.measured.latencies)?,
        wake_up_us: Some(Percentiles::of(&calm.wake_ups)),
    })
}

/// The operations insert nothing into the real store, so they must not count as inserted there.
fn with_own_records<T>(shared: &Shared<'_>, run: impl FnOnce(&Shared<'_>) -> T) -> T {
    let records = Records::new(shared.records.count());
    run(&Shared { records: &records, ..*shared })
}

fn ns_per_op(measured: &Measured) -> f64 {
    measured.threads_cpu.as_nanos() as f64 / measured.ops.max(1) as f64
}

fn floor(latencies: &Latencies) -> Result<Percentiles, EngineError> {
    let mut all = run_histogram();
    for latencies in latencies.iter().flatten() {
        all.add(latencies)?;
    }
    Ok(Percentiles::of(&all))
}

/// An engine that does nothing.
pub(crate) struct Nothing;

impl Engine for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn version(&self) -> String {
        String::new()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        black_box((key, value));
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(black_box(Some(key.len())))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        black_box((from, limit));
        Ok(Scanned { entries: 1, bytes: 0 })
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        self.scan(from, limit)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        black_box(key);
        Ok(())
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        black_box((from, to));
        Ok(())
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        black_box(changes);
        Ok(())
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalog;
    use crate::workloads::keys::{KeyOrder, Keys};
    use crate::workloads::values::Values;

    #[test]
    fn both_loops_have_a_cost_and_leave_the_records_alone() {
        let keys = Keys::new(16, KeyOrder::Random, 1, 1000).unwrap();
        let values = Values::new(10, 1);
        let records = Records::new(1000);
        let workload = catalog::find("ycsb-d").unwrap();
        let shared = Shared {
            workload,
            keys: &keys,
            values: &values,
            records: &records,
            distribution: workload.distribution,
            inserts: 0,
            seed: 7,
        };
        let end = End { ops: None, seconds: Some(1.0) };
        let schedule =
            Schedule::new(std::iter::once(Piece { rate: 500.0, seconds: 1.0 }), end, Spacing::Poisson, 1);
        let costs = [closed(&shared, 2).unwrap(), open(&shared, 2, &schedule).unwrap()];
        for cost in costs {
            assert!(cost.ns_per_op > 0.0 && cost.floor_us.p50 > 0.0, "{cost:?}");
            let floor = cost.floor_us;
            assert!(floor.p50 <= floor.p99 && floor.p99 <= floor.p999 && floor.p999 <= floor.max, "{cost:?}");
        }
        assert_eq!(costs[0].wake_up_us, None);
        assert!(costs[1].wake_up_us.unwrap().p99 > 0.0);
        assert_eq!((records.taken(), records.count()), (1000, 1000));
    }
}
