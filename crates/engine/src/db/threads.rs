//! The background threads' bodies: loops around one step each. All run at a priority below the clients'.
//!
//! A panic in one is caught, makes the store read-only, and is reported by the next write (`docs/durability.md`, C13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_sys::{Priority, set_background_priority, yield_now};

use super::background::Threads;
use super::control::maintain;
use super::flushing;
use super::jobs::{self, Stepped};
use super::state::Store;
use crate::base::clock::spawn;
use crate::base::error::Error;

/// A thread with nothing to do looks again after this long, should it have missed a wake-up.
const IDLE: Duration = Duration::from_millis(500);

/// Starts the flush lane, the workers and the lane.
pub fn start_threads(store: &Arc<Store>) -> Threads {
    let mut threads = Vec::new();
    // Writers wait for flushes: the lane runs below them only by its nice value.
    threads.push(start(store, "keel-flush", Priority::Nice19, flush_loop));
    for i in 0..store.options.workers {
        threads.push(start(store, &format!("keel-work-{i}"), Priority::Idle, work_loop));
    }
    threads.push(start(store, "keel-lane", Priority::Normal, lane_loop));
    Threads(threads)
}

fn start(
    store: &Arc<Store>,
    name: &str,
    priority: Priority,
    body: fn(&Store),
) -> std::thread::JoinHandle<()> {
    let (store, named) = (Arc::clone(store), name.to_owned());
    spawn(name, move || {
        // A priority that the system refuses costs calm, not answers.
        let _ = set_background_priority(priority);
        if catch_unwind(AssertUnwindSafe(|| body(&store))).is_err() {
            store
                .poison(&Error::invalid(format!("the background thread {named} panicked; please report it")));
        }
    })
}

fn flush_loop(store: &Store) {
    while !store.background.is_stopping() {
        let seen = store.background.lock().changes;
        let stepped = flushing::step(store);
        rest(store, stepped, seen);
    }
}

fn work_loop(store: &Store) {
    let mut choose = jobs::by_schedule(store);
    while !store.background.is_stopping() {
        let seen = store.background.lock().changes;
        let stepped = jobs::step(store, &mut choose);
        rest(store, stepped, seen);
    }
}

/// After a step: on to the next, or wait for a change. One told since `seen`, which was noted before the step, may have come
/// too late for it, so that it counts as well: a thread that slept over it would sleep until its time is up.
fn rest(store: &Store, stepped: Stepped, seen: u64) {
    let longest = match stepped {
        Stepped::Worked => {
            yield_now();
            return;
        }
        Stepped::Wait(until) => until.saturating_sub(store.clock.now()),
        Stepped::Idle => IDLE,
    };
    let state = store.background.lock();
    if !store.background.is_stopping() && state.changes == seen && !longest.is_zero() {
        drop(store.background.wait(state, longest));
    }
}

fn lane_loop(store: &Store) {
    store.lane.run(|| store.background.sync_done(), || maintain(store));
}
