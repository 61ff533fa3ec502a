//! Checkpoints: a store of its own, as of one commit, that shares the tables of this one.
//!
//! ```text
//! freeze (commit and tree lock): memtables switched, trees pinned ─► writers go on
//! TARGET.checkpoint-tmp: link tables, write the frozen memtables to tables, OPTIONS, manifest, CURRENT last ─► rename to TARGET
//! ```
//! Only tables are linked: they never change. A linked log would be recycled, and so overwritten, by the store it came from.
//! The pinned trees keep their tables from being unlinked meanwhile. Every file and the directory are synced before CURRENT is
//! there, so a directory with CURRENT is whole; until the rename it does not have the target's name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::{SeqNo, TableId};
use crate::db::background::flushing::shape_of;
use crate::db::files::file_ids::table_ids;
use crate::db::recovery::inline_flush::flush_inline;
use crate::db::recovery::replay::tidy_trees;
use crate::db::recovery::salvage::copy_file;
use crate::db::settings::options_file::{self, Stored};
use crate::db::settings::strategies::stored;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::execution::output::JobContext;
use crate::execution::sync_lane::InlineSyncLane;
use crate::storage::file_name::FileName;
use crate::storage::file_system::no_link;
use crate::version::manifest::ManifestRecord;
use crate::version::version_set::VersionSet;
use crate::write::memtable::Memtable;

/// What the directory under construction is called: the target's name and this.
const UNDER_CONSTRUCTION: &str = ".checkpoint-tmp";

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The last sequence in it: every commit up to there, and none after it.
    pub sequence: u64,
    /// Tables that are links to the store's own.
    pub tables_linked: u64,
    /// Bytes of those; they take no room of their own as long as the store keeps them too.
    pub bytes_linked: u64,
    /// Tables that are copies, because the target is on another file system.
    pub tables_copied: u64,
    /// Bytes of those.
    pub bytes_copied: u64,
    /// Tables written of what was in memtables.
    pub tables_written: u64,
    /// Bytes of those.
    pub bytes_written: u64,
}

/// How far a checkpoint has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointProgress {
    /// Bytes linked, copied or written.
    pub bytes_done: u64,
    /// About as many there will be.
    pub bytes_total: u64,
}

/// Makes a checkpoint in `target`.
pub fn checkpoint(
    store: &Store,
    target: &Path,
    progress: &mut dyn FnMut(CheckpointProgress),
) -> Result<CheckpointReport> {
    store.listener.check_outside()?;
    if store.read_only {
        // Its file system has nowhere to put one.
        store.check_writable()?;
    }
    if store.fs.exists(target)? {
        return Err(exists(target));
    }
    if is_inside(target, &store.dir) {
        let what =
            format!("{} is inside the store itself; give a checkpoint a place beside it", target.display());
        return Err(Error::invalid(what));
    }
    let dir = under_construction(target)?;
    if store.fs.exists(&dir)? && !store.fs.is_dir(&dir)? {
        let what = format!("{} is no directory that a checkpoint left; remove it", dir.display());
        return Err(Error::invalid(what));
    }
    store.fs.create_dir(&dir)?;
    // Held to the end: another checkpoint to this target must not take the directory for a leftover.
    let _lock = store.fs.lock(&FileName::Lock.path(&dir))?;
    remove_leftovers(store, &dir)?;
    let outcome = freeze(store).and_then(|frozen| Building::new(store, &dir, frozen, progress).build());
    let outcome = outcome.and_then(|report| {
        store.fs.rename_dir(&dir, target).map_err(|error| match store.fs.exists(target) {
            Ok(true) => exists(target),
            _ => error,
        })?;
        Ok(report)
    });
    // What was obsolete, and pinned, may be unlinked now.
    store.lane.poke();
    match outcome {
        Ok(report) => {
            store.fs.sync_dir(target.parent().unwrap_or(target))?;
            Ok(report)
        }
        Err(error) => {
            // What cannot be removed now is removed by the next attempt.
            let _ = remove_leftovers(store, &dir)
                .and_then(|()| store.fs.remove(&FileName::Lock.path(&dir)))
                .and_then(|()| store.fs.remove_dir(&dir));
            Err(error)
        }
    }
}

