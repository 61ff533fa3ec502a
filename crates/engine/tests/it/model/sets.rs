//! What the histories are run under, and what each of them has met.

use std::time::Duration;

use evenkeel::Metrics;

/// What the device can do, as the store is told: so little that clients at times use all of it.
pub const DEVICE: u64 = 60_000;

/// How long an operation takes.
pub const OPERATION: Duration = Duration::from_millis(1);

/// What a store is opened with.
#[derive(Clone, Copy, Debug)]
pub struct OptionSet {
    pub name: &'static str,
    pub strategy: &'static str,
    pub schedule: &'static str,
}

const fn set(name: &'static str, strategy: &'static str, schedule: &'static str) -> OptionSet {
    OptionSet { name, strategy, schedule }
}

/// Under test, in the order of the table: each strategy with no schedule, and each kind of schedule.
pub const OPTION_SETS: [OptionSet; 14] = [
    set("full", "full", "unlimited"),
    set("lo+1", "lo+1", "unlimited"),
    set("lo+2", "lo+2", "unlimited"),
    set("rr", "rr", "unlimited"),
    set("old", "old", "unlimited"),
    set("tier", "tier", "unlimited"),
    set("1-leveling", "1-leveling", "unlimited"),
    set("l-leveling", "l-leveling", "unlimited"),
    set("fixed", FIXED, "unlimited"),
    set("ltg", "ltg", "unlimited"),
    set("silk", FIXED, "silk:jobs=2"),
    set("dlc", "rr", "dlc-full:every=10ms,softness=1"),
    set("dlc-burst", "tier", "dlc-burst-part"),
    set("paced", "l-leveling", "paced"),
];

/// Strategies that a keyspace is switched to.
pub const STRATEGIES: [&str; 10] =
    ["full", "lo+1", "lo+2", "rr", "old", "tier", "1-leveling", "l-leveling", FIXED, "ltg"];

/// Sizes from above, and outputs that end by size alone: what the others do not do.
const FIXED: &str = "when=saturation how=runs:1 much=file which=least-overlap-parent; \
    L0: when=runs,saturation how=runs:4 much=runs; size: sizes=fixed cut=size";

/// What came to pass, added up over all opens.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub flushes: u64,
    pub merges: u64,
    pub moves: u64,
    pub yields: u64,
    pub prefix_commits: u64,
    pub preempts: u64,
    pub resumes: u64,
    pub discards: u64,
    pub failed: u64,
    pub switches: u64,
    pub schedules: u64,
    pub pauses: u64,
    pub loads: u64,
    pub levels: usize,
    /// Scans of trees that had at least ten tables consumed in part, and the most that a scan met.
    pub trimmed_scans: u64,
    pub trimmed_most: usize,
    pub range_deletes: u64,
    /// Tables dropped unread under range tombstones.
    pub covered: u64,
    pub reopens: u64,
    pub crashes: u64,
    pub copies: u64,
    pub looks: u64,
    /// Writes to the keyspace without a log, and writes refused because they were for it and something else.
    pub unlogged: u64,
    pub refused: u64,
    pub interval_syncs: u64,
    /// Groups by heat that were split, joined, and turned hot and cold.
    pub group_turns: [u64; 4],
}

impl Totals {
    /// Adds what one opening of the store has counted.
    pub fn add(&mut self, metrics: &Metrics) {
        self.flushes += metrics.flushes;
        self.merges += metrics.compactions;
        self.moves += metrics.moves;
        self.yields += metrics.jobs_yielded;
        self.prefix_commits += metrics.prefix_commits;
        self.preempts += metrics.jobs_preempted;
        self.resumes += metrics.jobs_resumed;
        self.discards += metrics.jobs_discarded;
        self.failed += metrics.jobs_failed;
        self.covered += metrics.covered_drops;
        self.interval_syncs += metrics.wal_interval_syncs;
        for turns in metrics.keyspaces.iter().map(|keyspace| keyspace.heat.group_turns) {
            self.group_turns.iter_mut().zip(turns).for_each(|(sum, turns)| *sum += turns);
        }
    }
}

/// Takes one out, if there is any.
pub fn take<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(at % from.len()))
}
