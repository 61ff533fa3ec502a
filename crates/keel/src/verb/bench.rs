//! `keel bench WORKLOAD`: measures a workload of the lab on a real directory; a property file or a file of operations
//! (`bench/operations.rs`) may describe it instead.
//!
//! Without `--db` the store lives in a fresh directory that is removed at the end. A store that the bench filled keeps a
//! note of its records (`BENCH.json`), so that a later run reads what is there instead of filling again.

mod load_args;
mod operations;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evenkeel::{Keyspace, Options};
use evenkeel_lab::catalog::{CATALOG, find};
use evenkeel_lab::distribution::Distribution;
use evenkeel_lab::document::Document;
use evenkeel_lab::driver::{self, Dataset, OpenLoad, Plan};
use evenkeel_lab::property_file::{self, Properties};
use evenkeel_lab::report;
use evenkeel_lab::soak::SoakPlan;
use evenkeel_lab::values::ValueSizes;
use evenkeel_lab::workload::Workload;

use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::output::{Output, note};
use crate::progress::BenchProgress;
use crate::store::{EngineArgs, Store, Target};

/// The workload that is none of the lab's table.
const SOAK: &str = "soak";

/// The note in the store's directory: what the bench put into which keyspace.
const NOTE: &str = "BENCH.json";

/// See `keel bench --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to measure.
    #[arg(value_name = "WORKLOAD", value_parser = workload_parser(), required_unless_present_any = ["properties", "operations"])]
    subject: Option<Subject>,
    /// Measure what one of YCSB's property files describes.
    #[arg(long, value_name = "FILE", conflicts_with = "subject")]
    properties: Option<PathBuf>,
    /// Run the operations of a text file (I, U, D, R, Q, S and keys; `-` is the standard input) in their order.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "properties", "records", "ops", "seconds", "threads",
        "key_bytes", "value_bytes", "distribution"])]
    operations: Option<PathBuf>,
    /// Compare every answer with a map that takes the same operations.
    #[arg(long, requires = "operations")]
    check: bool,
    /// The engine to measure.
    #[arg(long, value_parser = ["evenkeel"], default_value = "evenkeel")]
    engine: String,
    /// How many records there are; k, M and G are understood.
    #[arg(long, value_name = "N", value_parser = number)]
    records: Option<u64>,
    /// Stop after so many operations.
    #[arg(long, value_name = "N", value_parser = number)]
    ops: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    seconds: Option<f64>,
    /// How many threads work, 1 unless said; the writer of readwhilewriting comes on top. For soak: how many read, 24 unless
    /// said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Length of a key.
    #[arg(long, value_name = "N")]
    key_bytes: Option<usize>,
    /// Length of a value: 100, 50-150, 10*1-100 (ten fields), or 250-400-1024 (the median in the middle).
    #[arg(long, value_name = "N")]
    value_bytes: Option<ValueSizes>,
    /// Which records are chosen.
    #[arg(long, value_parser = PossibleValuesParser::new(Distribution::ALL.map(|(name, _)| name)))]
    distribution: Option<String>,
    /// Decides on keys, values and operations.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Leave the directory in place; it is printed at the end.
    #[arg(long)]
    keep: bool,
    /// Allow writing benchmark records into a store that holds other data.
    #[arg(long)]
    use_existing: bool,
    /// Write the result as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    load: load_args::LoadArgs,
    #[command(flatten)]
    options: EngineArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel bench ycsb-a
  keel bench fillrandom --records 10M --value-bytes 100 --json fill.json
  keel bench fillrandom --records 10M --db big.db && keel bench readrandom --db big.db --threads 2
  keel bench ycsb-a --strategy tier --set memtable_bytes=16MiB
  keel bench nutanix --seconds 60 --value-bytes 250-400-1024
  keel bench oltp --records 10M --threads 2
  keel bench --properties workloads/workloada --threads 2
  keel bench --operations workload.txt --check
  keel bench ycsb-a --rate 20k --threads 8
  keel bench ycsb-a --rate 50% --threads 8 --seconds 120
  keel bench ycsb-a --shape peaks:20k,2k,10,5 --threads 8 --json peaks.json
  keel bench ycsb-a --find-max-rate --p99 10ms --threads 8
  keel bench soak --seconds 120

Unless told otherwise: a million records of 16 + 100 bytes and a million operations (100 000 for seekrandom, one pass over
the records for what reads or deletes all), 10 seconds for workloads with a writer beside; 100 000 records of 16 + 1000
bytes and 10 seconds for YCSB; a million records and 10 seconds for nutanix and oltp; a million records of 16 + 400 bytes, 24
readers and 600 seconds for soak. Workloads that read fill a fresh store first, wait until it is idle and read everything
once. docs/workloads.md describes the workloads and the files, docs/bench_json.md the JSON document.

