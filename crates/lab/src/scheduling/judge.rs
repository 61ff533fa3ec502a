//! From the documents of finished cells to verdicts on claims. Pure.
//!
//! ```text
//! rows of a round ─► the claim's number ─┐
//!    of the next  ─► its number there   ─┴► median, spread ─► bar ─► holds
//!        └─ all there? undisturbed? one machine? the load as the study wants it, in every round?  ─► valid
//! ```
//! A result that is not valid has no verdict, whatever its numbers are.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{Cell, Finished, per_request};
use super::row::{Load, Row, STRATEGY};
use super::study::{Claim, Study, Table, Valid, completed, share_after_first_merge, short_seconds};
use crate::design_space;
use crate::design_space::judge::{Claimed, Numbers, StudyVerdict};
use crate::design_space::study::median;
use crate::results::comparison::most_others;
use crate::results::document::Document;
use crate::results::sustained::{Offered, SERVED_MIN, Sustained, differ, in_trouble, unserved};
use crate::verdicts::expected::Expected;
use crate::verdicts::rounds::seed_of;

/// Where limits are out of reach, or most of the device is for reads, trouble is throughput that drops: in this share of the seconds.
const SHORT_MIN: f64 = 0.05;

/// Of the time of all cores the host may take so much. A run behind a device is not disturbed by each hundredth of a second that a core
/// stands still, as one is whose tails are shorter than that.
const STOLEN_SHARE_MAX: f64 = 0.125;

/// What these claims are judged by.
type Evidence<'a> = design_space::judge::Evidence<'a, Cell, Finished>;

/// A verdict for each claim of a study that has a bar.
pub fn judge(study: &Study, bars: &BTreeMap<String, Expected>, evidence: &Evidence<'_>) -> Vec<StudyVerdict> {
    let with_bars = study.claims.iter().filter_map(|claim| Some((claim, bars.get(claim.id)?.clone())));
    with_bars.map(|(claim, expected)| verdict(study, claim, expected, evidence)).collect()
}

fn verdict(study: &Study, claim: &Claim, expected: Expected, evidence: &Evidence<'_>) -> StudyVerdict {
    let claimed = Claimed {
        id: claim.id,
        experiment: study.id,
        observation: study.figure,
        text: claim.text,
        settings: "schedules",
        reason: "",
    };
    let load = load(study, evidence);
    StudyVerdict {
        load,
        ..StudyVerdict::of(&claimed, expected, numbers(study, claim, evidence), evidence.quick)
    }
}

/// What the baseline was asked to write in peaks and valleys, in W*: the medians of the rounds.
fn load(study: &Study, evidence: &Evidence<'_>) -> Option<String> {
    let rows = (study.rows)();
    let row = rows.iter().find(|row| is_baseline(row)).filter(|_| study.valid == Valid::Bursts)?;
    let mine = evidence.finished.iter().filter(|cell| cell.row == row.id());
    let offered: Vec<Offered> = mine.filter_map(|cell| offered(row, &cell.document)).collect();
    let of = |part: fn(&Offered) -> f64| median(&offered.iter().map(part).collect::<Vec<_>>());
    let (peak, mean) = of(|o| o.peak).zip(of(|o| o.mean))?;
    Some(format!("peaks of {peak:.2} W*, a mean of {mean:.2}, by what {} moved", row.name))
}

/// A second in which the disk below the emulated device kept clients for this part of their time says little: one of a hundred requests
/// may have waited for it.
const KEPT_SHARE_MIN: f64 = 0.01;

/// This part of the seconds may be such: a tail is the worst twentieth.
const KEPT_SECONDS_MAX: f64 = 0.02;

/// What may disturb a run, and how much; above 1 it says little.
const DISTURBED_BY: [(&str, fn(&Document) -> f64); 3] = [
    ("others used the CPU", most_others),
    ("the machine's host took more than an eighth of its time", by_host),
    ("the machine's disk, slower than the emulated one, kept clients in a fiftieth of the seconds", by_disk),
];

