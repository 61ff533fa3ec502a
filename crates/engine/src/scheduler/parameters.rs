//! The knobs of a schedule: `silk:floor=50MiB,victim=youngest`. Each changes one value of the policy.

use std::time::Duration;

use super::admission::{STEP_RATE, Slowing};
use super::budget::Budget;
use super::conflict::OnConflict;
use super::estimator::{BYTES_PER_GET, Estimator};
use super::gates::{Act, Burst};
use super::order::{L0Room, Order, Slots, Victim};
use super::policy::SchedulingPolicy;
use super::rate::Rate;
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::units::parse_size;

/// Every knob: its name, and what it takes.
pub const KNOBS: &[(&str, &str)] = &[
    ("estimator", "op-bytes, weighted@GET@SCAN, per-get[@BYTES], cache-fills[@FACTOR] or device"),
    ("epsilon", "what is kept free, a rate like 10MiB or a part of the device like 5%"),
    ("floor", "what background work has at least, a rate like 10MiB or a part like 5%"),
    ("min-change", "smaller changes of the rate are not made, a rate or a part"),
    ("every", "the interval in which clients are looked at, 1ms to 3600s, of a plan 1ms to 1s, like 10ms"),
    ("horizon", "by when deeper work is to be done, 1s to 86400s, like 30s"),
    ("low", "below this for `softness` intervals the load is low, a rate or a part"),
    ("high", "above this the load is high, a rate like 80MiB or a part like 70%"),
    ("softness", "intervals below `low` that make it low, 1 to 10000"),
    (
        "deep",
        "deeper jobs at high load: run, pause, or how many, 1 to 6; unless they run, upkeep is set aside too",
    ),
    ("l0", "L0 at high load: run, within (merged within itself only) or delay (not at all)"),
    (
        "burst-runs",
        "runs in L0 from which on it is merged at high load all the same, 2 to 100000; 0 for no matter how many",
    ),
    ("burst-bytes", "bytes in L0 from which on it is merged all the same, like 256MiB"),
    ("parts", "merges of flushed runs alone before all of L0 goes down; 0 for none"),
    ("order", "strict, fair, shortest-remaining, equal or deadline"),
    ("conflict", "a deep job that has tables L0 needs: wait, yield or discard"),
    (
        "victim",
        "the deep job that makes room for L0: random, youngest, least-progress, largest-remaining, extra or none",
    ),
    (
        "admission",
        "writers beside too many runs in L0: slope, steps[@RATE] (RocksDB's slowdown and stop) or none (no limit)",
    ),
    (
        "l0-down",
        "how many compactions bring L0 of a keyspace down at a time: a number, or any where tables differ",
    ),
    ("jobs", "jobs side by side: workers, workers+N, a number, or bandwidth@RATE a job; 1 to 8"),
];

/// Changes what `knob`, like `floor=25%`, says.
///
/// # Errors
/// `InvalidArgument`: no such knob, a value that cannot be read, or one that this schedule has no use for.
pub fn change(policy: &mut SchedulingPolicy, knob: &str) -> Result<()> {
    let Some((name, value)) = knob.split_once('=') else {
        return Err(Error::invalid(format!("`{knob}` is no knob; write NAME=VALUE, like floor=25%")));
    };
    let Some((_, takes)) = KNOBS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = KNOBS.iter().map(|(name, _)| *name).collect();
        return Err(Error::invalid(format!(
            "no schedule has a knob `{name}`; there are {}",
            names.join(", ")
        )));
    };
    if !has_use(policy, name) {
        return Err(Error::invalid(format!("this schedule has no use for `{name}`: {takes}")));
    }
    set(policy, name, value)
        .ok_or_else(|| Error::invalid(format!("`{value}` is no value of {name}: {takes}")))
}

/// The knobs that this schedule has a use for.
pub fn of(policy: &SchedulingPolicy) -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOBS.iter().copied().filter(|(name, _)| has_use(policy, name))
}

/// False for a knob that changes nothing in this schedule.
fn has_use(policy: &SchedulingPolicy, name: &str) -> bool {
    match name {
        "estimator" | "every" => policy.every.is_some(),
        "epsilon" | "floor" | "min-change" => matches!(policy.budget, Budget::Leftover { .. }),
        "horizon" => matches!(policy.budget, Budget::Paced { .. }),
        "low" | "high" | "softness" | "deep" | "l0" | "burst-runs" | "burst-bytes" | "parts" => {
            policy.load.is_some()
        }
        _ => true,
    }
}

/// `None` for a value that cannot be read.
fn set(policy: &mut SchedulingPolicy, name: &str, value: &str) -> Option<()> {
    match name {
        "estimator" => policy.estimator = estimator(value)?,
        "epsilon" | "floor" | "min-change" => set_budget(policy, name, rate(value)?),
        "low" => policy.load.as_mut()?.low = rate(value)?,
        "high" => policy.load.as_mut()?.high = rate(value)?,
        "softness" => policy.load.as_mut()?.softness = value.parse().ok()?,
        "every" => policy.every = Some(time(value)?),
        "horizon" => policy.budget = Budget::Paced { horizon: time(value)? },
        "deep" => set_deep(policy, value)?,
        "l0" => set_l0(policy, value)?,
        "burst-runs" | "burst-bytes" | "parts" => set_burst(policy, name, value)?,
        "order" => policy.order = order(value)?,
        "conflict" => policy.on_conflict = conflict(value)?,
        "victim" => policy.l0_room = room(value)?,
        "admission" => policy.admission = admission(value)?,
        "l0-down" => policy.l0_down_max = l0_down(value)?,
        "jobs" => policy.slots = slots(value)?,
        _ => return None,
    }
    Some(())
}

