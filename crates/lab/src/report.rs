//! The result of a run for people at a terminal: one screen, the important first.
//!
//! ```text
//! ycsb-a on evenkeel 0.1.0: 100 000 records of 16 + 1000 bytes, 1 thread, zipfian
//!   operation        ops     ops/s      p50      p90 …
//!   throughput  ▆▇▇▇▅▇▇▇▇█   128 k … 143 k a second
//! ```

use std::fmt::Write as _;

use crate::document::{Document, Latency};

/// At most this many columns of a sparkline.
const SPARK_COLUMNS: usize = 60;
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
    let c = &doc.config;
    let threads = if c.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", c.threads) };
    let shape = c.distribution.name();
    writeln!(
        out,
        "\n{} on {} {}: {} records of {} + {} bytes, {threads}, {shape}, seed {}",
        doc.workload,
        doc.engine,
        doc.version,
        count(doc.records),
        c.key_bytes,
        c.value_sizes,
        doc.seed
    )?;
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
    let unknown = || "unknown".to_owned();
    let times = |x: Option<f64>| x.map_or_else(unknown, |x| format!("{x:.2}"));
    let rows = [
        ("measured", format!("{} ops in {}", count(doc.ops), seconds(doc.seconds))),
        ("time to idle", seconds(doc.idle_seconds)),
        ("write amplification", times(doc.amplification.write)),
        ("space amplification", times(doc.amplification.space)),
        ("on disk", bytes(doc.disk_bytes)),
        ("compactions", doc.compaction.count.map_or_else(unknown, count)),
        (
            "writers stalled",
            match (doc.stalls.count, doc.stalls.seconds) {
                (Some(n), Some(s)) => format!("{} times, {}", count(n), seconds(s)),
                (Some(n), None) => format!("{} times", count(n)),
                _ => unknown(),
            },
        ),
        ("peak memory", doc.peak_rss_bytes.map_or_else(unknown, bytes)),
        ("CPU", doc.cpu_seconds.map_or_else(unknown, seconds)),
        ("CPU of others", doc.others_cores.map_or_else(unknown, |cores| format!("{cores:.2} cores"))),
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

/// A whole number with its thousands apart.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A rate in three digits or so.
pub fn rate(x: f64) -> String {
    match x {
        x if x >= 9_999_500.0 => format!("{:.1} M", x / 1e6),
        x if x >= 999_500.0 => format!("{:.2} M", x / 1e6),
        x if x >= 9_995.0 => format!("{:.0} k", x / 1e3),
        x if x >= 999.5 => format!("{:.1} k", x / 1e3),
        x => format!("{x:.0}"),
    }
}

/// Microseconds in a unit that fits.
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 9_995.0 => format!("{:.0} ms", us / 1e3),
        us if us >= 999.5 => format!("{:.1} ms", us / 1e3),
        us if us >= 99.95 => format!("{us:.0} µs"),
        us if us >= 9.995 => format!("{us:.1} µs"),
        us => format!("{us:.2} µs"),
    }
}

/// Seconds in a unit that fits.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 5e-4 => "0 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Bytes in a unit that fits.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{x:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([5.0, 999.6, 12_345.0, 1_234_567.0].map(rate), ["5", "1.0 k", "12 k", "1.23 M"]);
        assert_eq!(
            [0.5, 12.34, 999.7, 25_000.0, 2e6].map(micros),
            ["0.50 µs", "12.3 µs", "1.0 ms", "25 ms", "2.00 s"]
        );
        assert_eq!([0.0, 0.0123, 1.5].map(seconds), ["0 ms", "12 ms", "1.50 s"]);
        assert_eq!([0, 1023, 1024, 5 << 30].map(bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]);
    }

    #[test]
    fn sparklines_start_at_zero_and_fit_the_line() {
        assert_eq!(sparkline(&[0.0, 4.0, 8.0]), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&vec![1.0; 1000]).chars().count(), SPARK_COLUMNS);
    }
}
