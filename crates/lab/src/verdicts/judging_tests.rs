//! Verdicts on documents made by hand: a table of what the runs say, and what is said of them.

use std::collections::BTreeMap;

use super::*;
use crate::experiments::{ALL, BASELINE, find};
use crate::results::comparison::Run;
use crate::results::document::OpenLoop;
use crate::results::report::sample;
use crate::results::settings::Settings;
use crate::run::steady::{Steady, SteadyLatency};
use crate::verdicts::cells::{Asked, Scale, plan};
use crate::verdicts::expected::expected;
use crate::verdicts::verdict_table::{COLUMNS, text};

/// A finished cell whose throughput and latencies are these.
fn finished(cell: &LabCell, throughput: f64, us: f64) -> Finished {
    let mut document = sample::document(&cell.system.engine, 3);
    document.throughput_ops_per_sec = throughput;
    let mut latency = document.latency_us["read"].clone();
    (latency.p99, latency.p999, latency.max) = (us, us * 2.0, us * 10.0);
    document.latency_us = BTreeMap::from([("insert".to_owned(), latency)]);
    (document.others_cores, document.steady) = (Some(0.01), None);
    Finished {
        experiment: cell.experiment.to_owned(),
        work: cell.work.name.to_owned(),
        seed: cell.seed(),
        asked: Asked {
            arguments: Vec::new(),
            store: None,
            crash: None,
            device: None,
            program: "p".to_owned(),
        },
        wall_seconds: 1.0,
        run: Run { settings: cell.system.settings.name().to_owned(), repeats: 0, document },
    }
}

/// A run's tails without so many of its seven seconds.
fn steady(left_out_seconds: u64, us: f64) -> Steady {
    let latency = SteadyLatency { count: 1, p50: us, p99: us, p999: us * 2.0, max: us * 10.0 };
    Steady {
        seconds: 7,
        left_out_seconds,
        worst_second_p99_us: Some(us * 3.0),
        latency_us: BTreeMap::from([("insert".to_owned(), latency)]),
        ..Steady::default()
    }
}

/// A load of which such a share was done in time.
fn load(completed_share: f64) -> OpenLoop {
    OpenLoop { completed_share, ..sample::open_loop() }
}

struct Case {
    planned: Vec<LabCell>,
    finished: Vec<Finished>,
    failed: Vec<Failed>,
    quick: bool,
}

impl Case {
    /// All cells of an experiment with `ours` and `theirs` (throughput, p99) in turn.
    fn new(id: &str, rounds: Option<u16>, ours: &[(f64, f64)], theirs: &[(f64, f64)]) -> Case {
        let engines = [OURS.to_owned(), BASELINE.to_owned()];
        let chosen = [find(id).unwrap()];
        let planned = plan(&chosen, ALL, &engines, &[Settings::Equal], Scale::full(rounds));
        let figures = |cell: &LabCell| {
            let all = if cell.system.engine == OURS { ours } else { theirs };
            all[usize::from(cell.round - 1) % all.len()]
        };
        let finished = planned.iter().map(|cell| finished(cell, figures(cell).0, figures(cell).1)).collect();
        Case { planned, finished, failed: Vec::new(), quick: false }
    }

    fn verdicts(&self, id: &str) -> Vec<Verdict> {
        let evidence = Evidence {
            planned: &self.planned,
            finished: &self.finished,
            failed: &self.failed,
            quick: self.quick,
        };
        judge(find(id).unwrap(), &expected(), &evidence)
    }

    fn verdict(&self, id: &str) -> Verdict {
        let experiment = id.split('.').next().unwrap();
        let mut all = self.verdicts(experiment).into_iter();
        all.find(|verdict| verdict.id == id).unwrap_or_else(|| panic!("no verdict {id}"))
    }
}

const FILL: &str = "peers-fill.throughput.equal";
const WORST: &str = "peers-fill.worst-put.equal";

