//! Range tombstones of many places as one: what covers a key for a reader, and which a merge keeps.
//!
//! Each source is asked for the stretch around a key on which nothing changes, and remembers it; what is in force is the
//! intersection of the sources' stretches. A run's tombstones are seen through its `TableRef`s: clipped to their bounds.
//!
//! ```text
//! source 0        7:[a────────m)
//! source 1              5:[f────────────t)
//! stretches       [a────f)[f──m)[m──────t)       over g: 7 of source 0; everything older than source 0 is hidden up to m
//! ```
//! Newer places have newer tombstones over the same key (I1), so a tombstone of one source hides all that later sources
//! have on its stretch, and a reader need not look at it.

use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::units::SeqNo;
use crate::table::table_cache::TableCache;
use crate::version::run::TableRef;

/// The tombstones of one place, and the stretch of them looked at last.
#[derive(Debug)]
pub struct RangeSource {
    place: Place,
    lo: Vec<u8>,
    /// Without meaning if `endless`.
    hi: Vec<u8>,
    endless: bool,
    /// False before the first look: then the stretch means nothing.
    looked: bool,
    found: Option<(Arc<RangeTombstones>, usize)>,
}

#[derive(Debug)]
enum Place {
    Memory(Arc<RangeTombstones>),
    /// Those tables of a run that have any, ascending. The open one by its index.
    Run {
        tables: Vec<TableRef>,
        cache: Arc<TableCache>,
        class: IoClass,
        open: Option<(usize, Arc<RangeTombstones>)>,
    },
}

impl RangeSource {
    /// A piece of a memtable.
    pub fn of_memtable(piece: Arc<RangeTombstones>) -> RangeSource {
        RangeSource::new(Place::Memory(piece))
    }

    /// The tables of a run; `None` if there is no tombstone in them.
    pub fn of_run(tables: &[TableRef], cache: &Arc<TableCache>, class: IoClass) -> Option<RangeSource> {
        let tables: Vec<TableRef> = tables.iter().filter(|t| t.meta.range_tombstones > 0).cloned().collect();
        let cache = Arc::clone(cache);
        (!tables.is_empty()).then(|| RangeSource::new(Place::Run { tables, cache, class, open: None }))
    }

    fn new(place: Place) -> RangeSource {
        let (lo, hi) = (Vec::new(), Vec::new());
        RangeSource { place, lo, hi, endless: false, looked: false, found: None }
    }

    /// Makes the stretch around `key` the current one.
    pub fn look_at(&mut self, key: &[u8]) -> Result<()> {
        if self.looked && key >= &self.lo[..] && (self.endless || key < &self.hi[..]) {
            return Ok(());
        }
        self.looked = false;
        self.lo.clear();
        self.hi.clear();
        self.found = None;
        let end = match &mut self.place {
            Place::Memory(tombstones) => {
                let stretch = tombstones.stretch(key);
                self.lo.extend_from_slice(stretch.lo);
                self.found = stretch.interval.map(|i| (Arc::clone(tombstones), i));
                stretch.hi
            }
            Place::Run { tables, cache, class, open } => {
                let next = tables.partition_point(|t| *t.bounds.lo <= *key);
                let before = next.checked_sub(1).and_then(|i| Some((i, tables.get(i)?)));
                match before.filter(|(_, table)| table.bounds.is_below_end(key)) {
                    Some((at, table)) => {
                        let tombstones = opened(open, at, table, cache, *class)?;
                        let stretch = tombstones.stretch(key);
                        self.lo.extend_from_slice(stretch.lo.max(&table.bounds.lo));
                        self.found = stretch.interval.map(|i| (Arc::clone(tombstones), i));
                        least_end(stretch.hi, table.bounds.hi.as_deref())
                    }
                    None => {
                        let lo = before.and_then(|(_, table)| table.bounds.hi.as_deref());
                        self.lo.extend_from_slice(lo.unwrap_or_default());
                        tables.get(next).map(|table| &*table.bounds.lo)
                    }
                }
            }
        };
        self.endless = end.is_none();
        self.hi.extend_from_slice(end.unwrap_or_default());
        self.looked = true;
        Ok(())
    }