With --rate, --shape or --find-max-rate the loop is open: requests come when they come, wait in a queue for one of
--threads, and a latency is from coming to the end. Such a run takes 60 seconds, three turns of peaks, 300 seconds of
nutanix, or as long as the steps or the recording. Finding the highest rate takes up to --budget seconds, 120 unless said: a
rate is sustained if 99 % of the requests end while they come and the queue does not grow.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let named = |workload: &Workload| Properties {
            workload: *workload,
            threads: None,
            seconds: None,
            key_bytes: None,
        };
        match (&self.subject, &self.properties, &self.operations) {
            (Some(Subject::Workload(workload)), ..) => self.run_workload(&named(workload), target),
            (Some(Subject::Soak), ..) => self.run_soak(target),
            (None, Some(file), _) => self.run_workload(&read_properties(file)?, target),
            (None, None, Some(file)) => operations::run(self, file, target),
            (None, None, None) => Err(Failure::usage("say what to measure")),
        }
    }

    /// A soak: see `verb/soak.rs`.
    fn run_soak(&self, target: &Target) -> Result<(), Failure> {
        if self.load.load()?.is_some() {
            return Err(Failure::usage("soak has no rate; leave --rate, --shape and --find-max-rate away"));
        }
        if self.ops.is_some() || self.distribution.is_some() {
            return Err(Failure::usage(
                "soak chooses evenly and ends by --seconds; leave --ops and --distribution away",
            ));
        }
        let value_bytes = match self.value_bytes {
            Some(sizes) if sizes.vary() => {
                return Err(Failure::usage(
                    "soak's values are of one length; give one number to --value-bytes",
                ));
            }
            sizes => sizes.map_or(400, ValueSizes::max),
        };
        self.options.options()?;
        let place = Workspace::choose(target, self.keep)?;
        if look(&place.dir)? == Place::Store && !self.use_existing {
            return Err(Failure::work(format!(
                "{} is a store already; give another --db, or --use-existing to write into it",
                place.dir.display()
            )));
        }
        let target = Target { db: Some(place.dir.clone()), keyspace: target.keyspace.clone() };
        let Store { db, keyspace, .. } = Store::open_or_create_all(&target, &self.options)?;
        let engine = EvenkeelEngine { db, keyspace, dir: place.dir.clone() };
        let plan = SoakPlan {
            seconds: self.seconds.unwrap_or(600.0),
            readers: usize::from(self.threads.unwrap_or(24)),
            records: self.records.unwrap_or(1_000_000),
            key_bytes: self.key_bytes.unwrap_or(16),
            value_bytes,
            seed: self.seed,
        };
        let report = super::soak::run(&engine, plan)?;
        close(engine)?;
        self.print(|| report.to_json(), || evenkeel_lab::soak::text(&report))?;
        place.leave()?;
        super::soak::verdict(&report)
    }

    fn run_workload(&self, described: &Properties, target: &Target) -> Result<(), Failure> {
        let workload = &described.workload;
        if workload.fills() && self.ops.is_some() {
            return Err(Failure::usage(format!(
                "{} inserts each record once; say how many with --records, not --ops",
                workload.name
            )));
        }
        let load = self.load.load()?;
        if let Some(load) = &load {
            load.check(workload, self.seconds).map_err(Failure::usage)?;
        }
        self.options.options()?;
        let place = Workspace::choose(target, self.keep)?;
        let mut notes = Notes::read(&place.dir)?;
        let known = notes.0.get(&target.keyspace).copied();
        let foreign = self.check_foreign(&place, known)?;
        let data = self.dataset(described, known)?;
        let (engine, config, sole) = self.open(target, &place, foreign)?;
        let plan = self.plan(described, data, known.is_some(), load.as_ref());
        let progress = BenchProgress::default();
        let outcome = driver::run(&engine, &plan, &progress);
        progress.clear();
        let outcome = outcome.map_err(|error| Failure::work(error.to_string()))?;
        let mut document = Document::new(&engine, &plan, &outcome, config);
        if !sole {
            // Other data share the directory: only the engine knows what is live.
            document.amplification.space = outcome.figures.space_amplification;
        }
        close(engine)?;
        let deleted = data.deleted || workload.deletes();
        notes.0.insert(target.keyspace.clone(), Dataset { records: outcome.records, deleted, ..data });
        notes.write(&place.dir)?;
        self.print(|| document.to_json(), || report::text(&document))?;
        place.leave()?;
        if outcome.wrong_reads > 0 {
            let wrong = outcome.wrong_reads;
            return Err(Failure::work(format!(
                "{wrong} reads were wrong; the store does not hold what was written"
            )));
        }
        Ok(())
    }

    /// True if the directory holds a store that the bench did not fill, and that it may be used.
    fn check_foreign(&self, place: &Workspace, known: Option<Dataset>) -> Result<bool, Failure> {
        let foreign = known.is_none() && look(&place.dir)? == Place::Store;
        if foreign && !self.use_existing {
            return Err(Failure::work(format!(
                "{} is a store that the bench did not fill; give another --db, or --use-existing to write into it",
                place.dir.display()
            )));
        }
        Ok(foreign)
    }

    /// The engine with its configuration, and whether the directory holds nothing else.
    fn open(
        &self,
        target: &Target,
        place: &Workspace,
        foreign: bool,
    ) -> Result<(EvenkeelEngine, BTreeMap<String, serde_json::Value>, bool), Failure> {
        let target = Target { db: Some(place.dir.clone()), keyspace: target.keyspace.clone() };
        let Store { db, keyspace, .. } = Store::open_or_create_all(&target, &self.options.answering())?;
        let config = self.engine_config(&db.options(), &keyspace);
        let sole = !foreign && db.keyspaces().len() == 1;
        Ok((EvenkeelEngine { db, keyspace, dir: place.dir.clone() }, config, sole))
    }

    /// The records: as noted in the store, or as asked for.
    fn dataset(&self, described: &Properties, known: Option<Dataset>) -> Result<Dataset, Failure> {
        let workload = &described.workload;
        let Some(known) = known else {
            return Ok(Dataset {
                records: self.records.unwrap_or(workload.records),
                key_bytes: self.key_bytes.or(described.key_bytes).unwrap_or(16),
                value_bytes: self.value_bytes.unwrap_or(workload.value_bytes),
                order: workload.order,
                seed: self.seed,
                deleted: false,
            });
        };
        if known.deleted {
            return Err(Failure::usage(
                "records of this store were deleted by an earlier run, and nobody knows which; give another --db",
            ));
        }
        let differs = self.records.is_some_and(|n| n != known.records)
            || self.key_bytes.is_some_and(|n| n != known.key_bytes)
            || self.value_bytes.is_some_and(|n| n != known.value_bytes)
            || (workload.needs_order() && workload.order != known.order);
        if differs {
            return Err(Failure::usage(format!(
                "the store has {} records of {} + {} bytes in {:?} order already; leave --records, --key-bytes and \
                 --value-bytes away, or give another --db",
                known.records, known.key_bytes, known.value_bytes, known.order
            )));
        }
        Ok(known)
    }

    fn plan<'a>(
        &self,
        described: &'a Properties,
        data: Dataset,
        filled: bool,
        load: Option<&'a OpenLoad>,
    ) -> Plan<'a> {
        let workload = &described.workload;
        let (ops, seconds) = match (self.ops, self.seconds) {
            // An open loop's length is its shape's.
            (None, None) if load.is_none() => {
                let (ops, seconds) = driver::default_limits(workload, data.records);
                (ops, seconds.or(described.seconds))
            }
            asked => asked,
        };
        let asked = self.distribution.as_deref().and_then(Distribution::find);
        Plan {
            workload,
            data,
            filled,
            ops,
            seconds,
            threads: self.threads.map(usize::from).or(described.threads).unwrap_or(1),
            distribution: asked.unwrap_or(workload.distribution),
            seed: self.seed,
            load,
        }
    }

    /// What the engine was opened with, for the document.
    fn engine_config(&self, options: &Options, keyspace: &Keyspace) -> BTreeMap<String, serde_json::Value> {
        let set: serde_json::Map<String, serde_json::Value> = self
            .options
            .set
            .iter()
            .filter_map(|assignment| assignment.split_once('='))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().into()))
            .collect();
        let mut config = BTreeMap::from([
            (
                "strategy".to_owned(),
                self.options.strategy.clone().unwrap_or_else(|| keyspace.strategy_text()).into(),
            ),
            ("schedule".to_owned(), options.schedule.as_str().into()),
            (
                "sync".to_owned(),
                if keyspace.no_wal() { "no-wal".into() } else { options.durability.to_string().into() },
            ),
            ("set".to_owned(), set.into()),
        ]);
        for (name, file) in [("properties", &self.properties), ("operations", &self.operations)] {
            if let Some(file) = file {
                config.insert(name.to_owned(), file.display().to_string().into());
            }
        }
        config
    }

    /// The result as JSON where that is asked for, and else, or beside a file, as text.
    fn print(
        &self,
        json: impl Fn() -> Result<String, serde_json::Error>,
        text: impl Fn() -> String,
    ) -> Result<(), Failure> {
        let json = || json().map_err(|error| Failure::work(format!("the result is no JSON: {error}")));
        match &self.json {
            Some(path) if path == Path::new("-") => Output::new().line(&json()?),
            Some(path) => {
                let failed = |error| Failure::work(format!("cannot write {}: {error}", path.display()));
                files::write(path, &(json()? + "\n")).map_err(failed)?;
                Output::new().text(&text())
            }
            None => Output::new().text(&text()),
        }
    }
}

