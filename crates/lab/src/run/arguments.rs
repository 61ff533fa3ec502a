//! The flags that say what to measure: one definition for every command that measures, so that two engines in two
//! processes are asked for the same.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use crate::run::driver::{self, Dataset, OpenLoad, Plan};
use crate::workloads::distribution::Distribution;
use crate::workloads::property_file::Properties;
use crate::workloads::values::ValueSizes;
use crate::workloads::workload::{Limit, Workload};

/// A property file; how many records, operations, threads; how long; which distribution and seed. The command's own argument
/// that names a workload has the id `workload`.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// Measure what one of YCSB's property files describes.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub properties: Option<PathBuf>,
    /// How many records there are; k, M and G are understood.
    #[arg(long, value_name = "N", value_parser = number)]
    pub records: Option<u64>,
    /// Stop after so many operations.
    #[arg(long, value_name = "N", value_parser = number)]
    pub ops: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    pub seconds: Option<f64>,
    /// Read for so many seconds before, as the workload does but without its writes, to have in memory what it reads most: neither
    /// measured nor reported.
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    pub warm: Option<f64>,
    /// How many threads work, 1 unless said; the writer of readwhilewriting comes on top. For soak: how many read, 24 unless
    /// said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Length of a key.
    #[arg(long, value_name = "N")]
    pub key_bytes: Option<usize>,
    /// Length of a value: 100, 50-150, 10*1-100 (ten fields), or 250-400-1024 (the median in the middle).
    #[arg(long, value_name = "N")]
    pub value_bytes: Option<ValueSizes>,
    /// Which records are chosen.
    #[arg(long, value_parser = PossibleValuesParser::new(Distribution::ALL.map(|(name, _)| name)))]
    pub distribution: Option<String>,
    /// Decides on keys, values and operations.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Do not wait afterwards until background work has run out: amplification, CPU and disk are then as they were at the end.
    #[arg(long, conflicts_with = "crash")]
    pub no_settle: bool,
    /// Die when the operations are done, as by a kill: for measuring how long the store takes to open after it. Needs --db.
    #[arg(long)]
    pub crash: bool,
}

/// Refuses a number of operations where the records say it.
pub fn check_ops(workload: &Workload, ops: Option<u64>) -> Result<(), String> {
    if workload.fills() && ops.is_some() {
        return Err(format!(
            "{} inserts each record once; say how many with --records, not --ops",
            workload.name
        ));
    }
    Ok(())
}

/// The records of a store that is yet empty; flags count more than what the workload says.
pub fn dataset(
    described: &Properties,
    records: Option<u64>,
    key_bytes: Option<usize>,
    value_bytes: Option<ValueSizes>,
    seed: u64,
) -> Dataset {
    let workload = &described.workload;
    Dataset {
        records: records.unwrap_or(workload.records),
        key_bytes: key_bytes.or(described.key_bytes).unwrap_or(16),
        value_bytes: value_bytes.unwrap_or(workload.value_bytes),
        order: workload.order,
        seed,
        deleted: false,
    }
}

impl RunArgs {
    /// Refuses flags that make no sense for a workload.
    pub fn check(&self, workload: &Workload) -> Result<(), String> {
        if workload.fills() && self.distribution.is_some() {
            return Err(format!(
                "{} inserts each record once, whatever the distribution; leave --distribution away",
                workload.name
            ));
        }
        if self.warm.is_some() && !workload.reads() {
            return Err(format!("{} reads nothing; leave --warm away", workload.name));
        }
        check_ops(workload, self.ops)
    }

    /// The records of a store that is yet empty.
    pub fn dataset(&self, described: &Properties) -> Dataset {
        dataset(described, self.records, self.key_bytes, self.value_bytes, self.seed)
    }

    /// The limits that somebody asked for: flags count more than a file.
    pub fn limits(&self, described: &Properties) -> (Option<u64>, Option<f64>) {
        match (self.ops, self.seconds) {
            (None, None) => (described.ops, described.seconds),
            asked => asked,
        }
    }

