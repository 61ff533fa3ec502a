//! What operators grep for, and what programs parse: words and JSON of every event, as they are promised.

use super::*;
use crate::base::class::Class;
use crate::base::units::{JobId, KeyspaceId, TableId};
use crate::observe::event::DiscardedFor;

/// Every event, with its words and its JSON after the time and the name of the keyspace.
fn table() -> Vec<(Event, &'static str, &'static str)> {
    let keyspace = KeyspaceId(0);
    let tables = vec![TableId(7), TableId(8)];
    vec![
        (
            Event::Opened { sequence: 9, tables: 1, bytes: 2048, logs: 2, micros: 1500 },
            "Opened with 1 table of 2.0 KiB, sequence 9, after reading 2 log files, in 1.5 ms",
            r#""event":"opened","sequence":9,"tables":1,"bytes":2048,"logs":2,"micros":1500"#,
        ),
        (Event::Closed { clean: true }, "Closed; the log is sealed", r#""event":"closed","clean":true"#),
        (
            Event::Closed { clean: false },
            "Closed without sealing the log; the next open replays it",
            r#""event":"closed","clean":false"#,
        ),
        (
            Event::FlushBegun { keyspace, reason: "the memtable is full".to_owned(), bytes: 1 << 20 },
            "Flushing 1.0 MiB because the memtable is full",
            r#""event":"flush_started","reason":"the memtable is full","bytes":1048576"#,
        ),
        (
            Event::Flushed { keyspace, tables: tables.clone(), bytes: 1 << 20, micros: 500_000 },
            "Flushed to 2 tables, 1.0 MiB in 500.0 ms (2.0 MiB/s)",
            r#""event":"flush_finished","tables":[7,8],"bytes":1048576,"micros":500000"#,
        ),
        (
            Event::Loaded { keyspace, tables: tables.clone(), records: 3, bytes: 9 },
            "Loaded 3 records of 9 B in order into 2 tables",
            r#""event":"bulk_load_finished","tables":[7,8],"records":3,"bytes":9"#,
        ),
        (
            Event::CompactionPicked {
                job: JobId(4),
                keyspace,
                class: Class::L0ToL1,
                reason: "4 \"runs\"".to_owned(),
                score: 1.5,
                bytes: 100,
                predicted_bytes: 90,
                rejected: vec!["L1".to_owned()],
            },
            "Compacting, job 4, l0-to-l1, 100 B: 4 \"runs\"",
            concat!(
                r#""event":"compaction_started","job":4,"class":"l0-to-l1","reason":"4 \"runs\"","#,
                r#""score":1.500000,"bytes":100,"predicted_bytes":90,"rejected":["L1"]"#
            ),
        ),
        (
            Event::CompactionEnded {
                job: JobId(4),
                keyspace,
                class: Class::Deep,
                levels: (1, 2),
                bytes_read: 3 << 20,
                bytes_written: 1 << 20,
                micros: 2_000_000,
                yielded: false,
            },
            "Compacted, job 4, deep, L1 to L2: 3.0 MiB to 1.0 MiB in 2.00 s (2.0 MiB/s)",
            concat!(
                r#""event":"compaction_finished","job":4,"class":"deep","level":1,"output_level":2,"#,
                r#""bytes_read":3145728,"bytes_written":1048576,"micros":2000000,"yielded":false"#
            ),
        ),
        (
            Event::Moved { job: JobId(6), keyspace, reason: "runs".to_owned(), bytes: 5 },
            "Moved 5 B a level down without rewriting",
            r#""event":"trivial_move","job":6,"reason":"runs","bytes":5"#,
        ),
        (
            Event::Regrouped { keyspace, splits: 3, joins: 1, to_hot: 0, to_cold: 2 },
            "Groups by heat: 3 split, 1 joined, 0 turned hot, 2 turned cold",
            r#""event":"groups_changed","splits":3,"joins":1,"turned_hot":0,"turned_cold":2"#,
        ),
        (
            Event::Committed { job: JobId(4), tables, prefix: true },
            "Committed a part of job 4: 2 tables",
            r#""event":"compaction_committed","job":4,"tables":[7,8],"prefix":true"#,
        ),
        (Event::Yielded { job: JobId(4) }, "Job 4 yielded", r#""event":"compaction_yielded","job":4"#),
        (
            Event::Discarded { job: JobId(4), bytes: 10, why: DiscardedFor::Failure },
            "Job 4 discarded 10 B of work: failure",
            r#""event":"compaction_discarded","job":4,"bytes":10,"why":"failure""#,
        ),
        (
            Event::Refused { keyspace, needs_bytes: 10, free_bytes: 3 },
            "Refused a compaction: it needs 10 B at least beside `reserve_bytes`, and 3 B are free; free some disk",
            r#""event":"compaction_refused","needs_bytes":10,"free_bytes":3"#,
        ),
        (
            Event::DeadlineTooShort { keyspace, ttl_ms: 1000, shortest_ms: 90_000 },
            "Deletes cannot be gone in 1.00 s: the shortest time that can be kept now is 1 min 30 s",
            r#""event":"deadline_too_short","ttl_ms":1000,"shortest_ms":90000"#,
        ),
        (
            Event::StrategyChanged { keyspace, strategy: "tier".to_owned() },
            "Strategy changed to tier",
            r#""event":"strategy_changed","strategy":"tier""#,
        ),
        (
            Event::OptionChanged { name: "memtables".to_owned(), was: "2".to_owned(), now: "5".to_owned() },
            "Option memtables changed from 2 to 5",
            r#""event":"option_changed","option":"memtables","was":"2","now":"5""#,
        ),
        (
            Event::Covered { keyspace, tables: vec![TableId(3)], bytes: 7 },
            "Dropped 1 table under range deletes, 7 B",
            r#""event":"tables_covered","tables":[3],"bytes":7"#,
        ),
        (
            Event::SlowOperations { count: 12, nanos: [70_000_000, 272_000_000, 0, 0, 1000] },
            "Slow: 12 operations took 342.0 ms: 79 % commit-sync, 20 % queue",
            concat!(
                r#""event":"slow_operations","count":12,"micros":{"queue":70000,"commit-sync":272000,"#,
                r#""throttle":0,"block-read":0,"cpu":1}"#
            ),
        ),
        (
            Event::DeviceTooSlow { bytes_per_sec: 50 << 20, gone_by: 100 << 20, error: "a floor".to_owned() },
            "The device does 50.0 MiB/s, and the schedule goes on by 100.0 MiB/s: a floor",
            r#""event":"device_too_slow","bytes_per_sec":52428800,"gone_by":104857600,"error":"a floor""#,
        ),
        (
            Event::NotWritten { file: "LOG", error: "no space".to_owned() },
            "LOG is not written any more: no space; the store goes on without it",
            r#""event":"not_written","file":"LOG","error":"no space""#,
        ),
        (Event::Untold { count: 2 }, "2 events were not told", r#""event":"events_untold","count":2"#),
        (
            Event::TornTail { file: "000004.log".to_owned(), offset: 12 },
            "Recovery stopped at a torn tail: 000004.log at 12",
            r#""event":"torn_tail","file":"000004.log","offset":12"#,
        ),
        (
            Event::BackgroundError { error: "it broke".to_owned() },
            "Background error: it broke",
            r#""event":"background_error","error":"it broke""#,
        ),
    ]
}

#[test]
fn words_and_json_are_as_promised() {
    for (event, words, json) in table() {
        assert_eq!(event.to_string(), words);
        let keyspace = event.keyspace().map(|_| "shop");
        let (name, rest) = json.split_once(',').map_or((json, ""), |(name, rest)| (name, rest));
        let middle = if keyspace.is_some() { r#","keyspace":"shop""# } else { "" };
        let rest = if rest.is_empty() { String::new() } else { format!(",{rest}") };
        let expected = format!(r#"{{"time_micros":2000,{name}{middle}{rest}}}"#);
        assert_eq!(event_json(&event, keyspace, 2), expected);
    }
}

#[test]
fn a_stall_can_be_grepped_for() {
    let reason = "because we have 20 level-0 runs".to_owned();
    let stalling = |ends_in| Event::Stalling {
        keyspace: Some(KeyspaceId(0)),
        reason: reason.clone(),
        bytes_per_sec: 1 << 20,
        ends_in,
    };
    let event = stalling(Some(std::time::Duration::from_millis(1500)));
    let words = "Stalling writes because we have 20 level-0 runs: 1.0 MiB/s go in, relief in about 1.50 s";
    assert_eq!(event.to_string(), words);
    let json = event_json(&event, Some("a"), 0);
    assert!(
        json.contains(r#""event":"write_stall","keyspace":"a""#) && json.contains(r#""ends_in_ms":1500}"#),
        "{json}"
    );
    assert!(stalling(None).to_string().ends_with("nobody knows yet for how long"));
    assert!(event_json(&stalling(None), None, 0).ends_with(r#""ends_in_ms":null}"#));
    let stopping = Event::Stopping { reason: "the disk is full".to_owned() };
    assert_eq!(stopping.to_string(), "Stopping writes because the disk is full");
    assert!(event_json(&stopping, None, 0).contains(r#""event":"write_stop","reason":"the disk is full""#));
}
