//! Floor 1: words that every floor uses. Nothing here knows of files, tables or trees.

pub mod class;
pub mod clock;
pub mod coding;
pub mod durability;
pub mod error;
pub mod iterator;
pub mod key;
pub mod key_range;
pub mod random;
pub mod range_tombstones;
pub mod units;
