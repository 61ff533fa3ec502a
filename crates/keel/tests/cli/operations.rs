//! Checkpoints, looks beside a process that has the store open, and single files looked into.

use std::path::Path;

use crate::shell::Shell;
use crate::{Keel, list, read_bytes, remove_file, write_file};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn filled() -> Keel {
    let keel = Keel::new();
    let lines: String = (0..3000).map(|i| format!("key{i:04}\tvalue {i}\n")).collect();
    let file = keel.write("in.tsv", lines);
    keel.ok(&["load", &file]);
    keel.ok(&["keyspace", "create", "other"]);
    keel.ok(&["put", "--keyspace", "other", "k", "v"]);
    keel
}

#[test]
fn a_checkpoint_is_a_store() {
    let keel = filled();
    keel.ok(&["compact"]);
    let target = keel.path("backups/monday").to_str().unwrap().to_owned();
    let said = keel.ok(&["checkpoint", &target]);
    assert!(said.contains("as of sequence 3001") && said.contains("linked"), "{said}");
    let copy = |args: &[&str]| keel.bare(&[&["--db", &target], args].concat()).ok();
    assert_eq!(copy(&["scan"]), keel.ok(&["scan"]));
    assert_eq!(copy(&["get", "k", "--keyspace", "other"]), "v\n");
    assert!(copy(&["verify"]).starts_with("sound"));
    assert_eq!(list(&keel.path("backups")), ["monday"]);

    let before = list(&keel.path("backups/monday"));
    keel.run(&["checkpoint", &target]).fails(1, &["exists already"]);
    keel.run(&["checkpoint", keel.db().to_str().unwrap()]).fails(1, &["exists already"]);
    assert_eq!(list(&keel.path("backups/monday")), before);
    let other = keel.path("tuesday").to_str().unwrap().to_owned();
    let made = json(&keel.ok(&["checkpoint", &other, "--json"]));
    assert!(made["tables"]["linked"].as_u64().unwrap() > 0 && made["sequence"] == 3001, "{made}");
    keel.run(&["checkpoint", &other, "--keyspace", "none"]).fails(1, &["`none`"]);
    keel.run(&["checkpoint"]).fails(2, &["TARGET"]);
}

#[test]
fn a_store_that_is_open_can_be_looked_at() {
    let keel = filled();
    let mut shell = crate::shell::Shell::start(&keel, &[]);
    assert_eq!(shell.ask("put new 1"), "ok");
    // The shell answers at its control socket, so these need no lock.
    assert!(keel.ok(&["stats"]).contains("of the running store") && !keel.ok(&["levels"]).is_empty());
    for args in [&["get", "new"][..], &["scan"], &["dump"], &["stats"], &["levels"], &["verify"]] {
        if !["stats", "levels"].contains(&args[0]) {
            keel.run(args).fails(1, &["LOCK", "--read-only"]);
        }
        assert!(!keel.ok(&[args, &["--read-only"]].concat()).is_empty());
    }
    assert_eq!(keel.ok(&["get", "--read-only", "new"]), "1\n");
    assert_eq!(shell.ask("put new 2"), "ok");
    assert_eq!(keel.ok(&["get", "--read-only", "new"]), "2\n");
    assert_eq!(keel.ok(&["scan", "--read-only"]).lines().count(), 3001);
    assert_eq!(shell.ask("quit"), "ok");

    // And one that nobody has open: no file comes, goes or changes.
    let files = || -> Vec<(String, Vec<u8>)> {
        list(&keel.db()).into_iter().map(|name| (name.clone(), read_bytes(&keel.db().join(&name)))).collect()
    };
    let before = files();
    assert_eq!(keel.ok(&["scan", "--read-only"]).lines().count(), 3001);
    assert_eq!(keel.run(&["get", "--read-only", "none"]).code, 1);
    assert!(files() == before, "a look changed the store");
    keel.run(&["put", "k", "v", "--read-only"]).fails(2, &["--read-only"]);
}

