//! A snapshot: all keyspaces as of one commit, for as long as it lives.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::background::handle::Handle;
use super::keyspace::Keyspace;
use super::reading::lookup::{Value, get_at};
use super::reading::scan::{Cursor, Scan, ScanRange, cursor_at};
use super::store::keyspace_state::KeyspaceState;
use crate::base::error::Result;
use crate::base::units::SeqNo;
use crate::observe::slow::Op;

/// The store as of one commit: no later write, no half batch, whatever is flushed or compacted meanwhile. Cheap to clone. Holds
/// back the disposal of what it sees: drop it when done. Does not outlive the process.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    handle: Arc<Handle>,
    default: Arc<KeyspaceState>,
    seq: SeqNo,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.handle.store.snapshots.close(self.seq);
    }
}

impl Snapshot {
    /// Registers the sequence first; views are taken later, by each read, and hold everything up to it.
    pub(crate) fn new(handle: Arc<Handle>, default: Arc<KeyspaceState>) -> Snapshot {
        let store = &handle.store;
        let visible = || SeqNo(store.visible.load(Ordering::Acquire));
        let seq = store.snapshots.open(visible, store.clock.wall_ms());
        Snapshot(Arc::new(Registered { handle, default, seq }))
    }

    /// The value of `key` in the default keyspace.
    ///
    /// # Errors
    /// `Io` or `Corruption`; never "not found" in their place.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get_state(&self.0.default, key)
    }

    /// The value of `key` in a keyspace.
    pub fn get_in(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        self.get_state(keyspace.state(), key)
    }

    /// Keys and values of a range of the default keyspace.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        Ok(self.scan_state(&self.0.default, range))
    }

    /// Keys and values of a range of a keyspace.
    pub fn scan_in(&self, keyspace: &Keyspace, range: ScanRange) -> Result<Scan> {
        Ok(self.scan_state(keyspace.state(), range))
    }

    /// A cursor over a range of the default keyspace.
    pub fn cursor(&self, range: ScanRange) -> Result<Cursor> {
        Ok(self.cursor_state(&self.0.default, range))
    }

    /// A cursor over a range of a keyspace.
    pub fn cursor_in(&self, keyspace: &Keyspace, range: ScanRange) -> Result<Cursor> {
        Ok(self.cursor_state(keyspace.state(), range))
    }

    fn get_state(&self, keyspace: &KeyspaceState, key: &[u8]) -> Result<Option<Value>> {
        let store = &*self.0.handle.store;
        let get = || get_at(store, keyspace, &keyspace.view_for_snapshot(self.0.seq), key, self.0.seq);
        let get = |_| store.slow.watch(Op::Get, Some(keyspace.id), get);
        store.trace.watch(key, |key, describe| describe.get(keyspace.id.0, &[*key]), get)
    }

    fn cursor_state(&self, keyspace: &KeyspaceState, range: ScanRange) -> Cursor {
        let view = keyspace.view_for_snapshot(self.0.seq);
        cursor_at(&self.0.handle.store, keyspace, &view, range, self.0.seq, Some(Arc::clone(&self.0) as _))
    }

    fn scan_state(&self, keyspace: &Arc<KeyspaceState>, range: ScanRange) -> Scan {
        let (snapshot, keyspace) = (self.clone(), Arc::clone(keyspace));
        Scan::new(move || snapshot.cursor_state(&keyspace, range.clone()))
    }
}
