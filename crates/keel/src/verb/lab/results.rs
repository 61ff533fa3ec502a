//! What is left in OUT: verdicts.json, the page, cells.csv, and for each work a page and a table of its own.

use std::path::Path;

use evenkeel_lab::cells::{Cell, Finished, Scale};
use evenkeel_lab::clock;
use evenkeel_lab::comparison::{self, Run};
use evenkeel_lab::comparison_table;
use evenkeel_lab::expected::expected;
use evenkeel_lab::experiment::Experiment;
use evenkeel_lab::experiments::BASELINE;
use evenkeel_lab::judging::{Evidence, Verdict, judge};
use evenkeel_lab::provenance::{Provenance, commit};
use evenkeel_lab::report::{self, Report};
use evenkeel_lab::verdict_page::{self, About};
use evenkeel_lab::verdict_table;

use super::runner::Ran;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;

/// The page to open.
pub const PAGE: &str = report::PAGE;

/// Judges, writes everything and prints the verdicts.
pub fn write(
    out: &Path,
    chosen: &[&'static Experiment],
    planned: &[Cell],
    ran: &Ran,
    scale: Scale,
) -> Result<(), Failure> {
    let evidence = Evidence {
        planned,
        finished: &ran.finished,
        failed: &ran.failed,
        baseline: BASELINE,
        quick: scale.is_quick(),
    };
    let bars = expected();
    let verdicts: Vec<Verdict> = chosen.iter().flat_map(|e| judge(e, &bars, &evidence)).collect();
    let failed =
        |error: std::io::Error| Failure::work(format!("cannot write into {}: {error}", out.display()));
    let json = serde_json::to_string_pretty(&verdicts)
        .map_err(|error| Failure::work(format!("the verdicts are no JSON: {error}")))?;
    let notes = notes(planned, ran);
    let (commit, provenance) = (commit(), Provenance::here(clock::wall_ms(), out));
    let about = About {
        provenance: &provenance,
        commit: commit.as_deref(),
        notes: &notes,
        pages: &works(out, planned, &ran.finished, scale).map_err(failed)?,
    };
    for (name, text) in [
        ("verdicts.json", json + "\n"),
        (PAGE, verdict_page::page(&about, &verdicts, &ran.finished)),
        ("cells.csv", verdict_page::csv(&ran.finished)),
    ] {
        files::write_whole(&out.join(name), &text).map_err(failed)?;
    }
    Output::new().text(&verdict_table::text(&verdicts))
}

fn notes(planned: &[Cell], ran: &Ran) -> Vec<String> {
    let finished = ran.finished.len();
    let mut notes = vec![format!(
        "{finished} of {} cells are finished, {} of them by this command.",
        planned.len(),
        ran.run
    )];
    notes.extend(
        ran.failed.iter().map(|f| {
            format!("{}, {}, failed in {} {}: {}.", f.engine, f.settings, f.experiment, f.work, f.why)
        }),
    );
    notes
}

/// A folder for each work that has run, with the page and the table of a comparison; name and address of each page.
fn works(
    out: &Path,
    planned: &[Cell],
    finished: &[Finished],
    scale: Scale,
) -> std::io::Result<Vec<(String, String)>> {
    let mut pages: Vec<(String, String)> = Vec::new();
    for cell in planned {
        let name = format!("{} {}", cell.experiment, cell.work.name);
        let mine =
            |f: &&Finished| (f.experiment.as_str(), f.work.as_str()) == (cell.experiment, cell.work.name);
        let runs: Vec<Run> = finished.iter().filter(mine).map(|f| f.run.clone()).collect();
        if runs.is_empty() || pages.iter().any(|(known, _)| *known == name) {
            continue;
        }
        // Runs of one work were all asked for the same, so they compare.
        let Ok(compared) = comparison::compare_seeds(&runs) else { continue };
        let folder = format!("works/{}/{}", cell.experiment, cell.work.name);
        let dir = out.join(&folder);
        let shown = compared.groups.iter().flat_map(|group| {
            let middle = group.contestants.iter().filter_map(|c| c.middle_run());
            middle.map(|document| report::Run::new(&group.settings, document.clone()))
        });
        let mut report = Report::new(shown.collect());
        report.title = format!("{name}: {}", report.title);
        report
            .notes
            .push(format!("Of each system the run in the middle of up to {}.", scale.rounds(cell.work)));
        report.write(&dir)?;
        files::write(&dir.join("comparison.txt"), &comparison_table::text(&compared))?;
        pages.push((name, format!("{folder}/{}", report::PAGE)));
    }
    Ok(pages)
}
