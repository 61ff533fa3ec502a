//! `keel schedule list|show|set`: when background work may run.

use clap::Subcommand;

use super::ActionArgs;
use crate::failure::Failure;
use crate::live::{ask, tell};
use crate::output::Output;
use crate::store::{ReadArgs, Target, check_schedule};

/// See `keel schedule --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the schedules.
    List,
    /// Print the schedule of a store.
    Show {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Change the schedule of a store, at once and for good.
    Set {
        /// `unlimited`, or `fixed:RATE` in bytes per second, like fixed:50MiB.
        schedule: String,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel schedule list
  keel schedule show --db shop.db
  keel schedule set --db shop.db fixed:50MiB

A store that another process has open is asked at its control socket, and follows from the next step on.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let answer = match &self.action {
            Action::List => return self.list(),
            Action::Show { read } => ask(target, read, "schedule")?.value(),
            Action::Set { schedule } => {
                check_schedule(schedule)?;
                tell(target, &format!("set-schedule {schedule}"))?
            }
        };
        let mut out = Output::new();
        if self.json {
            out.line(&answer.to_string())
        } else {
            out.line(answer["text"].as_str().unwrap_or_default())
        }
    }

    fn list(&self) -> Result<(), Failure> {
        let mut out = Output::new();
        let rows = evenkeel::schedule::catalog();
        if self.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|(name, about)| serde_json::json!({ "name": name, "explanation": about }))
                .collect();
            return out.line(&serde_json::Value::Array(rows).to_string());
        }
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, about): &(&str, &str)| format!("{name:<width$}  {about}\n");
        out.shown(&rows.iter().map(line).collect::<String>())
    }
}
