//! Reads a table: filter, index, block, entry. Opening reads the footer, the top index and the range tombstones, which stay;
//! partitions come when needed.
//!
//! ```text
//! probe(key, hash) ─ top index ─► partition ─ filter line prefetched ┐     callers probe all tables first
//! may_contain? ◄─────────────────────────────────────────────────────┘
//! get ─ index partition ─► block handle ─► block cache, else file ─► entry ─► PinnedValue
//! ```
//! A lookup takes no lock that all readers share and, if everything is in memory, allocates nothing. A partition hangs
//! in its slot; the block cache is charged for it, and its clock may empty the slot again.

use std::ops::{Deref, Range};
use std::sync::{Arc, PoisonError, Weak};

use arc_swap::Guard;
use evenkeel_arena::Block;

use super::block::{Content, Layout};
use super::block_cache::BlockCache;
use super::block_file::BlockFile;
use super::filter::Filter;
use super::format::{BlockHandle, FOOTER_BYTES, Footer, FooterError, footer_checksum};
use super::meta::{HowWritten, TableMeta};
use super::partition::{IndexPartition, Partition, Slot, check_unpacked, read_index};
use super::pieces::Pieces;
use super::prefix_rule::PrefixRule;
use super::range_block;
use super::residents::Holder;
use crate::base::class::IoClass;
use crate::base::coding::Decoder;
use crate::base::error::{Error, Result};
use crate::base::key::Trailer;
use crate::base::key_range::KeyRange;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::units::{SeqNo, TableId};
use crate::storage::file_system::ReadFile;

/// What lookups cost; a caller adds it up where it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Filters that said a key is not there.
    pub filter_negatives: u64,
    /// Filters that said a key may be there when it was not.
    pub filter_false_positives: u64,
    /// Blocks found in the cache.
    pub block_hits: u64,
    /// Blocks read from files.
    pub block_reads: u64,
}

/// A value, and the block that holds it. The bytes stay as long as this does.
#[derive(Clone)]
pub struct PinnedValue {
    block: Block,
    range: Range<u32>,
}

impl PinnedValue {
    /// The bytes of `block` in `range`.
    pub fn new(block: Block, range: Range<usize>) -> PinnedValue {
        // A block's size fits into 32 bits, because its handle's does.
        PinnedValue { block, range: range.start as u32..range.end as u32 }
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.block.get(self.range.start as usize..self.range.end as usize).unwrap_or_default()
    }
}

impl std::fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedValue({} bytes)", self.len())
    }
}

/// An open table.
pub struct TableReader {
    id: TableId,
    blocks: BlockFile,
    cache: Arc<BlockCache>,
    top: Box<[u8]>,
    top_layout: Layout,
    partitions: Box<[Partition]>,
    footer: Footer,
    /// The sequence of all entries, if they do not carry it themselves.
    loaded_at: Option<SeqNo>,
    /// Nothing without any: what a reader then pays is this look.
    ranges: Option<Arc<RangeTombstones>>,
    this: Weak<TableReader>,
}

/// Where a table may have a key: which partition, and the filter's line, already on its way to the processor.
pub struct TableProbe {
    partition: usize,
    /// `None` where it is not in memory: it is read when its turn comes, for it may not.
    filter: Option<Guard<Option<Arc<Filter>>>>,
    line: usize,
    hash: u64,
}

