//! What DLC's gates keep from going on at high load, and what bursts let through all the same, on the real engine.

use evenkeel::Options;

use super::world::{STRATEGY, T, World, moved, options};

/// At high load nothing of L0 starts, and what ran stops within a table; at low load it comes back.
#[test]
fn dlc_leaves_l0_alone_at_high_load() {
    // So many that no writer is slowed for them.
    let mut world = World::with(Options { l0_limit: 1000, ..options("dlc-full") }, 7);
    world.settle();
    // Before the hundredth of a second in which load is found high.
    let mut begun = world.metrics();
    loop {
        world.high(1);
        let now = world.metrics();
        if now.schedule.load_is_high == Some(true) {
            break;
        }
        begun = now;
    }
    assert!(begun.jobs_open > 0 && moved(&begun, &["l0-to-l1"]) > 0);
    world.high(5);
    let settled = world.metrics();
    let since = moved(&settled, &["intra-l0", "l0-to-l1"]) - moved(&begun, &["intra-l0", "l0-to-l1"]);
    // A table that is read, and one that is written.
    assert!(since <= 2 * (4 << 10), "{since} bytes");
    world.high(300);
    let after = world.metrics();
    assert_eq!(moved(&after, &["intra-l0", "l0-to-l1"]), moved(&settled, &["intra-l0", "l0-to-l1"]));
    assert!(after.keyspaces[0].levels[0].runs > 20, "{}", after.keyspaces[0].levels[0].runs);
    // The fourth low second in a row would be too late.
    world.low(401);
    let low = world.metrics();
    assert!(moved(&low, &["l0-to-l1"]) > moved(&after, &["l0-to-l1"]));
    world.finish();
}

/// The limit of L0 is where writers would stand still: long before it, where they are slowed, L0 is delayed no longer, also where a burst
/// would come later than that.
#[test]
fn dlc_does_not_delay_what_slows_writers() {
    for schedule in ["dlc-full", "dlc-part", "dlc-burst-full", "dlc-burst-part"] {
        let schedule = format!("{schedule}:floor=100%");
        let mut world =
            World::with(Options { l0_limit: 20, device_bytes_per_sec: 4 * T, ..options(&schedule) }, 9);
        world.settle();
        world.high(210);
        let mut most = 0;
        for _ in 0..400 {
            world.tick(10, 110);
            most = most.max(world.metrics().keyspaces[0].levels[0].runs);
        }
        // From 12 on writers are slowed.
        assert!(most <= 14, "{schedule}: {most} runs");
        assert_eq!(world.metrics().schedule.load_is_high, Some(true), "{schedule}");
        world.finish();
    }
}

/// Delayed in part, L0 is merged within itself only.
#[test]
fn dlc_part_merges_l0_within_itself() {
    let mut world = World::new("dlc-part", 7);
    world.settle();
    world.high(210);
    let before = world.metrics();
    world.high(200);
    let after = world.metrics();
    assert_eq!(moved(&after, &["l0-to-l1"]), moved(&before, &["l0-to-l1"]));
    assert!(moved(&after, &["intra-l0"]) > moved(&before, &["intra-l0"]));
    world.finish();
}

/// Under a load without end L0 stays bounded, and every fifth burst brings it down.
#[test]
fn bursts_keep_l0_bounded() {
    for (schedule, l0, bound) in [
        ("dlc-burst-full:burst-runs=10,floor=100%", "runs:4", 12),
        // Sooner than the strategy would have it.
        ("dlc-burst-full:burst-runs=10,floor=100%", "runs:30", 12),
        // With the outputs of four parts, and what is flushed in the fifth of a second in which all of it goes down.
        ("dlc-burst-part:burst-runs=10,floor=100%", "runs:4", 10 + 4 + 3),
        // The first part has all that the strategy had left there.
        ("dlc-burst-part:burst-runs=10,floor=100%", "runs:30", 10 + 4 + 6),
    ] {
        let strategy = Some(STRATEGY.replace("runs:4", l0));
        // Fast enough for what comes in.
        let mut world =
            World::with(Options { device_bytes_per_sec: 4 * T, strategy, ..options(schedule) }, 9);
        world.settle();
        world.high(210);
        let mut most = 0;
        for _ in 0..1000 {
            world.high(1);
            most = most.max(world.db.metrics().keyspaces[0].levels[0].runs);
        }
        let metrics = world.metrics();
        let [parts, full] = metrics.schedule.bursts;
        assert!(most <= bound, "{schedule}: {most} runs");
        assert!(full > 1, "{schedule}: {parts} parts, {full} full");
        match schedule.contains("part") {
            true => assert!(parts >= 4 * full && parts <= 4 * (full + 1), "{parts} parts, {full} full"),
            false => assert_eq!(parts, 0),
        }
        world.finish();
    }
}
