//! Writes a table file from its start to its end, in steps that are each at most some 256 KiB of work.
//!
//! ```text
//! add ─► block builder ─(full)─► data block ─► index builder ─(full)─► filter partition, index partition ─► top builder
//! finish_step ×n ─► last block ─► last partition ─► range tombstones ─► top ─► properties ─► footer ─► TableMeta
//! ```
//! A block is written when the next entry would not fit. Its separator waits for that entry's key: the shortest key
//! at or above the block's last and below the next block's first, or the key itself when its versions go on.
//! Partitions are written as they fill, between the data, so that sealing has little left to do. Nothing is synced here.

use std::sync::Arc;

use super::access::Access;
use super::block_builder::BlockBuilder;
use super::compression::{Compression, Compressor};
use super::facts::{Facts, Follows};
use super::filter;
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle, Footer, PAGE_BYTES, footer_checksum, seal_block};
use super::key_sample::Sampler;
use super::meta::{Attachment, Born, HowWritten, KeyHistogram, TableMeta};
use super::prefix_rule::PrefixRule;
use super::range_block::RangeBlockBuilder;
use super::written_blocks::WrittenBlocks;
use crate::base::error::{Error, Result, key_start};
use crate::base::key::{Kind, Trailer, common_head};
use crate::base::units::{SeqNo, TableId};
use crate::hotness::read_profile::ReadProfile;
use crate::storage::file_system::{Syncer, WritableFile};

/// An entry larger than this does not fit into any block.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;
/// What a file that is being written keeps in a buffer.
const FILE_BUFFER_BYTES: u64 = 64 << 10;
/// A partition is also closed when its filter reaches this size, so that closing it stays one small step.
const FILTER_PARTITION_BYTES: usize = 128 << 10;
/// The fewest bits of a filter that there is, where reads decide on them.
const FILTER_BITS_MIN: f32 = 1.0;

/// How a table is written.
#[derive(Clone, Debug)]
pub struct TableWriterOptions {
    /// The table's number.
    pub id: TableId,
    /// A random number, which tells the file from every other.
    pub unique_id: u64,
    /// Data blocks are about this large in memory.
    pub block_bytes: usize,
    /// How data blocks are stored; filters and indexes are never compressed.
    pub compression: Compression,
    /// Filter bits per key; 0 for no filter.
    pub filter_bits: f32,
    /// What of them goes by reads.
    pub reads: Option<Arc<ReadProfile>>,
    /// The prefixes that filters hold beside the keys.
    pub prefix_rule: PrefixRule,
    /// Index partitions are about this large.
    pub partition_bytes: usize,
    /// What makes the table.
    pub born: Born,
    /// Now, wall milliseconds.
    pub created_ms: u64,
    /// What keeps data blocks whose entries were in memory before.
    pub written: Option<Arc<WrittenBlocks>>,
}

impl TableWriterOptions {
    /// The defaults: blocks of 4 KiB, not compressed, 10 filter bits, partitions of 32 KiB.
    pub fn new(id: TableId, unique_id: u64, born: Born, created_ms: u64) -> TableWriterOptions {
        TableWriterOptions {
            id,
            unique_id,
            block_bytes: 4096,
            compression: Compression::None,
            filter_bits: 10.0,
            reads: None,
            prefix_rule: PrefixRule::None,
            partition_bytes: 32 << 10,
            born,
            created_ms,
            written: None,
        }
    }
}

