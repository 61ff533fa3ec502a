//! The tables of the page: what was measured and where, settings, latencies, costs, verdicts.
//!
//! What all runs share is said once; what differs is said of each, because runs that were asked for different things do
//! not compare.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::results::comparison::{Cell, Figure, Verdict};
use crate::results::comparison_table::{explained, quantity, spread, times as ratio_text};
use crate::results::document::Document;
use crate::run::steady::LEFT_OUT_SHARE_MAX;

use super::charts::colour;
use super::numbers::{UNKNOWN, bytes, cores, count, known, micros, moment, rate, seconds, times};
use super::text::{asked, stalled, stood_still};
use super::{Compared, Report, Run};

/// Others took more of the machine than a measurement bears, in cores.
const DISTURBED_CORES: f64 = 0.15;

/// The facts at the head, and what to beware of.
pub fn head(report: &Report) -> Markup {
    let host = |get: fn(&Document) -> Option<String>| shared(report, |doc| known(get(doc), |text| text));
    let facts = [
        ("Asked for", shared(report, |doc| asked(doc).join(", "))),
        ("Ended after", shared(report, until)),
        ("Began", known(first_moment(report), moment)),
        ("Cores", host(|d| d.provenance.as_ref()?.host.cores.map(count))),
        ("Processor", host(|d| d.provenance.as_ref()?.host.cpu.clone())),
        ("Memory", host(|d| d.provenance.as_ref()?.host.memory_bytes.map(bytes))),
        ("Kernel", host(|d| d.provenance.as_ref()?.host.kernel.clone())),
        ("Disk", host(|d| d.provenance.as_ref()?.host.disk.clone())),
        ("CPU of others", shared(report, |doc| known(doc.others_cores, cores))),
    ];
    html! {
        @for note in &report.notes { p.note { (note) } }
        @for sentence in halts(report) { p.note { (sentence) } }
        @for warning in warnings(report) { p.warning { strong { "Beware: " } (warning) } }
        dl.facts {
            @for (name, value) in &facts { div.wide[value.len() > 24] { dt { (name) } dd { (value) } } }
        }
    }
}

/// In which runs the machine stood still, and their tails without that.
fn halts(report: &Report) -> Vec<String> {
    let names = report.names();
    let of = |(run, name): (&Run, &String)| {
        let sentence = stood_still(&run.document)?;
        Some(if names.len() > 1 { format!("{name}: the {sentence}.") } else { format!("The {sentence}.") })
    };
    report.runs.iter().zip(&names).filter_map(of).collect()
}

/// What ended the measurement.
fn until(doc: &Document) -> String {
    match (doc.config.ops, doc.config.seconds) {
        (Some(ops), Some(s)) => format!("{} operations or {}", count(ops), seconds(s)),
        (Some(ops), None) => format!("{} operations", count(ops)),
        (None, Some(s)) => seconds(s),
        (None, None) if doc.replay.is_some() => "the trace was over".to_owned(),
        (None, None) if doc.open_loop.is_some() => "the load was over".to_owned(),
        (None, None) if doc.config.engine.contains_key("operations") => "the file was over".to_owned(),
        (None, None) => "every record was inserted".to_owned(),
    }
}

fn first_moment(report: &Report) -> Option<u64> {
    report.runs.iter().filter_map(|run| Some(run.document.provenance.as_ref()?.began_ms)).min()
}

/// What is the same for all runs, or what there is, each once.
fn shared(report: &Report, get: impl Fn(&Document) -> String) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in report.runs.iter().map(|run| get(&run.document)) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(" / ")
}

/// Why not to believe the figures.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, run) in report.names().iter().zip(&report.runs) {
        let doc = &run.document;
        if doc.wrong_reads > 0 {
            let wrong = count(doc.wrong_reads);
            warnings
                .push(format!("{wrong} reads of {name} did not find what is there, or found what is not."));
        }
        if let Some(steady) = doc.steady.as_ref().filter(|s| s.left_out_share() > LEFT_OUT_SHARE_MAX) {
            let (out, all) = (count(steady.left_out_seconds), count(steady.seconds));
            warnings.push(format!(
                "while {name} was measured, the machine stood still in {out} of {all} seconds or just before them."
            ));
        }
        if let Some(others) = doc.others_cores.filter(|cores| *cores > DISTURBED_CORES) {
            warnings.push(format!("while {name} was measured, others used {}.", cores(others)));
        }
    }
    let differ = |get: fn(&Document) -> String| {
        report.runs.iter().map(|run| get(&run.document)).collect::<BTreeSet<_>>().len() > 1
    };
    if differ(|doc| doc.workload.clone()) || differ(|doc| asked_alike(doc).join(", ")) {
        warnings.push("the runs were not asked for the same.".to_owned());
    }
    let mut hosts = report.runs.iter().filter_map(|run| Some(&run.document.provenance.as_ref()?.host));
    if hosts.next().is_some_and(|first| hosts.any(|host| host != first)) {
        warnings.push("the runs are not of the same machine and disk.".to_owned());
    }
    warnings
}

