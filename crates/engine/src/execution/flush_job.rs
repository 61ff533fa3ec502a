//! A flush: an immutable memtable becomes a run of tables. Stepped like every job; keeps every tombstone, because what it hides
//! is below.

use std::sync::Arc;

use super::merge_loop::{Bounds, MergeLoop, Progress, Stop};
use super::output::{JobContext, OutputShape};
use crate::base::error::Result;
use crate::base::units::SeqNo;
use crate::merge::merging_iterator::MergingIterator;
use crate::table::meta::TableMeta;
use crate::write::memtable::{Memtable, MemtableCursor};

/// A running flush of one memtable, which takes no more writes.
#[derive(Debug)]
pub struct FlushJob {
    memtable: Arc<Memtable>,
    merge: MergeLoop<MemtableCursor, ()>,
    done: Vec<TableMeta>,
}

/// A flush cuts by size only, and knows nothing of what is below.
struct NoBounds;

impl Bounds for NoBounds {
    type Note = ();

    fn must_cut_before(&mut self, _key: &[u8]) -> bool {
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
        FlushJob { memtable, merge: MergeLoop::new(context, entries, snapshots, shape), done: Vec::new() }
    }

    /// The memtable.
    pub fn memtable(&self) -> &Arc<Memtable> {
        &self.memtable
    }

    /// One bounded step; also answers the bytes moved.
    pub fn step(&mut self, budget: u64) -> Result<(Progress, u64)> {
        if self.merge.output.is_sealing() {
            self.merge.output.seal_step()?;
            return Ok((Progress::More, budget));
        }
        while let Some((meta, ())) = self.merge.output.take_done()? {
            self.done.push(meta);
        }
        if self.merge.is_exhausted() {
            let waits = self.merge.output.syncing() > 0;
            return Ok((if waits { Progress::Waiting } else { Progress::Finished }, 0));
        }
        let (stop, moved) = self.merge.run(budget, &mut NoBounds)?;
        if stop != Stop::Budget {
            self.merge.output.cut(());
        }
        Ok((Progress::More, moved))
    }

    /// The tables, once finished.
    pub fn take_tables(&mut self) -> Vec<TableMeta> {
        std::mem::take(&mut self.done)
    }

    /// Removes the files of a flush that failed.
    pub fn abandon(&mut self) -> Result<()> {
        let ids = self.done.drain(..).map(|meta| meta.id).collect();
        self.merge.output.abandon(ids)
    }
}
