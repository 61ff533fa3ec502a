//! What the operation under way on this thread has waited for. Whoever waits says so here, where a look at the clock costs
//! nothing beside the wait; an operation that waits for nothing looks at no clock.
//!
//! ```text
//! begin ─► ... wait(Cause) ─► guard dropped: its time is charged ... ─► end: nothing, or causes with their times
//! ```
//! A wait within a wait counts once, under the outer cause. A step of a cursor has no begin, which would cost more than the
//! step's share: whatever is charged since the last end is its own. Who reads for clients outside of operations
//! therefore forgets its charges afterwards.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock::ticks;

/// One operation in so many is timed from its begin to its end, whatever it waits for.
pub const SAMPLE_EVERY: u64 = 64;

/// A page, in which reads are counted.
pub const PAGE_BYTES: usize = 4096;

/// What an operation's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Other writers were ahead in the queue.
    Queue,
    /// The sync of the log, the writer's own or that of the group before.
    Sync,
    /// Writers were held back: no memtable free, L0 too high, or admission.
    Stall,
    /// Blocks were not in the cache and came from files.
    Read,
    /// Neither of these: computing, or waiting for a core.
    Cpu,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 5] = [Cause::Queue, Cause::Sync, Cause::Stall, Cause::Read, Cause::Cpu];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Queue => "queue",
            Cause::Sync => "commit-sync",
            Cause::Stall => "throttle",
            Cause::Read => "block-read",
            Cause::Cpu => "cpu",
        }
    }
}

/// Nanoseconds by cause, indexed as `Cause`, and what else is known of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Nanoseconds.
    pub nanos: [u64; 5],
    /// Blocks that came from files.
    pub block_reads: u32,
    /// Pages that those took.
    pub pages: u32,
    /// When the first wait began, in ticks; 0 if there was none.
    pub since: u64,
}

impl Waited {
    /// All causes together.
    pub fn total(&self) -> u64 {
        self.nanos.iter().sum()
    }
}

struct Current {
    /// False where the store at hand measures nothing.
    measuring: Cell<bool>,
    waiting: Cell<bool>,
    touched: Cell<bool>,
    turn: Cell<u64>,
    waited: Cell<Waited>,
}

thread_local! {
    static CURRENT: Current = const {
        Current {
            measuring: Cell::new(false),
            waiting: Cell::new(false),
            touched: Cell::new(false),
            turn: Cell::new(0),
            waited: Cell::new(Waited { nanos: [0; 5], block_reads: 0, pages: 0, since: 0 }),
        }
    };
}

/// An operation begins on this thread. True if it is one that is timed as a whole.
#[inline]
pub fn begin() -> bool {
    CURRENT.with(|c| {
        c.measuring.set(true);
        c.touched.set(false);
        c.waiting.set(false);
        let turn = c.turn.get() + 1;
        c.turn.set(turn);
        turn.is_multiple_of(SAMPLE_EVERY)
    })
}

/// The operation ends: what it waited for, if for anything.
#[inline]
pub fn end() -> Option<Waited> {
    CURRENT.with(|c| c.touched.replace(false).then(|| c.waited.take()))
}

/// True if something was charged since the last end.
#[inline]
pub fn has_waited() -> bool {
    CURRENT.with(|c| c.touched.get())
}

/// What was charged is no operation's, and nothing is charged until the next begin.
#[inline]
pub fn forget() {
    CURRENT.with(|c| {
        c.measuring.set(false);
        c.touched.set(false);
    });
}

/// A wait under way; ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Wait<'a> {
    cause: Cause,
    /// 0 where nothing is counted.
    since: u64,
    /// The store's sum of this cause.
    sum: Option<&'a AtomicU64>,
}

/// The operation under way, if there is one, waits from now on.
#[inline]
pub fn wait(cause: Cause) -> Wait<'static> {
    wait_counted(cause, None)
}

/// The same, counted in `sum` as well.
#[inline]
pub fn wait_counted(cause: Cause, sum: Option<&AtomicU64>) -> Wait<'_> {
    let counts = CURRENT.with(|c| c.measuring.get() && !c.waiting.replace(true));
    Wait { cause, since: if counts { ticks() } else { 0 }, sum }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.since == 0 {
            return;
        }
        let nanos = ticks().saturating_sub(self.since);
        if let Some(sum) = self.sum {
            sum.fetch_add(nanos, Ordering::Relaxed);
        }
        CURRENT.with(|c| c.waiting.set(false));
        let mut waited = [0; 5];
        waited[self.cause as usize] = nanos;
        charge(self.since, waited);
    }
}

/// Charges the operation under way, if there is one, with waits that began at `since` (ticks).
pub fn charge(since: u64, nanos: [u64; 5]) {
    CURRENT.with(|c| {
        if !c.measuring.get() {
            return;
        }
        let mut waited = if c.touched.replace(true) { c.waited.get() } else { Waited::default() };
        for (sum, n) in waited.nanos.iter_mut().zip(nanos) {
            *sum += n;
        }
        waited.block_reads += u32::from(nanos[Cause::Read as usize] > 0);
        waited.since = if waited.since == 0 { since.max(1) } else { waited.since };
        c.waited.set(waited);
    });
}

/// The operation under way, if there is one, has read so many bytes from a file.
pub fn count_pages(bytes: usize) {
    CURRENT.with(|c| {
        if c.measuring.get() {
            let mut waited = if c.touched.replace(true) { c.waited.get() } else { Waited::default() };
            waited.pages += bytes.div_ceil(PAGE_BYTES) as u32;
            c.waited.set(waited);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_charged_to_the_operation_under_way_and_to_no_other() {
        charge(5, [9; 5]);
        assert!(!has_waited(), "nothing is measured yet");
        begin();
        charge(100, [0, 7, 0, 0, 0]);
        charge(200, [0, 0, 0, 3, 0]);
        let waited = end().unwrap();
        assert_eq!((waited.nanos, waited.block_reads, waited.since), ([0, 7, 0, 3, 0], 1, 100));
        charge(300, [1; 5]);
        begin();
        assert_eq!(end(), None, "what came between is not its own either");
        charge(400, [1; 5]);
        assert!(has_waited(), "a step of a cursor has no begin");
        forget();
        charge(500, [1; 5]);
        assert!(!has_waited());
    }

    #[test]
    fn a_wait_within_a_wait_counts_once() {
        begin();
        {
            let _outer = wait(Cause::Stall);
            let inner = wait(Cause::Sync);
            assert_eq!(inner.since, 0);
        }
        let waited = end().unwrap();
        assert_eq!(waited.nanos[Cause::Sync as usize], 0);
        forget();
        drop(wait(Cause::Read));
        assert_eq!(end(), None, "nothing is measured");
    }

    #[test]
    fn one_operation_in_so_many_is_timed() {
        let timed = (0..10 * SAMPLE_EVERY).filter(|_| begin()).count();
        assert_eq!(timed, 10);
        end();
    }
}
