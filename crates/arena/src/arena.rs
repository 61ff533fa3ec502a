//! Memory for entries and nodes: chunks that only grow in number and are freed together.
//!
//! A thing in the arena is named by a `Ref` of 32 bits: the chunk's number and the offset in units of 8
//! bytes. Chunks start at the size asked for and double up to 16 MiB; an entry too large to be worth the rest
//! of a chunk gets one of its own, which may be of any size, since only its start must be addressable.
//!
//! ```text
//!   Ref = chunk (11 bits) | offset / 8 (21 bits)      at least 8 GiB before the numbers run out
//! ```
//! Readers turn refs into addresses through `chunks`, which only gets longer. Whoever holds a ref got it by an
//! acquiring load of what the writer stored with release, so it also sees the chunk and the bytes in it.
//!
//! The first touch of a huge page costs about two milliseconds, in which the system clears it. So somebody else may touch what the
//! writer will need next: see [`Arena::touch_ahead`].

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_sys::HugeBytes;
use evenkeel_sys::huge_bytes::HUGE_PAGE_BYTES;

use crate::entry::{self, Entry};
use crate::sync::{AtomicPtr, Ordering};

/// The name of an entry or a node of one arena.
pub(crate) type Ref = u32;

/// Names nothing. (The last unit of the last chunk is never handed out.)
pub(crate) const NIL: Ref = u32::MAX;

const UNIT_BYTES: usize = 8;
const OFFSET_BITS: u32 = 21;
const OFFSET_MASK: u32 = (1 << OFFSET_BITS) - 1;
const CHUNK_BYTES_MAX: usize = UNIT_BYTES << OFFSET_BITS;
const CHUNK_BYTES_MIN: usize = 1024;
const CHUNKS_MAX: usize = 1 << (32 - OFFSET_BITS);
/// Chunks whose addresses lie in the arena itself: enough for 64 MiB memtables and much more.
const NEAR_CHUNKS: usize = if cfg!(loom) { 4 } else { 24 };
/// From here on an entry that does not fit in the rest of the chunk gets its own.
const OWN_CHUNK_BYTES: usize = CHUNK_BYTES_MAX / 4;
/// So much is touched ahead of the writer, in whole huge pages.
const AHEAD_BYTES: usize = HUGE_PAGE_BYTES;

/// What a chunk is for.
enum Part {
    /// To be filled from its start, when so many bytes are in use.
    Open { used_before: usize },
    /// For an entry that is too large for the open one.
    OfOneEntry,
}

/// The part of the arena that readers use, and the owner of its memory.
pub(crate) struct Arena {
    near: [AtomicPtr<u8>; NEAR_CHUNKS],
    far: OnceLock<Box<[AtomicPtr<u8>]>>,
    owned: Mutex<Owned>,
    reserved_bytes: AtomicUsize,
    /// Bytes that will be in use when the writer comes to memory that nobody has touched.
    touched_until: AtomicUsize,
}

/// The memory. Locked for a moment by the writer when it begins a chunk, and by who touches memory ahead of it.
#[derive(Default)]
struct Owned {
    chunks: Vec<Arc<HugeBytes>>,
    /// The chunk being filled, and the bytes in use without what is in it.
    open: Option<(Arc<HugeBytes>, usize)>,
    /// The next one, with its beginning touched.
    spare: Option<Arc<HugeBytes>>,
}

/// A chunk that was made ready for a writer that did not come to it.
pub struct Spare(Arc<HugeBytes>);

/// The writer's place in the arena: the rest of the chunk being filled.
pub(crate) struct Bump {
    chunk: usize,
    at: usize,
    end: usize,
    chunks: usize,
    used_bytes: usize,
}

