//! Runs a workload from an empty directory to its figures.
//!
//! ```text
//! fill (unless the records are there) ─► idle ─► warm up by one scan ─► measure ─► idle again ─► figures
//!                                         ▲                  │
//!                                         └─ find the rate ◄─┘  (if it is a share of what the store sustains)
//! ```
//!
//! Amplification and disk space are taken when the store is idle again, because work put off is not work saved.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock;
use crate::base::machine::{self, Meter};
use crate::load::arrivals::{End, Schedule, Spacing};
use crate::load::load_shape::LoadShape;
use crate::run::closed_loop::Run;
use crate::run::driver_cost::{self, DriverCost, Percentiles};
use crate::run::engine::{Engine, EngineError, Figures, Scanned};
use crate::run::execute;
use crate::run::max_rate::{self, MaxRate, Search, judge};
use crate::run::open_loop::{self, OpenMeasured, OpenRun, Queue};
use crate::run::phase::{Measured, Phase, Sample, Total, Watch};
use crate::run::recorder::{Latencies, SecondLatencies, Window};
use crate::workloads::catalog::filler;
use crate::workloads::distribution::Distribution;
use crate::workloads::generator::Shared;
use crate::workloads::keys::{KeyOrder, Keys};
use crate::workloads::records::Records;
use crate::workloads::values::{ValueSizes, Values};
use crate::workloads::workload::{Limit, Workload};

/// A queue may take as long to empty as requests came, and at least so many seconds.
const DRAIN_SECONDS_MIN: f64 = 10.0;

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
    /// Reads so long before, as the workload does.
    pub warm_seconds: Option<f64>,
    /// Waits afterwards until background work has run out.
    pub settles: bool,
    /// How many threads; the writer of a workload that has one comes on top.
    pub threads: usize,
    /// Which records are chosen.
    pub distribution: Distribution,
    /// Decides on the operations.
    pub seed: u64,
    /// When requests come; `None` is a closed loop, in which a thread starts the next operation when the last has ended.
    pub load: Option<&'a OpenLoad>,
}

/// The load of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoad {
    /// How many requests come when.
    pub shape: LoadShape,
    /// How they lie within a stretch of one rate.
    pub spacing: Spacing,
    /// How the highest rate is found, if the shape is in shares of it.
    pub search: Search,
}

impl OpenLoad {
    /// Why a workload cannot have this load.
    ///
    /// # Errors
    /// What to do instead.
    pub fn check(&self, workload: &Workload, seconds: Option<f64>) -> Result<(), String> {
        open_loop::check(workload)?;
        let once = match workload.limit {
            Limit::AllInserted => Some("fills a store"),
            Limit::OnePass if workload.deletes() => Some("empties a store"),
            _ => None,
        };
        if let Some(once) = once.filter(|_| self.shape.needs_maximum()) {
            return Err(format!(
                "{} {once} once, so there is no rate to find before; give a rate in requests a second",
                workload.name
            ));
        }
        match (self.shape.seconds(), seconds) {
            (Some(whole), Some(asked)) if asked > whole => Err(format!(
                "{} is over after {whole} seconds; leave --seconds away, or give at most that",
                self.shape
            )),
            _ => Ok(()),
        }
    }
}

/// What an open loop gave beside its latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opened {
    /// How requests came and waited.
    pub queue: Queue,
    /// How late threads woke for requests that they slept for.
    pub wake_up_us: Percentiles,
    /// CPU that threads used to sleep until requests were due.
    pub waiting_cpu: Duration,
    /// Whether the store kept up by the measure of [`judge`].
    pub held: bool,
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
    /// The latencies of each second in which an operation ended.
    pub seconds_latencies: Vec<SecondLatencies>,
    /// Engine and machine in each second.
    pub samples: BTreeMap<u64, Sample>,
    /// Reads that found nothing although the record exists, or something although it does not.
    pub wrong_reads: u64,
    /// How long the store took to be idle afterwards, if that was waited for.
    pub idle_seconds: Option<f64>,
    /// The engine's figures then, stalls those of the measurement.
    pub figures: Figures,
    /// What the store occupies when idle.
    pub disk_bytes: u64,
    /// Records in the store when idle.
    pub records: u64,
    /// Bytes of their keys and values.
    pub live_bytes: u64,
    /// CPU seconds of this process from the start of the measurement until idle.
    pub cpu_seconds: Option<f64>,
    /// Cores that other processes used meanwhile; while operations were measured, if that is more.
    pub others_cores: Option<f64>,
    /// The most memory this process has held.
    pub peak_rss_bytes: Option<u64>,
    /// The open loop, if it was one.
    pub opened: Option<Opened>,
    /// The highest rate, if it had to be found.
    pub max_rate: Option<MaxRate>,
    /// What the lab itself costs.
    pub driver: DriverCost,
}

