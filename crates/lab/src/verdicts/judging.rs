//! From the documents of finished cells to verdicts on claims. Pure.
//!
//! ```text
//! cells of ours and of the baseline ─► medians, spreads ─► ratio ─► bar ─► holds
//!            └─ all there? rounds enough? undisturbed? one machine? did the load come through?  ─► valid
//! ```
//!
//! A result that is not valid has no verdict, and says why. One that is valid and does not hold is reported as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::comparison::{
    Better, Cell, ROUNDS_MIN, TAIL_RATIO, TAIL_ROUNDS_MIN, Unit, all_tell, late, why_disturbed,
};
use crate::results::document::{Document, WindowRow};
use crate::results::settings::OURS;
use crate::verdicts::cells::{Cell as LabCell, Finished};
use crate::verdicts::expected::{Bar, Expected};
use crate::verdicts::experiment::{Claim, Experiment, Pace, Take};

/// What is said of a claim under one of the settings; `verdicts.json` is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim's id and the settings: no two verdicts have the same.
    pub id: String,
    /// The experiment that claims it.
    pub experiment: String,
    /// What is claimed, without the bar.
    pub claim: String,
    /// How engines were set up.
    pub settings: String,
    /// What was wanted.
    pub expected: Expected,
    /// What was found, in the bar's terms: the ratio of medians to the baseline's, or our median.
    pub measured: Option<f64>,
    /// The least and the most that it could be by the runs: for a ratio our least run by the other's most, and the reverse.
    pub spread: Option<(f64, f64)>,
    /// Runs of the engine that has fewer.
    pub runs: usize,
    /// Whether anything can be said.
    pub valid: bool,
    /// If not, why.
    pub why_not_valid: Option<String>,
    /// Whether the bar is met; `None` if nothing can be said.
    pub holds: Option<bool>,
    /// Whether every run, and for tails twice the figure, would say the same.
    pub clear: Option<bool>,
    /// Whether the goal is met as well; `None` if there is none, or nothing can be said.
    pub goal_met: Option<bool>,
    /// Of a part of the experiment: not to be quoted.
    pub quick: bool,
    /// What to know beside.
    pub note: Option<String>,
    /// The unit of what follows.
    pub unit: Unit,
    /// The engine that ratios are to.
    pub baseline: String,
    /// The figure of each engine that ran.
    pub engines: Vec<EngineFigure>,
    /// The same figure of an engine that does nothing, where the runs tell: nobody can be below.
    pub floor: Option<f64>,
}

/// One engine's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineFigure {
    /// Its name.
    pub engine: String,
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
}

/// A work that could not be run on a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The experiment that the work belongs to.
    pub experiment: &'static str,
    /// The work.
    pub work: &'static str,
    /// The engine.
    pub engine: String,
    /// How it was set up.
    pub settings: &'static str,
    /// Why, in one line.
    pub why: String,
}

/// All there is to judge by.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Every cell that was to be run.
    pub planned: &'a [LabCell],
    /// Those that have run.
    pub finished: &'a [Finished],
    /// Those that could not.
    pub failed: &'a [Failed],
    /// Only a part of the experiment was run.
    pub quick: bool,
}

/// A verdict for each claim of `experiment` under each of the settings that were to be run; claims without a bar have none.
pub fn judge(
    experiment: &Experiment,
    bars: &BTreeMap<String, Expected>,
    evidence: &Evidence<'_>,
) -> Vec<Verdict> {
    let mut settings: Vec<&'static str> = Vec::new();
    for name in evidence.planned.iter().map(|cell| cell.system.settings.name()) {
        if !settings.contains(&name) {
            settings.push(name);
        }
    }
    let mut verdicts = Vec::new();
    for settings in settings {
        for claim in experiment.claims {
            // Of a work that was left out nothing is to be said.
            let planned = evidence.planned.iter().any(|cell| is_of(cell, claim));
            if let Some(expected) = bars.get(claim.id).filter(|_| planned).cloned() {
                verdicts
                    .push(About::new(experiment, claim, settings, evidence).verdict(experiment.id, expected));
            }
        }
    }
    verdicts
}

