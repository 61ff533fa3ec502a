//! What can be kept of what is damaged: the whole blocks of a table, the whole beginning of a log, and of a store that has lost its
//! manifest what its tables hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::replay::open_log;
use crate::base::class::{Class, IoClass};
use crate::base::error::{Error, Result};
use crate::base::iterator::InternalIterator as _;
use crate::base::key::{Kind, Trailer};
use crate::base::range_tombstones::RangeTombstone;
use crate::base::units::SeqNo;
use crate::execution::output::{JobContext, OutputShape, TableOutput};
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::{Coverage, RangeSource};
use crate::merge::run_iterator::{PIECE_MAX, ReadMode, RunIterator};
use crate::storage::file_name::FileName;
use crate::storage::file_system::{FileSystem, ReadFile};
use crate::storage::record::{LogHeader, LogKind};
use crate::storage::record_writer::RecordWriter;
use crate::table::block::{Content, Layout};
use crate::table::block_cache::BlockCache;
use crate::table::meta::TableMeta;
use crate::table::range_block;
use crate::table::reader::TableReader;
use crate::table::table_cache::TableCache;
use crate::version::run::TableRef;

/// Whose reads these are.
const CLASS: IoClass = IoClass::Background(Class::Upkeep);

/// What a table has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Entries that are still there.
    pub kept: u64,
    /// Entries that were in it.
    pub of: u64,
}

/// Tables written one entry after the other, without threads.
struct RunWriter {
    output: TableOutput<()>,
    tables: Vec<Arc<TableMeta>>,
}

impl RunWriter {
    fn new(context: &Arc<JobContext>, shape: OutputShape) -> RunWriter {
        RunWriter { output: TableOutput::new(Arc::clone(context), shape), tables: Vec::new() }
    }

    /// Ends the table if it is full. To be called between two keys.
    fn cut_if_full(&mut self) -> Result<()> {
        if self.output.is_full_at(self.output.open_bytes()) { self.cut() } else { Ok(()) }
    }

