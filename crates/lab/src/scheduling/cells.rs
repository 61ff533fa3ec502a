//! From studies to cells: a row in a round, with the words that ask for it. Pure.
//!
//! Probes come first, one for each setup and workload: the rates of all other cells follow from them. All rows of a study are
//! through before its next round begins; a cell that several studies need is run once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::row::{Found, Load, Row, STRATEGY};
use super::study::Study;
use crate::results::document::Document;
use crate::results::sustained::{Sustained, written_per_request};
use crate::verdicts::kept::Kept;
use crate::verdicts::rounds::seed_of;
use crate::workloads::catalog::find;
use crate::workloads::distribution::Distribution;
use crate::workloads::workload::Workload;

/// Rounds, unless somebody says otherwise.
pub const ROUNDS: u16 = 3;

/// What the disk does, for estimates.
const DISK_BYTES_PER_SEC: f64 = 200e6;

/// Where the records are: a keyspace without a log, as in both papers no log was on the device.
const KEYSPACE: &str = "bench";

/// A row in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// What is run.
    pub row: Row,
    /// From 1.
    pub round: u16,
}

/// What a finished cell leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The row's id.
    pub row: String,
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
    /// What came out.
    pub document: Document,
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

    /// Where it is kept, below the directory of cells.
    pub fn file(&self) -> String {
        format!("schedules/{}-{}.json", self.row.id(), self.seed())
    }

    /// For people.
    pub fn title(&self) -> String {
        format!("{}, round {}", self.row.id(), self.round)
    }

    /// The settled store that it starts from: a setup's in a round, and another one for each strategy, as a tree that was
    /// settled by one is due by the next.
    pub fn store(&self) -> String {
        match self.row.strategy {
            STRATEGY => format!("{}-{}", self.row.setup.name, self.seed()),
            other => format!("{}-{other}-{}", self.row.setup.name, self.seed()),
        }
    }

    /// What fills and settles that store, on the disk as it is.
    pub fn filling(&self, divide: u64) -> Vec<String> {
        let mut words = vec!["bench".to_owned(), self.row.setup.filler.to_owned()];
        words.extend(self.common(divide, 1));
        words.extend(data(&self.row, divide));
        if self.row.setup.aging_ops > 0 {
            words.extend(["--ops".to_owned(), (self.row.setup.aging_ops / divide).max(1).to_string()]);
        }
        words
    }

    /// What empties the first level of an aged store; nothing for others.
    pub fn emptying(&self, divide: u64) -> Vec<String> {
        if self.row.setup.aging_ops == 0 {
            return Vec::new();
        }
        let mut words: Vec<String> = ["compact", "--level", "0"].map(str::to_owned).into();
        words.extend(self.store_words(divide, 1));
        words
    }

    /// What asks for it; `found` is what its probe found.
    pub fn arguments(&self, divide: u64, found: Option<Found>) -> Vec<String> {
        let row = &self.row;
        let mut words = vec!["bench".to_owned(), row.workload.to_owned()];
        words.extend(self.common(divide, row.memory));
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("--threads", row.threads(divide).to_string());
        flag("--seconds", row.seconds(divide).to_string());
        if row.setup.warm_seconds > 0 && find(row.workload).is_some_and(Workload::reads) {
            flag("--warm", row.setup.warm_seconds.to_string());
        }
        flag("--device", row.setup.device(divide).to_string());
        flag("--schedule", row.schedule(divide));
        // Both papers ask for records evenly, but for sysbench's transactions, the latest of YCSB D, and half of SILK's Figure 12.
        let evenly = |workload: &Workload| {
            !row.zipfian && workload.transaction.reads == 0 && workload.distribution != Distribution::Latest
        };
        if find(row.workload).is_some_and(evenly) {
            flag("--distribution", "uniform".to_owned());
        }
        if let Some(shape) = row.shape(found, divide, self.seed()) {
            flag("--shape", shape);
        }
        if !row.settles() {
            words.push("--no-settle".to_owned());
        }
        words
    }

    fn common(&self, divide: u64, memory: u64) -> Vec<String> {
        let mut words = self.store_words(divide, memory);
        words.extend(["--seed".to_owned(), self.seed().to_string()]);
        words
    }

    /// What every verb that opens the store says of it.
    fn store_words(&self, divide: u64, memory: u64) -> Vec<String> {
        let row = &self.row;
        let mut words: Vec<String> = ["--keyspace", KEYSPACE, "--sync", "no-wal", "--strategy", row.strategy]
            .map(str::to_owned)
            .into();
        for (name, value) in row.setup.options(divide, memory) {
            words.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        words
    }

    /// About how long it takes, in seconds, until cells of its kind have said better: the data are copied, and read before and after.
    pub fn estimate(&self, divide: u64) -> f64 {
        self.row.seconds(divide) * 1.2 + self.data_bytes(divide) / DISK_BYTES_PER_SEC + 5.0
    }

    /// The same of filling and settling the store that it starts from: what is written is merged a few times.
    pub fn filling_estimate(&self, divide: u64) -> f64 {
        const MERGED: f64 = 4.0;
        self.data_bytes(divide) * MERGED / DISK_BYTES_PER_SEC + 2.0
    }

    fn data_bytes(&self, divide: u64) -> f64 {
        let setup = self.row.setup;
        (setup.records(divide) * (setup.key_bytes + setup.value_mean)) as f64
    }
}

