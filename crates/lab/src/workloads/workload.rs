//! What a workload is: a mix of operations over records, drawn by a distribution, as plain data.
//!
//! Those that fill start empty and insert each record once; the others find the records there. Nothing in the lab asks for
//! a workload's name. The table of those that have one is in `catalog.rs`; a property file gives others.

use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::values::ValueSizes;

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
    /// Deletes a record.
    Delete,
    /// Deletes all records between two keys.
    DeleteRange,
    /// Seeks a record and reads on from there, downward.
    ScanDown,
    /// Reads and scans, then makes several changes at once: [`Transaction`].
    Transaction,
}

impl OpKind {
    /// All of them; [`OpKind::index`] is the place in here.
    pub const ALL: [OpKind; 9] = [
        OpKind::Read,
        OpKind::Update,
        OpKind::Insert,
        OpKind::Scan,
        OpKind::ReadModifyWrite,
        OpKind::Delete,
        OpKind::DeleteRange,
        OpKind::ScanDown,
        OpKind::Transaction,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Update => "update",
            OpKind::Insert => "insert",
            OpKind::Scan => "scan",
            OpKind::ReadModifyWrite => "rmw",
            OpKind::Delete => "delete",
            OpKind::DeleteRange => "delete_range",
            OpKind::ScanDown => "scan_down",
            OpKind::Transaction => "transaction",
        }
    }

    /// A small number for arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The share of each operation: weights, of which only the proportions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix([u64; OpKind::ALL.len()]);

impl Mix {
    /// The mix of these weights.
    pub const fn of(weights: &[(OpKind, u64)]) -> Mix {
        let mut mix = [0; OpKind::ALL.len()];
        let mut i = 0;
        while i < weights.len() {
            mix[weights[i].0.index()] += weights[i].1;
            i += 1;
        }
        Mix(mix)
    }

    /// One kind only.
    pub const fn only(kind: OpKind) -> Mix {
        Mix::of(&[(kind, 1)])
    }

    /// The weight of a kind.
    pub fn weight(&self, kind: OpKind) -> u64 {
        self.0[kind.index()]
    }

    /// The weights of all kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// True if there are operations of this kind.
    pub fn has(&self, kind: OpKind) -> bool {
        self.weight(kind) > 0
    }

    /// True if there are operations of this kind and of no other.
    pub fn is_only(&self, kind: OpKind) -> bool {
        self.has(kind) && self.weight(kind) == self.total()
    }

    /// The kind on which a number below [`Mix::total`] falls.
    pub fn at(&self, mut left: u64) -> OpKind {
        for kind in OpKind::ALL {
            match left.checked_sub(self.weight(kind)) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        OpKind::Read
    }
}

/// How many records a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLength {
    /// Always this many.
    Fixed(u64),
    /// From `min` to `max`, all as likely.
    Uniform {
        /// The fewest.
        min: u64,
        /// The most.
        max: u64,
    },
    /// From `min` to `max`, the fewer the likelier, as YCSB draws it.
    Zipfian {
        /// The fewest.
        min: u64,
        /// The most.
        max: u64,
    },
}

/// What one transaction does, in this order; its writes are one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Records that it reads.
    pub reads: u64,
    /// Scans, each as long as the workload says.
    pub scans: u64,
    /// Records that it overwrites.
    pub updates: u64,
    /// Records that it deletes and inserts again, as sysbench does.
    pub replaces: u64,
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
    /// When as many records had their turn as there are.
    OnePass,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// The name that people type.
    pub name: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    /// The share of each operation.
    pub mix: Mix,
    /// Which records are chosen.
    pub distribution: Distribution,
    /// How many of a hundred reads ask for keys that no record has.
    pub missing: u64,
    /// How far scans go.
    pub scan: ScanLength,
    /// How many records a range delete covers, about.
    pub delete_range: u64,
    /// What a transaction does.
    pub transaction: Transaction,
    /// One more thread overwrites records for as long as the others run.
    pub writer: bool,
    /// How the keys of records inserted one after the other lie.
    pub order: KeyOrder,
    /// How many records there are, unless somebody says otherwise.
    pub records: u64,
    /// How long their values are, unless somebody says otherwise.
    pub value_bytes: ValueSizes,
    /// When it ends.
    pub limit: Limit,
}

impl Workload {
    /// True if it starts with an empty store and inserts each record once.
    pub fn fills(&self) -> bool {
        self.limit == Limit::AllInserted
    }

    /// True if records may be gone afterwards.
    pub fn deletes(&self) -> bool {
        self.mix.has(OpKind::Delete) || self.mix.has(OpKind::DeleteRange)
    }

    /// True if it does something in the order of the keys, so that a store of another order gives another workload.
    pub fn needs_order(&self) -> bool {
        self.fills() || (self.distribution == Distribution::Sequential && self.deletes())
    }

    /// True if it reads anything.
    pub fn reads(&self) -> bool {
        use OpKind::{Read, ReadModifyWrite, Scan, ScanDown, Transaction};
        [Read, ReadModifyWrite, Scan, ScanDown, Transaction].iter().any(|kind| self.mix.has(*kind))
    }

    /// The same without what it writes.
    pub fn reads_alone(&self) -> Workload {
        use OpKind::{Read, ReadModifyWrite, Scan, ScanDown, Transaction as Several};
        let of = |kind| self.mix.weight(kind);
        let mix = Mix::of(&[
            (Read, of(Read) + of(ReadModifyWrite)),
            (Scan, of(Scan)),
            (ScanDown, of(ScanDown)),
            (Several, of(Several)),
        ]);
        let transaction = Transaction { updates: 0, replaces: 0, ..self.transaction };
        Workload { mix, transaction, writer: false, ..*self }
    }

    /// About how many of so many operations insert a record.
    pub fn inserts(&self, ops: u64) -> u64 {
        let (weight, total) = (self.mix.weight(OpKind::Insert), self.mix.total().max(1));
        (u128::from(ops) * u128::from(weight) / u128::from(total)) as u64
    }

    /// How many operations give each of `records` records its turn.
    pub fn one_pass(&self, records: u64) -> u64 {
        let scans = self.mix.is_only(OpKind::Scan) || self.mix.is_only(OpKind::ScanDown);
        match self.scan {
            ScanLength::Fixed(length) if scans => records.div_ceil(length.max(1)),
            _ => records,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_falls_as_its_weights_say() {
        let mix = Mix::of(&[(OpKind::Scan, 2), (OpKind::Read, 1), (OpKind::Delete, 1)]);
        assert_eq!(mix.total(), 4);
        let kinds = [0, 1, 2, 3].map(|left| mix.at(left));
        assert_eq!(kinds, [OpKind::Read, OpKind::Scan, OpKind::Scan, OpKind::Delete]);
        assert!(Mix::only(OpKind::Delete).is_only(OpKind::Delete) && !mix.is_only(OpKind::Scan));
        for (i, kind) in OpKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i);
        }
    }

    #[test]
    fn what_a_workload_reads_is_left_without_its_writes() {
        let reads = |name: &str| crate::workloads::catalog::find(name).unwrap().reads_alone();
        let oltp = reads("oltp");
        assert!(oltp.mix.is_only(OpKind::Transaction) && oltp.transaction.reads == 10);
        assert_eq!((oltp.transaction.scans, oltp.transaction.updates, oltp.transaction.replaces), (4, 0, 0));
        assert!(reads("ycsb-f").mix.is_only(OpKind::Read));
        assert!(reads("seekrandomwhilewriting").reads() && !reads("seekrandomwhilewriting").writer);
        assert!(!reads("fillrandom").reads());
    }
}
