//! Commits, in groups: writers queue, the first becomes the leader and writes for all that wait.
//!
//! ```text
//! queue ─► leader: room? ─► sequence numbers ─► log ─► (sync) ─► memtables ─► publish ─► next leader
//! ```
//! One leader at a time, so groups are published in commit order, and a memtable has one writer. A write becomes visible only
//! after its own durability step (`docs/durability.md`, C4). A write alone takes no system call: the log is a mapping.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::commit_queue::Turn;
use super::commit_state::{CommitState, OpenMemtable};
use super::control::{is_throttled, wait_for_room};
use super::state::Store;
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, MIB, SeqNo};
use crate::options::Durability;
use crate::write::batch::{WriteBatch, decode_batch};

/// A thread keeps the memory of a batch up to this size for its next single write.
const SCRATCH_KEPT: usize = MIB as usize;

thread_local! {
    static SCRATCH: RefCell<WriteBatch> = RefCell::default();
}

/// Fills a batch that the thread keeps for single writes, and commits it.
#[inline]
pub fn commit_one(store: &Store, fill: impl FnOnce(&mut WriteBatch), durability: Durability) -> Result<()> {
    SCRATCH.with_borrow_mut(|batch| {
        batch.clear();
        fill(batch);
        let result = commit(store, batch, durability);
        if batch.size_bytes() > SCRATCH_KEPT {
            *batch = WriteBatch::new();
        }
        result
    })
}

/// Commits a batch. Its content is unspecified afterwards.
///
/// # Errors
/// `Limit` and `InvalidArgument` before anything is written; `NoSpace`, `Io`, `Poisoned`: the write is not visible.
pub fn commit(store: &Store, batch: &mut WriteBatch, durability: Durability) -> Result<()> {
    batch.check_limits()?;
    if batch.is_empty() {
        return Ok(());
    }
    let sync = durability == Durability::Sync;
    let queue = &store.commit_queue;
    if queue.try_lead() {
        let (_, result) = write_group(store, &mut [batch], sync);
        queue.hand_over();
        return result;
    }
    match queue.wait_turn(batch, sync) {
        Turn::Done(result) => result,
        Turn::Lead => {
            let mut group = queue.group();
            let results = write_all(store, &mut group.batches, group.sync);
            queue.finish(group, results)
        }
    }
}

/// Writes batches as one group; a batch that fails fails alone, and those behind it get their own try.
fn write_all(store: &Store, batches: &mut [WriteBatch], sync: bool) -> Vec<Result<()>> {
    let mut results: Vec<Result<()>> = Vec::with_capacity(batches.len());
    while results.len() < batches.len() {
        let mut rest: Vec<&mut WriteBatch> = batches.iter_mut().skip(results.len()).collect();
        let (written, outcome) = write_group(store, &mut rest, sync);
        results.extend((0..written).map(|_| Ok(())));
        results.extend(outcome.err().map(Err));
    }
    results
}

/// Writes batches as one group. Answers how many of the first were written, and the error of the one after them.
fn write_group(store: &Store, group: &mut [&mut WriteBatch], sync: bool) -> (usize, Result<()>) {
    let mut state = store.commit_state();
    // Under the lock: the store may have been closed while we waited for it.
    if let Err(error) = store.check_writable() {
        return (0, Err(error));
    }
    let mut outcome = Ok(());
    let mut ready = 0;
    while ready < group.len() && outcome.is_ok() {
        outcome = make_room(store, &mut state, group[ready]);
        ready += usize::from(outcome.is_ok());
    }
    let mut logged = 0;
    let mut log_outcome = Ok(());
    while logged < ready && log_outcome.is_ok() {
        log_outcome = append(store, &mut state, group[logged]);
        logged += usize::from(log_outcome.is_ok());
    }
    if log_outcome.is_err() {
        outcome = log_outcome;
    }
    if logged == 0 {
        return (0, outcome);
    }
    match publish(store, &mut state, &group[..logged], sync) {
        Ok(()) => (logged, outcome),
        Err(error) => (0, Err(error)),
    }
}

