//! The block cache against what it was given: never a wrong block, never too many bytes.

use super::*;

/// A block of 1000 bytes takes so many.
const SLOT_BYTES: u64 = 1024;

fn block(cache: &BlockCache, table: u64, offset: u64, bytes: usize) -> Block {
    let mut content = vec![0; bytes.max(16)];
    content[..8].copy_from_slice(&table.to_le_bytes());
    content[8..16].copy_from_slice(&offset.to_le_bytes());
    cache.block(&content)
}

fn is_right(found: &[u8], table: u64, offset: u64) -> bool {
    found[..8] == table.to_le_bytes() && found[8..16] == offset.to_le_bytes()
}

#[test]
fn a_bucket_is_two_lines() {
    assert_eq!(std::mem::size_of::<Bucket>(), 128);
}

#[test]
fn blocks_are_found_until_there_is_no_room() {
    let cache = BlockCache::new(1 << 20, 1000);
    for i in 0..500 {
        cache.insert(TableId(i % 7), i * 4096, &block(&cache, i % 7, i * 4096, 1000));
    }
    let found = (0..500).filter(|&i| {
        cache.get(TableId(i % 7), i * 4096).is_some_and(|b| {
            assert!(is_right(&b, i % 7, i * 4096));
            true
        })
    });
    let found = found.count() as u64;
    assert!(found > 450, "{found}");
    assert_eq!((cache.hits(), cache.misses()), (found, 500 - found));
    assert_eq!(cache.used(), found * (SLOT_BYTES + BLOCK_OVERHEAD_BYTES));
    assert!(cache.get(TableId(3), 1).is_none());
}

#[test]
fn capacity_is_kept_and_what_is_used_stays() {
    let cache = BlockCache::new(200_000, 1000);
    let hot: Vec<u64> = (0..20).collect();
    for &i in &hot {
        cache.insert(TableId(1), i, &block(&cache, 1, i, 1000));
    }
    for i in 0..5000 {
        cache.insert(TableId(2), i, &block(&cache, 2, i, 500 + (i % 1000) as usize));
        assert!(cache.used() <= 200_000);
        for &h in &hot {
            if cache.get(TableId(1), h).is_none() {
                cache.insert(TableId(1), h, &block(&cache, 1, h, 1000));
            }
        }
    }
    let kept = hot.iter().filter(|&&h| cache.get(TableId(1), h).is_some()).count();
    assert!(kept >= 18, "only {kept} of 20 hot blocks were kept");
    assert!(cache.used() > 150_000);
}

#[test]
fn capacity_changes_while_it_runs() {
    let cache = BlockCache::new(0, 1000);
    cache.insert(TableId(1), 1, &block(&cache, 1, 1, 1000));
    assert!(cache.get(TableId(1), 1).is_none());
    assert_eq!(cache.used(), 0);
    for capacity in [50_000, 4_000_000, 100_000, 20_000_000, 0, 300_000] {
        cache.set_capacity(capacity);
        assert!(cache.used() <= capacity);
        for i in 0..3000 {
            cache.insert(TableId(1), i, &block(&cache, 1, i, 1000));
        }
        assert!(cache.used() <= capacity);
        let found =
            (0..3000).filter(|&i| cache.get(TableId(1), i).is_some_and(|b| is_right(&b, 1, i))).count();
        let room = (capacity / (SLOT_BYTES + BLOCK_OVERHEAD_BYTES)).min(3000) as usize;
        assert!(found <= room && found * 10 >= room * 7, "{found} of {room} at {capacity}");
    }
    cache.set_capacity(0);
    assert_eq!(cache.used(), 0);
}

#[test]
fn charges_push_blocks_out() {
    let cache = BlockCache::new(100_000, 1000);
    for i in 0..200 {
        cache.insert(TableId(1), i, &block(&cache, 1, i, 1000));
    }
    cache.charge(60_000);
    cache.shrink_residents();
    assert!(cache.used() <= 100_000);
    assert!((0..200).filter(|&i| cache.get(TableId(1), i).is_some()).count() <= 36);
    cache.discharge(60_000);
    assert!(cache.used() <= 40_000);
}

