//! A log of fixed capacity on the real disk, appended to by system calls: what a log is where a mapping cannot be.
//!
//! All blocks are the file's own before the first append, so a full disk shows when the log is made.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{LogFile, Syncer};

/// Opens the appending side of a log whose `capacity` bytes are allocated.
pub(in crate::storage) fn open_log(
    file: File,
    path: &Path,
    capacity: u64,
    counters: Arc<IoCounters>,
) -> Box<dyn LogFile> {
    let shared = Arc::new(Shared { file, path: path.to_path_buf(), failed: AtomicBool::new(false) });
    Box::new(WrittenLog { shared, capacity, len: 0, joined: Vec::new(), counters })
}

#[derive(Debug)]
struct WrittenLog {
    shared: Arc<Shared>,
    capacity: u64,
    len: u64,
    /// Where parts are joined, so that they are one system call; its heap is kept.
    joined: Vec<u8>,
    counters: Arc<IoCounters>,
}

/// What a log and its syncers share.
#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
    failed: AtomicBool,
}

impl LogFile for WrittenLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.shared.check()?;
        self.joined.clear();
        parts.iter().for_each(|part| self.joined.extend_from_slice(part));
        if self.joined.len() as u64 > self.remaining() {
            return Err(Error::NoSpace { context: format!("append to {}", self.shared.path.display()) });
        }
        // `write_all_at` completes short and interrupted writes.
        let written = self.shared.file.write_all_at(&self.joined, self.len);
        written.map_err(|error| self.shared.fail("write", error))?;
        self.len += self.joined.len() as u64;
        self.counters.add_written(IoClass::Wal, self.joined.len() as u64);
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
}

impl Syncer for Shared {
    fn sync(&self) -> Result<()> {
        self.check()?;
        self.file.sync_data().map_err(|error| self.fail("sync", error))?;
        // Another thread's sync of this file may have failed meanwhile and taken the only report of a lost write.
        self.check()
    }
}

impl Shared {
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
