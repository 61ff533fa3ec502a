//! From what the user wrote to a strategy with the store's sizes, and changing it on a live store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::options_file::{self, KeyspaceSettings, Stored};
use crate::base::error::{Error, Result};
use crate::compaction::catalog;
use crate::compaction::cost_model::{debt, distance, reshaping_bytes};
use crate::compaction::strategy::{CutRule, FilterBits, Layout, SizeRule, Strategy};
use crate::db::jobs::deletes::warn_of_ttl;
use crate::db::jobs::install::record_change;
use crate::db::store::keyspace_state::{KeyspaceState, NamedStrategy};
use crate::db::store::state::{Store, TreeState};
use crate::observe::event::Event;
use crate::observe::json::Object;
use crate::options::{KeyspaceOptions, Options};
use crate::storage::file_name::FileName;
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::manifest::{KeyspaceCreated, ManifestRecord};
use crate::version::version_set::Ids;

/// The strategy that `text` names or spells, with the sizes of `options` unless it states its own.
///
/// # Errors
/// `InvalidArgument` that names the field and what would be valid.
pub fn resolve(text: &str, memtable_bytes: u64, options: &Options) -> Result<NamedStrategy> {
    // On one line, as OPTIONS keeps it, however it was typed.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut strategy = catalog::strategy(&text)?;
    if strategy.size.has_default_bytes() {
        strategy.size = SizeRule {
            l0_bytes: memtable_bytes.saturating_mul(u64::from(options.l0_trigger)),
            l0_bytes_max: memtable_bytes.saturating_mul(u64::from(l0_runs_max(options))),
            level_base_bytes: options.level_base_bytes,
            level_ratio: u64::from(options.level_ratio),
            sizes: strategy.size.sizes,
        };
    }
    if strategy.cut.table_bytes == CutRule::default().table_bytes {
        strategy.cut.table_bytes = options.table_bytes;
    }
    // A strategy that is spelled out means the number of runs it says.
    let first = &mut strategy.levels.first;
    if !text.contains('=') && first.layout.max_runs() > 1 {
        first.layout = Layout::Runs { max: options.l0_trigger, fill: false };
    }
    Ok(NamedStrategy { text, strategy })
}

/// The strategy that `text` names or spells, as a store with these options has it: with their sizes and
/// filter bits, unless it states its own.
///
/// # Errors
/// `InvalidArgument` that names the field and what would be valid.
pub fn with_sizes(text: &str, options: &Options) -> Result<Strategy> {
    let mut strategy = resolve(text, options.memtable_bytes, options)?.strategy;
    strategy.filter_bits = strategy.filter_bits.map(|bits| FilterBits::Exactly(bits.of(options.filter_bits)));
    Ok(strategy)
}

/// The runs that L0 may have before it is compacted: it starts well before writers are slowed.
fn l0_runs_max(options: &Options) -> u32 {
    options.l0_trigger.saturating_mul(2).min(options.l0_trigger.midpoint(options.l0_limit))
}

/// The manifest record of a new keyspace: a first level without tables, shaped as the strategy wants it.
pub fn creation(ids: &Ids, name: &str, strategy: &Strategy, no_wal: bool) -> ManifestRecord {
    let (id, group) = (ids.keyspace(), ids.group());
    let created = KeyspaceCreated { id, name: name.to_owned(), l0_group: Some(group), no_wal };
    let run_bound = strategy.levels.get(0, 1).layout.max_runs();
    let steps = vec![EditStep::SetRunBound { group, run_bound }];
    let edit = VersionEdit { steps, ..VersionEdit::default() };
    ManifestRecord { created: vec![created], edits: vec![(id, edit)], ..ManifestRecord::default() }
}

/// What a strategy would have to do about a tree as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrategyCost {
    /// Bytes that stand where the strategy would not have them: see [`crate::plan::distance`].
    pub distance_bytes: u64,
    /// Bytes that bring them where it would: each is read once and written at most once.
    pub reshaping_bytes: u64,
    /// Bytes to rewrite until no trigger of it fires either.
    pub debt_bytes: u64,
}

impl StrategyCost {
    /// As fields of an answer.
    pub fn to_json(self, object: Object) -> Object {
        let object = object.raw("distance_bytes", self.distance_bytes);
        object.raw("reshaping_bytes", self.reshaping_bytes).raw("debt_bytes", self.debt_bytes)
    }
}

/// What the strategy that `text` names or spells would have to do about a keyspace's tree. Changes nothing.
///
/// # Errors
/// `InvalidArgument` that names the field and what would be valid.
pub fn cost(store: &Store, keyspace: &KeyspaceState, text: &str) -> Result<StrategyCost> {
    let strategy = resolve(text, keyspace.memtable_bytes(), &store.options.load())?.strategy;
    let version = &keyspace.view.load().version;
    Ok(StrategyCost {
        distance_bytes: distance(version, &strategy),
        reshaping_bytes: reshaping_bytes(version, &strategy),
        debt_bytes: debt(version, &strategy),
    })
}

