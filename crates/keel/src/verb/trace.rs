//! `keel trace record|replay|show FILE`: the operations of a running store in a file, done again elsewhere, looked at.

/// Doing it again.
mod replay;
/// Looking at it.
mod show;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Subcommand;
use evenkeel::fs::DiskFileSystem;
use evenkeel::trace::Trace;
use evenkeel_lab::base::clock;

use crate::failure::Failure;
use crate::live::{LiveTrace, argument, holder};
use crate::output::{Output, note};
use crate::store::{Target, existing};
use crate::tracing::summary_text;

/// How often a wait looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See `keel trace --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Have the process that has the store open record its operations into a new file.
    #[command(after_help = RECORD_HELP)]
    Record {
        /// The file to make.
        file: PathBuf,
        /// End after so long; else with Ctrl-C, or the end of stdin.
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        seconds: Option<f64>,
        /// Write a hash in each key's place.
        #[arg(long)]
        hash_keys: bool,
        /// Print what was recorded as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Do the operations of a trace again, at the times at which they were recorded.
    #[command(after_help = replay::HELP)]
    Replay(Box<replay::Args>),
    /// Print what a trace holds.
    Show(show::Args),
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel trace record --db shop.db today.trace --seconds 60     while another process has shop.db open
  keel trace show today.trace
  keel trace replay today.trace --db copy.db                  at the recorded times
  keel trace replay today.trace --db copy.db --speed 2 --report result
  keel trace replay today.trace --db copy.db --device 100MiB  on an emulated disk
  keel shell --db shop.db --trace today.trace                 a process records itself; keel bench does too

A trace has each operation's keyspace, key, length of value, begin and duration, and no values. docs/trace.md says what is
recorded, what a replay can hold to, and what hashed keys mean for it.";

const RECORD_HELP: &str = "\
The store must be open in a process that answers at its control socket, as `keel shell`, `keel bench` and programs with the
option control_socket=true do. That process writes the file. The trace also ends when the store is closed, or when this
command is killed.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match &self.action {
            Action::Record { file, seconds, hash_keys, json } => {
                record(target, file, *seconds, *hash_keys, *json)
            }
            Action::Replay(args) => args.run(target),
            Action::Show(args) => args.run(target),
        }
    }
}

fn record(
    target: &Target,
    file: &Path,
    seconds: Option<f64>,
    hash_keys: bool,
    json: bool,
) -> Result<(), Failure> {
    let dir = existing(target)?;
    let path = std::path::absolute(file)
        .map_err(|error| Failure::work(format!("cannot tell where {} is: {error}", file.display())))?;
    let name = path.to_str().ok_or_else(|| Failure::usage("the name of a trace must be UTF-8"))?;
    let keys = if hash_keys { "hashed" } else { "plain" };
    let Some(mut trace) = LiveTrace::begin(target, &format!("trace {keys} {}", argument(name)))? else {
        return Err(nobody(dir));
    };
    evenkeel_sys::catch_interrupt();
    let until = match seconds {
        Some(seconds) => format!("for {seconds} s"),
        None => "until Ctrl-C, or the end of stdin".to_owned(),
    };
    note(&format!("keel: recording into {} {until}", file.display()));
    if !is_over(&mut trace, seconds)? {
        return Err(Failure::work(format!(
            "the store was closed, and so was the trace; `keel trace show {}` shows it",
            file.display()
        )));
    }
    let summary = trace.end()?;
    let mut out = Output::new();
    if json { out.line(&summary.to_string()) } else { out.line(&summary_text(&summary)) }
}

fn nobody(dir: &Path) -> Failure {
    let dir = dir.display();
    match holder(Path::new(&dir.to_string())) {
        Some(who) => Failure::work(format!(
            "{who} has {dir} open and does not answer; with the option control_socket=true it would"
        )),
        None => Failure::work(format!(
            "nobody has {dir} open, so there is nothing to record; `keel shell --trace FILE` and `keel bench --trace \
             FILE` record themselves"
        )),
    }
}

/// Waits for the end that was asked for; false if the store was closed before.
fn is_over(trace: &mut LiveTrace, seconds: Option<f64>) -> Result<bool, Failure> {
    let began = clock::now();
    let ended = Arc::new(AtomicBool::new(false));
    if seconds.is_none() {
        let ended = Arc::clone(&ended);
        // It may wait for ever, and ends with the process.
        std::thread::Builder::new()
            .spawn(move || {
                drain_stdin();
                ended.store(true, Ordering::Relaxed);
            })
            .map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
    }
    loop {
        let left = seconds.map_or(LOOK_EVERY, |seconds| {
            Duration::from_secs_f64((seconds - began.elapsed().as_secs_f64()).max(0.0))
        });
        if left.is_zero() || evenkeel_sys::was_interrupted() || ended.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if !trace.lives(left.min(LOOK_EVERY))? {
            return Ok(false);
        }
    }
}

fn drain_stdin() {
    let (mut stdin, mut piece) = (io::stdin().lock(), [0; 4096]);
    // What cannot be read has ended.
    while stdin.read(&mut piece).is_ok_and(|n| n > 0) {}
}

/// Reads a trace.
pub fn read(file: &Path) -> Result<Trace, Failure> {
    Ok(Trace::read(&DiskFileSystem::new(), file)?)
}

/// A number of seconds above 0 that a clock can count.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
    seconds.ok_or_else(|| "give a number of seconds above 0".to_owned())
}
