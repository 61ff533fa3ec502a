//! What users ask of the background: flush now, compact a range, wait until idle, change the strategy. And what writers ask:
//! room.
//!
//! Whoever waits here waits on a condition; where a test steps the background itself, waiting is stepping.

use std::sync::Arc;
use std::time::Duration;

use super::background::BackgroundState;
use super::flushing;
use super::install::{tree_view, unlink_obsolete};
use super::jobs::{self, Begun, Stepped};
use super::keyspace_state::KeyspaceState;
use super::state::{CLOSED, Store};
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::key_range::KeyRange;
use crate::base::units::{JobId, TableId};
use crate::compaction::picker::{Pick, manual};
use crate::observe::event::Event;
use crate::scheduler::catalog::parse as parse_schedule;
use crate::scheduler::policy::State as PolicyState;

/// A compaction that fails so many times in a row is not waited for any longer.
const FAILURES_MAX: u32 = 3;

/// How long a waiter sleeps at most before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Background work of every kind, one step: for tests on one thread. False if there is nothing to do.
pub fn step_all(store: &Store, choose: &mut dyn FnMut(&[(usize, Class)]) -> Option<usize>) -> bool {
    maintain(store);
    let flushed = flushing::step(store);
    let compacted = jobs::step(store, choose);
    flushed == Stepped::Worked || compacted == Stepped::Worked
}

/// The lane's upkeep: log files and unlinks.
pub fn maintain(store: &Store) {
    if store.check_writable().is_err() {
        return;
    }
    if let Err(error) = store.wal_files.maintain() {
        if matches!(error, Error::NoSpace { .. }) {
            store.event(&Event::BackgroundError { error: error.to_string() });
        } else {
            store.log_failed(error);
        }
    }
    if let Err(error) = unlink_obsolete(store) {
        store.event(&Event::BackgroundError { error: error.to_string() });
    }
}

/// True if writers of this keyspace have to wait for compactions of L0.
#[inline]
pub fn is_throttled(store: &Store, keyspace: &KeyspaceState) -> bool {
    keyspace.l0_runs() >= store.options.l0_limit as usize
}

/// Returns when a writer may go on: an immutable memtable less, if its own is full, and L0 below its limit.
///
/// # Errors
/// What keeps a flush from succeeding, for instance `NoSpace`; nothing was written.
pub fn wait_for_room(store: &Store, keyspace: &KeyspaceState, full: bool) -> Result<()> {
    let reason = || {
        let waiting = keyspace.view.load().immutable.len();
        if full && waiting + 1 >= store.options.memtables as usize {
            return Some(format!("because we have {waiting} memtables waiting for their flush"));
        }
        is_throttled(store, keyspace).then(|| format!("because we have {} level-0 runs", keyspace.l0_runs()))
    };
    let Some(first_reason) = reason() else { return Ok(()) };
    store.event(&Event::Stalling { keyspace: keyspace.id, reason: first_reason });
    store.counters.stalls.add(1);
    let since = store.clock.now();
    let outcome = wait_until(store, Fails::Both, || reason().is_none());
    store.counters.stall_nanos.add((store.clock.now().saturating_sub(since)).as_nanos() as u64);
    outcome
}

/// What keeps something from being done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    /// Flushes that fail.
    Flushes,
    /// Flushes and compactions that fail.
    Both,
    /// A job, whose end is waited for, well or not.
    Nothing,
}

impl Fails {
    fn error(self, state: &BackgroundState) -> Option<Error> {
        let flush = state.flush_error.as_ref().filter(|_| self != Fails::Nothing);
        // A failure that space does not mend may pass: it is tried again before it is everyone's.
        let lasts =
            |e: &&Error| matches!(e, Error::NoSpace { .. }) || state.failures_in_a_row >= FAILURES_MAX;
        let compaction = state.compaction_error.as_ref().filter(|_| self == Fails::Both).filter(lasts);
        flush.or(compaction).cloned()
    }
}

