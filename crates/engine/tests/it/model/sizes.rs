//! Options drawn by chance, all of them tiny: a few kilobytes make a tree of several levels.

use std::time::Duration;

use evenkeel::testing::Random;
use evenkeel::{Durability, Options};

pub const COMPRESSIONS: [&str; 4] =
    ["none", "auto", "lz4", if cfg!(feature = "zstd") { "none,lz4,zstd:1,zstd" } else { "none,lz4,none" }];

pub const PREFIXES: [&str; 5] = ["none", "fixed:1", "fixed:5", "delimiter:/", "delimiter::"];

/// Tiny sizes, drawn by chance.
pub fn options(seed: u64) -> Options {
    let mut random = Random::new(seed);
    let mut pick = |of: &[u64]| of[random.below(of.len() as u64) as usize];
    Options {
        durability: match pick(&[0, 0, 1, 2]) {
            0 => Durability::Os,
            1 => Durability::Sync,
            _ => Durability::Interval(Duration::from_millis(100)),
        },
        memtable_bytes: pick(&[2 << 10, 4 << 10, 6 << 10]),
        memtables: pick(&[2, 4, 16, 16]) as u32,
        table_bytes: pick(&[1 << 10, 2 << 10, 4 << 10]),
        block_bytes: pick(&[128, 256, 1024]),
        level_base_bytes: pick(&[4 << 10, 8 << 10, 16 << 10]),
        level_ratio: pick(&[2, 2, 3]) as u32,
        l0_trigger: pick(&[2, 4]) as u32,
        l0_limit: pick(&[8, 24, 24]) as u32,
        wal_bytes_max: pick(&[64 << 10, 128 << 10]),
        cache_bytes: pick(&[0, 4 << 10, 64 << 10]),
        memory_bytes: 1 << 20,
        workers: pick(&[1, 3, 8]) as u32,
        filter_bits: pick(&[0, 4, 10]) as f32,
        compression: COMPRESSIONS[pick(&[0, 1, 2, 3]) as usize].parse().unwrap(),
        // Another one each time the store is opened: filters of all of them live side by side.
        prefix_filter: PREFIXES[pick(&[0, 1, 2, 3, 4]) as usize].parse().unwrap(),
        direct_flush: pick(&[0, 1]) == 1,
        direct_compaction: pick(&[0, 1]) == 1,
        direct_reads: pick(&[0, 1]) == 1,
        readahead_bytes: pick(&[0, 300, 256 << 10]),
        reserve_bytes: 0,
        ..Options::default()
    }
}
