//! What a store tells about itself, as plain numbers: `keel stats` prints them, programs read them as JSON.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::costs::{self, CostMetrics};
use super::metric_parts::{
    self, CompactionMetrics, LatencyMetrics, SlowMetrics, SnapshotMetrics, compactions_json, latencies_json,
    slow_json, snapshots_json, stalls_json,
};
use super::schedule_report::{ScheduleMetrics, schedule};
use crate::base::class::{Class, IoClass};
use crate::compaction::cost_model::{debt, debt_by_level, distance, reshaping_bytes};
use crate::compaction::level_sizes::goal_bytes;
use crate::db::jobs::memory::{MemoryMetrics, in_use};
use crate::db::jobs::pressure::limit;
use crate::db::jobs::scheduling::usage_by_all;
use crate::db::store::heat::HeatMetrics;
use crate::db::store::keyspace_state::{KeyspaceState, ReadView};
use crate::db::store::state::Store;
use crate::hotness::access_window::Counting;
use crate::observe::json::quoted;

/// The class that nobody's writes cause.
const TEST: &str = "test";

/// Numbers of one keyspace.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceMetrics {
    /// Its name.
    pub name: String,
    /// Its strategy, as it was given.
    pub strategy: String,
    /// Its levels, the first one on disk first.
    pub levels: Vec<LevelMetrics>,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Memtables waiting for their flush.
    pub immutable_memtables: u64,
    /// Bytes that compactions would have to move for the tree to be in shape.
    pub debt_bytes: u64,
    /// Bytes that stand where the strategy would not have them: see [`crate::plan::distance`].
    pub distance_bytes: u64,
    /// Bytes of the debt that bring those where it would.
    pub reshaping_bytes: u64,
    /// Bytes in the memtable that takes the writes.
    pub active_memtable_bytes: u64,
    /// About how many keys there are: those of tables and memtables, each counted as often as it was written.
    pub estimated_keys: u64,
    /// How fast its writes are let in now; `None` without a limit.
    pub admission_bytes_per_sec: Option<f64>,
    /// How hot its tables are, and how well that is foretold.
    pub heat: HeatMetrics,
}

