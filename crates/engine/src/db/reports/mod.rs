//! What a store tells about itself: figures, reasons, pictures. Nothing here changes it.

pub mod audit;
pub mod costs;
pub mod explain;
pub mod job_state;
pub mod level_report;
pub mod metric_parts;
pub mod metrics;
pub mod prometheus;
pub mod properties;
pub mod schedule_report;
pub mod slow_report;
