//! What comes of a measurement: a table on the terminal, a document, a report.

use std::path::{Path, PathBuf};

use evenkeel_lab::results::comparison::Comparison;
use evenkeel_lab::results::report::{self, Report, Run};

use super::look;
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::output::{Output, note};

/// Where results go.
#[derive(clap::Args, Debug)]
pub struct ResultArgs {
    /// Write the result as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report into a directory: a page with plots (report.html), and the figures as CSV and JSON. Of a comparison there is
    /// always one, in the temporary directory unless said.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

impl ResultArgs {
    /// A file or a directory that cannot be written is told before the run, not after it.
    pub fn prepare(&self, store: &Path) -> Result<(), Failure> {
        if let Some(file) = self.json.as_deref().filter(|file| *file != Path::new("-")) {
            files::make_file(file)
                .map_err(|error| Failure::work(format!("cannot write {}: {error}", file.display())))?;
        }
        let Some(dir) = &self.report else { return Ok(()) };
        if dir == store || look(dir)? == Place::Store {
            return Err(Failure::usage(format!(
                "{} is a store; give another directory to --report",
                dir.display()
            )));
        }
        files::make_dir(dir).map_err(|error| Failure::work(format!("cannot make {}: {error}", dir.display())))
    }

    /// Writes the report of a run, if one is wanted.
    pub fn report(&self, run: Run) -> Result<(), Failure> {
        match &self.report {
            Some(dir) => write_report(&Report::new(vec![run]), dir),
            None => Ok(()),
        }
    }

    /// Writes the report of a comparison, which took long enough that one is always wanted.
    pub fn report_comparison(&self, comparison: &Comparison) -> Result<(), Failure> {
        let dir = self.report.clone().unwrap_or_else(|| usual_place("report"));
        write_report(&Report::of_comparison(comparison), &dir)
    }

    /// The result as JSON where that is asked for, and else, or beside a file, as text.
    pub fn print(
        &self,
        json: impl Fn() -> Result<String, serde_json::Error>,
        text: impl Fn() -> String,
    ) -> Result<(), Failure> {
        let json = || json().map_err(|error| Failure::work(format!("the result is no JSON: {error}")));
        match &self.json {
            Some(path) if path == Path::new("-") => Output::new().line(&json()?),
            Some(path) => {
                let failed = |error| Failure::work(format!("cannot write {}: {error}", path.display()));
                let written = files::write(path, &(json()? + "\n")).map_err(failed);
                // What was measured is not lost because a file cannot be written.
                Output::new().text(&text()).and(written)
            }
            None => Output::new().text(&text()),
        }
    }
}

/// Where a page goes that nobody asked a place for.
pub fn usual_place(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("keel-{what}-{}", std::process::id()))
}

/// Writes a report into a directory, and says where it is.
pub fn write_report(report: &Report, dir: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::work(format!("cannot write the report into {}: {error}", dir.display()));
    report.write(dir).map_err(failed)?;
    note(&format!("keel: the report is {}", dir.join(report::PAGE).display()));
    Ok(())
}
