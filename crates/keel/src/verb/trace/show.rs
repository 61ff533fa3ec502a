//! `keel trace show FILE`: what a trace holds, as a table or operation by operation.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use evenkeel::trace::{Action, Change, End, Keys, Kind, Operation, Trace};
use evenkeel_lab::results::report::{self, text::sparkline};
use serde_json::{Value, json};

use super::read;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::Target;

/// See `keel trace show --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The trace.
    file: PathBuf,
    /// List the operations by the time at which they began, the summary last.
    #[arg(long)]
    operations: bool,
    /// Print JSON: an object a line.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if target.db.is_some() {
            return Err(Failure::usage("`keel trace show` takes a FILE, not --db"));
        }
        let trace = read(&self.file)?;
        let mut out = Output::new();
        if self.operations {
            for operation in trace.iter() {
                let line = match self.json {
                    true => operation_json(&trace, &operation).to_string(),
                    false => operation_text(&trace, &operation),
                };
                out.bytes(line.as_bytes())?;
                out.bytes(b"\n")?;
            }
        }
        let profile = Profile::of(&trace);
        match self.json {
            true => out.line(&profile.json(&trace).to_string())?,
            false => out.text(&profile.text(&trace, &self.file.display().to_string()))?,
        }
        match &trace.end {
            End::Damaged(error) => Err(Failure::work(error.to_string())),
            _ => Ok(()),
        }
    }
}

/// What the operations come to.
#[derive(Default)]
struct Profile {
    kinds: BTreeMap<Kind, OfKind>,
    /// Hashes of keys, with their keyspaces.
    keys: HashSet<u64>,
    threads: HashSet<u64>,
    per_second: Vec<u64>,
}

/// What the operations of one kind come to.
#[derive(Default)]
struct OfKind {
    key_bytes: u64,
    value_bytes: u64,
    entries: u64,
    /// Durations in nanoseconds.
    nanos: Vec<u64>,
}

impl OfKind {
    fn micros(&self, quantile: f64) -> f64 {
        let rank = (self.nanos.len() as f64 * quantile).ceil() as usize;
        self.nanos.get(rank.max(1) - 1).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }
}

impl Profile {
    fn of(trace: &Trace) -> Profile {
        let (mut profile, hasher) = (Profile::default(), RandomState::new());
        for operation in trace.iter() {
            let of_kind = profile.kinds.entry(operation.kind()).or_default();
            of_kind.nanos.push(operation.nanos);
            let keys = &mut profile.keys;
            let mut key = |of_kind: &mut OfKind, keyspace: u64, key: &[u8]| {
                of_kind.key_bytes += key.len() as u64;
                of_kind.entries += 1;
                keys.insert(hasher.hash_one((keyspace, key)));
            };
            match &operation.action {
                Action::Write(changes) => {
                    for change in changes {
                        match *change {
                            Change::Put { keyspace, key: put, value_bytes } => {
                                key(of_kind, keyspace, put);
                                of_kind.value_bytes += value_bytes;
                            }
                            Change::Delete { keyspace, key: deleted } => key(of_kind, keyspace, deleted),
                            Change::DeleteRange { from, to, .. } => {
                                of_kind.key_bytes += (from.len() + to.len()) as u64;
                                of_kind.entries += 1;
                            }
                        }
                    }
                }
                Action::Get { keyspace, keys } => keys.iter().for_each(|k| key(of_kind, *keyspace, k)),
                Action::Scan { from, entries, .. } => {
                    of_kind.key_bytes += from.len() as u64;
                    of_kind.entries += entries;
                }
            }
            profile.threads.insert(operation.thread);
            let second = (operation.start_nanos / 1_000_000_000) as usize;
            // A time that is damage's doing must not cost memory.
            if second < 1 << 24 {
                profile.per_second.resize(profile.per_second.len().max(second + 1), 0);
                profile.per_second.last_mut().into_iter().for_each(|n| *n += 1);
            }
        }
        profile.kinds.values_mut().for_each(|of_kind| of_kind.nanos.sort_unstable());
        profile
    }

    fn text(&self, trace: &Trace, file: &str) -> String {
        let keys = if trace.keys == Keys::Hashed { "hashed" } else { "plain" };
        let (operations, seconds) = (trace.len() as u64, trace.nanos as f64 / 1e9);
        let names: Vec<&str> = trace.keyspaces.values().map(String::as_str).collect();
        let mut text = format!(
            "{file}: {} operations in {}, {}, began {}\n",
            report::count(operations),
            report::seconds(seconds),
            report::bytes(trace.file_bytes),
            report::numbers::moment(trace.began_ms)
        );
        text += &format!(
            "  keys {keys}, {} different; {} threads; keyspaces {}\n\n",
            report::count(self.keys.len() as u64),
            self.threads.len(),
            names.join(" ")
        );
        text += &format!(
            "  {:<12}{:>12}{:>10}{:>12}{:>12}{:>12}{:>10}{:>10}\n",
            "operation", "ops", "ops/s", "entries", "keys", "values", "p50", "p99"
        );
        for (kind, of_kind) in &self.kinds {
            text += &format!(
                "  {:<12}{:>12}{:>10}{:>12}{:>12}{:>12}{:>10}{:>10}\n",
                kind.name(),
                report::count(of_kind.nanos.len() as u64),
                report::rate(of_kind.nanos.len() as f64 / seconds.max(1e-3)),
                report::count(of_kind.entries),
                report::bytes(of_kind.key_bytes),
                report::bytes(of_kind.value_bytes),
                report::micros(of_kind.micros(0.5)),
                report::micros(of_kind.micros(0.99))
            );
        }
        if self.per_second.len() > 1 {
            let rates: Vec<f64> = self.per_second.iter().map(|n| *n as f64).collect();
            let most = rates.iter().copied().fold(0.0, f64::max);
            text += &format!(
                "\n  ops/s  {}  at most {}, second by second\n",
                sparkline(&rates),
                report::rate(most)
            );
        }
        text += &match trace.missed {
            Some(0) => String::new(),
            Some(missed) => {
                format!("\n  MISSED: {} operations had no room in memory\n", report::count(missed))
            }
            None => "\n  the trace has no end, so nobody knows how many operations were missed\n".to_owned(),
        };
        if let End::Cut { offset } = trace.end {
            text +=
                &format!("  CUT at byte {offset}: whoever recorded it was killed, or the disk was full\n");
        }
        text
    }

