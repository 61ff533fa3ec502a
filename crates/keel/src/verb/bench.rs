//! `keel bench WORKLOAD`: measures a workload of the lab on a real directory; a property file or a file of operations
//! (`bench/operations.rs`) may describe it instead.
//!
//! Without `--db` the store lives in a fresh directory that is removed at the end. A store that the bench filled keeps a
//! note of its records (`BENCH.json`), so that a later run reads what is there instead of filling again. Several engines, or
//! several rounds, are a comparison (`bench/compare.rs`): each run of it is this command again, or its likeness for peers.

/// Several engines, or several runs.
mod compare;
/// A file of operations.
mod operations;
/// The processes of a comparison.
pub mod process;
/// Where results go.
mod result;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evenkeel::{Keyspace, Options};
use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::Provenance;
use evenkeel_lab::results::comparison_table;
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report::{self, Run};
use evenkeel_lab::results::settings::{OURS, PEERS};
use evenkeel_lab::run::arguments::RunArgs;
use evenkeel_lab::run::driver::{self, Dataset};
use evenkeel_lab::run::load_arguments::LoadArgs;
use evenkeel_lab::run::phase::{Crash, FIRST_QUESTION};
use evenkeel_lab::run::replay::OPERATIONS;
use evenkeel_lab::run::soak::SoakPlan;
use evenkeel_lab::workloads::catalog::{CATALOG, find};
use evenkeel_lab::workloads::keys::{KeyOrder, Keys};
use evenkeel_lab::workloads::property_file::{self, Properties};
use evenkeel_lab::workloads::values::ValueSizes;
use evenkeel_lab::workloads::workload::Workload;

use crate::child::catch_interrupts;
use crate::device::DeviceArgs;
use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::output::note;
use crate::progress::BenchProgress;
use crate::stoppable::{Stoppable, failed};
use crate::store::{EngineArgs, Store, Target};
use crate::tracing::{TraceArgs, TracedMeasurement};

pub use result::{ResultArgs, usual_place, write_report};

/// The workload that is none of the lab's table.
const SOAK: &str = "soak";

/// Options that a document tells even where nobody has set them: what a comparison holds alike.
const TOLD: [&str; 8] = [
    "memtable_bytes",
    "memtables",
    "cache_bytes",
    "memory_bytes",
    "block_bytes",
    "filter_bits",
    "compression",
    "workers",
];

/// The note in the store's directory: what the bench put into which keyspace.
pub const NOTE: &str = "BENCH.json";

/// See `keel bench --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to measure.
    #[arg(id = "workload", value_name = "WORKLOAD", value_parser = workload_parser(), required_unless_present_any = ["properties", "operations"])]
    subject: Option<Subject>,
    /// Run the operations of a text file (I, U, D, R, Q, S and keys; `-` is the standard input) in their order.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "properties", "records", "ops", "seconds", "threads",
        "key_bytes", "value_bytes", "distribution", "warm", "no_settle", "crash"])]
    operations: Option<PathBuf>,
    /// Compare every answer with a map that takes the same operations.
    #[arg(long, requires = "operations")]
    check: bool,
    /// The engine to measure; several are compared.
    #[arg(long = "engine", value_name = "NAME", default_value = OURS, value_parser = engine_parser())]
    engines: Vec<String>,
    #[command(flatten)]
    run: RunArgs,
    /// Leave the directory in place; it is printed at the end.
    #[arg(long)]
    keep: bool,
    /// Allow writing benchmark records into a store that holds other data.
    #[arg(long)]
    use_existing: bool,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    compare: compare::CompareArgs,
    #[command(flatten)]
    options: EngineArgs,
    #[command(flatten)]
    device: DeviceArgs,
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
  keel bench ycsb-a --seconds 60 --report result   # then open result/report.html
  keel bench ycsb-a --trace ycsb-a.trace           # what is measured, to be replayed: keel trace replay
  keel bench soak --seconds 120
  keel bench ycsb-a --device 100MiB --device-latency-us 80
  keel bench ycsb-a --engine evenkeel --engine rocksdb --engine fjall --rounds 5 --report result

Unless told otherwise: a million records of 16 + 100 bytes and a million operations (100 000 for seekrandom, one pass over
the records for what reads or deletes all), 10 seconds for workloads with a writer beside; 100 000 records of 16 + 1000
bytes and 10 seconds for YCSB; a million records and 10 seconds for nutanix and oltp; a million records of 16 + 400 bytes, 24
readers and 600 seconds for soak. Workloads that read fill a fresh store first, wait until it is idle and read everything
once. docs/workloads.md describes the workloads and the files, docs/bench_json.md the JSON document, docs/comparison.md
comparisons, docs/report.md the report.

