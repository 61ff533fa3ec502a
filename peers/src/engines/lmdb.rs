//! LMDB by heed: a memory-mapped copy-on-write B-tree. Each put is a transaction.
//!
//! `os` is `MDB_NOSYNC`: pages are written at each commit and survive the death of the process. Its cache is the page cache,
//! so there is no memory to set, and its pages count as memory of the process.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_lab::run::engine::{Change, Engine, EngineError, Figures, Scanned};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use serde_json::Value;

use crate::account::{Account, crate_version, disk_bytes};
use crate::asked::{Asked, Durability};

/// Address space for the map; the file is as long as what is in it.
const MAP_BYTES: usize = 1 << 40;
/// As many threads as a bench may have, and some.
const READERS: u32 = 1100;

/// An open environment.
pub struct Lmdb {
    env: Env,
    table: Database<Bytes, Bytes>,
    dir: PathBuf,
    account: Account,
}

/// Opens one in an empty directory.
pub fn open(asked: &Asked) -> Result<(Lmdb, BTreeMap<String, Value>), EngineError> {
    asked.has_no("LMDB", &["block_bytes", "filter_bits", "background_threads"])?;
    let account = Account::new();
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(READERS);
    let no_sync = asked.durability == Durability::Os;
    if no_sync {
        // SAFETY: without syncs a power cut may damage the file, which is a bench's and thrown away.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the directory is this run's own: nobody else opens or changes the file while it is mapped.
    let env = unsafe { options.open(&asked.dir) }?;
    let mut transaction = env.write_txn()?;
    let table = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    let told = [
        ("map_size", MAP_BYTES.into()),
        ("no_sync", no_sync.into()),
        ("all_else", "defaults; the cache is the page cache".into()),
    ];
    Ok((Lmdb { env, table, dir: asked.dir.clone(), account }, asked.config(&told)))
}

/// What a scan came to.
fn count<'t>(
    entries: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned::default();
    for entry in entries {
        let (key, value) = entry?;
        scanned.entries += 1;
        scanned.bytes += (key.len() + value.len()) as u64;
    }
    Ok(scanned)
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("{}.{}.{} (heed {})", version.major, version.minor, version.patch, crate_version("heed"))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.write(&[Change::Put(key, value)])
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        let transaction = self.env.read_txn()?;
        Ok(self.table.get(&transaction, key)?.map(<[u8]>::len))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        use std::ops::Bound::{Included, Unbounded};
        let transaction = self.env.read_txn()?;
        if from.is_empty() {
            // A bound of no bytes is no key of LMDB's.
            return count(self.table.iter(&transaction)?.take(limit));
        }
        count(self.table.range(&transaction, &(Included(from), Unbounded))?.take(limit))
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        use std::ops::Bound::{Included, Unbounded};
        if from.is_empty() {
            return Ok(Scanned::default());
        }
        let transaction = self.env.read_txn()?;
        count(self.table.rev_range(&transaction, &(Unbounded, Included(from)))?.take(limit))
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if from >= to {
            return Ok(Scanned::default());
        }
        let transaction = self.env.read_txn()?;
        let lower = if from.is_empty() { Unbounded } else { Included(from) };
        count(self.table.range(&transaction, &(lower, Excluded(to)))?)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.write(&[Change::Delete(key)])
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        use std::ops::Bound::{Excluded, Included};
        self.account.wrote(from.len() + to.len());
        let mut transaction = self.env.write_txn()?;
        self.table.delete_range(&mut transaction, &(Included(from), Excluded(to)))?;
        Ok(transaction.commit()?)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        let mut transaction = self.env.write_txn()?;
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    self.account.wrote(key.len() + value.len());
                    self.table.put(&mut transaction, key, value)?;
                }
                Change::Delete(key) => {
                    self.account.wrote(key.len());
                    self.table.delete(&mut transaction, key)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// It has no background work.
    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures { write_amplification: self.account.write_amplification(), ..Figures::default() }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.dir)
    }
}
