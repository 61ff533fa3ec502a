//! A comparison for people at a terminal: at most 100 columns, three engines side by side, the next ones below.
//!
//! ```text
//!                                     rocksdb                        evenkeel
//!   throughput          250 k  ±2%                  893 k  ±1%  3.57x better
//! ```

use std::fmt::Write as _;

use crate::results::comparison::{
    Cell, Comparison, Contestant, Figure, Group, OTHERS_CORES_MAX, Unit, Verdict,
};
use crate::results::comparison::{ROUNDS_MIN, STEADY_MARK, TAIL_RATIO, TAIL_ROUNDS_MIN};
use crate::results::report::{bytes, count, micros, rate, seconds};
use crate::run::steady::LEFT_OUT_SHARE_MAX;

/// The width of the terminal that all fits.
pub const COLUMNS: usize = 100;
const NAME: usize = 15;
const CELL: usize = 28;
/// Engines side by side.
const ENGINES: usize = (COLUMNS - NAME) / CELL;

/// The comparison as text.
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut out, comparison);
    for group in &comparison.groups {
        let _ = table(&mut out, group);
        let _ = notes(&mut out, group);
        let _ = settings(&mut out, group);
    }
    out
}

fn head(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let c = &comparison.config;
    let threads = if c.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", c.threads) };
    let shape = c.distribution.name();
    let documents = comparison.groups.iter().flat_map(|g| &g.contestants).flat_map(|c| &c.runs);
    let records = documents.map(|document| document.records).min().unwrap_or(0);
    writeln!(out)?;
    let line = format!(
        "{}: {} records of {} + {} bytes, {threads}, {shape}, seed {}, {}, {} rounds",
        comparison.workload,
        count(records),
        c.key_bytes,
        c.value_lengths(),
        comparison.seed,
        c.device,
        comparison.rounds
    );
    wrapped(out, &line)
}