/// How much a run was disturbed; above 1 it says little.
pub fn disturbance(document: &Document) -> f64 {
    DISTURBED_BY.iter().map(|(_, how_much)| how_much(document)).fold(0.0, f64::max)
}

fn by_host(document: &Document) -> f64 {
    let cores = document.provenance.as_ref().and_then(|provenance| provenance.host.cores).unwrap_or(1);
    let stolen: f64 = document.windows.iter().filter_map(|window| window.stolen_seconds).sum();
    stolen / document.seconds.max(1.0) / cores.max(1) as f64 / STOLEN_SHARE_MAX
}

fn by_disk(document: &Document) -> f64 {
    let kept = document.config.threads as f64 * KEPT_SHARE_MIN;
    // A read that was kept for seconds is told in that in which it ended.
    let late =
        document.windows.iter().filter_map(|window| window.disk_late_seconds).filter(|late| *late >= kept);
    let seconds: f64 = late.map(|late| (late / document.config.threads as f64).max(1.0)).sum();
    seconds / document.windows.len().max(1) as f64 / KEPT_SECONDS_MAX
}

/// What disturbed a run so that it says little, to be followed by "while … was measured".
fn why_disturbed(document: &Document) -> Option<&'static str> {
    DISTURBED_BY.iter().find_map(|(why, how_much)| (how_much(document) > 1.0).then_some(*why))
}

/// A claim's number in each round, and the first reason why they say nothing.
fn numbers(study: &Study, claim: &Claim, evidence: &Evidence<'_>) -> Numbers {
    let rows = (study.rows)();
    let planned =
        |row: &Row, seed| evidence.planned.iter().any(|cell| cell.row == *row && cell.seed() == seed);
    // Of a round that is not asked for there may be a probe.
    let mut seeds: BTreeSet<u64> = evidence.planned.iter().map(Cell::seed).collect();
    seeds.retain(|seed| rows.iter().all(|row| planned(row, *seed)));
    let (mut values, mut why_not, mut missing) = (Vec::new(), None, 0);
    let mut hosts = Vec::new();
    for seed in &seeds {
        let round: Vec<&Finished> = evidence.finished.iter().filter(|cell| cell.seed == *seed).collect();
        let table = Table::new(round.iter().map(|cell| (cell.row.clone(), &cell.document)));
        let number = (claim.number)(&table).filter(|number| number.is_finite());
        let used = table.asked();
        if let Some((row, why)) = evidence.failed.iter().find(|(row, _)| used.contains(row)) {
            why_not.get_or_insert_with(|| format!("{row} failed: {why}"));
        }
        let here: BTreeSet<&str> = round.iter().map(|cell| cell.row.as_str()).collect();
        match number {
            _ if !used.iter().all(|row| here.contains(row.as_str())) => missing += 1,
            Some(number) => values.push(number),
            None => drop(why_not.get_or_insert_with(|| "the cells do not tell this".to_owned())),
        }
        let groups: BTreeSet<String> =
            rows.iter().filter(|r| used.contains(&r.id())).map(Row::group).collect();
        for group in &groups {
            why_not = why_not.or_else(|| fault(study.valid, &rows, group, &table, evidence.quick));
        }
        // What is said of others rests on the baseline's trouble, which somebody else may have made.
        let baselines = rows.iter().filter(|row| is_baseline(row) && groups.contains(&row.group()));
        let used: BTreeSet<String> = used.into_iter().chain(baselines.map(Row::id)).collect();
        let mine = || round.iter().filter(|cell| used.contains(&cell.row));
        let disturbed = mine().find_map(|cell| Some((why_disturbed(&cell.document)?, &cell.row)));
        if let Some((why, row)) = disturbed {
            why_not.get_or_insert_with(|| format!("{why} while {row} was measured"));
        }
        // Rates are found in the first round for all of them.
        let probes: BTreeSet<String> = rows
            .iter()
            .filter(|row| used.contains(&row.id()) && row.load != Load::Probe)
            .map(|row| row.probe().id())
            .collect();
        let first = |cell: &&Finished| cell.seed == seed_of(1) && probes.contains(&cell.row);
        let probe = evidence.finished.iter().filter(first);
        if let Some((why, row)) =
            probe.filter_map(|cell| Some((why_disturbed(&cell.document)?, &cell.row))).next()
        {
            why_not.get_or_insert_with(|| format!("{why} while {row} found the rates"));
        }
        hosts.extend(mine().map(|cell| cell.document.provenance.as_ref().map(|p| &p.host)));
    }
    if missing > 0 {
        why_not.get_or_insert_with(|| format!("not run: {missing} of {} rounds", seeds.len()));
    }
    Numbers { values, why_not, tree: None }.told_by(&hosts, evidence.quick)
}

