//! Opens tables when they are first read, and hangs the open reader on the table's facts, where it stays as long as
//! the tree knows the table. There is no map to look into and no lock on the way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::block_cache::BlockCache;
use super::meta::TableMeta;
use super::reader::TableReader;
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::TableId;
use crate::observe::waits::{Cause, wait};
use crate::storage::file_name::FileName;
use crate::storage::file_system::ReadFile;
use crate::storage::table_files::TableFiles;
use crate::storage::transfers::Transfers;

/// Where tables are, and what their readers share.
#[derive(Debug)]
pub struct TableCache {
    files: Arc<TableFiles>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
    direct_reads: AtomicBool,
}

impl TableCache {
    /// Tables of a directory.
    pub fn new(files: Arc<TableFiles>, dir: PathBuf, block_cache: Arc<BlockCache>) -> TableCache {
        TableCache { files, dir, block_cache, direct_reads: AtomicBool::new(false) }
    }

    /// Whether tables opened from now on are read past the page cache.
    pub fn set_direct_reads(&self, direct: bool) {
        self.direct_reads.store(direct, Ordering::Relaxed);
    }

    /// How fast the device moves what flushes and compactions ask of it.
    pub fn transfers(&self) -> &Transfers {
        self.files.transfers()
    }

    /// The table's file once more, for direct reads; `None` where those cannot be.
    pub fn open_direct(&self, meta: &TableMeta) -> Result<Option<Arc<dyn ReadFile>>> {
        let path = self.path(meta.id);
        self.files.open_direct(&path).map_err(|e| e.or_missing(&path))
    }

    /// The cache that all readers share.
    pub fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// A table's path.
    pub fn path(&self, id: TableId) -> PathBuf {
        FileName::Table(id.0).path(&self.dir)
    }

    /// The table's reader; opens it if need be. Two that open it at once agree on one.
    #[inline]
    pub fn reader<'a>(&self, meta: &'a TableMeta, class: IoClass) -> Result<&'a Arc<TableReader>> {
        match meta.attachment.get() {
            Some(reader) => Ok(reader),
            None => self.open(meta, class),
        }
    }

    #[cold]
    fn open<'a>(&self, meta: &'a TableMeta, class: IoClass) -> Result<&'a Arc<TableReader>> {
        let _wait = (class == IoClass::Client).then(|| wait(Cause::Read));
        let path = self.path(meta.id);
        let direct = self.direct_reads.load(Ordering::Relaxed);
        let file = self.files.open(&path, direct).map_err(|e| e.or_missing(&path))?;
        let reader = TableReader::open(file, meta, Arc::clone(&self.block_cache), class)?;
        let hung: Option<&Arc<TableReader>> = meta.attachment.set(reader);
        hung.ok_or_else(|| Error::invalid(format!("something else hangs on table {}", meta.id)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::base::clock::ManualClock;
    use crate::observe::io_counters::IoCounters;
    use crate::storage::file_system::{DirLock, FileSystem, LogFile, WritableFile};
    use crate::table::filter::hash_key;
    use crate::table::reader::ReadStats;
    use crate::table::test_files::{TestTable, put};

    /// Has one table file, and counts how often it is opened.
    #[derive(Debug)]
    struct OneFile {
        path: PathBuf,
        file: Arc<dyn ReadFile>,
        opened: AtomicUsize,
        counters: Arc<IoCounters>,
    }

    fn denied<T>() -> Result<T> {
        Err(Error::invalid("only reading here"))
    }

    impl FileSystem for OneFile {
        fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
            if path != self.path {
                return Err(Error::io(path.display().to_string(), std::io::ErrorKind::NotFound.into()));
            }
            self.opened.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::clone(&self.file))
        }
        fn create(&self, _: &Path, _: IoClass) -> Result<Box<dyn WritableFile>> {
            denied()
        }
        fn create_log(&self, _: &Path, _: u64, _: Option<&Path>) -> Result<Box<dyn LogFile>> {
            denied()
        }
        fn rename(&self, _: &Path, _: &Path) -> Result<()> {
            denied()
        }
        fn remove(&self, _: &Path) -> Result<()> {
            denied()
        }
        fn truncate(&self, _: &Path, _: u64) -> Result<()> {
            denied()
        }
        fn list(&self, _: &Path) -> Result<Vec<String>> {
            denied()
        }
        fn exists(&self, _: &Path) -> Result<bool> {
            denied()
        }
        fn create_dir(&self, _: &Path) -> Result<()> {
            denied()
        }
        fn sync_dir(&self, _: &Path) -> Result<()> {
            denied()
        }
        fn lock(&self, _: &Path) -> Result<Box<dyn DirLock>> {
            denied()
        }
        fn free_space(&self, _: &Path) -> Result<u64> {
            denied()
        }
        fn counters(&self) -> &Arc<IoCounters> {
            &self.counters
        }
    }

    #[test]
    fn a_table_is_opened_once_and_stays_open_with_its_facts() {
        let table = TestTable::write(&[(b"k".to_vec(), put(3), b"v".to_vec())], |_| {});
        let fs = Arc::new(OneFile {
            path: "dir/000009.sst".into(),
            file: table.file(),
            opened: AtomicUsize::new(0),
            counters: Arc::default(),
        });
        let tables = TableCache::new(
            TableFiles::new(fs.clone(), Arc::new(ManualClock::default())),
            "dir".into(),
            Arc::new(BlockCache::new(1 << 20, 4096)),
        );
        for meta in [&table.meta, &table.meta.clone(), &table.meta] {
            let reader = tables.reader(meta, IoClass::Client).unwrap();
            let mut stats = ReadStats::default();
            let found = reader.get(b"k", hash_key(b"k"), put(3), IoClass::Client, &mut stats).unwrap();
            assert_eq!(&*found.unwrap().1, b"v");
        }
        assert_eq!(fs.opened.load(Ordering::Relaxed), 1);
        let missing = crate::table::meta::TableMeta {
            id: TableId(10),
            attachment: crate::table::meta::Attachment::default(),
            ..table.meta.clone()
        };
        assert!(matches!(tables.reader(&missing, IoClass::Client), Err(Error::Corruption { .. })));
    }
}
