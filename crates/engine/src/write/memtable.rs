//! A memtable: the newest writes of a keyspace, in the arena's B+tree. One writer (the commit leader), any number of readers
//! that never lock. Range tombstones are kept beside the tree. When it is full it becomes immutable and is flushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_arena::{Cursor, PinnedValue, Spare, Tree, Writer};

use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key::{Kind, Trailer, common_head};
use crate::base::units::SeqNo;
use crate::observe::memory::{Charge, MemoryBudget, MemoryClass};
use crate::write::memtable_ranges::{MemtableRanges, RangeWriter};

/// The readers' side.
#[derive(Debug)]
pub struct Memtable {
    tree: Arc<Tree>,
    ranges: MemtableRanges,
    /// Sequence of the first and the last entry; 0 while empty. Written by the one writer.
    first_seq: AtomicU64,
    last_seq: AtomicU64,
    /// When its first delete was acknowledged, wall milliseconds; `u64::MAX` without one.
    oldest_tombstone_ms: AtomicU64,
    memory: Arc<MemoryBudget>,
    /// Kept by cursors too: they keep the tree.
    charge: Arc<Charge>,
    being_flushed: AtomicBool,
    /// When it took its last write, microseconds of the store's clock.
    full_at_us: AtomicU64,
    /// Gets that it has answered, about.
    answers: AtomicU64,
}

/// A memtable of so many bytes is full from this many on. Memory comes in chunks that a size is a multiple of, mostly, and an entry that
/// goes beyond takes the chunk that lies ready for the next memtable, so that whoever switches has to make another one.
pub fn full_from(memtable_bytes: u64) -> u64 {
    memtable_bytes - memtable_bytes / 1024
}

impl Memtable {
    /// Makes an empty memtable and its one writer. `head`: what keys are expected to begin with (any other key is
    /// right, and slower). Its memory is charged until the last reader has let go of it.
    pub fn new(
        head: &[u8],
        capacity_hint: u64,
        memory: &Arc<MemoryBudget>,
    ) -> (MemtableWriter, Arc<Memtable>) {
        Memtable::over(None, head, capacity_hint, memory)
    }

    /// The one that comes after this: what its keys have in common is expected of them, and memory made ready for it is used.
    pub fn next(&self, capacity_hint: u64) -> (MemtableWriter, Arc<Memtable>) {
        Memtable::over(self.tree.take_spare(), &self.common_head(), capacity_hint, &self.memory)
    }

    fn over(
        spare: Option<Spare>,
        head: &[u8],
        capacity_hint: u64,
        memory: &Arc<MemoryBudget>,
    ) -> (MemtableWriter, Arc<Memtable>) {
        let capacity_hint = usize::try_from(capacity_hint).unwrap_or(usize::MAX);
        let (writer, tree) = evenkeel_arena::tree_with(spare, head, capacity_hint);
        let table = Arc::new(Memtable {
            tree,
            ranges: MemtableRanges::default(),
            first_seq: AtomicU64::new(0),
            last_seq: AtomicU64::new(0),
            oldest_tombstone_ms: AtomicU64::new(u64::MAX),
            memory: Arc::clone(memory),
            charge: Arc::new(Charge::new(memory, MemoryClass::Memtables, 0)),
            being_flushed: AtomicBool::new(false),
            full_at_us: AtomicU64::new(0),
            answers: AtomicU64::new(0),
        });
        (MemtableWriter { writer, ranges: RangeWriter::default(), table: Arc::clone(&table) }, table)
    }

    /// The newest entry of `key` at or below `at`.
    #[inline]
    pub fn get(&self, key: &[u8], at: SeqNo) -> Option<(Trailer, PinnedValue)> {
        let (trailer, value) = self.tree.get_pinned(key, Trailer::seek(at).0)?;
        Some((Trailer(trailer), value))
    }

    /// The range tombstones. What was published before is there: ask after the sequence to read at is known.
    #[inline]
    pub fn ranges(&self) -> &MemtableRanges {
        &self.ranges
    }

    /// A cursor over all entries; range tombstones are none of them.
    pub fn cursor(&self) -> MemtableCursor {
        MemtableCursor(self.tree.cursor(), Arc::clone(&self.charge))
    }

