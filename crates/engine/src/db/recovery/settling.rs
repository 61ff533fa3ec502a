//! The end of an opening: everything replayed is in tables, a new log and a new manifest have begun, CURRENT names it.
//!
//! ```text
//! replayed memtables ─► tables ─► new log ─► OPTIONS ─► new manifest ─► CURRENT ─► orphans go, old logs are recycled
//! ```
//! Up to CURRENT nothing on the disk refers to anything new, so a crash or a full disk on the way loses nothing. On a full disk
//! the store opens all the same: it answers reads from what was replayed, refuses writes with `NoSpace`, and the flush lane tries
//! again until there is space.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::replay::{ReplaySettings, flush_replayed, remove_orphans};
use crate::base::error::{Error, Result};
use crate::db::settings::options_file;
use crate::db::settings::strategies::stored;
use crate::db::store::state::{Store, TreeState};
use crate::execution::output::JobContext;
use crate::observe::event::Event;
use crate::options::Options;
use crate::storage::file_name::FileName;
use crate::write::wal::LogError;

/// Does what is left. `context` syncs where it is asked to. After `NoSpace` it may be tried again.
///
/// # Errors
/// `NoSpace`: nothing has changed. Any other error than of a table makes the store read-only.
pub fn settle(store: &Store, context: &Arc<JobContext>) -> Result<()> {
    let mut old_logs = store.unsettled.old_logs.lock().unwrap_or_else(PoisonError::into_inner);
    if !store.unsettled.pending.load(Ordering::Acquire) {
        return Ok(());
    }
    let one_at_a_time = store.changing_options();
    let mut commit = store.commit_state();
    let mut tree = store.tree();
    flush_all(store, context, &mut tree)?;
    let last = commit.last_seq;
    let log = commit.wal.begin(last.next()).map_err(|error| match error {
        LogError::Refused(error) => error,
        LogError::Failed(error) => store.log_failed(error),
    })?;
    let options = tree.versions.ids().file();
    options_file::write(&*store.fs, &store.dir, options, &stored(store))?;
    store.sync_dir()?;
    tree.versions.set_options_file(options);
    tree.versions.set_recovered(last, log);
    if let Err(error) = tree.versions.begin_manifest() {
        if matches!(error, Error::NoSpace { .. }) {
            // What cannot be removed is an orphan.
            let _ = store.fs.remove(&FileName::Options(options).path(&store.dir));
        } else {
            store.poison(&error);
        }
        return Err(error);
    }
    tree.options_number = Some(options);
    store.unsettled.pending.store(false, Ordering::Release);
    let removed = remove_orphans(&*store.fs, &store.dir, &tree.versions, Some(options));
    old_logs.drain(..).for_each(|log| store.wal_files.adopt(log));
    drop(tree);
    drop(commit);
    drop(one_at_a_time);
    drop(old_logs);
    // The store is open; what is in nobody's way does not keep it from that.
    if let Err(error) = removed {
        store.event(&Event::BackgroundError { error: error.to_string() });
    }
    Ok(())
}

/// Writes what was replayed to tables, each keyspace's oldest memtable first.
fn flush_all(store: &Store, context: &Arc<JobContext>, tree: &mut TreeState) -> Result<()> {
    let keyspaces = store.keyspaces.load();
    let replay = {
        let options = store.options.load();
        ReplaySettings {
            options: Options::clone(&options),
            styles: keyspaces.by_name.values().map(|k| (k.id, k.style.clone())).collect(),
            looks: None,
            ttl_ms: BTreeMap::new(),
        }
    };
    for keyspace in keyspaces.by_name.values() {
        while let Some(memtable) = keyspace.view.load().immutable.last().cloned() {
            flush_replayed(context, &mut tree.versions, &replay, keyspace.id, &memtable)?;
            let Some(current) = tree.versions.trees().get(&keyspace.id) else { break };
            let version = Arc::clone(&current.version);
            keyspace.set_l0(&version);
            keyspace.update_view(|view| {
                view.immutable.retain(|m| !Arc::ptr_eq(m, &memtable));
                view.version = version;
            });
        }
    }
    Ok(())
}
