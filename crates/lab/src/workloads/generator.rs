//! Turns a workload into operations: one generator per thread, drawn ahead of time in small batches.
//!
//! Drawing a batch before executing it keeps the cost of hashing and of powers out of the measured latencies, while one
//! look at the clock per operation stays enough.

use crate::base::random::Random;
use crate::workloads::distribution::{Chooser, Distribution};
use crate::workloads::keys::Keys;
use crate::workloads::records::Records;
use crate::workloads::values::{ValueAt, Values};
use crate::workloads::workload::{OpKind, ScanLength, Workload};
use crate::workloads::zipfian::Zipfian;

/// Operations are drawn this many at a time.
pub const BATCH: u64 = 64;
/// A record that is being deleted is drawn again, so often at most.
const REDRAWS: usize = 64;

/// What a read should find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The record, unless it is deleted meanwhile.
    Present,
    /// Nothing.
    Absent,
    /// Nobody can say.
    Unknown,
}

/// One operation, ready to go. Its buffers are reused.
#[derive(Clone, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// To which key.
    pub key: Vec<u8>,
    /// The first key that a range delete leaves.
    pub end: Vec<u8>,
    /// The record's number.
    pub record: u64,
    /// The value to write.
    pub value: ValueAt,
    /// How many records a scan reads.
    pub entries: u64,
    /// What a read should find.
    pub expected: Expected,
    /// What a transaction does, in order: reads, scans, updates, and inserts, each of which first deletes the same record.
    pub parts: Vec<Op>,
}

impl Op {
    /// A place to draw into.
    pub fn empty() -> Op {
        Op {
            kind: OpKind::Read,
            key: Vec::new(),
            end: Vec::new(),
            record: 0,
            value: ValueAt::default(),
            entries: 0,
            expected: Expected::Unknown,
            parts: Vec::new(),
        }
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
    chooser: Chooser<'a>,
    /// The kind of all operations, where there is only one.
    only: Option<OpKind>,
    /// Draws how far scans go, where that is [`ScanLength::Zipfian`].
    lengths: Option<Zipfian>,
    random: Random,
    value: ValueAt,
}

impl<'a> Generator<'a> {
    /// The generator of thread number `thread`.
    pub fn new(shared: &'a Shared<'a>, thread: usize) -> Generator<'a> {
        let mut random = Random::for_thread(shared.seed, thread);
        let records = shared.records;
        let chooser = Chooser::new(shared.distribution, records.count(), shared.inserts, records.turns());
        let lengths = match shared.workload.scan {
            ScanLength::Zipfian { min, max } => Some(Zipfian::new(max - min + 1)),
            _ => None,
        };
        let only = OpKind::ALL.into_iter().find(|kind| shared.workload.mix.is_only(*kind));
        let value = shared.values.draw(&mut random);
        Generator { shared, chooser, only, lengths, random, value }
    }

    /// Draws operation number `n` of the run, whichever thread asks: what it is follows from the seed and `n`, but for the
    /// records that exist by then, and for whose turn it is where records are taken in turn.
    pub fn draw_nth(&mut self, n: u64, op: &mut Op) {
        self.random = Random::for_thread(self.shared.seed, n as usize);
        self.value = self.shared.values.draw(&mut self.random);
        let kind = self.draw_kind();
        self.draw_one(kind, op);
    }

    /// Draws `count` operations into `ops`.
    pub fn draw(&mut self, count: u64, ops: &mut Vec<Op>) {
        ops.resize_with(count as usize, Op::empty);
        for op in ops {
            let kind = self.draw_kind();
            self.draw_one(kind, op);
        }
    }

    fn draw_kind(&mut self) -> OpKind {
        let mix = &self.shared.workload.mix;
        self.only.unwrap_or_else(|| mix.at(self.random.below(mix.total())))
    }

