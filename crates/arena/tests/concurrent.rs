//! One writer and several readers at full speed: what was published is found by get, by scans both ways and
//! after turns. Run it under ThreadSanitizer or AddressSanitizer as well, and see `loom.rs` for tiny trees
//! under every interleaving.
#![cfg(not(loom))]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_arena::{Tree, tree};

const ENTRIES: u64 = if cfg!(miri) { 400 } else { 200_000 };

/// The key of entry `i`: distinct for distinct `i`, in an order that splits leaves everywhere. Every fourth
/// is off the head.
fn key(i: u64) -> Vec<u8> {
    let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let head: &[u8] = match i % 8 {
        0 => b"aa",
        4 => b"zz",
        _ => b"head-",
    };
    [head, &word].concat()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("values are numbers"))
}

/// Fills the tree on one thread while `check(tree, published)` runs on two others until all is published.
fn beside_a_writer(key: fn(u64) -> Vec<u8>, check: impl Fn(&Arc<Tree>, u64, &AtomicU64) + Sync) {
    let (mut writer, tree) = tree(b"head-", 4096);
    let published = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=ENTRIES {
                writer.insert(&key(i), i, &i.to_le_bytes());
                published.store(i, Ordering::Release);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seen = published.load(Ordering::Acquire);
                    check(&tree, seen, &published);
                    if seen == ENTRIES {
                        return;
                    }
                }
            });
        }
    });
    check(&tree, ENTRIES, &published);
    assert_eq!(tree.len() as u64, ENTRIES);
}

#[test]
fn gets_find_what_is_published() {
    beside_a_writer(key, |tree, seen, published| {
        for step in 0..200 {
            let newest = published.load(Ordering::Acquire);
            for i in [newest, seen.wrapping_mul(step + 7) % (newest + 1)] {
                let found = tree.get(&key(i), u64::MAX).map(|(trailer, value)| (trailer, number(value)));
                assert_eq!(found, (i > 0).then_some((i, i)), "of {newest} published");
            }
        }
    });
}

#[test]
fn scans_up_are_sorted_and_complete() {
    beside_a_writer(key, |tree, seen, _| {
        let mut cursor = tree.cursor();
        cursor.seek_to_first();
        let (mut met, mut last) = (0, Vec::new());
        while cursor.valid() {
            assert!(last.as_slice() < cursor.key(), "out of order");
            assert_eq!(cursor.trailer(), number(cursor.value()));
            last = cursor.key().to_vec();
            met += u64::from(cursor.trailer() <= seen);
            cursor.next();
        }
        assert_eq!(met, seen, "a published entry was not met");
    });
}

#[test]
fn scans_down_are_sorted_and_complete() {
    beside_a_writer(key, |tree, seen, _| {
        let mut cursor = tree.cursor();
        cursor.seek_to_last();
        let (mut met, mut last) = (0, vec![0xff; 20]);
        while cursor.valid() {
            assert!(last.as_slice() > cursor.key(), "out of order");
            assert_eq!(cursor.trailer(), number(cursor.value()));
            last = cursor.key().to_vec();
            met += u64::from(cursor.trailer() <= seen);
            cursor.prev();
        }
        assert_eq!(met, seen, "a published entry was not met");
    });
}

#[test]
fn turns_and_seeks_in_a_growing_tree_skip_nothing() {
    beside_a_writer(key, |tree, seen, _| {
        let mut cursor = tree.cursor();
        for step in 1..20u64 {
            let start = key(seen.wrapping_mul(step) % ENTRIES + 1);
            cursor.seek(&start, u64::MAX);
            let mut up = BTreeSet::new();
            while cursor.valid() && up.len() < 150 {
                up.extend((cursor.trailer() <= seen).then(|| cursor.key().to_vec()));
                cursor.next();
            }
            // Where the way up ended, or the end of all; then all the way back.
            let Some(end) = up.last().cloned() else { continue };
            if cursor.valid() {
                cursor.prev();
            } else {
                cursor.seek_to_last();
            }
            let mut down = BTreeSet::new();
            while cursor.valid() && cursor.key() >= start.as_slice() {
                down.extend((cursor.trailer() <= seen).then(|| cursor.key().to_vec()));
                cursor.prev();
            }
            down.retain(|key| *key <= end);
            assert!(up == down, "{} entries upward, {} downward", up.len(), down.len());
            cursor.seek_before(&start);
            if cursor.valid() {
                assert!(cursor.key() < start.as_slice());
                cursor.next();
                assert!(cursor.valid() && cursor.key() <= up.first().expect("not empty").as_slice());
            }
        }
    });
}

#[test]
fn the_right_edge_and_the_left_edge_grow_without_losses() {
    fn up(i: u64) -> Vec<u8> {
        [&b"head-"[..], &i.to_be_bytes()].concat()
    }
    fn down(i: u64) -> Vec<u8> {
        up(u64::MAX - i)
    }
    for (key, newest_is_last) in [(up as fn(u64) -> Vec<u8>, true), (down, false)] {
        beside_a_writer(key, |tree, _, published| {
            let mut cursor = tree.cursor();
            for _ in 0..100 {
                let before = published.load(Ordering::Acquire);
                if newest_is_last {
                    cursor.seek_to_last();
                } else {
                    cursor.seek_to_first();
                }
                let newest = if cursor.valid() { cursor.trailer() } else { 0 };
                assert!(newest >= before, "entry {before} is published, {newest} was found");
            }
        });
    }
}
