//! One record of a record log: its frame in bytes, and the header that opens every log.
//!
//! The write-ahead log, the manifest and a trace have the same format. A log is a header record, data records, and, if it was
//! ended cleanly, a seal; nothing lies between them.
//!
//! ```text
//!  0         8        12       16        23    24
//! | checksum | length | tag    | promise | kind | payload of `length` bytes |
//! ```
//!
//! *tag*: 32 bits drawn from the log's id and the record's offset. It tells, before a length is believed, whether this
//! can be a record of this log at this place; what a recycled file still holds, or a value made to look like a record,
//! is not. *promise*: every byte of the log below it was known to be synced when this record was written.
//! *checksum*: xxh3, 64 bit, of everything else, and of the log's id and the record's offset.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

use crate::base::coding::Decoder;
use crate::base::random::mix;

/// Bytes before a record's payload.
pub const FRAME_LEN: usize = 24;

/// Where in a frame its tag is.
pub const TAG_AT: usize = 12;

/// The version of the format that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Offsets share a word with the kind, so they have 56 bits.
const PROMISE_MAX: u64 = (1 << 56) - 1;

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The first record: which log this is.
    Header = 1,
    /// What the log is kept for.
    Data = 2,
    /// The last record of a log that was ended cleanly.
    Seal = 3,
}

/// What a log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Write batches.
    Wal = 1,
    /// Edits of the tree.
    Manifest = 2,
    /// Operations of clients.
    Trace = 3,
}

/// The log that a log follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its id.
    pub id: u64,
    /// Its length if it was durable to there, for good, before this log began; `None` if it was still being synced.
    pub sealed_len: Option<u64>,
}

/// The first record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// What the log holds.
    pub kind: LogKind,
    /// The log's number, never used before in this store.
    pub id: u64,
    /// The log before this one.
    pub predecessor: Option<Predecessor>,
    /// Sequence numbers in the log are at least this one.
    pub first_seq: u64,
    /// Bytes that the file was made with, whatever is in them; 0 for a log that grows. A file that was ever synced and is
    /// shorter has been cut, which the records alone could not tell from a torn end.
    pub allocated: u64,
}

impl LogHeader {
    /// The header as a payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(46);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&self.allocated.to_le_bytes());
        out.push(u8::from(self.predecessor.is_some()));
        if let Some(Predecessor { id, sealed_len }) = self.predecessor {
            out.extend_from_slice(&id.to_le_bytes());
            // No log is this long, so the word is free to say "not sealed".
            out.extend_from_slice(&sealed_len.unwrap_or(u64::MAX).to_le_bytes());
        }
        out
    }

    /// The header of a payload.
    pub fn decode(payload: &[u8]) -> Result<LogHeader, HeaderError> {
        let mut bytes = Decoder::new(payload);
        let version = bytes.u32().ok_or(HeaderError::Malformed)?;
        if version == 0 || version > FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        LogHeader::decode_body(&mut bytes).filter(|_| bytes.is_empty()).ok_or(HeaderError::Malformed)
    }

    fn decode_body(bytes: &mut Decoder<'_>) -> Option<LogHeader> {
        let kind = match bytes.u8()? {
            1 => LogKind::Wal,
            2 => LogKind::Manifest,
            3 => LogKind::Trace,
            _ => return None,
        };
        let (id, first_seq, allocated) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let predecessor = match bytes.u8()? {
            0 => None,
            1 => {
                let (id, len) = (bytes.u64()?, bytes.u64()?);
                Some(Predecessor { id, sealed_len: (len != u64::MAX).then_some(len) })
            }
            _ => return None,
        };
        Some(LogHeader { kind, id, predecessor, first_seq, allocated })
    }
}

/// Why a payload whose checksum is right is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is of a format that this code does not know.
    Version(u32),
    /// It is no header at all.
    Malformed,
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    checksum: u64,
    tail: [u8; 16],
    /// What the record is for.
    pub kind: RecordKind,
    /// Bytes of payload.
    pub len: u32,
    /// Every byte of the log below this offset was synced when the record was written.
    pub promise: u64,
}

impl Frame {
    /// Reads a frame at `offset` of log `id`; `None` if there can be no record of this log.
    #[inline]
    pub fn parse(bytes: &[u8], id: u64, offset: u64) -> Option<Frame> {
        let mut word = Decoder::new(bytes);
        let (checksum, tail) = (word.u64()?, *word.rest().first_chunk::<16>()?);
        let len = word.u32()?;
        if word.u32()? != tag(id, offset) {
            return None;
        }
        let last = word.u64()?;
        let (kind, promise) = (last >> 56, last & PROMISE_MAX);
        let kind = match kind {
            1 => RecordKind::Header,
            2 => RecordKind::Data,
            3 => RecordKind::Seal,
            _ => return None,
        };
        Some(Frame { checksum, tail, kind, len, promise })
    }

    /// True if the payload is the one that was written with this frame at this place.
    pub fn holds(&self, payload: &[u8], id: u64, offset: u64) -> bool {
        // What is written keeps this order; it is checked so that a promise can be used without further thought.
        self.promise <= offset
            && payload.len() as u64 == u64::from(self.len)
            && self.checksum == checksum(&self.tail, xxh3_64(payload), id, offset)
    }

    /// Bytes from the record's start to the next record's.
    pub fn record_len(&self) -> u64 {
        FRAME_LEN as u64 + u64::from(self.len)
    }
}

/// The frame for a payload given in parts, to be written before them at `offset` of log `id`.
#[inline]
pub fn frame(
    kind: RecordKind,
    parts: &[&[u8]],
    len: u32,
    id: u64,
    offset: u64,
    promise: u64,
) -> [u8; FRAME_LEN] {
    let mut out = [0; FRAME_LEN];
    let (head, tail) = out.split_at_mut(8);
    tail[..4].copy_from_slice(&len.to_le_bytes());
    tail[4..8].copy_from_slice(&tag(id, offset).to_le_bytes());
    tail[8..].copy_from_slice(&(promise & PROMISE_MAX | (kind as u64) << 56).to_le_bytes());
    let payload_hash = match parts {
        // One part is the common case, and one call is several times cheaper than the streaming form.
        [payload] => xxh3_64(payload),
        _ => {
            let mut hash = Xxh3Default::new();
            parts.iter().for_each(|part| hash.update(part));
            hash.digest()
        }
    };
    head.copy_from_slice(&checksum(tail, payload_hash, id, offset).to_le_bytes());
    out
}

/// True if the four bytes are the tag of a record at `offset` of the log whose id, once `mix`ed, is `mixed_id`.
#[inline]
pub fn tag_matches_at(word: &[u8], mixed_id: u64, offset: u64) -> bool {
    word == tag_of_mixed(mixed_id, offset).to_le_bytes()
}

/// The 32 bits that mark a record of log `id` at `offset`. Its first byte is never 0, so zeros are never a record.
#[inline]
fn tag(id: u64, offset: u64) -> u32 {
    tag_of_mixed(mix(id), offset)
}

#[inline]
fn tag_of_mixed(mixed_id: u64, offset: u64) -> u32 {
    (mix(mixed_id ^ offset) >> 32) as u32 | 1
}

/// Binds the frame after its checksum, the payload, and the place.
#[inline]
fn checksum(tail: &[u8], payload_hash: u64, id: u64, offset: u64) -> u64 {
    let mut all = [0; 32];
    all[..16].copy_from_slice(tail);
    all[16..24].copy_from_slice(&id.to_le_bytes());
    all[24..].copy_from_slice(&offset.to_le_bytes());
    xxh3_64_with_seed(&all, payload_hash)
}
