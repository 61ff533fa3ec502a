//! Opening a store: parts put together, recovery run, threads started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::read_only;
use super::untrusted;
use crate::base::clock::{Clock, SystemClock};
use crate::base::error::{Error, Result};
use crate::base::locks::Mutex;
use crate::base::units::{KeyspaceId, SeqNo};
use crate::compaction::catalog;
use crate::db::background::handle::Handle;
use crate::db::background::learning;
use crate::db::background::ticker::write_banner;
use crate::db::files::file_ids::{log_numbers, table_ids};
use crate::db::files::identity;
use crate::db::jobs::{device_speed, scheduling};
use crate::db::recovery::replay::{self, ReplaySettings};
use crate::db::recovery::settling::settle;
use crate::db::settings::in_force;
use crate::db::settings::options_file::{self, KeyspaceSettings, Stored};
use crate::db::settings::strategies::{creation, resolve};
use crate::db::store::background::Background;
use crate::db::store::commit_queue::CommitQueue;
use crate::db::store::commit_state::{CommitState, OpenMemtable};
use crate::db::store::decisions::Decisions;
use crate::db::store::gate::Admission;
use crate::db::store::journal::Journal;
use crate::db::store::keyspace_state::{DEFAULT_NAME, KeyspaceState, MemtableBytes, NamedStrategy, ReadView};
use crate::db::store::lane::Lane;
use crate::db::store::logged_deletes::LoggedDeletes;
use crate::db::store::outbox::{Events, Outbox};
use crate::db::store::snapshots::Snapshots;
use crate::db::store::state::{Keyspaces, Opened, Passing, Store, TreeState, Unsettled};
use crate::db::store::ticker_state::Ticker;
use crate::db::store::tracing::Tracing;
use crate::execution::output::JobContext;
use crate::execution::rate_limiter::RateLimiter;
use crate::execution::sync_lane::{InlineSyncLane, SyncLane};
use crate::observe::client_ops::ClientOps;
use crate::observe::counters::Counters;
use crate::observe::event::{Event, Listener};
use crate::observe::memory::MemoryBudget;
use crate::observe::slow::SlowOperations;
use crate::options::{Options, TableStyle};
use crate::scheduler::catalog::parse as parse_schedule;
use crate::scheduler::policy::SchedulingPolicy;
use crate::storage::disk::DiskFileSystem;
use crate::storage::file_name::FileName;
use crate::storage::file_system::{DirLock, FileSystem};
use crate::storage::table_files::TableFiles;
use crate::table::block_cache::BlockCache;
use crate::table::table_cache::TableCache;
use crate::version::level::Level;
use crate::version::version_set::{Tree, VersionSet};
use crate::write::batch::DEFAULT_KEYSPACE;
use crate::write::memtable::Memtable;
use crate::write::wal::{Wal, WalFiles};

