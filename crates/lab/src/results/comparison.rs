//! Several engines on the same workload: from the documents of alternating runs to medians, spreads, ratios and verdicts.
//!
//! ```text
//! documents ─► groups by settings ─► a column an engine ─► a cell a figure: median, min..max
//!                                                            └─ against the first peer: ratio, verdict
//! ```
//!
//! Pure: who ran what where is not known here. A verdict needs rounds enough, undisturbed runs, and a difference above the
//! spread; tails move twofold from run to run on an idle machine, so below that they do not differ. Where all runs know in which
//! seconds the machine stood still, tails are judged without those ([`crate::run::steady`]), for all engines alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::document::{Config, Document, Latency};
use crate::results::settings::OURS;
use crate::run::driver_cost::Percentiles;
use crate::run::max_rate::COMPLETED_MIN;
use crate::run::steady::{LEFT_OUT_SHARE_MAX, SteadyLatency};

/// A run in which others used more cores than this is disturbed.
pub const OTHERS_CORES_MAX: f64 = 0.15;
/// Runs of each engine that a verdict needs.
pub const ROUNDS_MIN: usize = 3;
/// Runs of each engine that a verdict on a tail needs.
pub const TAIL_ROUNDS_MIN: usize = 5;
/// After the name of a figure that leaves out the seconds in which the machine stood still.
pub const STEADY_MARK: char = '*';
/// Tails differ from this ratio on.
pub const TAIL_RATIO: f64 = 2.0;

/// One run of one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// How the engine was set up: a name of [`crate::results::settings::Settings`].
    pub settings: String,
    /// How often it was run again because it was disturbed.
    pub repeats: u32,
    /// What came out.
    pub document: Document,
}

/// What came out of all runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The workload's name.
    pub workload: String,
    /// Decides on keys, values and operations.
    pub seed: u64,
    /// What all runs were asked for; without what is the engines' own.
    pub config: Config,
    /// The most runs of an engine.
    pub rounds: usize,
    /// One for each settings.
    pub groups: Vec<Group>,
}

/// Engines under the same settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Whose settings: a name of [`crate::results::settings::Settings`].
    pub settings: String,
    /// The first peer, with which all are compared: its place in `contestants`.
    pub baseline: Option<usize>,
    /// The engines, in the order of their runs.
    pub contestants: Vec<Contestant>,
    /// What was measured, the important first.
    pub figures: Vec<Figure>,
}

/// One engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contestant {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// What it was opened with.
    pub config: BTreeMap<String, serde_json::Value>,
    /// Runs that were repeated because they were disturbed, all attempts together.
    pub repeats: u32,
    /// Runs that were disturbed to the last attempt.
    pub disturbed: usize,
    /// Its runs.
    pub runs: Vec<Document>,
}

impl Contestant {
    /// The run in the middle of all by throughput: the one to look at.
    pub fn middle_run(&self) -> Option<&Document> {
        let mut runs: Vec<&Document> = self.runs.iter().collect();
        runs.sort_by(|a, b| a.throughput_ops_per_sec.total_cmp(&b.throughput_ops_per_sec));
        runs.get(runs.len() / 2).copied()
    }
}

/// One figure of all engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// In which unit.
    pub unit: Unit,
    /// Which way is better; `None` for what says how good a run was, not an engine.
    pub better: Option<Better>,
    /// It is about the slowest few.
    pub tail: bool,
    /// Without the seconds in which the machine stood still. The same figure over all seconds is there as well, without verdict.
    #[serde(default)]
    pub steady: bool,
    /// One for each of the group's contestants, in their order.
    pub cells: Vec<Cell>,
}

/// Units of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Operations a second.
    PerSecond,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// So many times as much.
    Times,
    /// Cores.
    Cores,
}

impl Unit {
    /// As tables for programs say it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "per_second",
            Unit::Micros => "us",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Times => "times",
            Unit::Cores => "cores",
        }
    }
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is.
    Higher,
    /// Less is.
    Lower,
}

