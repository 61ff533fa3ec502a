//! What the store is set to: the file that remembers it, options and strategies, changed while it runs.

pub mod in_force;
pub mod options_file;
pub mod strategies;
