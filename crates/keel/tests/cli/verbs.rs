//! The verbs that touch single records, and those that look at or change a store as a whole.

use crate::Keel;

/// A verb: a call that works with what stdout then holds, and calls that fail with exit code and parts of the one line said.
struct Row {
    verb: &'static str,
    input: &'static str,
    works: &'static [&'static str],
    says: &'static str,
    fails: &'static [(&'static [&'static str], i32, &'static str)],
}

const fn row(
    verb: &'static str,
    works: &'static [&'static str],
    says: &'static str,
    fails: &'static [(&'static [&'static str], i32, &'static str)],
) -> Row {
    Row { verb, input: "", works, says, fails }
}

/// Runs in a store with the records a=1, b=2, c=3, two of them in tables. `DIR` stands for a directory beside it.
const ROWS: &[Row] = &[
    row(
        "put",
        &["put", "k", "v", "--json"],
        "{\"ok\":true}",
        &[(&["put", "k"], 2, "VALUE"), (&["put", "--keyspace", "none", "k", "v"], 1, "`none`")],
    ),
    row(
        "get",
        &["get", "a"],
        "1\n",
        &[(&["get"], 2, "KEY"), (&["get", "a", "--keyspace", "none"], 1, "`none`")],
    ),
    row(
        "delete",
        &["delete", "a", "--json"],
        "{\"ok\":true}",
        &[(&["delete"], 2, "KEY"), (&["delete", "--escaped", "\\q"], 2, "backslash")],
    ),
    row("scan", &["scan", "--from", "b"], "b\t2\nc\t3\n", &[(&["scan", "--limit", "x"], 2, "--limit")]),
    Row {
        verb: "load",
        input: "x\ty\n",
        works: &["load", "--ack", "-"],
        says: "acked 1\n",
        fails: &[
            (&["load", "/no/such.tsv"], 1, "/no/such.tsv"),
            (&["load", "--format", "xml", "-"], 2, "xml"),
        ],
    },
    row(
        "dump",
        &["dump", "--json"],
        "{\"key\":\"a\",\"value\":\"1\"}\n",
        &[(&["dump", "--escaped", "--json"], 2, "--json")],
    ),
    row(
        "stats",
        &["stats", "--all"],
        "compactions.count",
        &[(&["stats", "--keyspace", "none"], 1, "`none`")],
    ),
    row("levels", &["levels"], "L0", &[(&["levels", "--keyspace", "none"], 1, "`none`")]),
    row("compact", &["compact"], "L0", &[(&["compact", "--escaped", "--from", "\\q"], 2, "backslash")]),
    row("verify", &["verify"], "sound: ", &[(&["verify", "--keyspace", "none"], 1, "`none`")]),
    row(
        "repair",
        &["repair"],
        "nothing is damaged: ",
        &[(&["repair", "--keyspace", "none"], 2, "--keyspace")],
    ),
    row(
        "checkpoint",
        &["checkpoint", "DIR"],
        "as of sequence 3",
        &[(&["checkpoint", "."], 1, "exists already"), (&["checkpoint"], 2, "TARGET")],
    ),
    row("inspect", &[], "", &[(&["inspect", "table", "x"], 2, "--db"), (&["inspect"], 2, "--help")]),
    Row {
        verb: "shell",
        input: "get a\nquit\n",
        works: &["shell"],
        says: "value 1\n",
        fails: &[(&["shell", "--sync", "never"], 2, "never")],
    },
    row(
        "strategy",
        &["strategy", "set", "tier"],
        "tier",
        &[
            (&["strategy", "set", "no-such"], 2, "strategy list"),
            (&["strategy", "show", "--keyspace", "none"], 1, "`none`"),
        ],
    ),
    row(
        "audit",
        &["audit", "deletes"],
        "default: no time is set for deletes; ",
        &[(&["audit"], 2, "--help"), (&["audit", "puts"], 2, "puts")],
    ),
    row(
        "option",
        &["option", "list"],
        "memtable_bytes",
        &[(&["option", "set", "no_such", "1"], 2, "no_such")],
    ),
    row(
        "explain",
        &["explain"],
        "Keyspace default, strategy",
        &[(&["explain", "--keyspace", "none"], 1, "`none`"), (&["explain", "--fast"], 2, "--fast")],
    ),
    row(
        "schedule",
        &["schedule", "show"],
        "unlimited",
        &[(&["schedule", "set", "whenever"], 2, "whenever"), (&["schedule"], 2, "--help")],
    ),
    row(
        "keyspace",
        &["keyspace", "list"],
        "default\n",
        &[(&["keyspace", "drop", "none"], 1, "none"), (&["keyspace"], 2, "--help")],
    ),
    row(
        "trace",
        &[],
        "",
        &[
            (&["trace", "record", "DIR"], 1, "nobody has"),
            (&["trace", "show", "DIR"], 2, "not --db"),
            (&["trace"], 2, "--help"),
        ],
    ),
    row(
        "bench",
        &["bench", "fillseq", "--records", "50", "--use-existing"],
        "fillseq",
        &[(&["bench", "fillnothing"], 2, "fillseq"), (&["bench", "fillseq"], 1, "--use-existing")],
    ),
    row("sim", &[], "", &[(&["sim"], 2, "no --db"), (&["sim", "writenothing"], 2, "fillseq")]),
    row(
        "demo",
        &[],
        "",
        &[(&["demo"], 2, "leave --db"), (&["demo", "--seconds", "0"], 2, "seconds above 0")],
    ),
    row(
        "lab",
        &[],
        "",
        &[
            (&["lab", "list"], 2, "--out"),
            (&["lab", "run", "peers-fil"], 2, "'peers-fill'"),
            (&["lab", "run", "silk-fig7"], 2, "not reproduced: the production load itself"),
        ],
    ),
];

