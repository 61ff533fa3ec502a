//! The two kinds of node, and the protocol by which readers look at one while the writer changes it.
//!
//! ```text
//!   leaf   version count next | prefix x 41 | entry x 41              512 bytes
//!   inner  version count   -  | prefix x 31 | entry x 31 | child x 31     (slot 0 has a child only)
//! ```
//! *Writer*: makes the version odd, changes slots, makes it even again. *Reader*: takes an even version, reads,
//! and throws away what it read unless the version is still the same. Until that check slots may belong to
//! different states, but each ref in a slot below `count` always names a finished thing of the right kind:
//! refs and count are stored with release, slots before the count that includes them, and loaded with
//! acquire; refs left behind a lowered count stay what they were. Nodes are never moved or freed.

use crate::arena::{Arena, NIL, Ref};
use crate::prefix::Probe;
use crate::sync::{AtomicU32, AtomicU64, Backoff, Ordering, fence};

/// Entries of a leaf. Loom gets tiny nodes, so that few entries make many splits.
pub(crate) const LEAF_SLOTS: usize = if cfg!(loom) { 2 } else { 41 };
/// Children of an inner node.
pub(crate) const INNER_SLOTS: usize = if cfg!(loom) { 3 } else { 31 };

#[cfg(not(loom))]
const _: () = assert!(size_of::<Leaf>() == 512 && size_of::<Inner>() == 512);

/// What both kinds begin with.
#[repr(C)]
pub(crate) struct Header {
    version: AtomicU32,
    count: AtomicU32,
    /// Of a leaf: the one to the right, or `NIL`.
    next: AtomicU32,
}

/// A run of entries in order.
#[repr(C, align(64))]
pub(crate) struct Leaf {
    pub(crate) header: Header,
    prefixes: [AtomicU64; LEAF_SLOTS],
    entries: [AtomicU32; LEAF_SLOTS],
}

/// Children in order. From slot 1 on, the slot's entry is the first one of its child.
#[repr(C, align(64))]
pub(crate) struct Inner {
    pub(crate) header: Header,
    prefixes: [AtomicU64; INNER_SLOTS],
    entries: [AtomicU32; INNER_SLOTS],
    children: [AtomicU32; INNER_SLOTS],
}

/// An entry with its prefix: what slots hold.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) prefix: u64,
    pub(crate) entry: Ref,
}

impl Header {
    fn new() -> Self {
        Self { version: AtomicU32::new(0), count: AtomicU32::new(0), next: AtomicU32::new(NIL) }
    }

    /// Waits until the node is at rest and returns its version.
    #[inline]
    pub(crate) fn begin_read(&self) -> u32 {
        let mut backoff = Backoff::default();
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            backoff.wait();
        }
    }

    /// Whether all that was read since `begin_read` returned `version` belongs together.
    #[inline]
    pub(crate) fn is_unchanged(&self, version: u32) -> bool {
        // A load that saw a store of the writer makes, through this fence and the writer's, the odd version
        // before that store visible to the load below.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    #[inline]
    pub(crate) fn next(&self) -> Ref {
        self.next.load(Ordering::Acquire)
    }

    /// Only the writer calls this and what follows.
    #[inline]
    fn begin_write(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version & 1 == 0, "two writers");
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    #[inline]
    fn end_write(&self) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }

    fn set_count(&self, count: usize) {
        self.count.store(count as u32, Ordering::Release);
    }
}

impl Leaf {
    pub(crate) fn new() -> Self {
        Self {
            header: Header::new(),
            prefixes: std::array::from_fn(|_| AtomicU64::new(0)),
            entries: std::array::from_fn(|_| AtomicU32::new(NIL)),
        }
    }

    /// The entry in slot `i < count`.
    #[inline]
    pub(crate) fn entry(&self, i: usize) -> Ref {
        self.entries[i].load(Ordering::Acquire)
    }

    /// The first slot whose entry is at or after the probe; `count` if none is.
    ///
    /// # Safety
    /// The leaf belongs to `arena`, and `count` was read from it (or is less).
    #[inline]
    pub(crate) unsafe fn lower_bound(&self, arena: &Arena, count: usize, probe: &Probe<'_>) -> usize {
        // SAFETY: slots below `count` name entries, see the top of the file.
        unsafe { lower_bound(arena, &self.prefixes, &self.entries, 0, count, probe) }
    }

    /// Writer: puts `slot` at `at` and moves the later ones up. The leaf is not full.
    pub(crate) fn insert(&self, at: usize, slot: Slot) {
        self.header.begin_write();
        self.shift_in(at, self.header.count(), slot);
        self.header.end_write();
    }

    /// Writer: keeps the first `keep` entries, links `next`, and inserts `slot` at a place among those kept.
    pub(crate) fn truncate(&self, keep: usize, next: Ref, slot: Option<(usize, Slot)>) {
        self.header.begin_write();
        self.header.next.store(next, Ordering::Release);
        match slot {
            Some((at, slot)) => self.shift_in(at, keep, slot),
            None => self.header.set_count(keep),
        }
        self.header.end_write();
    }

    /// Writer: the upper part of a leaf being split, with `slot` at a place in it. Nobody can reach it yet.
    pub(crate) fn upper_part(&self, from: usize, slot: Option<(usize, Slot)>) -> Leaf {
        let upper = Leaf::new();
        let count = self.header.count() - from;
        for i in 0..count {
            upper.set(i, self.slot(from + i));
        }
        upper.header.set_count(count);
        upper.header.next.store(self.header.next(), Ordering::Release);
        if let Some((at, slot)) = slot {
            upper.shift_in(at, count, slot);
        }
        upper
    }

