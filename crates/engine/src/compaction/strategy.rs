//! A strategy is a value: for each level a layout, triggers, a granularity and movements (CDS §3.1), and sizes.
//!
//! Nothing in the engine asks for a strategy's name. The picker reads these values and nothing else, so every
//! combination works, whether the papers name it or not. `strategy_text.rs` is the one-line form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base::units::{GIB, MIB};
use crate::hotness::temperature::{HYSTERESIS, Theta};
use crate::version::group::Group;

/// A value for each level.
#[derive(Clone, Debug, PartialEq)]
pub struct PerLevel<T> {
    /// For L0.
    pub first: T,
    /// For the levels between.
    pub rest: T,
    /// For the deepest level, unless that is L0.
    pub last: T,
    /// For certain levels, before all others.
    pub at: BTreeMap<usize, T>,
}

impl<T: Clone> PerLevel<T> {
    /// The same value everywhere.
    pub fn same(value: T) -> PerLevel<T> {
        PerLevel { first: value.clone(), rest: value.clone(), last: value, at: BTreeMap::new() }
    }
}

impl<T> PerLevel<T> {
    /// What each value becomes.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> PerLevel<U> {
        let PerLevel { first, rest, last, at } = self;
        let at = at.into_iter().map(|(level, value)| (level, of(value))).collect();
        PerLevel { first: of(first), rest: of(rest), last: of(last), at }
    }

    /// The value for `level` in a tree of `levels` levels.
    pub fn get(&self, level: usize, levels: usize) -> &T {
        match self.at.get(&level) {
            Some(value) => value,
            None if level == 0 => &self.first,
            None if level + 1 >= levels => &self.last,
            None => &self.rest,
        }
    }

    /// L0's own.
    pub fn l0_mut(&mut self) -> &mut T {
        self.at.get_mut(&0).unwrap_or(&mut self.first)
    }

    /// Every value with the name of its segment in the text form.
    pub fn named(&self) -> impl Iterator<Item = (String, &T)> {
        let fixed = [("all levels", &self.rest), ("L0", &self.first), ("last", &self.last)];
        let at = self.at.iter().map(|(level, value)| (format!("L{level}"), value));
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(at)
    }
}

/// How many runs a group may have (eagerness, CDS §3.1.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// At most `max` runs: 1 is leveling, the size ratio is tiering.
    Runs {
        /// The most runs.
        max: u32,
        /// An arrival joins the newest run while that stays within its share of the capacity.
        fill: bool,
    },
    /// The level is divided into groups by heat, each with a bound of its own (LTG §III.C).
    ByHeat(HeatRule),
}

/// How a level is divided into hot and cold groups; `regroup.rs` reads it against a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatRule {
    /// The most runs of a hot group; 1 is leveling.
    pub hot: u32,
    /// The most runs of a cold group, more than that.
    pub cold: u32,
    /// What is hot.
    pub theta: Theta,
    /// So far below θ what is hot turns cold, and so far above it what is cold turns hot.
    pub hysteresis: f32,
    /// The most groups of a level, at least 1; groups that cannot be joined now may be more.
    pub groups_max: u32,
    /// A stretch of less than so many tables of the usual size goes with its neighbour.
    pub tables_min: u32,
}

impl HeatRule {
    /// With the usual θ, hysteresis and size of groups.
    pub fn new(hot: u32, cold: u32) -> HeatRule {
        let (theta, hysteresis) = (Theta::Relative(0.7), HYSTERESIS as f32);
        HeatRule { hot, cold, theta, hysteresis, groups_max: 64, tables_min: 2 }
    }

    /// True if a group is kept as a hot one is, by the bound that it has in the tree.
    pub fn is_hot(&self, group: &Group) -> bool {
        group.run_bound <= self.hot
    }
}

/// What a level's saturation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saturation {
    /// Bytes against the capacity.
    Bytes,
    /// Tables against the capacity in tables of the usual size.
    Count,
}

/// What starts a compaction (CDS §3.1.1; the last three are of others).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The level is full.
    Saturation(Saturation),
    /// A group has as many runs as it may have.
    Runs,
    /// A table has been in its level for so long.
    Staleness {
        /// The longest stay.
        limit_ms: u64,
    },
    /// What is superseded has so many times the bytes of what is not.
    SpaceAmp {
        /// Superseded bytes per byte that is not.
        limit: f32,
    },
    /// A delete has not come far enough down to be gone in time.
    TombstoneTtl {
        /// Gone from every file so long after it was acknowledged.
        ttl_ms: u64,
    },
    /// So large a part of a table's blocks is dense with tombstones (Pebble).
    TombstoneDensity {
        /// Dense blocks per block.
        limit: f32,
    },
    /// A table with others below it is looked into so often that merging it pays (LevelDB's seek budget).
    ReadHeat {
        /// One look for so many bytes of the table.
        bytes_per_read: u64,
    },
    /// So many of L0's entries are superseded within L0, or it has that many runs (TRIAD).
    Duplicates {
        /// Superseded entries per entry.
        limit: f32,
        /// Fires at so many runs whatever they hold.
        runs_max: u32,
    },
}

