//! Parts of the metrics that are more than a counter: snapshots and what they pin, latencies, causes, compactions by kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::units::SeqNo;
use crate::db::store::keyspace_state::ReadView;
use crate::db::store::state::Store;
use crate::observe::counters::StallReason;
use crate::observe::histogram::Histogram;
use crate::observe::json::{Object, list};
use crate::observe::slow::Op;
use crate::observe::waits::Cause;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// Open snapshots, and what they hold back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetrics {
    /// How many are open.
    pub count: u64,
    /// Sequence of the oldest; 0 without one.
    pub oldest_sequence: u64,
    /// When it was opened, wall milliseconds; 0 without one.
    pub oldest_since_ms: u64,
    /// Bytes of tables that it may keep compactions from dropping, an upper estimate: each newer write hides at most one
    /// older entry.
    pub pinned_bytes: u64,
    /// Bytes of tables that no tree has any more, held by open cursors or waiting to be unlinked.
    pub held_bytes: u64,
}

/// Compactions of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionMetrics {
    /// The level the output went to.
    pub level: u64,
    /// What asked for it: a trigger's word, `excess`, `room`, `intra-l0`, `manual`.
    pub trigger: String,
    /// How many have ended.
    pub count: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyMetrics {
    /// What: `get write scan`, each a sample of one in 64; `flush flush_wait compaction l0_wait step`, all of them.
    pub what: String,
    /// How many were timed.
    pub count: u64,
    /// The sum of their times, seconds.
    pub sum_seconds: f64,
    /// Median, p90, p99 and maximum, microseconds.
    pub quantiles_us: [f64; 4],
    /// For each of [`LATENCY_BOUNDS_NS`], how many took at most that.
    pub buckets: Vec<u64>,
}

/// Slow operations since open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowMetrics {
    /// Microseconds from which on an operation is slow; 0 if nothing is measured.
    pub threshold_us: u64,
    /// How many.
    pub count: u64,
    /// How many of them in the last ten minutes.
    pub recent: u64,
    /// Their time by cause, nanoseconds.
    pub nanos: [u64; 5],
}

/// Upper bounds of latency buckets, nanoseconds: 1, 2.5, 5 of each decade from 1 us to 10 s.
pub const LATENCY_BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut i, mut decade) = (0, 1_000);
    while i < 22 {
        bounds[i] = match i % 3 {
            0 => decade,
            1 => decade / 2 * 5,
            _ => decade * 5,
        };
        if i % 3 == 2 {
            decade *= 10;
        }
        i += 1;
    }
    bounds
};

/// Figures of the open snapshots, over these views and tables on their way out.
pub fn snapshots(store: &Store, views: &[Arc<ReadView>], held_bytes: u64) -> SnapshotMetrics {
    let open = store.snapshots.oldest();
    let Some((seq, since_ms)) = open.oldest else {
        return SnapshotMetrics { held_bytes, ..SnapshotMetrics::default() };
    };
    SnapshotMetrics {
        count: open.count,
        oldest_sequence: seq.0,
        oldest_since_ms: since_ms,
        pinned_bytes: views.iter().map(|view| pinned_bytes(&view.version, seq)).sum(),
        held_bytes,
    }
}

/// What a snapshot at `seq` may pin in a tree: as many of the entries it sees as there are newer ones, or all.
fn pinned_bytes(version: &Version, seq: SeqNo) -> u64 {
    let (mut old_entries, mut old_bytes, mut new_entries) = (0u128, 0u128, 0u128);
    for (_, table) in version.tables() {
        let entries = u128::from(table.meta.entries - table.consumed.min(table.meta.entries));
        let old = entries * share_up_to(table, seq) / 1000;
        old_entries += old;
        old_bytes += u128::from(table.bytes()) * old / entries.max(1);
        new_entries += entries - old;
    }
    (old_bytes * old_entries.min(new_entries) / old_entries.max(1)) as u64
}

/// Thousandths of a table's entries up to a sequence, as if they were spread evenly.
fn share_up_to(table: &TableRef, seq: SeqNo) -> u128 {
    let (lo, hi) = table.meta.seqs;
    if seq >= hi {
        return 1000;
    }
    let seen = (seq.0 + 1).saturating_sub(lo.0);
    1000 * u128::from(seen) / u128::from(hi.0 - lo.0 + 1)
}

/// Waits of writers by reason: how many, and their seconds.
pub fn stalls(store: &Store) -> Vec<(String, u64, f64)> {
    let of = |reason: StallReason| {
        let (times, nanos) = &store.counters.stalls_by_reason[reason as usize];
        (reason.name().to_owned(), times.get(), nanos.get() as f64 / 1e9)
    };
    StallReason::ALL.map(of).into()
}

/// Finished compactions by kind.
pub fn compactions(store: &Store) -> Vec<CompactionMetrics> {
    let kinds = store.counters.compaction_bytes.list().into_iter();
    let of =
        |(kind, [count, bytes_read, bytes_written]): (crate::observe::counters::CompactionKind, [u64; 3])| {
            CompactionMetrics {
                level: kind.level as u64,
                trigger: kind.trigger,
                count,
                bytes_read,
                bytes_written,
            }
        };
    kinds.map(of).collect()
}

