//! The metrics in Prometheus' text format, version 0.0.4: base units, `_total` for what only grows, one `HELP` and one `TYPE`
//! line a family, the family's samples together. Names are stable; `docs/observability.md` has those to begin with.

use std::fmt::{Display, Write};

use super::metric_parts::{LATENCY_BOUNDS_NS, LatencyMetrics};
use super::metrics::{KeyspaceMetrics, LevelMetrics, Metrics};
use crate::observe::waits::Cause;

/// The text, with a line end after each sample.
fn text(m: &Metrics) -> String {
    let mut out = Text(String::new());
    store(&mut out, m);
    keyspaces(&mut out, m);
    levels(&mut out, m);
    background(&mut out, m);
    waiting(&mut out, m);
    out.0
}

impl Metrics {
    /// Prometheus' text format. The names are stable.
    pub fn prometheus(&self) -> String {
        text(self)
    }
}

/// A text under construction.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP evenkeel_{name} {help}\n# TYPE evenkeel_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "evenkeel_{name}");
        for (i, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, escape(value));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample without labels.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A family with one label.
    fn each<'a, V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.family(name, kind, help);
        for (value, sample) in samples {
            self.sample(name, &[(label, value)], sample);
        }
    }
}

/// A label's value: backslash, quote and line end are escaped.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

fn store(out: &mut Text, m: &Metrics) {
    out.family("info", GAUGE, "What is running; always 1.");
    out.sample("info", &[("version", env!("CARGO_PKG_VERSION")), ("identity", &m.identity)], 1);
    out.one("uptime_seconds", GAUGE, "Time since the store was opened.", m.uptime_seconds);
    out.one("sequence", GAUGE, "The last sequence number that readers see.", m.sequence);
    out.one("writes_total", COUNTER, "Puts and deletes acknowledged.", m.writes);
    out.one("user_bytes_total", COUNTER, "Key and value bytes of those.", m.user_bytes);
    out.one("commit_groups_total", COUNTER, "Groups in which they were committed.", m.commit_groups);
    out.one("wal_syncs_total", COUNTER, "Syncs of the log for writers.", m.wal_syncs);
    out.one("wal_rotations_total", COUNTER, "Log files begun.", m.wal_rotations);
    out.one("wal_bytes", GAUGE, "Bytes of log files that hold writes.", m.wal_bytes);
    out.one("manifest_rotations_total", COUNTER, "Manifests begun.", m.manifest_rotations);
    out.one("table_bytes", GAUGE, "Bytes of tables in the trees.", m.table_bytes);
    out.family(
        "table_files",
        GAUGE,
        "Tables: in the trees, and in the directory with those that readers hold.",
    );
    out.sample("table_files", &[("state", "live")], m.files_live);
    out.sample("table_files", &[("state", "on_disk")], m.files_on_disk);
    out.one("cache_bytes", GAUGE, "Bytes in the block cache.", m.cache_bytes);
    out.one("cache_capacity_bytes", GAUGE, "Bytes the block cache may take.", m.cache_capacity);
    out.one("cache_hits_total", COUNTER, "Lookups of blocks that found theirs in the cache.", m.cache_hits);
    out.one("cache_misses_total", COUNTER, "Lookups of blocks that did not.", m.cache_misses);
    out.one("filter_misses_total", COUNTER, "Parts of filters that were not in memory.", m.filter_misses);
    out.one("index_misses_total", COUNTER, "Parts of indexes that were not in memory.", m.index_misses);
    out.one(
        "cache_written_bytes_total",
        COUNTER,
        "Bytes of blocks that the cache was given as they were written.",
        m.cache_written_bytes,
    );
    let amplification = [
        ("write", m.write_amplification()),
        ("read", m.read_amplification()),
        ("space", m.space_amplification()),
    ];
    let family = ("amplification", GAUGE, "Write, read (default keyspace) and space amplification.");
    out.each(family, "kind", amplification);
    costs(out, m);
    let memory = &m.memory;
    let classes = [
        ("memtables", memory.memtables),
        ("blocks", memory.blocks),
        ("tables", memory.tables),
        ("cursors", memory.cursors),
        ("jobs", memory.jobs),
        ("batches", memory.batches),
    ];
    out.each(("memory_bytes", GAUGE, "Memory counted, by what takes it."), "class", classes);
    out.one("memory_limit_bytes", GAUGE, "Option memory_bytes.", memory.limit);
    let help = "Tables that scans skipped by their prefix filters.";
    out.one("tables_skipped_total", COUNTER, help, m.tables_skipped);
    out.one("snapshots", GAUGE, "Snapshots open.", m.snapshots.count);
    let age = age_seconds(m, m.snapshots.oldest_since_ms);
    out.one("snapshot_oldest_seconds", GAUGE, "Age of the oldest snapshot; 0 without one.", age);
    let help = "Bytes that it may keep from being dropped, at most.";
    out.one("snapshot_pinned_bytes", GAUGE, help, m.snapshots.pinned_bytes);
    let help = "Bytes of tables out of the trees that readers hold, or that wait to be unlinked.";
    out.one("held_table_bytes", GAUGE, help, m.snapshots.held_bytes);
    out.one("background_errors_total", COUNTER, "Failures of background work.", m.background_errors);
    out.one("log_failures_total", COUNTER, "Times that LOG or STATS could not be written.", m.log_failures);
}

