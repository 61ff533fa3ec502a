//! Background work: which threads there are, what jobs are open, and who steps which.
//!
//! ```text
//! flush lane (1 thread)       memtables, oldest first; never waits for a compaction
//! workers (`workers` threads) take the most urgent open job, step it once, put it back
//! lane (1 thread)             syncs, full log files, unlinks
//! ahead (1 thread)            logs and memory that writers need next
//! monitor (1 thread)          looks at the clients' load, where the schedule wants to know it
//! ```
//! A job that is not stepped is paused; it holds no thread. Tests run without threads: they call `step` themselves.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use super::failing::{FAILURES_MAX, FailedFlush, Failing};
use super::flush_slot::FlushSlot;
use super::open_job::OpenJob;
use super::priority::Priorities;
use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::locks::{
    Condvar, Mutex, MutexGuard,
    thread::{self, JoinHandle, Thread},
    try_lock,
};
use crate::base::units::{KeyspaceId, TableId};
use crate::execution::rate_limiter::RateLimiter;
use crate::scheduler::decide::{Directive, State};
use crate::scheduler::device_share::DeviceShare;
use crate::scheduler::policy::SchedulingPolicy;

/// Who waits for steps to end raises those who are in them this often.
const LOOKED_AT_AGAIN: Duration = Duration::from_millis(10);

/// Bytes a job may move in one step.
pub const STEP_BYTES: u64 = 256 << 10;

/// Open jobs and what the threads share.
#[derive(Debug)]
pub struct Background {
    state: Mutex<BackgroundState>,
    changed: Condvar,
    stopping: AtomicBool,
    /// Changes told so far. A thread goes to sleep only if there was none since it last looked.
    changes: AtomicU64,
    /// How often waiting callers were told to look again; counted under the lock.
    told: AtomicU64,
    /// The flush lane and its stand-in, once they run. They sleep without the lock, so that a leader can wake them without.
    flushers: [OnceLock<Thread>; 2],
    /// The monitor, once it runs.
    monitor: OnceLock<Thread>,
    /// Callers that wait for background work: while there are any, it does not run below others.
    waiting: AtomicUsize,
    /// Those of them that wait for compactions: no gate of the schedule keeps those meanwhile.
    waiting_for_jobs: AtomicUsize,
    /// How eagerly the threads run.
    pub priorities: Priorities,
    /// True while the schedule wants them to run as everyone does.
    pub urgent: AtomicBool,
    /// True while flushes fail: compactions may make the space that they lack.
    pub flushes_fail: AtomicBool,
    /// Pauses in force: while there is one no step begins. Grows under the lock.
    pauses: AtomicUsize,
    /// The store is being closed, and no pause holds any more.
    pauses_over: AtomicBool,
    /// The threads; who closes the store ends them.
    threads: Mutex<Threads>,
    /// False where a test steps.
    pub threaded: bool,
}

/// What the lock guards.
#[derive(Debug)]
pub struct BackgroundState {
    /// Open jobs, in the order they were opened.
    pub jobs: Vec<OpenJob>,
    /// True if a tree or the set of open jobs has changed since the last look for work.
    pub look_for_work: bool,
    /// The keyspace in which work was begun last: others have their turn first.
    pub begun_last: Option<KeyspaceId>,
    /// Wall milliseconds in which it need not be looked for again while nothing changes. Before them, too, it is: the clock was set back.
    pub rests_ms: Option<Range<u64>>,
    /// Threads that look for work just now: what they find is not among `jobs` yet.
    pub looking: usize,
    /// The schedule.
    pub policy: SchedulingPolicy,
    /// The same, as it was given.
    pub policy_text: String,
    /// Its memory.
    pub policy_state: State,
    /// What of the clients' reads is the device's.
    pub device_share: DeviceShare,
    /// What it decided last.
    pub directive: Directive,
    /// When it is to look at the clients' load again; where a test steps.
    pub look_at: Duration,
    /// True while the flush lane goes from one flush to the next.
    pub flush_after_flush: bool,
    /// When it ended a flush last.
    pub flush_ended_at: Option<Duration>,
    /// True if the flush begun last had less than twice the time that it needs, or nobody knew.
    pub flushes_hurry: bool,
    /// The compactions' rate.
    pub limiter: RateLimiter,
    /// The flushes' rate, in bytes of memtables.
    pub flush_limiter: RateLimiter,
    /// What keeps flushes from succeeding, until one does.
    pub failed_flush: FailedFlush,
    /// Why compactions rest: the last failure, until they are looked for again.
    pub compaction_error: Option<Error>,
    /// Whose it is, where there was no space for some; empty where nobody knows.
    pub refused: Vec<KeyspaceId>,
    /// Failures since a compaction succeeded.
    pub failures_in_a_row: u32,
    /// When compactions may be tried again after a failure.
    pub retry_at: Duration,
    /// Syncs that the lane has finished.
    pub syncs_done: u64,
    /// The flush under way.
    pub flush: FlushSlot,
    /// Steps under way.
    stepping: u32,
    /// First input tables of jobs that yielded, lost work and have their seed still to do: their next attempt gets on by a step and
    /// keeps all.
    pub lost_work: HashSet<TableId>,
    /// Work that failed, and rests.
    pub failing: Failing,
}

