//! A file system that holds some files of another one as they were, and keeps what is written in memory: what a store opened
//! read-only lives on. Nothing here can change a byte of the other file system, because nothing here asks it to.
//!
//! ```text
//! hold_file  an open handle: stays readable when the name goes (tables, which never change)
//! hold_image the bytes as they were: for files that are appended to, renamed or overwritten (logs, manifest, CURRENT)
//! create...  a file in memory, within the limit
//! ```
//! An image is taken from its end to its start: of a log that is appended to meanwhile it then has, with every byte, all bytes
//! written before it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::locks::{Mutex, MutexGuard, RwLock};
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, Syncer, WritableFile};

/// An image is read in pieces of this many bytes.
const PIECE: u64 = 64 << 10;

/// The held files.
#[derive(Debug)]
pub struct FrozenFileSystem {
    base: Arc<dyn FileSystem>,
    files: Mutex<BTreeMap<PathBuf, Held>>,
    memory: Arc<Memory>,
}

#[derive(Clone, Debug)]
enum Held {
    File(Arc<dyn ReadFile>),
    Memory(Arc<MemoryFile>),
}

/// Bytes in memory, and how many there may be.
#[derive(Debug)]
struct Memory {
    used: AtomicU64,
    max: u64,
}

impl Memory {
    fn take(&self, bytes: u64) -> Result<()> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.max {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            let what = "log that a read-only open keeps in memory (option memory_bytes)";
            return Err(Error::Limit { what, bytes: used, max: self.max });
        }
        Ok(())
    }
}

/// A file in memory. What lies between the end of `bytes` and `len` is zeros.
#[derive(Debug)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
    len: AtomicU64,
    memory: Arc<Memory>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        self.memory.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

impl MemoryFile {
    fn new(memory: &Arc<Memory>, bytes: Vec<u8>, len: u64) -> Arc<MemoryFile> {
        let (bytes, len) = (RwLock::new(bytes), AtomicU64::new(len));
        Arc::new(MemoryFile { bytes, len, memory: Arc::clone(memory) })
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Appends; the file is then at least as long as what is in it.
    fn append(&self, part: &[u8]) -> Result<()> {
        self.memory.take(part.len() as u64)?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(part);
        self.len.fetch_max(bytes.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn truncate(&self, len: u64) {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let keep = (bytes.len() as u64).min(len) as usize;
        self.memory.used.fetch_sub((bytes.len() - keep) as u64, Ordering::Relaxed);
        bytes.truncate(keep);
        self.len.store(len, Ordering::Release);
    }
}

impl FrozenFileSystem {
    /// Holds nothing of `base` so far; takes at most `bytes_max` of memory.
    pub fn new(base: Arc<dyn FileSystem>, bytes_max: u64) -> Arc<FrozenFileSystem> {
        let memory = Arc::new(Memory { used: AtomicU64::new(0), max: bytes_max });
        Arc::new(FrozenFileSystem { base, files: Mutex::default(), memory })
    }

    /// Holds a file that never changes: it stays readable when its name goes.
    ///
    /// # Errors
    /// `Io` if it is not there (any more).
    pub fn hold_file(&self, path: &Path) -> Result<()> {
        let file = self.base.open(path)?;
        self.files().insert(path.to_path_buf(), Held::File(file));
        Ok(())
    }

    /// Holds the bytes of a file that may be appended to, replaced or overwritten.
    ///
    /// # Errors
    /// `Io` if it is not there (any more), `Limit` if it does not fit into the memory allowed.
    pub fn hold_image(&self, path: &Path, class: IoClass) -> Result<()> {
        let image = self.image(&*self.base.open(path)?, class)?;
        self.files().insert(path.to_path_buf(), Held::Memory(image));
        Ok(())
    }

    /// Lets go of the files that `keep` does not want.
    pub fn retain(&self, keep: impl Fn(&Path) -> bool) {
        self.files().retain(|path, _| keep(path));
    }

    fn image(&self, file: &dyn ReadFile, class: IoClass) -> Result<Arc<MemoryFile>> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut piece = vec![0; PIECE.min(file.len()) as usize];
        let mut end = file.len();
        while end > 0 {
            let start = (end - 1) / PIECE * PIECE;
            let part = piece
                .get_mut(..(end - start) as usize)
                .ok_or_else(|| Error::invalid("a piece is too long"))?;
            file.read_at(start, part, class)?;
            // A log is made long before it is full: the zeros at its end take no memory.
            if bytes.is_empty() && part.iter().any(|byte| *byte != 0) {
                self.memory.take(end)?;
                bytes.resize(end as usize, 0);
            }
            if let Some(to) = bytes.get_mut(start as usize..end as usize) {
                to.copy_from_slice(part);
            }
            end = start;
        }
        Ok(MemoryFile::new(&self.memory, bytes, file.len()))
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Held>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, path: &Path, len: u64) -> Result<Arc<MemoryFile>> {
        let file = MemoryFile::new(&self.memory, Vec::new(), len);
        let mut files = self.files();
        if files.contains_key(path) {
            return Err(Error::io(format!("create {}", path.display()), ErrorKind::AlreadyExists.into()));
        }
        files.insert(path.to_path_buf(), Held::Memory(Arc::clone(&file)));
        Ok(file)
    }
}

fn not_found(what: &str, path: &Path) -> Error {
    Error::io(format!("{what} {}", path.display()), ErrorKind::NotFound.into())
}

impl FileSystem for FrozenFileSystem {
    fn create(&self, path: &Path, _class: IoClass) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(MemoryWriter(self.make(path, 0)?)))
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        if let Some(old) = recycle {
            self.remove(old)?;
        }
        let file = self.make(path, capacity)?;
        Ok(Box::new(MemoryLog { file, written: 0, capacity }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        match self.files().get(path) {
            Some(Held::File(file)) => Ok(Arc::clone(file)),
            Some(Held::Memory(file)) => Ok(Arc::new(MemoryReader {
                file: Arc::clone(file),
                len: file.len(),
                path: path.to_path_buf(),
            })),
            None => Err(not_found("open", path)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(|| not_found("rename", from))?;
        files.insert(to.to_path_buf(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files().remove(path).map(drop).ok_or_else(|| not_found("remove", path))
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        match self.files().get(path) {
            Some(Held::Memory(file)) if len <= file.len() => {
                file.truncate(len);
                Ok(())
            }
            Some(_) => Err(Error::invalid(format!("{} cannot be cut to {len} bytes", path.display()))),
            None => Err(not_found("truncate", path)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let files = self.files();
        let here = files.keys().filter(|path| path.parent() == Some(dir));
        Ok(here.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.files().contains_key(path))
    }

    fn create_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    /// No lock is taken: whoever holds it goes on.
    fn lock(&self, _path: &Path) -> Result<Box<dyn DirLock>> {
        Ok(Box::new(NoLock))
    }

    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(self.memory.max.saturating_sub(self.memory.used.load(Ordering::Relaxed)))
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.base.counters()
    }
}

#[derive(Debug)]
struct NoLock;

impl DirLock for NoLock {}

#[derive(Debug)]
struct MemoryWriter(Arc<MemoryFile>);

impl WritableFile for MemoryWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.append(bytes)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(NoSync)
    }
}

#[derive(Debug)]
struct MemoryLog {
    file: Arc<MemoryFile>,
    written: u64,
    capacity: u64,
}

impl LogFile for MemoryLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.file.append(part)?;
            self.written += part.len() as u64;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.written
    }

    fn remaining(&self) -> u64 {
        self.capacity.saturating_sub(self.written)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(NoSync)
    }
}

/// What is in memory is as durable as it gets.
#[derive(Debug)]
struct NoSync;

impl Syncer for NoSync {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryReader {
    file: Arc<MemoryFile>,
    len: u64,
    path: PathBuf,
}

impl ReadFile for MemoryReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], _class: IoClass) -> Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.file.len()) {
            let context = format!("read {} at {offset}", self.path.display());
            return Err(Error::io(context, ErrorKind::UnexpectedEof.into()));
        }
        let bytes = self.file.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let from = (offset as usize).min(bytes.len());
        let there = bytes.get(from..).unwrap_or_default();
        let (data, zeros) = buf.split_at_mut(there.len().min(buf.len()));
        data.copy_from_slice(there.get(..data.len()).unwrap_or_default());
        zeros.fill(0);
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
mod tests {
    use super::*;
    use crate::storage::simulated::SimulatedFileSystem;

