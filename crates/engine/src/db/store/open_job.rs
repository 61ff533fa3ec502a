//! An open job as threads see it: what it is, whether it is stepped, and what whoever asked for it by hand learns of it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::keyspace_state::KeyspaceState;
use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::locks::Mutex;
use crate::base::units::{JobId, TableId};
use crate::compaction::compaction::Compaction;
use crate::execution::compaction_job::CompactionJob;
use crate::scheduler::conflict::LetsGo;
use crate::scheduler::decide::Aside;

/// A job that holds its claims.
#[derive(Debug)]
pub struct OpenJob {
    /// Its id.
    pub id: JobId,
    /// Whose tree.
    pub keyspace: Arc<KeyspaceState>,
    /// Its urgency.
    pub class: Class,
    /// What was decided.
    pub compaction: Arc<Compaction>,
    /// Here while nobody steps it.
    pub job: Option<Box<CompactionJob>>,
    /// True while it waits for a sync.
    pub waiting: bool,
    /// Asked to let go of its claims at its next step, and how.
    pub lets_go: Option<LetsGo>,
    /// Since when it waits for its first step: the pick or, of L0, when it was due and lacked only a place. `None` once it has had it.
    pub waits_since: Option<Duration>,
    /// Set aside, and counted as such, until it goes on, lets go or is thrown away.
    pub paused: bool,
    /// Why it is not to be stepped, if it is not.
    pub aside: Option<Aside>,
    /// Bytes it has moved beside others, for orders that share.
    pub served: u64,
    /// When it was picked.
    pub picked_at: Duration,
    /// By when the schedule wants it done.
    pub due: Duration,
    /// When it was stepped last, or opened.
    pub stepped_at: Duration,
    /// First input table, which names the seed.
    pub seed: Option<TableId>,
    /// True if it takes tables that L0 is merged with.
    pub below_l0: bool,
    /// How much of the bytes it moves it takes out of L0.
    pub l0_share: f64,
    /// Bytes of its input that it had read when it was put back last.
    pub read_bytes: u64,
    /// Commit after each table: the disk is nearly full.
    pub sliced: bool,
    /// Told of by whoever asked for it.
    pub watch: Option<Arc<JobWatch>>,
}

impl OpenJob {
    /// Bytes of its input that it has not read yet.
    pub fn bytes_left(&self) -> u64 {
        self.compaction.input_bytes.saturating_sub(self.read_bytes)
    }
}

/// What a job that was asked for has come to so far.
#[derive(Debug, Default)]
pub struct JobWatch(Mutex<Watched>);

/// See [`JobWatch`].
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Bytes of its inputs that it has read.
    pub bytes_read: u64,
    /// Bytes that it has written.
    pub bytes_written: u64,
    /// Tables that it has committed.
    pub tables_written: u64,
    /// True once it has done all of it: neither let go before, nor thrown away.
    pub is_whole: bool,
    /// What it failed of.
    pub failed: Option<Error>,
}

impl JobWatch {
    /// What there is to know.
    pub fn get(&self) -> Watched {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what there is to know.
    pub fn note(&self, note: impl FnOnce(&mut Watched)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