fn file(keel: &Keel, part: &str) -> String {
    // The last of its kind; of tables the largest.
    let size = |name: &String| keel.db().join(name).metadata().unwrap().len();
    let names = list(&keel.db()).into_iter().filter(|name| name.contains(part));
    let name = names.max_by_key(|name| if part == ".sst" { size(name) } else { 0 }).unwrap();
    keel.db().join(name).to_str().unwrap().to_owned()
}

/// No line is wider than a terminal, but for one with the path of a file.
#[track_caller]
fn fits(text: &str) {
    let wide = text.lines().find(|line| line.chars().count() > 80 && !line.contains('/'));
    assert_eq!(wide, None, "{text}");
}

#[test]
fn single_files_are_shown_without_a_store() {
    let keel = filled();
    keel.ok(&["compact"]);
    let table = file(&keel, ".sst");
    let text = keel.bare(&["inspect", "table", &table]).ok();
    for part in [
        "first key     key0000",
        "last key      key2999",
        "0 deletes",
        "blocks",
        "index",
        "filter",
        "sequences",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    fits(&text);
    let lines = keel.bare(&["inspect", "table", &table, "--entries", "--blocks", "--json"]).ok();
    let rows: Vec<serde_json::Value> = lines.lines().map(json).collect();
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == kind).count() as u64;
    let summary = rows.last().unwrap();
    assert_eq!((of("entry"), of("table")), (3000, 1));
    assert_eq!(summary["blocks"], of("block"));
    assert_eq!(rows.iter().find(|row| row["type"] == "entry").unwrap()["value"], "value 0");

    let log = keel.path("copy.of.a.log").to_str().unwrap().to_owned();
    keel.ok(&["put", "some key", "logged"]);
    write_file(&keel.path("copy.of.a.log"), &read_bytes(file(&keel, ".log").as_ref()));
    let text = keel.bare(&["inspect", "wal", &log, "--entries"]).ok();
    assert!(text.contains("put some\\x20key  logged (6 B)") && text.contains("sealed at"), "{text}");
    assert!(text.contains("B  sequence 3002, 1 entry\n"), "{text}");
    fits(&text);
    let rows: Vec<_> =
        keel.bare(&["inspect", "wal", &log, "--entries", "--json"]).ok().lines().map(json).collect();
    assert_eq!(
        (rows[0]["batch"][0]["key"].as_str(), rows[1]["tail"]["state"].as_str()),
        (Some("some key"), Some("sealed"))
    );

    let manifest = file(&keel, "MANIFEST");
    let text = keel.bare(&["inspect", "manifest", &manifest]).ok();
    assert!(
        text.contains("`other`") && text.contains("L0") && text.contains("[key0000 - key2999]"),
        "{text}"
    );
    fits(&text);
    let lines = keel.bare(&["inspect", "manifest", &manifest, "--json"]).ok();
    assert_eq!(json(lines.lines().last().unwrap())["keyspaces"][1]["name"], "other");
}

#[test]
fn damage_is_listed_and_the_rest_is_shown() {
    let keel = filled();
    keel.ok(&["compact"]);
    let table = file(&keel, ".sst");
    let mut bytes = read_bytes(table.as_ref());
    bytes[6000] ^= 1;
    let damaged = keel.write("damaged.sst", &bytes);
    let shown = keel.bare(&["inspect", "table", &damaged, "--entries"]);
    shown.fails(1, &["damaged.sst", "at byte"]);
    assert!(shown.out.contains("key2999") && shown.out.contains("DAMAGE"), "{}", shown.out);
    assert!((2000..3000).contains(&shown.out.lines().filter(|line| line.contains(" put key")).count()));
    let shown = keel.bare(&["inspect", "table", &damaged, "--json"]);
    assert_eq!(json(&shown.out)["damage"].as_array().unwrap().len(), 1);

    keel.bare(&["inspect", "table", &file(&keel, ".log")]).fails(1, &["at byte"]);
    keel.bare(&["inspect", "wal", &file(&keel, "MANIFEST")]).fails(1, &["inspect manifest"]);
    keel.bare(&["inspect", "manifest", &file(&keel, ".log")]).fails(1, &["inspect wal"]);
    keel.bare(&["inspect", "table", "/no/such.sst"]).fails(1, &["/no/such.sst"]);
    keel.bare(&["inspect", "table"]).fails(2, &["FILE"]);
    keel.bare(&["inspect"]).fails(2, &["--help"]);
    keel.run(&["inspect", "table", &damaged]).fails(2, &["--db"]);
}

