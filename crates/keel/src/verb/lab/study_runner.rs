//! Runs the cells of experiments over the design space that are not finished yet: each a process, `keel lab cell`, in a fresh
//! store; each kept as a file the moment it is through. As for engines beside each other (`runner.rs`), a finished cell counts
//! only if it was asked for the same, of the same build.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_lab::clock;
use evenkeel_lab::comparison::OTHERS_CORES_MAX;
use evenkeel_lab::design_space::cells::{Cell, Finished, Measured};
use evenkeel_lab::provenance::Host;

use super::duration;
use super::runner::Ended;
use crate::failure::Failure;
use crate::files;
use crate::output::note;
use crate::progress::RunsBar;

/// A cell in which others were busy is run again once; then the calmer one counts.
const ATTEMPTS: u32 = 2;

/// What a run needs to know.
pub struct StudyRunner<'a> {
    /// Where all is kept.
    pub out: &'a Path,
    /// What tells this build from others.
    pub program: String,
    /// Data, buffers and caches are divided by this.
    pub divide: u64,
    /// When the command began, and how long it may take.
    pub started: Instant,
    /// See `started`.
    pub budget: Option<Duration>,
}

/// What came of all cells.
pub struct StudyRan {
    /// Those that are finished, earlier or now.
    pub finished: Vec<Finished>,
    /// Points that could not run, and why.
    pub failed: Vec<(String, String)>,
    /// Cells that were run now.
    pub run: usize,
    /// Cells that are left.
    pub left: usize,
    /// Why it ended.
    pub ended: Ended,
}

