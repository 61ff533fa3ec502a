//! What the ticker remembers from second to second: the files it writes, and the counters as they were.

use std::time::Duration;

use crate::db::files::rotating_file::RotatingFile;
use crate::observe::slow::Surroundings;

/// What is remembered from second to second.
#[derive(Debug)]
pub struct Ticker {
    /// `LOG`.
    pub log: RotatingFile,
    /// `STATS`.
    pub stats: RotatingFile,
    /// When the last second was closed.
    pub closed_at: Duration,
    /// The counters then.
    pub seen: Surroundings,
    /// When the last line went to `STATS`.
    pub stats_at: Duration,
    /// What of it counts as a change.
    pub last_line: Vec<u64>,
    /// When `HEAT` was last written.
    pub heat_saved_at: Duration,
    /// Something was learnt since.
    pub heat_is_newer: bool,
    /// The schedule, and the speed that it goes by, of which was told last that the device is too slow for it.
    pub device_too_slow: Option<(String, u64)>,
}

impl Ticker {
    /// Nothing written yet.
    pub fn new(now: Duration) -> Ticker {
        Ticker {
            log: RotatingFile::log(),
            stats: RotatingFile::stats(),
            closed_at: now,
            seen: Surroundings::default(),
            stats_at: now,
            last_line: Vec::new(),
            heat_saved_at: now,
            heat_is_newer: false,
            device_too_slow: None,
        }
    }
}
