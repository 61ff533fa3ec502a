//! For every public option one observable difference, three times: given to `open`, changed on the running store, and
//! remembered by the next open.
//!
//! The table is checked by the compiler: a field of `Options` or `KeyspaceOptions` without a row does not build. An observation is a
//! number that the option must move in the direction its row says.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{CompressionRule, Db, KeyspaceOptions, Metrics, Options, ScanRange};

/// A store without threads on a disk of its own.
struct World {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
}

/// What the option does to the observed number when it goes from the row's first value to its second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moves {
    Up,
    Down,
}

struct Row {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    moves: Moves,
    observe: fn(&World, &Db) -> u64,
}

/// Rows by field, and a function that takes `Options` apart without `..`: a new field does not compile until it has a row.
macro_rules! rows {
    ($($name:ident: $from:literal => $to:literal, $moves:ident, $observe:expr;)*) => {
        const ROWS: &[Row] = &[$(Row {
            name: stringify!($name), from: $from, to: $to, moves: Moves::$moves, observe: $observe,
        }),*];
        #[expect(unused_variables, reason = "that the fields are named is all")]
        fn every_field_has_a_row(options: Options) {
            // These two have tests of their own below: they are no `--set` options.
            let Options { create_if_missing, strategy, $($name),* } = options;
        }
    };
}

