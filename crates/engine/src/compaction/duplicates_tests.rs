//! The estimate beside the exact figure, over trees of random overwrites and deletes.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::compaction::twin_world::Chance;
use crate::table::key_sample::Sampler;
use crate::table::meta::TableMeta;
use crate::version::picture_parse::{fabricated_meta, parse};

const KEY_BYTES: u64 = 16;

fn hash(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A run of tables of `per_table` keys, of sorted (key, value bytes); no value is a delete.
fn run_of(entries: &[(u64, Option<u64>)], per_table: usize, next: &mut u64) -> Vec<TableRef> {
    let table = |part: &[(u64, Option<u64>)]| {
        *next += 1;
        let (first, last) = (part[0].0.to_be_bytes(), part[part.len() - 1].0.to_be_bytes());
        let mut sampler = Sampler::default();
        part.iter().for_each(|(key, value)| sampler.add(hash(*key), value.is_none()));
        let meta = TableMeta {
            entries: part.len() as u64,
            keys: part.len() as u64,
            tombstones: part.iter().filter(|(_, value)| value.is_none()).count() as u64,
            bytes: part.iter().map(|(_, value)| KEY_BYTES + value.unwrap_or(0)).sum(),
            key_sample: sampler.sample(),
            ..fabricated_meta(*next, &first, &last)
        };
        TableRef::whole(Arc::new(meta), 0)
    };
    entries.chunks(per_table).map(table).collect()
}

/// A tree of runs, newest first, one a level; and its space amplification as a scan would find it.
fn tree(runs: &[Vec<(u64, Option<u64>)>], per_table: usize) -> (Version, f64) {
    let (mut seen, mut whole, mut left) = (HashMap::new(), 0, 0);
    for (key, value) in runs.iter().flatten() {
        let bytes = KEY_BYTES + value.unwrap_or(0);
        whole += bytes;
        if seen.insert(*key, ()).is_none() && value.is_some() {
            left += bytes;
        }
    }
    let drawing: String = (0..runs.len()).map(|level| format!("L{level} L #{}: ()\n", level + 1)).collect();
    let mut version = parse(&drawing).unwrap();
    let mut next = 0;
    for (level, entries) in version.levels.iter_mut().zip(runs) {
        let group = Arc::make_mut(&mut level.groups[0]);
        Arc::make_mut(&mut group.runs[0]).tables = run_of(entries, per_table, &mut next);
    }
    (version, whole as f64 / left as f64 - 1.0)
}

#[test]
fn the_estimate_is_within_a_tenth_of_a_scan() {
    let mut chance = Chance(3);
    let mut worst: f64 = 0.0;
    for (keys, per_table, deletes, sizes) in [
        (50_000, 500, 0, [100, 100]),
        (50_000, 500, 10, [100, 100]),
        (50_000, 5_000, 5, [40, 900]),
        (400_000, 20_000, 0, [100, 100]),
        (3_000, 300, 10, [10, 200]),
    ] {
        for upper in [5, 20, 60, 100] {
            let mut draw = |part: usize| {
                let mut run: Vec<(u64, Option<u64>)> = Vec::new();
                for key in 0..keys {
                    if chance.below(100) < part {
                        let value = sizes[chance.below(2)];
                        run.push((key, (part == 100 || chance.below(100) >= deletes).then_some(value)));
                    }
                }
                run
            };
            let runs = vec![draw(upper / 4 + 1), draw(upper), draw(100)];
            let (version, exact) = tree(&runs, per_table);
            let estimate = space_amplification(&version);
            let off = (estimate - exact).abs() / (1.0 + exact);
            worst = worst.max(off);
            assert!(off <= 0.1, "{keys} keys, {upper} % above: {estimate:.3}, a scan says {exact:.3}");
            assert!(
                (estimate - exact).abs() <= 0.1 * exact.max(0.3),
                "{keys} keys, {upper} % above: {estimate:.3}, a scan says {exact:.3}"
            );
        }
    }
    println!("space amplification: at worst {:.1} % off", worst * 100.0);
}

#[test]
fn a_tree_without_samples_or_without_data_is_no_news() {
    assert_eq!(space_amplification(&parse("L0 L 2[a-c]\nL1 L 1[a-c]").unwrap()), 0.0);
    assert_eq!(space_amplification(&parse("L0 L").unwrap()), 0.0);
    let (deletes, _) = tree(&[vec![(1, None), (2, None)], vec![]], 10);
    assert_eq!(space_amplification(&deletes), 0.0, "there is not a byte of values");
}

#[test]
fn duplicates_of_a_level_are_counted_by_entries() {
    let run: Vec<(u64, Option<u64>)> = (0..2_000).map(|key| (key, Some(10))).collect();
    let half: Vec<(u64, Option<u64>)> = (1_000..3_000).map(|key| (key, Some(10))).collect();
    let mut version = parse("L0 T #1: () | #2: ()").unwrap();
    let group = Arc::make_mut(&mut version.levels[0].groups[0]);
    let mut next = 0;
    for (found, entries) in group.runs.iter_mut().zip([&run, &half]) {
        Arc::make_mut(found).tables = run_of(entries, 200, &mut next);
    }
    let part = duplicate_part(&version.levels[0]);
    assert!((part - 0.25).abs() < 0.025, "{part}");
}
