//! The open loop on an engine that stops on command. Time passes, but decides nothing: bounds are on one side.

use std::sync::{Condvar, Mutex, PoisonError};

use super::*;
use crate::load::arrivals::{End, Spacing};
use crate::load::load_shape::LoadShape;
use crate::run::engine::{Change, Figures, Scanned};
use crate::run::phase::Unwatched;
use crate::run::recorder::Arrived;
use crate::workloads::catalog;
use crate::workloads::keys::{KeyOrder, Keys};
use crate::workloads::records::Records;
use crate::workloads::values::Values;

/// Remembers what was asked, in order; can be told to stall, and to fail.
#[derive(Default)]
struct Stalling {
    state: Mutex<State>,
    changed: Condvar,
    fail_at: Option<usize>,
}

#[derive(Default)]
struct State {
    asked: Vec<Vec<u8>>,
    stalled: bool,
    /// Threads that wait.
    waiting: usize,
}

impl Stalling {
    fn operation(&self, key: &[u8]) -> Result<(), EngineError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked.push(key.to_vec());
        if self.fail_at.is_some_and(|n| state.asked.len() >= n) {
            drop(state);
            // Long enough for the other threads to fall asleep.
            clock::pause(Duration::from_millis(100));
            return Err("broken".into());
        }
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.stalled).unwrap();
        state.waiting -= 1;
        Ok(())
    }

    /// From now on every operation waits for [`Stalling::release`].
    fn stall(&self) {
        self.state.lock().unwrap().stalled = true;
    }

    fn release(&self) {
        self.state.lock().unwrap().stalled = false;
        self.changed.notify_all();
    }

    /// Returns when so many threads wait.
    fn until_waiting(&self, threads: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting < threads).unwrap());
    }
}

