//! What is left in OUT: verdicts.json, the page, tables of all cells, and for each work a page and a table of its own.

use std::path::Path;

use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::{Provenance, commit};
use evenkeel_lab::design_space;
use evenkeel_lab::design_space::judge::StudyVerdict;
use evenkeel_lab::design_space::study::Study;
use evenkeel_lab::results::comparison::{self, Run};
use evenkeel_lab::results::comparison_table;
use evenkeel_lab::results::report::{self, Report};
use evenkeel_lab::scheduling;
use evenkeel_lab::verdicts::cells::{Cell, Finished, Scale};
use evenkeel_lab::verdicts::expected::expected;
use evenkeel_lab::verdicts::experiment::Experiment;
use evenkeel_lab::verdicts::judging::{Evidence, Verdict, judge};
use evenkeel_lab::verdicts::verdict_page::{self, About};
use evenkeel_lab::verdicts::verdict_table;

use super::runner::Ran;
use super::schedule_runner::ScheduleRan;
use super::study_runner::StudyRan;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;

/// The page to open.
pub const PAGE: &str = report::PAGE;

/// Engines beside each other: what was to be run, and what came of it.
pub struct Engines<'a> {
    /// The experiments.
    pub chosen: &'a [&'static Experiment],
    /// Their cells.
    pub planned: &'a [Cell],
    /// What came of them.
    pub ran: &'a Ran,
}

/// Strategies beside each other: the same.
pub struct Space<'a> {
    /// The experiments.
    pub chosen: &'a [&'static Study],
    /// Their cells.
    pub planned: &'a [design_space::cells::Cell],
    /// What came of them.
    pub ran: &'a StudyRan,
}

/// Schedules beside each other: the same.
pub struct Schedules<'a> {
    /// The experiments.
    pub chosen: &'a [&'static scheduling::study::Study],
    /// Their cells.
    pub planned: &'a [scheduling::cells::Cell],
    /// What came of them.
    pub ran: &'a ScheduleRan,
}

