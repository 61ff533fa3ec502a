//! The one writer: copies an entry into the arena, finds its leaf, makes room.
//! **A split never hides an entry.** It works from the top down, one node at a time, and in between every
//! entry can be reached, some by two ways:
//!
//! ```text
//!   1  the upper half of a full leaf is copied to a new leaf            (only the old way)
//!   2  the new leaf is entered into the parent, which may split first   (both ways)
//!   3  the old leaf drops its upper half and links to the new leaf      (only the new way)
//! ```
//! The new entry goes in with step 1 or 3. A node's first entry is its separator in the parent and, as nothing
//! is removed, stays in it: so "the last child that begins before X" holds an entry before X. The right edge
//! splits off only the new entry, so ascending inserts leave full leaves behind.

use std::sync::Arc;

use crate::arena::{Arena, Bump, NIL, Ref, Spare};
use crate::entry;
use crate::node::{INNER_SLOTS, Inner, LEAF_SLOTS, Leaf, Slot};
use crate::prefix::Probe;
use crate::sync::Ordering;
use crate::tree::Tree;

/// Inner levels at most. Full nodes at half of their slots make 8 out of all refs there can be; the right
/// edge adds one node a level, no level.
const HEIGHT_MAX: usize = 16;

/// The right to insert into a tree. There is one, and it can move between threads.
pub struct Writer {
    tree: Arc<Tree>,
    bump: Bump,
    len: usize,
}

/// The way from the root to a leaf: each inner node and the slot taken in it.
struct Path {
    steps: [(Ref, usize); HEIGHT_MAX],
    height: usize,
    leaf: Ref,
}

/// A new tree and its writer. `head` is what the keys will have in common (any keys are allowed, those on the
/// head are fast); `capacity_hint` is about how many bytes will go in: memory is then taken in fewer pieces.
pub fn tree(head: &[u8], capacity_hint: usize) -> (Writer, Arc<Tree>) {
    tree_with(None, head, capacity_hint)
}

/// The same, in memory that another tree did not need, if there is `spare`.
pub fn tree_with(spare: Option<Spare>, head: &[u8], capacity_hint: usize) -> (Writer, Arc<Tree>) {
    let (arena, mut bump) = Arena::new(capacity_hint, spare);
    let first_leaf = add(&arena, &mut bump, Leaf::new());
    let tree = Arc::new(Tree::new(head, arena, first_leaf));
    let writer = Writer { tree: Arc::clone(&tree), bump, len: 0 };
    tree.counters.used_bytes.store(writer.bump.used_bytes(), Ordering::Relaxed);
    (writer, tree)
}

impl Writer {
    /// Inserts an entry. When the call returns, whoever learns of it (by an acquiring load of what this
    /// thread then stores with release) finds the entry. An entry with a key and trailer that are there
    /// already goes before the old one.
    ///
    /// # Panics
    /// When key or value have 4 GiB, or the tree exceeds what its refs can address (8 GiB or more).
    pub fn insert(&mut self, key: &[u8], trailer: u64, value: &[u8]) {
        let Writer { tree, bump, len } = self;
        let (entry, address) = bump.allocate(&tree.arena, entry::size(key, value), 8);
        // SAFETY: the place was just handed out with this size and alignment, and nobody knows it yet.
        unsafe { entry::write(address, key, trailer, value) };
        let probe = tree.probe(key, trailer);
        let path = find_leaf(tree, &probe);
        let slot = Slot { prefix: probe.prefix, entry };
        // SAFETY: the name comes from the tree, and this is the writer.
        let leaf = unsafe { tree.leaf(path.leaf) };
        let count = leaf.header.count();
        // SAFETY: the leaf is of this tree and the count its own.
        let at = unsafe { leaf.lower_bound(&tree.arena, count, &probe) };
        if count < LEAF_SLOTS {
            leaf.insert(at, slot);
        } else {
            split_leaf(tree, bump, &path, leaf, at, slot);
        }
        *len += 1;
        tree.counters.used_bytes.store(bump.used_bytes(), Ordering::Relaxed);
        tree.counters.len.store(*len, Ordering::Release);
    }