/// The directory of the run.
struct Workspace {
    dir: PathBuf,
    /// Removed at the end, whichever way the run ends.
    temporary: bool,
}

impl Workspace {
    fn choose(target: &Target, keep: bool) -> Result<Workspace, Failure> {
        if let Some(dir) = &target.db {
            return Ok(Workspace { dir: dir.clone(), temporary: false });
        }
        let name = |i: u32| std::env::temp_dir().join(format!("keel-bench-{}-{i}", std::process::id()));
        for dir in (0..1000).map(name) {
            if look(&dir)? == Place::Nothing {
                return Ok(Workspace { dir, temporary: !keep });
            }
        }
        Err(Failure::work(
            "the temporary directory is full of old benchmarks; remove keel-bench-* there, or give --db",
        ))
    }

    /// Says where the store is, if it stays.
    fn leave(self) -> Result<(), Failure> {
        if !self.temporary {
            note(&format!("keel: the store stays in {}", self.dir.display()));
        }
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.temporary || look(&self.dir).is_ok_and(|place| place == Place::Nothing) {
            return;
        }
        if let Err(error) = files::remove_all(&self.dir) {
            note(&format!("keel: cannot remove {}: {error}", self.dir.display()));
        }
    }
}

fn look(dir: &Path) -> Result<Place, Failure> {
    files::look(dir).map_err(|error| Failure::work(format!("cannot look into {}: {error}", dir.display())))
}