/// Numbers of one level.
#[derive(Clone, Debug, Default)]
pub struct LevelMetrics {
    /// Groups.
    pub groups: u64,
    /// Runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Visible bytes.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes at which the level is full, by its strategy.
    pub target_bytes: u64,
    /// Bytes that its triggers want moved.
    pub debt_bytes: u64,
    /// When its oldest tombstone was written, wall milliseconds; 0 without one.
    pub oldest_tombstone_ms: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// When these were taken, wall milliseconds.
    pub now_ms: u64,
    /// Seconds since the store was opened.
    pub uptime_seconds: f64,
    /// The store's unique name: the content of IDENTITY.
    pub identity: String,
    /// The schedule, and what it does.
    pub schedule: ScheduleMetrics,
    /// Snapshots, and what they hold back.
    pub snapshots: SnapshotMetrics,
    /// Compactions by level and trigger.
    pub compactions_by_kind: Vec<CompactionMetrics>,
    /// Waits of writers by reason: how many, and their seconds.
    pub stalls_by_reason: Vec<(String, u64, f64)>,
    /// How long operations and jobs took.
    pub latencies: Vec<LatencyMetrics>,
    /// What compaction costs, as the design-space paper counts it.
    pub costs: CostMetrics,
    /// Slow operations.
    pub slow: SlowMetrics,
    /// Flushes under way: 0 or 1.
    pub flushes_running: u64,
    /// Block cache: its capacity in bytes.
    pub cache_capacity: u64,
    /// Failures of background work.
    pub background_errors: u64,
    /// Times that `LOG` or `STATS` could not be written.
    pub log_failures: u64,
    /// By keyspace, the default one among them.
    pub keyspaces: Vec<KeyspaceMetrics>,
    /// The last sequence number that readers see.
    pub sequence: u64,
    /// Writes acknowledged since the store was opened, and their key and value bytes.
    pub writes: u64,
    /// Key and value bytes of those.
    pub user_bytes: u64,
    /// Groups in which they were committed.
    pub commit_groups: u64,
    /// Flushes since open.
    pub flushes: u64,
    /// Compactions finished since open, moves left out.
    pub compactions: u64,
    /// Bytes that compactions read and wrote.
    pub compaction_bytes_read: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: u64,
    /// Tables moved by metadata alone.
    pub moves: u64,
    /// Bytes of those.
    pub moved_bytes: u64,
    /// Tables dropped unread, because newer range tombstones cover all they hold.
    pub covered_drops: u64,
    /// Bytes of those.
    pub covered_bytes: u64,
    /// Parts of compactions committed before their end.
    pub prefix_commits: u64,
    /// Bytes of work thrown away.
    pub wasted_bytes: u64,
    /// Microseconds of a compaction, pick to end: median, p90, p99, max.
    pub compaction_us: [u64; 4],
    /// Microseconds of a step of a job: median, p99, max.
    pub step_us: [u64; 3],
    /// Times a job was set aside: as many as went on (`jobs_resumed`), let go (`jobs_yielded`), threw their work away
    /// (`jobs_discarded`) or still are (`jobs_paused`).
    pub jobs_preempted: u64,
    /// Jobs gone on with.
    pub jobs_resumed: u64,
    /// Jobs that let go of their claims and kept what they had.
    pub jobs_yielded: u64,
    /// Jobs that threw their work away for a more urgent one.
    pub jobs_discarded: u64,
    /// Jobs that failed and lost their work.
    pub jobs_failed: u64,
    /// Jobs refused for want of space.
    pub jobs_refused: u64,
    /// Jobs open now, and of those the ones set aside.
    pub jobs_open: u64,
    /// Jobs set aside now.
    pub jobs_paused: u64,
    /// Pauses of all background work in force.
    pub background_pauses: u64,
    /// Bytes of tables that nothing refers to any more and that are still to be unlinked.
    pub pending_unlink_bytes: u64,
    /// Tables in the trees.
    pub files_live: u64,
    /// Table files in the directory: the live ones, and those that readers still hold.
    pub files_on_disk: u64,
    /// Bytes of live tables.
    pub table_bytes: u64,
    /// Bytes of log files that hold writes.
    pub wal_bytes: u64,
    /// Times that a limit began to hold writers up.
    pub stalls: u64,
    /// Seconds that writers waited for their turn, all together.
    pub stall_seconds: f64,
    /// Writes that waited.
    pub delayed_writes: u64,
    /// Times that writers woke while they waited.
    pub delay_wakeups: u64,
    /// The longest of those waits, in seconds.
    pub longest_delay_seconds: f64,
    /// How fast writes are let in now, the strictest keyspace's; `None` without a limit.
    pub admission_bytes_per_sec: Option<f64>,
    /// Memory in use by class, and the limit.
    pub memory: MemoryMetrics,
    /// Memtables flushed before they were full, for want of memory.
    pub early_flushes: u64,
    /// Block cache: bytes in use, hits, misses.
    pub cache_bytes: u64,
    /// Blocks found.
    pub cache_hits: u64,
    /// Blocks read.
    pub cache_misses: u64,
    /// Parts of filters read, because they were not in memory.
    pub filter_misses: u64,
    /// Parts of indexes read.
    pub index_misses: u64,
    /// Bytes of blocks that the cache was given as they were written, because clients had read what they hold from memory.
    pub cache_written_bytes: u64,
    /// Tables that scans did not read because their filters deny the prefix (`prefix_filter`).
    pub tables_skipped: u64,
    /// Bytes read and written by class: `client wal manifest test flush intra-l0 l0-to-l1 deep upkeep`.
    pub io: Vec<(String, u64, u64)>,
    /// CPU seconds of background threads by class.
    pub cpu_seconds: Vec<(String, f64)>,
    /// Log files and manifests begun, syncs for writers.
    pub wal_rotations: u64,
    /// Manifests begun.
    pub manifest_rotations: u64,
    /// Syncs of the log for writers.
    pub wal_syncs: u64,
    /// Syncs of the log because an interval was over.
    pub wal_interval_syncs: u64,
    /// Log files that a writer had to make itself because none was ready.
    pub wal_made_by_writer: u64,
}

impl Metrics {
    /// Bytes written to files for each byte that users wrote, since the store was opened: log, flushes and compactions.
    pub fn write_amplification(&self) -> f64 {
        let caused = self.io.iter().filter(|(class, ..)| class != TEST);
        let written: u64 = caused.map(|(_, _, written)| written).sum();
        if self.user_bytes == 0 { 0.0 } else { written as f64 / self.user_bytes as f64 }
    }

