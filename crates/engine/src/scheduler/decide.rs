//! What background work may do until the next decision, as a pure function: policy, memory, sample and backlog in; directive out.
//!
//! ```text
//! counters ─► estimator ─► C ─► budget ─► rate
//!                          └─► classifier ─► load ─► gates, bursts ─► what may start, who is set aside, who lets go
//! ```

use std::collections::BTreeMap;

use super::budget::{Budget, BudgetState};
use super::classifier::{Load, LoadState};
use super::client_use::ClientUse;
use super::gates::{Act, BurstState, Phase};
use super::order::{DEEP_OPEN_MAX, L0Room, OPEN_JOBS_MAX, Victim};
use super::plan::{PLAN_EVERY, Plan, PlanState};
use super::policy::SchedulingPolicy;
use super::situation::{Backlog, OpenJob, Sample};
use crate::base::class::{Class, L0Permit, Permit};
use crate::base::units::{JobId, KeyspaceId};
use crate::execution::rate_limiter::FLUSH_SHARE;

/// What the scheduler remembers between decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Of what clients use.
    pub clients: ClientUse,
    /// Of the load.
    pub load: LoadState,
    /// Of the rate.
    pub budget: BudgetState,
    /// Of bursts.
    pub bursts: BurstState,
    /// Of the plan.
    pub plan: PlanState,
}

/// Why a job is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// The load is high, or enough of its class run.
    Gate,
    /// More urgent ones have all places. If they wait for a sync it may be stepped.
    Place,
}

/// What the workers are to do until the next decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// Classes that may start.
    pub classes: Vec<Class>,
    /// True where L0 may only be merged within itself.
    pub l0_within: bool,
    /// Bursts under way, and keyspaces whose writers are slowed because of L0: there L0 may start all the same, and waits for nothing.
    pub l0_anyway: BTreeMap<KeyspaceId, Phase>,
    /// Keyspaces whose L0 has a job open.
    pub l0_open: Vec<KeyspaceId>,
    /// True if there is a place for another job of L0.
    pub l0_place: bool,
    /// Classes that a gate keeps from beginning, whatever places there are.
    pub gated: Vec<Class>,
    /// At most so many jobs bring the L0 of a keyspace down.
    pub l0_down_max: Option<u32>,
    /// Rates, and by when what is to be done.
    pub plan: Plan,
    /// True if what flushes move counts in the rate of compactions, and they keep to theirs while they are ahead of writers.
    pub covers_flushes: bool,
    /// Jobs that are not stepped.
    pub aside: Vec<(JobId, Aside)>,
    /// Jobs that are to commit what they have and let go.
    pub let_go: Vec<JobId>,
    /// True if somebody waits for compactions.
    pub waited_for: bool,
}

impl Directive {
    /// What may be picked in a keyspace.
    pub fn permit_for(&self, keyspace: KeyspaceId) -> Permit {
        let mut permit =
            Permit { classes: self.classes.clone(), l0_down_max: self.l0_down_max, ..Permit::everything() };
        if self.l0_within {
            permit.l0 = L0Permit::IntraOnly { flush_born: false };
        }
        let Some(phase) = self.l0_anyway_in(keyspace) else { return permit };
        permit.classes.retain(|class| *class > Class::L0ToL1 || *class == Class::Flush);
        if self.l0_place && !self.l0_open.contains(&keyspace) {
            let more: &[Class] = match phase {
                Phase::Part => &[Class::IntraL0],
                Phase::Full => &[Class::IntraL0, Class::L0ToL1],
            };
            permit.classes.extend(more);
            permit.classes.sort_unstable();
        }
        permit.l0 = match phase {
            Phase::Part => L0Permit::IntraOnly { flush_born: true },
            Phase::Full => L0Permit::Full,
        };
        permit
    }

    /// How L0 of a keyspace is to be merged now, whatever it would wait for else.
    pub fn l0_anyway_in(&self, keyspace: KeyspaceId) -> Option<Phase> {
        self.l0_anyway.get(&keyspace).copied()
    }

    /// True if a gate keeps a class from beginning in a keyspace: it is delayed on purpose, and waits for nobody's place.
    pub fn gates(&self, keyspace: KeyspaceId, class: Class) -> bool {
        // One at a time.
        let goes_anyway = self.l0_anyway.contains_key(&keyspace) && !self.l0_open.contains(&keyspace);
        self.gated.contains(&class) && !(class.is_l0() && goes_anyway)
    }

