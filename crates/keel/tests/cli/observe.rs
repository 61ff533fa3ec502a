//! Looking at a store: at rest, while another process has it open, and when that process does not answer.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use crate::Keel;
use crate::shell::Shell;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A running shell on a small store with some tables.
fn busy(keel: &Keel, args: &[&str]) -> Shell {
    let mut shell = Shell::start(keel, &[args, &["--set", "memtable_bytes=16KiB"]].concat());
    for i in 0..500 {
        assert_eq!(shell.ask(&format!("put key{:04} value{i:0100}", i * 7919 % 500)), "ok");
    }
    assert_eq!(shell.ask("flush"), "ok");
    shell
}

#[test]
fn measuring_the_device_is_nobody_s_write() {
    let keel = Keel::new();
    let lines = keel.feed(&["shell", "--schedule", "silk"], b"put a 1\nstats\n").ok();
    let stats = json(lines.lines().last().unwrap());
    assert!(stats["io"]["test"]["written"].as_u64().unwrap() > 0, "{stats}");
    assert!(stats["amplification"]["write"].as_f64().unwrap() < 1e5, "{stats}");
    let shown = keel.ok(&["schedule", "show"]);
    assert_eq!(shown, "silk\nnobody has the store open, so nothing is limited or delayed now\n");
}

