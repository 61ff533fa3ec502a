//! How many bytes things take that nobody writes: an entry in a memtable, an entry in a table, a table without entries.
//!
//! The constants follow from the formats (`docs/file_format.md`, `crates/arena`): they are the mean over random keys, and
//! `keel sim --validate` shows how far they are off.

use evenkeel::Options;
use evenkeel::tables::Compression;

/// Levels that differ in how their tables are compressed.
const LEVELS: usize = 8;
/// In a memtable: header, lengths, a slot of a leaf that is filled as random inserts leave it, and rounding to 8.
const MEMTABLE_ENTRY_BYTES: f64 = 31.5;
/// In a table: prefix, trailer, length; less the head that the keys of a block have in common.
const TABLE_ENTRY_BYTES: f64 = 8.0;
/// A block's head, its checksum, its line in the index, and what is left empty at its end.
const BLOCK_BYTES: f64 = 140.0;
/// A table's properties with the sample of its keys, its footer.
const TABLE_BYTES: f64 = 1400.0;

/// The bytes of things.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// A memtable is flushed at so many.
    pub memtable_bytes: f64,
    /// A table without entries.
    pub table_bytes: f64,
    /// Entries of a data block, in the mean.
    pub entries_per_block: f64,
    /// By level: bytes per byte of keys and values, and bytes per entry beside.
    per_byte: [f64; LEVELS],
    per_entry: [f64; LEVELS],
}

impl Sizes {
    /// For a store with these options whose records have so many bytes of key and value in the mean, which lz4 or zstd make
    /// `compressed` times as large.
    pub fn new(options: &Options, record_bytes: f64, compressed: f64) -> Sizes {
        let block = f64::from(u32::try_from(options.block_bytes).unwrap_or(u32::MAX));
        let filter = f64::from(options.filter_bits) / 8.0;
        let entry = record_bytes + TABLE_ENTRY_BYTES;
        // A block ends before the entry that would not fit.
        let entries_per_block = ((block - 40.0) / entry - 0.5).max(1.0);
        let (mut per_byte, mut per_entry) = ([1.0; LEVELS], [0.0; LEVELS]);
        for level in 0..LEVELS {
            let packed = options.compression.at(level, false) != Compression::None;
            per_byte[level] = if packed { compressed } else { 1.0 };
            per_entry[level] =
                TABLE_ENTRY_BYTES * if packed { 0.8 } else { 1.0 } + filter + BLOCK_BYTES / entries_per_block;
        }
        Sizes {
            memtable_bytes: options.memtable_bytes as f64,
            table_bytes: TABLE_BYTES,
            entries_per_block,
            per_byte,
            per_entry,
        }
    }

    /// An entry of a memtable, whose key and value have so many bytes.
    pub fn in_memtable(&self, user_bytes: u64) -> f64 {
        user_bytes as f64 + MEMTABLE_ENTRY_BYTES
    }

    /// Entries of a table of `level`, whose keys and values have `user_bytes` in all.
    pub fn in_table(&self, level: usize, entries: f64, user_bytes: f64) -> f64 {
        let level = level.min(LEVELS - 1);
        self.per_byte[level] * user_bytes + self.per_entry[level] * entries
    }
}
