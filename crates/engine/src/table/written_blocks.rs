//! Blocks of a table that is being written and that clients read from memory so far: from a memtable, or from the cache, where a
//! merge's inputs are. The cache takes them over once the table is whole.
//!
//! Until then they wait here, in the cache's memory: nobody can read them, and where much is read from files the cache's hand would
//! come by before anybody does.

use std::sync::Arc;

use evenkeel_arena::Block;

use super::block_cache::BlockCache;
use crate::base::units::TableId;

/// More than this part of the cache does not wait: it is taken over early.
const PART_OF_CACHE: u64 = 4;

/// The blocks of one table.
#[derive(Debug)]
pub struct WrittenBlocks {
    cache: Arc<BlockCache>,
    table: TableId,
    waiting: Vec<(u64, Block)>,
    bytes: u64,
}

impl WrittenBlocks {
    /// None yet.
    pub fn new(cache: Arc<BlockCache>, table: TableId) -> WrittenBlocks {
        WrittenBlocks { cache, table, waiting: Vec::new(), bytes: 0 }
    }

    /// Keeps a copy of the block that begins at an offset of the file.
    pub fn add(&mut self, offset: u64, payload: &[u8]) {
        let block = self.cache.block(payload);
        let bytes = block.slot_bytes() as u64;
        if (self.bytes + bytes).saturating_mul(PART_OF_CACHE) > self.cache.capacity() {
            self.hand_over();
        }
        self.cache.count_written(payload.len() as u64);
        self.cache.hold(bytes);
        self.bytes += bytes;
        self.waiting.push((offset, block));
    }

    /// Has the cache take over what waits.
    pub fn hand_over(&mut self) {
        self.cache.unpin(std::mem::take(&mut self.bytes));
        for (offset, block) in self.waiting.drain(..) {
            self.cache.insert(self.table, offset, &block);
        }
    }
}

impl Drop for WrittenBlocks {
    fn drop(&mut self) {
        self.cache.unpin(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 200_000;

    fn kept(cache: &BlockCache, table: u64, blocks: u64) -> usize {
        (0..blocks).filter(|i| cache.contains(TableId(table), *i)).count()
    }

    /// While a table is written others come in and the hand goes round, several times.
    #[test]
    fn blocks_outlast_the_writing_of_their_table() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let mut written = WrittenBlocks::new(Arc::clone(&cache), TableId(1));
        for i in 0..20 {
            written.add(i, &[1; 1000]);
        }
        let read = |blocks: u64| {
            for i in 0..blocks {
                cache.insert(TableId(2), i, &cache.block(&[2; 1000]));
            }
        };
        read(2000);
        assert_eq!(kept(&cache, 1, 20), 0);
        assert!(cache.used() <= CAPACITY, "{} with what waits", cache.used());
        written.hand_over();
        // Some buckets are full.
        assert!(kept(&cache, 1, 20) >= 15);
        assert!(cache.used() <= CAPACITY);
        assert_eq!((cache.table_bytes(), cache.written_bytes()), (0, 20_000));
    }

    #[test]
    fn at_most_a_quarter_of_the_cache_waits() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let mut written = WrittenBlocks::new(Arc::clone(&cache), TableId(1));
        for i in 0..1000 {
            written.add(i, &[1; 1000]);
            assert!(cache.table_bytes() <= CAPACITY / PART_OF_CACHE && cache.used() <= CAPACITY);
        }
        assert!(kept(&cache, 1, 1000) > 0);
    }

    #[test]
    fn a_table_that_is_not_finished_leaves_nothing() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let mut written = WrittenBlocks::new(Arc::clone(&cache), TableId(1));
        written.add(0, &[1; 1000]);
        assert!(cache.used() > 0);
        drop(written);
        assert_eq!((cache.used(), kept(&cache, 1, 1)), (0, 0));
    }

    #[test]
    fn a_cache_of_nothing_takes_nothing() {
        let cache = Arc::new(BlockCache::new(0, 1000));
        let mut written = WrittenBlocks::new(Arc::clone(&cache), TableId(1));
        written.add(0, &[1; 1000]);
        written.hand_over();
        assert_eq!(cache.used(), 0);
    }
}
