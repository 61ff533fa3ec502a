//! The face of an open store.

use std::path::Path;
use std::sync::Arc;

use super::background::compact::{CompactOptions, CompactReport};
use super::background::control;
use super::background::control_protocol;
use super::background::handle::Handle;
use super::background::pause::Paused;
use super::background::running_trace::RunningTrace;
use super::background::threads;
use super::files::trace_file::Keys;
#[cfg(any(test, feature = "testing"))]
use super::jobs::scheduling::ask_to_let_go;
use super::keyspace::Keyspace;
use super::opening::builder::Builder;
use super::opening::checkpoint::{CheckpointProgress, CheckpointReport, checkpoint};
use super::opening::keyspaces;
use super::reading::lookup::Value;
use super::reading::scan::{Cursor, Scan, ScanRange};
use super::reading::verify::{VerifyReport, verify, verify_all};
use super::reports::metrics::{Metrics, metrics};
use super::reports::properties;
use super::snapshot::Snapshot;
use super::store::keyspace_state::DEFAULT_NAME;
use super::writing::bulk_load::BulkLoad;
use super::writing::commit::commit;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::options::{KeyspaceOptions, Options};
#[cfg(any(test, feature = "testing"))]
use crate::scheduler::conflict::LetsGo;
use crate::write::batch::WriteBatch;

/// An open store. Cheap to clone; the last clone to go closes it.
///
/// Methods without a keyspace are about the one named `default`, which always exists.
///
/// ```
/// use evenkeel::{Db, Options, ScanRange, WriteBatch};
///
/// # fn main() -> evenkeel::Result<()> {
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let path = directory.path();
/// let db = Db::open(path, Options::default())?;
/// db.put(b"apple", b"red")?; // survives the process; see `Durability` for power cuts
/// db.put(b"banana", b"yellow")?;
/// assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
///
/// let colours = db.create_keyspace("colours", Default::default())?;
/// let mut batch = WriteBatch::new(); // all of it, or nothing
/// batch.delete(b"apple");
/// batch.put_in(&colours, b"red", b"#f00");
/// db.write(batch)?;
///
/// let before = db.snapshot();
/// db.put(b"cherry", b"dark red")?;
/// assert!(before.get(b"cherry")?.is_none());
/// for entry in db.scan(ScanRange::prefix(b"b"))? {
///     let (key, value) = entry?;
///     assert_eq!((key.as_slice(), value.as_slice()), (&b"banana"[..], &b"yellow"[..]));
/// }
/// db.set_strategy("tier")?; // any compaction strategy, on the running store
/// db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) handle: Arc<Handle>,
    default: Keyspace,
}

