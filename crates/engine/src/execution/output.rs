//! What a job writes: a row of tables, cut by size, at bounds, and where asked; sealed in steps; synced by the lane.
//!
//! ```text
//! add ─► open ─(cut)─► sealing ─(steps)─► syncing ─(lane)─► done, oldest first
//! ```
//! At most one table is open or being sealed; several may wait for their sync while the next is written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sync_lane::{SyncLane, SyncTicket};
use crate::base::class::{Class, IoClass};
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::units::{SeqNo, TableId};
use crate::hotness::read_profile::ReadProfile;
use crate::observe::memory::MemoryBudget;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::table_files::TableFiles;
use crate::table::block_cache::BlockCache;
use crate::table::compression::Compression;
use crate::table::meta::{Born, TableMeta};
use crate::table::prefix_rule::PrefixRule;
use crate::table::writer::{FinishProgress, TableWriter, TableWriterOptions};
use crate::table::written_blocks::WrittenBlocks;

/// What every job needs to make files.
#[derive(Debug)]
pub struct JobContext {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// The store's directory.
    pub dir: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Syncs.
    pub lane: Arc<dyn SyncLane>,
    /// Table ids, each given out once.
    pub ids: Box<dyn TableIds>,
    /// The way to table files.
    pub files: Arc<TableFiles>,
    /// Data blocks are cut at about this size: of the tables begun from now on.
    pub block_bytes: AtomicU64,
    /// What jobs' buffers are charged to.
    pub memory: Arc<MemoryBudget>,
}