    /// Runs that a lookup may have to ask, in the default keyspace, filters aside.
    pub fn read_amplification(&self) -> f64 {
        let default = self.keyspaces.iter().find(|k| k.name == "default");
        default.map_or(0.0, |k| k.levels.iter().map(|l| l.runs as f64 / (l.groups.max(1)) as f64).sum())
    }

    /// Table bytes for each byte of the largest level of each keyspace: an upper estimate of space amplification.
    pub fn space_amplification(&self) -> f64 {
        let (mut all, mut largest) = (0, 0);
        for keyspace in &self.keyspaces {
            all += keyspace.levels.iter().map(|l| l.bytes).sum::<u64>();
            largest += keyspace.levels.iter().map(|l| l.bytes).max().unwrap_or(0);
        }
        if largest == 0 { 1.0 } else { all as f64 / largest as f64 }
    }

    /// One line of JSON. The names are stable.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        let mut field = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string does not fail.
            let _ = write!(out, "{}\"{name}\":{value}", if out.len() > 1 { "," } else { "" });
        };
        field("uptime_seconds", &format!("{:.3}", self.uptime_seconds));
        field("identity", &quoted(&self.identity));
        field("sequence", &self.sequence);
        field("writes", &self.writes);
        field("user_bytes", &self.user_bytes);
        field("commit_groups", &self.commit_groups);
        field("flushes", &format!("{{\"count\":{}}}", self.flushes));
        let [p50, p90, p99, max] = self.compaction_us;
        field(
            "compactions",
            &format!(
                "{{\"count\":{},\"bytes_read\":{},\"bytes_written\":{},\"moves\":{},\"moved_bytes\":{},\
                 \"covered_drops\":{},\"covered_bytes\":{},\
                 \"prefix_commits\":{},\"wasted_bytes\":{},\"latency_us\":{{\"p50\":{p50},\"p90\":{p90},\"p99\":{p99},\"max\":{max}}}}}",
                self.compactions,
                self.compaction_bytes_read,
                self.compaction_bytes_written,
                self.moves,
                self.moved_bytes,
                self.covered_drops,
                self.covered_bytes,
                self.prefix_commits,
                self.wasted_bytes
            ),
        );
        let [p50, p99, max] = self.step_us;
        field("step_us", &format!("{{\"p50\":{p50},\"p99\":{p99},\"max\":{max}}}"));
        field(
            "jobs",
            &format!(
                "{{\"preempted\":{},\"resumed\":{},\"yielded\":{},\"discarded\":{},\"failed\":{},\"refused\":{},\"open\":{},\"paused\":{}}}",
                self.jobs_preempted,
                self.jobs_resumed,
                self.jobs_yielded,
                self.jobs_discarded,
                self.jobs_failed,
                self.jobs_refused,
                self.jobs_open,
                self.jobs_paused
            ),
        );
        field("files", &format!("{{\"live\":{},\"on_disk\":{}}}", self.files_live, self.files_on_disk));
        field("table_bytes", &self.table_bytes);
        field(
            "wal",
            &format!(
                "{{\"bytes\":{},\"rotations\":{},\"syncs\":{}}}",
                self.wal_bytes, self.wal_rotations, self.wal_syncs
            ),
        );
        field("manifest", &format!("{{\"rotations\":{}}}", self.manifest_rotations));
        let amplification =
            (self.write_amplification(), self.read_amplification(), self.space_amplification());
        let (write, read, space) = amplification;
        field("amplification", &format!("{{\"write\":{write:.3},\"read\":{read:.3},\"space\":{space:.3}}}"));
        let by_reason = stalls_json(&self.stalls_by_reason);
        field(
            "stalls",
            &format!(
                "{{\"count\":{},\"seconds\":{:.6},\"delayed_writes\":{},\"longest_seconds\":{:.6},\"wakeups\":{},\
                 \"by_reason\":{by_reason}}}",
                self.stalls,
                self.stall_seconds,
                self.delayed_writes,
                self.longest_delay_seconds,
                self.delay_wakeups
            ),
        );
        let limit = limit_json(self.admission_bytes_per_sec);
        field("admission", &format!("{{\"limit_bytes_per_sec\":{limit}}}"));
        field("memory", &memory_json(&self.memory, self.early_flushes));
        let (bytes, hits, misses) = (self.cache_bytes, self.cache_hits, self.cache_misses);
        let (capacity, filters, indexes) = (self.cache_capacity, self.filter_misses, self.index_misses);
        let written = self.cache_written_bytes;
        field(
            "cache",
            &format!(
                "{{\"bytes\":{bytes},\"capacity\":{capacity},\"hits\":{hits},\"misses\":{misses},\
                 \"filter_misses\":{filters},\"index_misses\":{indexes},\"written_bytes\":{written}}}"
            ),
        );
        field("latency_us", &latencies_json(&self.latencies));
        field("costs", &self.costs.to_json());
        field("slow", &slow_json(&self.slow));
        field("snapshots", &snapshots_json(&self.snapshots));
        field("schedule", &self.schedule.to_json());
        field("background_errors", &self.background_errors);
        field("log_failures", &self.log_failures);
        field("compactions_by_kind", &compactions_json(&self.compactions_by_kind));
        field("tables_skipped", &self.tables_skipped);
        let io = self
            .io
            .iter()
            .map(|(class, read, written)| format!("\"{class}\":{{\"read\":{read},\"written\":{written}}}"));
        field("io", &format!("{{{}}}", io.collect::<Vec<_>>().join(",")));
        let cpu = self.cpu_seconds.iter().map(|(class, seconds)| format!("\"{class}\":{seconds:.6}"));
        field("cpu_seconds", &format!("{{{}}}", cpu.collect::<Vec<_>>().join(",")));
        let default = self.keyspaces.iter().find(|k| k.name == "default");
        field("levels", &default.map_or_else(|| "[]".to_owned(), levels_json));
        let keyspaces = self.keyspaces.iter().map(keyspace_json).collect::<Vec<_>>();
        field("keyspaces", &format!("[{}]", keyspaces.join(",")));
        out.push('}');
        out
    }
}

