//! The experiments that there are, as one table. To add one, add it to its family's file and here, and its bars to
//! `expected.json`; `docs/lab.md` has the steps.

use crate::experiment::Experiment;

mod peers;

/// All, in the order in which they are listed and run.
pub const ALL: &[&Experiment] = &[
    &peers::FILL,
    &peers::FILL_SYNC,
    &peers::READ,
    &peers::YCSB,
    &peers::MAX_RATE,
    &peers::COST,
    &peers::OPEN,
];

/// The engine that claims compare with.
pub const BASELINE: &str = "rocksdb";

/// The engines that are run unless somebody says otherwise: ours, the one that claims compare with, and those shown beside.
pub const ENGINES: [&str; 5] =
    [crate::settings::OURS, BASELINE, "rocksdb-recycle", "rocksdb-low-priority", "fjall"];

/// The experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog;
    use crate::comparison::{ROUNDS_MIN, TAIL_ROUNDS_MIN};
    use crate::expected::{Bar, expected};
    use crate::experiment::{Pace, find_work};

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
            let higher = claim.take.better() == crate::comparison::Better::Higher;
            for bar in [Some(wanted.bar), wanted.goal].into_iter().flatten() {
                assert_eq!(least(bar), higher, "{}: {bar:?} points the wrong way", claim.id);
            }
        }
        assert_eq!(named, bars.keys().cloned().collect());
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