With --rate, --shape or --find-max-rate the loop is open: requests come when they come, wait in a queue for one of
--threads, and a latency is from coming to the end. Such a run takes 60 seconds, three turns of peaks, 300 seconds of
nutanix, or as long as the steps or the recording. Finding the highest rate takes up to --budget seconds, 120 unless said: a
rate is sustained if 99 % of the requests end while they come and the queue does not grow.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        catch_interrupts();
        // The parser forgoes what conflicts with the workload that is given.
        if self.check && self.operations.is_none() {
            return Err(Failure::usage("--check compares the answers of a file; add --operations FILE"));
        }
        if self.trace.asked() && (self.compares() || matches!(self.subject, Some(Subject::Soak))) {
            return Err(Failure::usage(
                "--trace records one run of one workload; leave it away from comparisons and soak",
            ));
        }
        let workload = match (&self.subject, &self.run.properties, &self.operations) {
            (Some(Subject::Workload(workload)), ..) => Properties::from(*workload),
            (Some(Subject::Soak), ..) if self.compares() => {
                return Err(Failure::usage("soak measures evenkeel alone"));
            }
            (Some(Subject::Soak), ..) => return self.run_soak(target),
            (None, Some(file), _) => read_properties(file)?,
            (None, None, Some(file)) if self.compares() => {
                if self.check || file == Path::new("-") {
                    return Err(Failure::usage(
                        "each run of a comparison reads the operations, and checks no answers; give a file, and leave --check away",
                    ));
                }
                Properties::from(&OPERATIONS)
            }
            (None, None, Some(file)) => return operations::run(self, file, target),
            (None, None, None) => return Err(Failure::usage("say what to measure")),
        };
        self.run.check(&workload.workload).map_err(Failure::usage)?;
        if self.run.crash && (self.compares() || target.db.is_none()) {
            return Err(Failure::usage(
                "--crash leaves one store as it is; give it a --db, and no other engine",
            ));
        }
        if self.compares() { self.compare(&workload, target) } else { self.run_workload(&workload, target) }
    }

    /// True if anything but one run of evenkeel is asked for.
    fn compares(&self) -> bool {
        self.engines != [OURS] || self.compare.asked()
    }

    /// Several engines, or several runs: see `verb/bench/compare.rs`.
    fn compare(&self, described: &Properties, target: &Target) -> Result<(), Failure> {
        if self.use_existing || target.keyspace != "default" {
            return Err(Failure::usage(
                "each run of a comparison is in a fresh store of its own; leave --use-existing and --keyspace away",
            ));
        }
        let place = Workspace::choose(target, self.keep)?;
        if !matches!(look(&place.dir)?, Place::Nothing | Place::EmptyDirectory) {
            return Err(Failure::work(format!(
                "{} is not empty; give a comparison another --db",
                place.dir.display()
            )));
        }
        let data = self.run.dataset(described);
        check_keys(&data)?;
        let ops = self.run.limits(described).0.unwrap_or(0);
        let plan = compare::Plan::new(&self.compare, &self.engines, &self.options, &self.device)?;
        self.result.prepare(&place.dir)?;
        let comparison = plan.run(&place.dir, self.keep, &data, ops)?;
        self.result
            .print(|| serde_json::to_string_pretty(&comparison), || comparison_table::text(&comparison))?;
        self.result.report_comparison(&comparison)?;
        if self.keep { place.leave() } else { Ok(()) }
    }

    /// A soak: see `verb/soak.rs`.
    fn run_soak(&self, target: &Target) -> Result<(), Failure> {
        if self.load.load().map_err(Failure::usage)?.is_some() {
            return Err(Failure::usage("soak has no rate; leave --rate, --shape and --find-max-rate away"));
        }
        if self.device.bytes_per_sec().is_some() {
            return Err(Failure::usage("soak measures the disk as it is; leave --device away"));
        }
        if self.run.ops.is_some() || self.run.distribution.is_some() {
            return Err(Failure::usage(
                "soak chooses evenly and ends by --seconds; leave --ops and --distribution away",
            ));
        }
        if self.run.warm.is_some() || self.run.no_settle || self.run.crash {
            return Err(Failure::usage(
                "soak fills its own store, and ends when that is idle; leave --warm, --no-settle and --crash away",
            ));
        }
        let value_bytes = match self.run.value_bytes {
            Some(sizes) if sizes.vary() => {
                return Err(Failure::usage(
                    "soak's values are of one length; give one number to --value-bytes",
                ));
            }
            sizes => sizes.map_or(400, ValueSizes::max),
        };
        if self.result.report.is_some() {
            return Err(Failure::usage(
                "soak has no report with plots; leave --report away, --json has every second",
            ));
        }
        self.options.options()?;
        let place = Workspace::choose(target, self.keep)?;
        self.result.prepare(&place.dir)?;
        if look(&place.dir)? == Place::Store && !self.use_existing {
            return Err(Failure::work(format!(
                "{} is a store already; give another --db, or --use-existing to write into it",
                place.dir.display()
            )));
        }
        let target = Target { db: Some(place.dir.clone()), keyspace: target.keyspace.clone() };
        let Store { db, keyspace, .. } = Store::open_or_create_all(&target, &self.options)?;
        let engine = EvenkeelEngine { db, keyspace, dir: place.dir.clone(), device: None };
        let plan = SoakPlan {
            seconds: self.run.seconds.unwrap_or(600.0),
            readers: usize::from(self.run.threads.unwrap_or(24)),
            records: self.run.records.unwrap_or(1_000_000),
            key_bytes: self.run.key_bytes.unwrap_or(16),
            value_bytes,
            seed: self.run.seed,
        };
        let report = super::soak::run(&Stoppable(&engine), plan)?;
        close(engine)?;
        self.result.print(|| report.to_json(), || evenkeel_lab::run::soak::text(&report))?;
        place.leave()?;
        super::soak::verdict(&report)
    }

    fn run_workload(&self, described: &Properties, target: &Target) -> Result<(), Failure> {
        let workload = &described.workload;
        let load = self.load.load().map_err(Failure::usage)?;
        if let Some(load) = &load {
            load.check(workload, self.run.limits(described).1).map_err(Failure::usage)?;
        }
        self.options.options()?;
        let place = Workspace::choose(target, self.keep)?;
        let mut notes = Notes::read(&place.dir)?;
        let known = notes.0.get(&target.keyspace).copied();
        let before = self.before(&place, known, &notes)?;
        let data = self.dataset(described, known)?;
        check_keys(&data)?;
        self.result.prepare(&place.dir)?;
        self.trace.check()?;
        let began_ms = clock::wall_ms();
        let opening = clock::now();
        let (engine, config, sole) = self.open(target, &place, before)?;
        engine.keyspace.get(FIRST_QUESTION)?;
        let open_seconds = opening.elapsed().as_secs_f64();
        let plan = self.run.plan(described, data, known.is_some(), load.as_ref());
        let progress = BenchProgress::default();
        let traced = TracedMeasurement::new(&progress, &self.trace, &engine.db);
        let outcome = match self.run.crash {
            true => driver::run(&Stoppable(&engine), &plan, &Crash::after(&traced)),
            false => driver::run(&Stoppable(&engine), &plan, &traced),
        };
        progress.clear();
        traced.end()?;
        let outcome = outcome.map_err(|error| failed(&error))?;
        let mut document = Document::new(&engine, &plan, &outcome, config);
        document.config.set_device(self.device.told());
        if !sole {
            // Other data share the directory: only the engine knows what is live.
            document.amplification.space = outcome.figures.space_amplification;
        }
        document.provenance = Some(Provenance::here(began_ms, &place.dir));
        document.open_seconds = Some(open_seconds);
        close(engine)?;
        let deleted = data.deleted || workload.deletes();
        notes.0.insert(target.keyspace.clone(), Dataset { records: outcome.records, deleted, ..data });
        notes.write(&place.dir)?;
        self.result.print(|| document.to_json(), || report::text(&document))?;
        self.result.report(Run::new("", document))?;
        place.leave()?;
        if outcome.wrong_reads > 0 {
            let wrong = outcome.wrong_reads;
            return Err(Failure::work(format!(
                "{wrong} reads were wrong; the store does not hold what was written"
            )));
        }
        Ok(())
    }

    /// What the directory holds; an error if that may not be written to.
    fn before(&self, place: &Workspace, known: Option<Dataset>, notes: &Notes) -> Result<Before, Failure> {
        let dir = place.dir.display();
        match (look(&place.dir)?, known) {
            (Place::Store, Some(_)) => Ok(Before::Records),
            (Place::Store, None) if self.use_existing => Ok(Before::Others),
            (Place::Store, None) => Err(Failure::work(match notes.0.keys().next() {
                Some(other) => format!(
                    "the bench filled keyspace `{other}` of {dir}, not this one; add --keyspace {other}"
                ),
                None => format!(
                    "{dir} is a store that the bench did not fill; give another --db, or --use-existing to write into it"
                ),
            })),
            _ => Ok(Before::Nothing),
        }
    }

    /// The engine with its configuration, and whether the directory holds nothing else.
    fn open(
        &self,
        target: &Target,
        place: &Workspace,
        before: Before,
    ) -> Result<(EvenkeelEngine, BTreeMap<String, serde_json::Value>, bool), Failure> {
        let target = Target { db: Some(place.dir.clone()), keyspace: target.keyspace.clone() };
        let device = self.device.emulated()?;
        let Store { db, keyspace, .. } =
            Store::open_or_create_all(&target, &self.options.answering().on(device.clone()))?;
        let mut config = engine_config(&self.options, &db.options(), &keyspace);
        for (name, file) in [("properties", &self.run.properties), ("operations", &self.operations)] {
            if let Some(file) = file {
                config.insert(name.to_owned(), file.display().to_string().into());
            }
        }
        let sole = match before {
            Before::Nothing => true,
            Before::Records => db.keyspaces().len() == 1,
            Before::Others => false,
        };
        Ok((EvenkeelEngine { db, keyspace, dir: place.dir.clone(), device }, config, sole))
    }

    /// The records: as noted in the store, or as asked for.
    fn dataset(&self, described: &Properties, known: Option<Dataset>) -> Result<Dataset, Failure> {
        let workload = &described.workload;
        let Some(known) = known else {
            return Ok(self.run.dataset(described));
        };
        if known.deleted {
            return Err(Failure::usage(
                "records of this store were deleted by an earlier run, and nobody knows which; give another --db",
            ));
        }
        let differs = self.run.records.is_some_and(|n| n != known.records)
            || self.run.key_bytes.is_some_and(|n| n != known.key_bytes)
            || self.run.value_bytes.is_some_and(|n| n != known.value_bytes)
            || (workload.needs_order() && workload.order != known.order);
        if differs {
            return Err(Failure::usage(format!(
                "the store has {} records of {} + {} bytes {} already; leave --records, --key-bytes and \
                 --value-bytes away, or give another --db",
                known.records,
                known.key_bytes,
                known.value_bytes,
                match known.order {
                    KeyOrder::Sequential => "in ascending order",
                    KeyOrder::Random => "in random order",
                }
            )));
        }
        Ok(known)
    }
}

