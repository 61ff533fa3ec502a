//! Keyspaces that come and go. Both are one manifest record; readers that hold one keep what they see.

use std::sync::Arc;

use super::builder::open_keyspace;
use crate::base::error::{Error, Result};
use crate::base::units::TableId;
use crate::compaction::catalog;
use crate::db::background::unlinks::unlink_unless_paused;
use crate::db::jobs::pressure::retire;
use crate::db::jobs::scheduling::ask_to_let_go;
use crate::db::settings::strategies::{change_settings, creation, resolve, stored};
use crate::db::store::keyspace_state::{DEFAULT_NAME, KeyspaceState, MemtableBytes};
use crate::db::store::state::{Keyspaces, Store};
use crate::options::{KeyspaceOptions, TableStyle};
use crate::scheduler::conflict::LetsGo;
use crate::version::manifest::ManifestRecord;

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Makes a keyspace.
pub fn create(store: &Store, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
    store.listener.check_outside()?;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!("a keyspace's name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    options.check()?;
    let _one_at_a_time = store.changing_options();
    let of_store = store.options.load().memtable_bytes;
    let memtable = MemtableBytes { own: options.memtable_bytes, of_store };
    let text = options.strategy.as_deref().unwrap_or(catalog::DEFAULT);
    let strategy = resolve(text, memtable.get(), &store.options.load())?;
    let style = TableStyle::of(&options)?;
    // Writers wait behind this, which may wait for a thread of low priority.
    let _waits = store.background.caller_waits(false);
    let mut commit = store.commit_state();
    let mut tree = store.tree();
    if tree.versions.trees().values().any(|t| t.name == name) {
        return Err(Error::invalid(format!("keyspace `{name}` exists already")));
    }
    let record = creation(tree.versions.ids(), name, &strategy.strategy, options.no_wal);
    let Some(id) = record.created.first().map(|created| created.id) else {
        return Err(Error::invalid(format!("keyspace `{name}` could not be made")));
    };
    let mut settings = stored(store);
    let own = KeyspaceOptions { strategy: Some(strategy.text.clone()), ..options };
    settings.keyspaces.insert(name.to_owned(), own);
    change_settings(store, &mut tree, &settings, record)?;
    tree.claims.entry(id).or_default();
    let Some(new) = tree.versions.trees().get(&id) else {
        return Err(Error::invalid(format!("keyspace `{name}` could not be made")));
    };
    let (state, open) = open_keyspace(id, new, memtable, style, strategy, &store.memory);
    // Ids only grow, so the list stays sorted.
    commit.memtables.push(open);
    commit.keyspaces_changed();
    let mut keyspaces = Keyspaces::clone(&store.keyspaces.load());
    keyspaces.insert(Arc::clone(&state));
    replace(store, keyspaces);
    Ok(state)
}

/// Drops a keyspace: its open jobs are discarded, its tables unlinked when nobody reads them any more.
pub fn drop_keyspace(store: &Store, name: &str) -> Result<()> {
    store.listener.check_outside()?;
    if name == DEFAULT_NAME {
        return Err(Error::invalid("the default keyspace cannot be dropped"));
    }
    let one_at_a_time = store.changing_options();
    // Writers wait behind this, which may wait for a thread of low priority.
    let _waits = store.background.caller_waits(false);
    let mut commit = store.commit_state();
    let mut tree = store.tree();
    let Some(state) = store.keyspaces.load().by_name.get(name).cloned() else {
        return Err(Error::invalid(format!("there is no keyspace `{name}`")));
    };
    let tables = tree.versions.trees().get(&state.id).map(|t| Arc::clone(&t.version));
    let record = ManifestRecord { dropped: vec![state.id], ..ManifestRecord::default() };
    let mut settings = stored(store);
    settings.keyspaces.remove(name);
    change_settings(store, &mut tree, &settings, record)?;
    store.passing().strategies.remove(name);
    commit.memtables.retain(|m| m.keyspace.id != state.id);
    commit.keyspaces_changed();
    tree.claims.remove(&state.id);
    let mut keyspaces = Keyspaces::clone(&store.keyspaces.load());
    keyspaces.remove(name);
    replace(store, keyspaces);
    retire(store, &state);
    let metas = || tables.iter().flat_map(|version| version.tables()).map(|(_, table)| &table.meta);
    let ids: Vec<TableId> = metas().map(|meta| meta.id).collect();
    tree.obsolete.extend(metas().cloned());
    // A handle's view would keep the tables, which only open snapshots are entitled to.
    state.drop_contents(&store.snapshots);
    drop(tables);
    drop(tree);
    drop(commit);
    drop(one_at_a_time);
    {
        let mut background = store.background.lock();
        background.failing.dropped(state.id);
        ids.iter().for_each(|id| _ = background.lost_work.remove(id));
        let own = background.jobs.iter_mut().filter(|job| job.keyspace.id == state.id);
        own.for_each(|job| ask_to_let_go(store, job, LetsGo::Discards));
    }
    store.background.work_changed();
    // The keyspace is gone, whatever becomes of its files.
    unlink_unless_paused(store);
    Ok(())
}

/// Puts other keyspaces in force.
fn replace(store: &Store, keyspaces: Keyspaces) {
    store.keyspaces.store(Arc::new(keyspaces));
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::base::units::KeyspaceId;
    use crate::db::database::Db;
    use crate::storage::simulated::SimulatedFileSystem;

    /// A name comes again, its number never does.
    #[test]
    fn a_keyspace_is_found_by_its_number_while_it_is_there() {
        let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
        let db = builder.without_threads().open().unwrap();
        let store = Arc::clone(&db.handle.store);
        let create = |name: &str| db.create_keyspace(name, Default::default()).unwrap().state().id;
        let name_of = |id: KeyspaceId| store.keyspaces.load().by_id(id).map(|found| found.name.clone());
        let (z, a) = (create("z"), create("a"));
        assert_eq!([z, a].map(name_of), [Some("z".to_owned()), Some("a".to_owned())]);
        db.drop_keyspace("z").unwrap();
        let again = create("z");
        assert_eq!([z, a, again].map(name_of), [None, Some("a".to_owned()), Some("z".to_owned())]);
        let keyspaces = store.keyspaces.load();
        let is_found = |id: KeyspaceId, name: &str| name_of(id).is_some_and(|found| found == name);
        assert!(keyspaces.by_name.iter().all(|(name, keyspace)| is_found(keyspace.id, name)));
        assert_eq!(keyspaces.by_name.len(), 3);
    }
}
