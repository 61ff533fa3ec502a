//! One table file by itself, for people and tools: no store, no lock, no manifest. What is damaged is said, and the rest is shown:
//! a bad block hides its own entries only.
//!
//! ```text
//! footer ─► properties (facts) · top index ─► partitions ─► filter, index ─► data blocks ─► entries
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::coding::Decoder;
use crate::base::error::{Error, Result};
use crate::base::key::Kind;
use crate::storage::file_system::{FileSystem, ReadFile};
use crate::table::block::{Content, Layout};
use crate::table::block_cache::BlockCache;
use crate::table::block_file::BlockFile;
use crate::table::compression;
use crate::table::format::{
    BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, FooterError, footer_checksum,
};
use crate::table::meta::TableMeta;
use crate::table::range_block;
use crate::table::reader::TableReader;
use crate::version::picture_parse::fabricated_meta;

/// What a table file is made of.
#[derive(Clone, Debug, Default)]
pub struct TableReport {
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// The table's facts as the file states them; `None` if they cannot be read.
    pub properties: Option<Arc<TableMeta>>,
    /// The table's number and its random id, of the footer; `None` if that cannot be read.
    pub ids: Option<(u64, u64)>,
    /// Parts that its index and filter have.
    pub partitions: u64,
    /// Data blocks found by the index.
    pub blocks: u64,
    /// Entries read from them, tombstones included.
    pub entries: u64,
    /// Bytes of data blocks in the file.
    pub data_bytes: u64,
    /// Bytes of the same blocks before compression.
    pub unpacked_bytes: u64,
    /// Bytes of the index, all parts of it.
    pub index_bytes: u64,
    /// Bytes of the filter, all parts of it; 0 if there is none.
    pub filter_bytes: u64,
    /// Bytes of the block of range tombstones; 0 without any.
    pub range_bytes: u64,
    /// Data blocks by their kind of compression.
    pub codecs: BTreeMap<String, u64>,
    /// What is damaged, in the order in which it was found.
    pub damage: Vec<Error>,
}

/// A part of a table, as it is come upon.
#[derive(Clone, Copy, Debug)]
pub enum TableItem<'a> {
    /// A data block, before its entries.
    Block {
        /// Where it begins.
        offset: u64,
        /// Its bytes in the file.
        bytes: u32,
        /// Its bytes before compression.
        unpacked: u64,
        /// Its kind of compression.
        codec: &'a str,
        /// Its entries.
        entries: u64,
        /// Its first key.
        first: &'a [u8],
    },
    /// An entry. Range deletes come before all others.
    Entry {
        /// The user key; of a range delete the first.
        key: &'a [u8],
        /// Its sequence number.
        seq: u64,
        /// Its kind: see [`kind_name`].
        kind: &'a str,
        /// The value; empty where the kind has none; of a range delete the first key that stays.
        value: &'a [u8],
    },
}

/// A kind of entry in a word.
pub fn kind_name(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Put) => "put",
        Some(Kind::Delete) => "delete",
        Some(Kind::RangeDelete) => "range-delete",
        Some(Kind::Merge) => "merge",
        Some(Kind::PutWithExpiry) => "put-with-expiry",
        Some(Kind::SingleDelete) => "single-delete",
        Some(Kind::BlobReference) => "blob-reference",
        None => "unknown",
    }
}

