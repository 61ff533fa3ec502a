//! What an experiment over the design space is: points that are run in rounds, claims about their figures, and plots. Plain data.
//!
//! ```text
//! Study ─┬─ points   cells: point × round                                          (cells.rs)
//!        ├─ claims   a number from the figures of a round, a bar in expected.json ─► a verdict (judge.rs)
//!        └─ plots    a figure of the paper: bars by strategy, or lines by parameter  (charts.rs)
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::measure::Figures;
use super::point::Point;

/// See the file's header.
#[derive(Debug)]
pub struct Study {
    /// What people type; a name of one figure with parts is typed for all of them.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What is run.
    pub points: fn() -> Vec<Point>,
    /// What is claimed.
    pub claims: &'static [Claim],
    /// What is drawn.
    pub plots: &'static [Plot],
}

/// Something that the paper observed, as a number of a round.
#[derive(Debug)]
pub struct Claim {
    /// `study.claim`; its bar has the same name in `expected.json`.
    pub id: &'static str,
    /// The paper's observation, O1 to O23.
    pub observation: &'static str,
    /// What the number is.
    pub text: &'static str,
    /// The number; `None` if a cell is missing.
    pub number: fn(&Table<'_>) -> Option<f64>,
    /// Said where the claim does not hold: why it need not, on this engine; empty if nobody has found out yet.
    pub reason: &'static str,
}

/// A plot of the report.
#[derive(Debug)]
pub struct Plot {
    /// The paper's figure and what it shows.
    pub title: &'static str,
    /// The figure's name.
    pub figure: &'static str,
    /// In what it is told.
    pub unit: PlotUnit,
    /// Over what.
    pub over: Over,
}

/// What a plot is over.
#[derive(Debug)]
pub enum Over {
    /// Bars: the points for which this is true.
    Strategies(fn(&Point) -> bool),
    /// Lines of a strategy each: where a point lies, if it belongs there, and what that is.
    Parameter(fn(&Point) -> Option<f64>, &'static str),
    /// Lines of a strategy each over figures of one point: name and place of each figure, and what that is.
    Figures(fn(&Point) -> bool, &'static [(&'static str, f64)], &'static str),
}

/// In what a plot's figures are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotUnit {
    /// A number.
    Number,
    /// Microseconds, on a logarithmic axis.
    Micros,
    /// Bytes.
    Bytes,
}

/// The figures of one round, by the names of points; it notes what is asked for.
#[derive(Debug, Default)]
pub struct Table<'a> {
    rows: BTreeMap<String, &'a Figures>,
    used: RefCell<BTreeSet<String>>,
    timed: RefCell<bool>,
}

impl<'a> Table<'a> {
    /// Of these cells.
    pub fn new(cells: impl Iterator<Item = (String, &'a Figures)>) -> Table<'a> {
        Table { rows: cells.collect(), ..Table::default() }
    }

    /// A figure of a point.
    pub fn of(&self, point: &Point, figure: &str) -> Option<f64> {
        let name = point.name();
        let found = self.rows.get(&name).and_then(|figures| figures.get(figure)).copied();
        self.used.borrow_mut().insert(name);
        if super::measure::is_timed(figure) {
            *self.timed.borrow_mut() = true;
        }
        found
    }

    /// A figure of a point with each of these strategies; `None` if one is missing.
    pub fn each(&self, point: &Point, strategies: &[&'static str], figure: &str) -> Option<Vec<f64>> {
        strategies.iter().map(|strategy| self.of(&point.with(strategy), figure)).collect()
    }

    /// Points whose figures were asked for, and whether one of those was a time.
    pub fn asked(&self) -> (BTreeSet<String>, bool) {
        (self.used.borrow().clone(), *self.timed.borrow())
    }
}

/// The smallest.
pub fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// The largest.
pub fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// The one in the middle, or halfway between the two there.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// One by another that is above 0.
pub fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
