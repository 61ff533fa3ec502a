//! What a device sustains of a workload's writes, and whether a load that comes in peaks and valleys shows anything about a
//! schedule. Pure.
//!
//! ```text
//! W* = device / bytes moved for each byte written        what can be written for ever, reads that come with it counted or not
//! valid: peaks of 1.5 to 2 W*, a mean below it, the baseline in trouble, everybody served, all else alike
//! ```
//! A schedule can only move work in time: below W* in every peak there is nothing to move, and above it in the mean nowhere to
//! move it to.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::results::document::Document;
use crate::workloads::workload::{OpKind, Workload};

/// Peaks that show something, in W*.
pub const PEAK: RangeInclusive<f64> = 1.5..=2.0;
/// The mean must be below this many W*.
pub const MEAN_MAX: f64 = 1.0;
/// The share of the requests that every schedule must have served in the end.
pub const SERVED_MIN: f64 = 0.99;

/// What a device can do for a store.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Sustained {
    /// Reads and writes together.
    pub device_bytes_per_sec: u64,
    /// What is moved for each byte of keys and values that clients write: by log, flushes and compactions, and by clients' reads
    /// where they are counted.
    pub moved_per_byte: f64,
}

impl Sustained {
    /// By what a run moved whose requests write so many bytes each, and by what their reads took from files.
    pub fn of(document: &Document, written_per_request: f64) -> Option<Sustained> {
        let read: u64 = document.windows.iter().filter_map(|window| window.client_read_bytes).sum();
        let written = document.ops as f64 * written_per_request;
        let read_per_byte = if written > 0.0 { read as f64 / written } else { 0.0 };
        Some(Sustained {
            device_bytes_per_sec: document.config.device_bytes_per_sec?,
            moved_per_byte: document.amplification.moved? + read_per_byte,
        })
    }

    /// W*: bytes of keys and values that can be written a second, for ever.
    pub fn bytes_per_sec(&self) -> f64 {
        self.device_bytes_per_sec as f64 / self.moved_per_byte.max(1.0)
    }
}

/// Bytes of keys and values that a request of this workload writes in the mean.
pub fn written_per_request(workload: &Workload, key_bytes: usize, value_bytes: usize) -> f64 {
    let record = (key_bytes + value_bytes) as f64;
    let weight = |kind| workload.mix.weight(kind) as f64;
    let t = &workload.transaction;
    let replaced = record + key_bytes as f64;
    let transaction = t.updates as f64 * record + t.replaces as f64 * replaced;
    let whole: f64 = [OpKind::Update, OpKind::Insert, OpKind::ReadModifyWrite]
        .into_iter()
        .map(|kind| weight(kind) * record)
        .sum();
    let all = whole + weight(OpKind::Delete) * key_bytes as f64 + weight(OpKind::Transaction) * transaction;
    all / (workload.mix.total() as f64).max(1.0)
}

/// The writes that were asked of a store, in W*.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Offered {
    /// In the highest second.
    pub peak: f64,
    /// Over the whole measurement.
    pub mean: f64,
}

impl Offered {
    /// Of the requests of a run, each of which writes so many bytes.
    pub fn of(document: &Document, written_per_request: f64, sustained: &Sustained) -> Option<Offered> {
        let seconds: Vec<f64> = document.windows.iter().filter_map(|window| window.offered).collect();
        let mean = document.open_loop.as_ref()?.offered_ops_per_sec;
        let highest = seconds.into_iter().reduce(f64::max)?;
        let in_sustained = |rate: f64| rate * written_per_request / sustained.bytes_per_sec();
        Some(Offered { peak: in_sustained(highest), mean: in_sustained(mean) })
    }

    /// Why these writes show nothing, if they do not.
    pub fn fault(&self) -> Option<String> {
        let (low, high) = (PEAK.start(), PEAK.end());
        if !PEAK.contains(&self.peak) {
            return Some(format!(
                "peaks were {:.2} times what the device sustains, not {low} to {high}",
                self.peak
            ));
        }
        (self.mean >= MEAN_MAX)
            .then(|| format!("the mean was {:.2} times what the device sustains, not below it", self.mean))
    }
}

/// A run was in trouble: writers waited, or the first level had as many runs as there may be.
pub fn in_trouble(document: &Document, l0_limit: u64) -> bool {
    let stalled = document.stalls.count.is_some_and(|n| n > 0);
    stalled || document.windows.iter().any(|window| window.l0_runs.is_some_and(|runs| runs >= l0_limit))
}

/// Why these runs of several schedules under one open load are no comparison, if they are none; each has a name.
pub fn unlike(runs: &[(&str, &Document)]) -> Option<String> {
    unserved(runs).or_else(|| differ(runs, &[]))
}