fn set_budget(policy: &mut SchedulingPolicy, name: &str, rate: Rate) {
    if let Budget::Leftover { epsilon, floor, min_change } = &mut policy.budget {
        *(match name {
            "epsilon" => epsilon,
            "floor" => floor,
            _ => min_change,
        }) = rate;
    }
}

fn set_deep(policy: &mut SchedulingPolicy, value: &str) -> Option<()> {
    let act = match value {
        "run" => None,
        "pause" => Some(Act::Pause),
        n => Some(Act::Max(n.parse().ok()?)),
    };
    policy.gates.set(Class::Deep, act);
    // Nothing waits for upkeep.
    policy.gates.set(Class::Upkeep, act.map(|_| Act::Pause));
    Some(())
}

fn set_l0(policy: &mut SchedulingPolicy, value: &str) -> Option<()> {
    let [within, down] = match value {
        "run" => [None, None],
        "within" => [None, Some(Act::NoStart)],
        "delay" => [Some(Act::NoStart); 2],
        _ => return None,
    };
    policy.gates.set(Class::IntraL0, within);
    policy.gates.set(Class::L0ToL1, down);
    Some(())
}

fn set_burst(policy: &mut SchedulingPolicy, name: &str, value: &str) -> Option<()> {
    let mut burst = policy.burst.unwrap_or(Burst { runs: None, bytes: None, parts: None });
    let is_there = |n: &u32| *n > 0;
    match name {
        "burst-runs" => burst.runs = Some(value.parse().ok()?).filter(is_there),
        "burst-bytes" => burst.bytes = Some(parse_size(value)?).filter(|bytes| *bytes > 0),
        _ => burst.parts = Some(value.parse().ok()?).filter(is_there),
    }
    policy.burst = Some(burst);
    Some(())
}

/// `25%`, or a size.
pub fn rate(text: &str) -> Option<Rate> {
    match text.strip_suffix('%') {
        Some(part) => {
            let part: f64 = part.trim().parse().ok()?;
            (part.is_finite() && part >= 0.0).then_some(Rate::OfDevice(part / 100.0))
        }
        None => parse_size(text).map(Rate::Bytes),
    }
}

fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_millis)
}

fn l0_down(text: &str) -> Option<Option<u32>> {
    if text == "any" { Some(None) } else { text.parse().ok().map(Some) }
}

fn estimator(text: &str) -> Option<Estimator> {
    let parts: Vec<&str> = text.split('@').collect();
    Some(match parts[..] {
        ["op-bytes"] => Estimator::OpBytes,
        ["weighted", get, scan] => {
            Estimator::WeightedOps { get: get.parse().ok()?, scan: scan.parse().ok()? }
        }
        ["per-get"] => Estimator::PerGet(BYTES_PER_GET),
        ["per-get", bytes] => Estimator::PerGet(parse_size(bytes)?),
        ["cache-fills"] => Estimator::CacheFills { gamma: None },
        ["cache-fills", gamma] => Estimator::CacheFills { gamma: Some(gamma.parse().ok()?) },
        ["device"] => Estimator::Device,
        _ => return None,
    })
}

fn order(text: &str) -> Option<Order> {
    Some(match text {
        "strict" => Order::Strict,
        "fair" => Order::Fair,
        "shortest-remaining" => Order::ShortestRemaining,
        "equal" => Order::Equal,
        "deadline" => Order::Deadline,
        _ => return None,
    })
}

fn conflict(text: &str) -> Option<OnConflict> {
    Some(match text {
        "wait" => OnConflict::Wait,
        "yield" => OnConflict::Yield,
        "discard" => OnConflict::Discard,
        _ => return None,
    })
}

fn room(text: &str) -> Option<L0Room> {
    Some(match text {
        "random" => L0Room::Preempts(Victim::Random),
        "youngest" => L0Room::Preempts(Victim::Youngest),
        "least-progress" => L0Room::Preempts(Victim::LeastProgress),
        "largest-remaining" => L0Room::Preempts(Victim::LargestRemaining),
        "extra" => L0Room::Extra,
        "none" => L0Room::Waits,
        _ => return None,
    })
}

fn admission(text: &str) -> Option<Slowing> {
    Some(match text.split_once('@') {
        Some(("steps", rate)) => Slowing::Steps { bytes_per_sec: parse_size(rate)? },
        Some(_) => return None,
        None => match text {
            "slope" => Slowing::Slope,
            "steps" => Slowing::Steps { bytes_per_sec: STEP_RATE },
            "none" => Slowing::Never,
            _ => return None,
        },
    })
}

fn slots(text: &str) -> Option<Slots> {
    Some(match text.split_once('@') {
        Some(("bandwidth", rate)) => Slots::ByBandwidth { bytes_per_sec: parse_size(rate)? },
        Some(_) => return None,
        None if text == "workers" => Slots::Workers,
        None if text.starts_with("workers+") => Slots::Beside(text["workers+".len()..].parse().ok()?),
        None => Slots::Exactly(text.parse().ok()?),
    })
}