/// How to open a store: settings, and the parts it works with.
#[derive(Clone)]
pub struct Builder {
    pub(in crate::db) path: PathBuf,
    pub(in crate::db) options: Options,
    pub(in crate::db) fs: Arc<dyn FileSystem>,
    pub(in crate::db) clock: Arc<dyn Clock>,
    listener: Events,
    threaded: bool,
    /// LOG and STATS are written without threads, too.
    writes_logs: bool,
    /// Stands above the option.
    control_socket: Option<bool>,
    read_only: bool,
    untrusted: bool,
    /// As `ReplaySettings::looks`.
    looks: Option<(SeqNo, SeqNo)>,
    by_name: Vec<(String, String)>,
    remember: bool,
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
            writes_logs: true,
            control_socket: None,
            read_only: false,
            untrusted: false,
            looks: None,
            by_name: Vec::new(),
            remember: true,
        }
    }

    /// The settings. One that is as by default is what the store was last opened with or changed to; to have the default
    /// whatever was before, say so with [`Builder::set`].
    #[must_use]
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// Sets one option by its name, as `--set name=value` does. It wins over `options` and over what the store remembers. `open`
    /// says what is wrong with it.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Builder {
        self.by_name.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether the store remembers what `options` and `set` say for the opens to come; it does unless told otherwise. Else they
    /// hold until it is closed, except for a store that this open makes, which remembers what it was made with.
    #[must_use]
    pub fn remember(mut self, remember: bool) -> Builder {
        self.remember = remember;
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

    /// Who hears of flushes, compactions, stalls and failures: one event at a time, in their order, on a thread that holds no lock
    /// of the store and that nobody waits for. It may read the store and ask it anything; what would change the store is refused
    /// there. One that is too slow misses events, and is told how many. One that panics makes the store read-only.
    ///
    /// Closing the store waits until all is told: hold nothing then that the listener waits for. [`Builder::without_threads`]
    /// starts no thread for it either: it is called by who steps or waits.
    #[must_use]
    pub fn listener(mut self, listener: Listener) -> Builder {
        self.listener = Events(Some(listener));
        self
    }

    /// Opens a store that exists, to look at it: no lock is taken and no byte is changed, so it works beside a process that
    /// has it open, and on a disk that is full or cannot be written. What is seen is the store at the moment of the open,
    /// whole commits only; it does not follow what is written later. Writes are refused with `ReadOnly`.
    ///
    /// What is not in tables is read from the log into memory, at most `Options::memory_bytes` of it. All tables are held open.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Builder {
        self.read_only = read_only || self.untrusted;
        self
    }

    /// Opens a store that somebody else may have made to do harm: read-only, and only if every byte of every table is whole and its trees
    /// make sense. What it remembers of options and strategies is not believed: those of the builder hold. `Limit` refuses one that
    /// would take more than `Options::memory_bytes`. Checksums show damage and no forger: its content is whoever's it is.
    #[must_use]
    pub fn untrusted(mut self) -> Builder {
        (self.read_only, self.untrusted) = (true, true);
        self
    }

    /// Starts no threads: background work is done by `Db::step`, and by waiting calls as they need it, which
    /// answer [`Error::Idle`] where only time could help. `LOG` and `STATS` are not written, and there is no control socket.
    #[must_use]
    pub fn without_threads(mut self) -> Builder {
        self.threaded = false;
        self.writes_logs = false;
        self
    }

    /// Writes `LOG` and `STATS` without threads all the same, in the steps of background work: after `without_threads`.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn logs_in_steps(mut self) -> Builder {
        self.writes_logs = true;
        self
    }

    /// Answers questions at the Unix socket `SOCKET` in the store's directory while it is open, or does not: whatever the option
    /// `control_socket` says, and not remembered.
    #[must_use]
    pub fn control_socket(mut self, answers: bool) -> Builder {
        self.control_socket = Some(answers);
        self
    }

    /// Opens the store and starts its threads.
    pub(crate) fn open_handle(self) -> Result<Arc<Handle>> {
        // What makes no sense whatever the store remembers is refused before anything is looked at.
        let options = in_force::given(&self.options, &self.by_name)?;
        if !self.read_only {
            return self.open_files();
        }
        // What the store remembers counts as far as it can be read beside its writer.
        let stored = if self.untrusted { None } else { read_only::remembered(&*self.fs, &self.path) };
        let settled = in_force::settle(&self.options, &self.by_name, stored.as_ref());
        let memory_bytes = settled.map_or(options.memory_bytes, |(settled, _)| settled.memory_bytes);
        let limits = untrusted::Limits { memory_bytes, untrusted: self.untrusted };
        read_only::open_beside(&self.fs, &self.path, limits, |frozen, looks| {
            let mut builder = self.clone();
            builder.fs = frozen;
            builder.looks = Some(looks);
            builder.threaded = false;
            builder.writes_logs = false;
            builder.options.create_if_missing = false;
            let handle = builder.open_files()?;
            limits.check_store(&handle.store)?;
            Ok(handle)
        })
    }

    fn open_files(mut self) -> Result<Arc<Handle>> {
        let begun_at = self.clock.now();
        let lock = self.take_directory()?;
        let versions = match VersionSet::recover(Arc::clone(&self.fs), &self.path)? {
            Some(versions) => versions,
            None => self.new_store()?,
        };
        replay::check_tables(&*self.fs, &self.path, &versions)?;
        versions.ids().file_at_least(replay::next_file_number(&*self.fs, &self.path)?);
        let gone = OnceLock::new();
        let persisted = self.read_settings(&versions, &gone)?;
        let (mut options, told) = in_force::settle(&self.options, &self.by_name, persisted.as_ref())?;
        let measured_before = options.device_measured_bytes_per_sec;
        let reserve = options.reserve_bytes;
        let measure =
            || device_speed::measure(&self.fs, &*self.clock, &self.path, versions.ids().file(), reserve);
        let settled = match self.read_only {
            true => parse_schedule(&options.schedule).map(|policy| (policy, None)),
            false => scheduling::settle_schedule(&mut options, true, measure),
        };
        let (policy, found) = settled
            .map_err(|e| in_force::of_schedule(e, &self.options, &self.by_name, persisted.as_ref()))?;
        let mut passing = match persisted.as_ref().filter(|_| !self.remember) {
            Some(stored) => in_force::passing(&options, stored)?,
            None => Passing::default(),
        };
        if options.device_measured_bytes_per_sec != measured_before {
            passing.options.remove(device_speed::MEASURED);
        }
        self.options = options;
        let persisted = persisted.map_or_else(KeyspaceSettings::new, |stored| stored.keyspaces);
        // Before anything is changed: a strategy that does not parse must leave the store as it is.
        self.strategy_of(DEFAULT_NAME, &persisted)?;
        let files = TableFiles::new(Arc::clone(&self.fs), Arc::clone(&self.clock));
        let lane = Lane::new(self.threaded);
        let context = self.job_context(&versions, &files, Arc::clone(&lane) as _, &Arc::default());
        let store = self.recover(versions, lock, lane, context, &persisted, policy)?;
        *store.passing() = passing;
        let logs = store.unsettled.old_logs.lock().map_or(0, |logs| logs.len() as u64);
        recovered(&store)?;
        if store.read_only {
            store.poisoned.get_or_init(|| "it was opened read-only".to_owned());
            let _ = gone.into_inner().map(|error| store.opened.without.set(error));
            if let Some(identity) = identity::read(&*store.fs, &store.dir)? {
                store.opened.identity.get_or_init(|| identity);
            }
        } else {
            identified(&store)?;
        }
        learning::resume(&store);
        write_banner(&store);
        store.event(&opened_event(&store, logs, begun_at));
        told.iter().chain(&found).for_each(|event| store.event(event));
        let handle = Handle::new(store);
        handle.start()?;
        // The first log is small: the next one had better be there soon.
        handle.store.ahead.poke();
        Ok(Arc::new(handle))
    }

    /// What the OPTIONS file says that the manifest names. One that is missing is not silently done without.
    fn read_settings(&self, versions: &VersionSet, gone: &OnceLock<Error>) -> Result<Option<Stored>> {
        let Some(number) = versions.options_file().filter(|_| !self.untrusted) else { return Ok(None) };
        let path = FileName::Options(number).path(&self.path);
        if self.fs.exists(&path)? {
            return options_file::read(&*self.fs, &self.path, number).map(Some);
        }
        let error = Error::corruption(
            &path,
            0,
            "this file is missing, and with it the options and the strategies that were set: put it back, or open the \
             store once with a strategy given (`--strategy NAME`), and everything else is as by default",
        );
        // Answers do not depend on it, and a store that is only read loses nothing by it.
        if self.options.strategy.is_none() && !self.read_only {
            return Err(error);
        }
        self.listener.tell(&Event::BackgroundError { error: error.to_string() });
        let _ = gone.set(error);
        Ok(None)
    }

    /// Makes or finds the directory and takes its lock. Nothing is made where there is no store and none may be made.
    fn take_directory(&self) -> Result<Box<dyn DirLock>> {
        let missing = || {
            let path = self.path.display();
            Error::invalid(format!(
                "there is no store at {path}: open it with create_if_missing, or make one with `keel put`"
            ))
        };
        if !self.fs.exists(&FileName::Current.path(&self.path))? {
            if !self.options.create_if_missing {
                return Err(missing());
            }
            // Nothing is remembered that could make sense of it.
            scheduling::check_schedule(&in_force::settle(&self.options, &self.by_name, None)?.0)?;
        }
        self.fs.create_dir(&self.path)?;
        self.fs.lock(&FileName::Lock.path(&self.path))
    }

    /// An empty store, in a directory that was none before. It may have been there already, so its own name is made durable.
    fn new_store(&self) -> Result<VersionSet> {
        replay::check_never_used(&*self.fs, &self.path)?;
        replay::sync_name(&*self.fs, &self.path)?;
        let mut versions = VersionSet::empty(Arc::clone(&self.fs), &self.path);
        let strategy = self.strategy_of(DEFAULT_NAME, &KeyspaceSettings::new())?.strategy;
        let created = creation(versions.ids(), DEFAULT_NAME, &strategy, false);
        debug_assert!(created.created.iter().all(|keyspace| keyspace.id == DEFAULT_KEYSPACE));
        versions.apply_unrecorded(&created)?;
        Ok(versions)
    }

    fn job_context(
        &self,
        versions: &VersionSet,
        files: &Arc<TableFiles>,
        lane: Arc<dyn SyncLane>,
        memory: &Arc<MemoryBudget>,
    ) -> Arc<JobContext> {
        let salt = self.clock.wall_ms() ^ (u64::from(std::process::id()) << 32);
        Arc::new(JobContext {
            fs: Arc::clone(&self.fs),
            dir: self.path.clone(),
            clock: Arc::clone(&self.clock),
            lane,
            files: Arc::clone(files),
            ids: table_ids(versions, salt),
            block_bytes: AtomicU64::new(self.options.block_bytes),
            memory: Arc::clone(memory),
        })
    }

    /// What a keyspace's strategy is: given now, or persisted, or the default.
    fn strategy_of(&self, name: &str, persisted: &KeyspaceSettings) -> Result<NamedStrategy> {
        let given = self.options.strategy.as_deref().filter(|_| name == DEFAULT_NAME);
        let kept = persisted.get(name).and_then(|o| o.strategy.as_deref());
        let text = given.or(kept).unwrap_or(catalog::DEFAULT);
        resolve(text, self.memtable_bytes_of(name, persisted).get(), &self.options)
    }

    /// The default keyspace has the store's memtable size, and so have others without one of their own.
    fn memtable_bytes_of(&self, name: &str, persisted: &KeyspaceSettings) -> MemtableBytes {
        let own = persisted.get(name).and_then(|o| o.memtable_bytes).filter(|_| name != DEFAULT_NAME);
        MemtableBytes { own, of_store: self.options.memtable_bytes }
    }

    /// How each keyspace's tables are written; the default one has the store's settings, as with its memtables.
    fn styles_of(
        &self,
        versions: &VersionSet,
        persisted: &KeyspaceSettings,
    ) -> Result<BTreeMap<KeyspaceId, TableStyle>> {
        let own = |name: &str| persisted.get(name).filter(|_| name != DEFAULT_NAME);
        let style = |(id, tree): (&KeyspaceId, &Tree)| {
            Ok((*id, own(&tree.name).map_or(Ok(TableStyle::default()), TableStyle::of)?))
        };
        versions.trees().iter().map(style).collect()
    }

    /// In what time deletes are to be gone, for the keyspaces where they are.
    fn ttls_of(
        &self,
        versions: &VersionSet,
        persisted: &KeyspaceSettings,
    ) -> Result<BTreeMap<KeyspaceId, u64>> {
        let mut out = BTreeMap::new();
        for (id, tree) in versions.trees() {
            let ttl_ms = self.strategy_of(&tree.name, persisted)?.strategy.ttl_ms();
            out.extend(ttl_ms.map(|ttl_ms| (*id, ttl_ms)));
        }
        Ok(out)
    }

    /// Replays the logs and puts the store together; nothing that is on the disk refers to anything new yet.
    fn recover(
        self,
        mut versions: VersionSet,
        lock: Box<dyn DirLock>,
        lane: Arc<Lane>,
        context: Arc<JobContext>,
        persisted: &KeyspaceSettings,
        policy: SchedulingPolicy,
    ) -> Result<Arc<Store>> {
        let events = self.listener.clone();
        let journal = Journal::new(self.writes_logs && self.options.log_files > 0);
        let settings = ReplaySettings {
            options: self.options.clone(),
            styles: self.styles_of(&versions, persisted)?,
            looks: self.looks,
            ttl_ms: self.ttls_of(&versions, persisted)?,
        };
        versions.rotate_manifest_at(self.options.memtable_bytes);
        replay::tidy_trees(&mut versions)?;
        // The lane has no thread yet: recovery syncs where it is.
        let inline_context =
            self.job_context(&versions, &context.files, Arc::new(InlineSyncLane), &context.memory);
        let mut replayed = replay::replay_logs(&inline_context, &mut versions, &settings, &|event| {
            events.tell(event);
            journal.tell(event, None, self.clock.wall_ms());
        })?;
        let (fs, dir) = (Arc::clone(&self.fs), self.path.clone());
        let wal_files = WalFiles::new(
            Arc::clone(&fs),
            dir.clone(),
            self.options.wal_file_bytes(),
            log_numbers(&versions),
        );
        wal_files.set_recycling(settings.ttl_ms.is_empty());
        let mut keyspaces = Keyspaces::default();
        let mut memtables = Vec::new();
        for (id, tree) in versions.trees() {
            let memtable = self.memtable_bytes_of(&tree.name, persisted);
            let strategy = self.strategy_of(&tree.name, persisted)?;
            let style = settings.styles.get(id).cloned().unwrap_or_default();
            let (state, open) = open_keyspace(*id, tree, memtable, style, strategy, &context.memory);
            // Newest first.
            let unflushed =
                replayed.unflushed.remove(id).into_iter().flatten().rev().inspect(|m| m.charge(0));
            state.update_view(|view| view.immutable.extend(unflushed));
            keyspaces.insert(state);
            memtables.push(open);
        }
        let schedule = self.options.schedule.clone();
        let answers = self.threaded && self.control_socket.unwrap_or(self.options.control_socket);
        let claims = versions.trees().keys().map(|id| (*id, Default::default())).collect();
        let cache = BlockCache::new(
            self.options.cache_bytes.min(self.options.memory_bytes),
            self.options.block_bytes as usize,
        );
        let tables = Arc::new(TableCache::new(Arc::clone(&context.files), dir.clone(), Arc::new(cache)));
        tables.set_direct_reads(self.options.direct_reads);
        let opened = Opened {
            at: self.clock.now(),
            cpu: evenkeel_sys::process_cpu_time(),
            identity: OnceLock::new(),
            without: OnceLock::new(),
            writes_logs: self.writes_logs,
            answers,
        };
        let wal = Wal::new(Arc::clone(&wal_files));
        let client_ops = ClientOps::default();
        client_ops.count(policy.counts_operations());
        let admission = Admission::new(self.threaded, self.options.compaction_first);
        admission.set_slowing(policy.admission);
        let store = Store {
            ticker: Mutex::new(Ticker::new(opened.at)),
            slow: Arc::new(SlowOperations::new(Arc::clone(&self.clock), self.options.slow_us.into())),
            trace: Tracing::default(),
            decisions: Decisions::default(),
            journal,
            opened,
            fs,
            dir,
            clock: self.clock,
            client_ops: Arc::new(client_ops),
            options: ArcSwap::from_pointee(self.options),
            changing_options: Mutex::new(()),
            passing: Mutex::default(),
            counters: Arc::new(Counters::default()),
            commit_queue: CommitQueue::default(),
            commit: Mutex::new(CommitState::new(wal, replayed.last_seq, memtables)),
            visible: AtomicU64::new(replayed.last_seq.0),
            keyspaces: ArcSwap::from_pointee(keyspaces),
            tree: Mutex::new(TreeState {
                options_number: versions.options_file(),
                versions,
                claims,
                obsolete: Vec::new(),
                unlink_rate: RateLimiter::new(None),
                by_hand: BTreeMap::new(),
                last_job: 0,
            }),
            snapshots: Snapshots::default(),
            tables,
            wal_files,
            deletes: LoggedDeletes::default(),
            memory: Arc::clone(&context.memory),
            admission,
            job_context: context,
            inline_context,
            background: Background::new(policy, schedule, self.threaded),
            lane,
            ahead: Lane::new(self.threaded),
            listener: self.listener,
            outbox: Outbox::default(),
            read_only: self.read_only,
            poisoned: OnceLock::new(),
            closed: AtomicBool::new(false),
            unsettled: Unsettled { pending: AtomicBool::new(true), old_logs: Mutex::new(replayed.logs) },
            lock,
        };
        let store = Arc::new(store);
        let told = Arc::downgrade(&store);
        store.job_context.files.on_refusal(move || {
            if let Some(store) = told.upgrade() {
                store.event(&Event::DirectRefused { dir: store.dir.display().to_string() });
            }
        });
        Ok(store)
    }
}

