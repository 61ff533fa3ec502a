//! `keel strategy list|show|set`: how the tree is compacted.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use evenkeel_lab::base::clock;
use evenkeel_lab::results::report::bytes;

use super::ActionArgs;
use super::audit::warn_of_short_ttls;
use crate::answer::number;
use crate::failure::Failure;
use crate::live::{Answered, argument, ask, ask_running, parse, tell};
use crate::output::{Output, note};
use crate::progress::{Spinner, Waited, wait_idle};
use crate::store::{EngineArgs, ReadArgs, Store, Target, check_strategy};
use crate::{strategy_file, strategy_table};

/// See `keel strategy --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the strategies that have a name.
    List,
    /// Print the strategy of a keyspace; with NAME or --file, explain and draw a strategy.
    Show {
        /// A name of `keel strategy list`, or a strategy's text.
        #[arg(conflicts_with = "file")]
        name: Option<String>,
        /// A strategy of your own, in TOML with the keys of the text form.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Change the strategy of a keyspace. The tree follows bit by bit as it is used.
    Set {
        /// A name of `keel strategy list`, or a strategy's text.
        strategy: String,
        /// Wait until the tree has the new shape.
        #[arg(long)]
        wait: bool,
        /// Say how much I/O the change would take, and change nothing.
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel strategy list
  keel strategy show 1-leveling
  keel strategy show --file mine.toml
  keel strategy show --db shop.db
  keel strategy set --db shop.db tier --dry-run     how much would be rewritten
  keel strategy set --db shop.db tier --wait
  keel strategy set --db shop.db 'when=saturation how=runs:1 much=file which=least-overlap-parent'";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match &self.action {
            Action::List => self.list(),
            Action::Show { file: Some(file), .. } => self.explain(&strategy_file::line_of(file)?),
            Action::Show { name: Some(name), .. } => self.explain(name),
            Action::Show { name: None, read, .. } => self.show(target, read),
            Action::Set { strategy, dry_run: true, .. } => self.estimate(target, strategy),
            Action::Set { strategy, wait, .. } => self.set(target, strategy, *wait),
        }
    }

    fn list(&self) -> Result<(), Failure> {
        let mut out = Output::new();
        let rows = evenkeel::strategy::catalog();
        if self.json {
            let rows: Vec<serde_json::Value> = rows.iter().map(row_json).collect();
            return out.line(&serde_json::Value::Array(rows).to_string());
        }
        out.text(&strategy_table::of_catalog(rows))
    }

    fn explain(&self, name: &str) -> Result<(), Failure> {
        let mut out = Output::new();
        check_strategy(name)?;
        let strategy = evenkeel::strategy::parse(name)?;
        let row = evenkeel::strategy::catalog().iter().find(|row| row.name == name);
        let text = strategy.to_string();
        if self.json {
            let mut object = row.map_or_else(|| serde_json::json!({}), row_json);
            object["text"] = text.into();
            let parts = evenkeel::strategy::explain(&strategy);
            let parts =
                parts.iter().map(|part| serde_json::json!({ "levels": part.levels, "words": part.words }));
            object["levels"] = parts.collect();
            return out.line(&object.to_string());
        }
        if let Some(row) = row {
            out.wrapped(&format!("{} ({})\n\n", row.about, row.source))?;
        }
        out.text(&format!("{text}\n\n"))?;
        for part in evenkeel::strategy::explain(&strategy) {
            out.wrapped(&format!("{}: {}\n", part.levels, part.words))?;
        }
        out.wrapped(&format!("{}\n\n", evenkeel::strategy::sizes_in_words(&strategy)))?;
        out.text(&evenkeel::strategy::draw(&strategy))?;
        warn_of_impossible_ttl(&strategy);
        Ok(())
    }

    fn show(&self, target: &Target, read: &ReadArgs) -> Result<(), Failure> {
        let answer = ask(target, read, &format!("strategy {}", argument(&target.keyspace)))?.value();
        let mut out = Output::new();
        if self.json { out.line(&answer.to_string()) } else { out.line(text(&answer)) }
    }

    fn estimate(&self, target: &Target, strategy: &str) -> Result<(), Failure> {
        check_strategy(strategy)?;
        let question = format!("strategy-cost {} {strategy}", argument(&target.keyspace));
        let answer = ask(target, &ReadArgs::default(), &question)?.value();
        let mut out = Output::new();
        if self.json { out.line(&answer.to_string()) } else { out.line(&cost_words(&answer)) }?;
        warn_where_too_short(target, strategy, || {
            ask(target, &ReadArgs::default(), AUDIT).map(Answered::value)
        })
    }

    /// Says what the change costs before it is made.
    fn announce(&self, cost: &serde_json::Value) {
        if !self.json {
            note(&cost_words(cost));
        }
    }

    fn set(&self, target: &Target, strategy: &str, wait: bool) -> Result<(), Failure> {
        check_strategy(strategy)?;
        let arguments = format!("{} {strategy}", argument(&target.keyspace));
        let mut out = Output::new();
        if let Some(cost) = ask_running(target, &format!("strategy-cost {arguments}"))? {
            self.announce(&cost);
            let answer = tell(target, &format!("set-strategy {arguments}"), &EngineArgs::default())?.value();
            warn_where_too_short(target, strategy, || {
                ask(target, &ReadArgs::default(), AUDIT).map(Answered::value)
            })?;
            if wait {
                self.wait_for_shape(target)?;
            }
            return if self.json { out.line(&answer.to_string()) } else { out.line(text(&answer)) };
        }
        let store = Store::open(target, &EngineArgs { answers: wait, ..EngineArgs::default() })?;
        let cost = store.keyspace.strategy_cost(strategy)?;
        let answer = serde_json::json!({
            "keyspace": target.keyspace,
            "text": strategy,
            "distance_bytes": cost.distance_bytes,
            "reshaping_bytes": cost.reshaping_bytes,
            "debt_bytes": cost.debt_bytes,
        });
        self.announce(&answer);
        store.keyspace.set_strategy(strategy)?;
        warn_where_too_short(target, strategy, || parse(&store.db.control(AUDIT)?))?;
        if wait && wait_idle(&store.db, "reshaping the tree")? == Waited::Interrupted {
            return Err(Failure::work(
                "interrupted; the strategy is set, and the tree follows when the store is opened next",
            ));
        }
        store.close()?;
        if self.json { out.line(&answer.to_string()) } else { out.line(text(&answer)) }
    }

    /// Asks a running store until its tree has the shape of its strategy.
    fn wait_for_shape(&self, target: &Target) -> Result<(), Failure> {
        let spinner = Spinner::start("reshaping the tree");
        loop {
            let Some(figures) = ask_running(target, "stats")? else {
                return Err(Failure::work("the store was closed before its tree had the new shape"));
            };
            let keyspaces = figures["keyspaces"].as_array();
            let keyspace = keyspaces.into_iter().flatten().find(|k| k["name"] == target.keyspace.as_str());
            let distance = keyspace.and_then(|k| k["distance_bytes"].as_u64()).unwrap_or(0);
            if distance == 0 && figures["jobs"]["open"] == 0 {
                spinner.finish();
                return Ok(());
            }
            clock::pause(Duration::from_millis(100));
        }
    }
}

