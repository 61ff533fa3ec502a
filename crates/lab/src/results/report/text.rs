//! The result of a run for people at a terminal: one screen, the important first.
//!
//! ```text
//! ycsb-a on evenkeel 0.1.0: 100 000 records of 16 + 1000 bytes, 1 thread, zipfian
//!   operation        ops     ops/s      p50      p90 …
//!   throughput  ▆▇▇▇▅▇▇▇▇█   128 k … 143 k a second
//! ```

use std::fmt::Write as _;

use crate::results::document::{Document, Latency};
use crate::results::report::numbers::{UNKNOWN, bytes, count, finite, known, micros, rate, seconds};

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
    let _ = halts(&mut out, doc);
    let _ = open_loop(&mut out, doc);
    let _ = replayed(&mut out, doc);
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
pub fn asked(doc: &Document) -> [String; 5] {
    let c = &doc.config;
    [
        format!("{} records of {} + {} bytes", count(doc.records), c.key_bytes, c.value_lengths()),
        if c.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", c.threads) },
        if doc.replay.is_some() { "as recorded" } else { c.distribution.name() }.to_owned(),
        format!("seed {}", doc.seed),
        c.device.clone(),
    ]
}

/// Lines of at most so many characters, broken at blanks where there are any.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
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
        "\n  {:<12}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "operation", "ops", "ops/s", "p50", "p90", "p99", "p99.9", "max"
    )?;
    for (name, l) in &doc.latency_us {
        let Latency { count: n, p50, p90, p99, p999, max, .. } = *l;
        write!(out, "  {name:<12}{:>12}{:>10}", count(n), rate(n as f64 / doc.seconds))?;
        for us in [p50, p90, p99, p999, max] {
            write!(out, "{:>10}", micros(us))?;
        }
        out.push('\n');
    }
    if doc.latency_us.len() > 1 {
        writeln!(out, "  {:<12}{:>12}{:>10}", "all", count(doc.ops), rate(doc.throughput_ops_per_sec))?;
    }
    Ok(())
}

fn timeline(out: &mut String, doc: &Document) -> std::fmt::Result {
    // A last second that is only begun says little; it stays in the document.
    let whole = doc.windows.iter().filter(|w| (w.second + 1) as f64 <= doc.seconds + 0.5);
    let (achieved, p99): (Vec<f64>, Vec<Option<f64>>) = whole.map(|w| (w.achieved, w.p99_us)).unzip();
    // A second in which nothing ended has no latency.
    let p99: Vec<f64> = p99.into_iter().flatten().collect();
    if achieved.len() < 2 {
        return Ok(());
    }
    writeln!(out)?;
    let (low, high) = extremes(&achieved);
    writeln!(out, "  ops/s  {}  {} to {}, second by second", sparkline(&achieved), rate(low), rate(high))?;
    let (low, high) = extremes(&p99);
    writeln!(out, "  p99    {}  {} to {}", sparkline(&p99), micros(low), micros(high))
}