/// As the design-space paper counts them. What is not known yet is left out.
fn costs(out: &mut Text, m: &Metrics) {
    let c = &m.costs;
    let help = "Bytes that compactions wrote for each byte that users wrote.";
    out.one("compaction_write_amplification", GAUGE, help, c.write_amplification);
    let help = "How often an entry was written again by compactions, in the mean.";
    out.one("rewrites_per_entry", GAUGE, help, c.rewrites_per_entry);
    let help = "Pages that a get read from files, in the mean of a sample of one in 64.";
    c.pages_per_get.into_iter().for_each(|pages| out.one("pages_per_get", GAUGE, help, pages));
    let help = "Bytes of superseded entries for each other byte, estimated.";
    let space = c.space_amplification.into_iter();
    space.for_each(|estimate| out.one("superseded_ratio", GAUGE, help, estimate));
    let help = "CPU of compactions as a part of the process's.";
    out.one("compaction_cpu_ratio", GAUGE, help, c.cpu_share);
}

fn keyspaces(out: &mut Text, m: &Metrics) {
    let figures: [(&str, &str, fn(&KeyspaceMetrics) -> u64); 5] = [
        ("memtable_bytes", "Bytes in memtables.", |k| k.memtable_bytes),
        ("immutable_memtables", "Memtables waiting for their flush.", |k| k.immutable_memtables),
        ("debt_bytes", "Bytes to move until no trigger fires.", |k| k.debt_bytes),
        ("distance_bytes", "Bytes that stand where the strategy would not have them.", |k| k.distance_bytes),
        ("keys", "About how many keys there are.", |k| k.estimated_keys),
    ];
    for (name, help, value) in figures {
        let samples = m.keyspaces.iter().map(|k| (k.name.as_str(), value(k)));
        out.each((name, GAUGE, help), "keyspace", samples);
    }
    let oldest = |k: &KeyspaceMetrics| {
        k.levels.iter().map(|l| l.oldest_tombstone_ms).filter(|ms| *ms > 0).min().unwrap_or(0)
    };
    let samples = m.keyspaces.iter().map(|k| (k.name.as_str(), age_seconds(m, oldest(k))));
    let help = "Age of the oldest tombstone in tables; 0 without one.";
    out.each(("tombstone_oldest_seconds", GAUGE, help), "keyspace", samples);
}

