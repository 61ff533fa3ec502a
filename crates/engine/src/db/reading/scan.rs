//! Ranges of keys: a cursor that goes both ways and turns anywhere, and an iterator over it.
//!
//! A cursor sees one moment, whatever is written, flushed or compacted while it is open: it holds a view, and a sequence at or
//! below which the view holds everything.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::iterator::InternalIterator;
use crate::base::key::Trailer;
use crate::base::key_range::{KeyRange, after};
use crate::base::units::SeqNo;
use crate::db::store::keyspace_state::{KeyspaceState, ReadView};
use crate::db::store::state::Store;
use crate::db::store::tracing::TracedCursor;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::{Coverage, RangeSource};
use crate::merge::run_iterator::{ReadMode, RunIterator};
use crate::merge::visible_iterator::VisibleIterator;
use crate::observe::client_ops::ClientOps;
use crate::observe::memory::CursorCharge;
use crate::observe::slow::{Op, SlowOperations};
use crate::table::access::sampled;
use crate::table::filter::hash_prefix;
use crate::table::prefix_rule::PrefixRule;
use crate::version::group::Group;
use crate::version::run::{SortedRun, TableRef};
use crate::write::memtable::{Memtable, MemtableCursor};

/// What a cursor's part over one source takes, the block it pins aside.
const CURSOR_BYTES: u64 = 512;
/// Tables of a run that a cursor copies.
const COPIED_MAX: usize = 8;

/// Which keys: from one, inclusive, to another, exclusive; and whether reading them fills the block cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange(pub(crate) KeyRange, FillCache);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FillCache(bool);

impl ScanRange {
    /// Every key.
    pub fn all() -> ScanRange {
        ScanRange::of(KeyRange::all())
    }

    /// `from` ≤ key < `to`; `None` is without a bound on that side. Empty if `to` ≤ `from`.
    pub fn new(from: Option<&[u8]>, to: Option<&[u8]>) -> ScanRange {
        ScanRange::of(KeyRange::new(from.unwrap_or_default(), to))
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &[u8]) -> ScanRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                return ScanRange::of(KeyRange::new(prefix, Some(&end)));
            }
        }
        ScanRange::of(KeyRange::new(prefix, None))
    }

    /// Whether the block cache keeps what the scan reads; true unless said otherwise. False for a long scan beside others' gets: it
    /// still takes what the cache has, and leaves it as it is.
    #[must_use]
    pub fn fill_cache(mut self, fill: bool) -> ScanRange {
        self.1 = FillCache(fill);
        self
    }

    fn of(range: KeyRange) -> ScanRange {
        ScanRange(range, FillCache(true))
    }
}

/// A sorted stream that a cursor merges.
#[derive(Debug)]
enum Source {
    Memtable(MemtableCursor),
    Run(RunIterator),
}

macro_rules! each {
    ($self:expr, $s:ident => $call:expr) => {
        match $self {
            Source::Memtable($s) => $call,
            Source::Run($s) => $call,
        }
    };
}

impl InternalIterator for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, s => s.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, s => s.key())
    }
    #[inline]
    fn trailer(&self) -> Trailer {
        each!(self, s => s.trailer())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, s => s.value())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, s => s.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, s => s.seek_to_last())
    }
    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        each!(self, s => s.seek(key, trailer))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, s => s.seek_before(key))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, s => s.next())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, s => s.prev())
    }
}

/// A position among the keys of a range, as of one moment. Begins nowhere: seek first.
///
/// After an error the cursor stands nowhere; it can be sought again.
#[derive(Debug)]
pub struct Cursor {
    visible: VisibleIterator<Source>,
    /// The snapshot it reads at, if it has one: kept open with it.
    _pinned: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    /// Where slow moves are remembered.
    slow: Arc<SlowOperations>,
    /// Who is told of its moves, if anybody was there when it was made.
    watched: Option<Box<Watched>>,
    /// Counts what it holds in memory.
    _charge: CursorCharge,
}

/// Who is told of a cursor's moves.
#[derive(Debug)]
struct Watched {
    /// Notes its scans in a trace.
    traced: Option<Box<TracedCursor>>,
    /// Counts its moves for the schedule.
    counted: Option<Arc<ClientOps>>,
}

impl Cursor {
    /// True if the cursor stands on a key.
    pub fn valid(&self) -> bool {
        self.visible.valid()
    }

    /// The key; empty where not valid.
    pub fn key(&self) -> &[u8] {
        self.visible.key()
    }

    /// The value; empty where not valid.
    pub fn value(&self) -> &[u8] {
        self.visible.value()
    }

