//! What the phases of a run have in common: threads that do operations, and one that waits for them, shows progress, looks
//! at engine and machine once a second, and ends a phase by time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::machine::{self, Cpu};
use crate::run::engine::{Engine, EngineError, Figures};
use crate::run::recorder::{Latencies, Recorded, SecondLatencies, Window, Windows, merge};
use crate::workloads::workload::OpKind;

/// The key of the first request to a store that was opened; no workload has it.
pub const FIRST_QUESTION: &[u8] = b"is anybody there?";

/// What the main thread is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The records are written.
    Fill,
    /// Background work runs out.
    Settle,
    /// Everything is read once.
    Warm,
    /// Rates are tried, to find the highest that holds.
    Search,
    /// The measurement.
    Measure,
}

/// How much of a phase there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// So many operations.
    Ops(u64),
    /// So many milliseconds.
    Millis(u64),
    /// Nobody knows.
    Open,
}

/// Is told how far a run is.
pub trait Watch {
    /// A phase begins.
    fn begin(&self, phase: Phase, total: Total);
    /// So many operations or milliseconds of it are done; the second number is operations in either case.
    fn advance(&self, done: u64, ops: u64);
    /// Once a second of the measurement: the seconds that are over, as far as every thread has told of them.
    fn seconds(&self, _: &[Window]) {}
    /// All is done.
    fn end(&self);
}

/// A watch that shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn begin(&self, _: Phase, _: Total) {}
    fn advance(&self, _: u64, _: u64) {}
    fn end(&self) {}
}

/// A watch that ends the process when the measurement is over, as a kill would: nothing is closed, waited for or told.
pub struct Crash<'a> {
    watch: &'a dyn Watch,
    measured: AtomicBool,
}

impl<'a> Crash<'a> {
    /// Shows what `watch` shows until then.
    pub fn after(watch: &'a dyn Watch) -> Crash<'a> {
        Crash { watch, measured: AtomicBool::new(false) }
    }
}

impl Watch for Crash<'_> {
    fn begin(&self, phase: Phase, total: Total) {
        if self.measured.fetch_or(phase == Phase::Measure, Ordering::Relaxed) {
            std::process::abort();
        }
        self.watch.begin(phase, total);
    }

    fn advance(&self, done: u64, ops: u64) {
        self.watch.advance(done, ops);
    }

    fn end(&self) {
        self.watch.end();
    }
}

/// What a second's look at engine and machine gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// What the engine did in it, by its own account: differences, but for `l0_runs`, `level_bytes`, `jobs_open`,
    /// `memtables_full`, `debt_bytes`, `client_estimate` and `internal_limit`.
    pub figures: Figures,
    /// Cores that other processes used in it.
    pub others_cores: Option<f64>,
    /// Seconds in it that the machine's cores were kept from running, summed over them.
    pub stolen_seconds: Option<f64>,
}

/// What one phase gave.
pub struct Measured {
    /// Operations done.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
    /// Their latencies.
    pub latencies: Latencies,
    /// The phase second by second.
    pub windows: Vec<Window>,
    /// The latencies of each second in which an operation ended.
    pub seconds_latencies: Vec<SecondLatencies>,
    /// Engine and machine in each second.
    pub samples: BTreeMap<u64, Sample>,
    /// Reads that found nothing although the record exists, or something although it does not.
    pub wrong_reads: u64,
    /// CPU time that the threads used for it, the engine's part of it included.
    pub threads_cpu: Duration,
}

/// What one thread did.
pub(crate) struct Part {
    pub(crate) ops: u64,
    pub(crate) wrong_reads: u64,
    pub(crate) latencies: Latencies,
    pub(crate) cpu: Duration,
}

impl Measured {
    /// Nothing, from which [`Measured::add`] goes on.
    pub(crate) fn new(seconds: f64, recorded: Recorded, samples: BTreeMap<u64, Sample>) -> Measured {
        Measured {
            ops: 0,
            seconds,
            latencies: [const { None }; OpKind::ALL.len()],
            windows: recorded.windows,
            seconds_latencies: recorded.latencies,
            samples,
            wrong_reads: 0,
            threads_cpu: Duration::ZERO,
        }
    }

