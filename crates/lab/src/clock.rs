//! The lab's only look at the clock, and its only sleep.
//!
//! Measuring needs the machine's real time, which the engine's own floors never touch directly; keeping it in one file
//! keeps the rest of the lab repeatable.

use std::time::{Duration, Instant};

/// The present moment, monotone.
#[expect(clippy::disallowed_methods, reason = "the lab measures real time, and only here")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets `duration` pass.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps: a scripted pause, or the progress display"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
