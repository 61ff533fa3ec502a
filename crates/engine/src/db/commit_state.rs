//! What only the commit leader touches: the log, the sequence, and the writers of the open memtables.

use std::sync::Arc;

use super::keyspace_state::KeyspaceState;
use crate::base::units::{KeyspaceId, SeqNo};
use crate::write::memtable::{Memtable, MemtableWriter};
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
}

/// A keyspace and the writer of its active memtable.
#[derive(Debug)]
pub struct OpenMemtable {
    /// The keyspace.
    pub keyspace: Arc<KeyspaceState>,
    /// Its writer.
    pub writer: MemtableWriter,
}

impl CommitState {
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
    pub fn switch(&mut self) {
        let head = self.writer.table().common_head();
        let (writer, fresh) = Memtable::new(&head, self.keyspace.memtable_bytes);
        self.keyspace.update_view(|view| {
            let full = std::mem::replace(&mut view.active, fresh);
            view.immutable.insert(0, full);
        });
        self.writer = writer;
    }
}
