//! Which sequence numbers are read at by open snapshots, so that compactions keep what they see.
//!
//! Reading the visible sequence and registering it is one critical section, and so is listing: no snapshot can fall between
//! a compaction's list and the entries it then drops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::units::SeqNo;

/// The open snapshots, counted by sequence.
#[derive(Debug, Default)]
pub struct Snapshots {
    open: Mutex<BTreeMap<SeqNo, usize>>,
}

impl Snapshots {
    /// Registers a snapshot of what is visible now.
    pub fn open(&self, visible: &AtomicU64) -> SeqNo {
        let mut open = self.lock();
        let seq = SeqNo(visible.load(Ordering::Acquire));
        *open.entry(seq).or_insert(0) += 1;
        seq
    }

    /// Ends one registered by `open`.
    pub fn close(&self, seq: SeqNo) {
        let mut open = self.lock();
        if let Some(count) = open.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                open.remove(&seq);
            }
        }
    }

    /// All that are open, ascending.
    pub fn list(&self) -> Vec<SeqNo> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SeqNo, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
