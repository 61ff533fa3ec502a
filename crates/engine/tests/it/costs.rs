//! What compaction costs and leaves behind, by the design-space paper's definitions (CDS §4.2), against counts of the test's own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{Db, Options};

fn open(options: Options) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let options = Options {
        memtable_bytes: 32 << 10,
        table_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        level_ratio: 4,
        reserve_bytes: 0,
        // So that bytes of files are bytes of entries.
        compression: "none".parse().unwrap(),
        ..options
    };
    let builder = Db::builder(Path::new("/store")).options(options).clock(Arc::clone(&clock) as _);
    (builder.file_system(Arc::new(SimulatedFileSystem::new())).without_threads().open().unwrap(), clock)
}

/// Writes so many records, each of 112 bytes, over so many keys; and one delete in `deletes`.
fn write(db: &Db, random: &mut Random, records: u64, keys: u64, deletes: u64) {
    for i in 0..records {
        let key = format!("{:012}", random.below(keys)).into_bytes();
        if deletes > 0 && random.one_in(deletes) {
            db.delete(&key).unwrap();
        } else {
            db.put(&key, format!("{i:0>100}").as_bytes()).unwrap();
        }
        db.step(&mut |jobs| jobs.first().map(|job| job.0));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

#[test]
fn space_is_counted_exactly_by_reading_and_estimated_within_a_tenth() {
    for (strategy, keys, deletes) in
        [("tier", 4000, 0), ("tier", 20_000, 10), ("1-leveling", 3000, 20), ("l-leveling", 8000, 0)]
    {
        let (db, _) = open(Options { strategy: Some(strategy.to_owned()), ..Options::default() });
        write(&db, &mut Random::new(keys), 16_000, keys, deletes);
        let report = db.keyspace("default").unwrap().measure_space().unwrap();
        let seen = db.scan(evenkeel::ScanRange::all()).unwrap().count() as u64;
        let levels = db.metrics().keyspaces[0].levels.clone();
        let entries: u64 = levels.iter().map(|l| l.entries).sum();
        assert_eq!((report.seen, report.seen_bytes), (seen, seen * 112), "{strategy}");
        assert_eq!(report.superseded_bytes, report.superseded * 112);
        assert_eq!(report.seen + report.superseded + report.tombstones, entries, "{strategy}");
        let (exact, estimate) = (report.amplification(), db.metrics().costs.space_amplification.unwrap());
        println!("SPACE {strategy} over {keys} keys: {exact:.3} exact, {estimate:.3} estimated");
        assert!((estimate - exact).abs() <= 0.1 * exact, "{strategy}: {estimate} instead of {exact}");
        assert!(exact > 0.03, "{strategy}: {exact} shows nothing");
    }
}

#[test]
fn entries_rewritten_and_bytes_written_are_those_of_compactions() {
    let (db, clock) = open(Options { strategy: Some("full".to_owned()), ..Options::default() });
    // At 0 there is no time.
    clock.advance(Duration::from_secs(1));
    let mut random = Random::new(5);
    write(&db, &mut random, 6000, 1 << 40, 0);
    let m = db.metrics();
    // Nearly nothing was superseded, so both ways of counting agree but for blocks, filters and indexes.
    let (rewrites, written) = (m.costs.rewrites_per_entry, m.costs.write_amplification);
    assert!(rewrites > 1.0 && written > 1.0, "{:?}", m.costs);
    assert!((written / rewrites - 1.0).abs() < 0.25, "{:?}", m.costs);
    assert_eq!(m.costs.write_amplification, m.compaction_bytes_written as f64 / m.user_bytes as f64);
    assert_eq!((m.costs.tombstones, m.costs.oldest_tombstone_seconds), (0, None));
    assert!((0.0..=1.0).contains(&m.costs.cpu_share) && m.costs.cpu_seconds > 0.0, "{:?}", m.costs);
    let [p50, p90, p99, max] = m.compaction_us;
    assert!(p50 <= p90 && p90 <= p99 && p99 <= max);
    db.delete(b"nothing").unwrap();
    clock.advance(Duration::from_secs(90));
    db.flush().unwrap();
    let m = db.metrics();
    assert_eq!(m.costs.tombstones, 1);
    assert_eq!(m.costs.oldest_tombstone_seconds, Some(90.0), "it counts from the delete, not from its flush");
}

#[test]
fn a_get_is_charged_with_the_pages_it_reads() {
    let options = Options { cache_bytes: 0, block_bytes: 4096, filter_bits: 10.0, ..Options::default() };
    let (db, _) = open(options);
    let mut random = Random::new(6);
    for i in 0..5000u64 {
        db.put(format!("{i:012}").as_bytes(), &[7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(evenkeel::ScanRange::all()).unwrap();
    assert_eq!(db.metrics().costs.pages_per_get, None);
    let client = |db: &Db| db.metrics().io.iter().find(|(class, ..)| class == "client").unwrap().1;
    let before = client(&db);
    let gets = 64 * 40;
    for _ in 0..gets {
        let key = format!("{:012}", random.below(5000)).into_bytes();
        assert!(db.get(&key).unwrap().is_some());
    }
    let pages = db.metrics().costs.pages_per_get.unwrap();
    let by_bytes = (client(&db) - before) as f64 / gets as f64 / 4096.0;
    println!("PAGES {pages:.2} a get; {by_bytes:.2} by bytes");
    // A page counts whole, so there are more of them than their bytes fill, at most one a block more.
    assert!(pages >= 0.9 * by_bytes && pages <= by_bytes + 3.5, "{pages} and {by_bytes}");
    assert!(db.control("stats").unwrap().contains("\"pages_per_get\":"));
}

#[test]
fn a_compaction_says_why_it_was_decided_and_what_it_cost() {
    let (db, _) = open(Options { strategy: Some("1-leveling".to_owned()), ..Options::default() });
    write(&db, &mut Random::new(8), 12_000, 3000, 0);
    let last = db.control("decisions default 400").unwrap();
    let count = last.matches("\"job\":").count() as u64;
    let m = db.metrics();
    // Each one is remembered, moves too.
    assert_eq!(count, (m.compactions + m.jobs_yielded + m.moves).min(256), "{last}");
    let id = last.rsplit("\"job\":").next().unwrap().split(',').next().unwrap().to_owned();
    let one = db.control(&format!("decision {id}")).unwrap();
    for part in [
        "\"reason\":",
        "\"score\":",
        "\"rejected\":[",
        "\"predicted\":{\"read\":",
        "\"outcome\":\"",
        "\"lines\":[\"Job ",
    ] {
        assert!(one.contains(part), "no {part} in {one}");
    }
    // What was to be written is about what was: duplicates are foreseen.
    let sum = |what: &str| -> u64 {
        let figure = |part: &str| part.split("\"written\":").nth(1)?.split(',').next()?.parse::<u64>().ok();
        last.split(what).skip(1).filter_map(figure).sum()
    };
    let (predicted, real) = (sum("\"predicted\":"), sum("\"real\":{"));
    println!("PREDICTED {predicted} bytes, written {real}");
    assert!(real > 0 && (predicted as f64 / real as f64 - 1.0).abs() < 0.15, "{predicted} and {real}");
    assert_eq!(db.control("decision 999999").unwrap_err().kind(), "InvalidArgument");
}
