//! A keyspace as users hold it: a named map with a tree and a strategy of its own ("column family" elsewhere).

use std::sync::Arc;

use super::background::compact::{CompactOptions, CompactReport, compact};
use super::background::control;
use super::background::handle::Handle;
use super::reading::lookup::{self, Value};
use super::reading::scan::{self, Cursor, Scan, ScanRange};
use super::reports::costs::{self, SpaceReport};
use super::reports::metrics::metrics;
use super::reports::properties;
use super::settings::strategies::{self, StrategyCost};
use super::store::keyspace_state::KeyspaceState;
use super::writing::bulk_load::BulkLoad;
use super::writing::commit::commit_one;
use crate::base::error::Result;
use crate::base::units::KeyspaceId;
use crate::observe::slow::Op;
use crate::version::picture;
use crate::write::batch::WriteBatch;

/// A keyspace of an open store. Cheap to clone; keeps the store open.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    state: Arc<KeyspaceState>,
}

impl Keyspace {
    pub(crate) fn new(handle: Arc<Handle>, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { handle, state }
    }

    pub(crate) fn state(&self) -> &Arc<KeyspaceState> {
        &self.state
    }

    pub(crate) fn id(&self) -> KeyspaceId {
        self.state.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Puts, with the store's durability.
    ///
    /// # Errors
    /// `Limit` before anything is written; `NoSpace`, `Io`, `Poisoned`: the write is not visible.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        commit_one(&self.handle.store, |batch| batch.put_id(self.state.id, key, value))
    }

