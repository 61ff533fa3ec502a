//! Loading sorted records straight into tables, past log and memtables: all visible at once when it is finished.
//!
//! ```text
//! put, put, put ... ─► tables, cut by size, synced by the lane          writers go on; nothing of this is in the tree
//! finish ─► memtables over these keys flushed ─► sequence, log, sync ─► one edit ─► visible
//! ```
//! The records get their sequence when they become visible (`Born::Load`), so no snapshot taken before sees them, and they
//! are newer than everything under them. While it is being finished writers wait, for two syncs and what the flush takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::commit::log_marker;
use crate::base::class::Class;
use crate::base::error::{Error, Result, key_start};
use crate::base::iterator::InternalIterator;
use crate::base::key::{Kind, Trailer};
use crate::base::key_range::KeyRange;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::units::SeqNo;
use crate::db::background::control::{Fails, flush, wait_until};
use crate::db::background::handle::Handle;
use crate::db::jobs::install::install_load;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::execution::output::{OutputShape, TableOutput};
use crate::observe::event::Event;
use crate::table::meta::{Born, TableMeta};
use crate::write::batch::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::write::memtable::Memtable;

/// Tables that may wait for their sync before the next one is begun.
const SYNCING_MAX: usize = 4;

/// How long a wait for a sync lasts at most before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A bulk load under way: sorted records that become visible all at once. Dropped before [`BulkLoad::finish`], it leaves
/// nothing; so does a crash. Memory holds a few blocks, however much is loaded.
///
/// ```
/// # fn main() -> evenkeel::Result<()> {
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let db = evenkeel::Db::open(directory.path(), Default::default())?;
/// let mut load = db.bulk_load()?;
/// for i in 0..1000u32 {
///     load.put(&i.to_be_bytes(), b"loaded")?; // ascending keys
/// }
/// assert!(db.get(&7u32.to_be_bytes())?.is_none());
/// load.finish()?;
/// assert!(db.get(&7u32.to_be_bytes())?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BulkLoad {
    handle: Arc<Handle>,
    keyspace: Arc<KeyspaceState>,
    output: TableOutput<()>,
    table_bytes: u64,
    done: Vec<TableMeta>,
    last_key: Vec<u8>,
    records: u64,
    bytes: u64,
    /// What a write failed of: the load is of no use any more.
    failed: Option<Error>,
}

impl BulkLoad {
    pub(crate) fn new(handle: &Arc<Handle>, keyspace: &Arc<KeyspaceState>) -> Result<BulkLoad> {
        let store = &handle.store;
        store.listener.check_outside()?;
        store.check_takes_writes()?;
        let (strategy, options) = (keyspace.strategy.load(), store.options.load());
        let levels = keyspace.view.load().version.levels.len().max(2);
        let table_bytes = strategy.strategy.cut.table_bytes;
        // It goes as far down as it can.
        let filter_bits = strategy.strategy.filter_bits_at(levels - 1, levels, false).of(options.filter_bits);
        let shape = OutputShape {
            class: Class::Flush,
            born: Born::Load,
            table_bytes,
            filter_bits,
            filter_bits_above: filter_bits,
            reads: None,
            compression: keyspace.style.compression_at(levels - 1, false, &options),
            prefix_rule: keyspace.style.prefix_rule(&options),
            direct: options.direct_flush,
            oldest_tombstone_ms: None,
            cache: None,
        };
        Ok(BulkLoad {
            output: TableOutput::new(Arc::clone(&store.job_context), shape),
            handle: Arc::clone(handle),
            keyspace: Arc::clone(keyspace),
            table_bytes,
            done: Vec::new(),
            last_key: Vec::new(),
            records: 0,
            bytes: 0,
            failed: None,
        })
    }

