//! Bytes read and written, by class: whoever touches a file says whose bytes they are.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::class::IoClass;

/// Counters that every file of a file system shares.
#[derive(Debug, Default)]
pub struct IoCounters {
    read: [AtomicU64; IoClass::COUNT],
    written: [AtomicU64; IoClass::COUNT],
}

impl IoCounters {
    /// Counts bytes read.
    pub fn add_read(&self, class: IoClass, bytes: u64) {
        self.read[class.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes written.
    pub fn add_written(&self, class: IoClass, bytes: u64) {
        self.written[class.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes read for `class` so far.
    pub fn read(&self, class: IoClass) -> u64 {
        self.read[class.index()].load(Ordering::Relaxed)
    }

    /// Bytes written for `class` so far.
    pub fn written(&self, class: IoClass) -> u64 {
        self.written[class.index()].load(Ordering::Relaxed)
    }

    /// Bytes written for all classes.
    pub fn written_total(&self) -> u64 {
        self.written.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}
