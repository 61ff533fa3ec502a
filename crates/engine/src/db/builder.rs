//! Opening a store: parts put together, recovery run, threads started.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use xxhash_rust::xxh3::xxh3_64;

use super::background::{Background, Threads};
use super::commit_queue::CommitQueue;
use super::commit_state::{CommitState, OpenMemtable};
use super::handle::Handle;
use super::keyspace_state::{KeyspaceState, NamedStrategy, ReadView};
use super::lane::Lane;
use super::options_file::{self, KeyspaceSettings};
use super::recovery::{self, ReplaySettings};
use super::snapshots::Snapshots;
use super::state::{Events, Keyspaces, Store, TreeState};
use super::strategies::{creation, persist, resolve};
use super::threads::start_threads;
use crate::base::clock::{Clock, SystemClock};
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, TableId};
use crate::compaction::catalog;
use crate::execution::output::{JobContext, TableIds};
use crate::execution::sync_lane::{InlineSyncLane, SyncLane};
use crate::observe::counters::Counters;
use crate::observe::event::{Event, Listener};
use crate::options::Options;
use crate::scheduler::catalog::parse as parse_schedule;
use crate::scheduler::policy::SchedulingPolicy;
use crate::storage::disk::DiskFileSystem;
use crate::storage::file_name::FileName;
use crate::storage::file_system::{DirLock, FileSystem};
use crate::table::block_cache::BlockCache;
use crate::table::table_cache::TableCache;
use crate::version::version_set::{Ids, Tree, VersionSet};
use crate::write::batch::DEFAULT_KEYSPACE;
use crate::write::memtable::Memtable;
use crate::write::wal::{NextNumber, Wal, WalFiles};

/// The name of the keyspace that always exists.
pub const DEFAULT_NAME: &str = "default";

/// How to open a store: settings, and the parts it works with.
pub struct Builder {
    path: PathBuf,
    options: Options,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    listener: Events,
    threaded: bool,
}

