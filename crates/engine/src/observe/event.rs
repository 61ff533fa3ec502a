//! What happens in the store, as one enum: a listener gets every event, and what prints or plots them takes them from
//! there. Each has words for people (`Display`, and `LOG`) and a stable form for programs (`event_json.rs`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::waits::Cause;
use super::words::{self, bytes as size, speed};
use crate::base::class::Class;
use crate::base::units::{JobId, KeyspaceId, TableId};

/// Why a job was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptedBy {
    /// The clients' load is high.
    Load,
    /// A more urgent job has its place.
    Urgency,
    /// A more urgent job wants its tables, or whoever asked for it has cancelled it.
    Request,
}

impl PreemptedBy {
    /// In JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PreemptedBy::Load => "load",
            PreemptedBy::Urgency => "urgency",
            PreemptedBy::Request => "request",
        }
    }
}

/// Why a job's work was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardedFor {
    /// It was set aside: for a more urgent job that wants its tables, or still when the store was closed. `jobs_discarded` counts these.
    Preemption,
    /// It failed.
    Failure,
    /// Its keyspace was dropped.
    Drop,
    /// The store is being closed.
    Close,
}

impl DiscardedFor {
    /// In JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            DiscardedFor::Preemption => "preemption",
            DiscardedFor::Failure => "failure",
            DiscardedFor::Drop => "drop",
            DiscardedFor::Close => "close",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store is open: what recovery found.
    Opened {
        /// The last sequence number recovered.
        sequence: u64,
        /// Tables in the trees.
        tables: u64,
        /// Their bytes.
        bytes: u64,
        /// Log files that were read.
        logs: u64,
        /// How long it took, microseconds.
        micros: u64,
    },
    /// The store is closed.
    Closed {
        /// True if the log was sealed: all that was written is with the disk.
        clean: bool,
    },
    /// A flush begins.
    FlushBegun {
        /// Whose memtable.
        keyspace: KeyspaceId,
        /// Why, for instance "the memtable is full".
        reason: String,
        /// Bytes in the memtable.
        bytes: u64,
    },
    /// A memtable was written to tables.
    Flushed {
        /// Whose memtable.
        keyspace: KeyspaceId,
        /// The tables.
        tables: Vec<TableId>,
        /// Their bytes.
        bytes: u64,
        /// From the flush's begin to its end, microseconds.
        micros: u64,
    },
    /// A bulk load became visible.
    Loaded {
        /// Whose records.
        keyspace: KeyspaceId,
        /// Their tables.
        tables: Vec<TableId>,
        /// How many.
        records: u64,
        /// Bytes of their keys and values.
        bytes: u64,
    },
    /// A compaction was picked and holds its claims.
    CompactionPicked {
        /// The job.
        job: JobId,
        /// Whose tree.
        keyspace: KeyspaceId,
        /// Its urgency.
        class: Class,
        /// Trigger and figures.
        reason: String,
        /// The trigger's score; 1 if nothing but a wish asked.
        score: f64,
        /// Its input.
        bytes: u64,
        /// About how large its output will be.
        predicted_bytes: u64,
        /// What else was considered, the most urgent first, at most eight.
        rejected: Vec<String>,
    },
    /// Tables changed place without being rewritten.
    Moved {
        /// The decision's number, as a job's.
        job: JobId,
        /// Whose tree.
        keyspace: KeyspaceId,
        /// Trigger and figures.
        reason: String,
        /// Bytes moved.
        bytes: u64,
    },
    /// Groups of keys by heat changed, by metadata alone; so do neighbours that are joined because the strategy knows no groups.
    Regrouped {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// Groups that were divided.
        splits: u64,
        /// Groups that were joined with a neighbour.
        joins: u64,
        /// Groups that are kept as hot ones from now on.
        to_hot: u64,
        /// Groups that are kept as cold ones.
        to_cold: u64,
    },
    /// Tables were dropped unread, because newer range tombstones cover all they hold.
    Covered {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// The tables.
        tables: Vec<TableId>,
        /// Their bytes.
        bytes: u64,
    },
    /// A part of a compaction, or its end, is in the tree.
    Committed {
        /// The job.
        job: JobId,
        /// The new tables.
        tables: Vec<TableId>,
        /// False for the last part.
        prefix: bool,
    },
    /// A compaction has done all it will.
    CompactionEnded {
        /// The job.
        job: JobId,
        /// Whose tree.
        keyspace: KeyspaceId,
        /// Its urgency.
        class: Class,
        /// The level its seed came from, and the one its output went to.
        levels: (usize, usize),
        /// Bytes of its input.
        bytes_read: u64,
        /// Bytes of its output.
        bytes_written: u64,
        /// From the pick to the end, microseconds.
        micros: u64,
        /// True if it let go of the rest for a more urgent job.
        yielded: bool,
    },
    /// A job let go of its claims after committing what it had.
    Yielded {
        /// The job.
        job: JobId,
    },
    /// A job threw its work away.
    Discarded {
        /// The job.
        job: JobId,
        /// What was lost.
        bytes: u64,
        /// Why.
        why: DiscardedFor,
    },
    /// The clients' load is high from now on, or low.
    LoadChanged {
        /// High, or low.
        high: bool,
        /// What clients use of the device, as the schedule estimates it.
        client_bytes_per_sec: u64,
    },
    /// At high load L0 has grown so tall that it is merged all the same.
    BurstBegun {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// True if all of L0 goes down, false if flushed tables are merged among themselves.
        whole: bool,
    },
    /// A job was set aside.
    Preempted {
        /// The job.
        job: JobId,
        /// Why.
        by: PreemptedBy,
    },
    /// A job that was set aside goes on.
    Resumed {
        /// The job.
        job: JobId,
    },
    /// A job was refused for want of disk space.
    Refused {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// What it would have needed at least, for a while.
        needs_bytes: u64,
        /// What was free.
        free_bytes: u64,
    },
    /// Writers wait: the reason, for instance "because we have 20 level-0 runs".
    Stalling {
        /// Whose writers; `None` for everybody's.
        keyspace: Option<KeyspaceId>,
        /// Why.
        reason: String,
        /// How fast they may go now, all together.
        bytes_per_sec: u64,
        /// When it should be over, at the rate at which debt drains now; `None` if nothing drains or nobody knows yet.
        ends_in: Option<Duration>,
    },
    /// Writes fail: there is no room for them, and what would make some fails; or the store is read-only.
    Stopping {
        /// The failure.
        reason: String,
    },
    /// A keyspace is compacted by another strategy from now on.
    StrategyChanged {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// The strategy, as it was given.
        strategy: String,
    },
    /// Deletes of a keyspace are to be gone sooner than it can be done.
    DeadlineTooShort {
        /// Whose deletes.
        keyspace: KeyspaceId,
        /// What was asked for, milliseconds.
        ttl_ms: u64,
        /// What can be kept as the keyspace is now, milliseconds.
        shortest_ms: u64,
    },
    /// Operations of the last second took `slow_us` or longer.
    SlowOperations {
        /// How many; one found in the sample stands for 64.
        count: u64,
        /// Their time, nanoseconds, by cause: queue, commit-sync, throttle, block-read, cpu.
        nanos: [u64; 5],
    },
    /// A file that the store does not need could not be written; the store goes on without it.
    NotWritten {
        /// `LOG`, `STATS`, `HEAT`, `SOCKET`, or `trace` for the file of a trace.
        file: &'static str,
        /// Why.
        error: String,
    },
    /// The listener did not keep up: events from here on were left out. Told to it alone.
    Untold {
        /// How many.
        count: u64,
    },
    /// The log's recovery ended at a torn tail; what followed was never promised.
    TornTail {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
    },
    /// The file system has no direct I/O: tables are read and written through the page cache. Told once.
    DirectRefused {
        /// The store's directory.
        dir: String,
    },
    /// The device has become slower than a knob of the schedule, which goes on by the speed that it had. Told once for each.
    DeviceTooSlow {
        /// What the device does now, bytes per second.
        bytes_per_sec: u64,
        /// What the schedule goes by.
        gone_by: u64,
        /// Which knob, and why not.
        error: String,
    },
    /// An option is not what it was: changed on the running store, or given to `open` against what was stored.
    OptionChanged {
        /// The option.
        name: String,
        /// Its value before.
        was: String,
        /// Its value from now on.
        now: String,
    },
    /// A background failure. The store is read-only if it concerned the log or the manifest.
    BackgroundError {
        /// The error.
        error: String,
    },
}

