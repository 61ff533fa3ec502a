//! The command `keel`.
fn main() {}
