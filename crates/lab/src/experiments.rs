//! The experiments that there are, as one table. To add one, add it to its family's file and here, and its bars to
//! `expected.json`; `docs/lab.md` has the steps.

use crate::design_space::point::Point;
use crate::design_space::study::Study;
use crate::scheduling;
use crate::verdicts::experiment::Experiment;

mod calm;
mod cds;
mod cds_default;
mod cds_tuning;
mod cds_workload;
mod dlc;
mod ltg;
mod peers;
mod silk;

/// All, in the order in which they are listed and run.
pub const ALL: &[&Experiment] = &[
    &peers::FILL,
    &peers::FILL_SYNC,
    &peers::READ,
    &peers::YCSB,
    &peers::MAX_RATE,
    &peers::COST,
    &peers::OPEN,
    &calm::DISK,
    &calm::DEVICE,
];

/// Those over the design space of compactions, in the same order.
pub const STUDIES: &[&Study] = &[
    &cds_default::FIG4_WRITES,
    &cds_default::FIG4_READS,
    &cds::FIG5,
    &cds::FIG6,
    &cds::FIG7,
    &cds_workload::FIG8_UPDATES,
    &cds_workload::FIG8_DELETES,
    &cds_workload::FIG8_COUNT,
    &cds_workload::FIG8_ENTRY,
    &cds_tuning::FIG8_BUFFER,
    &cds_tuning::FIG8_PAGE,
    &cds::FIG9,
    &cds_tuning::FIG10,
    &cds_tuning::FIG11,
    &cds_tuning::FIG12,
    &cds_tuning::FIG13,
    &cds_tuning::FIG14,
    &ltg::FIG5,
    &ltg::FIG6,
    &ltg::FIG7,
    &ltg::FIG8,
    &ltg::FIG9,
    &ltg::FIG10,
    &ltg::FIG11,
    &ltg::FIG12,
    &ltg::MOVED,
    &ltg::UNIFORM,
];

/// Those over schedules, in the same order.
pub const SCHEDULES: &[&scheduling::study::Study] = &[
    &silk::FIG1,
    &silk::FIG4,
    &silk::FIG5,
    &silk::FIG6,
    &silk::FIG8A,
    &silk::FIG8B,
    &silk::FIG8C,
    &silk::FIG9,
    &silk::FIG10,
    &silk::FIG11,
    &silk::FIG12,
    &silk::FIG13,
    &dlc::FIG1,
    &dlc::FIG2,
    &dlc::FIG3,
    &dlc::FIG4,
    &dlc::FIG6,
    &dlc::FIG7,
    &dlc::FIG8,
    &dlc::FIG9,
    &dlc::FIG10,
];

/// Figures of the papers on schedules that are not reproduced, and why.
pub const NOT_REPRODUCED: &[(&str, &str)] = &[
    (
        "silk-fig2, silk-fig3",
        "timelines of single jobs; `keel bench --report DIR` draws what each class moved",
    ),
    (
        "silk-fig6, PebblesDB's end",
        "it runs out of memory after eight hours; a tree of that kind is not in the catalogue, so the run is of lazy leveling",
    ),
    ("silk-fig7", "the production load itself: `keel bench nutanix --shape nutanix`"),
    (
        "silk-fig8b, peaks of 10 to 100 s, and 90:10",
        "with valleys of 10 s the mean is above what the device sustains; only the peak without an end is run. Peaks are chosen by their \
         writes, so nine writes for a read would be the same load",
    ),
    (
        "dlc-fig3, the estimate by weights",
        "they come from a fit on the store that is to be estimated: `keel schedule fit` says by how much they are off there",
    ),
    ("dlc-fig5", "a drawing of the mechanism"),
    ("ltg-fig1, ltg-fig2, ltg-fig3, ltg-fig4", "drawings of the structure and of what turns into what"),
    (
        "ltg-fig5 to ltg-fig12, their values",
        "the paper does not give T, N, the number of intervals, or how often it trains: what is reproduced is the shape, over T of 4 to \
         10 and 1 to 4 GB, on SSDs instead of its HDD",
    ),
    (
        "dlc-fig11, dlc-fig12",
        "timelines of gets and of scans while L0 grows step by step, which say nothing of one schedule against another; `keel bench ycsb-e \
         --schedule dlc-full --report DIR` draws what ended beside the runs of L0, gets and scans in one line",
    ),
];