/// What a fair comparison keeps the same. The records at the end follow from the run where it inserts.
fn asked_alike(doc: &Document) -> Vec<String> {
    let c = &doc.config;
    let data = format!("{} + {} bytes", c.key_bytes, c.value_lengths());
    vec![
        data,
        c.threads.to_string(),
        c.distribution.name().to_owned(),
        doc.seed.to_string(),
        c.device.clone(),
        until(doc),
    ]
}

/// A table that scrolls by itself where it is too wide.
fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A run's colour and name; a name that is too long for its place is whole where one points.
fn run_name(i: usize, name: &str) -> Markup {
    html! { span.run title=(name) { span class={ "key " (colour(i)) } {} span { (name) } } }
}

/// The head of a run's row.
fn run_cell(i: usize, name: &str) -> Markup {
    html! { th scope="row" { (run_name(i, name)) } }
}

/// What all runs of a comparison say: a table for each settings, one row a figure, one column an engine.
pub fn compared(report: &Report) -> Markup {
    html! {
        @for group in &report.compared {
            section {
                h2 { "Comparison: " (group.settings) }
                (scrolling("Comparison", &compared_table(group)))
                div.below { @for line in explained(&group.figures) { p.note { (line) } } }
            }
        }
    }
}

fn compared_table(group: &Compared) -> Markup {
    let is_base = |i: usize| group.baseline == Some(i);
    html! {
        table {
            thead { tr {
                th scope="col" { "median, spread, ratio to the first other engine" }
                @for engine in &group.engines { th.number scope="col" { (engine) } }
            } }
            tbody {
                @for figure in &group.figures {
                    tr {
                        th.figure scope="row" { (figure.name) }
                        @for (i, cell) in figure.cells.iter().enumerate() {
                            td.number { (compared_cell(figure, cell, is_base(i))) }
                        }
                    }
                }
            }
        }
    }
}

fn compared_cell(figure: &Figure, cell: &Cell, is_base: bool) -> Markup {
    let Some(median) = cell.median else { return html! { (UNKNOWN) } };
    html! {
        (quantity(median, figure.unit)) " " small { (spread(cell)) }
        @if let Some(ratio) = figure.shown_ratio(cell, is_base) {
            div {
                strong { (ratio_text(ratio)) }
                @if let Some(verdict) = cell.verdict {
                    " " span.met[verdict == Verdict::Better].missed[verdict == Verdict::Worse] { (verdict.word()) }
                }
            }
        }
    }
}

/// Latencies: one row a run, for each kind of operation.
pub fn latencies(report: &Report) -> Markup {
    let names = report.names();
    let kinds: BTreeSet<&String> =
        report.runs.iter().flat_map(|run| run.document.latency_us.keys()).collect();
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "run" }
                @for name in ["a second", "p50", "p90", "p99", "p99.9", "largest", "operations"] {
                    th.number scope="col" { (name) }
                }
            } }
            @for kind in kinds {
                tbody {
                    tr { th.section colspan="8" scope="rowgroup" { (kind) } }
                    @for (i, (run, name)) in report.runs.iter().zip(&names).enumerate() {
                        (latency_row(i, run, name, kind))
                    }
                }
            }
            @if report.runs.iter().any(|run| run.document.open_loop.is_some()) {
                tbody {
                    tr { th.section colspan="8" scope="rowgroup" { "an engine that does nothing, before the run and at its rate" } }
                    @for (i, (run, name)) in report.runs.iter().zip(&names).enumerate() { (floor_row(i, run, name)) }
                }
            }
            tbody {
                tr { th.section colspan="8" scope="rowgroup" { "all operations" } }
                @for (i, (run, name)) in report.runs.iter().zip(&names).enumerate() {
                    tr {
                        (run_cell(i, name))
                        td.number { (rate(run.document.throughput_ops_per_sec)) }
                        td colspan="5" {}
                        td.number { (count(run.document.ops)) }
                    }
                }
            }
        }
    };
    scrolling("Latencies", &table)
}

