//! `keel-peers bench`: one run of one engine, told as the document of `keel bench`.
//!
//! In a fresh directory, or in one that an earlier run has filled: it left a note of its records, which engines do not mind.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::Provenance;
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report;
use evenkeel_lab::results::settings::{Common, PEERS, Settings};
use evenkeel_lab::run::arguments::RunArgs;
use evenkeel_lab::run::driver::{self, Dataset};
use evenkeel_lab::run::engine::Engine;
use evenkeel_lab::run::execute;
use evenkeel_lab::run::load_arguments::LoadArgs;
use evenkeel_lab::run::phase::{Crash, FIRST_QUESTION, Unwatched};
use evenkeel_lab::run::replay::{self, OPERATIONS};
use evenkeel_lab::workloads::catalog::{CATALOG, find};
use evenkeel_lab::workloads::property_file::{self, Properties};
use evenkeel_lab::workloads::workload::Workload;

use crate::asked::{Asked, Durability};
use crate::{Failure, engines, print};

/// The note of an earlier run in its directory, as `keel bench` writes it: records by keyspace.
const NOTE: &str = "BENCH.json";
/// Engines have one keyspace here.
const KEYSPACE: &str = "default";

/// See `keel-peers bench --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to measure.
    #[arg(value_name = "WORKLOAD", value_parser = workload_parser(), required_unless_present_any = ["properties", "operations"])]
    workload: Option<&'static Workload>,
    /// Run the operations of a text file in their order.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "properties", "use_existing", "warm", "no_settle", "crash"])]
    operations: Option<PathBuf>,
    /// The engine to measure.
    #[arg(long, value_parser = PossibleValuesParser::new(PEERS))]
    engine: String,
    /// Like the others, or by the engine's own advice.
    #[arg(long, default_value = "equal", value_parser = PossibleValuesParser::new(Settings::ALL.map(|(name, _)| name)))]
    settings: String,
    /// What a write promises: os, sync or no-wal.
    #[arg(long, value_name = "MODE", default_value = "os")]
    sync: Durability,
    /// One of the settings that all engines have, for instance cache_bytes=64MiB. May be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// The directory of the run, which must not be there or be empty; it stays. Without, one that is removed at the end.
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Measure the records that an earlier run left in --db, instead of filling.
    #[arg(long, requires = "db")]
    use_existing: bool,
    /// Only look whether this engine can do what is asked, in an empty store.
    #[arg(long, conflicts_with = "use_existing")]
    only_check: bool,
    /// Write the result as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        let described = self.described()?;
        self.run.check(&described.workload).map_err(Failure::usage)?;
        if let Some(load) = self.load.load().map_err(Failure::usage)? {
            load.check(&described.workload, self.run.limits(&described).1).map_err(Failure::usage)?;
        }
        if self.run.crash && self.db.is_none() {
            return Err(Failure::usage("--crash leaves the store as it is; give it a --db"));
        }
        if self.operations.is_some() {
            replay::check(&self.load).map_err(Failure::usage)?;
        }
        let settings = Settings::parse(&self.settings).unwrap_or(Settings::Equal);
        let common = common(&self.set, settings)?;
        let place = Place::choose(self.db.as_deref(), self.use_existing)?;
        let asked = Asked { dir: place.dir.clone(), settings, common, durability: self.sync };
        engines::measure(&self.engine, &asked, self)
    }

    /// What to measure.
    fn described(&self) -> Result<Properties, Failure> {
        match (self.workload, &self.run.properties) {
            (Some(workload), _) => Ok(Properties::from(workload)),
            (None, Some(file)) => read_properties(file),
            (None, None) if self.operations.is_some() => Ok(Properties::from(&OPERATIONS)),
            (None, None) => Err(Failure::usage("say what to measure")),
        }
    }

    /// The records: as an earlier run noted them, or as asked for.
    fn dataset(&self, described: &Properties) -> Result<Dataset, Failure> {
        let Some(dir) = self.db.as_deref().filter(|_| self.use_existing) else {
            return Ok(self.run.dataset(described));
        };
        let known = read_note(dir)?;
        let workload = &described.workload;
        let differs = self.run.records.is_some_and(|n| n != known.records)
            || self.run.key_bytes.is_some_and(|n| n != known.key_bytes)
            || self.run.value_bytes.is_some_and(|n| n != known.value_bytes)
            || (workload.needs_order() && workload.order != known.order);
        if differs || known.deleted {
            return Err(Failure::usage(format!(
                "{} holds {} records of {} + {} bytes{}, not what this asks for; give a fresh --db",
                dir.display(),
                known.records,
                known.key_bytes,
                known.value_bytes,
                if known.deleted { ", some deleted" } else { "" }
            )));
        }
        Ok(known)
    }

    /// Runs the workload on an engine that is open; `opening` is when it began to be opened.
    pub fn measure<E: Engine>(
        &self,
        engine: &E,
        dir: &Path,
        mut config: BTreeMap<String, serde_json::Value>,
        opening: Instant,
    ) -> Result<(), Failure> {
        let began_ms = clock::wall_ms();
        engine.get(FIRST_QUESTION).map_err(Failure::work)?;
        let open_seconds = opening.elapsed().as_secs_f64();
        let described = self.described()?;
        execute::check(engine, &described.workload).map_err(Failure::usage)?;
        if self.only_check {
            return Ok(());
        }
        for (name, file) in [("properties", &self.run.properties), ("operations", &self.operations)] {
            if let Some(file) = file {
                config.insert(name.to_owned(), file.display().to_string().into());
            }
        }
        let mut document = match &self.operations {
            Some(file) => self.replay(engine, file, config)?,
            None => self.drive(engine, &described, config)?,
        };
        document.open_seconds = Some(open_seconds);
        document.provenance = Some(Provenance::here(began_ms, dir));
        let json = || document.to_json().map_err(Failure::work);
        match &self.json {
            Some(path) if path == Path::new("-") => print(&(json()? + "\n"))?,
            Some(path) => {
                std::fs::write(path, json()? + "\n").map_err(Failure::work)?;
                print(&report::text(&document))?;
            }
            None => print(&report::text(&document))?,
        }
        match document.wrong_reads {
            0 => Ok(()),
            wrong => Err(Failure::work(format!(
                "{wrong} reads were wrong; {} does not hold what was written",
                self.engine
            ))),
        }
    }

    /// The workload, from the records that it starts with.
    fn drive<E: Engine>(
        &self,
        engine: &E,
        described: &Properties,
        config: BTreeMap<String, serde_json::Value>,
    ) -> Result<Document, Failure> {
        let data = self.dataset(described)?;
        let load = self.load.load().map_err(Failure::usage)?;
        let plan = self.run.plan(described, data, self.use_existing, load.as_ref());
        let outcome = match self.run.crash {
            true => driver::run(engine, &plan, &Crash::after(&Unwatched)),
            false => driver::run(engine, &plan, &Unwatched),
        };
        let outcome = outcome.map_err(Failure::work)?;
        if let Some(dir) = &self.db {
            let deleted = data.deleted || described.workload.deletes();
            write_note(dir, Dataset { records: outcome.records, deleted, ..data })?;
        }
        Ok(Document::new(engine, &plan, &outcome, config))
    }

    /// A file of operations, in its order.
    fn replay<E: Engine>(
        &self,
        engine: &E,
        file: &Path,
        config: BTreeMap<String, serde_json::Value>,
    ) -> Result<Document, Failure> {
        let input = std::fs::File::open(file)
            .map_err(|error| Failure::work(format!("cannot read {}: {error}", file.display())))?;
        let (data, outcome) = replay::run(engine, BufReader::new(input), None, &Unwatched)
            .map_err(|error| Failure::work(format!("{}: {error}", file.display())))?;
        Ok(Document::new(engine, &replay::plan(data, self.run.seed), &outcome, config))
    }
}