impl BackgroundState {
    /// Why compactions fail, if that is everyone's or of one that `matters`: one that space does not mend may pass, and is tried again
    /// before.
    pub fn lasting_error(&self, matters: impl Fn(KeyspaceId, Class) -> bool) -> Option<&Error> {
        let lasts = |e: &&Error| matches!(e, Error::NoSpace { .. }) || self.failures_in_a_row >= FAILURES_MAX;
        // What there is no space for may be what L0 waits for; not while L0 goes down all the same.
        let goes_down =
            |id: KeyspaceId| self.jobs.iter().any(|job| job.keyspace.id == id && job.class.is_l0());
        let is_told = |id: KeyspaceId| matters(id, Class::L0ToL1) && !goes_down(id);
        let is_theirs = self.refused.is_empty() || self.refused.iter().any(|id| is_told(*id));
        self.compaction_error
            .as_ref()
            .filter(lasts)
            .filter(|_| is_theirs)
            .or_else(|| self.failing.lasting_error(matters))
    }
}

impl Background {
    /// No jobs; `threaded` unless a test steps.
    pub fn new(policy: SchedulingPolicy, policy_text: String, threaded: bool) -> Background {
        Background {
            state: Mutex::new(BackgroundState {
                jobs: Vec::new(),
                look_for_work: true,
                begun_last: None,
                rests_ms: None,
                looking: 0,
                policy,
                policy_text,
                policy_state: State::default(),
                device_share: DeviceShare::default(),
                directive: Directive::default(),
                look_at: Duration::ZERO,
                flush_after_flush: false,
                flush_ended_at: None,
                flushes_hurry: true,
                limiter: RateLimiter::new(None),
                flush_limiter: RateLimiter::new(None),
                failed_flush: FailedFlush::default(),
                compaction_error: None,
                refused: Vec::new(),
                failures_in_a_row: 0,
                retry_at: Duration::ZERO,
                syncs_done: 0,
                flush: FlushSlot::Free,
                stepping: 0,
                lost_work: HashSet::new(),
                failing: Failing::default(),
            }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            flushers: Default::default(),
            monitor: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            waiting_for_jobs: AtomicUsize::new(0),
            priorities: Priorities::default(),
            urgent: AtomicBool::new(false),
            flushes_fail: AtomicBool::new(false),
            pauses: AtomicUsize::new(0),
            pauses_over: AtomicBool::new(false),
            threads: Mutex::default(),
            threaded,
        }
    }

    /// The lock.
    pub fn lock(&self) -> MutexGuard<'_, BackgroundState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, BackgroundState>> {
        try_lock(&self.state)
    }

