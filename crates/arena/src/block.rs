//! Blocks of bytes that many may hold, in memory that goes round: what the last holder lets go of, the next block fills.
//!
//! ```text
//!   chunk (128 KiB)  = slots of one size          slot = header (holders, length, chunk) | bytes
//!   pool             = shards × sizes, each a list of free slots; a shard serves some of the threads
//! ```
//! A heap that threads share has holes wherever blocks of a cache come and go on different threads. Here a slot goes back to the
//! list it came from, whoever drops it, and a thread whose list is empty takes from others before it takes a new chunk. A chunk
//! without blocks goes back to the system, unless it is one of the last few. An owner of many blocks who wants memory back has
//! chunks vacated, and moves or drops the blocks that say they lie in one. A block may outlive its pool.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Std};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use evenkeel_sys::HugeBytes;

use crate::sync::{AtomicU32, Ordering, fence};

const CHUNK_BYTES: usize = if cfg!(loom) { 4 << 10 } else { 128 << 10 };
/// Slots up to this size share a chunk; larger blocks have one of their own, of just their size.
const SHARED_BYTES_MAX: usize = CHUNK_BYTES / 4;
/// Sizes of slots: multiples of `STEP_BYTES`, and from `FINE_BYTES` on so many to each doubling.
const STEP_BYTES: usize = 512;
const FINE_BYTES: usize = 2048;
const SIZES_TO_A_DOUBLING: usize = 8;
const SHARDS: usize = 4;
/// A list keeps the slots of so many empty chunks.
const EMPTY_CHUNKS_KEPT: usize = 1;
/// Where slots begin in memory, and their sizes' common divisor.
const ALIGN_BYTES: usize = 64;

/// What stands before the bytes.
#[repr(C)]
struct Header {
    holders: AtomicU32,
    len: u32,
    /// Keeps the memory; the pool, if it is still there, is found through it.
    chunk: Arc<Chunk>,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// Immutable bytes with any number of holders, which end with the last.
pub struct Block(NonNull<Header>);

// SAFETY: the bytes are never written while there is more than one holder, the count is atomic, and all of a chunk is
// behind locks.
unsafe impl Send for Block {}
// SAFETY: as above; `&Block` only reads the bytes and counts.
unsafe impl Sync for Block {}

/// Slots of one size, or one slot.
struct Chunk {
    memory: HugeBytes,
    slot_bytes: usize,
    /// The list its slots are on while they are free: shard and size; none for a slot of its own.
    list: Option<(usize, usize)>,
    /// Slots with a block, and slots that ever had one: no other takes memory. Changed under the list's lock.
    held: AtomicUsize,
    touched: AtomicUsize,
    /// No slot of it gets another block. Set for good, under the list's lock.
    leaving: AtomicBool,
    pool: Weak<Shared>,
}

struct Slot {
    chunk: Arc<Chunk>,
    index: usize,
}

/// Slots of one size for the threads of one shard.
#[derive(Default)]
struct List {
    free: Vec<Slot>,
    /// Of each chunk that has some the first slot that never had a block: of one, or as many as threads came for one at once.
    fresh: Vec<Slot>,
}

/// Where blocks get their memory.
pub struct BlockPool(Arc<Shared>);

struct Shared {
    sizes: Vec<usize>,
    /// By shard and then by size.
    lists: Vec<Mutex<List>>,
    touched_bytes: AtomicUsize,
    /// Of slots on lists, that the next blocks will fill.
    free_bytes: AtomicUsize,
}

impl BlockPool {
    /// A pool that has nothing yet.
    pub fn new() -> BlockPool {
        let mut sizes = Vec::new();
        let mut size = STEP_BYTES;
        while size <= SHARED_BYTES_MAX {
            sizes.push(size);
            let doubling = 1usize << size.ilog2();
            size += if size < FINE_BYTES { STEP_BYTES } else { doubling / SIZES_TO_A_DOUBLING };
        }
        let lists = (0..SHARDS * sizes.len()).map(|_| Mutex::default()).collect();
        BlockPool(Arc::new(Shared {
            sizes,
            lists,
            touched_bytes: AtomicUsize::new(0),
            free_bytes: AtomicUsize::new(0),
        }))
    }

