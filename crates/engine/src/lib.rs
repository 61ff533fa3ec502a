//! Evenkeel: an embeddable LSM-tree key-value store that stays on an even keel.
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "floors are built bottom-up; goes when the top floor stands")]

pub(crate) mod base;
pub(crate) mod compaction;
pub(crate) mod db;
pub(crate) mod execution;
pub(crate) mod hotness;
pub(crate) mod merge;
pub(crate) mod observe;
pub(crate) mod options;
pub(crate) mod scheduler;
pub(crate) mod storage;
pub(crate) mod table;
pub(crate) mod version;
pub(crate) mod write;
