//! What is known when it is decided: the load, the open jobs, and what there is to do.

use std::time::Duration;

use super::estimator::Usage;
use super::gates::L0Backlog;
use crate::base::class::Class;
use crate::base::units::{JobId, KeyspaceId, SeqNo};

/// What is known of the load at a moment: counters since the store was opened. What an interval used is told from two of these,
/// so that one that comes late, or not at all, is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The moment.
    pub now: Duration,
    /// The device's speed, bytes per second, if it is known.
    pub device: Option<u64>,
    /// The counters.
    pub used: Usage,
    /// Refills in which the limiter held work up.
    pub drains: u64,
    /// CPU time of compactions.
    pub compaction_cpu: Duration,
    /// Bytes of memtables that flushes have brought to tables.
    pub flushed_memtables: u64,
    /// Bytes of those tables, as they lie in files.
    pub flushed_tables: u64,
}

/// An open job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// Its id; later ones are larger.
    pub id: JobId,
    /// Whose tree.
    pub keyspace: KeyspaceId,
    /// Its urgency.
    pub class: Class,
    /// True while it is set aside.
    pub paused: bool,
    /// Bytes of its input that it has read.
    pub read: u64,
    /// Bytes of its input that it has not read.
    pub left: u64,
    /// When it was opened.
    pub opened_at: Duration,
    /// True if it takes tables that L0 is merged with.
    pub below_l0: bool,
}

/// What there is to do.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// The open jobs, in the order they were opened.
    pub open: Vec<OpenJob>,
    /// Compaction threads.
    pub workers: usize,
    /// L0 of each keyspace.
    pub l0: Vec<(KeyspaceId, L0Backlog)>,
    /// Keyspaces whose writers are slowed because of L0: no gate keeps theirs.
    pub slowed: Vec<KeyspaceId>,
    /// What a plan is made from, for each keyspace.
    pub trees: Vec<TreeBacklog>,
    /// Somebody waits for compactions to end: no gate keeps them.
    pub waited_for: bool,
    /// Somebody waits for background work of any kind.
    pub flushes_waited_for: bool,
}

/// A tree's part in a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeBacklog {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Bytes that have come into its memtables since the store was opened.
    pub ingested: u64,
    /// Bytes of full memtables that are not in tables yet.
    pub flush_left: u64,
    /// The first write of the oldest of them: they become tables in this order, whoseever they are.
    pub flush_order: SeqNo,
    /// How much longer they may take where they hold deletes that have a time.
    pub flush_ttl: Option<Duration>,
    /// Bytes that may come in until full memtables should be in tables.
    pub flush_room_wanted: u64,
    /// Bytes that may come in until full memtables must be in tables.
    pub flush_room_needed: u64,
    /// Bytes that may come in until writers are let in no faster than L0 drains.
    pub l0_room: u64,
    /// The same while L0 holds no more than it should: all the room there is.
    pub l0_room_full: u64,
    /// Bytes that come in between two compactions of L0.
    pub l0_round: u64,
    /// Bytes that may come in until L0 is due, beside what a job takes already.
    pub l0_due: u64,
    /// Bytes to move out of L0 that is due, and no job has.
    pub l0_pending: u64,
    /// Bytes to move below L0 that are due, and no job has.
    pub deep_pending: u64,
    /// Bytes to move because their deletes are due, that no job has.
    pub expiring: u64,
    /// The time in which they have to be.
    pub expiring_within: Duration,
    /// A job may take so long where deletes have a time.
    pub ttl: Option<Duration>,
}
