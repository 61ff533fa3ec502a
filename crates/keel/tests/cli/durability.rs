//! The durability modes through the command: what `--sync` takes, keyspaces without a log, and what a kill leaves of them.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::Keel;

#[test]
fn every_mode_is_taken_and_the_rest_is_refused() {
    let keel = Keel::new();
    for mode in ["os", "sync", "interval:1", "interval:1000"] {
        assert_eq!(keel.ok(&["put", "--sync", mode, mode, "1"]), "");
    }
    let tsv = keel.write("in.tsv", "a\t1\nb\t2\n");
    keel.ok(&["load", "--sync", "interval:5", &tsv]);
    let answers = keel.feed(&["shell", "--sync", "interval:5"], b"put c 3\nget c\n");
    assert_eq!(answers.ok(), "ok\nvalue 3\n");
    assert_eq!(keel.ok(&["scan", "--limit", "1"]), "a\t1\n");
    for (mode, part) in [
        ("never", "`os`, `sync`, `interval:MS` or `no-wal`"),
        ("interval", "interval:MS"),
        ("interval:", "milliseconds"),
        ("interval:0", "1 to 3600000"),
        ("interval:5s", "milliseconds"),
    ] {
        keel.run(&["put", "k", "v", "--sync", mode]).fails(2, &["--sync", part]);
    }
    keel.run(&["put", "k", "v", "--set", "durability=no-wal"]).fails(2, &["keyspace create --no-wal"]);
}

#[test]
fn a_keyspace_without_a_log_is_made_used_and_kept() {
    let keel = Keel::new();
    keel.ok(&["keyspace", "create", "views", "--no-wal"]);
    for (mode, key) in [(&[][..], "a"), (&["--sync", "no-wal"], "b"), (&[], "c")] {
        keel.ok(&[&["put", "--keyspace", "views", key, "1"], mode].concat());
    }
    for mode in ["os", "sync", "interval:10"] {
        // A shell would acknowledge what a kill takes.
        for verb in [&["put", "d", "1"][..], &["shell"]] {
            let args = [verb, &["--keyspace", "views", "--sync", mode]].concat();
            keel.run(&args).fails(1, &[mode, "`views` has no log", "no-wal"]);
        }
    }
    // Each command has closed the store, which loses nothing.
    assert_eq!(keel.ok(&["scan", "--keyspace", "views"]), "a\t1\nb\t1\nc\t1\n");
    keel.run(&["put", "k", "v", "--sync", "no-wal"]).fails(1, &["`default` has a log", "--no-wal"]);
    let answers = keel.feed(
        &["shell", "--keyspace", "views", "--sync", "no-wal"],
        b"put d 1\nuse default\nbatch\nput e 1\nuse default\nput f 1\ncommit\nget e\n",
    );
    let answers = answers.ok();
    let lines: Vec<&str> = answers.lines().collect();
    assert_eq!((lines[0], lines[3]), ("ok", "none"), "{lines:?}");
    assert!(lines[1].starts_with("error InvalidArgument --sync no-wal"), "{lines:?}");
    assert!(lines[2].starts_with("error InvalidArgument --sync no-wal"), "{lines:?}");
    let both = keel.feed(
        &["shell", "--keyspace", "views"],
        b"batch\nput e 1\nuse default\nput f 1\ncommit\nget f\nuse views\nget e\n",
    );
    let both = both.ok();
    let lines: Vec<&str> = both.lines().collect();
    assert!(lines[0].starts_with("error InvalidArgument keyspace `views` has no log"), "{lines:?}");
    assert_eq!(lines[1..], ["none", "ok", "none"]);
}

/// A killed process keeps what it logged, and of a keyspace without a log what it flushed.
#[test]
fn a_kill_takes_what_was_in_memory_only() {
    let keel = Keel::new();
    keel.ok(&["keyspace", "create", "views", "--no-wal"]);
    let mut child = keel
        .command(&["shell", "--sync", "interval:1000", "--db"])
        .arg(keel.db())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let commands = b"put logged 1\nuse views\nput flushed 1\nflush\nput lost 1\nuse default\nput logged2 1\n";
    child.stdin.as_mut().unwrap().write_all(commands).unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..7 {
        assert_eq!(answers.next().unwrap().unwrap(), "ok");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(keel.ok(&["scan"]), "logged\t1\nlogged2\t1\n");
    assert_eq!(keel.ok(&["scan", "--keyspace", "views"]), "flushed\t1\n");
    keel.ok(&["verify"]);
}

#[test]
fn bench_says_which_mode_it_measured() {
    let keel = Keel::new();
    for (mode, keyspace) in [("interval:10", "default"), ("no-wal", "views")] {
        let args =
            ["bench", "fillrandom", "--records", "2k", "--json", "-", "--sync", mode, "--keyspace", keyspace];
        let done = keel.bare(&args);
        assert_eq!(done.code, 0, "{done:?}");
        let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert!(json.to_string().contains(&format!("\"sync\":\"{mode}\"")), "{json}");
    }
}