/// Latencies of clients' operations and of jobs.
pub fn latencies(store: &Store) -> Vec<LatencyMetrics> {
    let c = &store.counters;
    let jobs = [
        ("flush", &c.flush_us),
        ("flush_wait", &c.flush_wait_us),
        ("compaction", &c.compaction_us),
        ("l0_wait", &c.l0_wait_us),
        ("step", &c.step_us),
    ];
    let ops = Op::ALL.map(|op| (op.name(), store.slow.latency(op)));
    let ops = ops.into_iter().map(|(what, histogram)| latency(what, histogram, 1));
    ops.chain(jobs.into_iter().map(|(what, histogram)| latency(what, histogram, 1000))).collect()
}

/// A histogram whose values are `unit` nanoseconds each.
fn latency(what: &str, histogram: &Histogram, unit: u64) -> LatencyMetrics {
    let bounds = LATENCY_BOUNDS_NS.map(|ns| ns / unit);
    let us = |value: u64| value as f64 * unit as f64 / 1000.0;
    let quantiles =
        [histogram.quantile(0.5), histogram.quantile(0.9), histogram.quantile(0.99), histogram.max()];
    LatencyMetrics {
        what: what.to_owned(),
        count: histogram.count(),
        sum_seconds: histogram.sum() as f64 * unit as f64 / 1e9,
        quantiles_us: quantiles.map(us),
        buckets: histogram.cumulative(&bounds),
    }
}

/// What is known of slow operations.
pub fn slow(store: &Store) -> SlowMetrics {
    let (count, nanos) = store.slow.total();
    let from = (store.clock.wall_ms() / 1000).saturating_sub(600);
    let recent = store.slow.seconds().iter().filter(|s| s.at >= from).map(|s| s.operations).sum();
    SlowMetrics { threshold_us: store.slow.threshold_us(), count, recent, nanos }
}

/// The snapshots as JSON.
pub fn snapshots_json(s: &SnapshotMetrics) -> String {
    let object = Object::new().raw("count", s.count).raw("oldest_sequence", s.oldest_sequence);
    let object = object.raw("oldest_since_ms", s.oldest_since_ms).raw("pinned_bytes", s.pinned_bytes);
    object.raw("held_bytes", s.held_bytes).end()
}

/// Compactions by kind as JSON.
pub fn compactions_json(kinds: &[CompactionMetrics]) -> String {
    list(kinds.iter().map(|k| {
        let object = Object::new().raw("level", k.level).text("trigger", &k.trigger).raw("count", k.count);
        object.raw("bytes_read", k.bytes_read).raw("bytes_written", k.bytes_written).end()
    }))
}

/// Latencies as JSON, by what took so long.
pub fn latencies_json(latencies: &[LatencyMetrics]) -> String {
    let one = |l: &LatencyMetrics| {
        let [p50, p90, p99, max] = l.quantiles_us.map(|us| format!("{us:.1}"));
        let mean = l.sum_seconds * 1e6 / l.count.max(1) as f64;
        let object = Object::new().raw("count", l.count).raw("mean", format!("{mean:.1}"));
        object.raw("p50", p50).raw("p90", p90).raw("p99", p99).raw("max", max).end()
    };
    latencies.iter().fold(Object::new(), |object, l| object.raw(&l.what, one(l))).end()
}

/// Slow operations as JSON.
pub fn slow_json(slow: &SlowMetrics) -> String {
    let causes = Cause::ALL.iter().zip(slow.nanos);
    let causes = causes.fold(Object::new(), |o, (cause, n)| o.fraction(cause.name(), n as f64 / 1e9));
    let object = Object::new().raw("threshold_us", slow.threshold_us).raw("count", slow.count);
    let object = object.raw("recent", slow.recent);
    object.raw("seconds", causes.end()).end()
}

/// Waits of writers by reason as JSON.
pub fn stalls_json(stalls: &[(String, u64, f64)]) -> String {
    let by_name: BTreeMap<_, _> = stalls.iter().map(|(name, count, s)| (name, (count, s))).collect();
    let one = |(count, s): (&u64, &f64)| Object::new().raw("count", count).fraction("seconds", *s).end();
    by_name.into_iter().fold(Object::new(), |o, (name, values)| o.raw(name, one(values))).end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::picture_parse::parse;

    #[test]
    fn a_snapshot_pins_at_most_what_newer_writes_hide() {
        let tree =
            "L0 T 3[a-c bytes=1000 entries=10 seqs=91..100]\nL1 L 1[a-c bytes=9000 entries=90 seqs=1..90]";
        let tree = parse(tree).unwrap();
        let pinned = |seq| pinned_bytes(&tree, SeqNo(seq));
        assert_eq!(pinned(100), 0, "nothing is newer");
        assert_eq!(pinned(90), 1000, "ten newer writes hide ten entries of 100 bytes");
        assert_eq!(pinned(45), 4500, "half the entries, all of which may be hidden");
        assert_eq!(pinned(0), 0, "it sees nothing");
    }

    #[test]
    fn bounds_ascend_by_decades() {
        assert_eq!(LATENCY_BOUNDS_NS[..4], [1000, 2500, 5000, 10_000]);
        assert_eq!(LATENCY_BOUNDS_NS[21], 10_000_000_000);
        let histogram = Histogram::default();
        for us in [1, 2, 900, 4_000_000] {
            histogram.add(us);
        }
        let l = latency("x", &histogram, 1000);
        assert_eq!((l.count, l.buckets[0], l.buckets[21]), (4, 1, 4));
        assert_eq!(l.quantiles_us[3], 4_000_000.0);
        assert!((l.sum_seconds - 4.000_903).abs() < 1e-9, "{}", l.sum_seconds);
    }
}
