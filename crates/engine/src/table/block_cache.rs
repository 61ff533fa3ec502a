//! The block cache: uncompressed data blocks by (table, offset), and the memory of everything that tables keep loaded
//! and read ahead.
//!
//! ```text
//! bucket (128 bytes) = lock | 5 keys, each with a touched bit | 5 × Arc<[u8]>     a hit: bucket, block's first line
//! ```
//! Set-associative: a block has one bucket. The touched bit is written only when it is clear. Capacity is in bytes,
//! kept by one counter that only insertions and evictions change; a clock hand sweeps the buckets when it is exceeded.
//! Growing doubles the buckets in place: what then lies in the wrong one is swept away in time. Partitions of indexes
//! and filters are charged here too, and dropped when they exceed half the capacity.
//!
//! Memory goes round: what a thread evicts to insert a block it fills with the next ([`BlockCache::copy`]). So a cache
//! that is full allocates nothing, and leaves no holes in the heaps of an allocator that gives each thread another.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::pieces::Pieces;
use super::residents::Residents;
use crate::base::units::TableId;

const WAYS: usize = 5;
/// Blocks aimed at per bucket: low enough that few buckets overflow (4 % by Poisson).
const LOAD: f64 = 2.5;
/// Memory of a block beside its bytes: its header, its share of a bucket, what the allocator rounds up.
const BLOCK_OVERHEAD_BYTES: u64 = 96;
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
    blocks: [Option<Arc<[u8]>>; WAYS],
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
    skipped: AtomicU64,
}

