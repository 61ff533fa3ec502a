//! From what the user wrote to a strategy with the store's sizes, and changing it on a live store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::keyspace_state::{KeyspaceState, NamedStrategy};
use super::options_file::{self, KeyspaceSettings};
use super::state::Store;
use crate::base::error::Result;
use crate::compaction::catalog;
use crate::compaction::strategy::{CutRule, Layout, PerLevel, SizeRule, Strategy};
use crate::options::{KeyspaceOptions, Options};
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::manifest::{KeyspaceCreated, ManifestRecord};
use crate::version::version_set::Ids;

/// The strategy that `text` names or spells, with the sizes of `options` unless it states its own.
///
/// # Errors
/// `InvalidArgument` that names the field and what would be valid.
pub fn resolve(text: &str, memtable_bytes: u64, options: &Options) -> Result<NamedStrategy> {
    let mut strategy = catalog::strategy(text)?;
    if strategy.size == SizeRule::default() {
        strategy.size = SizeRule {
            l0_bytes: memtable_bytes.saturating_mul(u64::from(options.l0_trigger)),
            level_base_bytes: options.level_base_bytes,
            level_ratio: u64::from(options.level_ratio),
        };
    }
    if strategy.cut == CutRule::default() {
        strategy.cut = CutRule { table_bytes: options.table_bytes };
    }
    if !text.contains("bits=") {
        strategy.filter_bits = PerLevel::same(options.filter_bits);
    }
    // A strategy that is spelled out means the number of runs it says.
    let first = &mut strategy.levels.first;
    if !text.contains('=') && first.layout.max_runs() > 1 {
        first.layout = Layout::Runs { max: options.l0_trigger, fill: false };
    }
    Ok(NamedStrategy { text: text.to_owned(), strategy })
}

/// The manifest record of a new keyspace: a first level without tables, shaped as the strategy wants it.
pub fn creation(ids: &Ids, name: &str, strategy: &Strategy) -> ManifestRecord {
    let (id, group) = (ids.keyspace(), ids.group());
    let created = KeyspaceCreated { id, name: name.to_owned(), l0_group: Some(group) };
    let run_bound = strategy.levels.get(0, 1).layout.max_runs();
    let steps = vec![EditStep::SetRunBound { group, run_bound }];
    let edit = VersionEdit { steps, ..VersionEdit::default() };
    ManifestRecord { created: vec![created], edits: vec![(id, edit)], ..ManifestRecord::default() }
}

/// Changes a keyspace's strategy: writes OPTIONS durably, then swaps the value. The picker does the rest.
pub fn set(store: &Store, keyspace: &KeyspaceState, text: &str) -> Result<()> {
    let strategy = resolve(text, keyspace.memtable_bytes, &store.options)?;
    store.check_writable()?;
    let before = keyspace.strategy.swap(Arc::new(strategy));
    if let Err(error) = persist(store) {
        keyspace.strategy.store(before);
        return Err(error);
    }
    store.background.work_changed();
    Ok(())
}

/// Writes the settings of all keyspaces to a new OPTIONS file.
pub fn persist(store: &Store) -> Result<()> {
    // The tree lock keeps two writers of OPTIONS from removing each other's file.
    let mut tree = store.tree();
    let number = tree.versions.ids().file();
    let settings = settings(store.keyspaces.load().by_name.values());
    options_file::write(&*store.fs, &store.dir, number, &settings, tree.options_number)?;
    tree.options_number = Some(number);
    Ok(())
}

/// What OPTIONS says of these keyspaces.
pub fn settings<'a>(keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>) -> KeyspaceSettings {
    let of = |k: &Arc<KeyspaceState>| {
        let strategy = Some(k.strategy.load().text.clone());
        (k.name.clone(), KeyspaceOptions { strategy, memtable_bytes: Some(k.memtable_bytes) })
    };
    keyspaces.map(of).collect::<BTreeMap<_, _>>()
}