fn latency_row(i: usize, run: &Run, name: &str, kind: &str) -> Markup {
    let Some(l) = run.document.latency_us.get(kind) else {
        return html! { tr { (run_cell(i, name)) td colspan="7" { "none" } } };
    };
    html! {
        tr {
            (run_cell(i, name))
            td.number { (rate(l.count as f64 / run.document.seconds)) }
            @for us in [l.p50, l.p90, l.p99, l.p999, l.max] { td.number { (micros(us)) } }
            td.number { (count(l.count)) }
        }
    }
}

fn floor_row(i: usize, run: &Run, name: &str) -> Markup {
    let floor = run.document.driver.floor_us;
    html! {
        tr {
            (run_cell(i, name))
            td {}
            td.number { (micros(floor.p50)) }
            td {}
            @for us in [floor.p99, floor.p999, floor.max] { td.number { (micros(us)) } }
            td {}
        }
    }
}

/// What the runs cost: one row a figure, one column a run.
pub fn costs(report: &Report) -> Markup {
    type Get = fn(&Document) -> String;
    let rows: [(&str, Get); 14] = [
        ("measured for", |d| seconds(d.seconds)),
        ("filled beforehand in", |d| d.load.map_or_else(|| "not filled".to_owned(), |l| seconds(l.seconds))),
        ("idle again after", |d| known(d.idle_seconds, seconds)),
        ("write amplification", |d| known(d.amplification.write, times)),
        ("read amplification", |d| known(d.amplification.read, times)),
        ("space amplification", |d| known(d.amplification.space, times)),
        ("on disk", |d| bytes(d.disk_bytes)),
        ("compactions", |d| known(d.compaction.count, count)),
        ("compactions wrote", |d| known(d.compaction.bytes_written, bytes)),
        ("writers waited", stalled),
        ("CPU", |d| known(d.cpu_seconds, seconds)),
        ("CPU of others", |d| known(d.others_cores, cores)),
        ("machine stood still", |d| {
            known(d.steady.as_ref(), |s| {
                format!("in {} of {} seconds", count(s.halted_seconds), count(s.seconds))
            })
        }),
        ("peak memory", |d| known(d.peak_rss_bytes, bytes)),
    ];
    let names = report.names();
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "figure" }
                @for (i, name) in names.iter().enumerate() {
                    th.number scope="col" { (run_name(i, name)) }
                }
            } }
            tbody {
                @for (name, get) in &rows {
                    tr {
                        th.figure scope="row" { (name) }
                        @for run in &report.runs { td.number { (get(&run.document)) } }
                    }
                }
            }
        }
    };
    scrolling("Costs", &table)
}

/// Bars and whether they were met; nothing where there are none.
pub fn verdicts(report: &Report) -> Markup {
    let met = |holds: Option<bool>| match holds {
        Some(true) => ("met", "✓ met"),
        Some(false) => ("missed", "✗ missed"),
        None => ("", "– not known"),
    };
    let table = html! {
        table {
            thead { tr { @for name in ["what", "found", "wanted", "verdict"] { th scope="col" { (name) } } } }
            tbody {
                @for v in &report.verdicts {
                    @let (class, words) = met(v.holds);
                    tr { th scope="row" { (v.what) } td { (v.found) } td { (v.bar) } td class=(class) { (words) } }
                }
            }
        }
    };
    html! {
        @if !report.verdicts.is_empty() {
            section { h2 { "Verdicts" } (scrolling("Verdicts", &table)) }
        }
    }
}

/// Version, settings and command of each run.
pub fn settings(report: &Report) -> Markup {
    html! {
        @for (i, (run, name)) in report.runs.iter().zip(report.names()).enumerate() {
            div.settings {
                h3 { (run_name(i, &name)) }
                dl {
                    dt { "version" }
                    dd { (run.engine) " " (run.document.version) }
                    @for (name, value) in &run.document.config.engine {
                        dt { (name) }
                        dd { (plain(value)) }
                    }
                    @if let Some(provenance) = &run.document.provenance {
                        dt { "command" }
                        dd { code { (provenance.command) } }
                    }
                }
            }
        }
    }
}

/// A setting as people write it: `a=1, b=2` for an object, text without quotes.
fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => UNKNOWN.to_owned(),
        serde_json::Value::Object(fields) if fields.is_empty() => "nothing".to_owned(),
        serde_json::Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={}", plain(value)))
            .collect::<Vec<_>>()
            .join(", "),
        serde_json::Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
