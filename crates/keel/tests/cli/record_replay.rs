//! `trace record|replay|show`, and `--trace` of the verbs that record themselves.

use serde_json::Value;

use crate::{Keel, list, make_dir, read_bytes};

/// Ends with keys a, c, d in the default keyspace, and e, f in another.
const SESSION: &str = "put a 1\nput b 22\nput c 333\ndel b\nget a\nget none\nbatch\nput d 4444\nuse other\nput e 5\n\
                       use default\ncommit\ndelrange x y\nscan\nrscan\nuse other\nput f \\e\nget e\n";

/// Its operations by kind.
const KINDS: [(&str, u64); 6] =
    [("put", 4), ("delete", 1), ("delete_range", 1), ("batch", 1), ("get", 3), ("scan", 2)];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Keys of a keyspace, with the lengths of their values.
fn keys(keel: &Keel, db: &str, keyspace: &str) -> Vec<(String, usize)> {
    let args = ["scan", "--db", db, "--keyspace", keyspace, "--json"];
    let record = |line: &str| {
        let record = json(line);
        // Made-up values are no UTF-8.
        let hex = record["value_hex"].as_str().map(|hex| hex.len() / 2);
        let bytes = hex.or(record["value"].as_str().map(str::len)).unwrap();
        (record["key"].as_str().unwrap().to_owned(), bytes)
    };
    keel.bare(&args).ok().lines().map(record).collect()
}

/// Records a session of a shell into `today.trace`.
fn session(keel: &Keel, flags: &[&str]) -> String {
    let file = keel.path("today.trace").to_str().unwrap().to_owned();
    keel.ok(&["put", "before", "x"]);
    keel.ok(&["delete", "before"]);
    keel.ok(&["keyspace", "create", "other"]);
    let done = keel.feed(&[&["shell", "--trace", &file], flags].concat(), SESSION.as_bytes());
    assert!(done.code == 0 && done.err.contains("12 operations (1 batch, 1 delete, "), "{done:?}");
    file
}

fn show(keel: &Keel, file: &str) -> Value {
    json(&keel.bare(&["trace", "show", file, "--json"]).ok())
}

