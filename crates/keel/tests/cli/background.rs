//! `compact` by level and until it is interrupted, and `load --sorted`.

#[cfg(unix)]
use crate::signalled;
use crate::{Keel, list};

/// Lines of ascending keys.
fn sorted(count: u32) -> String {
    (0..count).map(|i| format!("key-{i:06}\tvalue {i:060}\n")).collect()
}

#[test]
fn sorted_lines_go_straight_into_place_or_not_at_all() {
    let keel = Keel::new();
    let (lines, file) = (sorted(5000), keel.write("in.tsv", sorted(5000)));
    let summary = keel.ok(&["load", "--sorted", "--ack", &file]);
    assert!(
        summary.starts_with("acked 5000\nloaded 5.00 k records") || summary.contains("acked 5000"),
        "{summary}"
    );
    assert_eq!(keel.ok(&["dump"]), lines);
    let stats: serde_json::Value = serde_json::from_str(&keel.ok(&["stats", "--json"])).unwrap();
    let levels = stats.pointer("/keyspaces/0/levels").and_then(serde_json::Value::as_array).unwrap();
    assert_eq!(levels[0]["tables"], 0, "{stats}");
    assert!(levels[levels.len() - 1]["tables"].as_u64().unwrap() > 0, "{stats}");
    // Out of order, and twice the same: the line and both keys are named, and nothing is loaded.
    for (name, text) in [("late.tsv", "x\t1\nz\t2\ny\t3\n"), ("twice.tsv", "x\t1\ny\t2\ny\t3\n")] {
        let file = keel.write(name, text);
        keel.run(&["load", "--sorted", &file])
            .fails(1, &["line 3", "y comes after", "ascending", "nothing is loaded"]);
        assert_eq!(keel.ok(&["dump"]), lines);
    }
    let file = keel.write("bad.tsv", "x\t1\nno record\n");
    keel.run(&["load", "--sorted", &file]).fails(1, &["line 2 is no record", "nothing is loaded"]);
    let file = keel.write("more.tsv", "key-000000\tnewer\n");
    keel.ok(&["load", "--sorted", &file]);
    assert_eq!(keel.ok(&["get", "key-000000"]), "newer\n");
    keel.run(&["load", "--sorted", "--batch", "5", &file]).fails(2, &["--batch"]);
}

#[test]
fn a_level_is_compacted_into_the_next() {
    let keel = Keel::new();
    // Something has to lie below the first level for it to be emptied.
    let file = keel.write("below.tsv", sorted(800));
    keel.ok(&["load", "--sorted", &file]);
    for from in [0, 500] {
        let text: String = (from..from + 1000).map(|i| format!("key-{i:06}\tvalue {i:060}\n")).collect();
        let file = keel.write("in.tsv", text);
        keel.ok(&["load", &file]);
    }
    let before = keel.ok(&["dump"]);
    let out = keel.ok(&["compact", "--level", "0", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["ok"], &report["cancelled"]), (&true.into(), &false.into()), "{report}");
    assert!(
        report["picture"].as_str().unwrap().lines().next().unwrap().ends_with('4'),
        "L0 is empty: {report}"
    );
    assert!(keel.ok(&["compact"]).contains("read "), "what it did is the last line");
    assert_eq!(keel.ok(&["dump"]), before);
    keel.run(&["compact", "--level", "7"]).fails(1, &["there is no level 7"]);
}

#[test]
fn a_load_leaves_nothing_to_be_done() {
    let keel = Keel::new();
    let lines: String = (0..9000).map(|i| format!("key-{:06}\t{i:080}\n", i * 7919 % 9000)).collect();
    let file = keel.write("in.tsv", lines);
    let sizes = ["memtable_bytes=64KiB", "table_bytes=32KiB", "level_base_bytes=256KiB"];
    keel.ok(&[&["load", &file][..], &sizes.map(|size| ["--set", size]).concat()].concat());
    let said = keel.ok(&["explain"]);
    assert!(said.contains("Wanted: nothing"), "{said}");
}

#[test]
#[cfg(unix)]
fn an_interrupted_compaction_keeps_what_is_finished() {
    let keel = Keel::new();
    // So many runs that loads merge none, whatever they have time for.
    let tier = "when=runs how=runs:100 much=runs";
    let set = ["--strategy", tier, "--set", "memtable_bytes=64KiB", "--set", "table_bytes=16KiB"];
    for round in 0..3 {
        let text: String =
            (0..6000).map(|i| format!("key-{:06}\tround {round} {i:080}\n", i * 7919 % 6000)).collect();
        let file = keel.write("in.tsv", text);
        keel.ok(&[&["load", &file], &set[..]].concat());
    }
    // Nothing is left in the log that the next open would make a table of.
    keel.feed(&["shell"], b"flush\n").ok();
    let before = keel.ok(&["dump"]);
    // So slow that it cannot come to its end before it is interrupted, nor wait for the rate to let it move on.
    let mut command = keel.command(&["compact", "--schedule", "fixed:1KiB"]);
    command.args(set).arg("--db").arg(keel.db());
    // It is under way once it has made a table.
    let newest = || list(&keel.db()).into_iter().filter(|name| name.ends_with(".sst")).max();
    let there = newest();
    let done = signalled(&mut command, "-INT", || newest() != there);
    done.fails(1, &["interrupted", "what was finished is kept"]);
    assert_eq!(keel.ok(&["dump"]), before);
    keel.ok(&["verify"]);
}
