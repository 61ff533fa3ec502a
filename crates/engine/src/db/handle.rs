//! What keeps a store open: every `Db`, `Keyspace`, snapshot and cursor holds one. The last one to go closes the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::background::Threads;
use super::install::unlink_obsolete;
use super::state::{CLOSED, Store};
use crate::base::error::Result;

/// An open store and its threads.
#[derive(Debug)]
pub struct Handle {
    /// The store.
    pub store: Arc<Store>,
    threads: Mutex<Threads>,
}

impl Handle {
    /// A handle on a store whose threads are running.
    pub fn new(store: Arc<Store>, threads: Threads) -> Handle {
        Handle { store, threads: Mutex::new(threads) }
    }

    /// Ends the threads, seals the log, and answers whether everything written is with the disk. Idempotent. Paused jobs
    /// end unfinished: what they had not committed is found again by the picker.
    pub fn close(&self) -> Result<()> {
        let store = &self.store;
        if store.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        store.background.stop();
        store.lane.stop();
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)).join();
        let jobs = std::mem::take(&mut store.background.lock().jobs);
        let flush = store.background.lock().flush.take();
        // What cannot be removed is an orphan, which the next open removes.
        for mut job in jobs.into_iter().filter_map(|open| open.job) {
            let _ = job.abandon();
        }
        if let Some(mut open) = flush {
            let _ = open.job.abandon();
        }
        store.check_writable()?;
        let mut commit = store.commit_state();
        let sealed = commit.wal.close().map_err(|e| store.log_failed(e));
        // Files that nothing refers to; what cannot be removed now, or is still being read, is an orphan too.
        let _ = unlink_obsolete(store);
        store.wal_files.remove_spare();
        store.poisoned.get_or_init(|| CLOSED.to_owned());
        sealed
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to tell; `Db::close` is how to hear of it.
        let _ = self.close();
    }
}
