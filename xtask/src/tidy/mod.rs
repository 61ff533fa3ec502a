//! What the compiler does not see: floors, cycles, headers, lengths, words. Files listed bottom-up.

pub mod finding;
pub mod source;
pub mod tokens;

pub mod floors;
pub mod house;
pub mod imports;
pub mod names;
pub mod promises;
pub mod tree;
