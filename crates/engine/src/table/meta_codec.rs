//! A table's facts as bytes, as they stand in the manifest.

use super::meta::{Attachment, Born, KeyHistogram, TableMeta};
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::units::{SeqNo, TableId};

impl TableMeta {
    /// Appends the facts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (lo, hi) = self.seqs;
        for n in [self.id.0, self.unique_id, self.bytes, self.checksum, self.entries, self.keys, lo.0, hi.0] {
            put_varint(out, n);
        }
        let oldest = self.oldest_tombstone_ms.map_or(0, |ms| ms.saturating_add(1));
        for n in [self.tombstones, self.range_tombstones, self.dense_blocks, oldest, self.created_ms] {
            put_varint(out, n);
        }
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        put_varint(out, self.key_histogram.keys.len() as u64);
        for key in &self.key_histogram.keys {
            put_bytes(out, key);
        }
        out.push(self.born as u8);
    }

    /// Reads what `encode` wrote.
    pub fn decode(from: &mut Decoder<'_>) -> Option<TableMeta> {
        let id = TableId(from.varint()?);
        let (unique_id, bytes, checksum) = (from.varint()?, from.varint()?, from.varint()?);
        let (entries, keys) = (from.varint()?, from.varint()?);
        let seqs = (SeqNo(from.varint()?), SeqNo(from.varint()?));
        let (tombstones, range_tombstones, dense_blocks) = (from.varint()?, from.varint()?, from.varint()?);
        let oldest_tombstone_ms = from.varint()?.checked_sub(1);
        let created_ms = from.varint()?;
        let (smallest, largest) = (from.bytes()?, from.bytes()?);
        let mut key_histogram = KeyHistogram::default();
        for _ in 0..from.varint()? {
            key_histogram.keys.push(from.bytes()?.into());
        }
        let born = match from.u8()? {
            1 => Born::Flush,
            2 => Born::Merge,
            3 => Born::Burst,
            _ => return None,
        };
        let (smallest, largest): (Box<[u8]>, Box<[u8]>) = (smallest.into(), largest.into());
        let sane = smallest <= largest && seqs.0 <= seqs.1 && keys <= entries;
        sane.then_some(TableMeta {
            id,
            unique_id,
            bytes,
            checksum,
            entries,
            keys,
            seqs,
            tombstones,
            range_tombstones,
            dense_blocks,
            oldest_tombstone_ms,
            created_ms,
            smallest,
            largest,
            key_histogram,
            born,
            attachment: Attachment::default(),
        })
    }
}
