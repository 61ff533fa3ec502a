//! What a store remembers: what was set for good, and no flag of a command.

use crate::Keel;
use crate::shell::Shell;

fn option(keel: &Keel, name: &str) -> String {
    let rows: serde_json::Value = serde_json::from_str(&keel.ok(&["option", "list", "--json"])).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    row["value"].as_str().unwrap().to_owned()
}

const FLAGS: [&str; 8] =
    ["--sync", "os", "--schedule", "fixed:1GiB", "--strategy", "tier", "--set", "memtables=5"];

#[test]
fn a_flag_holds_for_its_command_and_what_is_set_for_good() {
    let keel = Keel::new();
    keel.ok(&["put", "a", "1"]);
    assert_eq!(keel.ok(&["option", "set", "durability", "sync"]), "");
    assert_eq!(keel.ok(&["option", "set", "control_socket", "true", "--json"]), "{\"ok\":true}\n");
    keel.ok(&[&["put"], &FLAGS[..], &["a", "2"]].concat());
    let all = |names: [&str; 4]| names.map(|name| option(&keel, name));
    let names = ["durability", "schedule", "memtables", "control_socket"];
    assert_eq!(all(names), ["sync", "unlimited", "2", "true"]);
    assert_eq!(keel.ok(&["strategy", "show"]), "1-leveling\n");

    // It is in force meanwhile, and a change beside it carries nothing of it along.
    let mut shell = Shell::start(&keel, &FLAGS);
    assert_eq!(shell.ask("get a"), "value 2");
    assert_eq!((option(&keel, "memtables"), option(&keel, "durability")), ("5".to_owned(), "os".to_owned()));
    assert_eq!(keel.ok(&["strategy", "show"]), "tier\n");
    assert_eq!(shell.ask("option workers 3"), "ok");
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
    assert_eq!(all(names), ["sync", "unlimited", "2", "true"]);
    assert_eq!(
        (option(&keel, "workers"), keel.ok(&["strategy", "show"])),
        ("3".into(), "1-leveling\n".into())
    );

    // What is set meanwhile stays, though it be what the flag said.
    let lines = b"option memtables 5\nstrategy tier\nschedule fixed:2GiB\n";
    assert_eq!(keel.feed(&[&["shell"], &FLAGS[..]].concat(), lines).ok(), "ok\nok\nok\n");
    assert_eq!(all(names), ["sync", "fixed:2GiB", "5", "true"]);
    assert_eq!(keel.ok(&["strategy", "show"]), "tier\n");
}

#[test]
fn a_keyspace_keeps_its_strategy_too() {
    let keel = Keel::new();
    let of = |args: &[&str]| keel.ok(&[args, &["--keyspace", "other"]].concat());
    keel.ok(&["keyspace", "create", "other", "--strategy", "full"]);
    of(&["put", "--strategy", "tier", "k", "v"]);
    assert_eq!(of(&["strategy", "show"]), "full\n");
    assert_eq!(keel.ok(&["strategy", "show"]), "1-leveling\n");
    // Dropped and made again, it is another one.
    let lines = b"use default\n";
    keel.feed(&["shell", "--keyspace", "other", "--strategy", "tier"], lines).ok();
    keel.ok(&["keyspace", "drop", "other"]);
    keel.ok(&["keyspace", "create", "other"]);
    assert_eq!(of(&["strategy", "show"]), "1-leveling\n");
}

