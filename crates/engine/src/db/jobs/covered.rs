//! Tables that a range delete has emptied go by metadata alone: nobody reads them once more to find that out.
//!
//! ```text
//! L0      8:[c──────────────────────)      a range tombstone at sequence 8
//! L1   3[a-b]  4[d-g]  5[h-m]  6[p-z]      4 and 5 hold nothing that anyone can see: no snapshot lies between them and 8
//! ```
//! A table is dead once every reader that could see its entries sees a newer tombstone over them, and stays so: newer snapshots
//! see the tombstone too, and while anything older is left in its range the tombstone is (I4). Cursors keep the view they began
//! with. A table that an open job has is left to the job.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::install::change_tree;
use crate::base::class::{Class, IoClass};
use crate::base::error::Result;
use crate::base::units::{SeqNo, TableId};
use crate::compaction::commit::drop_covered;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::merge::range_tombstones::RangeSource;
use crate::observe::event::Event;
use crate::table::meta::TableMeta;
use crate::table::table_cache::TableCache;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// Stretches that are put together to cover one table; more are left to a compaction.
const STRETCHES_MAX: usize = 64;

/// Drops what range tombstones have emptied; looks again only when the tree or the snapshots have changed.
pub fn drop_covered_tables(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    // The view first: whoever takes a snapshot after they are listed sees all tombstones of the view.
    let view = keyspace.view.load_full();
    if view.version.tables().all(|(_, table)| table.meta.range_tombstones == 0) {
        return Ok(());
    }
    let snapshots = store.snapshots.list();
    if !keyspace.take_covered_check(&view.version, &snapshots) {
        return Ok(());
    }
    let covered = covered_tables(&view.version, &snapshots, &store.tables)?;
    if covered.is_empty() {
        return Ok(());
    }
    let dropped = {
        let mut tree = store.tree();
        let tree = &mut *tree;
        let (Some(current), Some(claims)) =
            (tree.versions.trees().get(&keyspace.id), tree.claims.get(&keyspace.id))
        else {
            return Ok(());
        };
        let free = |t: &&TableRef| covered.contains(&t.id()) && claims.holder(t.id()).is_none();
        let tables = current.version.tables().map(|(_, table)| table);
        let dropped: Vec<Arc<TableMeta>> = tables.filter(free).map(|t| Arc::clone(&t.meta)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        let edit = drop_covered(&current.version, claims, &covered)?.edit;
        change_tree(store, tree, keyspace, edit)?;
        tree.obsolete.extend(dropped.iter().cloned());
        dropped
    };
    let bytes = dropped.iter().map(|t| t.bytes).sum();
    store.counters.covered_drops.add(dropped.len() as u64);
    store.counters.covered_bytes.add(bytes);
    let tables = dropped.iter().map(|t| t.id).collect();
    store.event(&Event::Covered { keyspace: keyspace.id, tables, bytes });
    store.lane.poke();
    Ok(())
}

/// The tables of which nobody sees anything.
fn covered_tables(
    version: &Version,
    snapshots: &[SeqNo],
    cache: &Arc<TableCache>,
) -> Result<BTreeSet<TableId>> {
    let class = IoClass::Background(Class::Upkeep);
    let mut covered = BTreeSet::new();
    for run in version.runs() {
        let Some(mut ranges) = RangeSource::of_run(&run.tables, cache, class) else { continue };
        let with_any = run.tables.iter().filter(|t| t.meta.range_tombstones > 0);
        let newest = with_any.map(|t| t.meta.seqs.1).max().unwrap_or_default();
        for (_, table) in version.tables().filter(|(_, t)| t.meta.seqs.1 < newest) {
            if !covered.contains(&table.id()) && is_covered(table, &mut ranges, snapshots)? {
                covered.insert(table.id());
            }
        }
    }
    Ok(covered)
}

/// True if each of the table's keys is under a tombstone that all see who see anything of the table.
fn is_covered(table: &TableRef, ranges: &mut RangeSource, snapshots: &[SeqNo]) -> Result<bool> {
    let (oldest, newest) = table.meta.seqs;
    // The first snapshot that sees anything of it has to see the tombstone.
    let seen_by = snapshots.iter().find(|s| **s >= oldest).copied().unwrap_or(SeqNo::MAX);
    let mut at = table.bounds.lo.to_vec();
    for _ in 0..STRETCHES_MAX {
        ranges.look_at(&at)?;
        if ranges.newest(seen_by).is_none_or(|seq| seq <= newest) {
            return Ok(false);
        }
        match (ranges.hi(), &table.bounds.hi) {
            (Some(hi), Some(end)) if hi >= &**end => return Ok(true),
            (Some(hi), _) => hi.clone_into(&mut at),
            (None, _) => return Ok(true),
        }
    }
    Ok(false)
}
