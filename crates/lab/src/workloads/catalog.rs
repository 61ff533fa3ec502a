//! The workloads that have a name, as one table of plain data: what `keel bench` can run, with its defaults.
//!
//! `docs/workloads.md` is this table for people, with where each comes from; a test compares.

use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::values::ValueSizes;
use crate::workloads::workload::{Limit, Mix, OpKind, ScanLength, Transaction, Workload};

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    CATALOG.iter().find(|w| w.name == name)
}

/// The workload that writes records before another one is measured: the first one that fills in that order.
pub fn filler(order: KeyOrder) -> &'static Workload {
    CATALOG.iter().find(|w| w.fills() && w.order == order).unwrap_or(&CATALOG[0])
}

/// What `db_bench`'s workloads have in common: a million records of 16 + 100 bytes.
const CLASSIC: Workload = Workload {
    name: "",
    what: "",
    mix: Mix::of(&[]),
    distribution: Distribution::Uniform,
    missing: 0,
    scan: ScanLength::Fixed(50),
    delete_range: 0,
    transaction: Transaction { reads: 0, scans: 0, updates: 0, replaces: 0 },
    writer: false,
    order: KeyOrder::Random,
    records: 1_000_000,
    value_bytes: ValueSizes::Fixed(100),
    limit: Limit::Ops(1_000_000),
};

/// What YCSB's core workloads have in common: values of ten fields of 100 bytes, kept as one.
pub const YCSB: Workload = Workload {
    distribution: Distribution::Zipfian,
    scan: ScanLength::Uniform { min: 1, max: 100 },
    records: 100_000,
    value_bytes: ValueSizes::Fixed(1000),
    limit: Limit::Seconds(10.0),
    ..CLASSIC
};

/// sysbench's table: rows of 4 + 120 + 60 bytes by ascending id, scanned a hundred at a time.
const OLTP: Workload = Workload {
    mix: Mix::only(OpKind::Transaction),
    distribution: Distribution::Special { records: 0.01, operations: 0.75 },
    scan: ScanLength::Fixed(100),
    order: KeyOrder::Sequential,
    value_bytes: ValueSizes::Fixed(184),
    limit: Limit::Seconds(10.0),
    ..CLASSIC
};