rows! {
    durability: "os" => "sync", Up, |_, db| {
        fill(db, 20);
        db.metrics().wal_syncs
    };
    schedule: "unlimited" => "fixed:1024", Down, |_, db| {
        // The clock stands still, so the rate grants a first step and no more.
        fill(db, 600);
        steps(db, 2000);
        db.metrics().compaction_bytes_written
    };
    device_bytes_per_sec: "1MiB" => "1GiB", Up, |_, db| {
        db.set_schedule("fixed:50%").unwrap();
        steps(db, 10);
        db.metrics().schedule.limit_bytes_per_sec
    };
    device_test: "true" => "false", Down, |world, db| {
        // On a clock that stands still nothing can be measured; but it is tried.
        let before = world.fs.call_count();
        db.set_schedule("silk").unwrap_err();
        world.fs.call_count() - before
    };
    device_measured_bytes_per_sec: "1MiB" => "1GiB", Up, |_, db| {
        db.set_schedule("fixed:50%").unwrap();
        steps(db, 10);
        db.metrics().schedule.limit_bytes_per_sec
    };
    memtable_bytes: "4KiB" => "64KiB", Down, |_, db| idle(db, 1000).flushes;
    memtables: "2" => "16", Down, |_, db| {
        fill(db, 500);
        db.metrics().flushes
    };
    cache_bytes: "1MiB" => "0", Down, |_, db| { idle(db, 1000); read(db); read(db); db.metrics().cache_hits };
    memory_bytes: "4MiB" => "64KiB", Down, |_, db| { idle(db, 3000); read(db); db.metrics().cache_bytes };
    table_bytes: "4KiB" => "64KiB", Down, |_, db| idle(db, 2000).files_live;
    block_bytes: "256" => "16KiB", Down, |_, db| { idle(db, 2000); scan_all(db); db.metrics().cache_misses };
    level_base_bytes: "8KiB" => "1MiB", Down, |_, db| level_count(&idle(db, 2000));
    level_ratio: "2" => "100", Down, |_, db| level_count(&idle(db, 4000));
    l0_trigger: "2" => "12", Up, |_, db| {
        // Few enough flushes to stay below the higher trigger.
        for _ in 0..8 {
            fill(db, 30);
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        l0_runs(&db.metrics())
    };
    l0_limit: "14" => "1000", Up, |_, db| {
        // No compaction gets on: writes are accepted until L0 is full.
        db.set_option("schedule", "fixed:1024").unwrap();
        let (mut accepted, mut random) = (0, Random::new(7));
        while accepted < 3000 && db.put(&key(random.below(5000)), &[7; 100]).is_ok() {
            accepted += 1;
        }
        accepted
    };
    compaction_first: "false" => "true", Up, |_, db| {
        fill(db, 2000);
        let waits = db.metrics().stalls_by_reason;
        waits.iter().filter(|(reason, ..)| reason == "compactions").map(|(_, count, _)| count).sum()
    };
    workers: "1" => "4", Up, |_, db| {
        // Writes find room, and step nothing.
        db.set_option("memtables", "64").unwrap();
        let others: Vec<_> = (0..4).map(|i| db.create_keyspace(&format!("k{i}"), KeyspaceOptions::default()).unwrap()).collect();
        let mut random = Random::new(7);
        for other in &others {
            for _ in 0..400 {
                other.put(&key(random.below(5000)), &[3; 100]).unwrap();
            }
        }
        // Memtables are flushed, jobs are opened and none is stepped.
        while db.step(&mut |_| None) {}
        db.metrics().jobs_open
    };
    reserve_bytes: "0" => "1GiB", Down, |world, db| {
        world.fs.set_free_space(Some(512 << 20));
        fill(db, 600);
        steps(db, 3000);
        db.metrics().compaction_bytes_written
    };
    // The clock stands still, so the rate lets a first table go and no more.
    unlink_bytes_per_sec: "0" => "1024", Up, |_, db| idle(db, 2000).pending_unlink_bytes;
    wal_bytes_max: "64KiB" => "8MiB", Down, |_, db| {
        // A keyspace that has one write and no more pins the log, until the log is too long.
        let pins = db.create_keyspace("pins", KeyspaceOptions { memtable_bytes: Some(1 << 20), ..KeyspaceOptions::default() }).unwrap();
        pins.put(b"a", b"b").unwrap();
        idle(db, 4000);
        u64::from(pins_flushed(db))
    };
    filter_bits: "10" => "0", Up, |_, db| {
        idle(db, 2000);
        let before = db.metrics();
        for i in 0..300u64 {
            assert!(db.get(&[&key(i)[..], b"?"].concat()).unwrap().is_none());
        }
        let after = db.metrics();
        (after.cache_hits + after.cache_misses) - (before.cache_hits + before.cache_misses)
    };
    compression: "none" => "lz4", Down, |_, db| idle(db, 2000).table_bytes;
    prefix_filter: "none" => "fixed:10", Up, |_, db| {
        idle(db, 2000);
        // A prefix is a whole key here: most tables that might have it have it not.
        for i in 0..5000 {
            db.scan(ScanRange::prefix(&key(i))).unwrap().for_each(|entry| drop(entry.unwrap()));
        }
        db.metrics().tables_skipped
    };
    direct_flush: "false" => "true", Up, |world, db| {
        fill(db, 20);
        db.flush().unwrap();
        world.fs.direct_opens()
    };
    direct_compaction: "false" => "true", Up, |world, db| { idle(db, 2000); world.fs.direct_opens() };
    direct_reads: "false" => "true", Up, |world, db| { idle(db, 2000); read(db); world.fs.direct_opens() };
    readahead_bytes: "0" => "64KiB", Up, |_, db| {
        idle(db, 2000);
        // Ends amid a table: what was read ahead of it was in vain.
        assert_eq!(db.scan(ScanRange::all()).unwrap().take(50).count(), 50);
        db.metrics().io.iter().find(|(class, ..)| class == "client").unwrap().1
    };
    log_files: "0" => "9", Up, |world, db| {
        idle(db, 1000);
        files_of(world, "LOG")
    };
    log_bytes: "4KiB" => "1MiB", Down, |world, db| {
        for _ in 0..20 {
            idle(db, 300);
        }
        files_of(world, "LOG")
    };
    heat_counts: "probes" => "probes+scans", Up, |_, db| {
        (0..200).for_each(|_| drop(db.cursor(ScanRange::all()).unwrap()));
        db.metrics().keyspaces[0].heat.operations
    };
    heat_operations: "1000000" => "64", Up, |world, db| learnt(world, db);
    heat_compactions: "0" => "1", Up, |world, db| {
        db.set_option("heat_operations", "400000").unwrap();
        // Half of them teach nothing but after a compaction.
        idle(db, 3000);
        for _ in 0..2 {
            (0..20).for_each(|_| read(db));
            idle(db, 300);
            world.clock.advance(Duration::from_secs(10));
            steps(db, 10);
        }
        db.metrics().keyspaces[0].heat.learnt_from
    };
    heat_seconds: "3600" => "10", Up, |world, db| {
        db.set_option("heat_operations", "64").unwrap();
        learnt(world, db)
    };
    filter_heat: "0" => "8", Up, |world, db| {
        db.set_option("heat_operations", "64").unwrap();
        idle(db, 3000);
        // In the first of two slices tables are seen, in the second what comes to them: all of it to a twentieth of the keys.
        for _ in 0..2 {
            (0..20_000).for_each(|i| drop(db.get(&key(i % 250)).unwrap()));
            world.clock.advance(Duration::from_secs(10));
            steps(db, 10);
        }
        idle(db, 3000);
        let names = world.fs.list(Path::new("/store")).unwrap();
        // The least filter is long for few keys.
        let bits = names.iter().filter(|name| name.ends_with(".sst")).map(|name| {
            let path = Path::new("/store").join(name);
            let table = evenkeel::inspect::table(&world.fs, &path, &mut |_| Ok(())).unwrap();
            if table.entries < 40 { 0 } else { table.filter_bytes * 800 / table.entries }
        });
        bits.max().unwrap()
    };
    stats_seconds: "0" => "1", Up, |world, db| {
        world.clock.advance(Duration::from_secs(2));
        idle(db, 300);
        files_of(world, "STATS")
    };
    slow_us: "0" => "1000000", Up, |_, db| {
        fill(db, 64);
        read(db);
        let latencies = db.metrics().latencies;
        latencies.iter().find(|l| l.what == "get").unwrap().count
    };
    control_socket: "false" => "true", Up, |_, db| answers(&db.options().control_socket.to_string());
}

/// From how many operations something was learnt, ten seconds and some hundred gets later.
fn learnt(world: &World, db: &Db) -> u64 {
    fill(db, 64);
    db.flush().unwrap();
    (0..20).for_each(|_| read(db));
    world.clock.advance(Duration::from_secs(10));
    idle(db, 300);
    db.metrics().keyspaces[0].heat.learnt_from
}

/// The files of this name, older ones included.
fn files_of(world: &World, name: &str) -> u64 {
    let names = world.fs.list(Path::new("/store")).unwrap();
    names.iter().filter(|file| file.starts_with(name)).count() as u64
}

/// Whether there is a socket in a real directory, which this option needs.
fn answers(option: &str) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::builder(directory.path()).set("control_socket", option).open().unwrap();
    let there = directory.path().join("SOCKET").symlink_metadata().is_ok();
    db.close().unwrap();
    u64::from(there)
}

