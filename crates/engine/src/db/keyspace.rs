//! A keyspace as users hold it: a named map with a tree and a strategy of its own ("column family" elsewhere).

use std::sync::Arc;

use super::commit::commit_one;
use super::control;
use super::handle::Handle;
use super::keyspace_state::KeyspaceState;
use super::lookup::{self, Value};
use super::scan::{self, Cursor, Scan, ScanRange};
use super::strategies;
use crate::base::error::Result;
use crate::base::units::KeyspaceId;
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
        let store = &*self.handle.store;
        commit_one(store, |batch| batch.put_id(self.state.id, key, value), store.options.durability)
    }

    /// Deletes; a key that is not there is fine.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let store = &*self.handle.store;
        commit_one(store, |batch| batch.delete_id(self.state.id, key), store.options.durability)
    }

    /// The value of `key`, pinned, not copied.
    ///
    /// # Errors
    /// `Io` or `Corruption`; never "not found" in their place.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        lookup::get(&self.handle.store, &self.state, key)
    }

    /// The values of `keys`, all as of one moment.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let store = &self.handle.store;
        let (view, at) = scan::current(store, &self.state);
        keys.iter().map(|key| lookup::get_at(store, &view, key, at)).collect()
    }

    /// Keys and values of a range, from either end, as of now.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        let (handle, (view, at)) = (Arc::clone(&self.handle), scan::current(&self.handle.store, &self.state));
        Ok(Scan::new(move || scan::cursor_at(&handle.store, &view, range.clone(), at, None)))
    }

    /// A cursor over a range, as of now.
    pub fn cursor(&self, range: ScanRange) -> Result<Cursor> {
        Ok(scan::cursor(&self.handle.store, &self.state, range))
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
        control::compact_range(&self.handle.store, &self.state, &range.0)
    }

    /// Changes the compaction strategy of the running store: a name of [`crate::strategy::catalog`] or a strategy line. Costs
    /// nothing at once; the tree takes its new shape in the background. Durable when it returns.
    ///
    /// # Errors
    /// `InvalidArgument` that names the field and what would be valid.
    pub fn set_strategy(&self, text: &str) -> Result<()> {
        strategies::set(&self.handle.store, &self.state, text)
    }

    /// The strategy in force, as it was given.
    pub fn strategy_text(&self) -> String {
        self.state.strategy.load().text.clone()
    }

    /// The tree as a picture, for people.
    pub fn picture(&self) -> String {
        let version = &self.state.view.load().version;
        if version.tables().count() <= 64 { picture::draw(version) } else { picture::summarise(version) }
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

    /// Puts into a keyspace.
    pub fn put_in(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        self.put_id(keyspace.id(), key, value);
    }

    /// Deletes from a keyspace.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.delete_id(keyspace.id(), key);
    }
}