fn is_of(cell: &LabCell, claim: &Claim) -> bool {
    (cell.experiment, cell.work.name) == claim.of
}

/// A claim under one of the settings, and what is known of it.
struct About<'a> {
    claim: &'a Claim,
    settings: &'static str,
    evidence: &'a Evidence<'a>,
    /// The engines that ratios may be to.
    all_rivals: &'static [&'static str],
    /// Figures are without the seconds in which the machine stood still: the runs of all engines tell them so.
    steady: bool,
    /// Those of them that were to be run.
    rivals: Vec<&'static str>,
    /// The one that they are to.
    baseline: &'static str,
}

/// What a bar is compared with.
#[derive(Clone, Copy)]
struct Found {
    value: f64,
    least: f64,
    most: f64,
}

impl<'a> About<'a> {
    fn new(
        experiment: &Experiment,
        claim: &'a Claim,
        settings: &'static str,
        evidence: &'a Evidence<'a>,
    ) -> About<'a> {
        let baseline = experiment.rivals.first().copied().unwrap_or_default();
        let mut about = About {
            claim,
            settings,
            evidence,
            all_rivals: experiment.rivals,
            steady: false,
            rivals: Vec::new(),
            baseline,
        };
        let runs: Vec<&Document> = about.all_documents().collect();
        about.steady = all_tell(&runs, |d| claim.take.of(d), |d| claim.take.steady(d));
        about.rivals = experiment.rivals.iter().copied().filter(|rival| about.planned(rival) > 0).collect();
        about.baseline = about.best_rival().or(about.rivals.first().copied()).unwrap_or(baseline);
        about
    }

    /// The one with the best figure of those that kept up with the load.
    fn best_rival(&self) -> Option<&'static str> {
        let told = |rival: &&'static str| Some((*rival, self.figure(rival).median?));
        let kept_up = self.rivals.iter().filter(|rival| !self.late(rival)).filter_map(told);
        let best = kept_up.reduce(|best, other| {
            let better = match self.claim.take.better() {
                Better::Higher => other.1 > best.1,
                Better::Lower => other.1 < best.1,
            };
            if better { other } else { best }
        });
        best.map(|(rival, _)| rival)
    }

    fn verdict(&self, experiment: &str, expected: Expected) -> Verdict {
        let (claim, evidence) = (self.claim, self.evidence);
        let take = claim.take;
        let (ours, base) = (self.figure(OURS), self.figure(self.baseline));
        let in_terms_of = |bar| found(bar, &ours, &base);
        let found = in_terms_of(expected.bar);
        let why = self.why_not(expected.bar, &ours, &base, found);
        let valid = why.is_none();
        let late = self.late(OURS);
        let met = |bar: Bar| Some(!late && bar.met(in_terms_of(bar)?.value));
        Verdict {
            id: format!("{}.{}", claim.id, self.settings),
            experiment: experiment.to_owned(),
            claim: claim.text.to_owned(),
            settings: self.settings.to_owned(),
            measured: found.map(|f| f.value),
            spread: found.map(|f| (f.least, f.most)),
            runs: ours.runs.min(if expected.bar.is_ratio() { base.runs } else { ours.runs }),
            valid,
            why_not_valid: why,
            holds: if valid { met(expected.bar) } else { None },
            clear: found.filter(|_| valid).map(|f| late || is_clear(expected.bar, f, take)),
            goal_met: expected.goal.filter(|_| valid).and_then(met),
            quick: evidence.quick,
            note: self.note(late),
            unit: take.unit(),
            baseline: self.baseline.to_owned(),
            engines: self.engines(&base),
            floor: self.floor(),
            expected,
        }
    }

    /// What to know beside a verdict.
    fn note(&self, late: bool) -> Option<String> {
        let late = late.then(|| format!("{OURS} did not keep up with the load"));
        let runs = || self.all_documents().filter_map(|document| document.steady.as_ref());
        let left_out: u64 = runs().map(|steady| steady.left_out_seconds).sum();
        let halts = (self.steady && left_out > 0).then(|| {
            let all: u64 = runs().map(|steady| steady.seconds).sum();
            format!("without {left_out} of {all} seconds of all runs, in which the machine stood still or just had")
        });
        let best = (self.rivals.len() > 1)
            .then(|| format!("beside {}, the best of {}", self.baseline, self.rivals.len()));
        let notes: Vec<String> = late.into_iter().chain(best).chain(halts).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Of every engine.
    fn all_documents(&self) -> impl Iterator<Item = &'a Document> {
        let (of, settings) = (self.claim.of, self.settings);
        let mine = move |cell: &&Finished| {
            (cell.experiment.as_str(), cell.work.as_str()) == of && cell.run.settings == settings
        };
        self.evidence.finished.iter().filter(mine).map(|cell| &cell.run.document)
    }

    fn documents(&self, engine: &str) -> impl Iterator<Item = &'a Document> {
        self.all_documents().filter(move |document| document.engine == engine)
    }

    fn figure(&self, engine: &str) -> Cell {
        let take = self.claim.take;
        let of = |document: &Document| if self.steady { take.steady(document) } else { take.of(document) };
        Cell::of(self.documents(engine), of)
    }

    fn planned(&self, engine: &str) -> usize {
        let mine = |cell: &&LabCell| {
            is_of(cell, self.claim)
                && cell.system.settings.name() == self.settings
                && cell.system.engine == engine
        };
        self.evidence.planned.iter().filter(mine).count()
    }

    /// The first reason that says that nothing can be said.
    fn why_not(&self, bar: Bar, ours: &Cell, base: &Cell, found: Option<Found>) -> Option<String> {
        let baseline = self.baseline;
        let both = [OURS, baseline];
        let needed = if bar.is_ratio() { &both[..] } else { &both[..1] };
        if let Some(engine) = needed.iter().find(|engine| self.planned(engine) == 0) {
            return Some(format!("{engine} was not asked for; add --engine {engine}"));
        }
        let absent = self.all_rivals.iter().find(|rival| self.planned(rival) == 0);
        if let Some(rival) = absent.filter(|_| bar.is_ratio()) {
            return Some(format!("the best of the others may be {rival}; add --engine {rival}"));
        }
        let rivals = if bar.is_ratio() { &self.rivals[..] } else { &[] };
        let engines: Vec<&str> = [OURS].into_iter().chain(rivals.iter().copied()).collect();
        let failed = |f: &&Failed| {
            (f.experiment, f.work) == self.claim.of
                && f.settings == self.settings
                && engines.contains(&f.engine.as_str())
        };
        if let Some(failed) = self.evidence.failed.iter().find(failed) {
            return Some(format!("{} failed: {}", failed.engine, failed.why));
        }
        let planned: usize = engines.iter().map(|engine| self.planned(engine)).sum();
        let finished: usize = engines.iter().map(|engine| self.documents(engine).count()).sum();
        if finished < planned {
            return Some(format!("not run: {} of {planned} cells", planned - finished));
        }
        let rounds = if self.claim.take.tail() { TAIL_ROUNDS_MIN } else { ROUNDS_MIN };
        let runs = if bar.is_ratio() { ours.runs.min(base.runs) } else { ours.runs };
        if runs < rounds && !self.evidence.quick {
            return Some(format!("{runs} runs of each engine tell; this needs {rounds}"));
        }
        let disturbed = |engine: &&str| {
            self.documents(engine).find_map(why_disturbed).map(|why| (why, (*engine).to_owned()))
        };
        if let Some((why, engine)) = engines.iter().find_map(disturbed) {
            return Some(format!("{why} while {engine} was measured"));
        }
        let mut hosts = engines.iter().flat_map(|engine| self.documents(engine));
        let host = |d: &Document| d.provenance.as_ref().map(|p| p.host.clone());
        if let Some(first) = hosts.next().map(host)
            && hosts.any(|document| host(document) != first)
        {
            return Some("the cells are not of one machine and disk".to_owned());
        }
        if let Some(engine) = engines.iter().find(|engine| self.unfound(engine)) {
            return Some(format!("the highest rate of {engine} was not found within the search's budget"));
        }
        if let Some(why) = self.ill_found().or_else(|| self.puts_all_off()) {
            return Some(why);
        }
        if bar.is_ratio() && self.late(baseline) {
            return Some(format!("{baseline} did not keep up with the load"));
        }
        found.is_none().then(|| "the runs do not tell this figure".to_owned())
    }

    /// True if a run did not end what came. Where the highest rate was looked for, that says nothing.
    fn late(&self, engine: &str) -> bool {
        self.claim.take != Take::HighestRate && self.documents(engine).any(late)
    }

    /// Why the rate that this one is a share of says little, if it does.
    fn ill_found(&self) -> Option<String> {
        let mine = self.evidence.planned.iter().find(|cell| is_of(cell, self.claim))?;
        let Pace::Share { of, .. } = mine.work.pace else { return None };
        let finds = |cell: &&Finished| {
            (cell.experiment.as_str(), cell.work.as_str()) == (self.claim.of.0, of)
                && cell.run.settings == self.settings
        };
        self.evidence.finished.iter().filter(finds).find_map(|cell| {
            let document = &cell.run.document;
            let open = (!self.evidence.quick && is_open(document))
                .then(|| format!("{of} did not find the highest rate within the search's budget"));
            why_disturbed(document).map(|why| format!("{why} while {of} was measured")).or(open)
        })
    }

    /// A tail without any compaction is not one that compactions leave calm: said of ours, where it flushed and merged nothing.
    fn puts_all_off(&self) -> Option<String> {
        let of = |figure: fn(&WindowRow) -> Option<u64>| {
            let windows = self.documents(OURS).flat_map(|document| &document.windows);
            windows.map(|window| figure(window).unwrap_or(0)).sum::<u64>()
        };
        let merged = of(|w| w.l0_bytes) + of(|w| w.deep_bytes);
        let puts_off = self.claim.take.tail() && of(|w| w.flush_bytes) > 0 && merged == 0;
        (puts_off && !self.evidence.quick)
            .then(|| format!("{OURS} compacted nothing while it was measured: a longer run would"))
    }

    /// True if a search for the highest rate ended before a rate little higher had failed.
    fn unfound(&self, engine: &str) -> bool {
        self.claim.take == Take::HighestRate && self.documents(engine).any(is_open)
    }

    fn engines(&self, base: &Cell) -> Vec<EngineFigure> {
        let mut names: Vec<&str> = Vec::new();
        let asked = self.evidence.planned.iter().filter(|cell| is_of(cell, self.claim));
        for name in asked.map(|cell| cell.system.engine.as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let figure = |name: &str| {
            let cell = self.figure(name);
            let ratio = cell.median.zip(base.median).filter(|(_, base)| *base > 0.0).map(|(a, b)| a / b);
            EngineFigure {
                engine: name.to_owned(),
                median: cell.median,
                min: cell.min,
                max: cell.max,
                runs: cell.runs,
                ratio,
            }
        };
        names.into_iter().map(figure).collect()
    }

    fn floor(&self) -> Option<f64> {
        Cell::of(self.documents(OURS), |document| self.claim.take.floor(document)).median
    }
}

/// True if a search ended before a rate little higher than what it found had failed.
fn is_open(search: &Document) -> bool {
    search.max_rate.as_ref().is_some_and(|found| !found.is_narrow())
}

/// Our figure, or its ratio, as the bar wants it.
fn found(bar: Bar, ours: &Cell, base: &Cell) -> Option<Found> {
    let (value, least, most) = (ours.median?, ours.min?, ours.max?);
    if !bar.is_ratio() {
        return Some(Found { value, least, most });
    }
    let (theirs, their_least, their_most) = (base.median?, base.min?, base.max?);
    (their_least > 0.0).then(|| Found {
        value: value / theirs,
        least: least / their_most,
        most: most / their_least,
    })
}

/// Whether the bar is outside of what the runs could say; tails move twofold with nothing changed.
fn is_clear(bar: Bar, found: Found, take: Take) -> bool {
    let same = bar.met(found.least) == bar.met(found.most);
    let (low, high) = (found.value.min(bar.limit()), found.value.max(bar.limit()));
    same && !(take.tail() && high < TAIL_RATIO * low)
}

#[cfg(test)]
#[path = "judging_tests.rs"]
mod tests;
