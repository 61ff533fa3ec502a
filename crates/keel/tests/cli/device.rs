//! `--device`: emulated for evenkeel, a throttled loop device beside others, and named wherever figures are.

use std::path::Path;

use crate::{Keel, list, read_file};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_document_and_every_report_name_the_device() {
    let keel = Keel::new();
    let fill = ["bench", "fillseq", "--records", "300"];
    let raw = json(&keel.bare(&[&fill[..], &["--json", "-"]].concat()).ok());
    assert_eq!(raw["config"]["device"], "raw disk");
    assert!(raw["config"]["device_bytes_per_sec"].is_null());
    for (rate, latency, name) in [
        ("100M", None, "emulated, 100 MiB/s"),
        ("100MB", None, "emulated, 100 MiB/s"),
        ("102400KiB", Some("20"), "emulated, 100 MiB/s, 20 µs a request"),
    ] {
        let mut args = fill.to_vec();
        args.extend(["--json", "-", "--device", rate]);
        args.extend(latency.iter().flat_map(|us| ["--device-latency-us", us]));
        let config = json(&keel.bare(&args).ok())["config"].clone();
        assert_eq!((&config["device"], &config["device_bytes_per_sec"]), (&name.into(), &(100 << 20).into()));
        assert_eq!(
            config["device_latency_us"].as_u64().unwrap(),
            latency.map_or(0, |us| us.parse().unwrap())
        );
    }
    let report = keel.path("report");
    let text = keel.bare(&[&fill[..], &["--device", "64MiB", "--report", report.to_str().unwrap()]].concat());
    // The line may be broken at any blank.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.code == 0 && words(&text.out).contains("emulated, 64 MiB/s"), "{text:?}");
    assert!(read_file(&report.join("report.html")).contains("emulated, 64 MiB/s"));
    let file = keel.write("ops", "I a 1\nI b 2\nQ a\n");
    let run = keel.bare(&["bench", "--operations", &file, "--device", "1GiB", "--json", "-"]);
    assert_eq!(json(&run.ok())["config"]["device"], "emulated, 1 GiB/s");
}

#[test]
fn rounds_of_evenkeel_alone_are_emulated() {
    let keel = Keel::new();
    let result = keel.path("result.json");
    let flags = ["--rounds", "3", "--device", "200MiB", "--device-latency-us", "7"];
    let out = ["--json", result.to_str().unwrap()];
    let table = keel.bare(&[&["bench", "fillseq", "--records", "300"], &flags[..], &out].concat()).compared();
    let name = "emulated, 200 MiB/s, 7 µs a request";
    assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(name), "{table}");
    let comparison = json(&read_file(&result));
    assert_eq!(comparison["config"]["device"], name);
    let runs = comparison["groups"][0]["contestants"][0]["runs"].as_array().unwrap().clone();
    assert!(runs.len() == 3 && runs.iter().all(|run| run["config"]["device"] == name));
}

#[test]
fn devices_that_cannot_be_are_refused() {
    let keel = Keel::new();
    let bench = |flags: &[&str]| keel.bare(&[&["bench", "fillseq", "--records", "100"], flags].concat());
    for rate in ["", "0", "1000", "fast", "-5", "17GiB", "1.5M"] {
        bench(&[&format!("--device={rate}")]).fails(2, &["--device", "100MiB"]);
    }
    bench(&["--device", "1MiB", "--device-latency-us", "1000001"]).fails(2, &["--device-latency-us"]);
    bench(&["--device-latency-us", "5"]).fails(2, &["--device "]);
    bench(&["--device", "1MiB", "--device-size", "1GiB"]).fails(2, &["--device-size"]);
    keel.bare(&["bench", "soak", "--device", "1MiB"]).fails(2, &["soak", "--device"]);
    keel.run(&["shell", "--device", "slow"]).fails(2, &["--device"]);
    assert_eq!(list(keel.dir.path()), [""; 0], "nothing was made");
}

#[test]
fn a_shell_answers_from_a_device_and_the_store_forgets_it() {
    let keel = Keel::new();
    let lines = b"put a 1\nflush\nget a\nstats\nquit\n";
    let answers = keel.feed(&["shell", "--device", "4MiB", "--device-latency-us", "100"], lines).ok();
    assert!(answers.starts_with("ok\nok\nvalue 1\n"), "{answers}");
    assert_eq!(keel.ok(&["get", "a"]), "1\n");
    let options = keel.ok(&["option", "list"]);
    let is_forgotten = |line: &str| line.split_whitespace().eq(["device_bytes_per_sec", "0"]);
    assert!(options.lines().any(is_forgotten), "{options}");
}

/// A command in the place of `keel-peers` tells what its directory lies on.
#[cfg(target_os = "linux")]
#[test]
fn a_comparison_with_others_is_on_one_loop_device() {
    use std::os::unix::fs::PermissionsExt as _;
    let keel = Keel::new();
    let own = keel.path("own.json");
    keel.bare(&["bench", "fillseq", "--records", "500", "--json", own.to_str().unwrap()]).ok();
    let peer = keel.write("peer.json", read_file(&own).replace("\"evenkeel\"", "\"fjall\""));
    let said = keel.path("said");
    // The last three arguments are `DIR --json -`.
    let text = format!(
        "#!/bin/sh\nwhile [ $# -gt 3 ]; do shift; done\nmkdir \"$1\"\ndf -P \"$1\" | tail -1 >> {}\ncat {peer}\n",
        said.display()
    );
    let script = keel.write("keel-peers", text);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let store = keel.path("compared");
    let result = keel.path("result.json");
    let base = ["bench", "fillseq", "--records", "500", "--engine", "evenkeel", "--engine", "fjall"];
    let flags =
        ["--peers", &script, "--db", store.to_str().unwrap(), "--device", "50MiB", "--device-size", "128MiB"];
    let set = ["--set", "memtable_bytes=1MiB", "--json", result.to_str().unwrap()];
    let args = [&base[..], &flags, &set].concat();
    let refused = |more: &[&str], what: &str| keel.bare(&[&args[..], more].concat()).fails(2, &[what]);
    refused(&["--device-latency-us", "5"], "--device-latency-us");
    let done = keel.bare(&args);
    let missing = ["loop device", "losetup", "mount failed"];
    if done.code == 1 && missing.iter().any(|part| done.err.contains(part)) {
        eprintln!("not tested, because this machine has no loop devices for us: {}", done.err);
        return;
    }
    refused(&["--keep"], "--keep");
    let table = done.compared();
    assert!(table.contains("loop device, 50 MiB/s"), "{table}");
    let comparison = json(&read_file(&result));
    for contestant in comparison["groups"][0]["contestants"].as_array().unwrap() {
        for run in contestant["runs"].as_array().unwrap() {
            assert_eq!(run["config"]["device"], "loop device, 50 MiB/s");
            assert_eq!(run["config"]["device_bytes_per_sec"], 50 << 20);
        }
    }
    let said = read_file(&said);
    assert!(said.lines().count() >= 3, "{said}");
    for line in said.lines() {
        assert!(line.starts_with("/dev/loop") && line.ends_with("compared/device"), "{line}");
    }
    let mounts = read_file(Path::new("/proc/mounts"));
    assert!(!mounts.contains(store.to_str().unwrap()), "{mounts}");
    assert!(list(&store).is_empty(), "{:?}", list(&store));
}
