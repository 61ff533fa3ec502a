//! Which sequence numbers are read at by open snapshots, so that compactions keep what they see.
//!
//! Reading the visible sequence and registering it is one critical section, and so is listing: no snapshot can fall between
//! a compaction's list and the entries it then drops.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::locks::{Mutex, MutexGuard};
use crate::base::units::SeqNo;

/// The open snapshots, counted by sequence.
#[derive(Debug, Default)]
pub struct Snapshots {
    open: Mutex<BTreeMap<SeqNo, Open>>,
}

/// Snapshots at one sequence.
#[derive(Debug)]
struct Open {
    count: usize,
    /// When the first of them was opened, wall milliseconds.
    since_ms: u64,
}

/// The oldest snapshot, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestSnapshot {
    /// Snapshots open.
    pub count: u64,
    /// Sequence of the oldest, and when it was opened, wall milliseconds.
    pub oldest: Option<(SeqNo, u64)>,
}

impl Snapshots {
    /// Registers a snapshot of what is visible now, which `visible` says when nobody can list.
    pub fn open(&self, visible: impl FnOnce() -> SeqNo, now_ms: u64) -> SeqNo {
        let mut open = self.lock();
        let seq = visible();
        open.entry(seq).or_insert(Open { count: 0, since_ms: now_ms }).count += 1;
        seq
    }

    /// Ends one registered by `open`.
    pub fn close(&self, seq: SeqNo) {
        let mut open = self.lock();
        if let Some(at) = open.get_mut(&seq) {
            at.count -= 1;
            if at.count == 0 {
                open.remove(&seq);
            }
        }
    }

    /// All that are open, ascending.
    pub fn list(&self) -> Vec<SeqNo> {
        self.lock().keys().copied().collect()
    }

    /// The oldest one, which holds back the disposal of all that it sees.
    pub fn oldest(&self) -> OldestSnapshot {
        let open = self.lock();
        let oldest = open.first_key_value().map(|(seq, at)| (*seq, at.since_ms));
        OldestSnapshot { count: open.values().map(|at| at.count as u64).sum(), oldest }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SeqNo, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
