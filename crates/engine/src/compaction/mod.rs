//! Floor 6: the design space of compactions, pure: no file, no clock, no lock, no thread.

pub mod compaction;
