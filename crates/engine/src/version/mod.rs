//! Floor 5: the tree, immutable, and the log of its changes.

pub mod edit;
pub mod group;
pub mod level;
pub mod run;
pub mod version;