impl Builder {
    /// Opens a store at `path`, with defaults.
    pub(crate) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_path_buf(),
            options: Options::default(),
            fs: Arc::new(DiskFileSystem::new()),
            clock: Arc::new(SystemClock::default()),
            listener: Events::default(),
            threaded: true,
        }
    }

    /// The settings.
    #[must_use]
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// Fail instead of making a new store.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Builder {
        self.options.create_if_missing = create;
        self
    }

    /// The file system the store lives on; the real one by default.
    #[must_use]
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Builder {
        self.fs = fs;
        self
    }

    /// Where time comes from; the machine's clocks by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.clock = clock;
        self
    }

    /// Who hears of flushes, compactions, stalls and failures: called on the thread where they happen, so be quick.
    #[must_use]
    pub fn listener(mut self, listener: Listener) -> Builder {
        self.listener = Events(Some(listener));
        self
    }

    /// Starts no threads: background work is done by `Db::step`, and by waiting calls as they need it.
    #[must_use]
    pub fn without_threads(mut self) -> Builder {
        self.threaded = false;
        self
    }

    /// Opens the store and starts its threads.
    pub(crate) fn open_handle(self) -> Result<Arc<Handle>> {
        self.options.validate()?;
        let policy = parse_schedule(&self.options.schedule)?;
        let lock = self.take_directory()?;
        let versions = match VersionSet::recover(Arc::clone(&self.fs), &self.path)? {
            Some(versions) => versions,
            None => self.new_store()?,
        };
        versions.ids().file_at_least(recovery::next_file_number(&*self.fs, &self.path)?);
        let options_number = recovery::options_number(&*self.fs, &self.path)?;
        let persisted = match options_number {
            Some(number) => options_file::read(&*self.fs, &self.path, number)?,
            None => KeyspaceSettings::new(),
        };
        // Before anything is changed: a strategy that does not parse must leave the store as it is.
        self.strategy_of(DEFAULT_NAME, &persisted)?;
        let lane = Lane::new(self.threaded);
        let sync_lane: Arc<dyn SyncLane> =
            if self.threaded { Arc::clone(&lane) as _ } else { Arc::new(InlineSyncLane) };
        let context = self.job_context(&versions, sync_lane);
        let store = self.recover(versions, lock, lane, context, &persisted, options_number, policy)?;
        let threads = if store.background.threaded { start_threads(&store) } else { Threads::default() };
        // The first log is small: the next one had better be there soon.
        store.lane.poke();
        Ok(Arc::new(Handle::new(store, threads)))
    }

    /// Makes or finds the directory and takes its lock. Nothing is made where there is no store and none may be made.
    fn take_directory(&self) -> Result<Box<dyn DirLock>> {
        let missing = || {
            let path = self.path.display();
            Error::invalid(format!("there is no store at {path}; `keel load` or `keel put` make one"))
        };
        if !self.options.create_if_missing && !self.fs.exists(&FileName::Current.path(&self.path))? {
            return Err(missing());
        }
        self.fs.create_dir(&self.path)?;
        self.fs.lock(&FileName::Lock.path(&self.path))
    }

    /// An empty store, in a directory that has no file of one: CURRENT alone may not go missing.
    fn new_store(&self) -> Result<VersionSet> {
        for name in self.fs.list(&self.path)? {
            if let Some(FileName::Manifest(_) | FileName::Table(_)) = FileName::parse(&name)
                && self
                    .fs
                    .list(&self.path)?
                    .iter()
                    .any(|n| matches!(FileName::parse(n), Some(FileName::Table(_))))
            {
                let what = format!("it is missing, but {name} is there: this was a store");
                return Err(Error::corruption(FileName::Current.path(&self.path), 0, what));
            }
        }
        let mut versions = VersionSet::empty(Arc::clone(&self.fs), &self.path);
        let strategy = self.strategy_of(DEFAULT_NAME, &KeyspaceSettings::new())?.strategy;
        let created = creation(versions.ids(), DEFAULT_NAME, &strategy);
        debug_assert!(created.created.iter().all(|keyspace| keyspace.id == DEFAULT_KEYSPACE));
        versions.apply_unrecorded(&created)?;
        Ok(versions)
    }

    fn job_context(&self, versions: &VersionSet, lane: Arc<dyn SyncLane>) -> Arc<JobContext> {
        let salt = self.clock.wall_ms() ^ (u64::from(std::process::id()) << 32);
        Arc::new(JobContext {
            fs: Arc::clone(&self.fs),
            dir: self.path.clone(),
            clock: Arc::clone(&self.clock),
            lane,
            ids: Box::new(FileIds { ids: Arc::clone(versions.ids()), salt }),
            block_bytes: self.options.block_bytes,
        })
    }

    /// What a keyspace's strategy is: given now, or persisted, or the default.
    fn strategy_of(&self, name: &str, persisted: &KeyspaceSettings) -> Result<NamedStrategy> {
        let given = self.options.strategy.as_deref().filter(|_| name == DEFAULT_NAME);
        let kept = persisted.get(name).and_then(|o| o.strategy.as_deref());
        let text = given.or(kept).unwrap_or(catalog::DEFAULT);
        resolve(text, self.memtable_bytes_of(name, persisted), &self.options)
    }

    /// The default keyspace has the store's memtable size; the others keep their own.
    fn memtable_bytes_of(&self, name: &str, persisted: &KeyspaceSettings) -> u64 {
        let kept = persisted.get(name).and_then(|o| o.memtable_bytes).filter(|_| name != DEFAULT_NAME);
        kept.unwrap_or(self.options.memtable_bytes)
    }

    /// Replays the logs, begins a new log and a new manifest, and removes what is left over.
    #[expect(clippy::too_many_arguments, reason = "the parts of a store, put together once")]
    fn recover(
        self,
        mut versions: VersionSet,
        lock: Box<dyn DirLock>,
        lane: Arc<Lane>,
        context: Arc<JobContext>,
        persisted: &KeyspaceSettings,
        options_number: Option<u64>,
        policy: SchedulingPolicy,
    ) -> Result<Arc<Store>> {
        let events = self.listener.clone();
        let tell = |event: &Event| {
            if let Some(listener) = &events.0 {
                listener(event);
            }
        };
        let settings = ReplaySettings {
            memtable_bytes: self.options.memtable_bytes,
            table_bytes: self.options.table_bytes,
            filter_bits: self.options.filter_bits,
        };
        versions.rotate_manifest_at(self.options.memtable_bytes);
        recovery::tidy_trees(&mut versions)?;
        // The lane has no thread yet: recovery syncs where it is.
        let replaying = self.job_context(&versions, Arc::new(InlineSyncLane));
        let (last_seq, old_logs) = recovery::replay_logs(&replaying, &mut versions, &settings, &tell)?;
        let numbers: Box<dyn NextNumber> = Box::new(FileIds { ids: Arc::clone(versions.ids()), salt: 0 });
        let (fs, dir) = (Arc::clone(&self.fs), self.path.clone());
        let wal_files = WalFiles::new(Arc::clone(&fs), dir.clone(), self.options.wal_file_bytes(), numbers);
        let wal = Wal::begin(Arc::clone(&wal_files), last_seq.next())?;
        versions.set_recovered(last_seq, wal.number());
        versions.begin_manifest()?;
        recovery::remove_orphans(&*fs, &dir, &versions, options_number)?;
        old_logs.into_iter().for_each(|log| wal_files.adopt(log));

        let mut keyspaces = Keyspaces::default();
        let mut memtables = Vec::new();
        for (id, tree) in versions.trees() {
            let memtable_bytes = self.memtable_bytes_of(&tree.name, persisted);
            let strategy = self.strategy_of(&tree.name, persisted)?;
            let (state, open) = open_keyspace(*id, tree, memtable_bytes, strategy);
            keyspaces.by_name.insert(tree.name.clone(), state);
            memtables.push(open);
        }
        let claims = versions.trees().keys().map(|id| (*id, Default::default())).collect();
        let sizes = keyspaces.by_name.values().map(|k| k.memtable_bytes);
        let cache = BlockCache::new(self.options.cache_capacity(sizes), self.options.block_bytes as usize);
        let tables = Arc::new(TableCache::new(Arc::clone(&fs), dir.clone(), Arc::new(cache)));
        let store = Store {
            fs,
            dir,
            clock: self.clock,
            options: self.options,
            counters: Arc::new(Counters::default()),
            commit_queue: CommitQueue::default(),
            commit: Mutex::new(CommitState { wal, last_seq, memtables }),
            visible: AtomicU64::new(last_seq.0),
            keyspaces: ArcSwap::from_pointee(keyspaces),
            tree: Mutex::new(TreeState {
                versions,
                claims,
                obsolete: Vec::new(),
                last_job: 0,
                options_number,
            }),
            snapshots: Snapshots::default(),
            tables,
            wal_files,
            job_context: context,
            background: Background::new(policy, self.threaded),
            lane,
            listener: self.listener,
            poisoned: OnceLock::new(),
            closed: AtomicBool::new(false),
            lock,
        };
        persist(&store)?;
        Ok(Arc::new(store))
    }
}

/// A keyspace's state and its open memtable.
pub fn open_keyspace(
    id: KeyspaceId,
    tree: &Tree,
    memtable_bytes: u64,
    strategy: NamedStrategy,
) -> (Arc<KeyspaceState>, OpenMemtable) {
    let (writer, active) = Memtable::new(b"", memtable_bytes);
    let view = ReadView { active, immutable: Vec::new(), version: Arc::clone(&tree.version) };
    let state = Arc::new(KeyspaceState::new(id, tree.name.clone(), memtable_bytes, view, strategy));
    (Arc::clone(&state), OpenMemtable { keyspace: state, writer })
}

/// File numbers, and random ids made of them.
#[derive(Debug)]
struct FileIds {
    ids: Arc<Ids>,
    salt: u64,
}

impl TableIds for FileIds {
    fn next_table(&self) -> TableId {
        self.ids.table()
    }

    fn unique_id(&self) -> u64 {
        // Told apart by number within a store and by salt between stores: not a secret.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        xxh3_64(&[self.salt.to_le_bytes(), calls.to_le_bytes()].concat())
    }
}

impl NextNumber for FileIds {
    fn next_number(&self) -> u64 {
        self.ids.file()
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
