//! The store's parts, together. Stages are functions over what they need of this; none of them is a method here.
//!
//! Locks, in the order in which they may be taken: a handle's `closed`, `changing_options`, `commit`, `tree`, a keyspace's view,
//! `background`. Readers take none.
//! Whoever has `commit` may wait for flushes, so the flush lane never waits for it. Events are told under any of them, for the
//! listener hears of them elsewhere (`outbox.rs`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::background::Background;
use super::commit_queue::CommitQueue;
use super::commit_state::CommitState;
use super::decisions::Decisions;
use super::gate::Admission;
use super::journal::Journal;
use super::keyspace_state::KeyspaceState;
use super::lane::Lane;
use super::logged_deletes::LoggedDeletes;
use super::outbox::{Events, Outbox};
use super::snapshots::Snapshots;
use super::ticker_state::Ticker;
use super::tracing::Tracing;
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::locks::{Mutex, MutexGuard, try_lock};
use crate::base::units::{IdMap, KeyspaceId};
use crate::compaction::claims::Claims;
use crate::execution::output::JobContext;
use crate::execution::rate_limiter::RateLimiter;
use crate::observe::client_ops::ClientOps;
use crate::observe::counters::Counters;
use crate::observe::event::Event;
use crate::observe::memory::MemoryBudget;
use crate::observe::slow::SlowOperations;
use crate::options::Options;
use crate::storage::file_system::{DirLock, FileSystem};
use crate::table::meta::TableMeta;
use crate::table::table_cache::TableCache;
use crate::version::version_set::VersionSet;
use crate::write::wal::WalFiles;

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Where it lives.
    pub dir: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Settings, swapped whole when one is changed.
    pub options: ArcSwap<Options>,
    /// Held while an option, a strategy or the set of keyspaces is changed, from looking at what is in force to having it in
    /// OPTIONS: each of them rests on the others.
    pub changing_options: Mutex<()>,
    /// What the store remembers where something else is in force for this open only.
    pub passing: Mutex<Passing>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Clients' reads one by one, while the schedule wants them counted.
    pub client_ops: Arc<ClientOps>,
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
    /// Deletes in the log that have to be gone in time.
    pub deletes: LoggedDeletes,
    /// Memory in use by class.
    pub memory: Arc<MemoryBudget>,
    /// Who may write, and when.
    pub admission: Admission,
    /// What jobs need.
    pub job_context: Arc<JobContext>,
    /// The same, but syncs are done where they are asked for: for the end of the recovery.
    pub inline_context: Arc<JobContext>,
    /// Threads and open jobs.
    pub background: Background,
    /// Syncs and unlinks.
    pub lane: Arc<Lane>,
    /// What writers need next.
    pub ahead: Arc<Lane>,
    /// Who wants to hear of events.
    pub listener: Events,
    /// Events on their way to it.
    pub outbox: Outbox,
    /// Events on their way to `LOG`.
    pub journal: Journal,
    /// What writes `LOG` and `STATS`, and looks each second.
    pub ticker: Mutex<Ticker>,
    /// The last compactions that were decided.
    pub decisions: Decisions,
    /// Slow operations and their causes.
    pub slow: Arc<SlowOperations>,
    /// Whether operations are recorded.
    pub trace: Tracing,
    /// When the store was opened, and its unique name.
    pub opened: Opened,
    /// Opened to be read only: its files are held, not owned, and what recovery writes is in memory.
    pub read_only: bool,
    /// The failure that made the store read-only.
    pub poisoned: OnceLock<String>,
    /// Set when the store is closed.
    pub closed: AtomicBool,
    /// What recovery could not do for want of space: until it is done, the store takes no write and changes no file.
    pub unsettled: Unsettled,
    /// Held as long as the store is open.
    #[expect(dead_code, reason = "held, not looked at")]
    pub lock: Box<dyn DirLock>,
}

