//! Which open jobs run, and which of them is stepped next.

use std::time::Duration;

use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::units::JobId;

/// SILK §5.2.2: four internal threads at 200 MB/s, so a job for each 50 MB/s.
pub const BYTES_PER_SLOT: u64 = 50_000_000;
/// SILK §5.2.2 wants parallel compaction, also where the device is slow.
pub const SLOTS_MIN: u32 = 2;

/// In what order open jobs are stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The most urgent class first, in a class first come first served.
    Strict,
    /// L0 first; deeper jobs share the rate equally (SILK §5.2.2).
    Fair,
    /// L0 first; of deeper jobs the one that has least left to read.
    ShortestRemaining,
    /// No class goes first: all share the rate equally.
    Equal,
    /// The one that is due first.
    Deadline,
}

/// Which deep job is set aside for one of L0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Any (SILK §5.2.2).
    Random,
    /// The one that was opened last.
    Youngest,
    /// The one that has read least.
    LeastProgress,
    /// The one that has most left to read.
    LargestRemaining,
}

/// Where a job of L0 runs while deeper ones have all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L0Room {
    /// In the place of one of them, which is set aside (SILK §5.2.2).
    Preempts(Victim),
    /// Beside them, one at a time (SILK's code).
    Extra,
    /// Nowhere: it waits until one of them has ended.
    Waits,
}

/// How many jobs run side by side; worker threads take turns in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// As many as there are workers.
    Workers,
    /// So many more than there are workers.
    Beside(u32),
    /// As many as the device has bandwidth for, at least [`SLOTS_MIN`].
    ByBandwidth {
        /// What a job is to have, bytes per second.
        bytes_per_sec: u64,
    },
    /// So many.
    Exactly(u32),
}

impl Slots {
    /// How many those are.
    pub fn count(self, workers: usize, device: Option<u64>) -> usize {
        match (self, device) {
            (Slots::Exactly(n), _) => n as usize,
            (Slots::Beside(more), _) => (workers + more as usize).min(OPEN_JOBS_MAX),
            (Slots::ByBandwidth { bytes_per_sec }, Some(speed)) => {
                let each = bytes_per_sec.max(1);
                ((speed + each / 2) / each).max(u64::from(SLOTS_MIN)).min(OPEN_JOBS_MAX as u64) as usize
            }
            _ => workers,
        }
    }

    /// Refuses what cannot be.
    pub fn check(self) -> Result<()> {
        match self {
            Slots::Exactly(n) if n == 0 || n as usize > OPEN_JOBS_MAX => {
                Err(Error::invalid(format!("jobs is from 1 to {OPEN_JOBS_MAX}, not {n}")))
            }
            Slots::Beside(more) if more as usize >= OPEN_JOBS_MAX => Err(Error::invalid(format!(
                "jobs is at most {OPEN_JOBS_MAX}, so workers+{} at most",
                OPEN_JOBS_MAX - 1
            ))),
            Slots::ByBandwidth { bytes_per_sec: 0 } => Err(Error::invalid(
                "jobs=bandwidth@RATE is what each job is to have, above 0, like bandwidth@50MB",
            )),
            _ => Ok(()),
        }
    }
}

/// Most jobs open at once: each holds claims and a few buffers, and no thread.
pub const OPEN_JOBS_MAX: usize = 8;
/// The last place is for L0, or it would wait for the end of deeper ones, and at high load for those that are paused.
pub const DEEP_OPEN_MAX: usize = OPEN_JOBS_MAX - 1;

/// An open job, as far as its turn depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its urgency.
    pub class: Class,
    /// Bytes it has moved while others waited; who comes later begins with what the others have.
    pub served: u64,
    /// Bytes of its input that it has not read.
    pub left: u64,
    /// By when it is to be done.
    pub due: Duration,
}

impl Order {
    /// By this open jobs are sorted, who is stepped first in front; equal ones stay as they were opened.
    pub fn key(self, job: &Turn) -> (u8, u64, u8) {
        let urgency = job.class.urgency();
        match (self, job.class) {
            (Order::Equal, _) => (0, job.served, 0),
            // Of those that are late alike L0 comes first: writers wait for it.
            (Order::Deadline, _) => (0, u64::try_from(job.due.as_nanos()).unwrap_or(u64::MAX), urgency),
            (Order::Strict, _) | (_, Class::Flush | Class::IntraL0 | Class::L0ToL1) => (urgency, 0, 0),
            (Order::Fair, _) => (urgency, job.served, 0),
            (Order::ShortestRemaining, _) => (urgency, job.left, 0),
        }
    }
}

/// Which open job to step next, as an index into `open`.
pub fn next_to_step(order: Order, open: impl Iterator<Item = (usize, Turn)>) -> Option<usize> {
    open.min_by_key(|(i, job)| (order.key(job), *i)).map(|(i, _)| i)
}

/// What a job counts as served when it is opened beside these, each set aside or not: as much as who runs and has had least. Who is set
/// aside may have had far less, and catches up with nobody when it goes on.
pub fn served_at_first(open: impl Iterator<Item = (bool, u64)>) -> u64 {
    open.min().map_or(0, |(_, served)| served)
}

