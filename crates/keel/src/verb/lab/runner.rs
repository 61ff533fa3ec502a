//! Runs the cells that are not finished yet, one after the other, and keeps each as a file the moment it is through.
//!
//! A finished cell counts only if it was asked for the same, of the same build: the words and a fingerprint of the program
//! stand in its file. What one system cannot do ends that system's part of a work, not the run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::{Host, Provenance, quoted};
use evenkeel_lab::results::comparison::Run;
use evenkeel_lab::results::settings::OURS;
use evenkeel_lab::verdicts::cells::{Asked, Cell, Finished, Scale};
use evenkeel_lab::verdicts::experiment::Pace;
use evenkeel_lab::verdicts::judging::Failed;

use super::duration;
use super::stores::{self, Stores};
use crate::child::catch_interrupts;
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::files;
use crate::loop_device::LoopDevice;
use crate::output::note;
use crate::progress::RunsBar;
use crate::store::EngineArgs;
use crate::verb::bench::process::{self, Process, REPEATS_MAX};

/// The commands that measure.
pub struct Programs {
    ours: String,
    peers: Option<(PathBuf, String)>,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All cells are finished, or failed.
    Through,
    /// The next cell would have taken longer than was left.
    Budget,
    /// By Ctrl-C.
    Interrupted,
}

/// What came of all cells.
pub struct Ran {
    /// Those that are finished, earlier or now.
    pub finished: Vec<Finished>,
    /// Systems that could not run a work.
    pub failed: Vec<Failed>,
    /// Cells that were run now.
    pub run: usize,
    /// Cells that are left, by experiment and work.
    pub left: BTreeMap<String, usize>,
    /// Cells in all.
    pub all: usize,
    /// Why it ended.
    pub ended: Ended,
}

/// What a run of cells needs to know.
pub struct Runner<'a> {
    /// Where all is kept.
    pub out: &'a Path,
    /// What measures.
    pub programs: Programs,
    /// How much is run.
    pub scale: Scale,
    /// When the command began.
    pub started: Instant,
    /// How long it may take.
    pub budget: Option<Duration>,
    /// Filled stores stay.
    pub keep: bool,
    /// A disturbed cell is not run again.
    pub once: bool,
}

impl Programs {
    /// This command, and the one for peers where that is needed.
    pub fn new(peers: Option<PathBuf>) -> Result<Programs, Failure> {
        let this = std::env::current_exe()
            .map_err(|error| Failure::work(format!("cannot find this command to start it again: {error}")))?;
        let fingerprint = |path: &Path| {
            files::fingerprint(path)
                .map_err(|error| Failure::work(format!("cannot read {}: {error}", path.display())))
        };
        let peers = peers.map(|path| fingerprint(&path).map(|print| (path, print))).transpose()?;
        Ok(Programs { ours: fingerprint(&this)?, peers })
    }

    /// What tells a build of this command from another.
    pub fn ours(&self) -> &str {
        &self.ours
    }

    /// What tells a build of the commands that measure from another: if one has changed, the cells of both are run again, for
    /// engines are compared by what one build of the instrument saw in alternating rounds.
    fn fingerprint(&self) -> String {
        match &self.peers {
            Some((_, peers)) => format!("{} {peers}", self.ours),
            None => self.ours.clone(),
        }
    }

    /// The process that does this on the cell's system.
    fn process(
        &self,
        cell: &Cell,
        words: Vec<String>,
        sync: &str,
        set: &[String],
        own: &[String],
    ) -> Result<Process, Failure> {
        let words = words.into_iter().map(OsString::from).collect();
        let options = EngineArgs { sync: Some(sync.to_owned()), ..EngineArgs::default() };
        let (engine, settings) = (cell.system.engine.as_str(), cell.system.settings);
        match &self.peers {
            Some((path, _)) if engine != OURS => {
                Ok(process::peer(path, words, engine, settings, set, &options))
            }
            _ => process::ours(words, settings, set, own, &options, &DeviceArgs::default()),
        }
    }
}

/// A cell with all that it takes to run it.
struct Ready<'a> {
    cell: &'a Cell,
    process: Process,
    asked: Asked,
    /// The store that it starts from, and what fills that.
    store: Option<(String, Process)>,
    /// Writes into the copy and dies.
    crash: Option<Process>,
}