/// Who served too little of an open load.
pub fn unserved(runs: &[(&str, &Document)]) -> Option<String> {
    runs.iter().find_map(|(name, document)| {
        let Some(open) = &document.open_loop else { return Some(format!("{name} had no open loop")) };
        let served = 1.0 - open.unfinished as f64 / open.requests.max(1) as f64;
        (served < SERVED_MIN).then(|| format!("{name} served {:.1} % of the requests", served * 100.0))
    })
}

/// What else makes them no comparison: answers that are wrong, or another device, memory or workers, but for the options named.
pub fn differ(runs: &[(&str, &Document)], but_for: &[&str]) -> Option<String> {
    if let Some((name, document)) = runs.iter().find(|(_, document)| document.wrong_reads > 0) {
        return Some(format!("{} reads of {name} were wrong", document.wrong_reads));
    }
    let alike = |document: &Document| {
        let c = &document.config;
        let mut options = c.engine.get("options").cloned();
        if let Some(options) = options.as_mut().and_then(Value::as_object_mut) {
            options.retain(|name, _| !but_for.contains(&name.as_str()));
        }
        (c.device.clone(), c.threads, options, c.key_bytes, c.value_lengths())
    };
    let differ = runs.windows(2).any(|two| alike(two[0].1) != alike(two[1].1));
    differ.then(|| "memory, device or workers were not the same for all".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::document::OpenLoop;
    use crate::results::report::sample;
    use crate::workloads::catalog::find;

    fn open_loop(requests: u64, unfinished: u64) -> OpenLoop {
        OpenLoop { requests, unfinished, offered_ops_per_sec: 12_000.0, ..sample::open_loop() }
    }

    #[test]
    fn what_is_sustained_follows_from_what_is_moved() {
        let sustained = Sustained { device_bytes_per_sec: 100, moved_per_byte: 20.0 };
        assert_eq!(sustained.bytes_per_sec(), 5.0);
        let mut document = sample::document("evenkeel", 2);
        document.config.device_bytes_per_sec = Some(100);
        (document.ops, document.amplification.moved) = (1000, Some(20.0));
        document.windows.iter_mut().for_each(|window| window.client_read_bytes = Some(250));
        let reads = Sustained::of(&document, 0.1).map(|sustained| sustained.moved_per_byte);
        assert_eq!(reads, Some(25.0), "500 bytes were read beside 100 written ones");
        let of = |name: &str, value| written_per_request(find(name).unwrap(), 16, value);
        assert_eq!((of("ycsb-a", 84), of("ycsb-c", 84), of("fillrandom", 84)), (50.0, 0.0, 100.0));
        // Two updates, and a delete with an insert.
        assert_eq!(of("oltp", 84), 2.0 * 100.0 + 116.0);
    }

    #[test]
    fn a_load_shows_something_between_too_little_and_too_much() {
        let fault = |peak, mean| Offered { peak, mean }.fault();
        assert_eq!(fault(1.75, 0.8), None);
        assert!(fault(1.4, 0.8).unwrap().contains("1.40 times"));
        assert!(fault(2.1, 0.8).unwrap().contains("1.5 to 2"));
        assert!(fault(1.75, 1.0).unwrap().contains("mean"));
    }

    #[test]
    fn what_was_offered_is_told_in_what_is_sustained() {
        let mut document = sample::document("evenkeel", 3);
        let sustained = Sustained { device_bytes_per_sec: 100_000_000, moved_per_byte: 10.0 };
        assert_eq!(Offered::of(&document, 500.0, &sustained), None, "a closed loop offers nothing");
        document.open_loop = Some(open_loop(36_000, 0));
        let offered = Offered::of(&document, 500.0, &sustained).unwrap();
        assert!((offered.peak - 1.0).abs() < 1e-9 && (offered.mean - 0.6).abs() < 1e-9, "{offered:?}");
    }

    #[test]
    fn runs_compare_where_all_else_is_alike_and_all_were_served() {
        let mut calm = sample::document("evenkeel", 3);
        calm.open_loop = Some(open_loop(1000, 10));
        calm.stalls.count = Some(0);
        let mut other = calm.clone();
        assert_eq!(unlike(&[("a", &calm), ("b", &other)]), None);
        other.config.engine.insert("options".to_owned(), "more".into());
        assert!(unlike(&[("a", &calm), ("b", &other)]).unwrap().contains("memory"));
        other.wrong_reads = 1;
        assert!(unlike(&[("a", &calm), ("b", &other)]).unwrap().contains("wrong"));
        other.open_loop = Some(open_loop(1000, 11));
        assert!(unlike(&[("a", &calm), ("b", &other)]).unwrap().contains("b served 98.9 %"));
        assert!(!in_trouble(&calm, 20) && in_trouble(&calm, 2));
        calm.stalls.count = Some(1);
        assert!(in_trouble(&calm, 20));
    }
}
