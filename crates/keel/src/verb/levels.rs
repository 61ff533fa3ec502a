//! `keel levels`: the tree of a keyspace as a picture.

use crate::failure::Failure;
use crate::live::{argument, ask};
use crate::output::{Output, columns, is_coloured};
use crate::store::{ReadArgs, Target};
use crate::tree_view::{Style, draw};

/// See `keel levels --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print an object with the keyspace's name, its strategy, its levels and their runs.
    #[arg(long)]
    json: bool,
    /// Print the tables of each run in a line a level, instead of bars.
    #[arg(long, conflicts_with = "json")]
    tables: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel levels --db shop.db
  keel levels --db shop.db --keyspace prices

A level's bar is its bytes against its target, or its runs where those are what is counted; the hatched part is held by
compactions. Below a level by heat are its groups of keys, hot or cold, with the looks of a get into each. Then come its runs, newest first, with their first and last keys and where tombstones are. With --tables
the same in short:
  L0 T4 9[c-z] | 8[a-k]              tiering, up to four runs; here two of one table each
  L1 L 4[a-f] 5[g/j+-m] 6[n..z]      leveling: one run, of three tables
A table is NUMBER[FIRST KEY-LAST KEY]. Of `g/j+-m` all up to j is consumed; `n..z` deletes all from n to below z. A store that another process has open is asked at its control socket.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let report = ask(target, &self.read, &format!("levels {}", argument(&target.keyspace)))?.value();
        let mut out = Output::new();
        if self.json {
            return out.line(&report.to_string());
        }
        if self.tables {
            let picture = report["picture"].as_str().unwrap_or_default().trim_end();
            let picture = if picture.is_empty() { "no tables yet" } else { picture };
            return out.shown(&format!("{picture}\n"));
        }
        out.text(&draw(&report, Style { coloured: is_coloured(), columns: columns() }))
    }
}
