//! SILK's floor over a whole minute in which clients use more than the device has: what flushes and L0 may move then they do move.

use std::time::Duration;

use evenkeel::Metrics;
use evenkeel::testing::Clock as _;

use super::world::{T, World, moved};

const MINUTE: Duration = Duration::from_secs(60);

/// A quarter of the device (SILK §5.2.1, §6.1).
const FLOOR: u64 = T / 4;

/// Some forty kilobytes are written, for which L0 has more to move than the floor lets it, and gets read a multiple of what the device has.
fn second(world: &mut World) {
    (0..100).for_each(|_| world.tick(4, 60));
}

/// Bytes that flushes have moved, and that compactions of L0 have.
fn work(metrics: &Metrics) -> [u64; 2] {
    [moved(metrics, &["flush"]), moved(metrics, &["intra-l0", "l0-to-l1"])]
}

#[test]
fn for_a_minute_beyond_the_device_flushes_and_l0_have_their_floor() {
    let mut world = World::new("silk", 3);
    world.settle();
    // Until L1 is as large as it gets while nothing deeper goes on.
    (0..10).for_each(|_| second(&mut world));
    let (began, first) = (world.clock.now(), work(&world.metrics()));
    let mut before = first;
    let mut seconds = 0;
    while world.clock.now() - began < MINUTE {
        second(&mut world);
        seconds += 1;
        let metrics = world.metrics();
        let clients = metrics.schedule.client_bytes_per_sec.unwrap();
        assert_eq!(metrics.schedule.load_is_high, Some(true), "second {seconds}");
        assert!(clients >= T, "second {seconds}: clients use {clients}");
        if seconds % 10 == 0 {
            let now = work(&metrics);
            assert!(now[0] > before[0] && now[1] > before[1], "second {seconds}: {before:?}, then {now:?}");
            before = now;
        }
    }
    let passed = (world.clock.now() - began).as_secs_f64();
    let [flushes, l0] = work(&world.metrics());
    let share = (flushes - first[0] + l0 - first[1]) as f64 / (passed * FLOOR as f64);
    assert!(share >= 0.9, "{share} of the floor in {passed} seconds, by {first:?} and {flushes} {l0}");
    world.finish();
}
