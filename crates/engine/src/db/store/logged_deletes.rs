//! Which logs hold deletes that have to be gone in time, and when they are due. What is done about it is in `deletes.rs`.

use std::sync::PoisonError;
use std::time::Duration;

use super::keyspace_state::KeyspaceState;
use crate::base::locks::{Mutex, MutexGuard};
use crate::compaction::deadline::{Deadlines, planned_ms};
use crate::write::memtable::Memtable;
use crate::write::wal::WalFiles;

/// A memtable is not flushed for the sake of its deletes before it is so old, unless the time is very short.
pub const MEMORY_LEAST_MS: u64 = 1000;

/// Logs that hold deletes, or what they deleted, and by when they have to go.
#[derive(Debug, Default)]
pub struct LoggedDeletes(Mutex<Vec<Logged>>);

/// One log.
#[derive(Debug)]
pub struct Logged {
    /// Its number.
    pub log: u64,
    /// When it has to be on its way, wall milliseconds.
    pub due_ms: u64,
    /// There was no place for a newer log: not tried before.
    pub again_at: Duration,
    /// What was in memory of it is being flushed, and a newer log has begun.
    pub is_leaving: bool,
}

impl LoggedDeletes {
    /// All of them.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Logged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log has to be gone by then.
    pub fn note(&self, log: u64, due_ms: u64) {
        let mut all = self.lock();
        match all.iter_mut().find(|logged| logged.log == log) {
            Some(logged) => logged.due_ms = logged.due_ms.min(due_ms),
            None => all.push(Logged { log, due_ms, again_at: Duration::ZERO, is_leaving: false }),
        }
    }

    /// A memtable is in tables now; the log may hold its deletes for longer.
    pub fn note_flushed(&self, files: &WalFiles, keyspace: &KeyspaceState, memtable: &Memtable) {
        let ages = deadlines(keyspace).zip(memtable.oldest_tombstone_ms());
        if let Some((due, since)) = ages.filter(|_| !keyspace.no_wal) {
            self.note(files.log_of(memtable.last_seq()), since.saturating_add(due.memory_ms));
        }
    }
}

/// When deletes have to leave each place of a keyspace, if they have to.
pub fn deadlines(keyspace: &KeyspaceState) -> Option<Deadlines> {
    let mut deadlines = Deadlines::of(&keyspace.strategy.load().strategy, &keyspace.view.load().version)?;
    let least = MEMORY_LEAST_MS.min(deadlines.ttl_ms / 8);
    deadlines.memory_ms = deadlines.memory_ms.max(least);
    Some(deadlines)
}

/// By when deletes that are recovered from the log count as acknowledged: nobody wrote down when that was, so they are due now.
pub fn recovered_since_ms(now_ms: u64, ttl_ms: Option<u64>) -> u64 {
    ttl_ms.map_or(now_ms, |ttl_ms| now_ms.saturating_sub(planned_ms(ttl_ms)))
}