fn levels(out: &mut Text, m: &Metrics) {
    let figures: [(&str, &str, fn(&LevelMetrics) -> u64); 7] = [
        ("level_runs", "Sorted runs.", |l| l.runs),
        ("level_tables", "Tables.", |l| l.tables),
        ("level_bytes", "Visible bytes.", |l| l.bytes),
        ("level_target_bytes", "Bytes at which the level is full.", |l| l.target_bytes),
        ("level_debt_bytes", "Bytes that its triggers want moved.", |l| l.debt_bytes),
        ("level_entries", "Entries, tombstones included.", |l| l.entries),
        ("level_tombstones", "Tombstones.", |l| l.tombstones),
    ];
    for (name, help, value) in figures {
        out.family(name, GAUGE, help);
        for keyspace in &m.keyspaces {
            for (i, level) in keyspace.levels.iter().enumerate() {
                let labels = [("keyspace", keyspace.name.as_str()), ("level", &i.to_string())];
                out.sample(name, &labels, value(level));
            }
        }
    }
}

fn background(out: &mut Text, m: &Metrics) {
    out.one("flushes_total", COUNTER, "Flushes installed.", m.flushes);
    out.family("compactions_total", COUNTER, "Compactions ended, by output level and what asked for them.");
    for kind in &m.compactions_by_kind {
        let labels = [("level", &*kind.level.to_string()), ("trigger", &kind.trigger)];
        out.sample("compactions_total", &labels, kind.count);
    }
    out.family("compaction_bytes_total", COUNTER, "Bytes that ended compactions read and wrote.");
    for kind in &m.compactions_by_kind {
        for (dir, bytes) in [("read", kind.bytes_read), ("write", kind.bytes_written)] {
            let labels = [("level", &*kind.level.to_string()), ("dir", dir), ("trigger", &kind.trigger)];
            out.sample("compaction_bytes_total", &labels, bytes);
        }
    }
    out.one("moves_total", COUNTER, "Compactions done by metadata alone.", m.moves);
    out.one("moved_bytes_total", COUNTER, "Bytes of those.", m.moved_bytes);
    out.one(
        "prefix_commits_total",
        COUNTER,
        "Parts of compactions committed before their end.",
        m.prefix_commits,
    );
    out.one("wasted_bytes_total", COUNTER, "Bytes of work thrown away.", m.wasted_bytes);
    let outcomes = [
        ("preempted", m.jobs_preempted),
        ("resumed", m.jobs_resumed),
        ("yielded", m.jobs_yielded),
        ("discarded", m.jobs_discarded),
        ("failed", m.jobs_failed),
        ("refused", m.jobs_refused),
    ];
    out.each(("job_outcomes_total", COUNTER, "What happened to jobs."), "outcome", outcomes);
    let jobs = [("open", m.jobs_open), ("paused", m.jobs_paused)];
    out.each(("jobs", GAUGE, "Compactions open now, and of those the ones set aside."), "state", jobs);
    let help = "Rate that the schedule grants compactions; 0 for no limit.";
    out.one("schedule_limit_bytes_per_second", GAUGE, help, m.schedule.limit_bytes_per_sec);
    let help = "What clients use of the device, as the schedule estimates it; 0 where it does not.";
    out.one("schedule_client_bytes_per_second", GAUGE, help, m.schedule.client_bytes_per_sec.unwrap_or(0));
    let help = "1 while the clients' load is high.";
    out.one("schedule_load_high", GAUGE, help, u64::from(m.schedule.load_is_high == Some(true)));
    let help = "Times that L0 was merged at high load, since the schedule was set.";
    let bursts = [("part", m.schedule.bursts[0]), ("whole", m.schedule.bursts[1])];
    out.each(("schedule_bursts_total", COUNTER, help), "phase", bursts);
    let help = "Flushes that waited for another one.";
    out.one("flushes_delayed_total", COUNTER, help, m.schedule.flushes_delayed);
    out.family("io_bytes_total", COUNTER, "Bytes read from and written to files, by class.");
    for (class, read, written) in &m.io {
        out.sample("io_bytes_total", &[("class", class), ("dir", "read")], read);
        out.sample("io_bytes_total", &[("class", class), ("dir", "write")], written);
    }
    let cpu = m.cpu_seconds.iter().map(|(class, seconds)| (class.as_str(), *seconds));
    out.each(("cpu_seconds_total", COUNTER, "CPU of background threads, by class."), "class", cpu);
    let help = "How long flushes, compactions and steps of jobs took, and how long flushes and compactions of L0 waited for their first.";
    let is_job =
        |l: &&LatencyMetrics| matches!(&*l.what, "flush" | "flush_wait" | "compaction" | "l0_wait" | "step");
    histogram(out, "job_seconds", help, "job", m.latencies.iter().filter(is_job));
}

