//! Which sequence numbers are read at by open snapshots, so that compactions keep what they see.
//!
//! Reading the visible sequence and registering it is one critical section, and so is listing: no snapshot can fall between
//! a compaction's list and the entries it then drops.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::locks::{Mutex, MutexGuard};
use crate::base::units::SeqNo;

/// The open snapshots, counted by sequence.
#[derive(Debug, Default)]
pub struct Snapshots {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<SeqNo, Open>,
    /// What is kept for snapshots at or below a sequence, until the last of them is closed.
    kept: Vec<(SeqNo, Kept)>,
}

/// Whatever snapshots need that nobody else does.
pub type Kept = Arc<dyn std::fmt::Debug + Send + Sync>;

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

impl OldestSnapshot {
    /// Up to here nobody sees what newer entries hide: everything, where none is open.
    pub fn seq(&self) -> SeqNo {
        self.oldest.map_or(SeqNo::MAX, |(seq, _)| seq)
    }
}

impl Snapshots {
    /// Registers a snapshot of what is visible now, which `visible` says when nobody can list.
    pub fn open(&self, visible: impl FnOnce() -> SeqNo, now_ms: u64) -> SeqNo {
        let mut state = self.lock();
        let seq = visible();
        state.open.entry(seq).or_insert(Open { count: 0, since_ms: now_ms }).count += 1;
        seq
    }

    /// Ends one registered by `open`.
    pub fn close(&self, seq: SeqNo) {
        let mut state = self.lock();
        let State { open, kept } = &mut *state;
        if let Some(at) = open.get_mut(&seq) {
            at.count -= 1;
            if at.count == 0 {
                open.remove(&seq);
            }
        }
        let is_needed = |last: SeqNo| open.first_key_value().is_some_and(|(first, _)| *first <= last);
        let gone: Vec<_> = kept.extract_if(.., |(last, _)| !is_needed(*last)).collect();
        // It may be much, and others open snapshots.
        drop(state);
        drop(gone);
    }

    /// Takes something away from all but the snapshots that are open: `take` is told the last of them, and answers what they still
    /// need. Nobody opens one meanwhile.
    pub fn take_from_others(&self, take: impl FnOnce(Option<SeqNo>) -> Option<Kept>) {
        let mut state = self.lock();
        let last = state.open.last_key_value().map(|(seq, _)| *seq);
        let kept = take(last);
        state.kept.extend(last.zip(kept));
    }

    /// All that are open, ascending.
    pub fn list(&self) -> Vec<SeqNo> {
        self.lock().open.keys().copied().collect()
    }

    /// The oldest one, which holds back the disposal of all that it sees.
    pub fn oldest(&self) -> OldestSnapshot {
        let state = self.lock();
        let open = &state.open;
        let oldest = open.first_key_value().map(|(seq, at)| (*seq, at.since_ms));
        OldestSnapshot { count: open.values().map(|at| at.count as u64).sum(), oldest }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
