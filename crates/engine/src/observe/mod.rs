//! Floor 2: what the store tells about itself: counters, histograms, events.

pub mod io_counters;
