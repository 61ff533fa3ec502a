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

/// Milliseconds since 1970, for people.
#[expect(clippy::disallowed_methods, reason = "ages of what a store has stamped")]
pub fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Lets `duration` pass.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps: a scripted pause, or the progress display"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
