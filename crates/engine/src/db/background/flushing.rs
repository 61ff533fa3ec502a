//! The flush lane: immutable memtables become tables, one at a time, the one with the oldest write first, in whichever keyspace:
//! nobody is passed over, and the log is let go. It never waits for a compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::locks::MutexGuard;
use crate::base::units::MIB;
use crate::db::jobs::deletes::leave_memory_in_time;
use crate::db::jobs::install::install_flush;
use crate::db::jobs::memory::flush_early;
use crate::db::jobs::planning::flushes_are_behind;
use crate::db::jobs::pressure::{drained, flush_went_on, flushes_wait};
use crate::db::jobs::stepping::{Stepped, count_cpu};
use crate::db::recovery::settling::settle;
use crate::db::store::background::{BackgroundState, STEP_BYTES};
use crate::db::store::flush_slot::{FlushSlot, OpenFlush};
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::priority::Duty;
use crate::db::store::state::Store;
use crate::execution::flush_job::FlushJob;
use crate::execution::merge_loop::Progress;
use crate::execution::output::OutputShape;
use crate::observe::event::Event;
use crate::observe::words;
use crate::table::block_cache::BlockCache;
use crate::table::meta::Born;
use crate::write::memtable::Memtable;

/// A flush that found no space looks for no less than this: so little is soon gone again.
const ROOM_LEAST: u64 = MIB;

/// A flush that is ahead of writers, and has used up its share, looks this often whether it still is.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// One step of the flush under way, or the beginning of the next.
pub fn step(store: &Store) -> Stepped {
    if store.check_writable().is_err() {
        return Stepped::Idle;
    }
    let Some(_step) = store.background.begin_step() else { return Stepped::Idle };
    let resting = rests(store);
    if store.check_settled().is_err() {
        return resting.map_or_else(|| settle_again(store), Stepped::Wait);
    }
    flush_early(store);
    leave_memory_in_time(store);
    let open = {
        let mut state = store.background.lock_soon();
        match state.flush.take() {
            Some(open) if !store.keyspaces.load().has(&open.keyspace) => {
                drop(state);
                // Others' memtables wait behind it, and nobody will read what it writes.
                flush_went_on(store, 0, 0.0);
                // What cannot be removed is an orphan, and no failure of anybody's flush.
                let _ = abandon(open);
                return end(store, Ok(()));
            }
            Some(open) => {
                let granted = state.flush_limiter.grant(store.clock.now(), STEP_BYTES);
                // Who waits for it does not wait for the next plan, nor for a clock that may stand still.
                let hurries = || {
                    store.background.is_waited_for()
                        || state.directive.covers_flushes && flushes_are_behind(store)
                };
                let held_up = granted.err().filter(|_| !hurries());
                // What writers are let in by is how fast it goes while it does: it could go faster, and would if they needed it.
                flushes_wait(store, held_up.is_none());
                if let Some(when) = held_up {
                    let looks = state.directive.covers_flushes.then(|| store.clock.now() + LOOK_AGAIN);
                    state.flush = FlushSlot::Waits(open);
                    return Stepped::Wait(looks.map_or(when, |at| at.min(when)));
                }
                open
            }
            None if !state.flush.is_free() => return Stepped::Idle,
            None => match (oldest(store), resting) {
                (None, _) => {
                    state.flush_after_flush = false;
                    // What could not be flushed is gone with its keyspace.
                    state.failed_flush.clear();
                    store.background.flushes_fail.store(false, Ordering::Relaxed);
                    flushes_wait(store, false);
                    return Stepped::Idle;
                }
                (Some(_), Some(until)) => return Stepped::Wait(until),
                (Some((keyspace, memtable)), None) => {
                    state.flush = FlushSlot::InHands;
                    // It has waited for the one before.
                    store.counters.flushes_delayed.add(u64::from(state.flush_after_flush));
                    state.flush_after_flush = true;
                    flushes_wait(store, true);
                    store.background.wake_monitor();
                    state.flushes_hurry = !has_rested(store, state.flush_ended_at, memtable.bytes());
                    begin(store, &keyspace, memtable, state.flushes_hurry)
                }
            },
        }
    };
    advance(store, open)
}

/// The store was opened on a full disk: perhaps there is space now.
fn settle_again(store: &Store) -> Stepped {
    let outcome = settle(store, &store.inline_context);
    if outcome.is_ok() {
        store.lane.poke();
    }
    let room_from = room_from(store, &outcome);
    finished(store, store.background.lock_soon(), outcome, room_from)
}

