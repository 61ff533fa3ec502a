//! The command `keel`: one verb a file, flags and action together (`verb/`).
//!
//! ```text
//! main.rs ─► main ─► verb::Verb ─► verb/X.rs { Args, run } ─► store.rs ─► evenkeel
//!                                              └─► output.rs, failure.rs: what people and scripts see
//! ```
//!
//! Exit 0: done. Exit 1: the work failed, or a key is not there. Exit 2: wrong usage. Errors are one line on stderr that
//! says what to do. A library only so that fuzz targets reach what reads people's files and lines (`decoders.rs`).
#![forbid(unsafe_code)]

mod answer;
mod child;
mod escape;
mod failure;
mod files;
mod output;
mod wrap;

mod tsv;

mod records;

mod csv_records;
mod ndjson_records;

mod device;
mod loop_device;
mod store;
mod strategy_file;
mod strategy_table;
mod throttle;

mod live;
mod stats_view;
mod tree_view;

mod evenkeel_engine;
mod progress;
mod stoppable;
mod tracing;

mod shell_command;

#[doc(hidden)]
pub mod decoders;

mod verb;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser};

use crate::failure::Failure;
use crate::store::Target;
use crate::verb::Verb;

/// A key-value store that stays on an even keel: load, read, inspect, compact, verify and bench it.
#[derive(Debug, Parser)]
#[command(name = "keel", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  keel put --db shop.db apple 3          write a record; the store is created
  keel get --db shop.db apple            read it
  keel load --db shop.db prices.tsv      load a file of KEY<TAB>VALUE lines
  keel bench ycsb-a                      measure this machine

Exit codes: 0 done, 1 failed or not there, 2 wrong usage.";

/// What the help of a verb says nothing of, because the verb refuses it.
const REFUSED: [(&str, &[&str]); 9] = [
    ("repair", &["keyspace"]),
    ("inspect", &["db", "keyspace"]),
    ("audit", &["keyspace"]),
    ("option", &["keyspace"]),
    ("schedule", &["keyspace"]),
    ("keyspace", &["keyspace"]),
    ("demo", &["db", "keyspace"]),
    ("sim", &["db"]),
    ("lab", &["db", "keyspace"]),
];

/// All flags. `-1` is a value wherever one is wanted, so that what is wrong with it is said.
fn command() -> Command {
    // What holds for all verbs is copied to each by `build`.
    let mut command = with_negative_numbers(Cli::command());
    command.build();
    REFUSED
        .iter()
        .fold(command, |command, (verb, refused)| command.mut_subcommand(verb, |verb| without(verb, refused)))
}

fn with_negative_numbers(verb: Command) -> Command {
    let takes_them = |arg: Arg| {
        let has_value = arg.get_action().takes_values();
        if has_value { arg.allow_negative_numbers(true) } else { arg }
    };
    verb.mut_args(takes_them).mut_subcommands(with_negative_numbers)
}

fn without(verb: Command, refused: &[&str]) -> Command {
    let is_refused = |arg: &Arg| refused.contains(&arg.get_id().as_str());
    verb.mut_args(|arg| if is_refused(&arg) { arg.hide(true) } else { arg })
        .mut_subcommands(|action| without(action, refused))
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let result = match parsed {
        Ok(cli) => cli.verb.run(&cli.target),
        Err(error) => explain(&error),
    };
    match result {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Absent) => ExitCode::from(1),
        Err(Failure::Work(message)) => complain(&message, 1),
        Err(Failure::Damaged(message)) => {
            complain(&format!("{message}; `keel verify` lists all damaged tables"), 1)
        }
        Err(Failure::Locked { hint, dir }) => {
            let holder = live::holder(&dir).unwrap_or_else(|| "another process".to_owned());
            let dir = dir.display();
            complain(&format!("{holder} has {dir} open (it holds {dir}/LOCK); {hint}"), 1)
        }
        Err(Failure::Usage(message)) => complain(&message, 2),
    }
}

/// Help goes to stdout as it is; a usage error becomes one line.
fn explain(error: &clap::Error) -> Result<(), Failure> {
    if !error.use_stderr() {
        return output::Output::new().wrapped(&error.render().to_string());
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(Failure::Usage(match verb_of(&error.render().to_string()) {
            Some(verb) => format!("say what `keel {verb}` is to do; `keel {verb} --help` lists what it can"),
            None => "say what to do, for instance `keel get`; `keel --help` lists the verbs".to_owned(),
        }));
    }
    let text = error.render().to_string();
    // The first paragraph says what is wrong, the others repeat the usage.
    let first = text.split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    // The parser's words for programs.
    let line = line.replace("invalid digit found in string", "give a whole number");
    let line = line.replace("is not in 1..18446744073709551615", "is less than 1");
    let tip = text.split("\n\n").map(str::trim).find_map(|part| part.strip_prefix("tip: "));
    let tip = tip.map_or_else(String::new, |tip| format!("; {}", tip.lines().next().unwrap_or_default()));
    Err(Failure::Usage(format!("{line}{tip}; `--help` shows what is possible")))
}

/// The verb that a help text is of; nothing if it is that of the command.
fn verb_of(help: &str) -> Option<&str> {
    let usage = help.lines().find_map(|line| line.trim_start().strip_prefix("Usage: "))?;
    usage.split_whitespace().nth(1).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
}

fn complain(message: &str, code: u8) -> ExitCode {
    output::note(&format!("keel: {}", escape::one_line(message)));
    ExitCode::from(code)
}
