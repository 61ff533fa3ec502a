//! Operations that were recorded elsewhere, done again when they were done then: an open loop whose requests are due at the
//! recorded times, or sooner, or a closed one that does them as fast as it can.
//!
//! ```text
//! times of the trace ÷ speed ─► schedule ─► threads take the next number, wait until it is due, do it (`open_loop.rs`)
//! ```
//! What was done by one thread may be done by several here, and operations that overlapped may change places. The lab knows no
//! format: whoever has the operations says what they are.

use serde::{Deserialize, Serialize};

use crate::base::machine::Meter;
use crate::load::arrivals::Schedule;
use crate::run::driver::{self, Outcome, at_rest, drain_seconds};
use crate::run::driver_cost::{self, DriverCost, Nothing, Percentiles};
use crate::run::engine::{Engine, EngineError, Scanned};
use crate::run::open_loop::{OpenMeasured, OpenRun, Requests};
use crate::run::phase::{Phase, Unwatched, Watch};
use crate::workloads::catalog::YCSB;
use crate::workloads::workload::{Limit, Mix, OpKind, Workload};

/// What a replay is called, and that it is over when the trace is.
pub const TRACE: Workload = Workload {
    name: "trace",
    what: "the operations of a trace",
    mix: Mix::of(&[]),
    limit: Limit::Ops(0),
    ..YCSB
};

/// An operation that begins this much after its time has kept it.
const ON_TIME_NANOS: u64 = 1_000_000;

/// Operations in the order in which they began.
pub trait Recorded: Sync {
    /// An operation, ready to go.
    type Operation<'a>: Send
    where
        Self: 'a;

    /// How many.
    fn operations(&self) -> u64;

    /// When operation `n` began, in nanoseconds since the recording did; never falls.
    fn start_nanos(&self, n: u64) -> u64;

    /// How long was recorded, in nanoseconds.
    fn nanos(&self) -> u64;

    /// Operation `n`.
    ///
    /// # Errors
    /// If there is none.
    fn get(&self, n: u64) -> Result<Self::Operation<'_>, EngineError>;

    /// Does operation `n`; its kind, and the bytes of keys and values that it moved.
    ///
    /// # Errors
    /// The engine's.
    fn execute(&self, n: u64, operation: &Self::Operation<'_>) -> Result<(OpKind, u64), EngineError>;

    /// What is in the store, wherever operations went.
    ///
    /// # Errors
    /// The engine's.
    fn live(&self) -> Result<Scanned, EngineError>;
}

/// When operations are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At their times, divided by this.
    Speed(f64),
    /// When a thread is free.
    AsFastAsPossible,
}

/// What was replayed, and how well its times were held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/bench_json.md documents each field, once")]
pub struct Replay {
    pub operations: u64,
    pub hashed: bool,
    pub missed: Option<u64>,
    pub speed: Option<f64>,
    pub late_us: Percentiles,
    pub late_max_us: f64,
    pub on_time_share: f64,
}

/// Does the operations of `recorded`, which go to `engine` or parts of it.
///
/// # Errors
/// The first error of an operation.
pub fn run<E: Engine, R: Recorded>(
    engine: &E,
    recorded: &R,
    pace: Pace,
    threads: usize,
    watch: &dyn Watch,
) -> Result<(Outcome, Replay), EngineError> {
    let schedule = schedule(recorded, pace);
    let driver = own_cost(&schedule, threads)?;
    let meter = Meter::start();
    let run =
        OpenRun { engine, threads, schedule: &schedule, drain_seconds: drain_seconds(&schedule), watch };
    let replayer = |_| Replayer { recorded, n: 0, operation: None };
    let done = run.serve_all(Phase::Measure, replayer)?;
    let opened = match pace {
        Pace::AsFastAsPossible => None,
        Pace::Speed(_) => Some(driver::opened(&done, threads, None)),
    };
    let OpenMeasured { measured, late, .. } = done;
    let outcome = at_rest(engine, measured, &meter, driver, true, watch, || recorded.live())?;
    let outcome = Outcome { opened, ..outcome };
    let replay = Replay {
        operations: recorded.operations(),
        speed: match pace {
            Pace::Speed(speed) => Some(speed),
            Pace::AsFastAsPossible => None,
        },
        late_us: Percentiles::of(&late),
        late_max_us: late.max() as f64 / 1e3,
        on_time_share: late.count_between(0, ON_TIME_NANOS) as f64 / late.len().max(1) as f64,
        ..Replay::default()
    };
    Ok((outcome, replay))
}

fn schedule<R: Recorded>(recorded: &R, pace: Pace) -> Schedule {
    let speed = match pace {
        Pace::Speed(speed) => speed,
        Pace::AsFastAsPossible => 1.0,
    };
    let due = |n| (recorded.start_nanos(n) as f64 / speed) as u64;
    let seconds = recorded.nanos() as f64 / 1e9 / speed;
    let schedule = Schedule::recorded((0..recorded.operations()).map(due).collect(), seconds);
    if pace == Pace::AsFastAsPossible { schedule.as_fast_as_possible() } else { schedule }
}

