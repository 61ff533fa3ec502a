//! Floor 9: who may use disk and CPU, and when. Knows classes and bytes, never a table.

pub mod admission;
pub mod budget;
pub mod catalog;
pub mod classifier;
pub mod client_use;
pub mod conflict;
pub mod decide;
pub mod device_share;
pub mod estimator;
pub mod gates;
pub mod order;
pub mod parameters;
pub mod plan;
pub mod policy;
pub mod rate;
pub mod situation;
