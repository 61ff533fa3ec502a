//! The result of a run as a JSON document. Stable: fields are added, never renamed or removed (`docs/bench_json.md`).
//!
//! A figure that nobody knows is `null`, never 0. Throughput, windows and latencies are of the measurement alone;
//! amplification and the engine's counters are since the store was opened, filling included.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::base::device::Device;
use crate::base::provenance::Provenance;
use crate::load::arrivals::Spacing;
use crate::run::driver::{Opened, Outcome, Plan};
use crate::run::driver_cost::{DriverCost, Percentiles};
use crate::run::engine::{Engine, Figures, Group};
use crate::run::max_rate::MaxRate;
use crate::run::phase::Sample;
use crate::run::recorded::Replay;
use crate::run::recorder::Window;
use crate::run::steady::Steady;
use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::workload::OpKind;

/// Points of a latency curve for each further nine.
const CURVE_PER_DECADE: f64 = 8.0;

/// See the file's header.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Document {
    pub workload: String,
    pub engine: String,
    pub version: String,
    pub seed: u64,
    pub config: Config,
    pub records: u64,
    pub ops: u64,
    pub seconds: f64,
    pub throughput_ops_per_sec: f64,
    pub latency_us: BTreeMap<String, Latency>,
    pub windows: Vec<WindowRow>,
    #[serde(default)]
    pub steady: Option<Steady>,
    pub wrong_reads: u64,
    pub load: Option<Load>,
    pub idle_seconds: Option<f64>,
    pub amplification: Amplification,
    pub compaction: Compaction,
    pub stalls: Stalls,
    pub cpu_seconds: Option<f64>,
    #[serde(default)]
    pub monitor_cpu_seconds: Option<f64>,
    pub others_cores: Option<f64>,
    pub peak_rss_bytes: Option<u64>,
    pub disk_bytes: u64,
    #[serde(default)]
    pub open_seconds: Option<f64>,
    #[serde(default)]
    pub driver: DriverCost,
    pub open_loop: Option<OpenLoop>,
    pub max_rate: Option<MaxRate>,
    #[serde(default)]
    pub replay: Option<Replay>,
    pub provenance: Option<Provenance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
}

/// How requests came and waited.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct OpenLoop {
    pub shape: String,
    pub spacing: Spacing,
    pub requests: u64,
    pub seconds: f64,
    pub offered_ops_per_sec: f64,
    pub completed_share: f64,
    pub queue_at_end: u64,
    pub queue_max: u64,
    pub unfinished: u64,
    pub wake_up_us: Percentiles,
    #[serde(default)]
    pub waiting_cpu_seconds: Option<f64>,
    pub held: bool,
}

/// What the run was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Config {
    pub threads: usize,
    pub ops: Option<u64>,
    pub seconds: Option<f64>,
    #[serde(default)]
    pub warm_seconds: Option<f64>,
    pub key_bytes: usize,
    pub value_bytes: usize,
    #[serde(default)]
    pub value_sizes: String,
    pub key_order: KeyOrder,
    pub distribution: Distribution,
    #[serde(default = "raw_disk")]
    pub device: String,
    #[serde(default)]
    pub device_bytes_per_sec: Option<u64>,
    #[serde(default)]
    pub device_latency_us: Option<u64>,
    #[serde(flatten)]
    pub engine: BTreeMap<String, serde_json::Value>,
}

/// Latencies of one kind of operation, in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    #[serde(default)]
    pub curve: Vec<(f64, f64)>,
}

/// One second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct WindowRow {
    pub second: u64,
    pub offered: Option<f64>,
    pub achieved: f64,
    pub queue: Option<u64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    pub client_bytes: u64,
    pub flush_bytes: Option<u64>,
    pub l0_bytes: Option<u64>,
    pub deep_bytes: Option<u64>,
    pub l0_runs: Option<u64>,
    #[serde(default)]
    pub level_bytes: Option<[u64; 4]>,
    pub internal_limit: Option<f64>,
    #[serde(default)]
    pub internal_bytes: Option<u64>,
    #[serde(default)]
    pub client_read_bytes: Option<u64>,
    #[serde(default)]
    pub client_estimate: Option<f64>,
    #[serde(default)]
    pub flushes_delayed: Option<u64>,
    #[serde(default)]
    pub stall_seconds: Option<f64>,
    #[serde(default)]
    pub jobs_open: Option<u64>,
    #[serde(default)]
    pub memtables_full: Option<u64>,
    #[serde(default)]
    pub debt_bytes: Option<u64>,
    pub others_cores: Option<f64>,
    #[serde(default)]
    pub stolen_seconds: Option<f64>,
    #[serde(default)]
    pub disk_late_seconds: Option<f64>,
}