    /// True if a job of a class that may not begin in a keyspace would, had it a place.
    pub fn lacks_place(&self, keyspace: KeyspaceId, class: Class) -> bool {
        !(self.gates(keyspace, class) || class.is_l0() && self.l0_place)
    }

    /// True if somebody who sleeps by the one `before` may go on.
    pub fn frees_more_than(&self, before: &Directive) -> bool {
        self.plan.is_faster_than(&before.plan)
            || before.aside.iter().any(|(job, _)| self.why_aside(*job).is_none())
    }

    /// True if no compaction may start anywhere.
    pub fn permits_nothing(&self) -> bool {
        self.classes.iter().all(|class| *class == Class::Flush)
            && (self.l0_anyway.is_empty() || !self.l0_place)
    }

    /// Why a job is set aside, if it is.
    pub fn why_aside(&self, job: JobId) -> Option<Aside> {
        self.aside.iter().find(|(id, _)| *id == job).map(|(_, why)| *why)
    }
}

/// Decides. Pure: its memory is in `State`.
pub fn decide(
    policy: &SchedulingPolicy,
    mut state: State,
    sample: &Sample,
    backlog: &Backlog,
) -> (State, Directive) {
    let by = &policy.estimator;
    let is_over = policy.every.is_some_and(|every| state.clients.look(by, sample.now, &sample.used, every));
    let used = policy.every.map_or(0.0, |every| state.clients.counts_as(every));
    if let Some(rule) = policy.load.as_ref().filter(|_| is_over) {
        state.load.look(rule, used, sample.device);
    }
    state.budget.look(&policy.budget, is_over, used, sample);
    let slots = policy.slots.count(backlog.workers, sample.device);
    let plan = match policy.budget {
        Budget::Paced { horizon } => {
            state.plan.plan(horizon, policy.every.unwrap_or(PLAN_EVERY), by, sample, backlog, slots)
        }
        _ => Plan { rate: state.budget.rate, ..Plan::default() },
    };
    let load = if backlog.waited_for { Load::Low } else { state.load.load };
    state.bursts.look(policy.burst.as_ref(), load, &backlog.l0, &backlog.slowed);
    let mut l0_anyway: BTreeMap<KeyspaceId, Phase> = state.bursts.under_way().collect();
    if load == Load::High && policy.delays_l0() {
        // What is delayed for the clients' sake is due where they wait for it.
        l0_anyway.extend(backlog.slowed.iter().map(|id| (*id, Phase::Full)));
    }
    let places = Places { policy, load, slots, open: &backlog.open };
    let mut directive = Directive {
        classes: Class::ALL.into_iter().filter(|class| places.may_start(*class)).collect(),
        l0_within: places.act_on(Class::L0ToL1) == Some(Act::NoStart),
        l0_anyway,
        l0_open: backlog.open.iter().filter(|job| job.class.is_l0()).map(|job| job.keyspace).collect(),
        l0_place: places.has_place(Class::L0ToL1),
        gated: Class::ALL.into_iter().filter(|class| places.is_gated(*class)).collect(),
        l0_down_max: policy.l0_down_max,
        plan,
        covers_flushes: policy.budget.covers_flushes(),
        aside: places.aside(),
        let_go: Vec::new(),
        waited_for: backlog.waited_for,
    };
    // L0 within itself is of its own class, whatever asks for it.
    directive.l0_within &= directive.classes.contains(&Class::IntraL0);
    directive.let_go = places.let_go(&directive.l0_anyway);
    if directive.covers_flushes {
        let is_beside = backlog.open.iter().any(|job| directive.why_aside(job.id).is_none());
        directive.plan.flush_rate = directive.plan.rate.map(|rate| flush_rate(rate, is_beside));
    }
    (state, directive)
}

/// What a flush has of the rate for all background work, alone or beside a compaction. It has more where the next memtable fills before
/// it ends (SILK §5.2.2), which the lane sees step by step (`db/background/flushing.rs`).
fn flush_rate(rate: u64, is_beside: bool) -> u64 {
    if is_beside { (rate as f64 * FLUSH_SHARE) as u64 } else { rate }
}

/// The classes that may be picked while jobs of the classes `open` are, with so many places, where nothing is held back and L0
/// takes a place if it needs one.
pub fn permitted(open: &[Class], slots: usize) -> Vec<Class> {
    let ahead = |class: Class| open.iter().filter(|open| **open <= class).count();
    let of_l0 = open.iter().filter(|open| open.is_l0()).count();
    let fits = |class: Class| ahead(class) < slots && may_open(class, open.len(), of_l0);
    Class::ALL.into_iter().filter(|class| fits(*class)).collect()
}

