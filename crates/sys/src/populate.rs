//! Pages that are present before they are touched: of the memtable's memory and of mapped logs.

use std::io;
use std::ptr::NonNull;

/// So much a call: it holds the lock of the whole address space, which other threads need to map memory.
const PIECE_BYTES: usize = 256 << 10;

/// Makes the pages of `len` bytes present and writable; what they hold stays as it is, and others may read and write it meanwhile.
/// A kernel before 5.14 does not know how: then each first touch pays its fault.
///
/// # Errors
/// What the system says of a page that cannot be had; those before it are present.
///
/// # Safety
/// `start` is at the beginning of a page, and the bytes lie in one writable mapping that lasts until this returns.
pub unsafe fn populate(start: NonNull<u8>, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let bytes = PIECE_BYTES.min(len - done);
        // SAFETY: the range lies in the caller's mapping and begins at a page, as pieces are whole pages.
        let code =
            unsafe { libc::madvise(start.as_ptr().add(done).cast(), bytes, libc::MADV_POPULATE_WRITE) };
        if code == 0 {
            done += bytes;
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => {}
            Some(libc::EINVAL) => return Ok(()),
            _ => return Err(error),
        }
    }
    Ok(())
}
