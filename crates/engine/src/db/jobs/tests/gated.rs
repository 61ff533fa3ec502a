//! What gates and bursts let go on once the load is high.

use std::sync::Arc;
use std::time::Duration;

use super::{fill, first, open_at, options, store};
use crate::base::clock::ManualClock;
use crate::base::random::Random;
use crate::base::units::MIB;
use crate::db::database::Db;
use crate::options::Options;
use crate::table::meta::Born;

/// Under a schedule for which each read makes the load high, for good: it is.
fn raise_load(db: &Db, clock: &ManualClock) {
    assert!(db.get(&1_u32.to_be_bytes()).unwrap().is_some());
    clock.advance(Duration::from_millis(10));
    db.step(&mut |_| None);
    assert_eq!(db.metrics().schedule.load_is_high, Some(true));
}

/// It commits what it has, and nothing of L0 begins as long as the load is high.
#[test]
fn a_job_of_l0_lets_go_when_the_load_rises() {
    let clock = Arc::default();
    let schedule = "dlc-full:low=1KiB,softness=10000,high=1KiB,every=10ms".to_owned();
    let db = open_at(&clock, Options { schedule, device_bytes_per_sec: 100 * MIB, ..options() });
    let mut random = Random::new(1);
    (0..2).for_each(|_| fill(&db, &mut random));
    let store = store(&db);
    let started = || store.background.lock().jobs.first().is_some_and(|open| open.waits_since.is_none());
    while !started() {
        db.step(&mut first);
        clock.advance(Duration::from_millis(1));
    }
    raise_load(&db, &clock);
    for _ in 0..100 {
        db.step(&mut first);
        clock.advance(Duration::from_millis(10));
    }
    let metrics = db.metrics();
    assert_eq!((metrics.jobs_yielded, metrics.jobs_open), (1, 0));
    let merged: u64 =
        metrics.io.iter().filter(|(class, ..)| class == "l0-to-l1").map(|(.., written)| written).sum();
    assert!((1..4 * MIB).contains(&merged), "{merged} of 16 MiB");
    db.verify().unwrap();
}

/// A part takes flushed runs alone, and its output is none.
#[test]
fn what_a_part_of_a_burst_has_written_no_other_part_takes() {
    let clock = Arc::default();
    let schedule = "dlc-burst-part:burst-runs=3,low=1KiB,softness=10000,high=1KiB,every=10ms".to_owned();
    let options = Options { schedule, device_bytes_per_sec: 100 * MIB, ..options() };
    let db = open_at(&clock, options);
    let mut random = Random::new(1);
    fill(&db, &mut random);
    raise_load(&db, &clock);
    let keyspace = db.keyspace("default").unwrap();
    let born = || -> Vec<Born> {
        let view = keyspace.state().view.load();
        view.version.levels[0].runs().flat_map(|run| &run.tables).map(|table| table.meta.born).collect()
    };
    assert_eq!(born(), [Born::Flush]);
    for parts in 1..=4 {
        while born().iter().filter(|born| **born == Born::Flush).count() < 3 {
            fill(&db, &mut random);
        }
        for _ in 0..200 {
            db.step(&mut first);
            clock.advance(Duration::from_millis(10));
        }
        assert_eq!(born(), vec![Born::Burst; parts]);
        assert_eq!(db.metrics().schedule.bursts, [parts as u64, 0]);
    }
}
