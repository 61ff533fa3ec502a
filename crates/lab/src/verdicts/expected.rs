//! What is wanted of each claim: the bars of `expected.json`, the one place where they are.
//!
//! A bar that changes is a commit of its own that says why; a claim that does not hold is reported as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::comparison::Unit;
use crate::results::comparison_table::{quantity, times};

const TEXT: &str = include_str!("expected.json");

/// What is wanted of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The claim holds if this is met.
    pub bar: Bar,
    /// What is hoped for.
    pub goal: Option<Bar>,
    /// What the paper found that the claim is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
}

/// A limit, of the figure itself in its unit, or of its ratio to the engine that is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// So many times the other's, or more.
    RatioAtLeast(f64),
    /// So many times the other's, or less.
    RatioAtMost(f64),
    /// So much, or more.
    AtLeast(f64),
    /// So much, or less.
    AtMost(f64),
    /// Not less than the first and not more than the second.
    Between(f64, f64),
}

impl Bar {
    /// Whether it is about the ratio.
    pub fn is_ratio(self) -> bool {
        matches!(self, Bar::RatioAtLeast(_) | Bar::RatioAtMost(_))
    }

    /// The limit, of two the lower one.
    pub fn limit(self) -> f64 {
        match self {
            Bar::RatioAtLeast(x)
            | Bar::RatioAtMost(x)
            | Bar::AtLeast(x)
            | Bar::AtMost(x)
            | Bar::Between(x, _) => x,
        }
    }

    /// Whether a figure, or a ratio, meets it.
    pub fn met(self, found: f64) -> bool {
        match self {
            Bar::RatioAtLeast(x) | Bar::AtLeast(x) => found >= x,
            Bar::RatioAtMost(x) | Bar::AtMost(x) => found <= x,
            Bar::Between(low, high) => (low..=high).contains(&found),
        }
    }

    /// For people; figures are in `unit`.
    pub fn text(self, unit: Unit) -> String {
        if let Bar::Between(low, high) = self {
            return format!("{} – {}", quantity(low, unit), quantity(high, unit));
        }
        let sign = if matches!(self, Bar::RatioAtLeast(_) | Bar::AtLeast(_)) { '≥' } else { '≤' };
        let limit = match self.limit() {
            limit if self.is_ratio() => times(limit),
            // Nearly one is not one.
            limit if unit == Unit::Times && limit < 1.0 => limit.to_string(),
            limit => quantity(limit, unit),
        };
        format!("{sign} {limit}")
    }
}

/// All bars, by the claim's id.
pub fn expected() -> BTreeMap<String, Expected> {
    // A test reads it; a build with a file that cannot be read has no bars, and so no verdicts.
    serde_json::from_str(TEXT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_bars_say_what_they_mean() {
        let all: BTreeMap<String, Expected> = serde_json::from_str(TEXT).unwrap();
        assert_eq!(all, expected());
        assert_eq!(TEXT.matches("\"bar\"").count(), all.len(), "no name is there twice");
        let fill = &all["peers-fill.throughput"];
        assert_eq!((fill.bar, fill.goal), (Bar::RatioAtLeast(1.5), Some(Bar::RatioAtLeast(3.0))));
        for (bar, below, at, above, text) in [
            (Bar::RatioAtLeast(1.5), false, true, true, "≥ 1.50x"),
            (Bar::RatioAtMost(1.5), true, true, false, "≤ 1.50x"),
            (Bar::AtLeast(1.5), false, true, true, "≥ 1.50 µs"),
            (Bar::AtMost(1.5), true, true, false, "≤ 1.50 µs"),
        ] {
            assert_eq!((bar.met(1.4), bar.met(1.5), bar.met(1.6)), (below, at, above), "{bar:?}");
            assert_eq!(bar.text(Unit::Micros), text);
        }
        assert_eq!(Bar::AtLeast(0.999).text(Unit::Times), "≥ 0.999");
        assert_eq!(Bar::AtMost(0.005).text(Unit::Times), "≤ 0.005");
    }
}
