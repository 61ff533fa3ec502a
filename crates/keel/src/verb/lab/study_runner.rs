//! Runs the cells of experiments over the design space that are not finished yet: each a process, `keel lab cell`, in a fresh
//! store; each kept as a file the moment it is through. As for engines beside each other (`runner.rs`), a finished cell counts
//! only if it was asked for the same, of the same build.

use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::Host;
use evenkeel_lab::design_space::cells::{Cell, Finished, Measured};
use evenkeel_lab::results::comparison::by_others;

use super::duration;
use super::runner::Ended;
use super::study_cells::{CellsRan, Folder};
use crate::child::{self, catch_interrupts};
use crate::failure::Failure;
use crate::files;
use crate::progress::RunsBar;

/// What a run needs to know.
pub struct StudyRunner<'a> {
    /// Where cells are kept.
    pub folder: Folder<'a>,
    /// It is only to be seen that it works.
    pub quick: bool,
}

/// What came of all cells.
pub type StudyRan = CellsRan<Finished>;

impl StudyRunner<'_> {
    /// Runs what is not finished yet.
    pub fn run(&self, cells: &[Cell]) -> Result<StudyRan, Failure> {
        catch_interrupts();
        self.folder.clear()?;
        let bar = RunsBar::start(cells.len() as u64);
        let mut ran = StudyRan::new();
        for (at, cell) in cells.iter().enumerate() {
            match self.arguments(cell, &ran) {
                Ok(words) => match self.folder.kept(&cell.file(), &words) {
                    Some(finished) => ran.finished.push(finished),
                    // What ends a run, or a point that cannot run, is no reason to forget what is finished.
                    None if ran.ended != Ended::Through || ran.has_failed(&cell.point.name()) => {
                        ran.left += 1;
                    }
                    None => match self.folder.ends(ran.estimate(cell, self.divide(cell))) {
                        Some(ended) => {
                            ran.ended = ended;
                            ran.left += 1;
                        }
                        None => {
                            let left: f64 =
                                cells[at..].iter().map(|cell| ran.estimate(cell, self.divide(cell))).sum();
                            bar.now(&format!("{}, about {} left", cell.title(), duration(left)));
                            ran.take(self.measure(cell, &words), cell.point.name(), &cell.title());
                        }
                    },
                },
                Err(_) if ran.ended != Ended::Through => ran.left += 1,
                Err(why) => ran.fail(cell.point.name(), &cell.title(), why),
            }
            bar.advance();
        }
        bar.finish();
        self.folder.clear()?;
        Ok(ran)
    }

    /// By how much data, buffers and caches are divided.
    fn divide(&self, cell: &Cell) -> u64 {
        if self.quick { cell.quick_divide() } else { self.folder.divide }
    }

    /// The words that ask for a cell.
    fn arguments(&self, cell: &Cell, ran: &StudyRan) -> Result<Vec<String>, String> {
        let seconds = match cell.timed_by() {
            Some(by) => Some(ran.writing_seconds(&by).ok_or_else(|| format!("{} did not run", by.title()))?),
            None => None,
        };
        Ok(cell.arguments(self.divide(cell), seconds))
    }

    fn measure(&self, cell: &Cell, words: &[String]) -> Result<Finished, String> {
        let started = clock::now();
        let work = self.folder.work();
        files::make_dir(&work).map_err(|error| self.folder.cannot(&error))?;
        let host = Host::here(&work);
        let run = |attempt| self.process(words, &work.join(format!("{}-{attempt}", cell.point.name())));
        let (repeats, measured) =
            self.folder.calmest(|measured: &Measured| by_others(measured.others_cores), run)?;
        let finished = Finished {
            point: cell.point.name(),
            seed: cell.seed(),
            arguments: words.to_vec(),
            program: self.folder.program.clone(),
            wall_seconds: started.elapsed().as_secs_f64(),
            repeats,
            host,
            measured,
        };
        self.folder.keep(&cell.file(), &finished)?;
        Ok(finished)
    }

    fn process(&self, words: &[String], dir: &Path) -> Result<Measured, String> {
        let keel = std::env::current_exe()
            .map_err(|error| format!("cannot find this command to start it again: {error}"))?;
        let mut command = Command::new(keel);
        command.args(words).arg("--dir").arg(dir).stdin(Stdio::null());
        let output = child::output(&mut command).map_err(|error| format!("cannot start a cell: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim_end().lines().last().unwrap_or_default();
            return Err(last.strip_prefix("keel: ").unwrap_or(last).to_owned());
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("a cell's figures are no JSON: {error}"))
    }
}

impl StudyRan {
    /// About how long a cell takes: as the same point took in another round, else by the table, as far off as that was.
    fn estimate(&self, cell: &Cell, divide: u64) -> f64 {
        let name = cell.point.name();
        self.took(|other| other.point == name).unwrap_or_else(|| cell.estimate(divide))
    }

    /// How long writing took in this cell.
    fn writing_seconds(&self, cell: &Cell) -> Option<f64> {
        let name = cell.point.name();
        let mine = self.finished.iter().find(|other| other.point == name && other.seed == cell.seed())?;
        mine.measured.figures.get("ingest_seconds").copied()
    }
}
