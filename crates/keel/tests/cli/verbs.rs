//! The verbs that touch single records, and those that look at or change a store as a whole.

use crate::Keel;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn put_get_delete() {
    let keel = Keel::new();
    assert_eq!(keel.ok(&["put", "apple", "3 of them"]), "");
    assert_eq!(keel.ok(&["get", "apple"]), "3 of them\n");
    assert_eq!(keel.ok(&["put", "apple", ""]), "");
    assert_eq!(keel.ok(&["get", "apple"]), "\n");
    assert_eq!(keel.ok(&["delete", "apple"]), "");
    assert_eq!(keel.ok(&["delete", "apple"]), "");
    let missing = keel.run(&["get", "apple"]);
    assert_eq!((missing.code, missing.out.as_str(), missing.err.as_str()), (1, "", ""));
    assert_eq!(keel.ok(&["put", "--sync", "sync", "--", "-dash", "-1"]), "");
    assert_eq!(keel.ok(&["get", "--", "-dash"]), "-1\n");
    assert_eq!(json(&keel.ok(&["put", "k", "v", "--json"])), serde_json::json!({"ok": true}));
}

#[test]
fn any_bytes_by_escapes_and_json() {
    let keel = Keel::new();
    keel.ok(&["put", "--escaped", "\\x00\\xff\\\\", "a\\x0ab"]);
    keel.ok(&["put", "--escaped", "\\e", "\\e"]);
    assert_eq!(keel.ok(&["get", "--escaped", "\\x00\\xff\\\\"]), "a\\x0ab\n");
    assert_eq!(keel.ok(&["get", "--escaped", "\\e"]), "\\e\n");
    assert_eq!(keel.ok(&["get", ""]), "\n");
    assert_eq!(keel.ok(&["scan", "--escaped"]), "\\e\t\\e\n\\x00\\xff\\\\\ta\\x0ab\n");
    let lines = keel.ok(&["scan", "--json"]);
    let rows: Vec<serde_json::Value> = lines.lines().map(json).collect();
    assert_eq!(rows[1], serde_json::json!({"key_hex": "00ff5c", "value": "a\nb"}));
    assert_eq!(json(&keel.ok(&["get", "", "--json"])), serde_json::json!({"key": "", "value": ""}));
    keel.ok(&["delete", "--escaped", "\\x00\\xff\\\\"]);
    assert_eq!(keel.ok(&["scan", "--escaped"]), "\\e\t\\e\n");
}

#[test]
fn scan_has_bounds_and_directions() {
    let keel = Keel::new();
    for key in ["a", "b", "ba", "bb", "c"] {
        keel.ok(&["put", key, &key.to_uppercase()]);
    }
    let keys = |args: &[&str]| -> String {
        let all = keel.ok(&[&["scan"], args].concat());
        all.lines().map(|line| line.split_once('\t').unwrap().0).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keel.ok(&["scan", "--limit", "1"]), "a\tA\n");
    assert_eq!(keys(&[]), "a b ba bb c");
    assert_eq!(keys(&["--reverse"]), "c bb ba b a");
    assert_eq!(keys(&["--from", "b", "--to", "bb"]), "b ba");
    assert_eq!(keys(&["--from", "b", "--to", "bb", "--reverse"]), "ba b");
    assert_eq!(keys(&["--prefix", "b"]), "b ba bb");
    assert_eq!(keys(&["--prefix", "b", "--reverse", "--limit", "2"]), "bb ba");
    assert_eq!(keys(&["--from", "d"]), "");
    assert_eq!(keys(&["--from", "c", "--to", "a"]), "");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--to", "b"]), "a");
}