/// Why the rows of a study under one load say nothing about schedules, if they do not.
fn fault(valid: Valid, rows: &[Row], group: &str, table: &Table<'_>, quick: bool) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.group() == group).collect();
    let runs: Vec<(&Row, &Document)> = rows.iter().filter_map(|row| Some((*row, table.of(row)?))).collect();
    let Some((row, baseline)) = runs.iter().find(|(row, _)| is_baseline(row)) else {
        return Some(format!("without unlimited under {group} nobody knows what this load is"));
    };
    let named = |memory_too: bool| {
        let chosen = runs.iter().filter(|(row, _)| memory_too || row.memory == 1);
        chosen.map(|(row, document)| (row.name, *document)).collect::<Vec<_>>()
    };
    // More memory is what its row is about.
    let unlike = || differ(&named(false), &[]).or_else(|| differ(&named(true), &["memtable_bytes"]));
    let unserved = || unserved(&named(true));
    let load = || match offered(row, baseline) {
        Some(offered) => offered.fault(),
        None => Some("unlimited does not tell what was offered or moved".to_owned()),
    };
    let brief = || if quick { None } else { brief(row, baseline) };
    let at_ease = || {
        let short = short_seconds(baseline).is_some_and(|share| share >= SHORT_MIN);
        let in_trouble = short || in_trouble(baseline, row.setup.l0_limit);
        let why = "unlimited had no trouble: no stall, L0 below its limit, and it ended what came";
        (!in_trouble).then(|| why.to_owned())
    };
    match valid {
        _ if row.load == Load::Probe => unlike(),
        Valid::Bursts => load().or_else(at_ease).or_else(unserved).or_else(unlike),
        Valid::Drops => brief().or_else(unserved).or_else(unlike),
        Valid::High => at_ease().or_else(brief).or_else(unserved).or_else(unlike),
        Valid::Served => unserved().or_else(|| runs.iter().find_map(|run| late(*run))).or_else(unlike),
        Valid::Overload => at_ease().or_else(unlike),
    }
}

/// Cycles of peak and valley that must follow the first merge of L0.
const CYCLES_MIN: f64 = 2.0;

/// Why a load of peaks was over too soon, if it was.
fn brief(row: &Row, document: &Document) -> Option<String> {
    let Load::High { peak, valley } = row.load else { return None };
    let Some(share) = share_after_first_merge(document) else {
        return Some(format!("{} never merged L0", row.name));
    };
    let cycles = share * row.seconds / (peak + valley);
    (cycles < CYCLES_MIN).then(|| {
        format!("{} merged L0 for the first time so late that {cycles:.1} cycles followed; this needs {CYCLES_MIN}", row.name)
    })
}

/// Why a run did not keep up with a load that troubles nobody, if it did not. Who has no schedule may have trouble.
fn late((row, document): (&Row, &Document)) -> Option<String> {
    let may_be_late = row.schedule == "unlimited" && row.memory == 1;
    let share = completed(document).filter(|share| *share < SERVED_MIN && !may_be_late)?;
    Some(format!("{} had ended {:.1} % of the requests when the last came", row.name, share * 100.0))
}

/// What others are compared with.
fn is_baseline(row: &Row) -> bool {
    row.schedule == "unlimited" && row.memory == 1 && row.strategy == STRATEGY
}

/// The writes that a row was asked for, in W* by what it moved.
fn offered(row: &Row, document: &Document) -> Option<Offered> {
    let written = per_request(row)?;
    Offered::of(document, written, &Sustained::of(document, written)?)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
