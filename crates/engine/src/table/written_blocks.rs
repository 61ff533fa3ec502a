//! Blocks of tables that a job is writing and that clients read from memory so far: from a memtable, or from the cache, where a
//! merge's inputs are. The cache takes them over once their tables are to become part of the tree.
//!
//! Until then they wait here, in the cache's memory: nobody can read them, and where much is read from files the cache's hand would
//! come by before anybody does.

use std::sync::Arc;

use evenkeel_arena::Block;

use super::block_cache::BlockCache;
use super::waiting_blocks::Waiting;
use crate::base::units::TableId;

/// The blocks of one job's tables, which are written one after the other, by ascending ids.
#[derive(Debug)]
pub struct WrittenBlocks {
    cache: Arc<BlockCache>,
    queue: u64,
}

impl WrittenBlocks {
    /// None yet.
    pub fn new(cache: Arc<BlockCache>) -> WrittenBlocks {
        let queue = cache.waiting().open();
        WrittenBlocks { cache, queue }
    }

    /// Keeps a copy of the block that begins at an offset of a table's file. While too much waits the oldest ones are taken over early.
    pub fn add(&self, table: TableId, offset: u64, payload: &[u8]) {
        let block = self.cache.block(payload);
        let most = self.cache.waiting_max();
        if block.slot_bytes() as u64 > most {
            return self.keep(table, offset, &block);
        }
        self.cache.waiting().push(self.queue, Waiting { table, offset, block });
        while let Some(oldest) = self.cache.waiting().pop_beyond(most) {
            self.take_over(oldest);
        }
        self.cache.make_room();
    }

    /// Has the cache take over what waits of the tables up to this one, so many blocks at most. True once nothing of that waits.
    pub fn hand_over(&self, last: TableId, at_most: usize) -> bool {
        for _ in 0..at_most {
            let Some(oldest) = self.cache.waiting().pop_up_to(self.queue, last) else { return true };
            self.take_over(oldest);
        }
        false
    }

    /// The cache may have wanted the block's memory back a moment ago.
    fn take_over(&self, oldest: Waiting) {
        let Waiting { table, offset, block } = oldest;
        let block = if block.is_leaving() { self.cache.block(&block) } else { block };
        self.keep(table, offset, &block);
    }

    fn keep(&self, table: TableId, offset: u64, block: &Block) {
        if self.cache.insert(table, offset, block) {
            self.cache.count_written(block.len() as u64);
        }
    }
}

impl Drop for WrittenBlocks {
    fn drop(&mut self) {
        self.cache.waiting().close(self.queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 200_000;

    fn kept(cache: &BlockCache, table: u64, blocks: u64) -> usize {
        (0..blocks).filter(|i| cache.contains(TableId(table), *i)).count()
    }

    /// Others come in and the hand goes round, several times.
    fn read_others(cache: &BlockCache) {
        for i in 0..2000 {
            cache.insert(TableId(9), i, &cache.block(&[2; 1000]));
        }
    }

    /// While the next one is written, too: a job's tables are installed together.
    #[test]
    fn blocks_outlast_the_writing_of_their_table_and_the_wait_for_its_installation() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        for table in [1, 2, 3] {
            for i in 0..10 {
                written.add(TableId(table), i, &[1; 1000]);
            }
            read_others(&cache);
            assert_eq!(kept(&cache, table, 10), 0);
            assert!(cache.used() <= CAPACITY, "{} with what waits", cache.used());
            assert_eq!(cache.table_bytes(), 0);
        }
        let mut parts = 1;
        while !written.hand_over(TableId(2), 8) {
            parts += 1;
        }
        assert_eq!(parts, 20 / 8 + 1);
        // Some buckets are full.
        assert!(kept(&cache, 1, 10) >= 7 && kept(&cache, 2, 10) >= 7);
        assert_eq!(kept(&cache, 3, 10), 0);
        read_others(&cache);
        written.hand_over(TableId(3), usize::MAX);
        assert!(kept(&cache, 3, 10) >= 7);
        assert!(cache.used() <= CAPACITY);
        assert_eq!((cache.waiting().bytes(), cache.written_bytes()), (0, 30_000));
    }

    /// Of several jobs together; what comes then takes the place of what has waited longest.
    #[test]
    fn at_most_a_quarter_of_the_cache_waits() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let jobs = [1, 2].map(|_| WrittenBlocks::new(Arc::clone(&cache)));
        for i in 0..1000 {
            for (table, written) in (1..).zip(&jobs) {
                written.add(TableId(table), i, &[1; 1000]);
                assert!(cache.waiting().bytes() <= CAPACITY / 4 && cache.used() <= CAPACITY);
            }
        }
        assert!(kept(&cache, 1, 1000) > 0 && kept(&cache, 2, 1000) > 0);
        assert!(cache.waiting().bytes() >= CAPACITY / 5);
        assert!(!cache.contains(TableId(1), 999));
        jobs[0].hand_over(TableId(1), usize::MAX);
        assert!(cache.contains(TableId(1), 999));
    }

