//! coordinode-lsm-tree: an LSM tree without a log and without threads; both are its user's to bring.
//!
//! This file brings the least that a service would: one thread that flushes, one that compacts, writers that wait when
//! memtables or runs pile up. Without a log it is measured with `no-wal` alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use evenkeel_lab::run::engine::{Change, Engine, EngineError, Figures, Scanned};
use lsm_tree::compaction::{CompactionAction, CompactionStrategy, Leveled};
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, SeqNo, SequenceNumberCounter, WriteBatch,
};
use serde_json::Value;

use crate::account::{Account, crate_version, disk_bytes};
use crate::asked::Asked;

/// Runs in L0 at which writers wait: RocksDB's and fjall's figure for slowing down.
const L0_RUNS_MAX: usize = 20;

/// An open tree and its threads.
pub struct Coordinode {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    dir: PathBuf,
    account: Account,
}

struct Shared {
    tree: AnyTree,
    sequence: SequenceNumberCounter,
    memtable_bytes: u64,
    memtables: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    flushing: bool,
    /// Something was flushed since the last look for a compaction.
    compaction_due: bool,
    compacting: bool,
    closing: bool,
    failure: Option<String>,
}

/// Opens one in an empty directory.
pub fn open(asked: &Asked) -> Result<(Coordinode, BTreeMap<String, Value>), EngineError> {
    asked.has_no("coordinode", &["background_threads"])?;
    let account = Account::new();
    let common = asked.common;
    let sequence = SequenceNumberCounter::default();
    let cache = Arc::new(Cache::with_capacity_bytes(common.cache_bytes));
    let mut config =
        Config::new(&asked.dir, sequence.clone(), SequenceNumberCounter::default()).use_cache(cache);
    let mut told = vec![
        ("cache", common.cache_bytes.into()),
        ("memtable_bytes", common.memtable_bytes.into()),
        ("memtables", common.memtables.into()),
        ("threads", "one flushes, one compacts".into()),
    ];
    if asked.equal() {
        let bloom = BloomConstructionPolicy::BitsPerKey(common.filter_bits as f32);
        config = config
            .data_block_size_policy(BlockSizePolicy::all(common.block_bytes as u32))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
            .compaction_threads(1);
        told.extend([
            ("data_block_size", common.block_bytes.into()),
            ("data_block_compression", "none".into()),
            ("filter_bits_per_key", common.filter_bits.into()),
            ("compaction_threads", 1.into()),
        ]);
    } else {
        told.push(("all_else", "defaults (no compression)".into()));
    }
    let shared = Arc::new(Shared {
        tree: config.open()?,
        sequence,
        memtable_bytes: common.memtable_bytes,
        memtables: common.memtables as usize,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let start = |name: &str, work: fn(&Shared)| {
        let shared = shared.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared))
    };
    let threads = vec![start("flush", Shared::flush_on)?, start("compact", Shared::compact_on)?];
    Ok((Coordinode { shared, threads, dir: asked.dir.clone(), account }, asked.config(&told)))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `busy`, or until something has failed.
    fn wait_while(&self, busy: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, EngineError> {
        let mut state = self.lock();
        while state.failure.is_none() && busy(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.failure {
            Some(failure) => Err(failure.clone().into()),
            None => Ok(state),
        }
    }

    /// A writer has filled the memtable: puts it aside, when there is room for one more.
    fn rotate(&self) -> Result<(), EngineError> {
        let full = || {
            self.tree.sealed_memtable_count() + 1 >= self.memtables || self.tree.l0_run_count() >= L0_RUNS_MAX
        };
        let state = self.wait_while(|_| full())?;
        // Another writer may have done it meanwhile.
        if self.tree.active_memtable().size() >= self.memtable_bytes {
            self.tree.rotate_memtable();
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The thread that flushes.
    fn flush_on(&self) {
        while let Ok(mut state) =
            self.wait_while(|state| !state.closing && self.tree.sealed_memtable_count() == 0)
        {
            if state.closing {
                return;
            }
            state.flushing = true;
            drop(state);
            let flushed = self.tree.flush(&self.tree.get_flush_lock(), self.sequence.get());
            let mut state = self.lock();
            state.flushing = false;
            state.compaction_due = true;
            if let Err(error) = flushed {
                state.failure = Some(format!("flush: {error}"));
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The thread that compacts.
    fn compact_on(&self) {
        let strategy: Arc<dyn CompactionStrategy> = Arc::new(Leveled::default());
        while let Ok(mut state) = self.wait_while(|state| !state.closing && !state.compaction_due) {
            if state.closing {
                return;
            }
            (state.compaction_due, state.compacting) = (false, true);
            drop(state);
            let done = self.tree.compact(strategy.clone(), self.sequence.get());
            let mut state = self.lock();
            state.compacting = false;
            match done {
                // What was moved or merged may have filled the next level.
                Ok(result) => state.compaction_due |= result.action != CompactionAction::Nothing,
                Err(error) => state.failure = Some(format!("compaction: {error}")),
            }
            drop(state);
            self.changed.notify_all();
        }
    }
}

impl Coordinode {
    fn wrote(&self, bytes: usize, memtable_bytes: u64) -> Result<(), EngineError> {
        self.account.wrote(bytes);
        if memtable_bytes >= self.shared.memtable_bytes { self.shared.rotate() } else { Ok(()) }
    }
}

impl Drop for Coordinode {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that died has said so by then.
            let _ = thread.join();
        }
    }
}

/// What a scan came to.
fn count(entries: impl Iterator<Item: Guard>) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned::default();
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        scanned.entries += 1;
        scanned.bytes += (key.len() + value.len()) as u64;
    }
    Ok(scanned)
}

impl Engine for Coordinode {
    fn name(&self) -> &'static str {
        "coordinode"
    }

    fn version(&self) -> String {
        crate_version("coordinode-lsm-tree")
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let (_, memtable) = self.shared.tree.insert(key, value, self.shared.sequence.next());
        self.wrote(key.len() + value.len(), memtable)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.shared.tree.get(key, SeqNo::MAX)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        count(self.shared.tree.range(from.., SeqNo::MAX, None).take(limit))
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        count(self.shared.tree.range(..=from, SeqNo::MAX, None).rev().take(limit))
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        if from >= to {
            return Ok(Scanned::default());
        }
        count(self.shared.tree.range(from..to, SeqNo::MAX, None))
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        let (_, memtable) = self.shared.tree.remove(key, self.shared.sequence.next());
        self.wrote(key.len(), memtable)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.shared.tree.remove_range(from, to, self.shared.sequence.next());
        self.wrote(from.len() + to.len(), 0)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::new();
        let mut bytes = 0;
        for (i, change) in changes.iter().enumerate() {
            // It refuses a delete and an insert of one key in a batch; the last is what would be left.
            if changes.iter().skip(i + 1).any(|later| later.key() == change.key()) {
                continue;
            }
            match *change {
                Change::Put(key, value) => {
                    bytes += key.len() + value.len();
                    batch.insert(key, value);
                }
                Change::Delete(key) => {
                    bytes += key.len();
                    batch.remove(key);
                }
            }
        }
        let (_, memtable) = self.shared.tree.apply_batch(batch, self.shared.sequence.next())?;
        self.wrote(bytes, memtable)
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        let busy = |state: &State| {
            state.flushing
                || state.compaction_due
                || state.compacting
                || self.shared.tree.sealed_memtable_count() > 0
        };
        self.shared.wait_while(busy).map(drop)
    }

    fn figures(&self) -> Figures {
        Figures {
            write_amplification: self.account.write_amplification(),
            l0_runs: Some(self.shared.tree.l0_run_count() as u64),
            ..Figures::default()
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.dir)
    }
}