impl Victim {
    /// By this jobs are sorted that could be set aside, who keeps its place in front.
    pub fn keeps(self, id: JobId, read: u64, left: u64) -> u64 {
        match self {
            Victim::Random => mix(id.0),
            Victim::Youngest => id.0,
            Victim::LeastProgress => u64::MAX - read,
            Victim::LargestRemaining => left,
        }
    }
}

/// Any order of jobs, and the same one each time (the finaliser of SplitMix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(class: Class, served: u64, left: u64) -> Turn {
        Turn { class, served, left, due: Duration::from_millis(1000_u64.saturating_sub(left)) }
    }

    #[test]
    fn each_order_names_its_next_job() {
        let open = [
            job(Class::Deep, 30, 10),
            job(Class::L0ToL1, 50, 90),
            job(Class::L0ToL1, 10, 20),
            job(Class::Deep, 20, 30),
            job(Class::Upkeep, 0, 1),
        ];
        let next = |order, of: &[Turn]| next_to_step(order, of.iter().copied().enumerate());
        for order in [Order::Strict, Order::Fair, Order::ShortestRemaining] {
            assert_eq!(next(order, &open), Some(1), "{order:?}: L0 first, first come first served");
        }
        assert_eq!(next(Order::Equal, &open), Some(4));
        assert_eq!(next(Order::Deadline, &open), Some(1), "whatever its class is");
        assert_eq!(next(Order::Deadline, &open[2..]), Some(1));
        let late = [job(Class::Deep, 0, 1000), job(Class::L0ToL1, 0, 1000)];
        assert_eq!(next(Order::Deadline, &late), Some(1), "late alike");
        let deep = [open[0], open[3]];
        assert_eq!(next(Order::Strict, &deep), Some(0));
        assert_eq!(next(Order::Fair, &deep), Some(1));
        assert_eq!(next(Order::ShortestRemaining, &deep), Some(0));
        assert_eq!(next(Order::Strict, &[]), None);
    }

    #[test]
    fn of_two_jobs_of_l0_the_first_one_goes_on() {
        let open = [job(Class::Deep, 0, 1), job(Class::L0ToL1, 50, 90), job(Class::IntraL0, 0, 20)];
        for order in [Order::Strict, Order::Fair, Order::ShortestRemaining] {
            assert_eq!(next_to_step(order, open.into_iter().enumerate()), Some(1), "{order:?}");
        }
    }

    /// Whoever has moved least goes on, so shares stay within a step of each other.
    #[test]
    fn deep_jobs_share_equally() {
        let mut jobs = [0, 0, 700].map(|served| job(Class::Deep, served, 1 << 30));
        for turn in 0..3000_u64 {
            let next = next_to_step(Order::Fair, jobs.iter().copied().enumerate()).unwrap();
            jobs[next].served += 200 + turn % 57;
        }
        let (least, most) =
            (jobs.map(|j| j.served).into_iter().min(), jobs.map(|j| j.served).into_iter().max());
        assert!(most.unwrap() - least.unwrap() < 300, "{jobs:?}");
    }

    /// Upkeep that was set aside long ago gives a new deep job no claim to all that the others have had since.
    #[test]
    fn who_comes_later_has_no_more_coming_to_it_than_the_others() {
        assert_eq!(served_at_first([(true, 5), (false, 900), (false, 700)].into_iter()), 700);
        assert_eq!(served_at_first([(true, 9), (true, 5)].into_iter()), 5);
        assert_eq!(served_at_first(std::iter::empty()), 0);
    }

    #[test]
    fn jobs_side_by_side_follow_from_the_bandwidth() {
        let by = Slots::ByBandwidth { bytes_per_sec: BYTES_PER_SLOT };
        let table = [(200, 4), (100, 2), (30, 2), (120, 2), (130, 3), (10_000, OPEN_JOBS_MAX)];
        for (mb, jobs) in table {
            assert_eq!(by.count(1, Some(mb * 1_000_000)), jobs, "{mb} MB/s");
        }
        assert_eq!(by.count(5, None), 5);
        assert_eq!((Slots::Beside(1).count(2, None), Slots::Beside(9).count(2, None)), (3, OPEN_JOBS_MAX));
        let refused = [Slots::Exactly(0), Slots::Exactly(9), Slots::Beside(8)];
        assert!(refused.iter().all(|slots| slots.check().is_err()));
        assert!(Slots::Beside(7).check().is_ok());
    }

    #[test]
    fn a_random_victim_is_none_in_particular() {
        let mut victims = [0; 3];
        for id in 0..300 {
            let jobs = [id, id + 1, id + 2].map(|id| Victim::Random.keeps(JobId(id), 0, 0));
            victims[jobs.iter().position(|k| k == jobs.iter().max().unwrap()).unwrap()] += 1;
        }
        assert!(victims.iter().all(|n| *n > 50), "{victims:?}");
    }
}
