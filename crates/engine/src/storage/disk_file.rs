//! Files on the real disk that are written from start to end, and files open for reading.
//!
//! ```text
//! append ─► buffer ── full, or a sync wants it ─► write(2) ── each MiB ─► writeback started ── sync ─► fdatasync
//! ```
//!
//! Small appends are joined, so that a block is not a system call. What is buffered was never acknowledged to anyone:
//! a sync flushes the buffer first, and only what was synced counts. Starting writeback early bounds what a sync, or
//! another file's sync, has to wait for.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::MIB;
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{ReadFile, Syncer, WritableFile};

/// Appends are joined up to this much.
pub(in crate::storage) const BUFFER_LEN: usize = 64 << 10;

/// Writeback starts whenever this much is dirty.
const WRITEBACK_EVERY: u64 = MIB;

/// A file being written.
#[derive(Debug)]
pub(in crate::storage) struct DiskWriter {
    shared: Arc<Shared>,
    class: IoClass,
    counters: Arc<IoCounters>,
    len: u64,
}

/// What a writer and its syncers share.
#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// Bytes handed to the kernel.
    written: u64,
    /// Of those, bytes whose writeback has been started.
    started: u64,
    /// The first failure; final for the file.
    failed: Option<String>,
}

impl DiskWriter {
    /// Over a new and empty file.
    pub(in crate::storage) fn new(
        file: File,
        path: &Path,
        class: IoClass,
        counters: Arc<IoCounters>,
    ) -> DiskWriter {
        let shared = Shared { file, path: path.to_path_buf(), state: Mutex::default() };
        DiskWriter { shared: Arc::new(shared), class, counters, len: 0 }
    }
}

impl WritableFile for DiskWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.shared.state();
        self.shared.check(&state)?;
        if state.buffer.len() + bytes.len() > BUFFER_LEN {
            self.shared.flush(&mut state)?;
        }
        if bytes.len() >= BUFFER_LEN {
            self.shared.write(&mut state, bytes)?;
        } else {
            state.buffer.extend_from_slice(bytes);
        }
        drop(state);
        self.len += bytes.len() as u64;
        self.counters.add_written(self.class, bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn flush(&mut self) -> Result<()> {
        let mut state = self.shared.state();
        self.shared.check(&state)?;
        self.shared.flush(&mut state)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.shared) as Arc<dyn Syncer>
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        // For files that nobody syncs, such as those for people. A failure is kept for a sync that may still come.
        let mut state = self.shared.state();
        if state.failed.is_none() {
            let _ = self.shared.flush(&mut state);
        }
    }
}

impl Syncer for Shared {
    fn sync(&self) -> Result<()> {
        let mut state = self.state();
        self.check(&state)?;
        self.flush(&mut state)?;
        drop(state);
        // Not under the lock, so that the writer goes on.
        self.file.sync_data().map_err(|error| self.fail(&mut self.state(), "sync", error))?;
        // Another thread's sync of this file may have failed meanwhile and taken the only report of a lost write.
        self.check(&self.state())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, state: &State) -> Result<()> {
        match &state.failed {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    fn flush(&self, state: &mut State) -> Result<()> {
        let mut buffer = std::mem::take(&mut state.buffer);
        let result = if buffer.is_empty() { Ok(()) } else { self.write(state, &buffer) };
        buffer.clear();
        state.buffer = buffer;
        result
    }

    /// `write_all` completes short and interrupted writes.
    fn write(&self, state: &mut State, bytes: &[u8]) -> Result<()> {
        (&self.file).write_all(bytes).map_err(|error| self.fail(state, "write", error))?;
        state.written += bytes.len() as u64;
        let dirty = state.written - state.started;
        if dirty >= WRITEBACK_EVERY {
            evenkeel_sys::start_writeback(&self.file, state.started, dirty);
            state.started = state.written;
        }
        Ok(())
    }

    fn fail(&self, state: &mut State, what: &str, error: std::io::Error) -> Error {
        let error = Error::io(format!("{what} {}", self.path.display()), error);
        state.failed.get_or_insert_with(|| error.to_string());
        error
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
