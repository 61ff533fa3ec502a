//! A log of fixed capacity on the real disk.
//!
//! ```text
//! append ─► a mapping of the file (25 ns)                                          ─┐
//!           or, where a mapping cannot be, one write(2) at the cursor (600 ns)      ├─► page cache ── sync ─► fdatasync, at its end fsync
//! ```
//!
//! All blocks are the file's own before the first append, so a full disk shows when the log is made. Either way an
//! appended byte outlives the process.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_sys::MappedLog;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{LogFile, Syncer};

/// How bytes get into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Way {
    /// By a mapping if there can be one, else by system calls.
    Best,
    /// By system calls.
    Written,
}

/// Opens the appending side of a log whose `capacity` bytes are allocated.
pub(in crate::storage) fn open_log(
    file: File,
    path: &Path,
    capacity: u64,
    way: Way,
    counters: Arc<IoCounters>,
) -> io::Result<Box<dyn LogFile>> {
    let (sink, file) = match way {
        Way::Best => map_or_write(file, capacity)?,
        Way::Written => written(Arc::new(file)),
    };
    let shared = Arc::new(Shared { file, path: path.to_path_buf(), failed: AtomicBool::new(false) });
    Ok(Box::new(DiskLog { shared, sink, capacity, len: 0, counters }))
}

fn map_or_write(file: File, capacity: u64) -> io::Result<(Sink, Arc<File>)> {
    let spare = file.try_clone()?;
    match MappedLog::new(file, capacity) {
        Ok(map) => {
            let file = Arc::clone(map.file());
            Ok((Sink::Mapped(map), file))
        }
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(error),
        // Whatever stands against a mapping. If it is the device, the first write or sync will say so.
        Err(_) => Ok(written(Arc::new(spare))),
    }
}

fn written(file: Arc<File>) -> (Sink, Arc<File>) {
    (Sink::Written { joined: Vec::new() }, file)
}

#[derive(Debug)]
struct DiskLog {
    shared: Arc<Shared>,
    sink: Sink,
    capacity: u64,
    len: u64,
    counters: Arc<IoCounters>,
}

#[derive(Debug)]
enum Sink {
    Mapped(MappedLog),
    /// Where parts are joined, so that they are one system call; its heap is kept.
    Written {
        joined: Vec<u8>,
    },
}

/// What a log and its syncers share.
#[derive(Debug)]
struct Shared {
    file: Arc<File>,
    path: PathBuf,
    failed: AtomicBool,
}

impl LogFile for DiskLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.shared.check()?;
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if bytes > self.remaining() {
            return Err(Error::NoSpace { context: format!("append to {}", self.shared.path.display()) });
        }
        let result = match &mut self.sink {
            Sink::Mapped(map) => parts.iter().try_for_each(|part| map.append(part)),
            Sink::Written { joined } => {
                joined.clear();
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                // `write_all_at` completes short and interrupted writes.
                self.shared.file.write_all_at(joined, self.len)
            }
        };
        result.map_err(|error| self.shared.fail("write", error))?;
        self.len += bytes;
        self.counters.add_written(IoClass::Wal, bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn remaining(&self) -> u64 {
        self.capacity - self.len
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.shared) as Arc<dyn Syncer>
    }

    fn take_memory(&mut self) -> Option<Box<dyn Send>> {
        let Sink::Mapped(_) = &self.sink else { return None };
        let map = std::mem::replace(&mut self.sink, Sink::Written { joined: Vec::new() });
        Some(Box::new(map))
    }
}

impl Syncer for Shared {
    fn sync(&self) -> Result<()> {
        self.sync_by(File::sync_data)
    }

    fn sync_at_end(&self) -> Result<()> {
        self.sync_by(File::sync_all)
    }
}

impl Shared {
    fn sync_by(&self, sync: impl Fn(&File) -> std::io::Result<()>) -> Result<()> {
        self.check()?;
        sync(&self.file).map_err(|error| self.fail("sync", error))?;
        // Another thread's sync of this file may have failed meanwhile and taken the only report of a lost write.
        self.check()
    }

    fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Poisoned { cause: format!("{} failed before", self.path.display()) });
        }
        Ok(())
    }

    fn fail(&self, what: &str, error: std::io::Error) -> Error {
        self.failed.store(true, Ordering::Release);
        Error::io(format!("{what} {}", self.path.display()), error)
    }
}
