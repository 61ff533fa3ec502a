//! How hot tables are: the share of recent gets that looked into each (LTG §III.B, equations 4 and 5).
//!
//! The paper keeps the last W gets. Here the stream of gets is cut into slices, at the end of which the tables' counters are
//! read; older slices fade. So a get writes nothing but counters, and that only if it is one of those that are sampled.
//!
//! ```text
//! gets     ├── slice ──┼── slice ──┼── slice ──┤ now        f = Σ keepⁱ looks / Σ keepⁱ gets, i slices ago,
//! a table            made ─────────┼───────────┤            of the gets since it was made
//! ```
//! With `keep` 0 it is the last slice alone.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::units::TableId;

/// What counts as a look into a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LooksOf {
    /// The table's filter let the get pass, so a block was read.
    #[default]
    Probes,
    /// The get's key is within the table's bounds.
    Candidates,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// Which gets of a table.
    pub looks: LooksOf,
    /// A scan counts as well: as a look into each table that it enters.
    pub scans: bool,
}

/// Looks since the table was made or the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Gets whose key is within its bounds.
    pub candidates: u64,
    /// Those of them that its filter let pass.
    pub probes: u64,
    /// Scans that entered it.
    pub entered: u64,
}

/// Operations of a keyspace since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Gets that reached the tables.
    pub gets: u64,
    /// Scans.
    pub scans: u64,
}

impl Counting {
    /// What counts of these.
    pub fn looks(self, looks: Looks) -> u64 {
        let gets = match self.looks {
            LooksOf::Probes => looks.probes,
            LooksOf::Candidates => looks.candidates,
        };
        gets + if self.scans { looks.entered } else { 0 }
    }

    /// What counts of so many operations.
    pub fn operations(self, of: Operations) -> u64 {
        of.gets + if self.scans { of.scans } else { 0 }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.looks {
            LooksOf::Probes => "probes",
            LooksOf::Candidates => "candidates",
        })?;
        f.write_str(if self.scans { "+scans" } else { "" })
    }
}

impl FromStr for Counting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Counting> {
        let (looks, scans) = text.strip_suffix("+scans").map_or((text, false), |looks| (looks, true));
        let looks = match looks {
            "probes" => LooksOf::Probes,
            "candidates" => LooksOf::Candidates,
            _ => {
                let what = "use `probes`, `candidates`, `probes+scans` or `candidates+scans`";
                return Err(Error::invalid(format!("unknown way to count heat `{text}`; {what}")));
            }
        };
        Ok(Counting { looks, scans })
    }
}

/// Looks into the tables of a tree, slice by slice.
#[derive(Clone, Debug, Default)]
pub struct AccessWindow {
    keep: f64,
    tables: HashMap<TableId, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The counter at the end of the last slice.
    counter: u64,
    looks: f64,
    operations: f64,
}

impl AccessWindow {
    /// Nothing seen yet. A slice counts for `keep` of itself, from 0 to 1, after each further one.
    pub fn new(keep: f64) -> AccessWindow {
        AccessWindow { keep, tables: HashMap::new() }
    }

    /// Ends a slice of so many operations: the tables that are there now, each with its counter, and how many operations there
    /// were since it was made, of which the counter tells.
    pub fn end_slice(&mut self, operations: u64, tables: impl IntoIterator<Item = (TableId, u64, u64)>) {
        let old = std::mem::take(&mut self.tables);
        let seen = |(table, counter, since): (TableId, u64, u64)| {
            let seen = match old.get(&table) {
                Some(before) => Seen {
                    counter,
                    looks: before.looks * self.keep + counter.saturating_sub(before.counter) as f64,
                    operations: before.operations * self.keep + operations as f64,
                },
                None => Seen { counter, looks: counter as f64, operations: since as f64 },
            };
            (table, seen)
        };
        self.tables = tables.into_iter().map(seen).collect();
    }

