//! `keel lab`: experiments by name. Lists them, or runs their cells, each a process, and judges their claims.
//!
//! ```text
//! names ─► cells (evenkeel_lab::verdicts::cells) ─► runner: finished? time left? ─► a process each, from a copy of a settled store
//!                                             └─► OUT/cells/… ─► verdicts (evenkeel_lab::verdicts::judging) ─► OUT/verdicts.json, report.html
//! ```

/// One cell of the design space.
mod cell;
/// What there is.
mod list;
/// Verdicts, pages and tables.
mod results;
/// Runs what is not finished yet.
mod runner;
/// The same over schedules.
mod schedule_runner;
/// Settled stores, and copies of them.
mod stores;
/// What the runners of studies have in common.
mod study_cells;
/// The same over the design space.
mod study_runner;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use evenkeel_lab::base::clock;
use evenkeel_lab::design_space;
use evenkeel_lab::design_space::cells::ROUNDS;
use evenkeel_lab::design_space::study::Study;
use evenkeel_lab::experiments::{ALL, FIGURES, SCHEDULES, STUDIES, names, not_reproduced};
use evenkeel_lab::results::settings::{OURS, PEERS, Settings};
use evenkeel_lab::scheduling;
use evenkeel_lab::verdicts::cells::{self, Scale};
use evenkeel_lab::verdicts::experiment::Experiment;

use self::list::list;
use self::results::{Engines, Schedules, Space};
use self::runner::{Ended, Programs, Ran, Runner};
use self::schedule_runner::{ScheduleRan, ScheduleRunner};
use self::study_cells::Folder;
use self::study_runner::{StudyRan, StudyRunner};
use super::bench::process;
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::output::note;
use crate::store::Target;

/// Stands for the name of each experiment.
const EVERY: &str = "all";

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel lab list
  keel lab run peers-fill --quick                                  does it work here?
  keel lab run peers-read --engine evenkeel --engine rocksdb --out read
  keel lab run peers-ycsb --work a-50 --settings equal             the tails of one rate
  keel lab run cds-fig4 cds-fig8 --quick                           compaction strategies beside each other
  keel lab run silk-fig8 dlc-fig6 --quick                          schedules beside each other
  keel lab run all --budget 8h --out night                         again goes on where it stopped
  open night/report.html

docs/lab.md says how to read verdicts and how to add an experiment.";

/// See `keel lab --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the experiments with their claims and how long they take.
    List {
        /// Print them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run experiments; what is finished in --out is not run again.
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArgs>),
    /// Run one cell of an experiment over the design space, and print its figures as JSON.
    #[command(after_help = cell::EXAMPLES)]
    Cell(cell::CellArgs),
}

/// See `keel lab run --help`.
#[derive(clap::Args, Debug)]
struct RunArgs {
    /// Experiments of `keel lab list`, or all.
    #[arg(value_name = "NAME", required = true, value_parser = Names)]
    names: Vec<String>,
    /// An eighth of data, memtables and caches (cds-: a 32nd), at most 60 seconds each, one round: to see that it works, not to be
    /// quoted.
    #[arg(long, conflicts_with = "part")]
    quick: bool,
    /// Data, memtables, caches and times divided by N, one round; as little to be quoted as --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    part: Option<u64>,
    /// Start nothing that would not be through in this time, for instance 90s, 30m or 2h; the same command goes on later.
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Where cells, verdicts and pages are kept, and stores meanwhile: the disk that is measured.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// Runs of each system, instead of what the experiment says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// The first of these rounds, each of which has a seed of its own, 42 the first: to run them on different days.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    first_round: u16,
    /// The engines that run; unless said those that `keel lab list` counts for an experiment: evenkeel, RocksDB in some variants,
    /// and fjall.
    #[arg(long = "engine", value_name = "NAME", value_parser = PossibleValuesParser::new([OURS].into_iter().chain(PEERS)))]
    engines: Vec<String>,
    /// Only this work of the experiments, and what finds the rate that it takes a share of; may be given several times.
    #[arg(long = "work", value_name = "NAME")]
    works: Vec<String>,
    /// How engines are set up: all alike, each by its own advice, or both in turn, unless said.
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(["equal", "recommended", "both"]))]
    settings: Option<String>,
    /// The command that measures the other engines; else `KEEL_PEERS`, or peers/target/release/keel-peers.
    #[arg(long, value_name = "PATH")]
    peers: Option<PathBuf>,
    /// Run no cell again because it was disturbed: enough where only what is counted is looked at, not times.
    #[arg(long)]
    once: bool,
    /// Leave the filled stores in place, for the next time.
    #[arg(long)]
    keep: bool,
}

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if target.db.is_some() || target.keyspace != "default" {
            return Err(Failure::usage(
                "the lab makes its own stores below --out; leave --db and --keyspace away",
            ));
        }
        match &self.action {
            Action::List { json } => list(*json),
            Action::Run(args) => args.run(),
            Action::Cell(args) => args.run(),
        }
    }
}

