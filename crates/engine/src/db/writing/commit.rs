//! Commits, in groups: writers queue, the first becomes the leader and writes for all that wait.
//!
//! ```text
//! room? ─► queue ─► leader: sequence numbers ─► log ─► (sync) ─► memtables ─► publish ─► next leader
//! ```
//! One leader at a time, so groups are published in commit order, and a memtable has one writer. A write becomes visible only
//! after its own durability step (`docs/durability.md`, C4), so writes behind a sync wait until it has ended. A write alone takes
//! no system call: the log is a mapping. A panic of the leader is caught, and nobody is left waiting.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::admission::{admit, look_after};
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::locks::others_may_go_on;
use crate::base::units::{KeyspaceId, MIB, SeqNo};
use crate::db::jobs::memory::flush_early_as_leader;
use crate::db::store::commit_queue::{Asked, Turn};
use crate::db::store::commit_state::CommitState;
use crate::db::store::state::Store;
use crate::observe::slow::Op;
use crate::write::batch::{NO_KEYSPACE, WriteBatch, decode_batch};
use crate::write::wal::{Appended, LogError};

/// A thread keeps the memory of a batch up to this size for its next single write.
const SCRATCH_KEPT: usize = MIB as usize;

/// A write that asks for a sync has this much of what others wrote synced before it takes its place in the log.
const BACKLOG_BYTES: u64 = 128 << 10;

/// A batch, and what its writer asks for.
type Write<'a> = (&'a mut WriteBatch, Asked);

thread_local! {
    static SCRATCH: RefCell<WriteBatch> = RefCell::default();
}

/// Fills a batch that the thread keeps for single writes, and commits it with the store's durability.
#[inline]
pub fn commit_one(store: &Store, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
    SCRATCH.with(|scratch| {
        // Without threads a listener may be called in the middle of a write, and write to another store.
        let Ok(mut batch) = scratch.try_borrow_mut() else {
            let mut batch = WriteBatch::new();
            fill(&mut batch);
            return commit(store, &mut batch, None);
        };
        batch.clear();
        fill(&mut batch);
        let result = commit(store, &mut batch, None);
        if batch.size_bytes() > SCRATCH_KEPT {
            *batch = WriteBatch::new();
        }
        result
    })
}

/// Commits a batch, with the store's durability unless another is given. Its content is unspecified afterwards.
///
/// # Errors
/// `Limit` and `InvalidArgument` before anything is written; `NoSpace`, `Io`, `Poisoned`: the write is not visible.
pub fn commit(store: &Store, batch: &mut WriteBatch, durability: Option<Durability>) -> Result<()> {
    batch.check_limits()?;
    store.listener.check_outside()?;
    let asked = Asked {
        durability: durability.unwrap_or_else(|| store.options.load().durability),
        explicit: durability.is_some(),
    };
    asked.durability.check()?;
    if batch.is_empty() {
        return Ok(());
    }
    let write = |batch| store.slow.watch(Op::Write, None, || commit_in_turn(store, batch, asked));
    store.trace.watch(batch, |batch, describe| describe.write(batch), write)
}

#[inline]
fn commit_in_turn(store: &Store, batch: &mut WriteBatch, asked: Asked) -> Result<()> {
    let _admitted = admit(store, batch)?;
    if asked.durability == Durability::Sync {
        sync_backlog(store)?;
    }
    let queue = &store.commit_queue;
    if queue.try_lead() {
        let result = caught(store, || write_group(store, &mut [(batch, asked)]).1);
        queue.hand_over();
        return result;
    }
    match store.slow.queue(|| queue.wait_turn(batch, asked)) {
        Turn::Done(result) => result,
        Turn::Lead => {
            let mut group = queue.group();
            let mut results: Vec<Result<()>> = Vec::with_capacity(group.batches.len());
            let outcome = caught(store, || {
                write_all(store, &mut group.batches, &mut results);
                Ok(())
            });
            // What a panic has cut short was not written.
            let missing = outcome.err().unwrap_or_else(malformed);
            results.resize(group.batches.len(), Err(missing));
            queue.finish(group, results)
        }
    }
}

/// Runs what the leader does. A panic there makes the store read-only; nobody waits for a leader that is gone.
#[inline]
fn caught(store: &Store, lead: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(lead)).unwrap_or_else(|_| {
        store.poison(&Error::invalid("a writer panicked; please report it"));
        Err(store.check_writable().err().unwrap_or_else(malformed))
    })
}