#[test]
fn every_verb_works_and_fails_as_said() {
    let keel = Keel::new();
    let help = keel.bare(&["--help"]).ok();
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> =
        listed.filter_map(|line| line.split_whitespace().next()).filter(|v| *v != "help").collect();
    assert!(verbs.len() >= 15, "{help}");
    for verb in verbs {
        let row = ROWS.iter().find(|row| row.verb == verb);
        let row = row
            .unwrap_or_else(|| panic!("`keel {verb}` has no row: every verb is shown to work and to fail"));
        let keel = Keel::new();
        keel.feed(&["load", "-"], b"a\t1\nb\t2\n").ok();
        keel.ok(&["compact"]);
        keel.ok(&["put", "c", "3"]);
        let beside = keel.path("beside").to_str().unwrap().to_owned();
        let words = |args: &'static [&'static str]| -> Vec<String> {
            args.iter().map(|arg| arg.replace("DIR", &beside)).collect()
        };
        for (args, code, part) in row.fails {
            let args = words(args);
            keel.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).fails(*code, &[part]);
        }
        assert_eq!(keel.ok(&["scan"]), "a\t1\nb\t2\nc\t3\n", "a wrong `{verb}` changes nothing");
        if !row.works.is_empty() {
            let args = words(row.works);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let done = keel.feed(&args, row.input.as_bytes());
            assert!(done.code == 0 && done.out.contains(row.says), "{verb}: {done:?}");
        }
    }
    // `inspect`, `sim` and `lab` have no store, so their rows cannot say what works: `operations.rs`, `sim.rs` and `lab.rs` do.
}

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
fn delete_to_deletes_a_range() {
    let keel = Keel::new();
    for key in ["a", "b", "c", "d"] {
        keel.ok(&["put", key, key]);
    }
    assert_eq!(keel.ok(&["delete", "b", "--to", "d"]), "");
    assert_eq!(keel.ok(&["scan"]), "a\ta\nd\td\n");
    assert_eq!(keel.run(&["get", "c"]).code, 1);
    // Empty ranges are legal.
    assert_eq!(keel.ok(&["delete", "d", "--to", "d"]), "");
    assert_eq!(keel.ok(&["delete", "d", "--to", "a"]), "");
    assert_eq!(keel.ok(&["scan"]), "a\ta\nd\td\n");
    let done = keel.ok(&["delete", "--escaped", "\\e", "--to", "\\xff", "--json"]);
    assert_eq!(json(&done), serde_json::json!({"ok": true}));
    assert_eq!(keel.ok(&["scan"]), "");
    keel.run(&["delete", "a", "--to"]).fails(2, &["--to"]);
    keel.run(&["delete", "--escaped", "a", "--to", "\\q"]).fails(2, &["backslash"]);
    let help = keel.bare(&["delete", "--help"]).ok();
    assert!(help.contains("--to <KEY>") && help.contains("user:1000 --to user:2000"), "{help}");
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
    let own = list.lines().skip(1).filter(|line| !line.starts_with(' '));
    assert_eq!(rows.as_array().unwrap().len(), own.count());
    let header: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "WHEN", "HOW", "MUCH", "WHICH"]);
    keel.bare(&["strategy", "show", "no-such"]).fails(2, &["no-such"]);
    keel.bare(&["strategy", "show", "teir"]).fails(2, &["did you mean tier?"]);
    for row in rows.as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let shown = keel.bare(&["strategy", "show", name]).ok();
        assert!(
            shown.contains("runs together") || shown.contains("at a time") || shown.contains("all of it"),
            "{shown}"
        );
        let text = shown.lines().find(|line| line.starts_with("when=")).unwrap();
        let again = json(&keel.bare(&["strategy", "show", text, "--json"]).ok());
        assert_eq!(again["text"], text, "{name}");
    }

    keel.ok(&["put", "k", "v"]);
    let before = keel.ok(&["strategy", "show"]);
    let done = keel.run(&["strategy", "set", "full", "--wait"]);
    assert!(done.code == 0 && done.err.contains("for its shape"), "{done:?}");
    let set = done.out;
    assert_ne!(before, set);
    assert_eq!(keel.ok(&["strategy", "show"]), set, "it holds after the store is opened again");
    let shown = json(&keel.ok(&["strategy", "show", "--json"]));
    assert_eq!(shown["text"], set.trim_end());
}

