//! The driver on a map in memory: counts, presence, limits and errors.

use std::sync::Mutex;

use super::*;
use crate::engine::{Change, Scanned};
use crate::phase::Unwatched;
use crate::workload;

/// A map in memory that can be told to fail.
#[derive(Default)]
struct MapEngine {
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    fail_after: Option<usize>,
}

impl Engine for MapEngine {
    fn name(&self) -> &'static str {
        "map"
    }

    fn version(&self) -> String {
        "0".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut map = self.map.lock().unwrap();
        if self.fail_after.is_some_and(|n| map.len() >= n) {
            return Err("full".into());
        }
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.map.lock().unwrap().get(key).map(Vec::len))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let map = self.map.lock().unwrap();
        let mut scanned = Scanned::default();
        for (key, value) in map.range(from.to_vec()..).take(limit) {
            scanned.entries += 1;
            scanned.bytes += (key.len() + value.len()) as u64;
        }
        Ok(scanned)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.map.lock().unwrap().remove(key);
        Ok(())
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.map.lock().unwrap().retain(|key, _| &key[..] < from || &key[..] >= to);
        Ok(())
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        changes.iter().try_for_each(|change| match change {
            Change::Put(key, value) => self.put(key, value),
            Change::Delete(key) => self.delete(key),
        })
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures { flush_bytes: Some(self.map.lock().unwrap().len() as u64), ..Figures::default() }
    }

    fn disk_bytes(&self) -> u64 {
        4096
    }
}

fn plan(name: &str) -> Plan<'static> {
    let workload = workload::find(name).unwrap();
    Plan {
        workload,
        data: Dataset { records: 1000, key_bytes: 16, value_bytes: 20, order: workload.order, seed: 1 },
        filled: false,
        ops: (!workload.fills()).then_some(3000),
        seconds: None,
        threads: 3,
        distribution: workload.distribution,
        seed: 2,
        load: None,
    }
}

#[test]
fn every_workload_does_what_it_counts() {
    for workload in workload::CATALOG {
        let name = workload.name;
        let engine = MapEngine::default();
        let outcome = run(&engine, &plan(name), &Unwatched).unwrap();
        let by_kind =
            |kind: OpKind| outcome.latencies[kind.index()].as_ref().map_or(0, hdrhistogram::Histogram::len);
        assert_eq!(OpKind::ALL.iter().map(|k| by_kind(*k)).sum::<u64>(), outcome.ops, "{name}");
        assert_eq!(outcome.windows.iter().map(|w| w.ops).sum::<u64>(), outcome.ops, "{name}");
        assert_eq!(outcome.wrong_reads, 0, "{name}");
        let inserted = if workload.fills() { 0 } else { by_kind(OpKind::Insert) };
        assert_eq!(outcome.records, 1000 + inserted, "{name}");
        assert_eq!(engine.map.lock().unwrap().len() as u64, outcome.records, "{name}");
        if workload.writer {
            assert_eq!(by_kind(OpKind::Read), 3000, "{name}");
        } else {
            assert_eq!(outcome.ops, if workload.fills() { 1000 } else { 3000 }, "{name}");
        }
        assert_eq!(outcome.fill.is_some(), !workload.fills(), "{name}");
        assert!(!outcome.samples.is_empty() && outcome.seconds > 0.0, "{name}");
    }
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
    for workload in workload::CATALOG.iter().filter(|w| !w.writer) {
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
        open(shape, search).check(workload::find(name).unwrap(), seconds).unwrap_err()
    };
    assert!(refused("readwhilewriting", "constant:5", None).contains("ycsb-a"));
    assert!(refused("fillrandom", "sustained", None).contains("requests a second"));
    assert!(refused("ycsb-a", "steps:5@2,6@2", Some(5.0)).contains("4 seconds"));
    let fine = open("steps:5@2,6@2", search);
    assert_eq!(fine.check(workload::find("fillseq").unwrap(), Some(4.0)), Ok(()));
}
