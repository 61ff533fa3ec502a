//! Beginning a compaction that was decided: at once where it only moves tables, else as a job with claims and space.

use std::sync::Arc;
use std::time::Duration;

use super::device_speed;
use super::install::change_tree;
use super::pressure::drained;
use crate::base::class::{Class, L0Permit};
use crate::base::error::{Error, Result};
use crate::base::units::JobId;
use crate::compaction::commit::move_tables;
use crate::compaction::compaction::Compaction;
use crate::compaction::level_sizes::level_below;
use crate::compaction::picker::Rejected;
use crate::compaction::placement::Picked;
use crate::db::store::decisions::words_of;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::open_job::{JobWatch, OpenJob};
use crate::db::store::state::{Store, TreeState};
use crate::execution::compaction_job::CompactionJob;
use crate::execution::output::OutputShape;
use crate::merge::run_iterator::PIECE_MAX;
use crate::observe::event::Event;
use crate::options::Options;
use crate::scheduler::order::served_at_first;
use crate::table::meta::Born;
use crate::version::run::TableRef;

/// What came of a decided compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It was a move of so many bytes, and is done.
    Moved(u64),
    /// A job is open.
    Open(JobId),
}

/// Moves by metadata, or claims and opens a job. `None` if there is no space for it. It was picked by this permit for L0. The tree lock is
/// held.
pub fn begin(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &Arc<KeyspaceState>,
    picked: Picked,
    rejected: &[Rejected],
    l0: L0Permit,
    watch: Option<Arc<JobWatch>>,
) -> Result<Option<Begun>> {
    tree.versions.ids().run_and_group_at_least(picked.ids.next_run, picked.ids.next_group);
    if picked.compaction.trivial_move {
        return move_now(store, tree, keyspace, &picked, rejected).map(Some);
    }
    let Picked { compaction, before, .. } = picked;
    let sliced = match space_for(store, &compaction)? {
        Space::Enough => false,
        Space::Sliced => true,
        Space::Refused { free_bytes } => {
            store.counters.jobs_refused.add(1);
            store.event(&Event::Refused {
                keyspace: keyspace.id,
                needs_bytes: compaction.space_sliced(),
                free_bytes,
            });
            return Ok(None);
        }
    };
    if !before.steps.is_empty() {
        change_tree(store, tree, keyspace, before)?;
    }
    tree.last_job += 1;
    let id = JobId(tree.last_job);
    let compaction = Arc::new(compaction);
    tree.claims.entry(keyspace.id).or_default().claim(id, Arc::clone(&compaction))?;
    let predicted_bytes = store.decisions.note(store.clock.wall_ms(), id, keyspace.id, &compaction, rejected);
    tell(store, keyspace, id, &compaction, predicted_bytes, rejected);
    open(store, keyspace, id, compaction, sliced, l0, watch);
    Ok(Some(Begun::Open(id)))
}

/// Changes the inputs' place by metadata alone. The tree lock is held.
fn move_now(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    picked: &Picked,
    rejected: &[Rejected],
) -> Result<Begun> {
    let (Some(current), Some(claims)) =
        (tree.versions.trees().get(&keyspace.id), tree.claims.get(&keyspace.id))
    else {
        return Err(Error::invalid("the keyspace was dropped"));
    };
    let edit = move_tables(&current.version, claims, picked, store.clock.wall_ms())?.edit;
    change_tree(store, tree, keyspace, edit)?;
    let bytes = picked.compaction.input_bytes;
    store.counters.moves.add(1);
    store.counters.moved_bytes.add(bytes);
    drained(store);
    tree.last_job += 1;
    let job = JobId(tree.last_job);
    store.decisions.note(store.clock.wall_ms(), job, keyspace.id, &picked.compaction, rejected);
    let reason = picked.compaction.reason.clone();
    store.event(&Event::Moved { job, keyspace: keyspace.id, reason, bytes });
    Ok(Begun::Moved(bytes))
}

fn tell(
    store: &Store,
    keyspace: &KeyspaceState,
    job: JobId,
    compaction: &Compaction,
    predicted_bytes: u64,
    rejected: &[Rejected],
) {
    store.event(&Event::CompactionPicked {
        job,
        keyspace: keyspace.id,
        class: compaction.class,
        reason: compaction.reason.clone(),
        score: compaction.urgency,
        bytes: compaction.input_bytes,
        predicted_bytes,
        rejected: rejected.iter().map(|r| words_of(&r.candidate)).collect(),
    });
}

