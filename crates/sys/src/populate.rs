//! Pages that are present before they are touched: of the memtable's memory and of mapped logs.

use std::io;
use std::ptr::NonNull;

/// What memory is mapped, and made present, in multiples of.
pub const PAGE_BYTES: usize = 4096;

/// So much a call: it holds the lock of the whole address space, which other threads need to map memory, and may lose its core meanwhile.
const PIECE_BYTES: usize = 64 << 10;

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

/// The same for memory that is no file's, page by page and mostly without that lock (Linux 6.4 and later): clearing a huge page takes a
/// millisecond, and much longer for a thread that loses its core.
///
/// # Safety
/// The bytes lie in one writable mapping without a file that lasts until this returns, and `start` is at the beginning of a page.
#[cfg(target_arch = "x86_64")]
pub unsafe fn touch(start: NonNull<u8>, len: usize) {
    for at in (0..len).step_by(PAGE_BYTES) {
        // SAFETY: `at` is below `len`, so this is in the caller's mapping.
        let page = unsafe { start.add(at) }.as_ptr();
        // SAFETY: a byte becomes what it is, in one step, so whoever reads or writes it at the same time finds nothing changed, and
        // for the language nothing has happened. The system takes it for a write, and has the page present then.
        unsafe {
            std::arch::asm!("lock or byte ptr [{page}], 0", page = in(reg) page, options(nostack));
        }
    }
}

/// See the other one. Elsewhere such an instruction may load first: the system then maps its page of zeros, huge or not, and splits it.
///
/// # Safety
/// As there.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn touch(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller promises what this asks for. Pages that cannot be had now fault later.
    let _ = unsafe { populate(start, len) };
}
