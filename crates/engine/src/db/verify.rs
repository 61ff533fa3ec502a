//! Verifying an open store: every byte of every table, and every invariant of the trees.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::keyspace_state::ReadView;
use super::state::Store;
use crate::base::class::{Class, IoClass};
use crate::base::error::{Error, Result};
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::units::TableId;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::run_iterator::{ReadMode, RunIterator};
use crate::storage::file_name::FileName;
use crate::table::verify::verify_table;
use crate::version::check::check_recorded;
use crate::version::version::Version;

/// What was read and found whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Tables read.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Reads everything. Runs beside reads and writes.
///
/// # Errors
/// `Corruption` with the file, the offset and the violated invariant; the first one found.
pub fn verify(store: &Store) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let views: Vec<Arc<ReadView>> =
        store.keyspaces.load().by_name.values().map(|k| k.view.load_full()).collect();
    for view in &views {
        check_recorded(&view.version).map_err(|what| Error::corruption(&store.dir, 0, what))?;
        let mut seen = BTreeSet::new();
        for (_, table) in view.version.tables() {
            if seen.insert(table.id()) {
                let path = store.tables.path(table.id());
                let file = store.fs.open(&path).map_err(|e| e.or_missing(&path))?;
                verify_table(file, &table.meta, IoClass::Client)?;
                report.tables += 1;
                report.entries += table.meta.entries;
                report.bytes += table.meta.bytes;
            }
        }
        check_read_order(store, &view.version)?;
    }
    check_files(store, &views)?;
    Ok(report)
}

/// I1 and V3 on the entries themselves: along the read path the sequences of a key only fall.
fn check_read_order(store: &Store, version: &Version) -> Result<()> {
    let mode = ReadMode::Compaction(Class::Upkeep);
    let runs: Vec<_> = version.levels.iter().flat_map(|l| &l.groups).flat_map(|g| &g.runs).collect();
    let iterators = runs.iter().map(|r| RunIterator::new(r.tables.clone(), Arc::clone(&store.tables), mode));
    let mut merged = MergingIterator::new(iterators.collect(), 0);
    let mut key: Vec<u8> = Vec::new();
    let (mut last_run, mut last_trailer) = (0, Trailer(u64::MAX));
    let mut first = true;
    merged.seek_to_first()?;
    while merged.valid() {
        // Sources are in read order, except that groups of a level do not share keys: positions only rise with age.
        let run = merged.current_source().unwrap_or(0);
        if first || merged.key() != key {
            key.clear();
            key.extend_from_slice(merged.key());
            first = false;
        } else if run < last_run || merged.trailer() >= last_trailer {
            let what = format!("key {} has a newer entry below an older one", crate::base::error::hex(&key));
            return Err(Error::corruption(&store.dir, 0, what));
        }
        (last_run, last_trailer) = (run, merged.trailer());
        merged.next()?;
    }
    Ok(())
}

/// Every table of the trees is there.
fn check_files(store: &Store, views: &[Arc<ReadView>]) -> Result<()> {
    let names = store.fs.list(&store.dir)?;
    let on_disk: BTreeSet<TableId> = names
        .iter()
        .filter_map(|name| match FileName::parse(name)? {
            FileName::Table(n) => Some(TableId(n)),
            _ => None,
        })
        .collect();
    for (_, table) in views.iter().flat_map(|v| v.version.tables()) {
        if !on_disk.contains(&table.id()) {
            return Err(Error::corruption(store.tables.path(table.id()), 0, "this table is missing"));
        }
    }
    Ok(())
}
