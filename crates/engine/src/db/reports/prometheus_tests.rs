//! A strict parser of Prometheus' text format, by the rules of its documentation, over what a busy store prints.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::db::reports::metric_parts::CompactionMetrics;

/// Families by name, with their samples: name, labels, value.
type Samples = Vec<(String, BTreeMap<String, String>, f64)>;

fn parse(text: &str) -> Result<BTreeMap<String, (String, Samples)>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut families: BTreeMap<String, (String, Samples)> = BTreeMap::new();
    let (mut helped, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut current = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').ok_or(format!("no words: {line}"))?;
            if !helped.insert(name.to_owned()) || words.is_empty() {
                return Err(format!("a second HELP: {line}"));
            }
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or(format!("no type: {line}"))?;
            if !["counter", "gauge", "histogram"].contains(&kind) || !helped.contains(name) {
                return Err(format!("an unknown type, or no HELP before: {line}"));
            }
            current = name.to_owned();
            if families.insert(current.clone(), (kind.to_owned(), Samples::new())).is_some() {
                return Err(format!("a second TYPE: {line}"));
            }
        } else {
            let sample = parse_sample(line).ok_or(format!("malformed: {line}"))?;
            let (kind, samples) = families.get_mut(&current).ok_or(format!("no family: {line}"))?;
            let ending = sample.0.strip_prefix(&current).ok_or(format!("of another family: {line}"))?;
            let fits = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&ending),
                "counter" => ending.is_empty() && current.ends_with("_total") && sample.2 >= 0.0,
                _ => ending.is_empty() && !current.ends_with("_total"),
            };
            if !fits || !seen.insert((sample.0.clone(), sample.1.clone())) {
                return Err(format!("does not fit its family, or comes twice: {line}"));
            }
            samples.push(sample);
        }
    }
    families.values().filter(|(kind, _)| kind == "histogram").try_for_each(|(_, s)| check_histogram(s))?;
    Ok(families)
}

fn parse_sample(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (i, '"') => break i,
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        _ => return None,
                    }),
                    (_, c) => value.push(c),
                }
            };
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?;
    let value =
        if value == "+Inf" { f64::INFINITY } else { value.parse().ok().filter(|v: &f64| v.is_finite())? };
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// Buckets ascend, and the last one, `+Inf`, is the count.
fn check_histogram(samples: &Samples) -> Result<(), String> {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for (name, labels, value) in samples {
        let mut others = labels.clone();
        let le = others.remove("le");
        let key = format!("{others:?}");
        if name.ends_with("_bucket") {
            let le = le.ok_or("a bucket without a bound")?;
            let le =
                if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| "a bound is no number")? };
            buckets.entry(key).or_default().push((le, *value));
        } else if name.ends_with("_count") {
            counts.insert(key, *value);
        }
    }
    for (key, buckets) in &buckets {
        let ascend = buckets.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
        let last = buckets.last().copied().unwrap_or_default();
        if !ascend || last.0 != f64::INFINITY || Some(&last.1) != counts.get(key) {
            return Err(format!("buckets of {key} do not add up: {buckets:?}"));
        }
    }
    if buckets.len() == counts.len() { Ok(()) } else { Err("a count without buckets".to_owned()) }
}

fn metrics() -> Metrics {
    let level = |n| LevelMetrics { runs: n, tables: 2 * n, bytes: 10 * n, ..LevelMetrics::default() };
    let oldest = LevelMetrics { oldest_tombstone_ms: 4_000, ..level(3) };
    let keyspace = |name: &str| KeyspaceMetrics {
        name: name.to_owned(),
        levels: vec![level(1), oldest.clone()],
        debt_bytes: 99,
        ..KeyspaceMetrics::default()
    };
    let latency = |what: &str| LatencyMetrics {
        what: what.to_owned(),
        count: 5,
        sum_seconds: 0.5,
        buckets: (0..22).map(|i| i / 5).collect(),
        ..LatencyMetrics::default()
    };
    let kind =
        CompactionMetrics { level: 1, trigger: "runs".to_owned(), count: 2, bytes_read: 7, bytes_written: 5 };
    Metrics {
        now_ms: 10_000,
        identity: "0-0".to_owned(),
        keyspaces: vec![keyspace("default"), keyspace("a \"b\"\\c\nd")],
        compactions_by_kind: vec![kind],
        stalls_by_reason: vec![("l0-runs".to_owned(), 3, 1.5)],
        latencies: ["get", "write", "scan", "flush", "compaction", "step"].map(latency).into(),
        io: vec![("client".to_owned(), 1, 2)],
        cpu_seconds: vec![("flush".to_owned(), 0.25)],
        ..Metrics::default()
    }
}

#[test]
fn what_is_printed_is_what_the_format_allows() {
    let families = parse(&text(&metrics())).unwrap();
    let value = |name: &str, labels: &[(&str, &str)]| {
        let family = families.iter().find(|(f, _)| name.starts_with(f.as_str()) && !f.is_empty());
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let all = families.values().flat_map(|(_, samples)| samples);
        let found = all.into_iter().find(|(n, l, _)| n == name && *l == labels);
        assert!(family.is_some(), "{name}");
        found.unwrap_or_else(|| panic!("{name} {labels:?}")).2
    };
    assert_eq!(value("evenkeel_write_stall_seconds_total", &[("reason", "l0-runs")]), 1.5);
    let labels = [("level", "1"), ("dir", "write"), ("trigger", "runs")];
    assert_eq!(value("evenkeel_compaction_bytes_total", &labels), 5.0);
    let odd = "a \"b\"\\c\nd";
    assert_eq!(value("evenkeel_level_runs", &[("keyspace", odd), ("level", "1")]), 3.0);
    assert_eq!(value("evenkeel_tombstone_oldest_seconds", &[("keyspace", odd)]), 6.0);
    assert_eq!(value("evenkeel_foreground_latency_seconds_count", &[("op", "get")]), 5.0);
    assert_eq!(value("evenkeel_debt_bytes", &[("keyspace", "default")]), 99.0);
    assert_eq!(value("evenkeel_snapshot_oldest_seconds", &[]), 0.0);
    assert!(families.len() > 50, "{}", families.len());
}

#[test]
fn the_parser_is_strict() {
    let good = "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"} 1\n";
    assert!(parse(good).is_ok());
    for (from, to) in [
        ("# HELP a_total x\n", ""),
        ("counter", "number"),
        ("a_total{", "b_total{"),
        ("\"v\"", "\"v\\x\""),
        ("\"v\"", "v"),
        (" 1\n", " one\n"),
        (" 1\n", " 1"),
        (" 1\n", " NaN\n"),
        ("{l", "{1"),
        ("} 1", "}  1"),
        ("} 1\n", "} 1\na_total{l=\"v\"} 2\n"),
    ] {
        assert!(parse(&good.replacen(from, to, 1)).is_err(), "{from:?} -> {to:?}");
    }
}
