//! What a cursor asks of the file: blocks one by one, then pieces that grow; what it leaves in the cache; and prefixes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::block_cache::BlockCache;
use super::compression::Compression;
use super::filter::hash_prefix;
use super::meta::HowWritten;
use super::prefix_rule::PrefixRule;
use super::reader::TableReader;
use super::table_iterator::{TableIterator, TableReadOptions};
use super::test_files::{MemRead, TestTable, put};
use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::key_range::KeyRange;
use crate::storage::file_system::ReadFile;

const CLIENT: IoClass = IoClass::Client;
const ENTRIES: u32 = 20_000;

/// A file that writes down what is read of it.
#[derive(Debug)]
struct Recorded(Arc<MemRead>, Mutex<Vec<(u64, usize)>>);

impl Recorded {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.1.lock().unwrap()).into_iter().map(|(_, len)| len).collect()
    }
}

impl ReadFile for Recorded {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        self.1.lock().unwrap().push((offset, buf.len()));
        self.0.read_at(offset, buf, class)
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn table(compression: Compression) -> TestTable {
    let rows: Vec<_> = (0..ENTRIES).map(|i| (i.to_be_bytes().to_vec(), put(1), vec![7; 100])).collect();
    TestTable::write(&rows, |options| options.compression = compression)
}

fn open(table: &TestTable, cache_bytes: u64) -> (Arc<Recorded>, Arc<BlockCache>, Arc<TableReader>) {
    let file = Arc::new(Recorded(table.file(), Mutex::default()));
    let cache = Arc::new(BlockCache::new(cache_bytes, 4096));
    let reader = TableReader::open(file.clone(), &table.meta, Arc::clone(&cache), CLIENT).unwrap();
    // The indexes, so that only data blocks are read from here on.
    (0..reader.partition_count()).for_each(|i| drop(reader.index(i, CLIENT).unwrap()));
    file.take();
    (file, cache, reader)
}

fn ahead(max: usize, fill_cache: bool) -> TableReadOptions {
    TableReadOptions { readahead_max: max, fill_cache, ..TableReadOptions::client() }
}

fn walk(cursor: &mut TableIterator, forward: bool) {
    let mut wanted: Vec<u32> = (0..ENTRIES).collect();
    if forward {
        cursor.seek_to_first().unwrap();
    } else {
        cursor.seek_to_last().unwrap();
        wanted.reverse();
    }
    for i in wanted {
        assert_eq!(cursor.key(), i.to_be_bytes());
        assert_eq!(cursor.value(), [7; 100]);
        if forward { cursor.next() } else { cursor.prev() }.unwrap();
    }
    assert!(!cursor.valid());
}

#[test]
fn a_scan_that_goes_on_reads_pieces_that_grow() {
    for compression in [Compression::None, Compression::Lz4] {
        let table = table(compression);
        let (file, _, reader) = open(&table, 64 << 20);
        for forward in [true, false] {
            walk(&mut TableIterator::new(Arc::clone(&reader), ahead(0, false)), forward);
            let single = file.take();
            walk(&mut TableIterator::new(Arc::clone(&reader), ahead(64 << 10, false)), forward);
            let pieces = file.take();
            assert!(single.iter().all(|len| *len < 5000), "{single:?}");
            assert!(pieces[..3].iter().all(|len| *len < 5000), "{pieces:?}");
            let page = |len: usize| len..=len + 2 * 4096;
            assert!(page(16 << 10).contains(&pieces[3]), "{pieces:?}");
            assert!(page(32 << 10).contains(&pieces[4]), "{pieces:?}");
            if compression == Compression::None {
                assert!(
                    pieces[5..].iter().rev().skip(1).all(|len| page(64 << 10).contains(len)),
                    "{pieces:?}"
                );
                assert!(pieces.len() * 10 < single.len(), "{} and {}", pieces.len(), single.len());
            }
            let sum: usize = pieces.iter().sum();
            assert!(sum < table.bytes.len() * 5 / 4, "{sum} of {}", table.bytes.len());
        }
    }
}

#[test]
fn a_short_scan_reads_no_more_than_it_shows() {
    let table = table(Compression::None);
    let (file, _, reader) = open(&table, 64 << 20);
    let mut cursor = TableIterator::new(reader, ahead(256 << 10, true));
    for i in 0..50u32 {
        cursor.seek(&(i * 300).to_be_bytes(), Trailer(u64::MAX)).unwrap();
        for _ in 0..60 {
            cursor.next().unwrap();
        }
    }
    assert!(file.take().iter().all(|len| *len < 5000));
}

#[test]
fn only_a_scan_that_may_fill_the_cache_does() {
    let table = table(Compression::None);
    for max in [0, 256 << 10] {
        let (file, cache, reader) = open(&table, 64 << 20);
        let before = cache.kept_bytes();
        walk(&mut TableIterator::new(Arc::clone(&reader), ahead(max, false)), true);
        assert_eq!(cache.kept_bytes(), before);
        walk(&mut TableIterator::new(Arc::clone(&reader), ahead(max, true)), true);
        assert!(cache.kept_bytes() > before + table.bytes.len() as u64 * 9 / 10);
        file.take();
        // What the cache has is taken from there, whoever asks.
        for fill in [true, false] {
            walk(&mut TableIterator::new(Arc::clone(&reader), ahead(max, fill)), true);
            assert_eq!(file.take(), []);
        }
    }
}

#[test]
fn a_table_without_a_prefix_is_known_by_its_filter() {
    let rule = PrefixRule::Delimiter(b'/');
    // Even directories only, and partitions small enough for one directory to span several.
    let names = (0..300u32).flat_map(|dir| (0..20u32).map(move |i| format!("{:04}/{i:04}", dir * 2)));
    let rows: Vec<_> = names.map(|name| (name.into_bytes(), put(1), vec![1; 50])).collect();
    for filter_bits in [0.0, 10.0] {
        let table = TestTable::write(&rows, |options| {
            (options.prefix_rule, options.filter_bits) = (rule, filter_bits);
            (options.block_bytes, options.partition_bytes) = (256, 60);
        });
        let (_, _, reader) = open(&table, 64 << 20);
        assert!(reader.partition_count() > 300);
        let mut absent = 0;
        for dir in 0..598u32 {
            let prefix = format!("{dir:04}/").into_bytes();
            let range = KeyRange::new(&prefix, Some(format!("{dir:04}0").as_bytes()));
            assert_eq!(rule.prefix_of_all(&range), Some(&prefix[..]));
            let may = |rule| reader.may_have_prefix(&range, rule, hash_prefix(&prefix), CLIENT);
            assert!(may(PrefixRule::Fixed(5)) && may(PrefixRule::None), "not its rule");
            if dir % 2 == 0 {
                assert!(may(rule), "{dir}");
            } else {
                absent += u32::from(!may(rule));
            }
        }
        assert_eq!(absent > 250, filter_bits > 0.0, "{absent} of 299");
        let (facts, how) = reader.read_properties(CLIENT).unwrap();
        assert_eq!(facts.entries, rows.len() as u64);
        assert_eq!(how, HowWritten { compression: "none".into(), prefix_rule: "delimiter:/".into() });
    }
}
