//! Zeroed memory that asks for huge pages: filters and the chunks of the memtable's arena.
//!
//! A random access to 500 MB on 4 KiB pages misses the TLB nearly each time; on 2 MiB pages it rarely
//! does. Below 128 KiB the memory comes from the ordinary heap (cache-line aligned); from there on it is a
//! mapping of its own, so that long-lived and short-lived pieces leave no holes in the heap; from 2 MiB on
//! it is aligned to 2 MiB and advised with MADV_HUGEPAGE. A mapping costs address space when it is made and
//! memory only as it is touched, and goes back to the system at once when it is dropped.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

#[cfg(all(target_os = "linux", not(miri)))]
use crate::populate::{PAGE_BYTES, touch};

/// The size of a huge page; from here on they are asked for.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// From this size on, memory is mapped rather than taken from the heap.
pub const MAPPED_BYTES_MIN: usize = 128 << 10;

/// Alignment of every `HugeBytes`: a cache line.
pub const ALIGN_BYTES: usize = 64;

/// An owned, zeroed, fixed-size buffer, on huge pages where the system grants them.
pub struct HugeBytes {
    start: NonNull<u8>,
    len: usize,
    /// Length of the mapping, or `None` when the memory came from the heap.
    mapped: Option<usize>,
}

// SAFETY: the buffer is owned like a `Box<[u8]>`; the pointer is shared with nobody.
unsafe impl Send for HugeBytes {}
// SAFETY: through `&HugeBytes` the bytes can only be read.
unsafe impl Sync for HugeBytes {}

impl HugeBytes {
    /// `len` zero bytes. Running out of memory aborts, as it does for `Vec`.
    ///
    /// # Panics
    /// When `len` exceeds the address space (`isize::MAX`).
    pub fn zeroed(len: usize) -> Self {
        assert!(len <= isize::MAX as usize - 2 * HUGE_PAGE_BYTES, "a buffer larger than the address space");
        if len >= MAPPED_BYTES_MIN
            && let Some((start, mapped)) = map(len)
        {
            return Self { start, len, mapped: Some(mapped) };
        }
        if len == 0 {
            return Self { start: NonNull::<Line>::dangling().cast(), len, mapped: None };
        }
        let layout = heap_layout(len);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len, mapped: None }
    }

    /// Bytes taken from the system for it: `len`, rounded up to whole pages for a mapping.
    pub fn reserved_bytes(&self) -> usize {
        self.mapped.unwrap_or(self.len)
    }

    /// Whether the bytes lie in a mapping of their own.
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Start of the bytes, for an owner that hands out parts of them by pointer.
    ///
    /// The pointer stays valid, also when the `HugeBytes` is moved, until it is dropped. An owner that
    /// writes through it must not use the slice view (`Deref`) at the same time.
    pub fn as_non_null(&self) -> NonNull<u8> {
        self.start
    }

    /// Faults the pages from byte `from` to byte `to` in now, so that no first touch does later. Best effort: of memory from the heap
    /// none. Others may read and write the bytes meanwhile.
    pub fn populate(&self, from: usize, to: usize) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if self.mapped.is_some() {
            let to = to.min(self.len);
            let from = (from / PAGE_BYTES * PAGE_BYTES).min(to);
            // SAFETY: the range begins at a page and lies in the mapping owned by `self`, which begins at one and is no file's.
            unsafe { touch(self.start.add(from), to - from) };
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = (from, to);
    }
}

impl Deref for HugeBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that `self` owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for HugeBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for HugeBytes {
    fn drop(&mut self) {
        match self.mapped {
            Some(mapped) => unmap(self.start, mapped),
            None if self.len == 0 => {}
            // SAFETY: allocated in `zeroed` with the same layout.
            None => unsafe { dealloc(self.start.as_ptr(), heap_layout(self.len)) },
        }
    }
}

impl std::fmt::Debug for HugeBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HugeBytes").field("len", &self.len).field("mapped", &self.mapped).finish()
    }
}

/// Carries the alignment of an empty buffer.
#[repr(align(64))]
struct Line;

fn heap_layout(len: usize) -> Layout {
    Layout::from_size_align(len, ALIGN_BYTES).expect("the length was checked when the buffer was made")
}

/// Maps `len` bytes, at a 2 MiB boundary if they fill a huge page; `None` when the system refuses, then the heap decides.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(len: usize) -> Option<(NonNull<u8>, usize)> {
    let mapped = len.next_multiple_of(PAGE_BYTES);
    let huge = len >= HUGE_PAGE_BYTES;
    // A larger range is asked for and trimmed at both ends, since mmap only aligns to pages.
    let asked = if huge { mapped + HUGE_PAGE_BYTES } else { mapped };
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            asked,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    let start = address.cast::<u8>();
    let before = if huge { start.align_offset(HUGE_PAGE_BYTES) } else { 0 };
    let after = asked - before - mapped;
    // SAFETY: `before` is 0, or at most `HUGE_PAGE_BYTES - PAGE_BYTES` where as much was asked for on top, so all
    // three parts lie in the mapping just made, the two ends do not overlap the middle, and only the ends are
    // given back. Advice cannot harm.
    unsafe {
        let aligned = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        if after > 0 {
            libc::munmap(aligned.add(mapped).cast(), after);
        }
        if huge {
            libc::madvise(aligned.cast(), mapped, libc::MADV_HUGEPAGE);
        }
        NonNull::new(aligned).map(|start| (start, mapped))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_len: usize) -> Option<(NonNull<u8>, usize)> {
    None
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(start: NonNull<u8>, mapped: usize) {
    // SAFETY: called once, from drop, with the mapping that `map` made.
    unsafe {
        libc::munmap(start.as_ptr().cast(), mapped);
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(_start: NonNull<u8>, _mapped: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_zeroed_writable_and_aligned() {
        for len in [
            0,
            1,
            63,
            64,
            4097,
            MAPPED_BYTES_MIN,
            HUGE_PAGE_BYTES - 1,
            HUGE_PAGE_BYTES,
            HUGE_PAGE_BYTES + 1,
            5 << 20,
        ] {
            let mut bytes = HugeBytes::zeroed(len);
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|&b| b == 0), "{len} bytes are not zero");
            assert_eq!(bytes.as_ptr() as usize % ALIGN_BYTES, 0);
            assert!(bytes.reserved_bytes() >= len && bytes.reserved_bytes() < len + 4096);
            bytes.populate(0, len);
            bytes.populate(len / 2, usize::MAX);
            bytes.fill(7);
            assert!(bytes.iter().all(|&b| b == 7));
            let moved = std::thread::scope(|s| s.spawn(move || bytes).join().unwrap());
            assert_eq!(moved.iter().map(|&b| usize::from(b)).sum::<usize>(), 7 * len);
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn large_buffers_are_aligned_to_huge_pages() {
        let bytes = HugeBytes::zeroed(3 << 20);
        assert!(bytes.is_mapped());
        assert_eq!(bytes.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        assert!(!HugeBytes::zeroed(4096).is_mapped());
    }
}