fn opened_event(store: &Store, logs: u64, begun_at: Duration) -> Event {
    let (mut tables, mut bytes) = (0, 0);
    for keyspace in store.keyspaces.load().by_name.values() {
        let version = Arc::clone(&keyspace.view.load().version);
        tables += version.tables().count() as u64;
        bytes += version.levels.iter().map(Level::bytes).sum::<u64>();
    }
    let micros = store.clock.now().saturating_sub(begun_at).as_micros() as u64;
    Event::Opened { sequence: store.visible.load(Ordering::Relaxed), tables, bytes, logs, micros }
}

/// Finishes the recovery, or leaves that to the flush lane if the disk is full.
fn recovered(store: &Store) -> Result<()> {
    let outcome = match settle(store, &store.inline_context) {
        Err(error @ Error::NoSpace { .. }) => {
            store.event(&Event::BackgroundError { error: error.to_string() });
            Ok(())
        }
        outcome => outcome,
    };
    // The thread that tells is not there yet, and never will be if this has failed.
    store.outbox.tell(&store.listener);
    outcome
}

/// The store's unique name. On a full disk it has none until it is opened with space.
fn identified(store: &Store) -> Result<()> {
    let number = store.tree().versions.ids().file();
    match identity::read_or_make(&*store.fs, &store.dir, number) {
        Ok(identity) => {
            store.opened.identity.get_or_init(|| identity);
            Ok(())
        }
        Err(Error::NoSpace { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A keyspace's state and its open memtable.
pub fn open_keyspace(
    id: KeyspaceId,
    tree: &Tree,
    memtable: MemtableBytes,
    style: TableStyle,
    strategy: NamedStrategy,
    memory: &Arc<MemoryBudget>,
) -> (Arc<KeyspaceState>, OpenMemtable) {
    let (writer, active) = Memtable::new(b"", memtable.get(), memory);
    let view = ReadView { active, immutable: Vec::new(), version: Arc::clone(&tree.version) };
    let (name, no_wal) = (tree.name.clone(), tree.no_wal);
    let state = Arc::new(KeyspaceState::new(id, name, memtable, no_wal, style, view, strategy));
    (Arc::clone(&state), OpenMemtable { keyspace: state, writer, look_at: 0 })
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