/// Judges, writes everything and prints the verdicts.
pub fn write(
    out: &Path,
    engines: &Engines<'_>,
    space: &Space<'_>,
    under: &Schedules<'_>,
    scale: Scale,
) -> Result<(), Failure> {
    let Engines { chosen, planned, ran } = *engines;
    let evidence =
        Evidence { planned, finished: &ran.finished, failed: &ran.failed, quick: scale.is_quick() };
    let bars = expected();
    let verdicts: Vec<Verdict> = chosen.iter().flat_map(|e| judge(e, &bars, &evidence)).collect();
    let of_space = design_space::judge::Evidence {
        planned: space.planned,
        finished: &space.ran.finished,
        failed: &space.ran.failed,
        quick: scale.is_quick(),
    };
    let of_space: Vec<StudyVerdict> =
        space.chosen.iter().flat_map(|study| design_space::judge::judge(study, &bars, &of_space)).collect();
    let of_schedules = design_space::judge::Evidence {
        planned: under.planned,
        finished: &under.ran.finished,
        failed: &under.ran.failed,
        quick: scale.is_quick(),
    };
    let of_schedules: Vec<StudyVerdict> =
        under.chosen.iter().flat_map(|study| scheduling::judge::judge(study, &bars, &of_schedules)).collect();
    let failed =
        |error: std::io::Error| Failure::work(format!("cannot write into {}: {error}", out.display()));
    let studied = [of_space, of_schedules].concat();
    let json = all_as_json(&verdicts, &studied)
        .map_err(|error| Failure::work(format!("the verdicts are no JSON: {error}")))?;
    let notes = notes(engines, space, under);
    let studies = design_space::verdicts::on_page(space.chosen, &studied, &space.ran.finished)
        .and(scheduling::page::on_page(under.chosen, &studied, &under.ran.finished));
    let mut pages = works(out, planned, &ran.finished).map_err(failed)?;
    pages.extend(loads(out, under).map_err(failed)?);
    let (commit, provenance) = (commit(), Provenance::here(clock::wall_ms(), out));
    let tables = [
        ("cells.csv", chosen.is_empty(), verdict_page::csv(&ran.finished)),
        ("points.csv", space.chosen.is_empty(), design_space::verdicts::csv(&space.ran.finished)),
        ("rows.csv", under.chosen.is_empty(), scheduling::page::csv(&under.ran.finished)),
    ];
    let tables: Vec<(&'static str, String)> =
        tables.into_iter().filter(|(_, is_empty, _)| !is_empty).map(|(name, _, text)| (name, text)).collect();
    let names: Vec<&'static str> = tables.iter().map(|(name, _)| *name).collect();
    let about = About {
        provenance: &provenance,
        commit: commit.as_deref(),
        notes: &notes,
        pages: &pages,
        tables: &names,
        studies: &studies,
    };
    let page = verdict_page::page(&about, &verdicts, &ran.finished);
    for (name, text) in [("verdicts.json", json + "\n"), (PAGE, page)].into_iter().chain(tables) {
        files::write_whole(&out.join(name), &text).map_err(failed)?;
    }
    let text = verdict_table::text(&verdicts) + &design_space::verdicts::text(&studied);
    Output::new().text(&text)
}

/// One list of both kinds.
fn all_as_json(verdicts: &[Verdict], of_space: &[StudyVerdict]) -> serde_json::Result<String> {
    let mut all: Vec<serde_json::Value> = Vec::new();
    for verdict in verdicts {
        all.push(serde_json::to_value(verdict)?);
    }
    for verdict in of_space {
        all.push(serde_json::to_value(verdict)?);
    }
    serde_json::to_string_pretty(&all)
}

fn notes(engines: &Engines<'_>, space: &Space<'_>, under: &Schedules<'_>) -> Vec<String> {
    let ran = engines.ran;
    let mut notes = vec![format!(
        "{} of {} cells are finished, {} of them by this command.",
        ran.finished.len() + space.ran.finished.len() + under.ran.finished.len(),
        engines.planned.len() + space.planned.len() + under.planned.len(),
        ran.run + space.ran.run + under.ran.run
    )];
    notes.extend(
        space
            .ran
            .failed
            .iter()
            .chain(&under.ran.failed)
            .map(|(point, why)| format!("{point} failed: {why}.")),
    );
    notes.extend(
        ran.failed.iter().map(|f| {
            format!("{}, {}, failed in {} {}: {}.", f.engine, f.settings, f.experiment, f.work, f.why)
        }),
    );
    notes
}

/// A folder for each work that has run, with the page and the table of a comparison; name and address of each page.
fn works(out: &Path, planned: &[Cell], finished: &[Finished]) -> std::io::Result<Vec<(String, String)>> {
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
        let mut report = Report::of_comparison(&compared);
        report.title = format!("{name}: {}", report.title);
        report.write(&dir)?;
        files::write(&dir.join("comparison.txt"), &comparison_table::text(&compared))?;
        pages.push((name, format!("{folder}/{}", report::PAGE)));
    }
    Ok(pages)
}

/// A folder for each load of an experiment over schedules, with the runs of one round, the first that is asked for, on a page.
fn loads(out: &Path, under: &Schedules<'_>) -> std::io::Result<Vec<(String, String)>> {
    let mut pages: Vec<(String, String)> = Vec::new();
    for cell in under.planned {
        let group = cell.row.group();
        if pages.iter().any(|(known, _)| *known == group) {
            continue;
        }
        let round = cell.round;
        let of_group =
            under.planned.iter().filter(|other| other.row.group() == group && other.round == round);
        let document = |cell: &scheduling::cells::Cell| {
            let (id, seed) = (cell.row.id(), cell.seed());
            let finished = under.ran.finished.iter().find(|f| f.row == id && f.seed == seed)?;
            Some(report::Run::new(cell.row.name, finished.document.clone()))
        };
        let runs: Vec<report::Run> = of_group.filter_map(document).collect();
        if runs.is_empty() {
            continue;
        }
        let folder = format!("works/schedules/{group}");
        let mut report = Report::new(runs);
        report.title = group.clone();
        report.notes.push(format!("Round {round}."));
        report.write(&out.join(&folder))?;
        pages.push((group, format!("{folder}/{}", report::PAGE)));
    }
    Ok(pages)
}