#[inline]
fn append(store: &Store, state: &mut CommitState, batch: &mut WriteBatch) -> Result<()> {
    let last = SeqNo(state.last_seq.0 + batch.len() as u64);
    batch.set_sequence(state.last_seq.next());
    let rotated = state.wal.append(batch.encoded(), last).map_err(|e| store.log_failed(e))?;
    state.last_seq = last;
    if rotated {
        log_rotated(store, state);
    }
    Ok(())
}

/// Syncs if asked to, then makes logged batches visible.
#[inline]
fn publish(store: &Store, state: &mut CommitState, group: &[&mut WriteBatch], sync: bool) -> Result<()> {
    if sync {
        state.wal.sync().map_err(|e| store.log_failed(e))?;
        store.counters.wal_syncs.add(1);
    }
    let (mut writes, mut user_bytes) = (0, 0);
    for batch in group {
        insert(store, state, batch)?;
        writes += batch.len() as u64;
        user_bytes += batch.user_bytes();
    }
    store.visible.store(state.last_seq.0, Ordering::Release);
    store.counters.groups.add(1);
    store.counters.writes.add(writes);
    store.counters.user_bytes.add(user_bytes);
    Ok(())
}

#[inline]
fn insert(store: &Store, state: &mut CommitState, batch: &WriteBatch) -> Result<()> {
    let (mut seq, entries) = decode_batch(batch.encoded()).ok_or_else(malformed)?;
    for entry in entries {
        let entry = entry.ok_or_else(malformed)?;
        let table = state.memtable(entry.keyspace).ok_or_else(|| unknown(entry.keyspace))?;
        table.writer.insert(entry.key, seq, entry.kind, entry.value, || store.clock.wall_ms());
        seq = seq.next();
    }
    Ok(())
}

/// Checks that the batch's keyspaces exist and have memtables with room, switching full ones and waiting where all are full.
#[inline]
fn make_room(store: &Store, state: &mut CommitState, batch: &WriteBatch) -> Result<()> {
    let mut seen = None;
    for entry in batch.entries() {
        let entry = entry.ok_or_else(malformed)?;
        if seen == Some(entry.keyspace) {
            continue;
        }
        seen = Some(entry.keyspace);
        let table = state.memtable(entry.keyspace).ok_or_else(|| unknown(entry.keyspace))?;
        let full = table.writer.table().bytes() >= table.keyspace.memtable_bytes;
        if full || is_throttled(store, &table.keyspace) {
            wait_and_switch(store, table, full)?;
        }
    }
    Ok(())
}

#[cold]
fn wait_and_switch(store: &Store, table: &mut OpenMemtable, full: bool) -> Result<()> {
    wait_for_room(store, &table.keyspace, full)?;
    if full {
        table.switch();
        store.background.wake();
    }
    Ok(())
}

/// A new log file was begun: the lane prepares the next one, and if the log has grown too long, the keyspace that pins its oldest
/// file is flushed.
#[cold]
fn log_rotated(store: &Store, state: &mut CommitState) {
    store.counters.wal_rotations.add(1);
    store.lane.poke();
    if store.wal_files.live_bytes() <= store.options.wal_bytes_max {
        return;
    }
    let pins = state.memtables.iter_mut().filter(|m| m.keyspace.view.load().immutable.is_empty());
    let oldest = pins.filter(|m| !m.writer.table().is_empty()).min_by_key(|m| m.writer.table().first_seq());
    if let Some(table) = oldest {
        table.switch();
        store.background.wake();
    }
}

fn unknown(id: KeyspaceId) -> Error {
    Error::invalid(format!("keyspace {id} does not exist (any more)"))
}

fn malformed() -> Error {
    Error::invalid("the batch is malformed")
}