fn advance(store: &Store, mut open: Box<OpenFlush>) -> Stepped {
    let (now, cpu) = (store.clock.now(), evenkeel_sys::thread_cpu_time());
    let syncs = store.background.lock_soon().syncs_done;
    let left = open.job.bytes_left();
    let outcome = open.job.step(STEP_BYTES);
    let still_left = open.job.bytes_left();
    if let Ok((_, written)) = outcome {
        charge(store, written, left.saturating_sub(still_left));
    }
    flush_went_on(store, still_left, left.saturating_sub(still_left) as f64);
    let outcome = match outcome {
        Ok((Progress::Finished, _)) => {
            let memtable = Arc::clone(open.job.memtable());
            let tables = open.job.take_tables();
            let ids: Vec<_> = tables.iter().map(|t| t.id).collect();
            match install_flush(store, &open.keyspace, &memtable, tables, open.begun_at) {
                Ok(()) => {
                    flush_went_on(store, 0, still_left as f64);
                    Ok(())
                }
                Err(error) => {
                    memtable.set_being_flushed(false);
                    // Not in the tree, or nobody knows: then the store is read-only and the next open tells.
                    if store.check_writable().is_ok() {
                        for id in ids {
                            let _ = store.fs.remove(&store.tables.path(id));
                        }
                    }
                    Err(error)
                }
            }
        }
        Ok((progress, _)) => {
            let mut state = store.background.lock_soon();
            state.flush = FlushSlot::Waits(open);
            let waiting = progress == Progress::Waiting && state.syncs_done == syncs;
            count_cpu(store, Class::Flush, cpu);
            return if waiting { Stepped::Wait(now + Duration::from_millis(100)) } else { Stepped::Worked };
        }
        Err(error) => {
            // What cannot be removed is an orphan, which the next open removes.
            let _ = abandon(open);
            Err(error)
        }
    };
    count_cpu(store, Class::Flush, cpu);
    end(store, outcome)
}

/// What it has written goes, and its memtable waits for a flush again.
fn abandon(mut open: Box<OpenFlush>) -> Result<(), Error> {
    let removed = open.job.abandon();
    open.job.memtable().set_being_flushed(false);
    removed
}

/// A flush is over; the lane is free for the next.
fn end(store: &Store, outcome: Result<(), Error>) -> Stepped {
    let room_from = room_from(store, &outcome);
    let mut state = store.background.lock_soon();
    state.flush = FlushSlot::Free;
    let stepped = finished(store, state, outcome, room_from);
    drained(store);
    stepped
}

/// A plan's rate for flushes is in bytes of memtables. Where flushes and compactions have one budget, theirs is a share of it, in bytes
/// of files, and what they write is taken from the others' too.
fn charge(store: &Store, written: u64, of_memtable: u64) {
    let mut state = store.background.lock_soon();
    if state.directive.covers_flushes {
        state.flush_limiter.charge_unasked(written);
        state.limiter.charge_flush(written);
    } else {
        state.flush_limiter.charge_unasked(of_memtable);
    }
}

/// An attempt is over. Where it found no space, it is tried again at once when there is `room_from`.
fn finished(
    store: &Store,
    mut state: MutexGuard<'_, BackgroundState>,
    outcome: Result<(), Error>,
    room_from: Option<u64>,
) -> Stepped {
    store.background.flushes_fail.store(outcome.is_err(), Ordering::Relaxed);
    let stepped = match outcome {
        Ok(()) => {
            state.failed_flush.clear();
            state.flush_ended_at = Some(store.clock.now());
            store.background.tell_none_due();
            Stepped::Worked
        }
        Err(error) => {
            // What compactions free may be what it lacks.
            store.background.priorities.raise_for(Duty::Compactions);
            flush_went_on(store, 0, 0.0);
            // While it rests nothing is flushed, which is no measure of how fast flushes go.
            flushes_wait(store, false);
            store.event(&Event::BackgroundError { error: error.to_string() });
            // It is tried again, and has not waited for another one.
            state.flush_after_flush = false;
            Stepped::Wait(state.failed_flush.note(error, store.clock.now(), room_from))
        }
    };
    drop(state);
    if stepped == Stepped::Worked {
        store.background.wake();
    } else {
        store.background.tell_waiting();
    }
    stepped
}

/// The free space from which on a flush is worth trying again that has just found none: all of the memtable fits, and did not before.
fn room_from(store: &Store, outcome: &Result<(), Error>) -> Option<u64> {
    if !matches!(outcome, Err(Error::NoSpace { .. })) {
        return None;
    }
    let needs = oldest(store).map_or(0, |(_, memtable)| memtable.bytes()).max(ROOM_LEAST);
    let free = free_space(store);
    Some(if free < needs { needs } else { free.saturating_add(needs) })
}

fn free_space(store: &Store) -> u64 {
    // Where nobody tells, only time does.
    store.fs.free_space(&store.dir).unwrap_or(0)
}

