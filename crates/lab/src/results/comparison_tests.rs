//! Comparisons of documents made by hand.

use super::*;
use crate::results::comparison_table::{COLUMNS, text};
use crate::run::steady::Steady;

/// A document as a bench would write it, with these figures.
fn document(engine: &str, throughput: f64, p99: f64, others: f64) -> Document {
    let latency = serde_json::json!({
        "count": 1000, "mean": 2.0, "p50": 1.5, "p90": 2.0, "p99": p99, "p999": 2.0 * p99, "max": 100.0 * p99
    });
    let window = |second: u64, achieved: f64| {
        serde_json::json!({
            "second": second, "offered": null, "achieved": achieved, "p99_us": p99 * (second + 1) as f64,
            "max_us": 1.0, "client_bytes": 0, "flush_bytes": null, "l0_bytes": null, "deep_bytes": null,
            "l0_runs": null, "internal_limit": null
        })
    };
    serde_json::from_value(serde_json::json!({
        "workload": "ycsb-a", "engine": engine, "version": "1.2.3", "seed": 42,
        "config": {
            "threads": 2, "ops": null, "seconds": 2.5, "key_bytes": 16, "value_bytes": 1000,
            "key_order": "random", "distribution": "zipfian",
            "settings": "equal", "sync": "os", "options": {"memtable_bytes": 67108864, "cache_bytes": 268435456}
        },
        "records": 100_000, "ops": 1_000_000, "seconds": 2.5, "throughput_ops_per_sec": throughput,
        "latency_us": {"read": latency, "update": latency},
        "windows": [window(0, throughput), window(1, throughput / 2.0), window(2, 1.0)],
        "wrong_reads": 0, "load": null, "idle_seconds": 0.5,
        "amplification": {"write": 4.0, "read": null, "space": 1.1},
        "compaction": {
            "count": null, "bytes_read": null, "bytes_written": null, "moved": null, "wasted_bytes": null,
            "latency_us": null
        },
        "stalls": {"count": null, "seconds": null},
        "cpu_seconds": 3.0, "others_cores": others, "peak_rss_bytes": 1 << 27, "disk_bytes": 1 << 30
    }))
    .unwrap()
}

fn run(engine: &str, throughput: f64, p99: f64) -> Run {
    Run { settings: "equal".to_owned(), repeats: 0, document: document(engine, throughput, p99, 0.01) }
}

/// Alternating rounds of evenkeel and rocksdb with these throughputs and p99s.
fn rounds(ours: &[(f64, f64)], theirs: &[(f64, f64)]) -> Comparison {
    let pair = |(a, b): (&(f64, f64), &(f64, f64))| [run("evenkeel", a.0, a.1), run("rocksdb", b.0, b.1)];
    let runs: Vec<Run> = ours.iter().zip(theirs).flat_map(pair).collect();
    compare(&runs).unwrap()
}

fn cell<'a>(comparison: &'a Comparison, name: &str, contestant: usize) -> &'a Cell {
    let figure = comparison.groups[0].figures.iter().find(|figure| figure.name == name);
    &figure.unwrap_or_else(|| panic!("no figure `{name}`")).cells[contestant]
}

#[test]
fn medians_spreads_and_ratios_are_against_the_first_peer() {
    let c =
        rounds(&[(900.0, 5.0), (1100.0, 5.0), (1000.0, 5.0)], &[(210.0, 5.0), (190.0, 5.0), (200.0, 5.0)]);
    assert_eq!((c.workload.as_str(), c.rounds, c.groups[0].baseline), ("ycsb-a", 3, Some(1)));
    let ours = cell(&c, "throughput", 0);
    assert_eq!((ours.median, ours.min, ours.max), (Some(1000.0), Some(900.0), Some(1100.0)));
    assert_eq!((ours.ratio, ours.verdict), (Some(5.0), Some(Verdict::Better)));
    let theirs = cell(&c, "throughput", 1);
    assert_eq!((theirs.ratio, theirs.verdict), (Some(1.0), None));
    // 3 CPU seconds for a million operations; the slowest whole second, not the one cut off.
    assert_eq!(cell(&c, "CPU per op", 0).median, Some(3.0));
    assert_eq!(cell(&c, "slowest second", 0).median, Some(500.0));
    assert_eq!(cell(&c, "worst s p99", 0).median, Some(10.0));
}

