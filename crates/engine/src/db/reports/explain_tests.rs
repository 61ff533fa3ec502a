//! What `keel explain` says, as text.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::base::class::Class;
use crate::base::key_range::KeyRange;
use crate::base::units::KeyspaceId;
use crate::db::database::Db;
use crate::options::Options;
use crate::storage::simulated::SimulatedFileSystem;

#[track_caller]
fn check(e: &Explanation, expected: &str) {
    let lines = lines(e);
    assert_eq!(lines.join("\n"), expected.trim_matches('\n'));
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
}

fn quiet() -> Explanation {
    Explanation {
        keyspace: "default".to_owned(),
        strategy: "1-leveling".to_owned(),
        schedule: "unlimited".to_owned(),
        l0: L0Debt { runs: 1, wanted: 4, slack: 16 << 20, ..L0Debt::default() },
        memtables: (0, 2),
        ..Explanation::default()
    }
}

#[test]
fn a_store_in_shape() {
    check(
        &quiet(),
        "
Keyspace default, strategy 1-leveling, schedule unlimited

Writers: nothing holds them back
  L0 has 1 run, 4 wanted; 0 % of its room is used (writers slow from 50 %)
  0 memtables wait for a flush; 1 of 2 free

Under way: no compaction

Wanted: nothing, the tree is in shape
Debt: 0 B to write until no trigger fires
",
    );
}

#[test]
fn a_busy_store() {
    let job = |id, class, levels, state| JobState {
        id: JobId(id),
        keyspace: KeyspaceId(0),
        class,
        levels,
        bytes: 3 << 20,
        read_bytes: if id == 7 { 1 << 20 } else { 0 },
        reason: "runs, score 1.25 at L0".to_owned(),
        state,
        open_for: Duration::from_millis(1500),
        due_in: (id == 7).then_some(Duration::from_secs(12)),
    };
    let wanted = |what: &str, verdict| Wanted { what: what.to_owned(), verdict };
    let busy = Explanation {
        jobs: vec![
            job(7, Class::L0ToL1, (0, 1), "running"),
            job(5, Class::Deep, (1, 2), "set aside for a more urgent job"),
        ],
        wanted: vec![
            wanted("L0 (l0-to-l1): its trigger `runs`, score 2.00", Verdict::Blocked(vec![JobId(7)])),
            wanted("L1 (deep): its trigger `bytes`, score 1.50", Verdict::Next(1 << 20)),
            wanted("L2 (deep): its trigger `bytes`, score 1.10", Verdict::Next(2 << 20)),
            wanted("L3 (upkeep): more runs than its layout allows, score 1.00", Verdict::NoPlace),
            wanted("L4 (deep): room for the level above, score 1.00", Verdict::Nothing),
        ],
        debt: (vec![3 << 20, 0, 2 << 20], 2 << 10),
        distance: 1 << 10,
        l0: L0Debt { runs: 16, wanted: 4, debt: 12 << 20, slack: 16 << 20, ..L0Debt::default() },
        memtables: (1, 2),
        admission: [Some(2_097_152.0), None],
        placed: [1, 0],
        flushing: true,
        waiting: 2,
        failures: vec!["no space left".to_owned()],
        poisoned: Some("sync 000003.log: I/O error".to_owned()),
        snapshots: (2, Duration::from_secs(200), 9 << 20),
        ..quiet()
    };
    check(
        &busy,
        "
Keyspace default, strategy 1-leveling, schedule unlimited
The store is read-only: sync 000003.log: I/O error. Close and reopen it.
Background work failed and is tried again: no space left

Writers: held back
  2 callers wait for background work, or for the end of it
  L0 has 16 runs, 4 wanted; 75 % of its room is used (writers slow from 50 %)
  1 memtable waits for a flush, a flush is under way; 0 of 2 free
  Writes of this keyspace are let in at 2.0 MiB/s
  Compactions run at the clients' priority, for L0

Under way: 2 compactions
  job 7, l0-to-l1, L0 to L1, 1.0 MiB of 3.0 MiB read, for 1.50 s
    because of runs, score 1.25 at L0; running, to be done in 12.00 s
  job 5, deep, L1 to L2, 3.0 MiB, for 1.50 s
    because of runs, score 1.25 at L0; set aside for a more urgent job

Wanted, most urgent first:
  L0 (l0-to-l1): its trigger `runs`, score 2.00
    waits for job 7, which holds what it needs
  L1 (deep): its trigger `bytes`, score 1.50
    next, takes 1.0 MiB
  L2 (deep): its trigger `bytes`, score 1.10
    could start after that, takes 2.0 MiB
  L3 (upkeep): more runs than its layout allows, score 1.00
    waits for a worker: all are busy with work as urgent
  L4 (deep): room for the level above, score 1.00
    nothing that may start would help it now
Debt: 5.0 MiB to write until no trigger fires
  L0 3.0 MiB, L2 2.0 MiB
  2.0 KiB for its shape: 1.0 KiB are where the strategy would not have them
2 snapshots open, the oldest for 3 min 20 s: 9.0 MiB may be kept for it
",
    );
}

