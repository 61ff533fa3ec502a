//! Commits, in groups: writers queue, the first becomes the leader and writes for all that wait.
//!
//! ```text
//! queue ─► leader: room? ─► sequence numbers ─► log ─► (sync) ─► memtables ─► publish ─► next leader
//! ```
//! One leader at a time, so groups are published in commit order, and a memtable has one writer. A write becomes visible only
//! after its own durability step (`docs/durability.md`, C4). A write alone takes no system call: the log is a mapping.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::keyspace_state::KeyspaceState;
use super::state::Store;
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, MIB, SeqNo};
use crate::options::Durability;
use crate::write::batch::{WriteBatch, decode_batch};
use crate::write::memtable::{Memtable, MemtableWriter};
use crate::write::wal::Wal;

/// A leader takes followers up to about this many bytes.
const GROUP_BYTES_MAX: usize = MIB as usize;

/// Who writes next.
#[derive(Debug, Default)]
pub struct CommitQueue {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    led: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// One writer's place in the queue; each thread reuses its own.
#[derive(Debug, Default)]
struct Waiter {
    slot: Mutex<Slot>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Slot {
    batch: WriteBatch,
    sync: bool,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Waiting,
    Lead,
    Done(Result<()>),
}

thread_local! {
    static WAITER: Arc<Waiter> = Arc::default();
    static SCRATCH: RefCell<WriteBatch> = RefCell::default();
}

/// What only the leader touches.
#[derive(Debug)]
pub struct CommitState {
    /// The log.
    pub wal: Wal,
    /// The last sequence given out.
    pub last_seq: SeqNo,
    /// The open memtables, ascending by keyspace.
    pub memtables: Vec<OpenMemtable>,
}

/// A keyspace and the writer of its active memtable.
#[derive(Debug)]
pub struct OpenMemtable {
    /// The keyspace.
    pub keyspace: Arc<KeyspaceState>,
    /// Its writer.
    pub writer: MemtableWriter,
}

impl CommitState {
    /// The open memtable of a keyspace.
    #[inline]
    pub fn memtable(&mut self, id: KeyspaceId) -> Option<&mut OpenMemtable> {
        if let Some(first) = self.memtables.first()
            && first.keyspace.id == id
        {
            return self.memtables.first_mut();
        }
        let i = self.memtables.binary_search_by_key(&id, |m| m.keyspace.id).ok()?;
        self.memtables.get_mut(i)
    }
}

/// Fills a batch that the thread keeps for single writes, and commits it.
#[inline]
pub fn commit_one(store: &Store, fill: impl FnOnce(&mut WriteBatch), durability: Durability) -> Result<()> {
    SCRATCH.with_borrow_mut(|batch| {
        batch.clear();
        fill(batch);
        let result = commit(store, batch, durability);
        if batch.size_bytes() > MIB as usize {
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
    let waiter = {
        let mut q = queue.lock();
        if q.led {
            let waiter = WAITER.with(Arc::clone);
            let mut slot = lock(&waiter.slot);
            *slot = Slot { batch: std::mem::take(batch), sync, phase: Phase::Waiting };
            drop(slot);
            q.waiting.push_back(Arc::clone(&waiter));
            Some(waiter)
        } else {
            q.led = true;
            None
        }
    };
    let Some(waiter) = waiter else {
        let (_, result) = write_group(store, &mut [batch], sync);
        queue.hand_over(0);
        return result;
    };
    let mut slot = lock(&waiter.slot);
    loop {
        match std::mem::take(&mut slot.phase) {
            Phase::Waiting => slot = waiter.changed.wait(slot).unwrap_or_else(PoisonError::into_inner),
            Phase::Done(result) => {
                *batch = std::mem::take(&mut slot.batch);
                return result;
            }
            Phase::Lead => {
                drop(slot);
                return lead(store, queue);
            }
        }
    }
}

/// Commits the group at the head of the queue; this thread's waiter is the first of it.
fn lead(store: &Store, queue: &CommitQueue) -> Result<()> {
    let group: Vec<Arc<Waiter>> = {
        let q = queue.lock();
        let mut bytes = 0;
        let fits = |w: &&Arc<Waiter>| {
            let first = bytes == 0;
            bytes += lock(&w.slot).batch.size_bytes().max(1);
            first || bytes <= GROUP_BYTES_MAX
        };
        q.waiting.iter().take_while(fits).cloned().collect()
    };
    let mut sync = false;
    let mut batches: Vec<WriteBatch> = Vec::with_capacity(group.len());
    for waiter in &group {
        let mut slot = lock(&waiter.slot);
        sync |= slot.sync;
        batches.push(std::mem::take(&mut slot.batch));
    }
    let mut results: Vec<Result<()>> = Vec::with_capacity(group.len());
    while results.len() < batches.len() {
        let mut rest: Vec<&mut WriteBatch> = batches.iter_mut().skip(results.len()).collect();
        let (written, outcome) = write_group(store, &mut rest, sync);
        results.extend((0..written).map(|_| Ok(())));
        // The batch that failed fails alone; those behind it get their own try.
        results.extend(outcome.err().map(Err));
    }
    queue.hand_over(group.len());
    let mut outcomes = group.iter().zip(batches).zip(results);
    let own = outcomes.next().map_or(Ok(()), |(_, result)| result);
    for ((waiter, batch), result) in outcomes {
        let mut slot = lock(&waiter.slot);
        slot.batch = batch;
        slot.phase = Phase::Done(result);
        waiter.changed.notify_one();
    }
    own
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// The leader has written the first `written` of the queue: the next one leads, or nobody.
    fn hand_over(&self, written: usize) {
        let mut q = self.lock();
        q.waiting.drain(..written);
        match q.waiting.front() {
            Some(next) => {
                lock(&next.slot).phase = Phase::Lead;
                next.changed.notify_one();
            }
            None => q.led = false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes batches as one group. Answers how many of the first were written, and the error of the one after them.
fn write_group(store: &Store, group: &mut [&mut WriteBatch], sync: bool) -> (usize, Result<()>) {
    if let Err(error) = store.check_writable() {
        return (0, Err(error));
    }
    let mut state = lock(&store.commit);
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
    if state.wal.append(batch.encoded(), last).map_err(|e| store.log_failed(e))? {
        store.log_rotated();
    }
    state.last_seq = last;
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
        if full || store.throttled(&table.keyspace) {
            wait_and_switch(store, table, full)?;
        }
    }
    Ok(())
}

#[cold]
fn wait_and_switch(store: &Store, table: &mut OpenMemtable, full: bool) -> Result<()> {
    store.wait_for_room(&table.keyspace, full)?;
    if full {
        switch(store, table);
    }
    Ok(())
}

/// Makes the active memtable immutable and opens a new one. Everything in the old one is published: the leader does this
/// between groups.
pub fn switch(store: &Store, table: &mut OpenMemtable) {
    let head = table.writer.table().common_head();
    let (writer, fresh) = Memtable::new(&head, table.keyspace.memtable_bytes);
    table.keyspace.update_view(|view| {
        let full = std::mem::replace(&mut view.active, fresh);
        view.immutable.insert(0, full);
    });
    table.writer = writer;
    store.background.wake();
}

fn unknown(id: KeyspaceId) -> Error {
    Error::invalid(format!("keyspace {id} does not exist (any more)"))
}

fn malformed() -> Error {
    Error::invalid("the batch is malformed")
}
