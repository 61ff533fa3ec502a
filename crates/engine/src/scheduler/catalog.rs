//! Schedulers by name, as data: the papers' and their baselines. Knobs follow the name: `silk:floor=20%,every=20ms`.

use super::admission::Slowing;
use super::budget::{ARTIFACT_FLOOR, Budget, RATE_MIN, SILK_EPSILON, SILK_FLOOR, SILK_MIN_CHANGE};
use super::classifier::{ARTIFACT_HIGH, DLC_HIGH, DLC_LOW, DLC_SOFTNESS, LoadRule};
use super::client_use::{DLC_EVERY, SILK_EVERY};
use super::conflict::OnConflict;
use super::estimator::Estimator;
use super::gates::{Act, BURST_PARTS, BURST_RUNS, Burst, DEEP_AT_HIGH, Gates};
use super::order::{BYTES_PER_SLOT, L0Room, Order, Slots, Victim};
use super::parameters::{self, change, rate};
use super::plan::{HORIZON, PLAN_EVERY};
use super::policy::SchedulingPolicy;
use super::rate::Rate;
use crate::base::class::Class;
use crate::base::error::{Error, Result};

/// A schedule with a name.
struct Preset {
    form: &'static str,
    about: &'static str,
    /// `None` where a rate follows the name, which `parse` reads.
    policy: Option<fn() -> SchedulingPolicy>,
}

const fn row(form: &'static str, about: &'static str, policy: fn() -> SchedulingPolicy) -> Preset {
    Preset { form, about, policy: Some(policy) }
}

const fn rated(form: &'static str, about: &'static str) -> Preset {
    Preset { form, about, policy: None }
}

const PRESETS: [Preset; 13] = [
    row("unlimited", "background work runs as fast as the device goes", unlimited),
    rated(
        "fixed:RATE",
        "all compactions together move at most RATE bytes per second; flushes are never limited",
    ),
    rated("autotuned[:MAX]", "RocksDB's auto-tuned limiter: up to MAX, or to what the device can do"),
    row("silk", "SILK: what clients leave, L0 before deeper levels, those paused at high load", silk),
    row("silk-bandwidth", "SILK's first half: what clients leave, no class first", silk_bandwidth),
    row("silk-priority", "SILK's other half: L0 before deeper levels, no limit", silk_priority),
    row("silk-star", "SILK with DLC's estimate of the clients' load, from cache fills", || {
        SchedulingPolicy { estimator: Estimator::CacheFills { gamma: None }, ..silk() }
    }),
    row(
        "silk-artifact",
        "what SILK's published code does: looks once a second; only a job set aside gives way, to L0",
        silk_artifact,
    ),
    row("dlc-full", "DLC: no compaction of L0 at high load, until writers are slowed for it", dlc),
    row(
        "dlc-part",
        "DLC: at high load L0 is merged within itself only, until writers are slowed for it",
        || {
            let mut policy = dlc();
            policy.gates.set(Class::IntraL0, None);
            policy
        },
    ),
    row("dlc-burst-full", "dlc-full, but L0 goes down when it has 20 runs (l0_limit from 37 on)", || {
        burst(None)
    }),
    row(
        "dlc-burst-part",
        "dlc-full, but 20 flushed runs are merged into one, and all go down after the fourth time (l0_limit from 197 on)",
        || burst(Some(BURST_PARTS)),
    ),
    row(
        "paced",
        "what must be done by when, and no faster while clients are busy; what they leave while they rest",
        paced,
    ),
];

