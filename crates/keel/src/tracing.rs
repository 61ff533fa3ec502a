//! `--trace FILE`: the verbs that have a store open record its operations themselves.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use evenkeel::Db;
use evenkeel::fs::{DiskFileSystem, FileSystem as _};
use evenkeel::trace::{Keys, RunningTrace, Summary};
use evenkeel_lab::results::report;
use evenkeel_lab::run::phase::{Phase, Total, Watch};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::note;
use crate::progress::BenchProgress;

/// Flags of the verbs that can record what they do.
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// Record the operations into a new file, for `keel trace replay`: all of a session, or of a bench what is measured.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a hash in each key's place.
    #[arg(long, requires = "trace")]
    hash_keys: bool,
}

/// How keys are recorded.
pub fn keys(hashed: bool) -> Keys {
    if hashed { Keys::Hashed } else { Keys::Plain }
}

impl TraceArgs {
    /// True if a trace is asked for.
    pub fn asked(&self) -> bool {
        self.trace.is_some()
    }

    /// Refuses a file that exists before anything is done.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.trace {
            Some(file) if DiskFileSystem::new().exists(file)? => Err(Failure::work(format!(
                "{} exists; give the trace another name, or remove it",
                file.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Begins the trace, if one is asked for.
    pub fn start(&self, db: &Db) -> Result<Option<RunningTrace>, Failure> {
        let Some(file) = &self.trace else { return Ok(None) };
        Ok(Some(db.start_trace(file, keys(self.hash_keys))?))
    }
}

/// Shows the progress of a run, and records its measurement if that is asked for.
pub struct TracedMeasurement<'a> {
    progress: &'a BenchProgress,
    args: &'a TraceArgs,
    db: &'a Db,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<RunningTrace>,
    ended: Option<Result<Summary, Failure>>,
}

impl<'a> TracedMeasurement<'a> {
    /// Of a run on this store.
    pub fn new(progress: &'a BenchProgress, args: &'a TraceArgs, db: &'a Db) -> TracedMeasurement<'a> {
        TracedMeasurement { progress, args, db, state: Mutex::default() }
    }

    /// The run is over: tells what was recorded.
    ///
    /// # Errors
    /// What kept it from being recorded.
    pub fn end(self) -> Result<(), Failure> {
        self.turn(false);
        match self.state.into_inner().unwrap_or_else(PoisonError::into_inner).ended {
            Some(ended) => ended.map(|summary| told(&summary)),
            None => Ok(()),
        }
    }

    fn turn(&self, measuring: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = state.running.take() {
            state.ended = Some(running.end().map_err(Failure::from));
        }
        if measuring {
            match self.args.start(self.db) {
                Ok(running) => state.running = running,
                Err(failure) => state.ended = Some(Err(failure)),
            }
        }
    }
}

impl Watch for TracedMeasurement<'_> {
    fn begin(&self, phase: Phase, total: Total) {
        self.turn(phase == Phase::Measure);
        self.progress.begin(phase, total);
    }

    fn advance(&self, done: u64, ops: u64) {
        self.progress.advance(done, ops);
    }

    fn end(&self) {
        self.turn(false);
        self.progress.end();
    }
}

/// Says on stderr what was recorded.
pub fn told(summary: &Summary) {
    // What the engine writes is JSON.
    let json: Value = serde_json::from_str(&summary.to_json()).unwrap_or_default();
    note(&format!("keel: {}", summary_text(&json)));
}

/// What was recorded, on one line.
pub fn summary_text(summary: &Value) -> String {
    let number = |name: &str| summary[name].as_u64().unwrap_or(0);
    let kinds = summary["operations"].as_object().into_iter().flatten();
    let kinds: Vec<(&str, u64)> = kinds.map(|(name, n)| (name.as_str(), n.as_u64().unwrap_or(0))).collect();
    let total: u64 = kinds.iter().map(|(_, n)| n).sum();
    let each: Vec<String> = kinds.iter().map(|(name, n)| format!("{} {name}", report::count(*n))).collect();
    let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
    let missed = match number("missed") {
        0 => String::new(),
        missed => format!("; MISSED {}, for which there was no room", report::count(missed)),
    };
    format!(
        "{}: {} {}{each} in {}, {}{missed}",
        summary["path"].as_str().unwrap_or("?"),
        report::count(total),
        if total == 1 { "operation" } else { "operations" },
        report::seconds(summary["seconds"].as_f64().unwrap_or(0.0)),
        report::bytes(number("bytes")),
    )
}
