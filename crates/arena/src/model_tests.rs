//! The tree against a `BTreeMap`, one thread: every seek, both directions, all kinds of keys; then the
//! corners: the empty tree, many versions, pins, large entries, what memory is counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Cursor, Tree, Writer, tree};

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Vec<u8>>;

/// A small generator: the tests need variety, not quality, and no dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Ways to make keys, each hard on another part of the tree.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// Eight random bytes.
    Words,
    /// Zero to three bytes out of four letters: the empty key, zero bytes, many versions.
    Short,
    /// On the head, off it on both sides, and parts of it.
    AroundHead,
    /// Equal in the first twelve bytes, so all prefixes are equal.
    EqualPrefixes,
    /// Upward, as a load of sorted data.
    Ascending,
    /// Downward.
    Descending,
}

const ALL_KEYS: [Keys; 6] =
    [Keys::Words, Keys::Short, Keys::AroundHead, Keys::EqualPrefixes, Keys::Ascending, Keys::Descending];

impl Keys {
    fn make(self, random: &mut Random, i: u64) -> Vec<u8> {
        match self {
            Keys::Words => random.next().to_be_bytes().to_vec(),
            Keys::Short => {
                (0..random.below(4)).map(|_| [0, b'a', b'b', 255][random.below(4) as usize]).collect()
            }
            Keys::AroundHead => {
                let heads: [&[u8]; 6] = [b"", b"user", b"user:", b"user:", b"user:", b"zone"];
                let mut key = heads[random.below(6) as usize].to_vec();
                key.extend_from_slice(&random.below(2000).to_string().into_bytes());
                key
            }
            Keys::EqualPrefixes => format!("equal-prefix{:05}", random.below(3000)).into_bytes(),
            Keys::Ascending => format!("{i:09}").into_bytes(),
            Keys::Descending => format!("{:09}", 999_999_999 - i).into_bytes(),
        }
    }
}

fn fill(keys: Keys, head: &[u8], count: u64, random: &mut Random) -> (Writer, Arc<Tree>, Model) {
    let (mut writer, tree) = tree(head, random.below(100_000) as usize);
    let mut model = Model::new();
    for i in 1..=count {
        let key = keys.make(random, i);
        // Sequences mostly rise, as in the store, but the tree does not depend on it.
        let trailer = if random.below(10) == 0 { random.next() } else { i << 8 | 1 };
        let value = vec![i as u8; random.below(60) as usize];
        if model.insert((key.clone(), Reverse(trailer)), value.clone()).is_none() {
            writer.insert(&key, trailer, &value);
        }
    }
    (writer, tree, model)
}

fn at(cursor: &Cursor) -> Option<(&[u8], u64, &[u8])> {
    cursor.valid().then(|| (cursor.key(), cursor.trailer(), cursor.value()))
}

fn expected<'a>(
    entry: Option<(&'a (Vec<u8>, Reverse<u64>), &'a Vec<u8>)>,
) -> Option<(&'a [u8], u64, &'a [u8])> {
    entry.map(|((key, Reverse(trailer)), value)| (&key[..], *trailer, &value[..]))
}

fn check_scans(tree: &Arc<Tree>, model: &Model, context: &str) {
    let mut cursor = tree.cursor();
    assert!(!cursor.valid());
    cursor.seek_to_first();
    for entry in model {
        assert_eq!(at(&cursor), expected(Some(entry)), "{context}, upward");
        cursor.next();
    }
    assert!(!cursor.valid(), "{context}, past the end");
    cursor.seek_to_last();
    for entry in model.iter().rev() {
        assert_eq!(at(&cursor), expected(Some(entry)), "{context}, downward");
        cursor.prev();
    }
    assert!(!cursor.valid(), "{context}, before the start");
}

fn check_lookups(tree: &Arc<Tree>, model: &Model, keys: Keys, random: &mut Random, context: &str) {
    let mut cursor = tree.cursor();
    let stored: Vec<_> = model.keys().collect();
    for i in 0..2000 {
        let (mut key, mut trailer) = (keys.make(random, i), random.below(20_000) << 8 | 0xff);
        if random.below(2) == 0 {
            (key, trailer) = (stored[random.below(stored.len() as u64) as usize].0.clone(), trailer);
        }
        if random.below(3) == 0 {
            trailer = stored[random.below(stored.len() as u64) as usize].1.0;
        }
        let probe = (key.clone(), Reverse(trailer));
        let first = expected(model.range(&probe..).next());
        let found = first.filter(|entry| entry.0 == key).map(|(_, trailer, value)| (trailer, value));
        assert_eq!(tree.get(&key, trailer), found, "{context}, get {key:?} {trailer}");
        let pinned = tree.get_pinned(&key, trailer);
        assert_eq!(pinned.as_ref().map(|(trailer, value)| (*trailer, &value[..])), found);
        cursor.seek(&key, trailer);
        assert_eq!(at(&cursor), first, "{context}, seek {key:?} {trailer}");
        walk(&mut cursor, model, random, context);
        cursor.seek_before(&key);
        let before = model.range(..(key.clone(), Reverse(u64::MAX))).next_back();
        assert_eq!(at(&cursor), expected(before), "{context}, seek_before {key:?}");
        walk(&mut cursor, model, random, context);
    }
}

