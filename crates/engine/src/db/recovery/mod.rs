//! From what a manifest and logs say to a store that goes on.

pub mod inline_flush;
pub mod replay;
pub mod salvage;
pub mod settling;