#[test]
fn a_difference_below_the_spread_is_none() {
    let c = rounds(&[(100.0, 5.0), (120.0, 5.0), (110.0, 5.0)], &[(100.0, 5.0); 3]);
    assert_eq!(cell(&c, "throughput", 0).verdict, Some(Verdict::None));
    let c = rounds(&[(89.0, 5.0), (90.0, 5.0), (91.0, 5.0)], &[(100.0, 5.0); 3]);
    assert_eq!(cell(&c, "throughput", 0).verdict, Some(Verdict::Worse));
    assert_eq!(cell(&c, "read p50", 0).verdict, Some(Verdict::None));
}

#[test]
fn tails_need_five_rounds_and_twice_the_difference() {
    let at = |rounds_of: usize, p99: f64| {
        let c = rounds(&vec![(100.0, p99); rounds_of], &vec![(100.0, 10.0); rounds_of]);
        cell(&c, "read p99", 0).verdict
    };
    assert_eq!(at(3, 1.0), Some(Verdict::TooFew));
    assert_eq!(at(5, 5.1), Some(Verdict::None));
    assert_eq!(at(5, 4.9), Some(Verdict::Better));
    assert_eq!(at(5, 19.9), Some(Verdict::None));
    assert_eq!(at(5, 20.1), Some(Verdict::Worse));
}

#[test]
fn too_few_or_disturbed_runs_give_no_verdict() {
    let c = rounds(&[(900.0, 5.0), (900.0, 5.0)], &[(100.0, 5.0), (100.0, 5.0)]);
    assert_eq!(cell(&c, "throughput", 0).verdict, Some(Verdict::TooFew));

    let mut runs: Vec<Run> =
        (0..3).flat_map(|_| [run("evenkeel", 9.0, 1.0), run("rocksdb", 1.0, 1.0)]).collect();
    runs[3].document.others_cores = Some(OTHERS_CORES_MAX + 0.01);
    runs[3].repeats = 2;
    let c = compare(&runs).unwrap();
    assert_eq!(cell(&c, "throughput", 0).verdict, Some(Verdict::Disturbed));
    let peer = &c.groups[0].contestants[1];
    assert_eq!((peer.disturbed, peer.repeats, peer.runs.len()), (1, 2, 3));
    let table = text(&c);
    assert!(
        table.contains("noise") && table.contains("rocksdb: 1 of 3 runs disturbed, 2 repeated"),
        "{table}"
    );
}

#[test]
fn a_second_without_a_row_is_one_in_which_nothing_ended() {
    let stalled = || {
        let mut run = run("evenkeel", 900.0, 1.0);
        run.document.windows.remove(1);
        run
    };
    let runs: Vec<Run> = (0..5).flat_map(|_| [stalled(), run("rocksdb", 100.0, 1.0)]).collect();
    let c = compare(&runs).unwrap();
    assert_eq!(cell(&c, "slowest second", 0).median, Some(0.0));
    assert_eq!(cell(&c, "slowest second", 0).verdict, Some(Verdict::Worse));
}

fn under_load(run: Run, completed_share: f64) -> Run {
    let load = serde_json::json!({
        "shape": "constant:1000", "spacing": "even", "requests": 1000, "seconds": 1.0, "offered_ops_per_sec": 1000.0,
        "completed_share": completed_share, "queue_at_end": 0, "queue_max": 0, "unfinished": 0,
        "wake_up_us": {"p50": 1.0, "p99": 1.0}, "held": true
    });
    let open_loop = Some(serde_json::from_value(load).unwrap());
    Run { document: Document { open_loop, ..run.document }, ..run }
}

fn at_own_rate(run: Run, failed: Option<f64>) -> Run {
    let found = serde_json::json!({
        "ops_per_sec": 100.0, "failed_ops_per_sec": failed, "closed_loop_ops_per_sec": 200.0, "p99_limit_us": null,
        "probe_seconds": 1.0, "budget_seconds": 1.0, "spent_seconds": 1.0, "probes": [], "others_cores": 0.0
    });
    let max_rate = Some(serde_json::from_value(found).unwrap());
    Run { document: Document { max_rate, ..run.document }, ..run }
}

#[test]
fn latencies_say_nothing_where_loads_differ_or_are_not_served() {
    let late = |share: f64| {
        let pair =
            |_| [under_load(run("evenkeel", 9.0, 1.0), 1.0), under_load(run("rocksdb", 9.0, 9.0), share)];
        compare(&(0..5).flat_map(pair).collect::<Vec<Run>>()).unwrap()
    };
    assert_eq!(cell(&late(0.995), "read p99", 0).verdict, Some(Verdict::Better));
    assert_eq!(cell(&late(0.98), "read p99", 0).verdict, Some(Verdict::Late));
    assert_eq!(cell(&late(0.98), "CPU per op", 0).verdict, Some(Verdict::None));
    assert!(text(&late(0.98)).contains("late: requests"));

    let own = |failed: Option<f64>| {
        let pair = |_| {
            [at_own_rate(run("evenkeel", 9.0, 1.0), failed), at_own_rate(run("rocksdb", 9.0, 9.0), failed)]
        };
        compare(&(0..5).flat_map(pair).collect::<Vec<Run>>()).unwrap()
    };
    let found = own(Some(104.0));
    assert_eq!(cell(&found, "read p99", 0).verdict, Some(Verdict::OtherLoad));
    assert_eq!(cell(&found, "highest rate", 0).median, Some(100.0));
    assert!(text(&found).contains("give a --rate"));
    // A search that did not come to its end has found nothing.
    for failed in [None, Some(140.0)] {
        assert_eq!(cell(&own(failed), "highest rate", 0).median, None);
    }
}

