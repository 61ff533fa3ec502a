//! Reports of runs as they come, and as they should not: the page stays whole, and draws finite numbers inside its frame.

use roxmltree::Node;

use super::*;
use crate::run::engine::Group;

/// The page as a tree. `<meta …>` is closed for it; the rest must be well-formed as it is.
fn tree<T>(page: &str, look: impl FnOnce(Node<'_, '_>) -> T) -> T {
    let body = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let mut closed = String::new();
    for (i, part) in body.split("<meta ").enumerate() {
        closed.push_str(&if i == 0 {
            part.to_owned()
        } else {
            format!("<meta {}", part.replacen('>', "/>", 1))
        });
    }
    let document = roxmltree::Document::parse(&closed).unwrap_or_else(|error| panic!("{error} in {closed}"));
    look(document.root_element())
}

/// Every number of every drawing is finite and inside it; every class and every link is known.
fn check(page: &str) {
    assert!(!page.contains("NaN") && !page.contains("inf"), "no number is written that is none");
    assert!(
        !page.contains("http") && !page.contains("<script") && !page.contains("url("),
        "needs nothing else"
    );
    tree(page, |root| {
        let mut drawings = 0;
        for svg in root.descendants().filter(|node| node.has_tag_name("svg")) {
            let ends: Vec<f64> =
                svg.attribute("viewBox").unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
            for node in svg.descendants().filter(Node::is_element) {
                check_element(&node, ends[2], ends[3]);
                drawings += 1;
            }
        }
        assert!(drawings > 20 || page.contains("There are no runs."));
    });
}

fn check_element(node: &Node<'_, '_>, width: f64, height: f64) {
    for name in ["x", "y", "cx", "cy", "width", "height"] {
        let Some(text) = node.attribute(name) else { continue };
        let number: f64 = text.parse().unwrap();
        let most = if ["y", "cy", "height"].contains(&name) { height } else { width };
        assert!((0.0..=most).contains(&number), "{name}={text} of {}", node.tag_name().name());
    }
    if let Some(path) = node.attribute("d") {
        for number in
            path.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').filter(|t| !t.is_empty())
        {
            let number: f64 = number.parse().unwrap_or_else(|_| panic!("{path}"));
            assert!((0.0..=width.max(height)).contains(&number), "{path}");
        }
        assert!(path.chars().all(|c| "MLHVvz -.0123456789".contains(c)), "{path}");
    }
}

fn page(report: &Report) -> String {
    let page = page::page(report);
    check(&page);
    page
}

fn of(documents: Vec<Document>) -> Report {
    Report::new(documents.into_iter().map(|document| Run::new("", document)).collect())
}

/// The text of the figure with this id.
fn figure(page: &str, id: &str) -> String {
    tree(page, |root| {
        let figure = root.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
        figure
            .descendants()
            .filter(Node::is_text)
            .filter_map(|node| node.text())
            .collect::<Vec<_>>()
            .join("|")
    })
}

#[test]
fn three_engines_share_their_axes() {
    let mut quick = sample::document("quick", 30);
    quick.windows.iter_mut().for_each(|row| row.max_us = Some(90.0));
    let mut short = sample::document("short", 12);
    short.windows.iter_mut().for_each(|row| row.achieved = 1000.0);
    short.config.seconds = Some(30.0);
    let page = page(&of(vec![quick, short, sample::document("third", 30)]));
    let ids = [
        "latency",
        "throughput",
        "queue",
        "percentiles",
        "bytes",
        "runs",
        "limit",
        "others",
        "amplification",
    ];
    for id in ids {
        let text = figure(&page, id);
        for name in ["quick", "short", "third"] {
            assert!(text.contains(name), "{id} lacks {name}: {text}");
        }
    }
    let latency = figure(&page, "latency");
    assert_eq!(latency.matches("10 ms").count(), 3, "each panel has the scale of the slowest: {latency}");
    assert_eq!(latency.matches("|30 s").count(), 1, "time is written once: {latency}");
    assert!(!page.contains("Beware"), "{page}");
}

#[test]
fn runs_of_any_length_are_drawn() {
    for seconds in [0, 1, 2, 200, 201, 90_000] {
        let mut document = sample::document("x", seconds);
        if seconds == 1 {
            document.seconds = 0.02;
        }
        let page = page(&of(vec![document]));
        assert!(page.len() < 600_000, "{} bytes for {seconds} seconds", page.len());
        assert_eq!(figure(&page, "latency").contains("not known"), seconds == 0);
        assert_eq!(figure(&page, "latency").contains("several seconds"), seconds > 200);
        assert_eq!(page.matches("spot p99").count(), usize::from(seconds == 1));
    }
    assert!(page(&Report::new(Vec::new())).contains("There are no runs."));
}

