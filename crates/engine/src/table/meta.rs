//! What the tree knows of a table file without opening it. Written into the manifest with every edit that adds the table.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::access::Access;
use super::key_sample::{KeySample, SAMPLE_BITS, SAMPLE_KEYS_MAX};
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::key_range::KeyRange;
use crate::base::units::{SeqNo, TableId};
use crate::hotness::key_histogram::KeySpread;

/// What made a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Born {
    /// A flush of a memtable.
    Flush = 1,
    /// A compaction.
    Merge = 2,
    /// A burst within the first level (DLC); never merged again by another one.
    Burst = 3,
    /// A bulk load. Its entries, one a key, were written before their sequence was known: they carry 0, and all of them have
    /// the one sequence of the table's facts.
    Load = 4,
}

impl Born {
    /// The value with this number.
    pub fn from_u8(n: u8) -> Option<Born> {
        Some(match n {
            1 => Born::Flush,
            2 => Born::Merge,
            3 => Born::Burst,
            4 => Born::Load,
            _ => return None,
        })
    }
}

/// No count of a table gets to this. Sums over all tables of a store then stay below what a word holds.
const FACT_MAX: u64 = 1 << 44;

/// Set beside what made the table: further facts follow.
const HAS_MORE: u8 = 0x80;
/// A sampled key is written in so many bytes.
const SAMPLE_BYTES: usize = SAMPLE_BITS as usize / 8;

/// A histogram has at most this many keys.
pub const HISTOGRAM_KEYS_MAX: usize = 15;
/// A histogram's keys are cut to this many bytes.
pub const HISTOGRAM_KEY_BYTES: usize = 32;

/// Equal-depth samples of a table's keys: `keys[i]` is the key at (i + 1) / (n + 1) of its entries, cut to 32 bytes.
/// LTG's φ over any intervals is estimated from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHistogram {
    /// At most 15 keys, ascending.
    pub keys: Vec<Box<[u8]>>,
}

/// A table file's facts; never change after it is written.
#[derive(Clone, Debug)]
pub struct TableMeta {
    /// The file's number.
    pub id: TableId,
    /// A random id, also in the file's footer: tells a swapped or stale file from the right one.
    pub unique_id: u64,
    /// The file's length.
    pub bytes: u64,
    /// xxh3-64 of the footer. Every other block has a checksum of its own, bound to `unique_id` and its offset.
    pub checksum: u64,
    /// All entries, tombstones included.
    pub entries: u64,
    /// Distinct user keys.
    pub keys: u64,
    /// Smallest and largest sequence number.
    pub seqs: (SeqNo, SeqNo),
    /// Deletes of single keys.
    pub tombstones: u64,
    /// Range tombstones, as fragments: one for each sequence of each stretch of keys.
    pub range_tombstones: u64,
    /// Data blocks of which at least half the entries are tombstones.
    pub dense_blocks: u64,
    /// When the oldest tombstone was acknowledged, wall milliseconds; `None` without tombstones.
    pub oldest_tombstone_ms: Option<u64>,
    /// When the table was made, wall milliseconds.
    pub created_ms: u64,
    /// Smallest user key of an entry, or where the first range tombstone begins.
    pub smallest: Box<[u8]>,
    /// Largest user key of an entry; `smallest` if there are only range tombstones.
    pub largest: Box<[u8]>,
    /// Where the last range tombstone ends, if that is above the key after `largest` or there are only range tombstones.
    pub end: Option<Box<[u8]>>,
    /// Samples of the keys.
    pub key_histogram: KeyHistogram,
    /// What made it.
    pub born: Born,
    /// Data blocks; 0 if the table was written before they were counted.
    pub blocks: u64,
    /// A sample of the keys; empty if the table was written before there was one.
    pub key_sample: KeySample,
    /// How it is read. No part of the facts.
    pub access: Access,
    /// What upper floors hang on the table: its open reader. No part of the facts.
    pub attachment: Attachment,
}

impl TableMeta {
    /// All of the table's keys, those under its range tombstones included.
    pub fn bounds(&self) -> KeyRange {
        match &self.end {
            Some(end) => KeyRange::new(&self.smallest, Some(end)),
            None => KeyRange::closed(&self.smallest, &self.largest),
        }
    }

