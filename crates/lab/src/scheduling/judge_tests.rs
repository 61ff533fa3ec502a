//! Verdicts over schedules: what a load must be like for one, and what keeps it back.

use super::*;
use crate::experiments::SCHEDULES;
use crate::results::document::OpenLoop;
use crate::results::report::sample;
use crate::scheduling::cells::plan;
use crate::verdicts::expected::expected;

fn study(id: &str) -> &'static Study {
    SCHEDULES.iter().find(|study| study.id == id).unwrap()
}

/// A run of a row: requests whose writes are `peak` W* in each second, and its p99.
fn document(row: &Row, peak: f64, p99_us: f64) -> Document {
    let mut document = sample::document("evenkeel", 20);
    document.amplification.moved = Some(20.0);
    document.others_cores = Some(0.0);
    document.compaction.wasted_bytes = Some(0);
    document.windows.iter_mut().for_each(|window| window.client_read_bytes = None);
    let written = per_request(row).unwrap();
    let sustained = Sustained::of(&document, written).unwrap().bytes_per_sec() / written;
    for window in &mut document.windows {
        (window.offered, window.p99_us) = (Some(peak * sustained), Some(p99_us));
        window.achieved = peak * sustained;
    }
    document.open_loop = Some(OpenLoop { offered_ops_per_sec: 0.8 * sustained, ..sample::open_loop() });
    document
}

/// A cell that has run: SILK's and paced's p99 is 1 ms, the others' 100 ms.
fn finished(cell: &Cell) -> Finished {
    Finished {
        row: cell.row.id(),
        seed: cell.seed(),
        arguments: Vec::new(),
        program: String::new(),
        wall_seconds: 1.0,
        repeats: 0,
        document: document(
            &cell.row,
            1.7,
            if ["silk", "paced"].contains(&cell.row.name) { 1e3 } else { 1e5 },
        ),
    }
}

/// The host takes so much of each core's time.
fn stolen_of_each_core(document: &mut Document, share: f64) {
    let cores = document.provenance.as_ref().and_then(|p| p.host.cores).unwrap_or(1) as f64;
    document.seconds = document.windows.len() as f64;
    document.windows.iter_mut().for_each(|window| window.stolen_seconds = Some(share * cores));
}

/// The disk below keeps all clients for a tenth of each of so many of a hundred seconds.
fn kept_by_the_disk(document: &mut Document, seconds: usize) {
    let late = document.config.threads as f64 / 10.0;
    let kept = (document.windows.len() * seconds).div_ceil(100);
    document.windows.iter_mut().for_each(|window| window.disk_late_seconds = Some(0.0));
    document.windows.iter_mut().take(kept).for_each(|window| window.disk_late_seconds = Some(late));
}

/// The verdicts of SILK's Figure 8a, after a change of each run.
fn verdicts(rounds: u16, change: impl Fn(&Cell, &mut Document)) -> Vec<StudyVerdict> {
    verdicts_of("silk-fig8a", rounds, change)
}

/// Those of a study.
fn verdicts_of(id: &str, rounds: u16, change: impl Fn(&Cell, &mut Document)) -> Vec<StudyVerdict> {
    let study = study(id);
    let planned = plan(&[study], 1..=rounds);
    let mut finished: Vec<Finished> = planned.iter().map(finished).collect();
    planned.iter().zip(&mut finished).for_each(|(cell, finished)| change(cell, &mut finished.document));
    judged(study, &planned, &finished)
}

/// Those of a study by these cells.
fn judged(study: &Study, planned: &[Cell], finished: &[Finished]) -> Vec<StudyVerdict> {
    judge(study, &expected(), &Evidence { planned, finished, failed: &[], quick: false })
}

#[test]
fn what_is_valid_has_a_verdict() {
    let all = verdicts(3, |_, _| ());
    assert_eq!(all.len(), study("silk-fig8a").claims.len());
    for verdict in &all {
        assert_eq!((verdict.valid, verdict.why_not_valid.as_deref()), (true, None), "{verdict:?}");
        assert_eq!((verdict.holds, verdict.clear, verdict.runs), (Some(true), Some(true), 3), "{verdict:?}");
    }
    assert_eq!(all[0].measured, Some(0.01));
    assert_eq!(all[0].load.as_deref(), Some("peaks of 1.70 W*, a mean of 0.80, by what unlimited moved"));
    let stolen = verdicts(3, |_, document| stolen_of_each_core(document, 0.1));
    assert!(stolen[0].valid, "the host takes a tenth of the time: {:?}", stolen[0]);
    let slow = verdicts(3, |cell, document| {
        let silk = cell.row.name == "silk";
        document.windows.iter_mut().filter(|_| silk).for_each(|window| window.p99_us = Some(2e4));
    });
    assert_eq!(slow[0].holds, Some(false), "a claim that does not hold is said");
}

/// What is said of one schedule rests on the trouble of another, which somebody else may have made.
#[test]
fn a_baseline_that_was_disturbed_makes_nothing_valid() {
    let all = verdicts(3, |cell, document| {
        if cell.row.name == "unlimited" {
            document.others_cores = Some(1.0);
        }
    });
    for verdict in &all {
        let why = verdict.why_not_valid.as_deref().unwrap_or_default();
        assert!(!verdict.valid && why.contains("others used the CPU"), "{verdict:?}");
    }
}