impl Event {
    /// Whose tree it is about, if it is about one.
    pub fn keyspace(&self) -> Option<KeyspaceId> {
        match self {
            Event::FlushBegun { keyspace, .. }
            | Event::Flushed { keyspace, .. }
            | Event::CompactionPicked { keyspace, .. }
            | Event::CompactionEnded { keyspace, .. }
            | Event::Moved { keyspace, .. }
            | Event::Regrouped { keyspace, .. }
            | Event::Covered { keyspace, .. }
            | Event::Refused { keyspace, .. }
            | Event::Loaded { keyspace, .. }
            | Event::BurstBegun { keyspace, .. }
            | Event::StrategyChanged { keyspace, .. }
            | Event::DeadlineTooShort { keyspace, .. } => Some(*keyspace),
            Event::Stalling { keyspace, .. } => *keyspace,
            _ => None,
        }
    }

    /// True if it is worth a file: an open and a close alone are not.
    pub fn is_noteworthy(&self) -> bool {
        !matches!(self, Event::Opened { .. } | Event::Closed { .. } | Event::NotWritten { .. })
    }
}

/// Words for people. Whose keyspace it is stands in front, where the line is printed.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { sequence, tables, bytes, logs, micros } => {
                let (tables, logs) = (words::count(*tables, "table"), words::count(*logs, "log file"));
                let (bytes, took) = (size(*bytes), words::duration(Duration::from_micros(*micros)));
                write!(
                    f,
                    "Opened with {tables} of {bytes}, sequence {sequence}, after reading {logs}, in {took}"
                )
            }
            Event::Closed { clean: true } => write!(f, "Closed; the log is sealed"),
            Event::Closed { clean: false } => {
                write!(f, "Closed without sealing the log; the next open replays it")
            }
            Event::FlushBegun { reason, bytes, .. } => {
                write!(f, "Flushing {} because {reason}", size(*bytes))
            }
            Event::Flushed { tables, bytes, micros, .. } => {
                let took = Duration::from_micros(*micros);
                let tables = words::count(tables.len() as u64, "table");
                let (bytes, fast, took) = (size(*bytes), speed(*bytes, took), words::duration(took));
                write!(f, "Flushed to {tables}, {bytes} in {took} ({fast})")
            }
            Event::Loaded { tables, records, bytes, .. } => {
                let tables = words::count(tables.len() as u64, "table");
                let records = words::count(*records, "record");
                write!(f, "Loaded {records} of {} in order into {tables}", size(*bytes))
            }
            Event::CompactionPicked { job, class, reason, bytes, .. } => {
                write!(f, "Compacting, job {job}, {class}, {}: {reason}", size(*bytes))
            }
            Event::CompactionEnded {
                job, class, levels, bytes_read, bytes_written, micros, yielded, ..
            } => {
                let took = Duration::from_micros(*micros);
                let how = if *yielded { "Yielded" } else { "Compacted" };
                let ((from, to), moved) = (levels, speed(bytes_read + bytes_written, took));
                let (read, written) = (size(*bytes_read), size(*bytes_written));
                let took = words::duration(took);
                write!(
                    f,
                    "{how}, job {job}, {class}, L{from} to L{to}: {read} to {written} in {took} ({moved})"
                )
            }
            Event::Regrouped { splits, joins, to_hot, to_cold, .. } => {
                write!(
                    f,
                    "Groups by heat: {splits} split, {joins} joined, {to_hot} turned hot, {to_cold} turned cold"
                )
            }
            Event::Moved { bytes, .. } => write!(f, "Moved {} a level down without rewriting", size(*bytes)),
            Event::Covered { tables, bytes, .. } => {
                let tables = words::count(tables.len() as u64, "table");
                write!(f, "Dropped {tables} under range deletes, {}", size(*bytes))
            }
            Event::Committed { job, tables, prefix } => {
                let what = if *prefix { "a part" } else { "the end" };
                write!(f, "Committed {what} of job {job}: {}", words::count(tables.len() as u64, "table"))
            }
            Event::Yielded { job } => write!(f, "Job {job} yielded"),
            Event::Discarded { job, bytes, why } => {
                write!(f, "Job {job} discarded {} of work: {}", size(*bytes), why.word())
            }
            Event::LoadChanged { high, client_bytes_per_sec } => {
                let load = if *high { "high" } else { "low" };
                write!(f, "Load is {load}: clients use {}/s", size(*client_bytes_per_sec))
            }
            Event::BurstBegun { whole: true, .. } => f.write_str("Burst at high load: all of L0 goes down"),
            Event::BurstBegun { whole: false, .. } => {
                f.write_str("Burst at high load: flushed tables are merged among themselves")
            }
            Event::Preempted { job, by: PreemptedBy::Load } => {
                write!(f, "Job {job} was set aside because the load is high")
            }
            Event::Preempted { job, by: PreemptedBy::Urgency } => {
                write!(f, "Job {job} was set aside for a more urgent one")
            }
            Event::Preempted { job, by: PreemptedBy::Request } => {
                write!(f, "Job {job} was asked to let go of its tables")
            }
            Event::Resumed { job } => write!(f, "Job {job} goes on"),
            Event::Refused { needs_bytes, free_bytes, .. } => {
                let (needs, free) = (size(*needs_bytes), size(*free_bytes));
                write!(
                    f,
                    "Refused a compaction: it needs {needs} at least beside `reserve_bytes`, and {free} are free; free some disk"
                )
            }
            Event::OptionChanged { name, was, now } => write!(f, "Option {name} changed from {was} to {now}"),
            Event::Stalling { reason, bytes_per_sec, ends_in, .. } => {
                write!(f, "Stalling writes {reason}: {}/s go in, ", size(*bytes_per_sec))?;
                match ends_in {
                    Some(time) => write!(f, "relief in about {}", words::duration(*time)),
                    None => f.write_str("nobody knows yet for how long"),
                }
            }
            Event::StrategyChanged { strategy, .. } => write!(f, "Strategy changed to {strategy}"),
            Event::DeadlineTooShort { ttl_ms, shortest_ms, .. } => {
                let [ttl, shortest] =
                    [ttl_ms, shortest_ms].map(|ms| words::duration(Duration::from_millis(*ms)));
                write!(
                    f,
                    "Deletes cannot be gone in {ttl}: the shortest time that can be kept now is {shortest}"
                )
            }
            Event::SlowOperations { count, nanos } => slow_words(f, *count, nanos),
            Event::NotWritten { file, error } => {
                write!(f, "{file} is not written any more: {error}; the store goes on without it")
            }
            Event::DeviceTooSlow { bytes_per_sec, gone_by, error } => {
                let (now, before) = (size(*bytes_per_sec), size(*gone_by));
                write!(f, "The device does {now}/s, and the schedule goes on by {before}/s: {error}")
            }
            Event::Untold { count: 1 } => f.write_str("1 event was not told"),
            Event::Untold { count } => write!(f, "{count} events were not told"),
            Event::Stopping { reason } => write!(f, "Stopping writes because {reason}"),
            Event::TornTail { file, offset } => {
                write!(f, "Recovery stopped at a torn tail: {file} at {offset}")
            }
            Event::DirectRefused { dir } => {
                write!(f, "Direct I/O was refused in {dir}: tables go through the page cache")
            }
            Event::BackgroundError { error } => write!(f, "Background error: {error}"),
        }
    }
}

/// `Slow: 12 operations took 340 ms: 80 % commit-sync, 20 % queue`; what is below one in a hundred is left out.
fn slow_words(f: &mut fmt::Formatter<'_>, count: u64, nanos: &[u64; 5]) -> fmt::Result {
    let total: u64 = nanos.iter().sum();
    let mut causes: Vec<(u64, &str)> = Cause::ALL.iter().map(|c| (nanos[*c as usize], c.name())).collect();
    causes.sort_unstable_by(|a, b| b.cmp(a));
    let shares = causes.iter().map(|(n, name)| (n.saturating_mul(100) / total.max(1), name));
    let shares: Vec<String> =
        shares.filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} % {name}")).collect();
    let took = words::duration(Duration::from_nanos(total));
    write!(f, "Slow: {} took {took}: {}", words::count(count, "operation"), shares.join(", "))
}

/// Is told of events one at a time and in their order, on a thread of its own that holds no lock of the store. One that does not keep up
/// misses some, and is told how many ([`Event::Untold`]). See `Builder::listener`.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;
