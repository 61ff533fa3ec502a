//! Strategies by name: the rows of `catalog_rows.rs`, Cassandra's shorthand, and what a wrong name may have meant.

use super::catalog_rows::ALIASES;
pub use super::catalog_rows::{CATALOG, Row};
use super::strategy::Strategy;
use super::strategy_words::did_you_mean;
use crate::base::error::{Error, Result};

/// The strategy of a store that is told nothing else.
pub const DEFAULT: &str = "1-leveling";

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
    if let Some(levels) = name.strip_prefix("ucs:") {
        return unified(levels).map_err(Error::invalid)?.parse();
    }
    match row(name) {
        Some(row) => row.text.parse(),
        None => {
            let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
            let aliases = ALIASES.iter().map(|(alias, _)| *alias);
            let meant = did_you_mean(name, &names.iter().copied().chain(aliases).collect::<Vec<_>>());
            let names = names.join(" ");
            Err(Error::invalid(format!(
                "strategy {} is unknown{meant}; valid are {names}, or one written out",
                if name.is_empty() { "``" } else { name }
            )))
        }
    }
}

/// Cassandra's unified strategy: a word a level, the last one for all that follow. The fanout is the store's size ratio.
fn unified(levels: &str) -> Result<String, String> {
    let policy = |word: &str| {
        let wrong = || {
            format!(
                "strategy ucs: {word} is no level; write T4 for 4 runs, N for 2, L10 for leveling, as in ucs:T8,N,L10"
            )
        };
        let tiered = |runs: u32| format!("when=runs,saturation how=runs:{runs} much=runs");
        match (word.split_at_checked(1), word) {
            (_, "N") => Ok(tiered(2)),
            (Some(("T", runs)), _) => runs.parse().ok().filter(|n| *n >= 2).map(tiered).ok_or_else(wrong),
            (Some(("L", ratio)), _) if ratio.parse::<u32>().is_ok_and(|n| n >= 2) => {
                Ok("when=saturation how=runs:1 much=file which=least-overlap-parent".to_owned())
            }
            _ => Err(wrong()),
        }
    };
    let policies: Vec<String> =
        levels.split(',').map(|word| policy(word.trim())).collect::<Result<_, _>>()?;
    let mut text = policies.last().cloned().unwrap_or_default();
    for (level, policy) in policies.iter().enumerate().take(policies.len().saturating_sub(1)) {
        text += &format!("; L{level}: {policy}");
    }
    Ok(text)
}

/// The name of the first row that is this strategy but for its sizes and filters.
pub fn name_of(strategy: &Strategy) -> Option<&'static str> {
    let same = |row: &&Row| {
        let of_row = row.text.parse::<Strategy>();
        of_row.is_ok_and(|s| s.levels == strategy.levels && s.cut.align == strategy.cut.align)
    };
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
            let named = strategy(name_of(&parsed).unwrap()).unwrap();
            assert_eq!((&named.levels, named.cut), (&parsed.levels, parsed.cut), "{}", row.name);
        }
        assert_eq!(name_of(&strategy("leveling").unwrap()), Some("lo+1"));
        assert!(row(DEFAULT).is_some() && CATALOG.iter().all(|r| ALIASES.iter().all(|(a, _)| *a != r.name)));
        assert!(ALIASES.iter().all(|(_, name)| CATALOG.iter().any(|row| row.name == *name)));
    }

    #[test]
    fn the_paper_has_its_rows() {
        let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
        assert_eq!(names[..9], ["full", "lo+1", "cold", "old", "tsd", "rr", "lo+2", "tsa", "tier"]);
        assert_eq!(CATALOG.iter().filter(|row| row.source.starts_with("CDS Table 2")).count(), 9);
        assert_eq!(CATALOG.iter().filter(|row| row.source.starts_with("CDS Table 1")).count(), 24);
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
    fn the_unified_strategy_has_a_word_a_level() {
        let parsed = strategy("ucs:T8,N,L10").unwrap();
        let runs = |level| parsed.levels.get(level, 5).layout.max_runs();
        assert_eq!([0, 1, 2, 4].map(runs), [8, 2, 1, 1]);
        assert_eq!(strategy("ucs:T4").unwrap().levels, strategy("ucs").unwrap().levels);
        for wrong in ["ucs:", "ucs:T1", "ucs:X4", "ucs:T4,,L4", "ucs:L"] {
            let error = strategy(wrong).unwrap_err().to_string();
            assert!(error.contains("write T4 for 4 runs"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_and_lists_the_known_ones() {
        let error = strategy("fast").unwrap_err().to_string();
        assert!(error.starts_with("strategy fast is unknown; valid are full lo+1"), "{error}");
        let error = strategy("teir").unwrap_err().to_string();
        assert!(error.starts_with("strategy teir is unknown, did you mean tier?; valid are"), "{error}");
        assert!(strategy("when=runs how=runs:3 much=runs").is_ok());
    }
}
