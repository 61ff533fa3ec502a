//! Floor 6: the design space of compactions, pure: no file, no clock, no lock, no thread.

pub mod compaction;
pub mod strategy;
pub mod strategy_text;

pub mod trigger;

pub mod layout;

pub mod movement;

pub mod granularity;

pub mod closure;

pub mod legality;

pub mod claims;

pub mod tree_view;

pub mod placement;

pub mod picker;

pub mod commit;

pub mod catalog;

pub mod cost_model;

#[cfg(test)]
mod twin_tests;
#[cfg(test)]
mod twin_world;