/// Where nobody is to be troubled, all but the baseline have ended what came when the last has come.
#[test]
fn a_calm_load_is_kept_up_with() {
    let late = |name: &str| {
        verdicts_of("silk-fig13", 3, |cell, document| {
            if let Some(open) = document.open_loop.as_mut().filter(|_| cell.row.name == name) {
                open.completed_share = 0.9;
            }
        })
    };
    for verdict in late("silk") {
        let why = verdict.why_not_valid.as_deref().unwrap_or_default();
        assert!(why.contains("silk had ended 90.0 % of the requests"), "{verdict:?}");
    }
    for baseline in ["unlimited", "triad"] {
        assert!(late(baseline).iter().all(|verdict| verdict.valid), "{:?}", late(baseline));
    }
}

#[test]
fn what_is_not_valid_has_none() {
    type Change = fn(&Cell, &mut Document);
    let changes: [(&str, Change); 9] = [
        ("not 1.5 to 2", |_, d| d.windows.iter_mut().for_each(|w| w.offered = w.offered.map(|x| x * 1.5))),
        ("the mean was", |_, d| {
            if let Some(open) = &mut d.open_loop {
                open.offered_ops_per_sec *= 2.0;
            }
        }),
        ("no trouble", |_, d| {
            d.stalls.count = Some(0);
            d.windows.iter_mut().for_each(|w| w.l0_runs = Some(3));
        }),
        ("served", |cell, d| {
            if let Some(open) = d.open_loop.as_mut().filter(|_| cell.row.name == "silk") {
                open.unfinished = 500;
            }
        }),
        ("not the same for all", |cell, d| {
            if cell.row.name == "silk" {
                d.config.threads += 1;
            }
        }),
        ("others used the CPU", |_, d| d.others_cores = Some(1.0)),
        ("took more than an eighth", |_, d| stolen_of_each_core(d, 0.15)),
        ("the machine's disk", |_, d| kept_by_the_disk(d, 3)),
        ("does not tell what was offered", |_, d| d.amplification.moved = None),
    ];
    for (why, change) in changes {
        let verdict = &verdicts(3, change)[0];
        assert!(!verdict.valid && verdict.holds.is_none(), "{why}: {verdict:?}");
        assert!(verdict.why_not_valid.as_ref().unwrap().contains(why), "{verdict:?}");
    }
    let few = &verdicts(2, |_, _| ())[0];
    assert!(few.holds.is_none() && few.why_not_valid.as_ref().unwrap().contains("2 rounds tell"), "{few:?}");
}

/// Rates are those of the first round: of all others only probes are planned there, which are rows of Figure 12 too.
#[test]
fn later_rounds_are_judged_without_the_first() {
    let planned = plan(SCHEDULES, 2..=4);
    assert!(planned.iter().any(|cell| cell.round == 1));
    let finished: Vec<Finished> = planned.iter().map(finished).collect();
    for id in ["silk-fig8a", "silk-fig12"] {
        for verdict in judged(study(id), &planned, &finished) {
            let missing = verdict.why_not_valid.as_ref().is_some_and(|why| why.contains("not run"));
            assert!(verdict.runs == 3 && !missing, "{verdict:?}");
        }
    }
}

/// Under DLC's load reads have most of the device: what drops is throughput.
#[test]
fn a_load_of_reads_is_trouble_where_throughput_drops() {
    let judged = |short: u64| {
        let change = |_: &Cell, document: &mut Document| {
            document.stalls.count = Some(0);
            for window in &mut document.windows {
                window.l0_runs = Some(1);
                window.l0_bytes = Some(u64::from(window.second > 0));
                window.achieved *= if window.second < short { 0.9 } else { 1.0 };
            }
        };
        verdicts_of("dlc-fig6", 3, change).remove(0)
    };
    assert!(judged(2).valid, "{:?}", judged(2));
    assert_eq!(judged(2).measured, Some(1.0 / 19.0), "from the first merge on");
    assert!(judged(0).why_not_valid.unwrap().contains("ended what came"));
}

/// Two cycles of peak and valley have to follow the first merge of L0: of 420 seconds, 240.
#[test]
fn a_load_is_looked_at_until_its_trouble_can_show() {
    let first_merge_at = |second: u64| {
        let of = move |_: &Cell, document: &mut Document| {
            document.windows.iter_mut().for_each(|w| w.l0_bytes = Some(u64::from(w.second == second)));
        };
        ["dlc-fig6", "dlc-fig1"].map(|id| verdicts_of(id, 3, of).remove(0))
    };
    assert!(first_merge_at(8).iter().all(|verdict| verdict.valid), "{:?}", first_merge_at(8));
    for late in first_merge_at(9) {
        assert!(late.why_not_valid.as_ref().unwrap().contains("that 1.9 cycles followed"), "{late:?}");
    }
    assert!(first_merge_at(99).iter().all(|verdict| verdict.why_not_valid.is_some()));
}