/// The filling before the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Load {
    pub seconds: f64,
    pub throughput_ops_per_sec: f64,
    pub idle_seconds: f64,
}

/// Bytes moved or kept for each byte asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Amplification {
    pub write: Option<f64>,
    pub read: Option<f64>,
    pub space: Option<f64>,
    #[serde(default)]
    pub moved: Option<f64>,
}

/// Compactions since the store was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Compaction {
    pub count: Option<u64>,
    pub bytes_read: Option<u64>,
    pub bytes_written: Option<u64>,
    pub moved: Option<u64>,
    pub wasted_bytes: Option<u64>,
    pub latency_us: Option<BTreeMap<String, f64>>,
}

/// How often and how long writers waited.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Stalls {
    pub count: Option<u64>,
    pub seconds: Option<f64>,
}

impl Config {
    /// How long values are, as `--value-bytes` writes it; documents of earlier versions have only the length.
    pub fn value_lengths(&self) -> String {
        if self.value_sizes.is_empty() { self.value_bytes.to_string() } else { self.value_sizes.clone() }
    }

    /// Says what the engine's files lay on; the raw disk unless said.
    pub fn set_device(&mut self, device: Device) {
        self.device = device.to_string();
        self.device_bytes_per_sec = device.bytes_per_sec();
        self.device_latency_us = device.latency_us();
    }
}

impl Document {
    /// CPU of an operation in microseconds, background work included, without what the lab's own threads used to wait for requests.
    pub fn cpu_us_per_op(&self) -> Option<f64> {
        let waiting = self.open_loop.as_ref().and_then(|open| open.waiting_cpu_seconds).unwrap_or(0.0);
        Some((self.cpu_seconds? - waiting).max(0.0) * 1e6 / self.ops.max(1) as f64)
    }

    /// The document of a run. `engine_config` is what the engine was opened with. Where it comes from, and how long opening
    /// took, is the caller's to add.
    pub fn new<E: Engine>(
        engine: &E,
        plan: &Plan<'_>,
        outcome: &Outcome,
        engine_config: BTreeMap<String, serde_json::Value>,
    ) -> Document {
        let figures = &outcome.figures;
        let data = &plan.data;
        Document {
            workload: plan.workload.name.to_owned(),
            engine: engine.name().to_owned(),
            version: engine.version(),
            seed: plan.seed,
            config: Config {
                threads: plan.threads,
                ops: plan.ops,
                seconds: plan.seconds,
                warm_seconds: plan.warm_seconds,
                key_bytes: data.key_bytes,
                value_bytes: data.value_bytes.mean(),
                value_sizes: data.value_bytes.to_string(),
                key_order: data.order,
                distribution: plan.distribution,
                device: raw_disk(),
                device_bytes_per_sec: None,
                device_latency_us: None,
                engine: engine_config,
            },
            records: outcome.records,
            ops: outcome.ops,
            seconds: outcome.seconds,
            throughput_ops_per_sec: outcome.ops as f64 / outcome.seconds,
            latency_us: latencies(outcome),
            windows: windows(outcome),
            steady: steady(outcome),
            wrong_reads: outcome.wrong_reads,
            load: outcome.fill.map(|fill| Load {
                seconds: fill.seconds,
                throughput_ops_per_sec: data.records as f64 / fill.seconds,
                idle_seconds: fill.idle_seconds,
            }),
            idle_seconds: outcome.idle_seconds,
            amplification: Amplification {
                write: figures.write_amplification,
                read: figures.read_amplification,
                space: (outcome.live_bytes > 0)
                    .then(|| outcome.disk_bytes as f64 / outcome.live_bytes as f64),
                moved: figures.moved_per_user_byte(),
            },
            compaction: compaction(figures),
            stalls: Stalls { count: figures.stalls, seconds: figures.stall_seconds },
            cpu_seconds: outcome.cpu_seconds,
            monitor_cpu_seconds: figures.monitor_cpu_seconds,
            others_cores: outcome.others_cores,
            peak_rss_bytes: outcome.peak_rss_bytes,
            disk_bytes: outcome.disk_bytes,
            open_seconds: None,
            driver: outcome.driver,
            open_loop: plan
                .load
                .zip(outcome.opened)
                .map(|(load, opened)| open_loop(load.shape.to_string(), load.spacing, &opened)),
            max_rate: outcome.max_rate.clone(),
            replay: None,
            provenance: None,
            groups: engine.groups(),
        }
    }

    /// The document of a trace that was replayed.
    pub fn of_replay<E: Engine>(
        engine: &E,
        plan: &Plan<'_>,
        outcome: &Outcome,
        replay: Replay,
        engine_config: BTreeMap<String, serde_json::Value>,
    ) -> Document {
        let shape = || "as recorded".to_owned();
        let open_loop = outcome.opened.map(|opened| open_loop(shape(), Spacing::Recorded, &opened));
        Document { open_loop, replay: Some(replay), ..Document::new(engine, plan, outcome, engine_config) }
    }

