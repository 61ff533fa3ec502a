//! Failing disks: a failed sync, a full disk, damaged, missing and newer files, and a second opener. Right answers or a
//! typed error that names the file; never wrong data, never a panic, and nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{
    CrashPolicy, Fault, FaultError, FaultKind, ManualClock, Random, SimulatedFileSystem, mend,
};
use evenkeel::{Db, Durability, Options, Result, ScanRange, WriteBatch};

const DIR: &str = "/store";

pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        cache_bytes: 0,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open_with(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>) -> Result<Db> {
    let clock = Arc::clone(clock);
    Db::builder(DIR)
        .options(options())
        .file_system(Arc::new(fs.clone()))
        .clock(clock)
        .without_threads()
        .open()
}

fn open(fs: &SimulatedFileSystem) -> Result<Db> {
    open_with(fs, &Arc::new(ManualClock::default()))
}

/// All that a scan sees.
pub fn scanned(db: &Db) -> Result<Content> {
    db.scan(ScanRange::all())?.collect()
}

fn put(db: &Db, n: u64, durability: Durability, content: &mut Content) -> Result<()> {
    let (key, value) = (format!("{:03}", n % 400).into_bytes(), format!("{n:0>100}").into_bytes());
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    db.write_with(batch, durability)?;
    content.insert(key, value);
    Ok(())
}

/// A store with a few levels, its last writes in the log only.
fn example() -> (SimulatedFileSystem, Content) {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs).unwrap();
    let mut content = Content::new();
    for n in 0..900 {
        put(&db, n * 7, Durability::Os, &mut content).unwrap();
        db.step(&mut |jobs| jobs.first().map(|job| job.0));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for n in 900..920 {
        put(&db, n * 7, Durability::Sync, &mut content).unwrap();
    }
    drop(db);
    (fs.process_kill(), content)
}

fn files(fs: &SimulatedFileSystem) -> BTreeMap<String, Vec<u8>> {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), fs.contents(&path(&name)).unwrap())).collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

#[test]
fn a_failed_sync_of_the_log_poisons() {
    for kind in [FaultKind::Sync, FaultKind::SyncLosing] {
        let (fs, mut content) = example();
        let db = open(&fs).unwrap();
        put(&db, 1, Durability::Sync, &mut content).unwrap();
        let before = content.clone();
        put(&db, 2, Durability::Os, &mut content).unwrap();
        let acked = content.clone();
        let path_contains = ".log".to_owned();
        fs.inject(Fault { kind, path_contains, nth: 0, error: FaultError::Eio, sticky: false });
        assert_eq!(put(&db, 3, Durability::Sync, &mut content).unwrap_err().kind(), "Io");
        for durability in [Durability::Os, Durability::Sync] {
            assert_eq!(put(&db, 4, durability, &mut content).unwrap_err().kind(), "Poisoned");
        }
        assert_eq!(db.flush().unwrap_err().kind(), "Poisoned");
        assert_eq!(db.sync().unwrap_err().kind(), "Poisoned");
        // The failed write is not seen, and reads go on.
        assert_eq!(scanned(&db).unwrap(), acked, "{kind:?}");
        drop(db);
        let mut with_failed = acked.clone();
        with_failed.insert(b"003".to_vec(), format!("{:0>100}", 3).into_bytes());
        for policy in CrashPolicy::ALL {
            let db = open(&fs.crash(1, policy)).unwrap();
            let found = scanned(&db).unwrap();
            assert!([&before, &acked, &with_failed].contains(&&found), "{kind:?} {policy:?}");
        }
    }
}

#[test]
fn a_failed_sync_of_the_manifest_poisons() {
    let (fs, mut content) = example();
    let db = open(&fs).unwrap();
    put(&db, 1, Durability::Sync, &mut content).unwrap();
    let path_contains = "MANIFEST".to_owned();
    fs.inject(Fault { kind: FaultKind::Sync, path_contains, nth: 0, error: FaultError::Eio, sticky: false });
    assert!(db.flush().is_err());
    assert_eq!(put(&db, 2, Durability::Os, &mut content).unwrap_err().kind(), "Poisoned");
    assert_eq!(scanned(&db).unwrap(), content);
    drop(db);
    // Whether the flush was recorded or not, the tables it may refer to are there.
    for policy in CrashPolicy::ALL {
        let db = open(&fs.crash(1, policy)).unwrap();
        assert_eq!(scanned(&db).unwrap(), content, "{policy:?}");
        db.verify().unwrap();
    }
}

