//! `keel explain`: why the store does what it does, and why operations were slow.

use serde_json::Value;

use crate::answer::array;
use crate::escape::one_line;
use crate::failure::Failure;
use crate::live::{argument, ask, follow};
use crate::output::Output;
use crate::store::{ReadArgs, Target};

/// See `keel explain --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Say all there is to say about the compaction with this number: why it was decided, instead of what, and what it cost.
    #[arg(value_name = "JOB", conflicts_with_all = ["slow", "events", "last"])]
    job: Option<u64>,
    /// How many of the last compactions to list.
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with_all = ["slow", "events"])]
    last: usize,
    /// What made operations slow in the last ten minutes, and when.
    #[arg(long, conflicts_with = "events")]
    slow: bool,
    /// Print the events of a running store as they happen, a line of JSON each.
    #[arg(long, conflicts_with = "read_only")]
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
  keel explain --db shop.db 17           why job 17 was decided, instead of what, and what it cost
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
        let keyspace = argument(&target.keyspace);
        let question = match (self.job, self.slow) {
            (Some(job), _) => format!("decision {job}"),
            (None, true) => "slow".to_owned(),
            (None, false) => format!("explain {keyspace}"),
        };
        let mut answer = ask(target, &self.read, &question)?.value();
        let mut last = Value::Null;
        if self.job.is_none() && !self.slow && self.last > 0 {
            last = ask(target, &self.read, &format!("decisions {keyspace} {}", self.last))?.value();
        }
        let mut out = Output::new();
        if self.json {
            if !last.is_null() {
                answer["decisions"] = last["decisions"].take();
            }
            return out.line(&answer.to_string());
        }
        print(&mut out, &answer, "")?;
        if array(&last, "/lines").next().is_some() {
            out.line("\nThe last compactions; `keel explain JOB` says all about one:")?;
            print(&mut out, &last, "  ")?;
        }
        Ok(())
    }
}

/// The lines of an answer.
fn print(out: &mut Output, answer: &Value, indent: &str) -> Result<(), Failure> {
    for line in array(answer, "/lines").filter_map(Value::as_str) {
        let line = out.fitted(format!("{indent}{}", one_line(line)));
        out.line(&line)?;
    }
    Ok(())
}