    /// A block of these bytes.
    ///
    /// # Panics
    /// When there are 4 GiB of them or more.
    pub fn block(&self, bytes: &[u8]) -> Block {
        let len = u32::try_from(bytes.len()).expect("a block is below 4 GiB");
        let Slot { chunk, index } = self.0.slot(HEADER_BYTES + bytes.len());
        let start = chunk.address(index);
        // SAFETY: the slot is of at least the header's size and the bytes', begins at a multiple of `ALIGN_BYTES`, which is
        // more than a header needs, and nobody else has it: it was on no list but the one it was taken from.
        unsafe {
            let header = start.cast::<Header>();
            header.write(Header { holders: AtomicU32::new(1), len, chunk });
            start.add(HEADER_BYTES).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Block(header)
        }
    }

    /// Bytes of memory in use: slots of blocks that somebody holds, and free ones that will be filled again.
    pub fn memory_bytes(&self) -> usize {
        self.0.touched_bytes.load(Std::Relaxed)
    }

    /// The part of it that the next blocks will fill. What no block has of a chunk that is vacated is not in it.
    pub fn free_bytes(&self) -> usize {
        self.0.free_bytes.load(Std::Relaxed)
    }

    /// Has chunks of at least so many bytes vacated, where there are as many with free slots, those with the most first: their
    /// memory goes back to the system with the last of their blocks, of which [`Block::is_leaving`] is true.
    pub fn vacate(&self, bytes: usize) {
        let mut left = bytes;
        for list in &self.0.lists {
            if left == 0 {
                return;
            }
            let (vacated, gone) = list.lock().unwrap_or_else(PoisonError::into_inner).vacate(left);
            let free: usize = gone.iter().map(|slot| slot.chunk.slot_bytes).sum();
            self.0.free_bytes.fetch_sub(free, Std::Relaxed);
            left = left.saturating_sub(vacated);
            // Chunks without blocks end here, without the lock.
            drop(gone);
        }
    }
}

impl Default for BlockPool {
    fn default() -> BlockPool {
        BlockPool::new()
    }
}

impl Shared {
    /// A free slot of at least so many bytes.
    fn slot(self: &Arc<Shared>, bytes: usize) -> Slot {
        let size = self.sizes.partition_point(|size| *size < bytes);
        let Some(slot_bytes) = self.sizes.get(size).copied() else {
            let slot_bytes = bytes.next_multiple_of(ALIGN_BYTES);
            let slot = Slot { chunk: Arc::new(Chunk::new(self, slot_bytes, None)), index: 0 };
            self.touch(&slot.chunk);
            return slot;
        };
        let own = shard();
        let popped = self.list(own, size).pop();
        let popped = popped.or_else(|| self.others_slot(own, size));
        if popped.is_some() {
            self.free_bytes.fetch_sub(slot_bytes, Std::Relaxed);
        }
        popped.unwrap_or_else(|| {
            let mut list = self.list(own, size);
            if let Some(slot) = list.fresh.pop() {
                return self.first_use(list, slot);
            }
            drop(list);
            // Without the lock: memory is mapped, which may take its time.
            let chunk = Arc::new(Chunk::new(self, slot_bytes, Some((own, size))));
            self.first_use(self.list(own, size), Slot { chunk, index: 0 })
        })
    }

    /// A slot that never had a block and is on no list; the next one of its chunk goes to the list.
    fn first_use(&self, mut list: MutexGuard<'_, List>, slot: Slot) -> Slot {
        if slot.index + 1 < slot.chunk.slots() {
            list.fresh.push(Slot { chunk: Arc::clone(&slot.chunk), index: slot.index + 1 });
        }
        self.touch(&slot.chunk);
        slot.chunk.held.fetch_add(1, Std::Relaxed);
        slot
    }

