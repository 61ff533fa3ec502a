//! Compactions: found, begun, stepped, installed; and what says when they may run and how much may come in meanwhile.

pub mod begin;
pub mod covered;
pub mod deletes;
pub mod device_speed;
pub mod grouping;
pub mod install;
pub mod memory;
pub mod planning;
pub mod pressure;
pub mod scheduling;
pub mod search;
pub mod stepping;
#[cfg(test)]
mod tests;
