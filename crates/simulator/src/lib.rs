//! What a compaction strategy costs, without a byte of I/O: the engine's own decisions and edits on tables that nobody writes.
//!
//! ```text
//! workload, file or trace ─► operations ─► tape (memtables of sampled keys) ─► tree (flush, pick, merge, commit) ─► outcome
//!                                               │                                                                     │
//!                                               └───────────► thousands of strategies, all cores ─► Pareto front ◄────┘
//! the same operations ─► a real store ─► validation: how far is the simulation off?
//! ```
//!
//! Files are listed bottom-up; a file imports only files above it in this list. `docs/simulator.md` says what is modelled and how
//! well.
#![forbid(unsafe_code)]

pub mod entry;
pub mod sizes;

pub mod operations;
pub mod tape;

pub mod contents;
pub mod merge;

pub mod figures;
pub mod reading;
pub mod tree;

pub mod run;

pub mod compose;

pub mod sweep;

pub mod real_store;
pub mod validation;

pub mod page;
pub mod plot;
pub mod text;
