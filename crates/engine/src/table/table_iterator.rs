//! A cursor over one table, in both directions with turns at any place.
//!
//! Client scans take blocks from the cache and may fill it; those that go on and on past what it holds read ahead, in
//! pieces that grow. Merges read large pieces at once and leave the cache alone. Pieces go into a buffer of the cursor's own,
//! where blocks are checked and unpacked. One move reads at most one piece.
//!
//! ```text
//! blocks missed in a row   1   2   3   4        5               6             a turn or a seek begins anew
//! read                     |b| |b| |b| |16 KiB| |   32 KiB    | |   64 KiB ...
//! ```

use std::ops::Range;
use std::sync::Arc;

use arc_swap::Guard;
use evenkeel_arena::Block;

use super::block::{Content, Layout};
use super::format::{BlockHandle, PAGE_BYTES};
use super::partition::IndexPartition;
use super::reader::{ReadStats, TableReader};
use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::observe::waits::{Cause, wait};
use crate::storage::aligned::{AlignedBuffer, PAGE};
use crate::storage::file_system::ReadFile;

/// How a cursor reads.
#[derive(Clone, Copy, Debug)]
pub struct TableReadOptions {
    /// Whose reads they are.
    pub class: IoClass,
    /// True if the cache keeps what is read.
    pub fill_cache: bool,
    /// If not 0: every read is of this much, past the cache.
    pub readahead_bytes: usize,
    /// Else: the most that is read ahead once several blocks in a row were not in the cache.
    pub readahead_max: usize,
}

/// So many blocks missed in a row are read one by one.
const SINGLE_READS: u32 = 3;
/// The first piece that is read ahead; each further one is twice as large.
const PIECE_MIN: usize = 16 << 10;

impl TableReadOptions {
    /// For clients: through the cache, a block at a time.
    pub fn client() -> TableReadOptions {
        TableReadOptions { class: IoClass::Client, fill_cache: true, readahead_bytes: 0, readahead_max: 0 }
    }

    /// For merges: 256 KiB at a time, past the cache.
    pub fn merge(class: IoClass) -> TableReadOptions {
        TableReadOptions { class, fill_cache: false, readahead_bytes: 256 << 10, readahead_max: 0 }
    }
}

/// Where the current block's bytes are.
#[derive(Debug)]
enum Source {
    Nowhere,
    Pinned(Block),
    /// In the readahead buffer, as it was stored, without its trailer.
    Ahead(Range<usize>),
    Unpacked,
}

/// A cursor over one table.
#[derive(Debug)]
pub struct TableIterator {
    table: Arc<TableReader>,
    options: TableReadOptions,
    stats: ReadStats,
    /// The current partition and its index.
    partition: usize,
    index: Option<Arc<IndexPartition>>,
    /// The current block's position in the index, its bytes, and its layout.
    at: usize,
    source: Source,
    layout: Layout,
    /// The current entry.
    position: usize,
    valid: bool,
    /// Its key; the first `head_len` bytes are the block's head.
    key: Vec<u8>,
    head_len: usize,
    trailer: Trailer,
    value: Range<usize>,
    /// A piece of the file, and where it begins; `u64::MAX` if there is none.
    ahead: AlignedBuffer,
    ahead_start: u64,
    /// Where pieces are read from, if not from the table's own file.
    ahead_file: Option<Arc<dyn ReadFile>>,
    unpacked: Vec<u8>,
    /// The current block, which was read past the cache, is there too.
    cached: bool,
    /// The move under way goes back.
    back: bool,
    /// Blocks in a row that were neither in the cache nor in the piece, and how large the last piece was to be.
    misses: u32,
    piece: usize,
}

impl TableIterator {
    /// A cursor that stands nowhere yet.
    pub fn new(table: Arc<TableReader>, options: TableReadOptions) -> TableIterator {
        TableIterator {
            table,
            options,
            stats: ReadStats::default(),
            partition: 0,
            index: None,
            at: 0,
            source: Source::Nowhere,
            layout: Layout::default(),
            position: 0,
            valid: false,
            key: Vec::new(),
            head_len: 0,
            trailer: Trailer(0),
            value: 0..0,
            ahead: AlignedBuffer::default(),
            ahead_start: u64::MAX,
            ahead_file: None,
            unpacked: Vec::new(),
            cached: false,
            back: false,
            misses: 0,
            piece: 0,
        }
    }