/// How much one compaction takes (CDS §3.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// The whole level, in one job.
    Level,
    /// All runs of a group.
    Runs,
    /// One table.
    File,
    /// Neighbouring tables of about so many bytes.
    Files {
        /// The size aimed at.
        bytes: u64,
    },
}

/// Which level the overlap is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    /// The next level, the compaction's target.
    Parent,
    /// The level after the next.
    Grandparent,
}

/// What a table's heat is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// The last read of it (CDS §3.1.4).
    Access,
    /// The newest write in it (the authors' artifact).
    Write,
}

/// Which table goes first (data movement policy, CDS §3.1.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Movement {
    /// The next one in key order after the last.
    RoundRobin,
    /// The one with the least overlapping bytes per own byte.
    LeastOverlap(Relative),
    /// The coldest one.
    Coldest(Heat),
    /// The one with the smallest sequence number.
    Oldest,
    /// The one with the most tombstones (CDS Table 2, TSD).
    MostTombstones,
    /// The one with the most tombstones per entry, of those with more than the threshold; the others are equal.
    TombstoneDensity {
        /// Tombstones per entry.
        above: f32,
    },
    /// Of those with a delete that is due the one with the oldest; the others are equal.
    Expired,
}

/// The four primitives for one level. Lists are in order: the first trigger that fires wins, and a later movement decides
/// between equals of an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelPolicy {
    /// How many runs.
    pub layout: Layout,
    /// When.
    pub triggers: Vec<Trigger>,
    /// How much.
    pub granularity: Granularity,
    /// Which; empty where the granularity takes everything.
    pub movement: Vec<Movement>,
}

/// What a level's size is measured from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// From the first level downward: when the last level is full, a new one is born below.
    Fixed,
    /// From the last level upward: a new one is born just below L0 when the first one's goal exceeds the base, and one that
    /// is too many is emptied and goes. Little of what is on disk is superseded, however full the last level is.
    #[default]
    Dynamic,
}

/// How large levels may be; `level_sizes.rs` reads it against a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRule {
    /// L0's capacity for the saturation trigger, and what a leveled L0 may hold.
    pub l0_bytes: u64,
    /// With dynamic sizes L0's capacity, and its runs with it, rise to this much where it is merged with a level twice as large:
    /// then a byte of L0 drags at most two along. The same as `l0_bytes` keeps L0 as it is.
    pub l0_bytes_max: u64,
    /// L1's capacity with fixed sizes, the most it may have with dynamic ones.
    pub level_base_bytes: u64,
    /// Each further level holds so many times as much as the one above.
    pub level_ratio: u64,
    /// From which end.
    pub sizes: Sizes,
}

impl Default for SizeRule {
    fn default() -> SizeRule {
        SizeRule {
            l0_bytes: 256 * MIB,
            l0_bytes_max: 512 * MIB,
            level_base_bytes: GIB,
            level_ratio: 10,
            sizes: Sizes::default(),
        }
    }
}

impl SizeRule {
    /// True if no bytes were stated: then the store's options say them.
    pub fn has_default_bytes(&self) -> bool {
        *self == SizeRule { sizes: self.sizes, ..SizeRule::default() }
    }
}

/// What else than its size ends an output table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Nothing.
    Size,
    /// Once it holds at least half its size, where a table of the level below its own ends: its own later compaction then
    /// drags fewer tables along that it overlaps by a corner only. It may grow to one and a half times its size for that.
    #[default]
    Next,
    /// The same where a table of the last level ends: whatever goes down there later fits (Spooky).
    Last,
}

/// Where output tables end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutRule {
    /// A table is cut at about this size.
    pub table_bytes: u64,
    /// And where else.
    pub align: Align,
}

impl Default for CutRule {
    fn default() -> CutRule {
        CutRule { table_bytes: 32 * MIB, align: Align::default() }
    }
}

/// Filter bits per key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterBits {
    /// So many.
    Exactly(f32),
    /// So many more than the store's `filter_bits`, or less; none where that is 0, else 1 to 64.
    Beside(f32),
}

impl Default for FilterBits {
    fn default() -> FilterBits {
        FilterBits::Beside(0.0)
    }
}

impl FilterBits {
    /// The most there may be.
    pub const MAX: f32 = 64.0;

    /// How many in a store of so many.
    pub fn of(self, store: f32) -> f32 {
        match self {
            FilterBits::Exactly(bits) => bits,
            FilterBits::Beside(0.0) => store,
            FilterBits::Beside(_) if store <= 0.0 => 0.0,
            FilterBits::Beside(more) => (store + more).clamp(1.0, FilterBits::MAX),
        }
    }
}

