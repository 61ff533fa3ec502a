//! A batch: writes that happen together or not at all, over any keyspaces.
//!
//! Kept encoded from the first put, in the very form that goes to the log, so that a commit copies it once:
//!
//! ```text
//! | sequence of the first entry, 8 bytes | entry | entry | ...
//! entry = | kind, 1 byte | keyspace, varint | key length, varint | key | not of a delete: value length, varint | value |
//! ```
//! Entry i has the first one's sequence + i. A range delete has its first key as the key and its end as the value.

use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::error::{Error, Result};
use crate::base::key::Kind;
use crate::base::units::{KeyspaceId, MIB, SeqNo};

/// Largest key in bytes.
pub const KEY_BYTES_MAX: u64 = 64 << 10;
/// Largest value in bytes.
pub const VALUE_BYTES_MAX: u64 = 128 * MIB;
/// Largest batch in bytes, encoded.
pub const BATCH_BYTES_MAX: u64 = 256 * MIB;

/// Bytes before the entries.
const HEADER: usize = 8;

/// The keyspace that always exists.
pub const DEFAULT_KEYSPACE: KeyspaceId = KeyspaceId(0);

/// No keyspace: a record for it takes the place in the log of what is in tables only, a bulk load.
pub const NO_KEYSPACE: KeyspaceId = KeyspaceId(u64::MAX);

/// One write of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry<'a> {
    /// Put, delete or range delete.
    pub kind: Kind,
    /// Where.
    pub keyspace: KeyspaceId,
    /// The key; of a range delete the first.
    pub key: &'a [u8],
    /// The value; empty for a delete; of a range delete the end of the range.
    pub value: &'a [u8],
}

/// Writes that become visible and durable together.
///
/// Limits (key 64 KiB, value 128 MiB, batch 256 MiB) are checked when the batch is written; a batch that breaks one is
/// refused whole. An empty key is legal.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// Empty, or begins with `HEADER` bytes for the sequence.
    encoded: Vec<u8>,
    count: u32,
    user_bytes: u64,
    key_bytes_max: u64,
    value_bytes_max: u64,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Puts into a keyspace given by its id.
    #[inline]
    pub(crate) fn put_id(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        self.begin(Kind::Put, keyspace, key);
        self.value_bytes_max = self.value_bytes_max.max(value.len() as u64);
        self.user_bytes += value.len() as u64;
        put_bytes(&mut self.encoded, value);
    }

    /// Deletes from a keyspace given by its id.
    #[inline]
    pub(crate) fn delete_id(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.begin(Kind::Delete, keyspace, key);
    }

    /// Deletes the keys from `start` to below `end` from a keyspace given by its id. Writes nothing if there can be none.
    pub(crate) fn delete_range_id(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) {
        if start >= end {
            return;
        }
        self.begin(Kind::RangeDelete, keyspace, start);
        // The key after the largest key is a legal end.
        self.key_bytes_max = self.key_bytes_max.max(end.len() as u64 - 1);
        self.user_bytes += end.len() as u64;
        put_bytes(&mut self.encoded, end);
    }

    /// How many writes the batch holds.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if the batch holds no write.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.count = 0;
        self.user_bytes = 0;
        self.key_bytes_max = 0;
        self.value_bytes_max = 0;
    }

    /// The batch's encoded size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// The batch as it goes to the log.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Key and value bytes, and the little that frames them.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Gives the first entry its sequence number.
    pub(crate) fn set_sequence(&mut self, first: SeqNo) {
        if let Some(header) = self.encoded.first_chunk_mut::<HEADER>() {
            *header = first.0.to_le_bytes();
        }
    }

    /// The entries.
    pub(crate) fn entries(&self) -> BatchReader<'_> {
        BatchReader { rest: Decoder::new(self.encoded.get(HEADER..).unwrap_or_default()), broken: false }
    }

    /// Refuses a batch over a limit, before a byte of it is written.
    pub(crate) fn check_limits(&self) -> Result<()> {
        let bytes = self.encoded.len() as u64;
        for (what, bytes, max) in [
            ("key", self.key_bytes_max, KEY_BYTES_MAX),
            ("value", self.value_bytes_max, VALUE_BYTES_MAX),
            ("batch", bytes, BATCH_BYTES_MAX),
        ] {
            if bytes > max {
                return Err(Error::Limit { what, bytes, max });
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: Kind, keyspace: KeyspaceId, key: &[u8]) {
        if self.encoded.is_empty() {
            self.encoded.extend_from_slice(&[0; HEADER]);
        }
        self.count += 1;
        self.user_bytes += key.len() as u64;
        self.key_bytes_max = self.key_bytes_max.max(key.len() as u64);
        self.encoded.push(kind as u8);
        put_varint(&mut self.encoded, keyspace.0);
        put_bytes(&mut self.encoded, key);
    }
}

/// Reads a batch of the log: the sequence of its first entry, and its entries.
pub fn decode_batch(encoded: &[u8]) -> Option<(SeqNo, BatchReader<'_>)> {
    let mut bytes = Decoder::new(encoded);
    let first = SeqNo(bytes.u64()?);
    Some((first, BatchReader { rest: bytes, broken: false }))
}

/// Walks encoded entries; an item is `None` where the bytes are no entry, and then the walk ends.
#[derive(Debug)]
pub struct BatchReader<'a> {
    rest: Decoder<'a>,
    broken: bool,
}

