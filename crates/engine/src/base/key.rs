//! Keys as the tree orders them: by user key bytewise upward, then by sequence downward.
//!
//! An entry is (user key, trailer, value). The trailer is `sequence << 8 | kind`, so a larger trailer is newer.
//! Kinds 4 to 7 are reserved in format 1: reading one is a typed error, never a guess.

use std::cmp::Ordering;

use super::units::SeqNo;

/// What an entry does to its key. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is gone.
    Delete = 2,
    /// Every key of a range is gone. In a log an entry, in a memtable and a table kept apart from the entries.
    RangeDelete = 3,
    /// An operand for a merge operator (reserved).
    Merge = 4,
    /// A value with an expiry (reserved).
    PutWithExpiry = 5,
    /// A delete of a key that was put once (reserved).
    SingleDelete = 6,
    /// A value kept in another file (reserved).
    BlobReference = 7,
}

impl Kind {
    /// The kind with this number, if format 1 knows one.
    pub fn from_u8(n: u8) -> Option<Kind> {
        Some(match n {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::RangeDelete,
            4 => Kind::Merge,
            5 => Kind::PutWithExpiry,
            6 => Kind::SingleDelete,
            7 => Kind::BlobReference,
            _ => return None,
        })
    }
}

/// Sequence and kind in one word; of two entries of a key the one with the larger trailer is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Packs a sequence number and a kind.
    pub fn new(seq: SeqNo, kind: Kind) -> Trailer {
        Trailer(seq.0 << 8 | kind as u64)
    }

    /// The largest trailer visible at `seq`: seeking to it finds the newest entry at or below `seq`.
    pub fn seek(seq: SeqNo) -> Trailer {
        Trailer(seq.0 << 8 | 0xff)
    }

    /// The same kind with another sequence number.
    pub fn with_seq(self, seq: SeqNo) -> Trailer {
        Trailer(seq.0 << 8 | self.0 & 0xff)
    }

    /// The sequence number.
    pub fn seq(self) -> SeqNo {
        SeqNo(self.0 >> 8)
    }

    /// The kind's number, which may be one this version does not know.
    pub fn kind_byte(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    /// The kind, if known.
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.kind_byte())
    }

    /// True for a delete.
    pub fn is_delete(self) -> bool {
        self.kind_byte() == Kind::Delete as u8
    }
}

/// The tree's order of two entries: user key upward, then newest first.
pub fn compare(a: &[u8], at: Trailer, b: &[u8], bt: Trailer) -> Ordering {
    a.cmp(b).then(bt.cmp(&at))
}

/// The first eight bytes of `key` after `skip`, big-endian, zero-filled: compares like the key as far as it goes.
#[inline]
pub fn prefix_u64(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// The length of the common head of two keys.
pub fn common_head(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
