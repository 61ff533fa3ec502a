//! Reads every byte of a table and checks it: checksums, order, bounds, filters, counts (`check` V4 of the store).
//!
//! The walk knows where the next block must begin; what lies between blocks must be zeros. So no byte is outside a
//! checksum or a comparison.

use std::sync::Arc;

use super::block::{Content, Layout};
use super::block_cache::BlockCache;
use super::facts::{Facts, Follows};
use super::filter::{Filter, hash_key, hash_prefix};
use super::format::{BlockHandle, PAGE_BYTES};
use super::meta::TableMeta;
use super::partition::IndexPartition;
use super::prefix_rule::PrefixRule;
use super::range_block;
use super::reader::TableReader;
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::storage::file_system::ReadFile;

/// Checks that the file is whole, in order, and what `meta` says.
pub fn verify_table(file: Arc<dyn ReadFile>, meta: &TableMeta, class: IoClass) -> Result<()> {
    let reader = TableReader::open(file, meta, Arc::new(BlockCache::new(0, 4096)), class)?;
    let mut walk = Walk { reader: &reader, class, at: 0, facts: Facts::default(), separator: Vec::new() };
    for partition in 0..reader.partition_count() {
        walk.partition(partition)?;
    }
    let footer = reader.footer();
    walk.ranges(meta)?;
    if footer.top.bytes > 0 {
        walk.reach(footer.top)?;
    }
    walk.reach(footer.properties)?;
    if walk.at != reader.blocks().end() {
        return Err(walk.wrong("there are bytes between the last block and the footer"));
    }
    let written = meta.as_written();
    walk.properties(&written)?;
    match walk.facts.contradicts(&written) {
        Some(fact) => Err(reader.blocks().corruption(0, &format!("{fact} is not the one on record"))),
        None => Ok(()),
    }
}

struct Walk<'a> {
    reader: &'a TableReader,
    class: IoClass,
    /// Everything below is checked.
    at: u64,
    facts: Facts,
    /// No key so far is above it.
    separator: Vec<u8>,
}

impl Walk<'_> {
    fn wrong(&self, what: &str) -> Error {
        self.reader.blocks().corruption(self.at, what)
    }

    /// Goes on to the end of a block, which must begin here, or after zeros.
    fn reach(&mut self, block: BlockHandle) -> Result<()> {
        let gap = block.offset.checked_sub(self.at).filter(|gap| *gap < PAGE_BYTES);
        let Some(gap) = gap else { return Err(self.wrong("the next block does not follow")) };
        let mut zeros = vec![0; gap as usize];
        self.reader.blocks().file().read_at(self.at, &mut zeros, self.class)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(self.wrong("there is something between two blocks"));
        }
        self.at = block.end();
        Ok(())
    }

    fn partition(&mut self, partition: usize) -> Result<()> {
        let index = self.reader.read_index_partition(partition, self.class)?;
        let (filter_handle, index_handle) = self.reader.partition_handles(partition).unwrap_or_default();
        let filter = match filter_handle.bytes {
            0 => None,
            _ => Some(self.reader.read_filter(partition, self.class)?),
        };
        let prefixes = filter.as_ref().map_or(PrefixRule::None, Filter::prefixes);
        let mut hashes = Vec::new();
        for at in 0..index.count() {
            self.block(&index, at, prefixes, &mut hashes)?;
        }
        let mut last = Vec::new();
        self.reader.partition_separator_into(partition, &mut last);
        if last != self.separator {
            return Err(self.wrong("the top index and its partition disagree"));
        }
        if let Some(filter) = filter {
            if hashes.iter().any(|hash| !filter.may_contain(filter.line(*hash), *hash)) {
                return Err(self.wrong("the filter denies a key of the table"));
            }
            self.reach(filter_handle)?;
        }
        self.reach(index_handle)
    }

    fn block(
        &mut self,
        index: &IndexPartition,
        at: usize,
        prefixes: PrefixRule,
        hashes: &mut Vec<u64>,
    ) -> Result<()> {
        let handle = index.handle(at).unwrap_or_default();
        self.reach(handle)?;
        let blocks = self.reader.blocks();
        let before = std::mem::take(&mut self.separator);
        let facts = &mut self.facts;
        let mut key = Vec::new();
        blocks.read(handle, self.class, |block| {
            let layout = Layout::check(block, Content::Data)?;
            for i in 0..layout.count() {
                let Some(entry) = layout.entry(block, i) else {
                    return Err("an entry does not fit into its block");
                };
                layout.key_into(block, i, &mut key);
                let follows = facts.follows(&key, entry.trailer);
                if follows == Follows::OutOfOrder {
                    return Err("the entries are out of order");
                }
                if facts.entries() > 0 && (key < before || (key == before && follows == Follows::NewKey)) {
                    return Err("a key is not above the separator before it");
                }
                if i == 0 || follows == Follows::NewKey {
                    hashes.push(hash_key(&key));
                    hashes.extend(prefixes.prefix_of(&key).map(hash_prefix));
                }
                // A search finds an entry only if its prefix is the one that its key has.
                if layout.lower_bound(block, &key, entry.trailer) != i {
                    return Err("an entry cannot be found by its key");
                }
                facts.add(&key, entry.trailer, follows);
            }
            facts.end_block();
            Ok(())
        })?;
        index.separator_into(at, &mut self.separator);
        if self.facts.last_key() > self.separator.as_slice() {
            return Err(self.wrong("a key is above its separator"));
        }
        Ok(())
    }

    /// The range tombstones: opening has checked them against each other, here they are counted.
    fn ranges(&mut self, meta: &TableMeta) -> Result<()> {
        let handle = self.reader.footer().ranges();
        if handle.bytes == 0 {
            return Ok(());
        }
        self.reach(handle)?;
        let facts = &mut self.facts;
        self.reader.blocks().read(handle, self.class, |payload| {
            for tombstone in range_block::decode(payload, meta)? {
                facts.add_range(&tombstone.lo, &tombstone.hi, &[tombstone.seq], false);
            }
            Ok(())
        })
    }

    /// The facts in the file must be those on record, but for the file's own size and checksum.
    fn properties(&self, meta: &TableMeta) -> Result<()> {
        let (found, _) = self.reader.read_properties(self.class)?;
        let encoded = |meta: &TableMeta| {
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            bytes
        };
        if encoded(&found) == encoded(&TableMeta { bytes: 0, checksum: 0, ..meta.clone() }) {
            return Ok(());
        }
        let offset = self.reader.footer().properties.offset;
        Err(self.reader.blocks().corruption(offset, "the properties are not the ones on record"))
    }
}