fn open(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    id: JobId,
    compaction: Arc<Compaction>,
    sliced: bool,
    l0: L0Permit,
    watch: Option<Arc<JobWatch>>,
) {
    let options = store.options.load();
    // Outputs of a burst's part are no part of another one.
    let is_part = compaction.class == Class::IntraL0 && l0 == L0Permit::IntraOnly { flush_born: true };
    let born = if is_part { Born::Burst } else { Born::Merge };
    let in_a_hurry = store.background.lock().flushes_hurry;
    let shape = OutputShape {
        class: compaction.class,
        born,
        table_bytes: compaction.table_bytes,
        filter_bits: compaction.filter_bits.of(options.filter_bits),
        filter_bits_above: compaction.filter_bits_above.of(options.filter_bits),
        reads: keyspace.heat.read_profile(),
        compression: keyspace.style.compression_at(compaction.target_level, in_a_hurry, &options),
        prefix_rule: keyspace.style.prefix_rule(&options),
        direct: options.direct_compaction,
        oldest_tombstone_ms: compaction.tables().filter_map(|t| t.meta.oldest_tombstone_ms).min(),
        cache: Some(Arc::clone(store.tables.block_cache())),
    };
    let below_l0 = compaction.class >= Class::Deep && {
        let (view, strategy) = (keyspace.view.load(), keyspace.strategy.load());
        let below = level_below(&strategy.strategy.size, &view.version, 0);
        compaction.inputs.iter().any(|run| run.level == below)
    };
    let (class, seed) = (compaction.class, compaction.tables().next().map(TableRef::id));
    // Bytes moved are read and written.
    let of_l0: u64 = compaction
        .inputs
        .iter()
        .filter(|run| run.level == 0)
        .flat_map(|run| &run.tables)
        .map(TableRef::bytes)
        .sum();
    let l0_share = of_l0 as f64 / compaction.input_bytes.max(1) as f64 / 2.0;
    // Listed now: the inputs are claimed, and hold only what was published before.
    let snapshots = store.snapshots.list();
    let decided = Arc::clone(&compaction);
    let (context, piece) = (Arc::clone(&store.job_context), piece_of(&options, compaction.inputs.len()));
    let job = CompactionJob::new(context, &store.tables, compaction, snapshots, shape, piece);
    let now = store.clock.now();
    let wanted_at = class.is_l0().then(|| keyspace.note_l0_wait(None)).flatten().unwrap_or(now);
    let mut state = store.background.lock();
    // Who comes later has no more coming to it than the others.
    let served = served_at_first(state.jobs.iter().map(|job| (job.paused, job.served)));
    state.jobs.push(OpenJob {
        id,
        keyspace: Arc::clone(keyspace),
        class,
        compaction: decided,
        job: Some(Box::new(job)),
        waiting: false,
        lets_go: None,
        paused: false,
        aside: None,
        served,
        waits_since: Some(wanted_at),
        picked_at: now,
        due: Duration::MAX,
        below_l0,
        stepped_at: now,
        seed,
        l0_share,
        read_bytes: 0,
        sliced,
        watch,
    });
    drop(state);
    // For the other workers: one of them may have looked before this job was there.
    store.background.wake();
    store.background.wake_monitor();
}

/// What a compaction reads at once of each of so many runs: clients who come meanwhile wait for all of it, so no more than the device moves
/// in a millisecond. And all pieces together take room from clients' blocks, so no more than an eighth of the cache.
fn piece_of(options: &Options, runs: usize) -> usize {
    const PIECE_MIN: u64 = 64 << 10;
    let by_time = device_speed::known(options).map(|speed| speed / 1000);
    let by_room = (options.cache_bytes > 0).then(|| options.cache_bytes / 8 / runs.max(1) as u64);
    let most = by_time.into_iter().chain(by_room).min();
    most.map_or(PIECE_MAX, |most| most.clamp(PIECE_MIN, PIECE_MAX as u64) as usize)
}

enum Space {
    Enough,
    /// Enough if parts are committed, and inputs removed, as the job goes.
    Sliced,
    Refused {
        free_bytes: u64,
    },
}

/// Peak extra space is the whole output while the inputs are still there. Beside others, which have yet to write theirs, it is committed in
/// parts: nobody waits for space that another may need, and nobody loses much if it runs out.
fn space_for(store: &Store, compaction: &Compaction) -> Result<Space> {
    let free_bytes = store.fs.free_space(&store.dir)?;
    let usable = free_bytes.saturating_sub(store.options.load().reserve_bytes);
    let beside = store.background.lock().jobs.iter().map(space_left).fold(usable, u64::saturating_sub);
    Ok(if beside >= compaction.input_bytes {
        Space::Enough
    } else if usable >= compaction.space_sliced() {
        Space::Sliced
    } else {
        Space::Refused { free_bytes }
    })
}

/// Bytes of the disk that a job may take yet, beside its inputs.
fn space_left(job: &OpenJob) -> u64 {
    let most = if job.sliced { job.compaction.space_sliced() } else { u64::MAX };
    job.bytes_left().min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{KIB, MIB};

    #[test]
    fn a_piece_is_what_clients_wait_for_and_make_room_for() {
        let of = |cache_bytes, device_bytes_per_sec, runs| {
            piece_of(&Options { cache_bytes, device_bytes_per_sec, ..Options::default() }, runs) as u64
        };
        let table = [
            ((0, 0, 10), MIB),
            ((0, 100_000_000, 10), 100_000),
            ((0, 1_000_000, 10), 64 * KIB),
            ((8 * MIB, 0, 4), 256 * KIB),
            ((8 * MIB, 0, 0), MIB),
            ((8 * MIB, 100_000_000, 4), 100_000),
            ((MIB, 0, 20), 64 * KIB),
        ];
        for ((cache, device, runs), piece) in table {
            assert_eq!(of(cache, device, runs), piece, "{cache} {device} {runs}");
        }
    }
}