    /// True if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.first_seq().is_none()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.tree.memory_used() as u64 + self.ranges.bytes()
    }

    /// What its memory is charged to.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Charges what is in use, and `more` that is about to be. For the one writer, and when it is done.
    pub fn charge(&self, more: u64) {
        self.charge.set(self.bytes() + more);
    }

    /// Entries.
    pub fn entries(&self) -> u64 {
        self.tree.len() as u64
    }

    /// Counts that it has answered a get that stands for `gets`.
    #[cold]
    pub fn note_answers(&self, gets: u64) {
        self.answers.fetch_add(gets, Ordering::Relaxed);
    }

    /// Gets that it has answered, about.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// It takes no more writes.
    pub fn set_full_at(&self, now: Duration) {
        self.full_at_us.store(now.as_micros() as u64, Ordering::Relaxed);
    }

    /// Since when it has taken no more.
    pub fn full_at(&self) -> Duration {
        Duration::from_micros(self.full_at_us.load(Ordering::Relaxed))
    }

    /// Its flush has begun.
    pub fn set_being_flushed(&self, yes: bool) {
        self.being_flushed.store(yes, Ordering::Relaxed);
    }

    /// True while it is being flushed.
    pub fn is_being_flushed(&self) -> bool {
        self.being_flushed.load(Ordering::Relaxed)
    }

    /// Sequence of the first entry; `None` while empty.
    pub fn first_seq(&self) -> Option<SeqNo> {
        Some(self.first_seq.load(Ordering::Acquire)).filter(|s| *s != 0).map(SeqNo)
    }

    /// Sequence of the last entry; 0 while empty.
    pub fn last_seq(&self) -> SeqNo {
        SeqNo(self.last_seq.load(Ordering::Acquire))
    }

    /// When the first delete came, wall milliseconds.
    pub fn oldest_tombstone_ms(&self) -> Option<u64> {
        Some(self.oldest_tombstone_ms.load(Ordering::Relaxed)).filter(|ms| *ms != u64::MAX)
    }

    /// True if the writer will soon come to memory that has to be cleared first.
    #[inline]
    pub fn wants_touching(&self) -> bool {
        self.tree.wants_touching()
    }

    /// Makes memory ready that the writer will need next. For another thread.
    pub fn touch_ahead(&self) {
        self.tree.touch_ahead();
    }

    /// What all its keys begin with: the next memtable's head.
    pub fn common_head(&self) -> Vec<u8> {
        let mut cursor = self.tree.cursor();
        cursor.seek_to_first();
        let first = if cursor.valid() { cursor.key().to_vec() } else { return Vec::new() };
        cursor.seek_to_last();
        let head = if cursor.valid() { common_head(&first, cursor.key()) } else { 0 };
        first.get(..head).unwrap_or_default().to_vec()
    }
}

/// The one writer's side.
#[derive(Debug)]
pub struct MemtableWriter {
    writer: Writer,
    ranges: RangeWriter,
    table: Arc<Memtable>,
}

impl MemtableWriter {
    /// The readers' side.
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Adds an entry, or for a range delete from `key` to below `value` a range tombstone. Sequence numbers ascend from call
    /// to call.
    #[inline]
    pub fn insert(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8], now_ms: impl FnOnce() -> u64) {
        if kind != Kind::Put && self.table.oldest_tombstone_ms.load(Ordering::Relaxed) == u64::MAX {
            self.table.oldest_tombstone_ms.store(now_ms(), Ordering::Relaxed);
        }
        if kind == Kind::RangeDelete {
            self.ranges.add(&self.table.ranges, key, value, seq);
        } else {
            self.writer.insert(key, Trailer::new(seq, kind).0, value);
        }
        if self.table.first_seq.load(Ordering::Relaxed) == 0 {
            self.table.first_seq.store(seq.0, Ordering::Release);
        }
        self.table.last_seq.store(seq.0, Ordering::Release);
    }
}

/// A memtable's entries as a sorted stream. Sees at least what was published before its last seek.
#[derive(Debug)]
pub struct MemtableCursor(Cursor, #[expect(dead_code, reason = "held, not looked at")] Arc<Charge>);

impl InternalIterator for MemtableCursor {
    fn valid(&self) -> bool {
        self.0.valid()
    }

    fn key(&self) -> &[u8] {
        self.0.key()
    }

    fn trailer(&self) -> Trailer {
        Trailer(self.0.trailer())
    }

    fn value(&self) -> &[u8] {
        self.0.value()
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.0.seek_to_first();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.0.seek_to_last();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.0.seek(key, trailer.0);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek_before(key);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.0.next();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.0.prev();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Elsewhere memory may come from the heap, and none lies ready.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_full_memtable_leaves_the_next_one_its_memory() {
        const BYTES: u64 = 16 << 20;
        let leaves_it = |until, value: usize| {
            let (mut writer, table) = Memtable::new(b"", BYTES, &Arc::default());
            let mut seq = 0;
            while table.bytes() < until {
                seq += 1;
                writer.insert(&u64::to_be_bytes(seq), SeqNo(seq), Kind::Put, &vec![7; value], || 0);
                if table.wants_touching() {
                    table.touch_ahead();
                }
            }
            table.tree.take_spare().is_some()
        };
        let values = || (1000..1500).step_by(50);
        assert!(values().all(|value| leaves_it(full_from(BYTES), value)));
        assert!(!values().all(|value| leaves_it(BYTES, value)), "no entry goes beyond the chunks");
    }

    #[test]
    fn range_deletes_count_as_writes_and_as_tombstones() {
        let (mut writer, table) = Memtable::new(b"", 1 << 20, &Arc::default());
        let bytes = table.bytes();
        assert!(table.is_empty() && table.oldest_tombstone_ms().is_none());
        writer.insert(b"b", SeqNo(5), Kind::RangeDelete, b"d", || 77);
        assert_eq!((table.first_seq(), table.last_seq()), (Some(SeqNo(5)), SeqNo(5)));
        assert_eq!(table.oldest_tombstone_ms(), Some(77));
        assert!(!table.is_empty() && table.bytes() > bytes, "it is to be flushed");
        assert!(table.get(b"b", SeqNo::MAX).is_none() && !table.cursor().valid(), "it is no entry");
        writer.insert(b"c", SeqNo(6), Kind::Put, b"v", || 88);
        assert_eq!(table.ranges().covering(b"c", SeqNo::MAX), SeqNo(5));
        assert_eq!(table.ranges().covering(b"c", SeqNo(4)), SeqNo(0));
        assert_eq!(table.ranges().covering(b"d", SeqNo::MAX), SeqNo(0));
        assert_eq!(table.oldest_tombstone_ms(), Some(77));
    }
}
