//! What clients use of the device, by each estimator, beside what they read from files; and whose reads are no client's.

use evenkeel::schedule::{Estimator, Usage, fit_weights};
use evenkeel::{Options, ScanRange};

use super::world::{KEYS, VALUE, World, moved, options};

/// Cache fills tell what clients read, within a tenth; SILK's formula does not.
#[test]
fn cache_fills_tell_what_clients_read() {
    for compression in ["none", "lz4"] {
        let estimate = |estimator: &str| {
            let mut options = options(&format!("dlc-full:estimator={estimator}"));
            options.set("compression", compression).unwrap();
            // Of what is read ahead not all comes into the cache.
            options.set("readahead_bytes", "0").unwrap();
            let mut world = World::with(options, 23);
            world.settle();
            for tick in 0..310 {
                scan(&world, tick);
                world.tick(0, 20);
            }
            let client = world.metrics().schedule.client_bytes_per_sec.unwrap();
            world.finish();
            client as f64
        };
        let (fills, device) = (estimate("cache-fills"), estimate("device"));
        let is_near = device > 50_000.0 && (fills / device - 1.0).abs() < 0.1;
        assert!(is_near, "{compression}: {fills} of {device}");
        let by_operations = estimate("op-bytes");
        let is_off = (by_operations / device - 1.0).abs() > 0.3;
        assert!(is_off || compression != "none", "{compression}: {by_operations} of {device}");
    }
}

/// The same of a whole minute, all estimates of one and the same: DLC's bound for Eq 6, and that SILK's formula does not keep it.
#[test]
fn over_a_minute_cache_fills_are_what_clients_read() {
    const SECONDS: u64 = 60;
    for compression in ["none", "lz4"] {
        let mut options = options("dlc-full:estimator=op-bytes");
        options.set("compression", compression).unwrap();
        options.set("readahead_bytes", "0").unwrap();
        let mut world = World::with(options, 23);
        world.settle();
        let before = world.metrics().schedule.used;
        for tick in 0..SECONDS * 100 {
            scan(&world, tick);
            world.tick(0, 20);
        }
        let used = world.metrics().schedule.used.since(&before);
        world.finish();
        let fills = Estimator::CacheFills { gamma: None }.bytes(&used);
        let (operations, device) = (Estimator::OpBytes.bytes(&used), Estimator::Device.bytes(&used));
        let is_near = device > (SECONDS * 50_000) as f64 && (fills / device - 1.0).abs() < 0.1;
        assert!(is_near, "{compression}: {fills} of {device}");
        let is_off = (operations / device - 1.0).abs() > 0.3;
        assert!(is_off || compression != "none", "{compression}: {operations} of {device}");
    }
}

/// Weights that were fitted while clients did this and that tell what they read when they do something else, within 15 %.
#[test]
fn fitted_weights_tell_what_clients_read() {
    let mut world = World::new("dlc-full:estimator=weighted@1@1", 29);
    world.settle();
    let mut interval = |gets: u64, scans: u64| {
        let before = world.metrics().schedule.used;
        (0..scans).for_each(|n| scan(&world, gets + n * 7));
        world.tick(0, gets);
        world.metrics().schedule.used.since(&before)
    };
    let learned: Vec<Usage> = (0..40).map(|i| interval(20 + 37 * i % 190, 53 * i % 21)).collect();
    let (get, scan) = fit_weights(&learned).unwrap();
    let estimator = Estimator::WeightedOps { get, scan };
    for (gets, scans) in [(4000, 20), (1000, 300), (200, 400)] {
        let used = interval(gets, scans);
        let error = estimator.bytes(&used) / used.client_read_bytes as f64 - 1.0;
        assert!(error.abs() < 0.15, "{gets} gets, {scans} scans, by {get} and {scan}: off by {error}");
    }
    world.finish();
}

/// Twenty entries, from somewhere.
fn scan(world: &World, from: u64) {
    let from = format!("{:06}", from * 7919 % KEYS);
    let found = world.db.scan(ScanRange::new(Some(from.as_bytes()), None)).unwrap().take(20);
    found.for_each(|entry| drop(entry.unwrap()));
}

/// What a caller has verified or counted is read for him, and is no background work.
#[test]
fn who_reads_everything_is_a_client() {
    let mut world = World::new("unlimited", 31);
    world.high(20);
    world.settle();
    let background = ["intra-l0", "l0-to-l1", "deep", "upkeep"];
    let before = world.metrics();
    world.db.verify().unwrap();
    let after = world.metrics();
    assert_eq!(moved(&after, &background), moved(&before, &background));
    assert!(moved(&after, &["client"]) > moved(&before, &["client"]) + KEYS * VALUE as u64);
    world.finish();
}

/// What compactions read is no client's, by any estimator.
#[test]
fn compactions_are_no_clients() {
    for estimator in ["cache-fills", "device", "op-bytes", "per-get", "weighted@1@1"] {
        let mut world = World::new("fixed:1024", 23);
        world.high(20);
        world.db.set_schedule(&format!("dlc-full:estimator={estimator},every=10ms")).unwrap();
        world.tick(0, 0);
        world.tick(0, 0);
        let before = moved(&world.db.metrics(), &["l0-to-l1", "deep", "intra-l0"]);
        (0..20).for_each(|_| world.tick(0, 0));
        let after = world.metrics();
        assert!(moved(&after, &["l0-to-l1", "deep", "intra-l0"]) > before, "{estimator}");
        assert_eq!(after.schedule.client_bytes_per_sec, Some(0), "{estimator}");
        world.finish();
    }
}

/// Nor is what they leave in the cache of what was there before.
#[test]
fn what_compactions_keep_in_the_cache_is_no_clients() {
    let large = Options { cache_bytes: 1 << 20, memory_bytes: 4 << 20, ..options("fixed:1024") };
    let mut world = World::with(large, 23);
    world.high(20);
    world.db.set_schedule("dlc-full:estimator=cache-fills,every=10ms").unwrap();
    world.tick(0, 0);
    world.tick(0, 0);
    let before = world.metrics().cache_written_bytes;
    for _ in 0..20 {
        world.tick(0, 0);
        assert_eq!(world.metrics().schedule.client_bytes_per_sec, Some(0));
    }
    assert!(world.metrics().cache_written_bytes > before);
    world.finish();
}
