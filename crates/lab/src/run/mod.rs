//! Asking: the loops, what they record, and what finds the rate that a store sustains. Files are listed bottom-up.

pub mod engine;

pub mod compact;

pub mod recorder;

pub mod execute;

pub mod phase;

pub mod closed_loop;

pub mod open_loop;

pub mod steady;

pub mod driver_cost;

pub mod max_rate;

pub mod driver;

pub mod arguments;

pub mod load_arguments;

pub mod recorded;

pub mod replay;

#[cfg(test)]
pub mod map_engine;

pub mod soak;
