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
//! The lab knows no engine: whoever wants to be measured implements [`engine::Engine`]. Files are listed bottom-up; a
//! file imports only files above it in this list.
#![forbid(unsafe_code)]

pub mod clock;
pub mod random;

pub mod keys;
pub mod values;

pub mod zipfian;

pub mod distribution;

pub mod engine;
pub mod settings;
pub mod workload;

pub mod catalog;
pub mod property_file;
pub mod records;
pub mod text_operations;

pub mod generator;

pub mod execute;

pub mod compact;
pub mod recorder;

pub mod device;
pub mod machine;
pub mod provenance;

pub mod load_shape;

pub mod arrivals;

pub mod phase;

pub mod closed_loop;
pub mod open_loop;

pub mod driver_cost;
pub mod max_rate;

pub mod driver;

pub mod arguments;
pub mod load_arguments;

pub mod recorded;
pub mod replay;

#[cfg(test)]
mod map_engine;

pub mod soak;

pub mod steady;

pub mod document;
pub mod report;

pub mod comparison;
pub mod comparison_table;

pub mod expected;
pub mod experiment;

pub mod cells;

pub mod judging;

pub mod verdict_page;
pub mod verdict_table;

pub mod sustained;

pub mod kept;

pub mod demo;

pub mod design_space;

pub mod scheduling;

pub mod experiments;
