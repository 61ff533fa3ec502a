//! The open loop: requests come when the load shape says, whatever the engine does.
//!
//! ```text
//! schedule   ─ request n is due at …                 nobody dispatches: the counter is the queue
//! thread     ─ take the next number ─ draw it ─ sleep until it is due, or run late if it is overdue ─┐
//!              ▲───────── do it, look at the clock, record from the due time to the end ─────────────┘
//! ```
//!
//! Threads that take numbers from one counter, and are free when they do, serve first come, first served: what is overdue
//! and not taken is the queue, without a bound and without memory. A latency is from the due time to the end, so that a
//! stall counts for every request that waited. What request n does is drawn from its number, so the load is the same
//! however fast the engine is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::base::clock;
use crate::load::arrivals::Schedule;
use crate::run::engine::{Engine, EngineError};
use crate::run::execute::Executor;
use crate::run::phase::{Attendant, Control, Measured, Part, Phase, Total, Watch, joined};
use crate::run::recorder::{Recorder, Windows, run_histogram, with_arrivals};
use crate::workloads::generator::{Generator, Op, Shared};
use crate::workloads::workload::{OpKind, Workload};

/// Threads are started so long before the first request is due.
const LEAD: Duration = Duration::from_millis(10);

/// A thread that sleeps looks this often whether the run is over.
const NAP: Duration = Duration::from_millis(50);

/// The CPU of one sleep in so many is measured, and counts for all: a sleep costs some microseconds, as much as many requests do.
const SLEEPS_PER_MEASURED: u32 = 16;

/// One phase of requests.
pub struct OpenRun<'a, E> {
    /// What is measured.
    pub engine: &'a E,
    /// Threads that serve the queue.
    pub threads: usize,
    /// When requests come.
    pub schedule: &'a Schedule,
    /// How long the queue may take to empty when the last request has come. What is left then is never served.
    pub drain_seconds: f64,
    /// Is told how far it is.
    pub watch: &'a dyn Watch,
}

/// What came of a phase of requests.
pub struct OpenMeasured {
    /// As in a closed loop; each window says what came.
    pub measured: Measured,
    /// The queue and its end.
    pub queue: Queue,
    /// Nanoseconds from when a request was due to when the thread that had slept for it woke.
    pub wake_ups: Histogram<u64>,
    /// Nanoseconds from when a request was due to when it was begun.
    pub late: Histogram<u64>,
    /// CPU that threads used to sleep until requests were due.
    pub waiting_cpu: Duration,
}

/// How requests came and waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queue {
    /// Requests that came.
    pub requests: u64,
    /// How long they came, in seconds.
    pub seconds: f64,
    /// Requests waiting or being worked on at the end of the second in which the last came.
    pub at_end: u64,
    /// The most at the end of any second.
    pub max: u64,
    /// Requests that were never served.
    pub unfinished: u64,
}

impl Queue {
    /// The share of requests that had ended by the end of the second in which the last came.
    pub fn completed_share(&self) -> f64 {
        1.0 - self.at_end as f64 / self.requests.max(1) as f64
    }
}

/// What one thread serves: requests by their numbers.
pub(crate) trait Requests {
    /// Gets request `n` ready; none of it is in its latency, unless it is overdue.
    fn prepare(&mut self, n: u64);
    /// Does it: its kind, and the bytes of keys and values it moved.
    fn execute(&mut self) -> Result<(OpKind, u64), EngineError>;
    /// It is done and timed.
    fn acknowledge(&mut self) {}
    /// Reads so far that found nothing although the record exists, or something although it does not.
    fn wrong_reads(&self) -> u64 {
        0
    }
}

/// Requests that are drawn.
struct Drawn<'a, E> {
    generator: Generator<'a>,
    executor: Executor<'a, E>,
    op: Op,
}

impl<E: Engine> Requests for Drawn<'_, E> {
    fn prepare(&mut self, n: u64) {
        self.generator.draw_nth(n, &mut self.op);
    }

    fn execute(&mut self) -> Result<(OpKind, u64), EngineError> {
        Ok((self.op.kind, self.executor.execute(&self.op)?))
    }

    fn acknowledge(&mut self) {
        self.executor.acknowledge(&self.op);
    }

    fn wrong_reads(&self) -> u64 {
        self.executor.wrong_reads()
    }
}

/// Why a workload cannot be run as an open loop.
///
/// # Errors
/// What to do instead.
pub fn check(workload: &Workload) -> Result<(), String> {
    if workload.writer {
        return Err(format!(
            "the writer of {} writes as fast as it can, so there is no rate; use ycsb-a or ycsb-b",
            workload.name
        ));
    }
    Ok(())
}

