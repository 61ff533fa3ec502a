//! The workloads, as one table of plain data: what `keel bench` can run, with its defaults.
//!
//! A workload is a mix of operations over records, drawn by a distribution. Those that fill start empty and insert each
//! record once; the others find the records there. Nothing in the lab asks for a workload's name.

use crate::distribution::Distribution;
use crate::keys::KeyOrder;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// Reads a record.
    Read,
    /// Overwrites a record.
    Update,
    /// Writes a record that was not there.
    Insert,
    /// Seeks a record and reads on from there.
    Scan,
    /// Reads a record, then overwrites it.
    ReadModifyWrite,
}

impl OpKind {
    /// All of them; [`OpKind::index`] is the place in here.
    pub const ALL: [OpKind; 5] =
        [OpKind::Read, OpKind::Update, OpKind::Insert, OpKind::Scan, OpKind::ReadModifyWrite];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Update => "update",
            OpKind::Insert => "insert",
            OpKind::Scan => "scan",
            OpKind::ReadModifyWrite => "rmw",
        }
    }

    /// A small number for arrays.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// How many records a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLength {
    /// Always this many.
    Fixed(u64),
    /// From one to this many, all as likely.
    UpTo(u64),
}

/// When a workload is over, unless somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// After this many operations.
    Ops(u64),
    /// After this many seconds.
    Seconds(f64),
    /// When every record is inserted.
    AllInserted,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// The name that people type.
    pub name: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    /// The share of each operation in percent; 100 in all.
    pub mix: &'static [(OpKind, u64)],
    /// Which records are chosen.
    pub distribution: Distribution,
    /// Reads ask for keys that no record has.
    pub missing: bool,
    /// How far scans go.
    pub scan: ScanLength,
    /// One more thread overwrites records for as long as the others run.
    pub writer: bool,
    /// How the keys of records inserted one after the other lie.
    pub order: KeyOrder,
    /// How many records there are, unless somebody says otherwise.
    pub records: u64,
    /// How long their values are, unless somebody says otherwise.
    pub value_bytes: usize,
    /// When it ends.
    pub limit: Limit,
}

impl Workload {
    /// True if it starts with an empty store and inserts each record once.
    pub fn fills(&self) -> bool {
        self.limit == Limit::AllInserted
    }

    /// The share of an operation in percent.
    pub fn share(&self, kind: OpKind) -> u64 {
        self.mix.iter().filter(|(k, _)| *k == kind).map(|(_, share)| share).sum()
    }

    /// True if it reads anything.
    pub fn reads(&self) -> bool {
        self.mix.iter().any(|(kind, _)| !matches!(kind, OpKind::Update | OpKind::Insert))
    }
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    CATALOG.iter().find(|w| w.name == name)
}

/// What the classic single-purpose workloads have in common: a million records of 16 + 100 bytes.
const CLASSIC: Workload = Workload {
    name: "",
    what: "",
    mix: &[],
    distribution: Distribution::Uniform,
    missing: false,
    scan: ScanLength::Fixed(50),
    writer: false,
    order: KeyOrder::Random,
    records: 1_000_000,
    value_bytes: 100,
    limit: Limit::Ops(1_000_000),
};

/// What YCSB's core workloads have in common: values of ten fields of 100 bytes, kept as one.
const YCSB: Workload = Workload {
    distribution: Distribution::Zipfian,
    scan: ScanLength::UpTo(100),
    records: 100_000,
    value_bytes: 1000,
    limit: Limit::Seconds(10.0),
    ..CLASSIC
};

/// All workloads.
pub const CATALOG: &[Workload] = &[
    Workload {
        name: "fillseq",
        what: "insert the records in key order",
        mix: &[(OpKind::Insert, 100)],
        order: KeyOrder::Sequential,
        limit: Limit::AllInserted,
        ..CLASSIC
    },
    Workload {
        name: "fillrandom",
        what: "insert the records in random order, each once",
        mix: &[(OpKind::Insert, 100)],
        limit: Limit::AllInserted,
        ..CLASSIC
    },
    Workload {
        name: "overwrite",
        what: "overwrite records at random",
        mix: &[(OpKind::Update, 100)],
        ..CLASSIC
    },
    Workload { name: "readrandom", what: "read records at random", mix: &[(OpKind::Read, 100)], ..CLASSIC },
    Workload {
        name: "readmissing",
        what: "read keys that are not there, between those that are",
        mix: &[(OpKind::Read, 100)],
        missing: true,
        ..CLASSIC
    },
    Workload {
        name: "seekrandom",
        what: "seek a record at random and read on, 50 records in all",
        mix: &[(OpKind::Scan, 100)],
        limit: Limit::Ops(100_000),
        ..CLASSIC
    },
    Workload {
        name: "readwhilewriting",
        what: "read records at random while one more thread overwrites",
        mix: &[(OpKind::Read, 100)],
        writer: true,
        limit: Limit::Seconds(10.0),
        ..CLASSIC
    },
    Workload {
        name: "ycsb-a",
        what: "half reads, half updates",
        mix: &[(OpKind::Read, 50), (OpKind::Update, 50)],
        ..YCSB
    },
    Workload {
        name: "ycsb-b",
        what: "95 % reads, 5 % updates",
        mix: &[(OpKind::Read, 95), (OpKind::Update, 5)],
        ..YCSB
    },
    Workload { name: "ycsb-c", what: "reads only", mix: &[(OpKind::Read, 100)], ..YCSB },
    Workload {
        name: "ycsb-d",
        what: "95 % reads of the latest records, 5 % inserts",
        mix: &[(OpKind::Read, 95), (OpKind::Insert, 5)],
        distribution: Distribution::Latest,
        ..YCSB
    },
    Workload {
        name: "ycsb-e",
        what: "95 % scans of 1 to 100 records, 5 % inserts",
        mix: &[(OpKind::Scan, 95), (OpKind::Insert, 5)],
        ..YCSB
    },
    Workload {
        name: "ycsb-f",
        what: "half reads, half read-modify-writes",
        mix: &[(OpKind::Read, 50), (OpKind::ReadModifyWrite, 50)],
        ..YCSB
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for (i, w) in CATALOG.iter().enumerate() {
            assert_eq!(w.mix.iter().map(|(_, share)| share).sum::<u64>(), 100, "{}", w.name);
            assert!(!w.what.is_empty() && w.records > 0, "{}", w.name);
            assert_eq!(CATALOG.iter().position(|o| o.name == w.name), Some(i), "{} twice", w.name);
            assert_eq!(w.fills(), w.share(OpKind::Insert) == 100, "{}", w.name);
            assert_eq!(find(w.name), Some(w));
        }
        assert_eq!(find("fillnothing"), None);
        for (i, kind) in OpKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i);
        }
    }
}
