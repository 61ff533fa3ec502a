//! Runs layers, one after the other: shows how far each is, passes its line on, and keeps a seed that fails.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::fuzzing;
use super::layers::{How, LAYERS, Layer, Needs};
use super::lines::{self, Line};
use super::words::Run;

/// Where seeds that failed are kept.
pub const REGRESSIONS: &str = "regressions/seeds.txt";

/// The profile of cargo that layers are built with.
pub const PROFILE: &str = "trust";

/// Lines of a layer that are shown when it fails.
const LINES_KEPT: usize = 60;

/// How often a progress is told where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// The toolchain that has sanitizers.
pub const NIGHTLY: &str = "nightly";

/// How a layer ended.
#[derive(Debug)]
pub enum Outcome {
    /// Well; its line.
    Right(String),
    /// It could not be run here, and why.
    Skipped(String),
    /// With a failure.
    Wrong {
        /// The seed, if it said one.
        seed: Option<String>,
        /// What it was doing.
        doing: String,
        /// The last lines that it printed.
        last: Vec<String>,
    },
}

/// Names every layer, one a line.
pub fn list() {
    for layer in LAYERS {
        println!("{:<12} {}", layer.name, layer.about);
    }
}

/// Runs the layers.
///
/// # Errors
/// A sentence that names those that failed.
pub fn run(asked: &Run, root: &Path) -> Result<(), String> {
    let start = Instant::now();
    let (mut summary, mut failed) = (Vec::new(), Vec::new());
    for (i, layer) in asked.layers.iter().enumerate() {
        eprintln!("==> {} ({} of {}): {}", layer.name, i + 1, asked.layers.len(), layer.about);
        let began = Instant::now();
        let line = match run_layer(layer, asked.seed, Some(asked.soak), root)? {
            Outcome::Right(line) => format!("{line} seconds={:.1}", began.elapsed().as_secs_f64()),
            Outcome::Skipped(why) => format!("{} SKIPPED: {why}", layer.name),
            Outcome::Wrong { seed, doing, last } => {
                last.iter().for_each(|line| println!("{line}"));
                failed.push(layer.name);
                if let Some(seed) = &seed {
                    keep(root, layer.name, seed, &doing)?;
                }
                format!("{} FAILED seed={} {doing}", layer.name, seed.as_deref().unwrap_or("unknown"))
            }
        };
        println!("{line}");
        summary.push(line);
    }
    if summary.len() > 1 {
        println!("\n{}\nall in {:.0} s", summary.join("\n"), start.elapsed().as_secs_f64());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("{} failed; the seeds are in {REGRESSIONS}", failed.join(", "))),
    }
}

/// Runs one layer in the tree at `root`, and says how it ended. Without `soak` it is as short as in `cargo test`.
///
/// # Errors
/// Why it cannot be run at all: cargo does not start, or nothing builds.
pub fn run_layer(
    layer: &Layer,
    seed: Option<u64>,
    soak: Option<u64>,
    root: &Path,
) -> Result<Outcome, String> {
    match layer.how {
        How::Test { package, target, test } => {
            let mut build = cargo(root);
            build.args(["test", "--quiet", "--profile", PROFILE, "-p", package]).args(target);
            let built = build.arg("--no-run").status().map_err(|error| format!("cargo: {error}"))?;
            if !built.success() {
                return Err(format!("{package} does not build"));
            }
            let mut command = cargo(root);
            command.args(["test", "--quiet", "--profile", PROFILE, "-p", package]).args(target);
            command.args(["--", "--exact", "--nocapture", "--include-ignored", test]);
            command.env("EVENKEEL_PROGRESS", "1");
            drawn(&mut command, seed, soak);
            watch(layer.name, command)
        }
        How::Flagged { cargo: words, flags, needs } => {
            if let Some(why) = missing(needs, root) {
                return Ok(Outcome::Skipped(why));
            }
            let mut command = if needs == Needs::Nightly { nightly_cargo(root) } else { cargo(root) };
            drawn(&mut command, seed, soak);
            command.args(words);
            if let Some(flags) = flags {
                command.env("RUSTFLAGS", flags);
            }
            watch(layer.name, command)
        }
        How::Fuzz => fuzzing::run(layer.name, seed, soak, root),
    }
}

/// Tells a layer which seed it begins with, and how many times longer it is.
fn drawn(command: &mut Command, seed: Option<u64>, soak: Option<u64>) {
    if let Some(soak) = soak {
        command.env("EVENKEEL_SOAK", soak.to_string());
    }
    if let Some(seed) = seed {
        command.env("EVENKEEL_SEED", seed.to_string());
    }
}

/// What is needed and not there.
fn missing(needs: Needs, root: &Path) -> Option<String> {
    match needs {
        Needs::Nightly if !answers(nightly_cargo(root)) => {
            Some(format!("there is no {NIGHTLY} toolchain (rustup toolchain install {NIGHTLY})"))
        }
        Needs::Valgrind if !answers(Command::new("valgrind")) => {
            Some("valgrind is not installed (apt-get install valgrind)".to_owned())
        }
        _ => None,
    }
}

