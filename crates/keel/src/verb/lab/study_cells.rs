//! What the runners of studies have in common: where cells are kept, which of them count, when to stop, and what came of all.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_lab::verdicts::kept::{self, Kept};

use super::duration;
use super::runner::Ended;
use crate::failure::Failure;
use crate::files;
use crate::output::note;

/// A cell in which others were busy is run again once; then the calmer one counts.
const ATTEMPTS: u32 = 2;

/// Where cells are kept, and what they may take.
#[derive(Clone)]
pub struct Folder<'a> {
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
    /// A disturbed cell is not run again.
    pub once: bool,
}

impl Folder<'_> {
    /// The cell as an earlier run left it, if that was asked for the same. A file that cannot be read is as none.
    pub fn kept<F: Kept>(&self, file: &str, words: &[String]) -> Option<F> {
        kept::read(&files::read(&self.file(file)).ok()??, words, &self.program)
    }

    /// Keeps a cell.
    pub fn keep<F: Kept>(&self, file: &str, finished: &F) -> Result<(), String> {
        let text = kept::text(finished).map_err(|error| format!("the cell is no JSON: {error}"))?;
        let file = self.file(file);
        file.parent()
            .map_or(Ok(()), files::make_dir)
            .and_then(|()| files::write_whole(&file, &text))
            .map_err(|error| self.cannot(&error))
    }

    /// Why a cell that takes so long is not started, if it is not.
    pub fn ends(&self, seconds: f64) -> Option<Ended> {
        if evenkeel_sys::was_interrupted() {
            return Some(Ended::Interrupted);
        }
        let over = |budget: Duration| self.started.elapsed().as_secs_f64() + seconds > budget.as_secs_f64();
        self.budget.is_some_and(over).then_some(Ended::Budget)
    }

    /// Runs a cell until nothing disturbs it, or often enough; answers how often it was repeated, and the calmest. `disturbance` is
    /// above 1 where a run says little.
    pub fn calmest<T>(
        &self,
        disturbance: impl Fn(&T) -> f64,
        mut run: impl FnMut(u32) -> Result<T, String>,
    ) -> Result<(u32, T), String> {
        let mut best = (0, run(0)?);
        // What is a part is not quoted, so it is not repeated either.
        let attempts = if self.divide > 1 || self.once { 1 } else { ATTEMPTS };
        for attempt in 1..attempts {
            if disturbance(&best.1) <= 1.0 {
                break;
            }
            let again = run(attempt)?;
            if disturbance(&again) < disturbance(&best.1) {
                best = (attempt, again);
            }
        }
        Ok(best)
    }

    /// Where cells run.
    pub fn work(&self) -> PathBuf {
        self.out.join("work")
    }

    /// Removes what cells left there.
    pub fn clear(&self) -> Result<(), Failure> {
        files::remove_all_if_there(&self.work()).map_err(|error| Failure::work(self.cannot(&error)))
    }

    /// Says that nothing can be kept.
    pub fn cannot(&self, error: &std::io::Error) -> String {
        format!("cannot write into {}: {error}", self.out.display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.out.join("cells").join(name)
    }
}

/// What came of all cells.
pub struct CellsRan<F> {
    /// Those that are finished, earlier or now.
    pub finished: Vec<F>,
    /// Points or rows that could not run, and why.
    pub failed: Vec<(String, String)>,
    /// Cells that were run now.
    pub run: usize,
    /// Cells that are left.
    pub left: usize,
    /// Why it ended.
    pub ended: Ended,
}

impl<F> CellsRan<F> {
    /// Nothing yet.
    pub fn new() -> CellsRan<F> {
        CellsRan { finished: Vec::new(), failed: Vec::new(), run: 0, left: 0, ended: Ended::Through }
    }

    /// True if a cell of this point or row has failed.
    pub fn has_failed(&self, name: &str) -> bool {
        self.failed.iter().any(|(failed, _)| failed == name)
    }

    /// How long a finished cell of this kind took, in seconds.
    pub fn took(&self, is_of_kind: impl Fn(&F) -> bool) -> Option<f64>
    where
        F: Kept,
    {
        self.finished.iter().find(|cell| is_of_kind(cell)).map(Kept::wall_seconds)
    }

    /// A cell could not run.
    pub fn fail(&mut self, name: String, title: &str, why: String) {
        note(&format!("keel: {title}: {why}"));
        if !self.has_failed(&name) {
            self.failed.push((name, why));
        }
    }

    /// A cell of this point or row was run now, or could not be, or somebody has had enough.
    pub fn take(&mut self, outcome: Result<F, String>, name: String, title: &str)
    where
        F: Kept,
    {
        match outcome {
            Ok(finished) => self.done(finished, title),
            Err(_) if evenkeel_sys::was_interrupted() => {
                self.ended = Ended::Interrupted;
                self.left += 1;
            }
            Err(why) => self.fail(name, title, why),
        }
    }

    fn done(&mut self, finished: F, title: &str)
    where
        F: Kept,
    {
        // A bar is for terminals; whoever keeps the output finds a line for each cell.
        if !std::io::stderr().is_terminal() {
            note(&format!("keel: {title}: done in {}", duration(finished.wall_seconds())));
        }
        self.finished.push(finished);
        self.run += 1;
    }

    /// What is left, in words; `which` cells these are.
    pub fn left_note(&self, which: &str) -> Option<String> {
        let why = match self.ended {
            Ended::Through => return None,
            Ended::Budget => "the budget is spent",
            Ended::Interrupted => "interrupted",
        };
        Some(format!("keel: {why}: {} cells {which} are left", self.left))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_lab::base::clock;

    use super::*;

    fn folder(divide: u64) -> Folder<'static> {
        let (out, program) = (Path::new("none"), String::new());
        Folder { out, program, divide, started: clock::now(), budget: None, once: false }
    }

    #[test]
    fn the_calmest_of_two_counts() {
        let run = |divide: u64, busy: [f64; 2]| {
            // 0 stands for whole cells that are not to be repeated.
            let folder = Folder { once: divide == 0, ..folder(divide.max(1)) };
            folder.calmest(|disturbance| *disturbance, |attempt| Ok(busy[attempt as usize])).unwrap()
        };
        assert_eq!(run(1, [0.0, 9.0]), (0, 0.0), "nobody was there");
        assert_eq!(run(1, [1.5, 1.0]), (1, 1.0));
        assert_eq!(run(1, [1.2, 1.5]), (0, 1.2));
        assert_eq!(run(1, [1.0, 0.0]), (0, 1.0), "not above what is borne");
        assert_eq!(run(8, [1.5, 0.0]), (0, 1.5), "a part is not repeated");
        assert_eq!(run(0, [1.5, 0.0]), (0, 1.5), "whoever wants none repeated has none");
    }

    #[test]
    fn what_takes_longer_than_is_left_is_not_started() {
        let budget = Folder { budget: Some(Duration::from_secs(60)), ..folder(1) };
        assert_eq!(
            (budget.ends(30.0), budget.ends(90.0), folder(1).ends(1e9)),
            (None, Some(Ended::Budget), None)
        );
    }
}