/// One figure of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Over its runs; `None` if no run tells.
    pub median: Option<f64>,
    /// The least of its runs.
    pub min: Option<f64>,
    /// The most of its runs.
    pub max: Option<f64>,
    /// How many runs tell.
    pub runs: usize,
    /// Its median for each unit of the baseline's.
    pub ratio: Option<f64>,
    /// Against the baseline; `None` for the baseline itself, and where there is nothing to compare.
    pub verdict: Option<Verdict>,
}

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// No difference that these runs show.
    None,
    /// Nothing: there were too few runs.
    TooFew,
    /// Nothing: one of the runs was disturbed.
    Disturbed,
    /// Nothing: one of the runs did not end what came, and requests that were not served are in no latency.
    Late,
    /// Nothing: each run was under a load of its own, a share of the highest rate that it found.
    OtherLoad,
}

impl Verdict {
    /// As tables for people say it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::None => "none",
            Verdict::TooFew => "few",
            Verdict::Disturbed => "noise",
            Verdict::Late => "late",
            Verdict::OtherLoad => "loads",
        }
    }
}

impl Run {
    /// True if its figures say little, see [`disturbance`].
    pub fn disturbed(&self) -> bool {
        disturbed(&self.document)
    }
}

/// How much a run was disturbed, by others or by a machine that stood still: above 1 its figures say little.
pub fn disturbance(document: &Document) -> f64 {
    most_others(document).max(by_halts(document))
}

/// How much others disturb a run who use so many cores; above 1 it is too much.
pub fn by_others(cores: Option<f64>) -> f64 {
    cores.unwrap_or(0.0) / OTHERS_CORES_MAX
}

/// True if it did not end the requests that came.
pub fn late(document: &Document) -> bool {
    document.open_loop.as_ref().is_some_and(|load| load.completed_share < COMPLETED_MIN)
}

/// Others during the search for the highest rate count as those during the run; above 1 they are too many.
pub fn most_others(document: &Document) -> f64 {
    by_others(document.others_cores)
        .max(by_others(document.max_rate.as_ref().and_then(|found| found.others_cores)))
}

fn by_halts(document: &Document) -> f64 {
    document.steady.as_ref().map_or(0.0, |steady| steady.left_out_share() / LEFT_OUT_SHARE_MAX)
}

/// True if the figures say little.
pub fn disturbed(document: &Document) -> bool {
    disturbance(document) > 1.0
}

/// What disturbed a run so that its figures say little, to be followed by "while … was measured".
pub fn why_disturbed(document: &Document) -> Option<&'static str> {
    let others = most_others(document) > 1.0;
    let halts = by_halts(document) > 1.0;
    let halted = || halts.then_some("the machine itself stood still for most seconds");
    others.then_some("others used the CPU").or_else(halted)
}

/// Compares runs of the same workload and seed, at least one.
///
/// # Errors
/// What the runs were asked for differs, or there is none.
pub fn compare(runs: &[Run]) -> Result<Comparison, String> {
    let seeds = |run: &Run| run.document.seed;
    if let Some((a, b)) = runs.iter().zip(runs.iter().skip(1)).find(|(a, b)| seeds(a) != seeds(b)) {
        return Err(differ(&a.document, &b.document));
    }
    compare_seeds(runs)
}

/// The same for runs of which each round has a seed of its own; the comparison tells the first.
///
/// # Errors
/// What the runs were asked for differs, or there is none.
pub fn compare_seeds(runs: &[Run]) -> Result<Comparison, String> {
    let first = &runs.first().ok_or("there is no run to compare")?.document;
    let config = asked(&first.config);
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let document = &run.document;
        if document.workload != first.workload || asked(&document.config) != config {
            return Err(differ(first, document));
        }
        add(&mut groups, run);
    }
    for group in &mut groups {
        group.baseline = group.contestants.iter().position(|contestant| contestant.engine != OURS);
        group.figures = figures(&group.contestants, group.baseline);
    }
    let all = groups.iter().flat_map(|group| &group.contestants);
    let rounds = all.map(|contestant| contestant.runs.len()).max().unwrap_or(0);
    Ok(Comparison { workload: first.workload.clone(), seed: first.seed, config, rounds, groups })
}