/// True if the place is in the directory, by what the paths say.
fn is_inside(target: &Path, dir: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute(target).starts_with(absolute(dir))
}

fn exists(target: &Path) -> Error {
    Error::invalid(format!("{} exists already; give a checkpoint a directory of its own", target.display()))
}

fn under_construction(target: &Path) -> Result<PathBuf> {
    let invalid = || Error::invalid(format!("{} is no name for a directory", target.display()));
    let mut name = target.file_name().ok_or_else(invalid)?.to_owned();
    name.push(UNDER_CONSTRUCTION);
    Ok(target.with_file_name(name))
}

/// Empties a directory that an interrupted checkpoint has left, CURRENT first: it is not a store from then on. One that was ever
/// opened has what no checkpoint makes, a log and an IDENTITY, and is left alone.
fn remove_leftovers(store: &Store, dir: &Path) -> Result<()> {
    let names = store.fs.list(dir)?;
    for name in &names {
        let own = matches!(
            FileName::parse(name),
            Some(
                FileName::Current
                    | FileName::Lock
                    | FileName::Manifest(_)
                    | FileName::Options(_)
                    | FileName::Table(_)
                    | FileName::Temp(_)
            )
        );
        if !own {
            let what = format!("{} holds `{name}`, which no checkpoint left; remove it", dir.display());
            return Err(Error::invalid(what));
        }
    }
    let current = FileName::Current.path(dir);
    if store.fs.exists(&current)? {
        store.fs.remove(&current)?;
        store.fs.sync_dir(dir)?;
    }
    let kept = [FileName::Lock, FileName::Current].map(|name| name.to_string());
    names.iter().filter(|name| !kept.contains(name)).try_for_each(|name| store.fs.remove(&dir.join(name)))
}

/// The store as of one commit.
struct Frozen {
    /// All trees. Holds their tables, so that none is unlinked.
    trees: ManifestRecord,
    /// By keyspace the memtables, oldest first.
    memtables: Vec<(Arc<KeyspaceState>, Vec<Arc<Memtable>>)>,
    settings: Stored,
    last_seq: SeqNo,
}

/// Takes hold of everything between two commits: writers are held up for as long as switching memtables takes.
fn freeze(store: &Store) -> Result<Frozen> {
    // Which may wait for a thread of low priority.
    let _waits = store.background.caller_waits(false);
    let mut commit = store.commit_state();
    if store.closed.load(Ordering::Acquire) {
        return Err(Error::closed());
    }
    let visible = SeqNo(store.visible.load(Ordering::Acquire));
    if commit.memtables.iter().any(|open| open.writer.table().last_seq() > visible) {
        // A panic has cut a batch short. Tables would hold half of it.
        store.check_writable()?;
    }
    // Where there will be no more writes, the active memtables may stay what they are.
    let writable = store.check_writable().is_ok();
    for open in commit.memtables.iter_mut().filter(|open| writable && !open.writer.table().is_empty()) {
        open.switch(store.clock.now());
    }
    // The lock under which a flush takes its memtable out of the view and puts its tables into the tree.
    let tree = store.tree();
    let keyspaces = store.keyspaces.load_full();
    let memtables = keyspaces.by_name.values().map(|keyspace| {
        let view = keyspace.view.load();
        let waiting = view.immutable.iter().rev().chain([&view.active]).filter(|m| !m.is_empty());
        (Arc::clone(keyspace), waiting.map(Arc::clone).collect())
    });
    let frozen = Frozen {
        memtables: memtables.collect(),
        trees: tree.versions.snapshot(),
        settings: stored(store),
        last_seq: visible,
    };
    drop(tree);
    drop(commit);
    store.background.work_changed();
    Ok(frozen)
}

struct Building<'a> {
    store: &'a Store,
    dir: &'a Path,
    frozen: Frozen,
    report: CheckpointReport,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(CheckpointProgress),
}