#[test]
fn a_session_is_recorded_shown_and_replayed() {
    let keel = Keel::new();
    let file = session(&keel, &[]);
    let shown = show(&keel, &file);
    for (kind, ops) in KINDS {
        assert_eq!(shown["kinds"][kind]["ops"], ops, "{kind}: {shown}");
    }
    assert_eq!((&shown["operations"], &shown["missed"]), (&12.into(), &0.into()));
    assert_eq!(shown["end"]["state"], "clean");
    assert_eq!(shown["keyspaces"], serde_json::json!(["default", "other"]));
    let text = keel.bare(&["trace", "show", &file, "--operations"]).ok();
    for part in [
        "put          default c (3 B)",
        "batch        [default d (4 B), other e (1 B)]",
        "delete_range default x up to y",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(
        text.contains("default from \\e up, 3 entries") && text.contains("default from d down, 3 entries"),
        "{text}"
    );
    let lines = keel.bare(&["trace", "show", &file, "--operations", "--json"]).ok();
    assert_eq!(lines.lines().map(json).filter(|line| line["op"].is_string()).count(), 12);

    let copy = keel.path("copy").to_str().unwrap().to_owned();
    let (out, report) = (keel.path("out.json"), keel.path("report"));
    let done = keel.bare(&[
        "trace",
        "replay",
        &file,
        "--db",
        &copy,
        "--speed",
        "2",
        "--json",
        out.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ]);
    assert!(done.code == 0 && done.err.contains("made the keyspace `other`"), "{done:?}");
    assert!(
        done.out.contains("trace on evenkeel") && done.out.contains("at 2 times their speed"),
        "{done:?}"
    );
    assert!(list(&report).contains(&"report.html".to_owned()));
    let db = keel.db();
    for (keyspace, expected) in [("default", 3), ("other", 2)] {
        let replayed = keys(&keel, &copy, keyspace);
        assert_eq!(replayed, keys(&keel, db.to_str().unwrap(), keyspace));
        assert_eq!(replayed.len(), expected);
    }
    let document = json(&crate::read_file(&out));
    assert_eq!((&document["workload"], &document["ops"]), (&"trace".into(), &12.into()));
    assert_eq!(document["records"], 5);
    assert_eq!(document["open_loop"]["spacing"], "recorded");
    assert_eq!((&document["replay"]["operations"], &document["replay"]["speed"]), (&12.into(), &2.0.into()));
    for (kind, ops) in [("update", 4), ("delete", 1), ("delete_range", 1), ("transaction", 1), ("read", 3)] {
        assert_eq!(document["latency_us"][kind]["count"], ops, "{kind}: {document}");
    }
    // Again, on a disk that is emulated: only where made-up values may go.
    keel.bare(&["trace", "replay", &file, "--db", &copy]).fails(1, &["--use-existing", "made-up values"]);
    let again =
        ["trace", "replay", &file, "--db", &copy, "--use-existing", "--as-fast-as-possible", "--json", "-"];
    let document = json(&keel.bare(&[&again[..], &["--device", "1GiB"]].concat()).ok());
    assert_eq!(document["config"]["device_bytes_per_sec"], 1 << 30);
    assert_eq!((&document["open_loop"], &document["replay"]["speed"]), (&Value::Null, &Value::Null));
    assert_eq!(keys(&keel, &copy, "default"), keys(&keel, db.to_str().unwrap(), "default"));
}

#[test]
fn hashed_keys_are_not_told_and_replayed_as_they_are() {
    let keel = Keel::new();
    let file = session(&keel, &["--hash-keys"]);
    let shown = show(&keel, &file);
    assert_eq!((&shown["hashed"], &shown["operations"]), (&true.into(), &12.into()));
    let copy = keel.path("copy").to_str().unwrap().to_owned();
    assert_eq!(keel.bare(&["trace", "replay", &file, "--db", &copy, "--speed", "100"]).code, 0);
    let replayed = keys(&keel, &copy, "default");
    assert!(replayed.iter().all(|(key, _)| key.len() == 16), "{replayed:?}");
    // Neither order nor the range is kept; which keys are the same is.
    let mut lengths: Vec<usize> = replayed.iter().map(|(_, bytes)| *bytes).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 3, 4]);
    assert_eq!(keys(&keel, &copy, "other").len(), 2);
}

#[test]
fn what_a_bench_measures_is_recorded_and_nothing_else() {
    let keel = Keel::new();
    let file = keel.path("bench.trace").to_str().unwrap().to_owned();
    let bench = ["bench", "ycsb-a", "--records", "500", "--ops", "700", "--trace", &file];
    let done = keel.bare(&bench);
    assert!(done.code == 0 && done.err.contains("700 operations ("), "{done:?}");
    assert_eq!(show(&keel, &file)["operations"], 700);
    keel.bare(&bench).fails(1, &["bench.trace exists"]);
    keel.bare(&["bench", "soak", "--trace", "x"]).fails(2, &["--trace records one run"]);
}

#[test]
fn what_is_no_whole_trace_is_told() {
    let keel = Keel::new();
    let file = session(&keel, &[]);
    let whole = read_bytes(keel.path("today.trace").as_path());
    let cut = keel.write("cut.trace", &whole[..whole.len() - 60]);
    let shown = show(&keel, &cut);
    assert_eq!((&shown["end"]["state"], &shown["missed"]), (&"cut".into(), &Value::Null), "{shown}");
    assert!(keel.bare(&["trace", "show", &cut]).ok().contains("CUT at byte "));
    let copy = keel.path("copy").to_str().unwrap().to_owned();
    let done = keel.bare(&["trace", "replay", &cut, "--db", &copy, "--speed", "100"]);
    assert!(done.code == 0 && done.out.contains("CUT: the trace has no end"), "{done:?}");
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 1;
    let damaged = keel.write("damaged.trace", &damaged);
    keel.bare(&["trace", "show", &damaged]).fails(1, &["damaged.trace"]);

    let other = keel.write("other", "no trace at all");
    keel.bare(&["trace", "show", &other]).fails(1, &["other is no trace"]);
    keel.bare(&["trace", "show", "nowhere"]).fails(1, &["nowhere"]);
    keel.bare(&["trace", "replay", &other, "--db", "new"]).fails(1, &["other is no trace"]);
    keel.bare(&["trace", "replay", &file]).fails(2, &["--db DIR"]);
    keel.bare(&["trace", "replay", &file, "--db", "x", "--speed", "0"]).fails(2, &["twice as fast"]);
    keel.feed(&["shell", "--trace", &file], b"").fails(1, &["today.trace exists"]);
    keel.run(&["trace", "record", &file]).fails(1, &["nobody has", "keel shell --trace FILE"]);
    make_dir(&keel.path("empty"));
    let empty = keel.path("empty").to_str().unwrap().to_owned();
    keel.bare(&["trace", "record", "x", "--db", &empty]).fails(1, &["is an empty directory"]);
    assert!(!keel.path("x").exists());
}