    /// Though its job may be set aside for long.
    #[test]
    fn what_waits_yields_when_the_cache_is_cut() {
        const CUT: u64 = 4 << 20;
        let cache = Arc::new(BlockCache::new(16 << 20, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        for i in 0..12_000 {
            if i % 5 == 0 {
                written.add(TableId(1), i, &[1; 1000]);
            }
            cache.insert(TableId(2), i, &cache.block(&[2; 1000]));
        }
        assert!(cache.waiting().bytes() > 2 << 20);
        cache.set_capacity(CUT);
        assert!(cache.waiting().bytes() <= CUT / 4 && cache.used() <= CUT);
        assert!(cache.block_bytes() <= CUT + CUT / 8, "{}", cache.block_bytes());
        written.hand_over(TableId(1), usize::MAX);
        assert!(kept(&cache, 1, 12_000) > 500 && !cache.contains(TableId(1), 0));
    }

    /// A flush beside a compaction that has been at it for long.
    #[test]
    fn the_job_that_has_most_waiting_makes_room_for_others() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let [large, small] = [1, 2].map(|_| WrittenBlocks::new(Arc::clone(&cache)));
        (0..1000).for_each(|i| large.add(TableId(1), i, &[1; 1000]));
        (0..10).for_each(|i| small.add(TableId(2), i, &[1; 1000]));
        read_others(&cache);
        assert_eq!(kept(&cache, 2, 10), 0);
        small.hand_over(TableId(2), usize::MAX);
        assert!(kept(&cache, 2, 10) >= 7);
    }

    #[test]
    fn a_block_that_is_too_large_to_wait_leaves_others_waiting() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        written.add(TableId(1), 0, &[1; 1000]);
        written.add(TableId(1), 1, &[1; CAPACITY as usize / 3]);
        assert!(!cache.contains(TableId(1), 0) && cache.contains(TableId(1), 1));
    }

    /// Blocks that tables leave no room for are not copied to be refused at the end.
    #[test]
    fn what_waits_has_half_of_what_tables_leave() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        cache.pin(CAPACITY / 4 * 3);
        (0..100).for_each(|i| written.add(TableId(1), i, &[1; 1000]));
        assert!(cache.waiting().bytes() <= CAPACITY / 8);
        assert!(kept(&cache, 1, 100) > 0);
    }

    #[test]
    fn a_job_that_does_not_install_its_tables_leaves_nothing() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        written.add(TableId(1), 0, &[1; 1000]);
        assert!(cache.used() > 0);
        drop(written);
        assert_eq!((cache.used(), kept(&cache, 1, 1)), (0, 0));
    }

    #[test]
    fn a_cache_of_nothing_takes_nothing() {
        let cache = Arc::new(BlockCache::new(0, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        written.add(TableId(1), 0, &[1; 1000]);
        written.hand_over(TableId(1), usize::MAX);
        assert_eq!(cache.used(), 0);
    }
}
