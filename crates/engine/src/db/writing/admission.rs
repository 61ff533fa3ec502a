//! Letting writers in, on their own threads, before they queue for the commit: whoever leads never waits for room.
//!
//! ```text
//! commit ─► any gate pressed? ─no─► queue          debt of the keyspace's memtables ─┐
//!              └yes─► turn at the keyspace's gate     debt of its L0 ─────────────────┴─► its limit
//!                     turn at the store's gate        memory of all memtables ─────────► the store's limit
//! ```
//! Bytes let in count as debt until they are in a memtable. A keyspace that is slowed slows no other; memory slows all. Only
//! what cannot drain is an error at once: a full disk, a store that is read-only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::compaction_first::wait_for_compactions;
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, MIB};
use crate::db::background::control::{step_all, wait_for_room};
use crate::db::jobs::memory::fit_cache;
use crate::db::jobs::pressure::{resample, sample, sample_memory};
use crate::db::jobs::stepping;
use crate::db::store::commit_state::OpenMemtable;
use crate::db::store::gate::Gate;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::observe::counters::StallReason;
use crate::observe::event::Event;
use crate::observe::memory::{Charge, MemoryClass};
use crate::scheduler::admission::Place;
use crate::write::batch::WriteBatch;
use crate::write::memtable::full_from;

/// From this size on a batch is looked at even where nobody is slowed, and is counted while it is on its way.
const LARGE_BATCH: usize = MIB as usize;

/// The leader looks after a memtable at least each time it has grown by so much.
const LOOK_EVERY: u64 = 256 << 10;

/// Whoever waits looks for what may have gone wrong at least this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Bytes let in; dropped when the commit has returned.
#[derive(Debug, Default)]
pub struct Admitted {
    reserved: Vec<(Arc<KeyspaceState>, u64)>,
    _charge: Option<Charge>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.reserved.iter().for_each(|(keyspace, bytes)| keyspace.gate.release(*bytes));
    }
}

/// Lets a batch in, now or after a wait.
///
/// # Errors
/// What keeps debt from draining where no room is left: `NoSpace` and other failures of the background; `Poisoned`. Nothing
/// was written.
#[inline]
pub fn admit(store: &Store, batch: &WriteBatch) -> Result<Admitted> {
    let admission = &store.admission;
    let free = admission.pressed.load(Ordering::Relaxed) == 0 && batch.size_bytes() < LARGE_BATCH;
    let free = free && !admission.compaction_first.load(Ordering::Relaxed);
    if free && admission.timed.load(Ordering::Relaxed) {
        return Ok(Admitted::default());
    }
    admit_slowly(store, batch)
}

#[cold]
fn admit_slowly(store: &Store, batch: &WriteBatch) -> Result<Admitted> {
    let timed = store.admission.timed.load(Ordering::Relaxed);
    let large = batch.size_bytes() >= LARGE_BATCH;
    let mut admitted = Admitted::default();
    for (id, bytes) in parts(batch) {
        // One that was dropped is the leader's to tell.
        let Some(keyspace) = find(store, id) else { continue };
        if !timed {
            wait_for_room(store, &keyspace)?;
            continue;
        }
        if large {
            sample(store, &keyspace);
        }
        if keyspace.gate.is_pressed() {
            take_turn(store, &keyspace.gate, Some(&keyspace), bytes)?;
        }
        if large || keyspace.gate.is_pressed() {
            keyspace.gate.reserve(bytes);
            admitted.reserved.push((keyspace, bytes));
        }
    }
    if timed && store.admission.gate.is_pressed() {
        take_turn(store, &store.admission.gate, None, batch.size_bytes() as u64)?;
    }
    if store.admission.compaction_first.load(Ordering::Relaxed) {
        wait_for_compactions(store)?;
    }
    if large {
        let bytes = batch.size_bytes() as u64;
        admitted._charge = Some(Charge::new(&store.memory, MemoryClass::Batches, bytes));
        fit_cache(store);
    }
    Ok(admitted)
}

/// A batch's keyspaces, each once, with their bytes. What is malformed is the leader's to tell.
fn parts(batch: &WriteBatch) -> Vec<(KeyspaceId, u64)> {
    let mut parts: Vec<(KeyspaceId, u64)> = Vec::new();
    let mut last = 0;
    for entry in batch.entries().map_while(|entry| entry) {
        // Mostly the one before.
        if parts.get(last).is_none_or(|(id, _)| *id != entry.keyspace) {
            last = match parts.binary_search_by_key(&entry.keyspace, |(id, _)| *id) {
                Ok(at) => at,
                Err(at) => {
                    parts.insert(at, (entry.keyspace, 0));
                    at
                }
            };
        }
        if let Some((_, bytes)) = parts.get_mut(last) {
            *bytes += (entry.key.len() + entry.value.len()) as u64;
        }
    }
    parts
}