/// Blocks are allocated in multiples of this, so that one fits where another of about its size was.
const STEP_BYTES: usize = 512;
/// Evicted blocks up to this size are filled again.
const SPARE_BYTES_MAX: usize = 64 << 10;
/// A thread keeps one of them; all threads together keep so many bytes more, and at most this share of the capacity.
const SHARED_BYTES_MAX: u64 = 4 << 20;
const SHARED_PART: u64 = 32;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    static SPARE: Cell<Option<Arc<[u8]>>> = const { Cell::new(None) };
}

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
    /// Evicted blocks that no thread has a use for yet, and their bytes.
    shared: Mutex<Vec<Arc<[u8]>>>,
    shared_bytes: AtomicU64,
    /// What open tables keep in memory as long as they are open.
    pinned: AtomicU64,
    stripes: [Stripe; STRIPES],
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
            pieces: Pieces::default(),
            shared: Mutex::default(),
            shared_bytes: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            stripes: Default::default(),
        };
        cache.grow_to(base_bits);
        cache
    }

    /// The block, if it is here. Allocates nothing.
    #[inline]
    pub fn get(&self, table: TableId, offset: u64) -> Option<Arc<[u8]>> {
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

    /// A block that begins with `payload`, in memory that was evicted, if there is some that fits. Zeros may follow.
    pub fn copy(&self, payload: &[u8]) -> Arc<[u8]> {
        let bytes = payload.len().next_multiple_of(STEP_BYTES);
        let fits = |spare: &Arc<[u8]>| (bytes..=bytes + bytes / 4).contains(&spare.len());
        let mut block = match SPARE.take() {
            Some(spare) if fits(&spare) => spare,
            other => {
                let found = self.take_shared(fits);
                other.into_iter().for_each(|spare| self.share(spare));
                found.unwrap_or_else(|| std::iter::repeat_n(0, bytes).collect())
            }
        };
        if let Some((head, tail)) =
            Arc::get_mut(&mut block).and_then(|b| b.split_at_mut_checked(payload.len()))
        {
            head.copy_from_slice(payload);
            tail.fill(0);
        }
        block
    }

    /// Keeps an evicted block to be filled again, if nobody else has it.
    fn spare(&self, mut block: Arc<[u8]>) {
        if block.len() > SPARE_BYTES_MAX || Arc::get_mut(&mut block).is_none() {
            return;
        }
        // A thread that ends has let go of its spare already.
        let before = SPARE.try_with(|kept| kept.replace(Some(block))).ok().flatten();
        before.into_iter().for_each(|spare| self.share(spare));
    }

    fn share(&self, spare: Arc<[u8]>) {
        let bytes = cost(&spare);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared_bytes.load(Ordering::Relaxed) + bytes <= self.shared_max() {
            self.shared_bytes.fetch_add(bytes, Ordering::Relaxed);
            shared.push(spare);
        }
    }

    fn shared_max(&self) -> u64 {
        (self.capacity() / SHARED_PART).min(SHARED_BYTES_MAX)
    }

    fn take_shared(&self, fits: impl Fn(&Arc<[u8]>) -> bool) -> Option<Arc<[u8]>> {
        if self.shared_bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let at = shared.iter().rposition(fits)?;
        let found = shared.swap_remove(at);
        self.shared_bytes.fetch_sub(cost(&found), Ordering::Relaxed);
        Some(found)
    }

    /// Keeps a block, and lets others go if there is too much.
    pub fn insert(&self, table: TableId, offset: u64, block: &Arc<[u8]>) {
        let bytes = cost(block);
        let Some(key) = pack(table, offset).filter(|_| bytes <= self.capacity()) else { return };
        let Some(bucket) = self.bucket(self.place(key)) else { return };
        // Counted before it can be found, so that whoever evicts it never subtracts first.
        self.used.fetch_add(bytes, Ordering::Relaxed);
        let mut slots = bucket.lock();
        if slots.find(key).is_some() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let way = slots.victim();
        let Slots { keys, blocks } = &mut *slots;
        let (Some(slot_key), Some(slot)) = (keys.get_mut(way), blocks.get_mut(way)) else {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return;
        };
        *slot_key = key;
        let old = slot.replace(Arc::clone(block));
        drop(slots);
        if let Some(old) = old {
            self.used.fetch_sub(cost(&old), Ordering::Relaxed);
            self.spare(old);
        }
        self.evict();
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity; what is too much goes at once.
    pub fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.grow_to(bits_for(capacity, self.block_bytes));
        if self.shared_bytes.load(Ordering::Relaxed) > self.shared_max() {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.clear();
            self.shared_bytes.store(0, Ordering::Relaxed);
        }
        self.shrink_residents();
        self.evict();
    }

    /// Bytes in use: blocks and everything charged.
    pub fn used(&self) -> u64 {
        self.taken().saturating_add(self.shared_bytes.load(Ordering::Relaxed))
    }

    /// The same without the blocks that will be filled again.
    fn taken(&self) -> u64 {
        let tables = self.residents.bytes().saturating_add(self.pinned.load(Ordering::Relaxed));
        self.used.load(Ordering::Relaxed).saturating_add(tables).saturating_add(self.pieces.bytes())
    }

    /// Bytes of blocks alone, evicted ones that will be filled again included.
    pub fn block_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed).saturating_add(self.shared_bytes.load(Ordering::Relaxed))
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

    /// Drops cold partitions while all of them take more than half the capacity, then blocks.
    pub fn shrink_residents(&self) {
        self.residents.shrink_to(self.capacity() / 2);
        self.evict();
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.stripes.iter().map(|s| s.hits.load(Ordering::Relaxed)).sum()
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.stripes.iter().map(|s| s.misses.load(Ordering::Relaxed)).sum()
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

    /// Sweeps until what is used fits, or everything has been seen twice.
    fn evict(&self) {
        let buckets = 1usize << self.bits.load(Ordering::Relaxed);
        for _ in 0..buckets * 2 {
            // Room is left for what was evicted and will be filled again.
            let mut excess = self.taken().saturating_sub(self.capacity() - self.shared_max());
            if excess == 0 || self.used.load(Ordering::Relaxed) == 0 {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) & (buckets - 1);
            let Some(bucket) = self.bucket(hand) else { return };
            let mut gone: [Option<Arc<[u8]>>; WAYS] = Default::default();
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
                self.spare(block);
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
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mine = STRIPE.get();
        let mine = if mine == usize::MAX {
            let mine = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
            STRIPE.set(mine);
            mine
        } else {
            mine
        };
        &self.stripes[mine % STRIPES]
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

fn cost(block: &Arc<[u8]>) -> u64 {
    block.len() as u64 + BLOCK_OVERHEAD_BYTES
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
