//! Runs the cells of experiments over schedules that are not finished yet: each a `keel bench` in a copy of a settled store, which is
//! filled once; each kept as a file the moment it is through. What the probes find is kept the same way, so rates are found once
//! for a directory of results.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_lab::clock;
use evenkeel_lab::comparison::disturbed;
use evenkeel_lab::document::Document;
use evenkeel_lab::scheduling::cells::{Cell, Finished, found};
use evenkeel_lab::scheduling::row::{Found, Load};
use evenkeel_lab::settings::OURS;

use super::duration;
use super::runner::Ended;
use super::stores::Stores;
use crate::failure::Failure;
use crate::files;
use crate::output::note;
use crate::progress::RunsBar;
use crate::verb::bench::process;

/// A cell in which others were busy is run again once; then the calmer one counts.
const ATTEMPTS: u32 = 2;

/// What a run needs to know.
pub struct ScheduleRunner<'a> {
    /// Where all is kept.
    pub out: &'a Path,
    /// What tells this build from others.
    pub program: String,
    /// Data, memtables, tables and caches are divided by this.
    pub divide: u64,
    /// When the command began, and how long it may take.
    pub started: Instant,
    /// See `started`.
    pub budget: Option<Duration>,
    /// Filled stores stay.
    pub keep: bool,
}

/// What came of all cells.
pub struct ScheduleRan {
    /// Those that are finished, earlier or now.
    pub finished: Vec<Finished>,
    /// Rows that could not run, and why.
    pub failed: Vec<(String, String)>,
    /// Cells that were run now.
    pub run: usize,
    /// Cells that are left.
    pub left: usize,
    /// Why it ended.
    pub ended: Ended,
}

