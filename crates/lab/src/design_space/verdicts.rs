//! Verdicts over the design space, for people: a table at a terminal, sections of the page, and the cells as a table for other
//! programs.
//!
//! ```text
//! cds-fig4                      wanted   found         spread  verdict
//!   O1  a-tier-least            ≥ 1.00    2.61    2.60 – 2.63  holds
//!       the paper: Tier lowest: 12x; Full 63x
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;

use maud::{Markup, html};

use super::cells::Finished;
use super::charts;
use super::judge::StudyVerdict;
use super::point::Point;
use super::study::{Study, median};
use crate::results::comparison::Unit;
use crate::results::comparison_table::quantity;
use crate::results::report::csv_row;
use crate::verdicts::verdict_page::Studies;

/// The verdicts as text.
pub fn text(verdicts: &[StudyVerdict]) -> String {
    let mut out = String::new();
    for group in verdicts.chunk_by(|a, b| a.experiment == b.experiment) {
        // Writing to a string does not fail.
        let _ = table(&mut out, group);
    }
    if verdicts.iter().any(|v| v.quick) {
        let why = "Only a part was run: this shows that it works, and is not to be quoted.";
        let _ = writeln!(out, "\n{why}");
    }
    out
}

fn table(out: &mut String, group: &[StudyVerdict]) -> std::fmt::Result {
    let Some(first) = group.first() else { return Ok(()) };
    writeln!(out, "\n{:<34} {:>13} {:>8} {:>15}  verdict", first.experiment, "wanted", "found", "spread")?;
    if let Some(load) = &first.load {
        writeln!(out, "  under {load}")?;
    }
    for tree in group.iter().filter_map(|v| v.tree.as_ref()).collect::<BTreeSet<_>>() {
        writeln!(out, "  {tree}")?;
    }
    for v in group {
        let short = v.id.split_once('.').map_or(v.id.as_str(), |(_, short)| short);
        writeln!(
            out,
            "  {:<7}{short:<25} {:>13} {:>8} {:>15}  {}",
            v.observation,
            v.expected.bar.text(Unit::Times),
            number(v.measured),
            spread(v),
            word(v)
        )?;
        writeln!(out, "       {}; the paper: {}", v.claim, v.expected.paper.as_deref().unwrap_or("–"))?;
        if let Some(why) = remark(v) {
            writeln!(out, "       {why}")?;
        }
    }
    Ok(())
}

fn remark(v: &StudyVerdict) -> Option<&str> {
    v.why_not_valid.as_deref().or(v.note.as_deref())
}

fn number(x: Option<f64>) -> String {
    x.map_or_else(|| "–".to_owned(), |x| quantity(x, Unit::Times))
}

fn spread(v: &StudyVerdict) -> String {
    match v.spread.filter(|_| v.runs > 1) {
        Some((least, most)) => format!("{least:.2} – {most:.2}"),
        None => "–".to_owned(),
    }
}

/// The verdict in words.
fn word(v: &StudyVerdict) -> &'static str {
    match (v.holds, v.clear) {
        (None, _) => "not valid",
        (Some(true), Some(true)) => "holds",
        (Some(true), _) => "holds, narrowly",
        (Some(false), Some(true)) => "does not hold",
        (Some(false), _) => "fails narrowly",
    }
}

/// A study on the page: its verdicts and its plots.
fn section(study: &Study, verdicts: &[StudyVerdict], finished: &[Finished]) -> Markup {
    let points = (study.points)();
    let look = |point: &Point, figure: &str| middle(finished, &point.name(), figure);
    let drawn: Vec<Markup> =
        study.plots.iter().filter_map(|plot| charts::figure(plot, &points, &look)).collect();
    html! {
        section {
            h2 { (study.id) }
            p.note { (study.title) "." }
            @for tree in trees(study.id, verdicts) { p.note { (tree) "." } }
            (verdict_table(study.id, verdicts))
            @if !drawn.is_empty() { div.charts { @for figure in drawn { (figure) } } }
        }
    }
}