/// Changes a keyspace's strategy: durably, then for the picker, which does the rest.
pub fn set(store: &Store, keyspace: &KeyspaceState, text: &str) -> Result<()> {
    store.listener.check_outside()?;
    let text = {
        let _one_at_a_time = store.changing_options();
        let strategy = resolve(text, keyspace.memtable_bytes(), &store.options.load())?;
        let mut tree = store.tree();
        let mut settings = stored(store);
        // By its id: another one may have its name by now.
        let there = tree.versions.trees().contains_key(&keyspace.id);
        let Some(own) = settings.keyspaces.get_mut(&keyspace.name).filter(|_| there) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
        };
        let text = strategy.text.clone();
        own.strategy = Some(text.clone());
        change_settings(store, &mut tree, &settings, ManifestRecord::default())?;
        store.passing().strategies.remove(&keyspace.name);
        keyspace.strategy.store(Arc::new(strategy));
        text
    };
    store.event(&Event::StrategyChanged { keyspace: keyspace.id, strategy: text });
    warn_of_ttl(store, keyspace);
    store.background.work_changed();
    Ok(())
}

/// Changes a keyspace's strategy until the store is closed; what it remembers stays.
pub fn set_for_now(store: &Store, keyspace: &KeyspaceState, text: &str) -> Result<()> {
    store.listener.check_outside()?;
    store.check_writable()?;
    let text = {
        // Whoever changes an option resolves all strategies anew.
        let _one_at_a_time = store.changing_options();
        let strategy = resolve(text, keyspace.memtable_bytes(), &store.options.load())?;
        let text = strategy.text.clone();
        let _tree = store.tree();
        let before = keyspace.strategy.swap(Arc::new(strategy));
        store.passing().strategies.entry(keyspace.name.clone()).or_insert_with(|| before.text.clone());
        text
    };
    store.event(&Event::StrategyChanged { keyspace: keyspace.id, strategy: text });
    warn_of_ttl(store, keyspace);
    store.background.work_changed();
    Ok(())
}

/// Writes settings to a new OPTIONS file and records it, with the change that they belong to, in the manifest: both hold, or
/// neither. The tree lock is held, which also keeps two writers of OPTIONS apart.
pub fn change_settings(
    store: &Store,
    tree: &mut TreeState,
    settings: &Stored,
    mut record: ManifestRecord,
) -> Result<()> {
    store.check_writable()?;
    store.check_settled()?;
    let number = tree.versions.ids().file();
    let remove = |number| {
        // What cannot be removed is an orphan, which the next open removes.
        let _ = store.fs.remove(&FileName::Options(number).path(&store.dir));
    };
    options_file::write(&*store.fs, &store.dir, number, settings)?;
    store.sync_dir()?;
    record.options_file = Some(number);
    if let Err(error) = record_change(store, tree, record) {
        // A store that is read-only may have recorded it all the same.
        if store.check_writable().is_ok() {
            remove(number);
        }
        return Err(error);
    }
    if let Some(old) = tree.options_number.replace(number) {
        remove(old);
    }
    Ok(())
}

/// Writes the settings in force to a new OPTIONS file, durably.
pub fn persist(store: &Store) -> Result<()> {
    change_settings(store, &mut store.tree(), &stored(store), ManifestRecord::default())
}

/// The settings that the store remembers: those in force, but for what holds for this open only.
pub fn stored(store: &Store) -> Stored {
    let mut stored = Stored {
        options: store.options.load().changed().map(|(name, value)| (name.to_owned(), value)).collect(),
        keyspaces: settings(store.keyspaces.load().by_name.values()),
    };
    let (passing, defaults) = (store.passing(), Options::default());
    for row in Options::names() {
        match passing.options.get(row.name) {
            Some(value) if *value == row.value(&defaults) => drop(stored.options.remove(row.name)),
            Some(value) => drop(stored.options.insert(row.name.to_owned(), value.clone())),
            None => {}
        }
    }
    for (name, text) in &passing.strategies {
        if let Some(own) = stored.keyspaces.get_mut(name) {
            own.strategy = Some(text.clone());
        }
    }
    stored
}

/// What OPTIONS says of these keyspaces.
fn settings<'a>(keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>) -> KeyspaceSettings {
    let of = |k: &Arc<KeyspaceState>| {
        let strategy = Some(k.strategy.load().text.clone());
        let memtable_bytes = k.memtable_bytes_own;
        // Whether it has a log is in the manifest, for good.
        let mut options = KeyspaceOptions { strategy, memtable_bytes, ..KeyspaceOptions::default() };
        k.style.write_to(&mut options);
        (k.name.clone(), options)
    };
    keyspaces.map(of).collect::<BTreeMap<_, _>>()
}