impl Db {
    /// Opens the store at `path`, making one if there is none and the options allow it.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::builder(path).options(options).open()
    }

    /// Opens a store that exists to look at it, beside a process that may have it open: see [`Builder::read_only`].
    ///
    /// # Errors
    /// As [`Builder::open`], without `Locked`; `Limit` if the log does not fit into `memory_bytes`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::builder(path).options(options).read_only(true).open()
    }

    /// To open a store with more than options.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    fn from_handle(handle: Arc<Handle>) -> Result<Db> {
        let state = handle.store.keyspaces.load().by_name.get(DEFAULT_NAME).cloned();
        let state =
            state.ok_or_else(|| Error::corruption(&handle.store.dir, 0, "there is no default keyspace"))?;
        let default = Keyspace::new(Arc::clone(&handle), state);
        Ok(Db { handle, default })
    }

    /// Puts, with the store's durability.
    ///
    /// # Errors
    /// `Limit` before anything is written; `NoSpace`, `Io`, `Poisoned`: the write is not visible.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.default.put(key, value)
    }

    /// Deletes; a key that is not there is fine.
    ///
    /// # Errors
    /// As [`Db::put`].
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.default.delete(key)
    }

    /// Deletes every key from `start` to below `end`: see [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        self.default.delete_range(start, end)
    }

    /// The value of `key`, pinned, not copied.
    ///
    /// # Errors
    /// `Io` or `Corruption`; never "not found" in their place.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.default.get(key)
    }

    /// The values of `keys`, all as of one moment.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        self.default.multi_get(keys)
    }

    /// Writes a batch, whole or not at all, with the store's durability.
    ///
    /// # Errors
    /// As [`Db::put`]; `InvalidArgument` if a keyspace of it was dropped, or if it writes to a keyspace without a log and to
    /// another one.
    pub fn write(&self, mut batch: WriteBatch) -> Result<()> {
        commit(&self.handle.store, &mut batch, None)
    }

    /// Writes a batch with its own durability.
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` if its keyspace does not know the durability: one without a log only
    /// [`Durability::NoWal`], the others all but that.
    pub fn write_with(&self, mut batch: WriteBatch, durability: Durability) -> Result<()> {
        commit(&self.handle.store, &mut batch, Some(durability))
    }

    /// Keys and values of a range, from either end, as of now.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        self.default.scan(range)
    }

    /// A cursor over a range, as of now.
    pub fn cursor(&self, range: ScanRange) -> Result<Cursor> {
        self.default.cursor(range)
    }

    /// All keyspaces as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.handle), Arc::clone(self.default.state()))
    }

    /// Begins a bulk load of sorted records into the default keyspace: see [`BulkLoad`].
    ///
    /// # Errors
    /// `Poisoned` if the store takes no writes.
    pub fn bulk_load(&self) -> Result<BulkLoad> {
        self.default.bulk_load()
    }

    /// Writes memtables of the default keyspace to tables and returns when they are durable.
    pub fn flush(&self) -> Result<()> {
        self.default.flush()
    }

    /// Makes every write before the call durable, whatever durability it asked for; but not those of keyspaces without a log,
    /// for which there is [`Keyspace::flush`].
    ///
    /// # Errors
    /// A failed sync makes the store read-only: nobody knows what the disk holds.
    pub fn sync(&self) -> Result<()> {
        let store = &self.handle.store;
        store.listener.check_outside()?;
        store.check_writable()?;
        store.check_settled()?;
        store.wal_files.sync().map_err(|e| store.log_failed(e))
    }

    /// Compacts everything in `range` into the deepest level that holds any of it.
    pub fn compact_range(&self, range: ScanRange) -> Result<()> {
        self.default.compact_range(range)
    }

    /// Compacts what `options` say of the default keyspace: see [`Keyspace::compact`].
    pub fn compact(&self, options: CompactOptions) -> Result<CompactReport> {
        self.default.compact(options)
    }

    /// Returns when no flush and no compaction is under way or wanted.
    pub fn wait_idle(&self) -> Result<()> {
        control::wait_idle(&self.handle.store)
    }

    /// Pauses all background work until what this answers is dropped: flushes, compactions, unlinks. Returns when none of
    /// it is under way any more. Nothing is lost: open compactions go on where they stopped.
    ///
    /// Writes go on, slower and slower as memory fills, as they do whenever nothing drains; nobody is stopped. Calls that need
    /// the work answer `Paused`: [`Db::flush`], [`Db::compact`], [`Db::wait_idle`], the end of a bulk load over keys in memory.
    /// The store can be closed meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` from an event listener.
    pub fn pause_background(&self) -> Result<Paused> {
        Paused::new(&self.handle)
    }

    /// Changes the compaction strategy of the default keyspace: see [`Keyspace::set_strategy`].
    pub fn set_strategy(&self, text: &str) -> Result<()> {
        self.default.set_strategy(text)
    }

    /// Changes an option of the running store, by its name: see [`Options::names`]. Durable when it returns, so that it holds at the
    /// next open too, unless that one says otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name (the nearest is suggested), a value out of range, a contradiction, or an option that is
    /// only read at open: nothing is changed.
    pub fn set_option(&self, name: &str, value: &str) -> Result<()> {
        threads::set_option(&self.handle.store, name, value)
    }

    /// The options in force.
    pub fn options(&self) -> Options {
        Options::clone(&self.handle.store.options.load())
    }

    /// Changes when background work may run, from its next step on: a name of [`crate::schedule::catalog`], with its rate or knobs,
    /// like `fixed:50MiB` or `silk:floor=20%`. One that needs the device's speed has it measured, if it is not known.
    ///
    /// # Errors
    /// `InvalidArgument` that says what makes no sense; `NoSpace` or `Io` if the device cannot be measured.
    pub fn set_schedule(&self, text: &str) -> Result<()> {
        self.set_option("schedule", text)
    }

    /// Makes a keyspace; durable when it returns.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is taken, empty or longer than 255 bytes, or the options make no sense.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let state = keyspaces::create(&self.handle.store, name, options)?;
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<Keyspace> {
        let state = self.handle.store.keyspaces.load().by_name.get(name).cloned()?;
        Some(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The keyspaces' names, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.handle.store.keyspaces.load().by_name.keys().cloned().collect()
    }

    /// Drops a keyspace and all it holds; durable when it returns. Writes to it through handles still held fail; open cursors go on.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of this name, or it is `default`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        keyspaces::drop_keyspace(&self.handle.store, name)
    }

    /// What the store tells about itself.
    pub fn metrics(&self) -> Metrics {
        metrics(&self.handle.store)
    }

    /// A figure of the default keyspace by its name, with RocksDB's words: `evenkeel.num-files-at-level0`. `None` if there is
    /// none of this name; [`Db::properties`] lists them.
    pub fn property(&self, name: &str) -> Option<String> {
        properties::property(&self.metrics(), DEFAULT_NAME, name)
    }

    /// The names that [`Db::property`] knows, each with what it is.
    pub fn properties() -> Vec<(String, &'static str)> {
        properties::list().collect()
    }

    /// Answers a question as the control socket does, in one line of JSON: `stats`, `levels KEYSPACE`, `explain`, and what else
    /// `docs/observability.md` lists.
    ///
    /// # Errors
    /// `InvalidArgument` for a question there is not, or a keyspace; else what the store says.
    pub fn control(&self, question: &str) -> Result<String> {
        control_protocol::request(&self.handle.store, question)
    }

    /// Records the operations of this store from now on into a new file, until what this answers is ended or dropped, or the
    /// store is closed: puts, deletes, range deletes, batches, gets and scans, each with its keyspace, keys, lengths of values,
    /// begin and duration; no values. `docs/trace.md` says what is left out: what failed, bulk loads, cursors opened before.
    ///
    /// An operation never waits for the file: what there is no room for in memory is counted as missed. A failure of the file
    /// ends the trace, with an event.
    ///
    /// # Errors
    /// `InvalidArgument` if the file exists, has a name of a store's own files, or a trace runs already; `ReadOnly`, `Io`,
    /// `NoSpace`.
    pub fn start_trace(&self, path: impl AsRef<Path>, keys: Keys) -> Result<RunningTrace> {
        RunningTrace::new(&self.handle, path.as_ref(), keys)
    }

    /// Reads every byte of every table, and checks every invariant, and that the options were there. Writes are not held up.
    ///
    /// # Errors
    /// `Corruption` that names the first damage found.
    pub fn verify(&self) -> Result<VerifyReport> {
        verify(&self.handle.store)
    }

    /// As [`Db::verify`], but goes on past a damaged table, and past options that were gone: `damaged` is told of each.
    ///
    /// # Errors
    /// `Corruption` of what is not in one table.
    pub fn verify_all(&self, damaged: &mut dyn FnMut(Error)) -> Result<VerifyReport> {
        verify_all(&self.handle.store, damaged)
    }

    /// Makes a copy of the store as of now in the directory `target`, which must not exist: all keyspaces as of one commit,
    /// what is not in tables yet included. Tables are shared by hard links, or copied to another file system. Writers go on
    /// meanwhile. When it returns the copy is whole and durable; it opens like any store and shares nothing that either changes.
    ///
    /// The copy is built under another name and renamed, so that an interrupted one never has the name `target`; the next
    /// attempt removes what it left. Also works on a store that a failure has made read-only.
    ///
    /// # Errors
    /// `InvalidArgument` if `target` exists, `Locked` while another checkpoint to it is under way, `NoSpace`, `Io`, `Corruption`
    /// of what is copied, `Poisoned` if
    /// a panic has left half a batch in memory; the store is as it was.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(target, &mut |_| {})
    }

    /// The same, telling `progress` after each table.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn checkpoint_with(
        &self,
        target: impl AsRef<Path>,
        progress: &mut dyn FnMut(CheckpointProgress),
    ) -> Result<CheckpointReport> {
        checkpoint(&self.handle.store, target.as_ref(), progress)
    }

    /// Closes the store and says whether that went well: keyspaces without a log are flushed, and the log is sealed, so that the
    /// next open can tell any damage from an unfinished write. Handles still held elsewhere can read, and get `Poisoned` for writes. Who
    /// closes it too, by another of them, is told the same once it is closed; a listener does not wait for that.
    ///
    /// # Errors
    /// A failed sync of the log, or a failed flush of a keyspace without one; what was written with [`Durability::Sync`] is safe
    /// all the same.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }

    /// One step of background work, for a store without threads. `choose` names the job to step, as an index, among the
    /// runnable ones. False if there is nothing to do.
    #[cfg(any(test, feature = "testing"))]
    pub fn step(
        &self,
        choose: &mut dyn FnMut(&[(usize, crate::base::class::Class)]) -> Option<usize>,
    ) -> bool {
        control::step_all(&self.handle.store, choose)
    }

    /// Has every keyspace take its tables to be so hot, by their smallest key, as if that had been learnt.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_heat(&self, heat: &dyn Fn(&[u8]) -> Option<f64>) {
        for keyspace in self.handle.store.keyspaces.load().by_name.values() {
            keyspace.heat.pretend(&keyspace.view.load().version, heat);
        }
        self.handle.store.background.work_changed();
    }

    /// Asks every open job to yield at its next key.
    #[cfg(any(test, feature = "testing"))]
    pub fn request_yields(&self) {
        let mut state = self.handle.store.background.lock();
        state.jobs.iter_mut().for_each(|job| ask_to_let_go(&self.handle.store, job, LetsGo::Yields));
    }
}

impl Builder {
    /// Opens the store.
    ///
    /// # Errors
    /// `Locked` at once if it is open elsewhere; `InvalidArgument` for settings that make no sense or a directory without a store
    /// where none may be made; `Corruption` that names file and offset; `Unsupported` for a newer format; `Io`, `NoSpace`.
    pub fn open(self) -> Result<Db> {
        Db::from_handle(self.open_handle()?)
    }
}
