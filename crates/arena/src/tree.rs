//! The tree as readers see it: descend, get, and what a leaf holds at one moment.
//!
//! A descent takes the child's version before it checks the parent's. If the writer split the child before
//! the first, the parent has changed by the second, because a split enters the new sibling into the parent
//! before it shortens the child; if after, the child's own check fails. Either way the descent starts again
//! at the root, so a reader always ends in the leaf whose range holds the place it looks for.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::arena::{Arena, NIL, Ref, Spare};
use crate::cursor::Cursor;
use crate::entry::Entry;
use crate::node::{Header, Inner, Leaf, Slot};
use crate::prefix::{Head, Probe};
use crate::sync::{AtomicU64, Backoff, Ordering};

/// A sorted map from (user key, trailer) to value that one [`Writer`](crate::Writer) fills and any number
/// of threads read meanwhile.
pub struct Tree {
    pub(crate) arena: Arena,
    /// Height (inner levels above the leaves) and name of the root.
    root: AtomicU64,
    /// The leftmost leaf: splits go to the right, so it stays the same.
    pub(crate) first_leaf: Ref,
    head: Head,
    pub(crate) counters: Counters,
}

/// What changes with each insert, on a cache line apart from what each read looks at.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) len: AtomicUsize,
    pub(crate) used_bytes: AtomicUsize,
}

/// A value held beyond the borrow it was found by; it keeps the whole tree alive.
#[derive(Clone)]
pub struct PinnedValue {
    tree: Arc<Tree>,
    entry: Ref,
}

/// Where a descent goes.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// To the leaf that holds what comes just before the probe.
    Before(&'a Probe<'a>),
    /// To the last leaf.
    Last,
}

/// A node changed under the reader, which must start again.
pub(crate) struct Changed;

impl Tree {
    /// The newest entry of exactly this key with a trailer of at most `max_trailer`.
    pub fn get(&self, key: &[u8], max_trailer: u64) -> Option<(u64, &[u8])> {
        let (_, entry) = self.find(key, max_trailer)?;
        Some((entry.trailer, entry.value))
    }

    /// As [`get`](Tree::get), with a value that outlives the borrow of the tree.
    pub fn get_pinned(self: &Arc<Tree>, key: &[u8], max_trailer: u64) -> Option<(u64, PinnedValue)> {
        let (name, entry) = self.find(key, max_trailer)?;
        Some((entry.trailer, self.pin(name)))
    }

    /// A cursor over the tree, not yet at an entry.
    pub fn cursor(self: &Arc<Tree>) -> Cursor {
        Cursor::new(Arc::clone(self))
    }

    /// Entries inserted.
    pub fn len(&self) -> usize {
        self.counters.len.load(Ordering::Acquire)
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in use: entries, nodes, what alignment costs, and the tree itself. Grows with each insert.
    pub fn memory_used(&self) -> usize {
        size_of::<Tree>() + self.head.bytes().len() + self.counters.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes taken from the system. What lies in a large chunk and was never touched is only address space.
    pub fn memory_reserved(&self) -> usize {
        size_of::<Tree>() + self.head.bytes().len() + self.arena.reserved_bytes()
    }

    /// True if the writer will soon come to memory that nobody has touched: time for [`touch_ahead`](Tree::touch_ahead).
    #[inline]
    pub fn wants_touching(&self) -> bool {
        self.arena.wants_touching(self.counters.used_bytes.load(Ordering::Relaxed))
    }

    /// Touches the memory that the writer will need next, so that no insert waits until the system has cleared it: 2 to 4 MiB. For
    /// another thread than the writer's, which goes on meanwhile.
    pub fn touch_ahead(&self) {
        self.arena.touch_ahead(self.counters.used_bytes.load(Ordering::Relaxed));
    }

    /// Memory that was touched ahead and not needed: for the next tree.
    pub fn take_spare(&self) -> Option<Spare> {
        self.arena.take_spare()
    }

    /// The common head that was given when the tree was made.
    pub fn head(&self) -> &[u8] {
        self.head.bytes()
    }

    pub(crate) fn new(head: &[u8], arena: Arena, first_leaf: Ref) -> Tree {
        let head = Head::new(head);
        let root = AtomicU64::new(pack_root(0, first_leaf));
        Tree { arena, root, first_leaf, head, counters: Counters::default() }
    }

    #[inline]
    pub(crate) fn probe<'a>(&self, key: &'a [u8], trailer: u64) -> Probe<'a> {
        Probe { prefix: self.head.prefix(key), key, trailer }
    }

    pub(crate) fn pin(self: &Arc<Tree>, entry: Ref) -> PinnedValue {
        PinnedValue { tree: Arc::clone(self), entry }
    }

    /// Height and name of the root.
    #[inline]
    pub(crate) fn root(&self) -> (u32, Ref) {
        let root = self.root.load(Ordering::Acquire);
        ((root >> 32) as u32, root as u32)
    }

    /// Writer: a new root above the old one.
    pub(crate) fn set_root(&self, height: u32, root: Ref) {
        self.root.store(pack_root(height, root), Ordering::Release);
    }