    fn draw_one(&mut self, kind: OpKind, op: &mut Op) {
        let shared = self.shared;
        op.kind = kind;
        op.expected = if shared.workload.delete_range > 0 { Expected::Unknown } else { Expected::Present };
        match kind {
            OpKind::Insert => op.record = shared.records.take(),
            OpKind::Transaction => return self.draw_parts(op),
            _ => op.record = self.choose(kind),
        }
        shared.keys.present(op.record, &mut op.key);
        match kind {
            OpKind::Read => {
                if self.is_for_a_missing_key() {
                    shared.keys.missing(op.record, &mut op.key);
                    op.expected = Expected::Absent;
                }
            }
            OpKind::Update | OpKind::Insert | OpKind::ReadModifyWrite => self.draw_value(op),
            OpKind::Scan | OpKind::ScanDown => self.draw_scan(op),
            OpKind::DeleteRange => {
                let count = shared.records.count();
                shared.keys.above(op.record, shared.workload.delete_range, count, &mut op.end);
            }
            OpKind::Delete | OpKind::Transaction => {}
        }
    }

    /// A record that is there. One to be deleted is nobody else's any more.
    fn choose(&mut self, kind: OpKind) -> u64 {
        let records = self.shared.records;
        let mut record = 0;
        for _ in 0..REDRAWS {
            record = self.chooser.draw(&mut self.random, records.count());
            let taken = match kind {
                OpKind::Delete => records.doom(record),
                _ => !records.doomed(record),
            };
            if taken || matches!(self.chooser, Chooser::Sequential(_)) {
                break;
            }
        }
        record
    }

    fn is_for_a_missing_key(&mut self) -> bool {
        match self.shared.workload.missing {
            0 => false,
            100.. => true,
            share => self.random.below(100) < share,
        }
    }

    fn draw_value(&mut self, op: &mut Op) {
        self.value = self.shared.values.after(self.value, &mut self.random);
        op.value = self.value;
    }

    fn draw_scan(&mut self, op: &mut Op) {
        let shared = self.shared;
        op.entries = match (shared.workload.scan, &self.lengths) {
            (ScanLength::Fixed(length), _) => length,
            (ScanLength::Zipfian { min, .. }, Some(zipfian)) => min + zipfian.draw(&mut self.random),
            (ScanLength::Uniform { min, max } | ScanLength::Zipfian { min, max }, _) => {
                min + self.random.below(max - min + 1)
            }
        };
        if matches!(self.chooser, Chooser::Sequential(_)) {
            // One scan begins about where the one before it ended, wherever the records inserted one after the other lie.
            let count = shared.records.count().max(1);
            let rank = op.record.wrapping_mul(op.entries) % count;
            let from = if op.kind == OpKind::Scan { rank } else { count - 1 - rank };
            shared.keys.at_rank(from, count, &mut op.key);
            op.expected = Expected::Unknown;
        } else if shared.workload.deletes() {
            op.expected = Expected::Unknown;
        }
    }

