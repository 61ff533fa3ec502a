//! The figures of a report as tables for other programs: commas, a line of names first, units in the names.
//!
//! A figure that nobody knows is an empty field. Numbers are written in full, not rounded for people.

use crate::results::comparison;
use crate::results::document::Document;

use super::numbers::finite;
use super::{Report, Run};

/// The tables' names.
pub const NAMES: [&str; 5] =
    ["summary.csv", "windows.csv", "percentiles.csv", "verdicts.csv", "comparison.csv"];

/// Name and text of each table.
pub fn files(report: &Report) -> impl Iterator<Item = (&'static str, String)> {
    let runs: Vec<[String; 2]> =
        report.runs.iter().map(|run| [run.engine.clone(), run.settings.clone()]).collect();
    let each = || runs.iter().zip(&report.runs);
    let mut summary = Table::new(SUMMARY);
    let mut windows = Table::new(WINDOWS);
    let mut percentiles = Table::new("engine settings operation quantile latency_us");
    for (name, run) in each() {
        summary.row(name.iter().cloned().chain(summary_row(run)));
        for row in window_rows(&run.document) {
            windows.row(name.iter().cloned().chain(row));
        }
        for row in percentile_rows(&run.document) {
            percentiles.row(name.iter().cloned().chain(row));
        }
    }
    let mut verdicts = Table::new("what found bar holds");
    for v in &report.verdicts {
        let holds = v.holds.map_or_else(String::new, |holds| holds.to_string());
        verdicts.row([v.what.clone(), v.found.clone(), v.bar.clone(), holds].into_iter());
    }
    let mut compared = Table::new("settings figure unit engine median least most runs ratio verdict");
    for group in &report.compared {
        for figure in &group.figures {
            for (engine, cell) in group.engines.iter().zip(&figure.cells) {
                let named = [
                    group.settings.clone(),
                    figure.name.clone(),
                    figure.unit.name().to_owned(),
                    engine.clone(),
                ];
                let numbers = [
                    maybe(cell.median),
                    maybe(cell.min),
                    maybe(cell.max),
                    cell.runs.to_string(),
                    maybe(cell.ratio),
                ];
                let verdict = cell.verdict.map_or("", comparison::Verdict::word).to_owned();
                compared.row(named.into_iter().chain(numbers).chain([verdict]));
            }
        }
    }
    let texts = [summary.text, windows.text, percentiles.text, verdicts.text, compared.text];
    NAMES.into_iter().zip(texts)
}

const SUMMARY: &str = "engine settings workload version records ops seconds throughput_ops_per_sec \
    write_amplification read_amplification space_amplification disk_bytes compactions stalls stall_seconds \
    cpu_seconds others_cores peak_rss_bytes idle_seconds wrong_reads \
    halted_seconds left_out_seconds steady_p50_us steady_p99_us steady_p999_us steady_max_us steady_worst_second_p99_us";

const WINDOWS: &str = "engine settings second offered achieved queue p99_us max_us client_bytes flush_bytes \
    l0_bytes deep_bytes l0_runs level0_bytes level1_bytes level2_bytes deeper_bytes internal_limit internal_bytes client_read_bytes client_estimate flushes_delayed stall_seconds jobs_open memtables_full debt_bytes others_cores \
    stolen_seconds";

fn summary_row(run: &Run) -> Vec<String> {
    let d = &run.document;
    let steady = d.steady.as_ref();
    vec![
        d.workload.clone(),
        d.version.clone(),
        d.records.to_string(),
        d.ops.to_string(),
        number(d.seconds),
        number(d.throughput_ops_per_sec),
        maybe(d.amplification.write),
        maybe(d.amplification.read),
        maybe(d.amplification.space),
        d.disk_bytes.to_string(),
        whole(d.compaction.count),
        whole(d.stalls.count),
        maybe(d.stalls.seconds),
        maybe(d.cpu_seconds),
        maybe(d.others_cores),
        whole(d.peak_rss_bytes),
        maybe(d.idle_seconds),
        d.wrong_reads.to_string(),
        whole(steady.map(|s| s.halted_seconds)),
        whole(steady.map(|s| s.left_out_seconds)),
        maybe(steady.and_then(|s| s.p50_us)),
        maybe(steady.and_then(|s| s.p99_us)),
        maybe(steady.and_then(|s| s.p999_us)),
        maybe(steady.and_then(|s| s.max_us)),
        maybe(steady.and_then(|s| s.worst_second_p99_us)),
    ]
}

fn window_rows(doc: &Document) -> impl Iterator<Item = Vec<String>> {
    doc.windows.iter().map(|w| {
        let level = |i: usize| whole(w.level_bytes.and_then(|levels| levels.get(i).copied()));
        vec![
            w.second.to_string(),
            maybe(w.offered),
            number(w.achieved),
            whole(w.queue),
            maybe(w.p99_us),
            maybe(w.max_us),
            w.client_bytes.to_string(),
            whole(w.flush_bytes),
            whole(w.l0_bytes),
            whole(w.deep_bytes),
            whole(w.l0_runs),
            level(0),
            level(1),
            level(2),
            level(3),
            maybe(w.internal_limit),
            whole(w.internal_bytes),
            whole(w.client_read_bytes),
            maybe(w.client_estimate),
            whole(w.flushes_delayed),
            maybe(w.stall_seconds),
            whole(w.jobs_open),
            whole(w.memtables_full),
            whole(w.debt_bytes),
            maybe(w.others_cores),
            maybe(w.stolen_seconds),
        ]
    })
}

