//! A document with everything in it, for the tests of reports.

use std::collections::BTreeMap;

use crate::base::provenance::{Host, Provenance};
use crate::load::arrivals::Spacing;
use crate::results::document::{
    Amplification, Compaction, Config, Document, Latency, Load, OpenLoop, Stalls, WindowRow,
};
use crate::run::driver_cost::{DriverCost, Percentiles};
use crate::run::steady::{Steady, SteadyLatency};
use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;

/// Requests that came evenly and were all served, a thousand in a second.
pub fn open_loop() -> OpenLoop {
    OpenLoop {
        shape: "constant:1000".to_owned(),
        spacing: Spacing::Even,
        requests: 1000,
        seconds: 1.0,
        offered_ops_per_sec: 1000.0,
        completed_share: 1.0,
        queue_at_end: 0,
        queue_max: 0,
        unfinished: 0,
        wake_up_us: Percentiles::default(),
        waiting_cpu_seconds: None,
        held: true,
    }
}

/// A run of so many seconds.
pub fn document(engine: &str, seconds: u64) -> Document {
    let latency = |us: f64| Latency {
        count: 100_000,
        mean: us * 1.1,
        p50: us,
        p90: us * 2.0,
        p99: us * 5.0,
        p999: us * 80.0,
        max: us * 900.0,
        curve: vec![(0.0, us / 2.0), (0.9, us * 2.0), (0.99, us * 5.0), (0.99999, us * 900.0)],
    };
    Document {
        workload: "ycsb-a".to_owned(),
        engine: engine.to_owned(),
        version: "1.2.3".to_owned(),
        seed: 42,
        config: Config {
            threads: 2,
            ops: None,
            seconds: Some(seconds as f64),
            warm_seconds: None,
            key_bytes: 16,
            value_bytes: 1000,
            value_sizes: "1000".to_owned(),
            key_order: KeyOrder::Random,
            distribution: Distribution::Zipfian,
            device: "emulated, 100 MiB/s".to_owned(),
            device_bytes_per_sec: Some(100 << 20),
            device_latency_us: Some(0),
            engine: BTreeMap::from([
                ("strategy".to_owned(), "lo+1".into()),
                ("set".to_owned(), serde_json::json!({})),
            ]),
        },
        records: 100_000,
        ops: 200_000,
        seconds: seconds as f64,
        throughput_ops_per_sec: 200_000.0 / seconds.max(1) as f64,
        latency_us: BTreeMap::from([("read".to_owned(), latency(7.0)), ("update".to_owned(), latency(4.0))]),
        windows: (0..seconds).map(window).collect(),
        steady: Some(steady(seconds, latency)),
        wrong_reads: 0,
        load: Some(Load { seconds: 1.5, throughput_ops_per_sec: 66_000.0, idle_seconds: 0.5 }),
        idle_seconds: Some(0.25),
        amplification: Amplification {
            write: Some(5.25),
            read: Some(2.0),
            space: Some(1.1),
            moved: Some(9.5),
        },
        compaction: Compaction {
            count: Some(12),
            bytes_read: Some(1 << 30),
            bytes_written: Some(1 << 30),
            moved: Some(3),
            wasted_bytes: Some(0),
            latency_us: None,
        },
        stalls: Stalls { count: Some(2), seconds: Some(0.02) },
        cpu_seconds: Some(12.5),
        monitor_cpu_seconds: Some(0.001),
        others_cores: Some(0.05),
        peak_rss_bytes: Some(200 << 20),
        disk_bytes: 110 << 20,
        open_seconds: Some(0.01),
        driver: DriverCost::default(),
        open_loop: None,
        max_rate: None,
        replay: None,
        groups: Vec::new(),
        provenance: Some(Provenance {
            command: "keel bench ycsb-a".to_owned(),
            began_ms: 1_772_323_200_000,
            host: Host {
                cores: Some(2),
                cpu: Some("A Processor".to_owned()),
                memory_bytes: Some(24 << 30),
                kernel: Some("Linux 6.1".to_owned()),
                disk: Some("ext4 on /dev/vda".to_owned()),
            },
        }),
    }
}

fn steady(seconds: u64, latency: impl Fn(f64) -> Latency) -> Steady {
    let of = |us: f64| {
        let Latency { count, p50, p99, p999, .. } = latency(us);
        SteadyLatency { count, p50, p99, p999, max: us * 100.0 }
    };
    Steady {
        seconds,
        halted_seconds: seconds.saturating_sub(1).min(1),
        left_out_seconds: (seconds / 2).min(2),
        p50_us: Some(5.0),
        p99_us: Some(34.0),
        p999_us: Some(550.0),
        max_us: Some(700.0),
        worst_second_p99_us: Some(35.0),
        slowest_second_ops: Some(18_000.0),
        latency_us: BTreeMap::from([("read".to_owned(), of(7.0)), ("update".to_owned(), of(4.0))]),
    }
}

fn window(second: u64) -> WindowRow {
    WindowRow {
        second,
        offered: Some(20_000.0),
        achieved: 19_000.0 + (second % 3) as f64 * 500.0,
        queue: Some(3),
        p99_us: Some(35.0 + second as f64),
        max_us: Some(5000.0),
        client_bytes: 20 << 20,
        flush_bytes: Some(10 << 20),
        l0_bytes: Some(8 << 20),
        deep_bytes: Some(30 << 20),
        l0_runs: Some(second % 5),
        level_bytes: Some([(second % 5) << 22, 16 << 20, (100 + second) << 20, 0]),
        internal_limit: Some(1e8),
        internal_bytes: Some(70 << 20),
        client_read_bytes: Some(30 << 20),
        client_estimate: Some(31e6),
        flushes_delayed: Some(0),
        stall_seconds: Some(0.0),
        jobs_open: Some(2),
        memtables_full: Some(1),
        debt_bytes: Some((second % 7) << 20),
        others_cores: Some(0.01),
        stolen_seconds: Some(if second == 1 { 0.1 } else { 0.0 }),
        disk_late_seconds: None,
    }
}