/// Waits until `done`, which the background makes true unless it `fails`.
fn wait_until(store: &Store, fails: Fails, done: impl Fn() -> bool) -> Result<()> {
    let _waits = store.background.caller_waits();
    let mut choose = jobs::by_schedule(store);
    loop {
        store.check_writable()?;
        if done() {
            return Ok(());
        }
        if store.background.is_stopping() {
            // Nobody will make it true any more, and whoever closes the store may wait for a lock that this caller holds.
            return Err(Error::Poisoned { cause: CLOSED.to_owned() });
        }
        if store.background.threaded {
            let state = store.background.lock();
            if let Some(error) = fails.error(&state) {
                return Err(error);
            }
            // `done` may have become true between the look above and the lock, so the wait is bounded.
            drop(store.background.wait(state, LOOK_AGAIN));
        } else if !step_all(store, &mut choose) && !done() {
            // The look for work that finds none does no work, and may be all that was waited for: hence the second look.
            let state = store.background.lock();
            let error = state.flush_error.clone().or_else(|| state.compaction_error.clone());
            return Err(error.unwrap_or_else(|| {
                Error::invalid("the background is idle and what is waited for is not done")
            }));
        }
    }
}

/// Returns when everything written to the keyspace before the call is in tables, and so durable.
pub fn flush(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    let until = {
        let mut commit = store.commit_state();
        let Some(open) = commit.memtable(keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
        };
        if !open.writer.table().is_empty() {
            open.switch();
        }
        commit.last_seq
    };
    store.background.work_changed();
    wait_until(store, Fails::Flushes, || {
        // All of them are newer than the call, or there are none.
        keyspace.view.load().immutable.iter().all(|m| m.first_seq().is_none_or(|seq| seq > until))
    })
}

/// Pushes everything in `range` to the last level that holds any of it, in place if that is where it is.
pub fn compact_range(store: &Store, keyspace: &Arc<KeyspaceState>, range: &KeyRange) -> Result<()> {
    flush(store, keyspace)?;
    // Tables made from here on are this compaction's own.
    let before = store.tree().versions.ids().table();
    let mut level = 0;
    loop {
        match begin_manual(store, keyspace, range, level, before)? {
            Manual::Nothing => level += 1,
            Manual::Past => return Ok(()),
            Manual::Begun(Begun::Moved) => store.background.work_changed(),
            Manual::Begun(Begun::Open(id)) => {
                store.background.wake();
                wait_until(store, Fails::Nothing, || !is_open(store, id))?;
                let failed = &store.background.lock().failed_jobs;
                if let Some((_, error)) = failed.iter().find(|(failed, _)| *failed == id) {
                    return Err(error.clone());
                }
            }
            Manual::Blocked(by) => {
                wait_until(store, Fails::Nothing, || !by.iter().any(|id| is_open(store, *id)))?;
            }
            Manual::Refused => {
                return Err(Error::NoSpace { context: format!("compact keyspace `{}`", keyspace.name) });
            }
        }
    }
}

enum Manual {
    Nothing,
    Past,
    Refused,
    Begun(Begun),
    Blocked(Vec<JobId>),
}

fn begin_manual(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    range: &KeyRange,
    level: usize,
    before: TableId,
) -> Result<Manual> {
    let strategy = keyspace.strategy.load_full();
    let mut tree = store.tree();
    let tree = &mut *tree;
    let Some(view) = tree_view(store, tree, keyspace.id) else {
        return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
    };
    if level >= view.version.levels.len() {
        return Ok(Manual::Past);
    }
    Ok(match manual(&view, &strategy.strategy, range, level, before) {
        Pick::Nothing => Manual::Nothing,
        Pick::Blocked { by, .. } => Manual::Blocked(by),
        Pick::Run(picked) => match jobs::begin(store, tree, keyspace, *picked)? {
            Some(begun) => Manual::Begun(begun),
            None => Manual::Refused,
        },
    })
}

fn is_open(store: &Store, id: JobId) -> bool {
    store.background.lock().jobs.iter().any(|job| job.id == id)
}

/// Returns when no flush and no compaction is under way or wanted.
pub fn wait_idle(store: &Store) -> Result<()> {
    wait_until(store, Fails::Both, || {
        let flushed = store.keyspaces.load().by_name.values().all(|k| k.view.load().immutable.is_empty());
        let state = store.background.lock();
        flushed && state.jobs.is_empty() && !state.flushing && !state.look_for_work
    })?;
    maintain(store);
    Ok(())
}

/// Changes the schedule; the next decision is made by it.
pub fn set_schedule(store: &Store, text: &str) -> Result<()> {
    let policy = parse_schedule(text)?;
    {
        let mut state = store.background.lock();
        state.policy = policy;
        state.policy_state = PolicyState::default();
    }
    store.background.work_changed();
    Ok(())
}
