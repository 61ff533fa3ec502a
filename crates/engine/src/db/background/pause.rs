//! Pausing all background work: no flush, no compaction and no unlink goes on until it is resumed; nothing is lost.
//!
//! Jobs that are open stay open, with their claims and what they have written, and go on where they stopped. Syncs of what is
//! written and the log's upkeep go on, for writers need them. Writers are slowed down as they are when nothing drains, and never
//! stopped. Calls that only background work could finish answer `Error::Paused` at once.

use std::sync::Arc;

use super::handle::Handle;
use crate::base::error::Result;

/// Background work is paused while this lives. Several may: work goes on when the last one is dropped, or
/// the store is closed. Keeps the store open.
#[derive(Debug)]
pub struct Paused {
    handle: Arc<Handle>,
}

impl Paused {
    /// Returns when no step of background work is under way any more, which takes milliseconds.
    pub(crate) fn new(handle: &Arc<Handle>) -> Result<Paused> {
        handle.store.listener.check_outside()?;
        handle.store.background.pause();
        Ok(Paused { handle: Arc::clone(handle) })
    }

    /// The same as dropping it.
    pub fn resume(self) {}
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.handle.store.background.resume();
    }
}