fn percentile_rows(doc: &Document) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (kind, l) in &doc.latency_us {
        let named = [(0.5, l.p50), (0.9, l.p90), (0.99, l.p99), (0.999, l.p999), (1.0, l.max)];
        let points = if l.curve.is_empty() { named.to_vec() } else { l.curve.clone() };
        rows.extend(points.iter().map(|(quantile, us)| vec![kind.clone(), number(*quantile), number(*us)]));
    }
    rows
}

fn number(x: f64) -> String {
    finite(x).map_or_else(String::new, |x| x.to_string())
}

fn maybe(x: Option<f64>) -> String {
    x.map_or_else(String::new, number)
}

fn whole(x: Option<u64>) -> String {
    x.map_or_else(String::new, |x| x.to_string())
}

struct Table {
    columns: usize,
    text: String,
}

impl Table {
    /// A table with these names, given with blanks between them.
    fn new(names: &str) -> Table {
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let mut table = Table { columns: names.len(), text: String::new() };
        table.row(names.into_iter());
        table
    }

    fn row(&mut self, fields: impl Iterator<Item = String>) {
        let fields: Vec<String> = fields.collect();
        debug_assert_eq!(fields.len(), self.columns, "a row has a field for each name");
        self.text.push_str(&csv_row(fields));
    }
}

/// A line of a table.
pub fn csv_row(fields: impl IntoIterator<Item = String>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|field| quoted(&field)).collect();
    fields.join(",") + "\n"
}

/// A field as RFC 4180 has it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::comparison::{self, Better, Cell, Figure, Unit};
    use crate::results::report::{Compared, Verdict, sample};

    #[test]
    fn tables_have_what_is_known() {
        let mut doc = sample::document("a, \"b\"", 2);
        (doc.cpu_seconds, doc.windows[1].flush_bytes, doc.windows[0].offered) = (None, None, None);
        doc.throughput_ops_per_sec = f64::NAN;
        let mut report = Report::new(vec![Run::new("x=1", doc)]);
        let verdict = |holds| Verdict { what: "w".into(), found: "f".into(), bar: "b".into(), holds };
        report.verdicts = vec![verdict(Some(true)), verdict(None)];
        let cell = Cell {
            median: Some(2.0),
            min: Some(1.0),
            max: Some(3.0),
            runs: 3,
            ratio: Some(0.5),
            verdict: None,
        };
        let figure = Figure {
            name: "worst s p99".into(),
            unit: Unit::Micros,
            better: Some(Better::Lower),
            tail: true,
            steady: false,
            cells: vec![cell, Cell { verdict: Some(comparison::Verdict::TooFew), ratio: None, ..cell }],
        };
        report.compared = vec![Compared {
            settings: "equal".into(),
            engines: vec!["one".into(), "two".into()],
            baseline: Some(1),
            figures: vec![figure],
        }];
        let texts: Vec<String> = files(&report).map(|(_, text)| text).collect();
        let [summary, windows, percentiles, verdicts, compared] = &texts[..] else { panic!("{texts:?}") };
        let head = "engine,settings,workload,version,records,ops,seconds,throughput_ops_per_sec,write_amplification,";
        assert!(summary.starts_with(head), "{summary}");
        let row = "\"a, \"\"b\"\"\",x=1,ycsb-a,1.2.3,100000,200000,2,,5.25,2,1.1,115343360,12,2,0.02,,0.05,209715200,0.25,0,1,1,5,34,550,700,35\n";
        assert_eq!(summary.lines().nth(1).unwrap().to_owned() + "\n", row);
        let rows: Vec<&str> = windows.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(
            rows[1].ends_with(
                ",x=1,0,,19000,3,35,5000,20971520,10485760,8388608,31457280,0,0,16777216,104857600,0,100000000,73400320,31457280,31000000,0,0,2,1,0,0.01,0"
            ),
            "{windows}"
        );
        assert!(
            rows[2].ends_with(
                ",x=1,1,20000,19500,3,36,5000,20971520,,8388608,31457280,1,4194304,16777216,105906176,0,100000000,73400320,31457280,31000000,0,0,2,1,1048576,0.01,0.1"
            ),
            "{windows}"
        );
        assert_eq!(percentiles.lines().count(), 1 + 2 * 4);
        assert!(percentiles.ends_with(",x=1,update,0.99999,3600\n"), "{percentiles}");
        assert_eq!(verdicts, "what,found,bar,holds\nw,f,b,true\nw,f,b,\n");
        let rows: Vec<&str> = compared.lines().skip(1).collect();
        assert_eq!(rows, ["equal,worst s p99,us,one,2,1,3,3,0.5,", "equal,worst s p99,us,two,2,1,3,3,,few"]);
    }
}