impl<'a> Building<'a> {
    fn new(
        store: &'a Store,
        dir: &'a Path,
        frozen: Frozen,
        progress: &'a mut dyn FnMut(CheckpointProgress),
    ) -> Building<'a> {
        let report = CheckpointReport { sequence: frozen.last_seq.0, ..CheckpointReport::default() };
        Building { store, dir, frozen, report, bytes_total: 0, progress }
    }

    fn build(mut self) -> Result<CheckpointReport> {
        let store = self.store;
        let mut versions = VersionSet::empty(Arc::clone(&store.fs), self.dir);
        // The copy has no log.
        let trees = ManifestRecord { wal_from: 0, ..self.frozen.trees.clone() };
        versions.apply_unrecorded(&trees)?;
        tidy_trees(&mut versions)?;
        self.link_tables(&versions)?;
        self.write_memtables(&mut versions)?;
        versions.set_recovered(self.frozen.last_seq, 0);
        let number = versions.ids().file();
        options_file::write(&*store.fs, self.dir, number, &self.frozen.settings)?;
        versions.set_options_file(number);
        // Syncs the directory before CURRENT is made.
        versions.begin_manifest()?;
        Ok(self.report)
    }

    fn link_tables(&mut self, versions: &VersionSet) -> Result<()> {
        let mut seen = BTreeSet::new();
        let tables = versions.trees().values().flat_map(|tree| tree.version.tables());
        let tables: Vec<(TableId, u64)> = tables
            .filter(|(_, table)| seen.insert(table.id()))
            .map(|(_, table)| (table.id(), table.meta.bytes))
            .collect();
        let in_memory = self.frozen.memtables.iter().flat_map(|(_, memtables)| memtables).map(|m| m.bytes());
        self.bytes_total = tables.iter().map(|(_, bytes)| bytes).sum::<u64>() + in_memory.sum::<u64>();
        let mut links = true;
        for (id, bytes) in tables {
            let (from, to) = (self.store.tables.path(id), FileName::Table(id.0).path(self.dir));
            if links {
                match self.store.fs.hard_link(&from, &to) {
                    Ok(()) => {
                        self.report.tables_linked += 1;
                        self.report.bytes_linked += bytes;
                    }
                    Err(error) if no_link(&error) => links = false,
                    Err(error) => return Err(error.or_missing(&from)),
                }
            }
            if !links {
                self.copy(&from, &to, bytes)?;
                self.report.tables_copied += 1;
                self.report.bytes_copied += bytes;
            }
            self.tell();
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path, bytes: u64) -> Result<()> {
        let source = self.store.fs.open(from).map_err(|e| e.or_missing(from))?;
        if source.len() != bytes {
            let what = format!("it has {} bytes instead of {bytes}", source.len());
            return Err(Error::corruption(from, source.len().min(bytes), what));
        }
        copy_file(&*self.store.fs, &*source, to, IoClass::Client)
    }

    fn write_memtables(&mut self, versions: &mut VersionSet) -> Result<()> {
        let store = self.store;
        let salt = store.clock.wall_ms() ^ (u64::from(std::process::id()) << 32);
        let context = Arc::new(JobContext {
            fs: Arc::clone(&store.fs),
            dir: self.dir.to_path_buf(),
            clock: Arc::clone(&store.clock),
            lane: Arc::new(InlineSyncLane),
            files: Arc::clone(&store.job_context.files),
            ids: table_ids(versions, salt),
            block_bytes: AtomicU64::new(store.options.load().block_bytes),
            memory: Arc::clone(&store.memory),
        });
        for (keyspace, memtables) in std::mem::take(&mut self.frozen.memtables) {
            for memtable in memtables {
                // No writer waits for it.
                let shape = shape_of(store, &keyspace, &memtable, false);
                let written = flush_inline(&context, versions, keyspace.id, &memtable, shape)?;
                self.report.tables_written += written.tables;
                self.report.bytes_written += written.bytes;
                self.tell();
            }
        }
        Ok(())
    }

    fn tell(&mut self) {
        let report = &self.report;
        let bytes_done = report.bytes_linked + report.bytes_copied + report.bytes_written;
        (self.progress)(CheckpointProgress { bytes_done, bytes_total: self.bytes_total.max(bytes_done) });
    }
}
