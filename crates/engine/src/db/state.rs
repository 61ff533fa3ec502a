//! The store's parts, together. Stages are functions over what they need of this; none of them is a method here.
//!
//! Locks, in the order in which they may be taken: `commit`, `tree`, a keyspace's view, `background`. Readers take none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;

use super::background::Background;
use super::commit_queue::CommitQueue;
use super::commit_state::CommitState;
use super::keyspace_state::KeyspaceState;
use super::lane::Lane;
use super::snapshots::Snapshots;
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::units::KeyspaceId;
use crate::compaction::claims::Claims;
use crate::execution::output::JobContext;
use crate::observe::counters::Counters;
use crate::observe::event::{Event, Listener};
use crate::options::Options;
use crate::storage::file_system::{DirLock, FileSystem};
use crate::table::meta::TableMeta;
use crate::table::table_cache::TableCache;
use crate::version::version_set::VersionSet;
use crate::write::wal::WalFiles;

/// What a call on a closed store is told.
pub const CLOSED: &str = "the store is closed";

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Where it lives.
    pub dir: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub options: Options,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Who waits to write.
    pub commit_queue: CommitQueue,
    /// What the commit leader touches.
    pub commit: Mutex<CommitState>,
    /// The last sequence that readers see. Stored by the commit leader alone.
    pub visible: AtomicU64,
    /// The keyspaces, swapped whole when one comes or goes.
    pub keyspaces: ArcSwap<Keyspaces>,
    /// Trees, manifest and claims.
    pub tree: Mutex<TreeState>,
    /// Sequences that are being read at.
    pub snapshots: Snapshots,
    /// Open tables, and the block cache.
    pub tables: Arc<TableCache>,
    /// The log's files.
    pub wal_files: Arc<WalFiles>,
    /// What jobs need.
    pub job_context: Arc<JobContext>,
    /// Threads and open jobs.
    pub background: Background,
    /// Syncs and unlinks.
    pub lane: Arc<Lane>,
    /// Who wants to hear of events.
    pub listener: Events,
    /// The failure that made the store read-only.
    pub poisoned: OnceLock<String>,
    /// Set when the store is closed.
    pub closed: AtomicBool,
    /// Held as long as the store is open.
    #[expect(dead_code, reason = "held, not looked at")]
    pub lock: Box<dyn DirLock>,
}

/// Keyspaces by name and by id.
#[derive(Clone, Debug, Default)]
pub struct Keyspaces {
    /// By name.
    pub by_name: BTreeMap<String, Arc<KeyspaceState>>,
}

impl Keyspaces {}

/// What the tree lock guards.
#[derive(Debug)]
pub struct TreeState {
    /// Trees and manifest.
    pub versions: VersionSet,
    /// What open jobs hold, by keyspace.
    pub claims: BTreeMap<KeyspaceId, Claims>,
    /// Tables that no current Version refers to: unlinked when no older one does either.
    pub obsolete: Vec<Arc<TableMeta>>,
    /// The last job's id.
    pub last_job: u64,
    /// The OPTIONS file in force.
    pub options_number: Option<u64>,
}

/// A listener, or none.
#[derive(Clone, Default)]
pub struct Events(pub Option<Listener>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "listening" } else { "silent" })
    }
}

impl Store {
    /// The tree lock.
    pub fn tree(&self) -> MutexGuard<'_, TreeState> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commit lock.
    pub fn commit_state(&self) -> MutexGuard<'_, CommitState> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the listener.
    pub fn event(&self, event: &Event) {
        if let Some(listener) = &self.listener.0 {
            listener(event);
        }
    }

    /// `Poisoned` if a failure has made the store read-only.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Makes the store read-only for good, because of `error`.
    pub fn poison(&self, error: &Error) {
        self.poisoned.get_or_init(|| error.to_string());
        self.event(&Event::BackgroundError { error: error.to_string() });
        self.background.wake();
    }

    /// A failed append or sync of the log: the store goes read-only, except where nothing was written for want of space.
    pub fn log_failed(&self, error: Error) -> Error {
        if !matches!(error, Error::NoSpace { .. }) {
            self.poison(&error);
        }
        error
    }
}
