//! Installing results: the only place where a finished flush or a part of a compaction becomes part of the tree.
//!
//! ```text
//! table files synced ─► directory synced ─► edit validated, recorded, synced (version_set) ─► view swapped ─► old files unlinked
//! ```
//! A flush is installed only when the log covers, or tables hold, every older write of every other keyspace: otherwise a power cut
//! could keep it and lose what came before (`docs/durability.md`, C1). A keyspace without a log is its own world.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pressure::{drained, l0_changed};
use crate::base::error::{Error, Result};
use crate::base::units::{JobId, KeyspaceId, SeqNo, TableId};
use crate::compaction::bulk::load;
use crate::compaction::claims::Claims;
use crate::compaction::commit::{CommitPart, commit_part, end_job, flush};
use crate::compaction::compaction::Compaction;
use crate::compaction::tree_view::{Ids, TreeView};
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::{Store, TreeState};
use crate::observe::event::Event;
use crate::table::meta::TableMeta;
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::manifest::ManifestRecord;
use crate::version::version_set::Tree;
use crate::write::memtable::Memtable;

/// Makes the tables of a flushed memtable a new run of L0, in place of the memtable.
pub fn install_flush(
    store: &Store,
    keyspace: &KeyspaceState,
    memtable: &Arc<Memtable>,
    tables: Vec<TableMeta>,
    begun_at: Duration,
) -> Result<()> {
    let last = memtable.last_seq();
    if !keyspace.no_wal && others_lag_behind(store, keyspace.id) {
        store.wal_files.sync().map_err(|e| store.log_failed(e))?;
    }
    store.sync_dir()?;
    let bytes = tables.iter().map(|t| t.bytes).sum();
    let entries: u64 = tables.iter().map(|t| t.entries).sum();
    let ids = tables.iter().map(|t| t.id).collect();
    let tables: Vec<Arc<TableMeta>> = tables.into_iter().map(Arc::new).collect();
    {
        let mut tree = store.tree_soon();
        let tree = &mut *tree;
        let (Some(current), Some(claims)) =
            (tree.versions.trees().get(&keyspace.id), tree.claims.get(&keyspace.id))
        else {
            // Dropped meanwhile: the tables are orphans, and so is the memtable.
            tables.iter().for_each(|t| drop(store.fs.remove(&store.tables.path(t.id))));
            keyspace.update_view(|view| view.immutable.retain(|m| !Arc::ptr_eq(m, memtable)));
            return Ok(());
        };
        let mut ids = ids_for_picker(tree);
        let edit = flush(&current.version, claims, &mut ids, tables, last, store.clock.wall_ms())?.edit;
        tree.versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
        let record = ManifestRecord {
            edits: vec![(keyspace.id, edit)],
            wal_from: store.wal_files.oldest_needed(oldest_unflushed(store, Some(memtable))),
            ..ManifestRecord::default()
        };
        record_change(store, tree, record)?;
        let version = Arc::clone(&tree.versions.trees()[&keyspace.id].version);
        keyspace.set_l0(&version);
        keyspace.update_view(|view| {
            view.immutable.retain(|m| !Arc::ptr_eq(m, memtable));
            view.version = version;
        });
        l0_changed(store, keyspace);
        store.deletes.note_flushed(&store.wal_files, keyspace, memtable);
        store.wal_files.release_before(tree.versions.wal_from());
    }
    store.counters.flushes.add(1);
    store.counters.flushed_memtable_bytes.add(memtable.bytes());
    store.counters.flushed_table_bytes.add(bytes);
    store.counters.entries_in.add(entries);
    let micros = store.clock.now().saturating_sub(begun_at).as_micros() as u64;
    store.counters.flush_us.add(micros);
    store.event(&Event::Flushed { keyspace: keyspace.id, tables: ids, bytes, micros });
    store.lane.poke();
    store.background.work_changed();
    Ok(())
}

