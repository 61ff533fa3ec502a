//! What the layers of `cargo xtask trust` share: the seeds they run, the line they print, and a word about how far they are.
//!
//! ```text
//! EVENKEEL_SEED=N   the first seed        regressions/seeds.txt ─┐
//! EVENKEEL_SOAK=N   not short, N times     EVENKEEL_SEED … ──────┴─► seeds() ─► attempt(seed) ─► report() or FAILED
//! ```
//! A layer is a test, so `cargo test` runs the short form of it. Seeds that once failed are tried first, by everybody.
#![allow(dead_code, reason = "the command's layers, which are another binary, do not need all of it")]

use std::fmt::{Arguments, Display};
use std::io::Write;

/// Seeds that have failed, one a line: layer, seed, what it was.
const REGRESSIONS: &str = include_str!("../../../../regressions/seeds.txt");

/// A layer in this run.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    name: &'static str,
    first: u64,
    /// Nothing in the short form.
    soak: Option<u64>,
    is_seed_given: bool,
}

/// The layer of this name, which is as in `cargo xtask trust --list`.
pub fn layer(name: &'static str) -> Layer {
    let number = |variable| std::env::var(variable).ok().map(|text| number(&text).expect(variable));
    let seed = number("EVENKEEL_SEED");
    let soak = number("EVENKEEL_SOAK").map(|soak| soak.max(1));
    Layer { name, first: seed.unwrap_or(1), soak, is_seed_given: seed.is_some() }
}

impl Layer {
    /// False in the short form, which is what `cargo test` runs.
    pub fn is_full(&self) -> bool {
        self.soak.is_some()
    }

    /// False if somebody asks for a seed, of which nobody knows what it reaches.
    pub fn has_usual_seeds(&self) -> bool {
        !self.is_seed_given
    }

    /// How many times longer than usual this run is to be.
    pub fn soak(&self) -> u64 {
        self.soak.unwrap_or(1)
    }

    /// Seeds that have failed before, then `count` of this run for each time that it is longer. A seed that is asked for is
    /// tried alone, unless the run is to be longer.
    pub fn seeds(&self, count: u64) -> Vec<u64> {
        let count = if self.is_seed_given { self.soak() } else { count * self.soak() };
        let known = if self.is_seed_given { Vec::new() } else { regressions(self.name) };
        known.into_iter().chain((0..count).map(|i| self.first.wrapping_add(i))).collect()
    }

    /// Something is tried with this seed; if it panics, the seed is said and what was done last.
    pub fn attempt(&self, seed: u64) -> Attempt {
        Attempt { name: self.name, seed, doing: String::new() }
    }

    /// So much is done, of all that there is to do.
    pub fn progress(&self, done: u64, all: u64) {
        if std::env::var_os("EVENKEEL_PROGRESS").is_some() {
            say(format_args!("PROGRESS {done} {all}"));
        }
    }

    /// The layer's one line, past what the test's harness captures, so that every run shows it.
    pub fn report(&self, figures: Arguments<'_>) {
        say(format_args!("{} {figures} seed={}", self.name, self.first));
    }
}

/// What is being tried.
pub struct Attempt {
    name: &'static str,
    seed: u64,
    doing: String,
}

impl Attempt {
    /// What is done now, in one line.
    pub fn doing(&mut self, what: impl Display) {
        self.doing.clear();
        self.doing.push_str(&what.to_string());
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (name, seed, doing) = (self.name, self.seed, &self.doing);
            say(format_args!("FAILED {name} seed={seed} {doing}"));
        }
    }
}

/// The seeds of a layer that have failed before.
fn regressions(name: &str) -> Vec<u64> {
    let lines = REGRESSIONS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_this = words.filter(|words| words[0] == name);
    of_this.map(|words| number(words[1]).expect("a seed stands second in regressions/seeds.txt")).collect()
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn say(line: Arguments<'_>) {
    // A name of a test may stand in the line already.
    let _ = std::io::stdout().write_all(format!("\n{line}\n").as_bytes());
}
