//! Whether the clients' load is high or low, with a band between in which it stays what it was (DLC §3.2.2).

use super::rate::Rate;
use crate::base::error::{Error, Result};

/// SILK's code pauses deep compactions above 150 of 200 MB/s (`db_bench_tool.cc`), which leaves its evaluation's 50 for flushes and L0.
/// The paper, §5.2.2, names no figure.
pub const ARTIFACT_HIGH: f64 = 150.0 / 200.0;
/// DLC Table 2: `io_low_limit` of `io_limit`.
pub const DLC_LOW: f64 = 180.0 / 350.0;
/// DLC Table 2: `io_high_limit` of `io_limit`.
pub const DLC_HIGH: f64 = 300.0 / 350.0;
/// DLC Table 2: `softness`.
pub const DLC_SOFTNESS: u32 = 3;
/// A load that is low for longer than this is so.
const SOFTNESS_MAX: u32 = 10_000;

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
}

/// What is remembered of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadState {
    /// High or low.
    pub load: Load,
    /// Times that it became high.
    pub rises: u64,
    lows: u32,
}

impl LoadState {
    /// An interval is over, after which what clients use counts for so many bytes per second.
    pub fn look(&mut self, rule: &LoadRule, client: f64, device: Option<u64>) {
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
            return Err(Error::invalid(format!(
                "low is {}, high is {}, and low must be at most high, and high above 0, or a load would be both: set low and high",
                self.low, self.high
            )));
        }
        if self.low.at(speed).is_some_and(|low| low <= 0.0) {
            return Err(Error::invalid(
                "low must be above 0: a load would never be low again once it was high",
            ));
        }
        let is_never_high = match self.high {
            Rate::OfDevice(part) => part >= 1.0,
            Rate::Bytes(_) => {
                self.high.at(device).zip(device).is_some_and(|(high, speed)| high >= speed as f64)
            }
        };
        if is_never_high {
            let has = device.map_or_else(String::new, |speed| format!(" ({})", Rate::Bytes(speed)));
            return Err(Error::invalid(format!(
                "high is {}, and the device has no more{has}: load would never be high",
                self.high
            )));
        }
        if !(1..=SOFTNESS_MAX).contains(&self.softness) {
            return Err(Error::invalid(format!("softness is from 1 to {SOFTNESS_MAX} intervals")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn dlc() -> LoadRule {
        LoadRule { low: Rate::OfDevice(DLC_LOW), high: Rate::OfDevice(DLC_HIGH), softness: DLC_SOFTNESS }
    }

    /// Client MB a second, interval by interval, in; the load out.
    fn trace(rule: &LoadRule, rates: &[u64]) -> String {
        let mut state = LoadState::default();
        let mut look = |rate: &u64| {
            state.look(rule, (rate * MB) as f64, Some(350 * MB));
            if state.load == Load::High { 'H' } else { 'l' }
        };
        rates.iter().map(&mut look).collect()
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
        let high = Rate::OfDevice(ARTIFACT_HIGH);
        assert_eq!(trace(&LoadRule { low: high, high, softness: 1 }, &[262, 263, 262, 263, 100]), "lHlHl");
    }

    /// At 1 ms, 50 days of low load are more intervals than a counter of 32 bits holds.
    #[test]
    fn low_load_may_last_for_ever() {
        let mut state = LoadState { lows: u32::MAX, ..LoadState::default() };
        for _ in 0..3 {
            state.look(&dlc(), 0.0, Some(350 * MB));
            assert_eq!((state.load, state.lows), (Load::Low, u32::MAX));
        }
    }

    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let bad = [
            LoadRule { low: Rate::OfDevice(0.9), ..dlc() },
            LoadRule { high: Rate::OfDevice(1.0), ..dlc() },
            LoadRule { low: Rate::Bytes(0), high: Rate::Bytes(0), ..dlc() },
            LoadRule { softness: 0, ..dlc() },
        ];
        for rule in bad {
            assert_eq!(rule.check(Some(350 * MB)).unwrap_err().kind(), "InvalidArgument", "{rule:?}");
        }
        dlc().check(Some(350 * MB)).unwrap();
        dlc().check(None).unwrap();
    }
}
