//! What the tree knows of a table file without opening it. Written into the manifest with every edit that adds the table.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::key_range::KeyRange;
use crate::base::units::{SeqNo, TableId};

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
}

/// Equal-depth samples of a table's keys: `keys[i]` is the key at (i + 1) / (n + 1) of its entries, cut to 32 bytes.
/// LTG's φ over any intervals is estimated from it (LTG-4).
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
    /// xxh3-64 of the footer block, which itself covers every other block's checksum by way of the index.
    pub checksum: u64,
    /// All entries, tombstones included.
    pub entries: u64,
    /// Distinct user keys.
    pub keys: u64,
    /// Smallest and largest sequence number.
    pub seqs: (SeqNo, SeqNo),
    /// Deletes of single keys.
    pub tombstones: u64,
    /// Range deletes (reserved, 0 in format 1).
    pub range_tombstones: u64,
    /// Data blocks of which at least half the entries are tombstones.
    pub dense_blocks: u64,
    /// When the oldest tombstone was acknowledged, wall milliseconds; `None` without tombstones.
    pub oldest_tombstone_ms: Option<u64>,
    /// When the table was made, wall milliseconds.
    pub created_ms: u64,
    /// Smallest user key.
    pub smallest: Box<[u8]>,
    /// Largest user key.
    pub largest: Box<[u8]>,
    /// Samples of the keys.
    pub key_histogram: KeyHistogram,
    /// What made it.
    pub born: Born,
    /// What upper floors hang on the table: its open reader. No part of the facts.
    pub attachment: Attachment,
}

impl TableMeta {
    /// All of the table's keys.
    pub fn bounds(&self) -> KeyRange {
        KeyRange::closed(&self.smallest, &self.largest)
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