#[cfg(unix)]
#[test]
fn a_running_store_answers_and_obeys() {
    let keel = Keel::new();
    let mut shell = busy(&keel, &["--set", "device_bytes_per_sec=200MiB"]);
    let stats = keel.ok(&["stats"]);
    assert!(stats.starts_with("of the running store\n") && stats.contains("default: 1-leveling"), "{stats}");
    assert_eq!(json(&keel.ok(&["stats", "--json"]))["writes"], 500);
    let text = keel.ok(&["stats", "--prometheus"]);
    assert!(text.contains("# TYPE evenkeel_writes_total counter\nevenkeel_writes_total 500\n"), "{text}");
    let levels = keel.ok(&["levels"]);
    assert!(levels.contains("\nL0 ") && levels.contains("key0000 .. key0499"), "{levels}");
    assert!(!levels.contains('\x1b'), "no colours where there is no terminal");
    assert!(levels.lines().all(|line| line.chars().count() <= 80), "{levels}");
    assert!(keel.ok(&["explain"]).starts_with("Keyspace default, strategy 1-leveling, schedule unlimited\n"));
    assert!(
        keel.ok(&["explain", "--slow"]).contains("of the last ten minutes") || {
            keel.ok(&["explain", "--slow"]).contains("No operation took")
        }
    );
    let set = keel.run(&["strategy", "set", "tier", "--wait"]);
    assert_eq!((set.code, set.out.as_str()), (0, "tier\n"), "{set:?}");
    assert!(set.err.contains("for its shape"), "{set:?}");
    assert_eq!(keel.ok(&["strategy", "show"]), "tier\n");
    assert!(keel.ok(&["schedule", "set", "dlc-full:floor=20MiB"]).starts_with("dlc-full:floor=20MiB\n"));
    let shown = keel.ok(&["schedule", "show"]);
    assert!(shown.contains("note: L0 is delayed up to 12 runs"), "{shown}");
    let looked = keel.ok(&["schedule", "show", "--read-only"]);
    assert!(looked.contains("is asked without --read-only") && !looked.contains("nobody"), "{looked}");
    let show = keel.ok(&["schedule", "show"]);
    assert!(
        show.contains("load low: clients use ") && show.contains(" of 200.0 MiB/s, background work has"),
        "{show}"
    );
    assert_eq!(json(&keel.ok(&["schedule", "show", "--json"]))["now"]["device_bytes_per_sec"], 200 << 20);
    let stats = keel.ok(&["stats"]);
    assert!(stats.contains("\nload         low, "), "{stats}");
    keel.run(&["schedule", "set", "silk:floor=300MiB"]).fails(1, &["at most what the device can do"]);
    let late = keel.ok(&["schedule", "set", "dlc-burst-full"]);
    assert!(late.contains("note: keyspace default: a burst is from 20 runs"), "{late}");
    assert!(
        late.contains("from 12 on writers are slowed") && late.contains("l0_limit to 37 or more"),
        "{late}"
    );
    let never = keel.ok(&["schedule", "set", "dlc-burst-full:burst-runs=60000"]);
    assert!(never.contains("set burst-runs lower"), "no l0_limit is so high: {never}");
    for (schedule, told) in [
        ("dlc-burst-full:burst-bytes=1TiB", "a burst is from 20 runs"),
        ("dlc-burst-full:burst-runs=0,burst-bytes=1TiB", "a burst is from 1.0 TiB of L0 on, but from "),
        ("silk:min-change=180MiB", "on this device, of 200.0 MiB/s, min-change is 180.0 MiB/s"),
    ] {
        let set = keel.ok(&["schedule", "set", schedule]);
        assert!(set.contains("note: ") && set.contains(told), "{schedule}: {set}");
    }
    keel.run(&["schedule", "set", "silk:deep=7"]).fails(2, &["7 jobs of class deep at most", "deep=run"]);
    keel.ok(&["schedule", "set", "dlc-burst-full"]);
    keel.ok(&["option", "set", "l0_limit", "36"]);
    assert!(keel.ok(&["schedule", "show"]).contains("note: "));
    keel.ok(&["option", "set", "l0_limit", "37"]);
    assert!(json(&keel.ok(&["schedule", "show", "--json"]))["note"].is_null());
    assert!(keel.ok(&["schedule", "set", "dlc-burst-part"]).contains("each of 4 parts leaves as much"));
    keel.ok(&["option", "set", "l0_limit", "20"]);
    keel.run(&["schedule", "set", "silk:flor=1"]).fails(2, &["flor", "floor"]);
    assert_eq!(
        keel.ok(&["schedule", "set", "fixed:5MiB"]),
        "fixed:5MiB\ncompactions have at most 5.0 MiB/s\n"
    );
    assert_eq!(keel.ok(&["option", "set", "level0_stop_writes_trigger", "33"]), "");
    keel.run(&["option", "set", "control_socket", "false"]).fails(1, &["read when a store is opened"]);
    assert_eq!(json(&keel.ok(&["schedule", "show", "--json"]))["limit_bytes_per_sec"], 5 << 20);
    keel.run(&["schedule", "set", "sometimes"]).fails(2, &["sometimes", "unlimited"]);
    keel.run(&["levels", "--keyspace", "a b"]).fails(1, &["no keyspace `a b`"]);
    assert_eq!(keel.ok(&["keyspace", "list"]), "default\n");
    let options = keel.ok(&["option", "list"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let memtable =
        options.lines().map(words).find(|line| line.first().is_some_and(|w| w == "memtable_bytes"));
    assert_eq!(memtable.unwrap()[1..3], ["16384", "(default"], "{options}");
    let limit = options.lines().map(words).find(|line| line.first().is_some_and(|w| w == "l0_limit"));
    assert_eq!(limit.unwrap()[1], "33", "{options}");
    assert!(keel.ok(&["option", "list", "--read-only"]).contains("memtable_bytes"));
    // Verbs that need the store itself are refused, and told by whom.
    keel.run(&["get", "key0001"]).fails(1, &["LOCK", "process "]);
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
    // Both were for good, and the socket is gone.
    assert_eq!(keel.ok(&["strategy", "show"]), "tier\n");
    assert_eq!(
        keel.ok(&["schedule", "show"]),
        "fixed:5MiB\nnobody has the store open, so nothing is limited or delayed now\n"
    );
    assert!(!crate::list(&keel.db()).contains(&"SOCKET".to_owned()));
}

#[cfg(unix)]
#[test]
fn weights_are_fitted_to_a_running_store() {
    let keel = Keel::new();
    let fit = ["schedule", "fit", "--seconds", "3"];
    keel.ok(&["put", "a", "1"]);
    keel.run(&fit).fails(1, &["no process answers"]);
    let mut shell = busy(&keel, &["--set", "device_bytes_per_sec=200MiB", "--set", "cache_bytes=0"]);
    keel.run(&fit).fails(1, &["not counted under schedule `unlimited`", "estimator=weighted@1@1"]);
    keel.ok(&["schedule", "set", "dlc-full:estimator=weighted@1@1"]);
    let found = std::thread::scope(|scope| {
        let found = scope.spawn(|| keel.ok(&fit));
        while !found.is_finished() {
            assert!(shell.ask("get key0007").starts_with("value"));
        }
        found.join().unwrap()
    });
    let estimator = found.lines().next().unwrap();
    assert!(
        estimator.starts_with("estimator=weighted@")
            && estimator.ends_with("@0")
            && found.contains("off by "),
        "{found}"
    );
    keel.ok(&["schedule", "set", &format!("dlc-full:{estimator}")]);
    keel.run(&["schedule", "fit", "--seconds", "1"]).fails(2, &["3..=86400"]);
}

#[cfg(unix)]
#[test]
fn what_a_killed_process_leaves_is_no_obstacle() {
    let keel = Keel::new();
    // Dropped, it is killed.
    drop(busy(&keel, &[]));
    assert!(crate::list(&keel.db()).contains(&"SOCKET".to_owned()));
    assert!(keel.ok(&["stats"]).starts_with("Nothing stands out."));
    let mut shell = busy(&keel, &[]);
    assert!(keel.ok(&["stats"]).starts_with("of the running store"));
    assert_eq!(shell.ask("quit"), "ok");
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_socket_the_holder_and_its_last_figures_are_shown() {
    let keel = Keel::new();
    let mut shell = busy(&keel, &["--set", "control_socket=false"]);
    for args in [&["levels"][..], &["explain"], &["strategy", "show"], &["schedule", "show"]] {
        keel.run(args).fails(1, &["LOCK", "control_socket=true", "process ", "(keel)"]);
    }
    // A line comes each second; how long the first one takes is not what is tested.
    while !crate::list(&keel.db()).contains(&"STATS".to_owned())
        || !crate::read_file(&keel.db().join("STATS")).contains("\"writes\":500,")
    {
        std::thread::park_timeout(Duration::from_millis(50));
        shell.ask("stats");
    }
    let done = keel.run(&["stats"]);
    assert!(done.out.contains("writes       500 of "), "{done:?}");
    done.fails(1, &["LOCK", "the last line of STATS, of 20", "(keel)"]);
    assert_eq!(json(&keel.run(&["stats", "--json"]).out)["writes"], 500);
    assert!(crate::read_file(&keel.db().join("LOG")).contains("[default] Flushed to "));
    assert_eq!(shell.ask("quit"), "ok");
}

#[cfg(unix)]
#[test]
fn events_and_changes_are_followed() {
    let keel = Keel::new();
    let mut shell = busy(&keel, &[]);
    let follow = |args: &[&str]| {
        let mut command = keel.command(args);
        let mut child = command.arg("--db").arg(keel.db()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    };
    let (mut events, mut out) = follow(&["explain", "--events"]);
    let (mut watch, mut changes) = follow(&["stats", "--watch", "0.05"]);
    let mut line = String::new();
    assert_eq!(shell.ask("strategy full"), "ok");
    while !line.contains("\"event\":\"strategy_changed\"") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
        json(&line);
    }
    for part in ["user bytes", "/s"] {
        line.clear();
        changes.read_line(&mut line).unwrap();
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(shell.ask("quit"), "ok");
    shell.wait();
    // Both end with the store, well.
    assert!(events.wait().unwrap().success() && watch.wait().unwrap().success());
}

#[test]
fn a_store_at_rest_is_opened_for_the_question() {
    let keel = Keel::new();
    keel.ok(&["put", "a", "1"]);
    assert!(keel.ok(&["explain"]).contains("Wanted: nothing, the tree is in shape"));
    // Who did the operations is gone, and what made them slow with it.
    assert!(keel.ok(&["explain", "--slow"]).contains("known only to the process"));
    assert!(keel.ok(&["levels"]).starts_with("default  1-leveling\n"));
    assert!(keel.ok(&["levels", "--tables"]).starts_with("L0"));
    assert_eq!(keel.ok(&["schedule", "show"]), "unlimited\n");
    let list = keel.bare(&["schedule", "list"]).ok();
    for name in ["fixed:RATE", "autotuned", "silk ", "silk-star", "silk-artifact", "dlc-burst-part"] {
        assert!(list.contains(name), "{name}: {list}");
    }
    let knobs = |of: &[&str]| keel.bare(&[&["schedule", "list", "--knobs"], of].concat());
    assert!(knobs(&[]).ok().contains("burst-runs"));
    let (silk, paced) = (knobs(&["silk"]).ok(), knobs(&["paced"]).ok());
    assert!(silk.contains("floor ") && !silk.contains("horizon "), "{silk}");
    assert!(paced.contains("horizon ") && !paced.contains("floor "), "{paced}");
    assert!(knobs(&["fixed"]).ok().contains("takes a rate"));
    assert_eq!(knobs(&["autotuned", "--json"]).ok(), "[]\n");
    knobs(&["slik"]).fails(2, &["unknown schedule `slik`", "silk-star"]);
    assert!(keel.ok(&["stats", "--prometheus"]).contains("evenkeel_uptime_seconds "));
    assert!(keel.ok(&["stats", "--read-only"]).contains("default: 1-leveling"));
    keel.run(&["explain", "--events"]).fails(1, &["no process answers"]);
    keel.run(&["stats", "--watch", "1"]).fails(1, &["no process answers"]);
    keel.run(&["stats", "--watch", "0"]).fails(2, &["seconds"]);
    keel.run(&["stats", "--json", "--prometheus"]).fails(2, &["--prometheus"]);
    keel.run(&["explain", "--slow", "--events"]).fails(2, &["--events"]);
    keel.bare(&["explain"]).fails(2, &["--db"]);
}