impl TableReader {
    /// Opens a file that must be the one `meta` describes.
    pub fn open(
        file: Arc<dyn ReadFile>,
        meta: &TableMeta,
        cache: Arc<BlockCache>,
        class: IoClass,
    ) -> Result<Arc<TableReader>> {
        let damaged = |offset, what: &str| Error::corruption(file.path(), offset, what);
        let Some(end) = meta.bytes.checked_sub(FOOTER_BYTES as u64).filter(|_| file.len() == meta.bytes)
        else {
            return Err(damaged(file.len(), "the file's length is not the one on record"));
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_at(end, &mut bytes, class)?;
        if footer_checksum(&bytes) != meta.checksum {
            return Err(damaged(end, "the footer is not the one on record"));
        }
        let footer = match Footer::decode(&bytes) {
            Ok(footer) => footer,
            Err(FooterError::Damaged(what)) => return Err(damaged(end, what)),
            Err(FooterError::NewerVersion(version)) => {
                let path = file.path().display();
                return Err(Error::Unsupported(format!("{path} has table format {version}, which is newer")));
            }
        };
        if footer.id != meta.id || footer.unique_id != meta.unique_id {
            return Err(damaged(end, "this is another table's file"));
        }
        let has_other_parts = (footer.top.bytes == 0) != (meta.entries == 0)
            || (footer.ranges_bytes == 0) != (meta.range_tombstones == 0);
        if has_other_parts {
            return Err(damaged(end, "the footer is not of a table with these facts"));
        }
        let blocks = BlockFile::new(file, footer.unique_id, end);
        let (top, top_layout) = match footer.top.bytes {
            0 => Default::default(),
            _ => read_index(&blocks, footer.top, class)?,
        };
        let ranges = match footer.ranges_bytes {
            0 => None,
            _ => Some(Arc::new(read_ranges(&blocks, footer.ranges(), meta, class)?)),
        };
        let partitions = (0..top_layout.count())
            .map(|i| Partition::decode(&top, &top_layout, i))
            .collect::<Option<Box<[Partition]>>>()
            .ok_or_else(|| blocks.corruption(footer.top.offset, "the top index makes no sense"))?;
        cache.pin(open_bytes(&top, &partitions, ranges.as_ref()));
        Ok(Arc::new_cyclic(|this| TableReader {
            id: meta.id,
            blocks,
            cache,
            top,
            top_layout,
            partitions,
            footer,
            loaded_at: meta.loaded_at(),
            ranges,
            this: this.clone(),
        }))
    }

    /// Finds where the table may have `key`, and starts to bring the filter's line near, if the filter is in memory.
    #[inline]
    pub fn probe(&self, key: &[u8], hash: u64) -> TableProbe {
        let Some(partition) = self.partition_for(key) else {
            return TableProbe { partition: usize::MAX, filter: None, line: 0, hash };
        };
        let filter = self.partitions.get(partition).and_then(|partition| partition.filter.get());
        let mut line = 0;
        if let Some(filter) = filter.as_ref().and_then(|guard| guard.as_ref()) {
            line = filter.line(hash);
            filter.prefetch(line);
        }
        TableProbe { partition, filter, line, hash }
    }

    /// False if the table does not have the key that `probe` was made for. A filter that was not in memory is read.
    #[inline]
    pub fn may_contain(&self, probe: &TableProbe, class: IoClass) -> Result<bool> {
        match probe.filter.as_ref().and_then(|guard| guard.as_ref()) {
            Some(filter) => Ok(filter.may_contain(probe.line, probe.hash)),
            None if probe.partition == usize::MAX => Ok(false),
            None => self.may_contain_by_file(probe, class),
        }
    }

    #[inline(never)]
    fn may_contain_by_file(&self, probe: &TableProbe, class: IoClass) -> Result<bool> {
        let guard = self.filter(probe.partition, class)?;
        let filter = guard.as_ref().and_then(|guard| guard.as_ref());
        Ok(filter.is_none_or(|filter| filter.may_contain(filter.line(probe.hash), probe.hash)))
    }

    /// The newest entry of exactly `key` with a trailer of at most `max_trailer`; asks the filter first.
    #[cfg(test)]
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        max_trailer: Trailer,
        class: IoClass,
        stats: &mut ReadStats,
    ) -> Result<Option<(Trailer, PinnedValue)>> {
        let probe = self.probe(key, hash);
        if !self.may_contain(&probe, class)? {
            stats.filter_negatives += 1;
            return Ok(None);
        }
        self.get_probed(&probe, key, max_trailer, class, stats)
    }

