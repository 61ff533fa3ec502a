//! From the figures of finished cells to verdicts on claims. Pure.
//!
//! ```text
//! cells of a round ─► the claim's number ─┐
//!    of the next   ─► its number there   ─┴► median, spread ─► bar ─► holds
//!         └─ all there? rounds enough? and of times: undisturbed? one machine? direct I/O?  ─► valid
//! ```
//! A claim about what is counted does not mind who else used the machine; one about times does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cells::{Cell, Finished};
use super::heat_verdict;
use super::study::{Claim, Study, Table, least, median, most};
use crate::results::comparison::{OTHERS_CORES_MAX, ROUNDS_MIN};
use crate::verdicts::expected::Expected;

/// What is said of a claim; `verdicts.json` has one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyVerdict {
    /// The claim's id.
    pub id: String,
    /// The experiment that claims it.
    pub experiment: String,
    /// The paper's observation, or its figure.
    pub observation: String,
    /// What the number is.
    pub claim: String,
    /// The preset `cds`, or `schedules`.
    pub settings: String,
    /// What was wanted, and the paper's own figures.
    pub expected: Expected,
    /// The number: the median of the rounds.
    pub measured: Option<f64>,
    /// Of the rounds, the least and the most.
    pub spread: Option<(f64, f64)>,
    /// Rounds that tell.
    pub runs: usize,
    /// Whether anything can be said.
    pub valid: bool,
    /// If not, why.
    pub why_not_valid: Option<String>,
    /// Whether the bar is met; `None` if nothing can be said.
    pub holds: Option<bool>,
    /// Whether every round says the same.
    pub clear: Option<bool>,
    /// Of a part of the experiment: not to be quoted.
    pub quick: bool,
    /// If it does not hold: why it need not.
    pub note: Option<String>,
    /// What the rows were asked to serve, where a claim is valid under some loads only.
    #[serde(default)]
    pub load: Option<String>,
    /// What reads taught and the tree became of it, where a claim is about that.
    #[serde(default)]
    pub tree: Option<String>,
}

/// A claim as its verdict names it.
pub(crate) struct Claimed {
    pub(crate) id: &'static str,
    pub(crate) experiment: &'static str,
    pub(crate) observation: &'static str,
    pub(crate) text: &'static str,
    pub(crate) settings: &'static str,
    /// Why it need not hold; empty if nothing is known.
    pub(crate) reason: &'static str,
}

impl StudyVerdict {
    /// What a claim's numbers say, one of each round; nothing if there is a reason not to believe them.
    pub(crate) fn of(claim: &Claimed, expected: Expected, numbers: Numbers, quick: bool) -> StudyVerdict {
        let Numbers { values, why_not, .. } = numbers;
        let measured = median(&values);
        let met = |value: f64| expected.bar.met(value);
        let valid = why_not.is_none() && measured.is_some();
        let holds = measured.filter(|_| valid).map(met);
        let reason = (holds == Some(false) && !claim.reason.is_empty()).then(|| claim.reason.to_owned());
        StudyVerdict {
            id: claim.id.to_owned(),
            experiment: claim.experiment.to_owned(),
            observation: claim.observation.to_owned(),
            claim: claim.text.to_owned(),
            settings: claim.settings.to_owned(),
            measured,
            spread: least(&values).zip(most(&values)),
            runs: values.len(),
            valid,
            why_not_valid: why_not,
            clear: holds.map(|holds| values.iter().all(|value| met(*value) == holds)),
            holds,
            quick,
            note: reason,
            load: None,
            tree: None,
            expected,
        }
    }
}

/// All there is to judge by; `C` is what a cell is asked for, `F` what it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a, C, F> {
    /// Every cell that was to be run.
    pub planned: &'a [C],
    /// Those that have run.
    pub finished: &'a [F],
    /// Points or rows that could not run, and why.
    pub failed: &'a [(String, String)],
    /// Only a part of the experiment was run.
    pub quick: bool,
}

/// What these claims are judged by.
type Points<'a> = Evidence<'a, Cell, Finished>;

