//! Runs the cells of experiments over schedules that are not finished yet: each a `keel bench` in a copy of a settled store, which is
//! filled once; each kept as a file the moment it is through. What the probes find is kept the same way, so rates are found once
//! for a directory of results.

use std::collections::BTreeMap;

use evenkeel_lab::base::clock;
use evenkeel_lab::results::settings::OURS;
use evenkeel_lab::scheduling::cells::{Cell, Finished, estimate, found};
use evenkeel_lab::scheduling::judge::disturbance;
use evenkeel_lab::scheduling::row::{Found, Load};

use super::duration;
use super::runner::Ended;
use super::stores::Stores;
use super::study_cells::{CellsRan, Folder};
use crate::child::catch_interrupts;
use crate::failure::Failure;
use crate::files;
use crate::progress::RunsBar;
use crate::verb::bench::process;

/// What a run needs to know.
pub struct ScheduleRunner<'a> {
    /// Where cells are kept.
    pub folder: Folder<'a>,
    /// Filled stores stay.
    pub keep: bool,
}

/// What came of all cells.
pub type ScheduleRan = CellsRan<Finished>;

impl ScheduleRunner<'_> {
    /// Runs what is not finished yet.
    pub fn run(&self, cells: &[Cell]) -> Result<ScheduleRan, Failure> {
        catch_interrupts();
        let mut ran = ScheduleRan::new();
        if cells.is_empty() {
            return Ok(ran);
        }
        self.folder.clear()?;
        let bar = RunsBar::start(cells.len() as u64);
        let mut founds: BTreeMap<String, Found> = BTreeMap::new();
        let mut store: Option<String> = None;
        for (at, cell) in cells.iter().enumerate() {
            let mine = cell.store();
            if let Some(before) = store.filter(|before| *before != mine && !self.keep) {
                self.stores().remove(&before)?;
            }
            store = Some(mine);
            bar.now(&format!("{}, about {} left", cell.title(), duration(self.left(&cells[at..], &ran))));
            self.one(cell, &mut founds, &mut ran);
            bar.advance();
        }
        bar.finish();
        if let Some(last) = store.filter(|_| !self.keep) {
            self.stores().remove(&last)?;
        }
        self.folder.clear()?;
        Ok(ran)
    }

    fn one(&self, cell: &Cell, founds: &mut BTreeMap<String, Found>, ran: &mut ScheduleRan) {
        let row = cell.row;
        let known = founds.get(&row.probe().id()).copied();
        if row.load != Load::Probe && known.is_none() {
            match ran.ended {
                Ended::Through => {
                    ran.fail(
                        row.id(),
                        &cell.title(),
                        "its probe did not run, so there is no rate".to_owned(),
                    );
                }
                _ => ran.left += 1,
            }
            return;
        }
        let words = cell.arguments(self.folder.divide, known);
        match self.folder.kept::<Finished>(&cell.file(), &words) {
            Some(finished) => ran.finished.push(finished),
            // What ends a run, or a row that cannot run, is no reason to forget what is finished.
            None if ran.ended != Ended::Through || ran.has_failed(&row.id()) => ran.left += 1,
            None => match self.folder.ends(self.left(std::slice::from_ref(cell), ran)) {
                Some(ended) => {
                    ran.ended = ended;
                    ran.left += 1;
                }
                None => ran.take(self.measure(cell, &words), cell.row.id(), &cell.title()),
            },
        }
        let probe = ran.finished.last().filter(|last| row == row.probe() && last.row == row.id());
        if let Some(found) = probe.and_then(|probe| found(&row, &probe.document)) {
            founds.entry(row.id()).or_insert(found);
        }
    }

    /// About how long these take, in seconds: as the same row took in another round, or as is to be thought; and the stores that are not
    /// there yet.
    fn left(&self, cells: &[Cell], ran: &ScheduleRan) -> f64 {
        let divide = self.folder.divide;
        let one = |cell: &Cell| {
            let id = cell.row.id();
            ran.took(|other| other.row == id).unwrap_or_else(|| cell.estimate(divide))
        };
        estimate(cells, divide, one, |store| self.stores().is_there(store))
    }

    fn measure(&self, cell: &Cell, words: &[String]) -> Result<Finished, String> {
        let said = |failure: Failure| match failure {
            Failure::Work(why) | Failure::Usage(why) => why,
            other => format!("{other:?}"),
        };
        let (stores, work) = (self.stores(), self.folder.work());
        let filling = process::again(&cell.filling(self.folder.divide)).map_err(said)?;
        let emptying = cell.emptying(self.folder.divide);
        stores.fill_and(&cell.store(), OURS, &filling, &self.folder.program, &emptying).map_err(said)?;
        // What filling takes is the first cell's alone.
        let started = clock::now();
        let process = process::again(words).map_err(said)?;
        files::make_dir(&work).map_err(|error| self.folder.cannot(&error))?;
        let run = |attempt: u32| {
            let dir = work.join(attempt.to_string());
            stores.copy(&cell.store(), OURS, &dir).map_err(said)?;
            let document = process.run(&dir).map_err(|error| said(error.of(OURS)))?;
            files::remove_all_if_there(&dir).map_err(|error| self.folder.cannot(&error))?;
            Ok(document)
        };
        let (repeats, document) = self.folder.calmest(disturbance, run)?;
        let finished = Finished {
            row: cell.row.id(),
            seed: cell.seed(),
            arguments: words.to_vec(),
            program: self.folder.program.clone(),
            wall_seconds: started.elapsed().as_secs_f64(),
            repeats,
            document,
        };
        self.folder.keep(&cell.file(), &finished)?;
        Ok(finished)
    }

    fn stores(&self) -> Stores {
        Stores::below(self.folder.out)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_lab::experiments::SCHEDULES;
    use evenkeel_lab::scheduling::cells::plan;

    /// Also with the knobs that it has besides where all is divided.
    #[test]
    fn every_row_has_a_schedule_that_there_is() {
        for cell in plan(SCHEDULES, 1..=1) {
            for schedule in [1, 8].map(|divide| cell.row.schedule(divide)) {
                assert!(evenkeel::schedule::check(&schedule).is_ok(), "{schedule}");
            }
        }
    }
}