impl RunArgs {
    fn run(&self) -> Result<(), Failure> {
        let (chosen, studies, schedules) = (self.chosen(), self.studies(), self.schedules());
        self.check_flags(chosen.is_empty())?;
        let scale = self.scale();
        let started = clock::now();
        let mut cells = cells::plan(&chosen, ALL, &self.engines, &self.settings(), scale);
        if !self.works.is_empty() {
            cells = cells::only(cells, &self.works).map_err(Failure::usage)?;
        }
        let peers = match cells.iter().any(|cell| cell.system.engine != OURS) {
            true => Some(process::find_peers(self.peers.as_deref())?),
            false => None,
        };
        let points = design_space::cells::plan(&studies, scale.rounds_or(ROUNDS));
        let rows = scheduling::cells::plan(&schedules, scale.rounds_or(scheduling::cells::ROUNDS));
        let _claimed = self.claim_out()?;
        let programs = Programs::new(peers)?;
        let program = programs.ours().to_owned();
        let (out, budget) = (self.out.as_path(), self.budget);
        let runner = Runner { out, programs, scale, started, budget, keep: self.keep, once: self.once };
        let ran = runner.run(&cells)?;
        let folder = Folder { out, program, divide: scale.divide(), started, budget, once: self.once };
        let space = StudyRunner { folder: folder.clone(), quick: self.quick }.run(&points)?;
        let ran_rows = ScheduleRunner { folder, keep: self.keep }.run(&rows)?;
        let beside = Engines { chosen: &chosen, planned: &cells, ran: &ran };
        let over = Space { chosen: &studies, planned: &points, ran: &space };
        let under = Schedules { chosen: &schedules, planned: &rows, ran: &ran_rows };
        results::write(out, &beside, &over, &under, scale)?;
        note(&format!("keel: the report is {}", self.out.join(results::PAGE).display()));
        let (of_space, under) =
            (space.left_note("of the design space"), ran_rows.left_note("over schedules"));
        ran.left_note().into_iter().chain(of_space).chain(under).for_each(|line| note(&line));
        failure(&ran, &space, &ran_rows)
    }

    /// Refuses flags that say nothing to what was chosen, and an engine that is named twice.
    fn check_flags(&self, no_engines: bool) -> Result<(), Failure> {
        let given = [
            ("--engine", !self.engines.is_empty()),
            ("--work", !self.works.is_empty()),
            ("--settings", self.settings.is_some()),
            ("--peers", self.peers.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, is_given)| no_engines && *is_given) {
            return Err(Failure::usage(format!(
                "{flag} is for experiments that set engines beside each other (peers-...), and none was chosen"
            )));
        }
        let twice = self.engines.iter().enumerate().find(|(i, engine)| self.engines[..*i].contains(engine));
        twice.map_or(Ok(()), |(_, engine)| Err(Failure::usage(format!("--engine {engine} is there twice"))))
    }

    /// Makes the directory of results, and keeps others out until what this answers is dropped.
    fn claim_out(&self) -> Result<std::fs::File, Failure> {
        if matches!(look(&self.out)?, Place::Store | Place::NoDirectory) {
            return Err(Failure::usage(format!(
                "{} is a store or a file; give another --out",
                self.out.display()
            )));
        }
        let cannot = |error| Failure::work(format!("cannot write into {}: {error}", self.out.display()));
        files::make_dir(&self.out).map_err(cannot)?;
        files::claim(&self.out.join("lab.lock")).map_err(cannot)?.ok_or_else(|| {
            Failure::work(format!(
                "another keel works in {}; wait for it, or give another --out",
                self.out.display()
            ))
        })
    }

