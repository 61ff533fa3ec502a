//! Small files that a store keeps beside its tables, and single files looked at by themselves: no store is needed for these.

pub mod file_ids;
pub mod heat_file;
pub mod identity;
pub mod inspect_log;
pub mod inspect_manifest;
pub mod inspect_table;
#[cfg(test)]
mod inspect_tests;
pub mod rotating_file;
pub mod trace_file;