/// True if one of this class may be opened beside so many, of which so many are L0's. Where L0's place has been taken by hand there is
/// another.
fn may_open(class: Class, beside: usize, of_l0: usize) -> bool {
    let most = if class < Class::Deep { OPEN_JOBS_MAX } else { DEEP_OPEN_MAX };
    beside < most || class.is_l0() && of_l0 == 0
}

/// Who has a place among those that run side by side.
struct Places<'a> {
    policy: &'a SchedulingPolicy,
    load: Load,
    slots: usize,
    open: &'a [OpenJob],
}

impl Places<'_> {
    /// What is done to a class now.
    fn act_on(&self, class: Class) -> Option<Act> {
        self.policy.gates.on(class).filter(|_| self.load == Load::High)
    }

    fn count(&self, of: impl Fn(Class) -> bool) -> usize {
        self.open.iter().filter(|job| of(job.class)).count()
    }

    fn may_start(&self, class: Class) -> bool {
        !self.is_gated(class) && self.has_place(class)
    }

    /// True if a gate lets no job of the class begin.
    fn is_gated(&self, class: Class) -> bool {
        let beside = self.count(|open| open == class);
        self.act_on(class).is_some_and(|act| beside >= act.starts_beside())
    }

    fn has_place(&self, class: Class) -> bool {
        if class == Class::Flush {
            // It has a lane of its own.
            return true;
        }
        if !may_open(class, self.open.len(), self.count(Class::is_l0)) {
            return false;
        }
        match self.policy.l0_room {
            // Jobs of less urgent classes are set aside instead.
            L0Room::Preempts(_) => self.count(|open| open <= class) < self.slots,
            L0Room::Extra if class.is_l0() => self.count(Class::is_l0) == 0 || self.open.len() < self.slots,
            L0Room::Extra => self.count(|open| !open.is_l0()) < self.slots,
            // What is paused for the load has no place: L0 would wait for the load too.
            L0Room::Waits => self.count(|open| !self.is_paused(open)) < self.slots,
        }
    }

    fn is_paused(&self, class: Class) -> bool {
        self.act_on(class) == Some(Act::Pause)
    }

    /// Jobs that are not to be stepped.
    fn aside(&self) -> Vec<(JobId, Aside)> {
        let mut aside: Vec<(JobId, Aside)> = Vec::new();
        for class in Class::ALL {
            let Some(most) = self.act_on(class).and_then(Act::goes_on) else { continue };
            // Who is set aside stays so, the youngest before the others.
            let mut jobs: Vec<&OpenJob> = self.open.iter().filter(|job| job.class == class).collect();
            jobs.sort_by_key(|job| (job.paused, job.id));
            aside.extend(jobs.into_iter().skip(most).map(|job| (job.id, Aside::Gate)));
        }
        // Who makes room for L0, and how many places that leaves to the others.
        let (victim, left) = match self.policy.l0_room {
            L0Room::Preempts(victim) => (victim, self.slots.saturating_sub(self.count(Class::is_l0))),
            L0Room::Extra | L0Room::Waits => (Victim::Youngest, self.slots),
        };
        let is_free = |job: &&OpenJob| !job.class.is_l0() && aside.iter().all(|(id, _)| *id != job.id);
        let mut rest: Vec<&OpenJob> = self.open.iter().filter(is_free).collect();
        rest.sort_by_key(|job| (job.class, job.paused, victim.keeps(job.id, job.read, job.left)));
        aside.extend(rest.into_iter().skip(left).map(|job| (job.id, Aside::Place)));
        aside
    }

    /// Jobs of L0 that may not have started now, and hold tables that a later one will want whole (the papers are silent).
    fn let_go(&self, l0_anyway: &BTreeMap<KeyspaceId, Phase>) -> Vec<JobId> {
        let stopped = |class| self.act_on(class) == Some(Act::NoStart);
        let is_of = |job: &OpenJob, phase| phase == Phase::Full || job.class == Class::IntraL0;
        let goes_on = |job: &&OpenJob| l0_anyway.get(&job.keyspace).is_some_and(|phase| is_of(job, *phase));
        let jobs = self.open.iter().filter(|job| job.class.is_l0() && stopped(job.class) && !goes_on(job));
        jobs.map(|job| job.id).collect()
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
