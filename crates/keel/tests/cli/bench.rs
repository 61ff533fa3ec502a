//! `keel bench`: small runs of every workload, the document, and what is done with directories.

use std::fs;

use crate::{Keel, list, make_dir, read_file, write_file};

const WORKLOADS: [&str; 13] = [
    "fillseq",
    "fillrandom",
    "overwrite",
    "readrandom",
    "readmissing",
    "seekrandom",
    "readwhilewriting",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
];

#[test]
fn every_workload_gives_its_document() {
    for workload in WORKLOADS {
        let keel = Keel::new();
        let fills = workload.starts_with("fill");
        let mut args = vec!["bench", workload, "--records", "2k", "--value-bytes", "50", "--json", "-"];
        if !fills {
            args.extend(["--ops", "3k", "--threads", "2"]);
        }
        let doc = keel.bare(&args).ok();
        let doc: serde_json::Value = serde_json::from_str(&doc).unwrap();
        assert_eq!(doc["workload"], workload);
        assert_eq!((&doc["engine"], &doc["seed"]), (&"evenkeel".into(), &42.into()));
        assert_eq!(doc["wrong_reads"], 0, "{workload}");
        let ops = doc["ops"].as_u64().unwrap();
        assert!(if fills { ops == 2000 } else { ops >= 3000 }, "{workload}: {ops}");
        assert!(doc["throughput_ops_per_sec"].as_f64().unwrap() > 0.0, "{workload}");
        let latencies = doc["latency_us"].as_object().unwrap();
        let counted: u64 = latencies.values().map(|l| l["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, ops, "{workload}");
        for latency in latencies.values() {
            let at = |name: &str| latency[name].as_f64().unwrap();
            let rising = [at("p50"), at("p90"), at("p99"), at("p999"), at("max")];
            assert!(rising[0] > 0.0 && rising.is_sorted(), "{workload}: {latency}");
        }
        let windows = doc["windows"].as_array().unwrap();
        assert!(windows.iter().all(|w| w["achieved"].is_number() && w["offered"].is_null()), "{workload}");
        assert!(
            doc["amplification"]["write"].is_number() && doc["amplification"]["space"].is_number(),
            "{workload}"
        );
        assert!(doc["compaction"]["count"].is_number() && doc["stalls"].is_object(), "{workload}");
        assert!(doc["disk_bytes"].as_u64().unwrap() > 0 && doc["idle_seconds"].is_number(), "{workload}");
        assert_eq!(doc["load"].is_object(), !fills, "{workload}");
        assert!(list(keel.dir.path()).is_empty(), "{workload} leaves nothing behind");
    }
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
    keel.bare(&["bench", "ycsb-a", "--distribution", "normal"]).fails(2, &["zipfian"]);
    keel.bare(&["bench", "ycsb-a", "--engine", "other"]).fails(2, &["evenkeel"]);
    keel.bare(&["bench", "fillseq", "--key-bytes", "1"]).fails(1, &["keys of 1 bytes"]);
    make_dir(&keel.db());
    keel.run(&["bench", "fillseq", "--key-bytes", "0"]).fails(1, &["1 to 65536 bytes"]);
}

#[test]
fn a_report_is_a_page_and_tables() {
    let keel = Keel::new();
    let dir = keel.path("deep/result");
    let report = dir.to_str().unwrap();
    let small = ["--records", "1000", "--seconds", "0.2", "--set", "memtable_bytes=256KiB"];
    let done = keel.bare(&[&["bench", "ycsb-a", "--report", report], &small[..]].concat());
    assert!(done.code == 0 && done.err.contains("the report is") && done.out.contains("p99.9"), "{done:?}");
    let names = ["percentiles.csv", "report.html", "report.json", "summary.csv", "verdicts.csv", "windows.csv"];
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