/// Runs `plan` on `engine`.
///
/// # Errors
/// The first error of the engine, or an argument that makes no sense.
pub fn run<E: Engine>(engine: &E, plan: &Plan<'_>, watch: &dyn Watch) -> Result<Outcome, EngineError> {
    let (data, workload) = (plan.data, plan.workload);
    let keys = Keys::new(data.key_bytes, data.order, data.seed, data.records)?;
    let values = Values::new(data.value_bytes, data.seed);
    execute::check(engine, workload)?;
    if let Some(load) = plan.load {
        load.check(workload, plan.seconds)?;
    }
    let fill = fill(engine, plan, &keys, &values, watch)?;
    warm(engine, workload, watch)?;
    let records = Records::new(if workload.fills() { 0 } else { data.records });
    let shared = shared(plan, workload, &keys, &values, &records);
    warm_as_read(engine, plan, &shared, watch)?;
    let max_rate = find_max_rate(engine, plan, &shared, watch)?;
    let schedule = plan.load.map(|load| schedule(plan, load, max_rate.as_ref()));
    let inserts = schedule.as_ref().map_or(shared.inserts, |s| workload.inserts(s.requests()));
    let shared = Shared { inserts, ..shared };
    let driver = match &schedule {
        Some(schedule) => driver_cost::open(&shared, plan.threads, schedule)?,
        None => driver_cost::closed(&shared, plan.threads)?,
    };
    let (meter, before) = (Meter::start(), engine.figures());
    let (measured, opened) = measure(engine, plan, &shared, schedule.as_ref(), watch)?;
    let done = at_rest(engine, measured, &meter, driver, plan.settles, watch, || live(engine, &shared))?;
    let wrong_before = max_rate.as_ref().map_or(0, |found| found.wrong_reads);
    // Writers wait while a store is filled as fast as it goes, and when its highest rate is looked for.
    let figures = done.figures.with_stalls_since(&before);
    Ok(Outcome { fill, wrong_reads: wrong_before + done.wrong_reads, opened, max_rate, figures, ..done })
}

/// Writes the records before the measurement, unless they are there or the workload writes them itself.
fn fill<E: Engine>(
    engine: &E,
    plan: &Plan<'_>,
    keys: &Keys,
    values: &Values,
    watch: &dyn Watch,
) -> Result<Option<Fill>, EngineError> {
    if plan.filled {
        settle(engine, watch)?;
    }
    if plan.filled || plan.workload.fills() {
        return Ok(None);
    }
    let records = Records::new(0);
    let shared = shared(plan, filler(plan.data.order), keys, values, &records);
    let run = Run { engine, threads: plan.threads, ops: Some(plan.data.records), seconds: None, watch };
    let done = run.go(Phase::Fill, &shared)?;
    Ok(Some(Fill { seconds: done.seconds, idle_seconds: settle(engine, watch)? }))
}

/// The highest rate that the store sustains, if the load is a share of it. The store is idle and warm again afterwards.
fn find_max_rate<E: Engine>(
    engine: &E,
    plan: &Plan<'_>,
    shared: &Shared<'_>,
    watch: &dyn Watch,
) -> Result<Option<MaxRate>, EngineError> {
    let Some(load) = plan.load.filter(|load| load.shape.needs_maximum()) else { return Ok(None) };
    let idle = || settle(engine, watch).map(drop);
    let found = max_rate::find(engine, plan.threads, load.spacing, load.search, shared, watch, &idle)?;
    idle()?;
    warm(engine, plan.workload, watch)?;
    Ok(Some(found))
}

/// How a phase of requests went.
pub(crate) fn opened(run: &OpenMeasured, threads: usize, p99: Option<Duration>) -> Opened {
    let queue = run.queue;
    let rate = queue.requests as f64 / queue.seconds.max(1e-3);
    let held = judge(rate, &queue, &run.measured.windows, threads, p99).held;
    Opened { queue, wake_up_us: Percentiles::of(&run.wake_ups), waiting_cpu: run.waiting_cpu, held }
}