    /// A free slot of another shard. Nobody waits for its threads.
    fn others_slot(&self, own: usize, size: usize) -> Option<Slot> {
        let mut others = (1..SHARDS).map(|step| (own + step) % SHARDS);
        others.find_map(|other| self.lists[other * self.sizes.len() + size].try_lock().ok()?.pop())
    }

    fn touch(&self, chunk: &Chunk) {
        chunk.touched.fetch_add(1, Std::Relaxed);
        self.touched_bytes.fetch_add(chunk.slot_bytes, Std::Relaxed);
    }

    fn list(&self, shard: usize, size: usize) -> MutexGuard<'_, List> {
        self.lists[shard * self.sizes.len() + size].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot back.
    fn take_back(&self, slot: Slot) {
        let Some((shard, size)) = slot.chunk.list else { return };
        let enough = (EMPTY_CHUNKS_KEPT + 1) * slot.chunk.slots();
        let chunk = Arc::as_ptr(&slot.chunk);
        let mut list = self.list(shard, size);
        let held = slot.chunk.held.fetch_sub(1, Std::Relaxed) - 1;
        if slot.chunk.leaving.load(Std::Relaxed) {
            drop(list);
            // The chunk ends here with the last of them, without the lock.
            drop(slot);
            return;
        }
        let slot_bytes = slot.chunk.slot_bytes;
        self.free_bytes.fetch_add(slot_bytes, Std::Relaxed);
        list.free.push(slot);
        if held > 0 || list.free.len() < enough {
            return;
        }
        let of_chunk = |slot: &Slot| Arc::as_ptr(&slot.chunk) == chunk;
        let gone: Vec<Slot> = list.free.extract_if(.., |slot| of_chunk(slot)).collect();
        let fresh: Vec<Slot> = list.fresh.extract_if(.., |slot| of_chunk(slot)).collect();
        drop(list);
        self.free_bytes.fetch_sub(gone.len() * slot_bytes, Std::Relaxed);
        // The chunk ends here, without the lock.
        drop((gone, fresh));
    }
}

impl List {
    /// A slot that had a block.
    fn pop(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        slot.chunk.held.fetch_add(1, Std::Relaxed);
        Some(slot)
    }

    /// Answers how many bytes the vacated chunks have, and the slots of them that were free.
    fn vacate(&mut self, bytes: usize) -> (usize, Vec<Slot>) {
        let mut free_slots: HashMap<*const Chunk, usize> = HashMap::new();
        self.free.iter().for_each(|slot| *free_slots.entry(Arc::as_ptr(&slot.chunk)).or_default() += 1);
        let mut chunks: Vec<(usize, *const Chunk)> =
            free_slots.into_iter().map(|(at, free)| (free, at)).collect();
        chunks.sort_unstable_by(|a, b| b.cmp(a));
        chunks.truncate(bytes.div_ceil(CHUNK_BYTES));
        let leaving: HashSet<*const Chunk> = chunks.iter().map(|(_, chunk)| *chunk).collect();
        let leaves = |slot: &Slot| leaving.contains(&Arc::as_ptr(&slot.chunk));
        // Of each of them a slot is free, which keeps the chunk.
        self.fresh.retain(|slot| !leaves(slot));
        let gone: Vec<Slot> = self.free.extract_if(.., |slot| leaves(slot)).collect();
        gone.iter().for_each(|slot| slot.chunk.leaving.store(true, Std::Relaxed));
        (chunks.len() * CHUNK_BYTES, gone)
    }
}

impl Chunk {
    fn new(pool: &Arc<Shared>, slot_bytes: usize, list: Option<(usize, usize)>) -> Chunk {
        let memory = HugeBytes::zeroed(if list.is_some() { CHUNK_BYTES } else { slot_bytes });
        let (held, touched) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let leaving = AtomicBool::new(false);
        Chunk { memory, slot_bytes, list, held, touched, leaving, pool: Arc::downgrade(pool) }
    }