/// How far the sealing of a table is.
#[derive(Debug)]
pub enum FinishProgress {
    /// There is more to do.
    More,
    /// Everything is written, not yet synced.
    Done(Box<TableMeta>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Adding,
    Partition,
    Ranges,
    Top,
    Properties,
    Footer,
    Done,
    Failed,
}

/// Writes one table.
pub struct TableWriter {
    options: TableWriterOptions,
    sink: Sink,
    stage: Stage,
    facts: Facts,
    sampler: Sampler,
    blocks: u64,
    oldest_tombstone_ms: Option<u64>,
    block: BlockBuilder,
    /// Entries of the block that were in memory.
    in_memory: usize,
    /// The last data block, until its separator is known.
    pending: Option<BlockHandle>,
    index: BlockBuilder,
    top: BlockBuilder,
    ranges: RangeBlockBuilder,
    ranges_bytes: u32,
    hashes: Vec<u64>,
    /// The prefix whose hash is the last one of a prefix in `hashes`; empty at a partition's start.
    last_prefix: Vec<u8>,
    separator: Vec<u8>,
    payload: Vec<u8>,
    top_handle: BlockHandle,
    properties_handle: BlockHandle,
}

impl TableWriter {
    /// A table in an empty file.
    pub fn new(file: Box<dyn WritableFile>, mut options: TableWriterOptions) -> TableWriter {
        options.filter_bits = options.filter_bits.clamp(0.0, filter::BITS_MAX);
        let sink =
            Sink { offset: file.len(), file, unique_id: options.unique_id, packer: Compressor::default() };
        TableWriter {
            options,
            sink,
            stage: Stage::Adding,
            facts: Facts::default(),
            sampler: Sampler::default(),
            blocks: 0,
            oldest_tombstone_ms: None,
            block: BlockBuilder::default(),
            in_memory: 0,
            pending: None,
            index: BlockBuilder::default(),
            top: BlockBuilder::default(),
            ranges: RangeBlockBuilder::default(),
            ranges_bytes: 0,
            hashes: Vec::new(),
            last_prefix: Vec::new(),
            separator: Vec::new(),
            payload: Vec::new(),
            top_handle: BlockHandle::default(),
            properties_handle: BlockHandle::default(),
        }
    }

    /// Adds an entry, which must be above all before it in the tree's order. May write a block and a partition.
    /// After an error the table is lost; the writer then refuses everything.
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if self.stage != Stage::Adding {
            return Err(Error::invalid(format!("table {} takes no more entries", self.options.id)));
        }
        let follows = self.facts.follows(key, trailer);
        let kind = trailer.kind().filter(|kind| *kind != Kind::RangeDelete);
        if follows == Follows::OutOfOrder || kind.is_none() {
            self.stage = Stage::Failed;
            let what = if kind.is_none() { "of a kind that is no entry's" } else { "out of order" };
            return Err(Error::invalid(format!(
                "table {}: an entry {what}, key {}",
                self.options.id,
                key_start(key)
            )));
        }
        let bytes = key.len().saturating_add(value.len());
        if bytes > ENTRY_BYTES_MAX {
            self.stage = Stage::Failed;
            return Err(Error::Limit { what: "entry", bytes: bytes as u64, max: ENTRY_BYTES_MAX as u64 });
        }
        if !self.block.is_empty() && self.block.bytes_with(key, value.len()) > self.block_limit() {
            self.guard(TableWriter::write_data_block)?;
        }
        let mut partition_is_new = self.facts.entries() == 0;
        if self.pending.is_some() {
            partition_is_new |= self.guard(|writer| writer.index_pending(Some(key)))?;
        }
        let has_filter = self.options.filter_bits > 0.0;
        if follows == Follows::NewKey || (has_filter && partition_is_new) {
            let hash = filter::hash_key(key);
            if follows == Follows::NewKey {
                self.sampler.add(hash, kind != Some(Kind::Put));
            }
            if has_filter {
                self.hashes.push(hash);
                self.note_prefix(key);
            }
        }
        self.block.add(key, trailer, value);
        self.facts.add(key, trailer, follows);
        Ok(())
    }

    /// Says of the entry that was added last that clients read it from memory so far.
    #[inline]
    pub fn note_in_memory(&mut self) {
        self.in_memory += 1;
    }

    /// Keys of one prefix are neighbours, so each is hashed once a partition.
    #[inline]
    fn note_prefix(&mut self, key: &[u8]) {
        if let Some(prefix) = self.options.prefix_rule.prefix_of(key)
            && prefix != self.last_prefix
        {
            self.hashes.push(filter::hash_prefix(prefix));
            self.last_prefix.clear();
            self.last_prefix.extend_from_slice(prefix);
        }
    }

