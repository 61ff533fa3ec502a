//! The driver on a map in memory: counts, presence, limits and errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::run::engine::Abilities;
use crate::run::map_engine::MapEngine;
use crate::run::phase::Unwatched;
use crate::run::recorder::window_histogram;
use crate::workloads::catalog;
use crate::workloads::workload::OpKind;

fn plan(name: &str) -> Plan<'static> {
    let workload = catalog::find(name).unwrap();
    Plan {
        workload,
        data: Dataset {
            records: 1000,
            key_bytes: 16,
            value_bytes: 20.into(),
            order: workload.order,
            seed: 1,
            deleted: false,
        },
        filled: false,
        ops: (!workload.fills()).then_some(3000),
        seconds: None,
        warm_seconds: None,
        settles: true,
        threads: 3,
        distribution: workload.distribution,
        seed: 2,
        load: None,
    }
}

/// Notes how many operations there are after the scan and before the measurement.
#[derive(Default)]
struct Warmed {
    warms: AtomicBool,
    ops: AtomicU64,
}

impl Watch for Warmed {
    fn begin(&self, phase: Phase, total: Total) {
        self.warms.store(phase == Phase::Warm && total == Total::Millis(50), Ordering::Relaxed);
    }

    fn advance(&self, _: u64, ops: u64) {
        if self.warms.load(Ordering::Relaxed) {
            self.ops.store(ops, Ordering::Relaxed);
        }
    }

    fn end(&self) {}
}

/// Neither what is written nor what is counted changes.
#[test]
fn warming_reads_and_is_not_counted() {
    for name in ["ycsb-a", "ycsb-d", "oltp"] {
        let engine = MapEngine::default();
        let data = Dataset { deleted: true, ..plan(name).data };
        let warm = Plan { warm_seconds: Some(0.05), ops: Some(1), data, threads: 1, ..plan(name) };
        let warmed = Warmed::default();
        let outcome = run(&engine, &warm, &warmed).unwrap();
        assert!(warmed.ops.load(Ordering::Relaxed) > 1, "{name}");
        assert_eq!((outcome.ops, outcome.wrong_reads), (1, 0), "{name}");
        assert!(engine.map.lock().unwrap().len() <= 1001, "{name}");
    }
}

#[test]
fn every_workload_does_what_it_counts() {
    for workload in catalog::CATALOG {
        let name = workload.name;
        let engine = MapEngine::default();
        let outcome = run(&engine, &plan(name), &Unwatched).unwrap();
        let by_kind =
            |kind: OpKind| outcome.latencies[kind.index()].as_ref().map_or(0, hdrhistogram::Histogram::len);
        assert_eq!(OpKind::ALL.iter().map(|k| by_kind(*k)).sum::<u64>(), outcome.ops, "{name}");
        assert_eq!(outcome.windows.iter().map(|w| w.ops).sum::<u64>(), outcome.ops, "{name}");
        for (window, second) in outcome.windows.iter().zip(&outcome.seconds_latencies) {
            let mut all = window_histogram();
            second.by_kind.iter().for_each(|(_, latencies)| latencies.add_to(&mut all));
            assert_eq!((second.second, all.len()), (window.second, window.ops), "{name}");
        }
        assert_eq!(outcome.windows.len(), outcome.seconds_latencies.len(), "{name}");
        let stolen = outcome.samples.values().filter(|sample| sample.stolen_seconds.is_some()).count();
        assert_eq!(stolen, if cfg!(target_os = "linux") { outcome.samples.len() } else { 0 }, "{name}");
        assert_eq!(outcome.wrong_reads, 0, "{name}");
        let inserted = if workload.fills() { 0 } else { by_kind(OpKind::Insert) };
        if workload.deletes() {
            assert!(outcome.records < 1000 + inserted, "{name}");
        } else {
            assert_eq!(outcome.records, 1000 + inserted, "{name}");
        }
        let live: Vec<usize> = engine.map.lock().unwrap().iter().map(|(k, v)| k.len() + v.len()).collect();
        assert_eq!(
            (live.len() as u64, live.iter().sum::<usize>() as u64),
            (outcome.records, outcome.live_bytes),
            "{name}"
        );
        if workload.writer {
            assert_eq!(outcome.ops - by_kind(OpKind::Update), 3000, "{name}");
        } else {
            assert_eq!(outcome.ops, if workload.fills() { 1000 } else { 3000 }, "{name}");
        }
        assert_eq!(outcome.fill.is_some(), !workload.fills(), "{name}");
        assert!(!outcome.samples.is_empty() && outcome.seconds > 0.0, "{name}");
    }
}

