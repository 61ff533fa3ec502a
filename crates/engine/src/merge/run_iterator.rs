//! A run as one sorted stream: its tables one after the other, each clipped to its visible part.
//!
//! ```text
//! run      [1: a..f]   [2: (g h) i..m]   [3: p..z]       (g h) was trimmed: a compaction has taken it
//! stream    a ...  f            i .. m     p .. z
//! ```
//! The only way into a table is through its `TableRef`, here as everywhere. One table is open at a time. Going forward from
//! the start, the stream knows exactly how many entries of each table it has passed: what a prefix commit records.

use std::cmp::Ordering;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::units::{SeqNo, TableId};
use crate::table::access::sampled;
use crate::table::meta::TableMeta;
use crate::table::table_cache::TableCache;
use crate::table::table_iterator::{TableIterator, TableReadOptions};
use crate::version::run::{SortedRun, TableRef};

/// Whose reads they are.
#[derive(Clone, Copy, Debug)]
pub enum ReadMode {
    /// A client's: through the block cache.
    Client {
        /// The cache keeps what is read.
        fill_cache: bool,
        /// The most that is read ahead.
        readahead_max: u32,
        /// When the stream was made, wall milliseconds.
        now_ms: u64,
    },
    /// A compaction's, or of who reads everything as one does: large pieces, past the block cache.
    Compaction {
        /// Whose.
        class: IoClass,
        /// Past the page cache too, where that can be.
        direct: bool,
        /// At most so many bytes at once.
        piece: usize,
    },
}

/// Counts that a client's stream enters the table, if this is one of those that are counted.
#[inline(never)]
fn note_access(table: &TableMeta, mode: ReadMode) {
    if let ReadMode::Client { now_ms, .. } = mode
        && sampled()
    {
        table.access.note_entered(now_ms);
    }
}

/// The most that a compaction reads at once; without the page cache nobody reads ahead but us.
pub const PIECE_MAX: usize = 1 << 20;

impl ReadMode {
    /// Whose bytes they are.
    pub fn class(self) -> IoClass {
        self.options().class
    }

    fn options(self) -> TableReadOptions {
        match self {
            ReadMode::Client { fill_cache, readahead_max, .. } => TableReadOptions {
                fill_cache,
                readahead_max: readahead_max as usize,
                ..TableReadOptions::client()
            },
            ReadMode::Compaction { class, direct, piece } => {
                let options = TableReadOptions::merge(class);
                let most = if direct { PIECE_MAX } else { options.readahead_bytes };
                TableReadOptions { readahead_bytes: piece.min(most), ..options }
            }
        }
    }

    fn is_direct(self) -> bool {
        matches!(self, ReadMode::Compaction { direct: true, .. })
    }
}

/// The tables of a stream.
#[derive(Debug)]
enum Tables {
    /// Of a run that goes as a whole when nobody holds it any more: nothing is copied.
    Shared(Arc<SortedRun>, Range<u32>),
    /// Each goes by itself.
    Own(Vec<TableRef>),
}

impl Deref for Tables {
    type Target = [TableRef];

    #[inline]
    fn deref(&self) -> &[TableRef] {
        match self {
            Tables::Shared(run, part) => {
                run.tables.get(part.start as usize..part.end as usize).unwrap_or_default()
            }
            Tables::Own(tables) => tables,
        }
    }
}

/// A cursor over a run's visible entries.
#[derive(Debug)]
pub struct RunIterator {
    tables: Tables,
    cache: Arc<TableCache>,
    mode: ReadMode,
    /// The table that `entries` is of; meaningful while there is one.
    at: usize,
    entries: Option<TableIterator>,
    /// True if the current table has entries outside its visible part.
    clipped: bool,
    /// Entries of the current table passed since its visible start, going forward from there.
    passed: u64,
}

impl RunIterator {
    /// Over tables that ascend and do not overlap.
    pub fn new(tables: Vec<TableRef>, cache: Arc<TableCache>, mode: ReadMode) -> RunIterator {
        RunIterator::over(Tables::Own(tables), cache, mode)
    }

    /// Over tables of a run that all stay as long as this does.
    pub fn of_run(
        run: Arc<SortedRun>,
        range: Range<usize>,
        cache: Arc<TableCache>,
        mode: ReadMode,
    ) -> RunIterator {
        // No run has as many tables as that.
        RunIterator::over(Tables::Shared(run, range.start as u32..range.end as u32), cache, mode)
    }

    fn over(tables: Tables, cache: Arc<TableCache>, mode: ReadMode) -> RunIterator {
        RunIterator { tables, cache, mode, at: 0, entries: None, clipped: false, passed: 0 }
    }