    /// Lets go of the tables that end at or below `key`, for who only looks at `key` and above from now on.
    fn release_below(&mut self, key: Option<&[u8]>) {
        if let Place::Run { tables, open, .. } = &mut self.place {
            let passed = key.map_or(tables.len(), |key| {
                tables.partition_point(|t| t.bounds.hi.as_deref().is_some_and(|hi| hi <= key))
            });
            tables.drain(..passed);
            *open = open.take().and_then(|(at, ranges)| Some((at.checked_sub(passed)?, ranges)));
        }
    }

    /// Where the current stretch begins.
    pub fn lo(&self) -> &[u8] {
        &self.lo
    }

    /// Where it ends; `None` without an end.
    pub fn hi(&self) -> Option<&[u8]> {
        (!self.endless).then_some(&self.hi)
    }

    /// The newest tombstone of the current stretch at or below `at`.
    pub fn newest(&self, at: SeqNo) -> Option<SeqNo> {
        self.found.as_ref().and_then(|(tombstones, interval)| tombstones.newest_in(*interval, at))
    }

    /// The oldest tombstone of the current stretch.
    pub fn oldest(&self) -> Option<SeqNo> {
        self.found.as_ref().and_then(|(tombstones, interval)| tombstones.oldest_in(*interval))
    }
}

/// The tombstones of a table, which stays the open one.
fn opened<'a>(
    open: &'a mut Option<(usize, Arc<RangeTombstones>)>,
    at: usize,
    table: &TableRef,
    cache: &TableCache,
    class: IoClass,
) -> Result<&'a Arc<RangeTombstones>> {
    if open.as_ref().is_none_or(|(opened, _)| *opened != at) {
        // A reader refuses a file that has none where its facts promise some.
        let ranges = cache.reader(&table.meta, class)?.ranges().cloned().unwrap_or_default();
        *open = Some((at, ranges));
    }
    Ok(&open.get_or_insert_with(|| (at, Arc::default())).1)
}

/// The lesser of two ends; `None` is above every key.
fn least_end<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What covers a key, for a reader at one sequence. Made only where there is a tombstone at all.
#[derive(Debug)]
pub struct Coverage {
    /// With the number of the stream of entries that each belongs to, newest first.
    sources: Vec<(usize, RangeSource)>,
    at: SeqNo,
    /// The intersection of the sources' stretches; means nothing before the first look.
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
    looked: bool,
    newest: SeqNo,
    /// The stream that has the newest.
    stream: usize,
}

impl Coverage {
    /// Of `sources`, newest first, each with the number of its stream; `None` without sources.
    pub fn new(sources: Vec<(usize, RangeSource)>, at: SeqNo) -> Option<Box<Coverage>> {
        let (lo, hi, looked, newest, stream) = (Vec::new(), None, false, SeqNo(0), 0);
        (!sources.is_empty()).then(|| Box::new(Coverage { sources, at, lo, hi, looked, newest, stream }))
    }

    /// The newest tombstone over `key`; sequence 0 if there is none.
    #[inline]
    pub fn over(&mut self, key: &[u8]) -> Result<SeqNo> {
        let inside = self.looked && key >= &self.lo[..] && self.hi.as_deref().is_none_or(|hi| key < hi);
        if !inside {
            self.look_at(key)?;
        }
        Ok(self.newest)
    }

    /// On the stretch looked at last: the stream with the newest tombstone, and the stretch itself. All that later streams have
    /// there is hidden. `None` where nothing covers.
    pub fn hidden(&self) -> Option<(usize, &[u8], &[u8])> {
        let hi = self.hi.as_deref().filter(|_| self.looked && self.newest > SeqNo(0))?;
        Some((self.stream, &self.lo, hi))
    }