#[test]
fn others_during_the_search_disturb_a_run_too() {
    let mut run = at_own_rate(run("evenkeel", 9.0, 1.0), None);
    assert!(!run.disturbed());
    if let Some(found) = &mut run.document.max_rate {
        found.others_cores = Some(OTHERS_CORES_MAX + 0.01);
    }
    assert!(run.disturbed());
    assert_eq!(why_disturbed(&run.document), Some("others used the CPU"));
}

/// A run whose machine stood still in so many seconds of 60, and what its tails are without them.
fn halted(run: Run, left_out: u64, steady: f64) -> Run {
    let latency = SteadyLatency { count: 900, p50: 1.5, p99: steady, p999: 2.0 * steady, max: 9.0 * steady };
    let kinds = ["read", "update"].map(|kind| (kind.to_owned(), latency));
    let steady = Steady {
        seconds: 60,
        halted_seconds: left_out / 2,
        left_out_seconds: left_out,
        worst_second_p99_us: Some(3.0 * steady),
        latency_us: kinds.into(),
        ..Steady::default()
    };
    Run { document: Document { steady: Some(steady), ..run.document }, ..run }
}

#[test]
fn tails_are_judged_without_the_seconds_in_which_the_machine_stood_still() {
    // With the halts we look twice as bad as the other, without them we are four times better.
    let ours = || halted(run("evenkeel", 100.0, 1000.0), 10, 2.0);
    let theirs = || halted(run("rocksdb", 100.0, 500.0), 4, 8.0);
    let mut runs: Vec<Run> = (0..5).flat_map(|_| [ours(), theirs()]).collect();
    let c = compare(&runs).unwrap();
    for (name, steady) in [("read p99", 2.0), ("update p99.9", 4.0), ("read max", 18.0), ("worst s p99", 6.0)]
    {
        let plain = cell(&c, name, 0);
        assert_eq!(plain.verdict, None, "{name} is shown, not judged");
        assert!(plain.median.unwrap() >= 1000.0 && plain.ratio > Some(1.9), "{name}: {plain:?}");
        let judged = cell(&c, &format!("{name}*"), 0);
        assert_eq!((judged.median, judged.verdict), (Some(steady), Some(Verdict::Better)), "{name}");
    }
    assert_eq!(cell(&c, "read p50", 0).verdict, Some(Verdict::None));
    assert!(c.groups[0].figures.iter().all(|figure| figure.steady == figure.name.ends_with('*')));
    let table = text(&c);
    assert!(table.contains("\nread p99*") && table.contains("\nread p99 "), "{table}");
    assert!(table.replace("\n  ", " ").contains("evenkeel 50 of 300, rocksdb 20 of 300"), "{table}");

    // One run that does not tell, and all are judged by what all tell.
    runs[7].document.steady = None;
    let c = compare(&runs).unwrap();
    assert!(c.groups[0].figures.iter().all(|figure| !figure.steady));
    assert_eq!(cell(&c, "update p99", 0).verdict, Some(Verdict::Worse));
    assert!(!text(&c).contains('*'));
}

#[test]
fn a_machine_that_stood_still_most_of_the_time_disturbs() {
    let at = |left_out| halted(run("rocksdb", 1.0, 1.0), left_out, 1.0);
    assert!(!at(30).disturbed() && at(31).disturbed());
    let why = |run: &Run| why_disturbed(&run.document);
    assert_eq!((why(&at(30)), why(&at(31))), (None, Some("the machine itself stood still for most seconds")));
    assert!(disturbance(&at(60).document) > disturbance(&at(40).document), "of two the calmer counts");
    let mut busy = at(0);
    busy.document.others_cores = Some(OTHERS_CORES_MAX * 1.5);
    assert_eq!((busy.disturbed(), why(&busy)), (true, Some("others used the CPU")));
    let runs: Vec<Run> = (0..3).flat_map(|_| [run("evenkeel", 9.0, 1.0), at(31)]).collect();
    let c = compare(&runs).unwrap();
    assert_eq!(cell(&c, "throughput", 0).verdict, Some(Verdict::Disturbed));
    assert!(text(&c).contains("50 % of its seconds"), "{}", text(&c));
}

