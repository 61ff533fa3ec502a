//! Each wrong call is one line on stderr and a stable exit code, and leaves no traces.

use crate::{Keel, list, make_dir, read_bytes, write_file};

const READERS: [&[&str]; 10] = [
    &["get", "k"],
    &["scan"],
    &["dump"],
    &["stats"],
    &["levels"],
    &["verify"],
    &["compact"],
    &["delete", "k"],
    &["strategy", "show"],
    &["keyspace", "list"],
];

#[test]
fn readers_never_create_a_store() {
    let keel = Keel::new();
    for args in READERS {
        keel.run(args).fails(1, &["does not exist", "keel put --db", "keel load --db"]);
        assert!(!keel.db().exists(), "{args:?}");
    }
    make_dir(&keel.db());
    for args in READERS {
        keel.run(args).fails(1, &["empty directory", "creates a store"]);
        assert!(list(&keel.db()).is_empty(), "{args:?}");
    }
}

#[test]
fn other_people_s_directories_are_left_alone() {
    let keel = Keel::new();
    make_dir(&keel.db());
    write_file(&keel.db().join("letter.txt"), b"dear");
    let writers: [&[&str]; 5] =
        [&["put", "k", "v"], &["load", "-"], &["shell"], &["keyspace", "create", "x"], &["bench", "fillseq"]];
    for args in writers {
        keel.run(args).fails(1, &["is not a store", "new or empty directory"]);
    }
    for args in READERS {
        keel.run(args).fails(1, &["is not a store"]);
    }
    assert_eq!(list(&keel.db()), ["letter.txt"]);

    let keel = Keel::new();
    write_file(&keel.db(), b"a file");
    for args in writers.iter().chain(&READERS) {
        keel.run(args).fails(1, &["is not a directory"]);
    }
}

#[test]
fn wrong_usage_is_exit_2_and_creates_nothing() {
    let keel = Keel::new();
    let cases: [(&[&str], &[&str]); 18] = [
        (&["fetch"], &["fetch"]),
        (&["put", "k"], &["VALUE"]),
        (&["get", "k", "--colour"], &["--colour"]),
        (&["put", "k", "v", "--sync", "never"], &["--sync never"]),
        (&["put", "k", "v", "--strategy", "no-such"], &["no-such", "strategy list"]),
        (&["put", "k", "v", "--schedule", "silky"], &["silky", "unlimited"]),
        (&["put", "k", "v", "--schedule", "silk", "--set", "schedule=paced"], &["schedule is said twice"]),
        (&["put", "k", "v", "--set", "memtable_bytes"], &["OPTION=VALUE"]),
        (&["put", "k", "v", "--set", "memtable_bytes=many"], &["memtable_bytes=many"]),
        (&["put", "k", "v", "--set", "no_such=1"], &["no_such", "option list"]),
        (&["put", "--escaped", "\\q", "v"], &["\\q", "backslash"]),
        (&["get", "--escaped", "--json", "k"], &["--json"]),
        (&["scan", "--prefix", "a", "--from", "b"], &["--prefix"]),
        (&["load", "--format", "xml", "-"], &["xml", "tsv"]),
        (&["load", "--batch", "0", "-"], &["0"]),
        (&["strategy", "set", "no-such"], &["no-such"]),
        (&["bench", "fillnothing"], &["fillnothing", "fillseq"]),
        (&["bench", "ycsb-a", "--rate", "much"], &["--rate"]),
    ];
    for (args, parts) in cases {
        keel.run(args).fails(2, parts);
        assert!(!keel.db().exists(), "{args:?}");
    }
    keel.bare(&["get", "k"]).fails(2, &["--db"]);
    keel.bare(&[]).fails(2, &["--help"]);
    keel.bare(&["strategy"]).fails(2, &["--help"]);
}

#[test]
fn a_file_that_cannot_be_read_creates_no_store() {
    let keel = Keel::new();
    keel.run(&["load", "/no/such/file.tsv"]).fails(1, &["/no/such/file.tsv"]);
    keel.run(&["load", keel.dir.path().to_str().unwrap()]).fails(1, &["directory"]);
    assert!(!keel.db().exists());
}

#[test]
fn a_missing_keyspace_is_named() {
    let keel = Keel::new();
    keel.ok(&["put", "k", "v"]);
    keel.run(&["get", "k", "--keyspace", "other"]).fails(1, &["`other`", "default", "keyspace create"]);
    keel.run(&["verify", "--keyspace", "other"]).fails(1, &["`other`"]);
}

#[test]
fn a_second_opener_is_refused_at_once() {
    let keel = Keel::new();
    let mut shell = crate::shell::Shell::start(&keel, &["--set", "control_socket=false"]);
    assert_eq!(shell.ask("put a 1"), "ok");
    for args in READERS {
        keel.run(args).fails(1, &["LOCK"]);
    }
    keel.run(&["put", "b", "2"]).fails(1, &["LOCK"]);
    assert_eq!(shell.ask("get b"), "none");
    assert_eq!(shell.ask("quit"), "ok");
    assert_eq!(keel.ok(&["get", "a"]), "1\n");
}

