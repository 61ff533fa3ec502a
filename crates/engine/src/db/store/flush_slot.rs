//! The flush under way: there is one at a time, and one thread at a time steps it.

use std::sync::Arc;
use std::time::Duration;

use super::keyspace_state::KeyspaceState;
use crate::execution::flush_job::FlushJob;

/// A flush under way.
#[derive(Debug)]
pub struct OpenFlush {
    /// Whose memtable.
    pub keyspace: Arc<KeyspaceState>,
    /// The flush.
    pub job: FlushJob,
    /// When it began.
    pub begun_at: Duration,
}

/// Where it is.
#[derive(Debug)]
pub enum FlushSlot {
    /// There is none.
    Free,
    /// Somebody steps it.
    InHands,
    /// It waits for its next step.
    Waits(Box<OpenFlush>),
}

impl FlushSlot {
    /// True if no flush is under way.
    pub fn is_free(&self) -> bool {
        matches!(self, FlushSlot::Free)
    }

    /// The flush, if it waits for a step: from then on it is in the caller's hands.
    pub fn take(&mut self) -> Option<Box<OpenFlush>> {
        match std::mem::replace(self, FlushSlot::InHands) {
            FlushSlot::Waits(open) => Some(open),
            other => {
                *self = other;
                None
            }
        }
    }
}
