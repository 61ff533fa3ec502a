//! What is seen while the demo runs: how long it still takes, and the latencies of each second as they come, a line a schedule.
//!
//! ```text
//! unlimited       ▂▂▆████▇▂▂▂▂   worst p99 4.1 s
//! silk            ▂▂▃▃▂
//! silk  ━━━━━━━━━━━━━━━━━━━━━━━━           measuring, 48 s left
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_lab::base::clock;
use evenkeel_lab::demo::{latency_line, line_of};
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report::micros;
use evenkeel_lab::run::phase::{Phase, Total, Watch};
use evenkeel_lab::run::recorder::Window;
use evenkeel_lab::verdicts::experiment::Take;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a run takes beside its measurement: opening, reading everything once, settling.
const BESIDE_SECONDS: f64 = 4.0;
/// What making the store takes, about.
const PREPARING_SECONDS: f64 = 15.0;
const TEMPLATE: &str = "{msg}\n{prefix:15} {wide_bar}";
const REDRAWN_EVERY: Duration = Duration::from_millis(200);

/// See the file's header. Nothing is drawn if stderr is no terminal.
pub struct DemoProgress {
    bar: ProgressBar,
    run_seconds: f64,
    state: Mutex<State>,
}

struct State {
    since: Instant,
    name: String,
    phase: &'static str,
    /// This run and those after it.
    left: usize,
    line: String,
    /// What the runs before took, in seconds.
    took: Option<f64>,
    expected: f64,
}

impl DemoProgress {
    /// Begins; each schedule is measured for so long.
    pub fn start(seconds: f64) -> DemoProgress {
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━━ "));
        bar.enable_steady_tick(REDRAWN_EVERY);
        let state = State {
            since: clock::now(),
            name: String::new(),
            phase: "",
            left: 0,
            line: String::new(),
            took: None,
            expected: PREPARING_SECONDS,
        };
        DemoProgress { bar, run_seconds: seconds, state: Mutex::new(state) }
    }

    /// The next run begins; with it so many are left.
    pub fn next(&self, name: &str, left: usize) {
        let mut state = self.state();
        if !state.name.is_empty() {
            state.took = Some(state.since.elapsed().as_secs_f64()).filter(|_| state.name != "preparing");
            state.expected = state.took.unwrap_or(self.run_seconds + BESIDE_SECONDS);
        }
        state.name = name.to_owned();
        (state.since, state.left) = (clock::now(), left);
        state.line.clear();
        self.draw(&state);
    }

    /// A run is through: its line stays.
    pub fn shown(&self, name: &str, document: &Document) {
        let worst = Take::WorstSecond.of(document).map_or_else(|| "not known".to_owned(), micros);
        self.bar.println(format!("{name:15} {}   worst p99 of a second: {worst}", line_of(document)));
    }

    /// Ends without a trace but for the lines.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&self, state: &State) {
        let elapsed = state.since.elapsed().as_secs_f64();
        let usual = state.took.unwrap_or(self.run_seconds + BESIDE_SECONDS);
        let left = (state.expected - elapsed).max(1.0) + usual * state.left.saturating_sub(1) as f64;
        self.bar.set_prefix(state.name.clone());
        self.bar.set_position((elapsed / state.expected * 1000.0).min(1000.0) as u64);
        self.bar.set_message(format!(
            "{:15} {:<26} {}, about {left:.0} s left",
            state.name, state.line, state.phase
        ));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for DemoProgress {
    fn begin(&self, phase: Phase, _: Total) {
        let mut state = self.state();
        state.phase = match phase {
            Phase::Fill => "loading",
            Phase::Settle => "waiting for background work",
            Phase::Warm => "warming up",
            Phase::Search => "finding the highest rate",
            Phase::Measure => "measuring",
        };
        self.draw(&state);
    }

    fn advance(&self, _: u64, _: u64) {
        self.draw(&self.state());
    }

    fn seconds(&self, windows: &[Window]) {
        let last = windows.last().map_or(0, |window| window.second + 1);
        let of =
            |second| windows.iter().find(|window| window.second == second).and_then(|window| window.p99_us);
        let mut state = self.state();
        state.line = latency_line(&(0..last).map(of).collect::<Vec<_>>());
        self.draw(&state);
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_can_be_read() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
