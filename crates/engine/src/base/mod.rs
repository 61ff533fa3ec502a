//! Floor 1: words that every floor uses. Nothing here knows of files, tables or trees.

pub mod class;
pub mod clock;
pub mod coding;
#[cfg(shuttle)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests let time pass"))]
pub mod drawn_waits;
pub mod durability;
pub mod error;
pub mod iterator;
pub mod key;
pub mod key_range;
pub mod locks;
pub mod random;
pub mod range_tombstones;
pub mod units;
