//! Partitions of a table's index and filter: what they are in memory, and the slots they hang in.
//!
//! An index partition is a block of (separator, offset, size): the separator is at or above every key of its data block
//! and below the next block's first, unless one key's versions go on there. A slot is filled when its content is first
//! needed and may be emptied at any time; whoever uses the content keeps it alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};

use super::block::{Content, Layout};
use super::block_file::BlockFile;
use super::filter::Filter;
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::base::class::IoClass;
use crate::base::coding::Decoder;
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::locks::Mutex;

/// An index partition in memory.
#[derive(Debug)]
pub struct IndexPartition {
    block: Box<[u8]>,
    layout: Layout,
}

impl IndexPartition {
    /// How many data blocks it knows.
    pub fn count(&self) -> usize {
        self.layout.count()
    }

    /// The position of the first block that may hold `key` or keys above it; `count` if there is none.
    #[inline]
    pub fn position(&self, key: &[u8]) -> usize {
        self.layout.lower_bound(&self.block, key, Trailer(u64::MAX))
    }

    /// The data block at a position.
    #[inline]
    pub fn handle(&self, at: usize) -> Option<BlockHandle> {
        let entry = self.layout.entry(&self.block, at)?;
        let bytes = u32::from_le_bytes(*self.block.get(entry.value)?.first_chunk()?);
        Some(BlockHandle { offset: entry.trailer.0, bytes })
    }

    /// True if the separator at a position is `key`: then the key's versions may go on in the next block.
    #[inline]
    pub fn is_separator(&self, at: usize, key: &[u8]) -> bool {
        self.layout.is_key(&self.block, at, key)
    }

    /// Reads and checks the partition at `handle`.
    pub fn read(blocks: &BlockFile, handle: BlockHandle, class: IoClass) -> Result<IndexPartition> {
        let (block, layout) = read_index(blocks, handle, class)?;
        let index = IndexPartition { block, layout };
        // Handles are checked once, here; a block may only lie below what describes it.
        let mut from = 0;
        for at in 0..index.count() {
            match index.handle(at).filter(|h| h.offset >= from && h.end() <= handle.offset) {
                Some(block) => from = block.end(),
                None => {
                    return Err(blocks.corruption(handle.offset, "the index points to an impossible place"));
                }
            }
        }
        Ok(index)
    }

    /// Writes the separator at a position to `key`.
    pub fn separator_into(&self, at: usize, key: &mut Vec<u8>) {
        self.layout.key_into(&self.block, at, key);
    }
}

/// A place for something that can be read again.
pub struct Slot<T> {
    /// Where it is in the file; no bytes if there is none.
    pub handle: BlockHandle,
    content: ArcSwapOption<T>,
    touched: AtomicBool,
    /// Held while the content is read, so that it is read once.
    pub loading: Mutex<()>,
}

impl<T> Slot<T> {
    /// An empty slot.
    pub fn new(handle: BlockHandle) -> Slot<T> {
        Slot {
            handle,
            content: ArcSwapOption::const_empty(),
            touched: AtomicBool::new(false),
            loading: Mutex::new(()),
        }
    }

    /// The content, if it is in memory; marks it as used.
    #[inline]
    pub fn get(&self) -> Option<Guard<Option<Arc<T>>>> {
        let content = self.content.load();
        content.as_ref()?;
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
        Some(content)
    }

    /// Hangs the content in.
    pub fn set(&self, content: Arc<T>) {
        self.touched.store(true, Ordering::Relaxed);
        self.content.store(Some(content));
    }

    /// True if the content was used since the last call.
    pub fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    /// Takes the content out; the bytes that frees.
    pub fn clear(&self) -> u64 {
        self.content.swap(None).map_or(0, |_| u64::from(self.handle.bytes))
    }
}

/// A part of a table's keys: the filter and the index for them.
pub struct Partition {
    /// Without bytes if the table has no filter.
    pub filter: Slot<Filter>,
    /// Always there.
    pub index: Slot<IndexPartition>,
}

impl Partition {
    /// Reads what the top index says of partition `i`.
    pub fn decode(top: &[u8], layout: &Layout, i: usize) -> Option<Partition> {
        let entry = layout.entry(top, i)?;
        let mut from = Decoder::new(top.get(entry.value)?);
        let index = BlockHandle { offset: entry.trailer.0, bytes: from.u32()? };
        let filter = BlockHandle::decode(&mut from)?;
        from.is_empty().then(|| Partition { filter: Slot::new(filter), index: Slot::new(index) })
    }
}

/// Reads an index block, of a partition or the top.
pub fn read_index(blocks: &BlockFile, handle: BlockHandle, class: IoClass) -> Result<(Box<[u8]>, Layout)> {
    blocks.read(handle, class, |payload| {
        check_unpacked(payload, handle)?;
        Ok((payload.into(), Layout::check(payload, Content::Index)?))
    })
}

/// Filters and indexes are never compressed, so they take as much memory as their handles say, which is what is counted.
pub fn check_unpacked(payload: &[u8], handle: BlockHandle) -> Result<(), &'static str> {
    if payload.len() + BLOCK_TRAILER_BYTES == handle.bytes as usize {
        Ok(())
    } else {
        Err("a filter or an index is compressed")
    }
}