/// Every schedule: its form, and one line for people.
pub const CATALOG: &[(&str, &str)] = &{
    let mut rows = [("", ""); PRESETS.len()];
    let mut i = 0;
    while i < rows.len() {
        rows[i] = (PRESETS[i].form, PRESETS[i].about);
        i += 1;
    }
    rows
};

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
        ("fixed", knobs) => {
            let knobs = knobs.unwrap_or_default();
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

/// The knobs that a schedule takes, each with what may stand there: none where a rate follows the name. What follows it is not looked at.
///
/// # Errors
/// `InvalidArgument` that says what schedules there are.
pub fn knobs_of(text: &str) -> Result<Vec<(&'static str, &'static str)>> {
    let is_named = |preset: &&Preset| name_of(preset.form) == name_of(text);
    let preset = PRESETS.iter().find(is_named).ok_or_else(|| unknown(text))?;
    Ok(preset.policy.map_or_else(Vec::new, |policy| parameters::of(&policy()).collect()))
}

/// The name in a schedule's text, or in its form.
fn name_of(text: &str) -> &str {
    text.split([':', '[']).next().unwrap_or_default()
}

fn unknown(text: &str) -> Error {
    let names: Vec<&str> = CATALOG.iter().map(|(form, _)| *form).collect();
    Error::invalid(format!("unknown schedule `{text}`; there are {}", names.join(", ")))
}

fn preset(name: &str) -> Option<SchedulingPolicy> {
    PRESETS.iter().find(|preset| preset.form == name)?.policy.map(|policy| policy())
}

/// The engine's own: more urgent classes first, nobody's load is looked at.
pub fn unlimited() -> SchedulingPolicy {
    SchedulingPolicy {
        estimator: Estimator::Device,
        every: None,
        budget: Budget::Unlimited,
        load: None,
        gates: Gates::default(),
        burst: None,
        order: Order::Strict,
        on_conflict: OnConflict::Yield,
        l0_room: L0Room::Preempts(Victim::Youngest),
        slots: Slots::Workers,
        l0_down_max: None,
        admission: Slowing::Slope,
    }
}

/// SILK §5, all three techniques. What clients use of the device is counted at the device: the paper does not say how it was, and bytes of
/// operations, its code's way, miss most of it where a read moves a block.
fn silk() -> SchedulingPolicy {
    // The floor is for flushes and L0 (§5.2.1): deeper compactions go on where clients leave more than that.
    let high = Rate::OfDevice(1.0 - SILK_EPSILON - SILK_FLOOR);
    SchedulingPolicy {
        estimator: Estimator::Device,
        every: Some(SILK_EVERY),
        budget: Budget::Leftover {
            epsilon: Rate::OfDevice(SILK_EPSILON),
            floor: Rate::OfDevice(SILK_FLOOR),
            min_change: Rate::OfDevice(SILK_MIN_CHANGE),
        },
        load: Some(LoadRule { low: high, high, softness: 1 }),
        gates: Gates::of(&[(Class::Deep, Act::Pause), (Class::Upkeep, Act::Pause)]),
        burst: None,
        order: Order::Fair,
        on_conflict: OnConflict::Discard,
        l0_room: L0Room::Preempts(Victim::Random),
        slots: Slots::ByBandwidth { bytes_per_sec: BYTES_PER_SLOT },
        l0_down_max: Some(1),
        admission: Slowing::Slope,
    }
}

/// Its first half.
fn silk_bandwidth() -> SchedulingPolicy {
    SchedulingPolicy {
        order: Order::Equal,
        on_conflict: OnConflict::Wait,
        l0_room: L0Room::Waits,
        load: None,
        gates: Gates::default(),
        ..silk()
    }
}

/// "Priorities and preemption but where the I/O bandwidth is not controlled" (SILK §6.5): a pause is such a control.
fn silk_priority() -> SchedulingPolicy {
    SchedulingPolicy {
        every: None,
        budget: Budget::Unlimited,
        load: None,
        gates: Gates::default(),
        slots: Slots::Workers,
        ..silk()
    }
}

/// The published code: it counts bytes of operations, looks each 10 ms at a figure that changes once a second, keeps nothing free, and
/// preempts nobody. Its pause closes the pool for good, which is a mistake of the code and not repeated here.
fn silk_artifact() -> SchedulingPolicy {
    let high = Rate::OfDevice(ARTIFACT_HIGH);
    SchedulingPolicy {
        estimator: Estimator::OpBytes,
        every: Some(DLC_EVERY),
        budget: Budget::Leftover {
            epsilon: Rate::OfDevice(0.0),
            floor: Rate::OfDevice(ARTIFACT_FLOOR),
            min_change: Rate::OfDevice(SILK_MIN_CHANGE),
        },
        load: Some(LoadRule { low: high, high, softness: 1 }),
        order: Order::Equal,
        on_conflict: OnConflict::Wait,
        l0_room: L0Room::Extra,
        slots: Slots::Workers,
        ..silk()
    }
}

/// DLC §3 and §4, delay full. All else, as what is paced and by how much, is as in SILK, on which DLC is built (§4).
fn dlc() -> SchedulingPolicy {
    let (low, high) = (Rate::OfDevice(DLC_LOW), Rate::OfDevice(DLC_HIGH));
    SchedulingPolicy {
        estimator: Estimator::CacheFills { gamma: None },
        every: Some(DLC_EVERY),
        load: Some(LoadRule { low, high, softness: DLC_SOFTNESS }),
        gates: Gates::of(&[
            (Class::IntraL0, Act::NoStart),
            (Class::L0ToL1, Act::NoStart),
            (Class::Deep, Act::Max(DEEP_AT_HIGH)),
            (Class::Upkeep, Act::Pause),
        ]),
        order: Order::Strict,
        on_conflict: OnConflict::Yield,
        l0_room: L0Room::Preempts(Victim::Youngest),
        slots: Slots::Workers,
        ..silk()
    }
}

/// The engine's own: a plan by deadlines. What clients do counts whether a device or memory answers it: both cost them CPU.
fn paced() -> SchedulingPolicy {
    SchedulingPolicy {
        estimator: Estimator::OpBytes,
        every: Some(PLAN_EVERY),
        budget: Budget::Paced { horizon: HORIZON },
        order: Order::Deadline,
        l0_room: L0Room::Preempts(Victim::LargestRemaining),
        slots: Slots::Beside(1),
        ..unlimited()
    }
}

/// DLC §5: L0 goes down all the same, at once or after so many parts.
fn burst(parts: Option<u32>) -> SchedulingPolicy {
    SchedulingPolicy { burst: Some(Burst { runs: Some(BURST_RUNS), bytes: None, parts }), ..dlc() }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
