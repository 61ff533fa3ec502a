//! `keel explain`: why the store does what it does, and why operations were slow.

use crate::escape::one_line;
use crate::failure::Failure;
use crate::live::{argument, ask, follow};
use crate::output::Output;
use crate::store::{ReadArgs, Target};

/// See `keel explain --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What made operations slow in the last ten minutes, and when.
    #[arg(long, conflicts_with = "events")]
    slow: bool,
    /// Print the events of a running store as they happen, a line of JSON each.
    #[arg(long)]
    events: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel explain --db shop.db              open jobs, what comes next, and how near writers are to waiting
  keel explain --db shop.db --slow       which cause dominated when, and what to do about it
  keel explain --db shop.db --events     flushes, compactions and stalls as they happen

A store that another process has open is asked at its control socket: those of `keel shell`, `load` and `bench` have one,
others have it with `Builder::control_socket` or the option control_socket. What an operation waited for is remembered
by the process that did it, so --slow tells nothing of a store that is opened for the question.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if self.events {
            return follow(target);
        }
        let question = match self.slow {
            true => "slow".to_owned(),
            false => format!("explain {}", argument(&target.keyspace)),
        };
        let answer = ask(target, &self.read, &question)?.value();
        let mut out = Output::new();
        if self.json {
            return out.line(&answer.to_string());
        }
        let lines = answer["lines"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        for line in lines {
            let line = out.fitted(one_line(line));
            out.line(&line)?;
        }
        Ok(())
    }
}