impl Runner<'_> {
    /// Runs what is not finished yet.
    pub fn run(&self, cells: &[Cell]) -> Result<Ran, Failure> {
        catch_interrupts();
        let started = self.started;
        let stores = Stores::below(self.out);
        self.clear_work()?;
        let bar = RunsBar::start(cells.len() as u64);
        let all = cells.len();
        let mut ran = Ran {
            finished: Vec::new(),
            failed: Vec::new(),
            run: 0,
            left: BTreeMap::new(),
            all,
            ended: Ended::Through,
        };
        for (at, cell) in cells.iter().enumerate() {
            if let Some(ended) = self.next(&cells[at..], &mut ran, &stores, &bar, started) {
                ran.ended = ended;
                ran.leave(self, &cells[at..]);
                break;
            }
            bar.advance();
            self.drop_store(cell, &cells[at + 1..], &stores)?;
        }
        bar.finish();
        self.clear_work()?;
        if !self.keep {
            stores.remove_all()?;
        }
        Ok(ran)
    }

    /// Takes the first cell as it is, or runs it; tells if the run ends before it.
    fn next(
        &self,
        cells: &[Cell],
        ran: &mut Ran,
        stores: &Stores,
        bar: &RunsBar,
        started: Instant,
    ) -> Option<Ended> {
        let cell = cells.first()?;
        if ran.has_failed(cell) {
            return None;
        }
        let ready = match self.ready(cell, &ran.finished) {
            Ok(ready) => ready,
            Err(failure) => {
                ran.fail(cell, failure);
                return None;
            }
        };
        if let Some(finished) = self.finished(&ready) {
            ran.finished.push(finished);
            return None;
        }
        if let Some(ended) = self.ends(&ready, ran, stores, started) {
            return Some(ended);
        }
        let left = cells.iter().map(|cell| ran.estimate(cell, self.scale)).sum();
        bar.now(&format!("{}, about {} left", cell.title(), duration(left)));
        match self.run_one(&ready, stores) {
            Ok(finished) => {
                tell(&finished, cell);
                ran.finished.push(finished);
                ran.run += 1;
            }
            Err(_) if evenkeel_sys::was_interrupted() => return Some(Ended::Interrupted),
            Err(failure) => ran.fail(cell, failure),
        }
        None
    }

    /// The cell with its words.
    fn ready<'a>(&self, cell: &'a Cell, finished: &[Finished]) -> Result<Ready<'a>, Failure> {
        let common = self.scale.common();
        let mut words = cell.arguments(self.scale, rate(cell, finished)?);
        let store = match cell.store(self.scale) {
            Some((name, fill)) => {
                if cell.system.engine != OURS {
                    words.push("--use-existing".to_owned());
                }
                Some((name, self.programs.process(cell, fill, "os", &common, &[])?))
            }
            None => None,
        };
        let crash = match cell.crash(self.scale) {
            Some(mut words) => {
                if cell.system.engine != OURS {
                    words.push("--use-existing".to_owned());
                }
                Some(self.programs.process(cell, words, cell.work.sync, &common, &[])?)
            }
            None => None,
        };
        // A store remembers what it was made with, and serves other works too: it is filled without.
        let own: Vec<String> = cell.work.own.iter().map(|&own| own.to_owned()).collect();
        let process = self.programs.process(cell, words, cell.work.sync, &common, &own)?;
        let asked = Asked {
            arguments: process.arguments(),
            store: store.as_ref().map(|(_, process)| process.arguments()),
            crash: crash.as_ref().map(Process::arguments),
            device: cell.work.device,
            program: self.programs.fingerprint(),
        };
        Ok(Ready { cell, process, asked, store, crash })
    }

    /// The cell as an earlier run left it, if that was asked for the same. A file that cannot be read is as none.
    fn finished(&self, ready: &Ready<'_>) -> Option<Finished> {
        let text = files::read(&self.file(ready.cell)).ok()??;
        let finished: Finished = serde_json::from_str(&text).ok()?;
        (finished.asked == ready.asked && finished.is_of(ready.cell)).then_some(finished)
    }

    fn file(&self, cell: &Cell) -> PathBuf {
        self.out.join("cells").join(cell.file())
    }

    /// Why the next cell is not started, if it is not.
    fn ends(&self, next: &Ready<'_>, ran: &Ran, stores: &Stores, started: Instant) -> Option<Ended> {
        if evenkeel_sys::was_interrupted() {
            return Some(Ended::Interrupted);
        }
        let fills = next
            .store
            .as_ref()
            .is_some_and(|(name, process)| !stores.has(name, &stores::asked(process, &next.asked.program)));
        let fill = if fills { next.cell.store_estimate(self.scale) } else { 0.0 };
        let needs = ran.estimate(next.cell, self.scale) + fill;
        let over = |budget: Duration| started.elapsed().as_secs_f64() + needs > budget.as_secs_f64();
        self.budget.is_some_and(over).then_some(Ended::Budget)
    }

    /// Runs a cell and keeps what came of it.
    fn run_one(&self, ready: &Ready<'_>, stores: &Stores) -> Result<Finished, Failure> {
        let (cell, engine) = (ready.cell, ready.cell.system.engine.as_str());
        if let Some((name, process)) = &ready.store {
            stores.fill(name, engine, process, &ready.asked.program)?;
        }
        // Filling a store is of all cells that start from it.
        let started = clock::now();
        let work = self.work();
        files::make_dir(&work).map_err(|error| self.cannot(&error))?;
        let device = match cell.work.device {
            Some(bytes_per_sec) => {
                Some(LoopDevice::make(&work, cell.device_size(self.scale), bytes_per_sec)?)
            }
            None => None,
        };
        let below = device.as_ref().map_or(work.as_path(), LoopDevice::dir);
        let repeats_max = if self.once { 0 } else { REPEATS_MAX };
        let run = process::least_disturbed(cell.system.settings, repeats_max, |repeats| {
            let dir = below.join(format!("{}-{repeats}", cell.system.name()));
            if let Some((name, _)) = &ready.store {
                stores.copy(name, engine, &dir)?;
            }
            if let Some(crash) = &ready.crash {
                crash.run_to_death(&dir).map_err(|error| error.of(engine))?;
            }
            let began_ms = clock::wall_ms();
            let host = Host::here(&work);
            let document = ready.process.run(&dir);
            files::remove_all_if_there(&dir)
                .map_err(|error| Failure::work(format!("cannot remove {}: {error}", dir.display())))?;
            let mut document = document.map_err(|error| error.of(engine))?;
            let program = ready.process.program().to_string_lossy().into_owned();
            let words = std::iter::once(&program).chain(&ready.asked.arguments);
            let command = words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
            document.provenance = Some(Provenance { command, began_ms, host });
            if let Some(device) = &device {
                document.config.set_device(device.told());
            }
            Ok(document)
        })?;
        self.keep_cell(ready, run, started.elapsed().as_secs_f64())
    }

    fn keep_cell(&self, ready: &Ready<'_>, run: Run, wall_seconds: f64) -> Result<Finished, Failure> {
        let cell = ready.cell;
        let finished = Finished {
            experiment: cell.experiment.to_owned(),
            work: cell.work.name.to_owned(),
            seed: cell.seed(),
            asked: ready.asked.clone(),
            wall_seconds,
            run,
        };
        if !finished.is_of(cell) {
            return Err(Failure::work(format!(
                "{} answered for {}; its keel-peers is not this one's",
                cell.system.engine, finished.run.document.engine
            )));
        }
        let file = self.file(cell);
        let text = serde_json::to_string(&finished)
            .map_err(|error| Failure::work(format!("the cell is no JSON: {error}")))?;
        file.parent()
            .map_or(Ok(()), files::make_dir)
            .and_then(|()| files::write_whole(&file, &(text + "\n")))
            .map_err(|error| self.cannot(&error))?;
        Ok(finished)
    }

    /// Removes the cell's store when no later cell starts from it.
    fn drop_store(&self, cell: &Cell, later: &[Cell], stores: &Stores) -> Result<(), Failure> {
        let Some((name, _)) = cell.store(self.scale).filter(|_| !self.keep) else { return Ok(()) };
        let needed = |cell: &Cell| cell.store(self.scale).is_some_and(|(other, _)| other == name);
        if later.iter().any(needed) { Ok(()) } else { stores.remove(&name) }
    }

    /// Where a cell's store is while it is measured.
    fn work(&self) -> PathBuf {
        self.out.join("work")
    }

    fn clear_work(&self) -> Result<(), Failure> {
        files::remove_all_if_there(&self.work()).map_err(|error| self.cannot(&error))
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        Failure::work(format!("cannot write into {}: {error}", self.out.display()))
    }
}