impl<E: Engine> OpenRun<'_, E> {
    /// Serves the requests of the schedule.
    ///
    /// # Errors
    /// The first error of the engine.
    pub fn go(&self, phase: Phase, shared: &Shared<'_>) -> Result<OpenMeasured, EngineError> {
        let drawn = |thread| Drawn {
            generator: Generator::new(shared, thread),
            executor: Executor::new(self.engine, shared),
            op: Op::empty(),
        };
        self.serve_all(phase, drawn)
    }

    /// Serves the requests that `requests` gives each thread.
    ///
    /// # Errors
    /// The first one of a request.
    pub(crate) fn serve_all<R: Requests + Send>(
        &self,
        phase: Phase,
        requests: impl Fn(usize) -> R,
    ) -> Result<OpenMeasured, EngineError> {
        let control = Control::new(self.threads);
        let seconds = self.schedule.seconds();
        self.watch.begin(
            phase,
            match self.schedule.is_closed() {
                true => Total::Ops(self.schedule.requests()),
                false => Total::Millis((seconds * 1e3) as u64),
            },
        );
        let windows = Windows::new(self.threads);
        // A generator may take long to make, and the first request must not wait for it.
        let requests: Vec<_> = (0..self.threads).map(requests).collect();
        let start = clock::now() + LEAD;
        let next = AtomicU64::new(0);
        let (engine, schedule, control, next) = (self.engine, self.schedule, &control, &next);
        let drain = Duration::from_secs_f64(seconds + self.drain_seconds);
        let paced = !schedule.is_closed();
        let stop_after = paced.then_some(drain);
        let attendant = Attendant {
            engine,
            control,
            watch: self.watch,
            start,
            stop_after,
            by_time: paced,
            windows: &windows,
        };
        let (results, samples) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (thread, requests) in requests.into_iter().enumerate() {
                let recorder = Recorder::new(&windows, thread, start);
                threads.push(scope.spawn(move || {
                    let _leaving = control.leaving();
                    serve(requests, schedule, control, next, start, recorder)
                }));
            }
            let samples = attendant.attend(|| next.load(Ordering::Relaxed));
            let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (results, samples)
        });
        let mut recorded = windows.into_recorded();
        if !schedule.is_closed() {
            recorded.windows = with_arrivals(&recorded.windows, schedule.by_second());
        }
        let mut measured = Measured::new(start.elapsed().as_secs_f64(), recorded, samples);
        let (mut wake_ups, mut late) = (run_histogram(), run_histogram());
        let mut waiting_cpu = Duration::ZERO;
        for result in results {
            let served = joined(result)?;
            measured.add(served.part);
            wake_ups.add(served.wake_ups)?;
            late.add(served.late)?;
            waiting_cpu += served.waiting_cpu;
        }
        Ok(OpenMeasured { queue: queue(&measured, schedule), measured, wake_ups, late, waiting_cpu })
    }
}

fn queue(measured: &Measured, schedule: &Schedule) -> Queue {
    let queues = measured.windows.iter().filter_map(|window| Some((window.second, window.arrived?.queue)));
    let last = schedule.by_second().len().saturating_sub(1) as u64;
    let requests = schedule.requests();
    Queue {
        requests,
        seconds: schedule.seconds(),
        at_end: queues.clone().find(|(second, _)| *second == last).map_or(0, |(_, queue)| queue),
        max: queues.map(|(_, queue)| queue).max().unwrap_or(0),
        unfinished: requests.saturating_sub(measured.ops),
    }
}

/// What one thread did.
struct Served {
    part: Part,
    wake_ups: Histogram<u64>,
    late: Histogram<u64>,
    waiting_cpu: Duration,
}

/// What one thread does.
fn serve(
    mut requests: impl Requests,
    schedule: &Schedule,
    control: &Control,
    next: &AtomicU64,
    start: Instant,
    mut recorder: Recorder<'_>,
) -> Result<Served, EngineError> {
    // Where the system has no such thing, sleeps are as punctual as they are; it shows in the figures.
    let _ = evenkeel_sys::set_timer_slack(Duration::ZERO);
    let mut arrivals = schedule.arrivals();
    let (mut wake_ups, mut late) = (run_histogram(), run_histogram());
    let (mut ops, mut sleeps, mut waiting_cpu) = (0, 0_u32, Duration::ZERO);
    let cpu = evenkeel_sys::thread_cpu_time();
    let mut now = clock::now();
    // A number taken is a request served: nothing is drawn after the run is over, when all that is left is overdue.
    while !control.is_over() {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let Some(due) = arrivals.due(n) else { break };
        requests.prepare(n);
        let due = if schedule.is_closed() {
            now = clock::now();
            now
        } else {
            start + due
        };
        if due > now {
            let before = clock::now();
            let waiting = sleeps.is_multiple_of(SLEEPS_PER_MEASURED).then(evenkeel_sys::thread_cpu_time);
            now = sleep_until(due, before, control);
            if let Some(waiting) = waiting {
                waiting_cpu += evenkeel_sys::thread_cpu_time().saturating_sub(waiting) * SLEEPS_PER_MEASURED;
            }
            sleeps = sleeps.wrapping_add(1);
            if now < due {
                break;
            }
            if now > before {
                wake_ups.saturating_record(now.duration_since(due).as_nanos() as u64);
            }
        }
        let begun = now;
        let (kind, bytes) = match requests.execute() {
            Ok(done) => done,
            Err(error) => {
                control.stop();
                return Err(error);
            }
        };
        now = clock::now();
        recorder.record(kind, due, now, bytes);
        late.saturating_record(begun.duration_since(due).as_nanos() as u64);
        requests.acknowledge();
        ops += 1;
    }
    let cpu = evenkeel_sys::thread_cpu_time().saturating_sub(cpu);
    let part = Part { ops, wrong_reads: requests.wrong_reads(), latencies: recorder.finish(), cpu };
    Ok(Served { part, wake_ups, late, waiting_cpu })
}

/// Sleeps from `now` until `due`, or until the run is over; the moment of waking.
fn sleep_until(due: Instant, mut now: Instant, control: &Control) -> Instant {
    while now < due && !control.is_over() {
        clock::pause((due - now).min(NAP));
        now = clock::now();
    }
    now
}

#[cfg(test)]
#[path = "open_loop_tests.rs"]
mod tests;
