//! Writing a file on the real disk from its start to its end, with syncs beside: the same whichever way its bytes take to the kernel.
//!
//! One lock guards what is buffered. A sync hands that to the kernel first, and lets go of the lock for the sync itself. The first
//! failure is final for the file: after it nobody knows what the disk holds. It is told as it is once, and as that of a file that failed
//! from then on.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::locks::{Mutex, MutexGuard};
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{Syncer, WritableFile};

/// Bytes on their way to the kernel.
pub(in crate::storage) trait Buffer: Debug + Send + 'static {
    /// Takes `bytes`, and writes what is then too much to hold.
    fn append(&mut self, file: &File, bytes: &[u8]) -> io::Result<()>;

    /// Writes everything.
    fn flush(&mut self, file: &File) -> io::Result<()>;
}

/// A file being written.
#[derive(Debug)]
pub(in crate::storage) struct DiskWriter<B: Buffer> {
    shared: Arc<Shared<B>>,
    class: IoClass,
    counters: Arc<IoCounters>,
    len: u64,
}

/// What a writer and its syncers share.
#[derive(Debug)]
struct Shared<B: Buffer> {
    file: File,
    path: PathBuf,
    state: Mutex<State<B>>,
}

#[derive(Debug)]
struct State<B> {
    buffer: B,
    failed: Option<Failure>,
}

/// The first failure of a file.
#[derive(Debug)]
struct Failure {
    cause: Error,
    is_told: bool,
}

impl<B: Buffer> DiskWriter<B> {
    /// Over a new and empty file.
    pub(in crate::storage) fn over(
        file: File,
        path: &Path,
        class: IoClass,
        counters: Arc<IoCounters>,
        buffer: B,
    ) -> DiskWriter<B> {
        let state = Mutex::new(State { buffer, failed: None });
        let shared = Shared { file, path: path.to_path_buf(), state };
        DiskWriter { shared: Arc::new(shared), class, counters, len: 0 }
    }
}

impl<B: Buffer> WritableFile for DiskWriter<B> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.shared.write(|buffer, file| buffer.append(file, bytes))?;
        self.len += bytes.len() as u64;
        self.counters.add_written(self.class, bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn flush(&mut self) -> Result<()> {
        self.shared.write(Buffer::flush)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.shared) as Arc<dyn Syncer>
    }
}

impl<B: Buffer> Drop for DiskWriter<B> {
    fn drop(&mut self) {
        // For files that nobody syncs, such as those for people. A failure is kept for a sync that may still come.
        let mut state = self.shared.state();
        if state.failed.is_none()
            && let Err(error) = state.buffer.flush(&self.shared.file)
        {
            let cause = self.shared.error("write", error);
            state.failed = Some(Failure { cause, is_told: false });
        }
    }
}

impl<B: Buffer> Syncer for Shared<B> {
    fn sync(&self) -> Result<()> {
        self.write(Buffer::flush)?;
        // Not under the lock, so that the writer goes on.
        self.file.sync_data().map_err(|error| self.fail(&mut self.state(), "sync", error))?;
        // Another thread's sync of this file may have failed meanwhile and taken the only report of a lost write.
        check(&mut self.state())
    }
}

/// Whether something of the file has failed.
fn check<B>(state: &mut State<B>) -> Result<()> {
    let Some(Failure { cause, is_told }) = &mut state.failed else { return Ok(()) };
    let was_told = std::mem::replace(is_told, true);
    Err(if was_told { Error::Poisoned { cause: cause.to_string() } } else { cause.clone() })
}

impl<B: Buffer> Shared<B> {
    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the buffer write, unless something has failed before.
    fn write(&self, act: impl FnOnce(&mut B, &File) -> io::Result<()>) -> Result<()> {
        let mut state = self.state();
        check(&mut state)?;
        act(&mut state.buffer, &self.file).map_err(|error| self.fail(&mut state, "write", error))
    }

    fn fail(&self, state: &mut State<B>, what: &str, error: io::Error) -> Error {
        let error = self.error(what, error);
        state.failed.get_or_insert_with(|| Failure { cause: error.clone(), is_told: true });
        error
    }

    fn error(&self, what: &str, error: io::Error) -> Error {
        Error::io(format!("{what} {}", self.path.display()), error)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::storage::disk_file::Joined;

    /// Whoever syncs a table hears that the disk was full, though it was the writer that found out when it was done.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a device of the kernel, and no file of a store")]
    fn what_fails_when_a_writer_is_dropped_is_told_to_the_sync() {
        let full = Path::new("/dev/full");
        let file = File::options().write(true).open(full).unwrap();
        let counters = Arc::default();
        let mut writer = DiskWriter::over(file, full, IoClass::Client, counters, Joined::default());
        writer.append(b"kept back").unwrap();
        let syncer = writer.syncer();
        drop(writer);
        assert_eq!(syncer.sync().unwrap_err().kind(), "NoSpace");
        assert_eq!(syncer.sync().unwrap_err().kind(), "Poisoned");
    }
}