    /// The same for a key that `probe` was made for, without asking the filter.
    pub fn get_probed(
        &self,
        probe: &TableProbe,
        key: &[u8],
        max_trailer: Trailer,
        class: IoClass,
        stats: &mut ReadStats,
    ) -> Result<Option<(Trailer, PinnedValue)>> {
        let mut partition = probe.partition;
        let mut first = true;
        // One pass of this loop, nearly always: only versions of one key can span blocks and partitions.
        while partition < self.partitions.len() {
            let guard = self.index(partition, class)?;
            let Some(index) = guard.as_ref() else { break };
            let mut at = if first { index.position(key) } else { 0 };
            first = false;
            while let Some(handle) = index.handle(at) {
                let block = self.block(handle, class, true, stats)?;
                let layout = self.layout(&block, handle)?;
                let i = layout.lower_bound(&block, key, max_trailer);
                if i < layout.count() {
                    if !layout.is_key(&block, i, key) {
                        return Ok(not_found(probe, stats));
                    }
                    let Some(entry) = layout.entry(&block, i) else { return Ok(None) };
                    let (trailer, value) = (self.trailer(entry.trailer), entry.value);
                    if trailer > max_trailer {
                        // Loaded after what the reader sees; a load has one entry a key.
                        return Ok(None);
                    }
                    return Ok(Some((trailer, PinnedValue::new(block, value))));
                }
                if !index.is_separator(at, key) {
                    return Ok(not_found(probe, stats));
                }
                at += 1;
            }
            partition += 1;
        }
        Ok(not_found(probe, stats))
    }

    /// An entry's trailer, from the one that is written with it.
    #[inline]
    pub fn trailer(&self, written: Trailer) -> Trailer {
        match self.loaded_at {
            None => written,
            Some(seq) => written.with_seq(seq),
        }
    }