/// What is not known is not 0: words stand for it, and nothing is drawn.
#[test]
fn what_is_missing_is_not_known() {
    let mut document = sample::document("silent", 5);
    for row in &mut document.windows {
        (row.offered, row.flush_bytes, row.l0_bytes, row.deep_bytes) = (None, None, None, None);
        (row.l0_runs, row.internal_limit, row.queue, row.others_cores) = (None, None, None, None);
    }
    (document.amplification.write, document.amplification.read) = (None, None);
    (document.compaction.count, document.stalls.count, document.cpu_seconds) = (None, None, None);
    (document.others_cores, document.peak_rss_bytes, document.provenance) = (None, None, None);
    document.latency_us.values_mut().for_each(|latency| latency.curve.clear());
    let alone = page(&of(vec![document.clone()]));
    assert_eq!(figure(&alone, "amplification").matches("|not known").count(), 2);
    assert!(figure(&alone, "runs").contains("not known of any run"));
    assert!(figure(&alone, "others").contains("not known of any run"));
    assert!(!alone.contains("Requests that wait"), "a closed loop has no queue");
    assert!(figure(&alone, "bytes").contains("Not known: flush, first level, deeper levels."));
    assert!(figure(&alone, "throughput").contains("The loop is closed"));
    assert!(
        figure(&alone, "percentiles").contains("99.9 % took at most 560 µs"),
        "five points are a curve too"
    );

    let page = page(&of(vec![document.clone(), sample::document("other", 5)]));
    assert!(figure(&page, "runs").contains("Not known of: silent."), "{page}");
    assert!(figure(&page, "limit").contains("|not known|"), "the empty panel says why it is empty");
    let text = text(&document);
    assert!(text.matches("not known").count() >= 6, "{text}");
}

#[test]
fn numbers_that_are_none_are_not_drawn() {
    let mut document = sample::document("broken", 4);
    let row = &mut document.windows[1];
    (row.achieved, row.p99_us, row.max_us) = (f64::NAN, Some(f64::INFINITY), Some(-1.0));
    (row.offered, row.internal_limit) = (Some(f64::NAN), Some(f64::NEG_INFINITY));
    (row.client_bytes, row.l0_runs) = (u64::MAX, Some(u64::MAX));
    (document.throughput_ops_per_sec, document.amplification.write) = (f64::INFINITY, Some(f64::NAN));
    (document.others_cores, document.stalls.seconds) = (Some(f64::NAN), Some(f64::INFINITY));
    let latency = document.latency_us.get_mut("read").unwrap();
    latency.curve = vec![(0.5, f64::NAN), (1.0, 5.0), (f64::NAN, 1.0), (2.0, 1.0), (0.9, 7.0)];
    (latency.p50, latency.count) = (f64::NAN, 0);
    page(&of(vec![document.clone()]));
    document.seconds = 0.0;
    page(&of(vec![document.clone()]));
    document.latency_us.clear();
    page(&of(vec![document.clone()]));
    assert!(!text(&document).contains("inf"));
}

#[test]
fn names_are_text_and_keep_their_room() {
    let evil = "</title><b onclick='x'>&amp;\"]]>";
    let long =
        "engine-with-a-name-that-nobody-would-type-twice-because-it-is-far-too-long-for-a-line ".repeat(2);
    let mut document = sample::document(evil, 3);
    (document.workload, document.version) = (evil.to_owned(), evil.to_owned());
    document.config.engine.insert(evil.to_owned(), evil.into());
    document.latency_us = document.latency_us.into_values().map(|l| (evil.to_owned(), l)).collect();
    let mut report = of(vec![document, sample::document(&long, 3), sample::document(&long, 3)]);
    report.runs[0].settings = evil.to_owned();
    report.notes.push(evil.to_owned());
    report.verdicts.push(Verdict { what: evil.into(), found: evil.into(), bar: evil.into(), holds: None });
    let page = page(&report);
    assert!(!page.contains("<b onclick"), "text is escaped");
    tree(&page, |root| {
        let title = root.descendants().find(|node| node.has_tag_name("title")).unwrap();
        assert!(title.text().unwrap().contains(evil), "and says what it said");
        for node in root.descendants().filter(|node| node.has_tag_name("text")) {
            let words = node.text().unwrap_or_default();
            assert!(words.chars().count() <= 60, "{words}");
        }
    });
    assert_eq!(report.names()[2], format!("{long} (2)"));
}