/// A log of four records that no seal ends and no promise covers, under its own name.
fn unsealed_log() -> (Keel, String, Vec<u8>) {
    let keel = Keel::new();
    let mut shell = crate::shell::Shell::start(&keel, &[]);
    for i in 0..4 {
        assert_eq!(shell.ask(&format!("put key{i} {i}")), "ok");
    }
    // Killed.
    drop(shell);
    let log = file(&keel, ".log");
    let size = |name: &String| read_bytes(name.as_ref()).iter().filter(|byte| **byte != 0).count();
    let logs = list(&keel.db()).into_iter().filter(|name| name.ends_with(".log"));
    let log =
        logs.map(|name| keel.db().join(name).to_str().unwrap().to_owned()).max_by_key(size).unwrap_or(log);
    let bytes = read_bytes(log.as_ref());
    (keel, log, bytes)
}

#[test]
fn a_damaged_log_is_no_empty_one() {
    let (keel, log, whole) = unsealed_log();
    let lines = keel.bare(&["inspect", "wal", &log, "--json"]).ok();
    let rows: Vec<_> = lines.lines().map(json).collect();
    assert_eq!((rows.len(), rows[4]["behind"].is_null()), (5, true), "{lines}");
    let at = |row: usize| rows[row]["offset"].as_u64().unwrap() as usize;

    // Without its header nothing can be told of it, but that it is no log that was never written to.
    let mut bad = whole.clone();
    bad[0] ^= 1;
    write_file(log.as_ref(), &bad);
    let text = format!("4 whole records of it follow, the first at byte {}", at(0));
    let shown = keel.bare(&["inspect", "wal", &log]);
    assert!(shown.out.contains("DAMAGE") && !shown.out.contains("never written"), "{shown:?}");
    shown.fails(1, &["header of the log is damaged", &text]);

    // A record amid others: a crash may do that to a log that was not synced, and what lies behind is told.
    let mut bad = whole;
    bad[at(1) + 20] ^= 1;
    write_file(log.as_ref(), &bad);
    let shown = keel.bare(&["inspect", "wal", &log]).ok();
    assert!(shown.contains(&format!("torn at byte {}", at(1))), "{shown}");
    assert!(shown.contains(&format!("2 whole records lie there, the first at byte {}", at(2))), "{shown}");
}

#[test]
fn what_is_no_log_and_no_manifest_is_said_to_be_none() {
    let keel = filled();
    keel.ok(&["compact"]);
    let foreign = keel.write("letter.txt", "dear reader\n".repeat(100));
    for file in [foreign, file(&keel, "CURRENT"), file(&keel, ".sst")] {
        keel.bare(&["inspect", "wal", &file]).fails(1, &[&file, "no header of a log"]);
        let shown = keel.bare(&["inspect", "manifest", &file, "--json"]);
        assert_eq!(json(&shown.out)["damage"].as_array().unwrap().len(), 1);
        shown.fails(1, &[&file, "no header of a manifest"]);
    }
    // One that was made and never written to is whole.
    let blank = keel.write("blank.log", [0; 5000]);
    assert!(keel.bare(&["inspect", "wal", &blank]).ok().contains("nothing was ever written"));
}