    fn slots(&self) -> usize {
        self.memory.len() / self.slot_bytes
    }

    fn address(&self, index: usize) -> NonNull<u8> {
        debug_assert!((index + 1) * self.slot_bytes <= self.memory.len());
        // SAFETY: `index` numbers a slot of the chunk, so this is in its memory.
        unsafe { self.memory.as_non_null().add(index * self.slot_bytes) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.touched_bytes.fetch_sub(self.touched.load(Std::Relaxed) * self.slot_bytes, Std::Relaxed);
        }
    }
}

impl Block {
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as there is a holder, and this is one.
        unsafe { self.0.as_ref() }
    }

    /// Bytes of memory that it takes, however many hold it.
    pub fn slot_bytes(&self) -> usize {
        self.header().chunk.slot_bytes
    }

    /// True if its memory is wanted back: an owner had better copy it, or let it go.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.header().chunk.leaving.load(Std::Relaxed)
    }

    /// The last holder is gone.
    #[cold]
    fn end(&mut self) {
        // What other holders did comes before the bytes are written again.
        fence(Ordering::Acquire);
        // SAFETY: nobody holds the block any more, so the header is read for the last time; the chunk it held goes on being
        // held by what is read here.
        let Header { chunk, .. } = unsafe { self.0.read() };
        let index =
            (self.0.as_ptr() as usize - chunk.memory.as_non_null().as_ptr() as usize) / chunk.slot_bytes;
        if let Some(pool) = chunk.pool.upgrade() {
            pool.take_back(Slot { chunk, index });
        }
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Block {
        // As of `Arc`: whoever clones has been given the block by a holder, so nothing needs to be ordered.
        let before = self.header().holders.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "a block with too many holders");
        Block(self.0)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.header().holders.fetch_sub(1, Ordering::Release) == 1 {
            self.end();
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let len = self.header().len as usize;
        // SAFETY: so many bytes were written behind the header when the block was made, and nothing writes them as long as it
        // has a holder.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(HEADER_BYTES), len) }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

impl std::fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockPool({} bytes)", self.memory_bytes())
    }
}

