//! A flush: an immutable memtable becomes a run of tables. Stepped like every job; keeps every tombstone, because what it hides
//! is below.

use std::sync::Arc;

use super::merge_loop::{Bounds, MergeLoop, Progress, Stop};
use super::output::{JobContext, OutputShape};
use crate::base::error::Result;
use crate::base::units::SeqNo;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::{RangeSource, RangeSweep};
use crate::observe::memory::{Charge, MemoryClass};
use crate::table::meta::TableMeta;
use crate::write::memtable::{Memtable, MemtableCursor};

/// Blocks that the cache takes over in a step: about as long as the other steps.
const CACHED_AT_A_STEP: usize = 256;

/// A running flush of one memtable, which takes no more writes.
#[derive(Debug)]
pub struct FlushJob {
    memtable: Arc<Memtable>,
    merge: MergeLoop<MemtableCursor, ()>,
    done: Vec<TableMeta>,
    charge: Charge,
}

/// A flush cuts by size only, and knows nothing of what is below.
struct NoBounds;

impl Bounds for NoBounds {
    type Note = ();

    fn cuts_before(&mut self, _key: &[u8], _open_bytes: u64) -> bool {
        false
    }

    fn may_have_older(&self, _key: &[u8]) -> bool {
        true
    }
}

impl FlushJob {
    /// A flush of `memtable`, seeing `snapshots`, which were listed after its last write was published.
    pub fn new(
        context: Arc<JobContext>,
        memtable: Arc<Memtable>,
        snapshots: Vec<SeqNo>,
        shape: OutputShape,
    ) -> FlushJob {
        let head = memtable.common_head().len();
        let entries = MergingIterator::new(vec![memtable.cursor()], head);
        let ranges = memtable.ranges().pieces().into_iter().map(RangeSource::of_memtable).collect();
        let ranges = RangeSweep::new(ranges, snapshots.clone(), Vec::new());
        let charge = Charge::new(&context.memory, MemoryClass::Jobs, 0);
        let merge = MergeLoop::new(context, entries, ranges, snapshots, shape);
        FlushJob { memtable, merge, done: Vec::new(), charge }
    }

    /// The memtable.
    pub fn memtable(&self) -> &Arc<Memtable> {
        &self.memtable
    }

    /// One bounded step; also answers the bytes written.
    pub fn step(&mut self, budget: u64) -> Result<(Progress, u64)> {
        let before = self.merge.output.file_bytes();
        let stepped = self.advance(budget);
        self.charge.set(self.merge.output.memory_bytes());
        Ok((stepped?, self.merge.output.file_bytes().saturating_sub(before)))
    }

    /// Bytes of the memtable that are not in tables yet; the last eighth stands for sealing, syncs and the installation.
    pub fn bytes_left(&self) -> u64 {
        let bytes = self.memtable.bytes();
        let done = self.merge.counts.read as f64 / self.memtable.entries().max(1) as f64;
        bytes - (bytes as f64 * done.min(1.0) * 7.0 / 8.0) as u64
    }

    fn advance(&mut self, budget: u64) -> Result<Progress> {
        if self.merge.output.is_sealing() {
            self.merge.output.seal_step()?;
            return Ok(Progress::More);
        }
        while let Some((meta, ())) = self.merge.output.take_done()? {
            self.done.push(meta);
        }
        if self.merge.is_exhausted() {
            if self.merge.output.syncing() > 0 {
                return Ok(Progress::Waiting);
            }
            let keeps = |last: &TableMeta| self.merge.output.keep_cached(last.id, CACHED_AT_A_STEP);
            let kept = self.done.last().is_none_or(keeps);
            return Ok(if kept { Progress::Finished } else { Progress::More });
        }
        let (stop, _) = self.merge.run(budget, &mut NoBounds)?;
        if stop != Stop::Budget {
            self.merge.cut_key()?;
            self.merge.output.cut(());
        }
        Ok(Progress::More)
    }

    /// The tables, once finished, to be installed.
    pub fn take_tables(&mut self) -> Vec<TableMeta> {
        std::mem::take(&mut self.done)
    }

    /// Removes the files of a flush that failed.
    pub fn abandon(&mut self) -> Result<()> {
        let ids = self.done.drain(..).map(|meta| meta.id).collect();
        self.merge.output.abandon(ids)
    }
}
