//! A lane, for what nobody should wait for. One is for syncs of finished tables, sealing of log files and unlinks, another one, which
//! is never held up by the device, for what is made ahead of writers.
//!
//! The first also begins the syncs that writes in mode `interval` want by a certain time. The time is computed, nobody polls for it.
//!
//! One thread. Without threads (tests on one thread) a sync is done where it is asked for, and `run_once` does the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::class::Class;
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::locks::{Condvar, Mutex, MutexGuard};
use crate::execution::sync_lane::{SyncLane, SyncTicket};
use crate::storage::file_system::Syncer;

/// The lane's queue.
#[derive(Debug, Default)]
pub struct Lane {
    state: Mutex<LaneState>,
    changed: Condvar,
    /// When the log is to be synced, in nanoseconds of the clock, plus one; 0 if nobody wants it.
    sync_by_nanos: AtomicU64,
    /// True if a thread serves the lane.
    threaded: bool,
}

#[derive(Debug, Default)]
struct LaneState {
    /// The most urgent first. The one that the thread has in hands stays in front until it is done.
    syncs: VecDeque<(Class, Arc<dyn Syncer>, SyncTicket)>,
    in_hands: bool,
    poked: bool,
    stopped: bool,
}

/// How often the lane looks for unlinkable tables when nobody pokes it.
const IDLE: Duration = Duration::from_millis(500);

impl Lane {
    /// A lane, served by a thread or not.
    pub fn new(threaded: bool) -> Arc<Lane> {
        Arc::new(Lane { threaded, ..Lane::default() })
    }

    /// There is something to look after.
    pub fn poke(&self) {
        self.lock().poked = true;
        self.changed.notify_one();
    }

    /// A write wants a sync of the log to begin by this time of the clock. Called when the write is in the log.
    pub fn sync_by(&self, when: Duration) {
        let when = u64::try_from(when.as_nanos()).unwrap_or(u64::MAX - 1).saturating_add(1);
        let earlier = |by: u64| (by == 0 || when < by).then_some(when);
        // Mostly an earlier write wants one sooner already.
        if self.sync_by_nanos.fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier).is_ok() {
            // A lane that has just computed how long it may sleep holds the lock until it does.
            drop(self.lock());
            self.changed.notify_one();
        }
    }

    /// When a sync of the log is to begin.
    pub fn sync_wanted_by(&self) -> Option<Duration> {
        let by = self.sync_by_nanos.load(Ordering::Acquire);
        (by != 0).then(|| Duration::from_nanos(by - 1))
    }

    /// True if a sync of the log is to begin now. The caller begins it: it covers every write that has asked so far, and later
    /// ones ask anew.
    pub fn take_due_sync(&self, now: Duration) -> bool {
        let due = self.sync_wanted_by().is_some_and(|by| by <= now);
        if due {
            self.sync_by_nanos.store(0, Ordering::Release);
        }
        due
    }

    /// No more work; the thread ends when the queue is empty.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_one();
    }

    /// The thread's body: `synced` after each sync, `upkeep` when poked, when a sync of the log is due, now and then, and as soon
    /// as it has answered, in turn with syncs; `begin` before each of both.
    pub fn run(
        &self,
        clock: &dyn Clock,
        begin: impl Fn(),
        synced: impl Fn(),
        upkeep: impl Fn() -> Option<Duration>,
    ) {
        let _ending = Ending(self);
        let mut rest = IDLE;
        // When upkeep was done last, and whether something was synced since: neither keeps the other waiting for long.
        let (mut looked_at, mut synced_since) = (clock.now(), false);
        loop {
            let next = {
                let mut state = self.lock();
                let longest = self.longest_wait(clock).min(rest);
                if state.syncs.is_empty() && !state.poked && !state.stopped && !longest.is_zero() {
                    state =
                        self.changed.wait_timeout(state, longest).map_or_else(|e| e.into_inner().0, |s| s.0);
                }
                let is_late = state.poked || rest.is_zero() || clock.now() >= looked_at + IDLE;
                let flush_waits = state.syncs.front().is_some_and(|(class, ..)| *class == Class::Flush);
                // The log comes before tables: it has been promised by a time. What frees disk does not wait for the end of a long
                // row of syncs.
                let upkeep_first =
                    self.longest_wait(clock).is_zero() || (is_late && synced_since && !flush_waits);
                let sync = state.syncs.front().filter(|_| !upkeep_first || state.stopped).cloned();
                state.in_hands = sync.is_some();
                if sync.is_none() {
                    if state.stopped {
                        return;
                    }
                    state.poked = false;
                }
                sync
            };
            begin();
            if let Some((_, syncer, ticket)) = next {
                ticket.finish(syncer.sync());
                {
                    let mut state = self.lock();
                    state.syncs.pop_front();
                    state.in_hands = false;
                }
                synced_since = true;
                synced();
            } else {
                rest = upkeep().map_or(IDLE, |soon| soon.min(IDLE));
                (looked_at, synced_since) = (clock.now(), false);
            }
        }
    }

    /// How long there may be nothing to do.
    fn longest_wait(&self, clock: &dyn Clock) -> Duration {
        self.sync_wanted_by().map_or(IDLE, |by| by.saturating_sub(clock.now()).min(IDLE))
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread ends, by a panic too: nobody waits for a sync that nobody does.
struct Ending<'a>(&'a Lane);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.lock();
            state.stopped = true;
            std::mem::take(&mut state.syncs)
        };
        for (_, _, ticket) in left {
            ticket
                .finish(Err(Error::Poisoned { cause: "the thread that syncs tables has ended".to_owned() }));
        }
    }
}

