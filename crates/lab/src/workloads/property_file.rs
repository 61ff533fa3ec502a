//! YCSB's property files, read as they are: `workloads/workloada` and its like describe a workload.
//!
//! Every property of YCSB's core workload is known: those that say what is done are taken or refused, those that say how
//! YCSB measures, prints or names things are passed over, as are those of its bindings to other stores. A record is one value
//! here, so it is read and written whole. Some properties are the lab's own: deletes, reads of missing keys, the normal and the
//! beta distribution.

use std::collections::BTreeMap;
use std::str::FromStr;

use strsim::levenshtein;

use crate::workloads::catalog::YCSB;
use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::values::ValueSizes;
use crate::workloads::workload::{Limit, Mix, OpKind, ScanLength, Workload};

/// The properties that describe a workload.
const TAKEN: &[&str] = &[
    "recordcount",
    "operationcount",
    "maxexecutiontime",
    "threadcount",
    "workload",
    "insertstart",
    "insertcount",
    "insertorder",
    "zeropadding",
    "fieldcount",
    "fieldlength",
    "minfieldlength",
    "fieldlengthdistribution",
    "dataintegrity",
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
    "requestdistribution",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "exponential.percentile",
    "exponential.frac",
    "minscanlength",
    "maxscanlength",
    "scanlengthdistribution",
    // The lab's own.
    "deleteproportion",
    "rangedeleteproportion",
    "rangedeletelength",
    "missingproportion",
    "normal.mean",
    "normal.deviation",
    "beta.alpha",
    "beta.beta",
];

/// The properties that change nothing here.
const PASSED_OVER: &[&str] = &[
    "table",
    "columnfamily",
    "db",
    "label",
    "fieldnameprefix",
    "fieldlengthhistogram",
    "readallfields",
    "readallfieldsbyname",
    "writeallfields",
    "measurementtype",
    "histogram.buckets",
    "timeseries.granularity",
    "reportlatencyforeacherror",
    "latencytrackederrors",
    "core_workload_insertion_retry_limit",
    "core_workload_insertion_retry_interval",
    "exporter",
    "exportfile",
    "status.interval",
];

/// Groups of properties that change nothing here.
const PASSED_OVER_GROUPS: &[&str] = &["measurement.", "hdrhistogram.", "htrace."];

/// A name with a dot that differs in no more letters from a known one is that one, mistyped.
const TYPING_ERRORS: usize = 3;

/// The names that YCSB's core workload has had.
const CORE_WORKLOADS: [&str; 2] =
    ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"];

/// A workload from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// The workload, without a name.
    pub workload: Workload,
    /// How many threads.
    pub threads: Option<usize>,
    /// It ends after so many operations, or …
    pub ops: Option<u64>,
    /// … after so many seconds, even if its operations are not done.
    pub seconds: Option<f64>,
    /// How long keys are: those of `zeropadding`.
    pub key_bytes: Option<usize>,
}

impl From<&Workload> for Properties {
    /// A workload of which nothing else is said.
    fn from(workload: &Workload) -> Properties {
        Properties { workload: *workload, threads: None, ops: None, seconds: None, key_bytes: None }
    }
}

/// Reads a property file.
///
/// # Errors
/// What is wrong, and in which line.
pub fn parse(text: &str) -> Result<Properties, String> {
    let given = Given::read(text)?;
    given.refuse_what_is_not_there()?;
    let records = given.number("recordcount")?.filter(|n| *n > 0);
    let records = records.ok_or("`recordcount` is missing: how many records are there?")?;
    let seconds = given.number::<f64>("maxexecutiontime")?.filter(|seconds| *seconds > 0.0);
    let ops = given.number::<u64>("operationcount")?.filter(|n| *n > 0);
    let limit = match (ops, seconds) {
        (Some(ops), _) => Limit::Ops(ops),
        (None, Some(seconds)) => Limit::Seconds(seconds),
        (None, None) => return Err("`operationcount` is missing: how long is this to run?".to_owned()),
    };
    let workload = Workload {
        what: "a property file",
        mix: given.mix()?,
        distribution: given.distribution()?,
        missing: (given.share("missingproportion", 0.0)? * 100.0).round() as u64,
        scan: given.scan()?,
        delete_range: given.number("rangedeletelength")?.unwrap_or(5),
        order: given
            .choose("insertorder", &[("hashed", KeyOrder::Random), ("ordered", KeyOrder::Sequential)])?,
        records,
        value_bytes: given.value_bytes()?,
        limit,
        ..YCSB
    };
    let delete_range = if workload.mix.has(OpKind::DeleteRange) { workload.delete_range.max(1) } else { 0 };
    Ok(Properties {
        workload: Workload { delete_range, ..workload },
        threads: given.number("threadcount")?.filter(|n| *n > 0),
        ops,
        seconds,
        // YCSB's keys are `user` and a number, padded to so many digits.
        key_bytes: given
            .number::<usize>("zeropadding")?
            .filter(|digits| *digits > 1)
            .map(|digits| digits + 4),
    })
}

