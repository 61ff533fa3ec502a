//! Stores opened, made, copied and repaired; keyspaces that come and go.

pub mod builder;
pub mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
pub mod keyspaces;
#[cfg(test)]
mod opening_tests;
pub mod read_only;
#[cfg(test)]
mod read_only_tests;
pub mod repair;
pub mod untrusted;
#[cfg(test)]
mod untrusted_tests;
