//! What the simulated disk remembers: for each file and directory what is durable, what a reader sees now, and the
//! operations that lie between the two, in the order in which they were made.
//!
//! ```text
//! durable ── write, write, set length ──► current        sync: durable = current
//! durable ── create, rename, remove   ──► current        sync_dir: the same for a directory
//! ```
//!
//! Every operation has a place in one order over the whole disk, so that a crash can keep a prefix of all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use crate::base::locks::{Mutex, MutexGuard};

/// A file's bytes. Those between the end of `data` and `len` are zeros, so a large empty log costs nothing. A copy shares
/// the bytes until one of the two changes, so that a disk can be copied at every call.
#[derive(Clone, Debug, Default)]
pub(in crate::storage) struct Image {
    data: Arc<Vec<u8>>,
    pub(in crate::storage) len: u64,
}

impl Image {
    pub(in crate::storage) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        let data = Arc::make_mut(&mut self.data);
        if data.len() < to {
            data.resize(to, 0);
        }
        data[from..to].copy_from_slice(bytes);
        self.len = self.len.max(to as u64);
    }

    pub(in crate::storage) fn set_len(&mut self, len: u64) {
        if self.data.len() as u64 > len {
            Arc::make_mut(&mut self.data).truncate(len as usize);
        }
        self.len = len;
    }

    /// Fills `out` from `offset`; the caller has compared with `len`.
    pub(in crate::storage) fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let from = (offset as usize).min(self.data.len());
        let to = (offset as usize + out.len()).min(self.data.len());
        out[..to - from].copy_from_slice(&self.data[from..to]);
    }

    pub(in crate::storage) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.data.to_vec();
        bytes.resize(self.len as usize, 0);
        bytes
    }
}

/// A change of a file that is not durable yet.
#[derive(Clone, Debug)]
pub(in crate::storage) enum FileOp {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

/// A file, whatever names it has.
#[derive(Clone, Debug, Default)]
pub(in crate::storage) struct FileState {
    pub(in crate::storage) durable: Image,
    pub(in crate::storage) current: Image,
    /// With each change its place in the disk's order.
    pub(in crate::storage) pending: Vec<(u64, FileOp)>,
}

impl FileState {
    pub(in crate::storage) fn apply(&mut self, order: u64, op: FileOp) {
        match &op {
            FileOp::Write { offset, bytes } => self.current.write(*offset, bytes),
            FileOp::SetLen(len) => self.current.set_len(*len),
        }
        self.pending.push((order, op));
    }

    pub(in crate::storage) fn sync(&mut self) {
        for (_, op) in std::mem::take(&mut self.pending) {
            match op {
                FileOp::Write { offset, bytes } => self.durable.write(offset, &bytes),
                FileOp::SetLen(len) => self.durable.set_len(len),
            }
        }
    }
}

/// A file that directories and handles share. Locked only while the disk is locked, or to read.
#[derive(Clone, Debug, Default)]
pub(in crate::storage) struct File(Arc<Mutex<FileState>>);

impl File {
    pub(in crate::storage) fn new(state: FileState) -> File {
        File(Arc::new(Mutex::new(state)))
    }

    pub(in crate::storage) fn state(&self) -> MutexGuard<'_, FileState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::storage) fn is(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What tells files apart.
    pub(in crate::storage) fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// Names in a directory.
pub(in crate::storage) type Entries = BTreeMap<String, File>;

/// A change of a directory that is not durable yet.
#[derive(Clone, Debug)]
pub(in crate::storage) enum EntryOp {
    Create { name: String, file: File },
    Rename { from: String, to: String, file: File },
    Remove { name: String, file: File },
}

impl EntryOp {
    /// Makes the change where it fits. A crash may have kept a later change and lost an earlier one, so the names need
    /// not be as they were.
    pub(in crate::storage) fn apply(&self, entries: &mut Entries) {
        match self {
            EntryOp::Create { name, file } => {
                entries.insert(name.clone(), file.clone());
            }
            EntryOp::Rename { from, to, file } => {
                if entries.get(from).is_some_and(|there| there.is(file)) {
                    entries.remove(from);
                }
                entries.insert(to.clone(), file.clone());
            }
            EntryOp::Remove { name, file } => {
                if entries.get(name).is_some_and(|there| there.is(file)) {
                    entries.remove(name);
                }
            }
        }
    }

    /// The same change with the files that `rebuilt` gives for the old ones.
    pub(in crate::storage) fn with_files(&self, mut rebuilt: impl FnMut(&File) -> File) -> EntryOp {
        match self {
            EntryOp::Create { name, file } => EntryOp::Create { name: name.clone(), file: rebuilt(file) },
            EntryOp::Rename { from, to, file } => {
                EntryOp::Rename { from: from.clone(), to: to.clone(), file: rebuilt(file) }
            }
            EntryOp::Remove { name, file } => EntryOp::Remove { name: name.clone(), file: rebuilt(file) },
        }
    }
}

/// A directory. Making and removing one is durable at once, renaming it is not.
#[derive(Clone, Debug, Default)]
pub(in crate::storage) struct Directory {
    pub(in crate::storage) durable: Entries,
    pub(in crate::storage) current: Entries,
    /// With each change its place in the disk's order.
    pub(in crate::storage) pending: Vec<(u64, EntryOp)>,
    /// What it was called before a rename that is not durable, and the rename's place in the order. Syncing the parent
    /// makes it durable.
    pub(in crate::storage) was: Option<(u64, PathBuf)>,
}

impl Directory {
    pub(in crate::storage) fn apply(&mut self, order: u64, op: EntryOp) {
        op.apply(&mut self.current);
        self.pending.push((order, op));
    }

    pub(in crate::storage) fn sync(&mut self) {
        for (_, op) in std::mem::take(&mut self.pending) {
            op.apply(&mut self.durable);
        }
    }
}

/// All directories by path.
pub(in crate::storage) type Tree = BTreeMap<PathBuf, Directory>;
