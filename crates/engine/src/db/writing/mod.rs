//! Records on their way in: let in, queued, committed; or loaded past the log.

pub mod admission;
#[cfg(test)]
mod admission_tests;
pub mod bulk_load;
pub mod commit;
pub mod compaction_first;
