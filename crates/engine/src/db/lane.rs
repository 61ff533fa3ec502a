//! The lane for what nobody should wait for: syncs of finished tables, sealing and preparing log files, unlinks.
//!
//! One thread. Without threads (tests on one thread) a sync is done where it is asked for, and `run_once` does the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::error::Result;
use crate::execution::sync_lane::{SyncLane, SyncTicket};
use crate::storage::file_system::Syncer;

/// The lane's queue.
#[derive(Debug, Default)]
pub struct Lane {
    state: Mutex<LaneState>,
    changed: Condvar,
    /// True if a thread serves the lane.
    threaded: bool,
}

#[derive(Debug, Default)]
struct LaneState {
    syncs: VecDeque<(Arc<dyn Syncer>, SyncTicket)>,
    poked: bool,
    stopped: bool,
}

/// How often the lane looks for unlinkable tables when nobody pokes it.
const IDLE: Duration = Duration::from_millis(500);

impl Lane {
    /// A lane, served by a thread or not.
    pub fn new(threaded: bool) -> Arc<Lane> {
        Arc::new(Lane { threaded, ..Lane::default() })
    }

    /// There is something to look after.
    pub fn poke(&self) {
        self.lock().poked = true;
        self.changed.notify_one();
    }

    /// No more work; the thread ends when the queue is empty.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_one();
    }

    /// The thread's body: `synced` after each sync, `upkeep` when poked and now and then.
    pub fn run(&self, synced: impl Fn(), upkeep: impl Fn()) {
        loop {
            let next = {
                let mut state = self.lock();
                if state.syncs.is_empty() && !state.poked && !state.stopped {
                    state = self.changed.wait_timeout(state, IDLE).map_or_else(|e| e.into_inner().0, |s| s.0);
                }
                match state.syncs.pop_front() {
                    None if state.stopped => return,
                    None => {
                        state.poked = false;
                        None
                    }
                    sync => sync,
                }
            };
            if let Some((syncer, ticket)) = next {
                ticket.finish(syncer.sync());
                synced();
            } else {
                upkeep();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SyncLane for Lane {
    fn submit(&self, syncer: Arc<dyn Syncer>) -> SyncTicket {
        let ticket = SyncTicket::default();
        let mut state = self.lock();
        if self.threaded && !state.stopped {
            state.syncs.push_back((syncer, ticket.clone()));
            drop(state);
            self.changed.notify_one();
        } else {
            drop(state);
            let outcome: Result<()> = syncer.sync();
            ticket.finish(outcome);
        }
        ticket
    }
}
