//! Syncs off the jobs' path: a job hands a file to the lane and goes on stepping; the ticket says when it is durable.
//!
//! One failure is final for a file: the ticket keeps the error, and nobody syncs that file again.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use crate::base::class::Class;
use crate::base::error::Result;
use crate::storage::file_system::Syncer;

/// Where files go to be synced.
pub trait SyncLane: Send + Sync + Debug {
    /// Takes a file, which comes before those of less urgent classes; returns at once or, where there is no lane of its own, when it is synced.
    fn submit(&self, class: Class, syncer: Arc<dyn Syncer>) -> SyncTicket;
}

/// The state of one submitted sync.
#[derive(Clone, Debug, Default)]
pub struct SyncTicket(Arc<OnceLock<Result<()>>>);

impl SyncTicket {
    /// The outcome, once there is one.
    pub fn outcome(&self) -> Option<&Result<()>> {
        self.0.get()
    }

    /// Notes the outcome; the first one counts.
    pub fn finish(&self, outcome: Result<()>) {
        self.0.get_or_init(|| outcome);
    }
}

/// Syncs where it is asked: for tests and simulations on one thread.
#[derive(Debug)]
pub struct InlineSyncLane;

impl SyncLane for InlineSyncLane {
    fn submit(&self, _: Class, syncer: Arc<dyn Syncer>) -> SyncTicket {
        let ticket = SyncTicket::default();
        ticket.finish(syncer.sync());
        ticket
    }
}