    /// Bytes of its own buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.entries.as_ref().map_or(0, TableIterator::memory_bytes)
    }

    /// The table that `cut` goes through, and how many of its entries lie below, those trimmed earlier included. Exact for a
    /// stream that was read forward from its start up to `cut`. `None` if the cut goes through no table.
    pub fn consumed_below(&self, cut: &[u8]) -> Option<(TableId, u64)> {
        let at = self.tables.partition_point(|t| *t.bounds.lo < *cut).checked_sub(1)?;
        let table = self.tables.get(at).filter(|t| t.bounds.is_below_end(cut))?;
        // A table may have range tombstones beyond its last entry, and before its first.
        let consumed = match (&self.entries, at.cmp(&self.at)) {
            (None, _) | (_, Ordering::Less) => table.meta.entries,
            (_, Ordering::Equal) => table.consumed + self.passed,
            (_, Ordering::Greater) => table.consumed,
        };
        Some((table.id(), consumed))
    }

    /// Lets go of the tables before `first`, or of all, for a stream that was begun and only goes forward: who reads the rest need
    /// not hold what is done with. A table whose entries are behind the cursor may have range tombstones that are not.
    pub fn release_before(&mut self, first: Option<TableId>) {
        let left = first.and_then(|id| self.tables.iter().position(|t| t.id() == id));
        let done = left.unwrap_or(self.tables.len());
        match &mut self.tables {
            Tables::Own(tables) => drop(tables.drain(..done)),
            Tables::Shared(_, part) => part.start += done as u32,
        }
        self.at = self.at.saturating_sub(done);
    }

    fn open(&mut self, at: usize) -> Result<()> {
        // The same table again: its cursor can be sought again.
        if self.at != at || self.entries.is_none() {
            self.entries = None;
            self.at = at;
            if let Some(table) = self.tables.get(at) {
                let options = self.mode.options();
                let reader = self.cache.reader(&table.meta, options.class)?;
                let mut entries = TableIterator::new(Arc::clone(reader), options);
                if self.mode.is_direct()
                    && let Some(file) = self.cache.open_direct(&table.meta)?
                {
                    entries.read_ahead_from(file);
                }
                self.entries = Some(entries);
                let meta = &table.meta;
                note_access(meta, self.mode);
                self.clipped = *table.bounds.lo > *meta.smallest || !table.bounds.is_below_end(&meta.largest);
            }
        }
        self.passed = 0;
        Ok(())
    }

    /// Onward to the first table from `self.at` on that has an entry at or after its start.
    fn open_forward(&mut self, from: usize) -> Result<()> {
        let mut at = from;
        while at < self.tables.len() {
            self.open(at)?;
            let (Some(table), Some(entries)) = (self.tables.get(at), &mut self.entries) else { break };
            if *table.bounds.lo <= *table.meta.smallest {
                entries.seek_to_first()?;
            } else {
                entries.seek(&table.bounds.lo, Trailer::seek(SeqNo::MAX))?;
            }
            if self.in_bounds() {
                return Ok(());
            }
            at += 1;
        }
        self.entries = None;
        Ok(())
    }

    /// Back from the table before `before` to the last one with an entry below its end.
    fn open_backward(&mut self, before: usize) -> Result<()> {
        let mut at = before;
        while let Some(previous) = at.checked_sub(1) {
            at = previous;
            self.open(at)?;
            let (Some(table), Some(entries)) = (self.tables.get(at), &mut self.entries) else { break };
            match &table.bounds.hi {
                Some(hi) if **hi <= *table.meta.largest => entries.seek_before(hi)?,
                _ => entries.seek_to_last()?,
            }
            if self.in_bounds() {
                return Ok(());
            }
        }
        self.entries = None;
        Ok(())
    }

    /// True if the current table's cursor stands on a visible entry.
    #[inline]
    fn in_bounds(&self) -> bool {
        let (Some(table), Some(entries)) = (self.tables.get(self.at), &self.entries) else { return false };
        entries.valid() && (!self.clipped || table.bounds.contains(entries.key()))
    }
}

impl InternalIterator for RunIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.entries.as_ref().is_some_and(InternalIterator::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entries.as_ref().map_or(b"", |e| e.key())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.entries.as_ref().map_or(Trailer(0), InternalIterator::trailer)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entries.as_ref().map_or(b"", |e| e.value())
    }

    #[inline]
    fn is_in_memory(&self) -> bool {
        self.entries.as_ref().is_some_and(InternalIterator::is_in_memory)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.open_forward(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.open_backward(self.tables.len())
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        let at = self.tables.partition_point(|t| t.bounds.hi.as_deref().is_some_and(|hi| hi <= key));
        match self.tables.get(at) {
            Some(table) if *table.bounds.lo <= *key => {
                self.open(at)?;
                if let Some(entries) = &mut self.entries {
                    entries.seek(key, trailer)?;
                }
                if self.in_bounds() { Ok(()) } else { self.open_forward(at + 1) }
            }
            // Between two tables, or past the last one.
            _ => self.open_forward(at),
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let at = self.tables.partition_point(|t| *t.bounds.lo < *key);
        let Some(last) = at.checked_sub(1) else {
            self.entries = None;
            return Ok(());
        };
        if !self.tables.get(last).is_some_and(|t| t.bounds.is_below_end(key)) {
            return self.open_backward(at);
        }
        self.open(last)?;
        if let Some(entries) = &mut self.entries {
            entries.seek_before(key)?;
        }
        if self.in_bounds() { Ok(()) } else { self.open_backward(last) }
    }

    // A call of its own: inlined into the merge's loop, what is hot there no longer is.
    #[inline(never)]
    fn next(&mut self) -> Result<()> {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        entries.next()?;
        self.passed += 1;
        if self.in_bounds() { Ok(()) } else { self.open_forward(self.at + 1) }
    }

    fn prev(&mut self) -> Result<()> {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        entries.prev()?;
        self.passed = self.passed.saturating_sub(1);
        if self.in_bounds() { Ok(()) } else { self.open_backward(self.at) }
    }
}