fn key(i: u64) -> Vec<u8> {
    format!("key-{i:06}").into_bytes()
}

/// Writes in random order, without a step of background work except what writers wait for.
fn fill(db: &Db, writes: u64) {
    let mut random = Random::new(7);
    for _ in 0..writes {
        db.put(&key(random.below(5000)), &[b'v'; 100]).unwrap();
    }
}

fn idle(db: &Db, writes: u64) -> Metrics {
    fill(db, writes);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.metrics()
}

fn steps(db: &Db, most: usize) {
    for _ in 0..most {
        if !db.step(&mut |jobs| jobs.first().map(|(index, _)| *index)) {
            break;
        }
    }
}

fn read(db: &Db) {
    for i in 0..5000 {
        db.get(&key(i)).unwrap();
    }
}

fn scan_all(db: &Db) {
    assert!(db.scan(ScanRange::all()).unwrap().map(Result::unwrap).count() > 0);
}

fn default_levels(metrics: &Metrics) -> Vec<(u64, u64)> {
    let default = metrics.keyspaces.iter().find(|k| k.name == "default").unwrap();
    default.levels.iter().map(|level| (level.runs, level.bytes)).collect()
}

fn level_count(metrics: &Metrics) -> u64 {
    default_levels(metrics).len() as u64
}

fn l0_runs(metrics: &Metrics) -> u64 {
    default_levels(metrics)[0].0
}

fn pins_flushed(db: &Db) -> bool {
    let metrics = db.metrics();
    metrics.keyspaces.iter().find(|k| k.name == "pins").unwrap().levels.iter().any(|level| level.bytes > 0)
}

impl World {
    fn new() -> World {
        World { fs: SimulatedFileSystem::new(), clock: Arc::default() }
    }

    fn open(&self, set: &[(&str, &str)]) -> Db {
        let tiny = Options {
            memtable_bytes: 8 << 10,
            table_bytes: 8 << 10,
            block_bytes: 512,
            level_base_bytes: 32 << 10,
            level_ratio: 4,
            l0_trigger: 3,
            wal_bytes_max: 1 << 20,
            reserve_bytes: 0,
            // Values of one byte repeated shrink to nothing where they are compressed, and levels with them.
            compression: CompressionRule::None,
            ..Options::default()
        };
        let builder = Db::builder(Path::new("/store"))
            .options(tiny)
            .file_system(Arc::new(self.fs.clone()))
            .clock(Arc::clone(&self.clock) as _)
            .without_threads()
            .logs_in_steps();
        set.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).open().unwrap()
    }
}