impl<'a> BatchReader<'a> {
    fn entry(&mut self) -> Option<BatchEntry<'a>> {
        let kind = Kind::from_u8(self.rest.u8()?)?;
        let keyspace = KeyspaceId(self.rest.varint()?);
        let key = self.rest.bytes()?;
        let value = match kind {
            Kind::Put => self.rest.bytes()?,
            Kind::Delete => b"".as_slice(),
            Kind::RangeDelete => self.rest.bytes().filter(|end| key < *end)?,
            _ => return None,
        };
        Some(BatchEntry { kind, keyspace, key, value })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Option<BatchEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.broken || self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        self.broken = entry.is_none();
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut batch = WriteBatch::new();
        batch.put_id(KeyspaceId(0), b"", b"empty key");
        batch.put_id(KeyspaceId(300), b"k", &[7; 1000]);
        batch.delete_id(KeyspaceId(1), b"gone");
        batch.delete_range_id(KeyspaceId(2), b"", b"m");
        for (start, end) in [(&b"m"[..], &b"m"[..]), (b"n", b"m"), (b"", b"")] {
            batch.delete_range_id(KeyspaceId(2), start, end);
        }
        let read: Vec<_> = batch.entries().map(|e| e.expect("well-formed")).collect();
        assert_eq!(batch.len(), 4, "an empty range is no write");
        assert_eq!(
            read[0],
            BatchEntry { kind: Kind::Put, keyspace: KeyspaceId(0), key: b"", value: b"empty key" }
        );
        assert_eq!(read[1].value.len(), 1000);
        assert_eq!(
            read[2],
            BatchEntry { kind: Kind::Delete, keyspace: KeyspaceId(1), key: b"gone", value: b"" }
        );
        assert_eq!(
            read[3],
            BatchEntry { kind: Kind::RangeDelete, keyspace: KeyspaceId(2), key: b"", value: b"m" }
        );
    }

    #[test]
    fn no_truncation_is_read_as_something_else() {
        let mut batch = WriteBatch::new();
        batch.put_id(KeyspaceId(0), b"key", b"value");
        batch.set_sequence(SeqNo(7));
        for len in 0..batch.encoded().len() {
            match decode_batch(&batch.encoded()[..len]) {
                None => assert!(len < HEADER),
                Some((seq, entries)) => {
                    assert_eq!(seq, SeqNo(7));
                    let expected: &[Option<BatchEntry<'_>>] = if len == HEADER { &[] } else { &[None] };
                    assert_eq!(entries.collect::<Vec<_>>(), expected, "cut to {len}");
                }
            }
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_malformed() {
        let mut batch = WriteBatch::new();
        batch.delete_range_id(KeyspaceId(0), b"a", b"b");
        let mut bytes = batch.encoded().to_vec();
        *bytes.last_mut().unwrap() = b'a';
        let (_, entries) = decode_batch(&bytes).unwrap();
        assert_eq!(entries.collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_range_may_end_after_the_largest_key() {
        let largest = vec![0xff; KEY_BYTES_MAX as usize];
        let mut batch = WriteBatch::new();
        batch.delete_range_id(KeyspaceId(0), b"", &[&largest[..], &[0]].concat());
        assert!(batch.check_limits().is_ok());
        batch.delete_range_id(KeyspaceId(0), b"", &[&largest[..], &[0, 0]].concat());
        assert_eq!(batch.check_limits().unwrap_err().kind(), "Limit");
    }

    #[test]
    fn limits_are_checked_before_anything_is_written() {
        let mut batch = WriteBatch::new();
        batch.put_id(KeyspaceId(0), &vec![0; KEY_BYTES_MAX as usize], b"");
        assert!(batch.check_limits().is_ok());
        batch.put_id(KeyspaceId(0), &vec![0; KEY_BYTES_MAX as usize + 1], b"");
        assert_eq!(batch.check_limits().unwrap_err().kind(), "Limit");
    }
}
