//! Who writes next: a queue of writers, of which the first leads and writes for those behind it.
//!
//! Each thread reuses one waiter, so queueing allocates nothing. A waiter's phase tells its thread what to do next.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::base::error::Result;
use crate::write::batch::WriteBatch;

/// A leader takes followers up to about this many bytes.
const GROUP_BYTES_MAX: usize = 1 << 20;

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
pub struct Waiter {
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

/// What a writer does after it has queued.
#[derive(Debug)]
pub enum Turn {
    /// Write for the group at the head of the queue, of which this writer is the first.
    Lead,
    /// Another one has written for it.
    Done(Result<()>),
}

thread_local! {
    static WAITER: Arc<Waiter> = Arc::default();
}

/// Writers whose batches are written together.
#[derive(Debug)]
pub struct Group {
    waiters: Vec<Arc<Waiter>>,
    /// Their batches, in the order of the queue.
    pub batches: Vec<WriteBatch>,
    /// True if one of them wants to be durable.
    pub sync: bool,
}

impl CommitQueue {
    /// Becomes the leader if there is none: then nobody else writes before `hand_over`.
    #[inline]
    pub fn try_lead(&self) -> bool {
        let mut q = lock(&self.queue);
        !std::mem::replace(&mut q.led, true)
    }

    /// Queues behind the leader and waits for a turn; `batch` is given back with `Done`. If the leader has gone meanwhile, leads.
    pub fn wait_turn(&self, batch: &mut WriteBatch, sync: bool) -> Turn {
        let waiter = WAITER.with(Arc::clone);
        {
            let mut q = lock(&self.queue);
            *lock(&waiter.slot) = Slot { batch: std::mem::take(batch), sync, phase: Phase::Waiting };
            q.waiting.push_back(Arc::clone(&waiter));
            if !q.led {
                q.led = true;
                return Turn::Lead;
            }
        }
        let mut slot = lock(&waiter.slot);
        loop {
            match std::mem::take(&mut slot.phase) {
                Phase::Waiting => slot = waiter.changed.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Phase::Lead => return Turn::Lead,
                Phase::Done(result) => {
                    *batch = std::mem::take(&mut slot.batch);
                    return Turn::Done(result);
                }
            }
        }
    }

    /// The group at the head of the queue; for its first writer.
    pub fn group(&self) -> Group {
        let mut bytes = 0;
        let q = lock(&self.queue);
        let fits = |w: &&Arc<Waiter>| {
            let first = bytes == 0;
            bytes += lock(&w.slot).batch.size_bytes().max(1);
            first || bytes <= GROUP_BYTES_MAX
        };
        let waiters: Vec<Arc<Waiter>> = q.waiting.iter().take_while(fits).cloned().collect();
        drop(q);
        let mut sync = false;
        let mut batches = Vec::with_capacity(waiters.len());
        for waiter in &waiters {
            let mut slot = lock(&waiter.slot);
            sync |= slot.sync;
            batches.push(std::mem::take(&mut slot.batch));
        }
        Group { waiters, batches, sync }
    }

    /// A leader that was alone has written: the first of the queue leads, or nobody.
    #[inline]
    pub fn hand_over(&self) {
        self.pass_on(0);
    }

    /// The leader of a group has written: wakes its followers with their results, and answers its own.
    pub fn finish(&self, group: Group, results: Vec<Result<()>>) -> Result<()> {
        self.pass_on(group.waiters.len());
        let mut outcomes = group.waiters.iter().zip(group.batches).zip(results);
        let own = outcomes.next().map_or(Ok(()), |(_, result)| result);
        for ((waiter, batch), result) in outcomes {
            let mut slot = lock(&waiter.slot);
            slot.batch = batch;
            slot.phase = Phase::Done(result);
            waiter.changed.notify_one();
        }
        own
    }

    fn pass_on(&self, written: usize) {
        let mut q = lock(&self.queue);
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