#[test]
fn every_option_makes_the_difference_its_row_says() {
    every_field_has_a_row(Options::default());
    for row in ROWS {
        let observed = |set: &[(&str, &str)], live: Option<&str>| {
            let world = World::new();
            let db = world.open(set);
            if let Some(value) = live {
                db.set_option(row.name, value).unwrap();
            }
            (row.observe)(&world, &db)
        };
        let (from, to) = (observed(&[(row.name, row.from)], None), observed(&[(row.name, row.to)], None));
        let moved = match row.moves {
            Moves::Up => to > from,
            Moves::Down => to < from,
        };
        assert!(moved, "{}: {} gives {from}, {} gives {to}", row.name, row.from, row.to);
        let live = Options::info(row.name).unwrap().live;
        if live {
            let changed = observed(&[(row.name, row.from)], Some(row.to));
            let moved = if row.moves == Moves::Up { changed > from } else { changed < from };
            assert!(moved, "{} changed on the running store gives {changed}, {from} unchanged", row.name);
        }
        println!("OPTION {} {}={from} {}={to} live={live}", row.name, row.from, row.to);
    }
}

#[test]
fn the_table_and_the_names_are_the_same() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    let names: BTreeSet<&str> = Options::names().iter().map(|info| info.name).collect();
    assert_eq!(rows, names);
}

#[test]
fn the_documentation_has_every_option() {
    let page = include_str!("../../../../docs/options.md");
    for info in Options::names() {
        let begin = format!("| `{}` | ", info.name);
        let when = if info.live { "live" } else { "at open" };
        let rest = format!(" | {} | {when} | ", info.what);
        let lines: Vec<&str> = page.lines().filter(|l| l.starts_with(&begin) && l.contains(&rest)).collect();
        assert_eq!(lines.len(), 1, "{begin}…{rest}: {lines:?}");
        let word = lines[0].rsplit('|').nth(1).unwrap().trim().trim_matches('`');
        assert!(word.is_empty() || Options::info(word).unwrap().name == info.name, "{}: {word}", info.name);
    }
    let rows = page.lines().filter(|l| l.starts_with("| `"));
    assert_eq!(rows.count(), Options::names().len());
}

#[test]
fn every_change_on_a_running_store_is_remembered() {
    for row in ROWS.iter().filter(|row| Options::info(row.name).unwrap().live) {
        let world = World::new();
        let db = world.open(&[(row.name, row.from)]);
        db.set_option(row.name, row.to).unwrap();
        let now = Options::info(row.name).unwrap().value(&db.options());
        db.close().unwrap();
        let builder = Db::builder(Path::new("/store")).file_system(Arc::new(world.fs.clone()));
        let db = builder.clock(Arc::clone(&world.clock) as _).without_threads().open().unwrap();
        assert_eq!(Options::info(row.name).unwrap().value(&db.options()), now, "{}", row.name);
    }
}