/// That the machine stood still, if it did, and the tails without that.
fn halts(out: &mut String, doc: &Document) -> std::fmt::Result {
    let Some(sentence) = stood_still(doc) else { return Ok(()) };
    writeln!(out)?;
    for line in wrapped(&format!("the {sentence}"), COLUMNS_MAX - 2) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// In how many seconds the machine stood still, and the tails without those; `None` if it did in none, or nobody knows.
pub fn stood_still(doc: &Document) -> Option<String> {
    let s = doc.steady.as_ref().filter(|steady| steady.halted_seconds > 0)?;
    let us = |x: Option<f64>| known(x.and_then(finite), micros);
    Some(format!(
        "machine stood still in {} of {} seconds; without those and the ones after them p99 {}, p99.9 {}, max {}",
        count(s.halted_seconds),
        count(s.seconds),
        us(s.p99_us),
        us(s.p999_us),
        us(s.max_us)
    ))
}

/// How requests came and waited, and whether the store kept up.
fn open_loop(out: &mut String, doc: &Document) -> std::fmt::Result {
    if let Some(found) = &doc.max_rate {
        let limit = found.p99_limit_us.map_or(String::new(), |us| format!(" with p99 within {}", micros(us)));
        writeln!(
            out,
            "\n  highest rate  {}/s{limit}, found by {} probes of {} in {}",
            rate(found.ops_per_sec),
            found.probes.len(),
            seconds(found.probe_seconds),
            seconds(found.spent_seconds)
        )?;
    }
    let Some(open) = &doc.open_loop else { return Ok(()) };
    writeln!(
        out,
        "\n  offered {} requests in {}, {}: {:.2} % of them ended in these seconds; {}",
        count(open.requests),
        seconds(open.seconds),
        open.shape,
        open.completed_share * 100.0,
        if open.held { "the rate held" } else { "the rate did NOT hold" }
    )?;
    writeln!(
        out,
        "  queue at most {} at a second's end, {} when the last had come; threads woke late by {} (p50), {} (p99){}",
        count(open.queue_max),
        count(open.queue_at_end),
        micros(open.wake_up_us.p50),
        micros(open.wake_up_us.p99),
        open.waiting_cpu_seconds.map_or_else(String::new, |cpu| format!(
            ",\n  and used {} of CPU to wait for requests",
            seconds(cpu)
        ))
    )?;
    if open.unfinished > 0 {
        writeln!(
            out,
            "  UNFINISHED: {} requests were never served; they are in no latency",
            count(open.unfinished)
        )?;
    }
    Ok(())
}

/// What was replayed, and how well its times were held.
fn replayed(out: &mut String, doc: &Document) -> std::fmt::Result {
    let Some(replay) = &doc.replay else { return Ok(()) };
    let keys = if replay.hashed { "hashed keys" } else { "plain keys" };
    let operations = count(replay.operations);
    match replay.speed {
        None => writeln!(out, "\n  trace of {operations} operations with {keys}, as fast as possible")?,
        Some(speed) => writeln!(
            out,
            "  trace of {operations} operations with {keys}, at {speed} times their speed; {:.1} % began within 1 ms of \
             their time,\n  late by {} (p50), {} (p99), {} at most",
            replay.on_time_share * 100.0,
            micros(replay.late_us.p50),
            micros(replay.late_us.p99),
            micros(replay.late_max_us)
        )?,
    }
    match replay.missed {
        Some(0) => Ok(()),
        Some(missed) => writeln!(out, "  MISSED: {} operations are not in the trace", count(missed)),
        None => writeln!(out, "  CUT: the trace has no end; what followed was never written"),
    }
}

/// What the lab itself costs.
fn driver(doc: &Document) -> String {
    format!("{:.0} ns an op", doc.driver.ns_per_op)
}

/// What an engine that does nothing would have shown.
fn floor(doc: &Document) -> String {
    let floor = doc.driver.floor_us;
    [floor.p99, floor.p999, floor.max].map(micros).join(", ")
}

fn figures(out: &mut String, doc: &Document) -> std::fmt::Result {
    let times = |x: Option<f64>| known(x, |x| format!("{x:.2}"));
    let rows = [
        ("measured", format!("{} ops in {}", count(doc.ops), seconds(doc.seconds))),
        ("time to idle", known(doc.idle_seconds, seconds)),
        ("write amplification", times(doc.amplification.write)),
        ("space amplification", times(doc.amplification.space)),
        ("on disk", bytes(doc.disk_bytes)),
        ("compactions", known(doc.compaction.count, count)),
        ("writers stalled", stalled(doc)),
        ("peak memory", known(doc.peak_rss_bytes, bytes)),
        ("CPU", known(doc.cpu_seconds, seconds)),
        ("CPU of others", others(doc).unwrap_or_else(|| UNKNOWN.to_owned())),
        ("the lab itself", driver(doc)),
        ("floor p99, 99.9, max", floor(doc)),
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

/// Cores that others used, and the worst second.
fn others(doc: &Document) -> Option<String> {
    let worst = doc.windows.iter().filter_map(|window| window.others_cores).reduce(f64::max);
    let mean = doc.others_cores?;
    let cores = format!("{mean:.2} cores");
    // The mean counts the time until the store is at rest, too, which no second tells of.
    Some(worst.map_or(cores.clone(), |worst| format!("{cores}, {:.2} at most", worst.max(mean))))
}

fn times(n: u64) -> String {
    format!("{} {}", count(n), if n == 1 { "time" } else { "times" })
}

/// How often and how long writers waited.
pub fn stalled(doc: &Document) -> String {
    match (doc.stalls.count, doc.stalls.seconds) {
        (Some(n), Some(s)) => format!("{}, {}", times(n), seconds(s)),
        (Some(n), None) => times(n),
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
