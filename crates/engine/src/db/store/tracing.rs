//! Recording operations, on the threads that do them.
//!
//! ```text
//! operation ─► stripe of the thread (a few of them, each with a lock of its own) ─ full ─► queue, bounded ─► who writes
//!                                                        no room: the operation is counted as missed ◄─┘
//! ```
//! No lock that an operation takes is held while anything is written. Where no trace runs, an operation looks at a flag.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::base::clock::{thread_number, ticks};
use crate::base::error::{Error, Result};
use crate::base::locks::{Condvar, Mutex, MutexGuard};
use crate::db::files::trace_file::{Described, Describer, Keys, Kind, OPERATION_BYTES_MAX, put_operation};
use crate::observe::memory::{Charge, MemoryBudget, MemoryClass};

/// Threads gather operations in so many places.
const STRIPES: usize = 16;
/// A stripe that holds this much is handed over.
const CHUNK_BYTES: usize = 32 << 10;
/// Chunks that wait to be written take at most this many bytes.
const QUEUE_BYTES_MAX: usize = OPERATION_BYTES_MAX;
/// An operation is handed over after this time at the latest.
const GATHER: Duration = Duration::from_millis(200);

/// Whether a store's operations are recorded.
#[derive(Debug, Default)]
pub struct Tracing {
    on: AtomicBool,
    current: ArcSwapOption<Recording>,
    /// Held while one begins or ends.
    changing: Mutex<()>,
}

impl Tracing {
    /// Does an operation on something, and records it if it succeeds and a trace runs; `describe` is asked only then.
    #[inline]
    pub fn watch<S, T>(
        &self,
        subject: S,
        describe: impl FnOnce(&S, Describer) -> Described,
        operation: impl FnOnce(S) -> Result<T>,
    ) -> Result<T> {
        if self.on.load(Ordering::Relaxed) {
            return self.watch_traced(subject, describe, operation);
        }
        operation(subject)
    }

    #[cold]
    fn watch_traced<S, T>(
        &self,
        subject: S,
        describe: impl FnOnce(&S, Describer) -> Described,
        operation: impl FnOnce(S) -> Result<T>,
    ) -> Result<T> {
        let Some(recording) = self.current.load_full() else { return operation(subject) };
        let described = describe(&subject, recording.describer);
        let began = ticks();
        let done = operation(subject)?;
        recording.add(began, ticks(), &described);
        Ok(done)
    }

    /// What notes the scans of a cursor, if they are to be recorded.
    #[inline]
    pub fn cursor(&self, keyspace: u64, lo: &[u8]) -> Option<Box<TracedCursor>> {
        if !self.on.load(Ordering::Relaxed) {
            return None;
        }
        let recording = self.current.load_full()?;
        Some(Box::new(TracedCursor { recording, keyspace, lo: lo.into(), scan: None }))
    }

    /// From now on operations are recorded.
    ///
    /// # Errors
    /// `InvalidArgument` if they are already.
    pub fn start(&self, recording: &Arc<Recording>) -> Result<()> {
        let _alone = self.changing();
        if let Some(other) = &*self.current.load() {
            return Err(Error::invalid(format!(
                "a trace runs already, into {}; end that one first",
                other.path.display()
            )));
        }
        self.current.store(Some(Arc::clone(recording)));
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on they are not, if it was this recording that did.
    pub fn stop(&self, recording: &Arc<Recording>) {
        let _alone = self.changing();
        if self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, recording)) {
            self.on.store(false, Ordering::Relaxed);
            self.current.store(None);
        }
    }

    /// The recording that runs.
    pub fn current(&self) -> Option<Arc<Recording>> {
        self.current.load_full()
    }
}

/// The scans of one cursor: from a seek to the last move before the next.
#[derive(Debug)]
pub struct TracedCursor {
    recording: Arc<Recording>,
    keyspace: u64,
    lo: Box<[u8]>,
    scan: Option<TracedScan>,
}

#[derive(Debug)]
struct TracedScan {
    /// `None` until it is known where a seek to the last key has led.
    from: Option<Vec<u8>>,
    down: bool,
    entries: u64,
    began: u64,
    ended: u64,
}

impl TracedCursor {
    /// A seek to the first key of the range.
    pub fn first(&mut self) {
        let lo = self.lo.to_vec();
        self.begin(Some(lo), false);
    }

    /// A seek to the last key of the range.
    pub fn last(&mut self) {
        self.begin(None, true);
    }

    /// A seek to a key.
    pub fn seek(&mut self, key: &[u8], down: bool) {
        self.begin(Some(key.to_vec()), down);
    }

    fn begin(&mut self, from: Option<Vec<u8>>, down: bool) {
        self.record();
        let began = ticks();
        self.scan = Some(TracedScan { from, down, entries: 0, began, ended: began });
    }

    /// A move has ended, at this key if there is one. The first one after the seek says where the scan goes.
    pub fn moved(&mut self, key: Option<&[u8]>, down: Option<bool>) {
        let Some(scan) = &mut self.scan else { return };
        if scan.entries == 1
            && let Some(down) = down
        {
            scan.down = down;
        }
        scan.entries += u64::from(key.is_some());
        scan.from.get_or_insert_with(|| key.unwrap_or_default().to_vec());
        scan.ended = ticks();
    }

    fn record(&mut self) {
        let Some(scan) = self.scan.take() else { return };
        let (from, recording) = (scan.from.unwrap_or_default(), &self.recording);
        let described = recording.describer.scan(self.keyspace, &from, scan.entries, scan.down);
        recording.add(scan.began, scan.ended, &described);
    }
}

