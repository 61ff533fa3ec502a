//! Tables against the sorted rows they were made of: lookups, cursors with turns, damage, failing disks, memory.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use super::*;
use crate::base::error::Error;
use crate::base::key::compare;
use crate::base::units::TableId;
use crate::table::block_cache::BlockCache;
use crate::table::filter::hash_key;
use crate::table::meta::TableMeta;
use crate::table::test_files::{MemFile, MemRead, Random, Row, Shape, TestTable, delete, put, rows, shapes};
use crate::table::verify::verify_table;
use crate::table::writer::{TableWriter, TableWriterOptions};

const SEEDS: std::ops::Range<u64> = 0..3;
const CLIENT: IoClass = IoClass::Client;

fn get(table: &TableReader, key: &[u8], max: Trailer) -> Result<Option<(Trailer, Vec<u8>)>> {
    let mut stats = ReadStats::default();
    let found = table.get(key, hash_key(key), max, CLIENT, &mut stats)?;
    Ok(found.map(|(trailer, value)| (trailer, value.to_vec())))
}

/// The rows' own answer.
fn wanted(rows: &[Row], key: &[u8], max: Trailer) -> Option<(Trailer, Vec<u8>)> {
    let at = rows.partition_point(|(k, t, _)| compare(k, *t, key, max).is_lt());
    rows.get(at).filter(|(k, _, _)| k == key).map(|(_, t, v)| (*t, v.clone()))
}

/// Keys of the rows, and neighbours that may not be there.
fn some_key(random: &mut Random, rows: &[Row]) -> Vec<u8> {
    let mut key = rows[random.below(rows.len() as u64) as usize].0.clone();
    match random.below(6) {
        0 => key.push(0),
        1 => key.push(0xff),
        2 => drop(key.pop()),
        3 => {
            if let Some(last) = key.last_mut() {
                *last = last.wrapping_add(1);
            }
        }
        _ => {}
    }
    key
}

#[test]
fn lookups_agree_with_the_rows() {
    for seed in SEEDS {
        for shape in shapes(seed) {
            let table = shape.table();
            for cache_bytes in [0, 20_000, 10 << 20] {
                let reader = table.open(cache_bytes);
                let mut random = Random(seed);
                for (key, trailer, _) in &shape.rows {
                    let found = get(&reader, key, *trailer).unwrap();
                    assert_eq!(found, wanted(&shape.rows, key, *trailer), "{} seed {seed}", shape.name);
                }
                for _ in 0..500 {
                    let key = some_key(&mut random, &shape.rows);
                    let max = Trailer::seek(crate::base::units::SeqNo(random.below(12_000)));
                    let found = get(&reader, &key, max).unwrap();
                    assert_eq!(
                        found,
                        wanted(&shape.rows, &key, max),
                        "{} seed {seed} key {key:?}",
                        shape.name
                    );
                }
            }
        }
    }
}

fn stands_on(cursor: &TableIterator, row: Option<&Row>) -> bool {
    match row {
        None => !cursor.valid() && cursor.key().is_empty() && cursor.value().is_empty(),
        Some((key, trailer, value)) => {
            cursor.valid() && cursor.key() == key && cursor.trailer() == *trailer && cursor.value() == value
        }
    }
}

fn modes() -> [TableReadOptions; 6] {
    let merge = TableReadOptions::merge(IoClass::Background(crate::base::class::Class::Deep));
    [
        TableReadOptions::client(),
        TableReadOptions { fill_cache: false, ..TableReadOptions::client() },
        TableReadOptions { readahead_max: 5000, ..TableReadOptions::client() },
        TableReadOptions { readahead_max: 1 << 20, fill_cache: false, ..TableReadOptions::client() },
        merge,
        TableReadOptions { readahead_bytes: 700, ..merge },
    ]
}