/// What one thread replays.
struct Replayer<'a, R: Recorded> {
    recorded: &'a R,
    n: u64,
    operation: Option<Result<R::Operation<'a>, EngineError>>,
}

impl<R: Recorded> Requests for Replayer<'_, R> {
    fn prepare(&mut self, n: u64) {
        self.n = n;
        self.operation = Some(self.recorded.get(n));
    }

    fn execute(&mut self) -> Result<(OpKind, u64), EngineError> {
        match self.operation.take() {
            Some(operation) => self.recorded.execute(self.n, &operation?),
            None => Err("there is no operation to do".into()),
        }
    }
}

/// What waiting, timing and recording cost: requests that do nothing.
fn own_cost(schedule: &Schedule, threads: usize) -> Result<DriverCost, EngineError> {
    driver_cost::of_open(schedule, 0, |schedule| {
        let run = OpenRun { engine: &Nothing, threads, schedule, drain_seconds: 10.0, watch: &Unwatched };
        run.serve_all(Phase::Settle, |_| Idle)
    })
}

struct Idle;

impl Requests for Idle {
    fn prepare(&mut self, _: u64) {}

    fn execute(&mut self) -> Result<(OpKind, u64), EngineError> {
        Ok((OpKind::Read, 0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::run::engine::Engine;
    use crate::run::map_engine::MapEngine;

    /// Puts at these nanoseconds.
    struct Puts<'a> {
        engine: &'a MapEngine,
        starts: Vec<u64>,
        done: Mutex<Vec<u64>>,
    }

    impl Recorded for Puts<'_> {
        type Operation<'a>
            = String
        where
            Self: 'a;

        fn operations(&self) -> u64 {
            self.starts.len() as u64
        }

        fn start_nanos(&self, n: u64) -> u64 {
            self.starts[n as usize]
        }

        fn nanos(&self) -> u64 {
            self.starts.last().copied().unwrap_or(0)
        }

        fn get(&self, n: u64) -> Result<String, EngineError> {
            if n == 77 { Err("77 is missing".into()) } else { Ok(format!("key{n}")) }
        }

        fn execute(&self, n: u64, key: &String) -> Result<(OpKind, u64), EngineError> {
            self.engine.put(key.as_bytes(), b"v")?;
            self.done.lock().unwrap().push(n);
            Ok((OpKind::Update, 5))
        }

        fn live(&self) -> Result<Scanned, EngineError> {
            self.engine.scan(b"", usize::MAX)
        }
    }

    fn puts(engine: &MapEngine, starts: Vec<u64>) -> Puts<'_> {
        Puts { engine, starts, done: Mutex::default() }
    }

    #[test]
    fn each_operation_is_done_once_and_in_turn_at_any_pace() {
        let starts: Vec<u64> = (0..50).map(|n| n * 1_000_000).collect();
        for (pace, threads) in [
            (Pace::Speed(1.0), 1),
            (Pace::Speed(10.0), 3),
            (Pace::AsFastAsPossible, 1),
            (Pace::AsFastAsPossible, 2),
        ] {
            let engine = MapEngine::default();
            let recorded = puts(&engine, starts.clone());
            let (outcome, replay) = run(&engine, &recorded, pace, threads, &Unwatched).unwrap();
            assert_eq!((outcome.ops, outcome.records, replay.operations), (50, 50, 50));
            let mut done = recorded.done.into_inner().unwrap();
            assert!(threads > 1 || done.is_sorted(), "{done:?}");
            done.sort_unstable();
            assert!(done.into_iter().eq(0..50));
            match pace {
                Pace::Speed(speed) => {
                    assert!(outcome.seconds >= 0.049 / speed, "nothing is done before its time");
                    assert_eq!(outcome.opened.unwrap().queue.requests, 50);
                    assert_eq!(replay.speed, Some(speed));
                }
                Pace::AsFastAsPossible => {
                    assert!(outcome.opened.is_none() && replay.speed.is_none());
                    assert!(outcome.windows.iter().all(|window| window.arrived.is_none()));
                }
            }
        }
    }

    #[test]
    fn an_error_ends_the_replay_and_an_empty_trace_is_none() {
        let engine = MapEngine::default();
        let recorded = puts(&engine, vec![0; 100]);
        let error = run(&engine, &recorded, Pace::Speed(1.0), 2, &Unwatched).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "77 is missing");
        let (outcome, _) = run(&engine, &puts(&engine, Vec::new()), Pace::Speed(1.0), 2, &Unwatched).unwrap();
        assert_eq!(outcome.ops, 0);
    }
}
