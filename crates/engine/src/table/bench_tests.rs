//! What the hot paths cost, to compare with the budgets: block ≤ 0.5 µs cold, index ≤ 0.25, cache hit ≤ 0.3.
//! `cargo test --release -p evenkeel --lib table::bench -- --ignored --nocapture`

use std::hint::black_box;
use std::sync::Arc;

use super::block::{Content, Layout};
use super::block_cache::BlockCache;
use super::filter::hash_key;
use super::meta::{Born, TableMeta};
use super::reader::{ReadStats, TableReader};
use super::table_iterator::{TableIterator, TableReadOptions};
use super::test_files::{MemRead, Random, Row, TestTable, put, rows};
use super::writer::{TableWriter, TableWriterOptions};
use crate::base::class::{Class, IoClass};
use crate::base::clock::{Clock, SystemClock};
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::units::TableId;

const MAX: Trailer = Trailer(u64::MAX);
const CLIENT: IoClass = IoClass::Client;

/// Prints the best of three runs, per item.
fn time(name: &str, items: u64, mut run: impl FnMut()) {
    let clock = SystemClock::default();
    let best = (0..3)
        .map(|_| {
            let start = clock.now();
            run();
            (clock.now() - start).as_nanos() as f64 / items as f64
        })
        .fold(f64::MAX, f64::min);
    println!("{name:<52} {best:8.1} ns");
}

fn random_rows(seed: u64, n: usize, key: impl FnMut(&mut Random) -> Vec<u8>) -> Vec<Row> {
    rows(&mut Random(seed), n, 1, 0, key).into_iter().map(|(k, _, _)| (k, put(1), vec![7; 100])).collect()
}

fn block_of(rows: &[Row]) -> Vec<u8> {
    let mut builder = super::block_builder::BlockBuilder::default();
    for (key, trailer, value) in rows {
        builder.add(key, *trailer, value);
    }
    let mut out = Vec::new();
    builder.finish(&mut out);
    out
}

#[test]
#[ignore = "a measurement"]
fn bench_block() {
    let rows = random_rows(1, 32, |r| r.bytes(16));
    let block = block_of(&rows);
    let n = 3_000_000u64;
    time("block, 32 entries, hot, dependent", n, || {
        let mut at = 0usize;
        for i in 0..n as usize {
            let layout = Layout::parse(&block).unwrap();
            at = layout.lower_bound(&block, &rows[(i * 7 + at) % rows.len()].0, MAX);
        }
        black_box(at);
    });
    time("block check (on load)", 100_000, || {
        for _ in 0..100_000 {
            black_box(Layout::check(black_box(&block), Content::Data)).ok();
        }
    });
    let copies: Vec<Arc<[u8]>> = (0..60_000).map(|_| Arc::from(&block[..])).collect();
    let n = 500_000u64;
    time("block, 32 entries, cold, dependent", n, || {
        let (mut random, mut at) = (Random(2), 0usize);
        for _ in 0..n {
            let block = &copies[(random.next() as usize + at) % copies.len()];
            let layout = Layout::parse(block).unwrap();
            let wanted = (random.next() as usize + at) % rows.len();
            at = layout.lower_bound(block, &rows[wanted].0, MAX);
            let entry = layout.entry(block, at).unwrap();
            at += block[entry.value.start] as usize;
        }
        black_box(at);
    });
}