    /// Adds range tombstones over the keys from `lo` to below `hi`, above all range tombstones before them; the entries do not
    /// matter. `seqs` newest first, at least one.
    pub fn add_range(&mut self, lo: &[u8], hi: &[u8], seqs: &[SeqNo]) -> Result<()> {
        let descending = seqs.is_sorted_by(|newer, older| newer > older) && !seqs.is_empty();
        let in_order = lo < hi && (self.ranges.is_empty() || lo >= self.ranges.end());
        if self.stage != Stage::Adding || !descending || !in_order {
            self.stage = Stage::Failed;
            let what =
                format!("table {}: range tombstones out of order, key {}", self.options.id, key_start(lo));
            return Err(Error::invalid(what));
        }
        let grows = self.ranges.add(lo, hi, seqs);
        self.facts.add_range(lo, hi, seqs, grows);
        Ok(())
    }

    /// Takes note of when a tombstone among the entries was acknowledged; the oldest counts.
    pub fn note_tombstone_age(&mut self, acknowledged_ms: u64) {
        self.oldest_tombstone_ms = Some(self.oldest_tombstone_ms.unwrap_or(u64::MAX).min(acknowledged_ms));
    }

    /// About how large the file would be if it were sealed now; cheap enough to ask after every entry.
    pub fn estimated_bytes(&self) -> u64 {
        let filter = (self.hashes.len() as f64 * f64::from(self.options.filter_bits) / 8.0) as u64;
        let built = self.block.bytes_roughly() + self.index.bytes_roughly() + self.top.bytes_roughly();
        self.sink.offset + (built + self.ranges.bytes()) as u64 + filter
    }

    /// Bytes of the file so far.
    pub fn file_bytes(&self) -> u64 {
        self.sink.offset
    }

    /// Bytes of its own buffers, the file's included.
    pub fn memory_bytes(&self) -> u64 {
        let blocks =
            [&self.block, &self.index, &self.top].map(|b| b.bytes_roughly() as u64).iter().sum::<u64>();
        let buffers = self.payload.capacity()
            + self.separator.capacity()
            + self.hashes.capacity() * size_of::<u64>()
            + self.sampler.memory_bytes();
        size_of::<TableWriter>() as u64 + FILE_BUFFER_BYTES + blocks + buffers as u64
    }

    /// Makes durable what has been written.
    pub fn syncer(&self) -> Arc<dyn Syncer> {
        self.sink.file.syncer()
    }

    /// Does one step of sealing. A table without entries and range tombstones cannot be sealed.
    pub fn finish_step(&mut self) -> Result<FinishProgress> {
        if self.facts.is_empty() {
            return Err(Error::invalid(format!("table {} has no entries", self.options.id)));
        }
        self.guard(TableWriter::finish_stage)
    }

    /// All steps of sealing at once.
    #[cfg(test)]
    pub fn finish(&mut self) -> Result<TableMeta> {
        loop {
            if let FinishProgress::Done(meta) = self.finish_step()? {
                return Ok(*meta);
            }
        }
    }

    fn finish_stage(&mut self) -> Result<FinishProgress> {
        self.stage = match self.stage {
            Stage::Adding => {
                if !self.block.is_empty() {
                    self.write_data_block()?;
                }
                Stage::Partition
            }
            Stage::Partition => {
                if !self.index_pending(None)? {
                    self.write_partition()?;
                }
                if self.ranges.is_empty() { Stage::Top } else { Stage::Ranges }
            }
            Stage::Ranges => {
                self.ranges.finish(&mut self.payload);
                self.ranges_bytes = self.sink.write(&mut self.payload, self.options.compression, 0)?.bytes;
                Stage::Top
            }
            Stage::Top => {
                self.top_handle = BlockHandle { offset: self.sink.offset, bytes: 0 };
                if !self.top.is_empty() {
                    self.top.finish(&mut self.payload);
                    self.top_handle = self.sink.write(&mut self.payload, Compression::None, 0)?;
                }
                Stage::Properties
            }
            Stage::Properties => {
                self.payload.clear();
                self.meta(0, 0).encode(&mut self.payload);
                self.how_written().encode(&mut self.payload);
                self.properties_handle = self.sink.write(&mut self.payload, Compression::None, 0)?;
                Stage::Footer
            }
            Stage::Footer => {
                let footer = Footer {
                    id: self.options.id,
                    unique_id: self.options.unique_id,
                    top: self.top_handle,
                    ranges_bytes: self.ranges_bytes,
                    properties: self.properties_handle,
                }
                .encode();
                self.sink.append(&footer)?;
                self.stage = Stage::Done;
                let meta = self.meta(self.sink.offset, footer_checksum(&footer));
                return Ok(FinishProgress::Done(Box::new(meta)));
            }
            Stage::Done | Stage::Failed => {
                return Err(Error::invalid(format!("table {} cannot be sealed", self.options.id)));
            }
        };
        Ok(FinishProgress::More)
    }

