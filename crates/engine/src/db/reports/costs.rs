//! What compaction costs and what it leaves behind, by the definitions of the design-space paper (CDS §4.2), which
//! `docs/observability.md` repeats; and the space that a keyspace's superseded entries take, counted by reading all of them.

use std::sync::Arc;

use crate::base::class::{Class, IoClass};
use crate::base::error::{Error, Result};
use crate::base::iterator::InternalIterator;
use crate::db::reading::scan::{ScanRange, current, cursor_at};
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::merge::run_iterator::{PIECE_MAX, ReadMode, RunIterator};
use crate::merge::visible_iterator::is_put;
use crate::observe::json::Object;
use crate::observe::waits;

/// The paper's figures, of all keyspaces, since the store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostMetrics {
    /// Bytes that compactions wrote for each byte that users wrote.
    pub write_amplification: f64,
    /// How often an entry that came to the trees was written again by compactions, in the mean.
    pub rewrites_per_entry: f64,
    /// Pages of 4 KiB that a get read from files, in the mean of one get in 64; a multi-get counts as one. `None` before the
    /// first of these, and with `slow_us=0`.
    pub pages_per_get: Option<f64>,
    /// Bytes of superseded entries for each byte of the others, estimated from samples of keys. `None` without tables.
    pub space_amplification: Option<f64>,
    /// CPU seconds of compactions.
    pub cpu_seconds: f64,
    /// Those as a part of all CPU seconds of the process since the store was opened, from 0 to 1.
    pub cpu_share: f64,
    /// Tombstones in tables, each as often as it was written.
    pub tombstones: u64,
    /// Seconds since the oldest of them was written; `None` without one. No delete has taken longer to be gone from the tables.
    pub oldest_tombstone_seconds: Option<f64>,
}

/// Gathers them, but for tombstones; `space` has each keyspace's table bytes and the estimate for it.
pub fn gather(store: &Store, space: &[(u64, f64)]) -> CostMetrics {
    let c = &store.counters;
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let jobs = Class::ALL.iter().filter(|class| **class != Class::Flush);
    let cpu_seconds = jobs.map(|class| c.cpu_nanos[*class as usize].get()).sum::<u64>() as f64 / 1e9;
    let all = evenkeel_sys::process_cpu_time().saturating_sub(store.opened.cpu).as_secs_f64();
    // What is superseded in each follows from its ratio: bytes x SA / (1 + SA).
    let seen: f64 = space.iter().map(|(bytes, amplification)| *bytes as f64 / (1.0 + amplification)).sum();
    let bytes: u64 = space.iter().map(|(bytes, _)| *bytes).sum();
    CostMetrics {
        write_amplification: ratio(store.counters.compaction_bytes_written.get(), c.user_bytes.get()),
        rewrites_per_entry: ratio(c.entries_rewritten.get(), c.entries_in.get()),
        pages_per_get: store.slow.pages_per_get(),
        space_amplification: (bytes > 0 && seen > 0.0).then(|| (bytes as f64 / seen - 1.0).max(0.0)),
        cpu_seconds,
        cpu_share: if all > 0.0 { (cpu_seconds / all).min(1.0) } else { 0.0 },
        ..CostMetrics::default()
    }
}

impl CostMetrics {
    /// As JSON; what is not known is `null`.
    pub fn to_json(&self) -> String {
        let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let object = Object::new().fraction("write_amplification", self.write_amplification);
        let object = object.fraction("rewrites_per_entry", self.rewrites_per_entry);
        let object = object.fraction("pages_per_get", known(self.pages_per_get));
        let object = object.fraction("space_amplification", known(self.space_amplification));
        let object = object.fraction("cpu_seconds", self.cpu_seconds).fraction("cpu_share", self.cpu_share);
        let object = object.raw("tombstones", self.tombstones);
        object.fraction("oldest_tombstone_seconds", known(self.oldest_tombstone_seconds)).end()
    }
}

/// The space that a keyspace's entries take, in bytes of keys and values: those that a read sees, and those that it does not
/// because they were overwritten or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// Of the entries that are seen.
    pub seen_bytes: u64,
    /// Of the puts that are not.
    pub superseded_bytes: u64,
    /// How many entries are seen.
    pub seen: u64,
    /// How many puts are not.
    pub superseded: u64,
    /// Tombstones, which count in neither.
    pub tombstones: u64,
}

impl SpaceReport {
    /// Superseded bytes for each byte that is seen (CDS §4.2); 0 if there are none of either.
    pub fn amplification(&self) -> f64 {
        match (self.superseded_bytes, self.seen_bytes) {
            (0, _) => 0.0,
            (superseded, seen) => superseded as f64 / seen as f64,
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let object = Object::new().raw("seen", self.seen).raw("seen_bytes", self.seen_bytes);
        let object = object.raw("superseded", self.superseded).raw("superseded_bytes", self.superseded_bytes);
        object.raw("tombstones", self.tombstones).fraction("amplification", self.amplification()).end()
    }
}

/// Whoever closes the store waits for those who ask at its socket.
fn check_open(store: &Store) -> Result<()> {
    if store.background.is_stopping() { Err(Error::closed()) } else { Ok(()) }
}

/// Reads everything that a keyspace holds, twice: all entries of its tables and memtables, and those that are seen. What range
/// deletes cover is superseded too; they themselves are not counted.
///
/// # Errors
/// `Corruption` and `Io` of what cannot be read; `Poisoned` if the store is closed meanwhile.
pub fn measure_space(store: &Store, keyspace: &KeyspaceState) -> Result<SpaceReport> {
    let (view, at) = current(store, keyspace);
    let mut report = SpaceReport::default();
    let (mut puts, mut put_bytes) = (0, 0);
    let mut all = |entries: &mut dyn InternalIterator| {
        entries.seek_to_first()?;
        while entries.valid() {
            check_open(store)?;
            // What has come since is not looked at.
            let trailer = entries.trailer();
            match (trailer.seq() <= at, is_put(trailer)?) {
                (false, _) => {}
                (true, true) => {
                    puts += 1;
                    put_bytes += (entries.key().len() + entries.value().len()) as u64;
                }
                (true, false) => report.tombstones += 1,
            }
            entries.next()?;
        }
        Ok(())
    };
    let mode = ReadMode::Compaction { class: IoClass::Client, direct: false, piece: PIECE_MAX };
    for run in view.version.runs() {
        all(&mut RunIterator::new(run.tables.clone(), Arc::clone(&store.tables), mode))?;
    }
    for memtable in [&view.active].into_iter().chain(&view.immutable).filter(|m| !m.is_empty()) {
        all(&mut memtable.cursor())?;
    }
    let mut seen = cursor_at(store, keyspace, &view, ScanRange::all().fill_cache(false), at, None);
    seen.seek_to_first()?;
    while seen.valid() {
        check_open(store)?;
        report.seen += 1;
        report.seen_bytes += (seen.key().len() + seen.value().len()) as u64;
        seen.next()?;
    }
    // Its reads were no client's operation.
    waits::forget();
    report.superseded = puts - report.seen;
    report.superseded_bytes = put_bytes - report.seen_bytes;
    Ok(report)
}
