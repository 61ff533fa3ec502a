//! What is written, as the memtables that it fills: drawn once, and then read by every strategy that is simulated.
//!
//! Which memtable a write is in does not depend on the strategy, so neither does what flushes bring to the tree. Of the keys
//! one in `w` is in the sample, by a hash, and stands for `w`: `w` is chosen so that a table holds some dozens of them, and is
//! smaller the oftener a key comes, down to 1, or the few keys that get most of the operations would be in the sample by luck.
//!
//! ```text
//! operations ─► how often does each key come? ─► w of each key ─► again: sampled keys' writes and reads ─► memtables
//! ```
//! The bytes of each flush are exact; what merges leave of several is what the sample says.

use std::collections::HashMap;

use evenkeel_lab::base::random::mix64;

use crate::entry::Entry;
use crate::operations::{Operation, Operations, What};
use crate::sizes::Sizes;

/// A sampled table holds about so many entries, unless somebody says otherwise.
pub const SAMPLE: u64 = 32;
/// So many keys are counted exactly; of more, some are counted together.
const COUNTERS: usize = 1 << 22;
/// A memtable keeps so many reads at most.
const READS_MAX: usize = 64;
/// What a sampled key stands for, at most.
const WEIGHT_MAX: f64 = 60_000.0;

/// What happened while one memtable was filled.
#[derive(Clone, Debug, Default)]
pub struct Memtable {
    /// The sampled keys that were written, each as it was last, in key order.
    pub entries: Vec<Entry>,
    /// Distinct keys that were written.
    pub keys: u64,
    /// Of these, those whose last write deletes them.
    pub deletes: u64,
    /// Bytes of keys and values of those, as they were last.
    pub key_value_bytes: u64,
    /// Bytes of keys and values that were written.
    pub user_bytes: u64,
    /// Sampled keys that were read, and how many reads each stands for.
    pub reads: Vec<(u32, f32)>,
    /// All reads.
    pub reads_total: u64,
    /// When it was full, milliseconds since the first operation.
    pub at_ms: u64,
    /// When the first delete came.
    pub first_delete_ms: Option<u64>,
}

/// Everything that is written.
#[derive(Clone, Debug)]
pub struct Tape {
    /// What was done, for people.
    pub name: String,
    /// In order.
    pub memtables: Vec<Memtable>,
    /// Figures begin with this one: what was before it was preparation.
    pub measured_from: usize,
    /// Operations, and those that the figures are about.
    pub ops: u64,
    /// Sampled keys.
    pub keys: usize,
    /// A key that came as often as the mean stands for so many.
    pub weight: u64,
    /// Bytes of a key and its value, in the mean.
    pub record_bytes: f64,
    /// The hash of each sampled key.
    pub hashes: Vec<u64>,
    /// How many keys each sampled key stands for.
    pub weights: Vec<u16>,
    /// The bytes of things.
    pub sizes: Sizes,
}

/// What is asked of a tape.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// About so many sampled entries a table, and a memtable.
    pub sample: u64,
    /// Tables are cut at so many bytes.
    pub table_bytes: u64,
    /// What compressed tables take per byte of keys and values.
    pub compressed: f64,
}

impl Tape {
    /// Draws the tape of these operations, for a store with these options.
    ///
    /// # Errors
    /// What the operations say is wrong.
    pub fn draw(
        operations: &dyn Operations,
        options: &evenkeel::Options,
        sampling: Sampling,
    ) -> Result<Tape, String> {
        let counts = Counts::of(operations)?;
        let record_bytes = counts.user_bytes as f64 / counts.puts.max(1) as f64;
        let sizes = Sizes::new(options, record_bytes, sampling.compressed);
        let in_table = sampling.table_bytes as f64 / sizes.in_table(0, 1.0, record_bytes);
        let in_memtable = sizes.memtable_bytes / sizes.in_memtable(record_bytes as u64);
        let weight = (in_table.min(in_memtable) / sampling.sample.max(1) as f64).clamp(1.0, WEIGHT_MAX);
        let mut drawing = Drawing::new(&counts, weight, sizes.clone());
        operations.go(&mut |operation| {
            drawing.note(operation);
            Ok(())
        })?;
        let drawn = drawing.finish();
        Ok(Tape {
            name: operations.name(),
            memtables: drawn.memtables,
            measured_from: drawn.measured_from,
            ops: counts.ops,
            keys: drawn.hashes.len(),
            weight: weight as u64,
            record_bytes,
            hashes: drawn.hashes,
            weights: drawn.weights,
            sizes,
        })
    }

    /// The memtables that figures are about.
    pub fn measured(&self) -> &[Memtable] {
        self.memtables.get(self.measured_from..).unwrap_or_default()
    }