#[test]
fn damage_is_found_and_named() {
    for truncate in [false, true] {
        let keel = Keel::new();
        let lines: String = (0..20_000).map(|i| format!("key{i:06}\tvalue {i}\n")).collect();
        let file = keel.write("in.tsv", &lines);
        keel.ok(&["load", &file]);
        keel.ok(&["compact"]);
        keel.ok(&["verify"]);
        // The largest table, or where there is none the largest file.
        let size = |name: &String| keel.db().join(name).metadata().unwrap().len();
        let victim =
            list(&keel.db()).into_iter().max_by_key(|name| (name.ends_with(".sst"), size(name))).unwrap();
        let path = keel.db().join(&victim);
        let mut bytes = read_bytes(&path);
        let middle = bytes.len() / 2;
        if truncate && victim.ends_with(".sst") {
            bytes.truncate(middle);
        } else {
            bytes[middle] ^= 0x40;
        }
        write_file(&path, &bytes);
        keel.run(&["verify"]).fails(1, &[&victim]);
        // Damage may lie where a dump does not look, but then nothing is missing from it.
        let dump = keel.run(&["dump"]);
        assert!(dump.code == 1 || dump.out == lines, "a dump that misses records says so");
    }
}

#[test]
fn a_log_that_was_cut_or_changed_after_its_sync_is_named() {
    for (cut, what) in [(true, "shorter than it was made"), (false, "known to be durable")] {
        let keel = Keel::new();
        let mut shell = crate::shell::Shell::start(&keel, &["--sync", "sync"]);
        for i in 0..50 {
            assert_eq!(shell.ask(&format!("put key{i} {i}")), "ok");
        }
        // Killed, so that the log is all there is of them.
        drop(shell);
        let log = list(&keel.db()).into_iter().find(|name| name.ends_with(".log")).unwrap();
        let path = keel.db().join(&log);
        let whole = read_bytes(&path);
        let mut bytes = whole.clone();
        if cut {
            bytes.truncate(1500);
        } else {
            bytes[1500] ^= 1;
        }
        write_file(&path, &bytes);
        for args in READERS {
            keel.run(args).fails(1, &[&log, what]);
        }
        keel.run(&["put", "k", "v"]).fails(1, &[&log, what]);
        // Whoever has a copy of the file loses nothing: nothing was changed meanwhile.
        write_file(&path, &whole);
        assert_eq!(keel.ok(&["scan"]).lines().count(), 50);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let keel = Keel::new();
    keel.ok(&["put", "k", "v"]);
    for args in [&["get", "k"][..], &["dump"], &["scan"], &["stats"]] {
        let full = open_for_writing(std::fs::File::options().write(true), "/dev/full");
        let output = keel.command(args).arg("--db").arg(keel.db()).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.starts_with("keel: cannot write the output: "), "{args:?}: {err}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a device, not a store's file")]
fn open_for_writing(options: &std::fs::OpenOptions, path: &str) -> std::fs::File {
    options.open(path).unwrap()
}

#[test]
fn help_has_examples_for_every_verb() {
    let keel = Keel::new();
    let top = keel.bare(&["--help"]).ok();
    assert!(top.contains("Examples:") && top.contains("Exit codes:"));
    let verbs = [
        "put",
        "get",
        "delete",
        "scan",
        "load",
        "dump",
        "stats",
        "levels",
        "compact",
        "verify",
        "shell",
        "strategy",
        "audit",
        "keyspace",
        "bench",
        "explain",
        "schedule",
        "checkpoint",
        "inspect",
    ];
    for verb in verbs {
        assert!(top.contains(&format!("  {verb} ")), "{verb}");
        let help = keel.bare(&[verb, "--help"]).ok();
        assert!(help.contains("Example"), "{verb}");
        assert!(help.contains(&format!("keel {verb}")) || help.contains("| keel shell"), "{verb}");
    }
    assert!(keel.bare(&["--version"]).ok().starts_with("keel 0."));
}

#[test]
fn help_says_nothing_of_what_is_refused_and_a_negative_number_is_told_why_not() {
    let keel = Keel::new();
    for words in ["demo", "lab run", "inspect table"] {
        let help = keel.bare(&[words.split(' ').collect::<Vec<_>>(), vec!["--help"]].concat()).ok();
        assert!(!help.contains("--db <DIR>") && !help.contains("--keyspace"), "{words}: {help}");
    }
    for words in ["schedule set", "option list", "audit deletes"] {
        let help = keel.bare(&[words.split(' ').collect::<Vec<_>>(), vec!["--help"]].concat()).ok();
        assert!(help.contains("--db <DIR>") && !help.contains("--keyspace"), "{words}: {help}");
    }
    assert!(keel.bare(&["scan", "--help"]).ok().contains("--keyspace"));
    keel.bare(&["bench", "ycsb-a", "--records", "-1"]).fails(2, &["'-1'", "--records"]);
    keel.bare(&["demo", "--seconds", "-5"]).fails(2, &["'-5'", "--seconds"]);
    keel.run(&["scan", "--limit", "-1"]).fails(2, &["'-1'", "--limit"]);
    // A name or a key may be one.
    keel.ok(&["put", "1", "2"]);
    keel.run(&["scan", "--keyspace", "-1"]).fails(1, &["no keyspace `-1`"]);
    keel.ok(&["put", "-1", "-2"]);
    assert_eq!(keel.ok(&["get", "-1"]), "-2\n");
}

#[test]
fn no_line_of_help_or_of_a_list_is_wider_than_a_terminal() {
    let keel = Keel::new();
    let verbs = [
        "",
        "put",
        "get",
        "delete",
        "scan",
        "load",
        "dump",
        "stats",
        "levels",
        "compact",
        "verify",
        "shell",
        "strategy",
        "audit",
        "option",
        "keyspace",
        "bench",
        "explain",
        "schedule",
        "checkpoint",
        "inspect",
    ];
    let helps = verbs.map(|verb| match verb {
        "" => keel.bare(&["--help"]),
        verb => keel.bare(&[verb, "--help"]),
    });
    for done in helps.into_iter().chain([keel.bare(&["option", "list"])]) {
        let out = done.ok();
        let wide: Vec<&str> = out.lines().filter(|line| line.chars().count() > 80).collect();
        // What has no blank cannot be broken.
        assert!(wide.iter().all(|line| line.trim().split(' ').all(|word| word.len() > 60)), "{wide:#?}");
    }
}

#[test]
fn a_wrong_name_is_answered_with_a_near_one_or_where_to_look() {
    let keel = Keel::new();
    keel.run(&["put", "k", "v", "--set", "memtable_byte=1MiB"]).fails(2, &["did you mean `memtable_bytes`?"]);
    for name in ["foo", ""] {
        let done = keel.run(&["put", "k", "v", "--set", &format!("{name}=4")]);
        assert!(!done.err.contains("did you mean"), "{done:?}");
        done.fails(2, &["option list"]);
    }
    keel.run(&["stat"]).fails(2, &["'stats'"]);
    keel.bare(&["strategy"]).fails(2, &["`keel strategy --help`"]);
    for verb in
        ["audit deletes", "schedule list", "option list", "keyspace list", "inspect wal x", "sim fillrandom"]
    {
        let words: Vec<&str> = verb.split(' ').chain(["--keyspace", "none"]).collect();
        keel.bare(&words).fails(2, &["takes no --keyspace"]);
    }
    keel.bare(&["lab"]).fails(2, &["`keel lab --help`"]);
    keel.bare(&[]).fails(2, &["`keel --help` lists the verbs"]);
    keel.bare(&["sim", "fillrandom", "--rate", "0"]).fails(2, &["a number above 0"]);
    keel.run(&["option", "set", "schedule", "nonsense"]).fails(2, &["nonsense"]);
    keel.run(&["scan", "--limit", "x"]).fails(2, &["give a whole number"]);
    let done = keel.run(&["strategy", "set", "teir"]);
    assert_eq!(done.err.matches("teir").count(), 1, "{done:?}");
    for args in [&["stats", "--watch", "1"][..], &["explain", "--events"]] {
        keel.run(args).fails(1, &["does not exist"]);
    }
}

/// Tables that are read stay open. Where the process may not open so many, that is an error in words, and nothing is lost by it.
#[cfg(unix)]
#[test]
fn too_few_descriptors_are_an_error_and_lose_nothing() {
    let keel = Keel::new();
    let lines: String = (0..3000).map(|n| format!("key{n:05}\t{:0>60}\n", n * 7)).collect();
    let small = ["load", "--set", "memtable_bytes=4k", "--set", "table_bytes=2k", "-"];
    assert_eq!(keel.feed(&small, lines.as_bytes()).code, 0);
    let tables = list(&keel.db()).iter().filter(|name| name.ends_with(".sst")).count();
    assert!(tables > 40, "{tables} tables");
    let all = keel.ok(&["scan"]);
    assert_eq!(all.lines().count(), 3000);
    let scan = format!("ulimit -n 32; exec {} --db {} scan", env!("CARGO_BIN_EXE_keel"), keel.db().display());
    let output = std::process::Command::new("sh").args(["-c", &scan]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("open") && !err.contains("panic"), "{err}");
    assert_eq!(keel.ok(&["scan"]), all);
}