fn table(out: &mut String, group: &Group) -> std::fmt::Result {
    write!(out, "\nsettings: {}", group.settings)?;
    match group.baseline.and_then(|at| group.contestants.get(at)) {
        Some(base) => writeln!(out, "; median, spread, ratio to {}, verdict", base.engine)?,
        None => writeln!(out, "; median, spread")?,
    }
    let places: Vec<usize> = (0..group.contestants.len()).collect();
    for side_by_side in places.chunks(ENGINES) {
        let mut line = format!("{:<NAME$}", "");
        for contestant in side_by_side.iter().filter_map(|&i| group.contestants.get(i)) {
            write!(line, "{:>CELL$}", contestant.engine)?;
        }
        writeln!(out, "\n{line}")?;
        for figure in &group.figures {
            let mut line = format!("{:<NAME$}", figure.name);
            for &i in side_by_side {
                line += &cell_text(figure, i, group.baseline == Some(i));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

fn cell_text(figure: &Figure, i: usize, is_base: bool) -> String {
    let cell = figure.cells.get(i).copied().unwrap_or_default();
    let median = cell.median.map_or_else(|| "unknown".to_owned(), |x| quantity(x, figure.unit));
    let ratio = figure.shown_ratio(&cell, is_base).map_or_else(String::new, times);
    let word = cell.verdict.map_or("", Verdict::word);
    format!("{median:>10}{:>5}{ratio:>6} {word:<6}", spread(&cell))
}

/// A figure in its unit.
pub fn quantity(x: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => rate(x),
        Unit::Micros => micros(x),
        Unit::Seconds => seconds(x),
        Unit::Bytes => bytes(x as u64),
        Unit::Times if x > 0.0 && x < 0.1 => format!("{x:.4}"),
        Unit::Times | Unit::Cores => format!("{x:.2}"),
    }
}

/// Half the way from the least run to the most, in parts of the median.
pub(crate) fn spread(cell: &Cell) -> String {
    let Some(median) = cell.median.filter(|median| *median > 0.0 && cell.runs > 1) else {
        return String::new();
    };
    match (cell.spread() / 2.0 / median * 100.0).round() {
        percent if percent > 99.0 => ">99%".to_owned(),
        percent => format!("±{percent:.0}%"),
    }
}

/// A ratio, in three digits or so.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r < 9.995 => format!("{r:.2}x"),
        r if r < 99.95 => format!("{r:.1}x"),
        r if r < 9999.5 => format!("{r:.0}x"),
        _ => ">9999x".to_owned(),
    }
}

/// What the words mean, as far as they occur.
pub(crate) fn explained(figures: &[Figure]) -> Vec<String> {
    let occurs = |verdict| figures.iter().flat_map(|f| &f.cells).any(|cell| cell.verdict == Some(verdict));
    let words = [
        (Verdict::None, format!("none: a difference below the spread, or of a tail below {TAIL_RATIO:.0}x")),
        (
            Verdict::TooFew,
            format!(
                "few: a verdict needs {ROUNDS_MIN} rounds, one on p99 and beyond, worst seconds and idling {TAIL_ROUNDS_MIN}"
            ),
        ),
        (
            Verdict::Disturbed,
            format!(
                "noise: others used more than {OTHERS_CORES_MAX} cores in a run that counts, or the machine stood still for \
                 more than {:.0} % of its seconds; no verdict",
                LEFT_OUT_SHARE_MAX * 100.0
            ),
        ),
        (
            Verdict::Late,
            "late: requests of a run were not served in time, and are in no latency; no verdict".to_owned(),
        ),
        (
            Verdict::OtherLoad,
            "loads: each run had a share of the highest rate that it found itself; give a --rate in requests a second to \
             compare latencies"
                .to_owned(),
        ),
    ];
    words.into_iter().filter(|(verdict, _)| occurs(*verdict)).map(|(_, line)| line).collect()
}

/// What the words mean, and what was repeated.
fn notes(out: &mut String, group: &Group) -> std::fmt::Result {
    writeln!(out)?;
    for line in explained(&group.figures) {
        wrapped(out, &line)?;
    }
    if let Some(line) = left_out(group) {
        wrapped(out, &line)?;
    }
    for c in group.contestants.iter().filter(|c| c.repeats > 0 || c.disturbed > 0) {
        let line = format!(
            "{}: {} of {} runs disturbed, {} repeated",
            c.engine,
            c.disturbed,
            c.runs.len(),
            c.repeats
        );
        wrapped(out, &line)?;
    }
    Ok(())
}

/// What figures with a mark leave out.
fn left_out(group: &Group) -> Option<String> {
    group.figures.iter().find(|figure| figure.steady)?;
    let of = |c: &Contestant| {
        let halts = c.runs.iter().filter_map(|run| run.steady.as_ref());
        let (out, all) = halts.fold((0, 0), |(out, all), s| (out + s.left_out_seconds, all + s.seconds));
        format!("{} {} of {}", c.engine, count(out), count(all))
    };
    let each: Vec<String> = group.contestants.iter().map(of).collect();
    Some(format!(
        "{STEADY_MARK}: without seconds in which the machine stood still, and those after them, which verdicts on tails are \
         about; left out of all seconds: {}",
        each.join(", ")
    ))
}

fn settings(out: &mut String, group: &Group) -> std::fmt::Result {
    for contestant in &group.contestants {
        wrapped(out, &settings_line(contestant))?;
    }
    Ok(())
}

/// What an engine was opened with, on one line; what is set and in force is said once.
pub fn settings_line(contestant: &Contestant) -> String {
    let mut words = vec![format!("{} {}:", contestant.engine, contestant.version)];
    let mut say = |name: &str, value: &serde_json::Value| {
        let word = format!("{name}={}", plain(value));
        if !words.contains(&word) {
            words.push(word);
        }
    };
    for (name, value) in contestant.config.iter().filter(|(name, _)| *name != "settings") {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(name, value)| say(name, value)),
            value => say(name, value),
        }
    }
    words.join(" ")
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Breaks a line between words.
fn wrapped(out: &mut String, line: &str) -> std::fmt::Result {
    let mut column = 0;
    for word in line.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            write!(out, "\n  {word}")?;
            column = 2 + width;
        } else {
            let gap = if column > 0 { " " } else { "" };
            write!(out, "{gap}{word}")?;
            column += gap.len() + width;
        }
    }
    writeln!(out)
}