/// Makes the tables of a bulk load part of the tree, and visible, at once. All that is older over their keys is in tables. The
/// commit lock is held.
pub fn install_load(
    store: &Store,
    keyspace: &KeyspaceState,
    tables: Vec<Arc<TableMeta>>,
    seq: SeqNo,
) -> Result<()> {
    let strategy = keyspace.strategy.load_full();
    let mut tree = store.tree();
    let tree = &mut *tree;
    let (current, claims) = parts(tree, keyspace.id)?;
    let mut ids = ids_for_picker(tree);
    let now_ms = store.clock.wall_ms();
    let edit = load(&current.version, claims, &strategy.strategy, &mut ids, tables, now_ms)?.edit;
    tree.versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
    let edits = vec![(keyspace.id, edit)];
    record_change(store, tree, ManifestRecord { edits, last_seq: seq, ..ManifestRecord::default() })?;
    publish_version(store, tree, keyspace);
    // After the view, or a snapshot at `seq` could miss the tables; before the tree is let go, or a job could list its snapshots,
    // drop what the tables hide, and a snapshot from before `seq` come after.
    store.visible.store(seq.0, Ordering::Release);
    Ok(())
}

/// Installs what a job has finished; `part.cut` is `None` for its end, which releases its claims.
pub fn install_part(store: &Store, keyspace: &KeyspaceState, job: JobId, part: CommitPart) -> Result<()> {
    let prefix = part.cut.is_some();
    let entries = part.outputs.iter().flatten().map(|t| t.entries).sum();
    let tables: Vec<TableId> = part.outputs.iter().flatten().map(|t| t.id).collect();
    if let Err(error) = record_part(store, keyspace, job, &part) {
        // The job has let go of these tables. A store that is read-only may have them in its manifest all the same.
        if store.check_writable().is_ok() {
            for id in tables {
                let _ = store.fs.remove(&store.tables.path(id));
            }
        }
        return Err(error);
    }
    store.counters.entries_rewritten.add(entries);
    keyspace.heat.note_installed(!prefix);
    if prefix {
        store.counters.prefix_commits.add(1);
    }
    store.event(&Event::Committed { job, tables, prefix });
    drained(store);
    store.lane.poke();
    store.background.work_changed();
    Ok(())
}

fn record_part(store: &Store, keyspace: &KeyspaceState, job: JobId, part: &CommitPart) -> Result<()> {
    if part.outputs.iter().any(|tables| !tables.is_empty()) {
        store.sync_dir()?;
    }
    let mut tree = store.tree();
    let (current, claims) = parts(&tree, keyspace.id)?;
    let edit = commit_part(&current.version, claims, job, part, store.clock.wall_ms())?.edit;
    apply_job_edit(store, &mut tree, keyspace, job, edit, part.ends)
}

/// Ends a job without installing anything more: gives back its claims, and takes out of the tree what only it kept there.
pub fn release_job(store: &Store, keyspace: &KeyspaceState, job: JobId) -> Result<()> {
    let mut tree = store.tree();
    let tree = &mut *tree;
    let (Some(current), Some(claims)) =
        (tree.versions.trees().get(&keyspace.id), tree.claims.get_mut(&keyspace.id))
    else {
        return Ok(());
    };
    if claims.compaction(job).is_none() {
        return Ok(());
    }
    let edit = end_job(&current.version, claims, job).map(|committed| committed.edit);
    claims.release(job);
    let edit = edit?;
    if !edit.steps.is_empty() {
        change_tree(store, tree, keyspace, edit)?;
    }
    Ok(())
}

/// What a decision about a keyspace's tree looks at; `None` if the keyspace was dropped.
pub fn tree_view<'a>(store: &Store, tree: &'a TreeState, id: KeyspaceId) -> Option<TreeView<'a>> {
    let current = tree.versions.trees().get(&id)?;
    Some(TreeView {
        version: &current.version,
        claims: tree.claims.get(&id)?,
        cursors: &current.cursors,
        ids: ids_for_picker(tree),
        now_ms: store.clock.wall_ms(),
        space_amp: space_amp_of(store, id),
        oldest_snapshot: store.snapshots.oldest().seq(),
    })
}

/// As it was last estimated.
fn space_amp_of(store: &Store, id: KeyspaceId) -> f64 {
    let keyspaces = store.keyspaces.load();
    keyspaces.by_id(id).map_or(0.0, |keyspace| keyspace.space_amp())
}

/// The numbers that the picker and a flush may give out.
fn ids_for_picker(tree: &TreeState) -> Ids {
    let (next_run, next_group) = tree.versions.ids().next_run_and_group();
    Ids { next_run, next_group }
}