#[test]
fn bars_are_held_against_ratios_of_medians() {
    // throughputs of ours, of theirs: ratio, holds, clear, goal met
    let table: [(&[f64], &[f64], f64, bool, bool, bool); 5] = [
        (&[400.0], &[100.0], 4.0, true, true, true),
        (&[200.0], &[100.0], 2.0, true, true, false),
        (&[160.0, 140.0, 160.0, 160.0, 160.0], &[100.0], 1.6, true, false, false),
        (&[140.0, 160.0, 140.0, 140.0, 140.0], &[100.0], 1.4, false, false, false),
        (&[50.0], &[100.0], 0.5, false, true, false),
    ];
    for (ours, theirs, ratio, holds, clear, goal) in table {
        let pairs = |figures: &[f64]| figures.iter().map(|&x| (x, 5.0)).collect::<Vec<_>>();
        let v = Case::new("peers-fill", None, &pairs(ours), &pairs(theirs)).verdict(FILL);
        assert!((v.measured.unwrap() - ratio).abs() < 1e-9 && v.valid && v.runs == 5, "{v:?}");
        assert_eq!((v.holds, v.clear, v.goal_met), (Some(holds), Some(clear), Some(goal)), "{v:?}");
    }
}

#[test]
fn tails_are_clear_from_twofold_on_and_a_goal_may_be_a_figure() {
    // p99 of ours, of theirs: worst put is ten times it
    for (ours, theirs, holds, clear, goal) in [
        (10.0, 100.0, true, true, true),
        (60.0, 100.0, true, false, true),
        (150.0, 100.0, false, false, false),
        (300.0, 100.0, false, true, false),
        (150.0, 1000.0, true, true, false),
    ] {
        let v = Case::new("peers-fill", None, &[(1.0, ours)], &[(1.0, theirs)]).verdict(WORST);
        assert_eq!((v.holds, v.clear, v.goal_met), (Some(holds), Some(clear), Some(goal)), "{v:?}");
        assert_eq!(v.engines.len(), 2);
        assert_eq!(v.engines[1].median, Some(theirs * 10.0));
    }
}

#[test]
fn what_is_not_valid_has_no_verdict_and_says_why() {
    let case = |rounds| Case::new("peers-fill", rounds, &[(400.0, 5.0)], &[(100.0, 50.0)]);
    let not_valid = |case: &Case, id: &str, why: &str| {
        let v = case.verdict(id);
        assert_eq!((v.valid, v.holds, v.clear, v.goal_met), (false, None, None, None), "{v:?}");
        assert!(v.why_not_valid.as_ref().unwrap().contains(why), "{v:?}");
    };
    let mut some = case(None);
    some.finished.truncate(4);
    not_valid(&some, FILL, "not run: 6 of 10 cells");

    assert!(case(Some(3)).verdict(FILL).valid);
    not_valid(&case(Some(3)), WORST, "3 runs of each engine tell; this needs 5");

    let mut noisy = case(None);
    noisy.finished[3].run.document.others_cores = Some(0.5);
    not_valid(&noisy, FILL, "others used the CPU while rocksdb was measured");

    let mut halted = case(None);
    halted.finished[2].run.document.steady = Some(steady(4, 1.0));
    not_valid(&halted, FILL, "the machine itself stood still for most seconds while evenkeel was measured");

    let mut moved = case(None);
    moved.finished[3].run.document.provenance.as_mut().unwrap().host.cores = Some(64);
    not_valid(&moved, FILL, "one machine");

    let mut alone = case(None);
    alone.planned.retain(|cell| cell.system.engine == OURS);
    not_valid(&alone, FILL, "--engine rocksdb");

    let mut failed = case(None);
    failed.failed.push(Failed {
        experiment: "peers-fill",
        work: "fillrandom",
        engine: BASELINE.to_owned(),
        settings: "equal",
        why: "no space".to_owned(),
    });
    not_valid(&failed, FILL, "rocksdb failed: no space");

    let mut silent = case(None);
    silent.finished.iter_mut().for_each(|cell| cell.run.document.latency_us.clear());
    not_valid(&silent, WORST, "0 runs of each engine tell");
}

