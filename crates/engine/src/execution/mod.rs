//! Floor 8: doing the work; knows no policy; nothing in it blocks or sleeps.

pub mod rate_limiter;
pub mod sync_lane;