    /// The document that [`Document::to_json`] wrote; fields that this version does not know are left out.
    ///
    /// # Errors
    /// If the text is none.
    pub fn from_json(text: &str) -> Result<Document, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The document as JSON, indented.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// What documents of earlier versions do not say.
fn raw_disk() -> String {
    Device::Raw.to_string()
}

fn open_loop(shape: String, spacing: Spacing, opened: &Opened) -> OpenLoop {
    let queue = &opened.queue;
    OpenLoop {
        shape,
        spacing,
        requests: queue.requests,
        seconds: queue.seconds,
        offered_ops_per_sec: queue.requests as f64 / queue.seconds.max(1e-3),
        completed_share: queue.completed_share(),
        queue_at_end: queue.at_end,
        queue_max: queue.max,
        unfinished: queue.unfinished,
        wake_up_us: opened.wake_up_us,
        waiting_cpu_seconds: Some(opened.waiting_cpu.as_secs_f64()),
        held: opened.held,
    }
}

fn compaction(figures: &Figures) -> Compaction {
    Compaction {
        count: figures.compactions,
        bytes_read: figures.compaction_bytes_read,
        bytes_written: figures.compaction_bytes_written,
        moved: figures.compactions_moved,
        wasted_bytes: figures.wasted_bytes,
        latency_us: None,
    }
}

fn latencies(outcome: &Outcome) -> BTreeMap<String, Latency> {
    let mut all = BTreeMap::new();
    for kind in OpKind::ALL {
        if let Some(h) = &outcome.latencies[kind.index()] {
            let us = |quantile: f64| h.value_at_quantile(quantile) as f64 / 1e3;
            all.insert(
                kind.name().to_owned(),
                Latency {
                    count: h.len(),
                    mean: h.mean() / 1e3,
                    p50: us(0.5),
                    p90: us(0.9),
                    p99: us(0.99),
                    p999: us(0.999),
                    max: h.max() as f64 / 1e3,
                    curve: curve(h),
                },
            );
        }
    }
    all
}

/// Quantiles and their latencies in microseconds, evenly over the logarithm of what is left above, up to the largest.
fn curve(h: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = h.len().max(1) as f64;
    let above =
        (0..).map(|i| 10f64.powf(-f64::from(i) / CURVE_PER_DECADE)).take_while(|above| above * count > 1.0);
    let mut points: Vec<(f64, f64)> =
        above.map(|above| (1.0 - above, h.value_at_quantile(1.0 - above) as f64 / 1e3)).collect();
    points.push((1.0 - 1.0 / count, h.max() as f64 / 1e3));
    points
}

fn steady(outcome: &Outcome) -> Option<Steady> {
    Steady::of(outcome.seconds, &outcome.windows, &outcome.seconds_latencies, &outcome.samples)
}

/// One row a second. The last one is shorter than a second, so its rate is over the time it had.
fn windows(outcome: &Outcome) -> Vec<WindowRow> {
    let came = outcome.opened.map_or(0.0, |opened| opened.queue.seconds);
    let row = |w: &Window| {
        let length = |until: f64| (until - w.second as f64).clamp(0.001, 1.0);
        let Sample { figures: sample, others_cores, stolen_seconds } =
            outcome.samples.get(&w.second).copied().unwrap_or_default();
        WindowRow {
            second: w.second,
            offered: w.arrived.map(|arrived| arrived.requests as f64 / length(came)),
            achieved: w.ops as f64 / length(outcome.seconds),
            queue: w.arrived.map(|arrived| arrived.queue),
            p99_us: w.p99_us,
            max_us: w.max_us,
            client_bytes: w.client_bytes,
            flush_bytes: sample.flush_bytes,
            l0_bytes: sample.l0_bytes,
            deep_bytes: sample.deep_bytes,
            l0_runs: sample.l0_runs,
            level_bytes: sample.level_bytes,
            internal_limit: sample.internal_limit,
            internal_bytes: sample.internal_bytes,
            client_read_bytes: sample.client_read_bytes,
            client_estimate: sample.client_estimate,
            flushes_delayed: sample.flushes_delayed,
            stall_seconds: sample.stall_seconds,
            jobs_open: sample.jobs_open,
            memtables_full: sample.memtables_full,
            debt_bytes: sample.debt_bytes,
            others_cores,
            stolen_seconds,
            disk_late_seconds: sample.disk_late_seconds,
        }
    };
    outcome.windows.iter().map(row).collect()
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