impl Engine for Stalling {
    fn name(&self) -> &'static str {
        "stalling"
    }

    fn version(&self) -> String {
        String::new()
    }

    fn put(&self, key: &[u8], _: &[u8]) -> Result<(), EngineError> {
        self.operation(key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        self.operation(key).map(|()| Some(1))
    }

    fn scan(&self, from: &[u8], _: usize) -> Result<Scanned, EngineError> {
        self.operation(from).map(|()| Scanned { entries: 1, bytes: 1 })
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        self.scan(from, limit)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.operation(key)
    }

    fn delete_range(&self, from: &[u8], _: &[u8]) -> Result<(), EngineError> {
        self.operation(from)
    }

    fn write(&self, _: &[Change<'_>]) -> Result<(), EngineError> {
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

fn schedule(shape: &str, seconds: f64, spacing: Spacing) -> Schedule {
    let shape = LoadShape::parse(shape, |_| Err(String::new())).unwrap();
    Schedule::new(shape.pieces(0.0, 1), End { ops: None, seconds: Some(seconds) }, spacing, 1)
}

/// Runs `schedule` on `engine`, with `beside` on a thread of its own.
fn run(
    engine: &Stalling,
    schedule: &Schedule,
    threads: usize,
    drain_seconds: f64,
    watch: &dyn Watch,
    beside: impl FnOnce() + Send,
) -> Result<OpenMeasured, EngineError> {
    let keys = Keys::new(16, KeyOrder::Random, 1, 1000)?;
    let values = Values::new(10, 1);
    let records = Records::new(1000);
    let workload = catalog::find("ycsb-b").ok_or("no ycsb-b")?;
    let shared = Shared {
        workload,
        keys: &keys,
        values: &values,
        records: &records,
        distribution: workload.distribution,
        inserts: 0,
        seed: 7,
    };
    std::thread::scope(|scope| {
        scope.spawn(beside);
        OpenRun { engine, threads, schedule, drain_seconds, watch }.go(Phase::Measure, &shared)
    })
}

fn arrived(done: &OpenMeasured) -> Vec<Arrived> {
    done.measured.windows.iter().filter_map(|window| window.arrived).collect()
}

#[test]
fn what_comes_is_the_shape_s_whatever_the_engine_does() {
    for (spacing, stalls) in [(Spacing::Even, false), (Spacing::Even, true), (Spacing::Poisson, true)] {
        let schedule = schedule("peaks:2000,100,0.5,0.5", 2.0, spacing);
        let engine = Stalling::default();
        if stalls {
            engine.stall();
        }
        let done = run(&engine, &schedule, 3, 60.0, &Unwatched, || {
            if stalls {
                engine.until_waiting(3);
                clock::pause(Duration::from_millis(1200));
                engine.release();
            }
        })
        .unwrap();
        let came: Vec<u64> = arrived(&done).iter().map(|a| a.requests).filter(|n| *n > 0).collect();
        assert_eq!(came, schedule.by_second());
        if spacing == Spacing::Even {
            assert_eq!(came, [1050, 1050]);
        }
        let Queue { requests, seconds, unfinished, .. } = done.queue;
        assert_eq!((requests, seconds, unfinished), (schedule.requests(), 2.0, 0));
        assert_eq!(done.measured.ops, requests);
        assert_eq!(done.measured.windows.iter().map(|w| w.ops).sum::<u64>(), requests);
        assert_eq!(engine.state.lock().unwrap().asked.len() as u64, requests);
        assert_eq!(done.measured.wrong_reads, 0);
        // Who sleeps for a request pays for it; where the system tells of no CPU there is none.
        assert_eq!(done.waiting_cpu.is_zero(), evenkeel_sys::thread_cpu_time().is_zero());
    }
}

#[test]
fn every_request_that_waited_for_a_stall_has_it_in_its_latency() {
    let engine = Stalling::default();
    engine.stall();
    let schedule = schedule("constant:1000", 1.0, Spacing::Even);
    let threads = 2;
    let done = run(&engine, &schedule, threads, 60.0, &Unwatched, || {
        engine.until_waiting(threads);
        clock::pause(Duration::from_millis(1500));
        engine.release();
    })
    .unwrap();
    // The stall began after request 0 was due and took 1.5 s, so request n, due at n ms, waited 1500 - n ms at least.
    let mut all = run_histogram();
    done.measured.latencies.iter().flatten().for_each(|h| all.add(h).unwrap());
    assert_eq!(all.len(), 1000);
    let at_least = |quantile: f64, millis: u64| {
        let latency = all.value_at_quantile(quantile);
        assert!(latency >= millis * 1_000_000, "{quantile}: {latency} ns");
    };
    at_least(0.001, 499);
    at_least(0.5, 995);
    at_least(0.99, 1480);
    // Nothing could end in the second of the stall, and the row is there all the same.
    let first = &done.measured.windows[0];
    assert_eq!((first.second, first.ops, first.p99_us), (0, 0, None));
    assert_eq!(first.arrived, Some(Arrived { requests: 1000, queue: 1000 }));
    assert_eq!((done.queue.at_end, done.queue.max), (1000, 1000));
    assert_eq!(done.queue.completed_share(), 0.0);
    assert_eq!(arrived(&done).last().unwrap().queue, 0);
}

#[test]
fn operations_follow_from_their_numbers_however_many_threads_there_are() {
    let asked = |threads, stalls: bool| {
        let engine = Stalling::default();
        if stalls {
            engine.stall();
        }
        let schedule = schedule("constant:5000", 0.2, Spacing::Even);
        run(&engine, &schedule, threads, 60.0, &Unwatched, || {
            if stalls {
                engine.until_waiting(threads);
                engine.release();
            }
        })
        .unwrap();
        let mut asked = std::mem::take(&mut engine.state.lock().unwrap().asked);
        // One thread asks in the order of numbers; with several it is the order in which they got the lock.
        if threads > 1 {
            asked.sort();
        }
        asked
    };
    let alone = asked(1, false);
    assert_eq!(alone.len(), 1000);
    assert_eq!(alone, asked(1, true));
    let mut sorted = alone;
    sorted.sort();
    assert_eq!(sorted, asked(4, true));
    sorted.dedup();
    assert!(sorted.len() > 100, "{} keys", sorted.len());
}

/// Releases the engine once the run is so many milliseconds old; whoever is told that has been stopped before.
struct Late<'a>(&'a Stalling, u64);

impl Watch for Late<'_> {
    fn begin(&self, _: Phase, _: Total) {}

    fn advance(&self, millis: u64, _: u64) {
        if millis >= self.1 {
            self.0.release();
        }
    }

    fn end(&self) {}
}

#[test]
fn a_queue_that_does_not_empty_is_counted_and_left() {
    let engine = Stalling::default();
    engine.stall();
    let schedule = schedule("constant:1000", 0.5, Spacing::Even);
    // Released when the run is over: the two that are being worked on end, and nobody takes another.
    let done = run(&engine, &schedule, 2, 0.1, &Late(&engine, 600), || ()).unwrap();
    assert_eq!((done.measured.ops, done.queue.unfinished), (2, 498));
    assert_eq!(done.queue.requests, 500);
    assert_eq!(arrived(&done).last().unwrap().queue, 498);
}

#[test]
fn an_error_ends_the_run_and_wakes_who_sleeps() {
    let engine = Stalling { fail_at: Some(11), ..Stalling::default() };
    // Eleven requests come at once, and the next so late that a thread which slept for it would sleep for hours.
    let schedule = schedule("steps:1000@0.01,0.0001@1000000", 1e6, Spacing::Even);
    let error = run(&engine, &schedule, 4, 0.0, &Unwatched, || ()).err().unwrap();
    assert_eq!(error.to_string(), "broken");
}