    fn how_written(&self) -> HowWritten {
        let TableWriterOptions { compression, prefix_rule, .. } = self.options;
        HowWritten { compression: compression.to_string(), prefix_rule: prefix_rule.to_string() }
    }

    /// The table's facts as they are now.
    fn meta(&self, bytes: u64, checksum: u64) -> TableMeta {
        let mut meta = TableMeta {
            id: self.options.id,
            unique_id: self.options.unique_id,
            bytes,
            checksum,
            entries: 0,
            keys: 0,
            seqs: (SeqNo(0), SeqNo(0)),
            tombstones: 0,
            range_tombstones: 0,
            dense_blocks: 0,
            oldest_tombstone_ms: None,
            created_ms: self.options.created_ms,
            smallest: Box::default(),
            largest: Box::default(),
            end: None,
            key_histogram: KeyHistogram::default(),
            born: self.options.born,
            blocks: self.blocks,
            key_sample: self.sampler.sample(),
            access: Access::default(),
            attachment: Attachment::default(),
        };
        self.facts.write_to(&mut meta);
        // A tombstone whose age nobody told counts from now: late, but never forgotten.
        if meta.tombstones + meta.range_tombstones > 0 {
            meta.oldest_tombstone_ms = Some(self.oldest_tombstone_ms.unwrap_or(self.options.created_ms));
        }
        meta
    }

    /// Does something that writes. What a failed write has left in the file is unknown: the table is then lost.
    fn guard<R>(&mut self, work: impl FnOnce(&mut TableWriter) -> Result<R>) -> Result<R> {
        let done = work(self);
        if done.is_err() {
            self.stage = Stage::Failed;
        }
        done
    }

    /// How large the current block may become. Where blocks are stored as they are and made of whole pages, the block
    /// ends at a page's end, if entries happen to fit.
    fn block_limit(&self) -> usize {
        let target = self.options.block_bytes;
        if !self.aligns() {
            return target;
        }
        let end = (self.sink.offset + target as u64 * 3 / 4).next_multiple_of(PAGE_BYTES);
        ((end - self.sink.offset) as usize).saturating_sub(BLOCK_TRAILER_BYTES)
    }

    fn aligns(&self) -> bool {
        let target = self.options.block_bytes as u64;
        self.options.compression == Compression::None && target > 0 && target.is_multiple_of(PAGE_BYTES)
    }

    fn write_data_block(&mut self) -> Result<()> {
        let half_in_memory = std::mem::take(&mut self.in_memory) * 2 >= self.block.count();
        self.block.finish(&mut self.payload);
        self.facts.end_block();
        self.blocks += 1;
        if let Some(written) = &self.options.written
            && half_in_memory
        {
            written.add(self.options.id, self.sink.offset, &self.payload);
        }
        // Padding is worth at most a thirty-second of a block.
        let padding = if self.aligns() { self.options.block_bytes / 32 } else { 0 };
        self.pending = Some(self.sink.write(&mut self.payload, self.options.compression, padding)?);
        Ok(())
    }

