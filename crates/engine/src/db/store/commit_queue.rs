//! Who writes next: a queue of writers, of which one leads and writes for others that wait.
//!
//! ```text
//! os  os  SYNC  os  SYNC      who leads next: the first that asks for no sync, and takes all of its kind, so that they are
//! ▲───▲─────────▲             done before the next sync begins; then the first of all, and takes everyone that waits
//! ```
//! Writers that wait at the same time have no order among themselves yet, so none is overtaken that the caller could tell.
//! Each thread reuses one waiter, so queueing allocates nothing. A waiter's phase tells its thread what to do next.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::locks::{Condvar, Mutex, MutexGuard, thread_local};
use crate::base::durability::Durability;
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
    /// The last leader was chosen before one that waits for a sync: the next one is not.
    overtaken: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// What its `Ok` is to mean.
    pub durability: Durability,
    /// False if it took the store's default, which keyspaces without a log do not follow.
    pub explicit: bool,
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
    asked: Asked,
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
    /// Their batches, that of the leader first, and what each asks for.
    pub batches: Vec<(WriteBatch, Asked)>,
}

impl CommitQueue {
    /// Becomes the leader if there is none: then nobody else writes before `hand_over`.
    #[inline]
    pub fn try_lead(&self) -> bool {
        let mut q = lock(&self.queue);
        !std::mem::replace(&mut q.led, true)
    }

    /// Queues behind the leader and waits for a turn; `batch` is given back with `Done`. If the leader has gone meanwhile, leads.
    pub fn wait_turn(&self, batch: &mut WriteBatch, asked: Asked) -> Turn {
        let waiter = WAITER.with(Arc::clone);
        {
            let mut q = lock(&self.queue);
            *lock(&waiter.slot) = Slot { batch: std::mem::take(batch), asked, phase: Phase::Waiting };
            q.waiting.push_back(Arc::clone(&waiter));
            if !q.led {
                // It is alone in the queue.
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

    /// The calling leader and those it writes for: if it asks for no sync, only others like it.
    pub fn group(&self) -> Group {
        let leader = WAITER.with(Arc::clone);
        let with_syncs = lock(&leader.slot).asked.durability == Durability::Sync;
        let mut bytes = lock(&leader.slot).batch.size_bytes();
        let mut waiters = vec![Arc::clone(&leader)];
        let mut q = lock(&self.queue);
        q.waiting.retain(|waiter| {
            if Arc::ptr_eq(waiter, &leader) {
                return false;
            }
            let slot = lock(&waiter.slot);
            let fits = bytes < GROUP_BYTES_MAX && (with_syncs || slot.asked.durability != Durability::Sync);
            if fits {
                bytes += slot.batch.size_bytes().max(1);
                waiters.push(Arc::clone(waiter));
            }
            !fits
        });
        drop(q);
        let taken = |waiter: &Arc<Waiter>| {
            let mut slot = lock(&waiter.slot);
            (std::mem::take(&mut slot.batch), slot.asked)
        };
        let batches = waiters.iter().map(taken).collect();
        Group { waiters, batches }
    }

    /// The leader of a group has written: wakes its followers with their results, and answers its own.
    pub fn finish(&self, group: Group, results: Vec<Result<()>>) -> Result<()> {
        self.hand_over();
        let mut outcomes = group.waiters.iter().zip(group.batches).zip(results);
        let own = outcomes.next().map_or(Ok(()), |(_, result)| result);
        for ((waiter, (batch, _)), result) in outcomes {
            let mut slot = lock(&waiter.slot);
            slot.batch = batch;
            slot.phase = Phase::Done(result);
            // Who wakes wants it, and would sleep again.
            drop(slot);
            waiter.changed.notify_one();
        }
        own
    }

    /// A leader has written, alone or for its group: the next one leads, or nobody.
    #[inline]
    pub fn hand_over(&self) {
        let mut q = lock(&self.queue);
        let Some(first) = q.waiting.front() else {
            q.led = false;
            q.overtaken = false;
            return;
        };
        let waits_for_sync = |w: &Arc<Waiter>| lock(&w.slot).asked.durability == Durability::Sync;
        let quick = if q.overtaken || !waits_for_sync(first) {
            None
        } else {
            q.waiting.iter().find(|waiter| !waits_for_sync(waiter))
        };
        let next = Arc::clone(quick.unwrap_or(first));
        q.overtaken = quick.is_some();
        lock(&next.slot).phase = Phase::Lead;
        // The next leader takes its group from the queue at once.
        drop(q);
        next.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(any(loom, shuttle)))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::spawn;

    /// A writer that queues, and tells when it leads: then it leaves alone, without taking others.
    fn queued(
        queue: &Arc<CommitQueue>,
        durability: Durability,
        led: &Arc<Mutex<Vec<Durability>>>,
    ) -> std::thread::JoinHandle<()> {
        let before = lock(&queue.queue).waiting.len();
        let (of_thread, led) = (Arc::clone(queue), Arc::clone(led));
        let thread = spawn("writer", move || {
            let mut batch = WriteBatch::new();
            if let Turn::Lead = of_thread.wait_turn(&mut batch, Asked { durability, explicit: true }) {
                lock(&led).push(durability);
                let own = WAITER.with(Arc::clone);
                lock(&of_thread.queue).waiting.retain(|waiter| !Arc::ptr_eq(waiter, &own));
                of_thread.hand_over();
            }
        })
        .unwrap();
        while lock(&queue.queue).waiting.len() == before {
            std::thread::yield_now();
        }
        thread
    }

    /// Who asks for no sync goes before one that does, but not twice in a row.
    #[test]
    fn a_writer_without_a_sync_goes_first_and_nobody_starves() {
        let (queue, led) = (Arc::new(CommitQueue::default()), Arc::default());
        assert!(queue.try_lead());
        use Durability::{Os, Sync};
        let threads: Vec<_> =
            [Sync, Sync, Os, Os, Os].into_iter().map(|durability| queued(&queue, durability, &led)).collect();
        queue.hand_over();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock(&led), [Os, Sync, Os, Sync, Os]);
        assert!(queue.try_lead(), "nobody leads any more");
    }

    /// A leader without a sync takes its like and leaves the others; one with a sync takes everyone.
    #[test]
    fn a_group_waits_for_a_sync_only_if_its_leader_does() {
        for (leads, expected) in [(Durability::Os, 2), (Durability::Sync, 4)] {
            let (queue, led) = (CommitQueue::default(), Arc::default());
            let queue = Arc::new(queue);
            assert!(queue.try_lead());
            let mut batch = WriteBatch::new();
            // Alone, the calling thread would lead at once: it takes the place that its waiter has while it waits.
            let own = WAITER.with(Arc::clone);
            let asked = Asked { durability: leads, explicit: true };
            *lock(&own.slot) = Slot { batch: std::mem::take(&mut batch), asked, phase: Phase::Waiting };
            lock(&queue.queue).waiting.push_back(Arc::clone(&own));
            let others = [Durability::Sync, Durability::Os, Durability::Sync];
            let threads: Vec<_> =
                others.into_iter().map(|durability| queued(&queue, durability, &led)).collect();
            let group = queue.group();
            assert_eq!(group.batches.len(), expected);
            let results = (0..expected).map(|_| Ok(())).collect();
            queue.finish(group, results).unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}