impl StudyRunner<'_> {
    /// Runs what is not finished yet.
    pub fn run(&self, cells: &[Cell]) -> Result<StudyRan, Failure> {
        evenkeel_sys::catch_interrupt();
        self.clear()?;
        let bar = RunsBar::start(cells.len() as u64);
        let mut ran =
            StudyRan { finished: Vec::new(), failed: Vec::new(), run: 0, left: 0, ended: Ended::Through };
        for (at, cell) in cells.iter().enumerate() {
            match self.arguments(cell, &ran) {
                Ok(words) => match self.kept(cell, &words) {
                    Some(finished) => ran.finished.push(finished),
                    // What ends a run, or a point that cannot run, is no reason to forget what is finished.
                    None if ran.ended != Ended::Through || ran.has_failed(cell) => ran.left += 1,
                    None => match self.ends(cell, &ran) {
                        Some(ended) => {
                            ran.ended = ended;
                            ran.left += 1;
                        }
                        None => {
                            let left: f64 =
                                cells[at..].iter().map(|cell| ran.estimate(cell, self.divide)).sum();
                            bar.now(&format!("{}, about {} left", cell.title(), duration(left)));
                            self.run_one(cell, &words, &mut ran);
                        }
                    },
                },
                Err(_) if ran.ended != Ended::Through => ran.left += 1,
                Err(why) => ran.fail(cell, why),
            }
            bar.advance();
        }
        bar.finish();
        self.clear()?;
        Ok(ran)
    }

    fn run_one(&self, cell: &Cell, words: &[String], ran: &mut StudyRan) {
        match self.measure(cell, words) {
            Ok(finished) => {
                // A bar is for terminals; whoever keeps the output finds a line for each cell.
                if !std::io::stderr().is_terminal() {
                    let took = duration(finished.wall_seconds);
                    note(&format!("keel: {}: done in {took}", cell.title()));
                }
                ran.finished.push(finished);
                ran.run += 1;
            }
            Err(_) if evenkeel_sys::was_interrupted() => {
                ran.ended = Ended::Interrupted;
                ran.left += 1;
            }
            Err(why) => ran.fail(cell, why),
        }
    }

    /// The words that ask for a cell.
    fn arguments(&self, cell: &Cell, ran: &StudyRan) -> Result<Vec<String>, String> {
        let seconds = match cell.timed_by() {
            Some(by) => Some(ran.writing_seconds(&by).ok_or_else(|| format!("{} did not run", by.title()))?),
            None => None,
        };
        Ok(cell.arguments(self.divide, seconds))
    }

    /// The cell as an earlier run left it, if that was asked for the same. A file that cannot be read is as none.
    fn kept(&self, cell: &Cell, words: &[String]) -> Option<Finished> {
        let text = files::read(&self.file(cell)).ok()??;
        let finished: Finished = serde_json::from_str(&text).ok()?;
        (finished.arguments == words && finished.program == self.program).then_some(finished)
    }

    /// Why the next cell is not started, if it is not.
    fn ends(&self, cell: &Cell, ran: &StudyRan) -> Option<Ended> {
        if evenkeel_sys::was_interrupted() {
            return Some(Ended::Interrupted);
        }
        let needs = ran.estimate(cell, self.divide);
        let over = |budget: Duration| self.started.elapsed().as_secs_f64() + needs > budget.as_secs_f64();
        self.budget.is_some_and(over).then_some(Ended::Budget)
    }

    fn measure(&self, cell: &Cell, words: &[String]) -> Result<Finished, String> {
        let started = clock::now();
        let work = self.work();
        files::make_dir(&work).map_err(|error| self.cannot(&error))?;
        let host = Host::here(&work);
        let mut best: Option<(u32, Measured)> = None;
        let busy = |measured: &Measured| measured.others_cores.unwrap_or(0.0);
        for attempt in 0..ATTEMPTS {
            let measured = self.process(words, &work.join(format!("{}-{attempt}", cell.point.name())))?;
            let calm = busy(&measured) <= OTHERS_CORES_MAX;
            best = match best.take() {
                Some((_, known)) if busy(&known) <= busy(&measured) => Some((attempt, known)),
                _ => Some((attempt, measured)),
            };
            // What is a part is not quoted, so it is not repeated either.
            if calm || self.divide > 1 {
                break;
            }
        }
        let (repeats, measured) = best.ok_or("there was no run")?;
        let finished = Finished {
            point: cell.point.name(),
            seed: cell.seed(),
            arguments: words.to_vec(),
            program: self.program.clone(),
            wall_seconds: started.elapsed().as_secs_f64(),
            repeats,
            host,
            measured,
        };
        let text =
            serde_json::to_string(&finished).map_err(|error| format!("the cell is no JSON: {error}"))?;
        let file = self.file(cell);
        file.parent()
            .map_or(Ok(()), files::make_dir)
            .and_then(|()| files::write_whole(&file, &(text + "\n")))
            .map_err(|error| self.cannot(&error))?;
        Ok(finished)
    }

    fn process(&self, words: &[String], dir: &Path) -> Result<Measured, String> {
        let keel = std::env::current_exe()
            .map_err(|error| format!("cannot find this command to start it again: {error}"))?;
        let mut command = Command::new(keel);
        command.args(words).arg("--dir").arg(dir).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("cannot start a cell: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim_end().lines().last().unwrap_or_default();
            return Err(last.strip_prefix("keel: ").unwrap_or(last).to_owned());
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("a cell's figures are no JSON: {error}"))
    }

    fn file(&self, cell: &Cell) -> PathBuf {
        self.out.join("cells").join(cell.file())
    }

    fn work(&self) -> PathBuf {
        self.out.join("work")
    }

    fn clear(&self) -> Result<(), Failure> {
        files::remove_all_if_there(&self.work()).map_err(|error| Failure::work(self.cannot(&error)))
    }

    fn cannot(&self, error: &std::io::Error) -> String {
        format!("cannot write into {}: {error}", self.out.display())
    }
}

impl StudyRan {
    /// About how long a cell takes: as the same point took in another round, else by the table, as far off as that was.
    fn estimate(&self, cell: &Cell, divide: u64) -> f64 {
        let name = cell.point.name();
        if let Some(other) = self.finished.iter().find(|other| other.point == name) {
            return other.wall_seconds;
        }
        cell.estimate(divide)
    }

    /// How long writing took in this cell.
    fn writing_seconds(&self, cell: &Cell) -> Option<f64> {
        let name = cell.point.name();
        let mine = self.finished.iter().find(|other| other.point == name && other.seed == cell.seed())?;
        mine.measured.figures.get("ingest_seconds").copied()
    }

    fn has_failed(&self, cell: &Cell) -> bool {
        let name = cell.point.name();
        self.failed.iter().any(|(point, _)| *point == name)
    }

    fn fail(&mut self, cell: &Cell, why: String) {
        note(&format!("keel: {}: {why}", cell.title()));
        if !self.has_failed(cell) {
            self.failed.push((cell.point.name(), why));
        }
    }

    /// What is left, in words.
    pub fn left_note(&self) -> Option<String> {
        let why = match self.ended {
            Ended::Through => return None,
            Ended::Budget => "the budget is spent",
            Ended::Interrupted => "interrupted",
        };
        Some(format!("keel: {why}: {} cells of the design space are left", self.left))
    }
}