#[test]
#[ignore = "a measurement"]
fn bench_index_and_get() {
    // The keys lie side by side, so that finding one to look for costs little.
    let rows = random_rows(3, 320_000, |r| r.bytes(16));
    let keys: Vec<[u8; 16]> = rows.iter().map(|row| row.0[..].try_into().unwrap()).collect();
    let table = TestTable::write(&rows, |_| {});
    println!("{} bytes, {:.2} an entry", table.bytes.len(), table.bytes.len() as f64 / keys.len() as f64);
    let cache = Arc::new(BlockCache::new(64 << 20, 4096));
    let tables: Vec<Arc<TableReader>> = (0..35)
        .map(|_| TableReader::open(table.file(), &table.meta, Arc::clone(&cache), CLIENT).unwrap())
        .collect();
    let find = |table: &TableReader, key: &[u8]| {
        let partition = table.partition_for(key).unwrap();
        let guard = table.index(partition, CLIENT).unwrap();
        let index = guard.as_ref().unwrap();
        index.handle(index.position(key)).unwrap().offset
    };
    let n = 500_000u64;
    for (name, tables) in
        [("index of 10 k blocks, hot table", &tables[..1]), ("index, 35 tables, cold", &tables[..])]
    {
        time(name, n, || {
            let (mut random, mut at) = (Random(4), 0u64);
            for _ in 0..n {
                let table = &tables[(random.next().wrapping_add(at) % tables.len() as u64) as usize];
                // No random key is above the last separator, but for very few.
                let key = (random.next().wrapping_add(at) >> 1).to_be_bytes();
                at = find(table, &key);
            }
            black_box(at);
        });
    }
    time("one miss in each of 4 tables, probed first (per get)", n / 4, || {
        let (mut random, mut hits) = (Random(5), 0u64);
        for _ in 0..n / 4 {
            let key = random.next().to_be_bytes();
            let hash = hash_key(&key);
            let at = random.below(31) as usize;
            let probes = [0, 1, 2, 3].map(|i| (&tables[at + i], tables[at + i].probe(&key, hash)));
            hits += probes.iter().filter(|(table, p)| table.may_contain(p, CLIENT).unwrap()).count() as u64;
        }
        black_box(hits);
    });
    let mut stats = ReadStats::default();
    let reader = table.open(256 << 20);
    time("get, one table, all blocks in the cache", n, || {
        let mut random = Random(6);
        for _ in 0..n {
            let key = &keys[random.below(keys.len() as u64) as usize];
            let found = reader.get(key, hash_key(key), MAX, CLIENT, &mut stats).unwrap();
            assert_eq!(found.unwrap().1[0], 7);
        }
    });
    println!("{stats:?}");
}

#[test]
#[ignore = "a measurement"]
fn bench_cache() {
    let cache = BlockCache::new(300 << 20, 4096);
    let blocks = 60_000u64;
    for i in 0..blocks {
        cache.insert(TableId(1 + i % 30), i * 4096, &cache.block(&[1u8; 4096]));
    }
    let n = 500_000u64;
    time("cache hit and the block's first line, dependent", n, || {
        let (mut random, mut at) = (Random(7), 0u64);
        for _ in 0..n {
            let i = random.next().wrapping_add(at) % blocks;
            at = cache.get(TableId(1 + i % 30), i * 4096).map_or(0, |block| u64::from(block[8]));
        }
        black_box(at);
    });
    println!("{} hits, {} misses", cache.hits(), cache.misses());
}

#[test]
#[ignore = "a measurement"]
fn bench_write_and_scan() {
    let rows = random_rows(8, 300_000, |r| r.bytes(16));
    let keys: Vec<[u8; 16]> = rows.iter().map(|row| row.0[..].try_into().unwrap()).collect();
    let n = keys.len() as u64;
    let value = [7; 100];
    let mut done: Option<(Vec<u8>, TableMeta)> = None;
    time("write an entry", n, || {
        // The same memory each time, so that the first touch of its pages is not counted.
        let mut kept = done.take().map_or_else(Vec::new, |(bytes, _)| bytes);
        kept.clear();
        let bytes = Arc::new(std::sync::Mutex::new(kept));
        let file = super::test_files::MemFile { bytes: Arc::clone(&bytes), limit: usize::MAX };
        let options = TableWriterOptions::new(TableId(9), 5, Born::Flush, 0);
        let mut writer = TableWriter::new(Box::new(file), options);
        for key in &keys {
            writer.add(key, put(1), &value).unwrap();
        }
        let meta = writer.finish().unwrap();
        done = Some((std::mem::take(&mut *bytes.lock().unwrap()), meta));
    });
    let (bytes, meta) = done.unwrap();
    let file = Arc::new(MemRead { bytes, fail: false.into() });
    let table = TableReader::open(file, &meta, Arc::new(BlockCache::new(100 << 20, 4096)), CLIENT).unwrap();
    let merge = TableReadOptions::merge(IoClass::Background(Class::Deep));
    for (name, options) in [("merge", merge), ("client, cached", TableReadOptions::client())] {
        let mut cursor = TableIterator::new(Arc::clone(&table), options);
        for direction in ["forward", "backward"] {
            time(&format!("scan an entry, {name}, {direction}"), n, || {
                let mut sum = 0usize;
                let forward = direction == "forward";
                if forward { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
                while cursor.valid() {
                    sum += cursor.key().len() + cursor.value().len();
                    if forward { cursor.next() } else { cursor.prev() }.unwrap();
                }
                black_box(sum);
            });
        }
    }
}
