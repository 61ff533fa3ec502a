//! `keel lab`: cells that stay finished, budgets, verdicts; with a script in the place of `keel-peers`.

use crate::{Done, Keel, list, read_file, signalled, write_file};

/// So little of an experiment that a test has time for it.
const TINY: [&str; 2] = ["--part", "10000"];

/// `keel lab run WHAT` with so little that it is quick, into `out`.
fn run(keel: &Keel, more: &[&str]) -> Done {
    let out = keel.path("out");
    let engines = more.iter().any(|word| word.starts_with("peers-"));
    let alike: &[&str] = if engines { &["--settings", "equal"] } else { &[] };
    keel.bare(&[&["lab", "run", "--out", out.to_str().unwrap()], &TINY[..], alike, more].concat())
}

fn json(keel: &Keel, name: &str) -> serde_json::Value {
    serde_json::from_str(&read_file(&keel.path("out").join(name))).unwrap()
}

fn verdict(keel: &Keel, id: &str) -> serde_json::Value {
    let all = json(keel, "verdicts.json");
    all.as_array().unwrap().iter().find(|v| v["id"] == id).unwrap_or_else(|| panic!("no {id}: {all}")).clone()
}

/// Cells that this command ran.
fn ran(done: &Done) -> usize {
    done.err.lines().filter(|line| line.contains(": done in ")).count()
}

