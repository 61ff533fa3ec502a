//! Open files of the simulated disk: writers, logs, syncers and readers.
//!
//! Like the real ones they give up after the first failed write: what is appended then is `Poisoned`. After a failed sync they do not,
//! as the kernel does not: it is for who has called it not to believe another one. And like the real ones a file keeps small appends back until there are enough of them, or a flush or sync wants them: that is when they fail for want of space, and
//! what a crash can keep of them begins there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::locks::Mutex;
use crate::storage::disk_file::BUFFER_LEN;
use crate::storage::fault::FaultKind;
use crate::storage::file_system::{LogFile, ReadFile, Syncer, WritableFile};
use crate::storage::simulated_disk::{CallKind, Disk, Shared, io_error};
use crate::storage::simulated_state::{File, FileOp};

/// What writers and their syncers share.
#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
    failed: AtomicBool,
    /// What failed when the writer was dropped: the first who asks is told.
    untold: Mutex<Option<Error>>,
}

impl Open {
    fn new(shared: &Arc<Shared>, file: File, path: &Path) -> Arc<Open> {
        let (shared, path) = (Arc::clone(shared), path.to_path_buf());
        Arc::new(Open { shared, file, path, failed: AtomicBool::new(false), untold: Mutex::default() })
    }

    /// Writes at `offset`; a failure is final.
    fn append(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.once_failed_always(|| {
            let mut disk = self.shared.disk();
            let step = disk.begin(CallKind::Append, &self.path)?;
            self.write(&mut disk, offset, bytes)?;
            step.finish()
        })
    }

    fn write(&self, disk: &mut Disk, offset: u64, bytes: &[u8]) -> Result<()> {
        let fault = disk.check_fault(FaultKind::Write, &self.path);
        let grows = (offset + bytes.len() as u64).saturating_sub(self.file.state().current.len);
        let short_by =
            if fault.is_err() { bytes.len() as u64 / 2 } else { grows.saturating_sub(disk.free()) };
        let written = &bytes[..bytes.len() - (short_by as usize).min(bytes.len())];
        self.file.state().apply(disk.order(), FileOp::Write { offset, bytes: written.into() });
        fault?;
        if short_by > 0 {
            return Err(Error::NoSpace { context: format!("append to {}", self.path.display()) });
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            let untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner).take();
            let failed = || Error::Poisoned { cause: format!("{} failed before", self.path.display()) };
            return Err(untold.unwrap_or_else(failed));
        }
        Ok(())
    }

    fn once_failed_always(&self, action: impl FnOnce() -> Result<()>) -> Result<()> {
        self.check()?;
        action().inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }
}

impl Syncer for Open {
    /// As the kernel's: after one that failed the next one says that all is well, whatever was lost. Who believes it is shown by that.
    fn sync(&self) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Sync, &self.path)?;
        disk.check_fault(FaultKind::Sync, &self.path)?;
        let losing = disk.check_fault(FaultKind::SyncLosing, &self.path);
        if losing.is_err() {
            self.file.state().pending.clear();
            return losing;
        }
        step.finish()?;
        self.file.state().sync();
        Ok(())
    }
}

/// A file whose small appends wait, and its syncers' view of it.
#[derive(Debug)]
struct Buffered {
    open: Arc<Open>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Bytes that the system has.
    written: u64,
    bytes: Vec<u8>,
}

impl Buffered {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        self.open.check()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.bytes.len() + bytes.len() > BUFFER_LEN {
            self.write(&mut waiting)?;
        }
        waiting.bytes.extend_from_slice(bytes);
        if waiting.bytes.len() >= BUFFER_LEN { self.write(&mut waiting) } else { Ok(()) }
    }

    fn flush(&self) -> Result<()> {
        self.open.check()?;
        self.write(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, waiting: &mut Waiting) -> Result<()> {
        let bytes = std::mem::take(&mut waiting.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        self.open.append(waiting.written, &bytes)?;
        waiting.written += bytes.len() as u64;
        Ok(())
    }
}

impl Syncer for Buffered {
    fn sync(&self) -> Result<()> {
        self.flush()?;
        self.open.sync()
    }
}

/// A file being written.
#[derive(Debug)]
pub(in crate::storage) struct SimulatedWriter {
    file: Arc<Buffered>,
    class: IoClass,
    len: u64,
}

impl SimulatedWriter {
    pub(in crate::storage) fn new(
        shared: &Arc<Shared>,
        file: File,
        path: &Path,
        class: IoClass,
    ) -> SimulatedWriter {
        let file = Buffered { open: Open::new(shared, file, path), waiting: Mutex::default() };
        SimulatedWriter { file: Arc::new(file), class, len: 0 }
    }
}

impl WritableFile for SimulatedWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.len += bytes.len() as u64;
        self.file.open.shared.counters.add_written(self.class, bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.file) as Arc<dyn Syncer>
    }
}

impl Drop for SimulatedWriter {
    fn drop(&mut self) {
        // As the real one: for files that nobody syncs.
        let open = &self.file.open;
        if open.check().is_ok()
            && let Err(error) = self.file.flush()
        {
            *open.untold.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

/// A log of fixed capacity.
#[derive(Debug)]
pub(in crate::storage) struct SimulatedLog {
    open: Arc<Open>,
    capacity: u64,
    len: u64,
}

impl SimulatedLog {
    pub(in crate::storage) fn new(
        shared: &Arc<Shared>,
        file: File,
        path: &Path,
        capacity: u64,
    ) -> SimulatedLog {
        SimulatedLog { open: Open::new(shared, file, path), capacity, len: 0 }
    }
}

impl LogFile for SimulatedLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.concat();
        if bytes.len() as u64 > self.remaining() {
            return Err(Error::NoSpace { context: format!("append to {}", self.open.path.display()) });
        }
        self.open.append(self.len, &bytes)?;
        self.open.shared.counters.add_written(IoClass::Wal, bytes.len() as u64);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn remaining(&self) -> u64 {
        self.capacity - self.len
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.open) as Arc<dyn Syncer>
    }
}

/// A file open for reading.
#[derive(Debug)]
pub(in crate::storage) struct SimulatedReader {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
    len: u64,
}

impl SimulatedReader {
    pub(in crate::storage) fn new(shared: &Arc<Shared>, file: File, path: &Path) -> SimulatedReader {
        let len = file.state().current.len;
        SimulatedReader { shared: Arc::clone(shared), file, path: path.to_path_buf(), len }
    }
}

impl ReadFile for SimulatedReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        disk.check_fault(FaultKind::Read, &self.path)?;
        drop(disk);
        let state = self.file.state();
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > state.current.len) {
            return Err(io_error("read past the end of", &self.path, ErrorKind::UnexpectedEof));
        }
        state.current.read(offset, buf);
        self.shared.counters.add_read(class, buf.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