#[test]
fn groups_are_as_wide_as_their_bytes_and_told_in_words() {
    let group = |level: u64, to: &str, bytes: u64, runs: u64, looks: Option<f64>| Group {
        level,
        from: String::new(),
        to: to.to_owned(),
        bytes,
        runs,
        max_runs: 4,
        is_hot: runs == 1,
        looks_per_get: looks,
    };
    let mut divided = sample::document("evenkeel", 3);
    divided.groups = vec![
        group(1, "a<b", 3 << 20, 1, Some(0.75)),
        group(1, "", 1 << 20, 4, Some(0.0)),
        group(2, "", 0, 2, None),
    ];
    let alone = page(&of(vec![divided.clone()]));
    let drawn = figure(&alone, "groups");
    for part in [
        "L1",
        "L2",
        "hot, the first key to a<b",
        "3.0 MiB, 1 of 4 runs, 0.750 looks a get",
        "looks not known",
    ] {
        assert!(drawn.contains(part), "no `{part}` in {drawn}");
    }
    let widths: Vec<&str> = alone
        .split("height=\"24\"")
        .filter_map(|head| head.rsplit_once("width=\""))
        .map(|(_, w)| w.trim_end_matches("\" "))
        .collect();
    assert_eq!(widths[..2], ["333.5", "110.5"], "three quarters and one, less the gaps");
    let plain = sample::document("rocksdb", 3);
    assert!(!page(&of(vec![plain.clone()])).contains("id=\"groups\""), "nobody tells keys apart");
    assert!(
        figure(&page(&of(vec![divided, plain])), "groups").contains("evenkeel"),
        "of several runs, whose they are"
    );
}

#[test]
fn whoever_reads_is_warned() {
    let (mut one, mut other) = (sample::document("one", 3), sample::document("other", 3));
    (one.others_cores, other.wrong_reads) = (Some(1.2), 7);
    other.config.threads = 5;
    other.provenance.as_mut().unwrap().host.cores = Some(64);
    let mut report = of(vec![one, other]);
    report.verdicts = [Some(true), Some(false), None]
        .map(|holds| Verdict { what: "p99".into(), found: "1 ms".into(), bar: "5 ms".into(), holds })
        .to_vec();
    let page = page(&report);
    for part in [
        "while one was measured, others used 1.20 cores",
        "7 reads of other did not find",
        "not asked for the same",
        "not of the same machine",
        "2 threads, zipfian, seed 42, emulated, 100 MiB/s / 100 000 records",
        "✓ met",
        "✗ missed",
        "– not known",
        "2026-03-01 00:00:00 UTC",
        "keel bench ycsb-a",
    ] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    assert_eq!(page.matches("Beware").count(), 4);
}

/// Halts are told in words, and drawn behind the latencies; a machine that never stood still is not worth a line.
#[test]
fn a_machine_that_stood_still_is_told() {
    let mut document = sample::document("one", 5);
    let sentence = "machine stood still in 1 of 5 seconds; without those and the ones after them p99 34.0 µs, p99.9 550 \
                    µs, max 700 µs";
    assert!(text(&document).replace("\n  ", " ").contains(sentence), "{}", text(&document));
    let alone = page(&of(vec![document.clone()]));
    assert!(alone.contains(&format!("The {sentence}.")), "{alone}");
    assert!(alone.contains("in 1 of 5 seconds"));
    assert_eq!(figure(&alone, "latency").matches("the machine stood still").count(), 2, "legend and second");
    assert_eq!(alone.matches("area halted").count(), 2, "a piece in the legend and one behind the curves");
    assert!(!alone.contains("Beware"));

    let mut most = document.clone();
    most.steady.as_mut().unwrap().left_out_seconds = 3;
    let page = self::page(&of(vec![document.clone(), most]));
    assert!(page.contains(&format!("one: the {sentence}.")));
    assert_eq!(page.matches("the machine stood still in 3 of 5 seconds or just before them").count(), 1);
    assert_eq!(page.matches("Beware").count(), 1);

    document.steady.as_mut().unwrap().halted_seconds = 0;
    document.windows.iter_mut().for_each(|row| row.stolen_seconds = Some(0.01));
    assert!(!text(&document).contains("stood still"));
    let calm = self::page(&of(vec![document.clone()]));
    assert!(!calm.contains("area halted") && calm.contains("in 0 of 5 seconds"));
    document.steady = None;
    assert!(!text(&document).contains("stood still"));
}

#[test]
fn a_report_is_written_and_drawn_again() {
    let dir = std::env::temp_dir().join(format!("keel-report-test-{}", std::process::id()));
    let report = of(vec![sample::document("one", 3), sample::document("two", 3)]);
    report.write(&dir.join("deep")).unwrap();
    let read = |name: &str| String::from_utf8(read_all(&dir.join("deep").join(name))).unwrap();
    let again: Report = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(again.files().unwrap(), report.files().unwrap());
    for (name, text) in report.files().unwrap() {
        assert_eq!(read(name), text, "{name}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a result, not the store's files")]
fn read_all(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn the_terminal_s_lines_are_short() {
    let mut document = sample::document(&"engine".repeat(30), 400);
    document.workload = "a workload with a name of many words ".repeat(5);
    (document.ops, document.records, document.seed) = (u64::MAX / 1000, u64::MAX / 1000, u64::MAX);
    document.stalls =
        crate::results::document::Stalls { count: Some(123_456_789), seconds: Some(12_345.678) };
    document.windows.iter_mut().for_each(|row| (row.achieved, row.p99_us) = (9_876_543.0, Some(1_234.0)));
    for document in [sample::document("evenkeel", 400), document] {
        let text = text(&document);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains(" records of 16 + 1000 bytes"), "{text}");
    }
}
