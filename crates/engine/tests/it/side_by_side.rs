//! Jobs side by side: eight open ones stepped by one thread in random order; and real threads on a real disk, which write,
//! read and scan their own keys while flushes and compactions run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, KeyspaceOptions, Metrics, Options, ScanRange, WriteBatch};

use super::trust::layer;

/// So small that flushes and compactions go on all the time.
pub fn tiny() -> Options {
    Options {
        memtable_bytes: 8 << 10,
        memtables: 4,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        l0_limit: 24,
        wal_bytes_max: 256 << 10,
        cache_bytes: 64 << 10,
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        ..Options::default()
    }
}

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(db: &Db, name: &str) -> Content {
    db.keyspace(name).unwrap().scan(ScanRange::all()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn eight_open_jobs_run_on_one_thread() {
    for seed in 1..=8 {
        eight_jobs(seed);
    }
}

fn eight_jobs(seed: u64) {
    let mut random = Random::new(seed);
    let options = Options { workers: 8, memtables: 64, l0_limit: 1000, ..tiny() };
    let db = Db::builder(Path::new("/store"))
        .options(options)
        .file_system(Arc::new(SimulatedFileSystem::new()))
        .clock(Arc::new(ManualClock::default()))
        .without_threads()
        .open()
        .unwrap();
    let names: Vec<String> = (0..8).map(|i| format!("keyspace-{i}")).collect();
    let mut model: BTreeMap<&str, Content> = BTreeMap::new();
    for name in &names {
        let options = KeyspaceOptions { strategy: Some("1-leveling".to_owned()), ..Default::default() };
        let keyspace = db.create_keyspace(name, options).unwrap();
        // Enough for a job in each, written without a step of compaction between.
        for i in 0..600u64 {
            let (key, value) = (
                format!("{:04}", random.below(400)).into_bytes(),
                format!("{seed} {name} {i}").repeat(3).into_bytes(),
            );
            keyspace.put(&key, &value).unwrap();
            model.entry(name).or_default().insert(key, value);
        }
        while db.step(&mut |_| None) {}
    }
    let open = db.metrics().jobs_open;
    assert_eq!(open, 8, "seed {seed}: jobs open side by side");
    let mut turns: BTreeMap<usize, u64> = BTreeMap::new();
    let mut most = 0;
    while db.step(&mut |runnable: &[(usize, _)]| {
        most = most.max(runnable.len());
        let drawn = random.below(runnable.len() as u64) as usize;
        let job = runnable.get(drawn).map(|(job, _)| *job)?;
        *turns.entry(job).or_default() += 1;
        Some(job)
    }) {}
    assert_eq!(most, 8, "seed {seed}: jobs that could be stepped");
    assert!(
        turns.len() == 8 && turns.values().all(|steps| *steps > 1),
        "seed {seed}: every place had turns: {turns:?}"
    );
    let metrics = db.metrics();
    assert_eq!((metrics.jobs_open, metrics.jobs_discarded), (0, 0), "seed {seed}");
    assert!(metrics.compactions >= 8, "seed {seed}: {} compactions", metrics.compactions);
    for name in &names {
        assert_eq!(contents(&db, name), model[name.as_str()], "seed {seed}: {name}");
    }
    db.verify().unwrap();
}

#[test]
fn an_idle_store_has_nothing_left_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::builder(directory.path()).options(tiny()).open().unwrap();
    let mut random = Random::new(11);
    for round in 0..60 {
        for _ in 0..300 {
            let key = format!("{:06}", random.below(5000));
            db.put(key.as_bytes(), format!("{round:050}").as_bytes()).unwrap();
        }
        db.wait_idle().unwrap();
        let before = db.metrics();
        // A look that was under way would find its work while so many figures are taken.
        for _ in 0..100 {
            drop(db.metrics());
        }
        let after = db.metrics();
        let done = |metrics: &Metrics| (metrics.compactions, metrics.moves, metrics.flushes);
        assert_eq!(done(&before), done(&after), "round {round}");
    }
}

#[test]
fn threads_write_read_and_scan_while_compactions_run() {
    const THREADS: u64 = 4;
    const OPERATIONS: u64 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    // Large enough that few syncs of a slow disk make the test slow.
    let options = Options {
        workers: 2,
        memtable_bytes: 24 << 10,
        table_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        ..tiny()
    };
    let db = Db::open(directory.path(), options.clone()).unwrap();
    let mut model = Content::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let db = db.clone();
                    move || own_keys(&db, thread, OPERATIONS)
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| model.extend(worker.join().unwrap()));
    });
    assert_eq!(contents(&db, "default"), model);
    db.verify().unwrap();
    let metrics = db.metrics();
    assert!(
        metrics.flushes > 10 && metrics.compactions > 10,
        "{} flushes, {} compactions",
        metrics.flushes,
        metrics.compactions
    );
    db.wait_idle().unwrap();
    assert_eq!(contents(&db, "default"), model);
    db.close().unwrap();
    let db = Db::open(directory.path(), options).unwrap();
    assert_eq!(contents(&db, "default"), model);
    db.verify().unwrap();
    db.close().unwrap();
}