#[test]
fn cursors_agree_with_the_rows_in_both_directions() {
    for seed in SEEDS {
        for shape in shapes(seed) {
            let table = shape.table();
            for options in modes() {
                let mut cursor = TableIterator::new(table.open(1 << 20), options);
                cursor.seek_to_first().unwrap();
                for row in &shape.rows {
                    assert!(stands_on(&cursor, Some(row)), "{} seed {seed}", shape.name);
                    if let Some(pinned) = cursor.pinned_value() {
                        assert_eq!(&*pinned, &row.2[..]);
                    }
                    cursor.next().unwrap();
                }
                assert!(stands_on(&cursor, None));
                cursor.seek_to_last().unwrap();
                for row in shape.rows.iter().rev() {
                    assert!(stands_on(&cursor, Some(row)), "{} seed {seed}", shape.name);
                    cursor.prev().unwrap();
                }
                assert!(stands_on(&cursor, None));
            }
        }
    }
}

#[test]
fn cursors_turn_anywhere() {
    for seed in SEEDS {
        for shape in shapes(seed) {
            let table = shape.table();
            for options in modes() {
                let mut cursor = TableIterator::new(table.open(1 << 20), options);
                let mut random = Random(seed);
                // The model: a position in the rows, or nowhere.
                let mut at: Option<usize> = None;
                for step in 0..600 {
                    let key = some_key(&mut random, &shape.rows);
                    let rows = &shape.rows;
                    match random.below(12) {
                        0 => {
                            let trailer = put(random.below(12_000));
                            cursor.seek(&key, trailer).unwrap();
                            at =
                                Some(rows.partition_point(|(k, t, _)| compare(k, *t, &key, trailer).is_lt()));
                        }
                        1 => {
                            cursor.seek_before(&key).unwrap();
                            at = rows.partition_point(|(k, _, _)| k < &key).checked_sub(1);
                        }
                        2..=6 if at.is_some() => {
                            cursor.next().unwrap();
                            at = at.map(|i| i + 1);
                        }
                        _ if at.is_some() => {
                            cursor.prev().unwrap();
                            at = at.and_then(|i| i.checked_sub(1));
                        }
                        _ => {}
                    }
                    at = at.filter(|i| *i < rows.len());
                    let row = at.and_then(|i| rows.get(i));
                    assert!(stands_on(&cursor, row), "{} seed {seed} step {step}: not at {at:?}", shape.name);
                }
            }
        }
    }
}

#[test]
fn every_table_passes_verification_and_its_facts_are_right() {
    for seed in SEEDS {
        for shape in shapes(seed) {
            let table = shape.table();
            verify_table(table.file(), &table.meta, CLIENT).unwrap_or_else(|e| panic!("{}: {e}", shape.name));
            let meta = &table.meta;
            let rows = &shape.rows;
            assert_eq!(meta.entries, rows.len() as u64);
            assert_eq!(meta.tombstones, rows.iter().filter(|r| r.1.is_delete()).count() as u64);
            let keys: std::collections::BTreeSet<_> = rows.iter().map(|r| &r.0).collect();
            assert_eq!(meta.keys, keys.len() as u64);
            assert_eq!(
                (&meta.smallest[..], &meta.largest[..]),
                (&rows[0].0[..], &rows[rows.len() - 1].0[..])
            );
            assert_eq!(meta.seqs.0, rows.iter().map(|r| r.1.seq()).min().unwrap());
            assert_eq!(meta.seqs.1, rows.iter().map(|r| r.1.seq()).max().unwrap());
        }
    }
}

#[test]
fn verification_finds_facts_that_are_wrong() {
    let table = shapes(1).remove(3).table();
    let changes: [fn(&mut TableMeta); 9] = [
        |m| m.entries += 1,
        |m| m.keys -= 1,
        |m| m.tombstones += 1,
        |m| m.dense_blocks += 1,
        |m| m.seqs.0.0 += 1,
        |m| m.smallest = b"a"[..].into(),
        |m| m.largest = b"z"[..].into(),
        |m| m.key_histogram.keys.truncate(3),
        |m| m.created_ms += 1,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut meta = table.meta.clone();
        change(&mut meta);
        let verdict = verify_table(table.file(), &meta, CLIENT);
        assert!(matches!(verdict, Err(Error::Corruption { .. })), "change {i}");
    }
}