/// Records a job's edit, swaps the view, and keeps the books of claims and files. The tree lock is held.
fn apply_job_edit(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    job: JobId,
    edit: VersionEdit,
    finished: bool,
) -> Result<()> {
    let compaction = tree.claims.get(&keyspace.id).and_then(|c| c.compaction(job).cloned());
    let record = ManifestRecord { edits: vec![(keyspace.id, edit.clone())], ..ManifestRecord::default() };
    record_change(store, tree, record)?;
    if let Some(claims) = tree.claims.get_mut(&keyspace.id) {
        claims.committed(&edit);
        if finished {
            claims.release(job);
        }
    }
    if let Some(compaction) = compaction {
        tree.obsolete.extend(dropped(&compaction, &edit));
    }
    publish_version(store, tree, keyspace);
    Ok(())
}

/// Gives readers the tree as it is now.
fn publish_version(store: &Store, tree: &TreeState, keyspace: &KeyspaceState) {
    if let Some(current) = tree.versions.trees().get(&keyspace.id) {
        let version = Arc::clone(&current.version);
        keyspace.set_l0(&version);
        keyspace.update_view(|view| view.version = version);
        l0_changed(store, keyspace);
    }
}

/// Records a change of one keyspace's tree, and gives readers the tree as it is then.
pub fn change_tree(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    edit: VersionEdit,
) -> Result<()> {
    let edits = vec![(keyspace.id, edit)];
    record_change(store, tree, ManifestRecord { edits, ..ManifestRecord::default() })?;
    publish_version(store, tree, keyspace);
    Ok(())
}

/// Writes a record to the manifest. A manifest that may or may not hold it makes the store read-only.
pub fn record_change(store: &Store, tree: &mut TreeState, mut record: ManifestRecord) -> Result<()> {
    store.check_writable()?;
    store.check_settled()?;
    record.last_seq = record.last_seq.max(SeqNo(store.visible.load(Ordering::Acquire)));
    for (id, edit) in &record.edits {
        if let Some(keyspace) = store.keyspaces.load().by_id(*id) {
            keyspace.heat.note_tables(edit);
        }
    }
    tree.versions.commit(record).map_err(|error| {
        // A change that does not fit the tree was refused before anything was written.
        if !matches!(error, Error::InvalidArgument(_) | Error::NoSpace { .. }) {
            store.poison(&error);
        }
        error
    })
}

/// Sequence of the oldest logged write of any keyspace that is not in tables, `flushing` counted as if it were.
pub fn oldest_unflushed(store: &Store, flushing: Option<&Arc<Memtable>>) -> Option<SeqNo> {
    // Read before the memtables: what is logged above it may not be in a memtable yet.
    let next = SeqNo(store.visible.load(Ordering::Acquire)).next();
    let oldest = |k: &Arc<KeyspaceState>| {
        let view = k.view.load();
        let memtables = view.immutable.iter().rev().chain([&view.active]);
        memtables.filter(|m| !flushing.is_some_and(|f| Arc::ptr_eq(m, f))).find_map(|m| m.first_seq())
    };
    let oldest = store.keyspaces.load().by_name.values().filter(|k| !k.no_wal).filter_map(oldest).min();
    Some(oldest.map_or(next, |seq| seq.min(next)))
}

/// True if a write of another keyspace is in memory and the log only. It need not be older than what is flushed: a batch goes on
/// above its last entry for this keyspace, and is kept whole or not at all.
fn others_lag_behind(store: &Store, keyspace: KeyspaceId) -> bool {
    let keyspaces = store.keyspaces.load();
    let mut others = keyspaces.by_name.values().filter(|k| k.id != keyspace);
    others.any(|k| k.oldest_logged().is_some())
}

fn parts(tree: &TreeState, id: KeyspaceId) -> Result<(&Tree, &Claims)> {
    let current = tree.versions.trees().get(&id);
    current.zip(tree.claims.get(&id)).ok_or_else(|| Error::invalid(format!("keyspace {id} was dropped")))
}

fn dropped(compaction: &Compaction, edit: &VersionEdit) -> Vec<Arc<TableMeta>> {
    let ids: HashSet<_> = edit
        .steps
        .iter()
        .filter_map(|step| match step {
            EditStep::DropTable { table } => Some(*table),
            _ => None,
        })
        .collect();
    // A table that only moved is dropped in one place and added in another.
    let added: HashSet<_> = edit
        .steps
        .iter()
        .filter_map(|step| match step {
            EditStep::AddTable { table, .. } => Some(table.id()),
            _ => None,
        })
        .collect();
    let gone = compaction.tables().filter(|t| ids.contains(&t.id()) && !added.contains(&t.id()));
    gone.map(|t| Arc::clone(&t.meta)).collect()
}
