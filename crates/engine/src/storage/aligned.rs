//! A buffer that begins at a page, as reads and writes past the page cache want it. Safe: a little more is allocated
//! than asked for, and the buffer begins where the first page does.

use std::ops::{Deref, DerefMut};

/// Offsets, lengths and addresses of direct reads and writes are multiples of this: of every device's own unit, too.
pub const PAGE: usize = 4096;

/// Bytes that begin at a page.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// So many zeros.
    pub fn zeroed(len: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::default();
        buffer.reset(len);
        buffer
    }

    /// Makes it `len` bytes long. What they are is unspecified: zeros, or what was there before.
    pub fn reset(&mut self, len: usize) {
        if self.start + len > self.bytes.len() {
            // Zeroed memory of this size comes from the system untouched: nothing is written here.
            self.bytes = vec![0; len.next_multiple_of(PAGE) + PAGE];
            self.start = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
        }
        self.len = len;
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// True if the bytes begin at a page.
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_begins_at_a_page_and_keeps_its_memory() {
        let mut buffer = AlignedBuffer::zeroed(0);
        assert!(buffer.is_empty());
        for len in [1, 4095, 4096, 4097, 100_000, 3, 100_000, 1 << 20] {
            buffer.reset(len);
            assert_eq!(buffer.len(), len);
            assert!(is_aligned(&buffer), "{len}");
            buffer.fill(7);
        }
        let before = buffer.memory();
        buffer.reset(5);
        buffer.reset(1 << 20);
        assert_eq!(buffer.memory(), before);
        assert!(before <= (1 << 20) + PAGE);
    }
}
