//! Files on an emulated device: another file system, whose bytes go through a [`Device`] as well.
//!
//! ```text
//! read      in line, then read the file, then wait for what is left of its time: in the page cache or not
//! append    to a table, the manifest: the same each 64 KiB; a flush and a sync wait until all bytes are through
//! log       each 4 KiB into the line without waiting; a writer waits while more than 1 MiB of all logs is not through
//! sync      also waits until everything that was charged for the file before is through
//! ```
//! Names, directories, truncations and space cost nothing, and so do the log's preallocation and unlinks. A file that is
//! dropped without a sync still occupies the device with what nobody has waited for.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::locks::Mutex;
use crate::base::units::{KIB, MIB};
use crate::observe::io_counters::IoCounters;
use crate::storage::aligned::PAGE;
use crate::storage::device::{Device, Due};
use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, Syncer, WritableFile};

/// Appends to a file are charged together up to this much, as they are handed over on a real disk.
const WRITE_BYTES: u64 = 64 * KIB;
/// The same for a log.
const LOG_BYTES: u64 = 4 * KIB;
/// What may be on its way from a log to the device before its writer waits: the page cache of a slow disk.
const LOG_BEHIND_MAX: u64 = MIB;

/// A file system on a device: every byte that is read or written through it takes its time there.
#[derive(Debug)]
pub struct DeviceFileSystem {
    base: Arc<dyn FileSystem>,
    device: Arc<Device>,
    behind: Arc<Mutex<Behind>>,
}

impl DeviceFileSystem {
    /// The files of `base`, at the speed of `device` or that of the disk below, whichever is less.
    pub fn new(base: Arc<dyn FileSystem>, device: Arc<Device>) -> DeviceFileSystem {
        DeviceFileSystem { base, device, behind: Arc::default() }
    }

    fn charge(&self) -> Arc<Charge> {
        let (pending, due) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Charge { device: Arc::clone(&self.device), pending, due })
    }

    fn writer(&self, base: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(DeviceWriter { base, charge: self.charge() })
    }

    fn reader(&self, base: Arc<dyn ReadFile>, direct: bool) -> Arc<dyn ReadFile> {
        Arc::new(DeviceReader { base, device: Arc::clone(&self.device), direct })
    }
}

impl FileSystem for DeviceFileSystem {
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>> {
        Ok(self.writer(self.base.create(path, class)?))
    }