impl ScheduleRunner<'_> {
    /// Runs what is not finished yet.
    pub fn run(&self, cells: &[Cell]) -> Result<ScheduleRan, Failure> {
        evenkeel_sys::catch_interrupt();
        let (finished, failed) = (Vec::new(), Vec::new());
        let mut ran = ScheduleRan { finished, failed, run: 0, left: 0, ended: Ended::Through };
        if cells.is_empty() {
            return Ok(ran);
        }
        self.clear()?;
        let bar = RunsBar::start(cells.len() as u64);
        let mut founds: BTreeMap<String, Found> = BTreeMap::new();
        let mut store = None;
        for (at, cell) in cells.iter().enumerate() {
            let mine = cell.store();
            if let Some(before) = store.filter(|before| *before != mine && !self.keep) {
                self.stores().remove(&before)?;
            }
            store = Some(mine);
            let left: f64 = cells[at..].iter().map(|cell| cell.estimate(self.divide)).sum();
            bar.now(&format!("{}, about {} left", cell.title(), duration(left)));
            self.one(cell, &mut founds, &mut ran);
            bar.advance();
        }
        bar.finish();
        if !self.keep {
            store.into_iter().try_for_each(|last| self.stores().remove(&last))?;
        }
        self.clear()?;
        Ok(ran)
    }

    fn one(&self, cell: &Cell, founds: &mut BTreeMap<String, Found>, ran: &mut ScheduleRan) {
        let row = cell.row;
        let known = founds.get(&row.probe().id()).copied();
        if row.load != Load::Probe && known.is_none() {
            match ran.ended {
                Ended::Through => ran.fail(cell, "its probe did not run, so there is no rate".to_owned()),
                _ => ran.left += 1,
            }
            return;
        }
        let words = cell.arguments(self.divide, known);
        let finished = match self.kept(cell, &words) {
            Some(finished) => Some(finished),
            None if ran.ended != Ended::Through || ran.has_failed(cell) => None,
            None => match self.ends(cell) {
                Some(ended) => {
                    ran.ended = ended;
                    None
                }
                None => self.run_one(cell, &words, ran),
            },
        };
        let Some(finished) = finished else {
            ran.left += usize::from(!ran.has_failed(cell));
            return;
        };
        if row == row.probe()
            && let Some(found) = found(&row, &finished.document)
        {
            founds.entry(row.id()).or_insert(found);
        }
        ran.finished.push(finished);
    }

    fn run_one(&self, cell: &Cell, words: &[String], ran: &mut ScheduleRan) -> Option<Finished> {
        match self.measure(cell, words) {
            Ok(finished) => {
                // A bar is for terminals; whoever keeps the output finds a line for each cell.
                if !std::io::stderr().is_terminal() {
                    note(&format!("keel: {}: done in {}", cell.title(), duration(finished.wall_seconds)));
                }
                ran.run += 1;
                Some(finished)
            }
            Err(_) if evenkeel_sys::was_interrupted() => {
                ran.ended = Ended::Interrupted;
                None
            }
            Err(why) => {
                ran.fail(cell, why);
                None
            }
        }
    }

    /// The cell as an earlier run left it, if that was asked for the same. A file that cannot be read is as none.
    fn kept(&self, cell: &Cell, words: &[String]) -> Option<Finished> {
        let text = files::read(&self.file(cell)).ok()??;
        let finished: Finished = serde_json::from_str(&text).ok()?;
        (finished.arguments == words && finished.program == self.program).then_some(finished)
    }

    /// Why the next cell is not started, if it is not.
    fn ends(&self, cell: &Cell) -> Option<Ended> {
        if evenkeel_sys::was_interrupted() {
            return Some(Ended::Interrupted);
        }
        let needs = cell.estimate(self.divide);
        let over = |budget: Duration| self.started.elapsed().as_secs_f64() + needs > budget.as_secs_f64();
        self.budget.is_some_and(over).then_some(Ended::Budget)
    }

    fn measure(&self, cell: &Cell, words: &[String]) -> Result<Finished, String> {
        let started = clock::now();
        let said = |failure: Failure| match failure {
            Failure::Work(why) | Failure::Usage(why) => why,
            other => format!("{other:?}"),
        };
        let stores = self.stores();
        let filling = process::again(&cell.filling(self.divide)).map_err(said)?;
        stores.fill(&cell.store(), OURS, &filling, &self.program).map_err(said)?;
        let process = process::again(words).map_err(said)?;
        files::make_dir(&self.work()).map_err(|error| self.cannot(&error))?;
        let busy = |document: &Document| document.others_cores.unwrap_or(0.0);
        let mut best: Option<(u32, Document)> = None;
        for attempt in 0..ATTEMPTS {
            let dir = self.work().join(format!("{attempt}"));
            stores.copy(&cell.store(), OURS, &dir).map_err(said)?;
            let document = process.run(&dir).map_err(|error| said(error.of(OURS)))?;
            files::remove_all_if_there(&dir).map_err(|error| self.cannot(&error))?;
            let calm = !disturbed(&document);
            best = match best.take() {
                Some((_, known)) if busy(&known) <= busy(&document) => Some((attempt, known)),
                _ => Some((attempt, document)),
            };
            // What is a part is not quoted, so it is not repeated either.
            if calm || self.divide > 1 {
                break;
            }
        }
        let (repeats, document) = best.ok_or("there was no run")?;
        let finished = Finished {
            row: cell.row.id(),
            seed: cell.seed(),
            arguments: words.to_vec(),
            program: self.program.clone(),
            wall_seconds: started.elapsed().as_secs_f64(),
            repeats,
            document,
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

    fn stores(&self) -> Stores {
        Stores::below(self.out)
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

impl ScheduleRan {
    fn has_failed(&self, cell: &Cell) -> bool {
        let id = cell.row.id();
        self.failed.iter().any(|(row, _)| *row == id)
    }

    fn fail(&mut self, cell: &Cell, why: String) {
        note(&format!("keel: {}: {why}", cell.title()));
        if !self.has_failed(cell) {
            self.failed.push((cell.row.id(), why));
        }
    }

    /// What is left, in words.
    pub fn left_note(&self) -> Option<String> {
        let why = match self.ended {
            Ended::Through => return None,
            Ended::Budget => "the budget is spent",
            Ended::Interrupted => "interrupted",
        };
        Some(format!("keel: {why}: {} cells over schedules are left", self.left))
    }
}