#[test]
fn a_full_disk_refuses_writes_and_recovers_by_itself() {
    for free in [0, 300, 3000, 20_000, 30_000] {
        let (fs, mut content) = example();
        let clock = Arc::new(ManualClock::default());
        let db = open_with(&fs, &clock).unwrap();
        fs.set_free_space(Some(free));
        let mut failed = None;
        for n in 0..2000 {
            let outcome = put(&db, n, Durability::Os, &mut content);
            clock.advance(Duration::from_millis(200));
            db.step(&mut |jobs| jobs.first().map(|job| job.0));
            if let Err(error) = outcome {
                failed = Some(error);
                break;
            }
        }
        let error = failed.unwrap_or_else(|| panic!("{free} bytes free: 2000 writes fitted"));
        assert_eq!(error.kind(), "NoSpace", "{free} bytes free: {error}");
        assert_eq!(put(&db, 5000, Durability::Sync, &mut content).unwrap_err().kind(), "NoSpace");
        assert_eq!(scanned(&db).unwrap(), content);
        // Whatever is tried while it is full changes nothing.
        for _ in 0..50 {
            clock.advance(Duration::from_millis(200));
            db.step(&mut |jobs| jobs.first().map(|job| job.0));
        }
        let crashed = open(&fs.process_kill().process_kill());
        assert_eq!(scanned(&crashed.unwrap()).unwrap(), content, "{free} bytes free");
        fs.set_free_space(None);
        clock.advance(Duration::from_secs(1));
        for n in 2000..2600 {
            put(&db, n, Durability::Sync, &mut content)
                .unwrap_or_else(|e| panic!("{free} bytes were free, now all: {e}"));
            db.step(&mut |jobs| jobs.first().map(|job| job.0));
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.verify().unwrap();
        assert_eq!(scanned(&db).unwrap(), content);
        drop(db);
        let db = open(&fs.crash(0, CrashPolicy::DropUnsynced)).unwrap();
        assert_eq!(scanned(&db).unwrap(), content, "{free} bytes free");
    }
}

/// Opens and reads everything: the right content, or an error that names the damage. `None` if it failed.
fn right_or_error(fs: &SimulatedFileSystem, content: &Content, what: &str) -> Option<()> {
    let read = open(fs).and_then(|db| {
        let forward = scanned(&db)?;
        let backward = scanned_down(&db)?;
        let got: Content = content
            .keys()
            .map(|key| db.get(key).map(|value| (key.clone(), value.map_or_else(Vec::new, |v| v.to_vec()))))
            .collect::<Result<_>>()?;
        Ok((forward, backward, got))
    });
    match read {
        Ok(found) => {
            assert!([&found.0, &found.1, &found.2].iter().all(|c| *c == content), "{what}: wrong data");
            Some(())
        }
        Err(error) => {
            assert!(["Corruption", "Unsupported"].contains(&error.kind()), "{what}: {error}");
            None
        }
    }
}

/// All that a cursor sees from the last key to the first.
pub fn scanned_down(db: &Db) -> Result<Content> {
    let mut cursor = db.cursor(ScanRange::all())?;
    let mut content = Content::new();
    cursor.seek_to_last()?;
    while cursor.valid() {
        content.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.prev()?;
    }
    Ok(content)
}

/// A store that was closed: all of its log is sealed, so all damage can be told.
fn closed_example() -> (SimulatedFileSystem, Content) {
    let (fs, mut content) = example();
    let db = open(&fs).unwrap();
    for n in 0..30 {
        put(&db, n, Durability::Os, &mut content).unwrap();
    }
    db.close().unwrap();
    (fs.process_kill(), content)
}

#[test]
fn a_flipped_byte_gives_the_right_answers_or_corruption() {
    let (fs, content) = closed_example();
    let mut random = Random::new(7);
    let mut tally: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for (name, bytes) in files(&fs) {
        let kind = name.trim_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned();
        for _ in 0..if cfg!(debug_assertions) { 12 } else { 60 } {
            if bytes.is_empty() {
                continue;
            }
            // Most of a log is empty.
            let used = bytes.iter().rposition(|b| *b != 0).map_or(1, |last| last + 1) as u64;
            let at = random.below(used) as usize;
            let flip = [1, 0x80, 0xFF, 1 + random.below(255) as u8][random.below(4) as usize];
            let copy = fs.process_kill();
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            copy.set_contents(&path(&name), &damaged).unwrap();
            let right = right_or_error(&copy, &content, &format!("{name}, byte {at} ^ {flip:#x}"));
            tally.entry(kind.clone()).or_default()[usize::from(right.is_none())] += 1;
        }
    }
    println!("FLIPS right and refused by kind of file: {tally:?} wrong=0 panic=0 seed=7");
    assert!(tally.len() >= 5 && tally.values().filter(|counts| counts[1] > 0).count() >= 5, "{tally:?}");
}

#[test]
fn a_cut_or_missing_file_is_corruption() {
    let (fs, content) = closed_example();
    let needed = |name: &str| name.ends_with(".sst") || name.starts_with("MANIFEST") || name == "CURRENT";
    for (name, bytes) in files(&fs).into_iter().filter(|(name, _)| needed(name)) {
        let copy = fs.process_kill();
        copy.remove(&path(&name)).unwrap();
        let right = right_or_error(&copy, &content, &format!("{name} is missing"));
        assert!(right.is_none(), "{name} is missing, and nobody says so");
        for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let copy = fs.process_kill();
            copy.set_contents(&path(&name), &bytes[..len]).unwrap();
            let right = right_or_error(&copy, &content, &format!("{name} cut to {len}"));
            assert!(right.is_none(), "{name} is cut to {len} bytes, and nobody says so");
        }
    }
}

