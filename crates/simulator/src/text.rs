//! What came of simulations, as lines for people.

use std::fmt::Write as _;

use evenkeel::Options;
use evenkeel_lab::results::report::{bytes, count};

use crate::figures::Outcome;
use crate::plot;
use crate::sweep::Point;
use crate::tape::Tape;
use crate::validation::{BARS, Comparison, Verdict};

const PLOT_WIDTH: usize = 60;
const PLOT_HEIGHT: usize = 14;
/// A strategy that is longer is cut in tables.
const NAME_CHARS: usize = 34;

/// What all simulations of a tape have in common, in three lines.
pub fn about(tape: &Tape, options: &Options) -> String {
    format!(
        "{}: {} operations, {} written into {} memtables; figures from memtable {} on\n\
         {} keys in the sample, one that comes as often as the mean stands for {}\n\
         memtables of {}, tables of {}, a first level of {}\n",
        tape.name,
        count(tape.ops),
        bytes(tape.memtables.iter().map(|m| m.user_bytes).sum::<u64>()),
        count(tape.memtables.len() as u64),
        tape.measured_from + 1,
        count(tape.keys as u64),
        tape.weight,
        bytes(options.memtable_bytes),
        bytes(options.table_bytes),
        bytes(options.level_base_bytes),
    )
}

/// One outcome in full.
pub fn outcome(name: &str, o: &Outcome) -> String {
    let mut out = format!("{name}\n");
    for (what, text) in costs(o).into_iter().chain(work(o)).chain(shape(o)) {
        let _ = writeln!(out, "  {what:<22}{text}");
    }
    for line in o.picture.lines() {
        let _ = writeln!(out, "    {line}");
    }
    let (operations, rate) = (count(o.table_operations), count(o.operations_per_sec() as u64));
    let _ = writeln!(
        out,
        "  {:<22}{operations} table operations in {:.2} s, {rate} a second",
        "simulated", o.seconds
    );
    out
}

type Rows = Vec<(String, String)>;

fn row(what: &str, text: String) -> (String, String) {
    (what.to_owned(), text)
}

fn costs(o: &Outcome) -> Rows {
    let space = o.space_amplification;
    vec![
        row(
            "write amplification",
            format!(
                "{:.2}, with flushes {:.2}: compactions wrote {} of {} that were written",
                o.write_amplification,
                o.write_amplification_with_flushes,
                bytes(o.written_bytes),
                bytes(o.user_bytes)
            ),
        ),
        row(
            "read amplification",
            format!(
                "{:.2} pages a get, {:.1} runs a seek, nothing in memory",
                o.pages_per_get, o.runs_per_seek
            ),
        ),
        row(
            "space amplification",
            format!("{:.2} in the mean, {:.2} at the end, {:.2} at most", space.mean, space.last, space.most),
        ),
    ]
}

fn work(o: &Outcome) -> Rows {
    let moved = bytes(o.moved_bytes);
    let [p50, most] = [o.job_bytes_p50, o.job_bytes_most].map(bytes);
    let mut rows = vec![
        row("compactions", format!("{}, and {} moves of {moved} by metadata", count(o.jobs), count(o.moves))),
        row("bytes a compaction", format!("{p50} read in the median, {most} at most")),
    ];
    for level in &o.by_level {
        let [read, written] = [level.read_bytes, level.written_bytes].map(bytes);
        rows.push(row(
            &format!("  L{} to L{}", level.from, level.to),
            format!("{} of them, {read} read, {written} written", count(level.jobs)),
        ));
    }
    if o.stalls > 0 {
        rows.push(row("stalls", format!("{} times writers waited for L0", count(o.stalls))));
    }
    rows
}

fn shape(o: &Outcome) -> Rows {
    let (tables, levels) = (count(o.tables), o.levels);
    vec![
        row("runs", format!("{:.1} in the mean, {:.0} at most", o.runs.mean, o.runs.most)),
        row("  over time", plot::line(&o.runs_over_time, PLOT_WIDTH)),
        row("at the end", format!("{} in {tables} tables on {levels} levels", bytes(o.table_bytes))),
    ]
}

/// Several outcomes as a table.
pub fn table<'o>(outcomes: impl IntoIterator<Item = (&'o str, &'o Outcome)>) -> String {
    let mut out = format!(
        "{:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>9}  {}\n",
        "write", "read", "space", "runs", "jobs", "moves", "largest", "strategy"
    );
    for (name, o) in outcomes {
        let largest = bytes(o.job_bytes_most);
        let _ = writeln!(
            out,
            "{:>7.2} {:>7.2} {:>7.2} {:>7.1} {:>7} {:>8} {largest:>9}  {name}",
            o.write_amplification,
            o.pages_per_get,
            o.space_amplification.mean,
            o.runs.mean,
            count(o.jobs),
            count(o.moves),
        );
    }
    out
}

/// A sweep: its Pareto front as a table, cheapest writes first, and two plots.
pub fn sweep(points: &[Point]) -> String {
    let dots = |at: usize| -> Vec<plot::Dot> {
        points.iter().map(|p| (p.costs()[0], p.costs()[at], p.on_front)).collect()
    };
    let mut front: Vec<&Point> = points.iter().filter(|p| p.on_front).collect();
    front.sort_by(|a, b| a.costs()[0].total_cmp(&b.costs()[0]));
    let mut out = String::new();
    for (at, name) in [(1, "read: pages a get"), (2, "space: superseded bytes per other byte")] {
        out += &plot::field(&dots(at), "write amplification", name, PLOT_WIDTH, PLOT_HEIGHT);
        out.push('\n');
    }
    let _ = writeln!(out, "Nothing beats these {} of {} (● above):", front.len(), points.len());
    out += &table(front.iter().map(|p| (p.name.as_str(), &p.outcome)));
    out
}

/// Comparisons with a real store, and what they come to.
pub fn validation(comparisons: &[Comparison], verdicts: &[Verdict]) -> String {
    let mut out = format!(
        "{:<22} {:>7} {:>7} {:>8} {:>7} {:>7} {:>6} {:>6}  {}\n",
        "mix", "write", "sim", "error", "space", "sim", "jobs", "sim", "strategy"
    );
    for c in comparisons {
        let error = c.error().map_or_else(|| "-".to_owned(), |e| format!("{:+.1} %", e * 100.0));
        let (real, sim) = (&c.real, &c.simulated);
        let _ = writeln!(
            out,
            "{:<22} {:>7.2} {:>7.2} {error:>8} {:>7.2} {:>7.2} {:>6} {:>6}  {}",
            c.mix,
            real.write_amplification,
            sim.write_amplification,
            real.space_amplification,
            sim.space_amplification,
            real.jobs,
            sim.jobs,
            shortened(&c.strategy),
        );
    }
    let bars = format!("at most {:.0} % and {:.0} %", BARS.0 * 100.0, BARS.1 * 100.0);
    let _ = writeln!(out, "\nerror of write amplification, {bars}:");
    for v in verdicts {
        let word = if v.holds { "holds" } else { "does not hold" };
        let held_out = if v.held_out { ", not used to build the simulator" } else { "" };
        let _ = writeln!(
            out,
            "  {:<22} median {:>5.1} %, worst {:>5.1} %, {} compared, {} hardly wrote{held_out}: {word}; worst: {}",
            v.mix,
            v.median * 100.0,
            v.worst * 100.0,
            v.compared,
            v.left_out,
            shortened(&v.worst_strategy)
        );
    }
    out
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
