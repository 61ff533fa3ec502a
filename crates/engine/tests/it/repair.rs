//! Repair: whatever file is damaged, the store opens again with what is whole, nothing is deleted, and what is lost is said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel::fs::FileSystem as _;
use evenkeel::repair::RepairReport;
use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Builder, Db, KeyspaceOptions, Options};

use super::faults::{Content, scanned};

const DIR: &str = "/store";
const KEYS: u32 = 400;

/// Every value that each key ever had, the last one last.
type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

fn builder(fs: &SimulatedFileSystem) -> Builder {
    let options = Options {
        memtable_bytes: 8 << 10,
        table_bytes: 8 << 10,
        block_bytes: 512,
        level_base_bytes: 32 << 10,
        level_ratio: 4,
        reserve_bytes: 0,
        ..Options::default()
    };
    let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::new(ManualClock::default())).without_threads()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// A store with several levels, closed with writes in its log. `deletes` are among what was done to it.
fn example(deletes: bool) -> (SimulatedFileSystem, History) {
    let (fs, mut random, mut history) = (SimulatedFileSystem::new(), Random::new(11), History::new());
    let db = builder(&fs).open().unwrap();
    for round in 0..6u32 {
        for n in 0..KEYS {
            let n = if round == 0 { n } else { random.below(u64::from(KEYS)) as u32 };
            let value = (!deletes || random.below(5) > 0).then(|| [&key(n)[..], &[round as u8; 90]].concat());
            match &value {
                Some(value) => db.put(&key(n), value).unwrap(),
                None => db.delete(&key(n)).unwrap(),
            }
            history.entry(key(n)).or_default().push(value);
        }
        if round < 5 {
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    }
    db.close().unwrap();
    (fs.process_kill(), history)
}

fn last(history: &History) -> Content {
    let last =
        |(key, values): (&Vec<u8>, &Vec<Option<Vec<u8>>>)| Some((key.clone(), values.last()?.clone()?));
    history.iter().filter_map(last).collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn files(fs: &SimulatedFileSystem) -> BTreeMap<String, Vec<u8>> {
    let names = fs.list(Path::new(DIR)).unwrap();
    names.into_iter().filter_map(|name| Some((name.clone(), fs.contents(&path(&name))?))).collect()
}

/// Looks, which changes nothing; repairs; and the store is sound from then on.
fn repaired(fs: &SimulatedFileSystem, what: &str) -> (RepairReport, Content) {
    let before = files(fs);
    let found = builder(fs).repair(false).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!found.repaired);
    let mut after = files(fs);
    after.retain(|name, _| before.contains_key(name) || name != "LOCK");
    assert_eq!(after, before, "{what}: looking changes nothing");
    let report = builder(fs).repair(true).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(report.damage, found.damage, "{what}: it does what it said");
    assert_eq!(report.repaired, !found.damage.is_empty(), "{what}");
    for damage in report.damage.iter().filter(|damage| before.contains_key(&damage.file)) {
        let kept = fs.contents(&path("lost").join(&damage.file));
        assert_eq!(kept.as_ref(), before.get(&damage.file), "{what}: {} is kept as it was", damage.file);
    }
    let db = builder(fs).open().unwrap_or_else(|error| panic!("{what}: {error}\n{report:?}"));
    db.verify().unwrap_or_else(|error| panic!("{what}: {error}\n{report:?}"));
    let found = scanned(&db).unwrap();
    db.put(b"after", b"wards").unwrap();
    db.close().unwrap();
    let again = builder(fs).repair(false).unwrap();
    assert!(again.damage.is_empty(), "{what}: {again:?}");
    assert_eq!(scanned(&builder(fs).open().unwrap()).unwrap().len(), found.len() + 1, "{what}");
    (report, found)
}

/// Nothing is there that never was.
fn check_values(found: &Content, history: &History, what: &str) {
    for (key, value) in found {
        let values = history.get(key).unwrap_or_else(|| panic!("{what}: a key that nobody wrote"));
        assert!(values.contains(&Some(value.clone())), "{what}: {key:?} has a value that it never had");
    }
}

#[test]
fn a_store_that_is_whole_is_left_alone() {
    let (fs, history) = example(true);
    let (report, found) = repaired(&fs, "whole");
    assert!(report.damage.is_empty() && report.tables > 4 && report.bytes > 0, "{report:?}");
    assert_eq!(found, last(&history));
    assert!(builder(&SimulatedFileSystem::new()).repair(true).unwrap_err().to_string().contains("no store"));
    let db = builder(&fs).open().unwrap();
    assert_eq!(builder(&fs).repair(false).unwrap_err().kind(), "Locked");
    drop(db);
}

/// Each file flipped, cut and removed: the store is back each time, and what it holds was written.
#[test]
fn every_damage_is_repaired() {
    let (fs, history) = example(true);
    let mut random = Random::new(5);
    let (mut damaged, mut kinds) = (0, BTreeSet::new());
    for (name, bytes) in files(&fs).into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        for mutation in 0..5 {
            let copy = fs.process_kill();
            let at = random.below(used as u64) as usize;
            let what = format!("{name}, {mutation}, {at} of {used}");
            let mut bytes = bytes.clone();
            match mutation {
                0 => copy.remove(&path(&name)).unwrap(),
                1 => bytes.truncate(at),
                _ => bytes[at] ^= 0x55,
            }
            if mutation > 0 {
                copy.set_contents(&path(&name), &bytes).unwrap();
            }
            let (report, found) = repaired(&copy, &what);
            check_values(&found, &history, &what);
            if report.damage.is_empty() {
                assert_eq!(found, last(&history), "{what}: nothing was said to be lost");
            } else {
                damaged += 1;
                kinds.insert(name.trim_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned());
            }
        }
    }
    assert!(damaged > 40 && kinds.len() == 5, "{damaged} {kinds:?}");
}

