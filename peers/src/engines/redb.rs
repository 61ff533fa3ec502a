//! redb, a copy-on-write B-tree in Rust. Each put is a transaction.
//!
//! Its commits are either on the disk (`sync`) or in memory until the next that is (`no-wal`); it knows nothing between.
//! There is little to set: its cache gets the memory that others share between memtables and cache.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_lab::run::engine::{Change, Engine, EngineError, Figures, Scanned};
use redb::{AccessGuard, Database, ReadableDatabase, StorageError, TableDefinition};
use serde_json::Value;

use crate::account::{Account, crate_version, disk_bytes};
use crate::asked::{Asked, Durability};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// An open database.
pub struct Redb {
    db: Database,
    sync: bool,
    dir: PathBuf,
    account: Account,
}

/// Opens one in an empty directory.
pub fn open(asked: &Asked) -> Result<(Redb, BTreeMap<String, Value>), EngineError> {
    asked.has_no("redb", &["block_bytes", "filter_bits", "background_threads"])?;
    let account = Account::new();
    let cache_bytes = asked.common.memory_bytes();
    let db = Database::builder().set_cache_size(cache_bytes as usize).create(asked.dir.join("redb"))?;
    // Readers want the table to be there.
    let transaction = db.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    let told = [("cache_size", cache_bytes.into()), ("all_else", "defaults".into())];
    let sync = asked.durability == Durability::Sync;
    Ok((Redb { db, sync, dir: asked.dir.clone(), account }, asked.config(&told)))
}

impl Redb {
    fn change(
        &self,
        bytes: usize,
        apply: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Result<(), redb::StorageError>,
    ) -> Result<(), EngineError> {
        self.account.wrote(bytes);
        let mut transaction = self.db.begin_write()?;
        if !self.sync {
            transaction.set_durability(redb::Durability::None)?;
        }
        apply(&mut transaction.open_table(TABLE)?)?;
        Ok(transaction.commit()?)
    }
}

type Entry<'t> = (AccessGuard<'t, &'static [u8]>, AccessGuard<'t, &'static [u8]>);

/// What a scan came to.
fn count<'t>(entries: impl Iterator<Item = Result<Entry<'t>, StorageError>>) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned::default();
    for entry in entries {
        let (key, value) = entry?;
        scanned.entries += 1;
        scanned.bytes += (key.value().len() + value.value().len()) as u64;
    }
    Ok(scanned)
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn version(&self) -> String {
        crate_version("redb")
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.change(key.len() + value.len(), |table| table.insert(key, value).map(drop))
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.map(|value| value.value().len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        count(table.range(from..)?.take(limit))
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        count(table.range(..=from)?.rev().take(limit))
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        if from >= to { Ok(Scanned::default()) } else { count(table.range(from..to)?) }
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.change(key.len(), |table| table.remove(key).map(drop))
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.change(from.len() + to.len(), |table| table.retain_in(from..to, |_, _| false))
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        let size = |change: &Change<'_>| match change {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) => key.len(),
        };
        self.change(changes.iter().map(size).sum(), |table| {
            for change in changes {
                match *change {
                    Change::Put(key, value) => drop(table.insert(key, value)?),
                    Change::Delete(key) => drop(table.remove(key)?),
                }
            }
            Ok(())
        })
    }

    /// It has no background work; what is only in memory is brought to disk, so that disk figures mean something.
    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(self.db.begin_write()?.commit()?)
    }

    fn figures(&self) -> Figures {
        Figures { write_amplification: self.account.write_amplification(), ..Figures::default() }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.dir)
    }
}