/// Over all seconds the other is better, without halts we are; what decides is known of all runs or of none.
#[test]
fn a_machine_that_stood_still_decides_no_verdict() {
    let mut case = Case::new("peers-ycsb", None, &[(1.0, 5000.0)], &[(1.0, 500.0)]);
    for cell in &mut case.finished {
        let us = if cell.run.document.engine == OURS { 5.0 } else { 50.0 };
        cell.run.document.steady = Some(steady(2, us));
    }
    for (claim, ours, ratio) in [("p99", 5.0, 0.1), ("p999", 10.0, 0.1), ("worst", 15.0, 0.1)] {
        let v = case.verdict(&format!("peers-ycsb.a-20k-{claim}.equal"));
        assert_eq!((v.valid, v.holds, v.measured), (true, Some(true), Some(ratio)), "{v:?}");
        assert_eq!(v.engines.iter().find(|e| e.engine == OURS).unwrap().median, Some(ours));
        assert!(v.note.as_ref().unwrap().contains("without 20 of 70 seconds"), "{v:?}");
    }
    case.finished[3].run.document.steady = None;
    let v = case.verdict("peers-ycsb.a-20k-p99.equal");
    assert_eq!((v.holds, v.measured, v.note), (Some(false), Some(10.0), None));

    let mut fill = Case::new("peers-fill", None, &[(400.0, 5.0)], &[(100.0, 5.0)]);
    fill.finished.iter_mut().for_each(|cell| cell.run.document.steady = Some(steady(2, 1.0)));
    let v = fill.verdict(FILL);
    assert_eq!((v.measured, v.note), (Some(4.0), None), "halts are left out of tails alone");
}

#[test]
fn a_quick_run_is_judged_by_one_round_and_marked() {
    let mut case = Case::new("peers-fill", Some(1), &[(400.0, 5.0)], &[(100.0, 50.0)]);
    case.quick = true;
    let v = case.verdict(FILL);
    assert!(v.valid && v.quick && v.holds == Some(true), "{v:?}");
}

/// Who cannot take a load that the baseline takes has lost, whatever the latencies of the requests that came through.
#[test]
fn a_load_that_did_not_come_through_is_no_short_tail() {
    let mut case = Case::new("peers-ycsb", None, &[(1.0, 5.0)], &[(1.0, 500.0)]);
    let id = "peers-ycsb.a-20k-p99.equal";
    assert_eq!(case.verdict(id).holds, Some(true));
    for cell in &mut case.finished {
        let share = if cell.run.document.engine == OURS { 0.9 } else { 1.0 };
        cell.run.document.open_loop = Some(load(share));
    }
    let v = case.verdict(id);
    assert_eq!((v.valid, v.holds, v.goal_met), (true, Some(false), Some(false)), "{v:?}");
    assert!(v.note.unwrap().contains("keep up"));
    for cell in &mut case.finished {
        cell.run.document.open_loop = Some(load(0.9));
    }
    let v = case.verdict(id);
    assert!(!v.valid && v.why_not_valid.unwrap().contains("rocksdb did not keep up"));
}

#[test]
fn the_table_fits_the_terminal() {
    let mut case = Case::new("peers-ycsb", None, &[(1.0, 5.0)], &[(1.0, 500.0)]);
    let mut verdicts = case.verdicts("peers-ycsb");
    case.finished.clear();
    verdicts.extend(case.verdicts("peers-ycsb"));
    let table = text(&verdicts);
    for part in [
        "peers-ycsb, equal",
        "  a-20k-p99 ",
        "holds",
        "goal met",
        "not valid",
        "not run: 10 of 10 cells",
        "≤ 1.00x",
    ] {
        assert!(table.contains(part), "no `{part}` in {table}");
    }
    let widest = table.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= COLUMNS, "{widest}");
    case.quick = true;
    assert!(text(&case.verdicts("peers-ycsb")).contains("not to be quoted"));
    assert!(serde_json::to_string(&verdicts).unwrap().contains("\"why_not_valid\""));
}

#[test]
fn nothing_is_said_of_a_work_that_was_left_out() {
    let mut case = Case::new("peers-ycsb", None, &[(1.0, 1.0)], &[(1.0, 2.0)]);
    case.planned.retain(|cell| cell.work.name.starts_with("f-"));
    let ids: Vec<String> = case.verdicts("peers-ycsb").into_iter().map(|verdict| verdict.id).collect();
    assert!(ids.len() == 9 && ids.iter().all(|id| id.starts_with("peers-ycsb.f-")), "{ids:?}");
}