    /// The lock, for a lane that writers may wait for: see [`Priorities::lock_soon`].
    pub fn lock_soon(&self) -> MutexGuard<'_, BackgroundState> {
        self.priorities.lock_soon(&self.state)
    }

    /// True if nobody has the lock.
    pub fn is_free(&self) -> bool {
        !matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Something changed that a thread or a waiting writer may want to know.
    pub fn wake(&self) {
        self.tell_change(self.lock());
    }

    /// There is a memtable to flush. For the commit leader, behind whom everybody waits: it takes no lock that a worker may hold,
    /// for workers run below everyone and may be stopped meanwhile.
    pub fn wake_flusher(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.flushers.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
    }

    /// The calling thread is the flush lane, or stands in for it.
    pub fn be_flusher(&self, stands_in: bool) {
        self.flushers[usize::from(stands_in)].get_or_init(thread::current);
    }

    /// The calling thread is the monitor.
    pub fn be_monitor(&self) {
        self.monitor.get_or_init(thread::current);
    }

    /// The monitor sleeps, at most for `longest`, or until it is woken.
    pub fn sleep_as_monitor(&self, longest: Option<Duration>) {
        match longest {
            _ if self.is_stopping() => {}
            Some(longest) => thread::park_timeout(longest),
            None => thread::park(),
        }
    }

    /// There is work to pace, the schedule has changed, or the store is being closed.
    pub fn wake_monitor(&self) {
        if let Some(monitor) = self.monitor.get() {
            monitor.unpark();
        }
    }

    /// Something failed that a waiting writer may want to know. It is no reason for a thread to try again at once.
    pub fn tell_waiting(&self) {
        self.tell_callers(self.lock());
    }

    /// Nothing was found to be due: who waits for that need not wait until it looks again by itself. Asked under the lock.
    pub fn tell_none_due(&self) {
        if self.is_waited_for() {
            self.told.fetch_add(1, Ordering::Release);
            self.changed.notify_all();
        }
    }

    /// Changes told so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn tell_change(&self, state: MutexGuard<'_, BackgroundState>) {
        // Under the lock: who looks and goes to sleep holds it in between.
        self.wake_flusher();
        self.tell_callers(state);
    }

    fn tell_callers(&self, state: MutexGuard<'_, BackgroundState>) {
        self.told.fetch_add(1, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// A tree has changed: there may be work.
    pub fn work_changed(&self) {
        let mut state = self.lock();
        state.look_for_work = true;
        self.tell_change(state);
    }

    /// A sync has ended: whoever waits for one looks again.
    pub fn sync_done(&self) {
        let mut state = self.lock_soon();
        state.syncs_done += 1;
        state.jobs.iter_mut().for_each(|job| job.waiting = false);
        self.tell_change(state);
    }

    /// A worker sleeps until a change is told, at most for `longest`; not at all if one was told since `seen` had been.
    pub fn sleep(&self, seen: u64, longest: Duration) {
        let state = self.lock();
        if !self.is_stopping() && self.changes() == seen {
            drop(self.wait(state, longest));
        }
    }

    /// The same for the flush lane. A wake-up that comes between the look and the sleep ends the sleep.
    pub fn sleep_as_flusher(&self, seen: u64, longest: Duration) {
        if !self.is_stopping() && self.changes() == seen {
            thread::park_timeout(longest);
        }
    }

    /// Waits for a change, at most for `longest`.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, BackgroundState>,
        longest: Duration,
    ) -> MutexGuard<'a, BackgroundState> {
        self.changed.wait_timeout(state, longest).map_or_else(|e| e.into_inner().0, |s| s.0)
    }

    /// How often waiting callers were told to look again: for [`Background::wait_as_caller`].
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// A caller waits until it is told to look again, at most for `longest`; not at all if it was since `seen` had been.
    pub fn wait_as_caller(&self, state: MutexGuard<'_, BackgroundState>, seen: u64, longest: Duration) {
        if self.told() == seen {
            drop(self.wait(state, longest));
        }
    }

    /// A caller waits for background work until what this answers is dropped; `for_jobs` if that is compactions.
    pub fn caller_waits(&self, for_jobs: bool) -> impl Drop + '_ {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.priorities.raise_all();
        // It may have asked for its rate before, and be asleep until that lets it go on.
        self.wake_flusher();
        if for_jobs {
            self.waiting_for_jobs.fetch_add(1, Ordering::AcqRel);
            let mut state = self.lock();
            if state.policy.holds_back() {
                // What the schedule held back is due now; for each who waits, as none may find that nothing is before that was looked for.
                state.look_for_work = true;
                self.tell_change(state);
            }
        }
        Waits { waiting: &self.waiting, for_jobs: for_jobs.then_some(&self.waiting_for_jobs) }
    }

    /// True while a caller waits for compactions.
    pub fn jobs_are_waited_for(&self) -> bool {
        self.waiting_for_jobs.load(Ordering::Acquire) > 0
    }

    /// True while a caller waits for background work.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// How many callers wait for background work.
    pub fn waiting_callers(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed) as u64
    }

    /// Begins a step of work, which lasts until what this answers is dropped; `None` while work is paused.
    pub fn begin_step(&self) -> Option<impl Drop + '_> {
        let mut state = self.lock();
        if self.pauses() > 0 {
            return None;
        }
        state.stepping += 1;
        Some(StepUnderWay(self))
    }

    /// Pauses the work, and waits until no step is under way. Not for a thread that is in one.
    pub fn pause(&self) {
        let _waits = self.caller_waits(false);
        let mut state = self.lock();
        self.pauses.fetch_add(1, Ordering::Relaxed);
        while state.stepping > 0 {
            state = self.wait(state, LOOKED_AT_AGAIN);
            // Who is in a step may have lowered itself just before it.
            self.priorities.raise_all();
        }
    }

    /// Takes back one pause. A flush that failed before rests no longer.
    pub fn resume(&self) {
        self.pauses.fetch_sub(1, Ordering::Relaxed);
        self.flush_now();
        self.work_changed();
    }

    /// A flush that has failed rests no longer. Answers how many have failed until now.
    pub fn flush_now(&self) -> u64 {
        let mut state = self.lock();
        let failures = state.failed_flush.try_now();
        if state.failed_flush.error().is_some() {
            self.tell_change(state);
        }
        failures
    }

    /// Pauses in force.
    pub fn pauses(&self) -> usize {
        if self.pauses_over.load(Ordering::Relaxed) { 0 } else { self.pauses.load(Ordering::Relaxed) }
    }

    /// Ends all pauses for good: what is only in memory is to be flushed before the store is closed.
    pub fn end_pauses(&self) {
        self.pauses_over.store(true, Ordering::Relaxed);
        self.work_changed();
    }

    /// The threads.
    pub fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the threads to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
        self.priorities.raise_all();
        self.wake_monitor();
    }

    /// True once the threads are to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