/// Opens a table that may be damaged, and compares everything that can be read with the rows.
fn right_or_corrupt(bytes: Vec<u8>, meta: &TableMeta, rows: &[Row]) -> bool {
    let cache = Arc::new(BlockCache::new(1 << 20, 4096));
    let file = Arc::new(MemRead { bytes, fail: false.into() });
    let corrupt = |error: &Error| assert!(matches!(error, Error::Corruption { .. }), "{error}");
    let reader = match TableReader::open(file, meta, cache, CLIENT) {
        Ok(reader) => reader,
        Err(error) => {
            corrupt(&error);
            return true;
        }
    };
    let mut damaged = false;
    for (key, trailer, _) in rows.iter().step_by(3) {
        match get(&reader, key, *trailer) {
            Ok(found) => assert_eq!(found, wanted(rows, key, *trailer)),
            Err(error) => {
                corrupt(&error);
                damaged = true;
            }
        }
    }
    let mut cursor = TableIterator::new(reader, modes()[2]);
    let mut at = 0;
    let mut moved = cursor.seek_to_first();
    while moved.is_ok() && cursor.valid() {
        assert!(stands_on(&cursor, rows.get(at)));
        at += 1;
        moved = cursor.next();
    }
    match moved {
        Ok(()) => assert_eq!(at, rows.len(), "a scan was cut short"),
        Err(error) => {
            corrupt(&error);
            assert!(!cursor.valid());
            damaged = true;
        }
    }
    damaged
}

#[test]
fn no_flipped_byte_changes_an_answer() {
    for shape in [2, 3, 4, 7].map(|i| shapes(5).remove(i)) {
        let rows = &shape.rows[..shape.rows.len().min(120)];
        let table = Shape { rows: rows.to_vec(), ..shape }.table();
        let mut found = 0u64;
        let step = (table.bytes.len() / 1500).max(1);
        let sampled = (0..table.bytes.len()).step_by(step);
        for i in sampled.clone() {
            let mut bytes = table.bytes.clone();
            bytes[i] ^= 1 << (i % 8);
            let padding = !right_or_corrupt(bytes.clone(), &table.meta, rows);
            let file = Arc::new(MemRead { bytes, fail: false.into() });
            let verdict = verify_table(file, &table.meta, CLIENT);
            assert!(matches!(verdict, Err(Error::Corruption { .. })), "byte {i} of {}", table.bytes.len());
            found += u64::from(!padding);
        }
        assert!(found * 2 > sampled.count() as u64, "hardly any damage was noticed: {found}");
    }
}

#[test]
fn truncated_swapped_and_stale_files_are_noticed() {
    let shape = shapes(6).remove(3);
    let table = shape.table();
    for len in (0..table.bytes.len()).step_by(97) {
        assert!(right_or_corrupt(table.bytes[..len].to_vec(), &table.meta, &shape.rows));
    }
    // The same rows under another unique id: as long, as whole, and still the wrong file.
    let other = TestTable::write(&shape.rows, |options| {
        options.unique_id = 1;
        (options.block_bytes, options.partition_bytes) = (shape.block_bytes, shape.partition_bytes);
        (options.filter_bits, options.compression) = (shape.filter_bits, shape.compression);
    });
    assert_eq!(other.bytes.len(), table.bytes.len());
    assert!(right_or_corrupt(other.bytes.clone(), &table.meta, &shape.rows));
    // Data of the other file under this file's footer.
    let mut mixed = table.bytes.clone();
    let half = mixed.len() / 2;
    mixed[..half].copy_from_slice(&other.bytes[..half]);
    assert!(right_or_corrupt(mixed, &table.meta, &shape.rows));
}

