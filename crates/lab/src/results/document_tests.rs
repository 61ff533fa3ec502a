//! The document: every field documented, earlier documents read, what is counted of what.

use super::*;
use crate::base::provenance::Host;
use crate::load::load_shape::{LoadShape, Rate};
use crate::results::report::sample;
use crate::run::driver::OpenLoad;
use crate::run::max_rate::{Probe, Search};
use crate::run::open_loop::Queue;
use crate::run::steady::SteadyLatency;

#[test]
fn what_the_lab_s_threads_used_to_wait_is_not_the_engine_s() {
    let mut document = sample::document("evenkeel", 3);
    (document.cpu_seconds, document.ops) = (Some(3.0), 1_000_000);
    assert_eq!(document.cpu_us_per_op(), Some(3.0));
    let waiting_cpu_seconds = Some(1.0);
    document.open_loop = Some(OpenLoop { waiting_cpu_seconds, ..sample::open_loop() });
    assert_eq!(document.cpu_us_per_op(), Some(2.0));
    document.cpu_seconds = None;
    assert_eq!(document.cpu_us_per_op(), None);
}

fn names(value: &serde_json::Value, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                into.push(name.clone());
                names(value, into);
            }
        }
        serde_json::Value::Array(rows) => rows.iter().for_each(|row| names(row, into)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    let row = WindowRow {
        second: 0,
        offered: None,
        achieved: 1.0,
        queue: None,
        p99_us: None,
        max_us: None,
        client_bytes: 0,
        flush_bytes: None,
        l0_bytes: None,
        deep_bytes: None,
        l0_runs: None,
        level_bytes: None,
        internal_limit: None,
        internal_bytes: None,
        client_read_bytes: None,
        client_estimate: None,
        flushes_delayed: None,
        stall_seconds: None,
        jobs_open: None,
        memtables_full: None,
        debt_bytes: None,
        others_cores: None,
        stolen_seconds: None,
        disk_late_seconds: None,
    };
    let some = Percentiles::default();
    let probe = Probe {
        rate: 1.0,
        completed_share: 1.0,
        queue_at_end: 0,
        queue_grew: false,
        worst_p99_us: None,
        held: true,
        halted: false,
    };
    let max_rate = MaxRate {
        ops_per_sec: 1.0,
        failed_ops_per_sec: None,
        closed_loop_ops_per_sec: 1.0,
        p99_limit_us: None,
        probe_seconds: 1.0,
        budget_seconds: 1.0,
        spent_seconds: 1.0,
        probes: vec![probe],
        others_cores: None,
        wrong_reads: 0,
    };
    let load = OpenLoad {
        shape: LoadShape::Constant(Rate::Share(0.5)),
        spacing: Spacing::Even,
        search: Search::within(60.0, None),
    };
    let opened = Opened {
        queue: Queue::default(),
        wake_up_us: some,
        waiting_cpu: std::time::Duration::from_secs(1),
        held: true,
    };
    let latency =
        Latency { count: 1, mean: 1.0, p50: 1.0, p90: 1.0, p99: 1.0, p999: 1.0, max: 1.0, curve: Vec::new() };
    let steady = SteadyLatency { count: 1, p50: 1.0, p99: 1.0, p999: 1.0, max: 1.0 };
    let steady = [("read".to_owned(), steady)];
    let document = Document {
        workload: String::new(),
        engine: String::new(),
        version: String::new(),
        seed: 0,
        config: Config {
            threads: 1,
            ops: None,
            seconds: None,
            warm_seconds: None,
            key_bytes: 16,
            value_bytes: 100,
            value_sizes: "100".to_owned(),
            key_order: KeyOrder::Random,
            distribution: Distribution::Uniform,
            device: raw_disk(),
            device_bytes_per_sec: None,
            device_latency_us: None,
            engine: BTreeMap::new(),
        },
        records: 0,
        ops: 0,
        seconds: 1.0,
        throughput_ops_per_sec: 0.0,
        latency_us: OpKind::ALL.iter().map(|kind| (kind.name().to_owned(), latency.clone())).collect(),
        windows: vec![row],
        steady: Some(Steady { latency_us: steady.into(), ..Steady::default() }),
        wrong_reads: 0,
        load: Some(Load { seconds: 1.0, throughput_ops_per_sec: 1.0, idle_seconds: 1.0 }),
        idle_seconds: Some(0.0),
        amplification: Amplification { write: None, read: None, space: None, moved: None },
        compaction: compaction(&Figures::default()),
        stalls: Stalls { count: None, seconds: None },
        cpu_seconds: None,
        monitor_cpu_seconds: None,
        others_cores: None,
        peak_rss_bytes: None,
        disk_bytes: 0,
        open_seconds: None,
        driver: DriverCost { wake_up_us: Some(some), ..DriverCost::default() },
        open_loop: Some(open_loop(load.shape.to_string(), load.spacing, &opened)),
        replay: Some(Replay::default()),
        max_rate: Some(max_rate),
        groups: vec![Group { level: 1, looks_per_get: Some(0.25), ..Group::default() }],
        provenance: Some(Provenance { command: String::new(), began_ms: 0, host: Host::default() }),
    };
    let json = document.to_json().unwrap();
    assert_eq!(Document::from_json(&json).unwrap().to_json().unwrap(), json);
    let documentation = include_str!("../../../../docs/bench_json.md");
    let mut fields = Vec::new();
    names(&serde_json::from_str(&json).unwrap(), &mut fields);
    assert!(fields.len() > 40);
    for field in fields {
        assert!(documentation.contains(&format!("`{field}`")), "docs/bench_json.md lacks `{field}`");
    }
}

#[test]
fn a_document_from_before_memtables_were_counted_is_read() {
    let mut old = serde_json::to_value(sample::document("x", 2)).unwrap();
    for row in old["windows"].as_array_mut().unwrap() {
        assert!(row.as_object_mut().unwrap().remove("memtables_full").is_some());
    }
    let read = Document::from_json(&old.to_string()).unwrap();
    assert!(read.windows.len() == 2 && read.windows.iter().all(|row| row.memtables_full.is_none()));
}

#[test]
fn a_document_from_before_steal_was_counted_is_read() {
    let mut old = serde_json::to_value(crate::results::report::sample::document("x", 2)).unwrap();
    assert!(old.as_object_mut().unwrap().remove("steady").is_some());
    for row in old["windows"].as_array_mut().unwrap() {
        assert!(row.as_object_mut().unwrap().remove("stolen_seconds").is_some());
    }
    let read = Document::from_json(&old.to_string()).unwrap();
    assert!(read.steady.is_none() && read.windows.iter().all(|row| row.stolen_seconds.is_none()));
    assert_eq!(read.windows.len(), 2);
}

#[test]
fn a_curve_rises_to_the_largest() {
    let mut h = Histogram::<u64>::new(3).unwrap();
    (1..=1000).for_each(|us| h.record(us * 1000).unwrap());
    let points = curve(&h);
    assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{points:?}");
    assert_eq!(points.len(), 25);
    let (quantile, us) = points[8];
    assert!((quantile - 0.9).abs() < 1e-9 && (899.0..902.0).contains(&us), "{points:?}");
    let (quantile, us) = points[24];
    assert!((quantile - 0.999).abs() < 1e-9 && (1000.0..1001.0).contains(&us), "{points:?}");
    h.reset();
    h.record(5000).unwrap();
    assert_eq!(curve(&h).len(), 1, "one operation is one point");
}