    #[test]
    fn what_is_held_stays_and_what_is_written_stays_here() {
        let disk = SimulatedFileSystem::new();
        let dir = Path::new("/db");
        disk.create_dir(dir).unwrap();
        let path = |name: &str| dir.join(name);
        let log: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
        disk.set_contents(&path("000001.sst"), b"table").unwrap();
        disk.set_contents(&path("000002.log"), &[&log[..], &[0; 300_000]].concat()).unwrap();
        let calls = disk.call_count();
        let frozen = FrozenFileSystem::new(Arc::new(disk.clone()), 300_000);
        frozen.hold_file(&path("000001.sst")).unwrap();
        frozen.hold_image(&path("000002.log"), IoClass::Wal).unwrap();
        assert!(frozen.hold_file(&path("000003.sst")).is_err());
        assert_eq!(frozen.free_space(dir).unwrap(), 300_000 - 4 * 65_536, "zeros take no memory");

        disk.remove(&path("000001.sst")).unwrap();
        disk.set_contents(&path("000002.log"), b"other").unwrap();
        let read = |name: &str| {
            let file = frozen.open(&path(name)).unwrap();
            let mut bytes = vec![1; file.len() as usize];
            file.read_at(0, &mut bytes, IoClass::Client).unwrap();
            assert!(file.read_at(1, &mut bytes, IoClass::Client).is_err());
            bytes
        };
        assert_eq!(read("000001.sst"), b"table");
        let image = read("000002.log");
        assert_eq!((&image[..log.len()], image.len()), (&log[..], 500_000));
        assert!(image[log.len()..].iter().all(|byte| *byte == 0));

        let mut file = frozen.create(&path("000004.sst"), IoClass::Client).unwrap();
        file.append(b"new").unwrap();
        assert_eq!(read("000004.sst"), b"new");
        assert_eq!(file.append(&[0; 100_000]).unwrap_err().kind(), "Limit");
        assert_eq!(frozen.list(dir).unwrap(), ["000001.sst", "000002.log", "000004.sst"]);
        frozen.retain(|path| !path.ends_with("000002.log"));
        file.append(&[0; 100_000]).unwrap();
        assert_eq!(disk.call_count(), calls + 1, "the disk saw the test's own removal only");
    }
}