/// Settings that hold for this open only: what the store remembers in their place.
#[derive(Debug, Default)]
pub struct Passing {
    /// Values by option.
    pub options: BTreeMap<&'static str, String>,
    /// Strategies by keyspace.
    pub strategies: BTreeMap<String, String>,
}

/// What was known when the store was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// By the monotone clock.
    pub at: Duration,
    /// What CPU the process had taken by then.
    pub cpu: Duration,
    /// The content of IDENTITY, where there is one.
    pub identity: OnceLock<String>,
    /// What it does without, because it is gone: OPTIONS, of a store that is only looked at.
    pub without: OnceLock<Error>,
    /// True if `LOG` and `STATS` are written where the options say so.
    pub writes_logs: bool,
    /// True if the control socket answers.
    pub answers: bool,
}

impl Opened {
    /// The store's unique name; empty where there was no space to give it one.
    pub fn identity(&self) -> &str {
        self.identity.get().map_or("", String::as_str)
    }
}

/// Keyspaces by name and by id: they come and go by `insert` and `remove` alone.
#[derive(Clone, Debug, Default)]
pub struct Keyspaces {
    /// By name.
    pub by_name: BTreeMap<String, Arc<KeyspaceState>>,
    /// The same by id, for who asks for one after the other, as the look for work does.
    ids: IdMap<KeyspaceId, Arc<KeyspaceState>>,
}

impl Keyspaces {
    /// One comes.
    pub fn insert(&mut self, keyspace: Arc<KeyspaceState>) {
        self.ids.insert(keyspace.id, Arc::clone(&keyspace));
        self.by_name.insert(keyspace.name.clone(), keyspace);
    }

    /// The one of this name goes.
    pub fn remove(&mut self, name: &str) {
        if let Some(gone) = self.by_name.remove(name) {
            self.ids.remove(&gone.id);
        }
    }

    /// The one of this number.
    pub fn by_id(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceState>> {
        self.ids.get(&id)
    }

    /// False if this one was dropped, whatever has its name now.
    pub fn has(&self, keyspace: &KeyspaceState) -> bool {
        self.by_name.get(&keyspace.name).is_some_and(|known| known.id == keyspace.id)
    }
}

/// What the tree lock guards.
#[derive(Debug)]
pub struct TreeState {
    /// Trees and manifest.
    pub versions: VersionSet,
    /// What open jobs hold, by keyspace.
    pub claims: BTreeMap<KeyspaceId, Claims>,
    /// Tables that no current Version refers to: unlinked when no older one does either.
    pub obsolete: Vec<Arc<TableMeta>>,
    /// Keyspaces that are being compacted by hand, and how often: their levels keep their numbers meanwhile.
    pub by_hand: BTreeMap<KeyspaceId, u32>,
    /// How fast those are unlinked.
    pub unlink_rate: RateLimiter,
    /// The last job's id.
    pub last_job: u64,
    /// The OPTIONS file in force.
    pub options_number: Option<u64>,
}

/// What is left to do of an opening that found the disk full (`db/recovery/settling.rs`).
#[derive(Debug, Default)]
pub struct Unsettled {
    /// True until it is done.
    pub pending: AtomicBool,
    /// The logs that recovery has read; no longer needed once it is done.
    pub old_logs: Mutex<Vec<u64>>,
}

impl Store {
    /// The tree lock.
    pub fn tree(&self) -> MutexGuard<'_, TreeState> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for the flush lane, which writers may wait for: see [`Priorities::lock_soon`].
    ///
    /// [`Priorities::lock_soon`]: super::priority::Priorities::lock_soon
    pub fn tree_soon(&self) -> MutexGuard<'_, TreeState> {
        self.background.priorities.lock_soon(&self.tree)
    }