fn differ(a: &Document, b: &Document) -> String {
    format!(
        "{} and {} were not asked for the same: runs compare only on the same workload, records and limits",
        a.engine, b.engine
    )
}

/// What a run was asked for, without what is the engine's own.
fn asked(config: &Config) -> Config {
    Config { engine: BTreeMap::new(), ..config.clone() }
}

fn add(groups: &mut Vec<Group>, run: &Run) {
    let document = &run.document;
    let at = groups.iter().position(|group| group.settings == run.settings).unwrap_or(groups.len());
    if at == groups.len() {
        let settings = run.settings.clone();
        groups.push(Group { settings, baseline: None, contestants: Vec::new(), figures: Vec::new() });
    }
    let all = &mut groups[at].contestants;
    let at = all.iter().position(|known| known.engine == document.engine).unwrap_or(all.len());
    if at == all.len() {
        all.push(Contestant {
            engine: document.engine.clone(),
            version: document.version.clone(),
            config: document.config.engine.clone(),
            repeats: 0,
            disturbed: 0,
            runs: Vec::new(),
        });
    }
    all[at].repeats += run.repeats;
    all[at].disturbed += usize::from(run.disturbed());
    all[at].runs.push(document.clone());
}

type Of = Box<dyn Fn(&Document) -> Option<f64>>;

/// A figure before anybody is measured.
struct Row {
    name: String,
    unit: Unit,
    better: Option<Better>,
    tail: bool,
    steady: bool,
    /// No verdict is given on it.
    shown_only: bool,
    /// It depends on how much came, and on that being served.
    under_load: bool,
    of: Of,
}

impl Row {
    fn new(
        name: &str,
        unit: Unit,
        better: Option<Better>,
        of: impl Fn(&Document) -> Option<f64> + 'static,
    ) -> Row {
        let (name, of) = (name.to_owned(), Box::new(of));
        Row { name, unit, better, tail: false, steady: false, shown_only: false, under_load: false, of }
    }

    /// One on the slowest few.
    fn tail(self) -> Row {
        Row { tail: true, ..self }
    }

    /// One on how long requests took.
    fn under_load(self) -> Row {
        Row { under_load: true, ..self }
    }

    /// This row, and where all runs tell the figure without halts, a row of that, which is judged instead.
    fn and_steady(
        mut self,
        runs: &[&Document],
        of: impl Fn(&Document) -> Option<f64> + 'static,
    ) -> impl Iterator<Item = Row> {
        let steady = all_tell(runs, &self.of, &of).then(|| Row {
            name: format!("{}{STEADY_MARK}", self.name),
            steady: true,
            of: Box::new(of),
            ..self
        });
        self.shown_only = steady.is_some();
        [Some(self), steady].into_iter().flatten()
    }
}

/// True if every run that tells a figure tells it without halts too, and any does.
pub(crate) fn all_tell(
    runs: &[&Document],
    plain: impl Fn(&Document) -> Option<f64>,
    steady: impl Fn(&Document) -> Option<f64>,
) -> bool {
    let mut telling = runs.iter().filter(|document| plain(document).is_some()).peekable();
    telling.peek().is_some() && telling.all(|document| steady(document).is_some())
}

