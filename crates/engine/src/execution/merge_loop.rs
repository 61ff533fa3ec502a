//! The loop that flushes and compactions share: entries in, the kept ones out, in bounded steps.
//!
//! A step ends with the entry that uses up its budget of bytes, or after 250 µs, whichever comes first. A table is cut only
//! between two user keys, so all versions of a key stay together (I6). Range tombstones come as pieces in the order of their
//! keys; a piece goes into the table that is open at its end, and is cut where that is cut:
//!
//! ```text
//! entries   a   c   d   g       k   p
//! pieces      [b─────────────j)
//! tables    └─────────┘└────────────┘       cut before g: the first has [b──g), the second [g──j)
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::output::{JobContext, OutputShape, TableOutput};
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key_range::after;
use crate::base::units::SeqNo;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::{Piece, RangeSweep};
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
    /// True if the open table, of `open_bytes`, must end before `key`: another target, a gap that no input covers, or a good
    /// place to end.
    fn cuts_before(&mut self, key: &[u8], open_bytes: u64) -> bool;
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
    /// Nothing where no input has a range tombstone.
    ranges: Option<Box<Ranges>>,
    retention: RetentionFilter,
    /// The tables being written.
    pub output: TableOutput<N>,
    /// What has been read and written.
    pub counts: EntryCounts,
    started: bool,
    exhausted: bool,
}

