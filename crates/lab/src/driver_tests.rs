//! The driver on a map in memory: counts, presence, limits and errors.

use std::sync::Mutex;

use super::*;
use crate::engine::{Change, Scanned};
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

struct Quiet;

impl Watch for Quiet {
    fn begin(&self, _: Phase, _: Total) {}
    fn advance(&self, _: u64, _: u64) {}
    fn end(&self) {}
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
    }
}

#[test]
fn every_workload_does_what_it_counts() {
    for workload in workload::CATALOG {
        let name = workload.name;
        let engine = MapEngine::default();
        let outcome = run(&engine, &plan(name), &Quiet).unwrap();
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