fn find(store: &Store, id: KeyspaceId) -> Option<Arc<KeyspaceState>> {
    store.keyspaces.load().by_id(id).cloned()
}

/// Waits for a turn at a gate: once, for a time that was computed, unless the limit changes meanwhile.
fn take_turn(store: &Store, gate: &Gate, keyspace: Option<&Arc<KeyspaceState>>, bytes: u64) -> Result<()> {
    if store.background.is_stopping() {
        return Err(Error::closed());
    }
    let now = store.clock.now();
    resample(store, gate, keyspace, now);
    let mut state = gate.lock();
    if let Some(error) = &state.failure {
        return Err(error.clone());
    }
    match state.turnstile.enter(now, bytes) {
        Ok(()) => Ok(()),
        Err((place, _)) => {
            drop(state);
            delay(store, gate, keyspace, place)
        }
    }
}

#[cold]
fn delay(store: &Store, gate: &Gate, keyspace: Option<&Arc<KeyspaceState>>, place: Place) -> Result<()> {
    announce(store, gate, keyspace);
    let _wait = store.slow.wait_for_room();
    let _waiting = Waiting::new(&store.admission.waiting);
    let reason = if keyspace.is_some() { StallReason::Backlog } else { StallReason::Memory };
    let stall = store.counters.stall(reason, store.clock.now());
    let outcome = loop {
        if let Err(error) = store.check_writable() {
            break Err(error);
        }
        if store.background.is_stopping() {
            break Err(Error::closed());
        }
        let now = store.clock.now();
        stall.lasts(now);
        resample(store, gate, keyspace, now);
        let mut state = gate.lock();
        if let Some(error) = &state.failure {
            break Err(error.clone());
        }
        let Err(when) = state.turnstile.ask(now, place) else { break Ok(()) };
        if store.background.threaded {
            store.background.priorities.raise_all();
            drop(gate.wait(state, when.saturating_sub(now).min(LOOK_AGAIN)));
            store.counters.delay_wakeups.add(1);
        } else {
            drop(state);
            // Where a test steps the background, waiting is stepping; what cannot get better is not waited for.
            if !step_all(store, &mut stepping::by_schedule()) {
                break Ok(());
            }
        }
    };
    stall.lasts(store.clock.now());
    outcome
}

/// A writer that waits for his turn.
struct Waiting<'a>(&'a AtomicI64);

impl Waiting<'_> {
    fn new(count: &AtomicI64) -> Waiting<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells of a limit once, when it first makes a writer wait.
fn announce(store: &Store, gate: &Gate, keyspace: Option<&Arc<KeyspaceState>>) {
    let event = {
        let mut state = gate.lock();
        if std::mem::replace(&mut state.announced, true) {
            return;
        }
        let strictest = state.strictest();
        Event::Stalling {
            keyspace: keyspace.map(|k| k.id),
            reason: strictest.map_or_else(|| "because of debt".to_owned(), |(_, why)| why.clone()),
            bytes_per_sec: state.limit_now().unwrap_or(0.0) as u64,
            ends_in: strictest.and_then(|(pressure, _)| pressure.forecast()),
        }
    };
    store.counters.stalls.add(1);
    store.event(&event);
}

/// A memtable has grown by a part, or is about to: the leader charges it, switches it if it is full, and has the debt measured.
#[cold]
pub fn look_after(store: &Store, open: &mut OpenMemtable, batch: &WriteBatch) {
    let full = full_from(open.keyspace.memtable_bytes());
    if open.writer.table().bytes() >= full {
        open.writer.table().charge(0);
        open.switch(store.clock.now());
        store.background.wake_flusher();
    }
    let table = open.writer.table();
    let comes = batch.size_bytes() as u64;
    table.charge(comes);
    if table.wants_touching() {
        store.ahead.poke();
    }
    fit_cache(store);
    open.look_at = (table.bytes() + comes + (full / 16).min(LOOK_EVERY)).min(full.max(table.bytes() + 1));
    sample(store, &open.keyspace);
    sample_memory(store);
}
