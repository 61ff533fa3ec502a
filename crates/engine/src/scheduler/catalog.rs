//! Schedulers by name, as data: the papers' and their baselines. Knobs follow the name: `silk:floor=20%,every=20ms`.

use super::admission::Slowing;
use super::budget::{ARTIFACT_FLOOR, Budget, EPSILON, FLOOR, MIN_CHANGE, RATE_MIN};
use super::classifier::{ARTIFACT_HIGH, DLC_EVERY, DLC_HIGH, DLC_LOW, DLC_SOFTNESS, LoadRule, SILK_EVERY};
use super::estimator::Estimator;
use super::gates::{Act, BURST_PARTS, BURST_RUNS, Burst, DEEP_AT_HIGH, Gate};
use super::order::{BYTES_PER_SLOT, L0Room, OnConflict, Order, Slots, Victim};
use super::parameters::{change, rate};
use super::plan::{HORIZON, PLAN_EVERY};
use super::policy::SchedulingPolicy;
use super::rate::Rate;
use crate::base::class::Class;
use crate::base::error::{Error, Result};

/// Every schedule: its form, and one line for people.
pub const CATALOG: &[(&str, &str)] = &[
    ("unlimited", "background work runs as fast as the device goes"),
    ("fixed:RATE", "all compactions together move at most RATE bytes per second; flushes are never limited"),
    ("autotuned[:MAX]", "RocksDB's auto-tuned limiter: up to MAX, or to what the device can do"),
    ("silk", "SILK: what clients leave, L0 before deeper levels, those paused at high load"),
    ("silk-bandwidth", "SILK's first half: what clients leave, no class first"),
    ("silk-priority", "SILK's other half: L0 before deeper levels, no limit"),
    ("silk-star", "SILK with DLC's estimate of the clients' load, from cache fills"),
    ("silk-artifact", "what SILK's published code does: looks once a second, gives way to nobody"),
    ("dlc-full", "DLC: no compaction of L0 at high load"),
    ("dlc-part", "DLC: at high load L0 is merged within itself only"),
    ("dlc-burst-full", "dlc-full, but L0 goes down when it has 20 runs"),
    (
        "dlc-burst-part",
        "dlc-full, but 20 flushed runs are merged into one, and all go down after the fourth time",
    ),
    (
        "paced",
        "what must be done by when, and no faster while clients are busy; all of the device while they rest",
    ),
];

/// A schedule from its text: a name, and after `:` its rate or knobs.
///
/// # Errors
/// `InvalidArgument` that says what there is, or which value makes no sense.
pub fn parse(text: &str) -> Result<SchedulingPolicy> {
    let (name, knobs) = match text.split_once(':') {
        Some((name, knobs)) => (name, Some(knobs)),
        None => (text, None),
    };
    let policy = match (name, knobs) {
        ("fixed", Some(knobs)) => {
            let rate = rate(knobs).ok_or_else(|| {
                Error::invalid(format!(
                    "`{knobs}` is no rate, which is all that `fixed` takes; write bytes per second from {RATE_MIN} up, like \
                     fixed:100MiB, or a part of the device, like fixed:25%"
                ))
            })?;
            SchedulingPolicy { budget: Budget::Fixed(rate), ..unlimited() }
        }
        ("autotuned", max) => {
            let max = match max {
                None => Rate::OfDevice(1.0),
                Some(max) => rate(max).ok_or_else(|| {
                    Error::invalid(format!(
                        "`{max}` is no rate, which is all that `autotuned` takes; write for instance autotuned:100MiB"
                    ))
                })?,
            };
            SchedulingPolicy { budget: Budget::AutoTuned { max }, ..unlimited() }
        }
        (name, knobs) => {
            let mut policy = preset(name).ok_or_else(|| unknown(text))?;
            let mut said = Vec::new();
            for knob in knobs.iter().flat_map(|knobs| knobs.split(',')) {
                change(&mut policy, knob)?;
                let name = knob.split('=').next().unwrap_or_default();
                if said.contains(&name) {
                    return Err(Error::invalid(format!("`{name}` is said twice")));
                }
                said.push(name);
            }
            policy
        }
    };
    policy.check(None)?;
    Ok(policy)
}

fn unknown(text: &str) -> Error {
    let names: Vec<&str> = CATALOG.iter().map(|(form, _)| *form).collect();
    Error::invalid(format!("unknown schedule `{text}`; there are {}", names.join(", ")))
}

fn preset(name: &str) -> Option<SchedulingPolicy> {
    Some(match name {
        "unlimited" => unlimited(),
        "silk" => silk(),
        "silk-bandwidth" => SchedulingPolicy {
            order: Order::Equal,
            on_conflict: OnConflict::Wait,
            l0_room: L0Room::Waits,
            load: None,
            gates: Vec::new(),
            ..silk()
        },
        // "priorities and preemption but where the I/O bandwidth is not controlled" (SILK §6.5): a pause is such a control.
        "silk-priority" => SchedulingPolicy {
            budget: Budget::Unlimited,
            load: None,
            gates: Vec::new(),
            slots: Slots::Workers,
            ..silk()
        },
        "silk-star" => SchedulingPolicy { estimator: Estimator::CacheFills { gamma: None }, ..silk() },
        "silk-artifact" => silk_artifact(),
        "dlc-full" => dlc(),
        "dlc-part" => {
            let gates = dlc().gates.into_iter().filter(|gate| gate.class != Class::IntraL0);
            SchedulingPolicy { gates: gates.collect(), ..dlc() }
        }
        "dlc-burst-full" => SchedulingPolicy { burst: Some(burst(None)), ..dlc() },
        "dlc-burst-part" => SchedulingPolicy { burst: Some(burst(Some(BURST_PARTS))), ..dlc() },
        "paced" => paced(),
        _ => return None,
    })
}