/// All workloads.
pub const CATALOG: &[Workload] = &[
    Workload {
        name: "fillseq",
        what: "insert the records in key order",
        mix: Mix::only(OpKind::Insert),
        order: KeyOrder::Sequential,
        limit: Limit::AllInserted,
        ..CLASSIC
    },
    Workload {
        name: "fillrandom",
        what: "insert the records in random order, each once",
        mix: Mix::only(OpKind::Insert),
        limit: Limit::AllInserted,
        ..CLASSIC
    },
    Workload {
        name: "overwrite",
        what: "overwrite records at random",
        mix: Mix::only(OpKind::Update),
        ..CLASSIC
    },
    Workload {
        name: "updaterandom",
        what: "read records at random and overwrite them",
        mix: Mix::only(OpKind::ReadModifyWrite),
        ..CLASSIC
    },
    Workload {
        name: "deleteseq",
        what: "delete the records in key order, each once",
        mix: Mix::only(OpKind::Delete),
        distribution: Distribution::Sequential,
        order: KeyOrder::Sequential,
        limit: Limit::OnePass,
        ..CLASSIC
    },
    Workload {
        name: "deleterandom",
        what: "delete the records in random order, each once",
        mix: Mix::only(OpKind::Delete),
        distribution: Distribution::Sequential,
        limit: Limit::OnePass,
        ..CLASSIC
    },
    Workload { name: "readrandom", what: "read records at random", mix: Mix::only(OpKind::Read), ..CLASSIC },
    Workload {
        name: "readmissing",
        what: "read keys that are not there, between those that are",
        mix: Mix::only(OpKind::Read),
        missing: 100,
        ..CLASSIC
    },
    Workload {
        name: "readhot",
        what: "read records at random among one in a hundred",
        mix: Mix::only(OpKind::Read),
        distribution: Distribution::Hotspot { records: 0.01, operations: 1.0 },
        ..CLASSIC
    },
    Workload {
        name: "readseq",
        what: "read all records in key order, 1000 an operation",
        mix: Mix::only(OpKind::Scan),
        distribution: Distribution::Sequential,
        scan: ScanLength::Fixed(1000),
        limit: Limit::OnePass,
        ..CLASSIC
    },
    Workload {
        name: "readreverse",
        what: "read all records against key order, 1000 an operation",
        mix: Mix::only(OpKind::ScanDown),
        distribution: Distribution::Sequential,
        scan: ScanLength::Fixed(1000),
        limit: Limit::OnePass,
        ..CLASSIC
    },
    Workload {
        name: "seekrandom",
        what: "seek a record at random and read on, 50 records in all",
        mix: Mix::only(OpKind::Scan),
        limit: Limit::Ops(100_000),
        ..CLASSIC
    },
    Workload {
        name: "readwhilewriting",
        what: "read records at random while one more thread overwrites",
        mix: Mix::only(OpKind::Read),
        writer: true,
        limit: Limit::Seconds(10.0),
        ..CLASSIC
    },
    Workload {
        name: "seekrandomwhilewriting",
        what: "seek and read on, 50 records in all, while one more thread overwrites",
        mix: Mix::only(OpKind::Scan),
        writer: true,
        limit: Limit::Seconds(10.0),
        ..CLASSIC
    },
    Workload {
        name: "readrandomwriterandom",
        what: "90 % reads, 10 % overwrites, at random",
        mix: Mix::of(&[(OpKind::Read, 90), (OpKind::Update, 10)]),
        ..CLASSIC
    },
    Workload {
        name: "ycsb-a",
        what: "half reads, half updates",
        mix: Mix::of(&[(OpKind::Read, 50), (OpKind::Update, 50)]),
        ..YCSB
    },
    Workload {
        name: "ycsb-b",
        what: "95 % reads, 5 % updates",
        mix: Mix::of(&[(OpKind::Read, 95), (OpKind::Update, 5)]),
        ..YCSB
    },
    Workload { name: "ycsb-c", what: "reads only", mix: Mix::only(OpKind::Read), ..YCSB },
    Workload {
        name: "ycsb-d",
        what: "95 % reads of the latest records, 5 % inserts",
        mix: Mix::of(&[(OpKind::Read, 95), (OpKind::Insert, 5)]),
        distribution: Distribution::Latest,
        ..YCSB
    },
    Workload {
        name: "ycsb-e",
        what: "95 % scans of 1 to 100 records, 5 % inserts",
        mix: Mix::of(&[(OpKind::Scan, 95), (OpKind::Insert, 5)]),
        ..YCSB
    },
    Workload {
        name: "ycsb-f",
        what: "half reads, half read-modify-writes",
        mix: Mix::of(&[(OpKind::Read, 50), (OpKind::ReadModifyWrite, 50)]),
        ..YCSB
    },
    Workload {
        name: "nutanix",
        what: "57 % updates, 41 % reads, 2 % scans; values of 250 to 1024 bytes, half of them below 400",
        mix: Mix::of(&[(OpKind::Update, 57), (OpKind::Read, 41), (OpKind::Scan, 2)]),
        scan: ScanLength::Uniform { min: 10, max: 100 },
        value_bytes: ValueSizes::Halves { min: 250, median: 400, max: 1024 },
        limit: Limit::Seconds(10.0),
        ..CLASSIC
    },
    Workload {
        name: "oltp",
        what: "transactions of 10 reads, 4 scans of 100, 2 updates, and a delete with an insert",
        transaction: Transaction { reads: 10, scans: 4, updates: 2, replaces: 1 },
        ..OLTP
    },
    Workload {
        name: "oltp-5-5",
        what: "transactions of 10 reads, and 5 deletes with 5 inserts",
        transaction: Transaction { reads: 10, scans: 0, updates: 0, replaces: 5 },
        ..OLTP
    },
    Workload {
        name: "oltp-1-9",
        what: "transactions of 2 reads, and 9 deletes with 9 inserts",
        transaction: Transaction { reads: 2, scans: 0, updates: 0, replaces: 9 },
        ..OLTP
    },
    Workload {
        name: "oltp-9-1",
        what: "transactions of 18 reads, and a delete with an insert",
        transaction: Transaction { reads: 18, scans: 0, updates: 0, replaces: 1 },
        ..OLTP
    },
    Workload {
        name: "oltp-writes",
        what: "transactions of 2 updates, and a delete with an insert",
        transaction: Transaction { reads: 0, scans: 0, updates: 2, replaces: 1 },
        ..OLTP
    },
    Workload {
        name: "cds",
        what: "55 % inserts, 15 % updates, 20 % reads (half of missing keys), 7 % deletes, 1 % range deletes, 2 % scans",
        mix: Mix::of(&[
            (OpKind::Insert, 55),
            (OpKind::Update, 15),
            (OpKind::Read, 20),
            (OpKind::Delete, 7),
            (OpKind::DeleteRange, 1),
            (OpKind::Scan, 2),
        ]),
        missing: 50,
        scan: ScanLength::Fixed(100),
        delete_range: 5,
        value_bytes: ValueSizes::Fixed(112),
        ..CLASSIC
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for (i, w) in CATALOG.iter().enumerate() {
            assert!(w.mix.total() == 1 || w.mix.total() == 100, "{}", w.name);
            assert!(!w.what.is_empty() && w.records > 0 && w.missing <= 100, "{}", w.name);
            assert_eq!(CATALOG.iter().position(|o| o.name == w.name), Some(i), "{} twice", w.name);
            assert_eq!(w.fills(), w.mix.is_only(OpKind::Insert), "{}", w.name);
            assert_eq!(w.mix.has(OpKind::Transaction), w.transaction != Transaction::default(), "{}", w.name);
            assert_eq!(w.mix.has(OpKind::DeleteRange), w.delete_range > 0, "{}", w.name);
            assert_eq!(find(w.name), Some(w));
        }
        assert_eq!(find("fillnothing"), None);
    }

    /// Every read and every write of the variants of `oltp` counts, and there are twenty in a transaction.
    #[test]
    fn the_variants_of_oltp_have_the_ratio_of_their_name() {
        for (name, reads, writes) in [("oltp-5-5", 10, 10), ("oltp-1-9", 2, 18), ("oltp-9-1", 18, 2)] {
            let parts = find(name).unwrap().transaction;
            assert_eq!((parts.reads, 2 * parts.replaces), (reads, writes), "{name}");
        }
        let parts = find("oltp").unwrap().transaction;
        assert_eq!([parts.reads, parts.scans, parts.updates, parts.replaces], [10, 4, 2, 1]);
    }

    #[test]
    fn every_row_is_documented() {
        let documentation = include_str!("../../../../docs/workloads.md");
        for w in CATALOG {
            let row = format!("| `{}` | {} |", w.name, w.what);
            assert!(documentation.contains(&row), "docs/workloads.md lacks: {row}");
        }
        for (name, _) in Distribution::ALL {
            assert!(documentation.contains(&format!("| `{name}` |")), "docs/workloads.md lacks `{name}`");
        }
        for kind in OpKind::ALL {
            assert!(documentation.contains(&format!("`{}`", kind.name())), "lacks `{}`", kind.name());
        }
    }
}