/// True if a program is there.
fn answers(mut command: Command) -> bool {
    let asked = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// The other toolchain's cargo, by way of rustup.
fn nightly_cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).env("RUSTUP_TOOLCHAIN", NIGHTLY);
    for name in ["CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end and reads what it prints.
fn watch(name: &str, mut command: Command) -> Result<Outcome, String> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{name} cannot be started: {error}"))?;
    let complaints = complaints(&mut child);
    let mut seen = Seen::default();
    let mut progress = Progress::new();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let Ok(line) = line else { continue };
        match lines::read(name, &line) {
            Line::Progress(done, all) => progress.show(name, done, all),
            Line::Figures(figures) => seen.figures = Some(figures.to_owned()),
            Line::Failed { seed, doing } => seen.failed = Some((seed.to_owned(), doing.to_owned())),
            Line::Passed(tests) => seen.tests += tests,
            Line::Other => kept(&mut seen.last, &line),
        }
    }
    progress.clear();
    let status = child.wait().map_err(|error| format!("{name}: {error}"))?;
    let mut last: Vec<String> = seen.last.into();
    last.extend(complaints.join().unwrap_or_default());
    if !status.success() {
        let (seed, doing) = seen.failed.map_or((None, String::new()), |(seed, doing)| (Some(seed), doing));
        return Ok(Outcome::Wrong { seed, doing, last });
    }
    match seen.figures {
        Some(figures) if figures.contains("skipped=") => {
            Ok(Outcome::Skipped(format!("{figures}; {}", last.join(" "))))
        }
        Some(figures) => Ok(Outcome::Right(figures)),
        None if seen.tests > 1 => Ok(Outcome::Right(format!("{name} tests={} seed=0", seen.tests))),
        None => Ok(Outcome::Wrong { seed: None, doing: "it printed no figures".to_owned(), last }),
    }
}

#[derive(Default)]
struct Seen {
    figures: Option<String>,
    failed: Option<(String, String)>,
    tests: u64,
    last: VecDeque<String>,
}

fn kept(last: &mut VecDeque<String>, line: &str) {
    if line.trim().is_empty() {
        return;
    }
    if last.len() == LINES_KEPT {
        last.pop_front();
    }
    last.push_back(line.to_owned());
}

/// Reads the other stream meanwhile, so that nobody waits for it to be read.
fn complaints(child: &mut Child) -> std::thread::JoinHandle<Vec<String>> {
    let stream = child.stderr.take();
    std::thread::spawn(move || {
        let mut last = VecDeque::new();
        for line in stream.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            kept(&mut last, &line);
        }
        last.into()
    })
}

/// How far a layer is, for people.
struct Progress {
    began: Instant,
    told: Instant,
    is_terminal: bool,
}

impl Progress {
    fn new() -> Progress {
        let now = Instant::now();
        Progress { began: now, told: now, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, name: &str, done: u64, all: u64) {
        if done == 0 || (!self.is_terminal && self.told.elapsed() < TOLD_EVERY) {
            return;
        }
        self.told = Instant::now();
        let left = self.began.elapsed().as_secs_f64() * all.saturating_sub(done) as f64 / done as f64;
        let text = format!("    {name} {:>3} %, {left:.0} s left", done * 100 / all.max(1));
        match self.is_terminal {
            true => eprint!("\r\x1b[K{text}"),
            false => eprintln!("{text}"),
        }
        let _ = std::io::stderr().flush();
    }

    fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// Adds a seed to those that are tried first, unless it is among them.
fn keep(root: &Path, name: &str, seed: &str, doing: &str) -> Result<(), String> {
    let path = root.join(REGRESSIONS);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{REGRESSIONS}: {error}"))?;
    if let Some(text) = with_seed(&text, name, seed, doing) {
        std::fs::write(&path, text).map_err(|error| format!("{REGRESSIONS}: {error}"))?;
    }
    Ok(())
}

/// The text with one more line; nothing if the seed is there.
fn with_seed(text: &str, name: &str, seed: &str, doing: &str) -> Option<String> {
    let is_known = |line: &str| line.split_whitespace().take(2).eq([name, seed]);
    let doing: String = doing.chars().take(120).collect();
    (!text.lines().any(is_known)).then(|| format!("{text}{name} {seed} {doing}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_kept_once() {
        let text = "# Seeds\ncrash 0x11 call 3\n";
        assert_eq!(with_seed(text, "crash", "0x11", "call 4"), None);
        let more = with_seed(text, "fault", "0x11", "the third read").unwrap();
        assert_eq!(more, "# Seeds\ncrash 0x11 call 3\nfault 0x11 the third read\n");
    }
}
