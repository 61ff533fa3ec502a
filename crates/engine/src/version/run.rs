//! A sorted run: tables that do not overlap, in key order.
//!
//! A table is only ever seen through its [`TableRef`], which says what part of it is still visible: a compaction that
//! commits a prefix of its work trims its inputs instead of rewriting them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::heads::Heads;
use crate::base::key_range::KeyRange;
use crate::base::units::{RunId, TableId};
use crate::table::meta::TableMeta;

/// A table as one Version sees it.
#[derive(Clone, Debug)]
pub struct TableRef {
    /// The file's facts.
    pub meta: Arc<TableMeta>,
    /// The part still visible.
    pub bounds: KeyRange,
    /// Entries below `bounds.lo` that compactions have already taken; exact.
    pub consumed: u64,
    /// When it came to its level, wall milliseconds.
    pub entered_level_ms: u64,
    /// Since when deletes may have taken what is still in the trimmed part of this file, unseen, until the file goes: when the oldest
    /// delete was acknowledged whose job trimmed it, or when it was trimmed. `None` if nothing is trimmed.
    pub under_deletes_ms: Option<u64>,
}

impl TableRef {
    /// The whole table, new in its level.
    pub fn whole(meta: Arc<TableMeta>, entered_level_ms: u64) -> TableRef {
        TableRef { bounds: meta.bounds(), meta, consumed: 0, entered_level_ms, under_deletes_ms: None }
    }

    /// The file's number.
    pub fn id(&self) -> TableId {
        self.meta.id
    }

    /// When the oldest delete was acknowledged of which this file holds traces: a tombstone, or what one deleted.
    pub fn oldest_delete_ms(&self) -> Option<u64> {
        [self.meta.oldest_tombstone_ms, self.under_deletes_ms].into_iter().flatten().min()
    }

    /// The part of the blocks that is dense with tombstones; of the entries that are tombstones, where blocks were not counted.
    pub fn tombstone_density(&self) -> f64 {
        let meta = &self.meta;
        let (part, whole) = match meta.blocks {
            0 => (meta.tombstones, meta.entries),
            blocks => (meta.dense_blocks, blocks),
        };
        part as f64 / whole.max(1) as f64
    }

    /// The part of the entries that are tombstones.
    pub fn tombstone_part(&self) -> f64 {
        self.meta.tombstones as f64 / self.meta.entries.max(1) as f64
    }

    /// Visible bytes: the file's, in the share of entries not yet consumed.
    pub fn bytes(&self) -> u64 {
        if self.consumed == 0 {
            return self.meta.bytes;
        }
        let left = self.meta.entries.saturating_sub(self.consumed);
        (u128::from(self.meta.bytes) * u128::from(left) / u128::from(self.meta.entries.max(1))) as u64
    }
}

/// Tables that do not overlap, ascending. Searched by binary search.
#[derive(Debug)]
pub struct SortedRun {
    /// Never reused.
    pub id: RunId,
    /// Ascending, disjoint.
    pub tables: Vec<TableRef>,
    totals: OnceLock<Totals>,
    /// Apart from the totals, which clients do not make.
    has_range_tombstones: OnceLock<bool>,
    /// Apart as well: only where deletes have a time is it looked at.
    by_delete: OnceLock<Box<[(u64, u32)]>>,
}

/// From so many tables on heads of their bounds are searched, and not the bounds.
const MANY: usize = 32;

/// What a run's tables add up to, found out once: decisions look at it each time.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Visible bytes of all tables before each, and of all at the end.
    pub bytes_before: Box<[u64]>,
    /// When the first of the tables came to the level, wall milliseconds.
    pub oldest_arrival_ms: Option<u64>,
    /// When the oldest delete was acknowledged of which a table holds traces, wall milliseconds.
    pub oldest_delete_ms: Option<u64>,
    /// The most that a table is dense with tombstones.
    pub densest: f64,
    /// The largest part of a table's entries that are tombstones.
    pub most_tombstones: f64,
    /// Of where tables begin.
    begins: Heads,
    /// Of where tables end; a last one without an end is left out.
    ends: Heads,
}

/// A copy is made to be changed.
impl Clone for SortedRun {
    fn clone(&self) -> SortedRun {
        SortedRun::new(self.id, self.tables.clone())
    }
}

impl SortedRun {
    /// A run of these tables, which ascend and do not overlap.
    pub fn new(id: RunId, tables: Vec<TableRef>) -> SortedRun {
        SortedRun {
            id,
            tables,
            totals: OnceLock::new(),
            has_range_tombstones: OnceLock::new(),
            by_delete: OnceLock::new(),
        }
    }

    /// What its tables add up to.
    pub fn totals(&self) -> &Totals {
        self.totals.get_or_init(|| {
            let sum = |sum: &mut u64, bytes: u64| Some(std::mem::replace(sum, *sum + bytes));
            let bytes = self.tables.iter().map(TableRef::bytes).chain([0]);
            Totals {
                bytes_before: bytes.scan(0, sum).collect(),
                oldest_arrival_ms: self.tables.iter().map(|t| t.entered_level_ms).min(),
                oldest_delete_ms: self.tables.iter().filter_map(TableRef::oldest_delete_ms).min(),
                densest: self.tables.iter().map(TableRef::tombstone_density).fold(0.0, f64::max),
                most_tombstones: self.tables.iter().map(TableRef::tombstone_part).fold(0.0, f64::max),
                begins: Heads::new(self.tables.iter().map(|t| &t.bounds.lo)),
                ends: Heads::new(self.tables.iter().filter_map(|t| t.bounds.hi.as_ref())),
            }
        })
    }

