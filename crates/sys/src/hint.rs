//! Advice to the processor and to the kernel: wrong or ignored advice changes speed, never answers.
//!
//! `prefetch` is what lets a read probe the filters of all levels for the price of one memory access;
//! `start_writeback` bounds the dirty bytes of a background writer that goes through the page cache.

use std::fs::File;

/// Asks for the cache line that holds `bytes[offset]`. Does nothing when `offset` is out of range.
#[inline]
pub fn prefetch(bytes: &[u8], offset: usize) {
    if let Some(byte) = bytes.get(offset) {
        prefetch_address(byte);
    }
}

/// Asks for the cache line at `address`. Any address is allowed: a prefetch of an unmapped one is dropped
/// by the processor, it neither faults nor is it an access in the sense of the memory model.
#[inline]
pub fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is part of SSE, which every x86_64 has, and it never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Starts writing the dirty pages of `[offset, offset + len)` to the device without waiting for them.
///
/// Best effort: an error of the device is kept by the kernel and reported by the next sync of the file,
/// which is the only call that promises anything, so none is returned here. `len` 0 means "to the end".
pub fn start_writeback(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        // SAFETY: the descriptor is open for the lifetime of `file`; the call touches no memory of ours.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};

    #[test]
    fn prefetch_takes_any_offset_and_any_address() {
        let bytes = [1u8; 100];
        for offset in [0, 63, 64, 99, 100, usize::MAX] {
            prefetch(&bytes, offset);
        }
        prefetch(&[], 0);
        prefetch_address(std::ptr::null());
        assert_eq!(bytes, [1u8; 100]);
    }

    #[test]
    fn writeback_leaves_the_bytes_as_they_are() {
        let mut file = tempfile::tempfile().unwrap();
        let written: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&written).unwrap();
        start_writeback(&file, 0, 100_000);
        start_writeback(&file, 100_000, 0);
        start_writeback(&file, u64::MAX, u64::MAX);
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == written);
    }
}