/// Refuses records whose keys cannot be.
fn check_keys(data: &Dataset) -> Result<(), Failure> {
    Keys::new(data.key_bytes, data.order, data.seed, data.records).map(drop).map_err(Failure::usage)
}

/// The directory of the run.
pub struct Workspace {
    /// Where it is; nothing is made yet.
    pub dir: PathBuf,
    /// Removed at the end, whichever way the run ends.
    temporary: bool,
}

impl Workspace {
    /// The directory that is asked for, or a temporary one.
    pub fn choose(target: &Target, keep: bool) -> Result<Workspace, Failure> {
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
    pub fn leave(self) -> Result<(), Failure> {
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

/// What a path is.
pub fn look(dir: &Path) -> Result<Place, Failure> {
    files::look(dir).map_err(|error| Failure::work(format!("cannot look into {}: {error}", dir.display())))
}

/// What the directory of a run holds before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No store.
    Nothing,
    /// Records that the bench wrote, in the same keyspace.
    Records,
    /// A store that the bench did not fill.
    Others,
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

/// What the engine was opened with, for the document.
pub fn engine_config(
    args: &EngineArgs,
    options: &Options,
    keyspace: &Keyspace,
) -> BTreeMap<String, serde_json::Value> {
    let set: serde_json::Map<String, serde_json::Value> = args
        .set
        .iter()
        .filter_map(|assignment| assignment.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().into()))
        .collect();
    let told: serde_json::Map<String, serde_json::Value> = TOLD
        .iter()
        .filter_map(|name| Options::info(name).ok())
        .map(|option| (option.name.to_owned(), option.value(options).into()))
        .collect();
    BTreeMap::from([
        ("strategy".to_owned(), args.strategy.clone().unwrap_or_else(|| keyspace.strategy_text()).into()),
        ("schedule".to_owned(), options.schedule.as_str().into()),
        (
            "sync".to_owned(),
            if keyspace.no_wal() { "no-wal".into() } else { options.durability.to_string().into() },
        ),
        ("set".to_owned(), set.into()),
        ("options".to_owned(), told.into()),
    ])
}

/// The records of a store are no longer what the bench noted of it: something else is about to write to it.
pub fn outdate_notes(dir: &Path) -> Result<(), Failure> {
    let mut notes = Notes::read(dir)?;
    if notes.0.is_empty() {
        return Ok(());
    }
    notes.0.values_mut().for_each(|data| data.deleted = true);
    notes.write(dir)
}

/// Closes the store under measurement.
pub fn close(engine: EvenkeelEngine) -> Result<(), Failure> {
    let EvenkeelEngine { db, keyspace, .. } = engine;
    drop(keyspace);
    Ok(db.close()?)
}

pub fn read_properties(file: &Path) -> Result<Properties, Failure> {
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

fn engine_parser() -> PossibleValuesParser {
    PossibleValuesParser::new([OURS].into_iter().chain(PEERS))
}
