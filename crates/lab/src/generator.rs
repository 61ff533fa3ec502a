//! Turns a workload into operations: one generator per thread, drawn ahead of time in small batches.
//!
//! Drawing a batch before executing it keeps the cost of hashing and of powers out of the measured latencies, while one
//! look at the clock per operation stays enough. Records inserted by several threads are counted like YCSB does: a record
//! may be chosen for reading once it and all before it are acknowledged.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::distribution::{Chooser, Distribution};
use crate::keys::Keys;
use crate::random::Random;
use crate::values::Values;
use crate::workload::{OpKind, ScanLength, Workload};

/// Operations are drawn this many at a time.
pub const BATCH: u64 = 64;

/// One operation, ready to go. The key's buffer is reused.
#[derive(Clone, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// To which key.
    pub key: Vec<u8>,
    /// The record's number.
    pub record: u64,
    /// Where in [`Values`] the value starts.
    pub value_at: u32,
    /// How many records a scan reads.
    pub entries: u64,
}

impl Op {
    /// A place to draw into.
    pub fn empty() -> Op {
        Op { kind: OpKind::Read, key: Vec::new(), record: 0, value_at: 0, entries: 0 }
    }
}

/// Which records exist: shared by all threads of a run.
#[derive(Debug)]
pub struct Records {
    next: AtomicU64,
    acknowledged: AtomicU64,
    /// Acknowledged out of order: all above `acknowledged`.
    early: Mutex<BTreeSet<u64>>,
}

impl Records {
    /// Records `0..count` exist.
    pub fn new(count: u64) -> Records {
        Records { next: count.into(), acknowledged: count.into(), early: Mutex::default() }
    }

    /// The number of a record to insert.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// How many numbers have been taken.
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Record `number` is in the store.
    pub fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = self.acknowledged.load(Ordering::Relaxed);
        if number != count {
            early.insert(number);
            return;
        }
        count += 1;
        while early.first() == Some(&count) {
            early.pop_first();
            count += 1;
        }
        // Release pairs with the reader's acquire: who sees the count may read what was written before it.
        self.acknowledged.store(count, Ordering::Release);
    }

    /// Records `0..count()` are in the store.
    pub fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// What all generators of a run share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// What is drawn.
    pub workload: &'a Workload,
    /// The keys.
    pub keys: &'a Keys,
    /// The values.
    pub values: &'a Values,
    /// The records.
    pub records: &'a Records,
    /// Which records are chosen.
    pub distribution: Distribution,
    /// About how many records the run inserts.
    pub inserts: u64,
    /// The run's seed.
    pub seed: u64,
}

/// Draws the operations of one thread.
#[derive(Debug)]
pub struct Generator<'a> {
    shared: &'a Shared<'a>,
    chooser: Chooser,
    random: Random,
    value_at: u32,
}

impl<'a> Generator<'a> {
    /// The generator of thread number `thread`.
    pub fn new(shared: &'a Shared<'a>, thread: usize) -> Generator<'a> {
        let mut random = Random::for_thread(shared.seed, thread);
        let chooser = Chooser::new(shared.distribution, shared.records.count(), shared.inserts);
        let value_at = shared.values.draw(&mut random);
        Generator { shared, chooser, random, value_at }
    }

    /// Draws operation number `n` of the run, whichever thread asks: what it is follows from the seed and `n`, but for the
    /// records that exist by then.
    pub fn draw_nth(&mut self, n: u64, op: &mut Op) {
        self.random = Random::for_thread(self.shared.seed, n as usize);
        self.value_at = self.shared.values.draw(&mut self.random);
        self.draw_one(op);
    }

    /// Draws `count` operations into `ops`.
    pub fn draw(&mut self, count: u64, ops: &mut Vec<Op>) {
        let count = count as usize;
        ops.truncate(count);
        while ops.len() < count {
            ops.push(Op::empty());
        }
        for op in ops {
            self.draw_one(op);
        }
    }

    fn draw_one(&mut self, op: &mut Op) {
        let shared = self.shared;
        op.kind = self.draw_kind();
        op.record = match op.kind {
            OpKind::Insert => shared.records.take(),
            _ => self.chooser.draw(&mut self.random, shared.records.count()),
        };
        if shared.workload.missing && op.kind == OpKind::Read {
            shared.keys.missing(op.record, &mut op.key);
        } else {
            shared.keys.present(op.record, &mut op.key);
        }
        match op.kind {
            OpKind::Update | OpKind::Insert | OpKind::ReadModifyWrite => {
                self.value_at = shared.values.after(self.value_at);
                op.value_at = self.value_at;
            }
            OpKind::Scan => {
                op.entries = match shared.workload.scan {
                    ScanLength::Fixed(n) => n,
                    ScanLength::UpTo(n) => 1 + self.random.below(n),
                };
            }
            OpKind::Read => {}
        }
    }

    fn draw_kind(&mut self) -> OpKind {
        let mix = self.shared.workload.mix;
        if let [(only, _)] = mix {
            return *only;
        }
        let mut left = self.random.below(100);
        for &(kind, share) in mix {
            if left < share {
                return kind;
            }
            left -= share;
        }
        OpKind::Read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyOrder;
    use crate::workload;

    fn count_kinds(name: &str, draws: u64) -> [u64; 5] {
        let keys = Keys::new(16, KeyOrder::Random, 1, 1000).unwrap();
        let values = Values::new(10, 1);
        let records = Records::new(1000);
        let workload = workload::find(name).unwrap();
        let shared = Shared {
            workload,
            keys: &keys,
            values: &values,
            records: &records,
            distribution: workload.distribution,
            inserts: draws / 20,
            seed: 7,
        };
        let mut generator = Generator::new(&shared, 0);
        let mut ops = Vec::new();
        let mut kinds = [0; 5];
        for _ in 0..draws / BATCH {
            generator.draw(BATCH, &mut ops);
            for op in &ops {
                kinds[op.kind.index()] += 1;
                assert!(op.kind != OpKind::Scan || (1..=100).contains(&op.entries));
                if op.kind == OpKind::Insert {
                    records.acknowledge(op.record);
                }
            }
        }
        kinds
    }

    #[test]
    fn mixes_are_what_the_table_says() {
        let draws = 64_000;
        for (name, kind, share) in [
            ("ycsb-a", OpKind::Read, 0.5),
            ("ycsb-b", OpKind::Update, 0.05),
            ("ycsb-c", OpKind::Read, 1.0),
            ("ycsb-d", OpKind::Insert, 0.05),
            ("ycsb-e", OpKind::Scan, 0.95),
            ("ycsb-f", OpKind::ReadModifyWrite, 0.5),
        ] {
            let seen = count_kinds(name, draws)[kind.index()] as f64 / draws as f64;
            assert!((seen - share).abs() < 0.01, "{name}: {seen} for {share}");
        }
    }

    #[test]
    fn records_count_once_all_before_them_are_there() {
        let records = Records::new(10);
        let taken: Vec<u64> = (0..4).map(|_| records.take()).collect();
        assert_eq!(taken, [10, 11, 12, 13]);
        records.acknowledge(12);
        records.acknowledge(11);
        assert_eq!(records.count(), 10);
        records.acknowledge(10);
        assert_eq!(records.count(), 13);
        assert_eq!(records.taken(), 14);
    }
}
