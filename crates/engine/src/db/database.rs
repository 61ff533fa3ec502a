//! The face of an open store.

use std::path::Path;
use std::sync::Arc;

use super::builder::{Builder, DEFAULT_NAME};
use super::commit::commit;
use super::control;
use super::handle::Handle;
use super::keyspace::Keyspace;
use super::keyspaces;
use super::lookup::Value;
use super::metrics::{Metrics, metrics};
use super::scan::{Cursor, Scan, ScanRange};
use super::snapshot::Snapshot;
use super::verify::{VerifyReport, verify};
use crate::base::error::{Error, Result};
use crate::options::{Durability, KeyspaceOptions, Options};
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
    handle: Arc<Handle>,
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
    /// As [`Db::put`]; `InvalidArgument` if a keyspace of it was dropped.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, self.handle.store.options.durability)
    }

    /// Writes a batch with its own durability.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, mut batch: WriteBatch, durability: Durability) -> Result<()> {
        commit(&self.handle.store, &mut batch, durability)
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

    /// Writes memtables of the default keyspace to tables and returns when they are durable.
    pub fn flush(&self) -> Result<()> {
        self.default.flush()
    }

    /// Makes every write before the call durable, whatever durability it asked for.
    ///
    /// # Errors
    /// A failed sync makes the store read-only: nobody knows what the disk holds.
    pub fn sync(&self) -> Result<()> {
        let store = &self.handle.store;
        store.check_writable()?;
        store.wal_files.sync().map_err(|e| store.log_failed(e))
    }

    /// Compacts everything in `range` into the deepest level that holds any of it.
    pub fn compact_range(&self, range: ScanRange) -> Result<()> {
        self.default.compact_range(range)
    }

    /// Returns when no flush and no compaction is under way or wanted.
    pub fn wait_idle(&self) -> Result<()> {
        control::wait_idle(&self.handle.store)
    }

    /// Changes the compaction strategy of the default keyspace: see [`Keyspace::set_strategy`].
    pub fn set_strategy(&self, text: &str) -> Result<()> {
        self.default.set_strategy(text)
    }

    /// Changes when background work may run, from its next step on: `unlimited` or `fixed:BYTES_PER_SECOND`.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn set_schedule(&self, text: &str) -> Result<()> {
        control::set_schedule(&self.handle.store, text)
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

    /// Reads every byte of every table and checks every invariant. Writes are not held up.
    ///
    /// # Errors
    /// `Corruption` that names the first damage found.
    pub fn verify(&self) -> Result<VerifyReport> {
        verify(&self.handle.store)
    }

    /// Closes the store and says whether that went well: the log is sealed, so that the next open can tell any damage from an
    /// unfinished write. Handles still held elsewhere can read, and get `Poisoned` for writes.
    ///
    /// # Errors
    /// A failed sync of the log; what was written with [`Durability::Sync`] is safe all the same.
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

    /// Asks every open job to yield at its next key.
    #[cfg(any(test, feature = "testing"))]
    pub fn request_yields(&self) {
        let mut state = self.handle.store.background.lock();
        state.jobs.iter_mut().for_each(|job| job.yield_requested = true);
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
