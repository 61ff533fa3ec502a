//! The background threads' bodies: loops around one step each.
//!
//! They run below the clients' priority, so that nobody feels them (the lane ahead only lets who wakes go first), until a deadline nears: a
//! caller or a writer waits, writers are slowed or will be soon because of L0, the memtable after the one being flushed is half full, memory
//! runs short, flushes fail, or a plan says so.
//! Then they run as everyone does. In a process that may not raise a priority again the flush lane and each worker have a stand-in with a
//! client's share of a core, which works instead of them while a deadline is near; the other two lanes have that share for good.
//!
//! A panic in one is caught, makes the store read-only, and is reported by the next write (`docs/durability.md`, C13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_sys::{Priority, yield_now};

use super::ahead::make_ready;
use super::control::maintain;
use super::flushing;
use super::ticker;
use crate::base::clock::spawn;
use crate::base::error::{Error, Result};
use crate::base::locks::thread::{self, JoinHandle};
use crate::db::jobs::pressure::{L0Debt, memtable_fills};
use crate::db::jobs::scheduling;
use crate::db::jobs::stepping::{self, Stepped};
use crate::db::settings::in_force;
use crate::db::store::background::Threads;
use crate::db::store::priority::{Duty, ThreadPriority, can_raise};
use crate::db::store::state::Store;
use crate::observe::event::Event;

/// A thread with nothing to do looks again after this long, should it have missed a wake-up.
const IDLE: Duration = Duration::from_millis(500);

/// Starts the flush lane, the workers, the two lanes, and who tells the listener, if there is one. After an error those that were
/// started run.
pub fn start_threads(store: &Arc<Store>) -> Result<()> {
    let threads = &mut *store.background.threads();
    // Who rests because another works must have that other.
    let has_stand_in = !can_raise();
    if has_stand_in {
        let body = |store: &Store| {
            store.background.be_flusher(true);
            stand_in_loop(store, Duty::Flushes, flush_is_urgent, |own, seen| flush(store, own, true, seen));
        };
        threads.handles.push(start(store, "keel-urgent-flush", body)?);
    }
    threads.handles.push(start(store, "keel-flush", move |store| flush_loop(store, has_stand_in))?);
    start_workers(store, threads)?;
    threads.handles.push(start(store, "keel-lane", lane_loop)?);
    threads.handles.push(start(store, "keel-ahead", ahead_loop)?);
    threads.handles.push(start(store, "keel-monitor", scheduling::monitor)?);
    if store.listener.0.is_some() {
        threads.handles.push(start(store, "keel-events", |store| store.outbox.run(&store.listener))?);
    }
    let watched = Arc::clone(store);
    threads.handles.push(spawn("keel-log", move || {
        // A store without a log for people is as good as any: a panic here ends the log alone.
        if catch_unwind(AssertUnwindSafe(|| ticker::run(&watched))).is_err() {
            watched.event(&Event::NotWritten { file: "LOG", error: "its thread panicked".to_owned() });
        }
    })?);
    Ok(())
}

/// Changes an option; more workers are started here, fewer rest. Those that cannot be started are told of and done without.
pub fn set_option(store: &Arc<Store>, name: &str, value: &str) -> Result<()> {
    in_force::change(store, name, value)?;
    if store.background.threaded
        && let Err(error) = start_workers(store, &mut store.background.threads())
    {
        store.event(&Event::BackgroundError { error: error.to_string() });
    }
    Ok(())
}

/// Starts the workers that the options want and that are not there yet. After an error there are fewer.
fn start_workers(store: &Arc<Store>, threads: &mut Threads) -> Result<()> {
    let wanted = store.options.load().workers;
    // A store that is being closed has its threads counted and joined.
    while threads.workers < wanted && !store.background.is_stopping() {
        let index = threads.workers;
        let has_stand_in = !can_raise();
        if has_stand_in && threads.stand_ins <= index {
            let body = move |store: &Store| {
                stand_in_loop(store, Duty::Compactions, work_is_urgent, |own, seen| {
                    work(store, index, own, true, seen);
                });
            };
            threads.handles.push(start(store, &format!("keel-urgent-{index}"), body)?);
            threads.stand_ins += 1;
        }
        let body = move |store: &Store| work_loop(store, index, has_stand_in);
        threads.handles.push(start(store, &format!("keel-work-{index}"), body)?);
        threads.workers += 1;
    }
    Ok(())
}

fn start(store: &Arc<Store>, name: &str, body: impl Fn(&Store) + Send + 'static) -> Result<JoinHandle<()>> {
    let (store, named) = (Arc::clone(store), name.to_owned());
    spawn(name, move || {
        if catch_unwind(AssertUnwindSafe(|| body(&store))).is_err() {
            store
                .poison(&Error::invalid(format!("the background thread {named} panicked; please report it")));
        }
    })
}

/// The body of the flush lane, which rests while its stand-in flushes.
fn flush_loop(store: &Store, has_stand_in: bool) {
    store.background.be_flusher(false);
    let own = store.background.priorities.join(Duty::Flushes, Priority::Nice19, Priority::Nice19);
    low_loop(store, &own, flush_is_urgent, has_stand_in, |its_turn, seen| flush(store, &own, its_turn, seen));
}

/// The body of worker `index`: it rests while fewer workers are wanted, and while its stand-in works.
fn work_loop(store: &Store, index: u32, has_stand_in: bool) {
    let own = store.background.priorities.join(Duty::Compactions, Priority::Idle, Priority::Nice19);
    let body = |its_turn, seen| work(store, index, &own, its_turn, seen);
    low_loop(store, &own, work_is_urgent, has_stand_in, body);
}

