//! `keel bench`: small runs of every workload, the document, and what is done with directories.

use std::fs;
use std::path::Path;

#[cfg(unix)]
use crate::signalled;
use crate::{Keel, list, make_dir, read_file, write_file};

const WORKLOADS: [&str; 28] = [
    "fillseq",
    "fillrandom",
    "overwrite",
    "updaterandom",
    "deleteseq",
    "deleterandom",
    "readrandom",
    "readmissing",
    "readhot",
    "readseq",
    "readreverse",
    "seekrandom",
    "readwhilewriting",
    "seekrandomwhilewriting",
    "readrandomwriterandom",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "nutanix",
    "oltp",
    "oltp-5-5",
    "oltp-1-9",
    "oltp-9-1",
    "oltp-writes",
    "cds",
];

#[test]
fn every_workload_gives_its_document() {
    for workload in WORKLOADS {
        let keel = Keel::new();
        let fills = workload.starts_with("fill");
        // Transactions and long scans are some hundred records each.
        let ops = if workload.starts_with("oltp") || workload.starts_with("reads") { 300 } else { 3000 };
        let (ops, ops_text) = (ops, ops.to_string());
        let mut args = vec!["bench", workload, "--records", "2k", "--value-bytes", "50", "--json", "-"];
        if !fills {
            args.extend(["--ops", &ops_text, "--threads", "2"]);
        }
        let doc = keel.bare(&args).ok();
        let doc: serde_json::Value = serde_json::from_str(&doc).unwrap();
        assert_eq!(doc["workload"], workload);
        assert_eq!((&doc["engine"], &doc["seed"]), (&"evenkeel".into(), &42.into()));
        assert_eq!(doc["wrong_reads"], 0, "{workload}");
        let done = doc["ops"].as_u64().unwrap();
        assert!(if fills { done == 2000 } else { done >= ops }, "{workload}: {done}");
        assert!(doc["throughput_ops_per_sec"].as_f64().unwrap() > 0.0, "{workload}");
        let latencies = doc["latency_us"].as_object().unwrap();
        let counted: u64 = latencies.values().map(|l| l["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, done, "{workload}");
        for latency in latencies.values() {
            let at = |name: &str| latency[name].as_f64().unwrap();
            let rising = [at("p50"), at("p90"), at("p99"), at("p999"), at("max")];
            assert!(rising[0] > 0.0 && rising.is_sorted(), "{workload}: {latency}");
        }
        let windows = doc["windows"].as_array().unwrap();
        assert!(windows.iter().all(|w| w["achieved"].is_number() && w["offered"].is_null()), "{workload}");
        assert!(
            doc["amplification"]["write"].is_number()
                && doc["amplification"]["space"].is_number() != workload.starts_with("delete"),
            "{workload}: of what is all deleted there is no telling"
        );
        assert!(doc["compaction"]["count"].is_number() && doc["stalls"].is_object(), "{workload}");
        assert!(doc["disk_bytes"].as_u64().unwrap() > 0 && doc["idle_seconds"].is_number(), "{workload}");
        assert_eq!(doc["load"].is_object(), !fills, "{workload}");
        assert!(list(keel.dir.path()).is_empty(), "{workload} leaves nothing behind");
    }
}

/// What is left to do is not waited for where nobody wants to know.
#[test]
fn a_store_that_is_not_settled_says_so() {
    let keel = Keel::new();
    let fill = ["bench", "fillrandom", "--records", "1000", "--no-settle", "--json", "-"];
    let document: serde_json::Value = serde_json::from_str(&keel.bare(&fill).ok()).unwrap();
    assert!(document["idle_seconds"].is_null(), "{document}");
    for refused in [&["soak", "--no-settle"][..], &["soak", "--warm", "1"], &["soak", "--crash"]] {
        keel.bare(&[&["bench"], refused].concat()).fails(2, &["leave --warm, --no-settle and --crash away"]);
    }
    for flag in ["--no-settle", "--crash", "--warm=1"] {
        keel.bare(&["bench", "--operations", "x.txt", flag]).fails(2, &["cannot be used with"]);
    }
    keel.bare(&["bench", "fillrandom", "--no-settle", "--crash"]).fails(2, &["cannot be used with"]);
}

#[test]
fn people_see_a_table() {
    let keel = Keel::new();
    let text = keel.bare(&["bench", "ycsb-a", "--records", "1000", "--seconds", "0.1"]).ok();
    for part in [
        "ycsb-a on evenkeel",
        "p99.9",
        "read",
        "update",
        "write amplification",
        "peak memory",
        "CPU of others",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains("WRONG"), "{text}");
}

#[test]
fn a_filled_store_is_found_again() {
    let keel = Keel::new();
    let stays = |args: &[&str]| {
        let done = keel.run(args);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.err.contains("the store stays in"), "{done:?}");
        done.out
    };
    let json = keel.path("result.json");
    let json = json.to_str().unwrap();
    stays(&["bench", "fillrandom", "--records", "3000", "--key-bytes", "24", "--value-bytes", "30"]);
    stays(&["bench", "ycsb-d", "--ops", "4000", "--json", json]);
    let doc: serde_json::Value = serde_json::from_str(&read_file(&keel.path("result.json"))).unwrap();
    assert_eq!((&doc["load"], &doc["wrong_reads"]), (&serde_json::Value::Null, &0.into()));
    assert_eq!(doc["config"]["key_bytes"], 24);
    let records = doc["records"].as_u64().unwrap();
    assert_eq!(records, 3000 + doc["latency_us"]["insert"]["count"].as_u64().unwrap());
    assert_eq!(keel.ok(&["scan", "--json"]).lines().count() as u64, records);

    let other_seed = stays(&["bench", "readrandom", "--ops", "2000", "--seed", "7"]);
    assert!(!other_seed.contains("WRONG") && !other_seed.contains("loaded in"), "{other_seed}");
    keel.run(&["bench", "readrandom", "--records", "10"]).fails(2, &["--records", "another --db"]);
    keel.run(&["bench", "fillseq"]).fails(2, &["another --db"]);
}

#[test]
fn other_stores_are_not_filled_without_being_asked() {
    let keel = Keel::new();
    keel.ok(&["put", "mine", "1"]);
    keel.run(&["bench", "fillseq", "--records", "100"]).fails(1, &["did not fill", "--use-existing"]);
    assert_eq!(keel.ok(&["scan"]), "mine\t1\n");
    let done = keel.run(&["bench", "fillseq", "--records", "100", "--use-existing"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(keel.ok(&["get", "mine"]), "1\n");
    assert_eq!(keel.ok(&["scan", "--json"]).lines().count(), 101);
}

#[test]
fn keyspaces_and_kept_directories() {
    let keel = Keel::new();
    let done = keel.run(&["bench", "fillseq", "--records", "100", "--keyspace", "measured"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(keel.ok(&["scan"]), "");
    assert_eq!(keel.ok(&["scan", "--json", "--keyspace", "measured"]).lines().count(), 100);

    let keel = Keel::new();
    let done = keel.bare(&["bench", "fillseq", "--records", "100", "--keep"]);
    let dir =
        done.err.trim_end().strip_prefix("keel: the store stays in ").unwrap_or_else(|| panic!("{done:?}"));
    assert!(list(dir.as_ref()).contains(&"BENCH.json".to_owned()));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn wrong_numbers_are_named() {
    let keel = Keel::new();
    keel.bare(&["bench", "fillseq", "--ops", "5"]).fails(2, &["--records"]);
    keel.bare(&["bench", "ycsb-a", "--records", "0"]).fails(2, &["--records"]);
    keel.bare(&["bench", "ycsb-a", "--seconds", "-1"]).fails(2, &[]);
    keel.bare(&["bench", "ycsb-a", "--distribution", "gaussian"]).fails(2, &["zipfian"]);
    keel.bare(&["bench", "ycsb-a", "--value-bytes", "9-1"]).fails(2, &["rise"]);
    keel.bare(&["bench", "soak", "--value-bytes", "1-9"]).fails(2, &["one length"]);
    keel.bare(&["bench"]).fails(2, &["WORKLOAD"]);
    keel.bare(&["bench", "ycsb-a", "--engine", "other"]).fails(2, &["evenkeel"]);
    keel.bare(&["bench", "fillseq", "--key-bytes", "1"]).fails(2, &["keys of 1 bytes"]);
    make_dir(&keel.db());
    keel.run(&["bench", "fillseq", "--key-bytes", "0"]).fails(2, &["1 to 65536 bytes"]);
}

#[test]
fn a_report_is_a_page_and_tables() {
    let keel = Keel::new();
    let dir = keel.path("deep/result");
    let report = dir.to_str().unwrap();
    let small = ["--records", "1000", "--seconds", "0.2", "--set", "memtable_bytes=256KiB"];
    let done = keel.bare(&[&["bench", "ycsb-a", "--report", report], &small[..]].concat());
    assert!(done.code == 0 && done.err.contains("the report is") && done.out.contains("p99.9"), "{done:?}");
    let names = [
        "comparison.csv",
        "percentiles.csv",
        "report.html",
        "report.json",
        "summary.csv",
        "verdicts.csv",
        "windows.csv",
    ];
    assert_eq!(list(&dir), names);
    let page = read_file(&dir.join("report.html"));
    for part in ["ycsb-a on evenkeel", "Latency over time", "memtable_bytes=256KiB", "--report", "Linux"] {
        assert!(page.contains(part) || part == "Linux" && !cfg!(target_os = "linux"), "no `{part}`");
    }
    assert_eq!(read_file(&dir.join("summary.csv")).lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&read_file(&dir.join("report.json"))).unwrap();
    let document = &json["runs"][0]["document"];
    assert!(document["provenance"]["began_ms"].as_u64() > Some(1_600_000_000_000));
    assert!(document["latency_us"]["read"]["curve"].as_array().unwrap().len() > 10);

    // Again, over the earlier one.
    let again = keel.bare(&[&["bench", "ycsb-c", "--report", report], &small[..]].concat());
    assert_eq!(again.code, 0, "{again:?}");
    assert!(read_file(&dir.join("report.html")).contains("ycsb-c on evenkeel"));
}

/// Told before the run, not after it.
#[test]
fn nobody_measures_nothing_or_for_nobody() {
    let keel = Keel::new();
    for rate in ["0", "0%"] {
        keel.bare(&["bench", "ycsb-a", "--rate", rate]).fails(2, &["no load"]);
    }
    keel.bare(&["bench", "ycsb-a", "--key-bytes", "0"]).fails(2, &["1 to 65536"]);
    let nowhere = keel.path("nowhere").join("out.json");
    let args = ["bench", "fillrandom", "--records", "1000", "--json", nowhere.to_str().unwrap()];
    keel.bare(&args).fails(1, &["cannot write", "out.json"]);
}

#[cfg(unix)]
#[test]
fn a_bench_that_is_interrupted_leaves_nothing_behind() {
    let keel = Keel::new();
    for signal in ["-INT", "-TERM"] {
        let args = ["bench", "ycsb-a", "--records", "1000", "--seconds", "1000"];
        let mut command = keel.command(&args);
        // It is under way once its store is there.
        let under_way = || list(keel.dir.path()).iter().any(|name| name.starts_with("keel-bench-"));
        signalled(&mut command, signal, under_way).fails(1, &["interrupted"]);
        assert_eq!(list(keel.dir.path()), [""; 0], "{signal}");
    }
}

#[test]
fn a_report_needs_a_place() {
    let keel = Keel::new();
    keel.ok(&["put", "mine", "1"]);
    let store = keel.db();
    let store = store.to_str().unwrap();
    let long = ["--records", "1000", "--seconds", "1000"];
    keel.bare(&[&["bench", "ycsb-a", "--report", store], &long[..]].concat()).fails(2, &["is a store"]);
    let below_a_file = keel.path("file/result");
    write_file(&keel.path("file"), b"x");
    let below_a_file = ["bench", "ycsb-a", "--report", below_a_file.to_str().unwrap()];
    keel.bare(&[&below_a_file, &long[..]].concat()).fails(1, &["file/result"]);
    keel.bare(&["bench", "soak", "--report", "x"]).fails(2, &["soak", "--json"]);
}

/// What it measures is the machine's to say; that it measures, and says so, is ours.
#[test]
fn a_soak_counts_memory_and_gives_its_verdicts() {
    let keel = Keel::new();
    let small = ["--records", "5k", "--threads", "4", "--seconds", "2", "--set", "memtable_bytes=256KiB"];
    let done = keel.bare(&[&["bench", "soak", "--json", "-"], &small[..]].concat());
    // A bar missed on a busy machine is told, and is 1.
    assert!(done.code == 0 || done.code == 1 && done.err.contains("missed its bar"), "{done:?}");
    let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let seconds = report["seconds"].as_array().unwrap();
    assert!(!seconds.is_empty());
    for second in seconds {
        let account = &second["account"];
        let classes = account["classes"].as_array().unwrap().iter().map(|class| class[1].as_u64().unwrap());
        assert_eq!(account["counted_bytes"].as_u64().unwrap(), classes.sum::<u64>());
        assert!(account["limit_bytes"].as_u64().unwrap() > 0);
        assert!(second["longest_write_us"].is_u64() && second["resident"].is_object(), "{second}");
    }
    assert!(seconds.iter().any(|second| second["writes"].as_u64() > Some(0)));
    assert!(seconds.iter().any(|second| second["reads"].as_u64() > Some(0)));
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 4);
    assert!(verdicts.iter().all(|v| v["what"].is_string() && v["holds"].is_boolean()), "{verdicts:?}");

    let text = keel.bare(&[&["bench", "soak"], &small[..]].concat()).out;
    for part in ["counted", "longest stop of a writer", "slope of admission", "memtables"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    keel.bare(&["bench", "soak", "--ops", "5"]).fails(2, &["--seconds"]);
    keel.ok(&["put", "mine", "1"]);
    keel.run(&["bench", "soak", "--seconds", "1"]).fails(1, &["--use-existing"]);
}

/// YCSB's `workloads/workloada`, as it is.
const WORKLOAD_A: &str = "\
# Yahoo! Cloud System Benchmark
# Workload A: Update heavy workload

recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload

readallfields=true

readproportion=0.5
updateproportion=0.5
scanproportion=0
insertproportion=0

requestdistribution=zipfian

";

#[test]
fn a_property_file_describes_a_workload() {
    let keel = Keel::new();
    let file = keel.path("workloada");
    write_file(&file, WORKLOAD_A.as_bytes());
    let file = file.to_str().unwrap();
    let doc = keel.bare(&["bench", "--properties", file, "--json", "-"]).ok();
    let doc: serde_json::Value = serde_json::from_str(&doc).unwrap();
    assert_eq!((&doc["workload"], &doc["wrong_reads"]), (&"properties".into(), &0.into()));
    assert_eq!((&doc["records"], &doc["ops"]), (&1000.into(), &1000.into()));
    assert_eq!(
        (&doc["config"]["value_bytes"], &doc["config"]["distribution"]),
        (&1000.into(), &"zipfian".into())
    );
    assert_eq!(doc["config"]["properties"], file);
    assert!(doc["latency_us"]["read"]["count"].as_u64().unwrap() > 400);
    assert!(doc["latency_us"]["update"]["count"].as_u64().unwrap() > 400);

    let wrong = format!("{WORKLOAD_A}deleteproportion=0.2\nrequestdistributon=latest\n");
    write_file(Path::new(file), wrong.as_bytes());
    keel.bare(&["bench", "--properties", file]).fails(2, &["line 18", "did you mean `requestdistribution`?"]);
    keel.bare(&["bench", "--properties", "/none"]).fails(1, &["there is no /none"]);
    keel.bare(&["bench", "ycsb-a", "--properties", file]).fails(2, &["cannot be used with"]);
}

#[test]
fn a_property_file_runs_at_a_rate_and_as_often_as_asked() {
    let keel = Keel::new();
    let file = keel.path("workloada");
    write_file(&file, WORKLOAD_A.as_bytes());
    let file = file.to_str().unwrap();
    let doc = keel.bare(&["bench", "--properties", file, "--rate", "5k", "--json", "-"]).ok();
    let doc: serde_json::Value = serde_json::from_str(&doc).unwrap();
    assert_eq!((&doc["open_loop"]["requests"], &doc["wrong_reads"]), (&1000.into(), &0.into()));

    let args = ["bench", "--properties", file, "--rounds", "3", "--json", "-"];
    let compared: serde_json::Value = serde_json::from_str(&keel.bare(&args).compared()).unwrap();
    assert_eq!((&compared["workload"], &compared["rounds"]), (&"properties".into(), &3.into()));
    let run = &compared["groups"][0]["contestants"][0]["runs"][0];
    assert_eq!((&run["ops"], &run["config"]["properties"]), (&1000.into(), &file.into()));
}

#[test]
fn a_file_of_operations_runs_in_its_order_and_is_checked() {
    let keel = Keel::new();
    let file = keel.path("workload.txt");
    let mut text: String = (0..500).map(|i| format!("I key{i:04} value{i}\n")).collect();
    text += "U key0003 again\nD key0004 \nR key0100 key0200\nQ key0003\nQ key0004\nS key0090 key0210\nS key0150 key0150\n";
    write_file(&file, text.as_bytes());
    let file = file.to_str().unwrap();
    let done = keel.run(&["bench", "--operations", file, "--check", "--json", "-"]);
    assert_eq!(done.code, 0, "{done:?}");
    let doc: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        (&doc["workload"], &doc["ops"], &doc["records"]),
        (&"operations".into(), &507.into(), &399.into())
    );
    assert_eq!(doc["config"]["operations"], file);
    assert_eq!(doc["config"]["distribution"], "sequential", "a file has an order of its own");
    let counts: Vec<u64> = ["insert", "update", "delete", "delete_range", "read", "scan"]
        .map(|kind| doc["latency_us"][kind]["count"].as_u64().unwrap())
        .into();
    assert_eq!(counts, [500, 1, 1, 1, 2, 2]);
    assert_eq!(keel.ok(&["get", "key0003"]), "again\n");
    assert_eq!(keel.ok(&["scan"]).lines().count(), 399);

    keel.run(&["bench", "--operations", file, "--check"]).fails(2, &["empty store"]);
    keel.run(&["bench", "--operations", file]).fails(1, &["--use-existing"]);
    assert_eq!(keel.run(&["bench", "--operations", file, "--use-existing"]).code, 0);
    let compared = keel.bare(&["bench", "--operations", file, "--rounds", "3", "--json", "-"]).compared();
    let compared: serde_json::Value = serde_json::from_str(&compared).unwrap();
    let runs = compared["groups"][1]["contestants"][0]["runs"].as_array().unwrap();
    assert!(
        runs.len() == 3 && runs.iter().all(|run| run["ops"] == 507 && run["wrong_reads"] == 0),
        "{runs:?}"
    );
    write_file(Path::new(file), b"I a 1\n\nX y\n");
    keel.bare(&["bench", "--operations", file]).fails(1, &["line 3", "`X` is no operation"]);
    keel.bare(&["bench", "--operations", file, "--ops", "5"]).fails(2, &["cannot be used with"]);
    keel.bare(&["bench", "--operations", file, "--rate", "1k"]).fails(2, &["--rate"]);
    for more in [["--operations", file, "--check"], ["--operations", "-", "--keep"]] {
        keel.bare(&[&["bench", "--rounds", "3"], &more[..]].concat())
            .fails(2, &["reads the operations", "--check"]);
    }
    keel.bare(&["bench", "ycsb-a", "--check"]).fails(2, &["--operations"]);
}

#[test]
fn a_store_with_holes_is_not_measured_as_if_it_had_none() {
    let keel = Keel::new();
    let done = keel.run(&["bench", "deleteseq", "--records", "500", "--ops", "200"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(keel.ok(&["scan", "--escaped"]).lines().count(), 300);
    keel.run(&["bench", "readrandom", "--ops", "10"]).fails(2, &["deleted by an earlier run"]);
}

#[test]
fn values_of_varying_length_count_as_what_they_are() {
    let keel = Keel::new();
    let args = ["bench", "fillrandom", "--records", "2000", "--value-bytes", "100-200-4000", "--json", "-"];
    let done = keel.run(&args);
    let doc: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(doc["config"]["value_sizes"], "100-200-4000");
    let live = doc["disk_bytes"].as_f64().unwrap() / doc["amplification"]["space"].as_f64().unwrap() / 2000.0;
    // 16 bytes of key, and in the mean 1125 of value.
    assert!((live - 1141.0).abs() < 100.0, "{live}");
    let again = keel.run(&["bench", "readrandom", "--ops", "500"]);
    assert!(again.code == 0 && again.out.contains("100-200-4000 bytes"), "{again:?}");
}

#[test]
fn an_open_loop_offers_its_shape_and_says_how_it_was_served() {
    let keel = Keel::new();
    let load = keel.path("load.csv");
    write_file(&load, b"second,rate\n0,2000\n1,500\n");
    let recorded = format!("recorded:{}", load.display());
    let shapes = [
        (["--rate", "2k"], ["--seconds", "1"], "constant:2k", 2000),
        (["--rate", "1.5k"], ["--ops", "3000"], "constant:1.5k", 3000),
        (["--shape", "steps:2k@1,500@1"], ["--seed", "3"], "steps:2k@1,500@1", 2500),
        (["--shape", &recorded], ["--seed", "3"], recorded.as_str(), 2500),
    ];
    for (shape, end, said, requests) in shapes {
        let args =
            [&["bench", "ycsb-a", "--records", "500", "--threads", "4", "--json", "-"], &shape[..], &end[..]];
        let doc: serde_json::Value = serde_json::from_str(&keel.bare(&args.concat()).ok()).unwrap();
        let open = &doc["open_loop"];
        assert_eq!((&open["shape"], &open["spacing"]), (&said.into(), &"even".into()));
        assert_eq!((&open["requests"], &open["unfinished"]), (&requests.into(), &0.into()), "{doc}");
        assert_eq!((&doc["ops"], &doc["wrong_reads"]), (&requests.into(), &0.into()));
        let windows = doc["windows"].as_array().unwrap();
        let offered: f64 = windows.iter().map(|w| w["offered"].as_f64().unwrap()).sum();
        assert!((offered - f64::from(requests)).abs() < 1.0, "{offered} for {requests}");
        assert_eq!(windows.last().unwrap()["queue"], 0);
        assert!(windows.iter().all(|w| w["queue"].is_u64() && w["achieved"].is_number()), "{windows:?}");
        assert!(doc["driver"]["ns_per_op"].as_f64().unwrap() > 0.0, "{doc}");
        assert!(doc["driver"]["wake_up_us"]["p99"].is_number() && open["wake_up_us"]["p50"].is_number());
    }
    let text = keel.bare(&["bench", "ycsb-c", "--records", "500", "--rate", "500", "--seconds", "1"]).ok();
    for part in ["offered 500 requests", "queue at most", "the lab itself", "ns an op"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

/// Whether the machine stood still is not ours to say; that the seconds and what is left out of them agree is.
#[cfg(target_os = "linux")]
#[test]
fn seconds_in_which_the_machine_stood_still_are_left_out() {
    let keel = Keel::new();
    let args = ["bench", "ycsb-a", "--records", "500", "--rate", "1k", "--seconds", "3", "--json", "-"];
    let doc: serde_json::Value = serde_json::from_str(&keel.bare(&args).ok()).unwrap();
    let steady = &doc["steady"];
    let whole = steady["seconds"].as_u64().unwrap();
    let number = |field: &str| steady[field].as_u64().unwrap();
    assert!(whole >= 3 && number("halted_seconds") <= number("left_out_seconds"), "{steady}");
    assert!(number("left_out_seconds") <= whole, "{steady}");
    let windows = doc["windows"].as_array().unwrap();
    let stolen: Vec<Option<f64>> = windows.iter().map(|w| w["stolen_seconds"].as_f64()).collect();
    assert!(stolen.iter().flatten().all(|seconds| *seconds >= 0.0) && stolen[0].is_some(), "{doc}");
    let counted: u64 =
        ["read", "update"].map(|kind| steady["latency_us"][kind]["count"].as_u64()).iter().flatten().sum();
    if stolen.iter().flatten().all(|seconds| *seconds < 0.02) {
        assert_eq!((number("halted_seconds"), counted), (0, 3000), "{doc}");
        assert!(steady["p999_us"].as_f64() <= steady["max_us"].as_f64() && steady["max_us"].is_number());
    } else {
        assert!(counted <= 3000, "{doc}");
    }
}

/// What holds is the machine's to say; that rates are tried, and the run goes at a share of what held, is ours.
#[test]
fn a_share_of_the_highest_rate_is_found_first() {
    let keel = Keel::new();
    let args = ["bench", "ycsb-b", "--records", "500", "--rate", "10%", "--budget", "4", "--seconds", "1"];
    let done = keel.bare(&[&args[..], &["--spacing", "poisson", "--threads", "2", "--json", "-"]].concat());
    if done.code != 0 {
        return done.fails(1, &["no rate", "--budget"]);
    }
    let doc: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let found = &doc["max_rate"];
    let probes = found["probes"].as_array().unwrap();
    let best = probes.iter().filter(|p| p["held"] == true).filter_map(|p| p["rate"].as_f64());
    let best = best.fold(0.0, f64::max);
    assert_eq!(found["ops_per_sec"].as_f64(), Some(best));
    assert_eq!((&found["budget_seconds"], &found["p99_limit_us"]), (&4.0.into(), &serde_json::Value::Null));
    assert_eq!(
        (&doc["open_loop"]["shape"], &doc["open_loop"]["spacing"]),
        (&"constant:10%".into(), &"poisson".into())
    );
    let requests = doc["open_loop"]["requests"].as_f64().unwrap();
    // Ten deviations of a Poisson process.
    assert!((requests - best * 0.1).abs() <= 10.0 * (best * 0.1).sqrt() + 10.0, "{requests} of {best}");
}

#[test]
fn loads_that_cannot_be_are_refused_with_a_hint() {
    let keel = Keel::new();
    let refused = |args: &[&str], parts: &[&str]| {
        keel.bare(&[&["bench"], args].concat()).fails(2, parts);
    };
    refused(&["ycsb-a", "--rate", "fast"], &["20k"]);
    refused(&["ycsb-a", "--shape", "sine:3"], &["peaks:HIGH,LOW"]);
    refused(&["ycsb-a", "--shape", "peaks:1,2"], &["peaks:20k,2k,10,5"]);
    refused(&["ycsb-a", "--shape", "recorded:nowhere.csv"], &["no file nowhere.csv"]);
    refused(&["ycsb-a", "--rate", "1k", "--shape", "sustained"], &["--rate"]);
    refused(&["ycsb-a", "--p99", "10ms"], &["--find-max-rate"]);
    refused(&["ycsb-a", "--rate", "5k", "--budget", "60"], &["50%"]);
    refused(&["ycsb-a", "--find-max-rate", "--p99", "10"], &["10ms"]);
    refused(&["ycsb-a", "--spacing", "poisson"], &["--rate"]);
    refused(&["ycsb-a", "--shape", "steps:1k@1", "--seconds", "5"], &["1 seconds"]);
    refused(&["readwhilewriting", "--rate", "1k"], &["ycsb-a"]);
    refused(&["fillrandom", "--rate", "50%"], &["requests a second"]);
    refused(&["deleterandom", "--find-max-rate"], &["requests a second"]);
    refused(&["soak", "--rate", "1k"], &["--rate"]);
}