#[test]
fn a_damaged_manifest_is_told_from_an_unfinished_one() {
    let keel = filled();
    let mut shell = crate::shell::Shell::start(&keel, &[]);
    assert_eq!([shell.ask("put new 1"), shell.ask("flush")], ["ok", "ok"]);
    // Killed: its manifest is a snapshot and a change.
    drop(shell);
    let manifest = file(&keel, "MANIFEST");
    let rows = keel.bare(&["inspect", "manifest", &manifest, "--json"]).ok();
    let offsets: Vec<u64> = rows.lines().filter_map(|row| json(row)["offset"].as_u64()).collect();
    assert!(offsets.len() > 1, "{rows}");
    let whole = read_bytes(manifest.as_ref());
    let damaged = |at: u64| {
        let mut bad = whole.clone();
        bad[at as usize + 20] ^= 1;
        write_file(manifest.as_ref(), &bad);
        keel.bare(&["inspect", "manifest", &manifest])
    };
    // The record behind it promises that it was on the disk.
    damaged(offsets[0]).fails(1, &[&manifest, &format!("at byte {}", offsets[0]), "known to be durable"]);
    // It is the last, and may never have been written to its end.
    let last = *offsets.last().unwrap();
    assert!(damaged(last).ok().contains(&format!("torn at byte {last}")));
    write_file(manifest.as_ref(), &whole[..offsets[1] as usize - 1]);
    keel.bare(&["inspect", "manifest", &manifest]).fails(1, &["the first record", "is not whole"]);
}

#[test]
fn every_damaged_table_is_listed_and_no_advice_goes_in_circles() {
    let keel = Keel::new();
    let lines: String = (0..4000).map(|i| format!("key{i:05}\tvalue {i:060}\n")).collect();
    let input = keel.write("in.tsv", lines);
    keel.ok(&["load", &input, "--set", "table_bytes=64KiB", "--set", "compression=none"]);
    keel.ok(&["compact"]);
    let tables: Vec<String> = list(&keel.db()).into_iter().filter(|name| name.ends_with(".sst")).collect();
    assert!(tables.len() > 2, "{tables:?}");
    for table in &tables[..2] {
        let path = keel.db().join(table);
        let mut bytes = read_bytes(&path);
        bytes[9000] ^= 1;
        write_file(&path, &bytes);
    }
    let done = keel.run(&["verify"]);
    assert!(tables[..2].iter().all(|table| done.out.contains(table)), "{done:?}");
    assert!(done.out.contains(&format!("sound: {} table", tables.len() - 2)), "{done:?}");
    assert!(!done.err.contains("keel verify"), "{done:?}");
    done.fails(1, &["(and 1 more file is damaged)"]);
    keel.run(&["dump"]).fails(1, &["`keel verify` lists all damaged tables"]);
    let table = keel.db().join(&tables[0]).to_str().unwrap().to_owned();
    let lone = keel.bare(&["inspect", "table", &table]);
    assert!(!lone.err.contains("keel verify"), "{lone:?}");
    // What is not there is at no byte.
    remove_file(Path::new(&table));
    let done = keel.run(&["verify"]);
    assert!(!done.err.contains("at byte"), "{done:?}");
    done.fails(1, &[&tables[0], "this file is missing"]);
}