#[test]
fn a_change_that_cannot_be_is_refused_and_changes_nothing() {
    let world = World::new();
    let db = world.open(&[]);
    let before = db.options();
    for (name, value) in [
        ("memtable_byte", "1MiB"),
        ("memtables", "1"),
        ("l0_limit", "2"),
        ("schedule", "whenever"),
        ("compression", "zip"),
        ("workers", "-1"),
    ] {
        let error = db.set_option(name, value).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{name}={value}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
    assert_eq!(db.options(), before);
    // A full disk: the change is not kept in memory either.
    world.fs.set_free_space(Some(0));
    assert!(db.set_option("memtables", "5").is_err());
    assert_eq!(db.options(), before);
    world.fs.set_free_space(None);
    db.set_option("memtables", "5").unwrap();
    assert_eq!(db.options().memtables, 5);
}

#[test]
fn options_that_are_no_set_options_make_a_difference_too() {
    let world = World::new();
    let builder = || {
        Db::builder(Path::new("/store"))
            .file_system(Arc::new(world.fs.clone()))
            .clock(Arc::clone(&world.clock) as _)
            .without_threads()
    };
    let error =
        builder().options(Options { create_if_missing: false, ..Options::default() }).open().unwrap_err();
    assert_eq!(error.kind(), "InvalidArgument");
    let db =
        builder().options(Options { strategy: Some("tier".into()), ..Options::default() }).open().unwrap();
    assert_eq!(db.keyspace("default").unwrap().strategy_text(), "tier");
}

/// Live, and when the store is opened again.
#[test]
fn a_keyspace_without_a_memtable_size_of_its_own_follows_the_store() {
    let world = World::new();
    let flushes = |db: &Db| {
        ["own", "plain"].map(|name| {
            let (keyspace, before) = (db.keyspace(name).unwrap(), db.metrics().flushes);
            for i in 0..600 {
                keyspace.put(&key(i % 200), &[1; 100]).unwrap();
            }
            keyspace.flush().unwrap();
            db.metrics().flushes - before
        })
    };
    let db = world.open(&[]);
    let own = KeyspaceOptions { memtable_bytes: Some(8 << 10), ..KeyspaceOptions::default() };
    db.create_keyspace("own", own).unwrap();
    db.create_keyspace("plain", KeyspaceOptions::default()).unwrap();
    let [before, as_many] = flushes(&db);
    assert!(before > 5 && as_many == before, "{before} {as_many}");
    db.set_option("memtable_bytes", "1MiB").unwrap();
    assert_eq!(flushes(&db), [before, 1]);
    db.close().unwrap();
    let db = world.open(&[("memtable_bytes", "4MiB")]);
    assert_eq!(flushes(&db), [before, 1]);
    db.close().unwrap();
    let db = world.open(&[("memtable_bytes", "8KiB")]);
    assert_eq!(flushes(&db), [before; 2]);
}

#[test]
fn every_option_of_a_keyspace_makes_a_difference() {
    let world = World::new();
    let db = world.open(&[]);
    let KeyspaceOptions { strategy: _, memtable_bytes: _, no_wal: _, compression: _, prefix_filter: _ } =
        KeyspaceOptions::default();
    let small = KeyspaceOptions { memtable_bytes: Some(2 << 10), ..KeyspaceOptions::default() };
    let tiered = KeyspaceOptions { strategy: Some("tier".into()), ..KeyspaceOptions::default() };
    let (small, tiered) =
        (db.create_keyspace("small", small).unwrap(), db.create_keyspace("tiered", tiered).unwrap());
    let plain = db.create_keyspace("plain", KeyspaceOptions::default()).unwrap();
    let flushes = [&small, &tiered, &plain].map(|keyspace| {
        let before = db.metrics().flushes;
        for i in 0..600 {
            keyspace.put(&key(i % 200), &[1; 100]).unwrap();
        }
        keyspace.flush().unwrap();
        db.metrics().flushes - before
    });
    assert!(flushes[0] > flushes[2], "a memtable a quarter as large is flushed more often: {flushes:?}");
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    let of = |name: &str| metrics.keyspaces.iter().find(|k| k.name == name).unwrap();
    assert_eq!(of("tiered").strategy, "tier");
    assert_ne!(of("plain").strategy, "tier");
    let most_runs = |name: &str| of(name).levels.iter().map(|level| level.runs).max().unwrap();
    assert!(most_runs("tiered") > most_runs("plain"));
    let bytes = |name: &str| of(name).levels.iter().map(|level| level.bytes).sum::<u64>();
    let packed = KeyspaceOptions { compression: Some("lz4".parse().unwrap()), ..KeyspaceOptions::default() };
    let prefixed =
        KeyspaceOptions { prefix_filter: Some("fixed:10".parse().unwrap()), ..KeyspaceOptions::default() };
    for (name, options) in [("packed", packed), ("prefixed", prefixed)] {
        let keyspace = db.create_keyspace(name, options).unwrap();
        for i in 0..200 {
            keyspace.put(&key(i), &[1; 100]).unwrap();
        }
        keyspace.flush().unwrap();
    }
    let metrics = db.metrics();
    let now = |name: &str| metrics.keyspaces.iter().find(|k| k.name == name).unwrap();
    assert!(now("packed").levels[0].bytes * 2 < bytes("plain"), "packed to less than half");
    // Between two keys that are there.
    let absent = ScanRange::prefix(b"key-00005x");
    for (keyspace, skipped) in [(&plain, 0), (&db.keyspace("prefixed").unwrap(), 1)] {
        assert_eq!(keyspace.scan(absent.clone()).unwrap().count(), 0);
        assert_eq!(db.metrics().tables_skipped, skipped, "{}", keyspace.name());
    }
    let no_wal = KeyspaceOptions { no_wal: true, ..KeyspaceOptions::default() };
    let unlogged = db.create_keyspace("unlogged", no_wal).unwrap();
    let logged_bytes = || db.metrics().io.iter().find(|(class, ..)| class == "wal").unwrap().2;
    let before = logged_bytes();
    unlogged.put(b"k", &[1; 100]).unwrap();
    assert_eq!(logged_bytes(), before, "a keyspace without a log does not write to it");
    plain.put(b"k", &[1; 100]).unwrap();
    assert!(logged_bytes() > before);
}