/// The range tombstones of a merge, and how far it has come with them.
#[derive(Debug)]
struct Ranges {
    sweep: RangeSweep,
    /// The piece that comes next or that the merge is in; none at the end.
    piece: Option<Piece>,
    /// True if the merge is in it: its cut was decided, and its tombstones are judged.
    entered: bool,
    /// How many of its tombstones stay.
    kept: usize,
    /// Where the piece entered last began: the open table has nothing above this and the last key.
    last_lo: Vec<u8>,
    /// Where the last piece written ends.
    last_hi: Vec<u8>,
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
    /// A merge of `entries` and range tombstones, seeing `snapshots` (listed after the inputs were fixed).
    pub fn new(
        context: Arc<JobContext>,
        entries: MergingIterator<I>,
        ranges: Option<RangeSweep>,
        snapshots: Vec<SeqNo>,
        shape: OutputShape,
    ) -> MergeLoop<I, N> {
        MergeLoop {
            output: TableOutput::new(Arc::clone(&context), shape),
            context,
            entries,
            ranges: ranges.map(|sweep| Box::new(Ranges::new(sweep))),
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
            if let Some(ranges) = &mut self.ranges {
                ranges.next_piece()?;
            }
            self.started = true;
        }
        let (mut moved, mut since_clock) = (0, 0);
        loop {
            // One entry may be large; the time of most is not worth a look at the clock.
            let late = since_clock >= CLOCK_EVERY && self.context.clock.now() >= deadline;
            if moved >= budget || late {
                return Ok((Stop::Budget, moved));
            }
            since_clock = since_clock % CLOCK_EVERY + 1;
            if let Some(ranges) = &mut self.ranges
                && ranges.comes_before(self.entries.valid().then(|| self.entries.key()))
            {
                if self.output.is_open() && ranges.cuts_at_start(bounds, &self.output) {
                    return Ok((Stop::Cut, moved));
                }
                moved += ranges.advance(&self.retention, bounds, &mut self.output)?;
                continue;
            }
            if !self.entries.valid() {
                break;
            }
            let (key, trailer) = (self.entries.key(), self.entries.trailer());
            if self.retention.is_new_key(key) {
                let open_bytes = self.output.open_bytes();
                let cut = bounds.cuts_before(key, open_bytes);
                if self.output.is_open() && (cut || self.output.is_full_at(open_bytes)) {
                    return Ok((Stop::Cut, moved));
                }
                if !self.output.is_open() {
                    self.output.lies_above(bounds.may_have_older(key));
                }
            }
            let value = self.entries.value();
            let bytes = (key.len() + value.len() + 8) as u64;
            moved += bytes;
            self.counts.read += 1;
            let covering = self.ranges.as_ref().map_or(&[][..], |ranges| ranges.covering());
            match self.retention.judge(key, trailer, covering, || bounds.may_have_older(key))? {
                Verdict::Keep => {
                    self.output.add(key, trailer, value, self.entries.is_in_memory())?;
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

    /// True once every entry and every range tombstone has been read.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// A key of the open table's stretch: the last one that was read, or where the last piece began.
    pub fn last_position(&self) -> &[u8] {
        let key = self.retention.last_key();
        self.ranges.as_ref().map_or(key, |ranges| key.max(&ranges.last_lo))
    }

    /// Prepares a cut between two user keys, here: writes what the open table has of the piece that the merge is in. Answers the
    /// key below which everything is then done.
    pub fn cut_key(&mut self) -> Result<Box<[u8]>> {
        let Some(ranges) = &mut self.ranges else { return Ok(after(self.retention.last_key())) };
        let next = self.entries.valid().then(|| self.entries.key());
        match ranges.next_position(next).map(Box::<[u8]>::from) {
            Some(at) => {
                ranges.write_until(&at, &mut self.output)?;
                Ok(at)
            }
            None => Ok(after(self.retention.last_key()).max(ranges.last_hi.as_slice().into())),
        }
    }

    /// True if the cursor stands between two user keys, so that the work could end here.
    pub fn is_between_keys(&self) -> bool {
        !self.entries.valid() || self.retention.is_new_key(self.entries.key())
    }

    /// True if range tombstones that stay lie below the cursor and in no table yet: a cut here writes them.
    pub fn owes_a_piece(&self) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.entered && ranges.kept > 0)
    }

    /// The sources, to have them let go of what is behind them; the range tombstones let go here.
    pub fn release_passed(&mut self) -> &mut [I] {
        if let Some(ranges) = &mut self.ranges {
            ranges.sweep.release_passed();
        }
        self.entries.sources_mut()
    }

    /// The sources, for how far each has come.
    pub fn sources(&self) -> &[I] {
        self.entries.sources()
    }
}

impl Ranges {
    fn new(sweep: RangeSweep) -> Ranges {
        let (last_lo, last_hi) = (Vec::new(), Vec::new());
        Ranges { sweep, piece: None, entered: false, kept: 0, last_lo, last_hi }
    }

    fn next_piece(&mut self) -> Result<()> {
        self.entered = false;
        let mut piece = self.piece.take().unwrap_or_default();
        if self.sweep.next(&mut piece)? {
            self.piece = Some(piece);
        }
        Ok(())
    }

    /// True if the piece is to be entered or left before the entry at `key`; at the end of the entries always, while there is one.
    fn comes_before(&self, key: Option<&[u8]>) -> bool {
        self.next_position(None).is_some_and(|at| key.is_none_or(|key| at <= key))
    }

    /// Where the merge goes on: at the piece's start or its end, or at the entry at `key`.
    fn next_position<'a>(&'a self, key: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let of_piece = self.piece.as_ref().map(|p| if self.entered { &p.hi[..] } else { &p.lo[..] });
        match (of_piece, key) {
            (Some(piece), Some(key)) => Some(piece.min(key)),
            (piece, key) => piece.or(key),
        }
    }

    /// True if the open table must end before the piece.
    fn cuts_at_start<N>(&self, bounds: &mut impl Bounds<Note = N>, output: &TableOutput<N>) -> bool {
        let open_bytes = output.open_bytes();
        match self.piece.as_ref().filter(|_| !self.entered) {
            Some(piece) => bounds.cuts_before(&piece.lo, open_bytes) || output.is_full_at(open_bytes),
            None => false,
        }
    }

    /// Enters the piece, or leaves it, which writes it. Answers the bytes moved.
    fn advance<N>(
        &mut self,
        retention: &RetentionFilter,
        bounds: &mut impl Bounds<Note = N>,
        output: &mut TableOutput<N>,
    ) -> Result<u64> {
        let Some(piece) = &self.piece else { return Ok(0) };
        if self.entered {
            let hi = piece.hi.clone();
            let bytes = (piece.lo.len() + hi.len() + 8 * self.kept) as u64;
            self.write_until(&hi, output)?;
            self.next_piece()?;
            return Ok(bytes);
        }
        // Without an open table nobody has asked yet, and the bounds must know where the merge is.
        bounds.cuts_before(&piece.lo, 0);
        let is_above = bounds.may_have_older(&piece.lo);
        if !output.is_open() {
            output.lies_above(is_above);
        }
        self.kept = retention.keep_ranges(&piece.seqs, is_above);
        self.last_lo.clear();
        self.last_lo.extend_from_slice(&piece.lo);
        self.entered = true;
        Ok(0)
    }

    /// Writes what of the entered piece is below `at`; the rest is the piece from then on.
    fn write_until<N>(&mut self, at: &[u8], output: &mut TableOutput<N>) -> Result<()> {
        let Some(piece) = self.piece.as_mut().filter(|p| self.entered && p.lo[..] < *at) else {
            return Ok(());
        };
        let hi = piece.hi.as_slice().min(at);
        let kept = piece.seqs.get(..self.kept).unwrap_or_default();
        if !kept.is_empty() {
            output.add_range(&piece.lo, hi, kept)?;
            self.last_hi.clear();
            self.last_hi.extend_from_slice(hi);
        }
        piece.lo.clear();
        piece.lo.extend_from_slice(at);
        Ok(())
    }

    /// The tombstones over the entry that comes next.
    fn covering(&self) -> &[SeqNo] {
        self.piece.as_ref().filter(|_| self.entered).map_or(&[], |piece| &piece.seqs)
    }
}
