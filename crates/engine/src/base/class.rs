//! Classes of work: whose I/O and CPU it is. The scheduler knows these, and bytes, and nothing of tables.

use std::fmt;

use super::units::TableId;

/// Internal work, most urgent first (SILK §5.1: flush, then L0→L1, then the rest).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A memtable to the first level.
    Flush,
    /// Runs of the first level among themselves.
    IntraL0,
    /// The first level to the next.
    L0ToL1,
    /// Any deeper level.
    Deep,
    /// Shape and housekeeping work that nothing waits for.
    Upkeep,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 5] = [Class::Flush, Class::IntraL0, Class::L0ToL1, Class::Deep, Class::Upkeep];

    /// Less is more urgent. Merges within L0 are as urgent as those out of it, first come first served: they are made while
    /// one of these is under way, and would keep it from its end for ever.
    pub fn urgency(self) -> u8 {
        if self == Class::L0ToL1 { Class::IntraL0 as u8 } else { self as u8 }
    }

    /// True for compactions that take tables of the first level.
    pub fn is_l0(self) -> bool {
        matches!(self, Class::IntraL0 | Class::L0ToL1)
    }

    /// True if work of this class should not wait for an open job of that one (SILK §5.1): the first level before deeper ones, and
    /// anything before upkeep.
    pub fn is_ahead_of(self, holder: Class) -> bool {
        self < holder && holder >= Class::Deep
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Flush => "flush",
            Class::IntraL0 => "intra-l0",
            Class::L0ToL1 => "l0-to-l1",
            Class::Deep => "deep",
            Class::Upkeep => "upkeep",
        })
    }
}

/// Whose bytes they are; every read and write of a file is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoClass {
    /// Reads on behalf of a client.
    Client,
    /// The write-ahead log.
    Wal,
    /// The manifest and other small files.
    Manifest,
    /// Measuring the device's speed.
    Test,
    /// Background work of a class.
    Background(Class),
}

impl IoClass {
    /// How many indices [`IoClass::index`] uses.
    pub const COUNT: usize = 9;

    /// A small number for arrays of counters.
    pub fn index(self) -> usize {
        match self {
            IoClass::Client => 0,
            IoClass::Wal => 1,
            IoClass::Manifest => 2,
            IoClass::Test => 3,
            IoClass::Background(class) => 4 + class as usize,
        }
    }
}

/// What compactions of the first level may do (DLC §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L0Permit {
    /// Anything.
    Full,
    /// Only merges within the first level; with `flush_born`, only of tables that flushes made.
    IntraOnly {
        /// Leave outputs of earlier merges alone.
        flush_born: bool,
    },
}

/// What may be picked now: the part of a scheduler's directive that the picker sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Classes that may start.
    pub classes: Vec<Class>,
    /// What the first level may do.
    pub l0: L0Permit,
    /// At most so many compactions bring the first level down at a time; `None`: as many as have different tables.
    pub l0_down_max: Option<u32>,
    /// Tables that nothing may take: what had them has failed.
    pub resting: Vec<TableId>,
    /// Largest input of one compaction in bytes; the smallest is taken if all are larger.
    pub max_bytes: u64,
}

impl Permit {
    /// Everything, of any size.
    pub fn everything() -> Permit {
        let classes = Class::ALL.to_vec();
        Permit { classes, l0: L0Permit::Full, l0_down_max: None, resting: Vec::new(), max_bytes: u64::MAX }
    }

    /// True if work of this class may start.
    pub fn allows(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }
}
