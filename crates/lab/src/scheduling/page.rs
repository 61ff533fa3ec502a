//! Studies over schedules on the page of verdicts: a table of verdicts each, and what was measured of each row.

use maud::{Markup, html};

use super::cells::Finished;
use super::study::{Study, completed, median, most_runs, p99, short_seconds, worst_seconds};
use crate::design_space::judge::StudyVerdict;
use crate::design_space::study::median as middle;
use crate::design_space::verdicts::{CellLine, cells_csv, verdict_table};
use crate::results::document::Document;
use crate::results::report::numbers::{known, micros};
use crate::verdicts::verdict_page::Studies;

/// What the page has of these studies.
pub fn on_page(studies: &[&'static Study], verdicts: &[StudyVerdict], finished: &[Finished]) -> Studies {
    Studies {
        names: studies.iter().map(|study| study.id).collect(),
        sections: studies.iter().map(|study| section(study, verdicts, finished)).collect(),
        cells: finished.len(),
        busiest: finished.iter().filter_map(|cell| cell.document.others_cores).reduce(f64::max),
        repeats: finished.iter().map(|cell| cell.repeats).sum(),
        quick: verdicts.iter().any(|v| v.quick),
    }
}

fn section(study: &Study, verdicts: &[StudyVerdict], finished: &[Finished]) -> Markup {
    let load = verdicts.iter().find(|v| v.experiment == study.id).and_then(|v| v.load.as_ref());
    html! {
        section {
            h2 { (study.id) }
            p.note { (study.title) "." @if let Some(load) = load { " The load: " (load) "." } }
            (verdict_table(study.id, verdicts))
            (rows(study, finished))
        }
    }
}

type Get = fn(&Document) -> Option<f64>;

/// What is told of a row: for people, in a table for programs, and how it is found.
const FIGURES: [(&str, &str, Get, fn(f64) -> String); 6] = [
    ("p50", "p50_us", median, micros),
    ("p99", "p99_us", p99, micros),
    ("worst 5 % of seconds", "worst_seconds_p99_us", worst_seconds, micros),
    ("seconds short of the load", "short_seconds", short_seconds, percent),
    ("done in time", "completed_share", completed, percent),
    ("most runs in L0", "l0_runs_max", most_runs, |runs| format!("{runs:.0}")),
];

/// One line a cell, a column a figure.
pub fn csv(finished: &[Finished]) -> String {
    let line = |cell: &Finished| CellLine {
        name: cell.row.clone(),
        seed: cell.seed,
        repeats: cell.repeats,
        wall_seconds: cell.wall_seconds,
        others_cores: cell.document.others_cores,
        figures: FIGURES.iter().map(|(_, _, get, _)| get(&cell.document)).collect(),
    };
    cells_csv("row", FIGURES.iter().map(|(_, name, ..)| (*name).to_owned()), finished.iter().map(line))
}

/// The medians of the rounds, a line a row.
fn rows(study: &Study, finished: &[Finished]) -> Markup {
    let of = |id: &str, get: Get| {
        let mine = finished.iter().filter(|cell| cell.row == id);
        middle(&mine.filter_map(|cell| get(&cell.document)).collect::<Vec<_>>())
    };
    html! {
        div.scroll role="region" aria-label="Rows" tabindex="0" { table {
            thead { tr {
                th scope="col" { "row" }
                @for (name, ..) in &FIGURES { th.number scope="col" { (name) } }
            } }
            tbody { @for row in (study.rows)() {
                tr {
                    th scope="row" { (row.id()) }
                    @for (_, _, get, told) in &FIGURES { td.number { (known(of(&row.id(), *get), told)) } }
                }
            } }
        } }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