/// A few steps with turns.
fn walk(cursor: &mut Cursor, model: &Model, random: &mut Random, context: &str) {
    for _ in 0..random.below(6) {
        if !cursor.valid() {
            return;
        }
        let here = (cursor.key().to_vec(), Reverse(cursor.trailer()));
        let wanted = if random.below(2) == 0 {
            cursor.next();
            model.range(&here..).nth(1)
        } else {
            cursor.prev();
            model.range(..&here).next_back()
        };
        assert_eq!(at(cursor), expected(wanted), "{context}, from {here:?}");
    }
}

#[test]
fn behaves_as_a_sorted_map() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        for keys in ALL_KEYS {
            for head in [&b""[..], b"user:", b"equal-prefix"] {
                let context = format!("seed {seed}, {keys:?}, head {head:?}");
                let mut random = Random(seed);
                let count = [60, 700, 5000, 9000][seed as usize];
                let (_writer, tree, model) = fill(keys, head, count, &mut random);
                assert_eq!(tree.len(), model.len(), "{context}");
                assert!(tree.memory_used() <= tree.memory_reserved(), "{context}");
                check_scans(&tree, &model, &context);
                if !cfg!(miri) {
                    check_lookups(&tree, &model, keys, &mut random, &context);
                }
            }
        }
    }
}

#[test]
fn an_empty_tree_answers_nothing() {
    let (writer, tree) = tree(b"", 0);
    let mut cursor = writer.tree().cursor();
    assert!(tree.is_empty() && tree.get(b"", u64::MAX).is_none());
    for seek in [Cursor::seek_to_first, Cursor::seek_to_last, |c: &mut Cursor| c.seek(b"", u64::MAX)] {
        seek(&mut cursor);
        assert!(!cursor.valid());
    }
    cursor.seek_before(b"z");
    assert!(!cursor.valid());
    assert!(tree.memory_reserved() <= 4096, "{} bytes for nothing", tree.memory_reserved());
}

#[test]
fn many_versions_of_one_key_are_told_apart() {
    let (mut writer, tree) = tree(b"", 0);
    for seq in 1..=3000u64 {
        writer.insert(b"key", seq * 10, &seq.to_le_bytes());
    }
    writer.insert(b"kex", 5, b"before");
    writer.insert(b"kez", 5, b"after");
    for seq in 1..=3000u64 {
        let value = seq.to_le_bytes();
        assert_eq!(tree.get(b"key", seq * 10), Some((seq * 10, &value[..])));
        assert_eq!(tree.get(b"key", seq * 10 + 9), Some((seq * 10, &value[..])));
    }
    assert_eq!(tree.get(b"key", 9), None);
    let mut cursor = tree.cursor();
    cursor.seek_before(b"key");
    assert_eq!(cursor.value(), b"before");
    cursor.seek_before(b"kez");
    assert_eq!(cursor.trailer(), 10);
}

#[test]
fn pinned_values_outlive_tree_cursor_and_writer() {
    let (mut writer, tree) = tree(b"", 0);
    writer.insert(b"a", 1, b"one");
    writer.insert(b"b", 2, b"two");
    let mut cursor = tree.cursor();
    cursor.seek(b"b", u64::MAX);
    let from_cursor = cursor.pin_value();
    let (_, from_get) = tree.get_pinned(b"a", 1).unwrap();
    let weak = Arc::downgrade(&tree);
    drop((writer, tree, cursor));
    assert_eq!((&from_get.clone()[..], from_cursor.as_ref()), (&b"one"[..], &b"two"[..]));
    assert!(weak.upgrade().is_some());
    drop((from_get, from_cursor));
    assert!(weak.upgrade().is_none(), "a pin was leaked");
}

#[test]
#[cfg(not(miri))]
fn large_entries_are_kept_among_small_ones() {
    let (mut writer, tree) = tree(b"", 0);
    let sizes = [0, 1 << 12, (1 << 20) - 1, 1 << 20, 5 << 20, 17 << 20, 128 << 20];
    let key = vec![b'k'; 65_536];
    for (i, size) in sizes.into_iter().enumerate() {
        writer.insert(format!("small{i}").as_bytes(), 1, b"s");
        writer.insert(&key, i as u64 + 1, &vec![i as u8; size]);
    }
    for (i, size) in sizes.into_iter().enumerate() {
        let (trailer, value) = tree.get(&key, i as u64 + 1).unwrap();
        assert_eq!((trailer, value.len()), (i as u64 + 1, size));
        assert!(value.iter().all(|&b| b == i as u8));
        assert_eq!(tree.get(format!("small{i}").as_bytes(), 9), Some((1, &b"s"[..])));
    }
    let data: usize = sizes.iter().map(|size| size + key.len()).sum();
    assert!(tree.memory_used() >= data && tree.memory_reserved() <= data + data / 4);
}

#[test]
fn a_small_tree_costs_little_and_counts_it() {
    let (mut writer, tree) = tree(b"", 4096);
    let mut data = 0;
    let mut used = tree.memory_used();
    for i in 0..200u64 {
        writer.insert(&i.to_be_bytes(), i, &[0; 20]);
        data += 28;
        assert!(tree.memory_used() >= used + 28);
        used = tree.memory_used();
    }
    assert!(used < 3 * data + 2048, "{used} bytes used for {data}");
    assert!(tree.memory_reserved() < 32 << 10, "{} bytes reserved for {data}", tree.memory_reserved());
}