    /// The range tombstones, if there are any. They are of the whole file: what a `TableRef` shows of them is its bounds' part.
    #[inline]
    pub fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.ranges.as_ref()
    }

    /// Bytes of memory that it takes as long as it is open.
    pub fn open_bytes(&self) -> u64 {
        open_bytes(&self.top, &self.partitions, self.ranges.as_ref())
    }

    /// How many partitions there are; none if there are only range tombstones.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// The first partition that may hold `key` or keys above it.
    #[inline]
    pub fn partition_for(&self, key: &[u8]) -> Option<usize> {
        let partition = self.top_layout.lower_bound(&self.top, key, Trailer(u64::MAX));
        (partition < self.partitions.len()).then_some(partition)
    }

    /// An index partition, from memory or from the file. `None` inside only for a number that is too large.
    #[inline]
    pub fn index(&self, partition: usize, class: IoClass) -> Result<Guard<Option<Arc<IndexPartition>>>> {
        let Some(Partition { index: slot, .. }) = self.partitions.get(partition) else {
            return Ok(Guard::from_inner(None));
        };
        match slot.get() {
            Some(index) => Ok(index),
            None => self.load(slot, partition * 2 + 1, || self.read_index_partition(partition, class)),
        }
    }

    /// A filter partition, from memory or from the file; `None` if the table has none.
    #[expect(
        clippy::inline_always,
        reason = "a get that misses is a twentieth dearer where it is a call (`cargo xtask instructions`)"
    )]
    #[inline(always)]
    fn filter(&self, partition: usize, class: IoClass) -> Result<Option<Guard<Option<Arc<Filter>>>>> {
        let Some(Partition { filter: slot, .. }) = self.partitions.get(partition) else { return Ok(None) };
        if slot.handle.bytes == 0 {
            return Ok(None);
        }
        match slot.get() {
            Some(filter) => Ok(Some(filter)),
            None => self.load(slot, partition * 2, || self.read_filter(partition, class)).map(Some),
        }
    }

    /// Reads an index partition from the file.
    pub fn read_index_partition(&self, partition: usize, class: IoClass) -> Result<IndexPartition> {
        let handle = self.partitions.get(partition).map(|p| p.index.handle).unwrap_or_default();
        IndexPartition::read(&self.blocks, handle, class)
    }

    /// An index partition for a reader that passes by: from memory, else read and not kept.
    pub fn index_in_passing(&self, partition: usize, class: IoClass) -> Result<Option<Arc<IndexPartition>>> {
        let Some(Partition { index: slot, .. }) = self.partitions.get(partition) else { return Ok(None) };
        match slot.get() {
            Some(index) => Ok(Guard::into_inner(index)),
            None => Ok(Some(Arc::new(self.read_index_partition(partition, class)?))),
        }
    }

    /// Reads a filter from the file.
    pub fn read_filter(&self, partition: usize, class: IoClass) -> Result<Filter> {
        let handle = self.partitions.get(partition).map(|p| p.filter.handle).unwrap_or_default();
        self.blocks.read(handle, class, |payload| {
            check_unpacked(payload, handle)?;
            Filter::decode(payload).ok_or("the filter makes no sense")
        })
    }

    /// False if no key of the table has the prefix, by this rule, that all keys of `range` have. True where a filter cannot tell, or
    /// cannot be read: who then reads the table is told what is wrong with it.
    pub fn may_have_prefix(
        &self,
        range: &KeyRange,
        rule: PrefixRule,
        prefix_hash: u64,
        class: IoClass,
    ) -> bool {
        let Some(from) = self.partition_for(&range.lo) else { return false };
        let last = self.partitions.len() - 1;
        let to = range.hi.as_deref().and_then(|hi| self.partition_for(hi)).unwrap_or(last);
        (from..=to).any(|partition| match self.filter(partition, class) {
            Ok(Some(filter)) => filter.as_ref().is_none_or(|f| f.may_contain_prefix(rule, prefix_hash)),
            Ok(None) | Err(_) => true,
        })
    }

    /// The table's facts as the file has them, and how it was written.
    pub fn read_properties(&self, class: IoClass) -> Result<(TableMeta, HowWritten)> {
        self.blocks.read(self.footer.properties, class, |payload| {
            let mut from = Decoder::new(payload);
            let facts = TableMeta::decode(&mut from);
            // The first tables said nothing of how they were written.
            let how =
                if from.is_empty() { Some(HowWritten::default()) } else { HowWritten::decode(&mut from) };
            facts.zip(how).filter(|_| from.is_empty()).ok_or("the properties make no sense")
        })
    }

    /// The handles of a partition: its filter's, which may be empty, and its index's.
    pub fn partition_handles(&self, partition: usize) -> Option<(BlockHandle, BlockHandle)> {
        self.partitions.get(partition).map(|p| (p.filter.handle, p.index.handle))
    }

    /// The separator and the last key of a partition's index are the same: writes it to `key`.
    pub fn partition_separator_into(&self, partition: usize, key: &mut Vec<u8>) {
        self.top_layout.key_into(&self.top, partition, key);
    }

    /// The file's blocks.
    pub fn blocks(&self) -> &BlockFile {
        &self.blocks
    }

    /// The file's footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// A data block, from the cache or from the file; with `fill_cache`, the cache keeps it.
    #[inline]
    pub fn block(
        &self,
        handle: BlockHandle,
        class: IoClass,
        fill_cache: bool,
        stats: &mut ReadStats,
    ) -> Result<Block> {
        match self.cached_block(handle, stats) {
            Some(block) => Ok(block),
            None => self.block_from_file(handle, class, fill_cache, stats),
        }
    }

    /// A data block, if the cache has it.
    #[inline]
    pub fn cached_block(&self, handle: BlockHandle, stats: &mut ReadStats) -> Option<Block> {
        let block = self.cache.get(self.id, handle.offset)?;
        stats.block_hits += 1;
        Some(block)
    }

    /// True if the cache has a data block.
    pub fn has_cached(&self, handle: BlockHandle) -> bool {
        self.cache.contains(self.id, handle.offset)
    }

    /// Memory for pieces that are read ahead.
    pub fn pieces(&self) -> &Pieces {
        self.cache.pieces()
    }

    /// A block of these bytes, for the cache to keep.
    pub fn copy(&self, payload: &[u8]) -> Block {
        self.cache.block(payload)
    }

    /// Has the cache keep a block.
    pub fn keep_block(&self, handle: BlockHandle, block: &Block) {
        self.cache.count_fill(block.len() as u64, handle.bytes.into());
        self.cache.insert(self.id, handle.offset, block);
    }

    /// A data block from the file; with `fill_cache`, the cache keeps it.
    pub fn block_from_file(
        &self,
        handle: BlockHandle,
        class: IoClass,
        fill_cache: bool,
        stats: &mut ReadStats,
    ) -> Result<Block> {
        stats.block_reads += 1;
        let block = self.blocks.read(handle, class, |payload| {
            Layout::check(payload, Content::Data)?;
            Ok(self.cache.block(payload))
        })?;
        if fill_cache {
            self.keep_block(handle, &block);
        }
        Ok(block)
    }

    /// The layout of a block that was checked when it was read.
    #[inline]
    pub fn layout(&self, block: &[u8], handle: BlockHandle) -> Result<Layout> {
        Layout::parse(block)
            .ok_or_else(|| self.blocks.corruption(handle.offset, "the block's header makes no sense"))
    }

    /// Reads a slot's content and hangs it in, unless another thread was faster.
    #[cold]
    fn load<T: Send + Sync>(
        &self,
        slot: &Slot<T>,
        part: usize,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<Guard<Option<Arc<T>>>> {
        let loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = slot.get() {
            return Ok(content);
        }
        let content = Arc::new(read()?);
        self.cache.charge(u64::from(slot.handle.bytes));
        let bytes = u64::from(slot.handle.bytes);
        self.cache.count_fill(bytes, bytes);
        self.cache.count_part_miss(part.is_multiple_of(2));
        slot.set(Arc::clone(&content));
        self.cache.residents().enter(self.this.clone(), part);
        drop(loading);
        self.cache.shrink_residents();
        Ok(Guard::from_inner(Some(content)))
    }
}

