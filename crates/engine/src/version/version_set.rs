//! All trees of a store and the manifest that records them. The one place where a tree changes:
//!
//! ```text
//! validate (apply the edit to a copy, check it) ──► append to the manifest ──► sync ──► swap
//! ```
//! A failure before the append changes nothing. A failed append or sync leaves the manifest in doubt, and the store
//! read-only: nobody can know what a reopen will see (`docs/durability.md`, C8).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::{GroupId, KeyspaceId, MIB, SeqNo, TableId};
use crate::storage::current::{read_current, set_current};
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::record::{LogHeader, LogKind};
use crate::storage::record_reader::{LogToRead, Record, RecordReader};
use crate::storage::record_writer::RecordWriter;
use crate::version::check::check_recorded;
use crate::version::edit::VersionEdit;
use crate::version::edit_codec::BadEdit;
use crate::version::manifest::{KeyspaceCreated, ManifestRecord, NextIds};
use crate::version::version::Version;

/// Gives out ids, each once in the life of a store.
#[derive(Debug, Default)]
pub struct Ids {
    file: AtomicU64,
    run: AtomicU64,
    group: AtomicU64,
    keyspace: AtomicU64,
}

impl Ids {
    /// A file number; burned even if the file never comes to be.
    pub fn file(&self) -> u64 {
        self.file.fetch_add(1, Ordering::Relaxed)
    }

    /// A table's id, which is its file number.
    pub fn table(&self) -> TableId {
        TableId(self.file())
    }

    /// A group's id.
    pub fn group(&self) -> GroupId {
        GroupId(self.group.fetch_add(1, Ordering::Relaxed))
    }

    /// A keyspace's id.
    pub fn keyspace(&self) -> KeyspaceId {
        KeyspaceId(self.keyspace.fetch_add(1, Ordering::Relaxed))
    }

    /// Numbers below `next` have been used.
    pub fn file_at_least(&self, next: u64) {
        self.file.fetch_max(next, Ordering::Relaxed);
    }

    /// Keyspace ids below `next` have been used.
    pub fn keyspace_at_least(&self, next: u64) {
        self.keyspace.fetch_max(next, Ordering::Relaxed);
    }

    /// The next run's and group's numbers, for the picker, which gives out numbers without side effects.
    pub fn next_run_and_group(&self) -> (u64, u64) {
        (self.run.load(Ordering::Relaxed), self.group.load(Ordering::Relaxed))
    }

    /// The picker gave out numbers below these.
    pub fn run_and_group_at_least(&self, run: u64, group: u64) {
        self.run.fetch_max(run, Ordering::Relaxed);
        self.group.fetch_max(group, Ordering::Relaxed);
    }

    fn next(&self) -> NextIds {
        NextIds {
            file: self.file.load(Ordering::Relaxed),
            run: self.run.load(Ordering::Relaxed),
            group: self.group.load(Ordering::Relaxed),
            keyspace: self.keyspace.load(Ordering::Relaxed),
        }
    }

    fn at_least(&self, next: NextIds) {
        self.file.fetch_max(next.file, Ordering::Relaxed);
        self.run.fetch_max(next.run, Ordering::Relaxed);
        self.group.fetch_max(next.group, Ordering::Relaxed);
        self.keyspace.fetch_max(next.keyspace, Ordering::Relaxed);
    }
}

/// One keyspace as the manifest knows it.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Its name.
    pub name: String,
    /// Its tables.
    pub version: Arc<Version>,
    /// Every write of it up to here is in tables.
    pub flushed_through: SeqNo,
    /// Round-robin cursors by level.
    pub cursors: BTreeMap<usize, Box<[u8]>>,
    /// Its writes do not go to the log.
    pub no_wal: bool,
}

/// All trees, and the manifest.
#[derive(Debug)]
pub struct VersionSet {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    ids: Arc<Ids>,
    trees: BTreeMap<KeyspaceId, Tree>,
    last_seq: SeqNo,
    wal_from: u64,
    /// What the manifest that was read says of the logs, if its store was closed.
    sealed_logs: Vec<(u64, u64)>,
    options_file: Option<u64>,
    manifest: Option<Manifest>,
    rotations: u64,
    rotate_bytes_min: u64,
}

#[derive(Debug)]
struct Manifest {
    number: u64,
    writer: RecordWriter,
    /// Its length when its snapshot had been written: at twice that it is rotated.
    snapshot_bytes: u64,
    /// An append found no space: the record's beginning may be there, and nothing may follow it. The next change begins
    /// another manifest.
    cut_short: bool,
    /// It is not rotated below this length: a quarter more than it had when the last try found no space.
    rotate_again_at: u64,
}

