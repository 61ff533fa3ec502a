//! The page: head, tables and plots in one file that needs nothing else.
//!
//! It is well-formed XML but for `<meta …>`, so that a test can read it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::charts::{Chart, charts};
use super::groups::groups;
use super::{Report, csv, tables};

/// Without `<` and `&`, so that the page stays well-formed.
const STYLE: &str = include_str!("page.css");

/// The whole file.
pub fn page(report: &Report) -> String {
    let body = if report.runs.is_empty() {
        html! { p { "There are no runs." } }
    } else {
        content(report)
    };
    whole_page(&report.title, &body)
}

/// A page of this title as one file, whatever it is about.
pub fn whole_page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (body) } }
        }
    };
    page.into_string() + "\n"
}

/// The latencies over time alone: a drawing that needs nothing else, on paper of its own.
pub fn picture(report: &Report) -> String {
    let Some(chart) = charts(report).into_iter().next() else { return String::new() };
    let alone = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" \
        style=\"background: var(--paper); font-family: system-ui, sans-serif\" ";
    let drawing = chart.drawing.into_string().replacen("<svg ", alone, 1);
    let styled = format!("><style>{STYLE}</style>");
    drawing.replacen('>', &styled, 1) + "\n"
}

fn content(report: &Report) -> Markup {
    html! {
        (tables::head(report))
        (tables::verdicts(report))
        (tables::compared(report))
        section { h2 { "Latencies" } (tables::latencies(report)) }
        section { h2 { "Plots" } div.charts { @for chart in charts(report).into_iter().chain(groups(report)) { (figure(&chart)) } } }
        section { h2 { "Costs" } (tables::costs(report)) }
        section { h2 { "Settings" } (tables::settings(report)) }
        footer {
            p {
                "The figures as tables: "
                @for (i, name) in csv::NAMES.iter().enumerate() {
                    @if i > 0 { ", " }
                    a href=(name) { (name) }
                }
                "; the runs: " a href="report.json" { "report.json" } "."
            }
        }
    }
}

fn figure(chart: &Chart) -> Markup {
    html! {
        figure id=(chart.id) {
            figcaption {
                h3 { (chart.title) }
                p { (chart.about) }
                @if !chart.legend.is_empty() {
                    ul.legend {
                        @for (class, words) in &chart.legend { li { (sample(class)) span { (words) } } }
                    }
                }
            }
            (chart.drawing)
        }
    }
}

/// A piece of a mark, as it is drawn.
pub fn sample(class: &str) -> Markup {
    let is_surface = matches!(class, "band" | "halted") || class.starts_with('k');
    html! {
        svg.sample viewBox="0 0 24 12" aria-hidden="true" {
            @if is_surface {
                rect class={ "area " (class) } x="1" y="1" width="22" height="10" {}
            } @else {
                path class={ "line " (class) } d="M1 6H23" {}
            }
        }
    }
}