/// A damaged block costs the entries of that block, and no other.
#[test]
fn the_whole_blocks_of_a_table_are_kept() {
    let (fs, history) = example(false);
    let name = files(&fs).into_iter().filter(|(name, _)| name.ends_with(".sst")).max_by_key(|(_, b)| b.len());
    let (name, mut bytes) = name.unwrap();
    bytes[10] ^= 1;
    fs.set_contents(&path(&name), &bytes).unwrap();
    let (report, found) = repaired(&fs, &name);
    let [damage] = &report.damage[..] else { panic!("{report:?}") };
    assert!(damage.file == name && damage.remedy.contains("new table"), "{damage:?}");
    check_values(&found, &history, &name);
    let wanted = last(&history);
    let right = wanted.iter().filter(|(key, value)| found.get(*key) == Some(value)).count();
    let lost: usize = damage.lost.split(' ').next().unwrap().parse().unwrap();
    assert!(
        (1..20).contains(&lost) && right >= wanted.len() - lost,
        "{right} of {}, {damage:?}",
        wanted.len()
    );
}

/// What lies before the damage in the log is kept, what follows is not: no write without those before it.
#[test]
fn a_log_is_kept_up_to_its_damage() {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).open().unwrap();
    (0..50).for_each(|n| db.put(&key(n), &[n as u8; 60]).unwrap());
    db.close().unwrap();
    let fs = fs.process_kill();
    let logs = files(&fs).into_iter().filter(|(name, _)| name.ends_with(".log"));
    let (name, bytes) =
        logs.max_by_key(|(_, bytes)| bytes.iter().filter(|byte| **byte != 0).count()).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let mut lengths = BTreeSet::new();
    for at in (used / 4..used).step_by(used / 9) {
        let copy = fs.process_kill();
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        copy.set_contents(&path(&name), &bytes).unwrap();
        assert_eq!(builder(&copy).open().unwrap_err().kind(), "Corruption");
        let (report, found) = repaired(&copy, &format!("{name} at {at}"));
        assert!(report.damage.len() == 1 && report.damage[0].file == name, "{report:?}");
        let prefix: Content = (0..found.len() as u32).map(|n| (key(n), vec![n as u8; 60])).collect();
        assert_eq!(found, prefix);
        lengths.insert(found.len());
    }
    assert!(lengths.len() > 4, "{lengths:?}");
}

