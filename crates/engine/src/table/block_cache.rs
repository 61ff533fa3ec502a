//! The block cache: uncompressed data blocks by (table, offset), and the memory of everything that tables keep loaded
//! and read ahead.
//!
//! ```text
//! bucket (128 bytes) = lock | 7 keys, each with a touched bit | 7 blocks     a hit: bucket, block's first line
//! ```
//! Set-associative: a block has one bucket. The touched bit is written only when it is clear. Capacity is in bytes,
//! kept by one counter that only insertions and evictions change; a clock hand sweeps the buckets when it is exceeded.
//! Growing doubles the buckets in place: what then lies in the wrong one is swept away in time. Partitions of indexes
//! and filters are charged here too, and dropped when they exceed half the capacity and are cold, or all but an eighth of it.
//!
//! Blocks have memory of their own ([`BlockPool`]): a cache that is full allocates nothing, and leaves no holes in the heaps of
//! an allocator that gives each thread another.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError};

use evenkeel_arena::{Block, BlockPool};

use super::pieces::Pieces;
use super::residents::Residents;
use super::waiting_blocks::WaitingBlocks;
use crate::base::clock::thread_number;
use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::TableId;

const WAYS: usize = 7;
/// Blocks aimed at per bucket: low enough that few buckets overflow (5 % by Poisson).
const LOAD: f64 = 4.0;
/// Memory of a block beside its slot: its share of a bucket.
const BLOCK_OVERHEAD_BYTES: u64 = 48;
/// Buckets double at most this often after the cache is made.
const DOUBLINGS: usize = 24;
const STRIPES: usize = 16;
/// A key in one word: tables below 2^27, offsets below 2^36, and the touched bit. Others are not cached.
const OFFSET_BITS: u32 = 36;
const TABLE_BITS: u32 = 27;
const TOUCHED: u64 = 1;

#[derive(Default)]
struct Slots {
    keys: [u64; WAYS],
    blocks: [Option<Block>; WAYS],
}

#[derive(Default)]
#[repr(align(128))]
struct Bucket(Mutex<Slots>);

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of one thread or a few: nobody shares a line with everybody.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
    filled: AtomicU64,
    filled_on_disk: AtomicU64,
    skipped: AtomicU64,
}

/// Room left for slots that are free and will be filled again: a share of the capacity, up to so many bytes. Beyond twice as much,
/// and a little, memory is given back.
const FREE_PART: u64 = 32;
const FREE_BYTES_MAX: u64 = 4 << 20;
const LITTLE_BYTES: u64 = 128 << 10;

/// All blocks that wait to be kept take at most this part of the capacity, and half of what tables leave.
const WAITING_PART: u64 = 4;

/// Blocks in memory.
pub struct BlockCache {
    capacity: AtomicU64,
    block_bytes: u64,
    /// log2 of the number of buckets now, and when the cache was made.
    bits: AtomicU32,
    base_bits: u32,
    /// Segment 0 has the first `1 << base_bits` buckets, each further one as many as all before it.
    segments: [OnceLock<Box<[Bucket]>>; DOUBLINGS + 1],
    used: AtomicU64,
    hand: AtomicUsize,
    residents: Residents,
    pieces: Pieces,
    pool: BlockPool,
    /// True while a thread gives memory back.
    trimming: AtomicBool,
    /// What open tables keep in memory as long as they are open.
    pinned: AtomicU64,
    waiting: WaitingBlocks,
    stripes: [Stripe; STRIPES],
    /// Parts of filters, and of indexes, that had to be read.
    filter_misses: AtomicU64,
    index_misses: AtomicU64,
    /// Bytes of blocks that were kept when they were written.
    written: AtomicU64,
}