/// The shard of the calling thread.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // A thread that is ending takes any.
    OWN.try_with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Std::Relaxed) % SHARDS);
        }
        own.get()
    })
    .unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| (seed * 31 + i) as u8).collect()
    }

    #[test]
    fn blocks_of_every_size_hold_their_bytes() {
        let pool = BlockPool::new();
        let lens =
            [0, 1, 63, 480, 481, 496, 497, 4096, 4500, 32 << 10, (32 << 10) - HEADER_BYTES, 100_000, 5 << 20];
        let blocks: Vec<Block> = lens.iter().map(|&len| pool.block(&bytes(len, len))).collect();
        for (block, &len) in blocks.iter().zip(&lens) {
            assert_eq!(**block, *bytes(len, len));
            assert!(block.slot_bytes() >= len + HEADER_BYTES);
            let large = len > FINE_BYTES;
            assert!(!large || block.slot_bytes() <= (len + HEADER_BYTES) * 9 / 8 + ALIGN_BYTES, "{len}");
            assert_eq!(block.as_ptr() as usize % 8, 0);
        }
        let held: usize = blocks.iter().map(Block::slot_bytes).sum();
        assert_eq!(pool.memory_bytes(), held);
        drop(blocks);
        assert!(pool.memory_bytes() < held - (5 << 20), "what has a chunk of its own goes back at once");
    }

    #[test]
    fn sizes_are_apart_by_an_eighth_and_aligned() {
        let pool = BlockPool::new();
        let sizes = &pool.0.sizes;
        assert_eq!((sizes.first(), sizes.last()), (Some(&STEP_BYTES), Some(&SHARED_BYTES_MAX)));
        assert!(sizes.iter().all(|size| size % ALIGN_BYTES == 0));
        assert!(sizes.windows(2).all(|w| w[1] - w[0] <= (w[0] / SIZES_TO_A_DOUBLING).max(STEP_BYTES)));
    }

    #[test]
    fn memory_goes_round() {
        let pool = BlockPool::new();
        let mut held: Vec<Block> = (0..1000).map(|i| pool.block(&bytes(i, 4000))).collect();
        let full = pool.memory_bytes();
        assert_eq!(full, 1000 * 4096);
        for i in 0..20_000 {
            held.swap_remove(i * 7919 % held.len());
            held.push(pool.block(&bytes(i, 4000 - i % 100)));
        }
        assert_eq!(pool.memory_bytes(), full, "slots are of one size, and as many are held as before");
        let last = held.pop().unwrap();
        held.clear();
        // What is left: the chunk of the last one, and an empty one.
        assert!(pool.memory_bytes() <= 2 * CHUNK_BYTES, "{}", pool.memory_bytes());
        let copy = last.clone();
        drop(last);
        drop(pool);
        assert_eq!(*copy, *bytes(19_999, 4000 - 19_999 % 100));
    }

    #[test]
    fn vacated_chunks_go_back_with_their_last_block() {
        let pool = BlockPool::new();
        let mut held: Vec<Block> = (0..1000).map(|i| pool.block(&bytes(i, 4000))).collect();
        let mut at = 0;
        held.retain(|_| {
            at += 1;
            at % 3 == 0
        });
        assert_eq!((pool.memory_bytes(), pool.free_bytes()), (1000 * 4096, 667 * 4096));
        pool.vacate(600 * 4096);
        // Whoever still holds their blocks is no reason to vacate more.
        assert!(pool.free_bytes() < 300 * 4096, "{}", pool.free_bytes());
        for block in &mut held {
            if block.is_leaving() {
                *block = pool.block(block);
                assert!(!block.is_leaving());
            }
        }
        assert!(pool.memory_bytes() <= (400 + 32) * 4096, "{}", pool.memory_bytes());
        assert_eq!(pool.memory_bytes() - pool.free_bytes(), 333 * 4096);
        for (i, block) in held.iter().enumerate() {
            assert_eq!(**block, *bytes(i * 3 + 2, 4000));
        }
    }

    #[test]
    fn threads_share_and_let_go_of_each_others_blocks() {
        let rounds = if cfg!(miri) { 50 } else { 5000 };
        let pool = BlockPool::new();
        let place = Mutex::new(None::<(usize, Block)>);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (pool, place) = (&pool, &place);
                scope.spawn(move || {
                    for i in 0..rounds {
                        let seed = thread * rounds + i;
                        let len = 100 + seed * 37 % 9000;
                        let block = pool.block(&bytes(seed, len));
                        let other = place.lock().unwrap().replace((seed, block.clone()));
                        if let Some((seed, other)) = other {
                            assert_eq!(*other, *bytes(seed, 100 + seed * 37 % 9000));
                        }
                        assert_eq!(*block, *bytes(seed, len));
                    }
                });
            }
        });
        drop(place);
        let mut free_bytes = 0;
        for list in &pool.0.lists {
            let list = list.lock().unwrap();
            let mut slots: Vec<_> = list.free.iter().map(|s| s.chunk.address(s.index)).collect();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), list.free.len(), "no slot is free twice");
            for slot in &list.free {
                assert_eq!(slot.chunk.held.load(Std::Relaxed), 0);
                free_bytes += slot.chunk.slot_bytes;
            }
        }
        assert!(free_bytes > 0);
        assert_eq!(free_bytes, pool.memory_bytes());
    }
}