#[cfg(unix)]
mod live {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::{json, show};
    use crate::Keel;
    use crate::shell::Shell;

    /// A command that records, once it does.
    fn record(keel: &Keel, file: &str, flags: &[&str]) -> Child {
        let mut command = keel.command(&["trace", "record", file]);
        command.args(flags).arg("--db").arg(keel.db());
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("keel: recording into "), "{line}");
        child
    }

    #[test]
    fn a_running_store_is_recorded_until_stdin_ends() {
        let keel = Keel::new();
        let mut shell = Shell::start(&keel, &[]);
        assert_eq!(shell.ask("put before 1"), "ok");
        let file = keel.path("live.trace").to_str().unwrap().to_owned();
        let child = record(&keel, &file, &["--json"]);
        for i in 0..100 {
            assert_eq!(shell.ask(&format!("put key{i} value")), "ok");
        }
        assert_eq!(shell.ask("get key1"), "value value");
        keel.run(&["trace", "record", "second.trace"]).fails(1, &["a trace runs already", "live.trace"]);
        // Waiting closes its stdin.
        let done = child.wait_with_output().unwrap();
        let summary = json(&String::from_utf8(done.stdout).unwrap());
        assert_eq!((&summary["operations"]["put"], &summary["operations"]["get"]), (&100.into(), &1.into()));
        assert_eq!(shell.ask("put after 1"), "ok");
        assert_eq!(show(&keel, &file)["operations"], 101);
        keel.run(&["trace", "record", &file]).fails(1, &["live.trace exists"]);
        let interrupted = keel.path("interrupted.trace").to_str().unwrap().to_owned();
        let mut child = record(&keel, &interrupted, &[]);
        let stdin = child.stdin.take();
        assert_eq!(shell.ask("put last 1"), "ok");
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let done = child.wait_with_output().unwrap();
        drop(stdin);
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success() && out.contains(": 1 operation (1 put)"), "{out}");
        let timed = keel.path("timed.trace").to_str().unwrap().to_owned();
        let done = keel.run(&["trace", "record", &timed, "--seconds", "0.01"]);
        assert!(done.code == 0 && done.out.contains("0 operations in "), "{done:?}");
        assert_eq!(shell.ask("quit"), "ok");
        shell.wait();
    }

    #[test]
    fn a_trace_ends_with_its_store_and_with_who_asked_for_it() {
        let keel = Keel::new();
        let mut shell = Shell::start(&keel, &[]);
        assert_eq!(shell.ask("get a"), "none", "it is open");
        let killed = keel.path("killed.trace").to_str().unwrap().to_owned();
        let mut child = record(&keel, &killed, &[]);
        assert_eq!(shell.ask("put a 1"), "ok");
        child.kill().unwrap();
        child.wait().unwrap();
        // The store notices by itself, so another trace may begin before long.
        let file = keel.path("closed.trace").to_str().unwrap().to_owned();
        while !keel.run(&["trace", "record", &file, "--seconds", "0.001"]).err.contains("recording into") {}
        assert_eq!(show(&keel, &killed)["end"]["state"], "clean");
        let closed = keel.path("closed2.trace").to_str().unwrap().to_owned();
        let child = record(&keel, &closed, &[]);
        assert_eq!(shell.ask("put b 2"), "ok");
        assert_eq!(shell.ask("quit"), "ok");
        shell.wait();
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
        let shown = show(&keel, &closed);
        assert_eq!((&shown["end"]["state"], &shown["operations"]), (&"clean".into(), &1.into()));
    }
}
