//! The simulated disk's one piece of state: its tree, the count of calls, planned crash and faults, limit and locks.
//!
//! Every call that changes the disk passes through `begin`, which numbers it and says whether the machine outlives it.
//! The lock on [`Disk`] is taken before that of any file.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::locks::{Mutex, MutexGuard};
use crate::observe::io_counters::IoCounters;
use crate::storage::fault::{FaultKind, Faults};
use crate::storage::simulated_crash::copied;
use crate::storage::simulated_state::{Directory, EntryOp, File, FileOp, FileState, Tree};

/// Free bytes of a disk on which no limit was set.
const FREE_BYTES: u64 = 1 << 40;

/// A call that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// `create`.
    Create,
    /// `create_log`.
    CreateLog,
    /// `append`, to a file or a log.
    Append,
    /// `sync` of a file.
    Sync,
    /// `truncate`.
    Truncate,
    /// `rename`.
    Rename,
    /// `remove`.
    Remove,
    /// `hard_link`.
    Link,
    /// `rename_dir`.
    RenameDir,
    /// `remove_dir`.
    RemoveDir,
    /// `create_dir`.
    CreateDir,
    /// `sync_dir`.
    SyncDir,
}

/// One call that changed the disk, or was about to when the machine crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it did.
    pub kind: CallKind,
    /// To which file; of a rename, the new name.
    pub path: PathBuf,
}

/// What the disk and its open files share.
#[derive(Debug, Default)]
pub(in crate::storage) struct Shared {
    pub(in crate::storage) disk: Mutex<Disk>,
    pub(in crate::storage) counters: Arc<IoCounters>,
}

impl Shared {
    pub(in crate::storage) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that changes.
#[derive(Debug, Default)]
pub(in crate::storage) struct Disk {
    pub(in crate::storage) tree: Tree,
    pub(in crate::storage) calls: Vec<Call>,
    pub(in crate::storage) order: u64,
    pub(in crate::storage) crash_at: Option<u64>,
    pub(in crate::storage) crashed: bool,
    pub(in crate::storage) faults: Faults,
    /// All files together may have this many bytes.
    pub(in crate::storage) bytes_max: Option<u64>,
    pub(in crate::storage) locks: BTreeSet<PathBuf>,
    /// Direct I/O is refused, as some file systems do.
    pub(in crate::storage) refuses_direct: bool,
    /// Files made or opened for direct I/O.
    pub(in crate::storage) direct_opens: u64,
    /// If asked for: the tree before each call, with the call's number.
    pub(in crate::storage) recorded: Option<Vec<(u64, Tree)>>,
}

/// Whether the machine outlives the call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(in crate::storage) enum Step {
    Lives,
    /// What the call changed may survive the crash, like all that is not synced, but its caller never hears of it.
    Dies,
}

impl Step {
    pub(in crate::storage) fn finish(self) -> Result<()> {
        match self {
            Step::Lives => Ok(()),
            Step::Dies => Err(crash_error()),
        }
    }
}

impl Disk {
    /// Counts a call that changes the disk. Fails if the machine is down.
    pub(in crate::storage) fn begin(&mut self, kind: CallKind, path: &Path) -> Result<Step> {
        self.check_up()?;
        if let Some(recorded) = &mut self.recorded {
            recorded.push((self.calls.len() as u64 + 1, copied(&self.tree)));
        }
        self.calls.push(Call { kind, path: path.to_path_buf() });
        self.order += 1;
        if self.crash_at.is_some_and(|at| self.calls.len() as u64 >= at) {
            self.crashed = true;
            return Ok(Step::Dies);
        }
        Ok(Step::Lives)
    }

    /// The place of the call under way in the disk's order.
    pub(in crate::storage) fn order(&self) -> u64 {
        self.order
    }

    pub(in crate::storage) fn check_up(&self) -> Result<()> {
        if self.crashed { Err(crash_error()) } else { Ok(()) }
    }

    pub(in crate::storage) fn check_fault(&mut self, kind: FaultKind, path: &Path) -> Result<()> {
        self.faults.check(kind, path)
    }

    /// Bytes by which files may still grow.
    pub(in crate::storage) fn free(&self) -> u64 {
        self.bytes_max.map_or(FREE_BYTES, |max| max.saturating_sub(self.used()))
    }

