//! A file system that calls a test before it looks into a file, makes one or lists a directory: the moment at which something
//! else is to happen, chosen by the test and not by threads.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::locks::Mutex;
use crate::observe::io_counters::IoCounters;
use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, WritableFile};

/// What is called, with the path that is about to be used.
pub type Hook = Box<dyn Fn(&Path) + Send + Sync>;

/// Another file system, and a hook. While the hook runs it is not called.
pub struct HookedFileSystem {
    base: Arc<dyn FileSystem>,
    hook: Mutex<Option<Hook>>,
}

impl HookedFileSystem {
    /// Over `base`, without a hook.
    pub fn new(base: Arc<dyn FileSystem>) -> HookedFileSystem {
        HookedFileSystem { base, hook: Mutex::default() }
    }

    /// Sets the hook.
    pub fn set(&self, hook: Hook) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    fn call(&self, path: &Path) {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook(path);
            self.hook.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(hook);
        }
    }
}

impl fmt::Debug for HookedFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hooked {:?}", self.base)
    }
}

impl FileSystem for HookedFileSystem {
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>> {
        self.call(path);
        self.base.create(path, class)
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        self.base.create_log(path, capacity, recycle)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.call(path);
        self.base.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.base.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.base.remove(path)
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        self.base.truncate(path, len)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.call(dir);
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
