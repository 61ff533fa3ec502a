//! `keel sim`: what strategies cost, from metadata alone. One or several strategies in full, a sweep over thousands, and how far
//! all this is from a real store.

/// Thousands of strategies.
mod sweep;
/// Beside a real store.
mod validate;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use evenkeel::Options;
use evenkeel::strategy::with_sizes;
use evenkeel::trace::{End, Keys as TraceKeys};
use evenkeel_lab::run::arguments::{check_ops, dataset, number, positive};
use evenkeel_lab::workloads::catalog::{CATALOG, find};
use evenkeel_lab::workloads::distribution::Distribution;
use evenkeel_lab::workloads::property_file::Properties;
use evenkeel_lab::workloads::values::ValueSizes;
use evenkeel_simulator::figures::Outcome;
use evenkeel_simulator::operations::{OPS_PER_SEC, Operations, Recorded, TextFile, WorkloadOperations};
use evenkeel_simulator::run::{Pace, Setting, simulate};
use evenkeel_simulator::tape::{SAMPLE, Sampling, Tape};
use evenkeel_simulator::text;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::progress::{CountBar, Spinner};
use crate::store::{Target, check_strategy, set_options};
use crate::strategy_file;
use crate::verb::{bench, trace};

/// What is simulated unless somebody says otherwise.
const WORKLOAD: &str = "overwrite";
/// The strategy, likewise.
const STRATEGY: &str = "1-leveling";
/// Without `--set` the data fill about so many memtables at least.
const MEMTABLES_LEAST: u64 = 128;
/// Sizes are not made smaller than this.
const SMALLEST_BYTES: u64 = 16 << 10;
/// What lz4 makes of the lab's values, which are half noise.
const COMPRESSED: f64 = 0.66;

/// See `keel sim --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is written and read: overwrite unless said.
    #[arg(id = "workload", value_name = "WORKLOAD", value_parser = PossibleValuesParser::new(CATALOG.iter().map(|w| w.name)))]
    workload: Option<String>,
    /// What one of YCSB's property files describes.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    properties: Option<PathBuf>,
    /// The operations of a recorded trace (`keel trace record`), on the keyspace of --keyspace.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "properties"])]
    trace: Option<PathBuf>,
    /// The operations of a text file (I, U, D, R, Q, S and keys).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "properties", "trace"])]
    operations: Option<PathBuf>,
    /// A name of `keel strategy list`, or a strategy written out; several are set side by side. 1-leveling unless said.
    #[arg(long = "strategy", value_name = "NAME")]
    strategies: Vec<String>,
    /// A strategy in a TOML file.
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many records there are; k, M and G are understood.
    #[arg(long, value_name = "N", value_parser = number)]
    records: Option<u64>,
    /// How many operations.
    #[arg(long, value_name = "N", value_parser = number)]
    ops: Option<u64>,
    /// Length of a key.
    #[arg(long, value_name = "N")]
    key_bytes: Option<usize>,
    /// Length of a value: 100, 50-150, 10*1-100 (ten fields), or 250-400-1024 (the median in the middle).
    #[arg(long, value_name = "N")]
    value_bytes: Option<ValueSizes>,
    /// Which records are chosen.
    #[arg(long, value_parser = PossibleValuesParser::new(Distribution::ALL.map(|(name, _)| name)))]
    distribution: Option<String>,
    /// Decides on keys, operations, and which strategies a sweep draws.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Operations a second, for triggers that go by the clock; a trace has times of its own. 10000 unless said.
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "trace")]
    rate: Option<f64>,
    /// Compactions move so many bytes, read or written, for each byte that users write, instead of all that is due after each flush.
    #[arg(long, value_name = "RATIO", value_parser = positive)]
    bandwidth: Option<f64>,
    /// What compressed tables take of each byte of keys and values; 0.66, as the lab's values under lz4, unless said.
    #[arg(long, value_name = "PART", value_parser = part)]
    compressed: Option<f64>,
    /// About so many entries of a table are simulated. More are more exact and slower.
    #[arg(long, value_name = "N", default_value_t = SAMPLE, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    sample: u64,
    /// An option of the engine, for instance memtable_bytes=4MiB. May be given several times. Without any, memtables, tables and
    /// levels are made so small that the data fill a hundred memtables.
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    set: Vec<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sweep: sweep::SweepArgs,
    /// Run every named strategy and 50 composed ones, simulated and in real stores, and print how far the simulation is off.
    #[arg(long, conflicts_with_all = ["sweep", "workload", "properties", "trace", "operations", "strategies", "files", "ops",
        "key_bytes", "value_bytes", "distribution", "rate", "bandwidth", "compressed", "set"])]
    validate: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel sim                                           1-leveling under a million overwrites
  keel sim ycsb-a --records 10M --ops 20M --strategy lo+1 --strategy tier --strategy full
  keel sim cds --strategy 'when=runs how=runs:8 much=runs' --set memtable_bytes=16MiB
  keel sim --trace shop.trace --strategy pebble
  keel sim overwrite --bandwidth 8 --strategy full   compactions may fall behind: runs pile up, writers wait
  keel sim --sweep                                   2000 strategies on all cores, and those that nothing beats
  keel sim --sweep all --report result               the whole space; then open result/report.html
  keel sim --validate                                how far is it off? Some minutes