/// A manifest is not rotated below this length, or a smaller one that the store sets.
const ROTATE_BYTES_MIN: u64 = MIB / 4;

/// A failure after which a reopen may see the change: not to be taken for a mere want of space.
fn in_doubt(error: Error) -> Error {
    match error {
        Error::NoSpace { .. } => Error::Poisoned { cause: error.to_string() },
        other => other,
    }
}

impl VersionSet {
    /// A store without keyspaces; nothing is written before `begin_manifest`.
    pub fn empty(fs: Arc<dyn FileSystem>, dir: &Path) -> VersionSet {
        let ids = Arc::new(Ids::default());
        ids.at_least(NextIds { file: 1, run: 1, group: 1, keyspace: 0 });
        VersionSet {
            fs,
            dir: dir.to_path_buf(),
            ids,
            trees: BTreeMap::new(),
            last_seq: SeqNo(0),
            wal_from: 0,
            sealed_logs: Vec::new(),
            options_file: None,
            manifest: None,
            rotations: 0,
            rotate_bytes_min: ROTATE_BYTES_MIN,
        }
    }

    /// Reads the manifest that CURRENT names; `None` if there is no CURRENT, so no store.
    ///
    /// # Errors
    /// `Corruption` with file and offset, `Unsupported` for a newer format.
    pub fn recover(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Option<VersionSet>> {
        let Some(number) = read_current(&*fs, dir)? else { return Ok(None) };
        match VersionSet::read(fs, dir, number) {
            (set, None) => Ok(Some(set)),
            (_, Some(error)) => Err(error),
        }
    }

    /// What a manifest says, as far as it is whole, and what keeps it from being so.
    pub fn read(fs: Arc<dyn FileSystem>, dir: &Path, number: u64) -> (VersionSet, Option<Error>) {
        let mut set = VersionSet::empty(fs, dir);
        let outcome = set.take_records(number);
        set.ids.file_at_least(number + 1);
        (set, outcome.err())
    }

    fn take_records(&mut self, number: u64) -> Result<()> {
        let path = FileName::Manifest(number).path(&self.dir);
        let log = LogToRead {
            kind: LogKind::Manifest,
            id: number,
            promised: 0,
            payload_max: u32::MAX,
            class: IoClass::Manifest,
        };
        let file = self.fs.open(&path).map_err(|e| e.or_missing(&path))?;
        let mut reader = RecordReader::open(file, log)?;
        while let Some(Record { offset, payload }) = reader.next()? {
            let record = ManifestRecord::decode(payload).map_err(|bad| match bad {
                BadEdit::Unknown(what) => Error::Unsupported(format!(
                    "{}: {what}; open the store with a newer version",
                    path.display()
                )),
                BadEdit::Damaged(what) => Error::corruption(&path, offset, what),
            })?;
            let trees = self.applied(&record).map_err(|e| Error::corruption(&path, offset, e.to_string()))?;
            self.adopt(trees, &record);
            self.sealed_logs = record.sealed_logs;
        }
        if self.trees.is_empty() {
            return Err(Error::corruption(&path, 0, "it holds no keyspace"));
        }
        Ok(())
    }

    /// Small stores rotate their manifest earlier: at `bytes`, if that is less than the usual length.
    pub fn rotate_manifest_at(&mut self, bytes: u64) {
        self.rotate_bytes_min = ROTATE_BYTES_MIN.min(bytes);
    }

    /// Begins a new manifest with a snapshot of everything and points CURRENT at it. Also recovers from a manifest
    /// that has grown. After `NoSpace` the old one is in force as before; after any other error nobody knows which is.
    pub fn begin_manifest(&mut self) -> Result<()> {
        let number = self.ids.file();
        let writer = match self.write_snapshot(number) {
            Ok(writer) => writer,
            Err(error) => {
                // CURRENT does not name it. If it cannot be removed, the next open does so.
                let _ = self.fs.remove(&FileName::Manifest(number).path(&self.dir));
                return Err(error);
            }
        };
        if let Err(error) = set_current(&*self.fs, &self.dir, number, self.ids.file()) {
            // Perhaps CURRENT names it already: then it must stay, and the old one must take no more.
            let named = read_current(&*self.fs, &self.dir).map_or(true, |current| current == Some(number));
            if named {
                return Err(in_doubt(error));
            }
            let _ = self.fs.remove(&FileName::Manifest(number).path(&self.dir));
            return Err(error);
        }
        let snapshot_bytes = writer.len();
        let old = self.manifest.replace(Manifest {
            number,
            writer,
            snapshot_bytes,
            cut_short: false,
            rotate_again_at: 0,
        });
        self.rotations += 1;
        if let Some(old) = old {
            // Nothing refers to it. If it cannot be removed, the next open does so.
            let _ = self.fs.remove(&FileName::Manifest(old.number).path(&self.dir));
        }
        Ok(())
    }

    fn write_snapshot(&self, number: u64) -> Result<RecordWriter> {
        let path = FileName::Manifest(number).path(&self.dir);
        let header = LogHeader {
            kind: LogKind::Manifest,
            id: number,
            predecessor: None,
            first_seq: self.last_seq.0,
            allocated: 0,
        };
        let mut writer = RecordWriter::on_file(self.fs.create(&path, IoClass::Manifest)?, &path, &header)?;
        writer.append(&[&self.snapshot().encode()])?;
        writer.syncer().sync()?;
        self.fs.sync_dir(&self.dir)?;
        Ok(writer)
    }

    /// Begins another manifest if the one in force has grown, or takes no more. Before a change is recorded, not after: a
    /// failure then is the failure of a change that has not happened.
    fn rotate_if_needed(&mut self) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Err(Error::invalid("the manifest has not begun")) };
        let (cut_short, len) = (manifest.cut_short, manifest.writer.len());
        let grown =
            len > self.rotate_bytes_min.max(2 * manifest.snapshot_bytes).max(manifest.rotate_again_at);
        if !cut_short && !grown {
            return Ok(());
        }
        match self.begin_manifest() {
            // The old one goes on to grow. Each try writes a snapshot as far as there is space, so they get rarer.
            Err(Error::NoSpace { .. }) if !cut_short => {
                if let Some(manifest) = &mut self.manifest {
                    manifest.rotate_again_at = len.saturating_add(len / 4);
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Makes a change: validated, recorded, durable, then visible here. On an error nothing is visible. After
    /// `InvalidArgument` and `NoSpace` nothing was recorded either; after any other error a reopen may see the change.
    pub fn commit(&mut self, mut record: ManifestRecord) -> Result<()> {
        record.last_seq = record.last_seq.max(self.last_seq);
        record.wal_from = record.wal_from.max(self.wal_from);
        let trees = self.applied(&record)?;
        self.rotate_if_needed()?;
        record.next = self.ids.next();
        let Some(manifest) = &mut self.manifest else {
            return Err(Error::invalid("the manifest has not begun"));
        };
        manifest.writer.append(&[&record.encode()]).inspect_err(|error| {
            manifest.cut_short |= matches!(error, Error::NoSpace { .. });
        })?;
        manifest.writer.syncer().sync().map_err(in_doubt)?;
        self.adopt(trees, &record);
        Ok(())
    }

    /// The trees by keyspace.
    pub fn trees(&self) -> &BTreeMap<KeyspaceId, Tree> {
        &self.trees
    }

    /// The source of ids.
    pub fn ids(&self) -> &Arc<Ids> {
        &self.ids
    }

    /// Every sequence number up to here was given out before the last commit.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// Logs with a lower number are not needed.
    pub fn wal_from(&self) -> u64 {
        self.wal_from
    }

    /// The length with which a log was ended when the store was closed; `None` if it was not closed.
    pub fn sealed_len(&self, log: u64) -> Option<u64> {
        self.sealed_logs.iter().find(|(number, _)| *number == log).map(|(_, len)| *len)
    }

    /// The logs that held writes when the store was closed; none if it was not closed.
    pub fn sealed_logs(&self) -> impl Iterator<Item = u64> + '_ {
        self.sealed_logs.iter().map(|(number, _)| *number)
    }

    /// The number of the OPTIONS file in force, if there is one.
    pub fn options_file(&self) -> Option<u64> {
        self.options_file
    }

    /// The manifest in force.
    pub fn manifest_number(&self) -> Option<u64> {
        self.manifest.as_ref().map(|m| m.number)
    }

    /// Manifests begun.
    pub fn rotations(&self) -> u64 {
        self.rotations
    }

    /// Sets what the next manifest says of logs and sequences; for recovery, before `begin_manifest`.
    pub fn set_recovered(&mut self, last_seq: SeqNo, wal_from: u64) {
        self.last_seq = self.last_seq.max(last_seq);
        self.wal_from = self.wal_from.max(wal_from);
        self.sealed_logs.clear();
    }

    /// Ends the store with a manifest of one record, which also says how long the logs are: cut short anywhere, it says nothing.
    /// Errors as `begin_manifest`.
    pub fn end(&mut self, last_seq: SeqNo, mut sealed_logs: Vec<(u64, u64)>) -> Result<()> {
        sealed_logs.retain(|(log, _)| *log >= self.wal_from);
        self.last_seq = self.last_seq.max(last_seq);
        self.sealed_logs = sealed_logs;
        self.begin_manifest()
    }

    /// Sets the OPTIONS file that the next manifest names; for recovery, before `begin_manifest`.
    pub fn set_options_file(&mut self, number: u64) {
        self.options_file = Some(number);
    }

    /// Applies a change in memory only; for recovery, before `begin_manifest` writes it all.
    pub fn apply_unrecorded(&mut self, record: &ManifestRecord) -> Result<()> {
        let trees = self.applied(record)?;
        self.adopt(trees, record);
        Ok(())
    }

    /// Everything there is as one record: what a manifest begins with.
    pub fn snapshot(&self) -> ManifestRecord {
        let mut record = ManifestRecord {
            next: self.ids.next(),
            last_seq: self.last_seq,
            wal_from: self.wal_from,
            options_file: self.options_file,
            sealed_logs: self.sealed_logs.clone(),
            ..ManifestRecord::default()
        };
        for (id, tree) in &self.trees {
            record.created.push(KeyspaceCreated {
                id: *id,
                name: tree.name.clone(),
                l0_group: None,
                no_wal: tree.no_wal,
            });
            let mut edit = VersionEdit::snapshot_of(&tree.version);
            edit.flushed_through = Some(tree.flushed_through);
            edit.cursors = tree.cursors.iter().map(|(level, key)| (*level, key.clone())).collect();
            record.edits.push((*id, edit));
        }
        record
    }

    /// The trees that the record changes, as they will be; `None` for one that goes.
    fn applied(&self, record: &ManifestRecord) -> Result<BTreeMap<KeyspaceId, Option<Tree>>> {
        let mut changed: BTreeMap<KeyspaceId, Option<Tree>> = BTreeMap::new();
        for created in &record.created {
            let taken = self.trees.iter().any(|(id, tree)| *id == created.id || tree.name == created.name);
            if taken || changed.contains_key(&created.id) {
                return Err(Error::invalid(format!("keyspace `{}` exists already", created.name)));
            }
            let version = created.l0_group.map_or_else(Version::default, |group| Version::empty(group, 1));
            let version = Arc::new(version);
            let name = created.name.clone();
            let (flushed_through, cursors) = (SeqNo(0), BTreeMap::new());
            let tree = Tree { name, version, flushed_through, cursors, no_wal: created.no_wal };
            changed.insert(created.id, Some(tree));
        }
        for (id, edit) in &record.edits {
            let current = match changed.get(id) {
                Some(tree) => tree.clone(),
                None => self.trees.get(id).cloned(),
            };
            let mut tree = current.ok_or_else(|| Error::invalid(format!("there is no keyspace {id}")))?;
            let version = tree.version.apply(edit)?;
            if cfg!(debug_assertions) {
                check_recorded(&version).map_err(Error::invalid)?;
            }
            tree.version = Arc::new(version);
            tree.flushed_through = tree.flushed_through.max(edit.flushed_through.unwrap_or_default());
            edit.move_cursors(&mut tree.cursors);
            changed.insert(*id, Some(tree));
        }
        for id in &record.dropped {
            if !self.trees.contains_key(id) {
                return Err(Error::invalid(format!("there is no keyspace {id}")));
            }
            changed.insert(*id, None);
        }
        Ok(changed)
    }

    fn adopt(&mut self, trees: BTreeMap<KeyspaceId, Option<Tree>>, record: &ManifestRecord) {
        for (id, tree) in trees {
            match tree {
                Some(tree) => self.trees.insert(id, tree),
                None => self.trees.remove(&id),
            };
        }
        self.ids.at_least(record.next);
        self.last_seq = self.last_seq.max(record.last_seq);
        self.wal_from = self.wal_from.max(record.wal_from);
        self.options_file = record.options_file.or(self.options_file);
    }
}

#[cfg(test)]
#[path = "version_set_tests.rs"]
mod tests;