    fn look_at(&mut self, key: &[u8]) -> Result<()> {
        self.looked = false;
        self.newest = SeqNo(0);
        for (_, source) in &mut self.sources {
            source.look_at(key)?;
        }
        for (stream, source) in &self.sources {
            if let Some(seq) = source.newest(self.at).filter(|seq| *seq > self.newest) {
                (self.newest, self.stream) = (seq, *stream);
            }
        }
        intersect(self.sources.iter().map(|(_, source)| source), &mut self.lo, &mut self.hi);
        self.looked = true;
        Ok(())
    }
}

/// Writes the intersection of the sources' current stretches to `lo` and `hi`.
fn intersect<'a>(
    sources: impl Iterator<Item = &'a RangeSource> + Clone,
    lo: &mut Vec<u8>,
    hi: &mut Option<Vec<u8>>,
) {
    lo.clear();
    lo.extend_from_slice(sources.clone().map(RangeSource::lo).max().unwrap_or_default());
    match sources.filter_map(RangeSource::hi).min() {
        None => *hi = None,
        Some(end) => {
            let to = hi.get_or_insert_default();
            to.clear();
            to.extend_from_slice(end);
        }
    }
}

/// A stretch of keys under tombstones, in a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The first key.
    pub lo: Vec<u8>,
    /// The first key after it.
    pub hi: Vec<u8>,
    /// The newest tombstone of each snapshot stripe that has any, newest first (I5).
    pub seqs: Vec<SeqNo>,
}

/// The tombstones of a merge's inputs as ascending pieces that do not overlap, cut at certain keys as well.
#[derive(Debug)]
pub struct RangeSweep {
    sources: Vec<RangeSource>,
    /// Ascending: what readers there are.
    snapshots: Vec<SeqNo>,
    /// Ascending: no piece spans one of these.
    seams: Vec<Box<[u8]>>,
    /// The next piece begins here or later; `None` when there is none.
    at: Option<Vec<u8>>,
}

impl RangeSweep {
    /// Of these sources, in any order; `None` without any. `snapshots` are all that are open, `seams` where pieces must end.
    pub fn new(
        sources: Vec<RangeSource>,
        mut snapshots: Vec<SeqNo>,
        mut seams: Vec<Box<[u8]>>,
    ) -> Option<RangeSweep> {
        snapshots.sort_unstable();
        snapshots.dedup();
        seams.sort_unstable();
        (!sources.is_empty()).then(|| RangeSweep { sources, snapshots, seams, at: Some(Vec::new()) })
    }

    /// Lets go of the tables behind the sweep: who reads the rest need not hold what is done with.
    pub fn release_passed(&mut self) {
        let at = self.at.as_deref();
        self.sources.iter_mut().for_each(|source| source.release_below(at));
    }

    /// The next piece, written over `piece`; false at the end.
    pub fn next(&mut self, piece: &mut Piece) -> Result<bool> {
        piece.seqs.clear();
        while let Some(at) = self.at.take() {
            for source in &mut self.sources {
                source.look_at(&at)?;
            }
            let end = self.sources.iter().filter_map(RangeSource::hi).min().map(<[u8]>::to_vec);
            self.collect(&mut piece.seqs);
            let seam = self.seams.partition_point(|s| **s <= at[..]);
            let seam = self.seams.get(seam).map(|s| &**s);
            if !piece.seqs.is_empty() {
                // A tombstone ends, so its stretch does.
                let hi = least_end(end.as_deref(), seam).unwrap_or_default().to_vec();
                self.at = Some(hi.clone());
                (piece.lo, piece.hi) = (at, hi);
                return Ok(true);
            }
            self.at = end;
        }
        Ok(false)
    }

    /// The newest of each stripe: what is newest at each snapshot, and now.
    fn collect(&self, seqs: &mut Vec<SeqNo>) {
        for at in [SeqNo::MAX].iter().chain(self.snapshots.iter().rev()) {
            let newest = self.sources.iter().filter_map(|source| source.newest(*at)).max();
            seqs.extend(newest.filter(|seq| seqs.last() != Some(seq)));
        }
    }
}

#[cfg(test)]
#[path = "range_tombstones_tests.rs"]
mod tests;