/// Work that the background would like to do, were it let.
fn owing(args: &[&str]) -> Keel {
    let keel = Keel::new();
    let lines: String =
        (0..30_000).map(|i| format!("user:{:06}\tvalue {i:080}\n", i * 7919 % 30_000)).collect();
    let file = keel.write("in.tsv", lines);
    let set = ["memtable_bytes=64KiB", "table_bytes=64KiB", "level_base_bytes=128KiB", "l0_limit=1000"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    // Paused by its rate: after a first step it has minutes to wait for the next.
    let load = keel.ok(&[&["load", "--no-wait", "--schedule", "fixed:1KiB", &file], &set[..], args].concat());
    assert!(load.starts_with("loaded 30 000 records") && !load.contains("background work"), "{load}");
    keel
}

#[test]
fn looking_changes_nothing_and_begins_no_work() {
    let keel = owing(&[]);
    let files = || -> Vec<(String, Vec<u8>)> {
        list(&keel.db()).into_iter().map(|name| (name.clone(), read_bytes(&keel.db().join(&name)))).collect()
    };
    let before = files();
    let looks: [&[&str]; 13] = [
        &["stats"],
        &["stats", "--all"],
        &["levels"],
        &["explain"],
        &["explain", "--slow"],
        &["get", "user:000001"],
        &["scan", "--limit", "3"],
        &["dump"],
        &["verify"],
        &["strategy", "show"],
        &["schedule", "show"],
        &["option", "list"],
        &["keyspace", "list"],
    ];
    for look in looks {
        assert!(!keel.ok(look).is_empty());
        let after = files();
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before), "{look:?}");
        assert!(after == before, "{look:?} changed a file");
    }
    // And what is seen is as it is: much is owed, and no job is under way.
    let explained = keel.ok(&["explain"]);
    for part in
        ["Under way: no compaction", "Wanted, most urgent first:", "fixed:1KiB holds it to 1.0 KiB/s: about "]
    {
        assert!(explained.contains(part), "no `{part}` in {explained}");
    }
    assert!(!explained.contains("read-only"), "{explained}");
    let stats = keel.ok(&["stats"]);
    assert!(
        stats.contains(" % full, ") && stats.contains(" of debt") && !stats.contains("without a name"),
        "{stats}"
    );
    let levels = keel.ok(&["levels"]);
    assert!(levels.contains("  user:0") && levels.contains("Bars: ▶ more than fits"), "{levels}");
    assert!(levels.lines().all(|line| line.chars().count() <= 80), "{levels}");
    assert!(keel.ok(&["explain", "--slow"]).contains("known only to the process"));
}

#[test]
fn a_change_of_strategy_says_first_what_it_costs() {
    let keel = owing(&["--strategy", "tier"]);
    let dry = keel.ok(&["strategy", "set", "lo+1", "--dry-run"]);
    assert!(
        dry.starts_with("estimated I/O: ") && dry.contains(" read, and as much written at most"),
        "{dry}"
    );
    assert_eq!(keel.ok(&["strategy", "show"]), "tier\n", "nothing was changed");
    let cost = json(&keel.ok(&["strategy", "set", "lo+1", "--dry-run", "--json"]));
    keel.ok(&["schedule", "set", "unlimited"]);
    let said = keel.run(&["strategy", "set", "lo+1", "--wait"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "lo+1\n", dry.as_str()));
    // What it was about to do it has done.
    let after = json(&keel.ok(&["strategy", "set", "lo+1", "--dry-run", "--json"]));
    assert!(cost["distance_bytes"].as_u64() > Some(0), "{cost}");
    assert_eq!((&after["distance_bytes"], &after["debt_bytes"]), (&0.into(), &0.into()));
    // Held back by the schedule, it has a way to go, which one can see.
    keel.ok(&["strategy", "set", "tier", "--json"]);
    let more: String =
        (0..20_000).map(|i| format!("user:{:06}\tagain {i:080}\n", i * 7919 % 30_000)).collect();
    let more = keel.write("more.tsv", more);
    let set = ["--schedule", "fixed:1KiB", "--set", "memtable_bytes=64KiB", "--set", "l0_limit=1000"];
    keel.ok(&[&["load", "--no-wait", &more], &set[..]].concat());
    let set = json(&keel.ok(&["strategy", "set", "lo+1", "--json"]));
    assert!(set["distance_bytes"].as_u64() > Some(0), "{set}");
    let levels = keel.ok(&["levels"]);
    assert!(levels.contains("to go to the strategy's shape"), "{levels}");
    assert!(keel.ok(&["stats"]).contains("not as the strategy wants it"));
}