    /// The same if nobody has it.
    pub fn try_tree(&self) -> Option<MutexGuard<'_, TreeState>> {
        try_lock(&self.tree)
    }

    /// The lock on what OPTIONS holds.
    pub fn changing_options(&self) -> MutexGuard<'_, ()> {
        self.changing_options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same if nobody has it.
    pub fn try_changing_options(&self) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.changing_options)
    }

    /// What is in force for this open only.
    pub fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commit lock.
    pub fn commit_state(&self) -> MutexGuard<'_, CommitState> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells `LOG`, and has the listener told. Any lock may be held.
    pub fn event(&self, event: &Event) {
        if matches!(event, Event::BackgroundError { .. }) {
            self.counters.background_errors.add(1);
        }
        let keyspaces = self.keyspaces.load();
        let keyspace = event.keyspace().and_then(|id| keyspaces.by_id(id));
        self.journal.tell(event, keyspace.map(|k| k.name.as_str()), self.clock.wall_ms());
        if self.listener.0.is_some() {
            self.outbox.add(event);
            self.tell_here();
        }
    }

    /// Without threads, tells the listener what waits for it; while anybody holds a lock that it may need, the next step does.
    pub fn tell_here(&self) {
        if !self.background.threaded
            && is_free(&self.commit)
            && is_free(&self.tree)
            && self.background.is_free()
        {
            self.outbox.tell(&self.listener);
        }
    }

    /// The commit lock, unless somebody has it. For background threads, which are raised before: writers wait for who has it.
    pub fn try_commit_state(&self) -> Option<MutexGuard<'_, CommitState>> {
        self.background.priorities.raise_all();
        try_lock(&self.commit)
    }

    /// `Poisoned` if a failure has made the store read-only.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(cause) => Err(self.refusal(cause)),
        }
    }

    #[cold]
    fn refusal(&self, cause: &str) -> Error {
        if self.read_only && !self.closed.load(Ordering::Acquire) {
            return Error::ReadOnly { dir: self.dir.clone() };
        }
        Error::Poisoned { cause: cause.to_owned() }
    }

    /// Beside `check_writable`: `Poisoned` if the store is being closed, `NoSpace` if it was opened on a full disk.
    #[inline]
    pub fn check_takes_writes(&self) -> Result<()> {
        self.check_writable()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        self.check_settled()
    }

    /// `NoSpace` while there is no space to finish the recovery.
    #[inline]
    pub fn check_settled(&self) -> Result<()> {
        if self.unsettled.pending.load(Ordering::Acquire) {
            let context = "finish the recovery of the store, which is read-only until then".to_owned();
            return Err(Error::NoSpace { context });
        }
        Ok(())
    }

    /// Makes the store read-only for good, because of `error`.
    pub fn poison(&self, error: &Error) {
        self.poisoned.get_or_init(|| error.to_string());
        self.background.wake();
        self.wake_writers();
        // Without threads it may be told here, and a listener that panics was perhaps what has brought us here.
        let tell = || {
            self.event(&Event::BackgroundError { error: error.to_string() });
            self.event(&Event::Stopping { reason: error.to_string() });
        };
        let _ = catch_unwind(AssertUnwindSafe(tell));
    }

    /// Wakes every writer that waits for its turn: the store is read-only, or closing.
    pub fn wake_writers(&self) {
        self.keyspaces.load().by_name.values().for_each(|keyspace| keyspace.gate.wake_all());
        self.admission.gate.wake_all();
    }

    /// Makes the directory's entries durable. A failure makes the store read-only: nobody knows which names will be there.
    pub fn sync_dir(&self) -> Result<()> {
        self.fs.sync_dir(&self.dir).map_err(|error| {
            self.poison(&error);
            match error {
                Error::NoSpace { .. } => Error::Poisoned { cause: error.to_string() },
                other => other,
            }
        })
    }

    /// A failed append or sync of the log: the store goes read-only.
    pub fn log_failed(&self, error: Error) -> Error {
        self.poison(&error);
        error
    }
}

/// True if nobody has the lock, this thread included.
fn is_free<T>(lock: &Mutex<T>) -> bool {
    !matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}