    pub(in crate::storage) fn used(&self) -> u64 {
        let mut seen = BTreeSet::new();
        let files = self.tree.values().flat_map(|dir| dir.current.values());
        // A file of two names has its bytes once.
        files.filter(|file| seen.insert(file.key())).map(|file| file.state().current.len).sum()
    }

    pub(in crate::storage) fn directory(&mut self, dir: &Path) -> Result<&mut Directory> {
        self.tree.get_mut(dir).ok_or_else(|| not_found(dir))
    }

    pub(in crate::storage) fn parent(&mut self, path: &Path) -> Result<(&mut Directory, String)> {
        let dir = path.parent().ok_or_else(|| not_found(path))?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| not_found(path))?.to_owned();
        Ok((self.directory(dir)?, name))
    }

    pub(in crate::storage) fn find(&mut self, path: &Path) -> Result<File> {
        let (dir, name) = self.parent(path)?;
        dir.current.get(&name).cloned().ok_or_else(|| not_found(path))
    }

    pub(in crate::storage) fn check_vacant(&mut self, path: &Path) -> Result<()> {
        let taken = self.tree.contains_key(path) || {
            let (dir, name) = self.parent(path)?;
            dir.current.contains_key(&name)
        };
        if taken { Err(io_error("create", path, ErrorKind::AlreadyExists)) } else { Ok(()) }
    }

    pub(in crate::storage) fn make_file(&mut self, path: &Path) -> Result<File> {
        self.check_vacant(path)?;
        let order = self.order;
        let file = File::new(FileState::default());
        let (dir, name) = self.parent(path)?;
        dir.apply(order, EntryOp::Create { name, file: file.clone() });
        Ok(file)
    }

    pub(in crate::storage) fn rename(&mut self, from: &Path, to: &Path) -> Result<File> {
        if from.parent() != to.parent() {
            return Err(Error::invalid("the simulated disk renames within a directory only"));
        }
        let order = self.order;
        let file = self.find(from)?;
        let (_, from) = self.parent(from)?;
        let (dir, to) = self.parent(to)?;
        dir.apply(order, EntryOp::Rename { from, to, file: file.clone() });
        Ok(file)
    }

    pub(in crate::storage) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.check_vacant(to)?;
        let (order, file) = (self.order, self.find(from)?);
        let (dir, name) = self.parent(to)?;
        dir.apply(order, EntryOp::Create { name, file });
        Ok(())
    }

    /// Only of directories without directories in them.
    pub(in crate::storage) fn rename_dir(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.check_vacant(to)?;
        let parent = to.parent().unwrap_or(to);
        self.directory(parent)?;
        let order = self.order;
        let mut dir = self.tree.remove(from).ok_or_else(|| not_found(from))?;
        dir.was.get_or_insert((order, from.to_path_buf()));
        self.tree.insert(to.to_path_buf(), dir);
        Ok(())
    }

    /// Makes renames of directories in `parent` durable.
    pub(in crate::storage) fn settle_dirs(&mut self, parent: &Path) {
        let below = self.tree.iter_mut().filter(|(path, _)| path.parent() == Some(parent));
        below.for_each(|(_, dir)| dir.was = None);
    }

    pub(in crate::storage) fn make_log(
        &mut self,
        path: &Path,
        capacity: u64,
        recycle: Option<&Path>,
    ) -> Result<File> {
        self.check_vacant(path)?;
        let old_len = match recycle {
            None => 0,
            Some(old) => self.find(old)?.state().current.len,
        };
        if capacity.saturating_sub(old_len) > self.free() {
            return Err(Error::NoSpace { context: format!("create {}", path.display()) });
        }
        let file = match recycle {
            None => self.make_file(path)?,
            Some(old) => self.rename(old, path)?,
        };
        if old_len != capacity {
            file.state().apply(self.order, FileOp::SetLen(capacity));
        }
        Ok(file)
    }
}

pub(in crate::storage) fn crash_error() -> Error {
    Error::io("use the disk", io::Error::other("the simulated machine has crashed"))
}

pub(in crate::storage) fn not_found(path: &Path) -> Error {
    io_error("open", path, ErrorKind::NotFound)
}

pub(in crate::storage) fn io_error(what: &str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(format!("{what} {}", path.display()), kind.into())
}
