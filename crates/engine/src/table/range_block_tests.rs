//! The block of range tombstones: what goes in comes out, and damage is told from it.

use super::*;
use crate::base::class::IoClass;
use crate::base::error::Error;
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::random::Random;
use crate::base::range_tombstones::RangeTombstones;
use crate::table::block_cache::BlockCache;
use crate::table::compression::Compression;
use crate::table::reader::TableReader;
use crate::table::table_iterator::{TableIterator, TableReadOptions};
use crate::table::test_files::{MemRead, Row, TestTable, put};
use crate::table::verify::verify_table;

/// Fragments as `7,3:a-m`, newest sequence first.
fn fragments(drawn: &str) -> Vec<(Vec<u8>, Vec<u8>, Vec<SeqNo>)> {
    let one = |word: &str| {
        let (seqs, range) = word.split_once(':').unwrap();
        let (lo, hi) = range.split_once('-').unwrap();
        let seqs = seqs.split(',').map(|s| SeqNo(s.parse().unwrap())).collect();
        (lo.as_bytes().to_vec(), hi.as_bytes().to_vec(), seqs)
    };
    drawn.split_whitespace().map(one).collect()
}

fn drawn(tombstones: &[RangeTombstone]) -> String {
    let one = |t: &RangeTombstone| {
        format!("{}:{}-{}", t.seq, String::from_utf8_lossy(&t.lo), String::from_utf8_lossy(&t.hi))
    };
    tombstones.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn table(rows: &[Row], ranges: &str, compression: Compression) -> TestTable {
    TestTable::write_with_ranges(rows, &fragments(ranges), |options| options.compression = compression)
}

#[test]
fn fragments_that_touch_and_say_the_same_are_one() {
    for (given, want) in [
        ("7:a-c", "7:a-c"),
        ("7:a-c 7:c-f", "7:a-f"),
        ("7:a-c 7:d-f", "7:a-c 7:d-f"),
        ("7:a-c 8:c-f", "7:a-c 8:c-f"),
        ("9,7:a-c 9,7:c-d 9:d-f", "9:a-d 7:a-d 9:d-f"),
    ] {
        let table = table(&[], given, Compression::None);
        let mut builder = RangeBlockBuilder::default();
        for (lo, hi, seqs) in fragments(given) {
            builder.add(&lo, &hi, &seqs);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        assert_eq!(drawn(&decode(&payload, &table.meta).unwrap()), want);
        verify_table(table.file(), &table.meta, IoClass::Client).unwrap();
    }
}

/// A table's facts: entries and bounds.
#[test]
fn bounds_hold_the_range_tombstones() {
    let rows = |keys: &str| -> Vec<Row> { keys.bytes().map(|k| (vec![k], put(5), b"v".to_vec())).collect() };
    for (keys, drawn_ranges, bounds, tombstones) in [
        ("gk", "7:a-c", "[a, k\0)", 1),
        ("gk", "7:a-k", "[a, k\0)", 1),
        ("gk", "7:h-z", "[g, z)", 1),
        ("gk", "9,7:a-b 8:c-z", "[a, z)", 3),
        ("gk", "7:g-k\0", "[g, k\0)", 1),
        ("", "7:c-d 7:g-m", "[c, m)", 2),
    ] {
        for compression in [Compression::None, Compression::Lz4] {
            let table = table(&rows(keys), drawn_ranges, compression);
            let meta = &table.meta;
            assert_eq!(format!("{:?}", meta.bounds()), bounds, "{keys} {drawn_ranges}");
            assert_eq!((meta.range_tombstones, meta.entries), (tombstones, keys.len() as u64));
            assert_eq!(meta.oldest_tombstone_ms, Some(1000), "a range tombstone has an age");
            assert!(meta.seqs.1 >= SeqNo(7), "sequences of range tombstones count");
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            let again = TableMeta::decode(&mut Decoder::new(&bytes)).unwrap();
            assert_eq!((again.end, again.range_tombstones), (meta.end.clone(), meta.range_tombstones));
            verify_table(table.file(), meta, IoClass::Client).unwrap();
            let reader = table.open(1 << 20);
            let ranges = reader.ranges().unwrap();
            for (lo, hi, seqs) in fragments(drawn_ranges) {
                assert_eq!(ranges.newest(&lo, SeqNo::MAX), seqs.first().copied());
                assert_eq!(ranges.newest(&hi, seqs[0]).filter(|s| *s == seqs[0]), None);
            }
            let mut entries = TableIterator::new(reader, TableReadOptions::client());
            entries.seek_to_first().unwrap();
            assert_eq!(entries.valid(), !keys.is_empty());
            entries.seek_to_last().unwrap();
            assert_eq!(entries.valid(), !keys.is_empty());
            entries.seek(b"h", Trailer(u64::MAX)).unwrap();
            assert_eq!(entries.key(), if keys.is_empty() { b"" } else { &b"k"[..] });
            entries.seek_before(b"h").unwrap();
            assert_eq!(entries.key(), if keys.is_empty() { b"" } else { &b"g"[..] });
        }
    }
}

#[test]
fn a_table_without_any_has_no_block_and_answers_nothing() {
    let table = TestTable::write(&[(b"k".to_vec(), put(5), Vec::new())], |_| {});
    let reader = table.open(1 << 20);
    assert!(reader.ranges().is_none() && reader.footer().ranges().bytes == 0);
}

#[test]
fn a_writer_refuses_what_is_out_of_order() {
    for given in ["7:c-a", "7:c-c", "3,7:a-b", "7,7:a-b", "7:d-f 7:c-d", "7:d-f 7:e-g"] {
        let wrong = std::panic::catch_unwind(|| table(&[], given, Compression::None));
        assert!(wrong.is_err(), "{given}");
    }
}

/// Any byte of the block changed, any cut: an error, never another answer.
#[test]
fn damage_is_corruption() {
    let rows: Vec<Row> = vec![(b"g".to_vec(), put(5), b"v".to_vec())];
    let table = table(&rows, "900,7:a-c 8:c-d 1000:f-zz", Compression::None);
    let handle = table.open(0).footer().ranges();
    for at in handle.offset..handle.end() {
        let mut bytes = table.bytes.clone();
        bytes[at as usize] ^= 0x21;
        let file = std::sync::Arc::new(MemRead { bytes, fail: false.into() });
        let cache = std::sync::Arc::new(BlockCache::new(0, 4096));
        let opened = TableReader::open(file, &table.meta, cache, IoClass::Client);
        assert!(matches!(opened, Err(Error::Corruption { .. })), "byte {at}");
    }
}

/// What the checksum does not know: payloads that are whole and hostile.
#[test]
fn no_payload_is_trusted() {
    let table = table(&[], "900,7:a-c 8:c-d 1000:f-zz", Compression::None);
    let mut builder = RangeBlockBuilder::default();
    for (lo, hi, seqs) in fragments("900,7:a-c 8:c-d 1000:f-zz") {
        builder.add(&lo, &hi, &seqs);
    }
    let mut whole = Vec::new();
    builder.finish(&mut whole);
    let decoded = decode(&whole, &table.meta).unwrap();
    for len in 0..whole.len() {
        assert!(decode(&whole[..len], &table.meta).is_err(), "cut to {len}");
    }
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        // Whatever it says is in order and within the bounds, or it is refused.
        if let Ok(found) = decode(&bytes, &table.meta) {
            assert_eq!(found.len(), decoded.len());
            assert!(found.iter().all(|t| t.lo < t.hi && table.meta.bounds().contains(&t.lo)));
            assert!(
                found.windows(2).all(|w| w[0].hi <= w[1].lo || (w[0].lo == w[1].lo && w[0].seq > w[1].seq))
            );
            RangeTombstones::new(&found);
        }
    }
}