    /// Takes in what a thread did.
    pub(crate) fn add(&mut self, part: Part) {
        self.ops += part.ops;
        self.wrong_reads += part.wrong_reads;
        self.threads_cpu += part.cpu;
        merge(&mut self.latencies, part.latencies);
    }
}

/// What the threads of a phase and its main thread tell each other.
pub(crate) struct Control {
    stop: AtomicBool,
    /// Threads at work, not counting a background writer.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Control {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Control {
        Control { stop: false.into(), running: Mutex::new(threads), ended: Condvar::new() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the phase for all threads.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// A value to be dropped when a thread is through, whichever way it leaves.
    pub(crate) fn leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }
}

pub(crate) struct Leaving<'a>(&'a Control);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

/// What the main thread does meanwhile.
pub(crate) struct Attendant<'a, E> {
    pub(crate) engine: &'a E,
    pub(crate) control: &'a Control,
    pub(crate) watch: &'a dyn Watch,
    pub(crate) start: Instant,
    /// The threads are stopped after so long.
    pub(crate) stop_after: Option<Duration>,
    /// Progress is time, not operations.
    pub(crate) by_time: bool,
    /// Where the threads record.
    pub(crate) windows: &'a Windows,
}

impl<E: Engine> Attendant<'_, E> {
    /// Watches until the threads are through; `done` is operations so far.
    pub(crate) fn attend(&self, done: impl Fn() -> u64) -> BTreeMap<u64, Sample> {
        let control = self.control;
        let mut samples = BTreeMap::new();
        let (mut last, mut second) = (self.look(), 0);
        let mut running = control.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running > 0 {
            let elapsed = self.start.elapsed();
            let left = self.stop_after.map_or(Duration::MAX, |after| after.saturating_sub(elapsed));
            if left.is_zero() {
                control.stop();
            }
            let ops = done();
            self.watch.advance(if self.by_time { elapsed.as_millis() as u64 } else { ops }, ops);
            if elapsed.as_secs() > second {
                drop(running);
                let now = self.look();
                self.windows.so_far(|seconds| self.watch.seconds(seconds));
                samples.insert(second, difference(&now, &last));
                (last, second) = (now, elapsed.as_secs());
                running = control.running.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let wait = left.clamp(Duration::from_millis(1), Duration::from_millis(50));
            running = control.ended.wait_timeout(running, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        // A background writer goes on until the others are through.
        control.stop();
        drop(running);
        samples.insert(second, difference(&self.look(), &last));
        samples
    }

    fn look(&self) -> Look {
        Look { figures: self.engine.figures(), cpu: machine::cpu(), at: clock::now() }
    }
}

/// Engine and machine at a moment.
struct Look {
    figures: Figures,
    cpu: Option<Cpu>,
    at: Instant,
}

/// What happened between two looks: counters are subtracted, the present state stays.
fn difference(now: &Look, before: &Look) -> Sample {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    let (n, b) = (&now.figures, &before.figures);
    let figures = Figures {
        flush_bytes: less(n.flush_bytes, b.flush_bytes),
        l0_bytes: less(n.l0_bytes, b.l0_bytes),
        deep_bytes: less(n.deep_bytes, b.deep_bytes),
        user_bytes: less(n.user_bytes, b.user_bytes),
        internal_bytes: less(n.internal_bytes, b.internal_bytes),
        client_read_bytes: less(n.client_read_bytes, b.client_read_bytes),
        flushes_delayed: less(n.flushes_delayed, b.flushes_delayed),
        disk_late_seconds: n.disk_late_seconds.map(|now| now - b.disk_late_seconds.unwrap_or(0.0)),
        ..n.with_stalls_since(b)
    };
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let cpu = before.cpu.as_ref().zip(now.cpu.as_ref());
    let others = cpu.and_then(|(before, now)| now.others_cores_since(before, seconds));
    let stolen = cpu.and_then(|(before, now)| now.stolen_since(before));
    Sample { figures, others_cores: others, stolen_seconds: stolen }
}

/// What a thread gave that has ended.
pub(crate) fn joined<T>(result: std::thread::Result<Result<T, EngineError>>) -> Result<T, EngineError> {
    result.map_err(|_| "a thread of the benchmark died")?
}