/// A verdict for each claim of a study that has a bar.
pub fn judge(study: &Study, bars: &BTreeMap<String, Expected>, evidence: &Points<'_>) -> Vec<StudyVerdict> {
    let with_bars = study.claims.iter().filter_map(|claim| Some((claim, bars.get(claim.id)?.clone())));
    with_bars.map(|(claim, expected)| verdict(study, claim, expected, evidence)).collect()
}

fn verdict(study: &Study, claim: &Claim, expected: Expected, evidence: &Points<'_>) -> StudyVerdict {
    let claimed = Claimed {
        id: claim.id,
        experiment: study.id,
        observation: claim.observation,
        text: claim.text,
        settings: if heat_verdict::is_about(study) { "ltg" } else { "cds" },
        reason: claim.reason,
    };
    let numbers = numbers(study, claim, evidence);
    let tree = numbers.tree.clone();
    StudyVerdict { tree, ..StudyVerdict::of(&claimed, expected, numbers, evidence.quick) }
}

/// A claim's number in each round, and the first reason why they say nothing.
pub(crate) struct Numbers {
    pub(crate) values: Vec<f64>,
    pub(crate) why_not: Option<String>,
    /// What the tree was in the first round that tells.
    pub(crate) tree: Option<String>,
}

impl Numbers {
    /// The same, unless they are of too few rounds, or of cells of several hosts.
    pub(crate) fn told_by<H: PartialEq>(mut self, hosts: &[H], quick: bool) -> Numbers {
        let rounds = self.values.len();
        if rounds < ROUNDS_MIN && !quick {
            self.why_not.get_or_insert_with(|| format!("{rounds} rounds tell; this needs {ROUNDS_MIN}"));
        }
        if hosts.windows(2).any(|two| two[0] != two[1]) {
            self.why_not.get_or_insert_with(|| "the cells are not of one machine and disk".to_owned());
        }
        self
    }
}

fn numbers(study: &Study, claim: &Claim, evidence: &Points<'_>) -> Numbers {
    let mut seeds: Vec<u64> = evidence.planned.iter().map(Cell::seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let mut values = Vec::new();
    let mut why_not = None;
    let (mut missing, mut silent) = (0, 0);
    let mut hosts = Vec::new();
    let mut tree = None;
    for seed in &seeds {
        let round: Vec<&Finished> = evidence.finished.iter().filter(|cell| cell.seed == *seed).collect();
        let table = Table::new(round.iter().map(|cell| (cell.point.clone(), &cell.measured.figures)));
        let number = (claim.number)(&table).filter(|number| number.is_finite());
        let (used, timed) = table.asked();
        let by_heat = heat_verdict::look(study, &table, &used);
        why_not = why_not.or(by_heat.why_not);
        tree = tree.or(by_heat.tree);
        if let Some((point, why)) = evidence.failed.iter().find(|(point, _)| used.contains(point)) {
            why_not.get_or_insert_with(|| format!("{point} failed: {why}"));
        }
        match number {
            Some(number) => values.push(number),
            None if used.iter().all(|point| round.iter().any(|cell| cell.point == *point)) => silent += 1,
            None => missing += 1,
        }
        if timed {
            let mine = || round.iter().filter(|cell| used.contains(&cell.point));
            why_not = why_not.or_else(|| not_timed(&mut mine()));
            hosts.extend(mine().map(|cell| &cell.host));
        }
    }
    if missing > 0 {
        why_not.get_or_insert_with(|| format!("not run: {missing} of {} rounds", seeds.len()));
    }
    if silent > 0 {
        why_not.get_or_insert_with(|| "the cells do not tell this: too little was written".to_owned());
    }
    Numbers { values, why_not, tree }.told_by(&hosts, evidence.quick)
}

/// Why times of these cells say nothing, if they do not.
fn not_timed(cells: &mut dyn Iterator<Item = &&Finished>) -> Option<String> {
    for cell in cells {
        if cell.measured.others_cores.is_some_and(|cores| cores > OTHERS_CORES_MAX) {
            return Some(format!("others used the CPU while {} was measured", cell.point));
        }
        if !cell.measured.direct_io {
            return Some("the file system takes no direct I/O; give another --out".to_owned());
        }
    }
    None
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