    /// The tree, for readers.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("tree", &self.tree).finish_non_exhaustive()
    }
}

/// Splits a full leaf in which `slot` belongs at `at`.
fn split_leaf(tree: &Tree, bump: &mut Bump, path: &Path, leaf: &Leaf, at: usize, slot: Slot) {
    let rightmost = leaf.header.next() == NIL;
    let keep = if rightmost && at == LEAF_SLOTS { LEAF_SLOTS } else { LEAF_SLOTS / 2 };
    let goes_right = at > keep || keep == LEAF_SLOTS;
    let upper = leaf.upper_part(keep, goes_right.then(|| (at - keep, slot)));
    let first = upper.slot(0);
    let upper = add(&tree.arena, bump, upper);
    enter_child(tree, bump, path, path.height, rightmost, first, upper);
    leaf.truncate(keep, upper, (!goes_right).then_some((at, slot)));
}

/// Enters a child that begins with `first` to the right of the one that the path takes at `level` (levels
/// count from the root; 0 means that the child's sibling was the root).
fn enter_child(
    tree: &Tree,
    bump: &mut Bump,
    path: &Path,
    level: usize,
    rightmost: bool,
    first: Slot,
    child: Ref,
) {
    let Some(level) = level.checked_sub(1) else {
        let (height, old_root) = tree.root();
        let root = Inner::new(old_root);
        root.insert(1, first, child);
        let root = add(&tree.arena, bump, root);
        assert!((height as usize) < HEIGHT_MAX, "a tree higher than its refs allow");
        return tree.set_root(height + 1, root);
    };
    let (name, taken) = path.steps[level];
    // SAFETY: the name comes from the tree, and this is the writer.
    let inner = unsafe { tree.inner(name) };
    let at = taken + 1;
    if inner.header.count() < INNER_SLOTS {
        return inner.insert(at, first, child);
    }
    if rightmost && at == INNER_SLOTS {
        let upper = add(&tree.arena, bump, Inner::new(child));
        return enter_child(tree, bump, path, level, rightmost, first, upper);
    }
    let keep = INNER_SLOTS / 2;
    let upper = inner.upper_part(keep);
    if at > keep {
        upper.insert(at - keep, first, child);
    }
    let upper = add(&tree.arena, bump, upper);
    enter_child(tree, bump, path, level, rightmost, inner.slot(keep), upper);
    inner.truncate(keep);
    if at <= keep {
        inner.insert(at, first, child);
    }
}

/// Puts a node that is complete into the arena.
fn add<Node>(arena: &Arena, bump: &mut Bump, node: Node) -> Ref {
    let (name, address) = bump.allocate(arena, size_of::<Node>(), align_of::<Node>());
    // SAFETY: the place was just handed out with the node's size and alignment, and nobody knows it yet.
    unsafe { address.cast::<Node>().write(node) };
    name
}

/// The writer's own descent: nothing changes under it, so nothing is checked.
#[inline]
fn find_leaf(tree: &Tree, probe: &Probe<'_>) -> Path {
    let (height, mut name) = tree.root();
    let height = height as usize;
    let mut steps = [(NIL, 0); HEIGHT_MAX];
    for step in &mut steps[..height] {
        // SAFETY: names come from the tree, this is the writer, and above the leaves all nodes are inner.
        let inner = unsafe { tree.inner(name) };
        // SAFETY: the node is of this tree and the count its own; inner nodes have a child.
        let slot = unsafe { inner.child_before(&tree.arena, inner.header.count(), probe) };
        *step = (name, slot);
        name = inner.child(slot);
        tree.prefetch_node(name);
    }
    Path { steps, height, leaf: name }
}
