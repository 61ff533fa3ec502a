//! A scheduler as a value: what is measured, what rate follows, what may not run at high load, who goes first. `decide.rs`
//! reads it, `catalog.rs` has the ones with a name, `parameters.rs` their knobs.

use std::time::Duration;

use super::admission::Slowing;
use super::budget::{Budget, TUNE_EVERY};
use super::classifier::LoadRule;
use super::client_use::check_every;
use super::conflict::OnConflict;
use super::estimator::Estimator;
use super::gates::{Act, Burst, Gates};
use super::order::{DEEP_OPEN_MAX, L0Room, Order, Slots};
use super::plan;
use super::rate::Rate;
use crate::base::class::Class;
use crate::base::error::{Error, Result};

/// A scheduler, as data.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulingPolicy {
    /// What clients use of the device.
    pub estimator: Estimator,
    /// How often that is looked at; `None`: never.
    pub every: Option<Duration>,
    /// What background work may use.
    pub budget: Budget,
    /// When the load is high; `None`: it is never judged, and counts as low.
    pub load: Option<LoadRule>,
    /// What each class may not do then.
    pub gates: Gates,
    /// When L0 is merged although a gate says no.
    pub burst: Option<Burst>,
    /// Which open job is stepped next.
    pub order: Order,
    /// What becomes of a deep job that has tables which work in L0 needs.
    pub on_conflict: OnConflict,
    /// Where a job of L0 runs while deeper ones have all places.
    pub l0_room: L0Room,
    /// How many jobs run side by side.
    pub slots: Slots,
    /// At most so many of them take L0 of a keyspace down; `None`: as many as have different tables.
    pub l0_down_max: Option<u32>,
    /// How writers are slowed for L0.
    pub admission: Slowing,
}

impl SchedulingPolicy {
    /// True if it goes better where the device's speed is known.
    pub fn wants_device(&self) -> bool {
        self.needs_device() || self.plans()
    }

    /// True if it cannot be carried out without the device's speed.
    pub fn needs_device(&self) -> bool {
        let load = self.load.iter().flat_map(|rule| [rule.low, rule.high]);
        matches!(self.slots, Slots::ByBandwidth { .. })
            || load.chain(self.budget.rates().map(|(_, rate)| rate)).any(Rate::is_relative)
            || matches!(self.budget, Budget::Leftover { .. })
    }

    /// How often it is decided whatever happens; `None`: never.
    pub fn decides_each(&self) -> Option<Duration> {
        let tunes = matches!(self.budget, Budget::AutoTuned { .. }).then_some(TUNE_EVERY);
        self.every.into_iter().chain(tunes).min()
    }

    /// True if it needs to know what there is to do, and how much room is left.
    pub fn plans(&self) -> bool {
        matches!(self.budget, Budget::Paced { .. })
    }

    /// True if there are gates: then what is due is not always permitted.
    pub fn holds_back(&self) -> bool {
        self.gates.acts().next().is_some()
    }

    /// True if there are gates that keep work in L0 from starting.
    pub fn delays_l0(&self) -> bool {
        self.gates.acts().any(|(_, act)| act == Act::NoStart)
    }

    /// True if the clients' operations have to be counted one by one.
    pub fn counts_operations(&self) -> bool {
        self.every.is_some() && self.estimator.counts_operations()
    }

    /// Refuses what makes no sense, on a device of this speed if it is known.
    ///
    /// # Errors
    /// `InvalidArgument` that says which value, and why.
    pub fn check(&self, device: Option<u64>) -> Result<()> {
        self.estimator.check()?;
        self.budget.check(device)?;
        match (self.every, self.budget) {
            (Some(every), Budget::Paced { horizon }) => plan::check(horizon, every)?,
            (Some(every), _) => check_every(every)?,
            (None, _) if self.load.is_some() || self.budget.looks_at_clients() => {
                return Err(Error::invalid("what clients use has to be looked at, each so often: `every`"));
            }
            (None, _) => {}
        }
        if let Some(rule) = &self.load {
            rule.check(device)?;
        } else if self.holds_back() || self.burst.is_some() {
            return Err(Error::invalid(
                "gates at high load need low, high and every, by which load is judged",
            ));
        }
        self.slots.check()?;
        if self.l0_down_max == Some(0) {
            return Err(Error::invalid("l0-down is from 1 up: L0 would fill and stop writes"));
        }
        self.admission.check()?;
        if self.admission == Slowing::Never && self.delays_l0() && self.burst.is_none() {
            return Err(Error::invalid(
                "`admission=none` needs a burst where `l0=delay` or `l0=within`: nothing else would bring L0 down while the load is high",
            ));
        }
        if self.order == Order::Deadline && !self.plans() {
            return Err(Error::invalid(
                "`order=deadline` needs a plan that says when jobs are due, as `paced` makes one",
            ));
        }
        self.check_gates()
    }

    fn check_gates(&self) -> Result<()> {
        for (class, act) in self.gates.acts() {
            if class == Class::Flush {
                return Err(Error::invalid(
                    "a flush cannot be held back: nothing else makes room for writes",
                ));
            }
            if act == Act::Max(0) {
                return Err(Error::invalid(format!(
                    "at most 0 jobs of class {class} at high load is a pause: pause it instead"
                )));
            }
            if matches!(act, Act::Max(most) if most as usize >= DEEP_OPEN_MAX) {
                return Err(Error::invalid(format!(
                    "there are {DEEP_OPEN_MAX} jobs of class {class} at most, whatever the load: `deep=run` if none is to wait for it"
                )));
            }
            if class < Class::Deep && act == Act::Pause {
                return Err(Error::invalid(format!(
                    "{class} cannot be paused: L0 would fill and stop writes; `l0=delay` keeps it from starting"
                )));
            }
        }
        let delayed = |class| self.gates.on(class) == Some(Act::NoStart);
        match &self.burst {
            Some(_) if !delayed(Class::L0ToL1) => Err(Error::invalid(
                "a burst resumes what `l0=delay` or `l0=within` delays, and neither is set",
            )),
            Some(burst) if burst.parts.is_some() && !delayed(Class::IntraL0) => Err(Error::invalid(
                "merges within L0 are not delayed by `l0=within`, so there are none to resume; use `l0=delay`, or `parts=0`",
            )),
            Some(burst) => burst.check(),
            None => Ok(()),
        }
    }
}