#[test]
fn a_time_for_deletes_that_cannot_be_kept_is_told_where_it_is_set() {
    let keel = Keel::new();
    keel.ok(&["put", "a", "1"]);
    let value: String = (0..8000u64).map(|n| format!("{:05x}", n * n * 7919 % (1 << 20))).collect();
    keel.ok(&["put", "b", &value]);
    keel.ok(&["compact"]);
    let of = |ttl: &str| format!("when=ttl:{ttl},saturation how=runs:1 much=file which=expired");
    let said = " cannot be kept as default is now; the shortest that can be kept is ttl:";
    let warned = |args: &[&str]| {
        let done = keel.run(args);
        assert_eq!(done.code, 0, "{done:?}");
        done.err.lines().find_map(|line| Some(line.split_once(said)?.1.to_owned()))
    };
    for more in [&["--dry-run"][..], &[]] {
        let set = |ttl: &str| warned(&[&["strategy", "set", &of(ttl)], more].concat());
        let shortest = set("2s").unwrap();
        assert_eq!(set(&shortest), None, "{shortest} can be kept");
    }
    // The tree is as small as it was, but is rewritten at a KiB a second.
    let shortest = warned(&["option", "set", "schedule", "fixed:1024"]).unwrap();
    assert_eq!(warned(&["strategy", "set", &of(&shortest)]), None, "{shortest} can be kept");
}

