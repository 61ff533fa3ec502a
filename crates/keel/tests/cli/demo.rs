//! `keel demo` with so little that a test has time for it.

use crate::{Keel, list, read_file};

#[test]
fn a_demo_shows_every_schedule_and_leaves_only_its_page() {
    let keel = Keel::new();
    let json = keel.path("demo.json");
    let flags = ["--part", "400", "--seconds", "1", "--json", json.to_str().unwrap()];
    let done = keel.bare(&[&["demo"], &flags[..]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.lines().all(|line| line.chars().count() <= 100), "{done:?}");
    let demo: serde_json::Value = serde_json::from_str(&read_file(&json)).unwrap();
    let runs = demo["runs"].as_array().unwrap();
    let schedules: Vec<_> = runs.iter().map(|run| run["schedule"].as_str().unwrap()).collect();
    let names: Vec<_> = schedules.iter().map(|schedule| schedule.split(':').next().unwrap()).collect();
    assert_eq!(names, ["unlimited", "silk", "dlc-burst-part", "paced"]);
    for run in runs {
        let (schedule, document) = (run["schedule"].as_str().unwrap(), &run["document"]);
        let config = &document["config"];
        assert_eq!(config["schedule"], schedule);
        assert_eq!((&config["device"], &document["wrong_reads"]), (&"emulated, 1 MiB/s".into(), &0.into()));
        assert_eq!(document["records"], runs[0]["document"]["records"], "all start from one store");
        assert!(done.out.contains(schedule.split(':').next().unwrap()), "{done:?}");
    }
    assert!(demo["load"]["sustained"]["moved_per_byte"].as_f64().unwrap() > 2.0, "{demo}");
    // Whether so little is valid is for the machine to say; it is said in any case.
    let said = if demo["valid"] == true { "The load is valid" } else { "NOT VALID" };
    assert!(done.out.contains(said) && done.out.contains("not to be quoted"), "{done:?}");
    let left = list(keel.dir.path());
    assert!(left.len() == 2 && left[0] == "demo.json" && left[1].starts_with("keel-demo-"), "{left:?}");
    let page = read_file(&keel.path(&left[1]).join("report.html"));
    assert!(read_file(&keel.path(&left[1]).join("demo.svg")).contains(">dlc-burst-part<"));
    for part in ["The same bursts under", "evenkeel · silk", "Latency over time"] {
        assert!(page.contains(part), "no `{part}`");
    }
}

#[test]
fn a_demo_is_asked_for_what_it_can_do() {
    let keel = Keel::new();
    keel.run(&["demo"]).fails(2, &["--db"]);
    keel.bare(&["demo", "--seconds", "0"]).fails(2, &["seconds above 0"]);
    keel.bare(&["demo", "--part", "0"]).fails(2, &["--part"]);
    assert!(list(keel.dir.path()).is_empty());
}
