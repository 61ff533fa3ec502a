//! The drawing of groups by heat: a stripe for each level, in it each group as wide as its part of the bytes.
//!
//! ```text
//! L1 ▕▓▓▓▓▏    10    ▕▓▏  4  ▕▓▓▓▓▓▓▓▏        dark: read; a number: the runs of a group that has several
//! L2 ▕▓▏     3     ▕▓▓▓▓▓▓▏    2     ▏
//! ```

use maud::{Markup, html};

use super::Report;
use super::charts::Chart;
use super::numbers::bytes;
use super::svg::{WIDTH, n, shortened};
use crate::run::engine::Group;

const HOT: &str = "k2";
const COLD: &str = "k1";
const ROW: f64 = 34.0;
const HEAD: f64 = 30.0;
const STRIPE: f64 = 24.0;
/// Room for a level's name.
const LEFT: f64 = 34.0;
/// A number needs so much room.
const NUMBER: f64 = 18.0;
/// How faint a group is that nobody reads.
const FAINTEST: f64 = 0.3;

/// The groups at the end of each run that has some.
pub fn groups(report: &Report) -> Option<Chart> {
    let names = report.names();
    let runs: Vec<(&String, &[Group])> =
        names.iter().zip(report.runs.iter().map(|run| &run.document.groups[..])).collect();
    let divided: Vec<_> = runs.iter().filter(|(_, groups)| !groups.is_empty()).collect();
    if divided.is_empty() {
        return None;
    }
    let title = "Groups by heat";
    let mut at = 0.0;
    let mut body = Vec::new();
    for (name, groups) in &divided {
        if runs.len() > 1 {
            body.push(html! { text.group x="0" y=(n(at + 20.0)) { (shortened(name, 60)) } });
            at += HEAD;
        }
        let densest = groups.iter().map(density).fold(0.0, f64::max);
        for level in groups.chunk_by(|a, b| a.level == b.level) {
            body.push(stripe(level, at, densest));
            at += ROW;
        }
    }
    Some(Chart {
        id: "groups",
        title,
        about: "At the end: the levels whose keys are told apart by how much they are read, each from its first key to its last. A \
                group is as wide as its part of the level's bytes, and the more looks a byte of it gets, the less faint; a number says \
                how many runs a group has, where there are several. What is at hand says more."
            .to_owned(),
        legend: vec![
            (HOT.to_owned(), "read: kept as one run".to_owned()),
            (COLD.to_owned(), "hardly read: runs gather".to_owned()),
        ],
        drawing: html! {
            svg viewBox={ "0 0 " (n(WIDTH)) " " (n(at.max(1.0))) } role="img" aria-label=(title) {
                @for part in body { (part) }
            }
        },
    })
}

/// Looks for each byte.
fn density(group: &Group) -> f64 {
    group.looks_per_get.filter(|looks| looks.is_finite()).unwrap_or(0.0).max(0.0) / group.bytes.max(1) as f64
}

fn stripe(level: &[Group], at: f64, densest: f64) -> Markup {
    let all: u64 = level.iter().map(|group| group.bytes).sum();
    let mut from = LEFT;
    let groups = level.iter().map(|group| {
        let width = group.bytes as f64 / all.max(1) as f64 * (WIDTH - LEFT);
        let x = from;
        from += width;
        let part = if densest > 0.0 { density(group) / densest } else { 1.0 };
        let opacity = FAINTEST + (1.0 - FAINTEST) * part.sqrt();
        html! {
            rect class={ "area " (if group.is_hot { HOT } else { COLD }) } x=(n(x)) y=(n(at + 4.0)) width=(n((width - 1.0).max(0.3)))
                height=(n(STRIPE)) fill-opacity=(format!("{opacity:.2}")) { title { (words(group)) } }
            @if group.runs > 1 && width >= NUMBER {
                text.x x=(n(x + width / 2.0)) y=(n(at + 4.0 + STRIPE * 0.7)) pointer-events="none" { (group.runs) }
            }
        }
    });
    let groups: Vec<Markup> = groups.collect();
    html! {
        g {
            text.name x="0" y=(n(at + 4.0 + STRIPE * 0.7)) { "L" (level.first().map_or(0, |group| group.level)) }
            @for group in groups { (group) }
        }
    }
}

fn words(group: &Group) -> String {
    let end = |key: &str, none: &str| if key.is_empty() { none.to_owned() } else { key.to_owned() };
    let looks = group
        .looks_per_get
        .map_or_else(|| "looks not known".to_owned(), |looks| format!("{looks:.3} looks a get"));
    format!(
        "{}, {} to {}\n{}, {} of {} runs, {looks}",
        if group.is_hot { "hot" } else { "cold" },
        end(&group.from, "the first key"),
        end(&group.to, "the last"),
        bytes(group.bytes),
        group.runs,
        group.max_runs,
    )
}
