//! The protocol between writer and readers under loom: every interleaving (up to a number of preemptions),
//! and every value that a relaxed load may return, on a tree whose nodes hold 2 entries and 3 children.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p evenkeel-arena --release --test loom`.
#![cfg(loom)]

use std::sync::Arc;

use evenkeel_arena::{Block, BlockPool, Tree, Writer, tree};
use loom::sync::atomic::{AtomicUsize, Ordering};

/// Runs `test` under all combinations of at most `preemptions` preemptions.
fn explore(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(test);
}

/// A small letter is a key of its own; capital ones are keys with the same prefix, told apart only in the arena.
fn name(letter: u8) -> Vec<u8> {
    if letter.is_ascii_uppercase() { [b"the-same", &[letter][..]].concat() } else { vec![letter] }
}

/// A tree that holds the keys named by letters.
fn holding(keys: &str) -> (Writer, Arc<Tree>) {
    let (mut writer, tree) = tree(b"", 0);
    for key in keys.bytes() {
        writer.insert(&name(key), 1, &[key]);
    }
    (writer, tree)
}

/// Inserts `added` one by one beside a reader, which learns how many are there before it looks.
fn beside(
    preemptions: usize,
    before: &'static str,
    added: &'static str,
    look: impl Fn(&Arc<Tree>, &str) + Copy + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let (mut writer, tree) = holding(before);
        let published = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&published);
        let reader = loom::thread::spawn(move || {
            let seen = seen.load(Ordering::Acquire);
            look(&tree, &format!("{before}{}", &added[..seen]));
        });
        for (i, key) in added.bytes().enumerate() {
            writer.insert(&name(key), 1, &[key]);
            published.store(i + 1, Ordering::Release);
        }
        reader.join().unwrap();
        look(writer.tree(), &format!("{before}{added}"));
    });
}

/// One key a run: the runs for several keys in one would multiply, not add.
fn get_each(preemptions: usize, before: &'static str, added: &'static str, keys: &str) {
    for key in keys.bytes() {
        beside(preemptions, before, added, move |tree, present| {
            let found = tree.get(&name(key), u64::MAX);
            assert!(found.is_none_or(|found| found == (1, &[key][..])));
            assert!(found.is_some() || !present.as_bytes().contains(&key), "{} of {present}", key as char);
        });
    }
}

fn scan_up(tree: &Arc<Tree>, present: &str) {
    let mut cursor = tree.cursor();
    cursor.seek_to_first();
    let mut met = Vec::new();
    while cursor.valid() {
        met.push(cursor.key()[0]);
        cursor.next();
    }
    assert!(met.is_sorted(), "{met:?}");
    assert!(present.bytes().all(|key| met.contains(&key)), "{met:?} of {present}");
}

fn scan_down(tree: &Arc<Tree>, present: &str) {
    let mut cursor = tree.cursor();
    cursor.seek_to_last();
    let mut met = Vec::new();
    while cursor.valid() {
        met.push(cursor.key()[0]);
        cursor.prev();
    }
    met.reverse();
    assert!(met.is_sorted(), "{met:?}");
    assert!(present.bytes().all(|key| met.contains(&key)), "{met:?} of {present}");
}

#[test]
fn get_beside_the_split_of_a_root_leaf() {
    get_each(3, "bd", "c", "bcd");
}

#[test]
fn get_beside_a_leaf_split_below_a_root() {
    get_each(2, "bdf", "c", "bcdf");
}

#[test]
fn get_beside_the_split_of_the_root_above_leaves() {
    get_each(2, "bdfhj", "c", "cdf");
}

#[test]
fn get_beside_appends() {
    get_each(2, "bd", "ef", "bdef");
}

#[test]
fn get_among_equal_prefixes_reads_only_published_entries() {
    get_each(3, "B", "A", "AB");
    get_each(2, "BD", "C", "BCD");
}

#[test]
fn scan_up_beside_splits() {
    beside(3, "bdf", "ac", scan_up);
}

#[test]
fn scan_down_beside_a_split() {
    beside(2, "bd", "c", scan_down);
}

#[test]
fn a_step_back_across_a_leaf_being_split() {
    beside(2, "bdf", "c", |tree, present| {
        let mut cursor = tree.cursor();
        cursor.seek(b"f", 1);
        cursor.prev();
        assert_eq!(cursor.key(), b"d", "{present}");
    });
}

#[test]
fn the_last_entry_beside_appends() {
    beside(3, "bdf", "gh", |tree, present| {
        let mut cursor = tree.cursor();
        cursor.seek_to_last();
        assert!(Some(&cursor.key()[0]) >= present.as_bytes().last());
    });
}

/// The last holder of a block gives its memory to the next block, whoever it is and whatever else has happened by then.
#[test]
fn a_block_ends_once_and_with_its_last_holder() {
    explore(3, || {
        let pool = BlockPool::new();
        let block = pool.block(b"first");
        let others: Vec<Block> = vec![block.clone(), block];
        let readers: Vec<_> = others
            .into_iter()
            .map(|block| {
                loom::thread::spawn(move || {
                    assert_eq!(*block, *b"first");
                    let copy = block.clone();
                    drop(block);
                    assert_eq!(*copy, *b"first");
                })
            })
            .collect();
        let second = pool.block(b"second");
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(*second, *b"second");
        assert_eq!(pool.memory_bytes() - pool.free_bytes(), second.slot_bytes());
        drop(pool);
        assert_eq!(*second, *b"second");
    });
}