impl JobContext {
    /// Changes the size at which data blocks are cut, for the tables begun from now on.
    pub fn set_block_bytes(&self, bytes: u64) {
        self.block_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Gives out table ids, each once, and random ids for their files.
pub trait TableIds: Send + Sync + std::fmt::Debug {
    /// The next table's id.
    fn next_table(&self) -> TableId;
    /// A random number that tells this file from every other.
    fn unique_id(&self) -> u64;
}

/// How a job's tables are to be.
#[derive(Clone, Debug)]
pub struct OutputShape {
    /// Whose bytes.
    pub class: Class,
    /// What makes them.
    pub born: Born,
    /// Cut at about this size.
    pub table_bytes: u64,
    /// Filter bits per key.
    pub filter_bits: f32,
    /// Of tables that lie above older data.
    pub filter_bits_above: f32,
    /// What of them goes by reads.
    pub reads: Option<Arc<ReadProfile>>,
    /// Of data blocks.
    pub compression: Compression,
    /// The prefixes that filters hold.
    pub prefix_rule: PrefixRule,
    /// Past the page cache, where the file system can.
    pub direct: bool,
    /// Age of the oldest tombstone of all inputs.
    pub oldest_tombstone_ms: Option<u64>,
    /// What keeps data blocks from the start whose entries clients read from memory so far.
    pub cache: Option<Arc<BlockCache>>,
}

/// The tables that a job writes. `T` is what the job notes with each: where it goes.
#[derive(Debug)]
pub struct TableOutput<T> {
    context: Arc<JobContext>,
    shape: OutputShape,
    open: Option<TableWriter>,
    /// The next table to be opened lies above older data.
    is_above: bool,
    sealing: Option<(TableWriter, T)>,
    syncing: VecDeque<(TableMeta, SyncTicket, T)>,
    /// Files made whose tables have not been handed out: to be removed if the job ends without them.
    unclaimed: Vec<TableId>,
    /// Blocks that are to be kept.
    written: Option<Arc<WrittenBlocks>>,
    bytes_written: u64,
}

impl<T> TableOutput<T> {
    /// No tables yet.
    pub fn new(context: Arc<JobContext>, shape: OutputShape) -> TableOutput<T> {
        TableOutput {
            context,
            written: shape.cache.clone().map(WrittenBlocks::new).map(Arc::new),
            shape,
            open: None,
            is_above: false,
            sealing: None,
            syncing: VecDeque::new(),
            unclaimed: Vec::new(),
            bytes_written: 0,
        }
    }

    /// Adds an entry, to the open table or a new one; `in_memory` if clients read it from memory so far. Nothing may be sealing.
    #[inline]
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8], in_memory: bool) -> Result<()> {
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => self.open()?,
        };
        writer.add(key, trailer, value)?;
        if in_memory {
            writer.note_in_memory();
        }
        Ok(())
    }

    /// Adds range tombstones over a stretch of keys, newest first, to the open table or a new one. Nothing may be sealing.
    pub fn add_range(&mut self, lo: &[u8], hi: &[u8], seqs: &[SeqNo]) -> Result<()> {
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => self.open()?,
        };
        writer.add_range(lo, hi, seqs)
    }

    /// Says of the next table whether it lies above older data.
    pub fn lies_above(&mut self, is_above: bool) {
        self.is_above = is_above;
    }

    /// True if a table is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// True if a table of as many bytes has reached its size: to be cut before the next user key.
    #[inline]
    pub fn is_full_at(&self, open_bytes: u64) -> bool {
        open_bytes >= self.shape.table_bytes
    }

    /// Ends the open table; `note` goes with it. Nothing may be sealing.
    pub fn cut(&mut self, note: T) {
        if let Some(writer) = self.open.take() {
            self.sealing = Some((writer, note));
        }
    }

    /// True if a table is being sealed: `seal_step` before anything is added.
    #[inline]
    pub fn is_sealing(&self) -> bool {
        self.sealing.is_some()
    }

    /// One step of sealing; hands the table to the lane when it is whole. Answers the bytes written.
    pub fn seal_step(&mut self) -> Result<u64> {
        let Some((writer, _)) = &mut self.sealing else { return Ok(0) };
        let before = writer.file_bytes();
        let progress = writer.finish_step()?;
        let written = writer.file_bytes().saturating_sub(before);
        let FinishProgress::Done(meta) = progress else { return Ok(written) };
        if let Some((writer, note)) = self.sealing.take() {
            self.bytes_written += meta.bytes;
            let ticket = self.context.lane.submit(self.shape.class, writer.syncer());
            self.syncing.push_back((*meta, ticket, note));
        }
        Ok(written)
    }

    /// The oldest table that is whole and durable, if there is one.
    ///
    /// # Errors
    /// The failure of its sync; the table is lost, and its file is never synced again.
    pub fn take_done(&mut self) -> Result<Option<(TableMeta, T)>> {
        match self.syncing.front().and_then(|(_, ticket, _)| ticket.outcome()) {
            None => Ok(None),
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(())) => Ok(self.syncing.pop_front().map(|(meta, _, note)| {
                self.unclaimed.retain(|id| *id != meta.id);
                (meta, note)
            })),
        }
    }

    /// The tables up to this one are about to be installed: blocks of theirs that clients read from memory so far come to the cache, so
    /// many at most. True once all of them have.
    pub fn keep_cached(&self, last: TableId, at_most: usize) -> bool {
        self.written.as_ref().is_none_or(|written| written.hand_over(last, at_most))
    }

    /// Tables that wait for their sync.
    pub fn syncing(&self) -> usize {
        self.syncing.len()
    }

    /// Bytes of tables sealed so far, and of those that are not yet.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written + self.unsealed_bytes()
    }

    /// Bytes of tables not handed out: what is lost if the job ends without them.
    pub fn unclaimed_bytes(&self) -> u64 {
        self.syncing.iter().map(|(meta, ..)| meta.bytes).sum::<u64>() + self.unsealed_bytes()
    }

    fn unsealed_bytes(&self) -> u64 {
        let sealing = self.sealing.as_ref().map(|(writer, _)| writer);
        self.open.iter().chain(sealing).map(TableWriter::estimated_bytes).sum()
    }

    /// Bytes in files so far: what is in buffers still, or was never written, is not among them.
    pub fn file_bytes(&self) -> u64 {
        let sealing = self.sealing.as_ref().map_or(0, |(writer, _)| writer.file_bytes());
        self.bytes_written + self.open.as_ref().map_or(0, TableWriter::file_bytes) + sealing
    }

    /// Bytes of buffers.
    pub fn memory_bytes(&self) -> u64 {
        let sealing = self.sealing.as_ref().map_or(0, |(writer, _)| writer.memory_bytes());
        sealing + self.open.as_ref().map_or(0, TableWriter::memory_bytes)
    }

    /// Bytes in the open table.
    pub fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, TableWriter::estimated_bytes)
    }

    /// Ends without the tables not handed out, and without `others` that were: removes their files.
    pub fn abandon(&mut self, others: Vec<TableId>) -> Result<()> {
        self.open = None;
        self.sealing = None;
        self.syncing.clear();
        let mut outcome = Ok(());
        for id in std::mem::take(&mut self.unclaimed).into_iter().chain(others) {
            let removed = self.context.fs.remove(&FileName::Table(id.0).path(&self.context.dir));
            outcome = outcome.and(removed);
        }
        outcome
    }

    #[cold]
    fn open(&mut self) -> Result<&mut TableWriter> {
        let context = &self.context;
        let id = context.ids.next_table();
        let path = FileName::Table(id.0).path(&context.dir);
        let file = context.files.create(&path, IoClass::Background(self.shape.class), self.shape.direct)?;
        self.unclaimed.push(id);
        let options = TableWriterOptions {
            block_bytes: context.block_bytes.load(Ordering::Relaxed) as usize,
            compression: self.shape.compression,
            filter_bits: if self.is_above { self.shape.filter_bits_above } else { self.shape.filter_bits },
            reads: self.shape.reads.clone(),
            prefix_rule: self.shape.prefix_rule,
            written: self.written.clone(),
            ..TableWriterOptions::new(id, context.ids.unique_id(), self.shape.born, context.clock.wall_ms())
        };
        let mut writer = TableWriter::new(file, options);
        if let Some(ms) = self.shape.oldest_tombstone_ms {
            writer.note_tombstone_age(ms);
        }
        Ok(self.open.insert(writer))
    }
}
