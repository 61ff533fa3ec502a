//! Opens tables when they are first read, and hangs the open reader on the table's facts, where it stays as long as
//! the tree knows the table. There is no map to look into and no lock on the way.

use std::path::PathBuf;
use std::sync::Arc;

use super::block_cache::BlockCache;
use super::meta::TableMeta;
use super::reader::TableReader;
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::TableId;
use crate::storage::file_system::FileSystem;

/// Where tables are, and what their readers share.
#[derive(Clone, Debug)]
pub struct TableCache {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
}

impl TableCache {
    /// Tables of a directory.
    pub fn new(fs: Arc<dyn FileSystem>, dir: PathBuf, block_cache: Arc<BlockCache>) -> TableCache {
        TableCache { fs, dir, block_cache }
    }

    /// The cache that all readers share.
    pub fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// A table's path.
    pub fn path(&self, id: TableId) -> PathBuf {
        self.dir.join(format!("{:06}.sst", id.0))
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
        let file = self.fs.open(&self.path(meta.id))?;
        let reader = TableReader::open(file, meta, Arc::clone(&self.block_cache), class)?;
        let hung: Option<&Arc<TableReader>> = meta.attachment.set(reader);
        hung.ok_or_else(|| Error::invalid(format!("something else hangs on table {}", meta.id)))
    }
}
