//! A trace as users hold it: it lasts until this is ended or dropped.

use std::path::Path;
use std::sync::Arc;

use super::handle::Handle;
use super::trace::{self, Summary};
use crate::base::error::Result;
use crate::db::files::trace_file::Keys;
use crate::db::store::tracing::Recording;

/// A trace under way: it ends when this is dropped, or with [`RunningTrace::end`]. Keeps the store open.
#[derive(Debug)]
pub struct RunningTrace {
    handle: Arc<Handle>,
    recording: Arc<Recording>,
}

impl RunningTrace {
    pub(crate) fn new(handle: &Arc<Handle>, path: &Path, keys: Keys) -> Result<RunningTrace> {
        handle.store.listener.check_outside()?;
        let recording = trace::start(&handle.store, path, keys)?;
        Ok(RunningTrace { handle: Arc::clone(handle), recording })
    }

    /// Ends the trace. Every operation that has ended before the call and after the trace began is in it, unless it was missed;
    /// the file is durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: the trace ended early, when that happened. What was written by then can be read.
    pub fn end(self) -> Result<Summary> {
        trace::end(&self.handle.store, &self.recording)
    }
}

impl Drop for RunningTrace {
    fn drop(&mut self) {
        // What went wrong was told as an event; `end` is how to hear of it.
        let _ = trace::end(&self.handle.store, &self.recording);
    }
}
