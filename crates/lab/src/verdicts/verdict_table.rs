//! Verdicts for people at a terminal: at most 100 columns.
//!
//! ```text
//! peers-fill, equal                  wanted    found         spread   evenkeel    rocksdb  verdict
//!   throughput                      ≥ 1.50x    3.57x    3.40 – 3.71      893 k      250 k  holds, goal met
//! ```

use std::fmt::Write as _;

use crate::results::comparison_table::{quantity, times};
use crate::results::settings::OURS;
use crate::verdicts::judging::Verdict;

pub use crate::results::comparison_table::COLUMNS;

/// The verdicts as text.
pub fn text(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let alike = |a: &Verdict, b: &Verdict| a.experiment == b.experiment && a.settings == b.settings;
    for group in verdicts.chunk_by(alike) {
        let _ = table(&mut out, group);
    }
    if verdicts.iter().any(|v| v.quick) {
        let why =
            "Only a part of the data and time was run: this shows that it works, and is not to be quoted.";
        let _ = writeln!(out, "\n{why}");
    }
    out
}

/// The verdicts of an experiment under one of the settings. What holds for all of them is said once.
fn table(out: &mut String, group: &[Verdict]) -> std::fmt::Result {
    let Some(first) = group.first() else { return Ok(()) };
    let title = format!("{}, {}", first.experiment, first.settings);
    // Where each row has another, its remark names it.
    let alike = group.iter().all(|v| v.baseline == first.baseline) && first.baseline.len() <= 9;
    let baseline = if alike { &first.baseline } else { "best peer" };
    writeln!(
        out,
        "\n{title:<29} {:>9} {:>8} {:>13} {:>9} {:>9}  verdict",
        "wanted", "found", "spread", OURS, baseline
    )?;
    let shared = remark(first).is_some() && group.iter().all(|v| remark(v) == remark(first));
    for v in group {
        row(out, v)?;
        if !shared {
            say(out, remark(v))?;
        }
    }
    say(out, remark(first).filter(|_| shared))
}

/// What to know of a verdict.
fn remark(v: &Verdict) -> Option<&String> {
    v.why_not_valid.as_ref().or(v.note.as_ref())
}

fn say(out: &mut String, remark: Option<&String>) -> std::fmt::Result {
    for line in remark.into_iter().flat_map(|why| lines(why)) {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

fn row(out: &mut String, v: &Verdict) -> std::fmt::Result {
    let figure = |name: &str| {
        let median = v.engines.iter().find(|e| e.engine == name).and_then(|e| e.median);
        median.map_or_else(|| "–".to_owned(), |x| quantity(x, v.unit))
    };
    writeln!(
        out,
        "  {:<27} {:>9} {:>8} {:>13} {:>9} {:>9}  {}",
        short(v),
        v.expected.bar.text(v.unit),
        found(v),
        spread(v),
        figure(OURS),
        figure(&v.baseline),
        word(v)
    )
}

/// A reason broken between words, to be put four columns in.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let long = |line: &String| line.chars().count() + 1 + word.chars().count() > COLUMNS - 4;
        if lines.last().is_some_and(|line| !line.is_empty() && long(line)) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// The claim without what the head of the table says.
fn short(v: &Verdict) -> &str {
    let of = v.id.strip_prefix(&v.experiment).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&v.id);
    of.strip_suffix(&v.settings).and_then(|rest| rest.strip_suffix('.')).unwrap_or(of)
}

/// What was found, in the bar's terms.
pub fn found(v: &Verdict) -> String {
    v.measured.map_or_else(|| "–".to_owned(), |x| in_terms(v, x))
}

/// From the least to the most that the runs could say.
pub fn spread(v: &Verdict) -> String {
    let Some((least, most)) = v.spread.filter(|_| v.runs > 1) else { return "–".to_owned() };
    if v.expected.bar.is_ratio() {
        let short = |x: f64| times(x).trim_end_matches('x').to_owned();
        return format!("{} – {}", short(least), short(most));
    }
    format!("{} – {}", quantity(least, v.unit), quantity(most, v.unit))
}

fn in_terms(v: &Verdict, x: f64) -> String {
    if v.expected.bar.is_ratio() { times(x) } else { quantity(x, v.unit) }
}

/// The verdict in words.
pub fn word(v: &Verdict) -> &'static str {
    match (v.holds, v.goal_met, v.clear) {
        (None, ..) => "not valid",
        (Some(true), Some(true), _) => "holds, goal met",
        (Some(true), _, Some(true)) => "holds",
        (Some(true), ..) => "holds, narrowly",
        (Some(false), _, Some(true)) => "does not hold",
        (Some(false), ..) => "fails narrowly",
    }
}