/// One thread's work on keys that nobody else writes; answers what they hold in the end.
fn own_keys(db: &Db, thread: u64, operations: u64) -> Content {
    let mut random = Random::new(thread);
    let mut model = Content::new();
    let prefix = format!("thread {thread}/");
    for i in 0..operations {
        let key = format!("{prefix}{:05}", random.below(1500)).into_bytes();
        match random.below(20) {
            0..10 => {
                let value = format!("{thread} {i} ").repeat(random.below(12) as usize).into_bytes();
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            10 => {
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            11 => {
                let mut batch = WriteBatch::new();
                for n in 0..5 {
                    let key = [&key[..], &[n]].concat();
                    batch.put(&key, &i.to_le_bytes());
                    model.insert(key, i.to_le_bytes().to_vec());
                }
                db.write(batch).unwrap();
            }
            12 => {
                let end = format!("{prefix}{:05}", random.below(1500)).into_bytes();
                let end = if random.one_in(8) { end } else { [&key[..key.len() - 1], b"\xff"].concat() };
                db.delete_range(&key, &end).unwrap();
                model.retain(|k, _| *k < key || *k >= end);
            }
            13..19 => assert_eq!(
                db.get(&key).unwrap().as_deref(),
                model.get(&key).map(Vec::as_slice),
                "{thread}: {key:?}"
            ),
            _ => {
                let end = [&key[..], b"\xff"].concat();
                let got: Vec<_> = db
                    .scan(ScanRange::new(Some(prefix.as_bytes()), Some(&end)))
                    .unwrap()
                    .rev()
                    .take(30)
                    .map(Result::unwrap)
                    .collect();
                let want: Vec<_> =
                    model.range(..end).rev().take(30).map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(got, want, "{thread}: back from {key:?}");
            }
        }
        if i % 4000 == 3999 {
            let got: Content =
                db.scan(ScanRange::prefix(prefix.as_bytes())).unwrap().map(Result::unwrap).collect();
            assert_eq!(got, model, "{thread}: all of its keys");
        }
    }
    model
}

/// The keys that are written all the time, and what their last acknowledged values are.
const HOT: [&[u8]; 4] = [b"hot 0", b"hot 1", b"hot 2", b"hot 3"];

/// Reads the hot keys until it is over: each is always there, and never older than what was acknowledged before.
fn read_hot(db: &Db, acknowledged: &[AtomicU64; 4], over: &AtomicBool) -> u64 {
    let mut reads = 0;
    let number = |value: &[u8]| std::str::from_utf8(value).unwrap().parse::<u64>().unwrap();
    while !over.load(Ordering::Acquire) {
        for (key, acknowledged) in HOT.iter().zip(acknowledged) {
            let least = acknowledged.load(Ordering::Acquire);
            let value = db.get(key).unwrap().unwrap_or_else(|| panic!("{key:?} is gone"));
            assert!(number(&value) >= least, "{key:?} is older than {least}");
            reads += 1;
        }
        let found: Vec<_> = db.scan(ScanRange::all()).unwrap().map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, HOT, "a scan");
        let snapshot = db.snapshot();
        let twice = [0, 1].map(|_| snapshot.get(HOT[0]).unwrap().map(|value| number(&value)));
        assert!(twice[0].is_some() && twice[0] == twice[1], "a snapshot changes: {twice:?}");
    }
    reads
}

/// A read that took its sequence before its view would at times find nothing: a flush has dropped the version it asks for.
#[test]
fn a_key_that_is_overwritten_all_the_time_is_always_there() {
    let layer = layer("threads");
    let writes = if layer.is_full() { 60_000 * layer.soak() } else { 8_000 };
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options { workers: 2, ..tiny() }).unwrap();
    let (over, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    for key in HOT {
        db.put(key, b"000000").unwrap();
    }
    let mut attempt = layer.attempt(0);
    attempt.doing("readers beside a writer");
    let reads: u64 = std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| scope.spawn(|| read_hot(&db, &acknowledged, &over)));
        for n in 1..=writes {
            if readers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
            let at = n as usize % HOT.len();
            db.put(HOT[at], format!("{n:0>100}").as_bytes()).unwrap();
            acknowledged[at].store(n, Ordering::Release);
            if n % 1024 == 0 {
                layer.progress(n, writes);
            }
        }
        over.store(true, Ordering::Release);
        readers.map(|reader| reader.join().unwrap()).iter().sum()
    });
    let metrics = db.metrics();
    layer.report(format_args!(
        "writes={writes} reads={reads} flushes={} merges={} lost=0 wrong=0",
        metrics.flushes, metrics.compactions
    ));
    assert!(metrics.flushes > 10 && reads > 100, "{} flushes, {reads} reads", metrics.flushes);
}