fn limit_json(limit: Option<f64>) -> String {
    limit.map_or_else(|| "null".to_owned(), |limit| format!("{limit:.0}"))
}

fn memory_json(m: &MemoryMetrics, early_flushes: u64) -> String {
    format!(
        "{{\"limit_bytes\":{},\"total_bytes\":{},\"memtables_bytes\":{},\"blocks_bytes\":{},\"tables_bytes\":{},\
         \"cursors_bytes\":{},\"jobs_bytes\":{},\"batches_bytes\":{},\"early_flushes\":{early_flushes}}}",
        m.limit,
        m.total(),
        m.memtables,
        m.blocks,
        m.tables,
        m.cursors,
        m.jobs,
        m.batches
    )
}

fn levels_json(keyspace: &KeyspaceMetrics) -> String {
    let level = |(i, l): (usize, &LevelMetrics)| {
        format!(
            "{{\"level\":{i},\"groups\":{},\"runs\":{},\"tables\":{},\"bytes\":{},\"entries\":{},\"tombstones\":{},\
             \"target_bytes\":{},\"debt_bytes\":{},\"oldest_tombstone_ms\":{}}}",
            l.groups,
            l.runs,
            l.tables,
            l.bytes,
            l.entries,
            l.tombstones,
            l.target_bytes,
            l.debt_bytes,
            l.oldest_tombstone_ms
        )
    };
    format!("[{}]", keyspace.levels.iter().enumerate().map(level).collect::<Vec<_>>().join(","))
}

fn keyspace_json(keyspace: &KeyspaceMetrics) -> String {
    format!(
        "{{\"name\":{},\"strategy\":{},\"memtable_bytes\":{},\"immutable_memtables\":{},\"debt_bytes\":{},\
         \"distance_bytes\":{},\"reshaping_bytes\":{},\"active_memtable_bytes\":{},\"estimated_keys\":{},\"limit_bytes_per_sec\":{},\"heat\":{},\"levels\":{}}}",
        quoted(&keyspace.name),
        quoted(&keyspace.strategy),
        keyspace.memtable_bytes,
        keyspace.immutable_memtables,
        keyspace.debt_bytes,
        keyspace.distance_bytes,
        keyspace.reshaping_bytes,
        keyspace.active_memtable_bytes,
        keyspace.estimated_keys,
        limit_json(keyspace.admission_bytes_per_sec),
        keyspace.heat.to_json(),
        levels_json(keyspace)
    )
}

