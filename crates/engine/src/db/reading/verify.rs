//! Verifying an open store: every byte of every table, and every invariant of the trees.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::units::{SeqNo, TableId};
use crate::db::store::keyspace_state::ReadView;
use crate::db::store::state::Store;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::RangeSource;
use crate::merge::run_iterator::{PIECE_MAX, ReadMode, RunIterator};
use crate::observe::waits;
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
    let mut damage = Vec::new();
    let report = verify_all(store, &mut |error| damage.push(error))?;
    damage.into_iter().next().map_or(Ok(report), Err)
}

/// Reads everything, and tells `damaged` of each table that is not whole, and of what the store was opened without; what is
/// counted is the others.
///
/// # Errors
/// `Corruption` of what is not in one table: the first found. `Io`.
pub fn verify_all(store: &Store, damaged: &mut dyn FnMut(Error)) -> Result<VerifyReport> {
    // Its reads are no client's operation.
    waits::forget();
    store.opened.without.get().cloned().into_iter().for_each(&mut *damaged);
    let mut report = VerifyReport::default();
    let mut whole = true;
    let views: Vec<Arc<ReadView>> =
        store.keyspaces.load().by_name.values().map(|k| k.view.load_full()).collect();
    for view in &views {
        check_recorded(&view.version).map_err(|what| Error::corruption(&store.dir, 0, what))?;
        let mut seen = BTreeSet::new();
        for (_, table) in view.version.tables() {
            if seen.insert(table.id()) {
                let path = store.tables.path(table.id());
                let file = store.fs.open(&path).map_err(|e| e.or_missing(&path));
                match file.and_then(|file| verify_table(file, &table.meta, IoClass::Client)) {
                    Err(error @ Error::Corruption { .. }) => {
                        whole = false;
                        damaged(error);
                        continue;
                    }
                    other => other?,
                }
                report.tables += 1;
                report.entries += table.meta.entries;
                report.bytes += table.meta.bytes;
            }
        }
        if whole {
            check_read_order(store, &view.version)?;
        }
    }
    if whole {
        check_files(store, &views)?;
    }
    Ok(report)
}

/// I1 and V3 on the entries themselves: along the read path the sequences of a key only fall, those of the range tombstones over
/// it included.
fn check_read_order(store: &Store, version: &Version) -> Result<()> {
    let mode = ReadMode::Compaction { class: IoClass::Client, direct: false, piece: PIECE_MAX };
    let runs: Vec<_> = version.runs().collect();
    let ranges = runs
        .iter()
        .enumerate()
        .filter_map(|(run, r)| Some((run, RangeSource::of_run(&r.tables, &store.tables, IoClass::Client)?)));
    let mut ranges: Vec<(usize, RangeSource)> = ranges.collect();
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
            let what =
                format!("key {} has a newer entry below an older one", crate::base::error::key_start(&key));
            return Err(Error::corruption(&store.dir, 0, what));
        }
        check_ranges(store, &mut ranges, &key, run, merged.trailer().seq())?;
        (last_run, last_trailer) = (run, merged.trailer());
        merged.next()?;
    }
    Ok(())
}

/// An entry of a run is older than every range tombstone over it of the runs above, and newer than every one of those below.
fn check_ranges(
    store: &Store,
    ranges: &mut [(usize, RangeSource)],
    key: &[u8],
    run: usize,
    seq: SeqNo,
) -> Result<()> {
    for (place, source) in ranges.iter_mut().filter(|(place, _)| *place != run) {
        source.look_at(key)?;
        let wrong = match *place < run {
            true => source.oldest().is_some_and(|oldest| oldest < seq),
            false => source.newest(SeqNo::MAX).is_some_and(|newest| newest > seq),
        };
        if wrong {
            let what =
                format!("a range tombstone over key {} is out of order", crate::base::error::key_start(key));
            return Err(Error::corruption(&store.dir, 0, what));
        }
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
            return Err(Error::corruption(store.tables.path(table.id()), 0, "this file is missing"));
        }
    }
    Ok(())
}