    /// What to run, on records that are there (`filled`) or not; requests come as `load` says, or one after the other.
    pub fn plan<'a>(
        &self,
        described: &'a Properties,
        data: Dataset,
        filled: bool,
        load: Option<&'a OpenLoad>,
    ) -> Plan<'a> {
        let workload = &described.workload;
        let (ops, seconds) = match self.limits(described) {
            // An open loop's length is its shape's, but nothing has its turn twice.
            (None, None) if load.is_none() || workload.limit == Limit::OnePass => {
                driver::default_limits(workload, data.records)
            }
            asked => asked,
        };
        let asked = self.distribution.as_deref().and_then(Distribution::find);
        Plan {
            workload,
            data,
            filled,
            ops,
            seconds,
            warm_seconds: self.warm,
            settles: !self.no_settle,
            threads: self.threads.map(usize::from).or(described.threads).unwrap_or(1),
            distribution: asked.unwrap_or(workload.distribution),
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

/// A number above 0, whole or not.
///
/// # Errors
/// What would be right.
pub fn positive(text: &str) -> Result<f64, String> {
    positive_seconds(text)
        .map_err(|_| "give a number above 0 and up to 1e7, for instance 10 or 0.5".to_owned())
}

/// Seconds, or a part of one.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e7 => Ok(seconds),
        _ => Err("give seconds above 0 and up to 1e7, for instance 10 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::arrivals::Spacing;
    use crate::load::load_shape::LoadShape;
    use crate::run::max_rate::Search;
    use crate::workloads::catalog::find;
    use crate::workloads::property_file::parse;

    fn args(line: &str) -> RunArgs {
        #[derive(clap::Parser)]
        struct Command {
            workload: Option<String>,
            #[command(flatten)]
            run: RunArgs,
        }
        let line = ["keel"].into_iter().chain(line.split_whitespace());
        let Command { workload, run } = clap::Parser::try_parse_from(line).unwrap();
        assert_eq!(workload, None);
        run
    }

    fn steady() -> OpenLoad {
        OpenLoad {
            shape: LoadShape::parse("constant:5", |_| Err(String::new())).unwrap(),
            spacing: Spacing::Even,
            search: Search::within(12.0, None),
        }
    }

    #[test]
    fn flags_count_more_than_the_file_and_the_file_more_than_usual() {
        let file =
            parse("recordcount=70\noperationcount=10\nmaxexecutiontime=9\nthreadcount=3\nzeropadding=16")
                .unwrap();
        let (all, none) =
            (args("--ops 5 --threads 2 --key-bytes 9 --distribution latest --value-bytes 1-9"), args(""));
        let load = steady();
        for load in [None, Some(&load)] {
            let of = |args: &RunArgs| {
                let data = args.dataset(&file);
                let plan = args.plan(&file, data, false, load);
                let sizes = (data.records, data.key_bytes, data.value_bytes.max());
                (plan.ops, plan.seconds, plan.threads, plan.distribution.name(), sizes)
            };
            assert_eq!(of(&none), (Some(10), Some(9.0), 3, "uniform", (70, 20, 1000)));
            assert_eq!(of(&all), (Some(5), None, 2, "latest", (70, 9, 9)));
        }
    }

    #[test]
    fn an_open_loop_is_as_long_as_its_shape_but_nothing_has_two_turns() {
        let load = steady();
        let limits = |name: &str, load| {
            let described = Properties::from(find(name).unwrap());
            let args = args("--records 70");
            let plan = args.plan(&described, args.dataset(&described), false, load);
            (plan.ops, plan.seconds)
        };
        assert_eq!(limits("ycsb-a", None), (None, Some(10.0)));
        assert_eq!(limits("ycsb-a", Some(&load)), (None, None));
        assert_eq!(limits("readrandom", Some(&load)), (None, None));
        assert_eq!(limits("deleterandom", None), (Some(70), None));
        assert_eq!(limits("deleterandom", Some(&load)), (Some(70), None));
    }

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