/// How a keyspace's tree is kept in shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// The primitives by level.
    pub levels: PerLevel<LevelPolicy>,
    /// The levels' sizes.
    pub size: SizeRule,
    /// The tables' sizes.
    pub cut: CutRule,
    /// Filter bits per key by level; those of the last one are for what has nothing older below it.
    pub filter_bits: PerLevel<FilterBits>,
}

impl Layout {
    /// The most runs a new group may have; of which nothing is known yet, so by heat it is as if it were hot.
    pub fn max_runs(self) -> u32 {
        match self {
            Layout::Runs { max, .. } => max,
            Layout::ByHeat(rule) => rule.hot,
        }
    }

    /// What it comes to for a group.
    pub fn of_group(self, group: &Group) -> Layout {
        match self {
            Layout::Runs { .. } => self,
            Layout::ByHeat(rule) if rule.is_hot(group) => Layout::Runs { max: rule.hot, fill: false },
            Layout::ByHeat(rule) => Layout::Runs { max: rule.cold, fill: false },
        }
    }
}

impl Granularity {
    /// True if a movement chooses among tables.
    pub fn needs_movement(self) -> bool {
        matches!(self, Granularity::File | Granularity::Files { .. })
    }
}

impl Trigger {
    /// True if single tables cause it: these are what is then compacted.
    pub fn is_about_tables(self) -> bool {
        matches!(
            self,
            Trigger::Staleness { .. }
                | Trigger::TombstoneTtl { .. }
                | Trigger::TombstoneDensity { .. }
                | Trigger::ReadHeat { .. }
        )
    }
}

impl LevelPolicy {
    /// What it comes to for a group. A cold group waits for all its runs and goes as a whole; that a hot one has several
    /// is no reason to send it down, but to merge them.
    pub fn of_group(&self, group: &Group) -> Cow<'_, LevelPolicy> {
        let Layout::ByHeat(rule) = self.layout else { return Cow::Borrowed(self) };
        let mut own = LevelPolicy { layout: self.layout.of_group(group), ..self.clone() };
        if !rule.is_hot(group) {
            (own.granularity, own.movement) = (Granularity::Runs, Vec::new());
        } else if rule.hot == 1 {
            own.triggers.retain(|trigger| *trigger != Trigger::Runs);
        }
        Cow::Owned(own)
    }

    /// In what time deletes are to be gone, if the level has a trigger for that.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.triggers.iter().find_map(|trigger| match trigger {
            Trigger::TombstoneTtl { ttl_ms } => Some(*ttl_ms),
            _ => None,
        })
    }
}

impl Strategy {
    /// Filter bits of what is written into a level of so many: those of the last one are for its oldest data, and what lies above older
    /// data has as many there as in the levels above.
    pub fn filter_bits_at(&self, level: usize, levels: usize, is_above: bool) -> FilterBits {
        *self.filter_bits.get(level, if is_above { levels.max(level + 2) } else { levels })
    }

    /// In what time deletes are to be gone from every file; the same at every level.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.levels.rest.ttl_ms()
    }

    /// The same, but L0 waits half as long until it is worth what it is merged with, and where all of it goes into one run goes with half
    /// as many runs. What is only put beside others below gains nothing by that.
    #[must_use]
    pub fn with_early_l0(&self) -> Strategy {
        let mut strategy = self.clone();
        strategy.size.l0_bytes_max = self.size.l0_bytes.midpoint(self.size.l0_bytes_max);
        let is_merged_below = self.levels.get(1, usize::MAX).layout.max_runs() == 1;
        let l0 = strategy.levels.l0_mut();
        let goes_whole = matches!(l0.granularity, Granularity::Runs | Granularity::Level);
        if let (Layout::Runs { max, .. }, true) = (&mut l0.layout, is_merged_below && goes_whole) {
            *max = (*max / 2).max(2).min(*max);
        }
        strategy
    }

    /// The same, but L0 waits for nothing: all of it is to be compacted as soon as it has two runs, or more bytes than it is to have.
    #[must_use]
    pub fn with_eager_l0(&self) -> Strategy {
        let mut strategy = self.clone();
        strategy.size.l0_bytes_max = self.size.l0_bytes;
        let l0 = strategy.levels.l0_mut();
        l0.triggers = vec![Trigger::Runs, Trigger::Saturation(Saturation::Bytes)];
        (l0.granularity, l0.movement) = (Granularity::Runs, Vec::new());
        if let Layout::Runs { max, .. } = &mut l0.layout {
            *max = 2;
        }
        strategy
    }

    /// True if some level has such a trigger.
    pub fn has_trigger(&self, is_wanted: impl Fn(&Trigger) -> bool) -> bool {
        self.levels.named().any(|(_, policy)| policy.triggers.iter().any(&is_wanted))
    }
}
