//! Runs a workload from an empty directory to its figures.
//!
//! ```text
//! fill (unless the records are there) ─► idle ─► warm up by one scan ─► measure ─► idle again ─► figures
//! ```
//!
//! Amplification and disk space are taken when the store is idle again, because work put off is not work saved.

use std::collections::BTreeMap;

use crate::clock;
use crate::closed_loop::{Phase, Run, Total, Watch};
use crate::distribution::Distribution;
use crate::engine::{Engine, EngineError, Figures};
use crate::generator::{Records, Shared};
use crate::keys::{KeyOrder, Keys};
use crate::machine;
use crate::recorder::{Latencies, Window};
use crate::values::Values;
use crate::workload::{CATALOG, Limit, OpKind, Workload};

/// The records of a store, as far as the lab made them. A store keeps this, so that a later run finds them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Dataset {
    /// How many.
    pub records: u64,
    /// The length of their keys.
    pub key_bytes: usize,
    /// The length of their values.
    pub value_bytes: usize,
    /// How their keys lie.
    pub order: KeyOrder,
    /// Decides on keys and values.
    pub seed: u64,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// On these records. They are written first unless `filled`, or by the workload itself if it fills.
    pub data: Dataset,
    /// The records are there.
    pub filled: bool,
    /// Ends after this many operations, or …
    pub ops: Option<u64>,
    /// … after so much time, whichever is first.
    pub seconds: Option<f64>,
    /// How many threads; the writer of a workload that has one comes on top.
    pub threads: usize,
    /// Which records are chosen.
    pub distribution: Distribution,
    /// Decides on the operations.
    pub seed: u64,
}

/// How long filling took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// From the first put to the last.
    pub seconds: f64,
    /// From there until the store was idle.
    pub idle_seconds: f64,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// The filling before the measurement, if there was one.
    pub fill: Option<Fill>,
    /// Operations done.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
    /// Latencies of the whole run.
    pub latencies: Latencies,
    /// The run second by second.
    pub windows: Vec<Window>,
    /// What the engine did in each second, by its own account: differences, but for `l0_runs` and `internal_limit`.
    pub samples: BTreeMap<u64, Figures>,
    /// Reads that found nothing although the record exists, or something although it does not.
    pub wrong_reads: u64,
    /// How long the store took to be idle afterwards.
    pub idle_seconds: f64,
    /// The engine's figures when idle.
    pub figures: Figures,
    /// What the store occupies when idle.
    pub disk_bytes: u64,
    /// Records in the store when idle.
    pub records: u64,
    /// CPU seconds of this process from the start of the measurement until idle.
    pub cpu_seconds: Option<f64>,
    /// Cores that other processes used meanwhile.
    pub others_cores: Option<f64>,
    /// The most memory this process has held.
    pub peak_rss_bytes: Option<u64>,
}

/// Runs `plan` on `engine`.
///
/// # Errors
/// The first error of the engine, or an argument that makes no sense.
pub fn run<E: Engine>(engine: &E, plan: &Plan<'_>, watch: &dyn Watch) -> Result<Outcome, EngineError> {
    let data = plan.data;
    let keys = Keys::new(data.key_bytes, data.order, data.seed, data.records)?;
    let values = Values::new(data.value_bytes, data.seed);
    let workload = plan.workload;
    let mut fill = None;
    if !workload.fills() && !plan.filled {
        let filler = filler(data.order);
        let records = Records::new(0);
        let shared = shared(plan, filler, &keys, &values, &records);
        let run = Run { engine, threads: plan.threads, ops: Some(data.records), seconds: None, watch };
        let done = run.go(Phase::Fill, &shared)?;
        fill = Some(Fill { seconds: done.seconds, idle_seconds: settle(engine, watch)? });
    } else if plan.filled {
        settle(engine, watch)?;
    }
    if workload.reads() {
        watch.begin(Phase::Warm, Total::Open);
        engine.scan(b"", usize::MAX)?;
    }
    let records = Records::new(if workload.fills() { 0 } else { data.records });
    let shared = shared(plan, workload, &keys, &values, &records);
    let ops = if workload.fills() { Some(data.records) } else { plan.ops };
    let before = machine::cpu();
    let started = clock::now();
    let measured = Run { engine, threads: plan.threads, ops, seconds: plan.seconds, watch }
        .go(Phase::Measure, &shared)?;
    let idle_seconds = settle(engine, watch)?;
    let elapsed = started.elapsed().as_secs_f64();
    watch.end();
    let cpu = before.zip(machine::cpu()).map(|(before, after)| {
        let own = after.own_seconds - before.own_seconds;
        (own, ((after.all_seconds - before.all_seconds - own) / elapsed).max(0.0))
    });
    Ok(Outcome {
        fill,
        ops: measured.ops,
        seconds: measured.seconds,
        latencies: measured.latencies,
        windows: measured.windows,
        samples: measured.samples,
        wrong_reads: measured.wrong_reads,
        idle_seconds,
        figures: engine.figures(),
        disk_bytes: engine.disk_bytes(),
        records: records.taken(),
        cpu_seconds: cpu.map(|(own, _)| own),
        others_cores: cpu.map(|(_, others)| others),
        peak_rss_bytes: machine::peak_rss_bytes(),
    })
}

/// The workload that writes records before another one is measured: the one of the catalogue with that order.
fn filler(order: KeyOrder) -> &'static Workload {
    CATALOG.iter().find(|w| w.fills() && w.order == order).unwrap_or(&CATALOG[0])
}

fn shared<'a>(
    plan: &Plan<'_>,
    workload: &'a Workload,
    keys: &'a Keys,
    values: &'a Values,
    records: &'a Records,
) -> Shared<'a> {
    let inserts = plan.ops.unwrap_or(0) * workload.share(OpKind::Insert) / 100;
    Shared { workload, keys, values, records, distribution: plan.distribution, inserts, seed: plan.seed }
}

fn settle<E: Engine>(engine: &E, watch: &dyn Watch) -> Result<f64, EngineError> {
    watch.begin(Phase::Settle, Total::Open);
    let started = clock::now();
    engine.wait_idle()?;
    Ok(started.elapsed().as_secs_f64())
}

/// The limits of a run that nobody gave any: the workload's own.
pub fn default_limits(workload: &Workload) -> (Option<u64>, Option<f64>) {
    match workload.limit {
        Limit::Ops(ops) => (Some(ops), None),
        Limit::Seconds(seconds) => (None, Some(seconds)),
        Limit::AllInserted => (None, None),
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