#[test]
fn a_running_store_says_why_each_compaction_was_decided_and_what_space_is_superseded() {
    let keel = Keel::new();
    let set =
        ["--set", "memtable_bytes=16KiB", "--set", "table_bytes=16KiB", "--set", "level_base_bytes=64KiB"];
    let mut shell = Shell::start(&keel, &set);
    for i in 0..4000 {
        assert_eq!(shell.ask(&format!("put key{:04} {i:0100}", i * 7919 % 1500)), "ok");
    }
    assert_eq!(shell.ask("flush"), "ok");
    let explained = keel.ok(&["explain"]);
    let last = explained.lines().last().unwrap();
    assert!(explained.contains("The last compactions; `keel explain JOB` says all"), "{explained}");
    let job = last.trim().strip_prefix("job ").and_then(|rest| rest.split(',').next()).unwrap();
    let one = keel.ok(&["explain", job]);
    assert!(one.starts_with(&format!("Job {job}, ")) && one.contains("because of"), "{one}");
    assert!(one.contains("Real: ") || one.contains("metadata") || one.contains("under way"), "{one}");
    let one = json(&keel.ok(&["explain", job, "--json"]));
    assert!(one["reason"].is_string() && one["rejected"].is_array() && one["predicted"].is_object(), "{one}");
    let listed = json(&keel.ok(&["explain", "--last", "2", "--json"]));
    assert_eq!(listed["decisions"].as_array().unwrap().len(), 2);
    keel.run(&["explain", "99999"]).fails(1, &["99999", "keel explain"]);
    keel.run(&["explain", "1", "--slow"]).fails(2, &["--slow"]);
    let space = json(&keel.ok(&["stats", "--space", "--json"]));
    assert_eq!((&space["seen"], &space["tombstones"]), (&1500.into(), &0.into()));
    assert!(keel.ok(&["stats", "--space"]).starts_with("seen 1 500 entries of "));
    let stats = keel.ok(&["stats"]);
    assert!(stats.contains("rewrites an entry ") && stats.contains(" % superseded"), "{stats}");
    assert!(json(&keel.ok(&["stats", "--json"]))["costs"]["rewrites_per_entry"].is_number());
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
}

#[test]
fn the_three_figures_of_the_debt_are_one() {
    let keel = owing(&["--strategy", "lo+1"]);
    assert_eq!(keel.run(&["strategy", "set", "tier"]).code, 0);
    let stats = json(&keel.ok(&["stats", "--json"]));
    let keyspace = &stats["keyspaces"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let levels: u64 =
        keyspace["levels"].as_array().unwrap().iter().map(|level| number(&level["debt_bytes"])).sum();
    assert!(levels > 0);
    assert_eq!(levels + number(&keyspace["reshaping_bytes"]), number(&keyspace["debt_bytes"]), "{stats}");
    let levels = json(&keel.ok(&["levels", "--json"]));
    for (level, of_stats) in
        levels["levels"].as_array().unwrap().iter().zip(keyspace["levels"].as_array().unwrap())
    {
        assert_eq!(level["debt_bytes"], of_stats["debt_bytes"]);
        assert_eq!(level["full_by"], "runs", "tiering counts runs: {level}");
    }
}

#[cfg(unix)]
#[test]
fn the_wait_after_a_load_is_told_of_and_can_be_ended() {
    use std::io::{BufRead as _, BufReader};
    let keel = Keel::new();
    let lines: String =
        (0..30_000).map(|i| format!("user:{:06}\tvalue {i:080}\n", i * 7919 % 30_000)).collect();
    let file = keel.write("in.tsv", lines);
    let set = ["memtable_bytes=64KiB", "table_bytes=64KiB", "level_base_bytes=128KiB", "l0_limit=1000"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let mut command = keel.command(&[&["load", "--schedule", "fixed:1KiB", &file], &set[..]].concat());
    command
        .arg("--db")
        .arg(keel.db())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("loaded 30 000 records, "), "{line}");
    // At this rate it would take an hour.
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    line.clear();
    out.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("then ") && line.contains(" of background work; write amplification "),
        "{line}"
    );
    crate::done(child.wait_with_output().unwrap()).fails(1, &["interrupted; all is loaded"]);
    assert_eq!(keel.ok(&["scan"]).lines().count(), 30_000);
}

#[test]
fn a_checkpoint_is_not_put_into_its_own_store() {
    let keel = filled();
    let inside = keel.db().join("copy").to_str().unwrap().to_owned();
    keel.run(&["checkpoint", &inside]).fails(1, &["inside the store itself"]);
    assert!(
        !keel.db().join("copy").exists() && !list(&keel.db()).iter().any(|name| name.contains("checkpoint"))
    );
}