    fn json(&self, trace: &Trace) -> Value {
        let kinds = self.kinds.iter().map(|(kind, of_kind)| {
            let figures = json!({
                "ops": of_kind.nanos.len(), "entries": of_kind.entries, "key_bytes": of_kind.key_bytes,
                "value_bytes": of_kind.value_bytes, "p50_us": of_kind.micros(0.5), "p99_us": of_kind.micros(0.99),
            });
            (kind.name().to_owned(), figures)
        });
        let (end, offset) = match &trace.end {
            End::Clean => ("clean", None),
            End::Cut { offset } => ("cut", Some(*offset)),
            End::Damaged(evenkeel::Error::Corruption { offset, .. }) => ("damaged", Some(*offset)),
            End::Damaged(_) => ("damaged", None),
        };
        json!({
            "operations": trace.len(), "seconds": trace.nanos as f64 / 1e9, "bytes": trace.file_bytes,
            "began_ms": trace.began_ms, "hashed": trace.keys == Keys::Hashed, "missed": trace.missed,
            "end": { "state": end, "offset": offset }, "keyspaces": trace.keyspaces.values().collect::<Vec<_>>(),
            "keys": self.keys.len(), "threads": self.threads.len(), "kinds": kinds.collect::<Value>(),
            "per_second": self.per_second,
        })
    }
}

fn operation_text(trace: &Trace, operation: &Operation<'_>) -> String {
    let (begin, took) = (operation.start_nanos as f64 / 1e9, report::micros(operation.nanos as f64 / 1e3));
    let head = format!("{begin:>14.6} {took:>10}  {:>3}  {:<12}", operation.thread, operation.kind().name());
    let what = match &operation.action {
        Action::Write(changes) => {
            let changes: Vec<String> = changes.iter().map(|change| change_text(trace, change)).collect();
            match operation.kind() {
                Kind::Batch => format!("[{}]", changes.join(", ")),
                _ => changes.join(", "),
            }
        }
        Action::Get { keyspace, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| escaped(key)).collect();
            format!("{} {}", trace.keyspace_name(*keyspace), keys.join(" "))
        }
        Action::Scan { keyspace, from, entries, down } => {
            let way = if *down { "down" } else { "up" };
            format!("{} from {} {way}, {entries} entries", trace.keyspace_name(*keyspace), escaped(from))
        }
    };
    format!("{head} {what}")
}

fn change_text(trace: &Trace, change: &Change<'_>) -> String {
    match *change {
        Change::Put { keyspace, key, value_bytes } => {
            format!("{} {} ({value_bytes} B)", trace.keyspace_name(keyspace), escaped(key))
        }
        Change::Delete { keyspace, key } => format!("{} {}", trace.keyspace_name(keyspace), escaped(key)),
        Change::DeleteRange { keyspace, from, to } => {
            format!("{} {} up to {}", trace.keyspace_name(keyspace), escaped(from), escaped(to))
        }
    }
}

fn operation_json(trace: &Trace, operation: &Operation<'_>) -> Value {
    let name = |keyspace: u64| trace.keyspace_name(keyspace);
    let change = |change: &Change<'_>| match *change {
        Change::Put { keyspace, key, value_bytes } => {
            json!({ "op": "put", "keyspace": name(keyspace), "key": escaped(key), "value_bytes": value_bytes })
        }
        Change::Delete { keyspace, key } => {
            json!({ "op": "delete", "keyspace": name(keyspace), "key": escaped(key) })
        }
        Change::DeleteRange { keyspace, from, to } => json!({
            "op": "delete_range", "keyspace": name(keyspace), "from": escaped(from), "to": escaped(to),
        }),
    };
    let mut object = match &operation.action {
        Action::Write(changes) if changes.len() == 1 => changes.iter().map(change).next().unwrap_or_default(),
        Action::Write(changes) => json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() }),
        Action::Get { keyspace, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| escaped(key)).collect();
            json!({ "keyspace": name(*keyspace), "keys": keys })
        }
        Action::Scan { keyspace, from, entries, down } => json!({
            "keyspace": name(*keyspace), "from": escaped(from), "entries": entries, "down": down,
        }),
    };
    object["op"] = operation.kind().name().into();
    object["start_ns"] = operation.start_nanos.into();
    object["ns"] = operation.nanos.into();
    object["thread"] = operation.thread.into();
    object
}
