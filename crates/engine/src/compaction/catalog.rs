//! The strategies of the design-space paper by name (CDS Table 2), as data. Names of strategies appear as strings only
//! here; everything else handles values.
//!
//! House numbering: the paper's Level 1, the first on disk, is our L0. Its size ratio for run counts is 4 here, as in the
//! systems it measured, so that L0 holds the usual four flushes.

use super::strategy::Strategy;
use crate::base::error::{Error, Result};

/// One named strategy.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in options and on the command line.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The strategy itself.
    pub text: &'static str,
}

/// The strategy of a store that is told nothing else.
pub const DEFAULT: &str = "1-leveling";

/// Every named strategy.
pub const CATALOG: &[Row] = &[
    Row {
        name: "full",
        source: "CDS Table 2, Full",
        about: "Leveling that merges a whole level with the next when it is full.",
        text: "when=saturation how=runs:1 much=level",
    },
    Row {
        name: "lo+1",
        source: "CDS Table 2, LO+1",
        about: "Leveling that moves the file with the least overlap with the next level.",
        text: "when=saturation how=runs:1 much=file which=least-overlap-parent",
    },
    Row {
        name: "lo+2",
        source: "CDS Table 2, LO+2",
        about: "Leveling that moves the file with the least overlap with the level after the next.",
        text: "when=saturation how=runs:1 much=file which=least-overlap-grandparent",
    },
    Row {
        name: "rr",
        source: "CDS Table 2, RR",
        about: "Leveling that moves files in key order, going on where it stopped.",
        text: "when=saturation how=runs:1 much=file which=round-robin",
    },
    Row {
        name: "old",
        source: "CDS Table 2, Old",
        about: "Leveling that moves the file with the smallest sequence number.",
        text: "when=saturation how=runs:1 much=file which=oldest",
    },
    Row {
        name: "cold-write",
        source: "CDS §5, the authors' artifact for Cold (recency of writes)",
        about: "Leveling that moves the file whose newest write is the oldest.",
        text: "when=saturation how=runs:1 much=file which=coldest-write",
    },
    Row {
        name: "tier",
        source: "CDS Table 2, Tier; it names saturation, which for runs of equal size is the number of runs",
        about: "Tiering that merges all runs of a level into one of the next when there are four.",
        text: "when=runs how=runs:4 much=runs",
    },
    Row {
        name: "1-leveling",
        source: "CDS §3.1.2 and the authors' artifact",
        about: "Tiering in the first level, leveling with least overlap below: few stalls, few runs to read.",
        text: "when=saturation how=runs:1 much=file which=least-overlap-parent; \
               L0: when=runs,saturation how=runs:4 much=runs",
    },
    Row {
        name: "l-leveling",
        source: "CDS §3.1.2, Dostoevsky's lazy leveling",
        about: "Leveling in the last level, tiering above: cheap writes, one run where most data is.",
        text: "when=runs how=runs:4 much=runs; last: when=saturation how=runs:1 much=level",
    },
];

/// Other names for rows.
const ALIASES: &[(&str, &str)] = &[("leveling", "lo+1"), ("lazy-leveling", "l-leveling")];

/// The row with this name.
pub fn row(name: &str) -> Option<&'static Row> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    CATALOG.iter().find(|row| row.name == name)
}

/// The strategy with this name, or, if it has a `=`, the one written out.
pub fn strategy(name: &str) -> Result<Strategy> {
    if name.contains('=') {
        return name.parse();
    }
    match row(name) {
        Some(row) => row.text.parse(),
        None => {
            let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
            let names = names.join(" ");
            Err(Error::invalid(format!("strategy {name} is unknown; valid are {names}, or one written out")))
        }
    }
}

/// The name of the row that is this strategy but for its sizes and filters.
pub fn name_of(strategy: &Strategy) -> Option<&'static str> {
    let same = |row: &&Row| row.text.parse::<Strategy>().is_ok_and(|s| s.levels == strategy.levels);
    CATALOG.iter().find(same).map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_parses_prints_and_is_found_by_name() {
        for row in CATALOG {
            let parsed = strategy(row.name).unwrap();
            let printed = parsed.to_string();
            assert_eq!(printed.parse::<Strategy>().unwrap(), parsed, "{printed}");
            assert_eq!(name_of(&parsed), Some(row.name));
        }
        assert_eq!(name_of(&strategy("leveling").unwrap()), Some("lo+1"));
        assert!(row(DEFAULT).is_some());
    }

    #[test]
    fn the_documentation_has_every_row_and_only_lines_that_parse() {
        let page = include_str!("../../../../docs/compaction.md");
        for row in CATALOG {
            let line = |l: &&str| {
                l.starts_with(&format!("| `{}`", row.name)) && l.ends_with(&format!("| `{}` |", row.text))
            };
            assert_eq!(page.lines().filter(line).count(), 1, "{}", row.name);
        }
        let lines: Vec<&str> = page.lines().filter(|l| l.starts_with("when=")).collect();
        assert!(lines.len() >= 4, "the examples are gone");
        for line in lines {
            assert!(strategy(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = strategy("fast").unwrap_err().to_string();
        assert!(error.starts_with("strategy fast is unknown; valid are full lo+1"), "{error}");
        assert!(strategy("when=runs how=runs:3 much=runs").is_ok());
    }
}
