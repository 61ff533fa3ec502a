//! How many bytes a second background work may move. Flushes are limited only where they share the budget, or by a plan (`plan.rs`).

use std::time::Duration;

use super::rate::Rate;
use super::situation::Sample;
use crate::base::error::{Error, Result};
use crate::execution::rate_limiter::REFILL;

/// SILK §5.2.1 names a small buffer, epsilon, and no figure: a twentieth, as much as a change must be to count.
pub const SILK_EPSILON: f64 = 0.05;
/// SILK §6.1: flushes and L0 to L1 go on at 50 of 200 MB/s.
pub const SILK_FLOOR: f64 = 50.0 / 200.0;
/// SILK §5.2.1: the limiter is touched for 10 MB/s or more, of 200.
pub const SILK_MIN_CHANGE: f64 = 10.0 / 200.0;
/// SILK's code has a floor of 10 of 200 MB/s (`db_bench_tool.cc`).
pub const ARTIFACT_FLOOR: f64 = 10.0 / 200.0;

/// RocksDB's auto-tuned limiter (`rate_limiter.cc`, `Tune`), SILK's baseline (§6.1): refills between two changes, and their time.
pub const TUNE_EVERY: Duration = Duration::from_secs(10);
/// The same: it goes down below this part of refills used up, and up above the other.
const DRAINED_LOW: f64 = 0.5;
const DRAINED_HIGH: f64 = 0.9;
/// The same: by this factor.
const TUNE_STEP: f64 = 1.05;
/// The same: not below this part of the maximum.
const TUNE_RANGE: f64 = 20.0;

/// The least rate, bytes per second: below it a step would take minutes.
pub const RATE_MIN: u64 = 1024;

/// How the rate is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// As fast as the device goes.
    Unlimited,
    /// A fixed rate for all compactions together, flushes excepted.
    Fixed(Rate),
    /// Up by a twentieth while the limiter holds work up nearly always, down while it seldom does.
    AutoTuned {
        /// The most, of which it begins with half.
        max: Rate,
    },
    /// What clients leave: I = clamp(T - C - epsilon, floor, T), for flushes and compactions together (SILK §5.2.1).
    Leftover {
        /// Kept free.
        epsilon: Rate,
        /// Never less, however much clients use.
        floor: Rate,
        /// Changes by less are not made.
        min_change: Rate,
    },
    /// What a plan needs for all to be done in time (`plan.rs`).
    Paced {
        /// By then what nobody waits for.
        horizon: Duration,
    },
}

/// What is remembered of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetState {
    /// The rate in force, bytes per second; `None` without a limit.
    pub rate: Option<u64>,
    /// Times that the rate was changed after it was first set.
    pub changes: u64,
    tuned: Option<(Duration, u64)>,
}

impl Budget {
    /// The rates in it, and what they are called.
    pub fn rates(&self) -> impl Iterator<Item = (&'static str, Rate)> {
        let rates = match *self {
            Budget::Unlimited | Budget::Paced { .. } => [None; 3],
            Budget::Fixed(rate) | Budget::AutoTuned { max: rate } => [Some(("the rate", rate)), None, None],
            Budget::Leftover { epsilon, floor, min_change } => {
                [Some(("epsilon", epsilon)), Some(("floor", floor)), Some(("min-change", min_change))]
            }
        };
        rates.into_iter().flatten()
    }

    /// True if it goes by what clients use.
    pub fn looks_at_clients(&self) -> bool {
        matches!(self, Budget::Leftover { .. } | Budget::Paced { .. })
    }

    /// What can be counted on in the long run, bytes per second, however busy clients are; `None` without a limit. Gates may
    /// still keep work from it while the load is high.
    pub fn lasting_bytes_per_sec(&self, device: Option<u64>) -> Option<u64> {
        let rate = match *self {
            // A plan gives what a deadline needs.
            Budget::Unlimited | Budget::Paced { .. } => return None,
            Budget::Fixed(rate) | Budget::AutoTuned { max: rate } => rate,
            Budget::Leftover { floor, .. } => floor,
        };
        rate.at(device).map(whole)
    }

    /// True if flushes use it too.
    pub fn covers_flushes(&self) -> bool {
        matches!(self, Budget::Leftover { .. })
    }

