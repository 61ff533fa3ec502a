//! Floor 6: the design space of compactions, pure: no file, no clock, no lock, no thread.

pub mod bulk;
pub mod catalog;
pub mod catalog_rows;
pub mod claims;
pub mod closure;
pub mod commit;
#[expect(clippy::module_inception, reason = "the file is named after the type it defines, like every other")]
pub mod compaction;
pub mod cost_model;
pub mod cut;
pub mod deadline;
pub mod due;
pub mod duplicates;
pub mod explanation;
pub mod granularity;
pub mod layout;
pub mod legality;
pub mod level_sizes;
pub mod movement;
pub mod output_bounds;
pub mod picker;
pub mod placement;
pub mod regroup;
pub mod strategy;
pub mod strategy_check;
pub mod strategy_text;
pub mod strategy_words;
pub mod tree_view;
pub mod trigger;

#[cfg(test)]
mod twin_ensembles;
#[cfg(test)]
mod twin_heat;
#[cfg(test)]
mod twin_jobs;
#[cfg(test)]
mod twin_tests;
#[cfg(test)]
mod twin_world;