#[test]
fn a_strategy_of_ones_own_is_a_file_and_nonsense_in_it_is_named() {
    let keel = Keel::new();
    let file = keel.write(
        "mine.toml",
        "when = [\"ttl:2s\", \"saturation\"]\nhow = \"runs:1\"\nmuch = \"file\"\nwhich = \"expired\"\n",
    );
    let shown = keel.bare(&["strategy", "show", "--file", &file]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.out.starts_with("when=ttl:2s,saturation how=runs:1 much=file which=expired\n"),
        "{shown:?}"
    );
    assert!(
        shown.err.contains("ttl:2s cannot be kept; the shortest that an empty store can keep is ttl:12s"),
        "{shown:?}"
    );
    for (text, wants) in [
        (
            "when = \"runs\"\nhow = \"runs:1\"\nmuch = \"level\"",
            "lets every level grow without bound; add saturation",
        ),
        ("when = \"saturation\"\nhow = \"runs:1\"\nmuch = \"file\"", "which= is needed"),
        (
            "when = \"saturation\"\nhow = \"runs:1\"\nmuch = \"level\"\n[L0]\nspeed = 9",
            "L0: speed=9: no such field",
        ),
        ("when = \"saturatoin\"\nhow = \"runs:1\"\nmuch = \"level\"", "did you mean saturation?"),
        ("when = \n", "line 1"),
    ] {
        let file = keel.write("wrong.toml", text);
        keel.bare(&["strategy", "show", "--file", &file]).fails(2, &["wrong.toml", wants]);
    }
    keel.bare(&["strategy", "show", "--file", "none.toml"]).fails(2, &["none.toml", "no such file"]);
}

#[test]
fn what_deletes_have_left_is_shown_for_each_keyspace() {
    let keel = Keel::new();
    keel.ok(&["put", "k", "v"]);
    let ttl = "when=ttl:1h,saturation how=runs:1 much=file which=expired";
    keel.ok(&["keyspace", "create", "short", "--strategy", ttl]);
    keel.ok(&["put", "k", "v", "--keyspace", "short"]);
    keel.ok(&["delete", "k", "--keyspace", "short"]);
    let shown = keel.ok(&["audit", "deletes"]);
    assert!(shown.contains("short: deletes are gone within 1 h 0 min; the oldest counts as "), "{shown}");
    assert!(shown.contains(" at the latest"), "{shown}");
    let answer = json(&keel.ok(&["audit", "deletes", "--json"]));
    let short = answer["keyspaces"].as_array().unwrap().iter().find(|k| k["keyspace"] == "short").unwrap();
    let (age, left) = (short["oldest_age_ms"].as_u64().unwrap(), short["left_ms"].as_u64().unwrap());
    assert_eq!((age + left, short["ttl_ms"].as_u64()), (3_600_000, Some(3_600_000)), "{answer}");
}

#[test]
fn a_store_can_be_inspected() {
    let keel = Keel::new();
    let lines: String = (0..500).map(|i| format!("key{i:04}\tvalue {i}\n")).collect();
    let file = keel.write("in.tsv", lines);
    keel.ok(&["load", &file]);

    assert!(keel.ok(&["stats"]).starts_with("Nothing stands out."));
    let stats = keel.ok(&["stats", "--all"]);
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

#[test]
fn an_option_is_listed_changed_and_remembered() {
    let keel = Keel::new();
    let defaults = keel.bare(&["option", "list"]).ok();
    assert!(
        defaults.contains("memtables ") && defaults.contains("memtables in memory at once"),
        "{defaults}"
    );
    keel.ok(&["put", "a", "1"]);
    keel.ok(&["option", "set", "max_write_buffer_number", "5"]);
    let list = keel.ok(&["option", "list"]);
    assert!(list.contains("5 (default 2)"), "{list}");
    let rows = json(&keel.ok(&["option", "list", "--json"]));
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "memtables").unwrap();
    assert_eq!((row["value"].as_str(), row["default"].as_str()), (Some("5"), Some("2")));
    keel.run(&["option", "set", "memtable", "5"]).fails(2, &["memtables"]);
    keel.run(&["option", "set", "memtables", "1"]).fails(2, &["2 to 64"]);
    // Valid alone, and not together with what the store remembers.
    keel.ok(&["option", "set", "l0_limit", "6"]);
    keel.run(&["option", "set", "l0_trigger", "9"]).fails(1, &["l0_limit (6)"]);
    // The default is a value like any other.
    keel.ok(&["option", "set", "memtables", "2"]);
    assert!(!keel.ok(&["option", "list"]).contains("(default 2)"));
}