    /// Takes tables to have been looked into by so large a share of operations.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend(&mut self, tables: impl IntoIterator<Item = (TableId, f64)>) {
        // Of so many that nothing foretold weighs against them.
        const OPERATIONS: f64 = 1e12;
        let seen =
            |(table, share)| (table, Seen { counter: 0, looks: share * OPERATIONS, operations: OPERATIONS });
        self.tables = tables.into_iter().map(seen).collect();
    }

    /// The same, and how many operations, as they count now, it is from.
    pub fn counted(&self, table: TableId) -> Option<(f64, f64)> {
        Some((self.heat(table)?, self.tables.get(&table)?.operations))
    }

    /// f: the share of operations that looked into it, 0 to 1; `None` of a table that was not there yet when the last slice ended.
    pub fn heat(&self, table: TableId) -> Option<f64> {
        let seen = self.tables.get(&table)?;
        (seen.operations > 0.0).then(|| (seen.looks / seen.operations).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A slice: which tables are there at its end, and which of them each get looks into.
    type Slice = (Vec<u64>, Vec<Vec<u64>>);

    fn slices() -> impl Strategy<Value = Vec<Slice>> {
        let tables =
            || proptest::collection::btree_set(0..6u64, 0..6).prop_map(|set| set.into_iter().collect());
        let gets = proptest::collection::vec(tables(), 1..12);
        proptest::collection::vec((tables(), gets), 1..8)
    }

    /// A table that is first there at the end of this slice was made after so many of its gets.
    fn made_after(slice: &Slice, table: u64) -> usize {
        table as usize % (slice.1.len() + 1)
    }

    /// Get by get over all that was: what equations 4 and 5 say, with older slices fading.
    fn by_hand(slices: &[Slice], table: u64, keep: f64) -> Option<f64> {
        let was_there = |end: usize| slices[end].0.contains(&table);
        let (mut looks, mut gets) = (0.0, 0.0);
        for end in (0..slices.len()).rev() {
            if !was_there(end) {
                break;
            }
            let is_new = end == 0 || !was_there(end - 1);
            let weight = keep.powi((slices.len() - 1 - end) as i32);
            let seen = &slices[end].1[if is_new { made_after(&slices[end], table) } else { 0 }..];
            gets += weight * seen.len() as f64;
            looks += weight * seen.iter().filter(|get| get.contains(&table)).count() as f64;
            if is_new {
                break;
            }
        }
        (was_there(slices.len() - 1) && gets > 0.0).then(|| looks / gets)
    }

    proptest! {
        #[test]
        fn heat_is_what_counting_every_get_says(slices in slices(), keep in prop_oneof![Just(0.0), 0.1..1.0f64]) {
            let mut window = AccessWindow::new(keep);
            let mut there: Vec<u64> = Vec::new();
            let mut made = std::collections::HashMap::new();
            let mut all = 0;
            for slice in &slices {
                let (tables, gets) = slice;
                for table in tables.iter().filter(|table| !there.contains(table)) {
                    made.insert(*table, all + made_after(slice, *table));
                }
                all += gets.len();
                let stream: Vec<&Vec<u64>> = slices.iter().flat_map(|slice| &slice.1).take(all).collect();
                let found = tables.iter().map(|table| {
                    let since = &stream[made[table]..];
                    let looks = since.iter().filter(|get| get.contains(table)).count() as u64;
                    (TableId(*table), looks, since.len() as u64)
                });
                window.end_slice(gets.len() as u64, found);
                there.clone_from(tables);
            }
            for table in 0..6 {
                match (window.heat(TableId(table)), by_hand(&slices, table, keep)) {
                    (Some(got), Some(want)) => prop_assert!((got - want).abs() < 1e-9, "{table}: {got}, not {want}"),
                    (got, want) => prop_assert_eq!(got, want, "{}", table),
                }
            }
        }
    }

    #[test]
    fn what_counts_is_a_choice() {
        let looks = Looks { candidates: 100, probes: 10, entered: 1 };
        for (looks_of, scans, want) in [
            (LooksOf::Probes, false, (10, 7)),
            (LooksOf::Probes, true, (11, 12)),
            (LooksOf::Candidates, false, (100, 7)),
            (LooksOf::Candidates, true, (101, 12)),
        ] {
            let counting = Counting { looks: looks_of, scans };
            assert_eq!((counting.looks(looks), counting.operations(Operations { gets: 7, scans: 5 })), want);
            assert_eq!(counting.to_string().parse::<Counting>().unwrap(), counting);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "scans", "probes+", "probes+scans+scans", "Probes"] {
            assert_eq!(text.parse::<Counting>().unwrap_err().kind(), "InvalidArgument", "{text}");
        }
    }

    #[test]
    fn a_counter_that_went_back_teaches_nothing_wrong() {
        let mut window = AccessWindow::new(0.5);
        for (operations, counter) in [(10, 900), (10, 3), (10, 400)] {
            window.end_slice(operations, [(TableId(1), counter, operations)]);
            assert!(window.heat(TableId(1)).is_none_or(|heat| (0.0..=1.0).contains(&heat)));
        }
    }
}
