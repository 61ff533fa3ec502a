//! `keel option list|set`: the settings of a store, what they mean, and how to change one for good.

use clap::Subcommand;
use evenkeel::{OptionInfo, Options};
use serde_json::Value;

use super::ActionArgs;
use super::audit::warn_of_short_ttls;
use crate::failure::Failure;
use crate::live::{argument, ask, ask_running, parse, with_socket};
use crate::output::Output;
use crate::store::{EngineArgs, ReadArgs, Target, check_schedule, done, open_db};

/// See `keel option --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the options: of the store of --db the values in force, else the defaults.
    List {
        #[command(flatten)]
        read: ReadArgs,
    },
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

A store that another process has open is asked, and told, at its control socket: it changes at once. `--set OPTION=VALUE` of the verbs that write holds for
that command only.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        target.without_keyspace("option")?;
        match &self.action {
            Action::List { .. } if target.db.is_none() => self.list(&defaults()),
            Action::List { read } => {
                let mut answer = ask(target, read, "options")?.value();
                self.list(answer["options"].as_array_mut().map(std::mem::take).unwrap_or_default().as_slice())
            }
            Action::Set { name, value } => {
                // What cannot be is found before the store is opened.
                let mut options = Options::default();
                options.set(name, value).map_err(|error| Failure::usage(error.to_string()))?;
                check_schedule(&options.schedule)?;
                let question = format!("set-option {} {value}", argument(name));
                if ask_running(target, &question)?.is_some() {
                    if let Some(audit) = ask_running(target, "audit-deletes")? {
                        warn_of_short_ttls(&audit, None);
                    }
                    return done(self.json);
                }
                let set = vec![format!("{name}={value}")];
                let engine = EngineArgs { set, remember: true, ..EngineArgs::default() };
                let db = open_db(target, &engine).map_err(with_socket)?;
                // On a disk without room for that it opens, and remembers nothing.
                db.sync()?;
                // With another schedule rewriting may take longer than deletes have.
                warn_of_short_ttls(&parse(&db.control("audit-deletes")?)?, None);
                db.close()?;
                done(self.json)
            }
        }
    }

    fn list(&self, rows: &[Value]) -> Result<(), Failure> {
        let mut out = Output::new();
        if self.json {
            return out.line(&Value::from(rows).to_string());
        }
        let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let width = rows.iter().map(|row| text(row, "name").len()).max().unwrap_or(0);
        let mut lines = String::new();
        for row in rows {
            let [name, value, default, what] = ["name", "value", "default", "what"].map(|f| text(row, f));
            let changed = if value == default { String::new() } else { format!(" (default {default})") };
            lines += &format!("{name:<width$}  {value}{changed}\n{:<width$}    {what}\n", "");
        }
        out.wrapped(&lines)
    }
}

/// What a new store has, in the words in which a store answers.
fn defaults() -> Vec<Value> {
    let options = Options::default();
    Options::names().iter().map(|info| json(info, &options, &options)).collect()
}

fn json(info: &OptionInfo, options: &Options, defaults: &Options) -> Value {
    serde_json::json!({
        "name": info.name,
        "value": info.value(options),
        "default": info.value(defaults),
        "live": info.live,
        "what": info.what,
    })
}
