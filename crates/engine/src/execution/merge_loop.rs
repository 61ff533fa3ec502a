//! The loop that flushes and compactions share: entries in, the kept ones out, in bounded steps.
//!
//! A step moves at most its budget of bytes or runs for 250 µs, whichever comes first, and ends between two entries. A table
//! is cut only between two user keys, so all versions of a key stay together (I6).

use std::sync::Arc;
use std::time::Duration;

use super::output::{JobContext, OutputShape, TableOutput};
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::units::SeqNo;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::retention::{RetentionFilter, Verdict};

/// A step's time; together with its byte budget it bounds how long a more urgent job waits.
pub const STEP_TIME: Duration = Duration::from_micros(250);

/// Entries between two looks at the clock.
const CLOCK_EVERY: u32 = 64;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// Nothing to do before a sync is done.
    Waiting,
    /// At least one more table is whole and durable: a prefix can be committed.
    TableDone,
    /// Everything is whole and durable.
    Finished,
}

/// Says where tables must be cut and what older data there may be. The job's knowledge of its bounds.
pub trait Bounds {
    /// What is noted with each table.
    type Note;
    /// True if the open table must end before `key`: another target, or a gap that no input covers.
    fn must_cut_before(&mut self, key: &[u8]) -> bool;
    /// True if older data for `key` may lie outside the inputs.
    fn may_have_older(&self, key: &[u8]) -> bool;
}

/// Counts of entries, for the check that none was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Read.
    pub read: u64,
    /// Written.
    pub kept: u64,
    /// Left out because a newer one hides them.
    pub hidden: u64,
    /// Tombstones left out because nothing is left to hide.
    pub spent: u64,
}

/// A merge being stepped.
#[derive(Debug)]
pub struct MergeLoop<I, N> {
    context: Arc<JobContext>,
    entries: MergingIterator<I>,
    retention: RetentionFilter,
    /// The tables being written.
    pub output: TableOutput<N>,
    /// What has been read and written.
    pub counts: EntryCounts,
    started: bool,
    exhausted: bool,
}

/// Why the loop stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The budget or the time is used up.
    Budget,
    /// The open table must be cut here: the caller cuts, with its note, and goes on.
    Cut,
    /// No entries are left.
    End,
}

impl<I: InternalIterator, N> MergeLoop<I, N> {
    /// A merge of `entries`, seeing `snapshots` (listed after the inputs were fixed).
    pub fn new(
        context: Arc<JobContext>,
        entries: MergingIterator<I>,
        snapshots: Vec<SeqNo>,
        shape: OutputShape,
    ) -> MergeLoop<I, N> {
        MergeLoop {
            output: TableOutput::new(Arc::clone(&context), shape),
            context,
            entries,
            retention: RetentionFilter::new(snapshots),
            counts: EntryCounts::default(),
            started: false,
            exhausted: false,
        }
    }

    /// Merges until something stops it; also answers the bytes moved. Nothing may be sealing.
    pub fn run(&mut self, budget: u64, bounds: &mut impl Bounds<Note = N>) -> Result<(Stop, u64)> {
        let deadline = self.context.clock.now() + STEP_TIME;
        if !self.started {
            self.entries.seek_to_first()?;
            self.started = true;
        }
        let (mut moved, mut since_clock) = (0, 0);
        while self.entries.valid() {
            let (key, trailer) = (self.entries.key(), self.entries.trailer());
            if self.retention.is_new_key(key) {
                let must_cut = bounds.must_cut_before(key);
                if self.output.is_open() && (must_cut || self.output.is_full()) {
                    return Ok((Stop::Cut, moved));
                }
            }
            if since_clock >= CLOCK_EVERY {
                since_clock = 0;
                if moved >= budget || self.context.clock.now() >= deadline {
                    return Ok((Stop::Budget, moved));
                }
            }
            since_clock += 1;
            let value = self.entries.value();
            let bytes = (key.len() + value.len() + 8) as u64;
            moved += bytes;
            self.counts.read += 1;
            match self.retention.judge(key, trailer, || bounds.may_have_older(key))? {
                Verdict::Keep => {
                    self.output.add(key, trailer, value)?;
                    moved += bytes;
                    self.counts.kept += 1;
                }
                Verdict::Hidden => self.counts.hidden += 1,
                Verdict::Spent => self.counts.spent += 1,
            }
            self.entries.next()?;
        }
        self.exhausted = true;
        Ok((Stop::End, moved))
    }

    /// True once every entry has been read.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The user key read last: everything up to it is in tables cut so far or the open one.
    pub fn last_key(&self) -> &[u8] {
        self.retention.last_key()
    }

    /// True if the cursor stands between two user keys, so that the work could end here.
    pub fn is_between_keys(&self) -> bool {
        !self.entries.valid() || self.retention.is_new_key(self.entries.key())
    }

    /// The sources, for how far each has come.
    pub fn sources(&self) -> &[I] {
        self.entries.sources()
    }
}