#[test]
fn what_an_engine_does_not_tell_is_unknown() {
    let mut runs: Vec<Run> =
        (0..3).flat_map(|_| [run("evenkeel", 9.0, 1.0), run("lmdb", 1.0, 1.0)]).collect();
    for run in runs.iter_mut().filter(|run| run.document.engine == "lmdb") {
        run.document.amplification.write = None;
        run.document.windows.clear();
    }
    let c = compare(&runs).unwrap();
    for name in ["write ampl.", "slowest second"] {
        assert_eq!(cell(&c, name, 1).median, None, "{name}");
        assert_eq!((cell(&c, name, 0).ratio, cell(&c, name, 0).verdict), (None, None), "{name}");
    }
    assert_eq!(cell(&c, "others' cores", 0).verdict, None);
}

#[test]
fn only_the_same_work_compares() {
    assert!(compare(&[]).is_err());
    for change in [
        (|d| d.seed = 7) as fn(&mut Document),
        |d: &mut Document| d.workload = "ycsb-b".to_owned(),
        |d: &mut Document| d.config.threads = 1,
        |d: &mut Document| d.config.device = "loop device, 100 MiB/s".to_owned(),
    ] {
        let mut runs = [run("evenkeel", 1.0, 1.0), run("rocksdb", 1.0, 1.0)];
        change(&mut runs[1].document);
        assert!(compare(&runs).unwrap_err().contains("rocksdb"));
    }
}

#[test]
fn settings_are_compared_apart_and_each_with_its_own_baseline() {
    let mut runs = Vec::new();
    for (settings, factor) in [("equal", 1.0), ("recommended", 2.0)] {
        for _ in 0..3 {
            for (engine, throughput) in [("evenkeel", 100.0), ("fjall", 50.0 * factor), ("rocksdb", 25.0)] {
                runs.push(Run { settings: settings.to_owned(), ..run(engine, throughput, 1.0) });
            }
        }
    }
    let c = compare(&runs).unwrap();
    let ratio = |group: usize| c.groups[group].figures[0].cells[0].ratio;
    assert_eq!((c.groups.len(), ratio(0), ratio(1)), (2, Some(2.0), Some(1.0)));
    assert_eq!(c.groups[1].figures[0].cells[0].verdict, Some(Verdict::None));
}

#[test]
fn the_table_fits_the_terminal_and_says_everything() {
    let engines = ["evenkeel", "rocksdb", "rocksdb-low-priority", "fjall", "lmdb"];
    let runs: Vec<Run> = (0..5).flat_map(|_| engines.map(|e| run(e, 1_234_567.0, 12_345_678.9))).collect();
    let table = text(&compare(&runs).unwrap());
    for line in table.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns: {line}", line.chars().count());
    }
    for part in [
        "ycsb-a: 100 000 records of 16 + 1000 bytes, 2 threads, zipfian, seed 42, raw disk, 5 rounds",
        "settings: equal",
        "ratio to rocksdb",
        "update p99.9",
        "slowest second",
        "peak memory",
        "others' cores",
        "fjall 1.2.3: cache_bytes=268435456 memtable_bytes=67108864 sync=os",
    ] {
        assert!(table.contains(part), "no `{part}` in {table}");
    }
    assert_eq!(table.matches("throughput").count(), 2, "five engines take two tables: {table}");
}

#[test]
fn a_comparison_survives_json() {
    let c = rounds(&[(900.0, 5.0); 3], &[(100.0, 5.0); 3]);
    let json = serde_json::to_string(&c).unwrap();
    let back: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(back.groups[0].figures, c.groups[0].figures);
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
}

#[test]
fn what_is_set_and_in_force_is_said_once() {
    let mut ours = run("evenkeel", 1000.0, 5.0);
    let set = serde_json::json!({"memtable_bytes": "67108864", "workers": "1"});
    ours.document.config.engine.insert("set".to_owned(), set);
    let comparison = compare(&[ours, run("rocksdb", 900.0, 5.0)]).unwrap();
    let lines = text(&comparison).replace("\n  ", " ");
    let line = lines.lines().find(|line| line.starts_with("evenkeel 1.2.3:")).unwrap();
    for name in ["memtable_bytes=67108864", "cache_bytes=268435456", "workers=1", "sync=os"] {
        assert_eq!(line.matches(name).count(), 1, "{line}");
    }
}
