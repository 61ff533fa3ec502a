//! How tables are written and read: compression by level and keyspace, direct I/O, scans that spare the cache, prefixes in
//! filters, and inputs that go while their compaction runs. Each option shows what it changes, and changes no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::fs::{Device, DeviceFileSystem, FileSystem};
use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Event, KeyspaceOptions, Options, ScanRange};

fn small() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        table_bytes: 16 << 10,
        block_bytes: 1 << 10,
        level_base_bytes: 1 << 20,
        l0_trigger: 4,
        wal_bytes_max: 1 << 20,
        cache_bytes: 1 << 20,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open(fs: &SimulatedFileSystem, options: Options) -> Db {
    Db::builder("/store")
        .options(options)
        .file_system(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::default()))
        .without_threads()
        .open()
        .unwrap()
}

/// Values that pack to a tenth.
fn fill(db: &Db, keyspace: &str, keys: std::ops::Range<u32>) {
    let keyspace = db.keyspace(keyspace).unwrap();
    for i in keys {
        keyspace.put(format!("{i:06}").as_bytes(), &[i as u8; 100]).unwrap();
    }
    keyspace.flush().unwrap();
}

/// Bytes of a keyspace's levels.
fn levels(db: &Db, keyspace: &str) -> Vec<u64> {
    let metrics = db.metrics();
    let keyspace = metrics.keyspaces.iter().find(|k| k.name == keyspace).unwrap();
    keyspace.levels.iter().map(|level| level.bytes).collect()
}

#[test]
fn compression_goes_by_the_target_level_and_by_the_keyspace() {
    let raw = 1000 * 106;
    let packed = 1..raw / 2;
    let deepest = if cfg!(feature = "zstd") { "zstd:3" } else { "lz4" };
    for (rule, flushed_packed, merged_packed) in [
        ("none".to_owned(), false, false),
        ("lz4".to_owned(), true, true),
        // How long a flush takes is not known before the first.
        ("auto".to_owned(), false, true),
        (format!("none,{deepest}"), false, true),
        ("lz4,none".to_owned(), true, false),
    ] {
        let fs = SimulatedFileSystem::new();
        let compression = rule.parse().unwrap();
        let options = Options { compression, memtable_bytes: 512 << 10, l0_trigger: 2, ..small() };
        let db = open(&fs, options.clone());
        fill(&db, "default", 0..1000);
        assert_eq!(packed.contains(&levels(&db, "default")[0]), flushed_packed, "{rule}: L0");
        // Twice the same keys: more than a move by metadata.
        fill(&db, "default", 0..1000);
        db.wait_idle().unwrap();
        let merged = levels(&db, "default");
        assert_eq!((merged.len(), merged[0]), (2, 0), "{rule}");
        assert_eq!(packed.contains(&merged[1]), merged_packed, "{rule}: {merged:?}");

        // A keyspace of its own mind, which outlives the process.
        let own = KeyspaceOptions { compression: Some("lz4".parse().unwrap()), ..KeyspaceOptions::default() };
        db.create_keyspace("own", own).unwrap();
        fill(&db, "own", 0..1000);
        assert!(packed.contains(&levels(&db, "own")[0]), "{rule}");
        db.close().unwrap();
        let db = open(&fs, options);
        fill(&db, "own", 0..1000);
        let both = levels(&db, "own")[0];
        assert!(both < raw, "{rule}: {both}");
        db.verify().unwrap();
        for (i, entry) in db.scan(ScanRange::all()).unwrap().enumerate() {
            assert_eq!(entry.unwrap(), (format!("{i:06}").into_bytes(), vec![i as u8; 100]), "{rule}");
        }
    }
    let wrong = KeyspaceOptions {
        compression: Some(evenkeel::CompressionRule::Levels(Vec::new())),
        ..KeyspaceOptions::default()
    };
    let db = open(&SimulatedFileSystem::new(), small());
    assert_eq!(db.create_keyspace("empty", wrong).unwrap_err().kind(), "InvalidArgument");
}

