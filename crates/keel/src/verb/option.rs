//! `keel option list|set`: the settings of a store, what they mean, and how to change one for good.

use clap::Subcommand;
use evenkeel::{OptionInfo, Options};

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{EngineArgs, Target, open_db};

/// See `keel option --help`.
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
    /// List the options: of the store of --db the values in force, else the defaults.
    List,
    /// Change an option of a store. It holds until it is changed again, or a program opens the store with another value.
    Set {
        /// An option of `keel option list`, or RocksDB's word for it.
        name: String,
        /// Its value; sizes like 64MiB.
        value: String,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel option list
  keel option list --db shop.db
  keel option set --db shop.db memtable_bytes 16MiB
  keel option set --db shop.db write_buffer_size 16MiB    RocksDB's word, same option

`--set OPTION=VALUE` of the verbs that write does the same as `option set`, before they begin.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match &self.action {
            Action::List if target.db.is_none() => self.list(&Options::default()),
            Action::List => {
                let db = open_db(target, &EngineArgs::default())?;
                let options = db.options();
                db.close()?;
                self.list(&options)
            }
            Action::Set { name, value } => {
                // What cannot be is found before the store is opened.
                let mut options = Options::default();
                options.set(name, value).map_err(|error| Failure::usage(error.to_string()))?;
                let set = vec![format!("{name}={value}")];
                open_db(target, &EngineArgs { set, ..EngineArgs::default() })?.close()?;
                Ok(())
            }
        }
    }

    fn list(&self, options: &Options) -> Result<(), Failure> {
        let mut out = Output::new();
        let defaults = Options::default();
        if self.json {
            let rows: Vec<_> = Options::names().iter().map(|info| json(info, options, &defaults)).collect();
            return out.line(&serde_json::Value::Array(rows).to_string());
        }
        let width = Options::names().iter().map(|info| info.name.len()).max().unwrap_or(0);
        for info in Options::names() {
            let (value, default) = (info.value(options), info.value(&defaults));
            let changed = if value == default { String::new() } else { format!(" (default {default})") };
            out.line(&format!("{:<width$}  {value}{changed}\n{:<width$}    {}", info.name, "", info.what))?;
        }
        Ok(())
    }
}

fn json(info: &OptionInfo, options: &Options, defaults: &Options) -> serde_json::Value {
    serde_json::json!({
        "name": info.name,
        "value": info.value(options),
        "default": info.value(defaults),
        "live": info.live,
        "what": info.what,
    })
}