/// A thread that runs low until it is urgent; then it runs as everyone does, or it is its stand-in's turn.
fn low_loop(
    store: &Store,
    own: &ThreadPriority,
    is_urgent: impl Fn(&Store) -> bool,
    has_stand_in: bool,
    work: impl Fn(bool, u64),
) {
    let mut had_turn = false;
    while !store.background.is_stopping() {
        // Before it is asked whose turn it is: the other hands over by a change.
        let seen = store.background.changes();
        let urgent = set(own, || is_urgent(store));
        let its_turn = !(urgent && has_stand_in);
        if had_turn && !its_turn {
            // Its stand-in may have found this thread in a step, and sleep: on with what that left to do.
            store.background.wake();
        }
        had_turn = its_turn;
        work(its_turn, seen);
    }
}

/// The body of a thread that works for another while that is urgent, where the other cannot be raised.
fn stand_in_loop(
    store: &Store,
    duty: Duty,
    is_urgent: impl Fn(&Store) -> bool,
    work: impl Fn(&ThreadPriority, u64),
) {
    let own = store.background.priorities.join_as_stand_in(duty);
    while !store.background.is_stopping() {
        let seen = store.background.changes();
        if is_urgent(store) {
            own.raise();
            work(&own, seen);
            continue;
        }
        if own.lower() {
            // On with what was left to do, at the other's own priority.
            store.background.wake();
        }
        // Whatever became urgent before is seen here, and what does later wakes it.
        if !is_urgent(store) && !store.background.is_stopping() {
            thread::park_timeout(IDLE);
        }
    }
}

/// One step of a flush, if it is this thread's turn, or a rest that ends with the next change after those seen.
fn flush(store: &Store, own: &ThreadPriority, its_turn: bool, seen: u64) {
    let stepped = if its_turn { flushing::step(store) } else { Stepped::Idle };
    if stepped == Stepped::Worked && l0_fills(store) {
        store.background.priorities.raise_for(Duty::Compactions);
    }
    if let Some(longest) = rest(store, stepped, own) {
        store.background.sleep_as_flusher(seen, longest);
    }
}

/// One step of a compaction, if it is this thread's turn, or the same rest.
fn work(store: &Store, index: u32, own: &ThreadPriority, its_turn: bool, seen: u64) {
    let wanted = its_turn && index < store.options.load().workers;
    let stepped = if wanted { stepping::step(store, &mut stepping::by_schedule()) } else { Stepped::Idle };
    if let Some(longest) = rest(store, stepped, own) {
        store.background.sleep(seen, longest);
    }
}

fn work_is_urgent(store: &Store) -> bool {
    let background = &store.background;
    let [in_plan, fails] =
        [&background.urgent, &background.flushes_fail].map(|it| it.load(Ordering::Relaxed));
    in_plan || fails || background.is_waited_for() || writers_wait(store) || l0_fills(store)
}

/// Raises a thread if it is urgent, else lowers it; answers which.
fn set(own: &ThreadPriority, is_urgent: impl Fn() -> bool) -> bool {
    // Whoever raised it since it was asked is seen at the second look, and who does later raises it.
    let urgent = is_urgent() || own.lower() && is_urgent();
    if urgent {
        own.raise();
    }
    urgent
}

/// True if a limit makes somebody wait. Of two memtables there is one during each flush, mostly far above what writers do, for which
/// nobody need hurry.
fn writers_wait(store: &Store) -> bool {
    store.admission.waiting.load(Ordering::Relaxed) > 0
}

/// A flush ends with syncs, which are the lane's.
fn flush_is_urgent(store: &Store) -> bool {
    store.background.is_waited_for()
        || writers_wait(store)
        || store.admission.gate.is_pressed()
        || store.keyspaces.load().by_name.values().any(|keyspace| memtable_fills(keyspace))
}

fn l0_fills(store: &Store) -> bool {
    store.keyspaces.load().by_name.values().any(|keyspace| L0Debt::of(store, keyspace).fills())
}

/// After a step: on to the next, or how long to wait for a change. A change told since the step began is not waited for: it may
/// have come too late for the step, and would come too early for the sleep.
fn rest(store: &Store, stepped: Stepped, own: &ThreadPriority) -> Option<Duration> {
    let longest = match stepped {
        Stepped::Worked => {
            // Beside many busy threads each yield costs a round of all of them: where a deadline is near, the share is used up.
            if !own.is_raised() {
                yield_now();
            }
            return None;
        }
        Stepped::Wait(until) => until.saturating_sub(store.clock.now()),
        Stepped::Idle => IDLE,
    };
    Some(longest).filter(|longest| !longest.is_zero())
}

fn lane_loop(store: &Store) {
    let own = store.background.priorities.join(Duty::Flushes, Priority::Nice19, Priority::Batch);
    let sync_is_due = || store.lane.sync_wanted_by().is_some_and(|by| by <= store.clock.now());
    let begin = || _ = set(&own, || flush_is_urgent(store) || sync_is_due());
    let upkeep = || {
        let memory = store.wal_files.memory_of_full();
        if !memory.is_empty() {
            // With the lock of the whole address space: see below.
            own.raise();
            drop(memory);
            begin();
        }
        Some(maintain(store)?.saturating_sub(store.clock.now()))
    };
    store.lane.run(&*store.clock, begin, || store.background.sync_done(), upkeep);
}

fn ahead_loop(store: &Store) {
    // While it makes pages of logs present it has the lock of the whole address space: with a low thread's share of a core whoever maps
    // memory would wait until clients rest.
    let own = store.background.priorities.join(Duty::Flushes, Priority::Batch, Priority::Batch);
    let begin = || _ = set(&own, || flush_is_urgent(store));
    let upkeep = || {
        make_ready(store);
        None
    };
    store.ahead.run(&*store.clock, begin, || (), upkeep);
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
