//! Comparisons of `keel bench`: several runs, several engines, and what goes wrong before any of them.

use std::fs;
use std::path::Path;

use crate::{Keel, list, read_file};

#[test]
fn rounds_of_one_engine_are_medians() {
    let keel = Keel::new();
    let json = keel.path("result.json");
    let json = json.to_str().unwrap();
    let small = ["bench", "fillseq", "--records", "2k", "--rounds", "3"];
    let report = keel.path("report");
    let more = ["--json", json, "--report", report.to_str().unwrap()];
    let done = keel.bare(&[&small[..], &more].concat());
    assert!(done.code == 0 && done.err.contains("the report is"), "{done:?}");
    let table = done.out;
    let page = read_file(&report.join("report.html"));
    assert!(page.contains("equal") && page.contains("recommended"));
    for part in
        ["fillseq: 2 000 records", "3 rounds", "settings: equal", "settings: recommended", "insert p99.9"]
    {
        assert!(table.contains(part), "no `{part}` in {table}");
    }
    let result: serde_json::Value = serde_json::from_str(&read_file(&keel.path("result.json"))).unwrap();
    let groups = result["groups"].as_array().unwrap();
    let compressions = groups.iter().map(|group| {
        let contestant = &group["contestants"][0];
        let runs = contestant["runs"].as_array().unwrap();
        assert_eq!((runs.len(), contestant["engine"].as_str()), (3, Some("evenkeel")));
        assert!(runs.iter().all(|run| run["records"] == 2000 && run["wrong_reads"] == 0));
        assert_eq!(contestant["config"]["settings"], group["settings"]);
        contestant["config"]["options"]["compression"].as_str().unwrap()
    });
    assert_eq!(compressions.collect::<Vec<_>>(), ["none", "auto"]);
    assert_eq!(list(keel.dir.path()), ["report", "result.json"], "the runs' stores are gone");
}

#[test]
fn a_comparison_goes_wrong_before_it_begins() {
    let keel = Keel::new();
    let missing = keel.path("none");
    let peers = ["--peers", missing.to_str().unwrap()];
    let compare = |more: &[&str]| keel.bare(&[&["bench", "fillseq", "--records", "100"], more].concat());
    compare(&[&["--engine", "evenkeel", "--engine", "fjall"], &peers[..]].concat())
        .fails(1, &["apt-get install", "cargo build --release", "--peers"]);
    compare(&["--engine", "evenkeel", "--engine", "evenkeel"]).fails(2, &["twice"]);
    compare(&["--rounds", "2"]).fails(2, &["--rounds"]);
    compare(&["--rounds", "3", "--use-existing"]).fails(2, &["--use-existing"]);
    compare(&["--rounds", "3", "--set", "cache_bytes=much"]).fails(2, &["cache_bytes"]);
    compare(&["--rounds", "3", "--set", "no_option=1"]).fails(2, &["no_option"]);
    compare(&["--rounds", "3", "--key-bytes", "0"]).fails(2, &["1 to 65536 bytes"]);
    keel.bare(&["bench", "soak", "--rounds", "3"]).fails(2, &["soak"]);
    keel.ok(&["put", "mine", "1"]);
    keel.run(&["bench", "fillseq", "--rounds", "3"]).fails(1, &["not empty"]);
    assert_eq!(list(keel.dir.path()), ["db"]);
}

/// A command in the place of `keel-peers` sees what the user said, and its answer is what counts.
#[cfg(unix)]
#[test]
fn peers_get_the_same_flags() {
    use std::os::unix::fs::PermissionsExt as _;
    let keel = Keel::new();
    let own = keel.path("own.json");
    keel.bare(&["bench", "fillseq", "--records", "500", "--json", own.to_str().unwrap()]).ok();
    let peer = keel.write("peer.json", read_file(&own).replace("\"evenkeel\"", "\"fjall\""));
    let said = keel.path("said");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\ncat {peer}\n", said.display());
    let script = keel.write("keel-peers", text);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let base = ["bench", "fillseq", "--records", "500", "--engine", "evenkeel", "--engine", "fjall"];
    let peers = ["--peers", &script, "--set", "cache_bytes=32MiB", "--set", "workers=2"];
    let done = keel.bare(&[&base[..], &peers[..], &["--rounds", "4"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let table = done.out;
    assert!(table.contains("ratio to fjall") && table.contains("cache_bytes=33554432"), "{table}");
    let (checks, runs): (Vec<String>, Vec<String>) =
        read_file(&said).lines().map(str::to_owned).partition(|line| line.contains("--only-check"));
    assert!(checks.len() == 2 && runs.len() >= 8, "{checks:?} {runs:?}");
    for settings in ["equal", "recommended"] {
        let of = |lines: &[String]| lines.iter().filter(|line| line.contains(settings)).count();
        assert!(of(&checks) == 1 && of(&runs) >= 4, "{checks:?} {runs:?}");
    }
    for line in runs {
        let rest = line.strip_prefix("bench fillseq --records 500 --engine fjall --settings ").unwrap();
        let (_, rest) = rest.split_once(' ').unwrap();
        assert!(rest.starts_with("--set cache_bytes=32MiB --db ") && rest.ends_with("--json -"), "{rest}");
    }
    // A report of it is somewhere, with the figures of all runs.
    let (_, page) = done.err.lines().find_map(|line| line.split_once("the report is ")).unwrap();
    let page = read_file(Path::new(page));
    for part in ["Comparison: equal", "Comparison: recommended", "ratio to the first other engine"] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }

    // What an engine cannot do is told before any is measured.
    keel.write("keel-peers", "#!/bin/sh\necho 'keel-peers: fjall has no such thing' >&2\nexit 2\n");
    keel.bare(&[&base[..], &peers[..]].concat()).fails(2, &["fjall has no such thing"]);
}
