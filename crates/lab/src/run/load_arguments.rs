//! The flags that say when requests come: one definition for every command that measures.

use std::time::Duration;

use crate::load::arrivals::Spacing;
use crate::load::load_shape::{LoadShape, Rate};
use crate::run::driver::OpenLoad;
use crate::run::max_rate::Search;
use clap::builder::PossibleValuesParser;

/// When requests come. Without any of these, a thread starts its next operation when the last has ended.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Open loop")]
pub struct LoadArgs {
    /// Requests come at this rate whatever the store does, for instance 20k a second; 50% is half of the highest rate that the
    /// store sustains, which is found first.
    #[arg(long, value_name = "RATE", value_parser = Rate::parse_load, conflicts_with_all = ["shape", "find_max_rate"])]
    pub rate: Option<Rate>,
    /// Requests come in this shape: constant:RATE, sustained, peaks:HIGH,LOW,PEAK_SECONDS,VALLEY_SECONDS,
    /// steps:RATE@SECONDS,…, nutanix or nutanix:HIGH,LOW or nutanix:HIGH,LOW,SEED, recorded:FILE (lines of second,rate).
    #[arg(long, value_name = "SHAPE", value_parser = shape, conflicts_with = "find_max_rate")]
    pub shape: Option<LoadShape>,
    /// Find the highest rate that the store sustains, and run at it.
    #[arg(long)]
    pub find_max_rate: bool,
    /// A rate counts as sustained only if the 99th percentile of every second is within this, for instance 10ms.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub p99: Option<Duration>,
    /// How many seconds finding the rate may take; each try takes a twelfth of it.
    #[arg(long, value_name = "S", value_parser = budget)]
    pub budget: Option<f64>,
    /// How requests lie between each other: at equal distances, which is the default, or as a Poisson process.
    #[arg(long, value_name = "SPACING", value_parser = PossibleValuesParser::new(Spacing::ALL.map(|(name, _)| name)))]
    pub spacing: Option<String>,
}

/// How long finding the rate may take, unless somebody says otherwise.
const BUDGET_SECONDS: f64 = 120.0;

impl LoadArgs {
    /// The load; `None` for a closed loop.
    ///
    /// # Errors
    /// Flags that make no sense together: what is wrong and what to do.
    pub fn load(&self) -> Result<Option<OpenLoad>, String> {
        let shape = match (&self.shape, self.rate) {
            (Some(shape), _) => Some(shape.clone()),
            (None, Some(rate)) => Some(LoadShape::Constant(rate)),
            (None, None) => self.find_max_rate.then_some(LoadShape::Constant(Rate::Share(1.0))),
        };
        let searches = shape.as_ref().is_some_and(LoadShape::needs_maximum);
        for (given, flag) in [(self.p99.is_some(), "--p99"), (self.budget.is_some(), "--budget")] {
            if given && !searches {
                return Err(format!(
                    "{flag} is about finding the highest rate; add --find-max-rate, or give a share such as --rate 50%"
                ));
            }
        }
        let Some(shape) = shape else {
            return match self.spacing {
                Some(_) => {
                    Err("--spacing is about when requests come; add --rate or --shape, or leave it away"
                        .to_owned())
                }
                None => Ok(None),
            };
        };
        let named = |asked: &String| Spacing::ALL.iter().find(|(name, _)| name == asked).map(|(_, s)| *s);
        Ok(Some(OpenLoad {
            shape,
            spacing: self.spacing.as_ref().and_then(named).unwrap_or(Spacing::Even),
            search: Search::within(self.budget.unwrap_or(BUDGET_SECONDS), self.p99),
        }))
    }
}

#[expect(clippy::disallowed_methods, reason = "a recorded load is not one of the store's files")]
fn shape(text: &str) -> Result<LoadShape, String> {
    LoadShape::parse(text, |name| {
        std::fs::read_to_string(name).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no file {name}"),
            _ => format!("cannot read {name}: {error}"),
        })
    })
}

/// A length of time with its unit, for people: `10ms`, `500us`, `1s`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time with its unit, for instance 10ms, 500us or 1s".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit = match &text[digits.len()..] {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let seconds = digits.parse::<f64>().map_err(|_| wrong())? * unit;
    if !(1e-6..=3600.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (3.0..=1e6).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 3 on, for instance 120".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_nothing_is_no_load() {
        for text in ["0", "0%", "0k"] {
            assert!(Rate::parse_load(text).unwrap_err().contains("no load"), "{text}");
        }
        assert!(Rate::parse_load("20k").is_ok() && Rate::parse_load("50%").is_ok());
    }

    #[test]
    fn times_have_units() {
        let micros = |text| time(text).map(|t| t.as_micros());
        assert_eq!(
            [micros("10ms"), micros("500us"), micros("7µs"), micros("1.5s")],
            [Ok(10_000), Ok(500), Ok(7), Ok(1_500_000)]
        );
        for text in ["", "10", "ms", "-1ms", "0s", "1h", "nans", "10µ"] {
            assert!(time(text).unwrap_err().contains("10ms"), "{text}");
        }
        assert!(budget("60").is_ok() && budget("1").is_err() && budget("x").is_err());
    }
}