/// Without any manifest the tables alone say what the store held: of each key the newest value, over all levels.
#[test]
fn a_store_without_a_manifest_is_made_of_its_tables() {
    let (fs, history) = example(false);
    let manifest = files(&fs).into_keys().find(|name| name.starts_with("MANIFEST")).unwrap();
    for lost in [&["CURRENT"][..], &[&manifest], &["CURRENT", &manifest]] {
        let copy = fs.process_kill();
        lost.iter().for_each(|name| copy.remove(&path(name)).unwrap());
        let (report, found) = repaired(&copy, &format!("{lost:?}"));
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert_eq!(found, last(&history), "{lost:?}");
    }
    // A strategy that was set is remembered.
    let copy = fs.process_kill();
    let db = builder(&copy).open().unwrap();
    db.set_strategy("tier").unwrap();
    db.close().unwrap();
    copy.remove(&path("CURRENT")).unwrap();
    repaired(&copy, "CURRENT");
    assert!(builder(&copy).open().unwrap().keyspace("default").unwrap().strategy_text().contains("tier"));
}

/// Range deletes hold in the trees that are made anew, and where a table is.
#[test]
fn what_a_range_delete_has_deleted_stays_so() {
    let (fs, history) = example(false);
    let db = builder(&fs).open().unwrap();
    db.delete_range(&key(100), &key(300)).unwrap();
    db.flush().unwrap();
    db.put(&key(200), b"back").unwrap();
    let wanted = scanned(&db).unwrap();
    assert!(wanted.len() < last(&history).len() - 100);
    db.close().unwrap();
    let fs = fs.process_kill();
    let manifest = files(&fs).into_keys().find(|name| name.starts_with("MANIFEST")).unwrap();
    fs.remove(&path(&manifest)).unwrap();
    assert_eq!(repaired(&fs, &manifest).1, wanted);
}

/// Tables do not say of which keyspace they are; a manifest that is damaged behind its last table still does.
#[test]
fn several_keyspaces_need_a_manifest() {
    let (fs, history) = example(false);
    let db = builder(&fs).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
    (0..300).for_each(|n| other.put(&key(n), &[9; 70]).unwrap());
    db.flush().unwrap();
    other.flush().unwrap();
    db.wait_idle().unwrap();
    let name = files(&fs).into_keys().find(|name| name.starts_with("MANIFEST")).unwrap();
    let known = fs.contents(&path(&name)).unwrap().len();
    // Records that name no table.
    ["8", "9", "10", "11"].iter().for_each(|ratio| db.set_option("level_ratio", ratio).unwrap());
    db.sync().unwrap();
    let fs = fs.process_kill();
    let mut bytes = fs.contents(&path(&name)).unwrap();
    let copy = fs.process_kill();
    copy.remove(&path(&name)).unwrap();
    let error = builder(&copy).repair(true).unwrap_err();
    assert!(error.kind() == "Unsupported" && error.to_string().contains("several keyspaces"), "{error}");
    assert_eq!(copy.contents(&path(&name)), None, "nothing was made up");
    assert!(bytes.len() > known + 30, "{} of {known}", bytes.len());
    bytes[known + 30] ^= 1;
    fs.set_contents(&path(&name), &bytes).unwrap();
    assert_eq!(builder(&fs).open().unwrap_err().kind(), "Corruption");
    let (report, found) = repaired(&fs, &name);
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert_eq!(found, last(&history));
    let db = builder(&fs).open().unwrap();
    let other = db.keyspace("other").unwrap();
    assert!((0..300).all(|n| other.get(&key(n)).unwrap().as_deref() == Some(&[9; 70][..])));
}