fn read_note(dir: &Path) -> Result<Dataset, Failure> {
    let path = dir.join(NOTE);
    let broken = |what: String| {
        Failure::work(format!(
            "{}: {what}; --use-existing needs a directory that a run has filled",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(&path).map_err(|error| broken(error.to_string()))?;
    let noted: BTreeMap<String, Dataset> =
        serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    noted.get(KEYSPACE).copied().ok_or_else(|| broken("it notes no records".to_owned()))
}

fn write_note(dir: &Path, data: Dataset) -> Result<(), Failure> {
    let path = dir.join(NOTE);
    let text = serde_json::to_string_pretty(&BTreeMap::from([(KEYSPACE, data)])).map_err(Failure::work)?;
    std::fs::write(&path, text + "\n")
        .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))
}

/// The workload of a property file.
fn read_properties(file: &Path) -> Result<Properties, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::work(format!("cannot read {}: {error}", file.display())))?;
    let read = property_file::parse(&text);
    let read = read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Properties { workload: Workload { name: "properties", ..read.workload }, ..read })
}

/// The common settings with what `--set` says of them.
fn common(set: &[String], settings: Settings) -> Result<Common, Failure> {
    let mut common = Common::default();
    for assignment in set {
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set takes NAME=VALUE, not `{assignment}`")))?;
        if !common.set(name.trim(), value.trim()).map_err(Failure::usage)? {
            let names = Common::NAMES.map(|(name, _)| name).join(" ");
            return Err(Failure::usage(format!(
                "--set {assignment}: peers have only what all engines have in common: {names}"
            )));
        }
        Common::check(name.trim(), settings).map_err(Failure::usage)?;
    }
    Ok(common)
}