#[test]
fn keys_that_do_not_fit_are_not_confused_but_not_kept() {
    let cache = BlockCache::new(1 << 20, 1000);
    let odd = [(1 << 27, 0), (u64::MAX, 0), (0, 1 << 36), (1, u64::MAX), ((1 << 27) - 1, 5)];
    for (table, offset) in odd {
        cache.insert(TableId(table), offset, &block(&cache, table, offset, 100));
        assert!(cache.get(TableId(table), offset).is_none());
    }
    for (table, offset) in [(0, 0), ((1 << 27) - 2, (1 << 36) - 1), (0, 1), (1, 0)] {
        cache.insert(TableId(table), offset, &block(&cache, table, offset, 100));
        assert!(is_right(&cache.get(TableId(table), offset).unwrap(), table, offset));
    }
}

/// Four threads look, and keep what is not there, of so many blocks of a thousand bytes, and each changes the capacity now and then.
fn look_beside_changes(capacity: impl Fn(u64) -> u64 + Sync, offsets: u64) {
    let cache = BlockCache::new(capacity(0), 1000);
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let (cache, capacity) = (&cache, &capacity);
            scope.spawn(move || {
                for i in 0..20_000u64 {
                    let (table, offset) = (i.wrapping_mul(t + 3) % 5, i.wrapping_mul(7 + t) % offsets);
                    match cache.get(TableId(table), offset) {
                        Some(found) => assert!(is_right(&found, table, offset)),
                        None => {
                            cache.insert(TableId(table), offset, &block(cache, table, offset, 1000));
                        }
                    }
                    if i % 5000 == 0 {
                        cache.set_capacity(capacity(i));
                    }
                }
            });
        }
    });
    assert!(cache.used() <= cache.capacity());
    cache.set_capacity(0);
    assert_eq!(cache.used(), 0);
}

#[test]
fn threads_never_see_a_wrong_block() {
    look_beside_changes(|i| 40_000 + i * 20, 97);
}

/// Of a cut from 16 MiB to 4 memory is given back: blocks move from the chunks that leave, and others want them meanwhile.
#[test]
fn threads_never_see_a_wrong_block_while_memory_is_given_back() {
    look_beside_changes(|i| if i % 10_000 == 0 { 16 << 20 } else { 4 << 20 }, 4999);
}

#[test]
fn a_full_cache_fills_the_memory_that_it_evicted() {
    let cache = BlockCache::new(100_000, 1000);
    for i in 0..2000 {
        cache.insert(TableId(1), i, &block(&cache, 1, i, 900 + (i % 90) as usize));
        // The new block is there before an old one goes.
        assert!(cache.block_bytes() <= 100_000 + SLOT_BYTES, "{}", cache.block_bytes());
    }
    assert!(cache.used() > 90_000);
}

#[test]
fn blocks_that_readers_hold_stay_and_are_counted() {
    let cache = BlockCache::new(20_000, 1000);
    let mut held = Vec::new();
    for i in 0..500 {
        let block = block(&cache, 1, i, 1000);
        cache.insert(TableId(1), i, &block);
        if i % 7 == 0 {
            held.push((i, block));
        }
    }
    assert!(held.iter().all(|(i, block)| is_right(block, 1, *i)));
    assert!(cache.used() <= 20_000 && cache.block_bytes() >= held.len() as u64 * SLOT_BYTES);
}

#[test]
fn a_cache_that_is_cut_gives_memory_back_and_keeps_what_is_touched() {
    let cache = BlockCache::new(16 << 20, 1000);
    for i in 0..10_000 {
        cache.insert(TableId(1), i, &block(&cache, 1, i, 1000));
    }
    (0..10_000).step_by(10).for_each(|i| drop(cache.get(TableId(1), i)));
    cache.set_capacity(4 << 20);
    assert!(cache.used() <= 4 << 20);
    assert!(cache.block_bytes() <= (4 << 20) + 2 * LITTLE_BYTES, "{}", cache.block_bytes());
    let kept =
        (0..10_000).step_by(10).filter(|&i| cache.get(TableId(1), i).is_some_and(|b| is_right(&b, 1, i)));
    assert!(kept.count() > 900);
}

#[test]
fn blocks_of_another_size_take_the_memory_of_those_before() {
    let cache = BlockCache::new(8 << 20, 4000);
    for (table, bytes) in [(1, 4000), (2, 9000), (3, 700)] {
        for i in 0..20_000 {
            cache.insert(TableId(table), i, &block(&cache, table, i, bytes));
        }
        assert!(cache.block_bytes() <= (8 << 20) + 2 * LITTLE_BYTES, "{}", cache.block_bytes());
    }
}
