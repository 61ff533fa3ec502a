//! Floor 4: one table file, written once, read through checksums.

pub mod meta;
pub mod meta_codec;