    /// Prefix and entry of slot `i < count`. For a reader they belong together only if the check holds.
    #[inline]
    pub(crate) fn slot(&self, i: usize) -> Slot {
        Slot { prefix: self.prefixes[i].load(Ordering::Relaxed), entry: self.entry(i) }
    }

    #[inline]
    fn shift_in(&self, at: usize, count: usize, slot: Slot) {
        for i in (at..count).rev() {
            self.set(i + 1, self.slot(i));
        }
        self.set(at, slot);
        self.header.set_count(count + 1);
    }

    #[inline]
    fn set(&self, i: usize, slot: Slot) {
        self.prefixes[i].store(slot.prefix, Ordering::Relaxed);
        self.entries[i].store(slot.entry, Ordering::Release);
    }
}

impl Inner {
    /// A node with one child, not reachable yet.
    pub(crate) fn new(first_child: Ref) -> Self {
        let inner = Self {
            header: Header::new(),
            prefixes: std::array::from_fn(|_| AtomicU64::new(0)),
            entries: std::array::from_fn(|_| AtomicU32::new(NIL)),
            children: std::array::from_fn(|_| AtomicU32::new(NIL)),
        };
        inner.children[0].store(first_child, Ordering::Release);
        inner.header.set_count(1);
        inner
    }

    /// The child in slot `i < count`.
    #[inline]
    pub(crate) fn child(&self, i: usize) -> Ref {
        self.children[i].load(Ordering::Acquire)
    }

    /// The slot of the child with the entries just before the probe: the last that begins before it, or the
    /// first of all.
    ///
    /// # Safety
    /// The node belongs to `arena`, and `count >= 1` was read from it.
    #[inline]
    pub(crate) unsafe fn child_before(&self, arena: &Arena, count: usize, probe: &Probe<'_>) -> usize {
        // SAFETY: slots from 1 to `count` name entries, see the top of the file.
        unsafe { lower_bound(arena, &self.prefixes, &self.entries, 1, count, probe) - 1 }
    }

    /// Writer: puts a child that begins with `first` at slot `at >= 1`. The node is not full.
    pub(crate) fn insert(&self, at: usize, first: Slot, child: Ref) {
        self.header.begin_write();
        let count = self.header.count();
        for i in (at..count).rev() {
            self.set(i + 1, self.slot(i), self.child(i));
        }
        self.set(at, first, child);
        self.header.set_count(count + 1);
        self.header.end_write();
    }

    /// Writer: keeps the first `keep` children.
    pub(crate) fn truncate(&self, keep: usize) {
        self.header.begin_write();
        self.header.set_count(keep);
        self.header.end_write();
    }

    /// Writer: the upper part of a node being split. Nobody can reach it yet.
    pub(crate) fn upper_part(&self, from: usize) -> Inner {
        let upper = Inner::new(self.child(from));
        let count = self.header.count() - from;
        for i in 1..count {
            upper.set(i, self.slot(from + i), self.child(from + i));
        }
        upper.header.set_count(count);
        upper
    }

    /// Prefix and entry of slot `1 <= i < count`, for the writer.
    pub(crate) fn slot(&self, i: usize) -> Slot {
        Slot {
            prefix: self.prefixes[i].load(Ordering::Relaxed),
            entry: self.entries[i].load(Ordering::Acquire),
        }
    }

    fn set(&self, i: usize, first: Slot, child: Ref) {
        self.prefixes[i].store(first.prefix, Ordering::Relaxed);
        self.entries[i].store(first.entry, Ordering::Release);
        self.children[i].store(child, Ordering::Release);
    }
}

/// The first of the slots `from..count` whose entry is at or after the probe, or `count`. By prefix first,
/// without branches that depend on keys; entries are looked at only where the prefix is the probe's.
///
/// # Safety
/// Slots `from..count` of `entries` name entries of `arena`.
#[inline]
unsafe fn lower_bound(
    arena: &Arena,
    prefixes: &[AtomicU64],
    entries: &[AtomicU32],
    from: usize,
    count: usize,
    probe: &Probe<'_>,
) -> usize {
    let prefix = |i: usize| prefixes[i].load(Ordering::Relaxed);
    let mut low = partition(from, count, |i| prefix(i) < probe.prefix);
    if low == count || prefix(low) != probe.prefix {
        return low;
    }
    let mut high = low + 1;
    if high < count && prefix(high) == probe.prefix {
        high = partition(high, count, |i| prefix(i) <= probe.prefix);
    }
    while low < high {
        let middle = low.midpoint(high);
        // SAFETY: the caller's promise, and the load acquires.
        let entry = unsafe { arena.entry(entries[middle].load(Ordering::Acquire)) };
        if entry.cmp(probe).is_lt() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The first of `from..count` for which `before` is false, given that all true ones come first.
#[inline]
fn partition(from: usize, count: usize, before: impl Fn(usize) -> bool) -> usize {
    let mut at = from;
    let mut len = count - from;
    while len > 1 {
        let half = len / 2;
        at += half * usize::from(before(at + half - 1));
        len -= half;
    }
    at + usize::from(len == 1 && before(at))
}

#[cfg(test)]
mod tests {
    use super::partition;

    #[test]
    fn partition_finds_every_boundary() {
        for from in 0..3 {
            for count in from..45 {
                for boundary in from..=count {
                    assert_eq!(partition(from, count, |i| i < boundary), boundary, "{from}..{count}");
                }
            }
        }
    }
}
