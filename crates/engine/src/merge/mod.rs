//! Floor 7: sorted streams: many as one, what a reader sees of them, what a compaction keeps of them.

pub mod merging_iterator;
pub mod range_tombstones;
pub mod retention;
pub mod run_iterator;
pub mod visible_iterator;