#[test]
fn a_failing_disk_is_an_error_and_heals() {
    for options in modes() {
        let shape = shapes(7).remove(3);
        let table = shape.table();
        let file = table.file();
        let cache = Arc::new(BlockCache::new(0, 4096));
        let reader = TableReader::open(file.clone(), &table.meta, cache, CLIENT).unwrap();
        let mut cursor = TableIterator::new(Arc::clone(&reader), options);
        cursor.seek_to_first().unwrap();
        file.fail.store(true, Ordering::Relaxed);
        let mut moved = Ok(());
        for _ in 0..shape.rows.len() {
            moved = cursor.next();
            if moved.is_err() || !cursor.valid() {
                break;
            }
        }
        // A table read ahead in one piece needs the disk no more, but for its index.
        assert!(moved.is_err(), "a scan over a failing disk ended well");
        assert!(!cursor.valid());
        let (key, trailer, value) = &shape.rows[9];
        assert!(matches!(get(&reader, key, *trailer), Err(Error::Io { .. })));
        assert!(matches!(cursor.seek(key, *trailer), Err(Error::Io { .. })) && !cursor.valid());
        file.fail.store(false, Ordering::Relaxed);
        cursor.seek(key, *trailer).unwrap();
        assert!(stands_on(&cursor, Some(&shape.rows[9])));
        assert_eq!(get(&reader, key, *trailer).unwrap().unwrap().1, *value);
    }
}

/// A table of many small partitions, and a cache for it alone.
fn in_parts(rows: &[Row], partition_bytes: usize, capacity: u64) -> (Arc<BlockCache>, Arc<TableReader>) {
    let table = TestTable::write(rows, |options| {
        (options.block_bytes, options.partition_bytes) = (512, partition_bytes);
    });
    let cache = Arc::new(BlockCache::new(capacity, 512));
    let reader = TableReader::open(table.file(), &table.meta, Arc::clone(&cache), CLIENT).unwrap();
    (cache, reader)
}

/// What is used again and again stays though it takes more than half, and blocks have the rest.
#[test]
fn partitions_in_use_stay() {
    let mut random = Random(9);
    let rows = rows(&mut random, 5000, 1, 60, |r| r.bytes(40));
    let (cache, reader) = in_parts(&rows, 1024, 1 << 30);
    let mut some = |cache: &BlockCache, gets: usize| {
        for _ in 0..gets {
            let (key, trailer, _) = &rows[random.below(rows.len() as u64) as usize];
            drop(get(&reader, key, *trailer).unwrap());
        }
        cache.filter_misses() + cache.index_misses()
    };
    some(&cache, 10 * rows.len());
    let total = cache.residents().bytes();
    let pinned = cache.table_bytes() - total;
    cache.set_capacity((total + pinned) / 4 * 5);
    let before = some(&cache, 0);
    assert_eq!((some(&cache, 10 * rows.len()), cache.residents().bytes()), (before, total));
    assert!(cache.used() > total + pinned, "and some blocks");
    // They do not fit: most of the room is theirs, and a block's remains.
    cache.set_capacity(pinned + total / 2);
    some(&cache, rows.len());
    assert!((total / 4..total / 2).contains(&cache.residents().bytes()) && cache.used() <= cache.capacity());
}

#[test]
fn partitions_are_charged_and_dropped_when_cold() {
    let mut random = Random(8);
    let rows = rows(&mut random, 5000, 1, 60, |r| r.bytes(12));
    let capacity = 8 << 10;
    let (cache, reader) = in_parts(&rows, 1024, capacity);
    let total: u64 = (0..reader.partition_count())
        .filter_map(|i| reader.partition_handles(i))
        .map(|(filter, index)| u64::from(filter.bytes + index.bytes))
        .sum();
    assert!(total > 2 * capacity, "the test needs more partitions: {total}");
    for (key, trailer, value) in &rows {
        assert_eq!(get(&reader, key, *trailer).unwrap(), Some((*trailer, value.clone())));
        assert!(cache.residents().bytes() <= capacity / 8 * 7);
        assert!(cache.used() <= capacity);
    }
    // In order each part is used for a while and then no more.
    assert!((capacity / 4..capacity / 4 * 3).contains(&cache.residents().bytes()));
    let missed = || [cache.filter_misses(), cache.index_misses()];
    assert!(missed().iter().all(|count| *count >= reader.partition_count() as u64), "{:?}", missed());
    cache.set_capacity(10 * total);
    let before_last = [(); 2].map(|()| {
        let before = missed();
        rows.iter().for_each(|(key, trailer, _)| drop(get(&reader, key, *trailer).unwrap()));
        before
    });
    assert!(before_last[0] < before_last[1] && before_last[1] == missed(), "all is here now");
    assert_eq!(cache.residents().bytes(), total);
    drop(reader);
    assert_eq!(cache.residents().bytes(), 0);
}

