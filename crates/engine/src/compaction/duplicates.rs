//! How much of a tree is superseded, estimated without reading it: from the samples of keys that its tables have in common.
//!
//! ```text
//! SA = superseded bytes / other bytes          of a key only the newest entry counts, and that not if it is a delete
//! ```
//! Every sample reaches up to a hash of its own; what lies below the lowest of these is sampled from all tables alike. A key found
//! there a second time, further down, is superseded. Of many tables a lower part of the samples is enough. Tables without a sample,
//! written by an earlier version, count as if nothing in them were superseded.

use std::collections::HashSet;

use crate::table::key_sample::SAMPLE_BITS;
use crate::version::level::Level;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// So many sampled keys are enough: a ratio that they show is right within some percent.
const KEYS_ENOUGH: u64 = 1 << 14;

/// What samples show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shown {
    /// Entries, and those superseded by newer ones above.
    entries: f64,
    superseded_entries: f64,
    /// Bytes, and those of them that are seen.
    bytes: f64,
    seen_bytes: f64,
}

/// Superseded bytes per byte that is not, in the whole tree.
pub fn space_amplification(version: &Version) -> f64 {
    let tables: Vec<&TableRef> = version.tables().map(|(_, table)| table).collect();
    let shown = look(&tables);
    let whole: u64 = tables.iter().map(|t| t.bytes()).sum();
    let sampled: u64 = tables.iter().filter(|t| has_sample(t)).map(|t| t.bytes()).sum();
    if shown.seen_bytes <= 0.0 {
        // Nothing but deletes is as bad as can be; no samples at all are no news.
        return if shown.bytes > 0.0 { f64::from(u16::MAX) } else { 0.0 };
    }
    let seen = sampled as f64 * shown.seen_bytes / shown.bytes + (whole - sampled) as f64;
    (whole as f64 / seen - 1.0).max(0.0)
}

/// The part of a level's entries that newer ones of the same level supersede.
pub fn duplicate_part(level: &Level) -> f64 {
    let shown = look(&level.tables().collect::<Vec<_>>());
    shown.superseded_entries / shown.entries.max(1.0)
}

/// Bytes that a merge of these tables, newest first, would have: what is superseded among them does not count.
pub fn merged_bytes(tables: &[&TableRef]) -> u64 {
    let shown = look(tables);
    let whole: u64 = tables.iter().map(|t| t.bytes()).sum();
    let sampled: u64 = tables.iter().filter(|t| has_sample(t)).map(|t| t.bytes()).sum();
    if shown.bytes <= 0.0 {
        return whole;
    }
    (sampled as f64 * shown.seen_bytes / shown.bytes) as u64 + (whole - sampled)
}

fn has_sample(table: &TableRef) -> bool {
    !table.meta.key_sample.keys.is_empty() || table.meta.entries == 0
}

/// `tables` in read order, newest first.
fn look(tables: &[&TableRef]) -> Shown {
    let keys: u64 = tables.iter().map(|t| t.meta.keys).sum();
    let reach = tables.iter().filter(|t| has_sample(t)).map(|t| t.meta.key_sample.reaches()).min();
    let enough = (u128::from(KEYS_ENOUGH) << SAMPLE_BITS) / u128::from(keys.max(1));
    let below = u64::try_from(enough).unwrap_or(u64::MAX).min(reach.unwrap_or(0));
    let mut found = HashSet::new();
    let mut shown = Shown::default();
    for table in tables {
        let meta = &table.meta;
        let puts = meta.entries.saturating_sub(meta.tombstones).max(1);
        let put_bytes = meta.bytes as f64 / puts as f64;
        // Older versions that a snapshot keeps are of the same table, and not in the sample.
        let versions = meta.entries as f64 / meta.keys.max(1) as f64;
        for key in meta.key_sample.keys.iter().take_while(|key| **key < below) {
            let (is_new, is_delete) = (found.insert(key >> 1), key & 1 == 1);
            shown.entries += versions;
            shown.superseded_entries += if is_new { versions - 1.0 } else { versions };
            if !is_delete {
                shown.bytes += put_bytes * versions;
                shown.seen_bytes += if is_new { put_bytes } else { 0.0 };
            }
        }
    }
    shown
}

#[cfg(test)]
#[path = "duplicates_tests.rs"]
mod tests;