impl SyncLane for Lane {
    fn submit(&self, class: Class, syncer: Arc<dyn Syncer>) -> SyncTicket {
        let ticket = SyncTicket::default();
        let mut state = self.lock();
        if self.threaded && !state.stopped {
            let first = usize::from(state.in_hands);
            let at = state.syncs.iter().skip(first).position(|(other, ..)| other.urgency() > class.urgency());
            let at = at.map_or(state.syncs.len(), |at| at + first);
            state.syncs.insert(at, (class, syncer, ticket.clone()));
            drop(state);
            self.changed.notify_one();
        } else {
            drop(state);
            let outcome: Result<()> = syncer.sync();
            ticket.finish(outcome);
        }
        ticket
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::base::clock::ManualClock;

    #[derive(Debug)]
    struct Sync(&'static str);

    impl Syncer for Sync {
        fn sync(&self) -> Result<()> {
            assert_ne!(self.0, "panics", "planted by the test");
            Ok(())
        }
    }

    fn kind(ticket: &SyncTicket) -> Option<&'static str> {
        ticket.outcome().map(|outcome| outcome.as_ref().map_or_else(Error::kind, |()| "Ok"))
    }

    #[derive(Debug)]
    struct Noted(&'static str, Arc<Mutex<Vec<&'static str>>>);

    impl Syncer for Noted {
        fn sync(&self) -> Result<()> {
            self.1.lock().unwrap().push(self.0);
            Ok(())
        }
    }

    /// A flush whose memtable writers wait for does not wait for what deeper levels have to sync.
    #[test]
    fn the_most_urgent_is_synced_first() {
        let (lane, order) = (Lane::new(true), Arc::default());
        let submit = |class, name| lane.submit(class, Arc::new(Noted(name, Arc::clone(&order))));
        submit(Class::Deep, "deep 1");
        submit(Class::Flush, "flush 1");
        submit(Class::L0ToL1, "l0");
        submit(Class::Deep, "deep 2");
        submit(Class::Flush, "flush 2");
        lane.run(
            &ManualClock::default(),
            || (),
            || {
                // While it was synced others came.
                if order.lock().unwrap().len() == 1 {
                    submit(Class::Upkeep, "upkeep");
                    lane.stop();
                }
            },
            || None,
        );
        assert_eq!(*order.lock().unwrap(), ["flush 1", "flush 2", "l0", "deep 1", "deep 2", "upkeep"]);
    }

    /// Merges within L0 are made while older runs move down, and do not keep these from their end.
    #[test]
    fn in_l0_who_comes_first_is_synced_first() {
        let (lane, order) = (Lane::new(true), Arc::default());
        for (class, name) in [(Class::Deep, "deep"), (Class::L0ToL1, "down"), (Class::IntraL0, "within")] {
            lane.submit(class, Arc::new(Noted(name, Arc::clone(&order))));
        }
        lane.stop();
        lane.run(&ManualClock::default(), || (), || (), || None);
        assert_eq!(*order.lock().unwrap(), ["down", "within", "deep"]);
    }

    /// Tables that are gone are unlinked and logs sealed while a long job has one sync after the other; a flush waits for neither.
    #[test]
    fn upkeep_has_its_turn_between_syncs() {
        let (lane, order) = (Lane::new(true), Arc::<Mutex<Vec<&'static str>>>::default());
        let submit = |class, name| lane.submit(class, Arc::new(Noted(name, Arc::clone(&order))));
        for name in ["deep 1", "deep 2", "deep 3"] {
            submit(Class::Deep, name);
        }
        lane.run(
            &ManualClock::default(),
            || (),
            || {
                let done = order.lock().unwrap().len();
                match done {
                    1 => lane.poke(),
                    3 => {
                        lane.poke();
                        submit(Class::Flush, "flush");
                    }
                    6 => lane.stop(),
                    _ => {}
                }
            },
            || {
                order.lock().unwrap().push("upkeep");
                None
            },
        );
        let expected = ["deep 1", "upkeep", "deep 2", "flush", "upkeep", "deep 3"];
        assert_eq!(*order.lock().unwrap(), expected);
    }

    /// The log was promised by a time, and tables were not.
    #[test]
    fn a_sync_of_the_log_that_is_due_goes_before_those_of_tables() {
        let (lane, order) = (Lane::new(true), Arc::<Mutex<Vec<&'static str>>>::default());
        for name in ["deep 1", "deep 2", "deep 3"] {
            lane.submit(Class::Deep, Arc::new(Noted(name, Arc::clone(&order))));
        }
        let clock = ManualClock::default();
        let soon = Duration::from_millis(1);
        lane.run(
            &clock,
            || (),
            || {
                let done = order.lock().unwrap().len();
                match done {
                    1 => lane.sync_by(soon),
                    2 => clock.advance(soon),
                    _ => lane.stop(),
                }
            },
            || {
                if lane.take_due_sync(clock.now()) {
                    order.lock().unwrap().push("log");
                }
                None
            },
        );
        assert_eq!(*order.lock().unwrap(), ["deep 1", "deep 2", "log", "deep 3"]);
    }

    /// While writers filled logs faster than they could be sealed, no flush ever came to its end.
    #[test]
    fn syncs_have_their_turns_between_logs_that_are_sealed_and_a_flush_goes_before_them() {
        let (lane, order) = (Lane::new(true), Arc::<Mutex<Vec<&'static str>>>::default());
        let submit = |class, name| lane.submit(class, Arc::new(Noted(name, Arc::clone(&order))));
        lane.poke();
        lane.run(
            &ManualClock::default(),
            || (),
            || (),
            || {
                let mut order = order.lock().unwrap();
                order.push("log");
                let done = order.len();
                drop(order);
                match done {
                    1 => {
                        submit(Class::Flush, "flush 1");
                        submit(Class::Flush, "flush 2");
                        submit(Class::Deep, "deep 1");
                        submit(Class::Deep, "deep 2");
                    }
                    8 => lane.stop(),
                    _ => {}
                }
                Some(Duration::ZERO)
            },
        );
        let expected = ["log", "flush 1", "flush 2", "log", "deep 1", "log", "deep 2", "log"];
        assert_eq!(*order.lock().unwrap(), expected);
    }

    /// A bulk load once waited for ever for a thread that a listener's panic had ended.
    #[test]
    fn nobody_waits_for_a_lane_that_has_panicked() {
        for (syncs, told, outcomes) in [
            (["fine", "fine"], false, ["Ok", "Poisoned"]),
            (["panics", "fine"], true, ["Poisoned", "Poisoned"]),
        ] {
            let lane = Lane::new(true);
            let tickets = syncs.map(|sync| lane.submit(Class::Flush, Arc::new(Sync(sync))));
            assert_eq!(tickets.each_ref().map(kind), [None, None]);
            let run =
                || lane.run(&ManualClock::default(), || (), || assert!(told, "planted by the test"), || None);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert_eq!(tickets.each_ref().map(kind), outcomes.map(Some), "{syncs:?}");
            let later = lane.submit(Class::Deep, Arc::new(Sync("fine")));
            assert_eq!(kind(&later), Some("Ok"), "done where it is asked for");
        }
    }
}
