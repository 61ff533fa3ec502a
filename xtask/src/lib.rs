//! The project's own checks, behind `cargo xtask`.
//!
//! ```text
//! ci            the table of steps that CI runs, one after the other
//! packages      what the library pulls in: few packages, no C, known licences and sources
//! tidy          what the compiler does not see: floors, cycles, headers, lengths, words
//! instructions  how many instructions an operation takes, beside how many it took
//! trust         the layers that the store's promises hang on, and bugs planted to see that they notice
//! ```
//!
//! Nothing here is shipped, so it reads files and clocks directly.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a tool for developers: no simulated disk or clock stands behind it"
)]

pub mod ci;
pub mod instructions;
pub mod packages;
pub mod tidy;
pub mod trust;