    /// # Safety
    /// `name` names a leaf of this tree and was read by an acquiring load (or the caller is the writer).
    #[inline]
    pub(crate) unsafe fn leaf(&self, name: Ref) -> &Leaf {
        // SAFETY: the leaf was written in full before its name was stored with release, it lives as long as
        // the arena, and all its fields are atomic, so shared references are all there ever are.
        unsafe { &*self.arena.address(name).cast::<Leaf>() }
    }

    /// # Safety
    /// As for `leaf`, for an inner node.
    #[inline]
    pub(crate) unsafe fn inner(&self, name: Ref) -> &Inner {
        // SAFETY: as in `leaf`.
        unsafe { &*self.arena.address(name).cast::<Inner>() }
    }

    /// The leaf the target lies in, and the version at which that is so.
    #[inline]
    pub(crate) fn descend(&self, target: Target<'_>) -> (&Leaf, u32) {
        let mut backoff = Backoff::default();
        loop {
            match self.try_descend(target) {
                Ok(found) => return found,
                Err(Changed) => backoff.wait(),
            }
        }
    }

    #[inline]
    fn try_descend(&self, target: Target<'_>) -> Result<(&Leaf, u32), Changed> {
        let (height, root) = self.root();
        let mut name = root;
        // SAFETY: the root's name was acquired; both kinds of node begin with a header.
        let mut version = unsafe { self.header(name) }.begin_read();
        if self.root() != (height, root) {
            return Err(Changed);
        }
        for _ in 0..height {
            // SAFETY: the name was acquired, and above the leaves all nodes are inner ones.
            let inner = unsafe { self.inner(name) };
            let count = inner.header.count();
            let slot = match target {
                // SAFETY: the node is of this tree, and the count its own; inner nodes have a child.
                Target::Before(probe) => unsafe { inner.child_before(&self.arena, count, probe) },
                Target::Last => count - 1,
            };
            let child = inner.child(slot);
            self.prefetch_node(child);
            // SAFETY: the child's name was acquired.
            let child_version = unsafe { self.header(child) }.begin_read();
            if !inner.header.is_unchanged(version) {
                return Err(Changed);
            }
            (name, version) = (child, child_version);
        }
        // SAFETY: the name was acquired, and `height` levels below the root are the leaves.
        Ok((unsafe { self.leaf(name) }, version))
    }

    /// Asks for all lines of a node at once: the search would wait for one after the other.
    #[inline]
    pub(crate) fn prefetch_node(&self, name: Ref) {
        let address = self.arena.address(name);
        for line in 0..size_of::<Leaf>() / 64 {
            evenkeel_sys::prefetch_address(address.wrapping_add(64 * line));
        }
    }

    #[inline]
    fn find(&self, key: &[u8], max_trailer: u64) -> Option<(Ref, Entry<'_>)> {
        let probe = self.probe(key, max_trailer);
        let slot = self.first_at_or_after(&probe)?;
        // Another prefix is another key, and says so without a look at the entry: a cache miss saved.
        if slot.prefix != probe.prefix {
            return None;
        }
        // SAFETY: the name was acquired from a leaf of this tree.
        let entry = unsafe { self.arena.entry(slot.entry) };
        (entry.key == key).then_some((slot.entry, entry))
    }

    #[inline]
    fn first_at_or_after(&self, probe: &Probe<'_>) -> Option<Slot> {
        loop {
            let (leaf, version) = self.descend(Target::Before(probe));
            let count = leaf.header.count();
            // SAFETY: the leaf is of this tree and the count its own.
            let at = unsafe { leaf.lower_bound(&self.arena, count, probe) };
            let found = if at < count { Ok(leaf.slot(at)) } else { Err(leaf.header.next()) };
            if leaf.header.is_unchanged(version) {
                return found.map_or_else(|next| self.first_of(next), Some);
            }
        }
    }

    /// The first slot of a leaf that a link names. It is at or after what was looked for to the left of it:
    /// a leaf's lower bound never changes, and only the leftmost leaf can be empty.
    fn first_of(&self, name: Ref) -> Option<Slot> {
        if name == NIL {
            return None;
        }
        // SAFETY: the name was acquired from a leaf's link.
        let leaf = unsafe { self.leaf(name) };
        loop {
            let version = leaf.header.begin_read();
            let first = leaf.slot(0);
            if leaf.header.is_unchanged(version) {
                return Some(first);
            }
        }
    }

    /// # Safety
    /// `name` names a node of this tree and was read by an acquiring load.
    #[inline]
    unsafe fn header(&self, name: Ref) -> &Header {
        // SAFETY: as in `leaf`; both kinds of node are `repr(C)` and begin with a header.
        unsafe { &*self.arena.address(name).cast::<Header>() }
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (height, _) = self.root();
        f.debug_struct("Tree").field("len", &self.len()).field("height", &height).finish_non_exhaustive()
    }
}

impl Deref for PinnedValue {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the name was acquired from a leaf of this tree before the pin was made.
        unsafe { self.tree.arena.entry(self.entry) }.value
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedValue({} bytes)", self.len())
    }
}

fn pack_root(height: u32, root: Ref) -> u64 {
    u64::from(height) << 32 | u64::from(root)
}
