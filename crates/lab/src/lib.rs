//! Measures a key-value engine: what is asked of it, how fast it answers, what that costs.
//!
//! ```text
//! load shape ─► arrivals (when each request is due) ──────────┐ (open loop)
//! workload ─► generator (keys, values, distributions) ─► driver ─► Engine
//!                                                          │
//!                                      recorder ◄──────────┘  histograms per thread, merged a second at a time
//!                                         └─► document (JSON) ─► report (terminal, HTML, CSV)
//!                                                  └─ of several engines and runs ─► comparison ─► its table
//! experiment ─► cells ─► documents ─► judging ─► verdicts ─► table, page          engines beside each other
//! design space ─► cells ─► figures ─► judge ─► verdicts ─► table, page            strategies beside each other
//! scheduling ─► cells ─► documents ─► judge ─► verdicts ─► table, page            schedules beside each other
//! ```
//!
//! The lab knows no engine: whoever wants to be measured implements [`run::engine::Engine`].
//! Folders are listed bottom-up, and so are the files of each in its `mod.rs`: a file imports only what stands above it.
#![forbid(unsafe_code)]

pub mod base;

pub mod workloads;

pub mod load;

pub mod run;

pub mod results;

pub mod verdicts;

pub mod demo;

pub mod design_space;

pub mod scheduling;

pub mod experiments;