    /// To be called by whoever changes tables.
    pub fn changed(&mut self) -> &mut SortedRun {
        self.totals = OnceLock::new();
        self.has_range_tombstones = OnceLock::new();
        self.by_delete = OnceLock::new();
        self
    }

    /// True if a table has range tombstones, whether they are visible or not.
    pub fn has_range_tombstones(&self) -> bool {
        *self.has_range_tombstones.get_or_init(|| self.tables.iter().any(|t| t.meta.range_tombstones > 0))
    }

    /// The tables with traces of deletes, from the oldest delete on, with when that was acknowledged, wall milliseconds.
    pub fn by_delete(&self) -> impl Iterator<Item = (u64, &TableRef)> {
        let found = self.by_delete.get_or_init(|| {
            let since = self.tables.iter().zip(0_u32..).filter_map(|(t, i)| Some((t.oldest_delete_ms()?, i)));
            let mut found: Box<[(u64, u32)]> = since.collect();
            found.sort_unstable();
            found
        });
        found.iter().filter_map(|(since, i)| Some((*since, self.tables.get(*i as usize)?)))
    }

    /// The table whose visible part covers `key`.
    #[inline]
    pub fn table_for(&self, key: &[u8]) -> Option<&TableRef> {
        let above = if self.tables.len() < MANY {
            self.tables.partition_point(|t| &t.bounds.lo[..] <= key)
        } else {
            self.begun_by(key)
        };
        let table = self.tables.get(above.checked_sub(1)?)?;
        table.bounds.is_below_end(key).then_some(table)
    }

    /// How many of many tables begin at or below `key`; by itself, so that a get among few carries none of it.
    #[inline(never)]
    fn begun_by(&self, key: &[u8]) -> usize {
        let near = self.heads().map_or(0..self.tables.len(), |totals| totals.begins.like(key, 0));
        near.start + self.part(near).partition_point(|t| &t.bounds.lo[..] <= key)
    }

    /// The tables that overlap `range`.
    pub fn overlapping(&self, range: &KeyRange) -> &[TableRef] {
        self.tables.get(self.overlapping_range(range)).unwrap_or_default()
    }

    /// The indices of the tables that overlap `range`.
    pub fn overlapping_range(&self, range: &KeyRange) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        if self.heads().is_some() {
            return self.overlapping_after(range, [None; 2], 0);
        }
        let from = self.tables.partition_point(|t| ends_at_or_below(t, &range.lo));
        let to = self.tables.partition_point(|t| range.is_below_end(&t.bounds.lo));
        from..to.max(from)
    }

    /// For tables of another run, by index and ascending, the tables of this one that each overlaps. Found in one walk beside each
    /// other, which looks at heads of bounds and hardly at a bound.
    pub fn overlapping_each<'a>(
        &'a self,
        other: &'a SortedRun,
        tables: impl Iterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let (own, theirs) = (self.totals(), other.totals());
        let lo_alike = own.ends.shares_with(&theirs.begins);
        let hi_alike = own.begins.shares_with(&theirs.ends);
        let mut below = 0;
        tables.map(move |index| {
            let Some(table) = other.tables.get(index) else { return 0..0 };
            let lo = theirs.begins.get(index).filter(|_| lo_alike);
            let hi = theirs.ends.get(index).filter(|_| hi_alike);
            let found = self.overlapping_after(&table.bounds, [lo, hi], below);
            // The last of them may go on under the next table.
            below = found.start.max(found.end.saturating_sub(1));
            found
        })
    }

    /// Those that overlap a range that is not empty, where the first `below` tables are known to end at or below it, and the heads of
    /// its bounds may be.
    fn overlapping_after(&self, range: &KeyRange, heads: [Option<u64>; 2], below: usize) -> Range<usize> {
        let totals = self.totals();
        let like = |heads: &Heads, head: Option<u64>, key: &[u8], from: usize| match head {
            Some(head) => heads.headed(head, from),
            None => heads.like(key, from),
        };
        let near = like(&totals.ends, heads[0], &range.lo, below);
        let from = near.start + self.part(near).partition_point(|t| ends_at_or_below(t, &range.lo));
        let Some(hi) = range.hi.as_deref() else { return from..self.tables.len() };
        let near = like(&totals.begins, heads[1], hi, from);
        from..near.start + self.part(near).partition_point(|t| &t.bounds.lo[..] < hi)
    }

    /// Heads, where it is worth it: clients do not make them, who picks compactions does.
    fn heads(&self) -> Option<&Totals> {
        if self.tables.len() >= MANY { self.totals.get() } else { None }
    }

    fn part(&self, of: Range<usize>) -> &[TableRef] {
        self.tables.get(of).unwrap_or_default()
    }

    /// True if some table of `other` overlaps one of this run.
    pub fn overlaps_run(&self, other: &SortedRun) -> bool {
        let (few, many) = if self.tables.len() <= other.tables.len() { (self, other) } else { (other, self) };
        few.tables.iter().any(|t| !many.overlapping(&t.bounds).is_empty())
    }

    /// Visible bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.totals().bytes_before.last().copied().unwrap_or(0)
    }
}

fn ends_at_or_below(table: &TableRef, key: &[u8]) -> bool {
    table.bounds.hi.as_deref().is_some_and(|hi| hi <= key)
}
