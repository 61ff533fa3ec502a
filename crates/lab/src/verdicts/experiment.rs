//! What an experiment is: works that are run on several engines, and claims about what comes out. Plain data.
//!
//! ```text
//! Experiment ─┬─ Work    a workload with its amounts ─► cells: work × engine × settings × round   (cells.rs)
//!             └─ Claim   a figure of a work, which has a bar in expected.json ─► a verdict        (judging.rs)
//! ```
//!
//! The experiments themselves are in `experiments/`, one file a family.

use crate::results::comparison::{Better, Unit, whole_seconds};
use crate::results::document::Document;

/// Works and claims under one name.
#[derive(Debug)]
pub struct Experiment {
    /// What people type.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What is run for it alone, in this order.
    pub works: &'static [Work],
    /// What is claimed; also about works of other experiments.
    pub claims: &'static [Claim],
    /// The engines that run unless somebody says otherwise.
    pub engines: &'static [&'static str],
    /// The engines that claims compare with: the best of those that run and keep up. The first finds rates for the others.
    pub rivals: &'static [&'static str],
}

/// A workload with its amounts.
#[derive(Debug)]
pub struct Work {
    /// Its name within the experiment.
    pub name: &'static str,
    /// A workload of the catalog.
    pub workload: &'static str,
    /// The records: written by the workload itself if it fills, else by the checkpoint that all cells start from.
    pub data: Data,
    /// Threads of the workload.
    pub threads: u16,
    /// Measured for so long, or until the workload ends by itself.
    pub seconds: Option<f64>,
    /// When requests come.
    pub pace: Pace,
    /// What a write promises: the words of `--sync`.
    pub sync: &'static str,
    /// Before it is measured, so many records are overwritten by a process that then dies, so that the log holds them. They
    /// must have room in a memtable.
    pub crash_ops: Option<u64>,
    /// Runs of each system.
    pub rounds: u16,
    /// On a throttled loop device of so many bytes a second, instead of the disk as it is.
    pub device: Option<u64>,
    /// Options that our engine is measured with besides, as `--set` takes them.
    pub own: &'static [&'static str],
}

/// Records of a store. Works of an experiment with equal data start from one checkpoint of each system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// How many.
    pub records: u64,
    /// Length of their values; keys have 16 bytes.
    pub value_bytes: u64,
    /// A store is filled once and settled, and each cell starts from a copy of it. False for what fills by itself.
    pub settled: bool,
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// One after the other.
    Closed,
    /// So many a second, whatever the engine does.
    Rate(u32),
    /// A share of the rate that another work of the experiment found, in percent.
    Share {
        /// The work that found it.
        of: &'static str,
        /// How much of it.
        percent: u32,
    },
    /// The highest rate is found, and run at.
    Highest {
        /// The p99 of every second must be within this; the words of `--p99`.
        p99: Option<&'static str>,
        /// Found on the engine that others are compared with, for the shares of it.
        baseline_only: bool,
    },
}

/// A figure that something is claimed of.
#[derive(Debug)]
pub struct Claim {
    /// `experiment.claim`; its bar has the same name in `expected.json`.
    pub id: &'static str,
    /// A sentence without the bar.
    pub text: &'static str,
    /// Whose figure: the experiment and the work.
    pub of: (&'static str, &'static str),
    /// Which figure.
    pub take: Take,
}