/// What reads taught and the tree became of it, by point.
fn trees<'v>(experiment: &str, verdicts: &'v [StudyVerdict]) -> BTreeSet<&'v String> {
    verdicts.iter().filter(|v| v.experiment == experiment).filter_map(|v| v.tree.as_ref()).collect()
}

/// The verdicts of an experiment as a table of the page.
pub(crate) fn verdict_table(experiment: &str, verdicts: &[StudyVerdict]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Verdicts" tabindex="0" { table {
            thead { tr {
                th scope="col" { "observed" }
                th scope="col" { "claim" }
                @for name in ["wanted", "found", "spread"] { th.number scope="col" { (name) } }
                th scope="col" { "verdict" }
                th scope="col" { "the paper" }
            } }
            tbody { @for v in verdicts.iter().filter(|v| v.experiment == experiment) { (row(v)) } }
        } }
    }
}

fn row(v: &StudyVerdict) -> Markup {
    let class = match v.holds {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    };
    html! {
        tr {
            td { (v.observation) }
            th scope="row" { (v.claim) br; code { (v.id) } }
            td.number { (v.expected.bar.text(Unit::Times)) }
            td.number { (number(v.measured)) }
            td.number { (spread(v)) }
            td { span class=(class) { (word(v)) } @if let Some(why) = remark(v) { br; (why) } }
            td { (v.expected.paper.as_deref().unwrap_or("–")) }
        }
    }
}

/// What the page has of these studies.
pub fn on_page(studies: &[&'static Study], verdicts: &[StudyVerdict], finished: &[Finished]) -> Studies {
    Studies {
        names: studies.iter().map(|study| study.id).collect(),
        sections: studies.iter().map(|study| section(study, verdicts, finished)).collect(),
        cells: finished.len(),
        busiest: finished.iter().filter_map(|cell| cell.measured.others_cores).reduce(f64::max),
        repeats: finished.iter().map(|cell| cell.repeats).sum(),
        quick: verdicts.iter().any(|v| v.quick),
    }
}

/// The median of the rounds.
fn middle(finished: &[Finished], point: &str, figure: &str) -> Option<f64> {
    let rounds = finished.iter().filter(|cell| cell.point == point);
    median(&rounds.filter_map(|cell| cell.measured.figures.get(figure)).copied().collect::<Vec<_>>())
}

/// One line a cell, a column a figure.
pub fn csv(finished: &[Finished]) -> String {
    let figures: BTreeSet<&String> = finished.iter().flat_map(|cell| cell.measured.figures.keys()).collect();
    let line = |cell: &Finished| CellLine {
        name: cell.point.clone(),
        seed: cell.seed,
        repeats: cell.repeats,
        wall_seconds: cell.wall_seconds,
        others_cores: cell.measured.others_cores,
        figures: figures.iter().map(|name| cell.measured.figures.get(*name).copied()).collect(),
    };
    cells_csv("point", figures.iter().map(|name| (*name).clone()), finished.iter().map(line))
}

/// A cell of a study in a table for programs.
pub struct CellLine {
    /// What was run.
    pub name: String,
    /// Decided on keys and operations.
    pub seed: u64,
    /// How often it was run again.
    pub repeats: u32,
    /// How long it took.
    pub wall_seconds: f64,
    /// Cores that others used meanwhile.
    pub others_cores: Option<f64>,
    /// What was found, in the order of the columns.
    pub figures: Vec<Option<f64>>,
}

/// One line a cell, a column a figure; what a cell does not tell is empty.
pub fn cells_csv(
    what: &str,
    figures: impl Iterator<Item = String>,
    cells: impl Iterator<Item = CellLine>,
) -> String {
    let names = [what, "seed", "repeats", "wall_seconds", "others_cores"].map(str::to_owned);
    let mut out = csv_row(names.into_iter().chain(figures));
    let value = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    for cell in cells {
        let what = [
            cell.name,
            cell.seed.to_string(),
            cell.repeats.to_string(),
            cell.wall_seconds.to_string(),
            value(cell.others_cores),
        ];
        out += &csv_row(what.into_iter().chain(cell.figures.into_iter().map(value)));
    }
    out
}
