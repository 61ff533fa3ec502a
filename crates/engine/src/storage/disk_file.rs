//! Files on the real disk through the page cache: the buffer of those being written, and files open for reading.
//!
//! ```text
//! append ─► buffer ── full, or a sync wants it ─► write(2) ── each MiB ─► writeback started ── sync ─► fdatasync
//! ```
//!
//! Small appends are joined, so that a block is not a system call. What is buffered was never acknowledged to anyone:
//! a sync flushes the buffer first, and only what was synced counts. Starting writeback early bounds what a sync, or
//! another file's sync, has to wait for.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::MIB;
use crate::observe::io_counters::IoCounters;
use crate::storage::disk_writer::Buffer;
use crate::storage::file_system::ReadFile;

/// Appends are joined up to this much.
pub(in crate::storage) const BUFFER_LEN: usize = 64 << 10;

/// Writeback starts whenever this much is dirty.
const WRITEBACK_EVERY: u64 = MIB;

/// Appends joined in memory.
#[derive(Debug, Default)]
pub(in crate::storage) struct Joined {
    buffer: Vec<u8>,
    /// Bytes handed to the kernel.
    written: u64,
    /// Of those, bytes whose writeback has been started.
    started: u64,
}

impl Buffer for Joined {
    fn append(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_LEN {
            self.flush(file)?;
        }
        if bytes.len() >= BUFFER_LEN {
            return self.write(file, bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, file: &File) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = if buffer.is_empty() { Ok(()) } else { self.write(file, &buffer) };
        buffer.clear();
        self.buffer = buffer;
        result
    }
}

impl Joined {
    /// `write_all` completes short and interrupted writes.
    fn write(&mut self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        let dirty = self.written - self.started;
        if dirty >= WRITEBACK_EVERY {
            evenkeel_sys::start_writeback(file, self.started, dirty);
            self.started = self.written;
        }
        Ok(())
    }
}

/// A regular file open for reading.
#[derive(Debug)]
pub(in crate::storage) struct DiskReader {
    file: File,
    path: PathBuf,
    len: u64,
    counters: Arc<IoCounters>,
}

impl DiskReader {
    /// Over a file of `len` bytes.
    pub(in crate::storage) fn new(
        file: File,
        path: &Path,
        len: u64,
        counters: Arc<IoCounters>,
    ) -> DiskReader {
        DiskReader { file, path: path.to_path_buf(), len, counters }
    }
}

impl ReadFile for DiskReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|error| Error::io(format!("read {} at {offset}", self.path.display()), error))?;
        self.counters.add_read(class, buf.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