fn waiting(out: &mut Text, m: &Metrics) {
    let stalls = m.stalls_by_reason.iter();
    let help = "Times that a writer waited for background work.";
    out.each(
        ("write_stalls_total", COUNTER, help),
        "reason",
        stalls.clone().map(|(r, n, _)| (r.as_str(), *n)),
    );
    let help = "Time that writers waited for background work.";
    let seconds = stalls.map(|(reason, _, seconds)| (reason.as_str(), *seconds));
    out.each(("write_stall_seconds_total", COUNTER, help), "reason", seconds);
    out.one("delayed_writes_total", COUNTER, "Writes that waited to be let in.", m.delayed_writes);
    out.one("longest_delay_seconds", GAUGE, "The longest of those waits.", m.longest_delay_seconds);
    let help = "Rate at which writes are let in, by keyspace; a keyspace without a limit is not here.";
    let limited = m.keyspaces.iter().filter_map(|k| Some((k.name.as_str(), k.admission_bytes_per_sec?)));
    out.each(("admission_limit_bytes_per_second", GAUGE, help), "keyspace", limited);
    let help = "How long clients' operations took, of a sample of one in 64; empty with slow_us=0.";
    let is_op = |l: &&LatencyMetrics| matches!(&*l.what, "get" | "write" | "scan");
    histogram(out, "foreground_latency_seconds", help, "op", m.latencies.iter().filter(is_op));
    out.one("slow_operations_total", COUNTER, "Operations that took slow_us or longer.", m.slow.count);
    let causes = Cause::ALL.iter().zip(m.slow.nanos).map(|(cause, n)| (cause.name(), n as f64 / 1e9));
    out.each(("slow_seconds_total", COUNTER, "Time of slow operations, by cause."), "cause", causes);
}

fn histogram<'a>(
    out: &mut Text,
    name: &str,
    help: &str,
    label: &str,
    of: impl Iterator<Item = &'a LatencyMetrics>,
) {
    out.family(name, "histogram", help);
    for latency in of {
        let what = latency.what.as_str();
        // Values may be added while they are counted: no bucket may have more than all.
        let count = latency.buckets.last().map_or(0, |last| latency.count.max(*last));
        for (bound, n) in LATENCY_BOUNDS_NS.iter().zip(&latency.buckets) {
            let le = format!("{}", *bound as f64 / 1e9);
            out.sample(&format!("{name}_bucket"), &[(label, what), ("le", &le)], n);
        }
        out.sample(&format!("{name}_bucket"), &[(label, what), ("le", "+Inf")], count);
        out.sample(&format!("{name}_sum"), &[(label, what)], latency.sum_seconds);
        out.sample(&format!("{name}_count"), &[(label, what)], count);
    }
}

/// Seconds since a moment; 0 if there is none.
fn age_seconds(m: &Metrics, since_ms: u64) -> f64 {
    if since_ms == 0 { 0.0 } else { m.now_ms.saturating_sub(since_ms) as f64 / 1000.0 }
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
