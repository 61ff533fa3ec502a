//! Open jobs as others see them: for reports, which change nothing.

use std::time::Duration;

use crate::base::class::Class;
use crate::base::units::{JobId, KeyspaceId};
use crate::db::store::open_job::OpenJob;
use crate::db::store::state::Store;
use crate::scheduler::decide::Aside;

/// A job that holds its claims.
#[derive(Clone, Debug)]
pub struct JobState {
    /// Its id.
    pub id: JobId,
    /// Whose tree.
    pub keyspace: KeyspaceId,
    /// Its urgency.
    pub class: Class,
    /// The level its seed came from, and the one its output goes to.
    pub levels: (usize, usize),
    /// Bytes of its input.
    pub bytes: u64,
    /// Bytes of its input that it has read.
    pub read_bytes: u64,
    /// Why it was picked.
    pub reason: String,
    /// What it does now.
    pub state: &'static str,
    /// Since it was picked.
    pub open_for: Duration,
    /// In what time the plan wants it done; `None` where nothing is planned, or no time is left.
    pub due_in: Option<Duration>,
}

/// The open jobs, most urgent first.
pub fn job_state(store: &Store) -> Vec<JobState> {
    let now = store.clock.now();
    let state = store.background.lock();
    let is_held = state.limiter.is_spent(now);
    let mut jobs: Vec<JobState> = state
        .jobs
        .iter()
        .map(|open| JobState {
            id: open.id,
            keyspace: open.keyspace.id,
            class: open.class,
            levels: (open.compaction.level, open.compaction.target_level),
            bytes: open.compaction.input_bytes,
            read_bytes: open.read_bytes.min(open.compaction.input_bytes),
            reason: open.compaction.reason.clone(),
            state: words_for(open, is_held),
            open_for: now.saturating_sub(open.picked_at),
            due_in: Some(open.due).filter(|due| *due < Duration::MAX).and_then(|due| due.checked_sub(now)),
        })
        .collect();
    drop(state);
    jobs.sort_by_key(|job| (job.class, job.id));
    jobs
}

fn words_for(open: &OpenJob, is_held: bool) -> &'static str {
    match open {
        _ if open.lets_go.is_some() => "asked to yield",
        _ if open.waiting => "waiting for a sync",
        _ if open.aside == Some(Aside::Gate) => "set aside while the load is high",
        _ if open.paused => "set aside for a more urgent job",
        _ if open.job.is_none() => "running",
        _ if open.waits_since.is_none() && is_held => "held back by the schedule",
        _ if open.waits_since.is_none() => "waiting for its next step",
        _ => "not begun",
    }
}