/// A sync with much to write would hold up everyone for long: most of it is written before the write takes its place.
fn sync_backlog(store: &Store) -> Result<()> {
    if store.wal_files.unsynced_bytes() > BACKLOG_BYTES && store.check_writable().is_ok() {
        let _wait = store.slow.wait_for_sync();
        store.wal_files.sync().map_err(|error| store.log_failed(error))?;
    }
    Ok(())
}

/// Writes batches as one group; a batch that fails fails alone, and those behind it get their own try.
fn write_all(store: &Store, batches: &mut [(WriteBatch, Asked)], results: &mut Vec<Result<()>>) {
    while results.len() < batches.len() {
        let mut rest: Vec<Write<'_>> =
            batches.iter_mut().skip(results.len()).map(|(batch, asked)| (batch, *asked)).collect();
        let (written, outcome) = write_group(store, &mut rest);
        results.extend((0..written).map(|_| Ok(())));
        results.extend(outcome.err().map(Err));
    }
}

/// Writes batches as one group. Answers how many of the first were written, and the error of the one after them.
fn write_group(store: &Store, group: &mut [Write<'_>]) -> (usize, Result<()>) {
    let mut state = store.commit_state();
    // Under the lock: the store may have been closed while we waited for it.
    if let Err(error) = store.check_takes_writes() {
        return (0, Err(error));
    }
    let mut outcome = Ok(());
    let mut ready = 0;
    while ready < group.len() && outcome.is_ok() {
        outcome = check_mode(&mut state, &group[ready]);
        if outcome.is_ok() {
            outcome = make_room(store, &mut state, group[ready].0);
        }
        ready += usize::from(outcome.is_ok());
    }
    let mut logged = 0;
    let mut log_outcome = Ok(());
    while logged < ready && log_outcome.is_ok() {
        log_outcome = append(store, &mut state, &mut group[logged]);
        logged += usize::from(log_outcome.is_ok());
    }
    if log_outcome.is_err() {
        outcome = log_outcome;
    }
    if logged == 0 {
        return (0, outcome);
    }
    match publish(store, &mut state, &group[..logged]) {
        Ok(()) => (logged, outcome),
        Err(error) => (0, Err(error)),
    }
}

/// Gives a batch its sequence numbers, and the log the batch, if its keyspace has one.
#[inline]
fn append(store: &Store, state: &mut CommitState, (batch, asked): &mut Write<'_>) -> Result<()> {
    let last = SeqNo(state.last_seq.0 + batch.len() as u64);
    batch.set_sequence(state.last_seq.next());
    if state.some_unlogged && is_unlogged(state, batch) {
        asked.durability = Durability::NoWal;
        state.last_seq = last;
        return Ok(());
    }
    append_logged(store, state, batch, last)
}

#[inline]
fn append_logged(store: &Store, state: &mut CommitState, batch: &WriteBatch, last: SeqNo) -> Result<()> {
    match state.wal.append(batch.encoded(), last) {
        Ok(appended) => {
            state.last_seq = last;
            if appended != Appended::Here {
                log_rotated(store, state, appended);
            }
            Ok(())
        }
        Err(LogError::Refused(error)) => Err(error),
        Err(LogError::Failed(error)) => Err(store.log_failed(error)),
    }
}

/// Syncs if asked to, then makes logged batches visible.
#[inline]
fn publish(store: &Store, state: &mut CommitState, group: &[Write<'_>]) -> Result<()> {
    if group.iter().any(|(_, asked)| asked.durability == Durability::Sync) {
        let _wait = store.slow.wait_for_sync();
        state.wal.sync().map_err(|e| store.log_failed(e))?;
        store.counters.wal_syncs.add(1);
    }
    let (mut writes, mut user_bytes) = (0, 0);
    for (batch, asked) in group {
        insert(store, state, batch)?;
        writes += batch.len() as u64;
        user_bytes += batch.user_bytes();
        if let Durability::Interval(interval) = asked.durability {
            store.lane.sync_by(store.clock.now().saturating_add(interval));
        }
    }
    others_may_go_on();
    store.visible.store(state.last_seq.0, Ordering::Release);
    store.counters.groups.add(1);
    store.counters.writes.add(writes);
    store.counters.user_bytes.add(user_bytes);
    Ok(())
}

/// Refuses a batch whose keyspaces cannot be written together, or not with the durability that it asks for.
#[inline]
fn check_mode(state: &mut CommitState, (batch, asked): &Write<'_>) -> Result<()> {
    if !state.some_unlogged {
        let logged = asked.durability != Durability::NoWal;
        return if logged { Ok(()) } else { Err(has_a_log()) };
    }
    let (mut first, mut last, mut several, mut unlogged) = (None, None, false, None);
    for entry in batch.entries() {
        let id = entry.ok_or_else(malformed)?.keyspace;
        if last == Some(id) {
            continue;
        }
        last = Some(id);
        several |= *first.get_or_insert(id) != id;
        let no_wal = state.memtable(id).ok_or_else(|| unknown(id))?.keyspace.no_wal;
        if no_wal {
            unlogged = Some(id);
        } else if asked.durability == Durability::NoWal {
            return Err(has_a_log());
        }
    }
    let Some(open) = unlogged.and_then(|id| state.memtable(id)) else { return Ok(()) };
    let name = &open.keyspace.name;
    if several {
        return Err(Error::invalid(format!(
            "keyspace `{name}` has no log: a batch that writes to it can write to no other keyspace"
        )));
    }
    if asked.explicit && asked.durability != Durability::NoWal {
        return Err(Error::invalid(format!(
            "keyspace `{name}` has no log, so a write to it cannot be `{}`, only `no-wal`; flush it to make it durable",
            asked.durability
        )));
    }
    Ok(())
}

fn has_a_log() -> Error {
    Error::invalid("`no-wal` is for keyspaces made without a log (`keel keyspace create --no-wal`)")
}

/// True if the batch, whose keyspaces have been checked, goes past the log.
fn is_unlogged(state: &mut CommitState, batch: &WriteBatch) -> bool {
    let first = batch.entries().next().flatten();
    first.and_then(|entry| state.memtable(entry.keyspace)).is_some_and(|open| open.keyspace.no_wal)
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

/// Checks that the batch's keyspaces exist, and switches memtables that are full. Waits for nothing: who comes here was let in.
#[inline]
fn make_room(store: &Store, state: &mut CommitState, batch: &WriteBatch) -> Result<()> {
    let (mut seen, mut looked_after) = (None, Vec::new());
    for entry in batch.entries() {
        let id = entry.ok_or_else(malformed)?.keyspace;
        if seen == Some(id) {
            continue;
        }
        seen = Some(id);
        let table = state.memtable(id).ok_or_else(|| unknown(id))?;
        // Once a batch, however often it comes back to the keyspace: everybody waits meanwhile.
        if table.writer.table().bytes() + batch.size_bytes() as u64 >= table.look_at
            && let Err(at) = looked_after.binary_search(&id)
        {
            looked_after.insert(at, id);
            look_after(store, table, batch);
            flush_early_as_leader(store, state);
        }
    }
    Ok(())
}

/// A new log file was begun: another one is made ahead, the lane seals the full one, and if the log has grown too long, the
/// keyspace that pins its oldest file is flushed.
#[cold]
fn log_rotated(store: &Store, state: &mut CommitState, appended: Appended) {
    store.counters.wal_rotations.add(1);
    store.counters.wal_made_by_writer.add(u64::from(appended == Appended::RotatedLate));
    // Before those are awake that work on the logs.
    let live_bytes = store.wal_files.live_bytes();
    store.ahead.poke();
    store.lane.poke();
    if live_bytes <= store.options.load().wal_bytes_max {
        return;
    }
    let pins = state.memtables.iter_mut().filter(|m| !m.keyspace.no_wal);
    let pins = pins.filter(|m| m.keyspace.view.load().immutable.is_empty());
    let oldest = pins.filter(|m| !m.writer.table().is_empty()).min_by_key(|m| m.writer.table().first_seq());
    if let Some(table) = oldest {
        table.switch(store.clock.now());
        store.background.wake_flusher();
    }
}

/// Gives out a sequence to something that is not in the log, where a record takes its place. Everything in the log up to it is
/// durable when this returns. Whoever calls publishes the sequence, whatever becomes of it.
pub fn log_marker(store: &Store, state: &mut CommitState) -> Result<SeqNo> {
    let mut marker = WriteBatch::new();
    marker.delete_id(NO_KEYSPACE, b"");
    let seq = state.last_seq.next();
    marker.set_sequence(seq);
    append_logged(store, state, &marker, seq)?;
    if let Err(error) = state.wal.sync() {
        return Err(store.log_failed(error));
    }
    store.counters.wal_syncs.add(1);
    Ok(seq)
}

fn unknown(id: KeyspaceId) -> Error {
    Error::invalid(format!("keyspace {id} does not exist (any more)"))
}

fn malformed() -> Error {
    Error::invalid("the batch is malformed")
}
