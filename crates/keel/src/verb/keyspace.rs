//! `keel keyspace list|create|drop`: the parts of a store that have trees of their own (column families).

use clap::Subcommand;
use evenkeel::{KeyspaceOptions, Options};

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Target, check_strategy, create_db, open_db};

/// See `keel keyspace --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the keyspaces.
    List,
    /// Create a keyspace; creates the store if there is none.
    Create {
        /// Its name.
        name: String,
        /// How its tree is compacted: a name of `keel strategy list`, or a strategy's text.
        #[arg(long)]
        strategy: Option<String>,
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
  keel keyspace list --db shop.db
  keel put --db shop.db --keyspace prices apple 1.20
  keel keyspace drop --db shop.db prices

The keyspace `default` is always there.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let mut out = Output::new();
        match &self.action {
            Action::List => {
                let db = open_db(target, Options::default())?;
                let names = db.keyspaces();
                db.close()?;
                if self.json {
                    return out.line(&serde_json::Value::from(names).to_string());
                }
                names.iter().try_for_each(|name| out.line(name))
            }
            Action::Create { name, strategy } => {
                if let Some(strategy) = strategy {
                    check_strategy(strategy)?;
                }
                let db = create_db(target, Options::default())?;
                let mut options = KeyspaceOptions::default();
                options.strategy.clone_from(strategy);
                db.create_keyspace(name, options)?;
                self.done(db, &mut out)
            }
            Action::Drop { name } => {
                let db = open_db(target, Options::default())?;
                db.drop_keyspace(name)?;
                self.done(db, &mut out)
            }
        }
    }

    fn done(&self, db: evenkeel::Db, out: &mut Output) -> Result<(), Failure> {
        db.close()?;
        if self.json { out.line("{\"ok\":true}") } else { Ok(()) }
    }
}
