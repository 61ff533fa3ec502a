//! fjall, an LSM tree in Rust.
//!
//! `recommended` is its defaults with the cache its documentation asks one to size; `equal` sets the common options. It has
//! no way to go without its journal, and no range deletes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_lab::base::clock;
use evenkeel_lab::run::engine::{Abilities, Change, Engine, EngineError, Figures, Scanned};
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde_json::Value;

use super::cannot;
use crate::account::{Account, crate_version, disk_bytes};
use crate::asked::{Asked, Durability};

/// What it can do.
pub const ABILITIES: Abilities = Abilities { delete_range: false, batches: true, scan_down: true };

/// It does not tell when it is idle: nothing in flight for this many looks in a row is taken for it.
const CALM_LOOKS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An open database.
pub struct Fjall {
    db: Database,
    keyspace: Keyspace,
    sync: bool,
    dir: PathBuf,
    account: Account,
}

/// Opens one in an empty directory.
pub fn open(asked: &Asked) -> Result<(Fjall, BTreeMap<String, Value>), EngineError> {
    let account = Account::new();
    let common = asked.common;
    let mut told =
        vec![("cache_size", common.cache_bytes.into()), ("max_memtable_size", common.memtable_bytes.into())];
    asked.has_no("fjall", &["memtables"])?;
    told.push(("memtables", "its own: writers halt when four are full".into()));
    let mut builder = Database::builder(&asked.dir).cache_size(common.cache_bytes);
    let mut options = KeyspaceCreateOptions::default().max_memtable_size(common.memtable_bytes);
    if asked.equal() {
        builder = builder
            .worker_threads(common.background_threads as usize)
            .journal_compression(CompressionType::None);
        let bloom = BloomConstructionPolicy::BitsPerKey(common.filter_bits as f32);
        options = options
            .data_block_size_policy(BlockSizePolicy::all(common.block_bytes as u32))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)));
        told.extend([
            ("worker_threads", common.background_threads.into()),
            ("journal_compression", "none".into()),
            ("data_block_size", common.block_bytes.into()),
            ("data_block_compression", "none".into()),
            ("bloom_bits_per_key", common.filter_bits.into()),
        ]);
    } else {
        told.push(("all_else", "defaults (lz4 from level 2)".into()));
    }
    let db = builder.open()?;
    let keyspace = db.keyspace("bench", || options)?;
    let sync = asked.durability == Durability::Sync;
    let engine = Fjall { db, keyspace, sync, dir: asked.dir.clone(), account };
    Ok((engine, asked.config(&told)))
}

impl Fjall {
    fn durable(&self) -> Result<(), EngineError> {
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn in_flight(&self) -> bool {
        self.db.outstanding_flushes() > 0
            || self.keyspace.sealed_memtable_count() > 0
            || self.db.active_compactions() > 0
    }
}

/// What a scan came to.
fn count(entries: impl Iterator<Item = fjall::Guard>) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned::default();
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        scanned.entries += 1;
        scanned.bytes += (key.len() + value.len()) as u64;
    }
    Ok(scanned)
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn version(&self) -> String {
        crate_version("fjall")
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.account.wrote(key.len() + value.len());
        self.keyspace.insert(key, value)?;
        self.durable()
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.keyspace.get(key)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        count(self.keyspace.range(from..).take(limit))
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        count(self.keyspace.range(..=from).rev().take(limit))
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        if from >= to { Ok(Scanned::default()) } else { count(self.keyspace.range(from..to)) }
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.account.wrote(key.len());
        self.keyspace.remove(key)?;
        self.durable()
    }

    fn delete_range(&self, _: &[u8], _: &[u8]) -> Result<(), EngineError> {
        Err(cannot("fjall", "delete_range"))
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        // A batch that says nothing stays in a buffer of this process, where a single put goes to the kernel.
        let durability = if self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(durability));
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    self.account.wrote(key.len() + value.len());
                    batch.insert(&self.keyspace, *key, *value);
                }
                Change::Delete(key) => {
                    self.account.wrote(key.len());
                    batch.remove(&self.keyspace, *key);
                }
            }
        }
        Ok(batch.commit()?)
    }

    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        let mut calm = 0;
        while calm < CALM_LOOKS {
            calm = if self.in_flight() { 0 } else { calm + 1 };
            clock::pause(LOOK_EVERY);
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            write_amplification: self.account.write_amplification(),
            compactions: Some(self.db.compactions_completed() as u64),
            l0_runs: Some(self.keyspace.l0_table_count() as u64),
            ..Figures::default()
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.dir)
    }
}
