//! What a store may cost that somebody else has made to do harm (`Builder::untrusted`), and what is looked at before it is read.
//!
//! ```text
//! manifest: its length ─► trees: tables, levels, range tombstones ─► tables: what each keeps in memory ─► every byte verified
//! ```
//! Decoders compare every size and count with the bytes that are there. What is left to bound here is how much more a few bytes may
//! become in memory: packed indexes, range tombstones, tables that a manifest names.

use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::db::reading::verify::verify;
use crate::db::store::state::Store;
use crate::table::block_cache::BlockCache;
use crate::table::reader::TableReader;
use crate::version::version_set::VersionSet;

/// Tables of an untrusted store. All are held open.
const TABLES_MAX: u64 = 100_000;

/// Levels of its trees; nobody makes half as many.
const LEVELS_MAX: u64 = 64;

/// What a manifest names takes up to so many times its bytes in memory.
const MANIFEST_GROWS: u64 = 32;

/// What a range tombstone takes in memory, of a byte in the file.
const RANGE_BYTES: u64 = 64;

/// How a store is opened to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For what is kept of it in memory.
    pub memory_bytes: u64,
    /// Nothing about it is believed.
    pub untrusted: bool,
}

impl Limits {
    /// Before a manifest of so many bytes is read.
    ///
    /// # Errors
    /// `Limit`, as of all here.
    pub fn check_manifest(self, bytes: u64) -> Result<()> {
        self.at_most(
            "manifest of an untrusted store (option memory_bytes)",
            bytes,
            self.memory_bytes / MANIFEST_GROWS,
        )
    }

    /// Before a file is read from its end to its start: one of zeros only takes no memory, but time.
    pub fn check_file(self, bytes: u64) -> Result<()> {
        self.at_most("file of an untrusted store (option memory_bytes)", bytes, self.memory_bytes)
    }

    /// Before a table is opened.
    pub fn check_trees(self, versions: &VersionSet) -> Result<()> {
        let (mut tables, mut ranges) = (0, 0_u64);
        for tree in versions.trees().values() {
            self.at_most(
                "number of levels of an untrusted store",
                tree.version.levels.len() as u64,
                LEVELS_MAX,
            )?;
            for (_, table) in tree.version.tables() {
                tables += 1;
                ranges = ranges.saturating_add(table.meta.range_tombstones);
            }
        }
        self.at_most("number of tables of an untrusted store", tables, TABLES_MAX)?;
        let bytes = ranges.saturating_mul(RANGE_BYTES);
        self.at_most("range tombstones of an untrusted store (option memory_bytes)", bytes, self.memory_bytes)
    }

    /// Before anybody reads it: every byte is whole, and what its tables keep in memory fits.
    ///
    /// # Errors
    /// `Corruption` of the first damage too.
    pub fn check_store(self, store: &Store) -> Result<()> {
        if !self.untrusted {
            return Ok(());
        }
        let mut bytes = 0_u64;
        for keyspace in store.keyspaces.load().by_name.values() {
            let version = Arc::clone(&keyspace.view.load().version);
            for (_, table) in version.tables() {
                let path = store.tables.path(table.id());
                let file = store.fs.open(&path).map_err(|e| e.or_missing(&path))?;
                let none = Arc::new(BlockCache::new(0, 4096));
                let reader = TableReader::open(file, &table.meta, none, IoClass::Client)?;
                bytes = bytes.saturating_add(reader.open_bytes());
                let what = "indexes and range tombstones of an untrusted store (option memory_bytes)";
                self.at_most(what, bytes, self.memory_bytes)?;
            }
        }
        verify(store).map(drop)
    }

    fn at_most(self, what: &'static str, bytes: u64, max: u64) -> Result<()> {
        if self.untrusted && bytes > max {
            return Err(Error::Limit { what, bytes, max });
        }
        Ok(())
    }
}
