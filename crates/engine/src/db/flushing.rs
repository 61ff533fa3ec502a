//! The flush lane: immutable memtables become tables, one at a time, oldest first within a keyspace, and the keyspace
//! with the most of them first. It never waits for a compaction.

use std::sync::Arc;
use std::time::Duration;

use super::background::{OpenFlush, STEP_BYTES};
use super::install::install_flush;
use super::jobs::Stepped;
use super::keyspace_state::KeyspaceState;
use super::state::Store;
use crate::base::class::Class;
use crate::base::error::Error;
use crate::execution::flush_job::FlushJob;
use crate::execution::merge_loop::Progress;
use crate::execution::output::OutputShape;
use crate::observe::event::Event;
use crate::options::CompressionRule;
use crate::table::compression::Compression;
use crate::table::meta::Born;
use crate::write::memtable::Memtable;

/// After a failure, for instance a full disk, the lane tries again this soon.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// One step of the flush under way, or the beginning of the next.
pub fn step(store: &Store) -> Stepped {
    if store.check_writable().is_err() {
        return Stepped::Idle;
    }
    let open = {
        let mut state = store.background.lock();
        match state.flush.take() {
            Some(open) => open,
            None if state.flushing => return Stepped::Idle,
            None => match next(store) {
                None => {
                    // What could not be flushed is gone with its keyspace.
                    state.flush_error = None;
                    return Stepped::Idle;
                }
                Some(open) => {
                    state.flushing = true;
                    open
                }
            },
        }
    };
    advance(store, open)
}

fn advance(store: &Store, mut open: OpenFlush) -> Stepped {
    let (now, cpu) = (store.clock.now(), evenkeel_sys::thread_cpu_time());
    let syncs = store.background.lock().syncs_done;
    let outcome = open.job.step(STEP_BYTES);
    let outcome = match outcome {
        Ok((Progress::Finished, _)) => {
            let memtable = Arc::clone(open.job.memtable());
            let tables = open.job.take_tables();
            let ids: Vec<_> = tables.iter().map(|t| t.id).collect();
            match install_flush(store, &open.keyspace, &memtable, tables) {
                Ok(()) => Ok(true),
                Err(error) => {
                    // Not in the tree, or nobody knows: then the store is read-only and the next open tells.
                    if store.check_writable().is_ok() {
                        for id in ids {
                            let _ = store.fs.remove(&store.tables.path(id));
                        }
                    }
                    Err(error)
                }
            }
        }
        Ok((progress, _)) => {
            let mut state = store.background.lock();
            state.flush = Some(open);
            let waiting = progress == Progress::Waiting && state.syncs_done == syncs;
            count_cpu(store, cpu);
            return if waiting { Stepped::Wait(now + Duration::from_millis(100)) } else { Stepped::Worked };
        }
        Err(error) => {
            // What cannot be removed is an orphan, which the next open removes.
            let _ = open.job.abandon();
            Err(error)
        }
    };
    count_cpu(store, cpu);
    finished(store, outcome)
}

fn finished(store: &Store, outcome: Result<bool, Error>) -> Stepped {
    let mut state = store.background.lock();
    state.flushing = false;
    let stepped = match outcome {
        Ok(_) => {
            state.flush_error = None;
            Stepped::Worked
        }
        Err(error) => {
            store.event(&Event::BackgroundError { error: error.to_string() });
            state.flush_error = Some(error);
            Stepped::Wait(store.clock.now() + RETRY_AFTER)
        }
    };
    drop(state);
    if stepped == Stepped::Worked {
        store.background.wake();
    } else {
        store.background.tell_waiting();
    }
    stepped
}

fn count_cpu(store: &Store, since: Duration) {
    let used = evenkeel_sys::thread_cpu_time().saturating_sub(since);
    store.counters.cpu_nanos[Class::Flush as usize].add(used.as_nanos() as u64);
}

/// The flush to begin now.
fn next(store: &Store) -> Option<OpenFlush> {
    let keyspaces = store.keyspaces.load();
    let waiting = keyspaces.by_name.values().max_by_key(|k| k.view.load().immutable.len())?;
    let memtable = waiting.view.load().immutable.last().cloned()?;
    Some(begin(store, waiting, memtable))
}

fn begin(store: &Store, keyspace: &Arc<KeyspaceState>, memtable: Arc<Memtable>) -> OpenFlush {
    let strategy = keyspace.strategy.load();
    let view = keyspace.view.load();
    let shape = OutputShape {
        class: Class::Flush,
        born: Born::Flush,
        table_bytes: strategy.strategy.cut.table_bytes,
        filter_bits: *strategy.strategy.filter_bits.get(0, view.version.levels.len()),
        compression: match store.options.compression {
            CompressionRule::Lz4 => Compression::Lz4,
            CompressionRule::Deep | CompressionRule::None => Compression::None,
        },
        oldest_tombstone_ms: memtable.oldest_tombstone_ms(),
    };
    // Listed now: the memtable takes no more writes, and all of them are published.
    let snapshots = store.snapshots.list();
    let job = FlushJob::new(Arc::clone(&store.job_context), memtable, snapshots, shape);
    OpenFlush { keyspace: Arc::clone(keyspace), job }
}