    /// Bytes of keys and values that were written while figures were taken.
    pub fn user_bytes(&self) -> u64 {
        self.measured().iter().map(|m| m.user_bytes).sum()
    }
}

/// Equal keys give equal numbers, and different ones different numbers but for one in very many.
fn hash_of(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix64(hash.rotate_left(23) ^ u64::from_le_bytes(word));
    }
    hash
}

/// True if the key with this hash is among one in `weight`. (A second hash: the first one chooses counters.)
pub fn is_sampled(hash: u64, weight: u64) -> bool {
    mix64(hash ^ 0x5851_f42d_4c95_7f2d) <= u64::MAX / weight.max(1)
}

/// How often keys come.
struct Counts {
    times: Vec<u32>,
    ops: u64,
    puts: u64,
    user_bytes: u64,
    mean: f64,
}

impl Counts {
    fn of(operations: &dyn Operations) -> Result<Counts, String> {
        let mut counts = Counts { times: vec![0; COUNTERS], ops: 0, puts: 0, user_bytes: 0, mean: 1.0 };
        operations.go(&mut |operation| {
            let value = match operation.what {
                What::Put(value) => Some(value.len() as u64),
                What::PutOfLength(bytes) => Some(bytes),
                What::Measure => return Ok(()),
                What::Delete | What::DeleteTo(_) | What::Get | What::Scan => None,
            };
            counts.ops += 1;
            if let Some(value) = value {
                counts.puts += 1;
                counts.user_bytes += operation.key.len() as u64 + value;
            }
            let times = &mut counts.times[hash_of(operation.key) as usize % COUNTERS];
            *times = times.saturating_add(1);
            Ok(())
        })?;
        let (all, some) = counts
            .times
            .iter()
            .fold((0u64, 0u64), |(all, some), times| (all + u64::from(*times), some + u64::from(*times > 0)));
        counts.mean = all as f64 / some.max(1) as f64;
        Ok(counts)
    }

    /// How many keys one like this stands for, if one that comes as often as the mean stands for `weight`.
    fn weight(&self, hash: u64, weight: f64) -> u16 {
        let times = f64::from(self.times[hash as usize % COUNTERS]) / self.mean;
        (weight / times.max(1.0)).max(1.0) as u16
    }
}

/// A key whose operations are on the tape.
struct SampledKey {
    bytes: Box<[u8]>,
    hash: u64,
    weight: u16,
}

/// A write of a sampled key, or of many.
enum Written {
    Key { key: u32, bytes: u32, delete: bool },
    Range { from: Box<[u8]>, to: Box<[u8]> },
}

/// A memtable while it is filled.
#[derive(Default)]
struct Filling {
    memtable: Memtable,
    written: Vec<(u32, Written)>,
    reads_seen: u64,
    bytes: f64,
    writes: u64,
    deletes: u64,
}

/// The second time through the operations.
struct Drawing<'a> {
    counts: &'a Counts,
    weight: f64,
    sizes: Sizes,
    sampled: HashMap<u64, u32>,
    keys: Vec<SampledKey>,
    /// The memtable in which a key was last written, by its hash.
    last_in: Vec<u32>,
    seq: u32,
    full: Vec<Filling>,
    filling: Filling,
    measured_from: usize,
    now_ms: u64,
}

/// What is drawn.
struct Drawn {
    memtables: Vec<Memtable>,
    measured_from: usize,
    hashes: Vec<u64>,
    weights: Vec<u16>,
}

