//! The result of a run for people at a terminal: one screen, the important first.
//!
//! ```text
//! ycsb-a on evenkeel 0.1.0: 100 000 records of 16 + 1000 bytes, 1 thread, zipfian
//!   operation        ops     ops/s      p50      p90 …
//!   throughput  ▆▇▇▇▅▇▇▇▇█   128 k … 143 k a second
//! ```

use std::fmt::Write as _;

use crate::distribution::Distribution;
use crate::document::{Document, Latency};
use crate::report::numbers::{UNKNOWN, bytes, cores, count, known, micros, rate, seconds};

/// At most this many columns of a sparkline.
const SPARK_COLUMNS: usize = 54;
/// A line is no longer.
const COLUMNS_MAX: usize = 100;
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The document as text.
pub fn text(doc: &Document) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut out, doc);
    let _ = table(&mut out, doc);
    let _ = timeline(&mut out, doc);
    let _ = figures(&mut out, doc);
    out
}

fn head(out: &mut String, doc: &Document) -> std::fmt::Result {
    let head = format!("{} on {} {}: {}", doc.workload, doc.engine, doc.version, asked(doc).join(", "));
    writeln!(out)?;
    for line in wrapped(&head, COLUMNS_MAX) {
        writeln!(out, "{line}")?;
    }
    if let Some(load) = &doc.load {
        writeln!(
            out,
            "loaded in {} ({}/s), idle after another {}",
            seconds(load.seconds),
            rate(load.throughput_ops_per_sec),
            seconds(load.idle_seconds)
        )?;
    }
    Ok(())
}

/// What the run was asked for, in a few words each.
pub fn asked(doc: &Document) -> [String; 4] {
    let c = &doc.config;
    let shape = Distribution::ALL.iter().find(|(_, d)| *d == c.distribution).map_or("", |(name, _)| *name);
    [
        format!("{} records of {} + {} bytes", count(doc.records), c.key_bytes, c.value_bytes),
        if c.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", c.threads) },
        shape.to_owned(),
        format!("seed {}", doc.seed),
    ]
}

/// Lines of at most so many characters, broken at blanks where there are any.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split(' ') {
        let word: Vec<char> = word.chars().collect();
        for (i, piece) in word.chunks(columns).enumerate() {
            if length > 0 && (i > 0 || length + 1 + piece.len() > columns) {
                lines.push(String::new());
                length = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(if length > 0 { " " } else { "" });
                line.extend(piece);
                length += piece.len() + usize::from(length > 0);
            }
        }
    }
    lines
}

fn table(out: &mut String, doc: &Document) -> std::fmt::Result {
    writeln!(
        out,
        "\n  {:<10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "operation", "ops", "ops/s", "p50", "p90", "p99", "p99.9", "max"
    )?;
    for (name, l) in &doc.latency_us {
        let Latency { count: n, p50, p90, p99, p999, max, .. } = *l;
        write!(out, "  {name:<10}{:>12}{:>10}", count(n), rate(n as f64 / doc.seconds))?;
        for us in [p50, p90, p99, p999, max] {
            write!(out, "{:>10}", micros(us))?;
        }
        out.push('\n');
    }
    if doc.latency_us.len() > 1 {
        writeln!(out, "  {:<10}{:>12}{:>10}", "all", count(doc.ops), rate(doc.throughput_ops_per_sec))?;
    }
    Ok(())
}

fn timeline(out: &mut String, doc: &Document) -> std::fmt::Result {
    // A last second that is only begun says little; it stays in the document.
    let whole = doc.windows.iter().filter(|w| (w.second + 1) as f64 <= doc.seconds + 0.5);
    let (achieved, p99): (Vec<f64>, Vec<f64>) = whole.map(|w| (w.achieved, w.p99_us)).unzip();
    if achieved.len() < 2 {
        return Ok(());
    }
    writeln!(out)?;
    let (low, high) = extremes(&achieved);
    writeln!(out, "  ops/s  {}  {} to {}, second by second", sparkline(&achieved), rate(low), rate(high))?;
    let (low, high) = extremes(&p99);
    writeln!(out, "  p99    {}  {} to {}", sparkline(&p99), micros(low), micros(high))
}

fn figures(out: &mut String, doc: &Document) -> std::fmt::Result {
    let times = |x: Option<f64>| known(x, |x| format!("{x:.2}"));
    let rows = [
        ("measured", format!("{} ops in {}", count(doc.ops), seconds(doc.seconds))),
        ("time to idle", seconds(doc.idle_seconds)),
        ("write amplification", times(doc.amplification.write)),
        ("space amplification", times(doc.amplification.space)),
        ("on disk", bytes(doc.disk_bytes)),
        ("compactions", known(doc.compaction.count, count)),
        ("writers stalled", stalled(doc)),
        ("peak memory", known(doc.peak_rss_bytes, bytes)),
        ("CPU", known(doc.cpu_seconds, seconds)),
        ("CPU of others", known(doc.others_cores, cores)),
    ];
    writeln!(out)?;
    for pair in rows.chunks(2) {
        let mut line = String::new();
        for (name, value) in pair {
            write!(line, "  {name:<20} {value:<26}")?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    if doc.wrong_reads > 0 {
        writeln!(
            out,
            "\n  WRONG: {} reads did not find what is there, or found what is not",
            count(doc.wrong_reads)
        )?;
    }
    Ok(())
}

/// How often and how long writers waited.
pub fn stalled(doc: &Document) -> String {
    match (doc.stalls.count, doc.stalls.seconds) {
        (Some(n), Some(s)) => format!("{} times, {}", count(n), seconds(s)),
        (Some(n), None) => format!("{} times", count(n)),
        _ => UNKNOWN.to_owned(),
    }
}

/// One character a value, lowest to highest on a scale that starts at 0; longer series are averaged in pieces.
pub fn sparkline(values: &[f64]) -> String {
    let columns = values.len().min(SPARK_COLUMNS);
    let mean = |column: usize| {
        let (from, to) = (column * values.len() / columns, (column + 1) * values.len() / columns);
        values[from..to].iter().sum::<f64>() / (to - from) as f64
    };
    let means: Vec<f64> = (0..columns).map(mean).collect();
    let (_, high) = extremes(&means);
    let spark = |x: &f64| if high > 0.0 { SPARKS[((x / high * 8.0) as usize).min(7)] } else { SPARKS[0] };
    means.iter().map(spark).collect()
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), &x| (x.min(low), x.max(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_start_at_zero_and_fit_the_line() {
        assert_eq!(sparkline(&[0.0, 4.0, 8.0]), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&vec![1.0; 1000]).chars().count(), SPARK_COLUMNS);
    }
}
