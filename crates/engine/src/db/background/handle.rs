//! What keeps a store open: every `Db`, `Keyspace`, snapshot and cursor holds one. The last one to go closes the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::control::flush_at_close;
#[cfg(unix)]
use super::control_socket;
use super::threads::start_threads;
use super::ticker;
use super::trace;
use super::unlinks::unlink_at_close;
use crate::base::error::{CLOSED, Error, Result};
use crate::base::locks::{Mutex, try_lock};
use crate::db::jobs::stepping::give_up;
use crate::db::store::state::Store;
use crate::observe::event::DiscardedFor;

/// An open store and its threads.
#[derive(Debug)]
pub struct Handle {
    /// The store.
    pub store: Arc<Store>,
    /// What closing it came to.
    closed: Mutex<Option<Result<()>>>,
}

impl Handle {
    /// A handle on a store that has no threads yet.
    pub fn new(store: Arc<Store>) -> Handle {
        Handle { store, closed: Mutex::new(None) }
    }

    /// Starts the store's threads, and the control socket where it is wanted. After an error the handle is there to be dropped:
    /// that ends what runs and lets go of the store.
    pub fn start(&self) -> Result<()> {
        if self.store.background.threaded {
            start_threads(&self.store)?;
        }
        #[cfg(unix)]
        if self.store.opened.answers {
            let socket = control_socket::start(&self.store);
            self.store.background.threads().handles.extend(socket);
        }
        Ok(())
    }

    /// Flushes keyspaces without a log, ends the threads, seals the log, and answers whether everything written is with the disk.
    /// Paused jobs end unfinished: what they had not committed is found again by the picker. Who closes it again is told the same, when it
    /// is closed; a listener that is told of it meanwhile does not wait.
    pub fn close(&self) -> Result<()> {
        let mut closed = match try_lock(&self.closed) {
            Some(closed) => closed,
            None if self.store.listener.check_outside().is_err() => return Ok(()),
            None => self.closed.lock().unwrap_or_else(PoisonError::into_inner),
        };
        closed.get_or_insert_with(|| self.close_once()).clone()
    }

    fn close_once(&self) -> Result<()> {
        let store = &self.store;
        store.closed.store(true, Ordering::SeqCst);
        // No write is taken any more.
        store.background.end_pauses();
        let flushed = if store.read_only { Ok(()) } else { flush_unlogged(store) };
        trace::close(store);
        let waits = store.background.caller_waits(false);
        store.background.stop();
        store.wake_writers();
        store.lane.stop();
        store.ahead.stop();
        store.journal.stop();
        store.outbox.stop();
        #[cfg(unix)]
        if store.opened.answers {
            control_socket::wake(&store.dir);
        }
        let threads = std::mem::take(&mut *store.background.threads());
        threads.join();
        drop(waits);
        give_up_jobs(store);
        if store.read_only {
            return Ok(());
        }
        let outcome = match store.check_writable() {
            Ok(()) => end(store).and(flushed),
            Err(error) => {
                ticker::finish(store, false);
                Err(error)
            }
        };
        store.outbox.tell(&store.listener);
        outcome
    }
}

/// What open jobs had not committed is gone. What cannot be removed of it is an orphan, which the next open removes.
fn give_up_jobs(store: &Store) {
    let (jobs, flush) = {
        let mut state = store.background.lock();
        // Under the lock: what was preempted adds up at every moment.
        store.counters.jobs_discarded.add(state.jobs.iter().filter(|open| open.paused).count() as u64);
        (std::mem::take(&mut state.jobs), state.flush.take())
    };
    for open in jobs {
        if let Some(job) = open.job {
            let why = if open.paused { DiscardedFor::Preemption } else { DiscardedFor::Close };
            let _ = give_up(store, open.id, job, why);
        }
    }
    if let Some(mut open) = flush {
        let _ = open.job.abandon();
    }
}

/// What only memory holds becomes tables: closing loses nothing.
fn flush_unlogged(store: &Store) -> Result<()> {
    let keyspaces = store.keyspaces.load_full();
    let unlogged = keyspaces.by_name.values().filter(|keyspace| keyspace.no_wal);
    unlogged.map(|keyspace| flush_at_close(store, keyspace)).fold(Ok(()), Result::and)
}

/// Seals what is there; nothing is written any more.
fn end(store: &Store) -> Result<()> {
    let sealed = seal(store);
    ticker::finish(store, sealed.is_ok());
    unlink_at_close(store);
    store.wal_files.remove_spare();
    store.poisoned.get_or_init(|| CLOSED.to_owned());
    sealed
}

/// Ends the log, and notes in the manifest where: whatever is missing later is noticed.
fn seal(store: &Store) -> Result<()> {
    let mut commit = store.commit_state();
    let sealed_logs = commit.wal.close().map_err(|e| store.log_failed(e))?;
    if store.check_settled().is_err() {
        // The next open finds what this one found.
        return Ok(());
    }
    let mut tree = store.tree();
    match tree.versions.end(commit.last_seq, sealed_logs) {
        // Without space for it the log itself says that it ended, as far as it is there. Nobody appends to this manifest any more.
        Ok(()) | Err(Error::NoSpace { .. }) => {
            store.poisoned.get_or_init(|| CLOSED.to_owned());
            Ok(())
        }
        Err(error) => {
            store.poison(&error);
            Err(error)
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to tell; `Db::close` is how to hear of it.
        let _ = self.close();
    }
}