impl BlockCache {
    /// A cache of `capacity` bytes for blocks of about `block_bytes`. A capacity of 0 caches nothing.
    pub fn new(capacity: u64, block_bytes: usize) -> BlockCache {
        let block_bytes = (block_bytes as u64).max(512);
        let base_bits = bits_for(capacity, block_bytes);
        let cache = BlockCache {
            capacity: AtomicU64::new(capacity),
            block_bytes,
            bits: AtomicU32::new(base_bits),
            base_bits,
            segments: [const { OnceLock::new() }; DOUBLINGS + 1],
            used: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
            residents: Residents::default(),
            pieces: Pieces::new(pieces_kept_max(capacity)),
            pool: BlockPool::new(),
            trimming: AtomicBool::new(false),
            pinned: AtomicU64::new(0),
            waiting: WaitingBlocks::default(),
            stripes: Default::default(),
            filter_misses: AtomicU64::new(0),
            index_misses: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        cache.grow_to(base_bits);
        cache
    }

    /// The block, if it is here. Allocates nothing.
    #[inline]
    pub fn get(&self, table: TableId, offset: u64) -> Option<Block> {
        let found = pack(table, offset).and_then(|key| {
            let mut slots = self.bucket(self.place(key))?.lock();
            let way = slots.find(key)?;
            if let Some(key) = slots.keys.get_mut(way)
                && *key & TOUCHED == 0
            {
                *key |= TOUCHED;
            }
            slots.blocks.get(way)?.clone()
        });
        let stripe = self.stripe();
        if found.is_some() { &stripe.hits } else { &stripe.misses }.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// A block of these bytes, to be kept or not.
    pub fn block(&self, payload: &[u8]) -> Block {
        self.pool.block(payload)
    }

    /// Keeps a block, and lets others go if there is too much. False if it was here, or there is no room.
    pub fn insert(&self, table: TableId, offset: u64, block: &Block) -> bool {
        let bytes = cost(block);
        // Where all is taken by what is no block, it would be let go at once, by a search of all buckets.
        let room = self.usable().saturating_sub(self.bytes_beside());
        let Some(key) = pack(table, offset).filter(|_| bytes <= room) else { return false };
        let Some(bucket) = self.bucket(self.place(key)) else { return false };
        // Counted before it can be found, so that whoever evicts it never subtracts first.
        self.used.fetch_add(bytes, Ordering::Relaxed);
        let mut slots = bucket.lock();
        if slots.find(key).is_some() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        let way = slots.victim();
        let Slots { keys, blocks } = &mut *slots;
        let (Some(slot_key), Some(slot)) = (keys.get_mut(way), blocks.get_mut(way)) else {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        };
        *slot_key = key;
        let old = slot.replace(block.clone());
        drop(slots);
        if let Some(old) = old {
            self.used.fetch_sub(cost(&old), Ordering::Relaxed);
        }
        self.evict();
        true
    }

    /// True if the block is here; to ask is not to use it.
    pub fn contains(&self, table: TableId, offset: u64) -> bool {
        pack(table, offset).is_some_and(|key| {
            self.bucket(self.place(key)).is_some_and(|bucket| bucket.lock().find(key).is_some())
        })
    }

    /// A block of so many bytes is kept since its job has ended.
    pub fn count_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of blocks that were kept when they were written.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity; what is too much goes at once.
    pub fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.grow_to(bits_for(capacity, self.block_bytes));
        self.pieces.keep_at_most(pieces_kept_max(capacity));
        while self.waiting.pop_beyond(self.waiting_max()).is_some() {}
        self.shrink_residents();
        self.evict();
    }

    /// Bytes in use: blocks that are kept or wait to be, and everything charged.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed).saturating_add(self.bytes_beside())
    }

    /// What blocks that are kept leave to others.
    fn bytes_beside(&self) -> u64 {
        self.table_bytes().saturating_add(self.waiting.bytes())
    }

    /// Bytes of blocks that are kept.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of everything charged: what tables keep, and pieces that are read ahead.
    pub fn table_bytes(&self) -> u64 {
        let tables = self.residents.bytes().saturating_add(self.pinned.load(Ordering::Relaxed));
        tables.saturating_add(self.pieces.bytes())
    }

    /// Memory of blocks alone: those that are kept, those that wait, those that readers still have, and slots that will be filled again.
    pub fn block_bytes(&self) -> u64 {
        let used = self.used.load(Ordering::Relaxed).saturating_add(self.waiting.bytes());
        used.max(self.pool.memory_bytes() as u64)
    }

    /// Blocks that wait to be kept.
    pub fn waiting(&self) -> &WaitingBlocks {
        &self.waiting
    }

    /// So many bytes of them may wait.
    pub fn waiting_max(&self) -> u64 {
        let left = self.usable().saturating_sub(self.table_bytes());
        (self.capacity() / WAITING_PART).min(left / 2)
    }

    /// Counts memory that hangs elsewhere as part of the cache.
    pub fn charge(&self, bytes: u64) {
        self.residents.add_bytes(bytes);
    }

    /// Ends a charge.
    pub fn discharge(&self, bytes: u64) {
        self.residents.sub_bytes(bytes);
    }