    fn chosen(&self) -> Vec<&'static Experiment> {
        let named = |e: &&&Experiment| self.names.iter().any(|name| name == e.id || name == EVERY);
        ALL.iter().filter(named).copied().collect()
    }

    fn studies(&self) -> Vec<&'static Study> {
        let named = |study: &&&Study| self.names.iter().any(|name| name == EVERY || names(name, study.id));
        STUDIES.iter().filter(named).copied().collect()
    }

    fn schedules(&self) -> Vec<&'static scheduling::study::Study> {
        let named =
            |s: &&&scheduling::study::Study| self.names.iter().any(|name| name == EVERY || names(name, s.id));
        SCHEDULES.iter().filter(named).copied().collect()
    }

    fn scale(&self) -> Scale {
        let scale = match (self.quick, self.part) {
            (true, _) => Scale::quick(self.rounds),
            (false, Some(n)) => Scale::part(n, self.rounds),
            (false, None) => Scale::full(self.rounds),
        };
        scale.from_round(self.first_round)
    }

    fn settings(&self) -> Vec<Settings> {
        match self.settings.as_deref().and_then(Settings::parse) {
            Some(settings) => vec![settings],
            None => Settings::ALL.map(|(_, settings)| settings).into(),
        }
    }
}

/// What the command ends with.
fn failure(ran: &Ran, space: &StudyRan, under: &ScheduleRan) -> Result<(), Failure> {
    if [ran.ended, space.ended, under.ended].contains(&Ended::Interrupted) {
        return Err(Failure::work("interrupted; what is finished stays, and the same command goes on"));
    }
    if let Some(first) = ran.failed.first() {
        return Err(Failure::work(format!(
            "{} of the systems failed in a work, the first {} {} in {}: {}",
            ran.failed.len(),
            first.engine,
            first.settings,
            first.work,
            first.why
        )));
    }
    for (failed, what) in [(&space.failed, "of the design space"), (&under.failed, "over schedules")] {
        if let Some((first, why)) = failed.first() {
            let n = failed.len();
            return Err(Failure::work(format!("{n} cells {what} failed, the first {first}: {why}")));
        }
    }
    Ok(())
}

/// Takes a name that can be typed; of a figure that is not reproduced it says why.
#[derive(Clone)]
struct Names;

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        match value.to_str().and_then(not_reproduced) {
            Some(why) if !typed().any(|name| value == name) => {
                let text = format!("{} is not reproduced: {why}\n", value.display());
                Err(clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(cmd))
            }
            _ => PossibleValuesParser::new(typed()).parse_ref(cmd, arg, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(typed().map(PossibleValue::new)))
    }
}

/// Every name that can be typed.
fn typed() -> impl Iterator<Item = &'static str> {
    let studies = STUDIES.iter().map(|study| study.id);
    let schedules = SCHEDULES.iter().map(|study| study.id);
    ALL.iter().map(|e| e.id).chain(studies).chain(schedules).chain(FIGURES.iter().copied()).chain([EVERY])
}

fn look(dir: &std::path::Path) -> Result<Place, Failure> {
    files::look(dir).map_err(|error| Failure::work(format!("cannot look into {}: {error}", dir.display())))
}

/// For people: two units at most.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A length of time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time above 0 with its unit, for instance 90s, 30m or 2h".to_owned();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let unit = match text.get(split..) {
        Some("s") => 1.0,
        Some("m" | "min") => 60.0,
        Some("h") => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text.get(..split).and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    let seconds = number * unit;
    if seconds > 0.0 && seconds < 1e8 { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2min", 120)] {
            assert_eq!(time(text).unwrap().as_secs(), seconds);
        }
        for text in ["", "5", "h", "-1h", "0s", "2d", "1e9h", "nanh"] {
            assert!(time(text).is_err(), "{text}");
        }
        let shown = [0.4, 59.0, 61.0, 3600.0, 9000.0].map(duration);
        assert_eq!(shown, ["0 s", "59 s", "1 min", "1 h", "2 h 30 min"]);
    }
}
