//! Unlinking tables that nothing refers to any more, at a bounded rate where one is set.
//!
//! A table goes when no view holds it. On the lane, never on a writer's or a job's path. Where the disk is nearly full nothing
//! is held back; what is left at close is an orphan, which the next open removes.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::locks::MutexGuard;
use crate::db::store::state::{Store, TreeState};
use crate::observe::event::Event;
use crate::table::meta::TableMeta;

/// Who has the tree is asked again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Unlinks what may go now, as a step of the background: none while that is paused. A failure is told as an event. Answers as
/// `unlink_obsolete`.
pub fn unlink_unless_paused(store: &Store) -> Option<Duration> {
    let _step = store.background.begin_step()?;
    unlink(store, store.tree())
}

/// The same for the lane: syncs of logs and tables wait behind it, so it waits for nobody who has the tree.
pub fn unlink_if_free(store: &Store) -> Option<Duration> {
    let _step = store.background.begin_step()?;
    match store.try_tree() {
        Some(tree) => unlink(store, tree),
        None => Some(store.clock.now().saturating_add(LOOK_AGAIN)),
    }
}

fn unlink(store: &Store, tree: MutexGuard<'_, TreeState>) -> Option<Duration> {
    unlink_obsolete(store, tree).unwrap_or_else(|error| {
        store.event(&Event::BackgroundError { error: error.to_string() });
        None
    })
}

/// Unlinks what may go now. Answers when to ask again, if there is more that only the rate holds back.
fn unlink_obsolete(store: &Store, mut tree: MutexGuard<'_, TreeState>) -> Result<Option<Duration>> {
    let rate = store.options.load().unlink_bytes_per_sec;
    let paced = rate > 0 && !needs_space(store, &tree.obsolete)?;
    let now = store.clock.now();
    let mut again = None;
    let ready: Vec<Arc<TableMeta>> = {
        let tree = &mut *tree;
        tree.unlink_rate.set_rate(now, paced.then_some(rate));
        let may_go = |table: &Arc<TableMeta>| {
            if Arc::strong_count(table) > 1 {
                return false;
            }
            match tree.unlink_rate.grant(now, table.bytes) {
                Ok(_) => tree.unlink_rate.charge(table.bytes),
                Err(when) => again = Some(when),
            }
            again.is_none()
        };
        let (ready, kept) = std::mem::take(&mut tree.obsolete).into_iter().partition(may_go);
        tree.obsolete = kept;
        ready
    };
    drop(tree);
    // Each is tried: what cannot be removed is an orphan, which the next open removes.
    let removed: Vec<Result<()>> =
        ready.iter().map(|table| store.fs.remove(&store.tables.path(table.id))).collect();
    removed.into_iter().collect::<Result<()>>()?;
    Ok(again)
}

/// True if what waits to be unlinked is a good part of the space that is left.
fn needs_space(store: &Store, obsolete: &[Arc<TableMeta>]) -> Result<bool> {
    let pending: u64 = obsolete.iter().map(|table| table.bytes).sum();
    if pending == 0 {
        return Ok(false);
    }
    let free = store.fs.free_space(&store.dir)?;
    Ok(free.saturating_sub(store.options.load().reserve_bytes) < pending)
}

/// At close: what a rate holds back is left to the next open, so that closing takes no longer for it.
pub fn unlink_at_close(store: &Store) {
    if store.options.load().unlink_bytes_per_sec == 0 {
        // What cannot be removed now, or is still being read, is an orphan too.
        let _ = unlink_obsolete(store, store.tree());
    }
}
