//! `keel sim`: one strategy, several, a sweep, files of operations, a store's own trace; and what makes no sense.

use crate::{Keel, read_file, write_file};

/// Small enough for a test.
const SMALL: [&str; 6] = ["sim", "overwrite", "--records", "20k", "--ops", "40k"];

fn json(keel: &Keel, more: &[&str]) -> serde_json::Value {
    let out = keel.bare(&[&SMALL[..], &["--json"], more].concat()).ok();
    serde_json::from_str(&out).unwrap()
}

#[test]
fn one_strategy_is_told_in_full_and_several_side_by_side() {
    let keel = Keel::new();
    let text = keel.bare(&[&SMALL[..], &["--strategy", "lo+1"]].concat()).ok();
    for part in ["write amplification", "pages a get", "over time", "L0 to L1", "table operations"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let table = keel.bare(&[&SMALL[..], &["--strategy", "full", "--strategy", "tier"]].concat()).ok();
    assert!(table.lines().any(|line| line.ends_with("  full")) && table.ends_with("  tier\n"), "{table}");
    let both = json(&keel, &["--strategy", "full", "--strategy", "tier"]);
    let write = |at: usize| both["strategies"][at]["write_amplification"].as_f64().unwrap();
    assert!(write(0) > 2.0 * write(1) && write(1) > 0.5, "{both}");
    assert_eq!(both["strategies"][1]["name"], "tier");
}

#[test]
fn sizes_are_scaled_unless_they_are_set() {
    let keel = Keel::new();
    let flushes = |more: &[&str]| json(&keel, more)["strategies"][0]["flushes"].as_u64().unwrap();
    assert!(flushes(&[]) > 100);
    assert_eq!(flushes(&["--set", "memtable_bytes=4MiB"]), 2);
}

#[test]
fn a_sweep_finds_a_front_and_leaves_a_page() {
    let keel = Keel::new();
    let report = keel.path("report");
    let sweep = ["--sweep", "20", "--threads", "2", "--sample", "8", "--report", report.to_str().unwrap()];
    let done = keel.bare(&[&SMALL[..], &sweep].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let text = done.out;
    assert!(text.contains("Nothing beats these") && text.contains('●'), "{text}");
    let page = read_file(&report.join("report.html"));
    assert!(page.contains("<svg") && page.contains("What nothing beats") && !page.contains("<script"));
    let points: serde_json::Value = serde_json::from_str(&read_file(&report.join("sweep.json"))).unwrap();
    let points = points["strategies"].as_array().unwrap();
    let named = evenkeel::strategy::catalog().len();
    assert_eq!(points.len(), named + 20);
    let front = points.iter().filter(|p| p["on_front"] == true).count();
    assert!(front > 1 && front < points.len(), "{front}");
}

#[test]
fn operations_come_from_a_file_too() {
    let keel = Keel::new();
    let file = keel.path("operations.txt");
    let lines: String =
        (0..4000).map(|n| format!("I {:06} {}\n", n * 7919 % 100_003, "x".repeat(60))).collect();
    write_file(&file, (lines + "R 000000 050000\nQ 000001\nS 000001 000009\nD 000000\n").as_bytes());
    let args = ["sim", "--operations", file.to_str().unwrap(), "--set", "memtable_bytes=16KiB", "--json"];
    let told: serde_json::Value = serde_json::from_str(&keel.bare(&args).ok()).unwrap();
    assert_eq!((&told["ops"], &told["strategies"][0]["stalls"]), (&4004.into(), &0.into()));
    assert!(told["strategies"][0]["flushes"].as_u64().unwrap() > 15);
}

/// A store records itself and tells what its compactions wrote; a simulation of its trace says the same, within a fifth.
#[test]
fn what_a_trace_costs_is_what_it_cost_the_store() {
    for strategy in ["lo+1", "tier"] {
        let keel = Keel::new();
        let file = keel.path("shop.trace");
        let file = file.to_str().unwrap();
        let sizes =
            ["memtable_bytes=64KiB", "table_bytes=32KiB", "level_base_bytes=256KiB", "compression=none"];
        let set: Vec<&str> = sizes.iter().flat_map(|option| ["--set", option]).collect();
        // Writes over writes, and deletes; at the end one write more, which waits for the compactions before it.
        let put = |n: u64| match n % 10 {
            9 => format!("del {:06}\n", n * 7919 % 9000),
            _ => format!("put {:06} {n:0>90}\n", n * 7919 % 9000),
        };
        let commands: String = (0..24_000).map(put).collect();
        let commands = commands + "flush\nput 000000 x\nstats\n";
        let shell = ["shell", "--trace", file, "--strategy", strategy];
        let first = ["--set", "compaction_first=true", "--set", "workers=1"];
        let done = keel.feed(&[&shell[..], &set, &first].concat(), commands.as_bytes());
        assert_eq!(done.code, 0, "{}", done.err);
        let stats: serde_json::Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        let real = stats["costs"]["write_amplification"].as_f64().unwrap();
        let sim = ["sim", "--trace", file, "--strategy", strategy, "--compressed", "1", "--json"];
        let told: serde_json::Value =
            serde_json::from_str(&keel.bare(&[&sim[..], &set].concat()).ok()).unwrap();
        let simulated = told["strategies"][0]["write_amplification"].as_f64().unwrap();
        println!("TRACE {strategy}: {real:.2} in the store, {simulated:.2} simulated");
        assert_eq!(told["ops"], 24_001);
        keel.bare(&[&sim[..], &["--keyspace", "other"]].concat()).fails(1, &["writes nothing"]);
        assert!(real > 0.5 && (simulated / real - 1.0).abs() < 0.2, "{strategy}: {simulated} for {real}");
    }
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_done() {
    let keel = Keel::new();
    keel.bare(&["sim", "--strategy", "tear"]).fails(2, &["tear is unknown", "did you mean"]);
    keel.bare(&["sim", "readwhilewriting"]).fails(2, &["has a writer", "readrandomwriterandom"]);
    keel.bare(&["sim", "readrandom", "--ops", "10"]).fails(1, &["writes nothing"]);
    keel.bare(&["sim", "fillseq", "--ops", "10"]).fails(2, &["--records, not --ops"]);
    keel.bare(&["sim", "--set", "memtable_bytes"]).fails(2, &["--set takes OPTION=VALUE"]);
    keel.bare(&["sim", "--sweep", "0"]).fails(2, &["give a number of strategies"]);
    keel.bare(&["sim", "--report", "x"]).fails(2, &["--sweep"]);
    keel.bare(&["sim", "--compressed", "2"]).fails(2, &["above 0 and at most 1"]);
    let missing = keel.path("none.txt");
    keel.bare(&["sim", "--operations", missing.to_str().unwrap()]).fails(1, &["none.txt"]);
    keel.bare(&["sim", "--operations", missing.to_str().unwrap(), "--records", "5"])
        .fails(2, &["leave --records away"]);
}
