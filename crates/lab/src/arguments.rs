//! The flags that say what to measure: one definition for every command that measures, so that two engines in two
//! processes are asked for the same.

use clap::builder::PossibleValuesParser;

use crate::distribution::Distribution;
use crate::driver::{self, Dataset, OpenLoad, Plan};
use crate::workload::Workload;

/// How many records, operations, threads; how long; which distribution and seed.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// How many records there are; k, M and G are understood.
    #[arg(long, value_name = "N", value_parser = number)]
    pub records: Option<u64>,
    /// Stop after so many operations.
    #[arg(long, value_name = "N", value_parser = number)]
    pub ops: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    pub seconds: Option<f64>,
    /// How many threads work, 1 unless said; the writer of readwhilewriting comes on top. For soak: how many read, 24 unless
    /// said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Length of a key.
    #[arg(long, value_name = "N")]
    pub key_bytes: Option<usize>,
    /// Length of a value.
    #[arg(long, value_name = "N")]
    pub value_bytes: Option<usize>,
    /// Which records are chosen.
    #[arg(long, value_parser = PossibleValuesParser::new(Distribution::ALL.map(|(name, _)| name)))]
    pub distribution: Option<String>,
    /// Decides on keys, values and operations.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

impl RunArgs {
    /// Refuses flags that make no sense for a workload.
    pub fn check(&self, workload: &Workload) -> Result<(), String> {
        if workload.fills() && self.ops.is_some() {
            return Err(format!(
                "{} inserts each record once; say how many with --records, not --ops",
                workload.name
            ));
        }
        Ok(())
    }

    /// The records of a store that is yet empty.
    pub fn dataset(&self, workload: &Workload) -> Dataset {
        Dataset {
            records: self.records.unwrap_or(workload.records),
            key_bytes: self.key_bytes.unwrap_or(16),
            value_bytes: self.value_bytes.unwrap_or(workload.value_bytes),
            order: workload.order,
            seed: self.seed,
        }
    }

    /// What to run, on records that are there (`filled`) or not; requests come as `load` says, or one after the other.
    pub fn plan<'a>(
        &self,
        workload: &'a Workload,
        data: Dataset,
        filled: bool,
        load: Option<&'a OpenLoad>,
    ) -> Plan<'a> {
        let (ops, seconds) = match (self.ops, self.seconds) {
            // An open loop's length is its shape's.
            (None, None) if load.is_none() => driver::default_limits(workload),
            asked => asked,
        };
        let by_name = |name: &String| Distribution::ALL.iter().find(|(n, _)| n == name).map(|(_, d)| *d);
        Plan {
            workload,
            data,
            filled,
            ops,
            seconds,
            threads: usize::from(self.threads.unwrap_or(1)),
            distribution: self.distribution.as_ref().and_then(by_name).unwrap_or(workload.distribution),
            seed: self.seed,
            load,
        }
    }
}

/// A whole number with a suffix, for people: `100k`, `10M`.
pub fn number(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let wrong = || "give a whole number above 0, for instance 100000, 100k or 10M".to_owned();
    let n: u64 = digits.parse().map_err(|_| wrong())?;
    n.checked_mul(unit).filter(|n| (1..=1 << 48).contains(n)).ok_or_else(wrong)
}

/// Seconds, or a part of one.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e7 => Ok(seconds),
        _ => Err("give seconds above 0, for instance 10 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(
            ["7", "100k", "10M", "1G"].map(|t| number(t).unwrap()),
            [7, 100_000, 10_000_000, 1_000_000_000]
        );
        for text in ["", "k", "0", "-1", "1.5", "99999999999G", "1é"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(positive_seconds("0.5").is_ok());
        assert!(["0", "-1", "nan", "inf", "x"].iter().all(|t| positive_seconds(t).is_err()));
    }
}