/// What the bench put into which keyspace, as the store's directory says it.
struct Notes(BTreeMap<String, Dataset>);

impl Notes {
    fn read(dir: &Path) -> Result<Notes, Failure> {
        let path = dir.join(NOTE);
        let broken = |what: String| {
            Failure::work(format!(
                "{}: {what}; remove it to treat the store as one that the bench did not fill",
                path.display()
            ))
        };
        match files::read(&path) {
            Ok(None) => Ok(Notes(BTreeMap::new())),
            Ok(Some(text)) => {
                serde_json::from_str(&text).map(Notes).map_err(|error| broken(error.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(Notes(BTreeMap::new())),
            Err(error) => Err(broken(error.to_string())),
        }
    }

    fn write(&self, dir: &Path) -> Result<(), Failure> {
        let path = dir.join(NOTE);
        let failed = |error: String| Failure::work(format!("cannot write {}: {error}", path.display()));
        let text = serde_json::to_string_pretty(&self.0).map_err(|error| failed(error.to_string()))?;
        files::write(&path, &(text + "\n")).map_err(|error| failed(error.to_string()))
    }
}

fn close(engine: EvenkeelEngine) -> Result<(), Failure> {
    let EvenkeelEngine { db, keyspace, .. } = engine;
    drop(keyspace);
    Ok(db.close()?)
}

fn read_properties(file: &Path) -> Result<Properties, Failure> {
    let text = match files::read(file) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(Failure::work(format!("there is no {}", file.display()))),
        Err(error) => return Err(Failure::work(format!("cannot read {}: {error}", file.display()))),
    };
    let read = property_file::parse(&text);
    let read = read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Properties { workload: Workload { name: "properties", ..read.workload }, ..read })
}

/// What is measured: a workload of the lab, or everything at once for minutes.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Workload(&'static Workload),
    Soak,
}

fn workload_parser() -> impl TypedValueParser<Value = Subject> {
    let soak = PossibleValue::new(SOAK)
        .help("everything at once for minutes: memory counted and resident, stops, admission");
    let values = CATALOG.iter().map(|workload| PossibleValue::new(workload.name).help(workload.what));
    PossibleValuesParser::new(values.chain([soak])).try_map(|name| match name == SOAK {
        true => Ok(Subject::Soak),
        false => find(&name).map(Subject::Workload).ok_or("no such workload"),
    })
}

/// A whole number with a suffix, for people: `100k`, `10M`.
fn number(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let wrong = || "give a whole number above 0, for instance 100000, 100k or 10M".to_owned();
    let n: u64 = digits.parse().map_err(|_| wrong())?;
    n.checked_mul(unit).filter(|n| (1..=1 << 48).contains(n)).ok_or_else(wrong)
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e7 => Ok(seconds),
        _ => Err("give seconds above 0, for instance 10 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(
            ["7", "100k", "10M", "1G"].map(|t| number(t).unwrap()),
            [7, 100_000, 10_000_000, 1_000_000_000]
        );
        for text in ["", "k", "0", "-1", "1.5", "99999999999G", "1é"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(positive_seconds("0.5").is_ok());
        assert!(["0", "-1", "nan", "inf", "x"].iter().all(|t| positive_seconds(t).is_err()));
    }
}