impl<'a> Drawing<'a> {
    fn new(counts: &'a Counts, weight: f64, sizes: Sizes) -> Drawing<'a> {
        Drawing {
            counts,
            weight,
            sizes,
            sampled: HashMap::new(),
            keys: Vec::new(),
            last_in: vec![u32::MAX; COUNTERS],
            seq: 0,
            full: Vec::new(),
            filling: Filling::default(),
            measured_from: 0,
            now_ms: 0,
        }
    }

    /// The number of a key, if it is in the sample.
    fn sampled(&mut self, key: &[u8]) -> Option<u32> {
        let hash = hash_of(key);
        let weight = self.counts.weight(hash, self.weight);
        if !is_sampled(hash, u64::from(weight)) {
            return None;
        }
        let next = self.keys.len() as u32;
        let number = *self.sampled.entry(hash).or_insert(next);
        if number == next {
            self.keys.push(SampledKey { bytes: key.into(), hash, weight });
        }
        Some(number)
    }

    fn note(&mut self, operation: &Operation<'_>) {
        self.now_ms = operation.at_ms;
        let key_bytes = operation.key.len() as u64;
        match operation.what {
            What::Measure => {
                self.switch();
                self.measured_from = self.full.len();
            }
            What::Get | What::Scan => self.read(operation.key),
            What::Put(value) => self.write(operation.key, key_bytes + value.len() as u64, false),
            What::PutOfLength(value) => self.write(operation.key, key_bytes + value, false),
            What::Delete => self.write(operation.key, key_bytes, true),
            What::DeleteTo(to) => {
                let range = Written::Range { from: operation.key.into(), to: to.into() };
                let bytes = key_bytes + to.len() as u64;
                self.filling.written.push((self.seq, range));
                self.filling.memtable.user_bytes += bytes;
                self.filling.bytes += self.sizes.in_memtable(bytes);
                self.delete();
            }
        }
    }

    fn delete(&mut self) {
        self.filling.memtable.first_delete_ms.get_or_insert(self.now_ms);
    }

    fn read(&mut self, key: &[u8]) {
        self.filling.memtable.reads_total += 1;
        let Some(number) = self.sampled(key) else { return };
        let weight = f32::from(self.keys[number as usize].weight);
        let filling = &mut self.filling;
        filling.reads_seen += 1;
        if filling.memtable.reads.len() < READS_MAX {
            filling.memtable.reads.push((number, weight));
            return;
        }
        // A reservoir: each of those seen is kept as likely as any other.
        let at = mix64(u64::from(self.seq) << 32 ^ filling.reads_seen) % filling.reads_seen;
        if let Some(kept) = filling.memtable.reads.get_mut(at as usize) {
            *kept = (number, weight);
        }
    }

    fn write(&mut self, key: &[u8], bytes: u64, delete: bool) {
        let memtable = self.full.len() as u32;
        let last = &mut self.last_in[hash_of(key) as usize % COUNTERS];
        let again = std::mem::replace(last, memtable) == memtable;
        let filling = &mut self.filling;
        filling.memtable.user_bytes += bytes;
        filling.memtable.keys += u64::from(!again);
        filling.writes += 1;
        filling.deletes += u64::from(delete);
        filling.bytes += self.sizes.in_memtable(bytes);
        if delete {
            self.delete();
        }
        if let Some(key) = self.sampled(key) {
            self.seq += 1;
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.filling.written.push((self.seq, Written::Key { key, bytes, delete }));
        }
        if self.filling.bytes >= self.sizes.memtable_bytes {
            self.switch();
        }
    }

    /// The memtable is full.
    fn switch(&mut self) {
        if self.filling.memtable.keys == 0 && self.filling.written.is_empty() {
            return;
        }
        let mut filling = std::mem::take(&mut self.filling);
        filling.memtable.at_ms = self.now_ms;
        let share = filling.memtable.keys as f64 / filling.writes.max(1) as f64;
        filling.memtable.key_value_bytes = (filling.memtable.user_bytes as f64 * share) as u64;
        filling.memtable.deletes = (filling.deletes as f64 * share) as u64;
        self.full.push(filling);
    }

    /// Numbers the sampled keys in their order.
    fn finish(mut self) -> Drawn {
        self.switch();
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.keys[*a as usize].bytes.cmp(&self.keys[*b as usize].bytes));
        let mut number = vec![0; order.len()];
        for (at, key) in order.iter().enumerate() {
            number[*key as usize] = at as u32;
        }
        let sorted: Vec<&SampledKey> = order.iter().map(|key| &self.keys[*key as usize]).collect();
        let memtables = self.full.into_iter().map(|filling| sealed(filling, &number, &sorted)).collect();
        Drawn {
            memtables,
            measured_from: self.measured_from,
            hashes: sorted.iter().map(|key| key.hash).collect(),
            weights: sorted.iter().map(|key| key.weight).collect(),
        }
    }
}

/// A full memtable: of each key only the last write.
fn sealed(filling: Filling, number: &[u32], sorted: &[&SampledKey]) -> Memtable {
    let mut entries = Vec::with_capacity(filling.written.len());
    for (seq, written) in filling.written {
        match written {
            Written::Key { key, bytes, delete } => {
                let key = number[key as usize];
                let weight = sorted[key as usize].weight;
                entries.push(Entry { key, seq, bytes, weight, delete });
            }
            Written::Range { from, to } => {
                let below = |end: &[u8]| sorted.partition_point(|key| &*key.bytes < end) as u32;
                // One tombstone for many keys takes no more than that of one.
                let tombstone = |key: u32| Entry {
                    key,
                    seq,
                    bytes: 0,
                    weight: sorted[key as usize].weight,
                    delete: true,
                };
                entries.extend((below(&from)..below(&to)).map(tombstone));
            }
        }
    }
    entries.sort_by_key(|entry| (entry.key, std::cmp::Reverse(entry.seq)));
    entries.dedup_by_key(|entry| entry.key);
    let mut memtable = filling.memtable;
    memtable.entries = entries;
    for (key, _) in &mut memtable.reads {
        *key = number[*key as usize];
    }
    memtable
}