    /// Counts what an open table keeps in memory until it is closed.
    pub fn pin(&self, bytes: u64) {
        self.pinned.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Lets others go for what waits.
    pub fn make_room(&self) {
        let most = self.residents_max();
        self.residents.shrink_to(most, most);
        self.evict();
    }

    /// An open table was closed.
    pub fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory for pieces that are read ahead.
    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// The clock over partitions in memory.
    pub fn residents(&self) -> &Residents {
        &self.residents
    }

    /// Drops cold partitions while all of them take more than half the capacity, others while they leave nothing for blocks, then blocks:
    /// one that is used again and again is worth more than a block, which is one of hundreds that it leads to.
    pub fn shrink_residents(&self) {
        self.residents.shrink_to(self.capacity() / 2, self.residents_max());
        self.evict();
    }

    /// Partitions leave blocks an eighth of what others leave both, unless they take less than half the capacity.
    fn residents_max(&self) -> u64 {
        let capacity = self.capacity();
        let others = self.bytes_beside().saturating_sub(self.residents.bytes());
        (capacity.saturating_sub(others) / 8 * 7).max(capacity / 2)
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.stripes.iter().map(|s| s.hits.load(Ordering::Relaxed)).sum()
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.stripes.iter().map(|s| s.misses.load(Ordering::Relaxed)).sum()
    }

    /// A part of a table's filter, or of its index, was not in memory.
    pub fn count_part_miss(&self, is_filter: bool) {
        if is_filter { &self.filter_misses } else { &self.index_misses }.fetch_add(1, Ordering::Relaxed);
    }

    /// Parts of filters that had to be read.
    pub fn filter_misses(&self) -> u64 {
        self.filter_misses.load(Ordering::Relaxed)
    }

    /// Parts of indexes that had to be read.
    pub fn index_misses(&self) -> u64 {
        self.index_misses.load(Ordering::Relaxed)
    }

    /// A read has brought in so many bytes, which take so many on disk.
    pub fn count_fill(&self, bytes: u64, on_disk: u64) {
        let stripe = self.stripe();
        stripe.filled.fetch_add(bytes, Ordering::Relaxed);
        stripe.filled_on_disk.fetch_add(on_disk, Ordering::Relaxed);
    }

    /// Bytes of blocks, indexes and filters that were brought in, uncompressed, also where there was no room. Only clients' reads
    /// bring any.
    pub fn filled_bytes(&self) -> u64 {
        self.stripes.iter().map(|s| s.filled.load(Ordering::Relaxed)).sum()
    }

    /// What those take on disk.
    pub fn filled_bytes_on_disk(&self) -> u64 {
        self.stripes.iter().map(|s| s.filled_on_disk.load(Ordering::Relaxed)).sum()
    }

    /// Counts tables that a scan need not read.
    pub fn count_skipped(&self, tables: u64) {
        if tables > 0 {
            self.stripe().skipped.fetch_add(tables, Ordering::Relaxed);
        }
    }

    /// Tables that scans need not read because their filters deny the prefix.
    pub fn skipped(&self) -> u64 {
        self.stripes.iter().map(|s| s.skipped.load(Ordering::Relaxed)).sum()
    }

    /// Lets blocks go until what is used fits, and gives back the memory of those that nothing will fill again.
    fn evict(&self) {
        self.sweep();
        let free = self.pool.free_bytes() as u64;
        let room = free_room_of(self.capacity());
        if free > room * 2 + LITTLE_BYTES && !self.trimming.swap(true, Ordering::Acquire) {
            self.trim(free - room);
            self.trimming.store(false, Ordering::Release);
        }
    }

    /// What may be in use, of one look at the capacity: others change it meanwhile.
    fn usable(&self) -> u64 {
        let capacity = self.capacity();
        capacity - free_room_of(capacity)
    }

    /// Empties chunks of about so many bytes: blocks in them move to free slots of others.
    #[cold]
    fn trim(&self, bytes: u64) {
        self.pool.vacate(bytes as usize);
        for place in 0..1usize << self.bits.load(Ordering::Relaxed) {
            let Some(bucket) = self.bucket(place) else { return };
            let leaves = |block: &Option<Block>| block.as_ref().filter(|block| block.is_leaving()).cloned();
            let leaving = bucket.lock().blocks.each_ref().map(leaves);
            if leaving.iter().all(Option::is_none) {
                continue;
            }
            // Without the lock, which readers want: memory is mapped, and unmapped with the last block that leaves.
            let mut moved = leaving.map(|block| block.map(|block| (self.pool.block(&block), block)));
            let mut slots = bucket.lock();
            for (block, moved) in slots.blocks.iter_mut().zip(&mut moved) {
                if let (Some(block), Some((copy, left))) = (block, moved)
                    && block.as_ptr() == left.as_ptr()
                {
                    std::mem::swap(block, copy);
                }
            }
            drop(slots);
        }
        self.waiting.move_leaving(|block| self.pool.block(block));
    }

    /// Sweeps until what is used fits, or everything has been seen twice.
    fn sweep(&self) {
        let buckets = 1usize << self.bits.load(Ordering::Relaxed);
        for _ in 0..buckets * 2 {
            let mut excess = self.used().saturating_sub(self.usable());
            if excess == 0 || self.used.load(Ordering::Relaxed) == 0 {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) & (buckets - 1);
            let Some(bucket) = self.bucket(hand) else { return };
            let mut gone: [Option<Block>; WAYS] = Default::default();
            let mut slots = bucket.lock();
            let Slots { keys, blocks } = &mut *slots;
            for ((key, block), gone) in keys.iter_mut().zip(blocks).zip(&mut gone) {
                if *key & TOUCHED != 0 {
                    *key &= !TOUCHED;
                } else if let Some(block) = block.take_if(|_| excess > 0) {
                    *key = 0;
                    excess = excess.saturating_sub(cost(&block));
                    *gone = Some(block);
                }
            }
            drop(slots);
            for block in gone.into_iter().flatten() {
                self.used.fetch_sub(cost(&block), Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as usize & ((1usize << self.bits.load(Ordering::Relaxed)) - 1)
    }

    #[inline]
    fn bucket(&self, place: usize) -> Option<&Bucket> {
        let above = (place >> self.base_bits) as u64;
        if above == 0 {
            return self.segments.first()?.get()?.get(place);
        }
        let doubling = above.ilog2();
        let start = 1usize << (self.base_bits + doubling);
        self.segments.get(doubling as usize + 1)?.get()?.get(place - start)
    }

    fn grow_to(&self, bits: u32) {
        let bits = bits.clamp(self.base_bits, self.base_bits + DOUBLINGS as u32);
        for (i, segment) in self.segments.iter().enumerate().take((bits - self.base_bits) as usize + 1) {
            let buckets = 1usize << (self.base_bits + (i as u32).saturating_sub(1));
            segment.get_or_init(|| (0..buckets).map(|_| Bucket::default()).collect());
        }
        self.bits.fetch_max(bits, Ordering::Release);
    }

    fn stripe(&self) -> &Stripe {
        &self.stripes[thread_number() % STRIPES]
    }
}

impl Slots {
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|k| *k & !TOUCHED == key)
    }

    /// A free way; else the first that was not touched; else the first, after every mark is taken.
    fn victim(&mut self) -> usize {
        if let Some(free) = self.blocks.iter().position(Option::is_none) {
            return free;
        }
        if let Some(cold) = self.keys.iter().position(|key| key & TOUCHED == 0) {
            return cold;
        }
        for key in &mut self.keys {
            *key &= !TOUCHED;
        }
        0
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.used(), self.capacity())
    }
}

/// Of what comes back from cursors, so much is kept for the next ones: little of a small cache.
fn pieces_kept_max(capacity: u64) -> u64 {
    const MOST: u64 = 4 << 20;
    (capacity / 16).min(MOST)
}

/// What is kept free of so much.
fn free_room_of(capacity: u64) -> u64 {
    (capacity / FREE_PART).min(FREE_BYTES_MAX)
}

fn cost(block: &Block) -> u64 {
    block.slot_bytes() as u64 + BLOCK_OVERHEAD_BYTES
}

/// The key of a block, not touched; never 0, which is the key of an empty way.
#[inline]
fn pack(table: TableId, offset: u64) -> Option<u64> {
    let fits = table.0 < (1 << TABLE_BITS) - 1 && offset < 1 << OFFSET_BITS;
    fits.then(|| ((table.0 + 1) << OFFSET_BITS | offset) << 1)
}

/// log2 of the buckets for a capacity.
fn bits_for(capacity: u64, block_bytes: u64) -> u32 {
    let buckets = capacity as f64 / (block_bytes as f64 * LOAD);
    (buckets.max(1.0).log2().ceil() as u32).clamp(3, 30)
}

#[cfg(test)]
#[path = "block_cache_tests.rs"]
mod tests;
