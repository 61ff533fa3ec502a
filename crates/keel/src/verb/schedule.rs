//! `keel schedule list|show|set|fit`: when background work may run.

/// Weights for what is estimated by operations.
mod fit;

use clap::Subcommand;
use evenkeel_lab::results::report::bytes;

use super::ActionArgs;
use crate::failure::Failure;
use crate::live::{Answered, ask, tell};
use crate::output::Output;
use crate::store::{EngineArgs, ReadArgs, Target, check_schedule};

/// See `keel schedule --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the schedules.
    List {
        /// List the knobs that stand after a name instead: all there are, or those that a schedule has a use for.
        #[arg(long, value_name = "SCHEDULE", num_args = 0..=1, default_missing_value = "")]
        knobs: Option<String>,
    },
    /// Print the schedule of a store, and what it makes of the load.
    Show {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Change the schedule of a store, at once and for good.
    Set {
        /// A name of `keel schedule list`, with its rate or knobs: fixed:50MiB, silk, silk:floor=20%,every=20ms.
        schedule: String,
    },
    /// Look at a store that another process has open, and print the weights by which its gets and scans tell what it reads.
    Fit {
        /// For how long.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=86_400))]
        seconds: u64,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel schedule list
  keel schedule show --db shop.db
  keel schedule list --knobs silk
  keel schedule set --db shop.db fixed:50MiB
  keel schedule set --db shop.db dlc-burst-part:burst-runs=12
  keel schedule fit --db shop.db --seconds 60     weights for the knob estimator=weighted@GET@SCAN; while a schedule that
                                                  counts gets and scans is set, such as dlc-full:estimator=weighted@1@1

Schedules that share the device with clients need its speed: the option device_bytes_per_sec, or else it is measured
by writing for 0.3 s, longer where 8 MiB take longer (not with device_test=false). With direct_flush or
direct_compaction it is kept up to date by what background work shows of it; on a busy device less is measured than
it does.
A store that another process has open is asked at its control socket, and follows from the next step on.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        target.without_keyspace("schedule")?;
        let answer = match &self.action {
            Action::List { knobs: None } => return self.table(evenkeel::schedule::catalog(), "explanation"),
            Action::List { knobs: Some(schedule) } => return self.knobs(schedule),
            Action::Show { read } => ask(target, read, "schedule")?,
            Action::Fit { seconds } => return fit::run(target, *seconds, self.json),
            Action::Set { schedule } => {
                check_schedule(schedule)?;
                // Opened with it, as the one that the store remembers may be refused by now.
                let engine = EngineArgs { schedule: Some(schedule.clone()), ..EngineArgs::default() };
                tell(target, &format!("set-schedule {schedule}"), &engine)?
            }
        };
        let is_open = matches!(answer, Answered::Live(_));
        let looks_only = matches!(&self.action, Action::Show { read } if read.read_only);
        let (mut answer, mut out) = (answer.value(), Output::new());
        answer["live"] = is_open.into();
        if self.json {
            return out.line(&answer.to_string());
        }
        out.line(answer["text"].as_str().unwrap_or_default())?;
        if let Some(note) = answer["note"].as_str() {
            out.line(&format!("note: {note}"))?;
        }
        match now(&answer["now"]) {
            None => Ok(()),
            Some(now) if is_open => out.line(&now),
            Some(_) if looks_only => {
                out.line("a process that has the store open is asked without --read-only what it does now")
            }
            Some(_) => out.line("nobody has the store open, so nothing is limited or delayed now"),
        }
    }

    /// All of them, or those of a schedule.
    fn knobs(&self, schedule: &str) -> Result<(), Failure> {
        if schedule.is_empty() {
            return self.table(evenkeel::schedule::knobs(), "takes");
        }
        let knobs =
            evenkeel::schedule::knobs_of(schedule).map_err(|error| Failure::usage(error.to_string()))?;
        if knobs.is_empty() && !self.json {
            return Output::new().line("it takes a rate after `:`, like fixed:50MiB, and no knobs");
        }
        self.table(&knobs, "takes")
    }

    fn table(&self, rows: &[(&str, &str)], second: &str) -> Result<(), Failure> {
        let mut out = Output::new();
        if self.json {
            let row = |(name, about): &(&str, &str)| serde_json::json!({ "name": name, second: about });
            return out.line(&serde_json::Value::Array(rows.iter().map(row).collect()).to_string());
        }
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, about): &(&str, &str)| format!("{name:<width$}  {about}\n");
        out.shown(&rows.iter().map(line).collect::<String>())
    }
}

/// What a schedule that looks at the load makes of it.
fn now(answer: &serde_json::Value) -> Option<String> {
    let rate = |name: &str| answer[name].as_u64().map(|n| format!("{}/s", bytes(n)));
    let limit = rate("limit_bytes_per_sec");
    let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit}"));
    let Some(client) = rate("client_bytes_per_sec") else {
        // A limit that looks at no load: what the part of a device, or tuning, comes to.
        let name = answer["name"].as_str().unwrap_or_default();
        let limits = ["autotuned", "fixed"].iter().any(|limit| name.starts_with(limit));
        return limits.then(|| format!("compactions have {limit}"));
    };
    let load = answer["load"].as_str().map_or_else(String::new, |load| format!("load {load}: "));
    let device = rate("device_bytes_per_sec").map_or_else(String::new, |speed| format!(" of {speed}"));
    let flushes = answer["flush_limit_bytes_per_sec"].as_u64();
    let flushes = flushes.map_or_else(String::new, |rate| format!(", flushes {}/s", bytes(rate)));
    let urgent = if answer["urgent"] == true { ", and is urgent" } else { "" };
    Some(format!("{load}clients use {client}{device}, background work has {limit}{flushes}{urgent}"))
}