    /// Adds a record, whose key must be above all before it.
    ///
    /// # Errors
    /// `InvalidArgument` that names both keys if it is not, and `Limit`: the record is left out, and the load may go on. `NoSpace`,
    /// `Io`, `Poisoned`: the load is of no use any more; drop it.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_alive()?;
        for (what, bytes, max) in
            [("key", key.len() as u64, KEY_BYTES_MAX), ("value", value.len() as u64, VALUE_BYTES_MAX)]
        {
            if bytes > max {
                return Err(Error::Limit { what, bytes, max });
            }
        }
        if self.records > 0 && key <= &self.last_key[..] {
            return Err(Error::invalid(format!(
                "a bulk load takes ascending keys: {} comes after {}",
                key_start(key),
                key_start(&self.last_key)
            )));
        }
        let added = self.add(key, value);
        self.noted(added)
    }

    /// Records added so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Makes all records visible, and durable, at once. Writers may go on beside everything before; their writes to the same
    /// keys are then older.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace was dropped meanwhile; `Paused` if memtables had to be flushed for it while background
    /// work is paused; `NoSpace`, `Io`, `Poisoned`. Nothing is visible then, unless the store went read-only: in that case the
    /// next open sees all of it or nothing.
    pub fn finish(mut self) -> Result<()> {
        self.check_alive()?;
        let sealed = self.seal().and_then(|()| self.drain(0));
        self.noted(sealed)?;
        if self.done.is_empty() {
            return Ok(());
        }
        let handle = Arc::clone(&self.handle);
        let outcome = self.install(&handle.store);
        if outcome.is_err() && handle.store.check_writable().is_err() {
            // The manifest may name the tables: the next open knows.
            self.done.clear();
        }
        outcome
    }

    fn check_alive(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.handle.store.check_writable(),
        }
    }

    fn noted(&mut self, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
        }
        outcome
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.output.is_full_at(self.output.open_bytes()) {
            self.seal()?;
            self.drain(SYNCING_MAX)?;
        }
        if !self.output.is_open() {
            self.check_space()?;
        }
        // The sequence is not known yet: readers take it from the table's facts.
        self.output.add(key, Trailer::new(SeqNo(0), Kind::Put), value, false)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// The disk's reserve is for flushes.
    fn check_space(&self) -> Result<()> {
        let store = &self.handle.store;
        let free = store.fs.free_space(&store.dir)?;
        if free.saturating_sub(store.options.load().reserve_bytes) < self.table_bytes {
            let context = format!("bulk load of keyspace `{}`", self.keyspace.name);
            return Err(Error::NoSpace { context });
        }
        Ok(())
    }

    /// Ends the open table, if there is one.
    fn seal(&mut self) -> Result<()> {
        if self.output.is_open() {
            self.output.cut(());
        }
        while self.output.is_sealing() {
            self.output.seal_step()?;
        }
        Ok(())
    }

    /// Takes what is synced, and waits until at most `most` tables are not.
    fn drain(&mut self, most: usize) -> Result<()> {
        let store = &self.handle.store;
        loop {
            store.check_writable()?;
            let told = store.background.told();
            while let Some((table, ())) = self.output.take_done()? {
                self.done.push(table);
            }
            if self.output.syncing() <= most {
                return Ok(());
            }
            let _waits = store.background.caller_waits(false);
            store.background.wait_as_caller(store.background.lock(), told, LOOK_AGAIN);
        }
    }

    fn install(&mut self, store: &Store) -> Result<()> {
        // What has no log survives a crash in the order of writing, so nothing older may still be in memory.
        let all = self.keyspace.no_wal;
        let keys: Vec<KeyRange> =
            if all { vec![KeyRange::all()] } else { self.done.iter().map(TableMeta::bounds).collect() };
        store.listener.check_outside()?;
        store.fs.sync_dir(&store.dir).map_err(|e| store.log_failed(e))?;
        // Most of it now, so that little is left to do while writers wait.
        let view = self.keyspace.view.load_full();
        if view.immutable.iter().chain([&view.active]).any(|m| holds_some(m, &keys)) {
            flush(store, &self.keyspace)?;
        }
        store.wal_files.sync().map_err(|e| store.log_failed(e))?;
        // Writers wait behind this, which may wait for a thread of low priority.
        let _waits = store.background.caller_waits(false);
        let mut commit = store.commit_state();
        store.check_takes_writes()?;
        let Some(open) = commit.memtable(self.keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", self.keyspace.name)));
        };
        if holds_some(open.writer.table(), &keys) {
            open.switch(store.clock.now());
            store.background.work_changed();
        }
        wait_until(store, Fails::Flushes, || {
            !self.keyspace.view.load().immutable.iter().any(|m| holds_some(m, &keys))
        })?;
        // The log must have no gap where these records are, and all that is older must be as durable as they.
        let seq = log_marker(store, &mut commit)?;
        let tables = self.done.iter().cloned();
        let tables = tables.map(|t| Arc::new(TableMeta { seqs: (seq, seq), ..t })).collect();
        let installed = install_load(store, &self.keyspace, tables, seq);
        // Whatever became of it, the log goes on above.
        store.visible.store(seq.0, Ordering::Release);
        drop(commit);
        installed?;
        let ids = self.done.drain(..).map(|table| table.id).collect();
        store.counters.writes.add(self.records);
        store.counters.entries_in.add(self.records);
        store.counters.user_bytes.add(self.bytes);
        store.event(&Event::Loaded {
            keyspace: self.keyspace.id,
            tables: ids,
            records: self.records,
            bytes: self.bytes,
        });
        store.background.work_changed();
        Ok(())
    }
}

impl Drop for BulkLoad {
    fn drop(&mut self) {
        let ids = self.done.drain(..).map(|table| table.id).collect();
        // What cannot be removed is an orphan, which the next open removes.
        let _ = self.output.abandon(ids);
    }
}

/// True if the memtable holds something within one of the ranges.
fn holds_some(memtable: &Memtable, ranges: &[KeyRange]) -> bool {
    if memtable.is_empty() {
        return false;
    }
    let deletes = memtable.ranges().pieces();
    let mut cursor = memtable.cursor();
    ranges.iter().any(|range| {
        // Memory has no read errors; if it had, flushing is the safe answer.
        cursor.seek(&range.lo, Trailer::seek(SeqNo::MAX)).is_err()
            || (cursor.valid() && range.is_below_end(cursor.key()))
            || deletes.iter().any(|piece| reaches_into(piece, range))
    })
}

/// True if one of the range tombstones lies over some key of the range.
fn reaches_into(tombstones: &RangeTombstones, range: &KeyRange) -> bool {
    let mut at: Arc<[u8]> = range.lo.clone();
    loop {
        let stretch = tombstones.stretch(&at);
        if stretch.interval.is_some() {
            return true;
        }
        match stretch.hi.filter(|hi| range.is_below_end(hi) && *hi > &at[..]) {
            Some(hi) => at = hi.into(),
            None => return false,
        }
    }
}