struct StepUnderWay<'a>(&'a Background);

impl Drop for StepUnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.stepping -= 1;
        // Also of pauses that are over: who asked for one still waits.
        if state.stepping == 0 && self.0.pauses.load(Ordering::Relaxed) > 0 {
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

struct Waits<'a> {
    waiting: &'a AtomicUsize,
    for_jobs: Option<&'a AtomicUsize>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(waiting) = self.for_jobs {
            waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The threads of an open store; joined when it is closed.
#[derive(Debug, Default)]
pub struct Threads {
    /// All of them.
    pub handles: Vec<JoinHandle<()>>,
    /// How many workers there have been; the last of them rest if fewer are wanted.
    pub workers: u32,
    /// How many of them have a stand-in.
    pub stand_ins: u32,
}

impl Threads {
    /// Waits until all have ended. A thread that drops the last handle of the store cannot wait for itself.
    pub fn join(self) {
        let own = thread::current().id();
        for thread in self.handles {
            if thread.thread().id() != own {
                // A panic of the thread has been reported where it was caught.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::clock::spawn;

    /// The store is closed meanwhile: nothing comes after the step that the pause waits for.
    #[test]
    fn a_pause_ends_with_the_last_step_though_pauses_are_over() {
        let policy = crate::scheduler::catalog::parse("unlimited").unwrap();
        let background = Arc::new(Background::new(policy, "unlimited".to_owned(), false));
        let step = background.begin_step().unwrap();
        let theirs = Arc::clone(&background);
        let pausing = spawn("pausing", move || theirs.pause()).unwrap();
        while background.pauses() == 0 {
            std::thread::yield_now();
        }
        // Who has raised the count has the lock until it waits.
        drop(background.lock());
        background.pauses_over.store(true, Ordering::Relaxed);
        drop(step);
        pausing.join().unwrap();
    }
}
