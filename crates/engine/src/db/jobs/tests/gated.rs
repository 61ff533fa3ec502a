//! What gates and bursts let go on once the load is high.

use std::sync::Arc;
use std::time::Duration;

use super::{fill, first, open_at, options, store};
use crate::base::class::Class;
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

/// DLC §4.1: of two deep jobs that run side by side the younger one waits for as long as the load is high, or until the other has ended.
#[test]
fn one_deep_job_goes_on_when_the_load_rises() {
    const KEYS: u32 = 4000;
    let strategy = |base| {
        format!(
            "when=saturation how=runs:1 much=file which=oldest; L0: when=runs how=runs:2 much=runs; size: base={base} ratio=100 sizes=fixed"
        )
    };
    let clock = Arc::default();
    let options = Options { strategy: Some(strategy("1GiB")), device_bytes_per_sec: 100 * MIB, ..options() };
    let db = open_at(&clock, Options { workers: 2, ..options });
    let keyspaces =
        [db.keyspace("default").unwrap(), db.create_keyspace("other", Default::default()).unwrap()];
    let mut random = Random::new(1);
    let settle = |base| {
        keyspaces.iter().for_each(|keyspace| keyspace.set_strategy(&strategy(base)).unwrap());
        for _ in 0..10_000 {
            db.step(&mut first);
            clock.advance(Duration::from_millis(10));
        }
        assert_eq!(db.metrics().jobs_open, 0);
    };
    // A second level, and a first one that goes there when it may no longer be as large.
    for base in ["64KiB", "1GiB"] {
        for keyspace in keyspaces.iter().chain(&keyspaces) {
            for key in 0..KEYS {
                let value: [u8; 500] = std::array::from_fn(|_| random.below(256) as u8);
                keyspace.put(&key.to_be_bytes(), &value).unwrap();
            }
            keyspace.flush().unwrap();
        }
        settle(base);
    }
    // What was written until now is no load.
    db.set_schedule("dlc-full:jobs=2,low=1KiB,softness=10000,high=1KiB,every=10ms").unwrap();
    keyspaces.iter().for_each(|keyspace| keyspace.set_strategy(&strategy("64KiB")).unwrap());
    let seen = |db: &Db| -> Vec<Class> {
        let mut classes = Vec::new();
        db.step(&mut |jobs| {
            classes.extend(jobs.iter().map(|(_, class)| *class));
            jobs.last().map(|(i, _)| *i)
        });
        classes
    };
    let begun = (0..10).any(|_| seen(&db) == [Class::Deep, Class::Deep]);
    assert!(begun, "{:?}", db.metrics().keyspaces);
    raise_load(&db, &clock);
    let oldest = store(&db).background.lock().jobs[0].id;
    let mut beside = 0;
    while store(&db).background.lock().jobs.first().is_some_and(|open| open.id == oldest) {
        assert_eq!(seen(&db).len(), 1);
        beside += usize::from(db.metrics().jobs_open == 2);
        clock.advance(Duration::from_millis(10));
    }
    assert!(beside > 3, "{beside} steps");
    while db.metrics().jobs_open > 0 {
        assert_eq!(seen(&db), [Class::Deep]);
        clock.advance(Duration::from_millis(10));
    }
    db.verify().unwrap();
}
