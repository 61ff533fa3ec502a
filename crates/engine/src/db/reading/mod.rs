//! What reads an open store: gets, scans, and the reading of every byte.

pub mod lookup;
pub mod scan;
pub mod verify;
