//! Background work: which threads there are, what jobs are open, and who steps which.
//!
//! ```text
//! flush lane (1 thread)       memtables, oldest first; never waits for a compaction
//! workers (`workers` threads) take the most urgent open job, step it once, put it back
//! lane (1 thread)             syncs, log files, unlinks
//! ```
//! A job that is not stepped is paused; it holds no thread. Tests run without threads: they call `step` themselves.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::keyspace_state::KeyspaceState;
use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::units::{JobId, TableId};
use crate::execution::compaction_job::CompactionJob;
use crate::execution::flush_job::FlushJob;
use crate::execution::rate_limiter::RateLimiter;
use crate::scheduler::policy::{SchedulingPolicy, State};

/// Bytes a job may move in one step.
pub const STEP_BYTES: u64 = 256 << 10;

/// Open jobs and what the threads share.
#[derive(Debug)]
pub struct Background {
    state: Mutex<BackgroundState>,
    changed: Condvar,
    stopping: AtomicBool,
    /// Callers that wait for background work: while there are any, it does not run below others.
    waiting: AtomicUsize,
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
    /// The schedule.
    pub policy: SchedulingPolicy,
    /// Its memory.
    pub policy_state: State,
    /// The compactions' rate.
    pub limiter: RateLimiter,
    /// The failure of the last attempt to flush, until one succeeds.
    pub flush_error: Option<Error>,
    /// Why compactions rest: the last failure, until they are looked for again.
    pub compaction_error: Option<Error>,
    /// Failures since a compaction succeeded.
    pub failures_in_a_row: u32,
    /// What the last jobs that failed failed of, for whoever waits for one.
    pub failed_jobs: VecDeque<(JobId, Error)>,
    /// When compactions may be tried again after a failure.
    pub retry_at: Duration,
    /// Syncs that the lane has finished.
    pub syncs_done: u64,
    /// Changes told so far. A thread goes to sleep only if there was none since it last looked.
    pub changes: u64,
    /// The flush under way, while nobody steps it, and whether there is one.
    pub flush: Option<OpenFlush>,
    /// True while a flush is under way or being stepped.
    pub flushing: bool,
    /// First input tables of jobs that yielded without committing anything: their next attempt gets on by a step and
    /// keeps all.
    pub lost_work: HashSet<TableId>,
}

/// A flush under way.
#[derive(Debug)]
pub struct OpenFlush {
    /// Whose memtable.
    pub keyspace: Arc<KeyspaceState>,
    /// The flush.
    pub job: FlushJob,
}

/// A job that holds its claims.
#[derive(Debug)]
pub struct OpenJob {
    /// Its id.
    pub id: JobId,
    /// Whose tree.
    pub keyspace: Arc<KeyspaceState>,
    /// Its urgency.
    pub class: Class,
    /// Here while nobody steps it.
    pub job: Option<Box<CompactionJob>>,
    /// True while it waits for a sync.
    pub waiting: bool,
    /// Asked to let go of its claims.
    pub yield_requested: bool,
    /// Has been stepped.
    pub started: bool,
    /// Set aside for a more urgent job since its last step.
    pub set_aside: bool,
    /// When it was picked.
    pub picked_at: Duration,
    /// When it was stepped last, or opened.
    pub stepped_at: Duration,
    /// First input table, which names the seed.
    pub seed: Option<TableId>,
    /// Commit after each table: the disk is nearly full.
    pub sliced: bool,
}

impl Background {
    /// No jobs; `threaded` unless a test steps.
    pub fn new(policy: SchedulingPolicy, threaded: bool) -> Background {
        Background {
            state: Mutex::new(BackgroundState {
                jobs: Vec::new(),
                look_for_work: true,
                policy,
                policy_state: State::default(),
                limiter: RateLimiter::new(None),
                flush_error: None,
                compaction_error: None,
                failures_in_a_row: 0,
                failed_jobs: VecDeque::new(),
                retry_at: Duration::ZERO,
                syncs_done: 0,
                changes: 0,
                flush: None,
                flushing: false,
                lost_work: HashSet::new(),
            }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            threaded,
        }
    }

    /// The lock.
    pub fn lock(&self) -> MutexGuard<'_, BackgroundState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed that a thread or a waiting writer may want to know.
    pub fn wake(&self) {
        self.lock().changes += 1;
        self.changed.notify_all();
    }

    /// Something failed that a waiting writer may want to know. It is no reason for a thread to try again at once.
    pub fn tell_waiting(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Changes told so far.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// A tree has changed: there may be work.
    pub fn work_changed(&self) {
        let mut state = self.lock();
        state.look_for_work = true;
        state.changes += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// A sync has ended: whoever waits for one looks again.
    pub fn sync_done(&self) {
        let mut state = self.lock();
        state.syncs_done += 1;
        state.changes += 1;
        state.jobs.iter_mut().for_each(|job| job.waiting = false);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for a change, at most for `longest`.
    pub fn wait<'a>(
        &self,
        state: MutexGuard<'a, BackgroundState>,
        longest: Duration,
    ) -> MutexGuard<'a, BackgroundState> {
        self.changed.wait_timeout(state, longest).map_or_else(|e| e.into_inner().0, |s| s.0)
    }

    /// A caller waits for background work until what this answers is dropped.
    pub fn caller_waits(&self) -> impl Drop + '_ {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(&self.waiting)
    }

    /// True while a caller waits for background work.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Tells the threads to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// True once the threads are to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The threads of an open store; joined when it is closed.
#[derive(Debug, Default)]
pub struct Threads(pub Vec<JoinHandle<()>>);

impl Threads {
    /// Waits until all have ended. A thread that drops the last handle of the store cannot wait for itself.
    pub fn join(self) {
        let own = std::thread::current().id();
        for thread in self.0 {
            if thread.thread().id() != own {
                // A panic of the thread has been reported where it was caught.
                let _ = thread.join();
            }
        }
    }
}
