//! Deletes that have to be gone in time, as far as the tree's triggers do not see them: in the memory, in the log, and while
//! nobody writes.
//!
//! ```text
//! memory due ─► memtables switched, a new log begun ─► flushed ─► the manifest needs the old logs no more ─► they are unlinked
//! tree due   ─► the picker is asked again, though no tree has changed
//! ```
//! The log of a keyspace that keeps such a time holds what was deleted until its file goes, and with it everyone else's writes: so
//! all that have a part in it are flushed. Its files are not recycled, because a recycled one keeps its old bytes.

use std::sync::Arc;
use std::time::Duration;

use super::device_speed;
use super::install::{oldest_unflushed, record_change};
use crate::base::units::SeqNo;
use crate::compaction::deadline::shortest_ms;
use crate::compaction::due::next_due_ms;
use crate::compaction::strategy::{Strategy, Trigger};
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::logged_deletes::{Logged, MEMORY_LEAST_MS, deadlines};
use crate::db::store::state::Store;
use crate::observe::event::Event;
use crate::version::level::Level;
use crate::version::manifest::ManifestRecord;
use crate::write::wal::{LogError, Wal};

/// What is due and cannot be done yet, because a job or a snapshot is in its way, is looked at again after this long. So is what no
/// clock tells of: how often tables are read.
const AGAIN_MS: u64 = 1000;

/// For the flush lane, which never waits for the commit lock: has deletes leave memory and log when they are due.
pub fn leave_memory_in_time(store: &Store) {
    let keyspaces = store.keyspaces.load();
    let is_wanted = keyspaces.by_name.values().any(|k| k.strategy.load().strategy.ttl_ms().is_some());
    let changed = store.wal_files.set_recycling(!is_wanted);
    if !is_wanted {
        store.deletes.lock().clear();
        return;
    }
    let now_ms = store.clock.wall_ms();
    if changed {
        // Nobody knows what the log in use was before.
        store.deletes.note(store.wal_files.log_of(SeqNo::MAX), now_ms.saturating_add(MEMORY_LEAST_MS));
    }
    let mut unlogged = Vec::new();
    for keyspace in keyspaces.by_name.values() {
        let Some(due) = deadlines(keyspace) else { continue };
        let active = Arc::clone(&keyspace.view.load().active);
        if active.oldest_tombstone_ms().is_some_and(|since| since.saturating_add(due.memory_ms) <= now_ms) {
            if keyspace.no_wal {
                unlogged.push(keyspace.id);
            } else {
                store.deletes.note(store.wal_files.log_of(active.last_seq()), now_ms);
            }
        }
    }
    let now = store.clock.now();
    let is_due = |logged: &Logged| logged.due_ms <= now_ms && !logged.is_leaving && logged.again_at <= now;
    let logs_are_due = store.deletes.lock().iter().any(is_due);
    if (logs_are_due || !unlogged.is_empty())
        && let Some(mut commit) = store.try_commit_state()
    {
        // First: while there can be no other log nothing is gained by leaving memory, unless older ones go for it, and each attempt would
        // leave a small table.
        let older_go = || store.wal_files.oldest_live() < store.wal_files.log_of(SeqNo::MAX);
        let leaves = logs_are_due && (begin_log(store, &mut commit.wal, now_ms) || older_go());
        for open in &mut commit.memtables {
            let goes = if open.keyspace.no_wal { unlogged.contains(&open.keyspace.id) } else { leaves };
            if goes && !open.writer.table().is_empty() {
                open.switch(now);
            }
        }
    }
    forget_logs(store);
}

/// The log in use ends here, if it holds anything that is due. False if that cannot be.
fn begin_log(store: &Store, wal: &mut Wal, now_ms: u64) -> bool {
    let mut logged = store.deletes.lock();
    let due = || logged.iter().filter(|logged| logged.due_ms <= now_ms);
    if due().any(|logged| logged.log == store.wal_files.log_of(SeqNo::MAX)) {
        match wal.begin_next() {
            Ok(()) => store.counters.wal_rotations.add(1),
            // There may be space later.
            Err(LogError::Refused(error)) => {
                let again_at = store.clock.now().saturating_add(Duration::from_millis(AGAIN_MS));
                logged.iter_mut().for_each(|logged| logged.again_at = again_at);
                store.event(&Event::BackgroundError { error: error.to_string() });
                return false;
            }
            Err(LogError::Failed(error)) => {
                store.log_failed(error);
                return false;
            }
        }
    }
    logged.iter_mut().filter(|logged| logged.due_ms <= now_ms).for_each(|logged| logged.is_leaving = true);
    store.lane.poke();
    true
}

/// Lets go of logs whose writes are all in tables. After each flush that is done anyway, but an idle store has none.
fn forget_logs(store: &Store) {
    if !store.deletes.lock().iter().any(|logged| logged.is_leaving) {
        return;
    }
    let mut tree = store.tree_soon();
    let needed = store.wal_files.oldest_needed(oldest_unflushed(store, None));
    if needed > tree.versions.wal_from() {
        let record = ManifestRecord { wal_from: needed, ..ManifestRecord::default() };
        if let Err(error) = record_change(store, &mut tree, record) {
            store.event(&Event::BackgroundError { error: error.to_string() });
            return;
        }
    }
    store.wal_files.release_before(tree.versions.wal_from());
    drop(tree);
    let oldest = store.wal_files.oldest_live();
    store.deletes.lock().retain(|logged| logged.log >= oldest);
    store.lane.poke();
}

/// When the picker is to be asked again though no tree changes, wall milliseconds.
pub fn look_again_ms(store: &Store) -> Option<u64> {
    let now_ms = store.clock.wall_ms();
    let has_snapshots = store.snapshots.oldest().count > 0;
    let of = |keyspace: &KeyspaceState| {
        let strategy = keyspace.strategy.load();
        let strategy: &Strategy = &strategy.strategy;
        let unpredicted = strategy.has_trigger(|trigger| match trigger {
            Trigger::ReadHeat { .. } => true,
            Trigger::TombstoneDensity { .. } => has_snapshots,
            _ => false,
        });
        let due_ms = next_due_ms(&keyspace.view.load().version, strategy);
        let again_ms = now_ms.saturating_add(AGAIN_MS);
        let due_ms = due_ms.map(|due_ms| if due_ms > now_ms { due_ms } else { again_ms });
        due_ms.into_iter().chain(unpredicted.then_some(again_ms)).min()
    };
    store.keyspaces.load().by_name.values().filter_map(|keyspace| of(keyspace)).min()
}

/// The shortest time that a keyspace can keep for its deletes as it is now.
pub fn shortest_ttl_ms(store: &Store, keyspace: &KeyspaceState) -> u64 {
    let version = Arc::clone(&keyspace.view.load().version);
    let bytes = version.levels.iter().map(Level::bytes).sum();
    let rate = store
        .background
        .lock()
        .policy
        .budget
        .lasting_bytes_per_sec(device_speed::known(&store.options.load()));
    shortest_ms(bytes, version.levels.len(), rate)
}

/// Says so if a keyspace's time for deletes is shorter than it can keep.
pub fn warn_of_ttl(store: &Store, keyspace: &KeyspaceState) {
    let Some(ttl_ms) = keyspace.strategy.load().strategy.ttl_ms() else { return };
    let shortest_ms = shortest_ttl_ms(store, keyspace);
    if ttl_ms < shortest_ms {
        store.event(&Event::DeadlineTooShort { keyspace: keyspace.id, ttl_ms, shortest_ms });
    }
}
