//! When background work may run, decided by a pure function: policy, memory, sample and backlog in; directive out.
//!
//! The schedulers of the papers (SILK, DLC) and their baselines are to be rows of `catalog.rs`: a new budget is a variant
//! of [`Budget`] and an arm of [`decide`], and nothing else changes.

use std::time::Duration;

use crate::base::class::{Class, Permit};

/// How many bytes per second background work may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// As fast as the device goes.
    Unlimited,
    /// A fixed rate, flushes excepted.
    Fixed {
        /// Bytes per second for all compactions together.
        bytes_per_sec: u64,
    },
}

impl Budget {
    /// The highest rate that it ever allows; `None` if there is none.
    pub fn bytes_per_sec_max(self) -> Option<u64> {
        match self {
            Budget::Unlimited => None,
            Budget::Fixed { bytes_per_sec } => Some(bytes_per_sec),
        }
    }
}

/// In what order open jobs are stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The most urgent class first, in a class first come first served.
    Strict,
}

/// A scheduler, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingPolicy {
    /// The rate.
    pub budget: Budget,
    /// The order.
    pub order: Order,
}

/// What the scheduler remembers between decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When it last decided.
    pub decided_at: Duration,
}

/// What is known of the load at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The moment.
    pub now: Duration,
}

/// What there is to do.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// Classes of the open jobs, in the order they were opened.
    pub open: Vec<Class>,
    /// Compaction threads.
    pub workers: usize,
}

/// What the workers are to do until the next decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// What may be picked.
    pub permit: Permit,
    /// The rate for compactions; flushes are never limited.
    pub bytes_per_sec: Option<u64>,
}

/// Most jobs open at once: each holds claims and a few buffers, and no thread.
pub const OPEN_JOBS_MAX: usize = 8;

/// Decides. Pure: its memory is in `State`.
///
/// A class may be picked while there is a worker for it: jobs of its own or a more urgent class count, jobs of less urgent
/// classes do not, for they are set aside. So an L0→L1 job never waits for a deep one (SILK-6).
pub fn decide(
    policy: &SchedulingPolicy,
    _state: State,
    sample: Sample,
    backlog: &Backlog,
) -> (State, Directive) {
    let classes = permitted(&backlog.open, backlog.workers);
    let bytes_per_sec = policy.budget.bytes_per_sec_max();
    let permit = Permit { classes, ..Permit::everything() };
    (State { decided_at: sample.now }, Directive { permit, bytes_per_sec })
}

/// The classes that may be picked while jobs of the classes `open` are, with so many compaction threads.
pub fn permitted(open: &[Class], workers: usize) -> Vec<Class> {
    let may_start = |class: &Class| {
        let ahead = open.iter().filter(|open| *open <= class).count();
        ahead < workers && open.len() < OPEN_JOBS_MAX
    };
    Class::ALL.into_iter().filter(may_start).collect()
}

/// Which open job to step next, as an index into `open`: classes by urgency, then first come first served.
pub fn next_to_step(order: Order, open: impl Iterator<Item = (usize, Class)>) -> Option<usize> {
    match order {
        Order::Strict => open.min_by_key(|(i, class)| (*class, *i)).map(|(i, _)| i),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(open: &[Class], workers: usize) -> Vec<Class> {
        let policy = SchedulingPolicy { budget: Budget::Unlimited, order: Order::Strict };
        let backlog = Backlog { open: open.to_vec(), workers };
        decide(&policy, State::default(), Sample::default(), &backlog).1.permit.classes
    }

    #[test]
    fn an_l0_job_starts_beside_any_number_of_deep_ones() {
        assert_eq!(permitted(&[], 1), Class::ALL);
        assert_eq!(permitted(&[Class::Deep], 1), [Class::Flush, Class::IntraL0, Class::L0ToL1]);
        assert_eq!(
            permitted(&[Class::Deep, Class::L0ToL1], 2),
            [Class::Flush, Class::IntraL0, Class::L0ToL1]
        );
        assert_eq!(
            permitted(&[Class::Upkeep], 1),
            [Class::Flush, Class::IntraL0, Class::L0ToL1, Class::Deep]
        );
    }

    #[test]
    fn the_number_of_open_jobs_is_bounded() {
        assert_eq!(permitted(&[Class::Upkeep; OPEN_JOBS_MAX], 64), []);
    }

    #[test]
    fn the_most_urgent_job_is_stepped_and_among_equals_the_first() {
        let open = [Class::Deep, Class::L0ToL1, Class::L0ToL1, Class::Upkeep];
        assert_eq!(next_to_step(Order::Strict, open.into_iter().enumerate()), Some(1));
        assert_eq!(next_to_step(Order::Strict, [].into_iter()), None);
    }
}