    /// Where its keys lie.
    pub fn key_spread(&self) -> KeySpread<'_> {
        KeySpread {
            smallest: &self.smallest,
            largest: &self.largest,
            quantiles: &self.key_histogram.keys,
            entries: self.entries,
        }
    }

    /// The sequence of all entries, if they do not carry it themselves.
    pub fn loaded_at(&self) -> Option<SeqNo> {
        (self.born == Born::Load).then_some(self.seqs.0)
    }

    /// The facts as the file itself has them.
    pub fn as_written(&self) -> TableMeta {
        match self.loaded_at() {
            Some(_) => TableMeta { seqs: (SeqNo(0), SeqNo(0)), ..self.clone() },
            None => self.clone(),
        }
    }

    /// Appends the facts; the attachment is none of them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0);
        out.extend_from_slice(&self.unique_id.to_le_bytes());
        put_varint(out, self.bytes);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        for n in
            [self.entries, self.keys, self.seqs.0.0, self.seqs.1.0, self.tombstones, self.range_tombstones]
        {
            put_varint(out, n);
        }
        put_varint(out, self.dense_blocks);
        out.push(u8::from(self.oldest_tombstone_ms.is_some()));
        put_varint(out, self.oldest_tombstone_ms.unwrap_or_default());
        put_varint(out, self.created_ms);
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        out.push(u8::from(self.end.is_some()));
        put_bytes(out, self.end.as_deref().unwrap_or_default());
        put_varint(out, self.key_histogram.keys.len() as u64);
        for key in &self.key_histogram.keys {
            put_bytes(out, key);
        }
        out.push(self.born as u8 | HAS_MORE);
        let mut more = Vec::with_capacity(16 + self.key_sample.keys.len() * SAMPLE_BYTES);
        put_varint(&mut more, self.blocks);
        for key in &self.key_sample.keys {
            more.extend(key.to_le_bytes().iter().take(SAMPLE_BYTES));
        }
        put_bytes(out, &more);
    }

    /// Reads what `encode` wrote; `None` if it makes no sense.
    pub fn decode(from: &mut Decoder<'_>) -> Option<TableMeta> {
        let mut meta = TableMeta {
            id: TableId(from.varint()?),
            unique_id: from.u64()?,
            bytes: from.varint()?,
            checksum: from.u64()?,
            entries: from.varint()?,
            keys: from.varint()?,
            seqs: (SeqNo(from.varint()?), SeqNo(from.varint()?)),
            tombstones: from.varint()?,
            range_tombstones: from.varint()?,
            dense_blocks: from.varint()?,
            oldest_tombstone_ms: match (from.u8()?, from.varint()?) {
                (0, 0) => None,
                (1, ms) => Some(ms),
                _ => return None,
            },
            created_ms: from.varint()?,
            smallest: from.bytes()?.into(),
            largest: from.bytes()?.into(),
            end: match (from.u8()?, from.bytes()?) {
                (0, b"") => None,
                (1, end) => Some(end.into()),
                _ => return None,
            },
            key_histogram: KeyHistogram::decode(from)?,
            born: Born::Merge,
            blocks: 0,
            key_sample: KeySample::default(),
            access: Access::default(),
            attachment: Attachment::default(),
        };
        let born = from.u8()?;
        meta.born = Born::from_u8(born & !HAS_MORE)?;
        if born & HAS_MORE != 0 {
            meta.decode_more(&mut Decoder::new(from.bytes()?))?;
        }
        let ordered =
            meta.smallest <= meta.largest && meta.seqs.0 <= meta.seqs.1 && meta.seqs.1 <= SeqNo::MAX;
        // Only range tombstones reach beyond the entries, and only they need none.
        let reaches = meta.end.as_ref().is_some_and(|end| *end > meta.largest);
        let ends = (meta.end.is_none() && meta.entries > 0) || (reaches && meta.range_tombstones > 0);
        let deletes = meta.tombstones > 0 || meta.range_tombstones > 0;
        let alike = meta.born != Born::Load || (meta.seqs.0 == meta.seqs.1 && !deletes);
        let counts = [
            meta.bytes,
            meta.entries,
            meta.tombstones,
            meta.range_tombstones,
            meta.dense_blocks,
            meta.blocks,
        ];
        let believed = counts.iter().all(|count| *count <= FACT_MAX);
        (ordered && ends && alike && believed && meta.keys <= meta.entries).then_some(meta)
    }

    /// The further facts.
    fn decode_more(&mut self, from: &mut Decoder<'_>) -> Option<()> {
        self.blocks = from.varint()?;
        let samples = from.rest().chunks_exact(SAMPLE_BYTES).map(|bytes| {
            let whole = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            whole & ((1 << SAMPLE_BITS) - 1)
        });
        let keys: Box<[u64]> = samples.take(SAMPLE_KEYS_MAX + 1).collect();
        let fits = keys.len() <= SAMPLE_KEYS_MAX && keys.is_sorted_by(|a, b| a < b);
        self.key_sample = KeySample { keys };
        fits.then_some(())
    }
}