fn figures(contestants: &[Contestant], baseline: Option<usize>) -> Vec<Figure> {
    let measure = |row: Row| {
        let mut cells: Vec<Cell> = contestants.iter().map(|c| Cell::of(&c.runs, &row.of)).collect();
        let base = baseline.and_then(|at| Some((at, *cells.get(at)?)));
        for (i, mine) in cells.iter_mut().enumerate() {
            let Some((at, base)) = base else { continue };
            mine.ratio = mine.median.zip(base.median).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b);
            if let Some(better) = row.better.filter(|_| i != at && !row.shown_only) {
                let both = [&contestants[i], &contestants[at]];
                let judged = verdict(mine, &base, better, row.tail, both.iter().any(|c| c.disturbed > 0));
                let unlike = unlike_loads(both).filter(|_| row.under_load);
                mine.verdict = judged.map(|verdict| unlike.unwrap_or(verdict));
            }
        }
        let Row { name, unit, better, tail, steady, .. } = row;
        Figure { name, unit, better, tail, steady, cells }
    };
    rows(contestants).into_iter().map(measure).collect()
}

/// Why latencies of two say nothing beside each other, if their loads were not the same, or not served.
fn unlike_loads(both: [&Contestant; 2]) -> Option<Verdict> {
    let any = |of: fn(&Document) -> bool| both.iter().flat_map(|c| &c.runs).any(of);
    let own_rate = any(|d| d.max_rate.is_some()).then_some(Verdict::OtherLoad);
    own_rate.or_else(|| any(late).then_some(Verdict::Late))
}

/// What is measured, the important first.
fn rows(contestants: &[Contestant]) -> Vec<Row> {
    use Better::{Higher, Lower};
    use Unit::{Bytes, Cores, Micros, PerSecond, Seconds, Times};
    let runs: Vec<&Document> = contestants.iter().flat_map(|contestant| &contestant.runs).collect();
    let mut rows = vec![Row::new("throughput", PerSecond, Some(Higher), |d| Some(d.throughput_ops_per_sec))];
    if runs.iter().any(|document| document.max_rate.is_some()) {
        let highest = |d: &Document| {
            d.max_rate.as_ref().filter(|found| found.is_narrow()).map(|found| found.ops_per_sec)
        };
        rows.push(Row::new("highest rate", PerSecond, Some(Higher), highest));
    }
    let mut kinds: Vec<&String> = runs.iter().flat_map(|document| document.latency_us.keys()).collect();
    kinds.sort();
    kinds.dedup();
    kinds.into_iter().for_each(|kind| rows.extend(latency_rows(kind, &runs)));
    let worst =
        Row::new("worst s p99", Micros, Some(Lower), |d| whole_seconds(d, |w| w.p99_us).reduce(f64::max));
    rows.extend(worst.tail().under_load().and_steady(&runs, |d| d.steady.as_ref()?.worst_second_p99_us));
    let slowest = Row::new("slowest second", PerSecond, Some(Higher), slowest_second).tail().under_load();
    rows.extend(slowest.and_steady(&runs, |d| d.steady.as_ref()?.slowest_second_ops));
    if runs.iter().any(|document| document.open_loop.is_some()) {
        type Point = fn(&Percentiles) -> f64;
        let points: [(&str, Point); 3] =
            [("floor p99", |p| p.p99), ("floor p99.9", |p| p.p999), ("floor max", |p| p.max)];
        let known = |us: f64| (us > 0.0).then_some(us);
        rows.extend(
            points.map(|(name, of)| Row::new(name, Micros, None, move |d| known(of(&d.driver.floor_us)))),
        );
        rows.push(Row::new("woke late p99", Micros, None, |d| Some(d.open_loop.as_ref()?.wake_up_us.p99)));
    }
    rows.extend([
        Row::new("write ampl.", Times, Some(Lower), |d| d.amplification.write),
        Row::new("space ampl.", Times, Some(Lower), |d| d.amplification.space),
        Row::new("CPU per op", Micros, Some(Lower), Document::cpu_us_per_op),
        Row::new("peak memory", Bytes, Some(Lower), |d| Some(d.peak_rss_bytes? as f64)),
        Row::new("idle after", Seconds, Some(Lower), |d| d.idle_seconds).tail(),
        Row::new("lab per op", Micros, None, |d| Some(d.driver.ns_per_op / 1e3)),
        Row::new("others' cores", Cores, None, |d| d.others_cores),
    ]);
    rows
}