    /// Bytes of its own buffers; the piece read ahead is lent, and counted where it comes from.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<TableIterator>() + self.unpacked.capacity() + self.key.capacity()) as u64
    }

    /// Reads pieces from `file`, the same bytes another way.
    pub fn read_ahead_from(&mut self, file: Arc<dyn ReadFile>) {
        self.ahead_file = Some(file);
    }

    /// The current value with its block, if the block is shared; `None` while nowhere or reading ahead.
    #[cfg(test)]
    pub fn pinned_value(&self) -> Option<super::reader::PinnedValue> {
        match &self.source {
            Source::Pinned(block) if self.valid => {
                Some(super::reader::PinnedValue::new(block.clone(), self.value.clone()))
            }
            _ => None,
        }
    }

    #[inline]
    fn block(&self) -> &[u8] {
        match &self.source {
            Source::Nowhere => &[],
            Source::Pinned(block) => block,
            Source::Ahead(range) => self.ahead.get(range.clone()).unwrap_or_default(),
            Source::Unpacked => &self.unpacked,
        }
    }

    /// Makes a partition the current one; false if there is none of this number.
    fn enter_partition(&mut self, partition: usize) -> Result<bool> {
        if partition >= self.table.partition_count() {
            return Ok(false);
        }
        if self.partition != partition || self.index.is_none() {
            self.source = Source::Nowhere;
            self.index = None;
            let TableReadOptions { class, fill_cache, .. } = self.options;
            self.index = if fill_cache {
                Guard::into_inner(self.table.index(partition, class)?)
            } else {
                self.table.index_in_passing(partition, class)?
            };
            self.partition = partition;
        }
        Ok(true)
    }

    /// Makes the block at a position of the current partition the current one.
    fn enter_block(&mut self, at: usize) -> Result<()> {
        if self.at == at && !matches!(self.source, Source::Nowhere) {
            return Ok(());
        }
        self.source = Source::Nowhere;
        let handle = self.index.as_ref().and_then(|index| index.handle(at));
        let Some(handle) = handle else {
            return Err(self
                .table
                .blocks()
                .corruption(self.table.footer().top.offset, "the index is too short"));
        };
        let source = if self.options.readahead_bytes > 0 {
            self.cached = self.table.has_cached(handle);
            self.read_ahead(handle, self.options.readahead_bytes)?
        } else {
            self.through_cache(handle)?
        };
        self.source = source;
        self.layout = self.table.layout(self.block(), handle)?;
        self.at = at;
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.layout.head(self.block()));
        self.head_len = key.len();
        self.key = key;
        Ok(())
    }

    /// A block from the cache, or from the piece read ahead, or from the file: alone, or with a piece that follows it.
    fn through_cache(&mut self, handle: BlockHandle) -> Result<Source> {
        let TableReadOptions { class, fill_cache, readahead_max, .. } = self.options;
        if let Some(block) = self.table.cached_block(handle, &mut self.stats) {
            return Ok(Source::Pinned(block));
        }
        if self.in_piece(handle)?.is_none() {
            self.misses = self.misses.saturating_add(1);
            if self.misses <= SINGLE_READS || readahead_max == 0 {
                let block = self.table.block_from_file(handle, class, fill_cache, &mut self.stats)?;
                return Ok(Source::Pinned(block));
            }
            self.piece = (self.piece * 2).max(PIECE_MIN).min(readahead_max);
        }
        let source = self.read_ahead(handle, self.piece)?;
        if !fill_cache {
            return Ok(source);
        }
        self.source = source;
        let block = self.table.copy(self.block());
        self.table.keep_block(handle, &block);
        Ok(Source::Pinned(block))
    }

    /// Where in the buffer the block is, if it is there.
    fn in_piece(&self, handle: BlockHandle) -> Result<Option<Range<usize>>> {
        let bytes = self.table.blocks().checked_len(handle)?;
        let range = || {
            let from = usize::try_from(handle.offset.checked_sub(self.ahead_start)?).ok()?;
            let range = from..from.checked_add(bytes)?;
            (range.end <= self.ahead.len()).then_some(range)
        };
        Ok(range())
    }

    /// Reads a piece into the buffer: from the block on, or up to it if the cursor is going back. Begins at a page, and ends
    /// at one unless the file does.
    fn fill_piece(&mut self, handle: BlockHandle, piece: usize) -> Result<Range<usize>> {
        let (bytes, last) = (self.table.blocks().checked_len(handle)?, self.table.blocks().end());
        let piece = piece.max(bytes) as u64;
        let (from, to) = if self.back {
            (handle.end().saturating_sub(piece), handle.end())
        } else {
            (handle.offset, handle.offset.saturating_add(piece))
        };
        let start = from / PAGE_BYTES * PAGE_BYTES;
        let end = to.checked_next_multiple_of(PAGE_BYTES).unwrap_or(to).min(last);
        // Nothing of the old piece may be taken for the new one if the read fails.
        self.ahead_start = u64::MAX;
        self.make_room((end - start) as usize);
        let file = self.ahead_file.as_ref().unwrap_or(self.table.blocks().file());
        let _wait = (self.options.class == IoClass::Client).then(|| wait(Cause::Read));
        file.read_at(start, &mut self.ahead, self.options.class)?;
        self.ahead_start = start;
        let from = (handle.offset - start) as usize;
        Ok(from..from + bytes)
    }

    /// Makes the buffer `len` bytes long, whatever they are.
    fn make_room(&mut self, len: usize) {
        if len + PAGE <= self.ahead.memory() {
            self.ahead.reset(len);
            return;
        }
        let pieces = self.table.pieces();
        pieces.take_back(std::mem::take(&mut self.ahead));
        self.ahead = pieces.lend(len);
    }

    /// Finds the block in the buffer, or fills the buffer.
    fn read_ahead(&mut self, handle: BlockHandle, piece: usize) -> Result<Source> {
        let range = match self.in_piece(handle)? {
            Some(range) => range,
            None => self.fill_piece(handle, piece)?,
        };
        let blocks = self.table.blocks();
        self.stats.block_reads += 1;
        let stored = self.ahead.get(range.clone()).unwrap_or_default();
        let payload = blocks.unpack(stored, handle.offset, &mut self.unpacked)?;
        Layout::check(payload, Content::Data).map_err(|what| blocks.corruption(handle.offset, what))?;
        let stored_len = payload.len();
        Ok(if std::ptr::eq(payload.as_ptr(), stored.as_ptr()) {
            Source::Ahead(range.start..range.start + stored_len)
        } else {
            Source::Unpacked
        })
    }

    /// Begins a movement: what was missed before says nothing of it.
    fn begin(&mut self, back: bool) {
        (self.back, self.misses, self.piece) = (back, 0, 0);
    }

    /// To the next block, in whatever partition; false at the end.
    fn next_block(&mut self) -> Result<bool> {
        if self.back {
            self.begin(false);
        }
        if self.index.as_ref().is_some_and(|index| self.at + 1 < index.count()) {
            self.enter_block(self.at + 1)?;
            return Ok(true);
        }
        if !self.enter_partition(self.partition + 1)? {
            return Ok(false);
        }
        self.enter_block(0)?;
        Ok(true)
    }

    /// To the block before, in whatever partition; false at the start.
    fn prev_block(&mut self) -> Result<bool> {
        if !self.back {
            self.begin(true);
        }
        if let Some(at) = self.at.checked_sub(1) {
            self.enter_block(at)?;
            return Ok(true);
        }
        let Some(partition) = self.partition.checked_sub(1) else { return Ok(false) };
        self.enter_partition(partition)?;
        self.enter_last_block()?;
        Ok(true)
    }

    fn enter_last_block(&mut self) -> Result<()> {
        let last = self.index.as_ref().map_or(0, |index| index.count().saturating_sub(1));
        self.enter_block(last)
    }

    /// Stands on an entry of the current block.
    #[inline]
    fn stand(&mut self, position: usize) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        // The head is there since the block was entered.
        key.truncate(self.head_len);
        let block = self.block();
        let entry = self.layout.entry(block, position).map(|entry| {
            entry.push_rest(&mut key);
            (entry.trailer, entry.value)
        });
        self.key = key;
        let Some((trailer, value)) = entry else {
            return Err(self.table.blocks().corruption(0, "an entry does not fit into its block"));
        };
        let trailer = self.table.trailer(trailer);
        (self.position, self.trailer, self.value, self.valid) = (position, trailer, value, true);
        Ok(())
    }

    /// Does a move. It begins nowhere, and an error leaves the cursor there.
    #[inline]
    fn moved(&mut self, work: impl FnOnce(&mut TableIterator) -> Result<()>) -> Result<()> {
        self.valid = false;
        work(self)
    }

    /// To the block where `key` would be; false if it is above everything.
    fn enter_block_of(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(false);
        let Some(partition) = self.table.partition_for(key) else { return Ok(false) };
        self.enter_partition(partition)?;
        let at = self.index.as_ref().map_or(0, |index| index.position(key));
        // The top index and the partition agree on the last separator, or the file is damaged, which `enter_block` says.
        self.enter_block(at)?;
        Ok(true)
    }
}