/// How a table was written, in words, as its properties say after the facts. The tree does not need it, people do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HowWritten {
    /// Of its data blocks: `none`, `lz4`, `zstd:3`.
    pub compression: String,
    /// The rule of the prefixes in its filters: `none`, `fixed:4`, `delimiter:/`.
    pub prefix_rule: String,
}

impl HowWritten {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.compression.as_bytes());
        put_bytes(out, self.prefix_rule.as_bytes());
    }

    /// Reads what `encode` wrote; `None` if it makes no sense.
    pub fn decode(from: &mut Decoder<'_>) -> Option<HowWritten> {
        let mut text = || String::from_utf8(from.bytes()?.to_vec()).ok();
        Some(HowWritten { compression: text()?, prefix_rule: text()? })
    }
}

impl KeyHistogram {
    fn decode(from: &mut Decoder<'_>) -> Option<KeyHistogram> {
        let n = from.varint()?;
        if n > HISTOGRAM_KEYS_MAX as u64 {
            return None;
        }
        let mut keys: Vec<Box<[u8]>> = Vec::with_capacity(HISTOGRAM_KEYS_MAX);
        for _ in 0..n {
            keys.push(from.bytes().filter(|key| key.len() <= HISTOGRAM_KEY_BYTES)?.into());
        }
        keys.is_sorted().then_some(KeyHistogram { keys })
    }
}

/// A place for one thing of a floor above, dropped with the table's last reference.
#[derive(Clone, Default)]
pub struct Attachment(Arc<OnceLock<Box<dyn Any + Send + Sync>>>);

impl Attachment {
    /// What hangs here, if it is a `T`.
    #[inline]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get()?.downcast_ref()
    }

    /// Hangs `thing` here unless something is there already; answers what is there.
    pub fn set<T: Any + Send + Sync>(&self, thing: T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(thing)).downcast_ref()
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "open" } else { "closed" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> TableMeta {
        TableMeta {
            id: TableId(12),
            unique_id: u64::MAX - 3,
            bytes: 123_456,
            checksum: 99,
            entries: 1000,
            keys: 900,
            seqs: (SeqNo(3), SeqNo(5000)),
            tombstones: 17,
            range_tombstones: 0,
            dense_blocks: 2,
            oldest_tombstone_ms: Some(1_700_000_000_000),
            created_ms: 1_700_000_000_001,
            smallest: b""[..].into(),
            largest: b"zz"[..].into(),
            end: None,
            key_histogram: KeyHistogram { keys: vec![b"g"[..].into(), b"m"[..].into()] },
            born: Born::Merge,
            blocks: 77,
            key_sample: KeySample { keys: [3, 8, 1 << 47].into() },
            access: Access::default(),
            attachment: Attachment::default(),
        }
    }

    #[test]
    fn facts_survive_a_round_trip() {
        for oldest in [None, Some(0), Some(u64::MAX)] {
            let meta = TableMeta { oldest_tombstone_ms: oldest, ..meta() };
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            let mut from = Decoder::new(&bytes);
            let back = TableMeta::decode(&mut from).unwrap();
            assert!(from.is_empty());
            assert_eq!(format!("{back:?}"), format!("{meta:?}"));
        }
    }

    #[test]
    fn hostile_facts_are_refused_or_read_never_worse() {
        let mut bytes = Vec::new();
        meta().encode(&mut bytes);
        for i in 0..bytes.len() {
            assert!(TableMeta::decode(&mut Decoder::new(&bytes[..i])).is_none(), "cut at {i}");
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[i] ^= flip;
                let _ = TableMeta::decode(&mut Decoder::new(&bad));
            }
        }
        let refused = |change: fn(&mut TableMeta)| {
            let mut bad = meta();
            change(&mut bad);
            let mut bytes = Vec::new();
            bad.encode(&mut bytes);
            assert!(TableMeta::decode(&mut Decoder::new(&bytes)).is_none());
        };
        refused(|m| m.smallest = b"zzz"[..].into());
        refused(|m| m.seqs = (SeqNo(5), SeqNo(4)));
        refused(|m| m.seqs.1 = SeqNo(u64::MAX));
        refused(|m| m.key_sample.keys = [8, 3].into());
        refused(|m| m.entries = 0);
        refused(|m| m.keys = m.entries + 1);
        refused(|m| m.key_histogram.keys = vec![b"b"[..].into(), b"a"[..].into()]);
        refused(|m| m.key_histogram.keys = vec![vec![0; 33].into()]);
        refused(|m| m.key_histogram.keys = vec![b"a"[..].into(); 16]);
    }
}