/// Latencies of one kind of operation.
fn latency_rows(kind: &str, runs: &[&Document]) -> Vec<Row> {
    type Plain = fn(&Latency) -> f64;
    type Steady = fn(&SteadyLatency) -> f64;
    let row = |name: &str, of: Plain| {
        let (name, kind) = (format!("{kind} {name}"), kind.to_owned());
        Row::new(&name, Unit::Micros, Some(Better::Lower), move |d| d.latency_us.get(&kind).map(of))
    };
    let tails: [(&str, Plain, Steady); 3] =
        [("p99", |l| l.p99, |l| l.p99), ("p99.9", |l| l.p999, |l| l.p999), ("max", |l| l.max, |l| l.max)];
    let mut rows = vec![row("p50", |l| l.p50).under_load()];
    for (name, plain, steady) in tails {
        let kind = kind.to_owned();
        let steady = move |d: &Document| d.steady.as_ref()?.latency_us.get(&kind).map(steady);
        rows.extend(row(name, plain).tail().under_load().and_steady(runs, steady));
    }
    rows
}

/// A figure of each second that is not cut off.
pub(crate) fn whole_seconds<'a>(
    document: &'a Document,
    of: fn(&crate::results::document::WindowRow) -> Option<f64>,
) -> impl Iterator<Item = f64> + 'a {
    document.windows.iter().filter(|w| (w.second + 1) as f64 <= document.seconds).filter_map(of)
}

/// Operations that ended in the whole second in which the fewest did: none, where a second has no row.
fn slowest_second(document: &Document) -> Option<f64> {
    let told: Vec<f64> = whole_seconds(document, |w| Some(w.achieved)).collect();
    let silent = (told.len() as u64) < document.seconds as u64;
    told.into_iter().chain(silent.then_some(0.0)).reduce(f64::min).filter(|_| !document.windows.is_empty())
}

impl Figure {
    /// The ratio of a cell as it is shown: not of what is compared with, nor of what is neither better nor worse.
    pub fn shown_ratio(&self, cell: &Cell, is_base: bool) -> Option<f64> {
        cell.ratio.filter(|_| !is_base && self.better.is_some())
    }
}

impl Cell {
    /// A figure over runs.
    pub fn of<'a>(
        runs: impl IntoIterator<Item = &'a Document>,
        of: impl Fn(&Document) -> Option<f64>,
    ) -> Cell {
        let mut values: Vec<f64> =
            runs.into_iter().filter_map(of).filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => None,
            n if n % 2 == 1 => Some(values[middle]),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        };
        Cell {
            median,
            min: values.first().copied(),
            max: values.last().copied(),
            runs: values.len(),
            ratio: None,
            verdict: None,
        }
    }

    /// From its least run to its most.
    pub fn spread(&self) -> f64 {
        self.min.zip(self.max).map_or(0.0, |(min, max)| max - min)
    }
}

fn verdict(mine: &Cell, base: &Cell, better: Better, tail: bool, disturbed: bool) -> Option<Verdict> {
    let (a, b) = mine.median.zip(base.median)?;
    let rounds = if tail { TAIL_ROUNDS_MIN } else { ROUNDS_MIN };
    if disturbed {
        return Some(Verdict::Disturbed);
    }
    if mine.runs.min(base.runs) < rounds {
        return Some(Verdict::TooFew);
    }
    let within = (a - b).abs() <= mine.spread().max(base.spread());
    let alike = tail && a.max(b) < TAIL_RATIO * a.min(b);
    Some(match (a > b) == (better == Better::Higher) {
        _ if within || alike => Verdict::None,
        true => Verdict::Better,
        false => Verdict::Worse,
    })
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
