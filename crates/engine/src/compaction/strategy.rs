//! A strategy is a value: for each level a layout, triggers, a granularity and movements (CDS §3.1), and sizes.
//!
//! Nothing in the engine asks for a strategy's name. The picker reads these values and nothing else, so every
//! combination works, whether the papers name it or not. `strategy_text.rs` is the one-line form.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::units::{GIB, MIB};

/// No table is cut at more than this.
const TABLE_BYTES_MAX: u64 = 4 * GIB;

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
    /// The value for `level` in a tree of `levels` levels.
    pub fn get(&self, level: usize, levels: usize) -> &T {
        match self.at.get(&level) {
            Some(value) => value,
            None if level == 0 => &self.first,
            None if level + 1 >= levels => &self.last,
            None => &self.rest,
        }
    }

    /// Every value with the name of its segment in the text form.
    pub fn named(&self) -> impl Iterator<Item = (String, &T)> {
        let fixed = [("all levels", &self.rest), ("L0", &self.first), ("last", &self.last)];
        let at = self.at.iter().map(|(level, value)| (format!("L{level}"), value));
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(at)
    }
}

/// How many runs a group may have (eagerness, CDS §3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// At most `max` runs: 1 is leveling, the size ratio is tiering.
    Runs {
        /// The most runs.
        max: u32,
        /// An arrival joins the newest run while that stays within its share of the capacity.
        fill: bool,
    },
}

/// What a level's saturation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saturation {
    /// Bytes against the capacity.
    Bytes,
    /// Tables against the capacity in tables of the usual size (CDS-3).
    Count,
}

/// What starts a compaction (CDS §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The level is full.
    Saturation(Saturation),
    /// A group has as many runs as it may have.
    Runs,
}

/// How much one compaction takes (CDS §3.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// The whole level, in one job (CDS-9).
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
    /// The newest write in it.
    Write,
}

/// Which table goes first (data movement policy, CDS §3.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// The next one in key order after the last (CDS-10).
    RoundRobin,
    /// The one with the least overlapping bytes per own byte (CDS-11).
    LeastOverlap(Relative),
    /// The coldest one (CDS-12).
    Coldest(Heat),
    /// The one with the smallest sequence number (CDS-13).
    Oldest,
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

/// How a keyspace's tree is kept in shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// The primitives by level.
    pub levels: PerLevel<LevelPolicy>,
    /// The levels' sizes.
    pub size: SizeRule,
    /// The tables' sizes.
    pub cut: CutRule,
    /// Filter bits per key by level.
    pub filter_bits: PerLevel<f32>,
}

impl Layout {
    /// The most runs a group may have.
    pub fn max_runs(self) -> u32 {
        match self {
            Layout::Runs { max, .. } => max,
        }
    }
}

impl Granularity {
    /// True if a movement chooses among tables.
    pub fn needs_movement(self) -> bool {
        matches!(self, Granularity::File | Granularity::Files { .. })
    }
}

impl Strategy {
    /// Refuses values that cannot work, naming the field and what would be valid.
    pub fn validate(&self) -> Result<()> {
        for (name, policy) in self.levels.named() {
            validate_policy(policy).map_err(|what| Error::invalid(format!("strategy, {name}: {what}")))?;
        }
        for (name, bits) in self.filter_bits.named() {
            if !(0.0..=64.0).contains(bits) {
                return Err(Error::invalid(format!("strategy, {name}: bits={bits} must be from 0 to 64")));
            }
        }
        let size = &self.size;
        for (name, value, least) in [
            ("l0", size.l0_bytes, 1),
            ("l0, its end,", size.l0_bytes_max, size.l0_bytes),
            ("base", size.level_base_bytes, 1),
            ("ratio", size.level_ratio, 2),
            ("table", self.cut.table_bytes, 1),
        ] {
            if value < least {
                return Err(Error::invalid(format!(
                    "strategy, size: {name}={value} must be at least {least}"
                )));
            }
        }
        // As the option of the same meaning.
        if self.cut.table_bytes > TABLE_BYTES_MAX {
            let table = self.cut.table_bytes;
            return Err(Error::invalid(format!("strategy, size: table={table} must be at most 4GiB")));
        }
        Ok(())
    }
}

fn validate_policy(policy: &LevelPolicy) -> Result<(), String> {
    match policy.layout {
        Layout::Runs { max: 0, .. } => return Err("how=runs:0 must allow at least one run".to_owned()),
        Layout::Runs { max: 1, fill: true } => {
            return Err("how=runs:1:fill has one run to fill anyway; say runs:1".to_owned());
        }
        Layout::Runs { .. } => {}
    }
    if policy.triggers.is_empty() {
        return Err("when= needs at least one trigger".to_owned());
    }
    if let Granularity::Files { bytes: 0 } = policy.granularity {
        return Err("much=files:0 must be at least one byte".to_owned());
    }
    let settled = policy.movement.iter().position(|m| *m == Movement::RoundRobin);
    if settled.is_some_and(|at| at + 1 < policy.movement.len()) {
        return Err("which= has no use after round-robin, which leaves no ties".to_owned());
    }
    match (policy.granularity.needs_movement(), policy.movement.is_empty()) {
        (true, true) => Err("which= is needed, because much= takes single tables".to_owned()),
        (false, false) => Err("which= has no use, because much= takes everything".to_owned()),
        _ => Ok(()),
    }
}