/// The cells of an experiment that compares with several rivals.
fn calm() -> Vec<LabCell> {
    let calm = find("peers-calm").unwrap();
    let engines: Vec<String> = [OURS].iter().chain(calm.rivals).map(|name| (*name).to_owned()).collect();
    plan(&[calm], ALL, &engines, &[Settings::Equal], Scale::full(None))
}

/// Of several rivals a ratio is to the best that kept up with the load, whichever that is for the figure.
#[test]
fn a_claim_compares_with_the_best_rival_that_keeps_up() {
    let rivals = [("rocksdb", 100.0), ("rocksdb-auto-tuned", 50.0), ("rocksdb-low-priority", 20.0)];
    let planned = calm();
    let us = |engine: &str| match engine {
        OURS => 5.0,
        _ => rivals.iter().find(|(name, _)| *name == engine).map_or(200.0, |(_, us)| *us),
    };
    let all: Vec<Finished> =
        planned.iter().map(|cell| finished(cell, 1.0, us(&cell.system.engine))).collect();
    let mut case = Case { planned, finished: all, failed: Vec::new(), quick: false };
    let id = "peers-calm.a-50-p99.equal";
    let best = case.verdict(id);
    assert_eq!((best.baseline.as_str(), best.measured), ("rocksdb-low-priority", Some(0.25)), "{best:?}");
    assert_eq!((best.valid, best.holds), (true, Some(false)));
    assert!(best.note.unwrap().contains("rocksdb-low-priority, the best of 5"));
    // It did not end what came, once.
    let late = case.finished.iter_mut().find(|cell| {
        cell.work == "a-50" && cell.run.document.engine == "rocksdb-low-priority" && cell.seed == 44
    });
    late.unwrap().run.document.open_loop = Some(load(0.5));
    let next = case.verdict(id);
    assert_eq!((next.baseline.as_str(), next.measured), ("rocksdb-auto-tuned", Some(0.1)), "{next:?}");
    assert_eq!((next.holds, next.goal_met), (Some(true), Some(false)));
    // All that were to be run have to have run, or the best may be missing.
    case.finished.retain(|cell| cell.run.document.engine != "rocksdb-auto-tuned");
    assert!(case.verdict(id).why_not_valid.unwrap().starts_with("not run: 5 of 30"));
    // Nor may one be left out.
    case.planned.retain(|cell| cell.system.engine != "rocksdb-auto-tuned");
    assert!(case.verdict(id).why_not_valid.unwrap().contains("add --engine rocksdb-auto-tuned"));
}

/// What a share of a rate is worth goes by the run that found it, and a tail beside no compaction says nothing of compactions.
#[test]
fn a_share_of_a_bad_rate_and_a_run_that_compacts_nothing_are_not_valid() {
    let planned = calm();
    let judged = |change: &dyn Fn(&mut Finished)| {
        let mut finished: Vec<Finished> = planned.iter().map(|cell| finished(cell, 1.0, 5.0)).collect();
        finished.iter_mut().for_each(change);
        let case = Case { planned: planned.clone(), finished, failed: Vec::new(), quick: false };
        case.verdict("peers-calm.n-80-p99.equal")
    };
    assert!(judged(&|_| ()).valid, "{:?}", judged(&|_| ()));
    let why = |change: &dyn Fn(&mut Finished)| judged(change).why_not_valid.unwrap_or_default();
    let finder = |cell: &Finished| cell.work == "n-sustained";
    let disturbed = why(&|cell| cell.run.document.others_cores = Some(if finder(cell) { 1.0 } else { 0.0 }));
    assert!(disturbed.contains("while n-sustained was measured"), "{disturbed}");
    let idle = why(&|cell| {
        for window in &mut cell.run.document.windows {
            (window.flush_bytes, window.l0_bytes, window.deep_bytes) = (Some(1 << 20), Some(0), Some(0));
        }
    });
    assert!(idle.contains("compacted nothing while it was measured"), "{idle}");
}