/// With a manifest that is not of these files, what it does not know is perhaps what is missing.
#[test]
fn a_missing_table_is_noticed_before_anything_is_removed() {
    let (fs, content) = closed_example();
    fs.set_contents(&path("900000.sst"), b"what the last manifest named").unwrap();
    let tables: Vec<String> = files(&fs).into_keys().filter(|name| name.ends_with(".sst")).collect();
    for name in tables.iter().filter(|name| *name != "900000.sst") {
        let copy = fs.process_kill();
        copy.remove(&path(name)).unwrap();
        let before = files(&copy);
        let error = open(&copy).unwrap_err();
        assert_eq!(error.kind(), "Corruption", "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(files(&copy), before);
        copy.set_contents(&path(name), &fs.contents(&path(name)).unwrap()).unwrap();
        assert_eq!(scanned(&open(&copy).unwrap()).unwrap(), content);
    }
    assert!(tables.len() > 2);
}

/// Damage with anything behind it shows by the seal or a later promise. A log whose end is cut off is refused if a promise is
/// left in it: it is shorter than it was made. If none is left it looks as a crash may leave it, and holds a prefix.
#[test]
fn a_cut_or_holed_log_is_refused() {
    let (fs, mut content) = example();
    let db = open(&fs).unwrap();
    let mut prefixes = vec![content.clone()];
    for n in 0..60 {
        put(&db, n, if n == 30 { Durability::Sync } else { Durability::Os }, &mut content).unwrap();
        prefixes.push(content.clone());
    }
    db.close().unwrap();
    let fs = fs.process_kill();
    let (mut refused, mut opened, mut cut_refused) = (0, 0, 0);
    for (name, bytes) in files(&fs).into_iter().filter(|(name, _)| name.ends_with(".log")) {
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        for from in (0..used.saturating_sub(512)).step_by(1024) {
            let copy = fs.process_kill();
            let mut holed = bytes.clone();
            holed[from..from + 512].fill(0);
            copy.set_contents(&path(&name), &holed).unwrap();
            let error = open(&copy).unwrap_err();
            assert_eq!(error.kind(), "Corruption", "{name} with a hole at {from}: {error}");
            refused += 1;
        }
        for eighth in 0..8 {
            let copy = fs.process_kill();
            copy.set_contents(&path(&name), &bytes[..bytes.len() * eighth / 8]).unwrap();
            match open(&copy).and_then(|db| scanned(&db)) {
                Ok(found) => {
                    assert!(prefixes.contains(&found), "{name} cut to {eighth} eighths: no prefix");
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), "Corruption", "{name} cut to {eighth} eighths: {error}");
                    cut_refused += 1;
                }
            }
        }
    }
    assert!(refused > 4 && opened > 0 && cut_refused > 0, "{refused} {opened} {cut_refused}");
}

/// A file of a format that is not known yet, its checksums those of its bytes.
fn newer(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if name.starts_with("OPTIONS") {
        let text = String::from_utf8(bytes).unwrap();
        bytes = text.replace("format 1", "format 2").into_bytes();
    } else {
        // The version stands first in a log's first record.
        bytes[24..28].copy_from_slice(&99u32.to_le_bytes());
    }
    mend(name, &mut bytes);
    bytes
}

#[test]
fn a_newer_format_is_refused_and_nothing_is_changed() {
    let (fs, _) = closed_example();
    let all = files(&fs);
    let manifest = all.keys().find(|name| name.starts_with("MANIFEST")).unwrap().clone();
    let options = all.keys().find(|name| name.starts_with("OPTIONS")).unwrap().clone();
    // The log that the close has sealed is the one in force: the only one whose header carries its own number.
    let newest = |bytes: &[u8]| bytes.len() > 64 && bytes[24..28] == 1u32.to_le_bytes();
    let log =
        all.iter().rev().find(|(name, bytes)| name.ends_with(".log") && newest(bytes)).unwrap().0.clone();
    for name in [manifest, log, options] {
        let bytes = newer(&name, &all[&name]);
        let copy = fs.process_kill();
        copy.set_contents(&path(&name), &bytes).unwrap();
        let before = files(&copy);
        let calls = copy.call_count();
        let error = open(&copy).unwrap_err();
        assert_eq!(error.kind(), "Unsupported", "{name}: {error}");
        assert_eq!(files(&copy), before, "{name}");
        let made = copy.calls().split_off(calls as usize);
        let harmless = made.iter().all(|call| call.path == Path::new(DIR));
        assert!(harmless, "{name}: {made:?}");
    }
}

#[test]
fn a_second_opener_is_refused_at_once() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs).unwrap();
    assert_eq!(open(&fs).unwrap_err().kind(), "Locked");
    db.put(b"still", b"works").unwrap();
    drop(db);
    assert!(open(&fs).unwrap().get(b"still").unwrap().is_some());

    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    assert_eq!(Db::open(directory.path(), options()).unwrap_err().kind(), "Locked");
    db.put(b"still", b"works").unwrap();
    db.close().unwrap();
    assert!(Db::open(directory.path(), options()).unwrap().get(b"still").unwrap().is_some());
}