/// The engine's own: more urgent classes first, nobody's load is looked at.
pub fn unlimited() -> SchedulingPolicy {
    SchedulingPolicy {
        estimator: Estimator::Device,
        budget: Budget::Unlimited,
        load: None,
        gates: Vec::new(),
        burst: None,
        order: Order::Strict,
        on_conflict: OnConflict::Yield,
        l0_room: L0Room::Preempts(Victim::Youngest),
        slots: Slots::Workers,
        admission: Slowing::Slope,
    }
}

/// SILK §5, all three techniques. What clients use of the device is counted at the device: the paper does not say how it was, and bytes of
/// operations, its code's way, miss most of it where a read moves a block.
fn silk() -> SchedulingPolicy {
    // The floor is for flushes and L0 (§5.2.1): deeper compactions go on where clients leave more than that.
    let high = Rate::OfDevice(1.0 - EPSILON - FLOOR);
    SchedulingPolicy {
        estimator: Estimator::Device,
        budget: Budget::Leftover {
            epsilon: Rate::OfDevice(EPSILON),
            floor: Rate::OfDevice(FLOOR),
            min_change: Rate::OfDevice(MIN_CHANGE),
            every: SILK_EVERY,
        },
        load: Some(LoadRule { low: high, high, softness: 1, every: SILK_EVERY }),
        gates: vec![at_high(Class::Deep, Act::Pause), at_high(Class::Upkeep, Act::Pause)],
        burst: None,
        order: Order::Fair,
        on_conflict: OnConflict::Discard,
        l0_room: L0Room::Preempts(Victim::Random),
        slots: Slots::ByBandwidth { bytes_per_sec: BYTES_PER_SLOT },
        admission: Slowing::Slope,
    }
}

/// The published code: it counts bytes of operations, looks each 10 ms at a figure that changes once a second, keeps nothing free, and
/// preempts nobody. Its pause closes the pool for good, which is a mistake of the code and not repeated here.
fn silk_artifact() -> SchedulingPolicy {
    let (high, every) = (Rate::OfDevice(ARTIFACT_HIGH), DLC_EVERY);
    SchedulingPolicy {
        estimator: Estimator::OpBytes,
        budget: Budget::Leftover {
            epsilon: Rate::OfDevice(0.0),
            floor: Rate::OfDevice(ARTIFACT_FLOOR),
            min_change: Rate::OfDevice(MIN_CHANGE),
            every,
        },
        load: Some(LoadRule { low: high, high, softness: 1, every }),
        gates: vec![at_high(Class::Deep, Act::Pause), at_high(Class::Upkeep, Act::Pause)],
        order: Order::Equal,
        on_conflict: OnConflict::Wait,
        l0_room: L0Room::Extra,
        slots: Slots::Workers,
        ..silk()
    }
}

/// DLC §3 and §4, delay full. What is paced and by how much is as in SILK, on which DLC is built (§4).
fn dlc() -> SchedulingPolicy {
    let (low, high) = (Rate::OfDevice(DLC_LOW), Rate::OfDevice(DLC_HIGH));
    SchedulingPolicy {
        estimator: Estimator::CacheFills { gamma: None },
        budget: Budget::Leftover {
            epsilon: Rate::OfDevice(EPSILON),
            floor: Rate::OfDevice(FLOOR),
            min_change: Rate::OfDevice(MIN_CHANGE),
            every: DLC_EVERY,
        },
        load: Some(LoadRule { low, high, softness: DLC_SOFTNESS, every: DLC_EVERY }),
        gates: vec![
            at_high(Class::IntraL0, Act::NoStart),
            at_high(Class::L0ToL1, Act::NoStart),
            at_high(Class::Deep, Act::Max(DEEP_AT_HIGH)),
            at_high(Class::Upkeep, Act::Pause),
        ],
        burst: None,
        order: Order::Strict,
        on_conflict: OnConflict::Yield,
        l0_room: L0Room::Preempts(Victim::Youngest),
        slots: Slots::Workers,
        admission: Slowing::Slope,
    }
}

/// The engine's own: a plan by deadlines. What clients do counts whether a device or memory answers it: both cost them CPU.
fn paced() -> SchedulingPolicy {
    SchedulingPolicy {
        estimator: Estimator::OpBytes,
        budget: Budget::Paced { horizon: HORIZON, every: PLAN_EVERY },
        order: Order::Deadline,
        l0_room: L0Room::Preempts(Victim::LargestRemaining),
        slots: Slots::Beside(1),
        ..unlimited()
    }
}

fn burst(parts: Option<u32>) -> Burst {
    Burst { runs: Some(BURST_RUNS), bytes: None, parts }
}

fn at_high(class: Class, act: Act) -> Gate {
    Gate { class, act }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
