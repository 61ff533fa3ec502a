//! Floor 2: what the store tells about itself: counters, histograms, events.

pub mod counters;
pub mod event;
pub mod histogram;
pub mod io_counters;