/// The directory of the run.
struct Place {
    dir: PathBuf,
    temporary: bool,
}

impl Place {
    fn choose(asked: Option<&Path>, filled: bool) -> Result<Place, Failure> {
        if let Some(dir) = asked.filter(|_| filled) {
            read_note(dir)?;
            return Ok(Place { dir: dir.to_owned(), temporary: false });
        }
        let temporary = asked.is_none();
        let own = || std::env::temp_dir().join(format!("keel-peers-{}", std::process::id()));
        let dir = asked.map_or_else(own, Path::to_owned);
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::work(format!("cannot make {}: {error}", dir.display())))?;
        let mut entries = std::fs::read_dir(&dir).map_err(Failure::work)?;
        if entries.next().is_some() {
            return Err(Failure::work(format!("{} is not empty; give another --db", dir.display())));
        }
        Ok(Place { dir, temporary })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed stays in the temporary directory, where others look after it.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn workload_parser() -> impl TypedValueParser<Value = &'static Workload> {
    let values = CATALOG.iter().map(|workload| PossibleValue::new(workload.name).help(workload.what));
    PossibleValuesParser::new(values).try_map(|name| find(&name).ok_or("no such workload"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_left_is_found_by_its_note() {
        let dir = tempfile::tempdir().unwrap();
        let Err(Failure(1, message)) = Place::choose(Some(dir.path()), true) else { panic!("it is filled") };
        assert!(message.contains(NOTE) && message.contains("--use-existing"), "{message}");
        let described = Properties::from(find("readrandom").unwrap());
        let parse = |words: &str| {
            #[derive(clap::Parser)]
            struct Command {
                #[command(flatten)]
                args: Args,
            }
            let db = dir.path().to_str().unwrap().to_owned();
            let words = ["x".to_owned()].into_iter().chain(words.split(' ').map(str::to_owned));
            let words = words.chain(["--db".to_owned(), db]);
            <Command as clap::Parser>::try_parse_from(words).unwrap().args
        };
        let filled = parse("fillrandom --engine fjall --records 70 --seed 5").run.dataset(&described);
        assert!(write_note(dir.path(), filled).is_ok());
        assert!(Place::choose(Some(dir.path()), true).is_ok());
        assert!(Place::choose(Some(dir.path()), false).is_err(), "it is not empty");
        let known = |words: &str| parse(&format!("readrandom --engine fjall --use-existing{words}"));
        assert_eq!(known(" --seed 7").dataset(&described).ok(), Some(filled));
        assert_eq!(known(" --records 70").dataset(&described).ok(), Some(filled));
        let Err(Failure(2, message)) = known(" --records 71").dataset(&described) else {
            panic!("70 are 71")
        };
        assert!(message.contains("70 records"), "{message}");
    }

    #[test]
    fn only_what_is_common_is_set() {
        let set = |text: &str, settings| common(&[text.to_owned()], settings);
        assert_eq!(set("cache_bytes=1MiB", Settings::Recommended).ok().unwrap().cache_bytes, 1 << 20);
        assert_eq!(set("block_bytes=8KiB", Settings::Equal).ok().unwrap().block_bytes, 8 << 10);
        for (text, settings) in [
            ("block_bytes=8KiB", Settings::Recommended),
            ("workers=2", Settings::Equal),
            ("cache_bytes", Settings::Equal),
            ("cache_bytes=many", Settings::Equal),
        ] {
            let Err(Failure(code, message)) = set(text, settings) else { panic!("{text} is taken") };
            assert!(code == 2 && message.contains("cache_bytes") || message.contains("equal"), "{message}");
        }
    }
}