    /// Refuses rates that make no sense, on a device of this speed if it is known.
    pub fn check(&self, device: Option<u64>) -> Result<()> {
        let fits = |rate: Rate| match rate {
            Rate::OfDevice(part) => (0.0..=1.0).contains(&part),
            Rate::Bytes(bytes) => {
                device.is_none_or(|speed| bytes <= speed) || !matches!(self, Budget::Leftover { .. })
            }
        };
        if let Some((name, rate)) = self.rates().find(|(_, rate)| !fits(*rate)) {
            let what = format!("{name} is {rate}, and has to be from 0 to at most what the device can do");
            return Err(Error::invalid(match device {
                Some(speed) => format!(
                    "{what}: {}, as device_bytes_per_sec says or the store has measured",
                    Rate::Bytes(speed)
                ),
                None => what,
            }));
        }
        if let Some(why) = self.never_changes(None) {
            return Err(Error::invalid(why));
        }
        // Where a part of the device is the rate, the device must be known to compare.
        let too_slow = |rate: Rate| match (rate, device) {
            (Rate::OfDevice(part), None) => part <= 0.0,
            (rate, device) => rate.at(device).is_some_and(|bytes| bytes < RATE_MIN as f64),
        };
        match *self {
            Budget::Fixed(rate) | Budget::AutoTuned { max: rate } if too_slow(rate) => {
                Err(Error::invalid(format!(
                    "a rate is from {RATE_MIN} bytes a second up, like 100MiB: nothing would ever be compacted"
                )))
            }
            Budget::Leftover { floor, .. } if too_slow(floor) => Err(Error::invalid(format!(
                "floor is from {RATE_MIN} bytes a second up: L0 would fill while clients use the whole device"
            ))),
            _ => Ok(()),
        }
    }

    /// Why the rate would stay where it begins, however the clients' use changes; on whatever device unless one is known.
    pub fn never_changes(&self, device: Option<u64>) -> Option<String> {
        let Budget::Leftover { epsilon, floor, min_change } = *self else { return None };
        let part = |rate: Rate| match rate {
            Rate::OfDevice(part) => Some(part),
            Rate::Bytes(bytes) => device.map(|speed| bytes as f64 / speed.max(1) as f64),
        };
        let (free, least, change) = (part(epsilon)?, part(floor)?, part(min_change)?);
        let range = 1.0 - free - least;
        if range <= 0.0 && least < 1.0 {
            return Some(format!(
                "epsilon ({epsilon}) and floor ({floor}) leave nothing in between: the rate would always be the floor, which is what `fixed` is for"
            ));
        }
        (range > 0.0 && change > range).then(|| {
            format!(
                "min-change is {min_change}: more than the rate could ever change, from floor ({floor}) up to what epsilon ({epsilon}) leaves"
            )
        })
    }
}

impl BudgetState {
    /// The rate from now on. Where the device's speed is needed and not known, there is no limit. What clients use counts for `used`, since an
    /// interval is over, or as before.
    pub fn look(&mut self, budget: &Budget, is_over: bool, used: f64, sample: &Sample) {
        let device = sample.device;
        match *budget {
            Budget::Unlimited | Budget::Paced { .. } => self.rate = None,
            Budget::Fixed(rate) => self.rate = rate.at(device).map(whole),
            Budget::AutoTuned { max } => self.tune(max.at(device), sample),
            Budget::Leftover { epsilon, floor, min_change } => {
                let (Some(total), Some(epsilon), Some(floor), Some(least)) =
                    (device, epsilon.at(device), floor.at(device), min_change.at(device))
                else {
                    self.rate = None;
                    return;
                };
                if !is_over && self.rate.is_some() {
                    return;
                }
                let total = total as f64;
                let left = (total - used - epsilon).clamp(floor.min(total), total);
                match self.rate {
                    Some(rate) if (left - rate as f64).abs() < least => {}
                    Some(_) => self.change(left),
                    None => self.rate = Some(whole(left)),
                }
            }
        }
    }

    fn tune(&mut self, max: Option<f64>, sample: &Sample) {
        let Some(max) = max else {
            self.rate = None;
            return;
        };
        let (Some(rate), Some((since, drained))) = (self.rate, self.tuned) else {
            (self.rate, self.tuned) = (Some(whole(max / 2.0)), Some((sample.now, sample.drains)));
            return;
        };
        let elapsed = sample.now.saturating_sub(since);
        if elapsed < TUNE_EVERY {
            return;
        }
        self.tuned = Some((sample.now, sample.drains));
        let refills = (elapsed.as_secs_f64() / REFILL.as_secs_f64()).max(1.0);
        let used_up = sample.drains.saturating_sub(drained) as f64 / refills;
        let least = (max / TUNE_RANGE).max(RATE_MIN as f64);
        let next = match used_up {
            0.0 => least,
            share if share < DRAINED_LOW => rate as f64 / TUNE_STEP,
            share if share > DRAINED_HIGH => rate as f64 * TUNE_STEP,
            _ => rate as f64,
        };
        self.change(next.clamp(least.min(max), max));
    }

    fn change(&mut self, to: f64) {
        let to = Some(whole(to));
        self.changes += u64::from(to != self.rate);
        self.rate = to;
    }
}

fn whole(rate: f64) -> u64 {
    (rate as u64).max(RATE_MIN)
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
