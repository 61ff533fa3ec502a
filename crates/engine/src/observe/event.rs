//! What happens in the store, as one enum: a listener gets every event, and what prints or plots them takes them from
//! there.

use std::fmt;
use std::sync::Arc;

use crate::base::class::Class;
use crate::base::units::{JobId, KeyspaceId, TableId};

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A memtable was written to tables.
    Flushed {
        /// Whose memtable.
        keyspace: KeyspaceId,
        /// The tables.
        tables: Vec<TableId>,
        /// Their bytes.
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
        /// Its input.
        bytes: u64,
    },
    /// Tables changed place without being rewritten.
    Moved {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// Bytes moved.
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
    },
    /// A job was refused for want of disk space.
    Refused {
        /// Whose tree.
        keyspace: KeyspaceId,
        /// What it would have needed for a while.
        needs_bytes: u64,
        /// What was free.
        free_bytes: u64,
    },
    /// Writers wait: the reason, for instance "because we have 20 level-0 runs".
    Stalling {
        /// Whose writers.
        keyspace: KeyspaceId,
        /// Why.
        reason: String,
    },
    /// The log's recovery ended at a torn tail; what followed was never promised.
    TornTail {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
    },
    /// A background failure. The store is read-only if it concerned the log or the manifest.
    BackgroundError {
        /// The error.
        error: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Flushed { keyspace, tables, bytes } => {
                write!(f, "Flushed keyspace {keyspace} to {} tables, {bytes} bytes", tables.len())
            }
            Event::CompactionPicked { job, keyspace, class, reason, bytes } => {
                write!(f, "Picked job {job} ({class}, keyspace {keyspace}, {bytes} bytes): {reason}")
            }
            Event::Moved { keyspace, bytes } => {
                write!(f, "Moved {bytes} bytes of keyspace {keyspace} by metadata")
            }
            Event::Committed { job, tables, prefix } => {
                let what = if *prefix { "a prefix" } else { "the end" };
                write!(f, "Committed {what} of job {job}: {} tables", tables.len())
            }
            Event::Yielded { job } => write!(f, "Job {job} yielded"),
            Event::Discarded { job, bytes } => write!(f, "Job {job} discarded {bytes} bytes of work"),
            Event::Refused { keyspace, needs_bytes, free_bytes } => {
                write!(
                    f,
                    "Refused a job of keyspace {keyspace}: needs {needs_bytes} bytes, {free_bytes} are free"
                )
            }
            Event::Stalling { keyspace, reason } => {
                write!(f, "Stalling writes of keyspace {keyspace} {reason}")
            }
            Event::TornTail { file, offset } => {
                write!(f, "Recovery stopped at a torn tail: {file} at {offset}")
            }
            Event::BackgroundError { error } => write!(f, "Background error: {error}"),
        }
    }
}

/// Gets every event, on the thread where it happens: be quick.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;