#[test]
fn a_schedule_is_named_as_the_brake() {
    let slow = Explanation {
        schedule: "fixed:1KiB".to_owned(),
        rate: Some(1024),
        placed: [1, 0],
        debt: (vec![9 << 20, 3 << 20], 0),
        wanted: vec![Wanted {
            what: "L1 (deep): its trigger `bytes`, score 3.26".to_owned(),
            verdict: Verdict::NoPlace,
        }],
        ..quiet()
    };
    check(
        &slow,
        "
Keyspace default, strategy 1-leveling, schedule fixed:1KiB

Writers: nothing holds them back
  L0 has 1 run, 4 wanted; 0 % of its room is used (writers slow from 50 %)
  0 memtables wait for a flush; 1 of 2 free

Under way: no compaction

Wanted, most urgent first:
  L1 (deep): its trigger `bytes`, score 3.26
    waits for a worker: all are busy, at the rate of fixed:1KiB
Debt: 12.0 MiB to write until no trigger fires
  L0 9.0 MiB, L1 3.0 MiB
  fixed:1KiB holds it to 1.0 KiB/s: about 6 h 49 min
",
    );
}

#[test]
fn places_that_others_have_are_said_to_be_theirs() {
    let says = |verdict, placed, rate| {
        let what = "L1 (deep): its trigger `bytes`, score 3.26".to_owned();
        let e = Explanation { wanted: vec![Wanted { what, verdict }], placed, rate, ..quiet() };
        wanted(&e)[2].trim().to_owned()
    };
    assert_eq!(says(Verdict::HeldBack, [1, 1], None), "held back by unlimited while the load is high");
    let table = [
        ([2, 0], None, "all are busy with work as urgent"),
        ([2, 0], Some(9), "all are busy, at the rate of unlimited"),
        ([0, 1], Some(9), "all are busy with other keyspaces' work (1 job)"),
        ([1, 2], None, "all are busy, also with other keyspaces' work (2 jobs)"),
    ];
    for (placed, rate, busy) in table {
        assert_eq!(says(Verdict::NoPlace, placed, rate), format!("waits for a worker: {busy}"));
    }
}

/// One worker, and two trees that want it: the second one has no job, and its own work alone tells nothing.
#[test]
fn a_tree_that_waits_for_anothers_job_says_so() {
    let builder = Db::builder(Path::new("/db")).file_system(Arc::new(SimulatedFileSystem::new()));
    let schedule = "unlimited".to_owned();
    let options = Options { workers: 1, l0_trigger: 2, reserve_bytes: 0, schedule, ..Options::default() };
    let db = builder.options(options).without_threads().open().unwrap();
    let [a, b] = ["a", "b"].map(|name| db.create_keyspace(name, Default::default()).unwrap());
    let store = &a.handle.store;
    store.background.lock().retry_at = Duration::MAX;
    for keyspace in [&a, &b, &a, &b] {
        [b"a", b"z"].into_iter().for_each(|key| keyspace.put(key, b"value").unwrap());
        keyspace.flush().unwrap();
    }
    store.background.lock().retry_at = Duration::ZERO;
    db.step(&mut |_| None);
    let says = |keyspace: &KeyspaceState| wanted(&gather(store, keyspace).unwrap());
    assert_eq!(says(a.state()), ["Wanted: nothing beyond what is under way"]);
    let waits = "waits for a worker: all are busy with other keyspaces' work (1 job)";
    assert_eq!(says(b.state())[2].trim(), waits);
}

#[test]
fn nothing_is_wanted_in_three_ways() {
    let first = |e: &Explanation| wanted(e)[0].clone();
    assert_eq!(first(&quiet()), "Wanted: nothing, the tree is in shape");
    let owing = Explanation { debt: (vec![1], 0), ..quiet() };
    assert_eq!(first(&owing), "Wanted: nothing that could begin now");
    let job = JobState {
        id: JobId(1),
        keyspace: KeyspaceId(0),
        class: Class::IntraL0,
        levels: (0, 0),
        bytes: 1,
        read_bytes: 0,
        reason: "merges flushes while older ones move down".to_owned(),
        state: "running",
        open_for: Duration::ZERO,
        due_in: None,
    };
    let busy = Explanation { jobs: vec![job], ..owing };
    assert_eq!(first(&busy), "Wanted: nothing beyond what is under way");
    assert_eq!(jobs(&busy)[2], "    it merges flushes while older ones move down; running");
}

#[test]
fn groups_say_why_they_are_hot_or_cold() {
    let group = |lo: &[u8], is_hot, heat, votes| GroupHeat {
        range: KeyRange::new(lo, None),
        runs: if is_hot { 1 } else { 3 },
        run_bound: if is_hot { 1 } else { 4 },
        bytes: 12 << 20,
        is_hot,
        heat,
        votes,
        from: 0.0125,
    };
    let groups = vec![
        group(b"", true, Some(0.8), 0.95),
        group(b"user:00001234567890123456789012345", false, Some(0.001), 0.0),
        group(b"x", true, None, 1.0),
    ];
    let said = lines(&Explanation { groups: vec![(2, groups)], ..quiet() });
    let at = said.iter().position(|line| line.starts_with("L2")).unwrap();
    assert_eq!(
        said[at..].join("\n"),
        "L2 by heat: 3 groups of keys, 2 of them leveled: read, or not known yet
  hot, from the first key: 12.0 MiB in 1 run
    0.80 looks a get; 95 % of it is in tables with 0.0125 or more
  cold, from user:0000123456789012345678901…: 12.0 MiB in 3 runs
    0.00 looks a get; 0 % of it is in tables with 0.0125 or more
  hot, from x: 12.0 MiB in 1 run
    nothing is known of its reads yet"
    );
    assert!(said.iter().all(|line| line.chars().count() <= 80), "{said:#?}");
}