/// The measurement itself.
fn measure<E: Engine>(
    engine: &E,
    plan: &Plan<'_>,
    shared: &Shared<'_>,
    schedule: Option<&Schedule>,
    watch: &dyn Watch,
) -> Result<(Measured, Option<Opened>), EngineError> {
    let threads = plan.threads;
    let Some(schedule) = schedule else {
        let ops = if plan.workload.fills() { Some(plan.data.records) } else { plan.ops };
        let run = Run { engine, threads, ops, seconds: plan.seconds, watch };
        return Ok((run.go(Phase::Measure, shared)?, None));
    };
    let run = OpenRun { engine, threads, schedule, drain_seconds: drain_seconds(schedule), watch };
    let done = run.go(Phase::Measure, shared)?;
    let p99 = plan.load.and_then(|load| load.search.p99);
    let opened = opened(&done, threads, p99);
    Ok((done.measured, Some(opened)))
}

/// How long the queue of a schedule may take to empty.
pub(crate) fn drain_seconds(schedule: &Schedule) -> f64 {
    schedule.seconds().max(DRAIN_SECONDS_MIN)
}

/// What a measurement gave, once the store is idle again, if that is waited for. `live` says what is in it then.
pub(crate) fn at_rest<E: Engine>(
    engine: &E,
    measured: Measured,
    meter: &Meter,
    driver: DriverCost,
    settles: bool,
    watch: &dyn Watch,
    live: impl FnOnce() -> Result<Scanned, EngineError>,
) -> Result<Outcome, EngineError> {
    let while_measured = meter.used().and_then(|used| used.others_cores);
    let idle_seconds = settles.then(|| settle(engine, watch)).transpose()?;
    let used = meter.used();
    watch.end();
    let (figures, disk_bytes) = (engine.figures(), engine.disk_bytes());
    let peak_rss_bytes = machine::peak_rss_bytes();
    // It may read the whole store, which none of the figures is to show.
    let live = live()?;
    Ok(Outcome {
        fill: None,
        ops: measured.ops,
        seconds: measured.seconds,
        latencies: measured.latencies,
        windows: measured.windows,
        seconds_latencies: measured.seconds_latencies,
        samples: measured.samples,
        wrong_reads: measured.wrong_reads,
        idle_seconds,
        figures,
        disk_bytes,
        records: live.entries,
        live_bytes: live.bytes,
        cpu_seconds: used.map(|used| used.own_seconds),
        others_cores: used
            .and_then(|used| used.others_cores)
            .into_iter()
            .chain(while_measured)
            .reduce(f64::max),
        peak_rss_bytes,
        opened: None,
        max_rate: None,
        driver,
    })
}

/// When requests come.
fn schedule(plan: &Plan<'_>, load: &OpenLoad, max_rate: Option<&MaxRate>) -> Schedule {
    let fills = plan.workload.fills();
    let ops = if fills { Some(plan.data.records) } else { plan.ops };
    // What ends by itself, or by a number of operations, needs no clock.
    let usual = || (ops.is_none() && load.shape.seconds().is_none()).then(|| load.shape.usual_seconds());
    let end = End { ops, seconds: plan.seconds.or_else(usual) };
    let maximum = max_rate.map_or(0.0, |found| found.ops_per_sec);
    Schedule::new(load.shape.pieces(maximum, plan.seed), end, load.spacing, plan.seed)
}

/// What is in the store. Where that cannot be counted from outside, the store is read, after all figures are taken.
fn live<E: Engine>(engine: &E, shared: &Shared<'_>) -> Result<Scanned, EngineError> {
    let sizes = shared.values.sizes();
    if shared.workload.deletes() || sizes.vary() {
        return engine.read_all();
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

/// Reads everything once, if the workload reads anything.
fn warm<E: Engine>(engine: &E, workload: &Workload, watch: &dyn Watch) -> Result<(), EngineError> {
    if workload.reads() {
        watch.begin(Phase::Warm, Total::Open);
        engine.read_all()?;
    }
    Ok(())
}

/// Reads as the workload does, other records than it will, so that what it reads most is in memory.
fn warm_as_read<E: Engine>(
    engine: &E,
    plan: &Plan<'_>,
    shared: &Shared<'_>,
    watch: &dyn Watch,
) -> Result<(), EngineError> {
    let Some(seconds) = plan.warm_seconds else { return Ok(()) };
    let workload = plan.workload.reads_alone();
    let shared = Shared { workload: &workload, inserts: 0, seed: !plan.seed, ..*shared };
    let run = Run { engine, threads: plan.threads, ops: None, seconds: Some(seconds), watch };
    run.go(Phase::Warm, &shared).map(drop)
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
