//! Keyspaces beside each other in the background: one that always wants more keeps no other from its turn, and what slowed
//! writers is gone when it is, whether they write on or not.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::testing::{ManualClock, SimulatedFileSystem};
use evenkeel::{Db, Event, Keyspace, KeyspaceOptions, Options};

/// Memtables enough that nothing is flushed before a test steps.
fn options() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        memtables: 64,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 1 << 20,
        l0_trigger: 4,
        workers: 1,
        reserve_bytes: 0,
        ..Options::default()
    }
}

/// What began, in order: the keyspace, and the class of the work.
type Begun = Arc<Mutex<Vec<(u64, String)>>>;

/// A store in which keyspace 1 writes five memtables for each of keyspace 2, and nothing is flushed yet.
fn busy_and_modest() -> (Db, Begun, Vec<u64>) {
    let begun = Begun::default();
    let noted = Arc::clone(&begun);
    let note = move |keyspace: u64, class: &str| noted.lock().unwrap().push((keyspace, class.to_owned()));
    let listen = move |event: &Event| match event {
        Event::FlushBegun { keyspace, .. } => note(keyspace.0, "flush"),
        Event::CompactionPicked { keyspace, class, .. } => note(keyspace.0, &class.to_string()),
        _ => {}
    };
    let builder = Db::builder("/store").options(options()).file_system(Arc::new(SimulatedFileSystem::new()));
    let builder = builder.clock(Arc::new(ManualClock::default())).listener(Arc::new(listen));
    let db = builder.without_threads().open().unwrap();
    let (busy, modest) = (keyspace(&db, "a"), keyspace(&db, "z"));
    let mut written = Vec::new();
    for n in 0..9 {
        (0..5).for_each(|_| fill(&busy, n));
        fill(&modest, n);
        written.extend([1, 1, 1, 1, 1, 2]);
    }
    (db, begun, written)
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.create_keyspace(name, Default::default()).unwrap()
}

/// A memtable full, and the first record of the next: it is immutable then.
fn fill(keyspace: &Keyspace, n: u32) {
    for i in 0..70_u32 {
        let key = (i * 7919 + n * 104_729) % 100_003;
        keyspace.put(format!("{key:06}").as_bytes(), &[n as u8; 100]).unwrap();
    }
}

fn l0_runs(db: &Db, name: &str) -> u64 {
    let metrics = db.metrics();
    let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.name == name).unwrap();
    keyspace.levels.first().map_or(0, |level| level.runs)
}

#[test]
fn memtables_are_flushed_in_the_order_in_which_they_filled() {
    let (db, begun, written) = busy_and_modest();
    while db.step(&mut |_| None) {}
    let begun = begun.lock().unwrap().clone();
    let flushed: Vec<u64> = begun.iter().filter(|(_, what)| what == "flush").map(|(id, _)| *id).collect();
    assert!(flushed.len() > 30, "{flushed:?}");
    // Memtables are not filled to the byte, so a few are in one: at any point the modest one has had its share.
    for end in 12..flushed.len().min(written.len()) {
        let modest = flushed[..end].iter().filter(|keyspace| **keyspace == 2).count();
        let share = written[..end].iter().filter(|keyspace| **keyspace == 2).count();
        assert!(modest + 2 >= share && modest <= share + 2, "{modest} and {share} of {end}: {flushed:?}");
    }
}

#[test]
fn compactions_have_their_turns_among_keyspaces() {
    let (db, begun, _) = busy_and_modest();
    // All is flushed, and one job is open, in the only place.
    while db.step(&mut |_| None) {}
    assert!(
        l0_runs(&db, "a") > 20 && l0_runs(&db, "z") > 4,
        "{} and {}",
        l0_runs(&db, "a"),
        l0_runs(&db, "z")
    );
    while db.step(&mut |runnable| runnable.first().map(|(i, _)| *i)) {}
    let out_of_l0 = begun.lock().unwrap().clone();
    let jobs: Vec<u64> = out_of_l0.iter().filter(|(_, what)| what == "l0-to-l1").map(|(id, _)| *id).collect();
    // There is more to do for the first than its first job did.
    assert!(jobs.iter().filter(|keyspace| **keyspace == 1).count() > 1, "{jobs:?}");
    assert_eq!(jobs[..2], [1, 2], "{jobs:?}");
    db.verify().unwrap();
}

/// Only writers measure what they are slowed for; when they stop, a look once a second does.
#[test]
fn writers_that_stop_leave_no_limit_behind() {
    let options = Options { memtables: 2, ..options() };
    let builder = Db::builder("/store").options(options).file_system(Arc::new(SimulatedFileSystem::new()));
    let db = builder.open().unwrap();
    db.create_keyspace("idle", KeyspaceOptions::default()).unwrap();
    let paused = db.pause_background().unwrap();
    for n in 0_u32.. {
        db.put(&n.to_be_bytes(), &[1; 100]).unwrap();
        if db.metrics().admission_bytes_per_sec.is_some() {
            break;
        }
    }
    // A limit is its keyspace's alone.
    let explain = |keyspace| db.control(&format!("explain {keyspace}")).unwrap();
    assert!(explain("default").contains("Writers: held back"), "{}", explain("default"));
    assert!(explain("idle").contains("Writers: nothing holds them back"), "{}", explain("idle"));
    drop(paused);
    db.wait_idle().unwrap();
    let (_never, nothing) = channel::<()>();
    let looks = (0..600).take_while(|_| {
        let _ = nothing.recv_timeout(Duration::from_millis(100));
        db.metrics().admission_bytes_per_sec.is_some()
    });
    assert!(looks.count() < 600, "a minute later writers are still said to be slowed");
}