/// Also what lies above older data.
#[test]
fn by_default_every_level_below_l0_is_packed() {
    let fs = SimulatedFileSystem::new();
    let db = open(&fs, Options { level_base_bytes: 256 << 10, level_ratio: 4, ..small() });
    // Bytes of an entry, of each level below L0.
    let entry_bytes = |db: &Db| -> Vec<f64> {
        let levels = &db.metrics().keyspaces[0].levels;
        levels.iter().skip(1).filter(|l| l.entries > 0).map(|l| l.bytes as f64 / l.entries as f64).collect()
    };
    let (mut rounds, mut found) = (0, Vec::new());
    while found.len() < 2 {
        assert!(rounds < 80, "no third level came to be: {found:?}");
        for i in 0..2000 {
            let key = (i * 7919 + rounds * 104_729) % 1_000_003;
            db.put(format!("{key:07}").as_bytes(), &[i as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        found = entry_bytes(&db);
        assert!(found.iter().all(|bytes| *bytes < 60.0), "round {rounds}: {found:?}");
        rounds += 1;
    }
    db.verify().unwrap();
}

/// A flush that comes after a pause as long as it takes has time to pack, and one that others wait behind does not.
#[test]
fn by_default_flushes_pack_while_they_have_time() {
    let clock = Arc::new(ManualClock::default());
    let device = Device::on_manual_clock(1 << 20, Duration::ZERO, Arc::clone(&clock)).unwrap();
    let fs = DeviceFileSystem::new(Arc::new(SimulatedFileSystem::new()), device);
    let options = Options { memtable_bytes: 1 << 20, l0_trigger: 20, l0_limit: 40, ..small() };
    let builder = Db::builder("/store").options(options).file_system(Arc::new(fs));
    let db = builder.clock(Arc::clone(&clock) as _).without_threads().open().unwrap();
    // Without a log, so that puts take no time on the device.
    let own = KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() };
    db.create_keyspace("own", own).unwrap();
    let flushed_packed = || {
        let before = levels(&db, "own").first().copied().unwrap_or(0);
        fill(&db, "own", 0..1000);
        levels(&db, "own")[0] - before < 1000 * 106 / 2
    };
    assert!(!flushed_packed(), "nothing is known of how long a flush takes");
    assert!(!flushed_packed(), "at once after another");
    clock.advance(Duration::from_secs(1));
    assert!(flushed_packed(), "after a pause");
    assert!(!flushed_packed(), "at once after another that packed");
    db.verify().unwrap();
}

#[test]
fn mistakes_in_options_of_tables_are_explained() {
    let mut options = Options::default();
    for (name, value, says) in [
        ("compression", "lz5", "none,none,lz4"),
        ("compression", "none,,lz4", "none,none,lz4"),
        ("compression", "zstd:99", "1 to 19"),
        ("prefix_filter", "fixed:0", "fixed:BYTES"),
        ("direct_flush", "perhaps", "true or false"),
        ("readahead_bytes", "17MiB", "16777216"),
    ] {
        let error = options.set(name, value).unwrap_err();
        assert!(error.to_string().contains(says), "{name}={value}: {error}");
    }
    let zstd = options.set("compression", "none,zstd:3");
    assert_eq!(zstd.is_ok(), cfg!(feature = "zstd"), "{zstd:?}");
    if let Err(error) = zstd {
        assert_eq!(error.kind(), "Unsupported");
    }
}

#[test]
fn direct_io_is_asked_for_where_the_options_say() {
    for (flush, compaction, reads) in
        [(false, false, false), (true, false, false), (false, true, false), (false, false, true)]
    {
        let fs = SimulatedFileSystem::new();
        let options = Options {
            direct_flush: flush,
            direct_compaction: compaction,
            direct_reads: reads,
            cache_bytes: 0,
            ..small()
        };
        let db = open(&fs, options);
        let direct = |what: &str, expected: bool, before: u64| {
            let opens = fs.direct_opens();
            assert_eq!(opens > before, expected, "{what} of {flush} {compaction} {reads}");
            opens
        };
        fill(&db, "default", 0..500);
        fill(&db, "default", 0..500);
        let opens = direct("flush", flush, 0);
        db.get(b"000007").unwrap().unwrap();
        let opens = direct("get", reads, opens);
        db.compact_range(ScanRange::all()).unwrap();
        direct("compaction", compaction || reads, opens);
        assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 500);
        db.verify().unwrap();
    }
}

#[test]
fn a_file_system_without_direct_io_is_told_of_once() {
    let fs = SimulatedFileSystem::new();
    fs.refuse_direct();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&events);
    let all = Options { direct_flush: true, direct_compaction: true, direct_reads: true, ..small() };
    let db = Db::builder("/store")
        .options(all)
        .file_system(Arc::new(fs.clone()))
        .listener(Arc::new(move |event: &Event| {
            if let Event::DirectRefused { .. } = event {
                heard.lock().unwrap().push(event.to_string());
            }
        }))
        .without_threads()
        .open()
        .unwrap();
    fill(&db, "default", 0..500);
    fill(&db, "default", 0..500);
    db.compact_range(ScanRange::all()).unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 500);
    let events = events.lock().unwrap();
    assert_eq!(*events, ["Direct I/O was refused in /store: tables go through the page cache"]);
    assert_eq!(fs.direct_opens(), 0);
}

