//! The only way to files. Four kinds of handle, because four things are done with files:
//! append and sync (`WritableFile`: tables, manifest), append to a log at memory speed (`LogFile`), read at an offset
//! (`ReadFile`), and hold a directory (`DirLock`).
//!
//! Every mutating call is one step that a simulated disk can crash at. Syncing is a handle of its own (`Syncer`), so
//! that a lane can sync while the writer goes on. A failed sync is never retried on the same file.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::observe::io_counters::IoCounters;

/// A directory tree of files. Directories are made with mode 0700, files with 0600; symlinks are not followed.
pub trait FileSystem: Send + Sync + Debug {
    /// Makes a new file for appending; fails if the name exists. Every byte counts under `class`.
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>>;
    /// As `create`, for bytes that go past the page cache; `None`, with nothing made, where the file system refuses that.
    fn create_direct(&self, _path: &Path, _class: IoClass) -> Result<Option<Box<dyn WritableFile>>> {
        Ok(None)
    }
    /// Makes a log file of a fixed capacity in bytes, renaming `recycle` (a log no longer needed) to it if given.
    /// What a recycled file still holds is garbage to the reader. `NoSpace` shows here, not at an append.
    /// After an error there is nothing of the new name; `recycle` may be there still.
    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>>;
    /// Opens a regular file for reading.
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;
    /// As `open`, for reads past the page cache; `None` where the file system refuses that.
    fn open_direct(&self, _path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        Ok(None)
    }
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives a file a second name, which fails if `to` exists. Where there can be no such link (another file system, or one
    /// without links) the error's source is of kind `CrossesDevices`, `Unsupported` or `TooManyLinks`; then a copy does.
    fn hard_link(&self, _from: &Path, to: &Path) -> Result<()> {
        Err(Error::io(format!("link {}", to.display()), ErrorKind::Unsupported.into()))
    }
    /// Renames a directory; fails if `to` exists.
    fn rename_dir(&self, from: &Path, to: &Path) -> Result<()> {
        self.rename(from, to)
    }
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Err(Error::io(format!("remove {}", dir.display()), ErrorKind::Unsupported.into()))
    }
    /// Shortens a file to `len` bytes, and syncs it.
    fn truncate(&self, path: &Path, len: u64) -> Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// True if there is something of this name.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// True if this name is that of a directory itself, not of a link to one.
    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.exists(path)
    }
    /// Makes a directory and its parents, durably; one that exists is fine.
    fn create_dir(&self, dir: &Path) -> Result<()>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the lock on the file `path`, making it if needed; `Locked` at once if another holds it, in any process or
    /// in this one. The lock ends when the handle is dropped or the process dies.
    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>>;
    /// Bytes free for us on the file system that holds `dir`.
    fn free_space(&self, dir: &Path) -> Result<u64>;
    /// Bytes that this process has had read from devices so far, by whatever file system: what lay in the page cache is not among them.
    /// `None` where nobody knows.
    fn device_reads(&self) -> Option<u64> {
        None
    }
    /// The counters of everything read and written through this file system.
    fn counters(&self) -> &Arc<IoCounters>;
}

/// True if the error says that there can be no hard link here, so that a copy is the way.
pub fn no_link(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::CrossesDevices | ErrorKind::Unsupported | ErrorKind::TooManyLinks)
}

/// A file being written from its start to its end.
pub trait WritableFile: Send + Debug {
    /// Appends all of `bytes`. Dirty bytes handed to the kernel are bounded: writeback starts each MiB.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Bytes appended so far.
    fn len(&self) -> u64;
    /// True if nothing has been appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Hands what is buffered to the kernel: readable by others, not durable yet.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// A handle that makes durable what has been appended when it is called.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// A log of fixed capacity. An append is a copy into a mapping where that can be, else a system call.
pub trait LogFile: Send + Debug {
    /// Appends the parts as one piece. The caller has checked `remaining`.
    fn append(&mut self, parts: &[&[u8]]) -> Result<()>;
    /// Bytes appended so far.
    fn len(&self) -> u64;
    /// True if nothing has been appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes that still fit.
    fn remaining(&self) -> u64;
    /// A handle that makes durable what has been appended when it is called.
    fn syncer(&self) -> Arc<dyn Syncer>;
    /// Little more will be appended: hands out what memory is held to make appends fast. Dropping it takes a while.
    fn take_memory(&mut self) -> Option<Box<dyn Send>> {
        None
    }
}

/// Makes appended bytes durable. One failure is final for the file.
pub trait Syncer: Send + Sync + Debug {
    /// Returns when everything appended before the call is on the disk.
    fn sync(&self) -> Result<()>;

    /// The same for a file that nothing more is appended to, with all that the system keeps about it: who uses the file again begins with
    /// a clean one. One whose times alone are still to be written has its age for Linux, which half a minute after that writes back, and
    /// write-protects, whatever is in it by then.
    fn sync_at_end(&self) -> Result<()> {
        self.sync()
    }
}

/// A file open for reading.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` from `offset`; an end of the file before that is an error. Counts under `class`.
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()>;
    /// The file's length in bytes when it was opened.
    fn len(&self) -> u64;
    /// True if the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The file's path, for messages.
    fn path(&self) -> &Path;
}

/// A held lock; dropping it lets go.
pub trait DirLock: Send + Sync + Debug {}
