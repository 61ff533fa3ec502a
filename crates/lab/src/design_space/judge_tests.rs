//! Verdicts on made-up figures: one that holds, one that does not, and all that makes one not valid.

use super::*;
use crate::base::provenance::Host;
use crate::design_space::cells::Measured;
use crate::design_space::measure::Figures;
use crate::design_space::point::{LARGE, Point};
use crate::design_space::study::ratio;
use crate::verdicts::expected::Bar;
use crate::verdicts::rounds::seed_of;

const TIER: Point = LARGE.with("tier");

const STUDY: Study = Study {
    id: "made-up",
    title: "",
    points: || vec![LARGE, TIER],
    claims: &[
        Claim {
            id: "made-up.moved",
            observation: "O1",
            text: "moved",
            number: |t| ratio(t.of(&LARGE, "moved")?, t.of(&TIER, "moved")?),
            reason: "because",
        },
        Claim {
            id: "made-up.time",
            observation: "O4",
            text: "time",
            number: |t| ratio(t.of(&LARGE, "job_us")?, t.of(&TIER, "job_us")?),
            reason: "",
        },
    ],
    plots: &[],
};

/// Cells of as many rounds as there are ratios of `lo+1` to `tier`.
fn finished(ratios: &[f64]) -> Vec<Finished> {
    let cell = |(i, point, figure): (usize, Point, f64)| Finished {
        point: point.name(),
        seed: seed_of(i as u16 + 1),
        arguments: Vec::new(),
        program: String::new(),
        wall_seconds: 1.0,
        repeats: 0,
        host: Host::default(),
        measured: Measured {
            strategy: String::new(),
            figures: Figures::from([("moved".to_owned(), figure), ("job_us".to_owned(), figure)]),
            others_cores: Some(0.0),
            direct_io: true,
        },
    };
    let rounds = ratios.iter().enumerate();
    rounds.flat_map(|(i, ratio)| [(i, LARGE, *ratio * 2.0), (i, TIER, 2.0)].map(cell)).collect()
}

fn judged(finished: &[Finished], rounds: u16, quick: bool) -> Vec<StudyVerdict> {
    let planned = crate::design_space::cells::plan(&[&STUDY], 1..=rounds);
    let bar = |bar| Expected { bar, goal: None, paper: Some("as much".to_owned()) };
    let bars = [("made-up.moved", bar(Bar::Between(2.0, 6.0))), ("made-up.time", bar(Bar::AtLeast(2.0)))];
    let bars = bars.map(|(id, bar)| (id.to_owned(), bar)).into();
    judge(&STUDY, &bars, &Evidence { planned: &planned, finished, failed: &[], quick })
}

#[test]
fn a_claim_holds_or_does_not_and_says_how_clearly() {
    for (ratios, measured, holds, clear) in [
        ([3.0, 2.5, 4.0], 3.0, true, true),
        ([3.0, 1.5, 4.0], 3.0, true, false),
        ([1.0, 1.5, 2.5], 1.5, false, false),
        ([7.0, 8.0, 9.0], 8.0, false, true),
    ] {
        let v = &judged(&finished(&ratios), 3, false)[0];
        assert_eq!(
            (v.valid, v.measured, v.holds, v.clear),
            (true, Some(measured), Some(holds), Some(clear)),
            "{v:?}"
        );
        assert_eq!(v.note.as_deref(), (!holds).then_some("because"), "a reason is for what does not hold");
        assert_eq!((v.runs, v.observation.as_str(), v.quick), (3, "O1", false));
    }
}

fn why(finished: &[Finished], rounds: u16, claim: usize) -> Option<String> {
    let v = judged(finished, rounds, false).swap_remove(claim);
    assert_eq!((v.valid, v.holds.is_some()), (v.why_not_valid.is_none(), v.why_not_valid.is_none()));
    v.why_not_valid
}

#[test]
fn what_is_missing_or_disturbed_is_not_valid() {
    let three = finished(&[3.0; 3]);
    assert_eq!(why(&three, 3, 0), None);
    assert_eq!(why(&three[..5], 3, 0).as_deref(), Some("not run: 1 of 3 rounds"));
    assert_eq!(why(&three[..4], 2, 0).as_deref(), Some("2 rounds tell; this needs 3"));
    assert!(judged(&three[..2], 1, true)[0].valid, "one round is enough for what is not to be quoted");

    // Times mind who else uses the machine; what is counted does not.
    let mut busy = three.clone();
    busy[3].measured.others_cores = Some(0.5);
    assert_eq!(why(&busy, 3, 0), None);
    assert_eq!(why(&busy, 3, 1).as_deref(), Some("others used the CPU while tier-10M was measured"));
    let mut cached = three.clone();
    cached[0].measured.direct_io = false;
    assert!(why(&cached, 3, 1).unwrap().contains("no direct I/O"));
    let mut moved = three;
    moved[5].host.cpu = Some("another".to_owned());
    assert_eq!((why(&moved, 3, 0), why(&moved, 3, 1).is_some()), (None, true));
}

#[test]
fn a_point_that_fails_is_named() {
    let planned = crate::design_space::cells::plan(&[&STUDY], 1..=3);
    let failed = [(TIER.name(), "no space".to_owned())];
    let bars = [("made-up.moved".to_owned(), Expected { bar: Bar::AtLeast(1.0), goal: None, paper: None })];
    let mut others = finished(&[3.0; 3]);
    others.retain(|cell| cell.point == LARGE.name());
    let evidence = Evidence { planned: &planned, finished: &others, failed: &failed, quick: false };
    let v = judge(&STUDY, &bars.into(), &evidence).swap_remove(0);
    assert_eq!(v.why_not_valid.as_deref(), Some("tier-10M failed: no space"));
}
