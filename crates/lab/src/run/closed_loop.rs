//! The closed loop: each thread starts its next operation when the last one has ended.
//!
//! ```text
//! thread  ─ claim 64 operations ─ draw them ─ do and time each ─┐   one look at the clock an operation
//!           ▲──────────────────────────────────────────────────┘
//! main    ─ waits, shows progress, samples the engine once a second, ends a run by time
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock;
use crate::run::engine::{Engine, EngineError};
use crate::run::execute::Executor;
use crate::run::phase::{Attendant, Control, Measured, Part, Phase, Total, Watch, joined};
use crate::run::recorder::{Recorder, Windows};
use crate::workloads::generator::{BATCH, Generator, Shared};
use crate::workloads::workload::{Mix, OpKind, Workload};

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

/// The operations of a phase that no thread has taken yet.
struct Left {
    ops: AtomicU64,
    limited: bool,
    done: AtomicU64,
}

impl Left {
    /// Hands out up to a batch of operations; 0 says that it is over.
    fn claim(&self, limited: bool) -> u64 {
        if !limited {
            return BATCH;
        }
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(BATCH));
        self.ops.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_or(0, |left| left.min(BATCH))
    }
}

impl<E: Engine> Run<'_, E> {
    /// Runs the operations of `shared` to their end.
    pub fn go(&self, phase: Phase, shared: &Shared<'_>) -> Result<Measured, EngineError> {
        let writer = shared.workload.writer && phase == Phase::Measure;
        let writing = Workload { mix: Mix::only(OpKind::Update), ..*shared.workload };
        let writer_shared = Shared { workload: &writing, ..*shared };
        let control = Control::new(self.threads);
        let left = Left { ops: self.ops.unwrap_or(0).into(), limited: self.ops.is_some(), done: 0.into() };
        let total = match (self.ops, self.seconds) {
            (_, Some(seconds)) => Total::Millis((seconds * 1e3) as u64),
            (Some(ops), None) => Total::Ops(ops),
            (None, None) => Total::Open,
        };
        self.watch.begin(phase, total);
        let windows = Windows::new(self.threads + usize::from(writer));
        let start = clock::now();
        let (control, left, engine) = (&control, &left, self.engine);
        let attendant = Attendant {
            engine,
            control,
            watch: self.watch,
            start,
            stop_after: self.seconds.map(Duration::from_secs_f64),
            by_time: self.seconds.is_some(),
            windows: &windows,
        };
        let (results, samples) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for thread in 0..self.threads {
                let recorder = Recorder::new(&windows, thread, start);
                threads.push(scope.spawn(move || {
                    let _leaving = control.leaving();
                    work(engine, shared, control, left, left.limited, thread, recorder)
                }));
            }
            if writer {
                let (recorder, shared, thread) =
                    (Recorder::new(&windows, self.threads, start), &writer_shared, self.threads);
                threads
                    .push(scope.spawn(move || work(engine, shared, control, left, false, thread, recorder)));
            }
            let samples = attendant.attend(|| left.done.load(Ordering::Relaxed));
            let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (results, samples)
        });
        let mut all = Measured::new(start.elapsed().as_secs_f64(), windows.into_recorded(), samples);
        for result in results {
            all.add(joined(result)?);
        }
        Ok(all)
    }
}

fn work<E: Engine>(
    engine: &E,
    shared: &Shared<'_>,
    control: &Control,
    left: &Left,
    limited: bool,
    thread: usize,
    mut recorder: Recorder<'_>,
) -> Result<Part, EngineError> {
    let mut generator = Generator::new(shared, thread);
    let mut executor = Executor::new(engine, shared);
    let mut batch = Vec::new();
    let mut ops = 0;
    let cpu = evenkeel_sys::thread_cpu_time();
    while !control.is_over() {
        let count = left.claim(limited);
        if count == 0 {
            break;
        }
        generator.draw(count, &mut batch);
        let mut began = clock::now();
        for op in &batch {
            let bytes = match executor.execute(op) {
                Ok(bytes) => bytes,
                Err(error) => {
                    control.stop();
                    return Err(error);
                }
            };
            let ended = clock::now();
            recorder.record(op.kind, began, ended, bytes);
            executor.acknowledge(op);
            began = ended;
        }
        ops += count;
        left.done.fetch_add(count, Ordering::Relaxed);
    }
    let cpu = evenkeel_sys::thread_cpu_time().saturating_sub(cpu);
    Ok(Part { ops, wrong_reads: executor.wrong_reads(), latencies: recorder.finish(), cpu })
}
