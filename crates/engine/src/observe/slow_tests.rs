//! Slow operations: who is charged, what is remembered, and for how long. No test here depends on how fast it runs.

use std::time::Duration;

use super::*;
use crate::base::clock::ManualClock;

fn operation(ended_ms: u64, nanos: [u64; 5]) -> SlowOperation {
    SlowOperation { ended_ms, op: Op::Get, keyspace: None, nanos, block_reads: 0 }
}

fn slow_from(slow_us: u64) -> (Arc<ManualClock>, SlowOperations) {
    let clock = Arc::new(ManualClock::default());
    (Arc::clone(&clock), SlowOperations::new(clock, slow_us))
}

#[test]
fn a_follower_waits_for_what_its_leader_waits_for() {
    assert_eq!(split_queue(100, 0, 0), [100, 0, 0, 0, 0]);
    assert_eq!(split_queue(100, 30, 20), [50, 30, 20, 0, 0]);
    assert_eq!(split_queue(100, 300, 20), [0, 80, 20, 0, 0]);
    assert_eq!(split_queue(100, 300, 200), [0, 0, 100, 0, 0]);
}

#[test]
fn an_operation_is_charged_for_what_it_waited_for() {
    let (clock, slow) = slow_from(1);
    clock.advance(Duration::from_secs(7));
    // Longer than anything this test can take, so what is left for the CPU is nothing.
    let waits = [0, 1 << 60, 0, 1 << 50, 0];
    slow.watch(Op::Write, None, || waits::charge(1, waits));
    let (count, nanos) = slow.total();
    assert_eq!((count, nanos), (1, waits));
    let second = slow.seconds()[0];
    assert_eq!((second.at, second.operations, second.nanos), (7, 1, waits));
    assert_eq!(slow.last(9)[0].block_reads, 1);
}

#[test]
fn what_is_fast_is_not_remembered_and_nothing_is_if_it_is_off() {
    let (_, slow) = slow_from(u64::MAX / 1000);
    for _ in 0..SAMPLE_EVERY {
        slow.watch(Op::Get, None, || waits::charge(ticks(), [0, 0, 0, 5, 0]));
    }
    assert_eq!(slow.total().0, 0);
    assert_eq!(slow.latency(Op::Get).count(), 1, "one in 64 is timed");
    slow.set_threshold(0);
    for _ in 0..SAMPLE_EVERY {
        slow.watch(Op::Get, None, || waits::charge(1, [0, 0, 0, 1 << 60, 0]));
    }
    assert_eq!((slow.total().0, slow.latency(Op::Get).count()), (0, 1));
}

#[test]
fn one_of_the_sample_that_waited_for_nothing_stands_for_all() {
    let (_, slow) = slow_from(1);
    let spin = || {
        let until = ticks() + 2000;
        while ticks() < until {}
    };
    for _ in 0..SAMPLE_EVERY {
        slow.watch(Op::Scan, Some(KeyspaceId(3)), spin);
    }
    let (count, nanos) = slow.total();
    assert_eq!(count, SAMPLE_EVERY);
    assert!(nanos[Cause::Cpu as usize] >= 2000 * SAMPLE_EVERY && nanos[..4] == [0; 4], "{nanos:?}");
    assert_eq!(slow.last(1)[0].keyspace, Some(KeyspaceId(3)));
}

#[test]
fn the_last_operations_and_seconds_are_kept() {
    let (_, slow) = slow_from(1);
    for i in 0..2000 {
        slow.remember(operation(i * 1000, [1, 0, 0, 0, 0]), 1);
    }
    let (seconds, last) = (slow.seconds(), slow.last(usize::MAX));
    assert_eq!((seconds.len(), last.len()), (SECONDS_KEPT, OPERATIONS_KEPT));
    assert_eq!((seconds[0].at, last[0].ended_ms), (1400, 976_000));
    assert_eq!(slow.last(2).len(), 2);
    // A wall clock that goes back, and one that stands still.
    slow.remember(operation(5000, [0, 1, 0, 0, 0]), 1);
    slow.remember(operation(1_999_999, [0, 1, 0, 0, 0]), 1);
    assert_eq!(slow.seconds().len(), SECONDS_KEPT);
    assert_eq!(slow.seconds()[SECONDS_KEPT - 1].operations, 3);
    let around = Surroundings { l0_runs: 4, ..Surroundings::default() };
    assert_eq!(slow.close_second(1999, around).around.l0_runs, 4);
}
