//! Whether the clients' load is high or low, with a band between in which it stays what it was (DLC §3.2.2).

use std::time::Duration;

use super::estimator::{Estimator, Usage};
use super::rate::Rate;
use crate::base::error::{Error, Result};

/// SILK's code pauses deep compactions above 150 of 200 MB/s (`db_bench_tool.cc`), which leaves its evaluation's 50 for flushes and L0.
/// The paper, §5.2.2, names no figure.
pub const ARTIFACT_HIGH: f64 = 150.0 / 200.0;
/// SILK §5.2.1: the monitoring granularity.
pub const SILK_EVERY: Duration = Duration::from_millis(10);
/// DLC Table 2: `io_low_limit` of `io_limit`.
pub const DLC_LOW: f64 = 180.0 / 350.0;
/// DLC Table 2: `io_high_limit` of `io_limit`.
pub const DLC_HIGH: f64 = 300.0 / 350.0;
/// DLC Table 2: `softness`.
pub const DLC_SOFTNESS: u32 = 3;
/// DLC Table 2: `time_interval`.
pub const DLC_EVERY: Duration = Duration::from_secs(1);

/// In intervals this short few requests end, on a slow device a dozen: what clients use seems to fall for a moment all the time, and work
/// that rushes in takes the device from them. There a fall counts when the mean of the last intervals shows it, a rise at once.
const SHORT: Duration = Duration::from_millis(10);
/// So many intervals are in that mean: a new load has its rate in three (SILK §5.2.1 does not say).
const OF_LATE: usize = 3;

/// How often the load may be looked at, at most and at least.
const EVERY: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// The clients' load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// There is bandwidth to spare.
    #[default]
    Low,
    /// There is none.
    High,
}

/// When it is which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadRule {
    /// Below this it may be low.
    pub low: Rate,
    /// Above this it is high.
    pub high: Rate,
    /// So many intervals in a row below `low` make it low.
    pub softness: u32,
    /// The interval.
    pub every: Duration,
}

/// What is remembered of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadState {
    /// High or low.
    pub load: Load,
    /// What clients used in the last interval, bytes per second.
    pub client: f64,
    /// Times that it became high.
    pub rises: u64,
    lows: u32,
    window: Window,
}

impl LoadState {
    /// Looks at the counters, if an interval is over.
    pub fn look(
        &mut self,
        rule: &LoadRule,
        by: &Estimator,
        now: Duration,
        used: &Usage,
        device: Option<u64>,
    ) {
        let Some(client) = self.window.rate(by, now, used, rule.every) else { return };
        self.client = client;
        let client = self.window.counts_as(rule.every);
        let (Some(low), Some(high)) = (rule.low.at(device), rule.high.at(device)) else { return };
        self.lows = if client < low { self.lows.saturating_add(1) } else { 0 };
        if client > high {
            self.rises += u64::from(self.load == Load::Low);
            self.load = Load::High;
        } else if self.lows >= rule.softness {
            self.load = Load::Low;
        }
    }
}

/// The counters as they were when the interval began, and what the last ones came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    began: Option<(Duration, Usage)>,
    /// Bytes per second, the last one last.
    rates: [f64; OF_LATE],
}

impl Window {
    /// What clients used a second since the interval began, if that is over; then the next one begins.
    pub fn rate(&mut self, by: &Estimator, now: Duration, used: &Usage, every: Duration) -> Option<f64> {
        let Some((since, before)) = self.began else {
            self.began = Some((now, *used));
            return None;
        };
        let elapsed = now.saturating_sub(since);
        if elapsed < every || elapsed.is_zero() {
            return None;
        }
        self.began = Some((now, *used));
        let rate = by.bytes(&used.since(&before)) / elapsed.as_secs_f64();
        self.rates.rotate_left(1);
        self.rates[OF_LATE - 1] = rate;
        Some(rate)
    }

    /// What they count for after that.
    pub fn counts_as(&self, every: Duration) -> f64 {
        let last = self.rates[OF_LATE - 1];
        let mean = self.rates.iter().sum::<f64>() / OF_LATE as f64;
        if every > SHORT { last } else { mean.max(last) }
    }
}

impl LoadRule {
    /// Refuses limits that make no sense, on a device of this speed if it is known.
    pub fn check(&self, device: Option<u64>) -> Result<()> {
        // Two parts of the device can be compared whatever its speed is.
        let speed = device.or(Some(1_000_000_000));
        let comparable = device.is_some()
            || matches!(
                (self.low, self.high),
                (Rate::OfDevice(_), Rate::OfDevice(_)) | (Rate::Bytes(_), Rate::Bytes(_))
            );
        if let (Some(low), Some(high), true) = (self.low.at(speed), self.high.at(speed), comparable)
            && (low > high || high <= 0.0)
        {
            return Err(Error::invalid("low must be at most high, and high above 0: a load would be both"));
        }
        if let (Some(high), Some(speed)) = (self.high.at(device), device)
            && high >= speed as f64
        {
            return Err(Error::invalid(format!(
                "high is {high:.0} bytes a second, and the device has {speed}: load would never be high"
            )));
        }
        if self.softness == 0 {
            return Err(Error::invalid("softness is at least 1 interval"));
        }
        check_every(self.every)
    }
}