    /// To the first key.
    ///
    /// # Errors
    /// `Io` or `Corruption`; an error is never a shorter scan. The same holds for every move.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_traced(TracedCursor::first, VisibleIterator::seek_to_first)
    }

    /// To the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.seek_traced(TracedCursor::last, VisibleIterator::seek_to_last)
    }

    /// To the first key at or above `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_traced(|traced| traced.seek(key, false), |visible| visible.seek(key))
    }

    /// To the last key at or below `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.seek_traced(|traced| traced.seek(key, true), |visible| visible.seek_before(&after(key)))
    }

    /// To the next key; from the last one to nowhere.
    #[expect(clippy::should_implement_trait, reason = "a cursor's next is the field's word")]
    pub fn next(&mut self) -> Result<()> {
        let moved = self.visible.next();
        self.slow.stepped();
        self.trace_move(Some(false));
        moved
    }

    /// To the previous key; from the first one to nowhere.
    pub fn prev(&mut self) -> Result<()> {
        let moved = self.visible.prev();
        self.slow.stepped();
        self.trace_move(Some(true));
        moved
    }

    #[inline]
    fn seek_traced(
        &mut self,
        trace: impl FnOnce(&mut TracedCursor),
        seek: impl FnOnce(&mut VisibleIterator<Source>) -> Result<()>,
    ) -> Result<()> {
        if let Some(traced) = self.watched.as_mut().and_then(|watched| watched.traced.as_mut()) {
            trace(traced);
        }
        let moved = self.slow.watch(Op::Scan, None, || seek(&mut self.visible));
        self.trace_move(None);
        moved
    }

    /// Notes where a move has led; `down` is where it went, if it was none of a seek.
    #[inline]
    fn trace_move(&mut self, down: Option<bool>) {
        if let Some(watched) = &mut self.watched {
            watched.moved(&self.visible, down);
        }
    }
}

impl Watched {
    fn moved(&mut self, visible: &VisibleIterator<Source>, down: Option<bool>) {
        if let Some(traced) = &mut self.traced {
            traced.moved(visible.valid().then(|| visible.key()), down);
        }
        if let Some(counted) = &self.counted {
            counted.add_scan(down.is_none(), (visible.key().len() + visible.value().len()) as u64);
        }
    }
}

/// The present moment of a keyspace: a view, and a sequence up to which it holds everything.
pub fn current(store: &Store, keyspace: &KeyspaceState) -> (Arc<ReadView>, SeqNo) {
    loop {
        let view = keyspace.view.load_full();
        let at = SeqNo(store.visible.load(Ordering::Acquire));
        // True of a view that is still in force: a write is published after it is in the active memtable.
        if Arc::ptr_eq(&view, &keyspace.view.load()) {
            return (view, at);
        }
    }
}

/// A cursor as of `at`, over a view that holds everything up to there.
pub fn cursor_at(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &ReadView,
    range: ScanRange,
    at: SeqNo,
    pinned: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
) -> Cursor {
    let ScanRange(range, FillCache(fill_cache)) = range;
    if sampled() {
        keyspace.heat.note_scan();
    }
    let options = store.options.load();
    let readahead_max = u32::try_from(options.readahead_bytes).unwrap_or(u32::MAX);
    let mode = ReadMode::Client { fill_cache, readahead_max, now_ms: store.clock.wall_ms() };
    let rule = keyspace.style.prefix_rule(&options);
    let prefix = rule.prefix_of_all(&range).map(hash_prefix);
    let memtables = [&view.active].into_iter().chain(&view.immutable).filter(|m| !m.is_empty());
    let mut streams = Streams::default();
    memtables.for_each(|memtable| streams.add_memtable(memtable));
    let of_memtables = streams.sources.len();
    let tables = TableStreams { store, range: &range, mode, prefix: prefix.map(|hash| (rule, hash)) };
    for level in &view.version.levels {
        match level.groups_over(&range).1 {
            [only] => only.runs.iter().for_each(|run| tables.add_run(run, &mut streams)),
            groups => tables.add_groups(groups, &mut streams),
        }
    }
    let Streams { sources, ranges } = streams;
    let runs = (sources.len() - of_memtables) as u64;
    let bytes = CURSOR_BYTES * sources.len() as u64 + runs * store.options.load().block_bytes;
    let traced = store.trace.cursor(keyspace.id.0, &range.lo);
    let counted = store.client_ops.is_counting().then(|| Arc::clone(&store.client_ops));
    let watched = (traced.is_some() || counted.is_some()).then_some(Watched { traced, counted });
    // Memtables are not clipped to the range, so nothing is known of a common head.
    let merged = MergingIterator::new(sources, 0);
    Cursor {
        watched: watched.map(Box::new),
        visible: VisibleIterator::new(merged, Coverage::new(ranges, at), range, at),
        _pinned: pinned,
        slow: Arc::clone(&store.slow),
        _charge: CursorCharge::new(&store.memory, bytes),
    }
}

/// What a cursor merges, newest first, and the range tombstones of each stream by its number.
#[derive(Default)]
struct Streams {
    sources: Vec<Source>,
    ranges: Vec<(usize, RangeSource)>,
}