/// The rate that a cell takes a share of.
fn rate(cell: &Cell, finished: &[Finished]) -> Result<Option<f64>, Failure> {
    let Pace::Share { of, .. } = cell.work.pace else { return Ok(None) };
    let mine = |other: &&Finished| {
        (other.experiment.as_str(), other.work.as_str()) == (cell.experiment, of)
            && other.run.settings == cell.system.settings.name()
    };
    let found = finished.iter().find(mine).and_then(|other| other.run.document.max_rate.as_ref());
    match found {
        Some(found) => Ok(Some(found.ops_per_sec)),
        None => Err(Failure::work(format!("{of} found no rate to take a share of"))),
    }
}

/// A bar is for terminals; whoever keeps the output finds a line for each cell.
fn tell(finished: &Finished, cell: &Cell) {
    if !std::io::stderr().is_terminal() {
        note(&format!("keel: {}: done in {}", cell.title(), duration(finished.wall_seconds)));
    }
}

/// About how long all of these take, in seconds, with filling their stores.
pub fn estimate(cells: &[Cell], scale: Scale) -> f64 {
    let mut stores: BTreeMap<String, f64> = BTreeMap::new();
    for cell in cells {
        if let Some((name, _)) = cell.store(scale) {
            stores.insert(name, cell.store_estimate(scale));
        }
    }
    cells.iter().map(|cell| cell.estimate(scale)).sum::<f64>() + stores.values().sum::<f64>()
}

