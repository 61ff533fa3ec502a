//! Runs a workload from an empty directory to its figures.
//!
//! ```text
//! fill (unless the records are there) ─► idle ─► warm up by one scan ─► measure ─► idle again ─► figures
//! ```
//!
//! Amplification and disk space are taken when the store is idle again, because work put off is not work saved.

use std::collections::BTreeMap;

use crate::catalog::filler;
use crate::clock;
use crate::closed_loop::{Phase, Run, Total, Watch};
use crate::distribution::Distribution;
use crate::engine::{Engine, EngineError, Figures, Scanned};
use crate::generator::Shared;
use crate::keys::{KeyOrder, Keys};
use crate::machine;
use crate::recorder::{Latencies, Window};
use crate::records::Records;
use crate::values::{ValueSizes, Values};
use crate::workload::{Limit, Workload};

/// The records of a store, as far as the lab made them. A store keeps this, so that a later run finds them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Dataset {
    /// How many.
    pub records: u64,
    /// The length of their keys.
    pub key_bytes: usize,
    /// The length of their values.
    pub value_bytes: ValueSizes,
    /// How their keys lie.
    pub order: KeyOrder,
    /// Decides on keys and values.
    pub seed: u64,
    /// Some of them were deleted, and nobody noted which.
    #[serde(default)]
    pub deleted: bool,
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
    /// Bytes of their keys and values.
    pub live_bytes: u64,
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
    let cpu = own_and_others(before, elapsed);
    let figures = engine.figures();
    let disk_bytes = engine.disk_bytes();
    let live = live(engine, &shared)?;
    Ok(Outcome {
        fill,
        ops: measured.ops,
        seconds: measured.seconds,
        latencies: measured.latencies,
        windows: measured.windows,
        samples: measured.samples,
        wrong_reads: measured.wrong_reads,
        idle_seconds,
        figures,
        disk_bytes,
        records: live.entries,
        live_bytes: live.bytes,
        cpu_seconds: cpu.map(|(own, _)| own),
        others_cores: cpu.map(|(_, others)| others),
        peak_rss_bytes: machine::peak_rss_bytes(),
    })
}

/// What is in the store. Where that cannot be counted from outside, the store is read, after all figures are taken.
fn live<E: Engine>(engine: &E, shared: &Shared<'_>) -> Result<Scanned, EngineError> {
    let sizes = shared.values.sizes();
    if shared.workload.deletes() || sizes.vary() {
        return engine.scan(b"", usize::MAX);
    }
    let entries = shared.records.taken();
    Ok(Scanned { entries, bytes: entries * (shared.keys.bytes() + sizes.max()) as u64 })
}

fn shared<'a>(
    plan: &Plan<'_>,
    workload: &'a Workload,
    keys: &'a Keys,
    values: &'a Values,
    records: &'a Records,
) -> Shared<'a> {
    let inserts = workload.inserts(plan.ops.unwrap_or(0));
    Shared { workload, keys, values, records, distribution: plan.distribution, inserts, seed: plan.seed }
}

/// CPU seconds of this process since `before`, and cores that others used in the `seconds` since then.
pub(crate) fn own_and_others(before: Option<machine::Cpu>, seconds: f64) -> Option<(f64, f64)> {
    before.zip(machine::cpu()).map(|(before, after)| {
        let own = after.own_seconds - before.own_seconds;
        (own, ((after.all_seconds - before.all_seconds - own) / seconds).max(0.0))
    })
}

fn settle<E: Engine>(engine: &E, watch: &dyn Watch) -> Result<f64, EngineError> {
    watch.begin(Phase::Settle, Total::Open);
    let started = clock::now();
    engine.wait_idle()?;
    Ok(started.elapsed().as_secs_f64())
}

/// The limits of a run on so many records that nobody gave any: the workload's own.
pub fn default_limits(workload: &Workload, records: u64) -> (Option<u64>, Option<f64>) {
    match workload.limit {
        Limit::Ops(ops) => (Some(ops), None),
        Limit::Seconds(seconds) => (None, Some(seconds)),
        Limit::AllInserted => (None, None),
        Limit::OnePass => (Some(workload.one_pass(records)), None),
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
