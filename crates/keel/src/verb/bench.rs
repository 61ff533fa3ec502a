//! `keel bench WORKLOAD`: measures a workload of the lab on a real directory.
//!
//! Without `--db` the store lives in a fresh directory that is removed at the end. A store that the bench filled keeps a
//! note of its records (`BENCH.json`), so that a later run reads what is there instead of filling again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evenkeel::{Keyspace, Options};
use evenkeel_lab::clock;
use evenkeel_lab::distribution::Distribution;
use evenkeel_lab::document::Document;
use evenkeel_lab::driver::{self, Dataset, Plan};
use evenkeel_lab::provenance::Provenance;
use evenkeel_lab::report::{self, Report, Run};
use evenkeel_lab::soak::SoakPlan;
use evenkeel_lab::workload::{CATALOG, Workload, find};

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
    #[arg(value_name = "WORKLOAD", value_parser = workload_parser())]
    subject: Subject,
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
    /// Length of a value.
    #[arg(long, value_name = "N")]
    value_bytes: Option<usize>,
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
    /// Write a report into a directory: a page with plots (report.html), and the figures as CSV and JSON.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
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
  keel bench ycsb-a --seconds 60 --report result   # then open result/report.html
  keel bench soak --seconds 120

Unless told otherwise: a million records of 16 + 100 bytes and a million operations (100 000 for seekrandom), 10 seconds
for readwhilewriting; 100 000 records of 16 + 1000 bytes and 10 seconds for YCSB; a million records of 16 + 400 bytes, 24
readers and 600 seconds for soak. Workloads that read fill a fresh store
first, wait until it is idle and read everything once. The JSON document is described in docs/bench_json.md, the report in
docs/report.md.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match self.subject {
            Subject::Workload(workload) => self.run_workload(workload, target),
            Subject::Soak => self.run_soak(target),
        }
    }

    /// A soak: see `verb/soak.rs`.
    fn run_soak(&self, target: &Target) -> Result<(), Failure> {
        if self.ops.is_some() || self.distribution.is_some() {
            return Err(Failure::usage(
                "soak chooses evenly and ends by --seconds; leave --ops and --distribution away",
            ));
        }
        if self.report.is_some() {
            return Err(Failure::usage(
                "soak has no report with plots; leave --report away, --json has every second",
            ));
        }
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
            value_bytes: self.value_bytes.unwrap_or(400),
            seed: self.seed,
        };
        let report = super::soak::run(&engine, plan)?;
        let EvenkeelEngine { db, keyspace, .. } = engine;
        drop(keyspace);
        db.close()?;
        self.print(|| report.to_json(), || evenkeel_lab::soak::text(&report))?;
        place.leave()?;
        super::soak::verdict(&report)
    }

    fn run_workload(&self, workload: &'static Workload, target: &Target) -> Result<(), Failure> {
        if workload.fills() && self.ops.is_some() {
            return Err(Failure::usage(format!(
                "{} inserts each record once; say how many with --records, not --ops",
                workload.name
            )));
        }
        self.options.options()?;
        let place = Workspace::choose(target, self.keep)?;
        let note_path = place.dir.join(NOTE);
        let mut notes = read_notes(&note_path)?;
        let known = notes.get(&target.keyspace).copied();
        let foreign = known.is_none() && look(&place.dir)? == Place::Store;
        if foreign && !self.use_existing {
            return Err(Failure::work(format!(
                "{} is a store that the bench did not fill; give another --db, or --use-existing to write into it",
                place.dir.display()
            )));
        }
        let data = self.dataset(workload, known)?;
        self.prepare_report(&place.dir)?;
        let began_ms = clock::wall_ms();
        let target = Target { db: Some(place.dir.clone()), keyspace: target.keyspace.clone() };
        let Store { db, keyspace, .. } = Store::open_or_create_all(&target, &self.options.answering())?;
        let config = self.engine_config(&db.options(), &keyspace);
        let sole = !foreign && db.keyspaces().len() == 1;
        let engine = EvenkeelEngine { db, keyspace, dir: place.dir.clone() };
        let plan = self.plan(workload, data, known.is_some());
        let progress = BenchProgress::default();
        let outcome = driver::run(&engine, &plan, &progress);
        progress.clear();
        let outcome = outcome.map_err(|error| Failure::work(error.to_string()))?;
        let mut document = Document::new(&engine, &plan, &outcome, config);
        if !sole {
            // Other data share the directory: only the engine knows what is live.
            document.amplification.space = outcome.figures.space_amplification;
        }
        document.provenance = Some(Provenance::here(began_ms, &place.dir));
        let EvenkeelEngine { db, keyspace, .. } = engine;
        drop(keyspace);
        db.close()?;
        notes.insert(target.keyspace, Dataset { records: outcome.records, ..data });
        write_notes(&note_path, &notes)?;
        self.print(|| document.to_json(), || report::text(&document))?;
        self.write_report(&document)?;
        place.leave()?;
        if outcome.wrong_reads > 0 {
            let wrong = outcome.wrong_reads;
            return Err(Failure::work(format!(
                "{wrong} reads were wrong; the store does not hold what was written"
            )));
        }
        Ok(())
    }

    /// A directory that cannot be written is told before the run, not after it.
    fn prepare_report(&self, store: &Path) -> Result<(), Failure> {
        let Some(dir) = &self.report else { return Ok(()) };
        if dir == store || look(dir)? == Place::Store {
            return Err(Failure::usage(format!(
                "{} is a store; give another directory to --report",
                dir.display()
            )));
        }
        files::make_dir(dir).map_err(|error| Failure::work(format!("cannot make {}: {error}", dir.display())))
    }

    fn write_report(&self, document: &Document) -> Result<(), Failure> {
        let Some(dir) = &self.report else { return Ok(()) };
        let failed =
            |error| Failure::work(format!("cannot write the report into {}: {error}", dir.display()));
        Report::new(vec![Run::new("", document.clone())]).write(dir).map_err(failed)?;
        note(&format!("keel: the report is {}", dir.join(report::PAGE).display()));
        Ok(())
    }

    /// The records: as noted in the store, or as asked for.
    fn dataset(&self, workload: &Workload, known: Option<Dataset>) -> Result<Dataset, Failure> {
        let Some(known) = known else {
            return Ok(Dataset {
                records: self.records.unwrap_or(workload.records),
                key_bytes: self.key_bytes.unwrap_or(16),
                value_bytes: self.value_bytes.unwrap_or(workload.value_bytes),
                order: workload.order,
                seed: self.seed,
            });
        };
        let differs = self.records.is_some_and(|n| n != known.records)
            || self.key_bytes.is_some_and(|n| n != known.key_bytes)
            || self.value_bytes.is_some_and(|n| n != known.value_bytes)
            || (workload.fills() && workload.order != known.order);
        if differs {
            return Err(Failure::usage(format!(
                "the store has {} records of {} + {} bytes in {:?} order already; leave --records, --key-bytes and \
                 --value-bytes away, or give another --db",
                known.records, known.key_bytes, known.value_bytes, known.order
            )));
        }
        Ok(known)
    }

    fn plan(&self, workload: &'static Workload, data: Dataset, filled: bool) -> Plan<'static> {
        let (ops, seconds) = match (self.ops, self.seconds) {
            (None, None) => driver::default_limits(workload),
            asked => asked,
        };
        let by_name = |name: &String| Distribution::ALL.iter().find(|(n, _)| n == name).map(|(_, d)| *d);
        Plan {
            workload,
            data,
            filled,
            ops,
            seconds,
            threads: usize::from(self.threads.unwrap_or(1)),
            distribution: self.distribution.as_ref().and_then(by_name).unwrap_or(workload.distribution),
            seed: self.seed,
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
        BTreeMap::from([
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
        ])
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

fn read_notes(path: &Path) -> Result<BTreeMap<String, Dataset>, Failure> {
    let broken = |what: String| {
        Failure::work(format!(
            "{}: {what}; remove it to treat the store as one that the bench did not fill",
            path.display()
        ))
    };
    match files::read(path) {
        Ok(None) => Ok(BTreeMap::new()),
        Ok(Some(text)) => serde_json::from_str(&text).map_err(|error| broken(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(BTreeMap::new()),
        Err(error) => Err(broken(error.to_string())),
    }
}

fn write_notes(path: &Path, notes: &BTreeMap<String, Dataset>) -> Result<(), Failure> {
    let failed = |error: String| Failure::work(format!("cannot write {}: {error}", path.display()));
    let text = serde_json::to_string_pretty(notes).map_err(|error| failed(error.to_string()))?;
    files::write(path, &(text + "\n")).map_err(|error| failed(error.to_string()))
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