/// Reads the table file at `path` from end to end and tells `see` of its blocks and entries.
///
/// # Errors
/// `Io` if the file cannot be opened, `Unsupported` for a newer format, and what `see` returns. Damage is in the report.
pub fn table(
    fs: &dyn FileSystem,
    path: &Path,
    see: &mut dyn FnMut(TableItem<'_>) -> Result<()>,
) -> Result<TableReport> {
    let file = fs.open(path)?;
    let mut report = TableReport { file_bytes: file.len(), ..TableReport::default() };
    let footer = match read_footer(&file) {
        Ok(found) => found,
        Err(error @ Error::Corruption { .. }) => {
            report.damage.push(error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let (footer, checksum) = footer;
    report.ids = Some((footer.id.0, footer.unique_id));
    let blocks = BlockFile::new(Arc::clone(&file), footer.unique_id, file.len() - FOOTER_BYTES as u64);
    let facts = |meta: TableMeta| TableMeta { bytes: file.len(), checksum, ..meta };
    let meta = match read_properties(&blocks, &footer) {
        Ok(meta) => {
            report.properties = Some(Arc::new(facts(meta)));
            report.properties.clone()
        }
        Err(error) => {
            report.damage.push(error);
            None
        }
    };
    // Where the facts cannot be read, those that opening the file compares are known all the same.
    let meta = meta.unwrap_or_else(|| {
        let stand_in = fabricated_meta(footer.id.0, b"", b"");
        let entries = u64::from(footer.top.bytes > 0);
        let range_tombstones = u64::from(footer.ranges_bytes > 0);
        let unique_id = footer.unique_id;
        Arc::new(TableMeta { unique_id, entries, range_tombstones, ..facts(stand_in) })
    });
    report.index_bytes += u64::from(footer.top.bytes);
    report.range_bytes = u64::from(footer.ranges_bytes);
    if footer.ranges_bytes > 0 {
        let ranges =
            blocks.read(footer.ranges(), IoClass::Client, |payload| range_block::decode(payload, &meta));
        for range in ranges.iter().flatten() {
            let (key, seq, value) = (&range.lo[..], range.seq.0, &range.hi[..]);
            see(TableItem::Entry { key, seq, kind: kind_name(Some(Kind::RangeDelete)), value })?;
        }
    }
    match TableReader::open(Arc::clone(&file), &meta, Arc::new(BlockCache::new(0, 4096)), IoClass::Client) {
        Ok(reader) => Walk { reader: &reader, report: &mut report, see }.all()?,
        Err(error) => report.damage.push(error),
    }
    Ok(report)
}

/// A table's facts, as the file itself has them.
pub fn facts_of(file: &Arc<dyn ReadFile>) -> Result<TableMeta> {
    let (footer, checksum) = read_footer(file)?;
    let blocks = BlockFile::new(Arc::clone(file), footer.unique_id, file.len() - FOOTER_BYTES as u64);
    Ok(TableMeta { bytes: file.len(), checksum, ..read_properties(&blocks, &footer)? })
}

fn read_footer(file: &Arc<dyn ReadFile>) -> Result<(Footer, u64)> {
    let damaged = |offset, what: &str| Error::corruption(file.path(), offset, what);
    let Some(end) = file.len().checked_sub(FOOTER_BYTES as u64) else {
        return Err(damaged(0, "it is too short for a table"));
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_at(end, &mut bytes, IoClass::Client)?;
    match Footer::decode(&bytes) {
        Ok(footer) => Ok((footer, footer_checksum(&bytes))),
        Err(FooterError::Damaged(what)) => Err(damaged(end, what)),
        Err(FooterError::NewerVersion(version)) => {
            let path = file.path().display();
            Err(Error::Unsupported(format!("{path} has table format {version}, which is newer")))
        }
    }
}

fn read_properties(blocks: &BlockFile, footer: &Footer) -> Result<TableMeta> {
    blocks.read(footer.properties, IoClass::Client, |payload| {
        TableMeta::decode(&mut Decoder::new(payload)).ok_or("the properties make no sense")
    })
}

struct Walk<'a> {
    reader: &'a TableReader,
    report: &'a mut TableReport,
    see: &'a mut dyn FnMut(TableItem<'_>) -> Result<()>,
}

impl Walk<'_> {
    fn all(&mut self) -> Result<()> {
        for partition in 0..self.reader.partition_count() {
            self.report.partitions += 1;
            let (filter, index) = self.reader.partition_handles(partition).unwrap_or_default();
            self.report.filter_bytes += u64::from(filter.bytes);
            self.report.index_bytes += u64::from(index.bytes);
            if filter.bytes > 0 {
                let outcome = self.reader.read_filter(partition, IoClass::Client).map(drop);
                self.report.damage.extend(outcome.err());
            }
            let index = match self.reader.read_index_partition(partition, IoClass::Client) {
                Ok(index) => index,
                Err(error) => {
                    self.report.damage.push(error);
                    continue;
                }
            };
            for at in 0..index.count() {
                self.block(index.handle(at).unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn block(&mut self, handle: BlockHandle) -> Result<()> {
        self.report.blocks += 1;
        self.report.data_bytes += u64::from(handle.bytes);
        let blocks = self.reader.blocks();
        let payload = codec(blocks, handle).and_then(|codec| {
            let payload = blocks.read(handle, IoClass::Client, |payload| {
                Layout::check(payload, Content::Data).map(|layout| (payload.to_vec(), layout))
            })?;
            Ok((codec, payload))
        });
        let (codec, (payload, layout)) = match payload {
            Ok(block) => block,
            Err(error) => {
                self.report.damage.push(error);
                return Ok(());
            }
        };
        *self.report.codecs.entry(codec.clone()).or_default() += 1;
        self.report.unpacked_bytes += payload.len() as u64;
        self.report.entries += layout.count() as u64;
        let mut key = Vec::new();
        layout.key_into(&payload, 0, &mut key);
        (self.see)(TableItem::Block {
            offset: handle.offset,
            bytes: handle.bytes,
            unpacked: payload.len() as u64,
            codec: &codec,
            entries: layout.count() as u64,
            first: &key,
        })?;
        for i in 0..layout.count() {
            let Some(entry) = layout.entry(&payload, i) else { continue };
            layout.key_into(&payload, i, &mut key);
            (self.see)(TableItem::Entry {
                key: &key,
                seq: entry.trailer.seq().0,
                kind: kind_name(entry.trailer.kind()),
                value: payload.get(entry.value).unwrap_or_default(),
            })?;
        }
        Ok(())
    }
}

/// The name of the kind of compression that a block states.
fn codec(blocks: &BlockFile, handle: BlockHandle) -> Result<String> {
    let bytes = blocks.checked_len(handle)?;
    let mut kind = [0];
    let at = handle.offset + (bytes - BLOCK_TRAILER_BYTES) as u64;
    blocks.file().read_at(at, &mut kind, IoClass::Client)?;
    Ok(compression::name_of(kind[0]))
}