    fn draw_parts(&mut self, op: &mut Op) {
        let parts = self.shared.workload.transaction;
        let kinds = [
            (OpKind::Read, parts.reads),
            (OpKind::Scan, parts.scans),
            (OpKind::Update, parts.updates),
            (OpKind::Insert, parts.replaces),
        ];
        let count: u64 = kinds.iter().map(|(_, count)| count).sum();
        op.parts.resize_with(count as usize, Op::empty);
        let all = kinds.into_iter().flat_map(|(kind, count)| (0..count).map(move |_| kind));
        for (part, kind) in op.parts.iter_mut().zip(all) {
            // What is inserted is there already, to be deleted by the same transaction.
            self.draw_one(if kind == OpKind::Insert { OpKind::Update } else { kind }, part);
            part.kind = kind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalog;
    use crate::workloads::keys::KeyOrder;

    fn draw_all(workload: &Workload, draws: u64, mut each: impl FnMut(&Op)) {
        let keys = Keys::new(16, KeyOrder::Random, 1, 1000).unwrap();
        let values = Values::new(10, 1);
        let records = Records::new(1000);
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
        for _ in 0..draws / BATCH {
            generator.draw(BATCH, &mut ops);
            for op in &ops {
                each(op);
                if op.kind == OpKind::Insert {
                    records.acknowledge(op.record);
                }
            }
        }
    }

    #[test]
    fn mixes_are_what_the_table_says() {
        let draws = 64_000;
        for workload in catalog::CATALOG {
            let mut kinds = [0u64; OpKind::ALL.len()];
            draw_all(workload, draws, |op| kinds[op.kind.index()] += 1);
            for kind in OpKind::ALL {
                let share = workload.mix.weight(kind) as f64 / workload.mix.total() as f64;
                let seen = kinds[kind.index()] as f64 / draws as f64;
                assert!((seen - share).abs() < 0.01, "{} {kind:?}: {seen} for {share}", workload.name);
            }
        }
    }

    #[test]
    fn scans_are_as_long_as_the_workload_says() {
        let lengths = |scan: ScanLength| {
            let workload = Workload { scan, ..*catalog::find("seekrandom").unwrap() };
            let mut lengths = [0u64; 101];
            draw_all(&workload, 64_000, |op| lengths[op.entries as usize] += 1);
            lengths
        };
        assert_eq!(lengths(ScanLength::Fixed(50))[50], 64_000);
        let uniform = lengths(ScanLength::Uniform { min: 11, max: 20 });
        assert!(uniform[11..=20].iter().all(|&n| (5900..6900).contains(&n)), "{uniform:?}");
        let zipfian = lengths(ScanLength::Zipfian { min: 1, max: 100 });
        assert_eq!(zipfian.iter().sum::<u64>(), 64_000);
        let expected = 64_000.0 / crate::workloads::zipfian::zeta(0, 100);
        assert!((zipfian[1] as f64 / expected - 1.0).abs() < 0.05, "{} for {expected}", zipfian[1]);
        assert!(zipfian[1] > zipfian[2] && zipfian[2] > zipfian[50], "{zipfian:?}");
    }

    #[test]
    fn some_reads_ask_for_missing_keys() {
        let workload = Workload { missing: 30, ..*catalog::find("readrandom").unwrap() };
        let (mut absent, mut other) = (0, 0);
        draw_all(&workload, 64_000, |op| match op.expected {
            Expected::Absent => absent += 1,
            _ => other += 1,
        });
        assert!((18_700..19_700).contains(&absent), "{absent} and {other}");
    }

    #[test]
    fn a_record_to_be_deleted_is_nobody_else_s() {
        let mix = crate::workloads::workload::Mix::of(&[(OpKind::Read, 9), (OpKind::Delete, 1)]);
        let workload = Workload { mix, ..*catalog::find("readrandom").unwrap() };
        let mut deleted = std::collections::BTreeSet::new();
        // Of a thousand records some 640 are deleted.
        draw_all(&workload, 6400, |op| match op.kind {
            OpKind::Delete => assert!(deleted.insert(op.record), "{} again", op.record),
            _ => assert!(!deleted.contains(&op.record), "{} is gone", op.record),
        });
        assert!((550..750).contains(&deleted.len()), "{}", deleted.len());
    }

    #[test]
    fn a_transaction_has_its_parts_in_order() {
        let workload = catalog::find("oltp").unwrap();
        draw_all(workload, 640, |op| {
            let kinds: Vec<OpKind> = op.parts.iter().map(|part| part.kind).collect();
            let mut expected = vec![OpKind::Read; 10];
            expected.extend([OpKind::Scan; 4]);
            expected.extend([OpKind::Update, OpKind::Update, OpKind::Insert]);
            assert_eq!(kinds, expected);
            assert!(op.parts.iter().all(|part| part.record < 1000 && part.key.len() == 16));
        });
    }

    #[test]
    fn what_is_read_in_turn_covers_everything_once() {
        for name in ["readseq", "readreverse"] {
            let workload = Workload { scan: ScanLength::Fixed(100), ..*catalog::find(name).unwrap() };
            let mut from = Vec::new();
            draw_all(&workload, 64, |op| from.push(op.key[..8].to_vec()));
            from.truncate(workload.one_pass(1000) as usize);
            let heads: Vec<u64> =
                from.iter().map(|head| u64::from_be_bytes(head[..].try_into().unwrap()) >> 32).collect();
            let step = (1u64 << 32) / 10;
            let mut sorted = heads.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(step) < 2), "{heads:?}");
            let first = if name == "readseq" { 0 } else { (1u64 << 32) / 1000 * 999 };
            assert!(heads[0].abs_diff(first) < 1000, "{name}: {heads:?}");
        }
    }
}