/// The store's numbers now.
pub fn metrics(store: &Store) -> Metrics {
    let c = &store.counters;
    let io = store.fs.counters();
    let background = Class::ALL.map(IoClass::Background);
    let classes =
        [IoClass::Client, IoClass::Wal, IoClass::Manifest, IoClass::Test].into_iter().chain(background);
    let names = ["client", "wal", "manifest", TEST]
        .map(str::to_owned)
        .into_iter()
        .chain(Class::ALL.map(|c| c.to_string()));
    // Before the lock: sums over all threads.
    let used = usage_by_all(store);
    let (jobs_open, flushes_running, schedule) = {
        let state = store.background.lock();
        (state.jobs.len() as u64, u64::from(!state.flush.is_free()), schedule(store, &state, used))
    };
    let views: Vec<_> = store.keyspaces.load().by_name.values().map(|k| k.view.load_full()).collect();
    let counting = store.options.load().heat_counts;
    let keyspaces: Vec<KeyspaceMetrics> =
        store.keyspaces.load().by_name.values().map(|k| keyspace_metrics(k, counting)).collect();
    let space: Vec<(u64, f64)> = {
        let of = |k: &Arc<KeyspaceState>| (k.view.load().version.bytes(), k.estimate_space_amp());
        store.keyspaces.load().by_name.values().map(of).collect()
    };
    let levels = || keyspaces.iter().flat_map(|k| &k.levels);
    let files_live = levels().map(|l| l.tables).sum();
    let now_ms = store.clock.wall_ms();
    let oldest_delete_ms = levels().map(|l| l.oldest_tombstone_ms).filter(|ms| *ms > 0).min();
    let (obsolete, pending_unlink_bytes, manifest_rotations) = {
        let tree = store.tree();
        (tree.obsolete.len() as u64, tree.obsolete.iter().map(|t| t.bytes).sum(), tree.versions.rotations())
    };
    let three = |h: &crate::observe::histogram::Histogram| [h.quantile(0.5), h.quantile(0.99), h.max()];
    let cache = store.tables.block_cache();
    Metrics {
        now_ms,
        uptime_seconds: store.clock.now().saturating_sub(store.opened.at).as_secs_f64(),
        identity: store.opened.identity().to_owned(),
        snapshots: metric_parts::snapshots(store, &views, pending_unlink_bytes),
        compactions_by_kind: metric_parts::compactions(store),
        stalls_by_reason: metric_parts::stalls(store),
        latencies: metric_parts::latencies(store),
        costs: CostMetrics {
            tombstones: levels().map(|l| l.tombstones).sum(),
            oldest_tombstone_seconds: oldest_delete_ms.map(|ms| now_ms.saturating_sub(ms) as f64 / 1000.0),
            ..costs::gather(store, &space)
        },
        slow: metric_parts::slow(store),
        flushes_running,
        cache_capacity: cache.capacity(),
        background_errors: c.background_errors.get(),
        log_failures: c.log_failures.get(),
        files_live,
        files_on_disk: files_live + obsolete,
        table_bytes: levels().map(|l| l.bytes).sum(),
        sequence: store.visible.load(Ordering::Acquire),
        writes: c.writes.get(),
        user_bytes: c.user_bytes.get(),
        commit_groups: c.groups.get(),
        flushes: c.flushes.get(),
        compactions: c.compactions.get(),
        compaction_bytes_read: c.compaction_bytes_read.get(),
        compaction_bytes_written: c.compaction_bytes_written.get(),
        moves: c.moves.get(),
        moved_bytes: c.moved_bytes.get(),
        covered_drops: c.covered_drops.get(),
        covered_bytes: c.covered_bytes.get(),
        prefix_commits: c.prefix_commits.get(),
        wasted_bytes: c.wasted_bytes.get(),
        compaction_us: [0.5, 0.9, 0.99, 1.0].map(|q| c.compaction_us.quantile(q)),
        step_us: three(&c.step_us),
        jobs_preempted: schedule.jobs_preempted,
        jobs_resumed: schedule.jobs_resumed,
        jobs_yielded: schedule.jobs_yielded,
        jobs_discarded: schedule.jobs_discarded,
        jobs_failed: c.jobs_failed.get(),
        jobs_refused: c.jobs_refused.get(),
        jobs_open,
        jobs_paused: schedule.jobs_paused,
        schedule,
        background_pauses: store.background.pauses() as u64,
        pending_unlink_bytes,
        wal_bytes: store.wal_files.live_bytes(),
        stalls: c.stalls.get(),
        stall_seconds: c.stall_nanos.get() as f64 / 1e9,
        delayed_writes: c.delays.get(),
        delay_wakeups: c.delay_wakeups.get(),
        longest_delay_seconds: c.longest_delay_nanos.get() as f64 / 1e9,
        admission_bytes_per_sec: limit(store),
        memory: in_use(store),
        early_flushes: c.early_flushes.get(),
        cache_bytes: cache.used(),
        cache_hits: cache.hits(),
        cache_misses: cache.misses(),
        filter_misses: cache.filter_misses(),
        index_misses: cache.index_misses(),
        cache_written_bytes: cache.written_bytes(),
        tables_skipped: cache.skipped(),
        io: names.zip(classes).map(|(name, class)| (name, io.read(class), io.written(class))).collect(),
        cpu_seconds: Class::ALL.map(|k| (k.to_string(), c.cpu_nanos[k as usize].get() as f64 / 1e9)).into(),
        wal_rotations: c.wal_rotations.get(),
        wal_interval_syncs: c.wal_interval_syncs.get(),
        wal_made_by_writer: c.wal_made_by_writer.get(),
        manifest_rotations,
        wal_syncs: c.wal_syncs.get(),
        keyspaces,
    }
}

