//! `keel keyspace list|create|drop`: the parts of a store that have trees of their own (column families).

use clap::Subcommand;
use evenkeel::KeyspaceOptions;

use super::ActionArgs;
use crate::escape::one_line;
use crate::failure::Failure;
use crate::live::ask;
use crate::output::Output;
use crate::store::{EngineArgs, ReadArgs, Target, check_strategy, create_db, done, open_db};

/// See `keel keyspace --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the keyspaces.
    List {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Create a keyspace; creates the store if there is none.
    Create {
        /// Its name.
        name: String,
        /// How its tree is compacted: a name of `keel strategy list`, or a strategy's text.
        #[arg(long)]
        strategy: Option<String>,
        /// Without a log: faster to write, and a crash loses what was written since its last flush. For good.
        #[arg(long)]
        no_wal: bool,
    },
    /// Drop a keyspace and all its records.
    Drop {
        /// Its name.
        name: String,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel keyspace create --db shop.db prices --strategy tier
  keel keyspace create --db shop.db views --no-wal
  keel keyspace list --db shop.db
  keel put --db shop.db --keyspace prices apple 1.20
  keel keyspace drop --db shop.db prices

The keyspace `default` is always there.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        target.without_keyspace("keyspace")?;
        match &self.action {
            Action::List { read } => {
                let mut out = Output::new();
                let names = &ask(target, read, "keyspaces")?.value()["keyspaces"];
                if self.json {
                    return out.line(&names.to_string());
                }
                let mut names = names.as_array().into_iter().flatten().filter_map(|name| name.as_str());
                names.try_for_each(|name| out.line(&one_line(name)))
            }
            Action::Create { name, strategy, no_wal } => {
                if let Some(strategy) = strategy {
                    check_strategy(strategy)?;
                }
                let db = create_db(target, &EngineArgs::default())?;
                let mut options = KeyspaceOptions { no_wal: *no_wal, ..KeyspaceOptions::default() };
                options.strategy.clone_from(strategy);
                db.create_keyspace(name, options)?;
                db.close()?;
                done(self.json)
            }
            Action::Drop { name } => {
                let db = open_db(target, &EngineArgs::default())?;
                db.drop_keyspace(name)?;
                db.close()?;
                done(self.json)
            }
        }
    }
}