    /// Adds the pending block to the index, now that the key after it is known. True if that closed a partition.
    fn index_pending(&mut self, next_key: Option<&[u8]>) -> Result<bool> {
        let Some(handle) = self.pending.take() else { return Ok(false) };
        separator(self.facts.last_key(), next_key, &mut self.separator);
        self.index.add(&self.separator, Trailer(handle.offset), &handle.bytes.to_le_bytes());
        let filter_bytes = self.hashes.len() as f64 * f64::from(self.options.filter_bits) / 8.0;
        let full = self.index.bytes() >= self.options.partition_bytes;
        if full || filter_bytes >= FILTER_PARTITION_BYTES as f64 {
            self.write_partition()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Filter bits for each key of the partition that is being closed; a filter stays one, however little is read.
    fn partition_filter_bits(&self) -> f32 {
        let bits = self.options.filter_bits;
        let Some(reads) = &self.options.reads else { return bits };
        let from = if self.top.is_empty() { self.facts.first_key() } else { self.top.last_key() };
        (bits + reads.more_bits(from, self.index.last_key()))
            .clamp(FILTER_BITS_MIN.min(bits), filter::BITS_MAX)
    }

    fn write_partition(&mut self) -> Result<()> {
        if self.index.is_empty() {
            return Ok(());
        }
        let mut filter = BlockHandle::default();
        if self.options.filter_bits > 0.0 {
            let bits = self.partition_filter_bits();
            let Self { hashes, payload, .. } = self;
            filter::build(hashes, self.options.prefix_rule, bits, payload);
            filter = self.sink.write(&mut self.payload, Compression::None, 0)?;
            self.hashes.clear();
            self.last_prefix.clear();
        }
        let last_separator = self.index.last_key();
        self.separator.clear();
        self.separator.extend_from_slice(last_separator);
        self.index.finish(&mut self.payload);
        let index = self.sink.write(&mut self.payload, Compression::None, 0)?;
        self.payload.clear();
        self.payload.extend_from_slice(&index.bytes.to_le_bytes());
        filter.encode(&mut self.payload);
        self.top.add(&self.separator, Trailer(index.offset), &self.payload);
        Ok(())
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableWriter({}, {} entries, {:?})", self.options.id, self.facts.entries(), self.stage)
    }
}

/// The file, and how far it is written.
struct Sink {
    file: Box<dyn WritableFile>,
    offset: u64,
    unique_id: u64,
    packer: Compressor,
}

impl Sink {
    /// Makes a block of `payload` and appends it, and zeros up to the end of the page if those are at most `padding`.
    fn write(
        &mut self,
        payload: &mut Vec<u8>,
        compression: Compression,
        padding: usize,
    ) -> Result<BlockHandle> {
        let (block, stored_as) = match self.packer.pack(payload, compression) {
            Some(packed) => (packed, compression),
            None => (payload, Compression::None),
        };
        seal_block(block, stored_as.kind(), self.unique_id, self.offset);
        let bytes = u32::try_from(block.len()).map_err(|_| Error::Limit {
            what: "block",
            bytes: block.len() as u64,
            max: u64::from(u32::MAX),
        })?;
        let handle = BlockHandle { offset: self.offset, bytes };
        let gap = (handle.end().next_multiple_of(PAGE_BYTES) - handle.end()) as usize;
        if gap <= padding {
            block.resize(block.len() + gap, 0);
        }
        self.file.append(block)?;
        self.offset += block.len() as u64;
        Ok(handle)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// Writes to `out` the shortest key at or above `last` and below `next`; `last` itself if there is no next key or if
/// it is the same.
fn separator(last: &[u8], next: Option<&[u8]>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(last);
    let Some(next) = next else { return };
    let shared = common_head(last, next);
    let (Some(&low), Some(&high)) = (last.get(shared), next.get(shared)) else { return };
    if let Some(between) = low.checked_add(1).filter(|b| *b < high) {
        out.truncate(shared);
        out.push(between);
    } else if next.len() > shared + 1 {
        out.truncate(shared);
        out.push(high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_between() {
        let cases: [(&[u8], &[u8], &[u8]); 7] = [
            (b"abcdef", b"abz", b"abd"),
            (b"abcdef", b"abdx", b"abd"),
            (b"abcdef", b"abd", b"abcdef"),
            (b"ab", b"abc", b"ab"),
            (b"same", b"same", b"same"),
            (b"", b"x", b""),
            (b"a\xff\xff", b"b", b"a\xff\xff"),
        ];
        let mut out = Vec::new();
        for (last, next, wanted) in cases {
            separator(last, Some(next), &mut out);
            assert_eq!(out, wanted, "{} and {}", key_start(last), key_start(next));
            assert!(out.as_slice() >= last && (out.as_slice() < next || last == next));
        }
        separator(b"last", None, &mut out);
        assert_eq!(out, b"last");
    }
}
