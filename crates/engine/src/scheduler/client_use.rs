//! What clients use of the device, interval by interval: what both the rate and the load go by.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::estimator::{Estimator, Usage};
use crate::base::error::{Error, Result};

/// SILK §5.2.1: the monitoring granularity.
pub const SILK_EVERY: Duration = Duration::from_millis(10);
/// DLC Table 2: `time_interval`.
pub const DLC_EVERY: Duration = Duration::from_secs(1);

/// In intervals this short few requests end, on a slow device a dozen: what clients use seems to fall for a moment all the time, and work
/// that rushes in takes the device from them. There a fall counts when the mean of the last intervals shows it, a rise at once.
const SHORT: Duration = Duration::from_millis(10);
/// So many intervals are in that mean: a new load has its rate in three (SILK §5.2.1 does not say).
const OF_LATE: usize = 3;

/// How often it may be looked at, at most and at least.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// The counters as they were when the interval began, and what the last ones came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientUse {
    began: Option<(Duration, Usage)>,
    /// Bytes per second, the last one last.
    rates: [f64; OF_LATE],
}

impl ClientUse {
    /// True if an interval is over; then the next one begins.
    pub fn look(&mut self, by: &Estimator, now: Duration, used: &Usage, every: Duration) -> bool {
        let Some((since, before)) = self.began else {
            self.began = Some((now, *used));
            return false;
        };
        let elapsed = now.saturating_sub(since);
        if elapsed < every || elapsed.is_zero() {
            return false;
        }
        self.began = Some((now, *used));
        self.rates.rotate_left(1);
        self.rates[OF_LATE - 1] = by.bytes(&used.since(&before)) / elapsed.as_secs_f64();
        true
    }

    /// What was used in the last interval, bytes per second.
    pub fn last(&self) -> f64 {
        self.rates[OF_LATE - 1]
    }

    /// What that counts for after the intervals before it.
    pub fn counts_as(&self, every: Duration) -> f64 {
        let mean = self.rates.iter().sum::<f64>() / OF_LATE as f64;
        if every > SHORT { self.last() } else { mean.max(self.last()) }
    }
}

/// Refuses intervals in which nothing can be measured, or that nobody lives to see the end of.
///
/// # Errors
/// `InvalidArgument` with the range.
pub fn check_every(every: Duration) -> Result<()> {
    if EVERY.contains(&every) {
        return Ok(());
    }
    Err(Error::invalid("the interval is from 1 ms to an hour, like every=10ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// MB a second, interval by interval, in; what they count for out.
    fn trace(every: Duration, rates: &[u64]) -> Vec<u64> {
        let (mut state, mut used, mut now) = (ClientUse::default(), Usage::default(), Duration::ZERO);
        assert!(!state.look(&Estimator::Device, now, &used, every));
        let mut look = |rate: &u64| {
            now += every;
            used.client_read_bytes += rate * MB / 1000 * every.as_millis() as u64;
            assert!(state.look(&Estimator::Device, now, &used, every));
            assert!((state.last() / MB as f64 - *rate as f64).abs() < 1e-6);
            (state.counts_as(every) / MB as f64).round() as u64
        };
        rates.iter().map(&mut look).collect()
    }

    /// In 10 ms a load that is high all the time seems low for a moment.
    #[test]
    fn a_fall_counts_when_three_short_intervals_show_it() {
        let rates = [0, 90, 300, 300, 210, 300, 90, 90, 90];
        let counted = [0, 90, 300, 300, 270, 300, 200, 160, 90];
        assert_eq!(trace(Duration::from_millis(10), &rates), counted);
        assert_eq!(trace(Duration::from_secs(1), &rates), rates, "a second is judged by itself");
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_shows_nothing_wrong() {
        let mut state = ClientUse::default();
        let mut look = |secs: u64, bytes: u64| {
            let used = Usage { client_read_bytes: bytes, ..Usage::default() };
            let over = state.look(&Estimator::Device, Duration::from_secs(secs), &used, DLC_EVERY);
            (over, state.counts_as(DLC_EVERY))
        };
        assert_eq!(look(5, 0), (false, 0.0));
        // No time has passed: no rate can be told.
        assert_eq!(look(5, 900 * MB), (false, 0.0));
        assert_eq!(look(6, 900 * MB), (true, (900 * MB) as f64));
        // An hour later a mean of the hour.
        assert_eq!(look(3606, 1260 * MB), (true, 0.1 * MB as f64));
        // Backwards it waits until time is where it was.
        assert_eq!(look(3000, 9000 * MB), (false, 0.1 * MB as f64));
    }

    #[test]
    fn intervals_that_show_nothing_are_refused() {
        for every in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(3601)] {
            assert_eq!(check_every(every).unwrap_err().kind(), "InvalidArgument", "{every:?}");
        }
        check_every(SILK_EVERY).unwrap();
    }
}
