//! A running attempt at a compaction: stepped, paused by not being stepped, ended at any moment without losing what is
//! finished.
//!
//! ```text
//! inputs    ████████████████████████████
//! tables    [done ][done ][open   |           cut keys: where a done table ends, between two user keys
//!           └─ can be committed ─┘ └ lost, or sealed as it is, if the job yields now
//! ```
//! With each finished table the job notes how far every input has been consumed, so that a prefix can be committed exactly. A
//! stretch of which nothing is left gets such a note too, without a table.

use std::sync::Arc;

use super::merge_loop::{Bounds, MergeLoop, Progress, Stop};
use super::output::{JobContext, OutputShape};
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::{SeqNo, TableId};
use crate::compaction::commit::CommitPart;
use crate::compaction::compaction::{Compaction, InputRun, SYNCING_MAX};
use crate::compaction::output_bounds::OutputBounds;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::{RangeSource, RangeSweep};
use crate::merge::run_iterator::{ReadMode, RunIterator};
use crate::observe::memory::{Charge, MemoryClass};
use crate::table::meta::TableMeta;
use crate::table::table_cache::TableCache;
use crate::version::run::TableRef;

/// A yielding job seals its open table if it holds at least this share of a full one.
const WORTH_SEALING: f64 = 0.05;

/// A compaction being carried out.
#[derive(Debug)]
pub struct CompactionJob {
    compaction: Arc<Compaction>,
    /// Entries of all inputs.
    entries: u64,
    merge: MergeLoop<RunIterator, Note>,
    bounds: JobBounds,
    /// Finished tables, and stretches that needed none, not yet handed out for a commit.
    ready: Vec<(Option<TableMeta>, Note)>,
    /// A stretch that needs no table, ready once the tables before it are.
    passed: Option<Note>,
    /// Bytes moved since the last note.
    since_cut: u64,
    yielding: Option<Yield>,
    /// Counts its buffers, also while nobody steps it.
    charge: Charge,
    /// Tables handed out for commits.
    committed: u64,
}