/// When to look again at flushes that have failed, if they rest.
fn rests(store: &Store) -> Option<Duration> {
    // Without threads who waits for one is who steps it, and the clock may stand still.
    let is_stepped = !store.background.threaded && store.background.is_waited_for();
    if is_stepped || !store.background.flushes_fail.load(Ordering::Relaxed) {
        return None;
    }
    let failed = {
        let state = store.background.lock_soon();
        if !state.flush.is_free() {
            return None;
        }
        state.failed_flush.clone()
    };
    failed.rests(store.clock.now(), || free_space(store))
}

/// The memtable to flush next, and whose it is.
fn oldest(store: &Store) -> Option<(Arc<KeyspaceState>, Arc<Memtable>)> {
    let keyspaces = store.keyspaces.load();
    let waiting =
        keyspaces.by_name.values().filter_map(|k| Some((k, k.view.load().immutable.last().cloned()?)));
    let (keyspace, memtable) = waiting.min_by_key(|(_, memtable)| memtable.first_seq())?;
    Some((Arc::clone(keyspace), memtable))
}

/// True if the lane has rested for at least as long as `bytes` will take it: as long as writers go on as they do, a flush then has
/// twice the time that it needs.
fn has_rested(store: &Store, since: Option<Duration>, bytes: u64) -> bool {
    let now = store.clock.now();
    let (Some(since), Some(rate)) = (since, store.admission.flushes.rate(now)) else { return false };
    bytes as f64 <= rate * now.saturating_sub(since).as_secs_f64()
}

fn begin(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    memtable: Arc<Memtable>,
    in_a_hurry: bool,
) -> Box<OpenFlush> {
    let shape = OutputShape {
        cache: cache_for(store, &memtable),
        ..shape_of(store, keyspace, &memtable, in_a_hurry)
    };
    // Listed now: the memtable takes no more writes, and all of them are published.
    let snapshots = store.snapshots.list();
    let (reason, bytes) = (reason(store, keyspace, &memtable), memtable.bytes());
    store.event(&Event::FlushBegun { keyspace: keyspace.id, reason, bytes });
    memtable.set_being_flushed(true);
    let begun_at = store.clock.now();
    store.counters.flush_wait_us.add(begun_at.saturating_sub(memtable.full_at()).as_micros() as u64);
    let job = FlushJob::new(Arc::clone(&store.job_context), memtable, snapshots, shape);
    Box::new(OpenFlush { keyspace: Arc::clone(keyspace), job, begun_at })
}

/// The block cache, if it should keep what a flush of `memtable` writes: clients have read from it, once for so many blocks, and will
/// go on; and it takes little of the cache.
fn cache_for(store: &Store, memtable: &Memtable) -> Option<Arc<BlockCache>> {
    const BLOCKS_PER_GET: u64 = 4;
    // Of the default sizes it is a quarter, and the last entry's bytes.
    const PART_OF_CACHE: u64 = 3;
    let (cache, bytes) = (store.tables.block_cache(), memtable.bytes());
    let blocks = bytes / store.job_context.block_bytes.load(Ordering::Relaxed).max(1);
    let is_read = memtable.answers().saturating_mul(BLOCKS_PER_GET) > blocks;
    (is_read && bytes.saturating_mul(PART_OF_CACHE) <= cache.capacity()).then(|| Arc::clone(cache))
}

/// How the tables of a flushed memtable are to be, where the flush is in a hurry or not.
pub fn shape_of(
    store: &Store,
    keyspace: &KeyspaceState,
    memtable: &Memtable,
    in_a_hurry: bool,
) -> OutputShape {
    let strategy = keyspace.strategy.load();
    let view = keyspace.view.load();
    let options = store.options.load();
    let levels = view.version.levels.len();
    let filter_bits = strategy.strategy.filter_bits_at(0, levels, true).of(options.filter_bits);
    OutputShape {
        class: Class::Flush,
        born: Born::Flush,
        table_bytes: strategy.strategy.cut.table_bytes,
        filter_bits,
        filter_bits_above: filter_bits,
        reads: keyspace.heat.read_profile(),
        compression: keyspace.style.compression_at(0, in_a_hurry, &options),
        prefix_rule: keyspace.style.prefix_rule(&options),
        direct: options.direct_flush,
        oldest_tombstone_ms: memtable.oldest_tombstone_ms(),
        cache: None,
    }
}

/// Why a memtable became immutable, as far as it shows now.
fn reason(store: &Store, keyspace: &KeyspaceState, memtable: &Memtable) -> String {
    if keyspace.is_full(memtable.bytes()) {
        return "the memtable is full".to_owned();
    }
    let (log, max) = (store.wal_files.live_bytes(), store.options.load().wal_bytes_max);
    if log > max {
        return format!("it holds on to the oldest part of the log, which has {}", words::bytes(log));
    }
    "it was asked for".to_owned()
}

#[cfg(test)]
#[path = "flushing_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "flushing_failures_tests.rs"]
mod failures_tests;