/// Parts are numbered: filters even, indexes odd.
impl Holder for TableReader {
    fn take_touched(&self, part: usize) -> bool {
        match self.partitions.get(part / 2) {
            Some(partition) if part.is_multiple_of(2) => partition.filter.take_touched(),
            Some(partition) => partition.index.take_touched(),
            None => false,
        }
    }

    fn drop_part(&self, part: usize) {
        let freed = match self.partitions.get(part / 2) {
            Some(partition) if part.is_multiple_of(2) => partition.filter.clear(),
            Some(partition) => partition.index.clear(),
            None => 0,
        };
        self.cache.discharge(freed);
    }
}

impl Drop for TableReader {
    fn drop(&mut self) {
        for part in 0..self.partitions.len() * 2 {
            self.drop_part(part);
        }
        self.cache.unpin(open_bytes(&self.top, &self.partitions, self.ranges.as_ref()));
    }
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableReader({})", self.id)
    }
}

/// What an open table keeps in memory whatever is read of it.
fn open_bytes(top: &[u8], partitions: &[Partition], ranges: Option<&Arc<RangeTombstones>>) -> u64 {
    let ranges = ranges.map_or(0, |ranges| ranges.bytes());
    (size_of::<TableReader>() + top.len() + size_of_val(partitions) + ranges) as u64
}

/// Reads and checks the block of range tombstones.
fn read_ranges(
    blocks: &BlockFile,
    handle: BlockHandle,
    meta: &TableMeta,
    class: IoClass,
) -> Result<RangeTombstones> {
    let tombstones = blocks.read(handle, class, |payload| range_block::decode(payload, meta))?;
    Ok(RangeTombstones::new(&tombstones))
}

fn not_found<T>(probe: &TableProbe, stats: &mut ReadStats) -> Option<T> {
    stats.filter_false_positives += u64::from(probe.filter.is_some());
    None
}