#[test]
fn one_pass_gives_each_record_its_turn() {
    for (name, left) in [("deleteseq", 0), ("deleterandom", 0), ("readseq", 1000)] {
        let engine = MapEngine::default();
        let (ops, seconds) = default_limits(catalog::find(name).unwrap(), 1000);
        let outcome = run(&engine, &Plan { ops, seconds, ..plan(name) }, &Unwatched).unwrap();
        assert_eq!(
            (outcome.ops, outcome.records),
            (if name == "readseq" { 1 } else { 1000 }, left),
            "{name}"
        );
    }
}

#[test]
fn values_of_many_lengths_are_counted() {
    let engine = MapEngine::default();
    let plan = plan("nutanix");
    let data = Dataset { value_bytes: ValueSizes::Halves { min: 10, median: 20, max: 100 }, ..plan.data };
    let outcome = run(&engine, &Plan { data, ..plan }, &Unwatched).unwrap();
    let live: usize = engine.map.lock().unwrap().iter().map(|(k, v)| k.len() + v.len()).sum();
    assert_eq!((outcome.records, outcome.live_bytes), (1000, live as u64));
    assert_ne!(live, 1000 * (16 + data.value_bytes.mean()), "lengths are drawn, not the mean");
}

#[test]
fn what_an_engine_cannot_do_is_said_before_anything_is_written() {
    let none = Abilities { delete_range: false, batches: false, scan_down: false };
    for workload in catalog::CATALOG {
        let name = workload.name;
        let engine = MapEngine { able: Some(none), ..MapEngine::default() };
        let what = match name {
            "cds" => Some("deletes of ranges"),
            "readreverse" => Some("scans downward"),
            _ if name.starts_with("oltp") => Some("batches"),
            _ => None,
        };
        match (run(&engine, &plan(name), &Unwatched), what) {
            (Ok(_), None) => {}
            (Err(error), Some(what)) => {
                assert!(error.to_string().contains(what) && error.to_string().contains(name), "{error}");
                assert!(engine.map.lock().unwrap().is_empty(), "{name}");
            }
            (done, _) => panic!("{name}: {:?}", done.err()),
        }
    }
}

#[test]
fn a_transaction_keeps_every_record() {
    let engine = MapEngine::default();
    let outcome = run(&engine, &plan("oltp-1-9"), &Unwatched).unwrap();
    assert_eq!((outcome.wrong_reads, outcome.records), (0, 1000));
    assert_eq!(engine.batches.load(std::sync::atomic::Ordering::Relaxed), 3000, "one batch a transaction");
}

#[test]
fn a_fill_in_order_is_in_order() {
    let engine = MapEngine::default();
    run(&engine, &Plan { threads: 1, ..plan("fillseq") }, &Unwatched).unwrap();
    let map = engine.map.lock().unwrap();
    let first: Vec<u8> = map.keys().take(3).map(|k| k[7]).collect();
    assert_eq!(first, [0, 2, 4]);
}

#[test]
fn records_that_are_not_there_are_reported() {
    let engine = MapEngine::default();
    let outcome = run(&engine, &Plan { filled: true, ..plan("readrandom") }, &Unwatched).unwrap();
    assert_eq!(outcome.wrong_reads, 3000);
    assert!(outcome.fill.is_none());
}

#[test]
fn a_run_by_time_ends_and_an_error_ends_it_at_once() {
    let engine = MapEngine::default();
    let by_time = Plan { ops: None, seconds: Some(0.05), ..plan("ycsb-a") };
    let outcome = run(&engine, &by_time, &Unwatched).unwrap();
    assert!(outcome.ops > 0 && outcome.seconds >= 0.05);

    let failing = MapEngine { fail_after: Some(500), ..MapEngine::default() };
    let error = run(&failing, &plan("fillrandom"), &Unwatched).unwrap_err();
    assert_eq!(error.to_string(), "full");
    assert!(
        run(&engine, &Plan { data: Dataset { key_bytes: 1, ..by_time.data }, ..by_time }, &Unwatched)
            .is_err()
    );
}