impl Drop for TracedCursor {
    fn drop(&mut self) {
        self.record();
    }
}

/// A trace under way: what is gathered and not written yet.
#[derive(Debug)]
pub struct Recording {
    /// Its file.
    pub path: PathBuf,
    describer: Describer,
    began: u64,
    stripes: [Stripe; STRIPES],
    queue: Mutex<Queue>,
    changed: Condvar,
    missed: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    chunk: Vec<u8>,
    counts: [u64; Kind::ALL.len()],
    closed: bool,
}

#[derive(Debug)]
struct Queue {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of them, and of those being written.
    bytes: usize,
    ending: bool,
    outcome: Option<Result<Written>>,
    charge: Charge,
}

/// What has been written when all is.
#[derive(Clone, Debug)]
pub struct Written {
    /// How long was recorded.
    pub nanos: u64,
    /// The file's length.
    pub bytes: u64,
}

impl Recording {
    /// Of operations from now on.
    pub fn new(path: PathBuf, keys: Keys, memory: &Arc<MemoryBudget>) -> Recording {
        let charge = Charge::new(memory, MemoryClass::Jobs, (STRIPES * CHUNK_BYTES) as u64);
        let queue = Queue { chunks: VecDeque::new(), bytes: 0, ending: false, outcome: None, charge };
        Recording {
            path,
            describer: Describer::new(keys),
            began: ticks(),
            stripes: Default::default(),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            missed: AtomicU64::new(0),
        }
    }

    fn add(&self, began: u64, ended: u64, described: &Described) {
        let thread = thread_number();
        let Some(stripe) = self.stripes.get(thread % STRIPES) else { return };
        let mut stripe = stripe.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stripe.closed {
            return;
        }
        let (start, nanos) = (began.saturating_sub(self.began), ended.saturating_sub(began));
        let full = stripe.chunk.len() + described.bytes.len() > CHUNK_BYTES;
        let mut taken = !full || self.hand_over(&mut stripe.chunk);
        if taken {
            let before = stripe.chunk.len();
            put_operation(&mut stripe.chunk, thread as u64, start, nanos, &described.bytes);
            taken = stripe.chunk.len() <= CHUNK_BYTES || self.hand_over(&mut stripe.chunk);
            if !taken {
                stripe.chunk.truncate(before);
            }
        }
        match stripe.counts.get_mut(described.kind as usize).filter(|_| taken) {
            Some(count) => *count += 1,
            None => drop(self.missed.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Puts a chunk into the queue and leaves an empty one; false if there is no room.
    fn hand_over(&self, chunk: &mut Vec<u8>) -> bool {
        if chunk.is_empty() {
            return true;
        }
        let mut queue = self.queue();
        if queue.bytes + chunk.len() > QUEUE_BYTES_MAX {
            return false;
        }
        queue.add(chunk.len() as isize);
        queue.chunks.push_back(std::mem::take(chunk));
        drop(queue);
        self.changed.notify_all();
        true
    }

    /// For who writes: waits until there is something, at most until the next gathering, and answers what there is and
    /// whether it is the last.
    pub fn take(&self) -> (VecDeque<Vec<u8>>, bool) {
        let quiet = |queue: &mut Queue| queue.chunks.is_empty() && !queue.ending;
        let waited = self.changed.wait_timeout_while(self.queue(), GATHER, quiet);
        let ending = waited.unwrap_or_else(PoisonError::into_inner).0.ending;
        // By way of the queue, so that what a thread did stays in its order.
        let mut all = true;
        for stripe in &self.stripes {
            let mut stripe = stripe.0.lock().unwrap_or_else(PoisonError::into_inner);
            all &= self.hand_over(&mut stripe.chunk);
            stripe.closed |= ending && stripe.chunk.is_empty();
        }
        (std::mem::take(&mut self.queue().chunks), ending && all)
    }

    /// So many bytes of chunks that were taken are written.
    pub fn written(&self, bytes: usize) {
        self.queue().add(-(bytes as isize));
    }

    /// All is written, or will never be.
    pub fn finished(&self, outcome: Result<Written>) {
        for stripe in &self.stripes {
            stripe.0.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        }
        let mut queue = self.queue();
        let left = queue.bytes as isize;
        queue.chunks.clear();
        queue.add(-left);
        queue.charge.set(0);
        queue.outcome = Some(outcome);
        drop(queue);
        self.changed.notify_all();
    }

    /// Has what is gathered written, and waits until it is.
    pub fn end(&self) -> Result<Written> {
        let mut queue = self.queue();
        queue.ending = true;
        self.changed.notify_all();
        loop {
            match &queue.outcome {
                Some(outcome) => return outcome.clone(),
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Nanoseconds since it began.
    pub fn nanos(&self) -> u64 {
        ticks().saturating_sub(self.began)
    }

    /// Operations that there was no room for.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Operations recorded, by [`Kind`].
    pub fn counts(&self) -> [u64; Kind::ALL.len()] {
        let mut all = [0; Kind::ALL.len()];
        for stripe in &self.stripes {
            let stripe = stripe.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter_mut().zip(stripe.counts).for_each(|(sum, n)| *sum += n);
        }
        all
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn add(&mut self, bytes: isize) {
        self.bytes = self.bytes.saturating_add_signed(bytes);
        self.charge.set((STRIPES * CHUNK_BYTES + self.bytes) as u64);
    }
}
