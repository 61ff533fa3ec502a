//! Floor 2: what the store tells about itself: counters, histograms, events, and what operations waited for.

pub mod client_ops;
pub mod counters;
pub mod event;
pub mod event_json;
pub mod histogram;
pub mod io_counters;
pub mod json;
pub mod memory;
pub mod slow;
pub mod waits;
pub mod words;
