//! What reads teach: the keys that are read are told from the others, and a restart does not forget.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::metrics::HeatMetrics;
use evenkeel::testing::{ManualClock, SimulatedFileSystem};
use evenkeel::{Db, Options};

const DIR: &str = "/store";
const KEYS: u32 = 6000;

fn open(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>) -> Db {
    let options = Options {
        memtable_bytes: 64 << 10,
        table_bytes: 8 << 10,
        level_base_bytes: 64 << 10,
        ..Options::default()
    };
    let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::clone(clock) as _).without_threads().open().unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("tenant/0123456789abcdef/user{n:08}").into_bytes()
}

fn load(db: &Db) {
    for i in 0..KEYS {
        db.put(&key(i * 7919 % KEYS), &[7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

/// Enough gets of the keys from `from` on, a twentieth of all, for something to be learnt.
fn read(db: &Db, clock: &ManualClock, from: u32) {
    for i in 0..90_000u32 {
        db.get(&key(from + i * 31 % (KEYS / 20))).unwrap();
    }
    clock.advance(Duration::from_secs(10));
    db.step(&mut |_| None);
}

fn heat(db: &Db) -> HeatMetrics {
    db.metrics().keyspaces[0].heat.clone()
}

#[test]
fn what_is_read_is_foretold_and_a_restart_does_not_forget() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock);
    load(&db);
    assert_eq!(heat(&db).hot_bytes, 0.0, "nothing was read");
    (0..4).for_each(|_| read(&db, &clock, KEYS / 2));
    let learnt = heat(&db);
    assert!(learnt.operations > 200_000 && learnt.learnt_from > 200_000, "{learnt:?}");
    assert!(learnt.hot_bytes < 0.25 && learnt.hot_reads > 0.6, "{learnt:?}");
    assert!(learnt.explained.iter().flatten().any(|part| *part > 0.5), "{learnt:?}");
    db.close().unwrap();
    // The first slice after it is foretold by what was learnt before.
    let path = Path::new(DIR).join("HEAT");
    let file = fs.contents(&path).unwrap();
    let db = open(&fs, &clock);
    assert_eq!(heat(&db).learnt_from, learnt.learnt_from);
    (0..2).for_each(|_| read(&db, &clock, KEYS / 2));
    assert!(heat(&db).hot_reads > 0.6, "{:?}", heat(&db));
    db.close().unwrap();
    for damaged in [&file[..file.len() / 2], b"", b"EVENKEEL HEAT 9"] {
        fs.set_contents(&path, damaged).unwrap();
        let db = open(&fs, &clock);
        assert_eq!(heat(&db).learnt_from, 0, "it learns anew");
        assert_eq!(db.get(&key(1)).unwrap().as_deref(), Some(&[7; 100][..]));
        db.close().unwrap();
    }
}

#[test]
fn a_store_that_was_not_read_has_no_file_for_it() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock);
    load(&db);
    clock.advance(Duration::from_secs(600));
    db.step(&mut |_| None);
    db.close().unwrap();
    assert!(fs.contents(&Path::new(DIR).join("HEAT")).is_none());
}

#[test]
fn what_is_learnt_is_written_now_and_then() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = open(&fs, &clock);
    load(&db);
    let saved = || fs.contents(&Path::new(DIR).join("HEAT"));
    clock.advance(Duration::from_secs(60));
    read(&db, &clock, 0);
    let first = saved().unwrap();
    read(&db, &clock, 0);
    assert_eq!(saved().unwrap(), first, "ten seconds later it is not written again");
    clock.advance(Duration::from_secs(60));
    read(&db, &clock, 0);
    assert_ne!(saved().unwrap(), first);
}
