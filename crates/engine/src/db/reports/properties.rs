//! Single figures by name, with RocksDB's words under our prefix: `evenkeel.num-files-at-level0`. What means something else
//! here, or nothing, is not there.

use std::fmt::Write;

use super::metrics::{KeyspaceMetrics, Metrics};
use crate::observe::words;

/// What every name begins with.
const PREFIX: &str = "evenkeel.";
const AT_LEVEL: &str = "num-files-at-level";

type Value = fn(&Metrics, &KeyspaceMetrics) -> String;

/// Name after the prefix, what it is, and how it is found.
const PROPERTIES: &[(&str, &str, Value)] = &[
    ("stats", "everything, as a text for people", |m, _| stats(m)),
    ("levelstats", "tables and bytes by level, as a text", |_, k| level_stats(k)),
    ("num-files-at-level<N>", "tables of a level, by its number", |_, _| String::new()),
    ("num-immutable-mem-table", "memtables waiting for their flush", |_, k| {
        k.immutable_memtables.to_string()
    }),
    ("mem-table-flush-pending", "1 if a memtable waits for its flush", |_, k| {
        u64::from(k.immutable_memtables > 0).to_string()
    }),
    ("num-running-flushes", "flushes under way", |m, _| m.flushes_running.to_string()),
    ("compaction-pending", "1 if a trigger wants bytes moved", |_, k| {
        u64::from(k.debt_bytes > 0).to_string()
    }),
    ("num-running-compactions", "compactions open, paused ones included", |m, _| m.jobs_open.to_string()),
    ("background-errors", "failures of background work", |m, _| m.background_errors.to_string()),
    ("cur-size-active-mem-table", "bytes of the memtable that takes writes", |_, k| {
        k.active_memtable_bytes.to_string()
    }),
    ("cur-size-all-mem-tables", "bytes of all memtables", |_, k| k.memtable_bytes.to_string()),
    ("size-all-mem-tables", "the same", |_, k| k.memtable_bytes.to_string()),
    ("estimate-num-keys", "about how many keys there are", |_, k| k.estimated_keys.to_string()),
    ("num-snapshots", "snapshots open", |m, _| m.snapshots.count.to_string()),
    ("oldest-snapshot-time", "when the oldest snapshot was opened, Unix seconds; 0 without one", |m, _| {
        (m.snapshots.oldest_since_ms / 1000).to_string()
    }),
    ("oldest-snapshot-sequence", "sequence of the oldest snapshot; 0 without one", |m, _| {
        m.snapshots.oldest_sequence.to_string()
    }),
    ("snapshot-pinned-bytes", "bytes the oldest snapshot may keep from being dropped, at most", |m, _| {
        m.snapshots.pinned_bytes.to_string()
    }),
    (
        "estimate-live-data-size",
        "bytes of the largest level: about what a store without garbage would have",
        |_, k| k.levels.iter().map(|l| l.bytes).max().unwrap_or(0).to_string(),
    ),
    ("live-sst-files-size", "bytes of tables in the tree", |_, k| table_bytes(k).to_string()),
    ("total-sst-files-size", "the same, and those that readers still hold", |m, k| {
        (table_bytes(k) + m.snapshots.held_bytes).to_string()
    }),
    ("estimate-pending-compaction-bytes", "debt: bytes to move until no trigger fires", |_, k| {
        k.debt_bytes.to_string()
    }),
    ("distance-bytes", "bytes that stand where the strategy would not have them", |_, k| {
        k.distance_bytes.to_string()
    }),
    ("block-cache-capacity", "bytes the block cache may take", |m, _| m.cache_capacity.to_string()),
    ("block-cache-usage", "bytes the block cache takes", |m, _| m.cache_bytes.to_string()),
    ("latest-sequence-number", "the last write that readers see", |m, _| m.sequence.to_string()),
    ("identity", "the store's unique name", |m, _| m.identity.clone()),
];

/// Every name, with what it is.
pub fn list() -> impl Iterator<Item = (String, &'static str)> {
    PROPERTIES.iter().map(|(name, what, _)| (format!("{PREFIX}{name}"), *what))
}

/// The value of a property of a keyspace; `None` if there is none of this name.
pub fn property(metrics: &Metrics, keyspace: &str, name: &str) -> Option<String> {
    let name = name.strip_prefix(PREFIX)?;
    let keyspace = metrics.keyspaces.iter().find(|k| k.name == keyspace)?;
    if let Some(level) = name.strip_prefix(AT_LEVEL) {
        let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
        // A level that is not there has no tables.
        let level: usize = level.parse().ok().filter(|_| digits)?;
        return Some(keyspace.levels.get(level).map_or(0, |l| l.tables).to_string());
    }
    let (_, _, value) = PROPERTIES.iter().find(|(known, _, _)| *known == name)?;
    Some(value(metrics, keyspace))
}