/// Rates are shares of what a probe found.
#[test]
fn a_load_whose_rates_were_found_beside_others_is_not_valid() {
    let study = study("silk-fig13");
    let planned = plan(&[study], 1..=3);
    let beside = |others: f64| {
        let mut finished: Vec<Finished> = planned.iter().map(finished).collect();
        let probe = finished.iter_mut().find(|cell| cell.row == "s-ycsb-f-probe-120s-unlimited").unwrap();
        // Of another experiment: rates are those of the first round.
        let mut later = Finished { seed: 43, ..probe.clone() };
        later.document.others_cores = Some(1.0);
        probe.document.others_cores = Some(others);
        finished.push(later);
        judged(study, &planned, &finished).remove(0)
    };
    assert!(beside(0.0).valid, "{:?}", beside(0.0));
    let why = beside(1.0).why_not_valid.unwrap();
    assert!(why.contains("s-ycsb-f-probe-120s-unlimited found the rates"), "{why}");
}

/// A claim that asks for SILK alone needs to know all the same what its load was.
#[test]
fn a_load_without_its_baseline_has_no_verdict() {
    let study = study("silk-fig9");
    let planned = plan(&[study], 1..=3);
    let silk: Vec<Finished> = planned.iter().filter(|cell| cell.row.name == "silk").map(finished).collect();
    let all = judged(study, &planned, &silk);
    let verdict = all.iter().find(|v| v.id == "silk-fig9.silk").unwrap();
    assert!(verdict.holds.is_none() && verdict.measured == Some(0.0), "{verdict:?}");
    assert!(verdict.why_not_valid.as_ref().unwrap().contains("without unlimited"), "{verdict:?}");
}

fn set(document: &mut Document, name: &str, value: u64) {
    let options = document.config.engine.entry("options".to_owned()).or_insert_with(|| serde_json::json!({}));
    options[name] = value.to_string().into();
}

/// The row that is about more memory may have more of it, and nothing else that the others have not.
#[test]
fn a_row_with_more_memory_is_valid_as_others_are() {
    fn more_memory(cell: &Cell, document: &mut Document) {
        set(document, "memtable_bytes", cell.row.memory << 20);
    }
    type Change = fn(&mut Document);
    let faults: [(&str, &str, Change); 5] = [
        ("silk-fig1", "served", |d| d.open_loop.iter_mut().for_each(|open| open.unfinished = open.requests)),
        ("silk-fig1", "were wrong", |d| d.wrong_reads = 1),
        ("silk-fig1", "not the same for all", |d| set(d, "workers", 9)),
        ("silk-fig4", "were wrong", |d| d.wrong_reads = 1),
        ("silk-fig4", "not the same for all", |d| d.config.threads += 1),
    ];
    for (id, why, fault) in faults {
        let sound = verdicts_of(id, 3, more_memory);
        let why_not =
            |all: &[StudyVerdict]| all.iter().filter_map(|v| v.why_not_valid.clone()).collect::<Vec<_>>();
        assert!(why_not(&sound).iter().all(|why| why.contains("do not tell")), "{id}: {sound:?}");
        let faulty = verdicts_of(id, 3, |cell, document| {
            more_memory(cell, document);
            if cell.row.memory > 1 {
                fault(document);
            }
        });
        assert!(why_not(&faulty).iter().any(|said| said.contains(why)), "{id}, {why}: {faulty:?}");
    }
}

/// Where all are asked for more than can be served, nobody has to serve it, but the baseline has to have trouble.
#[test]
fn an_overload_is_valid_where_unlimited_has_trouble() {
    let unserved = verdicts_of("silk-fig8b", 3, |_, document| {
        document.open_loop.iter_mut().for_each(|open| open.unfinished = open.requests / 2);
    });
    // Nobody can be longer than SILK, which holds it to the end.
    let (tie, sound): (Vec<_>, Vec<_>) =
        unserved.iter().partition(|verdict| verdict.id == "silk-fig8b.paced");
    assert!(sound.len() == 3 && sound.iter().all(|verdict| verdict.valid), "{unserved:?}");
    assert_eq!(tie[0].why_not_valid.as_deref(), Some("the cells do not tell this"));
    let longest = verdicts_of("silk-fig8b", 3, |cell, document| {
        if cell.row.name == "silk" {
            document.windows.iter_mut().skip(5).for_each(|window| window.p99_us = Some(1e5));
        }
    });
    let paced = longest.iter().find(|verdict| verdict.id == "silk-fig8b.paced").unwrap();
    assert_eq!((paced.measured, paced.holds), (Some(15.0), Some(true)), "{paced:?}");
    let at_ease = verdicts_of("silk-fig8b", 3, |_, document| {
        document.stalls.count = Some(0);
        document.windows.iter_mut().for_each(|window| window.l0_runs = Some(3));
    });
    assert!(!at_ease.is_empty());
    for verdict in at_ease.iter().filter(|verdict| verdict.measured.is_some()) {
        let why = verdict.why_not_valid.as_deref().unwrap_or_default();
        assert!(verdict.holds.is_none() && why.contains("no trouble"), "{verdict:?}");
    }
}
