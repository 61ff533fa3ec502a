//! The design space of compactions: experiments over strategies and what they work on, in the setup of the paper that charted it
//! (*Constructing and Analyzing the LSM Compaction Design Space*, VLDB 2021; CDS).
//!
//! ```text
//! Study ─► points ─► cells: a process each ─► measure: write, settle, read ─► figures
//!      └─► claims ────────────── judge ◄────────────────────────────────────────┘ ─► verdicts, tables, charts
//! ```
//!
//! Beside `experiment`, which sets engines beside each other: here one engine runs under many strategies. Files are listed
//! bottom-up.

pub mod heat_load;
pub mod point;

pub mod entries;
pub mod heat_cell;
pub mod measure;

pub mod study;

pub mod cells;
mod heat_verdict;
pub mod judge;

pub mod charts;
pub mod verdicts;
