//! A cursor: a walk over the entries in order, both ways, while the writer goes on.
//!
//! The cursor copies the refs of one leaf at one moment and walks over the copy without looking at the leaf
//! again. Going on to the right it follows the link as it was at that moment: what the leaf has split off
//! since was in the copy, and the linked leaf still begins where it did. Going on to the left it descends
//! anew to what comes before the copy's first entry. So every entry inserted before the last seek is met,
//! in either direction and after any turn; later ones may or may not be.

use std::sync::Arc;

use crate::arena::{NIL, Ref};
use crate::entry::Entry;
use crate::node::{LEAF_SLOTS, Leaf};
use crate::prefix::Probe;
use crate::tree::{PinnedValue, Target, Tree};

/// How many entries ahead memory is asked for: entries lie in the order of their arrival, so the next one is
/// seldom near.
const ENTRIES_AHEAD: usize = 6;

/// A position in a tree. Owns a share of the tree; each thread has its own cursor.
pub struct Cursor {
    tree: Arc<Tree>,
    place: Place,
}

/// The copy of a leaf, `count` refs and the link, and the position `at` in it; none if that is `count`.
struct Place {
    entries: [Ref; LEAF_SLOTS],
    count: usize,
    at: usize,
    next: Ref,
}

impl Cursor {
    /// Whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.place.at < self.place.count
    }

    /// The user key.
    ///
    /// # Panics
    /// When the cursor is not valid; so do `trailer`, `value`, `pin_value`, `next` and `prev`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.entry().key
    }

    /// The trailer.
    #[inline]
    pub fn trailer(&self) -> u64 {
        self.entry().trailer
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.entry().value
    }

    /// The value, held beyond the cursor's move and end.
    pub fn pin_value(&self) -> PinnedValue {
        self.tree.pin(self.place.name())
    }

    /// The tree the cursor walks on.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// To the first entry of all.
    pub fn seek_to_first(&mut self) {
        self.place.go_to_leaf(&self.tree, self.tree.first_leaf);
    }

    /// To the last entry of all.
    pub fn seek_to_last(&mut self) {
        loop {
            let (leaf, version) = self.tree.descend(Target::Last);
            if self.place.copy(leaf, version) {
                // An empty tree has one empty leaf.
                self.place.at = self.place.count.saturating_sub(1);
                return;
            }
        }
    }

    /// To the first entry at or after (key, trailer): with the largest trailer visible to a snapshot, the
    /// entry of `key` that the snapshot sees, or what comes after.
    pub fn seek(&mut self, key: &[u8], trailer: u64) {
        let probe = self.tree.probe(key, trailer);
        self.place.at = self.place.load_before(&self.tree, &probe);
        if self.place.at == self.place.count {
            self.place.go_to_next_leaf(&self.tree);
        } else {
            self.place.prefetch(&self.tree, self.place.at + 1, self.place.at + ENTRIES_AHEAD);
        }
    }

    /// To the last entry whose user key is less than `key`.
    pub fn seek_before(&mut self, key: &[u8]) {
        let probe = self.tree.probe(key, u64::MAX);
        self.place.stand_before(&self.tree, &probe);
    }

    /// To the next entry.
    #[inline]
    pub fn next(&mut self) {
        let place = &mut self.place;
        assert!(place.at < place.count, "next on a cursor that is not at an entry");
        place.at += 1;
        if place.at == place.count {
            place.go_to_next_leaf(&self.tree);
        } else if let Some(&ahead) = place.entries[..place.count].get(place.at + ENTRIES_AHEAD) {
            evenkeel_sys::prefetch_address(self.tree.arena.address(ahead));
        }
    }

    /// To the entry before.
    #[inline]
    pub fn prev(&mut self) {
        let place = &mut self.place;
        assert!(place.at < place.count, "prev on a cursor that is not at an entry");
        if place.at > 0 {
            place.at -= 1;
            if let Some(ahead) = place.at.checked_sub(ENTRIES_AHEAD) {
                evenkeel_sys::prefetch_address(self.tree.arena.address(place.entries[ahead]));
            }
            return;
        }
        // SAFETY: the name was acquired when the leaf was copied.
        let first = unsafe { self.tree.arena.entry(place.name()) };
        let probe = self.tree.probe(first.key, first.trailer);
        place.stand_before(&self.tree, &probe);
    }

    pub(crate) fn new(tree: Arc<Tree>) -> Cursor {
        Cursor { tree, place: Place { entries: [NIL; LEAF_SLOTS], count: 0, at: 0, next: NIL } }
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        // SAFETY: the name was acquired when the leaf was copied, and the tree is held by `self`.
        unsafe { self.tree.arena.entry(self.place.name()) }
    }
}

impl Place {
    #[inline]
    fn name(&self) -> Ref {
        assert!(self.at < self.count, "a cursor that is not at an entry");
        self.entries[self.at]
    }

    /// Copies the leaf that holds what comes just before the probe, and returns the first slot of the copy
    /// that is not before it.
    fn load_before(&mut self, tree: &Tree, probe: &Probe<'_>) -> usize {
        loop {
            let (leaf, version) = tree.descend(Target::Before(probe));
            let count = leaf.header.count();
            // SAFETY: the leaf is of this tree and the count its own.
            let at = unsafe { leaf.lower_bound(&tree.arena, count, probe) };
            if self.copy(leaf, version) {
                return at;
            }
        }
    }

    /// To the last entry before the probe. If the leaf has none, no leaf has: the descent leads to a leaf that
    /// begins before the probe unless there is no such leaf.
    fn stand_before(&mut self, tree: &Tree, probe: &Probe<'_>) {
        match self.load_before(tree, probe).checked_sub(1) {
            Some(at) => {
                self.at = at;
                self.prefetch(tree, at.saturating_sub(ENTRIES_AHEAD), at);
            }
            None => self.at = self.count,
        }
    }

    fn go_to_next_leaf(&mut self, tree: &Tree) {
        if self.next == NIL {
            self.at = self.count;
        } else {
            self.go_to_leaf(tree, self.next);
        }
    }

    /// To the first entry of a leaf: the first leaf, or one whose name a link gave.
    fn go_to_leaf(&mut self, tree: &Tree, leaf: Ref) {
        // SAFETY: the name is the first leaf's or was acquired with a link.
        let leaf = unsafe { tree.leaf(leaf) };
        while !self.copy(leaf, leaf.header.begin_read()) {}
        self.at = 0;
        self.prefetch(tree, 0, ENTRIES_AHEAD + 1);
        if self.next != NIL {
            tree.prefetch_node(self.next);
        }
    }

    /// Copies a leaf; false if it is no longer at `version`, then the copy is worth nothing.
    fn copy(&mut self, leaf: &Leaf, version: u32) -> bool {
        let count = leaf.header.count();
        for (i, entry) in self.entries[..count].iter_mut().enumerate() {
            *entry = leaf.entry(i);
        }
        self.next = leaf.header.next();
        let unchanged = leaf.header.is_unchanged(version);
        self.count = if unchanged { count } else { 0 };
        self.at = self.count;
        unchanged
    }

    fn prefetch(&self, tree: &Tree, from: usize, to: usize) {
        let to = to.min(self.count);
        for &entry in self.entries.get(from..to).unwrap_or_default() {
            evenkeel_sys::prefetch_address(tree.arena.address(entry));
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}