impl Streams {
    fn add_memtable(&mut self, memtable: &Memtable) {
        let pieces = memtable.ranges().pieces().into_iter();
        self.ranges.extend(pieces.map(|piece| (self.sources.len(), RangeSource::of_memtable(piece))));
        self.sources.push(Source::Memtable(memtable.cursor()));
    }

    fn add(&mut self, tables: RunIterator, ranges: Option<RangeSource>) {
        self.ranges.extend(ranges.map(|ranges| (self.sources.len(), ranges)));
        self.sources.push(Source::Run(tables));
    }
}

/// How a cursor reads tables.
struct TableStreams<'a> {
    store: &'a Store,
    range: &'a KeyRange,
    mode: ReadMode,
    /// The prefix that all keys of the range have, hashed, and by which rule.
    prefix: Option<(PrefixRule, u64)>,
}

impl TableStreams<'_> {
    /// Of a run: a few tables are copied, so that the others may go; many are not, for that would cost more than a short scan.
    fn add_run(&self, run: &Arc<SortedRun>, streams: &mut Streams) {
        let part = run.overlapping_range(self.range);
        let tables = run.tables.get(part.clone()).unwrap_or_default();
        if self.prefix.is_some() || tables.len() <= COPIED_MAX {
            return self.add_tables(tables.to_vec(), streams);
        }
        let cache = Arc::clone(&self.store.tables);
        let ranges = run.has_range_tombstones().then(|| self.ranges(tables)).flatten();
        streams.add(RunIterator::of_run(Arc::clone(run), part, cache, self.mode), ranges);
    }

    /// Of groups of a level: their newest runs one behind the other, then the next ones. Groups share no key, and in each the order
    /// of its runs stays; so there are as many streams as a group has runs, whatever the number of groups.
    fn add_groups(&self, groups: &[Arc<Group>], streams: &mut Streams) {
        let most = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
        for i in 0..most {
            let runs = groups.iter().filter_map(|group| group.runs.get(i));
            let tables = runs.flat_map(|run| run.overlapping(self.range));
            self.add_tables(tables.cloned().collect(), streams);
        }
    }

    fn add_tables(&self, mut tables: Vec<TableRef>, streams: &mut Streams) {
        self.skip_tables(&mut tables);
        if !tables.is_empty() {
            let ranges = self.ranges(&tables);
            streams.add(RunIterator::new(tables, Arc::clone(&self.store.tables), self.mode), ranges);
        }
    }

    fn ranges(&self, tables: &[TableRef]) -> Option<RangeSource> {
        RangeSource::of_run(tables, &self.store.tables, IoClass::Client)
    }

    /// Leaves out the tables whose filters deny the prefix that all keys of the range have. One with range deletes stays: they are
    /// not in its filter.
    fn skip_tables(&self, tables: &mut Vec<TableRef>) {
        let Some((rule, hash)) = self.prefix else { return };
        let before = tables.len();
        tables.retain(|table| {
            let reader = self.store.tables.reader(&table.meta, IoClass::Client);
            // What cannot be opened is told to who reads it.
            table.meta.range_tombstones > 0
                || reader.map_or(true, |r| r.may_have_prefix(self.range, rule, hash, IoClass::Client))
        });
        self.store.tables.block_cache().count_skipped((before - tables.len()) as u64);
    }
}

/// Keys and values of a range, from both ends.
#[derive(Debug)]
pub struct Scan {
    front: Cursor,
    /// Made when first asked for an item from the back.
    back: Option<Cursor>,
    make_back: BackMaker,
    started: bool,
    ended: bool,
}

struct BackMaker(Box<dyn Fn() -> Cursor + Send>);

impl std::fmt::Debug for BackMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("back")
    }
}

impl Scan {
    /// Over what `make` makes: two cursors of one moment.
    pub fn new(make: impl Fn() -> Cursor + Send + 'static) -> Scan {
        let front = make();
        Scan { front, back: None, make_back: BackMaker(Box::new(make)), started: false, ended: false }
    }

    fn step_front(&mut self) -> Result<bool> {
        if self.started {
            self.front.next()?;
        } else {
            self.front.seek_to_first()?;
            self.started = true;
        }
        let met = self.back.as_ref().is_some_and(|back| back.valid() && self.front.key() >= back.key());
        Ok(self.front.valid() && !met)
    }

    fn step_back(&mut self) -> Result<bool> {
        let back = match &mut self.back {
            Some(back) => {
                back.prev()?;
                back
            }
            None => {
                let back = self.back.insert((self.make_back.0)());
                back.seek_to_last()?;
                back
            }
        };
        let met = self.started && self.front.valid() && back.key() <= self.front.key();
        Ok(back.valid() && !met)
    }
}

fn item(cursor: &Cursor) -> Result<(Vec<u8>, Vec<u8>)> {
    Ok((cursor.key().to_vec(), cursor.value().to_vec()))
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.step_front() {
            Ok(true) => Some(item(&self.front)),
            Ok(false) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.step_back() {
            Ok(true) => self.back.as_ref().map(item),
            Ok(false) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}
