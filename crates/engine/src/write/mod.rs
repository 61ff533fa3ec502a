//! Floor 4: the newest data: a batch, its log, and the memtable it is read from until it is flushed.

pub mod batch;
pub mod memtable;
pub mod memtable_ranges;
pub mod wal;
