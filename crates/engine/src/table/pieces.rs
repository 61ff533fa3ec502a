//! Memory for pieces of files that cursors read ahead: lent, taken back, and counted as long as it is there.
//!
//! Cursors come and go in microseconds and want buffers of many sizes. Had each its own from the allocator, the holes they
//! leave would be filled with blocks of the cache, and the heap would grow by a piece for each thread again and again.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::locks::{Mutex, MutexGuard};
use crate::storage::aligned::{AlignedBuffer, PAGE};

/// A buffer this many times as large as asked for is not lent.
const TOO_LARGE: usize = 4;

/// Buffers: lent ones and spare ones.
#[derive(Debug)]
pub struct Pieces {
    spare: Mutex<Vec<AlignedBuffer>>,
    /// Bytes of those that are kept for the next cursors, at most.
    kept_bytes_max: AtomicU64,
    /// Bytes of both.
    bytes: AtomicU64,
}

impl Pieces {
    /// None, of which so many bytes are kept when they come back.
    pub fn new(kept_bytes_max: u64) -> Pieces {
        Pieces {
            spare: Mutex::default(),
            kept_bytes_max: AtomicU64::new(kept_bytes_max),
            bytes: AtomicU64::new(0),
        }
    }

    /// Keeps another number of bytes from now on.
    pub fn keep_at_most(&self, bytes: u64) {
        self.kept_bytes_max.store(bytes, Ordering::Relaxed);
        let mut spare = self.lock();
        while memory_of(&spare) > bytes {
            let Some(buffer) = spare.pop() else { return };
            self.bytes.fetch_sub(buffer.memory() as u64, Ordering::Relaxed);
        }
    }

    /// Bytes of all buffers, lent and spare.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A buffer of `len` bytes, whatever they are.
    pub fn lend(&self, len: usize) -> AlignedBuffer {
        let fits = |buffer: &AlignedBuffer| {
            (len + PAGE..=(len + PAGE).saturating_mul(TOO_LARGE)).contains(&buffer.memory())
        };
        let found = {
            let mut spare = self.lock();
            spare.iter().position(fits).map(|at| spare.swap_remove(at))
        };
        let mut buffer = found.unwrap_or_else(|| {
            let new = AlignedBuffer::zeroed(rounded(len));
            self.bytes.fetch_add(new.memory() as u64, Ordering::Relaxed);
            new
        });
        buffer.reset(len);
        buffer
    }

    /// Takes a buffer back that was lent here.
    pub fn take_back(&self, buffer: AlignedBuffer) {
        let bytes = buffer.memory() as u64;
        if bytes == 0 {
            return;
        }
        let mut spare = self.lock();
        if memory_of(&spare) + bytes <= self.kept_bytes_max.load(Ordering::Relaxed) {
            spare.push(buffer);
        } else {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AlignedBuffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn memory_of(buffers: &[AlignedBuffer]) -> u64 {
    buffers.iter().map(|buffer| buffer.memory() as u64).sum()
}

/// A little more than is asked for, so that others can use it again.
fn rounded(len: usize) -> usize {
    const STEP: usize = 64 << 10;
    let rounded =
        if len < STEP { len.checked_next_power_of_two() } else { len.checked_next_multiple_of(STEP) };
    rounded.unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_BYTES_MAX: u64 = 4 << 20;

    #[test]
    fn a_buffer_goes_from_hand_to_hand() {
        let pieces = Pieces::new(KEPT_BYTES_MAX);
        let first = pieces.lend(20_000);
        let (address, bytes) = (first.as_ptr(), pieces.bytes());
        assert_eq!(first.len(), 20_000);
        pieces.take_back(first);
        let again = pieces.lend(30_000);
        assert_eq!((again.as_ptr(), again.len(), pieces.bytes()), (address, 30_000, bytes));
        let other = pieces.lend(30_000);
        assert_ne!(other.as_ptr(), address);
        assert!(pieces.bytes() > bytes);
    }

    #[test]
    fn a_few_are_kept_and_all_are_counted() {
        let pieces = Pieces::new(KEPT_BYTES_MAX);
        let lent: Vec<AlignedBuffer> = (0..100).map(|_| pieces.lend(100_000)).collect();
        assert!(pieces.bytes() >= 10_000_000);
        lent.into_iter().for_each(|buffer| pieces.take_back(buffer));
        assert!((1..=KEPT_BYTES_MAX).contains(&pieces.bytes()));
        // Nothing to take back, and nothing so large that most of it would lie idle.
        pieces.take_back(AlignedBuffer::default());
        let before = pieces.bytes();
        let small = pieces.lend(100);
        assert!(small.memory() < 100_000 && pieces.bytes() > before);
        pieces.keep_at_most(0);
        assert_eq!(pieces.bytes(), small.memory() as u64);
        pieces.take_back(small);
        assert_eq!(pieces.bytes(), 0);
    }
}
