//! The closed loop: each thread starts its next operation when the last one has ended.
//!
//! ```text
//! thread  ─ claim 64 operations ─ draw them ─ do and time each ─┐   one look at the clock an operation
//!           ▲──────────────────────────────────────────────────┘
//! main    ─ waits, shows progress, samples the engine once a second, ends a run by time
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::engine::{Engine, EngineError, Figures};
use crate::execute::Executor;
use crate::generator::{BATCH, Generator, Shared};
use crate::recorder::{Latencies, Recorder, Window, Windows, merge};
use crate::workload::{Mix, OpKind, Workload};

/// What the main thread is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The records are written.
    Fill,
    /// Background work runs out.
    Settle,
    /// Everything is read once.
    Warm,
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
    /// So many operations or milliseconds of it are done; the third number is operations in either case.
    fn advance(&self, done: u64, ops: u64);
    /// All is done.
    fn end(&self);
}

/// One phase of operations.
pub struct Run<'a, E> {
    /// What is measured.
    pub engine: &'a E,
    /// Threads, without a background writer.
    pub threads: usize,
    /// Ends after this many operations, or …
    pub ops: Option<u64>,
    /// … after so many seconds.
    pub seconds: Option<f64>,
    /// Is told how far it is.
    pub watch: &'a dyn Watch,
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
    /// What the engine did in each second, by its own account.
    pub samples: BTreeMap<u64, Figures>,
    /// Reads that found nothing although the record exists, or something although it does not.
    pub wrong_reads: u64,
}

/// What the threads of a phase and its main thread tell each other.
struct Control {
    /// Operations not yet handed out.
    left: AtomicU64,
    stop: AtomicBool,
    done: AtomicU64,
    /// Threads at work, not counting a background writer.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Control {
    /// Hands out up to a batch of operations; 0 says that it is over.
    fn claim(&self, limited: bool) -> u64 {
        if self.stop.load(Ordering::Relaxed) {
            return 0;
        }
        if !limited {
            return BATCH;
        }
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(BATCH));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_or(0, |left| left.min(BATCH))
    }
}

/// Says that a thread is through, whichever way it leaves.
struct Leaving<'a>(&'a Control);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

impl<E: Engine> Run<'_, E> {
    /// Runs the operations of `shared` to their end.
    pub fn go(&self, phase: Phase, shared: &Shared<'_>) -> Result<Measured, EngineError> {
        let writer = shared.workload.writer && phase == Phase::Measure;
        let writing = Workload { mix: Mix::only(OpKind::Update), ..*shared.workload };
        let writer_shared = Shared { workload: &writing, ..*shared };
        let control = Control {
            left: self.ops.unwrap_or(0).into(),
            stop: false.into(),
            done: 0.into(),
            running: Mutex::new(self.threads),
            ended: Condvar::new(),
        };
        let total = match (self.ops, self.seconds) {
            (_, Some(seconds)) => Total::Millis((seconds * 1e3) as u64),
            (Some(ops), None) => Total::Ops(ops),
            (None, None) => Total::Open,
        };
        self.watch.begin(phase, total);
        let windows = Windows::new(self.threads + usize::from(writer));
        let start = clock::now();
        let (control, engine, limited) = (&control, self.engine, self.ops.is_some());
        let (results, samples) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for thread in 0..self.threads {
                let recorder = Recorder::new(&windows, thread, start);
                threads.push(scope.spawn(move || {
                    let _leaving = Leaving(control);
                    work(engine, shared, control, limited, thread, recorder)
                }));
            }
            if writer {
                let (recorder, shared, thread) =
                    (Recorder::new(&windows, self.threads, start), &writer_shared, self.threads);
                threads.push(scope.spawn(move || work(engine, shared, control, false, thread, recorder)));
            }
            let samples = self.attend(control, start);
            let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (results, samples)
        });
        let mut all = Measured {
            ops: 0,
            seconds: start.elapsed().as_secs_f64(),
            latencies: [const { None }; OpKind::ALL.len()],
            windows: windows.into_rows(),
            samples,
            wrong_reads: 0,
        };
        for result in results {
            let part = result.map_err(|_| "a thread of the benchmark died")??;
            all.ops += part.ops;
            all.wrong_reads += part.wrong_reads;
            merge(&mut all.latencies, part.latencies);
        }
        Ok(all)
    }

    /// Watches until the threads are through, and ends a run by time.
    fn attend(&self, control: &Control, start: Instant) -> BTreeMap<u64, Figures> {
        let deadline = self.seconds.map(Duration::from_secs_f64);
        let mut samples = BTreeMap::new();
        let (mut last, mut second) = (self.engine.figures(), 0);
        let mut running = control.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running > 0 {
            let elapsed = start.elapsed();
            let to_deadline = deadline.map_or(Duration::MAX, |d| d.saturating_sub(elapsed));
            if to_deadline.is_zero() {
                control.stop.store(true, Ordering::Relaxed);
            }
            let ops = control.done.load(Ordering::Relaxed);
            self.watch.advance(if deadline.is_some() { elapsed.as_millis() as u64 } else { ops }, ops);
            if elapsed.as_secs() > second {
                drop(running);
                let now = self.engine.figures();
                samples.insert(second, now.since(&last));
                (last, second) = (now, elapsed.as_secs());
                running = control.running.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let wait = to_deadline.clamp(Duration::from_millis(1), Duration::from_millis(50));
            running = control.ended.wait_timeout(running, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        // A background writer goes on until the others are through.
        control.stop.store(true, Ordering::Relaxed);
        drop(running);
        samples.insert(second, self.engine.figures().since(&last));
        samples
    }
}

/// What one thread did.
struct Part {
    ops: u64,
    wrong_reads: u64,
    latencies: Latencies,
}

fn work<E: Engine>(
    engine: &E,
    shared: &Shared<'_>,
    control: &Control,
    limited: bool,
    thread: usize,
    mut recorder: Recorder<'_>,
) -> Result<Part, EngineError> {
    let mut generator = Generator::new(shared, thread);
    let mut executor = Executor::new(engine, shared);
    let mut batch = Vec::new();
    let mut ops = 0;
    loop {
        let count = control.claim(limited);
        if count == 0 {
            break;
        }
        generator.draw(count, &mut batch);
        let mut began = clock::now();
        for op in &batch {
            let bytes = match executor.execute(op) {
                Ok(bytes) => bytes,
                Err(error) => {
                    control.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            };
            let ended = clock::now();
            recorder.record(op.kind, began, ended, bytes);
            executor.acknowledge(op);
            began = ended;
        }
        ops += count;
        control.done.fetch_add(count, Ordering::Relaxed);
    }
    Ok(Part { ops, wrong_reads: executor.wrong_reads(), latencies: recorder.finish() })
}
