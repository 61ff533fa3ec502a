//! From studies to cells: a point in a round, with the words that ask for it. Pure.
//!
//! All points of a study are through before its next round begins, so that what is finished when time is up has whole rounds.
//! A cell that several studies need is run once.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::measure::Figures;
use super::point::{Point, Reads};
use super::study::Study;
use crate::base::provenance::Host;
use crate::verdicts::kept::Kept;
use crate::verdicts::rounds::seed_of;

/// Rounds, unless somebody says otherwise.
pub const ROUNDS: u16 = 3;

/// A point in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What is run.
    pub point: Point,
    /// From 1.
    pub round: u16,
}

/// What a finished cell leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The point's name.
    pub point: String,
    /// Decides on keys and operations.
    pub seed: u64,
    /// The words that asked for it.
    pub arguments: Vec<String>,
    /// What tells one build of the command from another.
    pub program: String,
    /// How long it took, repetitions included.
    pub wall_seconds: f64,
    /// How often it was run again because it was disturbed.
    pub repeats: u32,
    /// Where it ran.
    pub host: Host,
    /// What came out.
    pub measured: Measured,
}

/// What a cell's own process prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The strategy as it was set.
    pub strategy: String,
    /// Figures by name.
    pub figures: Figures,
    /// Cores that other processes used meanwhile, in the mean.
    pub others_cores: Option<f64>,
    /// The file system took direct I/O.
    pub direct_io: bool,
}

impl Kept for Finished {
    fn arguments(&self) -> &[String] {
        &self.arguments
    }

    fn program(&self) -> &str {
        &self.program
    }

    fn wall_seconds(&self) -> f64 {
        self.wall_seconds
    }
}

impl Cell {
    /// Decides on keys and operations.
    pub fn seed(&self) -> u64 {
        seed_of(self.round)
    }

    /// By how much it is divided where it is only to be seen that it works. At an eighth of the data a strategy that moves seventy
    /// bytes for one moves eleven gigabytes; but a table has to be looked into some times before it is hot.
    pub fn quick_divide(&self) -> u64 {
        if self.point.heat().is_some() { 8 } else { 32 }
    }

    fn lab(&self) -> &'static str {
        if self.point.heat().is_some() { "ltg" } else { "cds" }
    }

    /// Where it is kept, below the directory of cells.
    pub fn file(&self) -> String {
        format!("{}/{}-{}.json", self.lab(), self.point.name(), self.seed())
    }

    /// For people.
    pub fn title(&self) -> String {
        format!("{} {}, round {}", self.lab(), self.point.name(), self.round)
    }

    /// The cell whose writing time this one needs, if it needs one.
    pub fn timed_by(&self) -> Option<Cell> {
        self.point.timed_by().map(|point| Cell { point, ..*self })
    }

    /// What asks for it; `seconds` is the writing time that it needs.
    pub fn arguments(&self, divide: u64, seconds: Option<f64>) -> Vec<String> {
        let mut words = vec!["lab".to_owned(), "cell".to_owned(), self.point.name()];
        words.extend(["--seed".to_owned(), self.seed().to_string()]);
        if divide > 1 {
            words.extend(["--part".to_owned(), divide.to_string()]);
        }
        if let Some(seconds) = seconds {
            words.extend(["--writing-seconds".to_owned(), format!("{seconds:.3}")]);
        }
        words
    }

    /// About how long it takes, in seconds, until cells of its kind have said better.
    pub fn estimate(&self, divide: u64) -> f64 {
        let point = self.point.scaled(divide);
        let bytes = (point.writes() * point.entry_bytes) as f64;
        let reads = match point.reads {
            Reads::Nothing => 0.0,
            Reads::Gets => point.gets() as f64,
            Reads::All => point.gets() as f64 * 2.0,
            Reads::Heat(load) => {
                let gets = load.get_tenths as f64 / f64::from(10 - load.get_tenths.min(9));
                point.writes() as f64 * gets + point.gets() as f64
            }
        };
        1.0 + point.writes() as f64 / 400e3 + 20.0 * bytes / 400e6 + reads / 10e3
    }
}

/// The cells of these studies in these rounds, each once, in the order in which they run.
pub fn plan(studies: &[&'static Study], rounds: RangeInclusive<u16>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for study in studies {
        for round in rounds.clone() {
            for point in (study.points)() {
                let cell = Cell { point, round };
                for cell in cell.timed_by().into_iter().chain([cell]) {
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    cells
}
