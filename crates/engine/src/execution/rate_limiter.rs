//! A token bucket that never makes anyone wait: it says how many bytes may be moved now, and when to ask again.
//!
//! The scheduler sets the rate; the workers ask before each step and charge what the step really moved, so a step may
//! overdraw by its own size and later ones pay. Time comes in as an argument.

use std::time::Duration;

/// Bytes granted at a rate. No rate is no limit.
#[derive(Debug)]
pub struct RateLimiter {
    bytes_per_sec: Option<u64>,
    /// May be negative after a step that moved more than was granted.
    tokens: f64,
    refilled_at: Duration,
}

/// The most that may be saved up while idle, as time at full rate.
const BURST: Duration = Duration::from_millis(10);

impl RateLimiter {
    /// A limiter at this rate; `None` grants everything.
    pub fn new(bytes_per_sec: Option<u64>) -> RateLimiter {
        RateLimiter { bytes_per_sec, tokens: 0.0, refilled_at: Duration::ZERO }
    }

    /// The rate, bytes per second; `None` grants everything.
    pub fn rate(&self) -> Option<u64> {
        self.bytes_per_sec
    }

    /// Changes the rate from `now` on.
    pub fn set_rate(&mut self, now: Duration, bytes_per_sec: Option<u64>) {
        self.refill(now);
        self.bytes_per_sec = bytes_per_sec;
    }

    /// `Ok(bytes)` that may be moved now, or `Err(when)` to ask again.
    pub fn grant(&mut self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        let Some(rate) = self.bytes_per_sec else { return Ok(wanted) };
        self.refill(now);
        if self.tokens > 0.0 {
            return Ok(wanted);
        }
        let missing = 1.0 - self.tokens;
        let wait = Duration::try_from_secs_f64(missing / (rate.max(1) as f64)).unwrap_or(Duration::MAX);
        Err(now.saturating_add(wait.clamp(Duration::from_micros(50), Duration::from_secs(1))))
    }

    /// Takes what a step moved.
    pub fn charge(&mut self, bytes: u64) {
        if self.bytes_per_sec.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.refilled_at);
        self.refilled_at = now;
        if let Some(rate) = self.bytes_per_sec {
            let rate = rate as f64;
            let burst = (rate * BURST.as_secs_f64()).max(1.0);
            self.tokens = (self.tokens + rate * elapsed.as_secs_f64()).min(burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_a_second_a_greedy_worker_gets_the_rate() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let (mut now, mut moved) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            match limiter.grant(now, 65_536) {
                Ok(bytes) => {
                    limiter.charge(bytes);
                    moved += bytes;
                }
                Err(when) => now = when,
            }
        }
        assert!((1_000_000..1_100_000).contains(&moved), "{moved}");
    }

    #[test]
    fn no_rate_is_no_limit_and_a_new_rate_holds_at_once() {
        let mut limiter = RateLimiter::new(None);
        assert_eq!(limiter.grant(Duration::ZERO, 1 << 40), Ok(1 << 40));
        limiter.set_rate(Duration::from_secs(5), Some(1));
        limiter.charge(10);
        assert!(limiter.grant(Duration::from_secs(6), 1).is_err());
    }
}
