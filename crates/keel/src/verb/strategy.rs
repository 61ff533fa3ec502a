//! `keel strategy list|show|set`: how the tree is compacted.

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Spinner;
use crate::store::{Store, Target, check_strategy};

/// See `keel strategy --help`.
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
    /// List the strategies that have a name.
    List,
    /// Print the strategy of a keyspace; with NAME, what a name or text means.
    Show {
        /// A name of `keel strategy list`.
        name: Option<String>,
    },
    /// Change the strategy of a keyspace. The tree follows bit by bit as it is used.
    Set {
        /// A name of `keel strategy list`, or a strategy's text.
        strategy: String,
        /// Wait until the tree has the new shape.
        #[arg(long)]
        wait: bool,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel strategy list
  keel strategy show 1-leveling
  keel strategy show --db shop.db
  keel strategy set --db shop.db tier --wait
  keel strategy set --db shop.db 'when=saturation how=runs:1 much=file which=least-overlap-parent'";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match &self.action {
            Action::List => self.list(),
            Action::Show { name: Some(name) } => self.explain(name),
            Action::Show { name: None } => self.show(target),
            Action::Set { strategy, wait } => self.set(target, strategy, *wait),
        }
    }

    fn list(&self) -> Result<(), Failure> {
        let mut out = Output::new();
        let rows = evenkeel::strategy::catalog();
        if self.json {
            let rows: Vec<serde_json::Value> = rows.iter().map(row_json).collect();
            return out.line(&serde_json::Value::Array(rows).to_string());
        }
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        for row in rows {
            out.line(&format!("{:<width$}  {} ({})", row.name, row.about, row.source))?;
        }
        Ok(())
    }

    fn explain(&self, name: &str) -> Result<(), Failure> {
        let mut out = Output::new();
        let Some(row) = evenkeel::strategy::catalog().iter().find(|row| row.name == name) else {
            // A text stands for itself, once it can be read.
            check_strategy(name)?;
            return if self.json {
                out.line(&serde_json::json!({ "text": name }).to_string())
            } else {
                out.line(name)
            };
        };
        if self.json {
            return out.line(&row_json(row).to_string());
        }
        out.text(&format!("{}\n{} ({})\n", row.text, row.about, row.source))
    }

    fn show(&self, target: &Target) -> Result<(), Failure> {
        let store = Store::open(target)?;
        let (name, text) = (store.keyspace.name().to_owned(), store.keyspace.strategy_text());
        store.close()?;
        let mut out = Output::new();
        if self.json {
            return out.line(&serde_json::json!({ "keyspace": name, "text": text }).to_string());
        }
        out.line(&text)
    }

    fn set(&self, target: &Target, strategy: &str, wait: bool) -> Result<(), Failure> {
        check_strategy(strategy)?;
        let store = Store::open(target)?;
        store.keyspace.set_strategy(strategy)?;
        if wait {
            let spinner = Spinner::start("reshaping the tree");
            store.db.wait_idle()?;
            spinner.finish();
        }
        let text = store.keyspace.strategy_text();
        store.close()?;
        let mut out = Output::new();
        if self.json { out.line(&serde_json::json!({ "text": text }).to_string()) } else { out.line(&text) }
    }
}

fn row_json(row: &evenkeel::strategy::CatalogRow) -> serde_json::Value {
    serde_json::json!({ "name": row.name, "paper": row.source, "text": row.text, "explanation": row.about })
}
