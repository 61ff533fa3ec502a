//! `cargo xtask trust`: the tests that the store's promises hang on, as layers that run from one command.
//!
//! ```text
//! layers      the table: what each layer shows and how it is run     words       what the command line asks for
//! run         runs them, keeps seeds that fail                       lines       what a layer prints
//! fuzzing     runs libFuzzer, for the layer that is no test
//! mutants     plants a bug in a copy of the tree and asks the layer that should catch it
//! ```
//! A layer is a test of some crate, which `cargo test` runs in its short form. Here it runs alone, as long as one wants.

pub mod fuzzing;
pub mod layers;
pub mod lines;
pub mod mutants;
pub mod run;
pub mod words;