#[test]
fn filters_spare_the_blocks() {
    let mut random = Random(9);
    let rows = rows(&mut random, 20_000, 1, 10, |r| r.bytes(10));
    let table = TestTable::write(&rows, |_| {});
    let reader = table.open(10 << 20);
    let mut stats = ReadStats::default();
    let n = 20_000;
    for _ in 0..n {
        let key = random.bytes(11);
        assert!(reader.get(&key, hash_key(&key), put(1 << 40), CLIENT, &mut stats).unwrap().is_none());
    }
    let rate = stats.filter_false_positives as f64 / f64::from(n);
    assert!(rate > 0.002 && rate < 0.013, "{rate}");
    assert!(stats.filter_negatives + stats.filter_false_positives >= n as u64 - 5);
    assert_eq!(stats.block_hits + stats.block_reads, stats.filter_false_positives);
}

#[test]
fn blocks_of_whole_pages_start_at_pages() {
    let mut random = Random(10);
    let even: Vec<Row> =
        (0..3000u64).map(|i| (format!("key{i:013}").into_bytes(), put(1), random.bytes(100))).collect();
    let table = TestTable::write(&even, |_| {});
    let reader = table.open(0);
    let mut aligned = 0;
    let mut blocks = 0;
    for partition in 0..reader.partition_count() {
        let index = reader.read_index_partition(partition, CLIENT).unwrap();
        for handle in (0..index.count()).filter_map(|at| index.handle(at)) {
            blocks += 1;
            aligned += i32::from(handle.offset % 4096 == 0 && handle.bytes <= 4096);
        }
    }
    assert!(aligned * 10 >= blocks * 9, "{aligned} of {blocks}");
}

