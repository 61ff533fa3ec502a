//! What users ask of the background: flush now, wait until idle. And, in a store without threads, what
//! writers ask: room.
//!
//! Whoever waits here waits on a condition; where a test steps the background itself, waiting is stepping.

use std::time::Duration;

use super::ahead::make_ready;
use super::flushing;
use super::ticker::tick;
use super::unlinks::{unlink_if_free, unlink_unless_paused};
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::db::jobs::memory::fit_cache;
use crate::db::jobs::scheduling::look_if_due;
use crate::db::jobs::stepping::{self, Stepped};
use crate::db::store::background::BackgroundState;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;

/// How long a waiter sleeps at most before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Background work of every kind, one step: for tests on one thread. False if there is nothing to do.
pub fn step_all(store: &Store, choose: &mut dyn FnMut(&[(usize, Class)]) -> Option<usize>) -> bool {
    maintain_all(store);
    make_ready(store);
    look_if_due(store);
    let flushed = flushing::step(store);
    let compacted = stepping::step(store, choose);
    store.tell_here();
    flushed == Stepped::Worked || compacted == Stepped::Worked
}

/// The lane's upkeep: a sync of the log that is due, the oldest full log, and unlinks. Answers when there is more to do, if nothing
/// else tells before.
pub fn maintain(store: &Store) -> Option<Duration> {
    maintain_with(store, unlink_if_free)
}

fn maintain_with(store: &Store, unlink: fn(&Store) -> Option<Duration>) -> Option<Duration> {
    let due = store.lane.take_due_sync(store.clock.now());
    if store.check_writable().is_err() || store.check_settled().is_err() {
        return None;
    }
    if due {
        match store.wal_files.sync() {
            Ok(()) => store.counters.wal_interval_syncs.add(1),
            Err(error) => {
                store.log_failed(error);
                return None;
            }
        }
    }
    let more = seal_a_log(store);
    if !store.background.threaded {
        tick(store);
    }
    fit_cache(store);
    let again = unlink(store);
    if more { Some(store.clock.now()) } else { again }
}

/// Seals the oldest full log. True if there is another.
fn seal_a_log(store: &Store) -> bool {
    store.wal_files.maintain(store.clock.now()).unwrap_or_else(|error| {
        store.log_failed(error);
        false
    })
}

/// The lane's upkeep by somebody else, who has nothing more urgent to sync: all full logs.
fn maintain_all(store: &Store) {
    maintain_with(store, unlink_unless_paused);
    while store.check_writable().is_ok() && seal_a_log(store) {}
}

/// Steps the background until there is room for a write: for a store without threads, where a writer is its own background. An
/// immutable memtable less, if the active one is full, and L0 below its limit.
///
/// # Errors
/// What keeps a flush from succeeding, for instance `NoSpace`; nothing was written.
pub fn wait_for_room(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    let full = || {
        let view = keyspace.view.load();
        let options = store.options.load();
        let memtables =
            keyspace.is_full(view.active.bytes()) && view.immutable.len() + 1 >= options.memtables as usize;
        memtables || keyspace.l0_runs() >= options.l0_limit as usize
    };
    if !full() {
        return Ok(());
    }
    store.counters.stalls.add(1);
    let _wait = store.slow.wait_for_room();
    wait_until(store, Fails::Both, || !full())
}

/// What keeps something from being done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fails {
    /// Flushes that fail.
    Flushes,
    /// Flushes and compactions that fail.
    Both,
    /// A job, whose end is waited for, well or not.
    Nothing,
}

impl Fails {
    /// What is told to who waits, of flushes only what failed since so many had.
    fn error(self, state: &BackgroundState, flushes: u64) -> Option<Error> {
        let flush = state.failed_flush.error_after(flushes).filter(|_| self != Fails::Nothing);
        let lasting = || state.lasting_error(|_, _| true).filter(|_| self == Fails::Both);
        flush.or_else(lasting).cloned()
    }
}

/// Waits until `done`, which the background makes true unless it `fails` or is paused.
pub fn wait_until(store: &Store, fails: Fails, done: impl Fn() -> bool) -> Result<()> {
    let _waits = store.background.caller_waits(fails != Fails::Flushes);
    let mut choose = stepping::by_schedule();
    // What has failed rests, but not for who waits for it.
    let flushes = if fails == Fails::Nothing { 0 } else { store.background.flush_now() };
    loop {
        store.check_writable()?;
        let told = store.background.told();
        if done() {
            return Ok(());
        }
        if store.background.is_stopping() {
            // Nobody will make it true any more, and whoever closes the store may wait for a lock that this caller holds.
            return Err(Error::closed());
        }
        if store.background.pauses() > 0 {
            // What may never come is not waited for.
            return Err(Error::Paused);
        }
        if store.background.threaded {
            let state = store.background.lock();
            if let Some(error) = fails.error(&state, flushes) {
                return Err(error);
            }
            store.background.priorities.raise_all();
            // Bounded: what is waited for may also come about by time passing, of which nobody tells.
            store.background.wait_as_caller(state, told, LOOK_AGAIN);
        } else if !step_all(store, &mut choose) && !done() {
            // The look for work that finds none does no work, and may be all that was waited for: hence the second look.
            let state = store.background.lock();
            let resting = state.failing.errors().filter(|_| fails != Fails::Flushes);
            let flush = state.failed_flush.error().into_iter();
            let error = flush.chain(&state.compaction_error).chain(resting).next();
            return Err(error.cloned().unwrap_or(Error::Idle));
        }
    }
}

/// Returns when everything written to the keyspace before the call is in tables, and so durable.
pub fn flush(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    store.listener.check_outside()?;
    flush_at_close(store, keyspace)
}

/// The same wherever it is called: the listener may be the last to let go of the store.
pub fn flush_at_close(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    if store.background.pauses() > 0 && !keyspace.view.load().is_flushed() {
        return Err(Error::Paused);
    }
    let until = {
        let mut commit = store.commit_state();
        let Some(open) = commit.memtable(keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
        };
        if !open.writer.table().is_empty() {
            open.switch(store.clock.now());
        }
        commit.last_seq
    };
    store.background.work_changed();
    wait_until(store, Fails::Flushes, || {
        // All of them are newer than the call, or there are none.
        keyspace.view.load().immutable.iter().all(|m| m.first_seq().is_none_or(|seq| seq > until))
    })
}

/// Returns when no flush and no compaction is under way or wanted.
pub fn wait_idle(store: &Store) -> Result<()> {
    store.listener.check_outside()?;
    if store.read_only {
        return Ok(());
    }
    wait_until(store, Fails::Both, || {
        let flushed = store.keyspaces.load().by_name.values().all(|k| k.view.load().immutable.is_empty());
        let state = store.background.lock();
        let looked = !state.look_for_work && state.looking == 0;
        let rests = state.failing.errors().next().is_some();
        flushed && looked && state.jobs.is_empty() && state.flush.is_free() && !rests
    })?;
    maintain_all(store);
    Ok(())
}
