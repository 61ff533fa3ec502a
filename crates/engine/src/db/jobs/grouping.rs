//! Groups of keys by heat, in the trees of a store: before a look for work, levels by heat are divided by what reads have taught, and
//! groups of other levels are joined. Metadata alone; what has too many runs then is work that the picker finds.

use super::install::{change_tree, tree_view};
use crate::base::error::Result;
use crate::compaction::commit::Committed;
use crate::compaction::regroup::{join, regroup};
use crate::compaction::strategy::{Layout, Strategy};
use crate::compaction::tree_view::Ids;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::{Store, TreeState};
use crate::observe::event::Event;
use crate::version::edit::VersionEdit;
use crate::version::run::TableRef;

/// Brings the groups of a tree to what its strategy and its reads want.
pub fn adjust_groups(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    strategy: &Strategy,
) -> Result<()> {
    let Some(view) = tree_view(store, tree, keyspace.id) else { return Ok(()) };
    let by_heat = strategy.levels.named().any(|(_, policy)| matches!(policy.layout, Layout::ByHeat(_)));
    if view.version.levels.iter().any(|level| level.groups.len() > 1)
        && let Some(done) = join(view.version, view.claims, strategy)?
    {
        install(store, tree, keyspace, done, view.ids)?;
    }
    if !by_heat {
        return Ok(());
    }
    let divided = keyspace.heat.tell_if_due(|known| -> Result<Option<(Committed, Ids)>> {
        let Some(view) = tree_view(store, tree, keyspace.id) else { return Ok(None) };
        let mut ids = view.ids;
        let mut all: Option<Committed> = None;
        for level in 0..view.version.levels.len() {
            let version = all.as_ref().map_or(view.version, |done| &done.version);
            let heat = |table: &TableRef| known.heat(level, table);
            let Some(done) = regroup(version, view.claims, strategy, level, &mut ids, &heat)? else {
                continue;
            };
            let mut steps = all.take().map(|before| before.edit.steps).unwrap_or_default();
            steps.extend(done.edit.steps);
            let edit = VersionEdit { steps, ..VersionEdit::default() };
            all = Some(Committed { edit, version: done.version });
        }
        Ok(all.map(|done| (done, ids)))
    });
    match divided.transpose()?.flatten() {
        Some((done, ids)) => install(store, tree, keyspace, done, ids),
        None => Ok(()),
    }
}

fn install(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    done: Committed,
    ids: Ids,
) -> Result<()> {
    tree.versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
    let [splits, joins, to_hot, to_cold] =
        keyspace.heat.turns.note(&keyspace.view.load().version, &done.edit);
    store.event(&Event::Regrouped { keyspace: keyspace.id, splits, joins, to_hot, to_cold });
    change_tree(store, tree, keyspace, done.edit)
}
