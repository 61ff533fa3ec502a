//! What `keel explain --slow` says, as text.

use super::*;
use crate::observe::slow::Op;

const MS: u64 = 1_000_000;

#[track_caller]
fn check(seconds: &[Second], last: &[SlowOperation], expected: &str) {
    assert_eq!(lines(seconds, last, 1000, 600).join("\n"), expected.trim_matches('\n'));
}

#[test]
fn nothing_slow_is_said_so() {
    check(&[], &[], "No operation took 1.0 ms or longer in the last ten minutes");
    let quiet = Second { at: 599, ..Second::default() };
    check(&[quiet], &[], "No operation took 1.0 ms or longer in the last ten minutes");
    assert_eq!(lines(&[], &[], 0, 600), ["Slow operations are not measured: set slow_us above 0"]);
}

#[test]
fn the_causes_are_drawn_and_told_with_what_to_do() {
    let around = Surroundings {
        client_bytes: 1 << 20,
        compaction_bytes: 90 << 20,
        flush_bytes: 10 << 20,
        background_cpu_nanos: 800 * MS,
        cache_misses: 300,
        l0_runs: 5,
        wal_bytes: 0,
    };
    let second = |at, operations, nanos| Second { at, operations, nanos, around };
    let seconds = [
        second(1, 2, [0, 0, 0, 100 * MS, 0]),
        Second { at: 300, around, ..Second::default() },
        second(590, 5, [50 * MS, 0, 0, 800 * MS, 0]),
        second(599, 1, [50 * MS, 0, 0, 0, 0]),
    ];
    let worst = SlowOperation {
        ended_ms: 590_500,
        op: Op::Get,
        keyspace: None,
        nanos: [0, 0, 0, 700 * MS, 2 * MS],
        block_reads: 3,
    };
    check(
        &seconds,
        &[worst],
        "
8 operations of 1.0 ms or more in 3 seconds of the last ten minutes, 1.00 s together

       queue                                                           ▁▁
  block-read ▁                                                         █
             -10 min                                                  now
             █ is 800.0 ms of waiting in ten seconds
  client I/O ▁                            ▁                            ▁▁
       flush ▁                            ▁                            ▁▁
  compaction █                            █                            ██
             █ is 9.0 MiB/s over ten seconds

90 % block-read: 900.0 ms for blocks that were not in the cache
  worst at 00:09:50 UTC, 800.0 ms in that second:
  clients moved 1.0 MiB/s, flushes 10.0 MiB/s, compactions 90.0 MiB/s;
  L0 had 5 runs, the cache missed 300 times, background threads used 0.8 cores
  so: compactions shared the device: try `keel schedule set --db DIR silk`, or more cache

10 % queue: 100.0 ms behind other writers
  worst at 00:09:59 UTC, 50.0 ms in that second:
  clients moved 1.0 MiB/s, flushes 10.0 MiB/s, compactions 90.0 MiB/s;
  L0 had 5 runs, the cache missed 300 times, background threads used 0.8 cores
  so: one writer leads at a time: make batches larger, or writers fewer

The slowest remembered:
  a get at 1970-01-01T00:09:50.500Z took 702.0 ms:
  700.0 ms block-read, 2.0 ms cpu, 3 block reads
",
    );
}

#[test]
fn little_is_no_reason_to_change_anything() {
    let second = |nanos| Second { at: 599, operations: 1, nanos: [0, 0, 0, nanos, 0], ..Second::default() };
    let advised =
        |nanos| lines(&[second(nanos)], &[], 100, 600).iter().any(|line| line.starts_with("  so: "));
    assert_eq!((advised(142_000), advised(9 * MS), advised(10 * MS)), (false, false, true));
}