fn table_bytes(keyspace: &KeyspaceMetrics) -> u64 {
    keyspace.levels.iter().map(|l| l.bytes).sum()
}

/// RocksDB's table, with runs.
fn level_stats(keyspace: &KeyspaceMetrics) -> String {
    let mut out = String::from("Level Runs Files Size\n---------------------\n");
    for (i, level) in keyspace.levels.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{i:>5} {:>4} {:>5} {}", level.runs, level.tables, words::bytes(level.bytes));
    }
    out
}

/// The store in a screenful, after Pebble's table.
fn stats(m: &Metrics) -> String {
    let mut out = String::new();
    for keyspace in &m.keyspaces {
        let _ = writeln!(out, "keyspace {}: {}", keyspace.name, keyspace.strategy);
        out.push_str("level  runs  tables       size     target       debt  tombstones\n");
        for (i, l) in keyspace.levels.iter().enumerate() {
            let [size, target, debt] = [l.bytes, l.target_bytes, l.debt_bytes].map(words::bytes);
            let (runs, tables, dels) = (l.runs, l.tables, l.tombstones);
            let _ =
                writeln!(out, "{i:>5} {runs:>5} {tables:>7} {size:>10} {target:>10} {debt:>10} {dels:>11}");
        }
        let (memory, waiting) = (words::bytes(keyspace.memtable_bytes), keyspace.immutable_memtables);
        let (debt, distance) = (words::bytes(keyspace.debt_bytes), words::bytes(keyspace.distance_bytes));
        let _ = writeln!(out, "memtables {memory} ({waiting} waiting)  debt {debt}  distance {distance}");
    }
    let (written, user) = (words::bytes(m.io.iter().map(|io| io.2).sum()), words::bytes(m.user_bytes));
    let (write, read, space) = (m.write_amplification(), m.read_amplification(), m.space_amplification());
    let _ = writeln!(out, "writes {} of {user}, {written} to files (x{write:.2})", m.writes);
    let _ = writeln!(out, "amplification: write {write:.2}, read {read:.2}, space {space:.2}");
    let (hits, misses) = (m.cache_hits, m.cache_misses);
    let share = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
    let (used, of) = (words::bytes(m.cache_bytes), words::bytes(m.cache_capacity));
    let _ = writeln!(out, "block cache {used} of {of}, {share:.1} % hits");
    let _ =
        writeln!(out, "stalls {} for {:.3} s, slow operations {}", m.stalls, m.stall_seconds, m.slow.count);
    let (count, pinned) = (m.snapshots.count, words::bytes(m.snapshots.pinned_bytes));
    let _ = writeln!(out, "snapshots {count}, pinning at most {pinned}; jobs open {}", m.jobs_open);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::reports::metrics::LevelMetrics;

    fn metrics() -> Metrics {
        let level =
            LevelMetrics { runs: 2, tables: 3, bytes: 4096, debt_bytes: 7, ..LevelMetrics::default() };
        let keyspace = KeyspaceMetrics {
            name: "default".to_owned(),
            levels: vec![level, LevelMetrics { tables: 1, bytes: 10, ..LevelMetrics::default() }],
            debt_bytes: 7,
            ..KeyspaceMetrics::default()
        };
        Metrics { keyspaces: vec![keyspace], sequence: 12, ..Metrics::default() }
    }

    #[test]
    fn every_listed_property_has_a_value_and_no_other() {
        let metrics = metrics();
        for (name, what) in list() {
            let name = name.replace("<N>", "1");
            assert!(property(&metrics, "default", &name).is_some() && !what.is_empty(), "{name}");
        }
        for name in
            ["", "evenkeel.", "rocksdb.stats", "evenkeel.none", "evenkeel.num-files-at-level", "stats"]
        {
            assert_eq!(property(&metrics, "default", name), None, "{name}");
        }
        assert_eq!(property(&metrics, "default", "evenkeel.num-files-at-level+1"), None);
        assert_eq!(property(&metrics, "other", "evenkeel.stats"), None);
    }

    #[test]
    fn values_are_those_of_the_metrics() {
        let metrics = metrics();
        for (name, value) in [
            ("num-files-at-level0", "3"),
            ("num-files-at-level9", "0"),
            ("estimate-pending-compaction-bytes", "7"),
            ("compaction-pending", "1"),
            ("live-sst-files-size", "4106"),
            ("latest-sequence-number", "12"),
            (
                "levelstats",
                "Level Runs Files Size\n---------------------\n    0    2     3 4.0 KiB\n    1    0     1 10 B\n",
            ),
        ] {
            let full = format!("evenkeel.{name}");
            assert_eq!(property(&metrics, "default", &full).as_deref(), Some(value), "{name}");
        }
    }
}
