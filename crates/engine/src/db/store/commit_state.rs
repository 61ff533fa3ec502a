//! What only the commit leader touches: the log, the sequence, and the writers of the open memtables.

use std::sync::Arc;
use std::time::Duration;

use super::keyspace_state::KeyspaceState;
use crate::base::units::{KeyspaceId, SeqNo};
use crate::write::memtable::MemtableWriter;
use crate::write::wal::Wal;

/// What only the leader touches.
#[derive(Debug)]
pub struct CommitState {
    /// The log.
    pub wal: Wal,
    /// The last sequence given out.
    pub last_seq: SeqNo,
    /// The open memtables, ascending by keyspace.
    pub memtables: Vec<OpenMemtable>,
    /// True if a keyspace without a log is among them: batches are looked at more closely then.
    pub some_unlogged: bool,
}

/// A keyspace and the writer of its active memtable.
#[derive(Debug)]
pub struct OpenMemtable {
    /// The keyspace.
    pub keyspace: Arc<KeyspaceState>,
    /// Its writer.
    pub writer: MemtableWriter,
    /// When the memtable has this many bytes, the leader looks whether it is full and how much memory is left.
    pub look_at: u64,
}

impl CommitState {
    /// With these keyspaces.
    pub fn new(wal: Wal, last_seq: SeqNo, memtables: Vec<OpenMemtable>) -> CommitState {
        let mut state = CommitState { wal, last_seq, memtables, some_unlogged: false };
        state.keyspaces_changed();
        state
    }

    /// A keyspace came or went.
    pub fn keyspaces_changed(&mut self) {
        self.some_unlogged = self.memtables.iter().any(|open| open.keyspace.no_wal);
    }

    /// The open memtable of a keyspace.
    #[inline]
    pub fn memtable(&mut self, id: KeyspaceId) -> Option<&mut OpenMemtable> {
        if let [first, ..] = &self.memtables[..]
            && first.keyspace.id == id
        {
            return self.memtables.first_mut();
        }
        let i = self.memtables.binary_search_by_key(&id, |m| m.keyspace.id).ok()?;
        self.memtables.get_mut(i)
    }
}

impl OpenMemtable {
    /// Makes the active memtable immutable and opens a new one. Everything in the old one is published: the leader does this
    /// between groups. The caller wakes the flush lane.
    pub fn switch(&mut self, now: Duration) {
        let (writer, fresh) = self.writer.table().next(self.keyspace.memtable_bytes());
        let bytes = self.writer.table().bytes();
        self.writer.table().set_full_at(now);
        self.keyspace.update_view(|view| {
            let full = std::mem::replace(&mut view.active, fresh);
            view.immutable.insert(0, full);
        });
        self.keyspace.sealed(bytes);
        self.writer = writer;
        self.look_at = 0;
    }
}
