//! Files in memory, and tables made of them, for this floor's tests.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::block_cache::BlockCache;
use super::compression::Compression;
use super::meta::{Born, TableMeta};
use super::prefix_rule::PrefixRule;
use super::reader::TableReader;
use super::writer::{TableWriter, TableWriterOptions};
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::key::{Kind, Trailer};
use crate::base::units::{SeqNo, TableId};
use crate::storage::file_system::{ReadFile, Syncer, WritableFile};

/// An entry of a table.
pub type Row = (Vec<u8>, Trailer, Vec<u8>);

/// A file that grows, and fails to beyond `limit`.
#[derive(Debug)]
pub struct MemFile {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    pub limit: usize,
}

impl WritableFile for MemFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut all = self.bytes.lock().unwrap();
        if all.len() + bytes.len() > self.limit {
            return Err(Error::NoSpace { context: "append".into() });
        }
        all.extend_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        #[derive(Debug)]
        struct Nothing;
        impl Syncer for Nothing {
            fn sync(&self) -> Result<()> {
                Ok(())
            }
        }
        Arc::new(Nothing)
    }
}

/// Bytes to read, which can be made to fail.
#[derive(Debug)]
pub struct MemRead {
    pub bytes: Vec<u8>,
    pub fail: std::sync::atomic::AtomicBool,
}

impl ReadFile for MemRead {
    fn read_at(&self, offset: u64, buf: &mut [u8], _class: IoClass) -> Result<()> {
        let from = offset as usize;
        if self.fail.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::io("read", std::io::Error::other("told to fail")));
        }
        match self.bytes.get(from..from + buf.len()) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::io("read", std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &Path {
        Path::new("000009.sst")
    }
}

/// A table's bytes and facts.
pub struct TestTable {
    pub bytes: Vec<u8>,
    pub meta: TableMeta,
}

impl TestTable {
    /// Writes the rows, which are in order.
    pub fn write(rows: &[Row], change: impl FnOnce(&mut TableWriterOptions)) -> TestTable {
        TestTable::write_with_ranges(rows, &[], change)
    }

    /// The same, and range tombstones: bounds, and sequences with the newest first.
    pub fn write_with_ranges(
        rows: &[Row],
        ranges: &[(Vec<u8>, Vec<u8>, Vec<SeqNo>)],
        change: impl FnOnce(&mut TableWriterOptions),
    ) -> TestTable {
        let mut options = TableWriterOptions::new(TableId(9), 0xfeed_beef, Born::Flush, 1000);
        change(&mut options);
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let file = MemFile { bytes: Arc::clone(&bytes), limit: usize::MAX };
        let mut writer = TableWriter::new(Box::new(file), options);
        for (key, trailer, value) in rows {
            writer.add(key, *trailer, value).unwrap();
        }
        for (lo, hi, seqs) in ranges {
            writer.add_range(lo, hi, seqs).unwrap();
        }
        let estimate = writer.estimated_bytes();
        let meta = writer.finish().unwrap();
        assert!(meta.bytes <= estimate + estimate / 8 + 1000, "{} of an estimated {estimate}", meta.bytes);
        let bytes = bytes.lock().unwrap().clone();
        assert_eq!(bytes.len() as u64, meta.bytes);
        TestTable { bytes, meta }
    }

    /// The file as it is.
    pub fn file(&self) -> Arc<MemRead> {
        Arc::new(MemRead { bytes: self.bytes.clone(), fail: false.into() })
    }

    /// An open reader with a cache of its own.
    pub fn open(&self, cache_bytes: u64) -> Arc<TableReader> {
        let cache = Arc::new(BlockCache::new(cache_bytes, 4096));
        TableReader::open(self.file(), &self.meta, cache, IoClass::Client).unwrap()
    }
}

/// A trailer.
pub fn put(seq: u64) -> Trailer {
    Trailer::new(SeqNo(seq), Kind::Put)
}

/// A tombstone's trailer.
pub fn delete(seq: u64) -> Trailer {
    Trailer::new(SeqNo(seq), Kind::Delete)
}

/// Numbers that look random, the same for the same seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// A shape of table for the model tests.
pub struct Shape {
    pub name: &'static str,
    pub rows: Vec<Row>,
    pub block_bytes: usize,
    pub partition_bytes: usize,
    pub filter_bits: f32,
    pub compression: Compression,
    pub prefix_rule: PrefixRule,
}