/// The whole engine on a real disk, threads and all, with every way past the page cache in use.
#[test]
fn a_store_lives_on_direct_io() {
    // Beside the build, which is a disk; the usual place for temporary files may be memory.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let directory = tempfile::tempdir_in(target).unwrap();
    let fs = evenkeel::fs::DiskFileSystem::new();
    let probe = directory.path().join("probe");
    let class = evenkeel::fs::IoClass::Manifest;
    if fs.create_direct(&probe, class).unwrap().is_none() {
        eprintln!("SKIPPED: {} has no direct I/O", directory.path().display());
        return;
    }
    let mut model = BTreeMap::new();
    let mut random = Random::new(5);
    for round in 0..3 {
        let options = Options {
            direct_flush: true,
            direct_compaction: true,
            direct_reads: round != 1,
            compression: ["none", "lz4", "none,lz4"][round].parse().unwrap(),
            block_bytes: [512, 4096, 1000][round],
            table_bytes: 48 << 10,
            cache_bytes: 32 << 10,
            level_base_bytes: 200 << 10,
            ..small()
        };
        let db = Db::open(directory.path().join("store"), options).unwrap();
        for _ in 0..6000 {
            let key = format!("{:05}", random.below(4000)).into_bytes();
            let value = vec![random.next_u64() as u8; random.below(200) as usize];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.verify().unwrap();
        let scanned: BTreeMap<_, _> = db.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
        assert!(scanned == model, "round {round}");
        for (key, value) in model.iter().step_by(7) {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        let back = db.scan(ScanRange::all()).unwrap().rev().map(Result::unwrap);
        assert!(back.eq(model.iter().rev().map(|(k, v)| (k.clone(), v.clone()))), "round {round}, backwards");
        db.close().unwrap();
    }
}

#[test]
fn a_scan_may_leave_the_cache_as_it_is() {
    for readahead_bytes in [0, 4 << 10, 256 << 10] {
        let fs = SimulatedFileSystem::new();
        let db = open(&fs, Options { readahead_bytes, compression: "none".parse().unwrap(), ..small() });
        fill(&db, "default", 0..2000);
        db.close().unwrap();
        let db = open(&fs, Options { readahead_bytes, ..small() });
        let count = |range: ScanRange| db.scan(range).unwrap().map(Result::unwrap).count();
        // Indexes of tables that are open count as cache, too.
        assert_eq!(count(ScanRange::all().fill_cache(false)), 2000);
        let before = db.metrics().cache_bytes;
        assert!(before < 50_000, "{before}");
        assert_eq!(count(ScanRange::all()), 2000);
        let filled = db.metrics().cache_bytes;
        assert!(filled > before + 200_000, "{before} and then {filled}");
        let misses = db.metrics().cache_misses;
        assert_eq!(count(ScanRange::all().fill_cache(false)), 2000);
        assert_eq!(db.metrics().cache_misses, misses, "what is there is used");
    }
}

/// Keys of every shape under rules that change with each opening: answers are the model's, whatever filters are in force.
#[test]
fn a_changed_prefix_rule_never_hides_a_key() {
    let fs = SimulatedFileSystem::new();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = Random::new(9);
    let mut key = move || match random.below(3) {
        0 => format!("{}/{}", random.below(40), random.below(40)),
        1 => format!("{:04}:{}", random.below(300), random.below(3)),
        _ => format!("{}", random.below(2000)),
    };
    let rules = ["fixed:2", "none", "delimiter:/", "fixed:4", "delimiter::", "fixed:2"];
    let mut skipped = 0;
    for (round, rule) in rules.into_iter().enumerate() {
        let builder = Db::builder("/store").options(Options { l0_trigger: 3, ..small() }).without_threads();
        // By name: what is given and equals the default gives way to what was stored.
        let db = builder.set("prefix_filter", rule).file_system(Arc::new(fs.clone())).open().unwrap();
        for i in 0..2000 {
            let key = key().into_bytes();
            if i % 9 == 0 {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                db.put(&key, format!("{round} {i}").as_bytes()).unwrap();
                model.insert(key, format!("{round} {i}").into_bytes());
            }
            db.step(&mut |jobs| jobs.first().map(|job| job.0));
        }
        db.flush().unwrap();
        for i in 0..400u32 {
            let prefix = match i % 4 {
                0 => format!("{}/", i / 4),
                1 => format!("{:04}:", i / 4),
                2 => format!("{}", i / 4),
                _ => format!("{}/1", i / 4),
            };
            let range = ScanRange::prefix(prefix.as_bytes());
            let found: Vec<_> = db.scan(range).unwrap().map(Result::unwrap).collect();
            let wanted: Vec<_> = model
                .range(prefix.clone().into_bytes()..)
                .take_while(|(key, _)| key.starts_with(prefix.as_bytes()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(found, wanted, "{rule}, prefix {prefix}");
        }
        let now = db.metrics().tables_skipped;
        assert_eq!(now > 0, rule != "none", "{rule}: {now} tables skipped");
        skipped += now;
        db.verify().unwrap();
        db.close().unwrap();
    }
    assert!(skipped > 100, "{skipped}");
}

/// A compaction of far more than the free space: it commits parts as it goes, and its inputs go as it goes.
#[test]
fn a_job_on_a_full_disk_frees_space_before_it_ends() {
    let fs = SimulatedFileSystem::new();
    let options = Options {
        memtable_bytes: 128 << 10,
        // Many to a run: a run's inputs go one by one.
        table_bytes: 4 << 10,
        // All that was flushed is one compaction's input.
        l0_trigger: 40,
        l0_limit: 100,
        workers: 1,
        compression: "none".parse().unwrap(),
        ..small()
    };
    let db = open(&fs, options);
    let mut model = BTreeSet::new();
    for round in 0..10u32 {
        fill_with_noise(&db, round, &mut model);
    }
    while db.step(&mut |_| None) {}
    let table_bytes = || -> u64 {
        let names = fs.list(Path::new("/store")).unwrap();
        let tables = names.iter().filter(|name| name.ends_with(".sst"));
        tables.map(|name| fs.contents(&Path::new("/store").join(name)).unwrap().len() as u64).sum()
    };
    let inputs = table_bytes();
    // A table of each run is consumed in part at any time, and the manifest grows with each part.
    let free = 160 << 10;
    assert!(inputs > 4 * free, "{inputs}");
    fs.set_free_space(Some(free));
    db.compact_range(ScanRange::all()).unwrap();
    let metrics = db.metrics();
    assert!(metrics.prefix_commits > 5, "{}", metrics.prefix_commits);
    assert_eq!((metrics.jobs_discarded, metrics.jobs_refused), (0, 0));
    let keys: Vec<_> = db.scan(ScanRange::all()).unwrap().map(|entry| entry.unwrap().0).collect();
    assert!(keys.iter().eq(&model));
    db.verify().unwrap();
}

/// New keys over the whole range, and now and then a range delete: its tables are let go of, too.
fn fill_with_noise(db: &Db, round: u32, model: &mut BTreeSet<Vec<u8>>) {
    let mut random = Random::new(u64::from(round));
    for i in 0..900u32 {
        let value: Vec<u8> = (0..60).map(|_| random.next_u64() as u8).collect();
        let key = format!("{:06}", i * 10 + round).into_bytes();
        db.put(&key, &value).unwrap();
        model.insert(key);
    }
    for start in (round..9000).step_by(1500).filter(|_| round.is_multiple_of(3)) {
        let (lo, hi) = (format!("{start:06}").into_bytes(), format!("{:06}", start + 20).into_bytes());
        db.delete_range(&lo, &hi).unwrap();
        model.retain(|key| *key < lo || *key >= hi);
    }
    db.flush().unwrap();
}

/// What clients read while it was in memory is in the cache when it is in a table, unless it would take too much of it. What nobody
/// read is not.
#[test]
fn what_is_read_in_memory_is_cached_when_it_is_flushed() {
    const GETS: u32 = 1000;
    let gets_from_files = |cache_bytes: u64, gets: u32| {
        let db = open(&SimulatedFileSystem::new(), Options { cache_bytes, ..small() });
        for i in 0..100u32 {
            db.put(format!("{i:06}").as_bytes(), &[i as u8; 100]).unwrap();
        }
        let read = |gets: u32| {
            for i in 0..gets {
                assert_eq!(
                    *db.get(format!("{:06}", i % 100).as_bytes()).unwrap().unwrap(),
                    [(i % 100) as u8; 100]
                );
            }
        };
        read(gets);
        db.flush().unwrap();
        let flushed = db.metrics().cache_written_bytes;
        read(100);
        let misses = db.metrics().cache_misses;
        assert_eq!(
            misses == 0,
            flushed > 0,
            "{flushed} bytes of {cache_bytes}, {gets} gets, {misses} misses"
        );
        assert!(flushed == 0 || flushed > 10_000, "{flushed}");
        flushed > 0
    };
    assert!(gets_from_files(1 << 20, GETS));
    assert!(!gets_from_files(1 << 20, 0), "nobody has read it");
    assert!(!gets_from_files(20 << 10, GETS), "half of the cache");
}

/// What is in the cache when a merge reads it is there when it is in another table; what is not stays out.
#[test]
fn what_is_cached_stays_cached_when_it_is_compacted() {
    const KEYS: u32 = 2000;
    let options = Options { memtable_bytes: 1 << 20, cache_bytes: 8 << 20, ..small() };
    let db = open(&SimulatedFileSystem::new(), options);
    let fill = |tag: u8| {
        for i in 0..KEYS {
            db.put(format!("{i:06}").as_bytes(), &[tag; 100]).unwrap();
        }
        db.flush().unwrap();
    };
    let read = |tag: u8| {
        let before = db.metrics().cache_misses;
        for i in 0..KEYS / 4 {
            assert_eq!(*db.get(format!("{i:06}").as_bytes()).unwrap().unwrap(), [tag; 100]);
        }
        db.metrics().cache_misses - before
    };
    fill(1);
    assert!(read(1) > 10);
    // The newer version is above, and nobody has read it.
    fill(2);
    db.compact_range(ScanRange::all()).unwrap();
    assert_eq!(db.metrics().cache_written_bytes, 0);
    assert!(read(2) > 10);
    fill(3);
    assert!(read(3) > 10);
    db.compact_range(ScanRange::all()).unwrap();
    // The block at the end of what was read holds keys that were not.
    let missed = read(3);
    assert!(missed <= 1, "{missed}, {} bytes were kept", db.metrics().cache_written_bytes);
    let (written, quarter) = (db.metrics().cache_written_bytes, u64::from(KEYS) * 110 / 4);
    assert!((quarter / 2..quarter * 2).contains(&written), "{written} of {quarter}");
}

/// A get reads a part of a filter when it comes to that table, and many end before.
#[test]
fn filters_are_read_when_their_turn_comes() {
    let fs = SimulatedFileSystem::new();
    let options = Options { l0_trigger: 8, ..small() };
    let db = open(&fs, options.clone());
    (0..3).for_each(|_| fill(&db, "default", 0..100));
    db.close().unwrap();
    let db = open(&fs, options);
    assert_eq!(db.metrics().filter_misses, 0);
    db.get(b"000007").unwrap().unwrap();
    assert_eq!(db.metrics().filter_misses, 1, "the newest table has it");
    assert!(db.get(b"0000075").unwrap().is_none());
    assert_eq!(db.metrics().filter_misses, 3);
}