impl InternalIterator for TableIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.valid { &self.key } else { &[] }
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.trailer
    }

    #[inline]
    fn value(&self) -> &[u8] {
        if self.valid { self.block().get(self.value.clone()).unwrap_or_default() } else { &[] }
    }

    #[inline]
    fn is_in_memory(&self) -> bool {
        self.cached
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.moved(|cursor| {
            cursor.begin(false);
            // A table may have range tombstones only.
            if !cursor.enter_partition(0)? {
                return Ok(());
            }
            cursor.enter_block(0)?;
            cursor.stand(0)
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.moved(|cursor| {
            cursor.begin(true);
            if !cursor.enter_partition(cursor.table.partition_count().saturating_sub(1))? {
                return Ok(());
            }
            cursor.enter_last_block()?;
            cursor.stand(cursor.layout.count().saturating_sub(1))
        })
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.moved(|cursor| {
            if !cursor.enter_block_of(key)? {
                return Ok(());
            }
            // The block may end below (key, trailer): above the separator's last key, or amid versions that go on.
            loop {
                let position = cursor.layout.lower_bound(cursor.block(), key, trailer);
                if position < cursor.layout.count() {
                    cursor.stand(position)?;
                    // An entry that does not carry its sequence may be newer than what is sought.
                    return if cursor.key == key && cursor.trailer > trailer {
                        cursor.next()
                    } else {
                        Ok(())
                    };
                }
                if !cursor.next_block()? {
                    return Ok(());
                }
            }
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.moved(|cursor| {
            if !cursor.enter_block_of(key)? {
                return cursor.seek_to_last();
            }
            let position = cursor.layout.lower_bound(cursor.block(), key, Trailer(u64::MAX));
            match position.checked_sub(1) {
                Some(before) => cursor.stand(before),
                // Every key of the block before is at or below its separator, which is below `key`.
                None if cursor.prev_block()? => cursor.stand(cursor.layout.count().saturating_sub(1)),
                None => Ok(()),
            }
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        self.moved(|cursor| {
            if cursor.position + 1 < cursor.layout.count() {
                cursor.stand(cursor.position + 1)
            } else if cursor.next_block()? {
                cursor.stand(0)
            } else {
                Ok(())
            }
        })
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        self.moved(|cursor| {
            if let Some(before) = cursor.position.checked_sub(1) {
                cursor.stand(before)
            } else if cursor.prev_block()? {
                cursor.stand(cursor.layout.count().saturating_sub(1))
            } else {
                Ok(())
            }
        })
    }
}

impl Drop for TableIterator {
    fn drop(&mut self) {
        self.table.pieces().take_back(std::mem::take(&mut self.ahead));
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