    fn create_direct(&self, path: &Path, class: IoClass) -> Result<Option<Box<dyn WritableFile>>> {
        Ok(self.base.create_direct(path, class)?.map(|file| self.writer(file)))
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        let base = self.base.create_log(path, capacity, recycle)?;
        Ok(Box::new(DeviceLog { base, charge: self.charge(), behind: Arc::clone(&self.behind) }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(self.reader(self.base.open(path)?, false))
    }

    fn open_direct(&self, path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        Ok(self.base.open_direct(path)?.map(|file| self.reader(file, true)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.base.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.base.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.base.hard_link(from, to)
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> Result<()> {
        self.base.rename_dir(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.base.remove_dir(dir)
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        self.base.truncate(path, len)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.base.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.base.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.base.is_dir(path)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.base.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.base.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.base.lock(path)
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.base.free_space(dir)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.base.counters()
    }
}

/// What a file being written owes the device; shared with its syncers.
#[derive(Debug)]
struct Charge {
    device: Arc<Device>,
    /// Bytes appended and not charged yet.
    pending: AtomicU64,
    /// When all that is charged will be through.
    due: AtomicU64,
}

impl Charge {
    /// Counts appended bytes; answers what is to be charged once that is `enough`.
    fn add(&self, bytes: u64, enough: u64) -> u64 {
        let pending = self.pending.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if pending < enough { 0 } else { self.pending.swap(0, Ordering::AcqRel) }
    }

    /// Charges `bytes` as one piece, without waiting.
    fn put(&self, bytes: u64) -> Due {
        let due = self.device.charge(bytes);
        self.due.fetch_max(due.0, Ordering::AcqRel);
        due
    }

    /// Charges what is pending, without waiting. It is less than a piece.
    fn put_pending(&self) {
        self.put(self.pending.swap(0, Ordering::AcqRel));
    }

    /// Waits until all that was charged is through.
    fn wait(&self) {
        self.device.wait_until(Due(self.due.load(Ordering::Acquire)));
    }
}

/// Makes a file durable, and waits for the device.
#[derive(Debug)]
struct DeviceSyncer {
    base: Arc<dyn Syncer>,
    charge: Arc<Charge>,
}

impl Syncer for DeviceSyncer {
    fn sync(&self) -> Result<()> {
        self.sync_by(|base| base.sync())
    }

    fn sync_at_end(&self) -> Result<()> {
        self.sync_by(|base| base.sync_at_end())
    }
}

impl DeviceSyncer {
    fn sync_by(&self, sync: impl FnOnce(&dyn Syncer) -> Result<()>) -> Result<()> {
        self.charge.put_pending();
        sync(&*self.base)?;
        self.charge.wait();
        Ok(())
    }
}

#[derive(Debug)]
struct DeviceWriter {
    base: Box<dyn WritableFile>,
    charge: Arc<Charge>,
}

impl WritableFile for DeviceWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let charge = &self.charge;
        let request = charge.device.begin(charge.add(bytes.len() as u64, WRITE_BYTES));
        self.base.append(bytes)?;
        charge.device.finish(request);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.base.len()
    }

    fn flush(&mut self) -> Result<()> {
        self.charge.put_pending();
        self.base.flush()?;
        self.charge.wait();
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(DeviceSyncer { base: self.base.syncer(), charge: Arc::clone(&self.charge) })
    }
}

impl Drop for DeviceWriter {
    fn drop(&mut self) {
        self.charge.put_pending();
    }
}

#[derive(Debug)]
struct DeviceLog {
    base: Box<dyn LogFile>,
    charge: Arc<Charge>,
    behind: Arc<Mutex<Behind>>,
}

/// What of all logs may not be through: one that is full does not make its successor's writer wait less.
#[derive(Debug, Default)]
struct Behind {
    /// Pieces, and when they will be.
    pieces: VecDeque<(Due, u64)>,
    bytes: u64,
}

impl LogFile for DeviceLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.base.append(parts)?;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let mut rest = self.charge.add(bytes, LOG_BYTES);
        while rest > 0 {
            let piece = rest.min(Device::GRANT_BYTES);
            self.keep_up(piece);
            rest -= piece;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.base.len()
    }

    fn remaining(&self) -> u64 {
        self.base.remaining()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(DeviceSyncer { base: self.base.syncer(), charge: Arc::clone(&self.charge) })
    }

    fn take_memory(&mut self) -> Option<Box<dyn Send>> {
        self.base.take_memory()
    }
}

impl DeviceLog {
    /// Puts a piece into the line, and waits while too much is behind.
    fn keep_up(&self, piece: u64) {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.pieces.push_back((self.charge.put(piece), piece));
        behind.bytes += piece;
        let mut due = None;
        while behind.bytes > LOG_BEHIND_MAX
            && let Some((through, bytes)) = behind.pieces.pop_front()
        {
            behind.bytes -= bytes;
            due = due.max(Some(through));
        }
        drop(behind);
        if let Some(due) = due {
            self.charge.device.wait_until(due);
        }
    }
}

impl Drop for DeviceLog {
    fn drop(&mut self) {
        self.charge.put_pending();
    }
}

#[derive(Debug)]
struct DeviceReader {
    base: Arc<dyn ReadFile>,
    device: Arc<Device>,
    direct: bool,
}

impl DeviceReader {
    /// Bytes that a read asks of the device: whole pages past the page cache, as far as the file goes.
    fn bytes(&self, offset: u64, len: u64) -> u64 {
        if !self.direct || len == 0 {
            return len;
        }
        let page = PAGE as u64;
        let end = offset.saturating_add(len).checked_next_multiple_of(page).unwrap_or(u64::MAX);
        end.min(self.base.len()).saturating_sub(offset / page * page)
    }
}

impl ReadFile for DeviceReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        let request = self.device.begin(self.bytes(offset, buf.len() as u64));
        self.base.read_at(offset, buf, class)?;
        match class {
            IoClass::Client => self.device.finish_read(request),
            _ => self.device.finish(request),
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.base.len()
    }

    fn path(&self) -> &Path {
        self.base.path()
    }
}

#[cfg(test)]
#[path = "device_files_tests.rs"]
mod tests;