fn open(shape: &str, search: Search) -> OpenLoad {
    let shape = LoadShape::parse(shape, |_| Err(String::new())).unwrap();
    OpenLoad { shape, spacing: Spacing::Even, search }
}

#[test]
fn every_workload_takes_a_rate_and_does_what_came() {
    let load = open("constant:20k", Search::within(12.0, None));
    for workload in catalog::CATALOG.iter().filter(|w| !w.writer) {
        let name = workload.name;
        let engine = MapEngine::default();
        let outcome = run(&engine, &Plan { load: Some(&load), ..plan(name) }, &Unwatched).unwrap();
        let queue = outcome.opened.unwrap().queue;
        assert_eq!(queue.requests, if workload.fills() { 1000 } else { 3000 }, "{name}");
        assert_eq!((outcome.ops, queue.unfinished, outcome.wrong_reads), (queue.requests, 0, 0), "{name}");
        let counted = outcome.latencies.iter().flatten().map(hdrhistogram::Histogram::len);
        assert_eq!(counted.sum::<u64>(), outcome.ops, "{name}");
        assert_eq!(engine.map.lock().unwrap().len() as u64, outcome.records, "{name}");
        assert!(outcome.driver.ns_per_op > 0.0 && outcome.driver.wake_up_us.is_some(), "{name}");
        assert_eq!(outcome.max_rate, None, "{name}");
    }
}

#[test]
fn a_share_is_of_what_was_found_on_the_same_store() {
    let engine = MapEngine::default();
    let search = Search { p99: None, probe_seconds: 0.2, budget_seconds: 1.0 };
    let load = open("steps:10%@0.2,20%@0.2", search);
    let plan = Plan { load: Some(&load), ops: None, seconds: None, ..plan("ycsb-d") };
    // A machine too busy for any rate at all within a second is an error that says so.
    let outcome = match run(&engine, &plan, &Unwatched) {
        Ok(outcome) => outcome,
        Err(error) => return assert!(error.to_string().contains("--budget"), "{error}"),
    };
    let found = outcome.max_rate.unwrap();
    assert!(found.probes.iter().any(|probe| probe.held && probe.rate == found.ops_per_sec));
    assert!(found.closed_loop_ops_per_sec > 0.0 && found.spent_seconds > 0.0);
    let queue = outcome.opened.unwrap().queue;
    let expected = found.ops_per_sec * (0.1 + 0.2) * 0.2;
    assert!((queue.requests as f64 - expected).abs() <= 2.0, "{queue:?} for {expected}");
    assert_eq!(queue.seconds, 0.4);
    // What the probes inserted is there, and what the run inserted too.
    assert_eq!(engine.map.lock().unwrap().len() as u64, outcome.records);
}

#[test]
fn loads_that_make_no_sense_say_what_would() {
    let search = Search::within(12.0, None);
    let refused = |name: &str, shape: &str, seconds| {
        open(shape, search).check(catalog::find(name).unwrap(), seconds).unwrap_err()
    };
    assert!(refused("readwhilewriting", "constant:5", None).contains("ycsb-a"));
    assert!(refused("fillrandom", "sustained", None).contains("requests a second"));
    assert!(refused("deleterandom", "sustained", None).contains("requests a second"));
    assert!(refused("ycsb-a", "steps:5@2,6@2", Some(5.0)).contains("4 seconds"));
    let fine = open("steps:5@2,6@2", search);
    assert_eq!(fine.check(catalog::find("fillseq").unwrap(), Some(4.0)), Ok(()));
}

/// Filling goes as fast as the store takes it, and writers wait.
#[test]
fn stalls_are_those_of_the_measurement() {
    let count = |name| {
        let engine = MapEngine::default();
        let figures = run(&engine, &plan(name), &Unwatched).unwrap().figures;
        [figures.stalls, figures.flush_bytes]
    };
    // A stall for each record there is.
    assert_eq!(count("fillrandom"), [Some(1000); 2]);
    assert_eq!(count("overwrite"), [Some(0), Some(1000)]);
}