/// Why a figure is not reproduced, or not all of it.
pub fn not_reproduced(id: &str) -> Option<&'static str> {
    NOT_REPRODUCED.iter().find(|(ids, _)| ids.split(", ").any(|told| told == id)).map(|(_, why)| *why)
}

/// Stands for all experiments over a figure of many parts.
pub const FIGURES: &[&str] = &["cds-fig4", "cds-fig8", "silk-fig8"];

/// True if `typed` is the name of an experiment, or of the figure that it is a part of.
pub fn names(typed: &str, id: &str) -> bool {
    let part = |rest: &str| rest.len() == 1 && rest.chars().all(|c| c.is_ascii_lowercase());
    typed == id || (FIGURES.contains(&typed) && id.strip_prefix(typed).is_some_and(part))
}

/// The point of this name.
pub fn find_point(name: &str) -> Option<Point> {
    let points = STUDIES.iter().flat_map(|study| (study.points)());
    points.flat_map(|point| point.timed_by().into_iter().chain([point])).find(|point| point.name() == name)
}

/// The engine that most claims compare with.
pub const BASELINE: &str = "rocksdb";

/// The experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::design_space::measure::Figures;
    use crate::design_space::measure::tests::measured;
    use crate::design_space::study::{Over, Table};
    use crate::results::comparison::{ROUNDS_MIN, TAIL_ROUNDS_MIN};
    use crate::run::map_engine::MapEngine;
    use crate::verdicts::expected::{Bar, expected};
    use crate::verdicts::experiment::{Pace, find_work};
    use crate::workloads::catalog;

    #[test]
    fn every_claim_has_a_bar_and_every_bar_a_claim() {
        let bars = expected();
        let claims = ALL.iter().flat_map(|experiment| experiment.claims.iter().map(move |c| (experiment, c)));
        let mut named = BTreeSet::new();
        for (experiment, claim) in claims {
            assert_eq!(claim.id.split('.').next(), Some(experiment.id), "{}", claim.id);
            assert!(named.insert(claim.id.to_owned()), "{} is there twice", claim.id);
            let work = find_work(ALL, claim.of).unwrap_or_else(|| panic!("{}: no such work", claim.id));
            let rounds = if claim.take.tail() { TAIL_ROUNDS_MIN } else { ROUNDS_MIN };
            assert!(usize::from(work.rounds) >= rounds, "{}: too few rounds for a verdict", claim.id);
            let wanted = &bars[claim.id];
            let least = |bar: Bar| matches!(bar, Bar::RatioAtLeast(_) | Bar::AtLeast(_));
            let higher = claim.take.better() == crate::results::comparison::Better::Higher;
            for bar in [Some(wanted.bar), wanted.goal].into_iter().flatten() {
                assert_eq!(least(bar), higher, "{}: {bar:?} points the wrong way", claim.id);
            }
        }
        for study in STUDIES {
            for claim in study.claims {
                assert_eq!(claim.id.split('.').next(), Some(study.id), "{}", claim.id);
                assert!(named.insert(claim.id.to_owned()), "{} is there twice", claim.id);
                assert!(!bars[claim.id].bar.is_ratio(), "{}: there is no baseline", claim.id);
                assert!(bars[claim.id].paper.is_some(), "{}: what did the paper find?", claim.id);
            }
        }
        for study in SCHEDULES {
            for claim in study.claims {
                assert_eq!(claim.id.split('.').next(), Some(study.id), "{}", claim.id);
                assert!(named.insert(claim.id.to_owned()), "{} is there twice", claim.id);
                assert!(!bars[claim.id].bar.is_ratio() && bars[claim.id].paper.is_some(), "{}", claim.id);
            }
        }
        assert_eq!(named, bars.keys().cloned().collect());
    }

    /// Of both papers on schedules: the production load, drawings and timelines are reproduced by no experiment, and say so.
    #[test]
    fn each_figure_is_reproduced_or_says_why_not() {
        for (paper, figures) in [("silk", 13), ("dlc", 12)] {
            for figure in 1..=figures {
                let id = format!("{paper}-fig{figure}");
                let runs = SCHEDULES.iter().any(|study| names(&id, study.id));
                assert!(runs || not_reproduced(&id).is_some(), "{id}");
            }
        }
    }

    /// A claim asks for figures that a cell has, of points that its study runs; each observation is judged somewhere.
    #[test]
    fn studies_run_what_their_claims_ask_for() {
        let mut observations = BTreeSet::new();
        let mut kinds: std::collections::BTreeMap<String, Figures> = Default::default();
        for study in STUDIES {
            let points = (study.points)();
            // Which figures a cell has follows from what it reads.
            let kind = |point: &Point| format!("{:?} {:?}", point.reads, point.gets_beside);
            for point in &points {
                let measured = || measured(&MapEngine::default(), &point.scaled(1_000_000)).unwrap();
                kinds.entry(kind(point)).or_insert_with(measured);
            }
            for claim in study.claims {
                let table = Table::new(points.iter().map(|point| (point.name(), &kinds[&kind(point)])));
                assert!((claim.number)(&table).is_some(), "{}", claim.id);
                observations.insert(claim.observation);
            }
            for plot in study.plots {
                let drawn = |point: &Point| match &plot.over {
                    Over::Strategies(belongs) | Over::Figures(belongs, ..) => belongs(point),
                    Over::Parameter(at, _) => at(point).is_some(),
                };
                assert!(points.iter().any(drawn), "{}: nothing is drawn", plot.title);
            }
        }
        for observation in (1..=23).map(|n| format!("O{n}")) {
            assert!(observations.contains(observation.as_str()), "{observation} is not judged");
        }
    }

    /// What a claim asks for is what its study runs, on workloads that there are, beside a run without a schedule.
    #[test]
    fn claims_over_schedules_ask_for_rows_that_run() {
        let document = crate::results::report::sample::document("evenkeel", 60);
        let mut groups: std::collections::BTreeMap<String, scheduling::row::Row> = Default::default();
        for study in SCHEDULES {
            let rows = (study.rows)();
            for row in &rows {
                assert!(catalog::find(row.workload).is_some(), "{}", row.workload);
                assert_eq!(*groups.entry(row.id()).or_insert(*row), *row, "{} is two rows", row.id());
                let baseline = |other: &scheduling::row::Row| {
                    other.group() == row.group() && other.schedule == "unlimited"
                };
                assert!(rows.iter().any(baseline), "{}: nothing to compare with", row.id());
            }
            let table = scheduling::study::Table::new(rows.iter().map(|row| (row.id(), &document)));
            for claim in study.claims {
                let _ = (claim.number)(&table);
                let ids: BTreeSet<String> = rows.iter().map(scheduling::row::Row::id).collect();
                assert!(table.asked().is_subset(&ids) && !table.asked().is_empty(), "{}", claim.id);
            }
        }
        let cells = scheduling::cells::plan(SCHEDULES, 1..=3);
        let before = |cell: &scheduling::cells::Cell| cells.iter().position(|other| other == cell);
        for cell in &cells {
            let probe = scheduling::cells::Cell { row: cell.row.probe(), round: 1 };
            assert!(
                cell.row == probe.row || before(&probe) < before(cell),
                "{} comes before its probe",
                cell.title()
            );
        }
    }

    #[test]
    fn no_two_points_have_one_name() {
        let mut named: std::collections::BTreeMap<String, Point> = Default::default();
        for point in STUDIES.iter().flat_map(|study| (study.points)()) {
            let name = point.name();
            assert_eq!(*named.entry(name.clone()).or_insert(point), point, "{name}");
            assert_eq!(find_point(&name), Some(point));
        }
        assert_eq!(find_point("lo+1-11M"), None);
        let eight: Vec<&str> = STUDIES.iter().filter(|s| names("cds-fig8", s.id)).map(|s| s.id).collect();
        assert_eq!(eight.len(), 6, "{eight:?}");
        assert!(!names("cds-fig1", "cds-fig14") && names("cds-fig4", "cds-fig4e"));
    }

    #[test]
    fn works_are_workloads_and_names_are_unique() {
        let mut names = BTreeSet::new();
        for experiment in ALL {
            assert_eq!(find(experiment.id).map(|e| e.title), Some(experiment.title));
            for (at, work) in experiment.works.iter().enumerate() {
                assert!(names.insert((experiment.id, work.name)), "{} is there twice", work.name);
                let workload = catalog::find(work.workload).unwrap_or_else(|| panic!("{}", work.workload));
                assert_eq!(workload.fills(), !work.data.settled, "{}", work.name);
                if let Pace::Share { of, .. } = work.pace {
                    let before = experiment.works[..at].iter().find(|other| other.name == of);
                    let found = before.unwrap_or_else(|| panic!("{}: {of} does not run before", work.name));
                    assert!(matches!(found.pace, Pace::Highest { .. }));
                }
            }
        }
        assert_eq!(find("peers-fil").map(|e| e.id), None);
    }
}
