//! The driver on a map in memory: counts, presence, limits and errors.

use super::*;
use crate::catalog;
use crate::map_engine::{MapEngine, Quiet};
use crate::workload::OpKind;

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
        threads: 3,
        distribution: workload.distribution,
        seed: 2,
    }
}

#[test]
fn every_workload_does_what_it_counts() {
    for workload in catalog::CATALOG {
        let name = workload.name;
        let engine = MapEngine::default();
        let outcome = run(&engine, &plan(name), &Quiet).unwrap();
        let by_kind =
            |kind: OpKind| outcome.latencies[kind.index()].as_ref().map_or(0, hdrhistogram::Histogram::len);
        assert_eq!(OpKind::ALL.iter().map(|k| by_kind(*k)).sum::<u64>(), outcome.ops, "{name}");
        assert_eq!(outcome.windows.iter().map(|w| w.ops).sum::<u64>(), outcome.ops, "{name}");
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
        let outcome = run(&engine, &Plan { ops, seconds, ..plan(name) }, &Quiet).unwrap();
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
    let outcome = run(&engine, &Plan { data, ..plan }, &Quiet).unwrap();
    let live: usize = engine.map.lock().unwrap().iter().map(|(k, v)| k.len() + v.len()).sum();
    assert_eq!((outcome.records, outcome.live_bytes), (1000, live as u64));
    assert_ne!(live, 1000 * (16 + data.value_bytes.mean()), "lengths are drawn, not the mean");
}

#[test]
fn a_transaction_keeps_every_record() {
    let engine = MapEngine::default();
    let outcome = run(&engine, &plan("oltp-1-9"), &Quiet).unwrap();
    assert_eq!((outcome.wrong_reads, outcome.records), (0, 1000));
    assert_eq!(engine.batches.load(std::sync::atomic::Ordering::Relaxed), 3000, "one batch a transaction");
}

#[test]
fn a_fill_in_order_is_in_order() {
    let engine = MapEngine::default();
    run(&engine, &Plan { threads: 1, ..plan("fillseq") }, &Quiet).unwrap();
    let map = engine.map.lock().unwrap();
    let first: Vec<u8> = map.keys().take(3).map(|k| k[7]).collect();
    assert_eq!(first, [0, 2, 4]);
}

#[test]
fn records_that_are_not_there_are_reported() {
    let engine = MapEngine::default();
    let outcome = run(&engine, &Plan { filled: true, ..plan("readrandom") }, &Quiet).unwrap();
    assert_eq!(outcome.wrong_reads, 3000);
    assert!(outcome.fill.is_none());
}

#[test]
fn a_run_by_time_ends_and_an_error_ends_it_at_once() {
    let engine = MapEngine::default();
    let by_time = Plan { ops: None, seconds: Some(0.05), ..plan("ycsb-a") };
    let outcome = run(&engine, &by_time, &Quiet).unwrap();
    assert!(outcome.ops > 0 && outcome.seconds >= 0.05);

    let failing = MapEngine { fail_after: Some(500), ..MapEngine::default() };
    let error = run(&failing, &plan("fillrandom"), &Quiet).unwrap_err();
    assert_eq!(error.to_string(), "full");
    assert!(
        run(&engine, &Plan { data: Dataset { key_bytes: 1, ..by_time.data }, ..by_time }, &Quiet).is_err()
    );
}