/// A figure of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Operations a second, all kinds together.
    Throughput,
    /// Operations a second of one kind.
    PerSecond(&'static str),
    /// The largest latency of one kind of operation.
    Largest(&'static str),
    /// The 99th percentile, of the kind of operation in which it is worst.
    P99,
    /// The 99.9th percentile, of the kind of operation in which it is worst.
    P999,
    /// The worst p99 of a whole second.
    WorstSecond,
    /// Bytes written for each byte that clients wrote, when idle.
    WriteAmplification,
    /// Bytes on disk for each byte of live data, when idle.
    SpaceAmplification,
    /// The most memory of the process.
    PeakMemory,
    /// CPU of an operation, background work included.
    CpuPerOp,
    /// The highest rate that was sustained.
    HighestRate,
    /// From opening the store to its first answer.
    OpenSeconds,
}

impl Take {
    /// The figure; `None` if the run does not tell.
    pub fn of(self, d: &Document) -> Option<f64> {
        let kinds = || d.latency_us.values();
        let figure = match self {
            Take::Throughput => Some(d.throughput_ops_per_sec),
            Take::PerSecond(kind) => d.latency_us.get(kind).map(|l| l.count as f64 / d.seconds),
            Take::Largest(kind) => d.latency_us.get(kind).map(|l| l.max),
            Take::P99 => kinds().map(|l| l.p99).reduce(f64::max),
            Take::P999 => kinds().map(|l| l.p999).reduce(f64::max),
            Take::WorstSecond => whole_seconds(d, |w| w.p99_us).reduce(f64::max),
            Take::WriteAmplification => d.amplification.write,
            Take::SpaceAmplification => d.amplification.space,
            Take::PeakMemory => d.peak_rss_bytes.map(|bytes| bytes as f64),
            Take::CpuPerOp => d.cpu_us_per_op(),
            Take::OpenSeconds => d.open_seconds,
            Take::HighestRate => d.max_rate.as_ref().map(|found| found.ops_per_sec),
        };
        figure.filter(|x| x.is_finite())
    }

    /// The same figure without the seconds in which the machine stood still; `None` if the run does not tell, or the figure is
    /// not about the slowest few.
    pub fn steady(self, d: &Document) -> Option<f64> {
        let steady = d.steady.as_ref()?;
        let kinds = || steady.latency_us.values();
        let figure = match self {
            Take::Largest(kind) => steady.latency_us.get(kind).map(|l| l.max),
            Take::P99 => kinds().map(|l| l.p99).reduce(f64::max),
            Take::P999 => kinds().map(|l| l.p999).reduce(f64::max),
            Take::WorstSecond => steady.worst_second_p99_us,
            _ => None,
        };
        figure.filter(|x| x.is_finite())
    }

    /// The same figure of an engine that does nothing, as the run measured it; known for percentiles of a run.
    pub fn floor(self, d: &Document) -> Option<f64> {
        let floor = match self {
            Take::P99 => d.driver.floor_us.p99,
            Take::P999 => d.driver.floor_us.p999,
            _ => return None,
        };
        (floor > 0.0).then_some(floor)
    }

    /// In which unit.
    pub fn unit(self) -> Unit {
        match self {
            Take::Throughput | Take::PerSecond(_) | Take::HighestRate => Unit::PerSecond,
            Take::Largest(_) | Take::P99 | Take::P999 | Take::WorstSecond | Take::CpuPerOp => Unit::Micros,
            Take::WriteAmplification | Take::SpaceAmplification => Unit::Times,
            Take::PeakMemory => Unit::Bytes,
            Take::OpenSeconds => Unit::Seconds,
        }
    }

    /// Which way is better.
    pub fn better(self) -> Better {
        if self.unit() == Unit::PerSecond { Better::Higher } else { Better::Lower }
    }

    /// It is about the slowest few, which takes more runs to tell.
    pub fn tail(self) -> bool {
        matches!(self, Take::Largest(_) | Take::P99 | Take::P999 | Take::WorstSecond)
    }
}

impl Experiment {
    /// The works that its claims and its own cells need, with the experiment that each belongs to; `all` are looked through for
    /// those of others.
    pub fn needs(&self, all: &[&'static Experiment]) -> Vec<(&'static str, &'static Work)> {
        let mut needed: Vec<(&'static str, &'static Work)> =
            self.works.iter().map(|w| (self.id, w)).collect();
        for claim in self.claims {
            if let Some(found) = find_work(all, claim.of)
                && !needed.iter().any(|(home, work)| (*home, work.name) == claim.of)
            {
                needed.push((claim.of.0, found));
            }
        }
        needed
    }
}

/// A work by the names of its experiment and of itself.
pub fn find_work(all: &[&'static Experiment], (home, name): (&str, &str)) -> Option<&'static Work> {
    all.iter().find(|e| e.id == home)?.works.iter().find(|work| work.name == name)
}
