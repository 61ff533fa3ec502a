//! What the plan of a schedule is made from (`scheduler/plan.rs`): for each tree what is to be done, and how much may come in until then.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::memory::in_use;
use super::pressure::L0Debt;
use crate::base::units::{SeqNo, TableId};
use crate::compaction::due::{self, Expiring};
use crate::compaction::level_sizes::{
    bytes_of, capacity_bytes, goal_bytes, level_below, merged_bytes, merged_share,
};
use crate::compaction::strategy::{Strategy, Trigger};
use crate::db::store::background::BackgroundState;
use crate::db::store::keyspace_state::{KeyspaceState, ReadView};
use crate::db::store::open_job::OpenJob;
use crate::db::store::state::Store;
use crate::scheduler::admission::Pressure;
use crate::scheduler::situation::TreeBacklog;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// What is read is written.
const READ_AND_WRITTEN: u64 = 2;

/// The parts of all trees.
pub fn trees(store: &Store, state: &BackgroundState) -> Vec<TreeBacklog> {
    let keyspaces = store.keyspaces.load();
    let writing =
        keyspaces.by_name.values().filter(|keyspace| !keyspace.view.load().is_flushed()).count() as u64;
    // From half of what memtables may have in all on, the gate is pressed.
    let memory = in_use(store);
    let share = (memory.for_memtables() / 2).saturating_sub(memory.memtables) / writing.max(1);
    keyspaces.by_name.values().map(|keyspace| tree(store, keyspace, state, share)).collect()
}

/// Of one, whose memtables may take `share` more of the memory that all have.
fn tree(store: &Store, keyspace: &KeyspaceState, state: &BackgroundState, share: u64) -> TreeBacklog {
    let (view, strategy) = (keyspace.view.load(), keyspace.strategy.load());
    let (version, strategy) = (&view.version, &strategy.strategy);
    let unit = keyspace.memtable_bytes();
    let debt = L0Debt::of(store, keyspace);
    let slows = debt.slows();
    let L0Debt { slack, runs, wanted, bytes, capacity, .. } = debt;
    let most = wanted.max(1);
    let due_from = runs_due(strategy, version, most);
    // What memory holds is in L0 soon, and was let in before.
    let in_memory = view.bytes_in_memory();
    let l0_most = Pressure::balance(slack);
    let by_runs = l0_most.saturating_add(most.saturating_mul(unit)).saturating_sub(runs.saturating_mul(unit));
    let by_bytes = l0_most.saturating_add(capacity).saturating_sub(bytes);
    let l0_room = by_runs.min(by_bytes).saturating_sub(in_memory);
    let (taken_runs, taken_bytes) = taken(keyspace, state, version, 0);
    // What an open job takes is on its way.
    let (runs, bytes) = (runs.saturating_sub(taken_runs), bytes.saturating_sub(taken_bytes));
    // What slows writers is merged whatever the strategy waits for.
    let is_due = runs >= due_from || bytes >= capacity_bytes(&strategy.size, version, 0) || runs > 0 && slows;
    let to_come = due_from.saturating_sub(runs).saturating_mul(unit);
    let Flush { left: flush_left, room: flush_room_wanted, room_most: flush_room_needed } =
        flush(store, keyspace, &view, share);
    let ttl = strategy.ttl_ms().map(|ttl| Duration::from_millis(ttl / 8));
    let expiring = ttl.map_or_else(Expiring::default, |ttl| {
        keyspace.expiring(store.clock.now(), || expiring(store, keyspace, state, ttl))
    });
    TreeBacklog {
        keyspace: keyspace.id,
        ingested: keyspace.ingested(),
        flush_left,
        flush_order: view.immutable.last().and_then(|memtable| memtable.first_seq()).unwrap_or(SeqNo::MAX),
        flush_ttl: ttl.and_then(|ttl| flush_ttl(store, &view, ttl)),
        flush_room_wanted,
        flush_room_needed,
        l0_room,
        l0_room_full: l0_most,
        l0_round: most.saturating_mul(unit),
        l0_due: if is_due { 0 } else { to_come.saturating_sub(in_memory).max(unit / 4) },
        l0_pending: if is_due { l0_pending(keyspace, strategy, version, state) } else { 0 },
        deep_pending: deep_pending(keyspace, strategy, version, state),
        expiring: expiring.bytes.saturating_mul(READ_AND_WRITTEN),
        expiring_within: expiring.within,
        ttl,
    }
}

/// The runs from which on L0 is to be compacted, where it wants at most so many.
fn runs_due(strategy: &Strategy, version: &Version, most: u64) -> u64 {
    let from = |trigger: &Trigger| match trigger {
        Trigger::Runs => Some(most.max(2)),
        Trigger::Duplicates { runs_max, .. } => Some(u64::from(*runs_max)),
        _ => None,
    };
    let triggers = &strategy.levels.get(0, version.levels.len()).triggers;
    triggers.iter().filter_map(from).min().unwrap_or(most + 1)
}

/// Bytes of full memtables that are not in tables, and that may come in until they should and must be.
struct Flush {
    left: u64,
    room: u64,
    room_most: u64,
}

