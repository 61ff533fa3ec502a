//! `cargo xtask ci`: what CI runs.
fn main() {}
