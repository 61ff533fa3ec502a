//! Blocks against sorted rows, at every kind of key, and against hostile bytes.

use super::*;
use crate::base::key::compare;
use crate::base::units::SeqNo;
use crate::table::block_builder::BlockBuilder;
use crate::table::test_files::{Random, Row, put, rows};

fn build(rows: &[Row]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for (key, trailer, value) in rows {
        let with = builder.bytes_with(key, value.len());
        builder.add(key, *trailer, value);
        assert_eq!(builder.bytes(), with);
        assert_eq!(builder.last_key(), key);
    }
    let estimate = builder.bytes();
    let mut block = Vec::new();
    builder.finish(&mut block);
    assert!(block.len() <= estimate, "{} > {estimate}", block.len());
    assert!(estimate <= block.len() + block.len() / 2 + 64, "{} is far below {estimate}", block.len());
    assert!(builder.is_empty());
    block
}

fn check_rows(rows: &[Row], random: &mut Random) {
    let block = build(rows);
    let layout = Layout::check(&block, Content::Data).unwrap();
    assert_eq!(layout.count(), rows.len());
    let mut key = Vec::new();
    for (i, (name, trailer, value)) in rows.iter().enumerate() {
        let entry = layout.entry(&block, i).unwrap();
        layout.key_into(&block, i, &mut key);
        assert_eq!((&key, entry.trailer, &block[entry.value]), (name, *trailer, &value[..]));
        assert_eq!(layout.lower_bound(&block, name, *trailer), i);
        assert!(layout.is_key(&block, i, name));
    }
    for _ in 0..300 {
        let mut key = rows[random.below(rows.len() as u64) as usize].0.clone();
        match random.below(5) {
            0 => key.push(random.below(2) as u8 * 255),
            1 => drop(key.pop()),
            2 => key = random.bytes(9),
            3 => key.extend_from_slice(&[0; 9]),
            _ => {}
        }
        let trailer = Trailer::seek(SeqNo(random.below(10_001)));
        let wanted = rows.partition_point(|(k, t, _)| compare(k, *t, &key, trailer).is_lt());
        let found = layout.lower_bound(&block, &key, trailer);
        assert_eq!(found, wanted, "key {key:?}");
        let is = rows.get(found).is_some_and(|(k, _, _)| *k == key);
        assert_eq!(layout.is_key(&block, found, &key), is);
    }
    assert!(layout.entry(&block, rows.len()).is_none());
}

#[test]
fn blocks_agree_with_their_rows() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let r = &mut random;
        for n in [1, 2, 15, 16, 17, 40, 500] {
            let sets = [
                rows(r, n, 1, 50, |r| r.bytes(16)),
                rows(r, n, 3, 5, |r| format!("a long shared head {:06}", r.below(1000)).into_bytes()),
                rows(r, n, 9, 5, |r| {
                    let n = r.below(12) as usize;
                    vec![0; n]
                }),
                rows(r, n, 2, 0, |r| r.below(40_000).to_be_bytes().to_vec()),
                rows(r, n, 2, 300, |r| {
                    let n = r.below(12);
                    (0..n).map(|_| r.below(2) as u8).collect()
                }),
                rows(r, n, 2, 4, |r| {
                    let mut k = vec![7; 14];
                    k.extend(r.bytes(1));
                    k
                }),
                rows(r, n, 1, 2, |r| {
                    let n = r.below(200) as usize;
                    r.bytes(n)
                }),
                // Prefixes that grow by powers: a guess is as wrong as can be.
                rows(r, n, 1, 2, |r| (1u64 << r.below(63)).wrapping_add(r.below(9)).to_be_bytes().to_vec()),
            ];
            for set in sets {
                check_rows(&set, r);
            }
        }
    }
}

#[test]
fn the_search_counts_what_is_below() {
    let mut random = Random(3);
    for n in [0, 1, 5, 16, 17, 33, 100, 1000] {
        for spread in [4, 1000, u64::MAX] {
            let mut words: Vec<u64> = (0..n).map(|_| random.below(spread)).collect();
            words.sort_unstable();
            let prefixes: Vec<[u8; 8]> = words.iter().map(|w| w.to_le_bytes()).collect();
            let mut probes: Vec<u64> =
                words.iter().flat_map(|w| [*w, w.wrapping_add(1), w.wrapping_sub(1)]).collect();
            probes.extend([0, u64::MAX]);
            for probe in probes {
                let wanted = words.partition_point(|w| *w < probe);
                assert_eq!(search(&prefixes, probe, false), wanted);
                if n > 0 {
                    assert_eq!(search(&prefixes, probe, true), wanted, "{probe} among {words:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_of_random_keys_costs_little_more_than_its_entries() {
    let mut random = Random(4);
    let set = rows(&mut random, 32, 1, 0, |r| r.bytes(16));
    let set: Vec<Row> = set.into_iter().map(|(k, _, _)| (k, put(1), vec![1; 100])).collect();
    // Trailer and length are 9 bytes; entries of one size need no offsets.
    assert_eq!(build(&set).len(), HEADER_BYTES + 32 * (16 + 100 + 9));
}

#[test]
fn hostile_blocks_never_panic_and_unknown_kinds_are_refused() {
    let mut random = Random(5);
    for set in [
        rows(&mut random, 30, 2, 20, |r| r.bytes(9)),
        rows(&mut random, 30, 1, 0, |r| r.bytes(8)),
        rows(&mut random, 4, 1, 70_000, |r| r.bytes(20)),
    ] {
        let block = build(&set);
        let step = (block.len() / 3000).max(1);
        for i in (0..block.len()).step_by(step) {
            for flip in [1u8, 0x80, 0xff] {
                let mut bad = block.clone();
                bad[i] ^= flip;
                use_anyhow(&bad, &set);
            }
            use_anyhow(&block[..i], &set);
        }
        for i in 0..400 {
            let noise = random.bytes(i);
            use_anyhow(&noise, &set);
        }
        let mut header = block.clone();
        header[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Layout::check(&header, Content::Data).is_err());
        let mut head = block.clone();
        head[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Layout::check(&head, Content::Data).is_err());
    }
    for kind in [0u64, 8, 255] {
        let block = build(&[(b"k".to_vec(), Trailer(5 << 8 | kind), Vec::new())]);
        assert_eq!(Layout::check(&block, Content::Data).err(), Some("an entry is of an unknown kind"));
        assert!(Layout::check(&block, Content::Index).is_ok());
    }
    for kind in 1..=7u64 {
        let block = build(&[(b"k".to_vec(), Trailer(5 << 8 | kind), Vec::new())]);
        assert!(Layout::check(&block, Content::Data).is_ok());
    }
}

/// Everything that can be done with bytes that are no block: it may answer anything, but must return.
fn use_anyhow(bytes: &[u8], set: &[Row]) {
    let checked = Layout::check(bytes, Content::Data).is_ok();
    let Some(layout) = Layout::parse(bytes) else {
        assert!(!checked);
        return;
    };
    let mut key = Vec::new();
    for i in 0..layout.count().min(100) {
        let entry = layout.entry(bytes, i);
        assert!(!checked || entry.is_some_and(|e| e.value.end <= bytes.len()));
        layout.key_into(bytes, i, &mut key);
    }
    for (key, trailer, _) in set.iter().take(5) {
        let found = layout.lower_bound(bytes, key, *trailer);
        assert!(found <= layout.count());
        layout.is_key(bytes, found, key);
    }
}