    /// Deletes; a key that is not there is fine.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        commit_one(&self.handle.store, |batch| batch.delete_id(self.state.id, key))
    }

    /// Deletes every key from `start` to below `end`, however many there are, at the cost of one write. A range that ends where or
    /// before it begins is empty: nothing is written.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        let store = &*self.handle.store;
        let delete = |batch: &mut WriteBatch| batch.delete_range_id(self.state.id, start, end);
        commit_one(store, delete)
    }

    /// The value of `key`, pinned, not copied.
    ///
    /// # Errors
    /// `Io` or `Corruption`; never "not found" in their place.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let store = &*self.handle.store;
        let id = self.state.id;
        let get = |key| store.slow.watch(Op::Get, Some(id), || lookup::get(store, &self.state, key));
        store.trace.watch(key, |key, describe| describe.get(id.0, &[*key]), get)
    }

    /// The values of `keys`, all as of one moment.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let store = &self.handle.store;
        let id = self.state.id;
        let get_all = |keys: &[&[u8]]| {
            let (view, at) = scan::current(store, &self.state);
            let get = |key: &&[u8]| lookup::get_at(store, &self.state, &view, key, at);
            store.slow.watch(Op::Get, Some(id), || keys.iter().map(get).collect())
        };
        store.trace.watch(keys, |keys, describe| describe.get(id.0, keys), get_all)
    }

    /// Keys and values of a range, from either end, as of now.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        let (handle, (view, at)) = (Arc::clone(&self.handle), scan::current(&self.handle.store, &self.state));
        let state = Arc::clone(&self.state);
        Ok(Scan::new(move || scan::cursor_at(&handle.store, &state, &view, range.clone(), at, None)))
    }

    /// A cursor over a range, as of now.
    pub fn cursor(&self, range: ScanRange) -> Result<Cursor> {
        let (view, at) = scan::current(&self.handle.store, &self.state);
        let open = Arc::clone(&self.handle) as _;
        Ok(scan::cursor_at(&self.handle.store, &self.state, &view, range, at, Some(open)))
    }

    /// Writes its memtables to tables and returns when they are durable.
    pub fn flush(&self) -> Result<()> {
        control::flush(&self.handle.store, &self.state)
    }

    /// Compacts everything in `range` into the deepest level that holds any of it. Foreground in effect: returns when done.
    ///
    /// # Errors
    /// `NoSpace` if there is not enough disk for the compaction; nothing is lost.
    pub fn compact_range(&self, range: ScanRange) -> Result<()> {
        self.compact(CompactOptions::new().range(range)).map(drop)
    }

    /// Compacts what `options` say: a range, certain levels, with progress, until it is cancelled. Returns when done; reads and
    /// writes go on meanwhile, and what they write is left where it is.
    ///
    /// # Errors
    /// `InvalidArgument` for levels that make no sense, `NoSpace` if there is not enough disk, `Paused` while background work
    /// is paused, `Io`; what was finished before is kept.
    pub fn compact(&self, options: CompactOptions) -> Result<CompactReport> {
        compact(&self.handle.store, &self.state, &options)
    }

    /// Begins a bulk load of sorted records, which become visible all at once: see [`BulkLoad`].
    ///
    /// # Errors
    /// `Poisoned` if the store takes no writes.
    pub fn bulk_load(&self) -> Result<BulkLoad> {
        BulkLoad::new(&self.handle, &self.state)
    }

    /// Changes the compaction strategy of the running store: a name of [`crate::strategy::catalog`] or a strategy line. Costs
    /// nothing at once; the tree takes its new shape in the background. Durable when it returns.
    ///
    /// # Errors
    /// `InvalidArgument` that names the field and what would be valid.
    pub fn set_strategy(&self, text: &str) -> Result<()> {
        strategies::set(&self.handle.store, &self.state, text)
    }

    /// What [`Keyspace::set_strategy`] would have the background do about the tree as it is. Changes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` that names the field and what would be valid.
    pub fn strategy_cost(&self, text: &str) -> Result<StrategyCost> {
        strategies::cost(&self.handle.store, &self.state, text)
    }

    /// Changes the strategy until the store is closed: as [`Keyspace::set_strategy`], and the next open has the one of before.
    ///
    /// # Errors
    /// `InvalidArgument` that names the field and what would be valid.
    pub fn set_strategy_for_now(&self, text: &str) -> Result<()> {
        strategies::set_for_now(&self.handle.store, &self.state, text)
    }

    /// Reads everything the keyspace holds, and counts the bytes that reads see and those that are superseded: space
    /// amplification, exactly. [`crate::metrics::CostMetrics`] has an estimate that reads nothing.
    ///
    /// # Errors
    /// `Corruption` and `Io` of what cannot be read; `Poisoned` once the store is closed.
    pub fn measure_space(&self) -> Result<SpaceReport> {
        costs::measure_space(&self.handle.store, &self.state)
    }

    /// True if its writes do not go to the log ([`KeyspaceOptions::no_wal`](crate::KeyspaceOptions::no_wal)).
    pub fn no_wal(&self) -> bool {
        self.state.no_wal
    }

    /// The strategy in force, as it was given.
    pub fn strategy_text(&self) -> String {
        self.state.strategy.load().text.clone()
    }

    /// A figure by its name: see [`crate::Db::property`].
    pub fn property(&self, name: &str) -> Option<String> {
        properties::property(&metrics(&self.handle.store), &self.state.name, name)
    }

    /// The tree as a picture, for people.
    pub fn picture(&self) -> String {
        let version = &self.state.view.load().version;
        if version.tables().count() <= 64 { picture::draw(version) } else { picture::summarise(version) }
    }

    /// All of its tree, however large, as a picture.
    #[cfg(any(test, feature = "testing"))]
    pub fn whole_picture(&self) -> String {
        picture::draw(&self.state.view.load().version)
    }

    /// Tables of its tree that a yielded compaction has consumed in part.
    #[cfg(any(test, feature = "testing"))]
    pub fn trimmed_tables(&self) -> usize {
        self.state.view.load().version.tables().filter(|(_, table)| table.consumed > 0).count()
    }
}

impl WriteBatch {
    /// Puts into the default keyspace.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_id(crate::write::batch::DEFAULT_KEYSPACE, key, value);
    }

    /// Deletes from the default keyspace.
    pub fn delete(&mut self, key: &[u8]) {
        self.delete_id(crate::write::batch::DEFAULT_KEYSPACE, key);
    }

    /// Deletes every key from `start` to below `end` from the default keyspace, those that the batch has put before included. Adds
    /// nothing to the batch if `end` ≤ `start`.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.delete_range_id(crate::write::batch::DEFAULT_KEYSPACE, start, end);
    }

    /// Puts into a keyspace.
    pub fn put_in(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        self.put_id(keyspace.id(), key, value);
    }

    /// Deletes from a keyspace.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.delete_id(keyspace.id(), key);
    }

    /// Deletes every key from `start` to below `end` from a keyspace.
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) {
        self.delete_range_id(keyspace.id(), start, end);
    }
}
