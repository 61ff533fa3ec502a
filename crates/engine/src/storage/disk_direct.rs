//! Table files past the page cache (`O_DIRECT`): what flushes and compactions write and read once is not worth keeping in
//! memory, and large aligned writes cost least.
//!
//! ```text
//! append ─► buffer of 1 MiB ── full ─► pwrite, whole pages, direct        tail ── a sync wants it ─► pwrite, through the cache
//! read   ─► aligned already: straight into the caller's buffer; else ─► whole pages into the thread's buffer ─► copy
//! ```
//! The last page is rarely full. It is written through the page cache, after the file has let go of `O_DIRECT`: the file
//! never has a byte too many, whenever power is lost. A device that refuses pages of 4 KiB shows when it is first asked;
//! the file then goes on through the page cache. A sync is a sync: the device's own cache and the file's size still need it.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::MIB;
use crate::observe::io_counters::IoCounters;
use crate::storage::aligned::{AlignedBuffer, PAGE, is_aligned};
use crate::storage::disk_writer::Buffer;
use crate::storage::file_system::ReadFile;

/// Written at once.
const BUFFER_LEN: usize = MIB as usize;
/// A thread keeps a buffer up to this size for its next read.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// The flag, where the system has it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(in crate::storage) const DIRECT: Option<OFlags> = Some(OFlags::DIRECT);
/// The flag, where the system has it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(in crate::storage) const DIRECT: Option<OFlags> = None;

/// From here on through the page cache.
fn let_go_of_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - DIRECT.unwrap_or(OFlags::empty()))?)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Pages filled in memory.
#[derive(Debug)]
pub(in crate::storage) struct Pages {
    buffer: AlignedBuffer,
    /// Bytes in the buffer.
    filled: usize,
    /// Bytes handed to the kernel; whole pages as long as the file is direct.
    written: u64,
    direct: bool,
}

impl Pages {
    /// For a file open for direct writes.
    pub(in crate::storage) fn new() -> Pages {
        Pages { buffer: AlignedBuffer::zeroed(BUFFER_LEN), filled: 0, written: 0, direct: true }
    }

    /// Writes the whole pages of the buffer; what is left moves to its start.
    fn write_whole(&mut self, file: &File) -> io::Result<()> {
        let whole = self.filled / PAGE * PAGE;
        let mut at = 0;
        while at < whole {
            let bytes = self.buffer.get(at..whole).unwrap_or_default();
            match file.write_at(bytes, self.written) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.direct && is(&error, Errno::INVAL) => self.let_go(file)?,
                Err(error) => return Err(error),
                Ok(n) => {
                    // A short write goes on at a page, over what was written of it.
                    let n = if self.direct { n / PAGE * PAGE } else { n };
                    if n == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.written += n as u64;
                    at += n;
                }
            }
        }
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(())
    }

    fn let_go(&mut self, file: &File) -> io::Result<()> {
        self.direct = false;
        let_go_of_direct(file)
    }
}

impl Buffer for Pages {
    fn append(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BUFFER_LEN - self.filled));
            if let Some(place) = self.buffer.get_mut(self.filled..self.filled + now.len()) {
                place.copy_from_slice(now);
            }
            self.filled += now.len();
            rest = later;
            if self.filled == BUFFER_LEN {
                self.write_whole(file)?;
            }
        }
        Ok(())
    }

    /// The tail goes through the page cache.
    fn flush(&mut self, file: &File) -> io::Result<()> {
        self.write_whole(file)?;
        if self.filled == 0 {
            return Ok(());
        }
        if self.direct {
            self.let_go(file)?;
        }
        file.write_all_at(self.buffer.get(..self.filled).unwrap_or_default(), self.written)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}

thread_local! {
    static BUFFER: Cell<AlignedBuffer> = Cell::default();
}

/// A regular file open for reading. Counts what it asks of the device: whole pages.
#[derive(Debug)]
pub(in crate::storage) struct DirectReader {
    file: File,
    path: PathBuf,
    len: u64,
    counters: Arc<IoCounters>,
    direct: AtomicBool,
}

impl DirectReader {
    /// Over a file of `len` bytes, open for direct reads.
    pub(in crate::storage) fn new(
        file: File,
        path: &Path,
        len: u64,
        counters: Arc<IoCounters>,
    ) -> DirectReader {
        DirectReader { file, path: path.to_path_buf(), len, counters, direct: AtomicBool::new(true) }
    }

    /// Reads from a page on into a buffer at a page, until `need` bytes are there; answers the bytes read.
    fn read_pages(&self, offset: u64, buf: &mut [u8], need: usize) -> io::Result<usize> {
        let (mut filled, mut read) = (0, 0);
        while filled < need {
            let rest = buf.get_mut(filled..).unwrap_or_default();
            let direct = self.direct.load(Ordering::Acquire);
            match self.file.read_at(rest, offset + filled as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Several readers may be refused at once, and each tries again.
                Err(error) if is(&error, Errno::INVAL) && direct => {
                    let_go_of_direct(&self.file)?;
                    self.direct.store(false, Ordering::Release);
                }
                Err(error) => return Err(error),
                Ok(n) => {
                    read += n;
                    // A short read that was not the end goes on at a page.
                    let next = if filled + n >= need { filled + n } else { (filled + n) / PAGE * PAGE };
                    if next <= filled {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    filled = next;
                }
            }
        }
        Ok(read)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut read = 0;
        let mut done = 0;
        if is_aligned(buf) && offset.is_multiple_of(PAGE as u64) {
            done = buf.len() / PAGE * PAGE;
            read += self.read_pages(offset, buf.get_mut(..done).unwrap_or_default(), done)?;
        }
        let rest = buf.get_mut(done..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(read);
        }
        let offset = offset + done as u64;
        let skipped = (offset % PAGE as u64) as usize;
        let need = skipped + rest.len();
        let mut pages = BUFFER.take();
        pages.reset(need.next_multiple_of(PAGE));
        let outcome = self.read_pages(offset - skipped as u64, &mut pages, need);
        if let (Ok(n), Some(bytes)) = (&outcome, pages.get(skipped..need)) {
            read += n;
            rest.copy_from_slice(bytes);
        }
        if pages.memory() <= KEPT_BYTES_MAX {
            BUFFER.set(pages);
        }
        outcome.map(|_| read)
    }
}

impl ReadFile for DirectReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        let read = self
            .read(offset, buf)
            .map_err(|error| Error::io(format!("read {} at {offset}", self.path.display()), error))?;
        self.counters.add_read(class, read as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[path = "disk_direct_tests.rs"]
mod tests;