#[test]
fn the_writer_refuses_what_would_break_a_table() {
    let new = |limit| {
        let file = MemFile { bytes: Arc::default(), limit };
        let options = TableWriterOptions::new(TableId(3), 4, crate::table::meta::Born::Merge, 50);
        TableWriter::new(Box::new(file), options)
    };
    let invalid = |result: Result<()>| assert!(matches!(result, Err(Error::InvalidArgument(_))));
    let mut writer = new(usize::MAX);
    assert!(matches!(writer.finish(), Err(Error::InvalidArgument(_))));
    writer.add(b"b", put(5), b"").unwrap();
    invalid(writer.add(b"b", put(5), b""));
    invalid(writer.add(b"c", put(5), b""));
    for (key, trailer) in
        [(b"a", put(9)), (b"b", put(6)), (b"c", Trailer(5 << 8)), (b"c", Trailer(5 << 8 | 8))]
    {
        let mut writer = new(usize::MAX);
        writer.add(b"b", put(5), b"").unwrap();
        invalid(writer.add(key, trailer, b""));
        assert!(writer.finish().is_err());
    }
    // Wherever the disk gets full, the table is refused from then on.
    for limit in (0..60_000).step_by(1777) {
        let mut writer = new(limit);
        let mut result = Ok(());
        for i in 0..3000u32 {
            result = writer.add(&i.to_be_bytes(), put(1), b"a value");
            if result.is_err() {
                break;
            }
        }
        let full = |error: &Error| matches!(error, Error::NoSpace { .. });
        match result {
            Err(error) => assert!(full(&error)),
            Ok(()) => assert!(full(&writer.finish().unwrap_err()), "limit {limit}"),
        }
        invalid(writer.add(b"\xff\xff\xff\xff\xff", put(1), b""));
        assert!(matches!(writer.finish(), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn tombstones_have_an_age() {
    let write = |note: &[u64], trailer| {
        let options = TableWriterOptions::new(TableId(3), 4, crate::table::meta::Born::Merge, 50);
        let mut writer =
            TableWriter::new(Box::new(MemFile { bytes: Arc::default(), limit: usize::MAX }), options);
        writer.add(b"k", trailer, b"").unwrap();
        for ms in note {
            writer.note_tombstone_age(*ms);
        }
        writer.finish().unwrap().oldest_tombstone_ms
    };
    assert_eq!(write(&[40, 30, 45], delete(1)), Some(30));
    assert_eq!(write(&[], delete(1)), Some(50));
    assert_eq!(write(&[30], put(1)), None);
}

#[test]
fn ranges_of_a_btree_map_and_of_a_cursor_are_the_same() {
    let mut random = Random(11);
    let rows = rows(&mut random, 2000, 1, 20, |r| format!("k{}", r.below(100_000)).into_bytes());
    let map: std::collections::BTreeMap<_, _> = rows.iter().map(|(k, _, v)| (k.clone(), v.clone())).collect();
    let table = TestTable::write(&rows, |options| options.partition_bytes = 500);
    let mut cursor = TableIterator::new(table.open(1 << 20), TableReadOptions::client());
    for _ in 0..200 {
        let from = some_key(&mut random, &rows);
        let range = map.range::<Vec<u8>, _>((Bound::Included(&from), Bound::Unbounded)).take(20);
        cursor.seek(&from, Trailer(u64::MAX)).unwrap();
        for (key, value) in range {
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            cursor.next().unwrap();
        }
    }
}

#[test]
fn readers_on_many_threads_agree_while_partitions_come_and_go() {
    let mut random = Random(12);
    let rows = rows(&mut random, 3000, 2, 40, |r| r.bytes(6));
    let (cache, reader) = in_parts(&rows, 700, 6 << 10);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (reader, cache, rows) = (&reader, &cache, &rows);
            scope.spawn(move || {
                let mut random = Random(seed);
                for i in 0..3000 {
                    let key = some_key(&mut random, rows);
                    assert_eq!(
                        get(reader, &key, put(9000)).unwrap(),
                        wanted(rows, &key, put(9000)),
                        "seed {seed}"
                    );
                    if i % 500 == 0 {
                        cache.set_capacity((random.below(20) + 1) << 10);
                    }
                }
            });
        }
    });
    cache.set_capacity(0);
    let open = cache.used();
    assert!(open > 0 && cache.kept_bytes() == 0, "only what an open table always keeps");
    drop(reader);
    assert_eq!(cache.used(), 0);
}

/// A block that unpacks to much more than its handle says would take memory that nobody counts.
#[test]
fn a_filter_or_an_index_that_is_compressed_is_refused() {
    use crate::table::block_builder::BlockBuilder;
    use crate::table::block_file::BlockFile;
    use crate::table::compression::{Compression, Compressor};
    use crate::table::format::{BlockHandle, seal_block};
    use crate::table::partition::read_index;
    let mut builder = BlockBuilder::default();
    for i in 0..100_u32 {
        let key = [&[b'k'; 100][..], &i.to_be_bytes()].concat();
        builder.add(&key, Trailer(u64::from(i)), &100_u32.to_le_bytes());
    }
    let mut plain = Vec::new();
    builder.finish(&mut plain);
    let mut compressor = Compressor::default();
    let packed = compressor.pack(&plain, Compression::Lz4).expect("it saves much").clone();
    for (mut block, kind, is_fine) in
        [(plain, Compression::None.kind(), true), (packed, Compression::Lz4.kind(), false)]
    {
        seal_block(&mut block, kind, 9, 0);
        let handle = BlockHandle { offset: 0, bytes: block.len() as u32 };
        let end = block.len() as u64;
        let blocks = BlockFile::new(Arc::new(MemRead { bytes: block, fail: false.into() }), 9, end);
        let read = read_index(&blocks, handle, CLIENT);
        assert_eq!(read.is_ok(), is_fine, "{read:?}");
        assert!(read.err().is_none_or(|e| e.to_string().contains("compressed")));
    }
}