#[test]
fn keyspaces_are_apart() {
    let keel = Keel::new();
    keel.ok(&["keyspace", "create", "prices", "--strategy", "full"]);
    assert_eq!(keel.ok(&["keyspace", "list"]), "default\nprices\n");
    assert_eq!(json(&keel.ok(&["keyspace", "list", "--json"])), serde_json::json!(["default", "prices"]));
    keel.ok(&["put", "k", "1", "--keyspace", "prices"]);
    assert_eq!(keel.run(&["get", "k"]).code, 1);
    assert_eq!(keel.ok(&["get", "k", "--keyspace", "prices"]), "1\n");
    keel.run(&["keyspace", "create", "prices"]).fails(1, &["prices"]);
    keel.run(&["keyspace", "drop", "none"]).fails(1, &["none"]);
    keel.run(&["keyspace", "drop", "default"]).fails(1, &["default"]);
    keel.run(&["keyspace", "create", "x", "--strategy", "no-such"]).fails(2, &["no-such"]);
    keel.ok(&["keyspace", "drop", "prices"]);
    assert_eq!(keel.ok(&["keyspace", "list"]), "default\n");
}

#[test]
fn strategies_can_be_listed_shown_and_set() {
    let keel = Keel::new();
    let list = keel.bare(&["strategy", "list"]).ok();
    assert!(list.lines().any(|line| line.starts_with("1-leveling ")), "{list}");
    assert!(list.lines().any(|line| line.starts_with("full ")), "{list}");
    let text = keel.bare(&["strategy", "show", "full"]).ok();
    assert!(text.contains("when="), "{text}");
    let rows = json(&keel.bare(&["strategy", "list", "--json"]).ok());
    assert_eq!(rows.as_array().unwrap().len(), list.lines().count());
    keel.bare(&["strategy", "show", "no-such"]).fails(2, &["no-such"]);

    keel.ok(&["put", "k", "v"]);
    let before = keel.ok(&["strategy", "show"]);
    let set = keel.ok(&["strategy", "set", "full", "--wait"]);
    assert_ne!(before, set);
    assert_eq!(keel.ok(&["strategy", "show"]), set, "it holds after the store is opened again");
    let shown = json(&keel.ok(&["strategy", "show", "--json"]));
    assert_eq!(shown["text"], set.trim_end());
}

#[test]
fn a_store_can_be_inspected() {
    let keel = Keel::new();
    let lines: String = (0..500).map(|i| format!("key{i:04}\tvalue {i}\n")).collect();
    let file = keel.write("in.tsv", lines);
    keel.ok(&["load", &file]);

    let stats = keel.ok(&["stats"]);
    assert!(stats.contains("compactions.count"), "{stats}");
    let stats = keel.ok(&["stats", "--json"]);
    assert_eq!(stats.lines().count(), 1);
    let stats = json(&stats);
    for path in [
        "/compactions/count",
        "/flushes/count",
        "/jobs/preempted",
        "/jobs/resumed",
        "/jobs/yielded",
        "/jobs/discarded",
        "/jobs/paused",
        "/files/live",
        "/files/on_disk",
    ] {
        assert!(stats.pointer(path).is_some_and(serde_json::Value::is_number), "{path} in {stats}");
    }
    // Nothing was written since the store was opened, so this may be unknown; it is there all the same.
    assert!(stats.pointer("/amplification/write").is_some(), "{stats}");
    assert!(stats["levels"].is_array() && stats["stalls"].is_object(), "{stats}");

    assert!(!keel.ok(&["compact"]).trim().is_empty());
    assert!(!keel.ok(&["compact", "--from", "key0100", "--to", "key0200"]).trim().is_empty());
    assert!(keel.ok(&["levels"]).contains('L'), "the picture has levels after a compaction");
    assert_eq!(json(&keel.ok(&["levels", "--json"]))["keyspace"], "default");
    assert!(keel.ok(&["verify"]).starts_with("sound: "));
    assert!(json(&keel.ok(&["verify", "--json"]))["entries"].as_u64().unwrap() >= 500);
    assert_eq!(keel.ok(&["scan"]).lines().count(), 500);
}