impl Arena {
    /// An arena whose first chunk is of about `first_chunk_bytes`, or `spare` if that is as large.
    pub(crate) fn new(first_chunk_bytes: usize, spare: Option<Spare>) -> (Arena, Bump) {
        let arena = Arena {
            near: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            far: OnceLock::new(),
            owned: Mutex::new(Owned { spare: spare.map(|Spare(chunk)| chunk), ..Owned::default() }),
            reserved_bytes: AtomicUsize::new(0),
            touched_until: AtomicUsize::new(0),
        };
        let mut bump = Bump { chunk: 0, at: 0, end: 0, chunks: 0, used_bytes: 0 };
        bump.start_chunk(&arena, first_chunk_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX));
        (arena, bump)
    }

    /// Bytes taken from the system.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Where the thing named `at` lies. Meaningful only for refs of this arena that are not `NIL`.
    #[inline]
    pub(crate) fn address(&self, at: Ref) -> *mut u8 {
        let chunk = (at >> OFFSET_BITS) as usize;
        let start = match self.near.get(chunk) {
            Some(near) => near.load(Ordering::Relaxed),
            None => self.far_chunk(chunk),
        };
        start.wrapping_add((at & OFFSET_MASK) as usize * UNIT_BYTES)
    }

    /// The entry named `at`.
    ///
    /// # Safety
    /// `at` names an entry of this arena and was read by an acquiring load (or the caller is the writer).
    #[inline]
    pub(crate) unsafe fn entry(&self, at: Ref) -> Entry<'_> {
        // SAFETY: the entry was finished before its ref was stored with release, is never changed, and its
        // memory lives as long as `self`.
        unsafe { entry::read(self.address(at)) }
    }

    #[cold]
    fn far_chunk(&self, chunk: usize) -> *mut u8 {
        let far = self.far.get().expect("the writer made the table before it used a far chunk");
        far[chunk - NEAR_CHUNKS].load(Ordering::Relaxed)
    }

    /// True if the writer will soon come to memory that nobody has touched.
    pub(crate) fn wants_touching(&self, used_bytes: usize) -> bool {
        used_bytes + AHEAD_BYTES > self.touched_until.load(Ordering::Relaxed)
    }

    /// Touches the memory that the writer will need next, in the open chunk and at the beginning of another one. It may be called
    /// by any thread while the writer goes on; the writer never waits for it. Small chunks are left alone.
    pub(crate) fn touch_ahead(&self, used_bytes: usize) {
        let Some((open, used_before)) = self.owned().open.clone() else { return };
        if !self.wants_touching(used_bytes) {
            return;
        }
        let touched = self.touched_until.load(Ordering::Relaxed).saturating_sub(used_before);
        let wanted = (used_bytes.saturating_sub(used_before) + AHEAD_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        let reaches = wanted.min(open.len());
        if touched < reaches {
            open.populate(touched, reaches);
            self.note_touched(&self.owned(), &open, reaches);
        }
        if wanted > open.len() && self.owned().spare.is_none() {
            let spare = Arc::new(HugeBytes::zeroed(self.next_chunk_bytes()));
            spare.populate(0, AHEAD_BYTES);
            let mut owned = self.owned();
            self.note_touched(&owned, &open, open.len() + AHEAD_BYTES);
            owned.spare.get_or_insert(spare);
        }
    }

    /// So many bytes from the start of `chunk` on are touched, if it is still the open one.
    fn note_touched(&self, owned: &Owned, chunk: &Arc<HugeBytes>, bytes: usize) {
        if let Some((open, used_before)) = &owned.open
            && Arc::ptr_eq(open, chunk)
        {
            self.touched_until.store(used_before + bytes, Ordering::Relaxed);
        }
    }

    /// The chunk that was made ready, if the writer has not come to it.
    pub(crate) fn take_spare(&self) -> Option<Spare> {
        self.owned().spare.take().map(Spare)
    }

    fn next_chunk_bytes(&self) -> usize {
        self.reserved_bytes().next_multiple_of(64).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds memory of at least `bytes` as chunk number `chunk`; of how many is the answer.
    fn add_chunk(&self, chunk: usize, bytes: usize, part: Part) -> usize {
        assert!(chunk < CHUNKS_MAX, "a memtable beyond the 8 GiB that its references can address");
        let ready = match part {
            Part::Open { .. } => self.owned().spare.take_if(|spare| spare.len() >= bytes),
            Part::OfOneEntry => None,
        };
        let touched = if ready.is_some() { AHEAD_BYTES } else { 0 };
        let memory = ready.unwrap_or_else(|| Arc::new(HugeBytes::zeroed(bytes)));
        let len = memory.len();
        let mut added = memory.reserved_bytes();
        let slot = match self.near.get(chunk) {
            Some(near) => near,
            None => {
                let far = self.far.get_or_init(|| {
                    let far: Box<[_]> =
                        (NEAR_CHUNKS..CHUNKS_MAX).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
                    added += size_of_val(&*far);
                    far
                });
                &far[chunk - NEAR_CHUNKS]
            }
        };
        slot.store(memory.as_non_null().as_ptr(), Ordering::Release);
        self.reserved_bytes.fetch_add(added, Ordering::Relaxed);
        let mut owned = self.owned();
        match part {
            Part::Open { used_before } => {
                owned.open = Some((Arc::clone(&memory), used_before));
                // A small chunk costs little to touch, and there is little of it to be ahead in.
                let is_small = memory.len() < HUGE_PAGE_BYTES || !memory.is_mapped();
                let touched = if is_small { memory.len() + AHEAD_BYTES } else { touched };
                self.touched_until.store(used_before + touched, Ordering::Relaxed);
            }
            // In use, and not in the open chunk.
            Part::OfOneEntry => {
                if let Some((_, used_before)) = &mut owned.open {
                    *used_before += bytes;
                    self.touched_until.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
        owned.chunks.push(memory);
        len
    }
}

impl Bump {
    /// Takes `bytes` at a multiple of `align` (a power of two from 8 to 64): its name and its address.
    #[inline]
    pub(crate) fn allocate(&mut self, arena: &Arena, bytes: usize, align: usize) -> (Ref, *mut u8) {
        debug_assert!((UNIT_BYTES..=64).contains(&align) && align.is_power_of_two());
        let at = self.at.next_multiple_of(align);
        let bytes = bytes.next_multiple_of(UNIT_BYTES);
        if at > self.end || bytes > self.end - at {
            return self.allocate_beyond(arena, bytes);
        }
        self.used_bytes += at + bytes - self.at;
        self.at = at + bytes;
        self.name(arena, self.chunk, at)
    }

    /// Bytes handed out, with what alignment and the unused ends of full chunks cost.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    #[cold]
    fn allocate_beyond(&mut self, arena: &Arena, bytes: usize) -> (Ref, *mut u8) {
        if bytes > OWN_CHUNK_BYTES {
            let (chunk, _) = self.take_chunk(arena, bytes, Part::OfOneEntry);
            self.used_bytes += bytes;
            return self.name(arena, chunk, 0);
        }
        self.used_bytes += self.end - self.at;
        self.start_chunk(arena, arena.next_chunk_bytes().max(bytes.next_multiple_of(64)));
        self.at = bytes;
        self.used_bytes += bytes;
        self.name(arena, self.chunk, 0)
    }

    fn start_chunk(&mut self, arena: &Arena, bytes: usize) {
        (self.chunk, self.end) = self.take_chunk(arena, bytes, Part::Open { used_before: self.used_bytes });
        self.at = 0;
    }

    /// The number of a new chunk, and its bytes.
    fn take_chunk(&mut self, arena: &Arena, bytes: usize, part: Part) -> (usize, usize) {
        let chunk = self.chunks;
        let bytes = arena.add_chunk(chunk, bytes, part);
        self.chunks += 1;
        (chunk, bytes)
    }

    #[inline]
    fn name(&self, arena: &Arena, chunk: usize, at: usize) -> (Ref, *mut u8) {
        let name = (chunk as u32) << OFFSET_BITS | (at / UNIT_BYTES) as u32;
        (name, arena.address(name))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_disjoint_and_counted() {
        let (arena, mut bump) = Arena::new(0, None);
        assert_eq!(arena.reserved_bytes(), CHUNK_BYTES_MIN);
        let mut parts: Vec<(usize, usize)> = Vec::new();
        for i in 0..2000usize {
            let (bytes, align) = (1 + i * 37 % 700, if i % 5 == 0 { 64 } else { 8 });
            let (name, address) = bump.allocate(&arena, bytes, align);
            assert_eq!(arena.address(name), address);
            assert_eq!(address as usize % align, 0);
            // SAFETY: the bytes were just handed out.
            unsafe { address.write_bytes(i as u8, bytes) };
            parts.push((address as usize, bytes));
        }
        parts.sort_unstable();
        assert!(parts.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        let asked: usize = parts.iter().map(|p| p.1).sum();
        assert!(asked <= bump.used_bytes() && bump.used_bytes() <= arena.reserved_bytes());
        assert!(arena.reserved_bytes() <= 3 * asked, "{} for {asked}", arena.reserved_bytes());
        let owned: usize = arena.owned().chunks.iter().map(|chunk| chunk.reserved_bytes()).sum();
        assert_eq!(owned, arena.reserved_bytes());
    }

    #[test]
    fn a_large_entry_leaves_the_open_chunk_open() {
        let (arena, mut bump) = Arena::new(4096, None);
        let (before, _) = bump.allocate(&arena, 64, 8);
        let (own, _) = bump.allocate(&arena, 20 << 20, 8);
        let (after, _) = bump.allocate(&arena, 64, 8);
        assert_eq!((before, own, after), (0, 1 << OFFSET_BITS, 8));
        assert_eq!(bump.used_bytes(), 128 + (20 << 20));
        assert_eq!(arena.reserved_bytes(), 4096 + (20 << 20));
    }

    #[test]
    fn chunks_beyond_the_near_table_are_found() {
        let (arena, mut bump) = Arena::new(1024, None);
        let named: Vec<_> =
            (0..NEAR_CHUNKS + 40).map(|_| bump.allocate(&arena, OWN_CHUNK_BYTES + 8, 8)).collect();
        assert!(named.iter().all(|&(name, address)| arena.address(name) == address && !address.is_null()));
        let far_bytes = (CHUNKS_MAX - NEAR_CHUNKS) * size_of::<usize>();
        let own = (OWN_CHUNK_BYTES + 8).next_multiple_of(4096);
        assert_eq!(arena.reserved_bytes(), 1024 + far_bytes + named.len() * own);
    }

    #[test]
    fn what_the_writer_needs_next_is_touched_before() {
        let (arena, mut bump) = Arena::new(CHUNK_BYTES_MAX, None);
        let mapped = arena.owned().chunks[0].is_mapped();
        let large = CHUNK_BYTES_MAX + 1;
        for i in 0..3 * CHUNK_BYTES_MAX / 65536 {
            if mapped && arena.wants_touching(bump.used_bytes()) {
                arena.touch_ahead(bump.used_bytes());
                assert!(!arena.wants_touching(bump.used_bytes()) || arena.owned().spare.is_some());
            }
            // Entries with chunks of their own are no part of it.
            bump.allocate(&arena, if i % 100 == 50 { large } else { 65536 }, 64);
            let (used, until) = (bump.used_bytes(), arena.touched_until.load(Ordering::Relaxed));
            assert!(!mapped || (used <= until && until <= used + 2 * HUGE_PAGE_BYTES), "{used} {until}");
        }
    }

    #[test]
    fn small_chunks_ask_for_nothing() {
        let (arena, mut bump) = Arena::new(4096, None);
        while arena.next_chunk_bytes() < HUGE_PAGE_BYTES / 2 {
            bump.allocate(&arena, 512, 8);
            assert!(!arena.wants_touching(bump.used_bytes()), "at {}", bump.used_bytes());
        }
    }

    #[test]
    fn a_spare_chunk_goes_to_the_next_arena() {
        let (arena, mut bump) = Arena::new(CHUNK_BYTES_MAX, None);
        assert!(arena.take_spare().is_none());
        bump.allocate(&arena, CHUNK_BYTES_MAX - OWN_CHUNK_BYTES, 8);
        for _ in 0..3 {
            bump.allocate(&arena, OWN_CHUNK_BYTES, 8);
        }
        arena.touch_ahead(bump.used_bytes());
        if let Some(spare) = arena.take_spare() {
            let start = spare.0.as_non_null();
            let (next, mut bump) = Arena::new(4096, Some(spare));
            assert_eq!(bump.allocate(&next, 64, 64).1, start.as_ptr());
            assert_eq!(next.reserved_bytes(), CHUNK_BYTES_MAX);
        }
    }
}