fn keyspace_metrics(keyspace: &KeyspaceState, counting: Counting) -> KeyspaceMetrics {
    let view = keyspace.view.load();
    let strategy = keyspace.strategy.load();
    let debts = debt_by_level(&view.version, &strategy.strategy);
    let level = |(i, level): (usize, &crate::version::level::Level)| {
        let tables = || level.tables();
        LevelMetrics {
            groups: level.groups.len() as u64,
            runs: level.runs().filter(|r| !r.tables.is_empty()).count() as u64,
            tables: tables().count() as u64,
            bytes: tables().map(crate::version::run::TableRef::bytes).sum(),
            entries: tables().map(|t| t.meta.entries - t.consumed).sum(),
            tombstones: tables().map(|t| t.meta.tombstones).sum(),
            target_bytes: goal_bytes(&strategy.strategy.size, &view.version, i),
            debt_bytes: debts.get(i).copied().unwrap_or(0),
            oldest_tombstone_ms: tables().filter_map(|t| t.meta.oldest_tombstone_ms).min().unwrap_or(0),
        }
    };
    KeyspaceMetrics {
        name: keyspace.name.clone(),
        strategy: strategy.text.clone(),
        levels: view.version.levels.iter().enumerate().map(level).collect(),
        memtable_bytes: view.bytes_in_memory(),
        immutable_memtables: view.immutable.len() as u64,
        active_memtable_bytes: view.active.bytes(),
        estimated_keys: estimated_keys(&view),
        debt_bytes: debt(&view.version, &strategy.strategy),
        distance_bytes: distance(&view.version, &strategy.strategy),
        reshaping_bytes: reshaping_bytes(&view.version, &strategy.strategy),
        admission_bytes_per_sec: keyspace.gate.limit(),
        heat: keyspace.heat.metrics(counting, &view.version, &strategy.strategy),
    }
}

/// Keys of tables less two for each tombstone, which stands for itself and for what it hides; and the memtables' writes.
fn estimated_keys(view: &ReadView) -> u64 {
    let tables = view.version.tables();
    let (keys, gone) = tables.fold((0u64, 0u64), |(keys, gone), (_, t)| {
        (keys + t.meta.keys.saturating_sub(t.consumed), gone + 2 * t.meta.tombstones)
    });
    let memtables = [&view.active].into_iter().chain(&view.immutable);
    let written =
        memtables.map(|m| m.first_seq().map_or(0, |first| m.last_seq().0 + 1 - first.0)).sum::<u64>();
    keys.saturating_sub(gone) + written
}
