//! What people see on stderr while they wait. Nothing is drawn if stderr is no terminal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel::Db;
use evenkeel_lab::base::clock;
use evenkeel_lab::results::report;
use evenkeel_lab::run::phase::{Phase, Total, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

// What the lines look like; bars take the width that is left.
const OVER_BYTES: &str =
    "{wide_bar} {binary_bytes} of {binary_total_bytes} at {binary_bytes_per_sec}, {msg}, {eta} left";
const OVER_STREAM: &str = "{spinner} {binary_bytes} at {binary_bytes_per_sec}, {msg}, {elapsed}";
const OVER_OPS: &str = "{prefix} {wide_bar} {percent:>3} %, {msg}, {eta} left";
const OPEN_PHASE: &str = "{spinner} {prefix} {elapsed}";
const OVER_RUNS: &str = "{wide_bar} {pos} of {len} runs, {msg}, {elapsed}";
const OVER_COUNT: &str = "{wide_bar} {pos} of {len} {msg}, {eta} left";
const WAITING: &str = "{spinner} {msg} {elapsed}";

/// A late bar shows itself after this long.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// How often a wait looks whether it was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shows that something goes on, and for how long.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// Begins.
    pub fn start(what: &'static str) -> Spinner {
        let bar = spinner(WAITING);
        bar.set_message(what);
        Spinner(bar)
    }

    /// Ends without a trace.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// How a wait came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is done.
    Done,
    /// By Ctrl-C; the store is closed, and the next open goes on.
    Interrupted,
}

/// Waits until no background work is under way or wanted, and shows that it does. Ctrl-C ends it, and closes the store.
pub fn wait_idle(db: &Db, what: &'static str) -> Result<Waited, Failure> {
    evenkeel_sys::catch_interrupt();
    let spinner = Spinner::start(what);
    let waited = idle_or_interrupted(db);
    spinner.finish();
    waited
}

/// The same without showing anything, where interrupts are caught already.
pub fn idle_or_interrupted(db: &Db) -> Result<Waited, Failure> {
    let (done, ended) = std::sync::mpsc::channel();
    let waiting = db.clone();
    let waiter = std::thread::Builder::new()
        .spawn(move || drop(done.send(waiting.wait_idle())))
        .map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
    let outcome = loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(outcome) => break outcome.map(|()| Waited::Done),
            Err(_) if evenkeel_sys::was_interrupted() => break Ok(Waited::Interrupted),
            Err(_) => {}
        }
    };
    if matches!(outcome, Ok(Waited::Interrupted)) {
        db.clone().close()?;
    }
    // It answers, or the store that it waits for is closed.
    let _ = waiter.join();
    Ok(outcome?)
}

/// A bar over so many bytes with the time left, or a spinner with rates if nobody knows how many there are.
pub fn over_bytes(total: Option<u64>) -> ProgressBar {
    match total {
        Some(total) => bar(total, OVER_BYTES),
        None => spinner(OVER_STREAM),
    }
}

/// A bar over bytes that shows itself only where the work takes longer than a person likes to wait.
pub struct LateBar {
    what: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl LateBar {
    /// Begins to count.
    pub fn new(what: &'static str) -> LateBar {
        LateBar { what, since: clock::now(), bar: None }
    }

    /// So many bytes are done.
    pub fn advance(&mut self, done: u64, total: u64) {
        if self.bar.is_none() && self.since.elapsed() < SHOWN_AFTER {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = bar(total, OVER_BYTES).with_elapsed(self.since.elapsed());
            bar.set_message(self.what);
            bar
        });
        bar.set_position(done);
    }

    /// Ends without a trace.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64, template: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(style(template).progress_chars("━━ "));
    bar
}

fn spinner(template: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style(template));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn style(template: &'static str) -> ProgressStyle {
    // A template that cannot be read would be a mistake in this file; the default is good enough for people.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The phases of a benchmark, one bar after the other.
#[derive(Default)]
pub struct BenchProgress {
    bar: Mutex<Option<ProgressBar>>,
}

impl BenchProgress {
    /// Nothing is shown any more, whichever way the run ended.
    pub fn clear(&self) {
        self.replace(None);
    }

    fn replace(&self, next: Option<ProgressBar>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
        *bar = next;
    }
}

impl Watch for BenchProgress {
    fn begin(&self, phase: Phase, total: Total) {
        let name = match phase {
            Phase::Fill => "loading",
            Phase::Settle => "waiting for background work",
            Phase::Warm => "warming up",
            Phase::Search => "finding the highest rate",
            Phase::Measure => "measuring",
        };
        let bar = match total {
            Total::Ops(n) | Total::Millis(n) => bar(n, OVER_OPS),
            Total::Open => spinner(OPEN_PHASE),
        };
        bar.set_prefix(name);
        self.replace(Some(bar));
    }

    fn advance(&self, done: u64, ops: u64) {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &*bar {
            let seconds = bar.elapsed().as_secs_f64().max(1e-3);
            bar.set_message(format!(
                "{} ops at {}/s",
                report::count(ops),
                report::rate(ops as f64 / seconds)
            ));
            bar.set_position(done);
        }
    }

    fn end(&self) {
        self.clear();
    }
}

/// A bar over so many things, with the time left.
pub struct CountBar(ProgressBar);

impl CountBar {
    /// Begins.
    pub fn start(count: u64, what: &'static str) -> CountBar {
        let bar = bar(count, OVER_COUNT);
        bar.set_message(what);
        CountBar(bar)
    }

    /// So many are through.
    pub fn advance_to(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Ends without a trace.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// A bar over the runs of a comparison.
pub struct RunsBar(ProgressBar);

impl RunsBar {
    /// Begins.
    pub fn start(runs: u64) -> RunsBar {
        let bar = bar(runs, OVER_RUNS);
        bar.enable_steady_tick(Duration::from_secs(1));
        RunsBar(bar)
    }

    /// Says what runs now.
    pub fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// One more is through.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// Ends without a trace.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_can_be_read() {
        for template in [OVER_BYTES, OVER_STREAM, OVER_OPS, OPEN_PHASE, OVER_RUNS, OVER_COUNT, WAITING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
