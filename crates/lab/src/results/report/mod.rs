//! What came of one or several runs, for people: a terminal's screen, and a directory with a page and tables.
//!
//! ```text
//! documents ─► Report ─► report.html   one file: no script, nothing from elsewhere
//!                 │      summary.csv windows.csv percentiles.csv verdicts.csv comparison.csv
//!                 └────► report.json   the report itself, to draw it again
//! document  ─► text()                  at most 100 columns
//! ```
//!
//! `docs/report.md` describes what is in it. Files are listed bottom-up.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::results::comparison::{Comparison, Figure};
use crate::results::document::Document;

pub mod numbers;
#[cfg(test)]
pub(crate) mod sample;
pub mod text;

pub(crate) mod scale;
mod series;
pub(crate) mod svg;

pub(crate) mod charts;
mod csv;
mod groups;
pub(crate) mod page;
mod tables;

pub(crate) use csv::csv_row;
pub use numbers::{bytes, count, micros, moment, rate, seconds};
pub(crate) use page::picture;
pub use page::whole_page;
pub use text::text;
pub(crate) use text::wrapped;

/// Runs to be looked at together. One run is a report as well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The headline.
    pub title: String,
    /// In the order in which they are shown.
    pub runs: Vec<Run>,
    /// Bars and whether they were met; may be empty.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Sentences for the head, for instance how often each engine ran; may be empty.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What all runs of a comparison say, of which only some are shown; may be empty.
    #[serde(default)]
    pub compared: Vec<Compared>,
}

/// Engines under the same settings, over all their runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Whose settings.
    pub settings: String,
    /// The engines, in the order of the figures' cells.
    pub engines: Vec<String>,
    /// The engine that the others are compared with: its place.
    pub baseline: Option<usize>,
    /// What was measured, the important first.
    pub figures: Vec<Figure>,
}

/// One run of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What was measured.
    pub engine: String,
    /// What sets this run apart from others of the same engine; may be empty.
    pub settings: String,
    /// What came of it.
    pub document: Document,
}

/// One bar, and whether it was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is judged.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What was wanted.
    pub bar: String,
    /// Whether it was met; `None` if nothing can be said.
    pub holds: Option<bool>,
}

impl Report {
    /// A report of these runs, with a headline made from them.
    pub fn new(runs: Vec<Run>) -> Report {
        let each_once = |of: fn(&Run) -> &str| {
            let mut names: Vec<&str> = Vec::new();
            for name in runs.iter().map(of) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.join(", ")
        };
        let title =
            format!("{} on {}", each_once(|run| &run.document.workload), each_once(|run| &run.engine));
        Report { title, runs, verdicts: Vec::new(), notes: Vec::new(), compared: Vec::new() }
    }

    /// A report of a comparison: all its figures, and of each engine the run in the middle.
    pub fn of_comparison(comparison: &Comparison) -> Report {
        let mut runs = Vec::new();
        let mut compared = Vec::new();
        for group in &comparison.groups {
            let middle = group.contestants.iter().filter_map(|c| c.middle_run());
            runs.extend(middle.map(|document| Run::new(&group.settings, document.clone())));
            compared.push(Compared {
                settings: group.settings.clone(),
                engines: group.contestants.iter().map(|c| c.engine.clone()).collect(),
                baseline: group.baseline,
                figures: group.figures.clone(),
            });
        }
        let note = format!(
            "The comparison is of all runs, up to {} of each; all else shows the one in the middle by operations a second.",
            comparison.rounds
        );
        Report { compared, notes: vec![note], ..Report::new(runs) }
    }

    /// A name for each run, no two alike.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in &self.runs {
            let name = if run.settings.is_empty() {
                run.engine.clone()
            } else {
                format!("{} · {}", run.engine, run.settings)
            };
            let numbered = (2..).map(|i| format!("{name} ({i})"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
            names.push(free.unwrap_or(name));
        }
        names
    }

    /// The report's files: name and text.
    ///
    /// # Errors
    /// If a document is no JSON.
    pub fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        let json = serde_json::to_string_pretty(self)? + "\n";
        let mut files = vec![(PAGE, page::page(self)), ("report.json", json)];
        files.extend(csv::files(self));
        Ok(files)
    }

    /// Writes the files into a directory, which is made if it is not there. Files of an earlier report are replaced.
    ///
    /// # Errors
    /// If the directory or a file cannot be written.
    #[expect(clippy::disallowed_methods, reason = "a result, not the store's files")]
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)?;
        for (name, text) in self.files()? {
            std::fs::write(dir.join(name), text)?;
        }
        Ok(())
    }
}

/// The file to open.
pub const PAGE: &str = "report.html";

impl Run {
    /// A run; what sets it apart may be empty.
    pub fn new(settings: &str, document: Document) -> Run {
        Run { engine: document.engine.clone(), settings: settings.to_owned(), document }
    }
}

#[cfg(test)]
mod tests;