/// What a change of strategy costs, in words.
fn cost_words(answer: &serde_json::Value) -> String {
    let [shape, all] = ["/reshaping_bytes", "/debt_bytes"].map(|path| number(answer, path));
    let shape_words = match shape {
        0 => "the tree fits it already: no I/O for its shape".to_owned(),
        _ => format!("estimated I/O: {} read, and as much written at most, for its shape", bytes(shape)),
    };
    match all.saturating_sub(shape) {
        0 => shape_words,
        more => format!("{shape_words}; its triggers ask for {} now", bytes(more)),
    }
}

/// What the shortest time is that a keyspace can keep.
const AUDIT: &str = "audit-deletes";

/// Says so if the keyspace, whose audit is asked for then, cannot keep the strategy's time for deletes.
fn warn_where_too_short(
    target: &Target,
    strategy: &str,
    audit: impl FnOnce() -> Result<serde_json::Value, Failure>,
) -> Result<(), Failure> {
    if let Some(ttl_ms) = evenkeel::strategy::parse(strategy)?.ttl_ms() {
        warn_of_short_ttls(&audit()?, Some((&target.keyspace, ttl_ms)));
    }
    Ok(())
}

/// Even an empty store of two levels has to be woken and looked at.
fn warn_of_impossible_ttl(strategy: &evenkeel::strategy::Strategy) {
    let shortest = evenkeel::strategy::shortest_ttl_ms(0, 2, None);
    if let Some(ttl) = strategy.ttl_ms().filter(|ttl| *ttl < shortest) {
        let [ttl, shortest] = [ttl, shortest].map(evenkeel::strategy::time_text);
        note(&format!(
            "keel: ttl:{ttl} cannot be kept; the shortest that an empty store can keep is ttl:{shortest}"
        ));
    }
}

fn text(answer: &serde_json::Value) -> &str {
    answer["text"].as_str().unwrap_or_default()
}

fn row_json(row: &evenkeel::strategy::CatalogRow) -> serde_json::Value {
    serde_json::json!({ "name": row.name, "paper": row.source, "text": row.text, "explanation": row.about })
}