impl Shape {
    /// The shape's table.
    pub fn table(&self) -> TestTable {
        TestTable::write(&self.rows, |options| {
            options.block_bytes = self.block_bytes;
            options.partition_bytes = self.partition_bytes;
            options.filter_bits = self.filter_bits;
            options.compression = self.compression;
            options.prefix_rule = self.prefix_rule;
        })
    }
}

/// Rows of random keys made by `key`, with up to `versions` versions each, sorted as the tree sorts.
pub fn rows(
    random: &mut Random,
    keys: usize,
    versions: u64,
    value_max: u64,
    mut key: impl FnMut(&mut Random) -> Vec<u8>,
) -> Vec<Row> {
    let names: std::collections::BTreeSet<Vec<u8>> = (0..keys).map(|_| key(random)).collect();
    let mut rows = Vec::new();
    for name in names {
        let mut seqs: Vec<u64> = (0..1 + random.below(versions)).map(|_| 1 + random.below(10_000)).collect();
        seqs.sort_unstable();
        seqs.dedup();
        for seq in seqs.into_iter().rev() {
            if random.below(5) == 0 {
                rows.push((name.clone(), delete(seq), Vec::new()));
            } else {
                let len = random.below(value_max + 1) as usize;
                rows.push((name.clone(), put(seq), random.bytes(len)));
            }
        }
    }
    rows
}

/// One table of each kind that matters.
pub fn shapes(seed: u64) -> Vec<Shape> {
    let mut random = Random(seed);
    let r = &mut random;
    let shape = |name, rows, block_bytes, partition_bytes, filter_bits, compression| Shape {
        name,
        rows,
        block_bytes,
        partition_bytes,
        filter_bits,
        compression,
        prefix_rule: PrefixRule::None,
    };
    let (none, lz4) = (Compression::None, Compression::Lz4);
    let mut empty_first = rows(r, 50, 2, 30, |r| r.below(3000).to_string().into_bytes());
    empty_first.insert(0, (Vec::new(), put(7), b"empty".to_vec()));
    let one_key: Vec<Row> = (0..500).map(|i| (b"hot".to_vec(), put(1000 - i), vec![i as u8; 40])).collect();
    let zeros = rows(r, 300, 3, 20, |r| {
        let n = r.below(20) as usize;
        (0..n).map(|_| r.below(2) as u8).collect()
    });
    let mut around_hot = one_key.clone();
    around_hot.insert(0, (b"ho".to_vec(), put(1), Vec::new()));
    around_hot.push((b"hot\0".to_vec(), put(1), b"after".to_vec()));
    let heads = rows(r, 700, 3, 30, |r| format!("user:{:08}", r.below(5000)).into_bytes());
    let paths = rows(r, 500, 2, 30, |r| format!("{}/{}", r.below(60), r.below(900)).into_bytes());
    // Where zstd is not built in, blocks are stored as they are.
    let zstd = Compression::Zstd { level: 3 };
    let prefixed = [
        Shape {
            prefix_rule: PrefixRule::Fixed(8),
            ..shape("prefixes of a fixed length", heads, 512, 300, 10.0, zstd)
        },
        Shape {
            prefix_rule: PrefixRule::Delimiter(b'/'),
            ..shape("prefixes up to a slash", paths, 256, 300, 10.0, zstd)
        },
    ];
    let plain = vec![
        shape("random keys", rows(r, 800, 1, 100, |r| r.bytes(16)), 4096, 32 << 10, 10.0, none),
        shape("one entry", vec![(b"k".to_vec(), put(1), b"v".to_vec())], 4096, 32 << 10, 10.0, none),
        shape("the empty key first", empty_first, 256, 200, 10.0, lz4),
        shape(
            "shared heads",
            rows(r, 700, 4, 30, |r| format!("user:{:08}", r.below(5000)).into_bytes()),
            512,
            300,
            5.0,
            lz4,
        ),
        shape("one key over many blocks", one_key, 256, 100, 10.0, none),
        shape("one key between others", around_hot, 256, 100, 10.0, lz4),
        shape("short keys of zeros and ones", zeros, 128, 100, 12.0, none),
        shape("values larger than blocks", rows(r, 40, 2, 20_000, |r| r.bytes(3)), 1024, 150, 0.0, lz4),
        shape("even entries", rows(r, 900, 1, 0, |r| r.bytes(8)), 4096, 400, 10.0, none),
        shape(
            "long keys",
            rows(r, 60, 3, 10, |r| {
                let n = 1 + r.below(3000) as usize;
                vec![b'x'; n]
            }),
            2048,
            500,
            10.0,
            none,
        ),
    ];
    plain.into_iter().chain(prefixed).collect()
}
