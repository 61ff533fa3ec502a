//! Makes and opens table files: past the page cache where that is asked for and the file system can, else through it.
//!
//! What goes past it in large pieces is timed (`transfers.rs`). A refusal is told once, and nobody asks again: all tables lie in one directory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::class::IoClass;
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::storage::file_system::{FileSystem, ReadFile, WritableFile};
use crate::storage::transfers::Transfers;

type Tell = Box<dyn Fn() + Send + Sync>;

/// The way to the table files of one store.
pub struct TableFiles {
    fs: Arc<dyn FileSystem>,
    refused: AtomicBool,
    tell: OnceLock<Tell>,
    transfers: Arc<Transfers>,
}

impl TableFiles {
    /// On this file system.
    pub fn new(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Arc<TableFiles> {
        let transfers = Transfers::new(clock);
        Arc::new(TableFiles { fs, refused: AtomicBool::new(false), tell: OnceLock::new(), transfers })
    }

    /// How fast what goes past the page cache goes.
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Calls `tell` when the file system refuses direct I/O; at once if it has done so already.
    pub fn on_refusal(&self, tell: impl Fn() + Send + Sync + 'static) {
        let tell = self.tell.get_or_init(|| Box::new(tell));
        if self.refused.load(Ordering::Acquire) {
            tell();
        }
    }

    /// Makes a new file for appending.
    pub fn create(&self, path: &Path, class: IoClass, direct: bool) -> Result<Box<dyn WritableFile>> {
        if direct && !self.refused.load(Ordering::Relaxed) {
            match self.fs.create_direct(path, class)? {
                Some(file) => return Ok(self.transfers.writer(file)),
                None => self.refused(),
            }
        }
        self.fs.create(path, class)
    }

    /// Opens a file for reading.
    pub fn open(&self, path: &Path, direct: bool) -> Result<Arc<dyn ReadFile>> {
        let past = if direct { self.past_the_cache(path)? } else { None };
        past.map_or_else(|| self.fs.open(path), Ok)
    }

    /// Opens a file for large direct reads; `None` where those cannot be.
    pub fn open_direct(&self, path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        Ok(self.past_the_cache(path)?.map(|file| self.transfers.reader(file)))
    }

    fn past_the_cache(&self, path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        if self.refused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let file = self.fs.open_direct(path)?;
        if file.is_none() {
            self.refused();
        }
        Ok(file)
    }

    #[cold]
    fn refused(&self) {
        if !self.refused.swap(true, Ordering::AcqRel)
            && let Some(tell) = self.tell.get()
        {
            tell();
        }
    }
}

impl std::fmt::Debug for TableFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.refused.load(Ordering::Relaxed) { "direct I/O was refused" } else { "as asked" };
        write!(f, "TableFiles({how})")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::base::clock::ManualClock;
    use crate::storage::simulated::SimulatedFileSystem;

    #[test]
    fn a_refusal_is_told_once_and_costs_nothing_else() {
        let fs = SimulatedFileSystem::new();
        fs.create_dir(Path::new("d")).unwrap();
        let files = TableFiles::new(Arc::new(fs.clone()), Arc::new(ManualClock::default()));
        let told = Arc::new(AtomicUsize::new(0));
        let write = |name: &str, direct| {
            let mut file = files.create(Path::new(name), IoClass::Manifest, direct).unwrap();
            file.append(b"abc").unwrap();
            file.flush().unwrap();
            assert_eq!(files.open(Path::new(name), direct).unwrap().len(), 3);
        };
        write("d/1", false);
        assert_eq!(fs.direct_opens(), 0);
        write("d/2", true);
        assert_eq!(fs.direct_opens(), 2);
        fs.refuse_direct();
        write("d/3", true);
        let counted = Arc::clone(&told);
        files.on_refusal(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        write("d/4", true);
        assert!(files.open_direct(Path::new("d/2")).unwrap().is_none());
        assert_eq!((fs.direct_opens(), told.load(Ordering::Relaxed)), (2, 1));
    }
}