impl Ran {
    /// About how long a cell takes: as others of its kind took, or by the table.
    fn estimate(&self, cell: &Cell, scale: Scale) -> f64 {
        let alike = |other: &&Finished| {
            (other.experiment.as_str(), other.work.as_str()) == (cell.experiment, cell.work.name)
                && other.run.document.engine == cell.system.engine
        };
        let (mut sum, mut count) = (0.0, 0.0);
        for other in self.finished.iter().filter(alike) {
            (sum, count) = (sum + other.wall_seconds, count + 1.0);
        }
        if count > 0.0 { sum / count } else { cell.estimate(scale) }
    }

    fn has_failed(&self, cell: &Cell) -> bool {
        self.failed.iter().any(|failed| {
            (failed.experiment, failed.work, failed.settings)
                == (cell.experiment, cell.work.name, cell.system.settings.name())
                && failed.engine == cell.system.engine
        })
    }

    fn fail(&mut self, cell: &Cell, failure: Failure) {
        let why = match failure {
            Failure::Work(why) | Failure::Usage(why) | Failure::Damaged(why) => why,
            other => format!("{other:?}"),
        };
        note(&format!("keel: {}: {why}", cell.title()));
        self.failed.push(Failed {
            experiment: cell.experiment,
            work: cell.work.name,
            engine: cell.system.engine.clone(),
            settings: cell.system.settings.name(),
            why,
        });
    }

    /// Counts what is not run any more, and takes what an earlier run has finished of it.
    fn leave(&mut self, runner: &Runner<'_>, cells: &[Cell]) {
        for cell in cells {
            let known = runner.ready(cell, &self.finished).ok().and_then(|ready| runner.finished(&ready));
            match known {
                Some(finished) => self.finished.push(finished),
                None => *self.left.entry(format!("{} {}", cell.experiment, cell.work.name)).or_default() += 1,
            }
        }
    }

    /// What is left, in words.
    pub fn left_note(&self) -> Option<String> {
        let left: usize = self.left.values().sum();
        let why = match self.ended {
            Ended::Through => return None,
            Ended::Budget => "the budget is spent",
            Ended::Interrupted => "interrupted",
        };
        let works = self.left.iter().map(|(work, n)| format!("{work} ({n})")).collect::<Vec<_>>().join(", ");
        Some(format!("keel: {why}: {left} of {} cells are left: {works}", self.all))
    }
}
