//! For tests and fuzzing alone: every decoder as one function of bytes, histories that bytes say, damage mended.

mod byte_history;
pub mod decoders;
#[cfg(test)]
mod decoders_tests;
pub mod mending;