/// About how long all of these take, in seconds, each as `one` says, with the stores that they start from and that are not there: each is
/// filled once.
pub fn estimate(
    cells: &[Cell],
    divide: u64,
    one: impl Fn(&Cell) -> f64,
    is_there: impl Fn(&str) -> bool,
) -> f64 {
    let stores: BTreeMap<String, f64> =
        cells.iter().map(|cell| (cell.store(), cell.filling_estimate(divide))).collect();
    let missing = stores.iter().filter(|(store, _)| !is_there(store));
    cells.iter().map(one).sum::<f64>() + missing.map(|(_, seconds)| seconds).sum::<f64>()
}

/// The records, as the bench is told them.
fn data(row: &Row, divide: u64) -> Vec<String> {
    let setup = row.setup;
    let words = [
        ("--records", setup.records(divide).to_string()),
        ("--key-bytes", setup.key_bytes.to_string()),
        ("--value-bytes", setup.value_bytes.to_owned()),
    ];
    words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// What a probe says of the requests of its workload.
pub fn found(row: &Row, probe: &Document) -> Option<Found> {
    let per_request = per_request(row)?;
    let sustained = Sustained::of(probe, per_request)?;
    let sustained_ops_per_sec = if per_request > 0.0 { sustained.bytes_per_sec() / per_request } else { 0.0 };
    Some(Found { ops_per_sec: probe.throughput_ops_per_sec, sustained_ops_per_sec })
}

/// Bytes that a request of this row writes.
pub fn per_request(row: &Row) -> Option<f64> {
    let setup = row.setup;
    Some(written_per_request(find(row.workload)?, setup.key_bytes as usize, setup.value_mean as usize))
}

/// The cells of these studies in these rounds, each once, in the order in which they run: probes first, which are always the first
/// round's, so that all rounds have one rate.
pub fn plan(studies: &[&'static Study], rounds: RangeInclusive<u16>) -> Vec<Cell> {
    let rows = || studies.iter().flat_map(|study| (study.rows)());
    let mut cells: Vec<Cell> = Vec::new();
    let mut add = |cell: Cell| {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    };
    for row in rows().filter(|row| row.load != Load::Probe) {
        add(Cell { row: row.probe(), round: 1 });
    }
    for study in studies {
        for round in rounds.clone() {
            (study.rows)().into_iter().for_each(|row| add(Cell { row, round }));
        }
    }
    // One store at a time is on the disk.
    cells.sort_by_key(|cell| (cell.store(), cell.row.load != Load::Probe));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::SCHEDULES;

    /// What a load moves follows from these, and who goes as fast as it can leaves no work behind; a limiter would make the others last
    /// twice as long.
    #[test]
    fn what_moves_most_or_goes_fastest_is_waited_for() {
        for cell in plan(SCHEDULES, 1..=1) {
            let words = cell.arguments(1, None);
            let waits = !words.iter().any(|word| word == "--no-settle");
            let expected = cell.row.schedule == "unlimited" || cell.row.load == Load::Probe;
            assert_eq!(waits, expected, "{}", cell.title());
        }
    }
}