/// Flips a bit in the middle of what a file of this kind holds, of one that is needed.
fn damage(fs: &SimulatedFileSystem, kind: &str) -> String {
    for (name, mut bytes) in files(fs).into_iter().rev().filter(|(name, _)| name.ends_with(kind)) {
        let Some(used) = bytes.iter().rposition(|byte| *byte != 0) else { continue };
        bytes[used / 2] ^= 1;
        let copy = fs.process_kill();
        copy.set_contents(&path(&name), &bytes).unwrap();
        if !builder(&copy).repair(false).unwrap().damage.is_empty() {
            fs.set_contents(&path(&name), &bytes).unwrap();
            return name;
        }
    }
    panic!("no {kind} is needed");
}

fn forget_trees(fs: &SimulatedFileSystem) {
    let names = files(fs).into_keys().filter(|name| name.starts_with("MANIFEST") || name == "CURRENT");
    names.for_each(|name| fs.remove(&path(&name)).unwrap());
}

/// A flush of several tables was killed, and the manifest is gone: the one table that was there has newer writes than those that
/// were not.
#[test]
fn what_the_log_holds_is_not_lost_for_a_table_of_half_a_flush() {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).open().unwrap();
    db.set_option("table_bytes", "2KiB").unwrap();
    (1..60).chain([0]).for_each(|n| db.put(&key(n), &[n as u8; 60]).unwrap());
    let killed = fs.process_kill();
    db.flush().unwrap();
    let flushed = files(&fs.process_kill());
    let mut tables = flushed.into_iter().filter(|(name, _)| name.ends_with(".sst"));
    let (first, bytes) = tables.next().unwrap();
    assert!(tables.next().is_some(), "a single table");
    killed.set_contents(&path(&first), &bytes).unwrap();
    forget_trees(&killed);
    let wanted: Content = (0..60).map(|n| (key(n), vec![n as u8; 60])).collect();
    assert_eq!(repaired(&killed, "half a flush").1, wanted);
}

/// A log that nobody needs any more keeps its name and its bytes until it is written over. Without a manifest it must not be taken
/// for the first of those that are needed.
#[test]
fn a_spare_log_is_not_the_beginning_of_the_others() {
    let fs = SimulatedFileSystem::new();
    let db = builder(&fs).open().unwrap();
    (0..50).for_each(|n| db.put(&key(n), &[n as u8; 60]).unwrap());
    let fs = fs.process_kill();
    let old = files(&fs);
    // This open puts the log into tables, and begins another one.
    let db = builder(&fs).open().unwrap();
    (50..100).for_each(|n| db.put(&key(n), &[n as u8; 60]).unwrap());
    let fs = fs.process_kill();
    for (name, bytes) in old.iter().filter(|(name, _)| name.ends_with(".log")) {
        fs.set_contents(&path(name), bytes).unwrap();
    }
    forget_trees(&fs);
    let wanted: Content = (0..100).map(|n| (key(n), vec![n as u8; 60])).collect();
    assert_eq!(repaired(&fs, "a spare log").1, wanted);
}

/// A crash at any step of a repair loses nothing that another repair does not find.
#[test]
fn a_repair_that_is_cut_short_is_done_again() {
    for kind in [".sst", ".log", "the trees"] {
        let (whole, history) = example(false);
        let name = match kind {
            "the trees" => {
                forget_trees(&whole);
                kind.to_owned()
            }
            kind => damage(&whole, kind),
        };
        let done = repaired(&whole.process_kill(), &name).1;
        for nth in 0.. {
            let what = format!("{name}, crash at {nth}");
            let fs = whole.process_kill();
            fs.crash_after(nth);
            let outcome = builder(&fs).repair(true);
            let crashed = fs.has_crashed();
            let fs = fs.crash(nth, evenkeel::testing::CrashPolicy::DropUnsynced);
            let (_, found) = repaired(&fs, &what);
            check_values(&found, &history, &what);
            assert_eq!(found, done, "{what}");
            if !crashed {
                outcome.unwrap();
                assert!(nth > 10, "{what}");
                break;
            }
        }
    }
}