#[test]
fn a_strategy_that_is_typed_over_several_lines_is_one() {
    let typed = "when=saturation how=runs:1 much=file\n  which=least-overlap-parent";
    let line = "when=saturation how=runs:1 much=file which=least-overlap-parent\n";
    let keel = Keel::new();
    keel.ok(&["put", "--strategy", typed, "a", "1"]);
    assert_eq!(keel.ok(&["strategy", "show"]), line);
    assert_eq!(keel.run(&["strategy", "set", "tier"]).code, 0);
    assert_eq!(keel.run(&["strategy", "set", typed]).code, 0);
    assert_eq!(keel.ok(&["strategy", "show"]), line);
    keel.ok(&["keyspace", "create", "other", "--strategy", typed]);
    assert_eq!(keel.ok(&["strategy", "show", "--keyspace", "other"]), line);
    // So is a question to a running store.
    assert_eq!(keel.run(&["strategy", "set", "tier"]).code, 0);
    let mut shell = Shell::start(&keel, &["--set", "control_socket=true"]);
    assert_eq!(shell.ask("get a"), "value 1");
    assert_eq!(keel.run(&["strategy", "set", typed]).code, 0);
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
    assert_eq!((keel.ok(&["strategy", "show"]), keel.ok(&["get", "a"])), (line.to_owned(), "1\n".to_owned()));
}

#[test]
fn a_store_remembers_what_it_was_made_with() {
    let keel = Keel::new();
    keel.ok(&["put", "--strategy", "tier", "--set", "memtables=5", "a", "1"]);
    assert_eq!((option(&keel, "memtables"), keel.ok(&["strategy", "show"])), ("5".into(), "tier\n".into()));
    keel.ok(&["put", "--strategy", "full", "--set", "memtables=3", "a", "1"]);
    assert_eq!((option(&keel, "memtables"), keel.ok(&["strategy", "show"])), ("5".into(), "tier\n".into()));
}

/// A store that was moved to a slower device, say: who opens it is told where the schedule comes from, and what changes it.
#[test]
fn a_schedule_that_does_not_fit_any_more_is_changed_by_one_command() {
    let keel = Keel::new();
    keel.ok(&["put", "a", "1", "--set", "device_bytes_per_sec=100MiB", "--schedule", "silk:floor=80MiB"]);
    let slower = ["--set", "device_bytes_per_sec=50MiB"];
    keel.run(&[&["put"], &slower[..], &["a", "2"]].concat())
        .fails(1, &["floor is 80.0 MiB/s", "remembers this schedule", "keel schedule set"]);
    keel.run(&[&["put"], &slower[..], &["--schedule", "silk:floor=90MiB", "a", "2"]].concat())
        .fails(1, &["floor is 90.0 MiB/s, and has to be from 0 to at most what the device can do: 50.0 MiB/s, as device_bytes_per_sec says or the store has measured\n"]);
    assert_eq!(
        keel.ok(&["schedule", "set", "paced"]),
        "paced\nnobody has the store open, so nothing is limited or delayed now\n"
    );
    let log = crate::read_file(&keel.db().join("LOG"));
    let changes: Vec<&str> = log.lines().filter(|line| line.contains("Option schedule changed")).collect();
    assert!(matches!(changes[..], [one] if one.ends_with("from silk:floor=80MiB to paced")), "{changes:?}");
    keel.ok(&[&["put"], &slower[..], &["a", "2"]].concat());
    assert_eq!(keel.ok(&["schedule", "show", "--read-only"]).lines().next(), Some("paced"));
}

/// Who tunes a limit itself is asked for it.
#[cfg(unix)]
#[test]
fn a_limit_that_tunes_itself_is_shown_while_somebody_goes_by_it() {
    let keel = Keel::new();
    let mut shell = Shell::start(&keel, &["--schedule", "autotuned:100MiB"]);
    assert_eq!(shell.ask("put a 1"), "ok");
    let show = keel.ok(&["schedule", "show"]);
    assert!(
        show.contains("autotuned:100MiB\ncompactions have at most ") && show.ends_with("MiB/s\n"),
        "{show}"
    );
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
}

#[test]
fn a_first_open_that_is_refused_leaves_nothing() {
    let keel = Keel::new();
    keel.run(&["put", "a", "1", "--set", "schedule=bogus"]).fails(2, &["unknown schedule `bogus`"]);
    keel.run(&["put", "a", "1", "--schedule", "silk", "--set", "device_test=false"])
        .fails(1, &["needs the device's speed"]);
    assert!(!keel.db().exists());
}
