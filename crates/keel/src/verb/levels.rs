//! `keel levels`: the tree of a keyspace as a picture, one line a level.

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Store, Target};

/// See `keel levels --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print an object with the keyspace's name, its strategy and the picture.
    #[arg(long)]
    json: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel levels --db shop.db
  keel levels --db shop.db --keyspace prices

The picture, newest data first:
  L0 T4 9[c-z] | 8[a-k]              tiering, up to four runs; here two of one table each
  L1 L 4[a-f] 5[g-m] 6[n-z]          leveling: one run, of three tables
A table is NUMBER[FIRST KEY-LAST KEY].";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let store = Store::open(target)?;
        let (name, picture) = (store.keyspace.name().to_owned(), store.keyspace.picture());
        let strategy = store.keyspace.strategy_text();
        store.close()?;
        let mut out = Output::new();
        if self.json {
            let object = serde_json::json!({ "keyspace": name, "strategy": strategy, "picture": picture });
            return out.line(&object.to_string());
        }
        out.line(if picture.trim().is_empty() { "no tables yet" } else { picture.trim_end() })
    }
}
