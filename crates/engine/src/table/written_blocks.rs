//! Blocks of tables that a job is writing and that clients read from memory so far: from a memtable, or from the cache, where a
//! merge's inputs are. The cache takes them over once their tables are to become part of the tree.
//!
//! Until then they wait here, in the cache's memory: nobody can read them, and where much is read from files the cache's hand would
//! come by before anybody does.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use evenkeel_arena::Block;

use super::block_cache::BlockCache;
use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::TableId;

/// The blocks of one job's tables, which are written one after the other, by ascending ids.
#[derive(Debug)]
pub struct WrittenBlocks {
    cache: Arc<BlockCache>,
    /// Shared by the job and the table that is open, of which one works at a time.
    waiting: Mutex<VecDeque<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    table: TableId,
    offset: u64,
    block: Block,
}

impl WrittenBlocks {
    /// None yet.
    pub fn new(cache: Arc<BlockCache>) -> WrittenBlocks {
        WrittenBlocks { cache, waiting: Mutex::default() }
    }

    /// Keeps a copy of the block that begins at an offset of a table's file. While too much waits the oldest ones are taken over early.
    pub fn add(&self, table: TableId, offset: u64, payload: &[u8]) {
        let block = self.cache.block(payload);
        self.cache.count_written(payload.len() as u64);
        let mut waiting = self.waiting();
        while !self.cache.hold(block.slot_bytes() as u64) {
            let Some(oldest) = waiting.pop_front() else {
                return self.cache.insert(table, offset, &block);
            };
            self.take_over(oldest);
        }
        waiting.push_back(Waiting { table, offset, block });
    }

    /// Has the cache take over what waits of the tables up to this one.
    pub fn hand_over(&self, last: TableId) {
        let mut waiting = self.waiting();
        while let Some(oldest) = waiting.pop_front_if(|oldest| oldest.table <= last) {
            self.take_over(oldest);
        }
    }

    /// While a block waited the cache may have wanted its memory back.
    fn take_over(&self, oldest: Waiting) {
        let Waiting { table, offset, block } = oldest;
        self.cache.let_go(block.slot_bytes() as u64);
        let block = if block.is_leaving() { self.cache.block(&block) } else { block };
        self.cache.insert(table, offset, &block);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WrittenBlocks {
    fn drop(&mut self) {
        let bytes = self.waiting().iter().map(|waiting| waiting.block.slot_bytes() as u64).sum();
        self.cache.let_go(bytes);
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
        written.hand_over(TableId(2));
        // Some buckets are full.
        assert!(kept(&cache, 1, 10) >= 7 && kept(&cache, 2, 10) >= 7);
        assert_eq!(kept(&cache, 3, 10), 0);
        read_others(&cache);
        written.hand_over(TableId(3));
        assert!(kept(&cache, 3, 10) >= 7);
        assert!(cache.used() <= CAPACITY);
        assert_eq!((cache.waiting_bytes(), cache.written_bytes()), (0, 30_000));
    }

    /// Of several jobs together; what comes then takes the place of what has waited longest.
    #[test]
    fn at_most_a_quarter_of_the_cache_waits() {
        let cache = Arc::new(BlockCache::new(CAPACITY, 1000));
        let jobs = [1, 2].map(|_| WrittenBlocks::new(Arc::clone(&cache)));
        for i in 0..1000 {
            for (table, written) in (1..).zip(&jobs) {
                written.add(TableId(table), i, &[1; 1000]);
                assert!(cache.waiting_bytes() <= CAPACITY / 4 && cache.used() <= CAPACITY);
            }
        }
        assert!(kept(&cache, 1, 1000) > 0 && kept(&cache, 2, 1000) > 0);
        assert!(cache.waiting_bytes() >= CAPACITY / 5);
        assert!(!cache.contains(TableId(1), 999));
        jobs[0].hand_over(TableId(1));
        assert!(cache.contains(TableId(1), 999));
    }

    #[test]
    fn what_waits_when_the_cache_is_cut_gives_its_memory_back_when_it_is_taken_over() {
        const CUT: u64 = 4 << 20;
        let cache = Arc::new(BlockCache::new(16 << 20, 1000));
        let written = WrittenBlocks::new(Arc::clone(&cache));
        for i in 0..12_000 {
            if i % 100 == 0 {
                written.add(TableId(1), i, &[1; 1000]);
            }
            cache.insert(TableId(2), i, &cache.block(&[2; 1000]));
        }
        cache.set_capacity(CUT);
        let held = cache.block_bytes();
        written.hand_over(TableId(1));
        assert!(held > CUT + CUT / 2, "{held}: chunks are held by what waits");
        assert!(cache.block_bytes() <= CUT + CUT / 8, "{} of {held}", cache.block_bytes());
        assert!((0..12_000).step_by(100).filter(|i| cache.contains(TableId(1), *i)).count() > 100);
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
        written.hand_over(TableId(1));
        assert_eq!(cache.used(), 0);
    }
}