#[test]
fn experiments_are_listed_with_their_claims() {
    let keel = Keel::new();
    let text = keel.bare(&["lab", "list"]).ok();
    for part in
        ["peers-fill: ", "5 engines", "peers-fill.throughput", "≥ 1.50x, goal ≥ 3.00x", "peers-cost.ycsb-cpu"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let all: serde_json::Value = serde_json::from_str(&keel.bare(&["lab", "list", "--json"]).ok()).unwrap();
    let fill = &all[0];
    assert_eq!((&fill["id"], &fill["cells"]), (&"peers-fill".into(), &50.into()));
    assert_eq!(fill["claims"][0]["expected"]["bar"]["ratio_at_least"], 1.5);
}

#[test]
fn a_lab_goes_wrong_before_it_begins() {
    let keel = Keel::new();
    let missing = keel.path("none");
    run(&keel, &["peers-fill", "--peers", missing.to_str().unwrap()])
        .fails(1, &["apt-get install", "cargo build --release", "--peers"]);
    run(&keel, &["peers-fil"]).fails(2, &["a similar value exists: 'peers-fill'"]);
    run(&keel, &["peers-fill", "--quick"]).fails(2, &["--part", "--quick"]);
    run(&keel, &["peers-fill", "--budget", "5"]).fails(2, &["with its unit"]);
    run(&keel, &["peers-fill", "--engine", "evenkeel", "--engine", "evenkeel"]).fails(2, &["twice"]);
    keel.run(&["lab", "list"]).fails(2, &["--out", "--db"]);
    assert!(list(keel.dir.path()).is_empty());
    write_file(&keel.path("out"), b"x");
    run(&keel, &["peers-fill", "--engine", "evenkeel"]).fails(2, &["another --out"]);
}

#[test]
fn finished_cells_are_not_run_again() {
    let keel = Keel::new();
    let read = ["peers-fill", "--engine", "evenkeel", "--rounds", "2"];
    let first = run(&keel, &read);
    assert_eq!((first.code, ran(&first)), (0, 2), "{first:?}");
    let names = ["cells", "cells.csv", "lab.lock", "report.html", "verdicts.json", "works"];
    assert_eq!(list(&keel.path("out")), names, "stores and work are gone");
    let cells = ["evenkeel-equal-fillrandom-42.json", "evenkeel-equal-fillrandom-43.json"];
    assert_eq!(list(&keel.path("out/cells/peers-fill")), cells);
    assert_eq!(read_file(&keel.path("out/cells.csv")).lines().count(), 3);
    let v = verdict(&keel, "peers-fill.throughput.equal");
    assert_eq!(
        (&v["valid"], &v["holds"], &v["quick"]),
        (&false.into(), &serde_json::Value::Null, &true.into())
    );
    assert!(v["why_not_valid"].as_str().unwrap().contains("--engine rocksdb"), "{v}");
    assert!(v["engines"][0]["median"].as_f64().unwrap() > 0.0);
    let page = read_file(&keel.path("out/report.html"));
    for part in
        ["peers-fill.worst-put.equal", "not valid", "2 of 2 cells", "works/peers-fill/fillrandom/report.html"]
    {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    assert!(read_file(&keel.path("out/works/peers-fill/fillrandom/comparison.txt")).contains("throughput"));

    let before = read_file(&keel.path("out/cells.csv"));
    let again = run(&keel, &read);
    assert_eq!((again.code, ran(&again)), (0, 0), "{again:?}");
    assert_eq!(read_file(&keel.path("out/cells.csv")), before);

    // One that is damaged, or was asked for something else, is run again.
    write_file(&keel.path("out/cells/peers-fill").join(cells[1]), b"{");
    assert_eq!(ran(&run(&keel, &read)), 1);
    let out = keel.path("out");
    let other = ["lab", "run", "--out", out.to_str().unwrap(), "--part", "9000", "--settings", "equal"];
    assert_eq!(ran(&keel.bare(&[&other, &read[..]].concat())), 2);
}

#[test]
fn reads_start_from_copies_of_one_settled_store() {
    let keel = Keel::new();
    let done = run(&keel, &["peers-read", "--engine", "evenkeel", "--keep"]);
    assert_eq!((done.code, ran(&done)), (0, 8), "{done:?}");
    assert_eq!(list(&keel.path("out/stores")), ["evenkeel-equal-1000x100", "evenkeel-equal-1000x100.json"]);
    let cell = json(&keel, "cells/peers-read/evenkeel-equal-readwhilewriting-2-42.json");
    let document = &cell["run"]["document"];
    assert_eq!((&document["records"], &document["load"]), (&1000.into(), &serde_json::Value::Null));
    assert_eq!((&document["config"]["settings"], &document["wrong_reads"]), (&"equal".into(), &0.into()));
    assert!(document["provenance"]["command"].as_str().unwrap().contains("bench readwhilewriting"));
    let store = keel.path("out/stores/evenkeel-equal-1000x100");
    let dumped = keel.bare(&["--db", store.to_str().unwrap(), "scan", "--json"]).ok();
    assert_eq!(dumped.lines().count(), 1000);
}

/// A log that its writer left by dying is there when the store is opened, and is told from one that was closed.
#[cfg(unix)]
#[test]
fn opening_is_measured_after_a_close_and_after_a_crash() {
    let keel = Keel::new();
    let done = run(&keel, &["peers-open", "--engine", "evenkeel"]);
    assert_eq!((done.code, ran(&done)), (0, 2), "{done:?}");
    for work in ["closed", "killed"] {
        let cell = json(&keel, &format!("cells/peers-open/evenkeel-equal-{work}-42.json"));
        let document = &cell["run"]["document"];
        assert!(document["open_seconds"].as_f64().unwrap() > 0.0, "{cell}");
        assert_eq!((&document["records"], &document["wrong_reads"]), (&1000.into(), &0.into()));
        assert_eq!(cell["asked"]["crash"].is_array(), work == "killed", "{cell}");
    }
    keel.bare(&["bench", "overwrite", "--crash"]).fails(2, &["--crash", "--db"]);
    let small = ["--records", "1000", "--ops", "700"];
    let killed = keel.run(&[&["bench", "overwrite", "--crash"], &small[..]].concat());
    assert!(killed.code < 0 && killed.out.is_empty(), "{killed:?}");
    assert_eq!(keel.ok(&["scan", "--json"]).lines().count(), 1000);
}

#[test]
fn a_budget_ends_the_run_and_says_what_is_left() {
    let keel = Keel::new();
    let fill = ["peers-fill", "peers-max-rate", "--engine", "evenkeel"];
    let done = run(&keel, &[&fill[..], &["--budget", "0.001s"]].concat());
    assert_eq!((done.code, ran(&done)), (0, 0), "{done:?}");
    let left =
        "the budget is spent: 2 of 2 cells are left: peers-fill fillrandom (1), peers-max-rate a-10ms (1)";
    assert!(done.err.contains(left), "{done:?}");
    assert_eq!(verdict(&keel, "peers-fill.throughput.equal")["runs"], 0);
}

/// A script in the place of `keel-peers` that answers as rocksdb with the document of a run of ours.
#[cfg(unix)]
fn peer(keel: &Keel, before: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let own = keel.path("own.json");
    keel.bare(&["bench", "fillseq", "--records", "500", "--json", own.to_str().unwrap()]).ok();
    let calm = |text: String| {
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["engine"] = "rocksdb".into();
        document["others_cores"] = 0.0.into();
        document["steady"] = serde_json::Value::Null;
        document.to_string()
    };
    let answer = keel.write("peer.json", calm(read_file(&own)));
    let said = keel.path("said");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\n{before}\ncat {answer}\n", said.display());
    let script = keel.write("keel-peers", text);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[cfg(unix)]
const DUO: [&str; 5] = ["peers-fill", "--engine", "evenkeel", "--engine", "rocksdb"];

#[cfg(unix)]
#[test]
fn claims_are_judged_against_the_peer() {
    let keel = Keel::new();
    let script = peer(&keel, "");
    let done = run(&keel, &[&DUO[..], &["--peers", &script]].concat());
    assert_eq!((done.code, ran(&done)), (0, 2), "{done:?}");
    assert!(done.out.contains("peers-fill, equal") && done.out.contains("not to be quoted"), "{done:?}");
    let v = verdict(&keel, "peers-fill.throughput.equal");
    // Whether anybody else was busy is the machine's to say.
    let disturbed = v["why_not_valid"].as_str().is_some_and(|why| why.contains("others used the CPU"));
    assert!(v["holds"].is_boolean() || disturbed, "{v}");
    let median = |i: usize| v["engines"][i]["median"].as_f64().unwrap();
    let ratio = v["measured"].as_f64().unwrap();
    assert!((ratio - median(0) / median(1)).abs() < 1e-9, "{v}");
    let said = read_file(&keel.path("said"));
    let words = "bench fillrandom --threads 1 --records 1000 --value-bytes 100 --seed 42 --engine rocksdb \
                 --settings equal --sync os --set memtable_bytes=1048576 --set cache_bytes=1048576 --db ";
    assert!(said.starts_with(words), "{said}");

    // What is finished is not run again, unless one of the programs has changed: then both engines are.
    assert_eq!(ran(&run(&keel, &[&DUO[..], &["--peers", &script]].concat())), 0);
    let script = peer(&keel, "true");
    assert_eq!(ran(&run(&keel, &[&DUO[..], &["--peers", &script]].concat())), 2);
}

/// The peer's store is copied, and the peer is told to use the copy.
#[cfg(unix)]
#[test]
fn peers_start_from_copies_too() {
    let keel = Keel::new();
    let fill = "while [ $# -gt 1 ]; do [ \"$1\" = --db ] && mkdir -p \"$2\" && ls \"$2\" >> \"$0.ls\" && : > \"$2/table\"; shift; done";
    let script = peer(&keel, fill);
    let done = run(&keel, &["peers-max-rate", "--engine", "rocksdb", "--peers", &script]);
    assert_eq!((done.code, ran(&done)), (0, 1), "{done:?}");
    let said = read_file(&keel.path("said"));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("bench fillrandom --records 1000 --value-bytes 1000 --seed 42"), "{said}");
    assert!(lines[1].contains("--find-max-rate --seed 42 --use-existing --engine rocksdb"), "{said}");
    assert_eq!(
        read_file(&keel.path("keel-peers.ls")),
        "table\n",
        "the second directory is a copy of the first"
    );
}

#[cfg(unix)]
#[test]
fn what_a_peer_cannot_do_is_said_and_the_rest_goes_on() {
    let keel = Keel::new();
    let script = peer(&keel, "echo 'keel-peers: there is no space' >&2; exit 1");
    let done = run(&keel, &[&DUO[..], &["--rounds", "3", "--peers", &script]].concat());
    assert_eq!(ran(&done), 3, "{done:?}");
    assert!(
        done.code == 1 && done.err.contains("rocksdb equal in fillrandom: rocksdb: there is no space"),
        "{done:?}"
    );
    let v = verdict(&keel, "peers-fill.throughput.equal");
    assert!(v["why_not_valid"].as_str().unwrap().contains("rocksdb failed"), "{v}");
    assert_eq!(read_file(&keel.path("said")).lines().count(), 1, "it is not asked again");
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_is_finished() {
    let keel = Keel::new();
    let once = "[ -e \"$0.told\" ] || { : > \"$0.told\"; kill -INT $PPID; exec sleep 1000; }";
    let script = peer(&keel, once);
    let rounds = [&DUO[..], &["--rounds", "2", "--peers", &script]].concat();
    let done = run(&keel, &rounds);
    assert!(done.code == 1 && done.err.contains("the same command goes on"), "{done:?}");
    assert!(done.err.contains("interrupted: 3 of 4 cells are left: peers-fill fillrandom (3)"), "{done:?}");
    assert!(
        verdict(&keel, "peers-fill.throughput.equal")["why_not_valid"]
            .as_str()
            .unwrap()
            .contains("not run: 3 of 4 cells")
    );
    // The run that was under way was ended with it.
    assert_eq!(list(&keel.path("out/cells/peers-fill")).len(), 1);
    let done = run(&keel, &rounds);
    assert_eq!((done.code, ran(&done)), (0, 3), "{done:?}");
}

/// Whoever ends a lab, and not its terminal, ends what it measures as well.
#[cfg(unix)]
#[test]
fn a_lab_that_is_ended_leaves_no_run_behind() {
    let keel = Keel::new();
    let (out, cell) = (keel.path("out"), keel.path("out/work/0"));
    let words = ["lab", "run", "silk-fig5", "--part", "100", "--out", out.to_str().unwrap()];
    let done = signalled(&mut keel.command(&words), "-TERM", || cell.is_dir());
    assert!(done.code == 1 && done.err.contains("interrupted: 3 cells over schedules are left"), "{done:?}");
    assert!(!list(&out).contains(&"work".to_owned()), "{:?}", list(&out));
}

#[test]
fn observations_of_the_design_space_are_listed() {
    let keel = Keel::new();
    let text = keel.bare(&["lab", "list"]).ok();
    for part in
        ["cds-fig4a: ", "O1   cds-fig4a.a-tier-least", "2.00 – 6.00", "O17  cds-fig8d.tsd-by-lo1", "21 runs"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let all: serde_json::Value = serde_json::from_str(&keel.bare(&["lab", "list", "--json"]).ok()).unwrap();
    let fig4 = all.as_array().unwrap().iter().find(|e| e["id"] == "cds-fig4a").unwrap();
    assert_eq!((&fig4["cells"], &fig4["claims"][0]["observation"]), (&21.into(), &"O1".into()));
    assert!(fig4["claims"][0]["expected"]["paper"].as_str().unwrap().contains("12x"));
    assert!(fig4["points"].as_array().unwrap().contains(&"tier-10M-reads-nothing".into()));
}

#[test]
fn strategies_are_set_beside_each_other_and_stay_finished() {
    let keel = Keel::new();
    let first = run(&keel, &["cds-fig4e"]);
    assert_eq!((first.code, ran(&first)), (0, 7), "{first:?}");
    let names = ["cells", "lab.lock", "points.csv", "report.html", "verdicts.json"];
    assert_eq!(list(&keel.path("out")), names, "stores and work are gone");
    assert!(list(&keel.path("out/cells/cds")).contains(&"lo+1-10M-42.json".to_owned()));
    let v = verdict(&keel, "cds-fig4e.f-tier-found");
    assert_eq!((&v["observation"], &v["settings"], &v["quick"]), (&"O8".into(), &"cds".into(), &true.into()));
    assert!(v["expected"]["paper"].as_str().unwrap().contains("Tier"));
    assert_eq!(v["valid"].as_bool(), Some(v["why_not_valid"].is_null()), "{v}");
    let page = read_file(&keel.path("out/report.html"));
    for part in ["cds-fig4e.e-full-best", "4e: mean get", "cold-write", "7 of 7 cells", "points.csv", "O9"] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let cell = json(&keel, "cells/cds/tier-10M-42.json");
    assert_eq!(cell["arguments"][2], "tier-10M");
    assert!(cell["measured"]["figures"]["get_4_us"].as_f64().unwrap() > 0.0, "{cell}");
    assert!(cell["measured"]["strategy"].as_str().unwrap().starts_with("when=runs how=runs:4"), "{cell}");

    let again = run(&keel, &["cds-fig4e", "cds-fig7"]);
    assert_eq!((again.code, ran(&again)), (0, 0), "both are of the same cells: {again:?}");
    let spent = run(&keel, &["cds-fig8d", "--budget", "0.001s"]);
    assert_eq!((spent.code, ran(&spent)), (0, 0));
    assert!(spent.err.contains("18 cells of the design space are left"), "{spent:?}");
}

#[test]
fn a_cell_is_run_by_its_name() {
    let keel = Keel::new();
    let dir = keel.path("cell");
    let cell = |more: &[&str]| keel.bare(&[&["lab", "cell", "--dir", dir.to_str().unwrap()], more].concat());
    let one = cell(&["tsa-4M-ttl50-deletes100", "--part", "1000", "--writing-seconds", "5"]).ok();
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert!(one["strategy"].as_str().unwrap().starts_with("when=ttl:2500ms,saturation"), "{one}");
    assert!(
        one["figures"]["jobs"].as_f64().unwrap() > 0.0 && one["figures"]["flushes"].as_f64().unwrap() > 4.0
    );
    assert!(list(keel.dir.path()).is_empty(), "its store is gone");
    cell(&["tsa-4M-ttl50-deletes100"]).fails(2, &["--writing-seconds"]);
    cell(&["tier-11M"]).fails(2, &["keel lab list --json"]);
    write_file(&keel.path("file"), b"x");
    let parent = keel.dir.path().to_str().unwrap().to_owned();
    keel.bare(&["lab", "cell", "tier-10M", "--dir", &parent]).fails(2, &["not empty"]);
}

/// Schedules are beside each other in copies of one store, at rates that a probe found once.
#[test]
fn schedules_run_at_rates_that_were_found() {
    let keel = Keel::new();
    let first = run(&keel, &["silk-fig5"]);
    assert_eq!((first.code, ran(&first)), (0, 3), "{first:?}");
    let cells = list(&keel.path("out/cells/schedules"));
    let names = [
        "s-ycsb-a-probe-120s-unlimited-42.json",
        "s-ycsb-a-sustained-240s-triad-42.json",
        "s-ycsb-a-sustained-240s-unlimited-42.json",
    ];
    assert_eq!(cells, names);
    let rows = read_file(&keel.path("out/rows.csv"));
    assert!(rows.starts_with("row,seed,repeats,") && rows.lines().count() == 4, "{rows}");
    for flag in [["--settings", "equal"], ["--engine", "evenkeel"], ["--work", "a-20k"]] {
        run(&keel, &[&["silk-fig5"], &flag[..]].concat()).fails(2, &[flag[0], "peers-", "none was chosen"]);
    }
    let cell = json(&keel, "cells/schedules/s-ycsb-a-sustained-240s-triad-42.json");
    let words = cell["arguments"].as_array().unwrap();
    let after = |flag: &str| words[words.iter().position(|word| word == flag).unwrap() + 1].as_str().unwrap();
    let document = &cell["document"];
    assert_eq!((after("--strategy"), after("--schedule")), ("triad", "unlimited"));
    assert_eq!(document["config"]["device"], "emulated, 4 MiB/s");
    assert_eq!((&document["records"], &document["load"]), (&1000.into(), &serde_json::Value::Null));
    let probe = json(&keel, "cells/schedules/s-ycsb-a-probe-120s-unlimited-42.json");
    let highest = probe["document"]["throughput_ops_per_sec"].as_f64().unwrap();
    let rate: f64 = after("--shape").strip_prefix("constant:").unwrap().parse().unwrap();
    assert!((rate - 0.9 * highest).abs() <= 1.0, "{rate} of {highest}");
    assert!(
        document["windows"][0]["internal_bytes"].is_u64() && document["windows"][0]["jobs_open"].is_u64()
    );
    // Whether so little tells is for the machine; what does not has no verdict.
    let v = verdict(&keel, "silk-fig5.as-high");
    assert_eq!((&v["quick"], v["valid"] == false), (&true.into(), v["holds"].is_null()), "{v}");
    assert!(v["expected"]["paper"].is_string() && v["observation"] == "Fig 5", "{v}");
    let page = read_file(&keel.path("out/report.html"));
    let load = "works/schedules/s-ycsb-a-sustained-240s/report.html";
    assert!(page.contains(load) && page.contains("silk-fig5.later") && !page.contains("points.csv"));
    let load = read_file(&keel.path("out").join(load));
    assert!(load.contains("evenkeel · triad") && load.contains("evenkeel · unlimited"));
    assert_eq!(list(&keel.path("out/stores")), [""; 0]);

    let again = run(&keel, &["silk-fig5"]);
    assert_eq!((again.code, ran(&again)), (0, 0), "{again:?}");
    let listed = keel.bare(&["lab", "list"]).ok();
    for part in ["dlc-fig9.dip", "silk-fig8a.unlimited", "not reproduced:", "silk-fig7: "] {
        assert!(listed.contains(part), "no `{part}` in {listed}");
    }
}
