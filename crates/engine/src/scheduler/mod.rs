//! Floor 9: who may use disk and CPU, and when. Knows classes and bytes, never a table.

pub mod admission;
pub mod catalog;
pub mod policy;
