//! Blocks that wait to be kept: what jobs have written of tables that nobody can read yet, each job's in a queue, all in the block
//! cache's memory. Where too much waits, the oldest block of the job that has most is the next to go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_arena::Block;

use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::TableId;

/// A block, and where its table has it.
#[derive(Debug)]
pub struct Waiting {
    /// The table that is being written.
    pub table: TableId,
    /// Where the block begins in its file.
    pub offset: u64,
    /// A copy of it.
    pub block: Block,
}

impl Waiting {
    fn bytes(&self) -> u64 {
        self.block.slot_bytes() as u64
    }
}

/// The queues of all jobs.
#[derive(Default)]
pub struct WaitingBlocks {
    /// Of all queues, for those who only ask.
    bytes: AtomicU64,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    opened: u64,
    open: BTreeMap<u64, Queue>,
}

#[derive(Default)]
struct Queue {
    bytes: u64,
    blocks: VecDeque<Waiting>,
}

impl Queue {
    fn pop_if(&mut self, goes: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let oldest = self.blocks.pop_front_if(|oldest| goes(oldest))?;
        self.bytes -= oldest.bytes();
        Some(oldest)
    }
}

impl WaitingBlocks {
    /// Opens a job's queue, and answers its number.
    pub fn open(&self) -> u64 {
        let mut queues = self.queues();
        queues.opened += 1;
        let number = queues.opened;
        queues.open.insert(number, Queue::default());
        number
    }

    /// Nothing waits in this queue any more.
    pub fn close(&self, queue: u64) {
        let closed = self.queues().open.remove(&queue);
        self.bytes.fetch_sub(closed.map_or(0, |closed| closed.bytes), Ordering::Relaxed);
    }

    /// Bytes of all that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// One more waits, the newest of its job's.
    pub fn push(&self, queue: u64, waiting: Waiting) {
        let bytes = waiting.bytes();
        if let Some(queue) = self.queues().open.get_mut(&queue) {
            queue.bytes += bytes;
            queue.blocks.push_back(waiting);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// While more than so many bytes wait: the oldest block of the job that has most.
    pub fn pop_beyond(&self, most: u64) -> Option<Waiting> {
        if self.bytes() <= most {
            return None;
        }
        let mut queues = self.queues();
        let largest = queues.open.values_mut().max_by_key(|queue| queue.bytes)?;
        self.gone(largest.pop_if(|_| true))
    }

    /// The oldest block of a job, if its table is not after `last`.
    pub fn pop_up_to(&self, queue: u64, last: TableId) -> Option<Waiting> {
        let mut queues = self.queues();
        let queue = queues.open.get_mut(&queue)?;
        self.gone(queue.pop_if(|oldest| oldest.table <= last))
    }

    /// Blocks whose memory is wanted back are replaced by copies.
    pub fn move_leaving(&self, copy: impl Fn(&Block) -> Block) {
        let mut queues = self.queues();
        let blocks = queues.open.values_mut().flat_map(|queue| &mut queue.blocks);
        let leaving = blocks.filter(|waiting| waiting.block.is_leaving());
        let moved = |waiting: &mut Waiting| {
            let copied = copy(&waiting.block);
            std::mem::replace(&mut waiting.block, copied)
        };
        let left: Vec<Block> = leaving.map(moved).collect();
        drop(queues);
        // What they leave goes back to the system with the last of them, without the lock.
        drop(left);
    }

    fn gone(&self, waiting: Option<Waiting>) -> Option<Waiting> {
        self.bytes.fetch_sub(waiting.as_ref().map_or(0, Waiting::bytes), Ordering::Relaxed);
        waiting
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