/// What a file says, with the lines it says it in.
struct Given<'a>(BTreeMap<&'a str, (usize, &'a str)>);

impl<'a> Given<'a> {
    fn read(text: &'a str) -> Result<Given<'a>, String> {
        let mut all = BTreeMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with(['#', '!']) {
                continue;
            }
            if text.contains('\\') {
                return Err(format!(
                    "line {line}: backslashes mean nothing here; write the property on one line"
                ));
            }
            let end = text.find(|c: char| c == '=' || c == ':' || c.is_whitespace()).unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            let rest = rest.trim_start();
            let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim();
            known(name).map_err(|error| format!("line {line}: {error}"))?;
            all.insert(name, (line, value));
        }
        Ok(Given(all))
    }

    fn get(&self, name: &str) -> Option<(usize, &'a str)> {
        self.0.get(name).copied()
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let parse = |(line, value): (usize, &str)| {
            value.parse().map_err(|_| format!("line {line}: `{value}` is no number that `{name}` can have"))
        };
        self.get(name).map(parse).transpose()
    }

    /// A number from 0 to 1.
    fn share(&self, name: &str, default: f64) -> Result<f64, String> {
        self.real(name, default, |x| (0.0..=1.0).contains(&x), "from 0 to 1")
    }

    fn real(&self, name: &str, default: f64, fits: fn(f64) -> bool, range: &str) -> Result<f64, String> {
        let x = self.number(name)?.unwrap_or(default);
        let line = self.get(name).map_or(0, |(line, _)| line);
        if fits(x) { Ok(x) } else { Err(format!("line {line}: `{name}` is {range}, not {x}")) }
    }

    /// One of several words; the first unless something else is given.
    fn choose<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, String> {
        let (line, value) = self.get(name).unwrap_or((0, words[0].0));
        let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        found.ok_or_else(|| format!("line {line}: `{name}` is one of {}, not `{value}`", all.join(", ")))
    }

    fn refuse_what_is_not_there(&self) -> Result<(), String> {
        let refuse = |name: &str, why: &str| match self.get(name) {
            Some((line, value)) => Err(format!("line {line}: `{name}={value}`: {why}")),
            None => Ok(()),
        };
        let differs =
            |name: &str, from: &[&str]| self.get(name).is_some_and(|(_, value)| !from.contains(&value));
        if differs("workload", &CORE_WORKLOADS) {
            refuse("workload", "only YCSB's core workload is known here")?;
        }
        if differs("insertstart", &["0"]) {
            refuse("insertstart", "records are counted from 0 here, and loaded by one process")?;
        }
        let records = self.get("recordcount").map_or("", |(_, value)| value);
        if differs("insertcount", &["0", records]) {
            refuse(
                "insertcount",
                "all records are loaded here; leave it away, or say the same as `recordcount`",
            )?;
        }
        if differs("dataintegrity", &["false"]) {
            refuse(
                "dataintegrity",
                "values are not checked here; `keel bench --operations FILE --check` checks them",
            )?;
        }
        Ok(())
    }

    fn mix(&self) -> Result<Mix, String> {
        let mut weights = Vec::new();
        for (name, kind, default) in [
            ("readproportion", OpKind::Read, 0.95),
            ("updateproportion", OpKind::Update, 0.05),
            ("insertproportion", OpKind::Insert, 0.0),
            ("scanproportion", OpKind::Scan, 0.0),
            ("readmodifywriteproportion", OpKind::ReadModifyWrite, 0.0),
            ("deleteproportion", OpKind::Delete, 0.0),
            ("rangedeleteproportion", OpKind::DeleteRange, 0.0),
        ] {
            let share = self.real(name, default, |x| (0.0..=1e6).contains(&x), "0 or more")?;
            weights.push((kind, (share * 1e6).round() as u64));
        }
        let mix = Mix::of(&weights);
        match mix.total() {
            0 => Err("all proportions are 0: nothing is to be done".to_owned()),
            _ => Ok(mix),
        }
    }

    fn distribution(&self) -> Result<Distribution, String> {
        let above_0 = |name, default| self.real(name, default, |x| x > 0.0 && x <= 1e6, "above 0");
        Ok(match self.choose("requestdistribution", &Distribution::ALL)? {
            Distribution::Hotspot { records, operations } => Distribution::Hotspot {
                records: self.share("hotspotdatafraction", records)?,
                operations: self.share("hotspotopnfraction", operations)?,
            },
            Distribution::Exponential { records, operations } => {
                let within = |x| x > 0.0 && x < 100.0;
                let percent =
                    self.real("exponential.percentile", operations * 100.0, within, "between 0 and 100")?;
                Distribution::Exponential {
                    records: above_0("exponential.frac", records)?,
                    operations: percent / 100.0,
                }
            }
            Distribution::Normal { mean, deviation } => Distribution::Normal {
                mean: self.share("normal.mean", mean)?,
                deviation: above_0("normal.deviation", deviation)?,
            },
            Distribution::Beta { alpha, beta } => {
                Distribution::Beta { alpha: above_0("beta.alpha", alpha)?, beta: above_0("beta.beta", beta)? }
            }
            plain => plain,
        })
    }

    fn scan(&self) -> Result<ScanLength, String> {
        let min = self.number("minscanlength")?.unwrap_or(1);
        let max = self.number("maxscanlength")?.unwrap_or(1000);
        if min < 1 || max < min {
            return Err(format!(
                "`minscanlength` {min} and `maxscanlength` {max}: give 1 or more, the larger as the second"
            ));
        }
        let (uniform, zipfian) = (ScanLength::Uniform { min, max }, ScanLength::Zipfian { min, max });
        self.choose("scanlengthdistribution", &[("uniform", uniform), ("zipfian", zipfian)])
    }

    fn value_bytes(&self) -> Result<ValueSizes, String> {
        let count = self.number::<usize>("fieldcount")?.unwrap_or(10);
        let max = self.number::<usize>("fieldlength")?.unwrap_or(100);
        let min = self.number::<usize>("minfieldlength")?.unwrap_or(1);
        let constant = ValueSizes::Fixed(count.saturating_mul(max));
        let uniform = ValueSizes::Fields { count, min, max };
        let words = [("constant", constant), ("uniform", uniform)];
        let sizes = self.choose("fieldlengthdistribution", &words)?;
        sizes.checked().map_err(|error| format!("`fieldcount` {count} of `fieldlength` {max}: {error}"))
    }
}

/// An error that names the nearest property, unless this one is known.
fn known(name: &str) -> Result<(), String> {
    if name == "target" {
        return Err("`target` is a rate here: leave it away, and give --rate".to_owned());
    }
    let passed_over = PASSED_OVER.contains(&name)
        || PASSED_OVER_GROUPS.iter().any(|group| name.to_ascii_lowercase().starts_with(group));
    if TAKEN.contains(&name) || passed_over {
        return Ok(());
    }
    let all = TAKEN.iter().chain(PASSED_OVER);
    let nearest = all.min_by_key(|word| levenshtein(word, name)).copied().unwrap_or_default();
    // What YCSB's bindings to other stores are told has a dot: `mongodb.url`.
    if name.contains('.') && levenshtein(nearest, name) > TYPING_ERRORS {
        return Ok(());
    }
    Err(format!("unknown property `{name}`; did you mean `{nearest}`?"))
}

#[cfg(test)]
#[path = "property_file_tests.rs"]
mod tests;
