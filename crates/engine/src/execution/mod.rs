//! Floor 8: doing the work; knows no policy; nothing in it blocks or sleeps.

pub mod compaction_job;
pub mod flush_job;
pub mod merge_loop;
pub mod output;
pub mod rate_limiter;
pub mod sync_lane;