/// They should be when a quarter of the last memtable that there may be is used, and must be when three quarters of it are:
/// none may come in where memory is short or a failure is to be told.
fn flush(store: &Store, keyspace: &KeyspaceState, view: &ReadView, share: u64) -> Flush {
    let unit = keyspace.memtable_bytes();
    let waiting = view.waiting_bytes();
    let others: u64 = view.immutable.iter().rev().skip(1).map(|memtable| memtable.bytes()).sum();
    let being_flushed = view.immutable.last().is_some_and(|memtable| memtable.is_being_flushed());
    let left =
        if being_flushed { store.admission.flush_left.load(Ordering::Relaxed) + others } else { waiting };
    if store.admission.gate.is_pressed() {
        return Flush { left, room: 0, room_most: 0 };
    }
    let spare = u64::from(store.options.load().memtables.saturating_sub(1)).saturating_mul(unit);
    let used = view.bytes_in_memory() + keyspace.gate.reserved();
    let until = |part: u64| spare.saturating_add(part).saturating_sub(used).min(share);
    Flush { left, room: until(unit / 4), room_most: until(used_most(unit)) }
}

/// What is left of the time that a flush may take, for the oldest full memtable that holds deletes.
fn flush_ttl(store: &Store, view: &ReadView, ttl: Duration) -> Option<Duration> {
    let oldest = view.immutable.iter().rfind(|memtable| memtable.oldest_tombstone_ms().is_some())?;
    Some(ttl.saturating_sub(store.clock.now().saturating_sub(oldest.full_at())))
}

/// Full memtables must be in tables when so much of the next one is used.
fn used_most(unit: u64) -> u64 {
    unit / 4 * 3
}

/// True if memtables fill faster than they become tables, in some keyspace: several are full, or more of what may be used of the next
/// one is than of the full one is in tables.
pub fn flushes_are_behind(store: &Store) -> bool {
    store.keyspaces.load().by_name.values().any(|keyspace| {
        let view = keyspace.view.load();
        let [full] = view.immutable.as_slice() else { return !view.immutable.is_empty() };
        if !full.is_being_flushed() || store.admission.gate.is_pressed() {
            return true;
        }
        let left = store.admission.flush_left.load(Ordering::Relaxed);
        let most = used_most(keyspace.memtable_bytes());
        let room = most.saturating_sub(view.active.bytes() + keyspace.gate.reserved());
        u128::from(left) * u128::from(most) > u128::from(room) * u128::from(full.bytes())
    })
}

/// Bytes to move to bring L0 down, unless a job does.
fn l0_pending(
    keyspace: &KeyspaceState,
    strategy: &Strategy,
    version: &Version,
    state: &BackgroundState,
) -> u64 {
    if state.jobs.iter().any(|job| job.keyspace.id == keyspace.id && job.class.is_l0()) {
        return 0;
    }
    let below = level_below(&strategy.size, version, 0);
    bytes_of(version, 0)
        .saturating_add(merged_bytes(strategy, version, below))
        .saturating_mul(READ_AND_WRITTEN)
}

/// Bytes to move for levels that hold more than they should, without what open jobs take.
fn deep_pending(
    keyspace: &KeyspaceState,
    strategy: &Strategy,
    version: &Version,
    state: &BackgroundState,
) -> u64 {
    let last = version.deepest().unwrap_or(0);
    let mut pending = 0_u64;
    for level in 1..=last {
        let capacity = capacity_bytes(&strategy.size, version, level);
        let bytes = bytes_of(version, level);
        if bytes <= capacity {
            continue;
        }
        let beyond = bytes.saturating_sub(taken(keyspace, state, version, level).1);
        let excess = beyond.saturating_sub(goal_bytes(&strategy.size, version, level));
        // Each byte takes its share of what it is merged with along.
        let share = merged_share(strategy, version, level);
        pending = pending.saturating_add((excess as f64 * (1.0 + share)) as u64 * READ_AND_WRITTEN);
    }
    pending
}

/// Tables whose deletes are due, but for those that open jobs have. None while something of the tree rests after a failure, or nothing
/// begins for want of space: what waits for that would soon be late, and no rate brings it forward.
fn expiring(store: &Store, keyspace: &KeyspaceState, state: &BackgroundState, work: Duration) -> Expiring {
    let (version, strategy) = (&keyspace.view.load().version, keyspace.strategy.load());
    if state.compaction_error.is_some() || !state.failing.resting(keyspace.id, store.clock.now()).is_empty() {
        return Expiring::default();
    }
    let jobs = state.jobs.iter().filter(|job| job.keyspace.id == keyspace.id);
    let mut taken: Vec<TableId> = jobs.flat_map(|job| job.compaction.tables()).map(TableRef::id).collect();
    taken.sort_unstable();
    let oldest_snapshot = store.snapshots.oldest().seq();
    let (now_ms, work_ms) = (store.clock.wall_ms(), work.as_millis() as u64);
    due::expiring(version, &strategy.strategy, oldest_snapshot, now_ms, work_ms, |table| {
        taken.binary_search(&table).is_ok()
    })
}

/// Runs of a level that open jobs take from, and the bytes that they take out of it.
fn taken(keyspace: &KeyspaceState, state: &BackgroundState, version: &Version, level: usize) -> (u64, u64) {
    // Runs of L0 that are merged within it are few afterwards.
    let leaves = |job: &&OpenJob| level == 0 || job.compaction.target_level_in(version) != level;
    let jobs = state.jobs.iter().filter(|job| job.keyspace.id == keyspace.id).filter(leaves);
    let inputs = jobs.flat_map(|job| &job.compaction.inputs).filter(|input| input.level == level);
    inputs.fold((0, 0), |(runs, bytes), input| {
        (runs + 1, bytes + input.tables.iter().map(TableRef::bytes).sum::<u64>())
    })
}