/// Refuses intervals in which nothing can be measured, or that nobody lives to see the end of.
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

    fn dlc() -> LoadRule {
        LoadRule {
            low: Rate::OfDevice(DLC_LOW),
            high: Rate::OfDevice(DLC_HIGH),
            softness: DLC_SOFTNESS,
            every: DLC_EVERY,
        }
    }

    /// Client MB a second, second by second, in; the load out.
    fn trace(rule: &LoadRule, rates: &[u64]) -> String {
        let (mut state, mut used, mut now) = (LoadState::default(), Usage::default(), Duration::ZERO);
        let look = |state: &mut LoadState, now, used: &Usage| {
            state.look(rule, &Estimator::Device, now, used, Some(350 * MB));
        };
        look(&mut state, now, &used);
        let mut out = String::new();
        for rate in rates {
            now += Duration::from_secs(1);
            used.client_read_bytes += rate * MB;
            look(&mut state, now, &used);
            out.push(if state.load == Load::High { 'H' } else { 'l' });
        }
        out
    }

    #[test]
    fn one_high_sample_is_high_and_only_three_low_ones_are_low() {
        let table: [(&[u64], &str); 7] = [
            (&[100, 301, 100, 100, 100, 100], "lHHHll"),
            // Between the limits it stays what it was, and a low row begins anew.
            (&[250, 250, 301, 250, 250, 250], "llHHHH"),
            (&[301, 100, 100, 200, 100, 100, 100], "HHHHHHl"),
            // The limits themselves are neither.
            (&[300, 301, 180, 180, 180, 180], "lHHHHH"),
            // A dip while a flush takes the device, at high load.
            (&[320, 320, 90, 60, 320, 320, 80, 310], "HHHHHHHH"),
            (&[0, 0, 0, 0], "llll"),
            (&[301, 179, 179, 179, 301, 179], "HHHlHH"),
        ];
        for (rates, expected) in table {
            assert_eq!(trace(&dlc(), rates), expected, "{rates:?}");
        }
    }

    /// At 1 ms, 50 days of low load are more intervals than a counter of 32 bits holds.
    #[test]
    fn low_load_may_last_for_ever() {
        let mut state = LoadState { lows: u32::MAX, ..LoadState::default() };
        let (device, used) = (Some(350 * MB), Usage::default());
        for second in 0..3 {
            state.look(&dlc(), &Estimator::Device, Duration::from_secs(second), &used, device);
            assert_eq!((state.load, state.lows), (Load::Low, u32::MAX));
        }
    }

    #[test]
    fn an_interval_of_a_second_is_judged_by_itself() {
        let high = Rate::OfDevice(ARTIFACT_HIGH);
        let rule = LoadRule { low: high, high, softness: 1, every: Duration::from_secs(1) };
        assert_eq!(trace(&rule, &[262, 263, 262, 263, 100]), "lHlHl");
    }

    /// In 10 ms a load that is high all the time seems low for a moment.
    #[test]
    fn a_fall_counts_when_three_short_intervals_show_it() {
        let high = Rate::OfDevice(ARTIFACT_HIGH);
        let rule = LoadRule { low: high, high, softness: 1, every: Duration::from_millis(10) };
        let (mut state, mut used, mut out) = (LoadState::default(), Usage::default(), String::new());
        for (interval, rate) in [0, 100, 300, 300, 200, 300, 100].into_iter().enumerate() {
            used.client_read_bytes += rate * MB / 100;
            let now = Duration::from_millis(10 * interval as u64);
            state.look(&rule, &Estimator::Device, now, &used, Some(350 * MB));
            out.push(if state.load == Load::High { 'H' } else { 'l' });
        }
        assert_eq!(out, "llHHHHl");
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_decides_nothing_wrong() {
        let (mut state, rule) = (LoadState::default(), dlc());
        let device = Some(350 * MB);
        let mut look = |secs: u64, bytes: u64| {
            let used = Usage { client_read_bytes: bytes, ..Usage::default() };
            state.look(&rule, &Estimator::Device, Duration::from_secs(secs), &used, device);
            (state.load, state.client)
        };
        look(5, 0);
        // No time has passed: no rate can be told.
        assert_eq!(look(5, 900 * MB).0, Load::Low);
        assert_eq!(look(6, 900 * MB).0, Load::High);
        // An hour later a mean of the hour.
        assert_eq!(look(3606, 1260 * MB), (Load::High, 0.1 * MB as f64));
        // Backwards it waits until time is where it was.
        assert_eq!(look(3000, 9000 * MB).0, Load::High);
    }

    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let bad = [
            LoadRule { low: Rate::OfDevice(0.9), ..dlc() },
            LoadRule { high: Rate::OfDevice(1.0), ..dlc() },
            LoadRule { low: Rate::Bytes(0), high: Rate::Bytes(0), ..dlc() },
            LoadRule { softness: 0, ..dlc() },
            LoadRule { every: Duration::ZERO, ..dlc() },
        ];
        for rule in bad {
            assert_eq!(rule.check(Some(350 * MB)).unwrap_err().kind(), "InvalidArgument", "{rule:?}");
        }
        dlc().check(Some(350 * MB)).unwrap();
        dlc().check(None).unwrap();
    }
}