/// What is noted with each table.
#[derive(Clone, Debug)]
struct Note {
    slot: usize,
    /// The table and all before it hold everything below this key.
    cut: Box<[u8]>,
    /// Entries of the inputs below the cut, where it is neither none nor all.
    consumed: Vec<(TableId, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Yield {
    keep_all: bool,
    stopped: bool,
}

impl CompactionJob {
    /// An attempt at `compaction`, seeing `snapshots`, which were listed after its inputs were claimed. It reads at most `piece` bytes at
    /// once.
    pub fn new(
        context: Arc<JobContext>,
        tables: &Arc<TableCache>,
        compaction: Arc<Compaction>,
        snapshots: Vec<SeqNo>,
        mut shape: OutputShape,
        piece: usize,
    ) -> CompactionJob {
        let mode =
            ReadMode::Compaction { class: IoClass::Background(shape.class), direct: shape.direct, piece };
        let runs = compaction
            .inputs
            .iter()
            .map(|run| RunIterator::new(run.tables.clone(), Arc::clone(tables), mode));
        let head = compaction
            .range
            .hi
            .as_deref()
            .map_or(0, |hi| crate::base::key::common_head(&compaction.range.lo, hi));
        let entries = MergingIterator::new(runs.collect(), head);
        let charge = Charge::new(&context.memory, MemoryClass::Jobs, 0);
        let bounds = JobBounds::new(Arc::clone(&compaction));
        shape.table_bytes = bounds.outputs.most_bytes();
        let ranges = range_sweep(&compaction, tables, mode.class(), &snapshots);
        CompactionJob {
            charge,
            bounds,
            merge: MergeLoop::new(context, entries, ranges, snapshots, shape),
            entries: compaction.tables().map(|t| t.meta.entries - t.consumed).sum(),
            compaction,
            ready: Vec::new(),
            passed: None,
            since_cut: 0,
            yielding: None,
            committed: 0,
        }
    }

    /// What is being attempted.
    pub fn compaction(&self) -> &Arc<Compaction> {
        &self.compaction
    }

    /// One bounded step; also answers the bytes moved, uncompressed.
    ///
    /// # Errors
    /// Any failure of reading or writing, and `Corruption` if entries went missing: the job must be discarded.
    pub fn step(&mut self, budget: u64) -> Result<(Progress, u64)> {
        let stepped = self.advance(budget);
        let inputs = self.merge.sources().iter().map(RunIterator::memory_bytes).sum::<u64>();
        self.charge.set(inputs + self.merge.output.memory_bytes());
        stepped
    }

    fn advance(&mut self, budget: u64) -> Result<(Progress, u64)> {
        if self.merge.output.is_sealing() {
            let written = self.merge.output.seal_step()?;
            return Ok((Progress::More, written));
        }
        let mut any = false;
        while let Some(done) = self.merge.output.take_done()? {
            self.ready.push((Some(done.0), done.1));
            any = true;
        }
        if self.merge.output.syncing() == 0
            && let Some(note) = self.passed.take()
        {
            self.ready.push((None, note));
            any = true;
        }
        if any {
            return Ok((Progress::TableDone, 0));
        }
        if self.merge.is_exhausted() || self.yielding.is_some_and(|y| y.stopped) {
            return self.end();
        }
        if self.merge.output.syncing() >= SYNCING_MAX {
            return Ok((Progress::Waiting, 0));
        }
        if let Some(y) = self.yielding
            && self.merge.is_between_keys()
        {
            self.stop_here(y.keep_all)?;
            return Ok((Progress::More, 0));
        }
        // A yielding job needs only the rest of one key's versions.
        let budget = if self.yielding.is_some() { 1 } else { budget };
        let (stop, moved) = self.merge.run(budget, &mut self.bounds)?;
        self.since_cut += moved;
        if stop != Stop::Budget || self.leaves_nothing() {
            self.cut()?;
        }
        Ok((Progress::More, moved))
    }

    /// Asks the job to end at the next key: with what it has, or, unless `keep_all`, without an open table that holds little.
    pub fn request_yield(&mut self, keep_all: bool) {
        self.yielding.get_or_insert(Yield { keep_all, stopped: false });
    }

    /// True if the job was asked to yield before it had read everything.
    pub fn has_yielded(&self) -> bool {
        self.yielding.is_some() && !self.merge.is_exhausted()
    }

    /// Finished tables that wait to be committed; a stretch that needed none, as long as a table, counts as one.
    pub fn ready_parts(&self) -> usize {
        self.ready.len()
    }

    /// What can be committed now. `finished`: everything was read, so that the inputs are consumed whole. `ends`: the job goes no
    /// further.
    pub fn take_commit(&mut self, finished: bool, ends: bool) -> Option<CommitPart> {
        let last = self.ready.last().map(|(_, note)| note.clone());
        if !finished && last.is_none() {
            return None;
        }
        if let Some(last) = self.ready.iter().rev().find_map(|(meta, _)| meta.as_ref()) {
            self.merge.output.keep_cached(last.id, usize::MAX);
        }
        let mut outputs = vec![Vec::new(); self.compaction.slots.len()];
        for (meta, note) in std::mem::take(&mut self.ready) {
            self.committed += u64::from(meta.is_some());
            if let Some(slot) = outputs.get_mut(note.slot) {
                slot.extend(meta.map(Arc::new));
            }
        }
        Some(match last {
            Some(note) if !finished => {
                CommitPart { outputs, cut: Some(note.cut), consumed: note.consumed, ends }
            }
            _ => CommitPart { outputs, cut: None, consumed: Vec::new(), ends: true },
        })
    }

    /// A part was committed, and `rest` is the compaction without the inputs which that consumed: the job holds those no longer, so
    /// that their files can go while it runs.
    pub fn let_go(&mut self, rest: Arc<Compaction>) {
        for (run, left) in self.merge.release_passed().iter_mut().zip(&rest.inputs) {
            run.release_before(left.tables.first().map(TableRef::id));
        }
        self.bounds.compaction = Arc::clone(&rest);
        self.compaction = rest;
    }

    /// Bytes of the inputs read so far, by the share of their entries.
    pub fn bytes_read(&self) -> u64 {
        let (bytes, read) = (u128::from(self.compaction.input_bytes), u128::from(self.merge.counts.read));
        (bytes * read / u128::from(self.entries.max(1))) as u64
    }

    /// Tables handed out for commits so far.
    pub fn tables_committed(&self) -> u64 {
        self.committed
    }

    /// Bytes written for tables, committed or not.
    pub fn bytes_written(&self) -> u64 {
        self.merge.output.bytes_written()
    }

    /// Bytes of files read and written so far.
    pub fn bytes_moved(&self) -> u64 {
        self.bytes_read() + self.merge.output.file_bytes()
    }

    /// Ends without what was not committed: its files are removed. Answers the bytes of work lost.
    pub fn abandon(&mut self) -> (u64, Result<()>) {
        let lost: u64 = self.ready.iter().flat_map(|(meta, _)| meta).map(|meta| meta.bytes).sum::<u64>()
            + self.merge.output.unclaimed_bytes();
        let ids = self.ready.drain(..).filter_map(|(meta, _)| meta).map(|meta| meta.id).collect();
        (lost, self.merge.output.abandon(ids))
    }

    fn cut(&mut self) -> Result<()> {
        let slot = self.bounds.outputs.slot_of(self.merge.last_position());
        let cut = self.merge.cut_key()?;
        let consumed = self.merge.sources().iter().filter_map(|run| run.consumed_below(&cut)).collect();
        let note = Note { slot, cut, consumed };
        self.since_cut = 0;
        self.passed = None;
        self.bounds.outputs.cut();
        if self.merge.output.is_open() {
            self.merge.output.cut(note);
        } else if !self.merge.is_exhausted() {
            self.passed = Some(note);
        }
        Ok(())
    }

    /// True between two keys if so much was read since the last note that it could have been a table, and nothing of it is left.
    fn leaves_nothing(&self) -> bool {
        self.since_cut >= self.compaction.table_bytes
            && !self.merge.output.is_open()
            && !self.merge.owes_a_piece()
            && self.merge.is_between_keys()
    }

    fn stop_here(&mut self, keep_all: bool) -> Result<()> {
        let worth = self.compaction.table_bytes as f64 * WORTH_SEALING;
        let output = &self.merge.output;
        let keeps = if output.is_open() {
            keep_all || output.open_bytes() as f64 >= worth
        } else {
            self.since_cut > 0 && (keep_all || !self.merge.owes_a_piece())
        };
        if keeps {
            self.cut()?;
        }
        if let Some(y) = &mut self.yielding {
            y.stopped = true;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(Progress, u64)> {
        if self.merge.output.syncing() > 0 {
            return Ok((Progress::Waiting, 0));
        }
        if self.merge.is_exhausted() {
            self.check_counts()?;
        }
        Ok((Progress::Finished, 0))
    }

    /// Entries in = entries out + entries dropped for a reason, and all of the inputs were read (V10).
    fn check_counts(&self) -> Result<()> {
        let expected = self.entries;
        let counts = self.merge.counts;
        if counts.read == expected && counts.read == counts.kept + counts.hidden + counts.spent {
            return Ok(());
        }
        let first = self.compaction.tables().next().map_or(TableId(0), TableRef::id);
        let what =
            format!("a compaction of it and others read {} of {expected} entries: {counts:?}", counts.read);
        Err(Error::corruption(format!("{:06}.sst", first.0), 0, what))
    }
}

/// The inputs' range tombstones, if they have any: in pieces that end where another target begins, and where it changes
/// whether there may be older data (I4).
fn range_sweep(
    compaction: &Compaction,
    tables: &Arc<TableCache>,
    class: IoClass,
    snapshots: &[SeqNo],
) -> Option<RangeSweep> {
    let of_run = |run: &InputRun| RangeSource::of_run(&run.tables, tables, class);
    let sources = compaction.inputs.iter().filter_map(of_run).collect();
    let targets = compaction.slots.iter().map(|slot| Some(&slot.range.lo));
    let older = compaction.older.iter().flat_map(|r| [Some(&r.lo), r.hi.as_ref()]);
    RangeSweep::new(
        sources,
        snapshots.to_vec(),
        targets.chain(older).flatten().map(|key| Box::from(&**key)).collect(),
    )
}

/// Where a compaction's tables must end, and what it knows of older data.
#[derive(Debug)]
struct JobBounds {
    compaction: Arc<Compaction>,
    outputs: OutputBounds,
}

impl JobBounds {
    fn new(compaction: Arc<Compaction>) -> JobBounds {
        JobBounds { outputs: OutputBounds::new(&compaction), compaction }
    }
}

impl Bounds for JobBounds {
    type Note = Note;

    fn cuts_before(&mut self, key: &[u8], open_bytes: u64) -> bool {
        self.outputs.cuts_before(key, open_bytes)
    }

    fn may_have_older(&self, key: &[u8]) -> bool {
        self.compaction.may_have_older(key)
    }
}