    fn cut(&mut self) -> Result<()> {
        self.output.cut(());
        while self.output.is_sealing() {
            self.output.seal_step()?;
        }
        while let Some((meta, ())) = self.output.take_done()? {
            self.tables.push(Arc::new(meta));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Arc<TableMeta>>> {
        self.cut()?;
        Ok(self.tables)
    }
}

/// What of a damaged table is whole, and, if `write` says how, the same as a table of its own; `None` if there is nothing.
///
/// # Errors
/// `Io`, `NoSpace`; no damage.
pub fn salvage_table(
    fs: &dyn FileSystem,
    dir: &Path,
    table: &TableRef,
    write: Option<(&Arc<JobContext>, OutputShape)>,
) -> Result<(Lost, Option<Arc<TableMeta>>)> {
    let mut lost = Lost { kept: 0, of: table.meta.entries };
    let path = FileName::Table(table.id().0).path(dir);
    if !fs.exists(&path)? {
        return Ok((lost, None));
    }
    let cache = Arc::new(BlockCache::new(0, 4096));
    let reader = match TableReader::open(fs.open(&path)?, &table.meta, cache, CLASS) {
        Err(Error::Corruption { .. }) => return Ok((lost, None)),
        reader => reader?,
    };
    let mut writer = write.map(|(context, shape)| RunWriter::new(context, shape));
    whole_entries(&reader, &mut |key, trailer, value| {
        if !table.bounds.contains(key) {
            return Ok(());
        }
        lost.kept += 1;
        writer.as_mut().map_or(Ok(()), |writer| writer.output.add(key, trailer, value, false))
    })?;
    let mut holds_some = lost.kept > 0;
    for fragment in ranges(&reader, table)? {
        let Fragment { lo, hi, seqs } = fragment;
        holds_some = true;
        writer.as_mut().map_or(Ok(()), |writer| writer.output.add_range(&lo, &hi, &seqs))?;
    }
    let Some(writer) = writer.filter(|_| holds_some) else { return Ok((lost, None)) };
    let whole = writer.finish()?.into_iter().next().map(|meta| match table.meta.loaded_at() {
        // Loaded entries have their sequence beside them.
        Some(seq) => Arc::new(TableMeta { seqs: (seq, seq), ..TableMeta::clone(&meta) }),
        None => meta,
    });
    Ok((lost, whole))
}

/// Calls `see` with every entry of the blocks that are whole.
fn whole_entries(
    reader: &TableReader,
    see: &mut dyn FnMut(&[u8], Trailer, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut key = Vec::new();
    for partition in 0..reader.partition_count() {
        let Some(index) = unless_damaged(reader.read_index_partition(partition, CLASS))? else { continue };
        for handle in (0..index.count()).filter_map(|at| index.handle(at)) {
            let block = reader.blocks().read(handle, CLASS, |payload| {
                Layout::check(payload, Content::Data).map(|layout| (payload.to_vec(), layout))
            });
            let Some((payload, layout)) = unless_damaged(block)? else { continue };
            for i in 0..layout.count() {
                let Some(entry) = layout.entry(&payload, i) else { continue };
                key.clear();
                layout.key_into(&payload, i, &mut key);
                see(&key, entry.trailer, payload.get(entry.value).unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

/// Range tombstones over a stretch of keys, newest first.
struct Fragment {
    lo: Vec<u8>,
    hi: Vec<u8>,
    seqs: Vec<SeqNo>,
}

/// A table's range tombstones where it is visible.
fn ranges(reader: &TableReader, table: &TableRef) -> Result<Vec<Fragment>> {
    if reader.footer().ranges_bytes == 0 {
        return Ok(Vec::new());
    }
    let decode = |payload: &[u8]| range_block::decode(payload, &table.meta);
    let all = reader.blocks().read(reader.footer().ranges(), CLASS, decode)?;
    let of_one = |stretch: &[RangeTombstone]| {
        let first = stretch.first()?;
        let lo = first.lo.as_ref().max(&table.bounds.lo).to_vec();
        let hi = table.bounds.hi.as_deref().map_or(&*first.hi, |hi| hi.min(&first.hi)).to_vec();
        let mut seqs: Vec<SeqNo> = stretch.iter().map(|tombstone| tombstone.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        (lo < hi).then_some(Fragment { lo, hi, seqs })
    };
    Ok(all.chunk_by(|a, b| a.lo == b.lo && a.hi == b.hi).filter_map(of_one).collect())
}

/// The outcome, or `None` for damage.
pub fn unless_damaged<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(Error::Corruption { .. }) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// What `tables` hold for readers of now, in whatever order they are, as tables that do not overlap: of each key the newest entry,
/// unless something deletes it.
///
/// # Errors
/// `Corruption`: the tables must be whole. `Io`, `NoSpace`.
pub fn merge_tables(
    context: &Arc<JobContext>,
    shape: OutputShape,
    tables: &[Arc<TableMeta>],
) -> Result<Vec<Arc<TableMeta>>> {
    let cache = BlockCache::new(0, 4096);
    let cache = Arc::new(TableCache::new(Arc::clone(&context.files), context.dir.clone(), Arc::new(cache)));
    let tables: Vec<TableRef> = tables.iter().map(|meta| TableRef::whole(Arc::clone(meta), 0)).collect();
    let mode = ReadMode::Compaction { class: CLASS, direct: false, piece: PIECE_MAX };
    let run = |table: &TableRef| RunIterator::new(vec![table.clone()], Arc::clone(&cache), mode);
    let mut merged = MergingIterator::new(tables.iter().map(run).collect(), 0);
    let ranges = tables.iter().enumerate().filter_map(|(at, table)| {
        Some((at, RangeSource::of_run(std::slice::from_ref(table), &cache, CLASS)?))
    });
    let mut coverage = Coverage::new(ranges.collect(), SeqNo::MAX);
    let mut writer = RunWriter::new(context, shape);
    let mut last: Option<Vec<u8>> = None;
    merged.seek_to_first()?;
    while merged.valid() {
        if last.as_deref() != Some(merged.key()) {
            let key = last.insert(merged.key().to_vec());
            let trailer = merged.trailer();
            let covered = coverage.as_mut().map_or(Ok(SeqNo(0)), |coverage| coverage.over(key))?;
            if trailer.kind() == Some(Kind::Put) && trailer.seq() > covered {
                writer.cut_if_full()?;
                writer.output.add(key, trailer, merged.value(), false)?;
            }
        }
        merged.next()?;
    }
    writer.finish()
}

/// Copies a file as it is, damage included, and syncs the copy.
pub fn copy_file(fs: &dyn FileSystem, source: &dyn ReadFile, to: &Path, class: IoClass) -> Result<()> {
    let mut file = fs.create(to, class)?;
    let mut buffer = vec![0; source.len().min(PIECE_MAX as u64) as usize];
    let mut at = 0;
    while at < source.len() {
        let piece = (source.len() - at).min(PIECE_MAX as u64) as usize;
        let part =
            buffer.get_mut(..piece).ok_or_else(|| Error::invalid("a piece is larger than its buffer"))?;
        source.read_at(at, part, class)?;
        file.append(part)?;
        at += piece as u64;
    }
    file.syncer().sync()
}

/// Where the chain of logs begins that ends with the newest write, where no manifest says it: links are followed back as far as
/// they go. What is not of it is spare, or of a chain that an open has put into tables. 0 without a log.
///
/// # Errors
/// `Io`; no damage.
pub fn chain_begin(fs: &dyn FileSystem, dir: &Path, numbers: &[u64]) -> Result<u64> {
    let Some(first) = numbers.iter().copied().min() else { return Ok(0) };
    // Of each log with a header the one before it, and whether it holds a write.
    let mut links: BTreeMap<u64, (Option<u64>, bool)> = BTreeMap::new();
    for &number in numbers {
        let Some(mut reader) = unless_damaged(open_log(fs, dir, number, 0))? else { continue };
        let Some(before) = reader.header().map(|header| header.predecessor.as_ref().map(|log| log.id)) else {
            continue;
        };
        // Damage in the first record: there is one.
        let holds_some = unless_damaged(reader.next().map(|record| record.is_some()))?.unwrap_or(true);
        links.insert(number, (before, holds_some));
    }
    let newest = links.iter().rev().find(|(_, (_, holds_some))| *holds_some);
    let Some((mut at, (mut before, _))) = newest.map(|(number, link)| (*number, *link)) else {
        return Ok(first);
    };
    while let Some(number) = before.filter(|number| *number < at && numbers.contains(number)) {
        // What lies behind a damaged header nobody knows.
        let Some((next, _)) = links.get(&number) else { return Ok(first) };
        (at, before) = (number, *next);
    }
    Ok(at)
}

/// Makes a log that holds no write, at `to`.
pub fn empty_log(fs: &dyn FileSystem, number: u64, first_seq: SeqNo, to: &Path) -> Result<()> {
    let header =
        LogHeader { kind: LogKind::Wal, id: number, predecessor: None, first_seq: first_seq.0, allocated: 0 };
    let writer = RecordWriter::on_file(fs.create(to, IoClass::Wal)?, to, &header)?;
    writer.syncer().sync().map(drop)
}

/// Copies the whole beginning of a log, up to the offset `end`, to `to`; `false` if it has not even a header, and nothing is made.
///
/// # Errors
/// `Io`, `NoSpace`; no damage.
pub fn copy_log(fs: &dyn FileSystem, dir: &Path, number: u64, end: u64, to: &Path) -> Result<bool> {
    let Some(mut reader) = unless_damaged(open_log(fs, dir, number, 0))? else { return Ok(false) };
    let Some(header) = reader.header().cloned() else { return Ok(false) };
    let mut writer =
        RecordWriter::on_file(fs.create(to, IoClass::Wal)?, to, &LogHeader { allocated: 0, ..header })?;
    while let Some(record) = unless_damaged(reader.next())?.flatten().filter(|record| record.offset < end) {
        writer.append(&[record.payload])?;
    }
    writer.syncer().sync()?;
    Ok(true)
}