No store is opened and no byte of a table written: the engine decides on tables of which only a sample of the keys is known.
docs/simulator.md says what is simulated, what is not, and how far it is off.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if self.trace.is_none() {
            target.without_keyspace("sim")?;
        }
        if target.db.is_some() {
            return Err(Failure::usage(
                "`keel sim` looks at no store, so it takes no --db; `--trace` takes what one did",
            ));
        }
        if self.validate {
            return validate::run(self.records, self.sample, self.json);
        }
        self.sweep.check()?;
        let mut options = self.options()?;
        let operations = self.operations(target)?;
        if self.set.is_empty() {
            scale(&mut options, operations.data_bytes());
        }
        let tape = self.tape(&*operations, &options)?;
        let setting = self.setting(&options);
        if let Some(wanted) = &self.sweep.sweep {
            return self.sweep.run(*wanted, &tape, &options, setting, self.seed, self.json);
        }
        let names = self.names()?;
        let mut outcomes: Vec<(String, Outcome)> = Vec::new();
        let bar = CountBar::start(names.len() as u64, "strategies");
        for name in names {
            let strategy = with_sizes(&name, &options)?;
            let outcome = simulate(&tape, &strategy, setting).map_err(Failure::work)?;
            outcomes.push((name, outcome));
            bar.advance_to(outcomes.len() as u64);
        }
        bar.finish();
        self.print(&tape, &options, &outcomes)
    }

    fn print(&self, tape: &Tape, options: &Options, outcomes: &[(String, Outcome)]) -> Result<(), Failure> {
        if self.json {
            let objects: Vec<serde_json::Value> = outcomes.iter().map(|(name, o)| object(name, o)).collect();
            let document =
                serde_json::json!({ "workload": tape.name, "ops": tape.ops, "strategies": objects });
            return Output::new().line(&document.to_string());
        }
        let mut out = text::about(tape, options) + "\n";
        match outcomes {
            [(name, outcome)] => out += &text::outcome(name, outcome),
            several => out += &text::table(several.iter().map(|(name, o)| (name.as_str(), o))),
        }
        Output::new().text(&out)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        set_options(&mut options, &self.set)?;
        Ok(options)
    }

    fn setting(&self, options: &Options) -> Setting {
        Setting {
            pace: self.bandwidth.map_or(Pace::BeforeWrites, Pace::Ratio),
            workers: options.workers as usize,
            l0_limit: options.l0_limit as usize,
        }
    }

    fn names(&self) -> Result<Vec<String>, Failure> {
        let mut names = self.strategies.clone();
        for file in &self.files {
            names.push(strategy_file::line_of(file)?);
        }
        if names.is_empty() {
            names.push(STRATEGY.to_owned());
        }
        names.iter().try_for_each(|name| check_strategy(name))?;
        Ok(names)
    }

    /// What is written, as memtables.
    fn tape(&self, operations: &dyn Operations, options: &Options) -> Result<Tape, Failure> {
        let compressed = self.compressed.unwrap_or(COMPRESSED);
        let sampling = Sampling { sample: self.sample, table_bytes: options.table_bytes, compressed };
        let spinner = Spinner::start("drawing the operations");
        let tape = Tape::draw(operations, options, sampling);
        spinner.finish();
        let tape = tape.map_err(Failure::work)?;
        match tape.measured().is_empty() {
            true => {
                Err(Failure::work(format!("{} writes nothing, so there is nothing to simulate", tape.name)))
            }
            false => Ok(tape),
        }
    }

    fn operations(&self, target: &Target) -> Result<Box<dyn Operations>, Failure> {
        let ops_per_sec = self.rate.unwrap_or(OPS_PER_SEC);
        if let Some(path) = &self.operations {
            self.refuse_amounts("a file of operations")?;
            return Ok(Box::new(TextFile { path: path.clone(), ops_per_sec }));
        }
        if let Some(path) = &self.trace {
            self.refuse_amounts("a trace")?;
            let trace = trace::read(path)?;
            if let End::Damaged(error) = &trace.end {
                note(&format!("keel: {error}; simulating the operations before it"));
            }
            if trace.keys == TraceKeys::Hashed {
                note(
                    "keel: the trace's keys are hashed, so their order is lost; ranges and neighbours are others",
                );
            }
            return Ok(Box::new(Recorded { trace, keyspace: target.keyspace.clone() }));
        }
        let described = match &self.properties {
            Some(file) => bench::read_properties(file)?,
            None => {
                let name = self.workload.as_deref().unwrap_or(WORKLOAD);
                let found =
                    find(name).ok_or_else(|| Failure::usage(format!("there is no workload {name}")))?;
                Properties::from(found)
            }
        };
        let workload = described.workload;
        check_ops(&workload, self.ops).map_err(Failure::usage)?;
        let data = dataset(&described, self.records, self.key_bytes, self.value_bytes, self.seed);
        let distribution = self.distribution.as_deref().and_then(Distribution::find);
        let distribution = distribution.unwrap_or(workload.distribution);
        let ops = self.ops.or(described.ops);
        let made = WorkloadOperations::new(workload, distribution, data, ops, ops_per_sec, self.seed);
        Ok(Box::new(made.map_err(Failure::usage)?))
    }

    /// What is recorded has its own amounts.
    fn refuse_amounts(&self, what: &str) -> Result<(), Failure> {
        let asked = [
            ("--records", self.records.is_some()),
            ("--ops", self.ops.is_some()),
            ("--key-bytes", self.key_bytes.is_some()),
            ("--value-bytes", self.value_bytes.is_some()),
            ("--distribution", self.distribution.is_some()),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((flag, _)) => {
                Err(Failure::usage(format!("{what} says itself what is written; leave {flag} away")))
            }
            None => Ok(()),
        }
    }
}

/// Makes sizes smaller, all by the same factor, where the data would fill only a few memtables: costs are a matter of proportions.
fn scale(options: &mut Options, data_bytes: Option<u64>) {
    let Some(data_bytes) = data_bytes else { return };
    let wanted = (data_bytes / MEMTABLES_LEAST).max(SMALLEST_BYTES).next_power_of_two();
    if wanted < options.memtable_bytes {
        let smaller = options.memtable_bytes / wanted;
        for bytes in [&mut options.memtable_bytes, &mut options.table_bytes, &mut options.level_base_bytes] {
            *bytes = (*bytes / smaller).max(SMALLEST_BYTES);
        }
    }
}

/// An outcome with the name that it was asked for by.
fn object(name: &str, outcome: &Outcome) -> serde_json::Value {
    let mut object = serde_json::json!(outcome);
    object["name"] = name.into();
    object
}

/// A part of a whole.
fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("give a number above 0 and at most 1, for instance 0.5".to_owned()),
    }
}
