//! Evenkeel beside other engines: filling, reading, YCSB in an open loop, what it costs.
//!
//! On the raw disk, with both settings (`equal` and `recommended`). Data fit the page cache, so reads measure CPU and memory.

use super::BASELINE;
use crate::results::settings::OURS;
use crate::verdicts::experiment::{Claim, Data, Experiment, Pace, Take, Work};

/// What all have in common: the engines.
const BESIDE: Experiment = Experiment {
    id: "",
    title: "",
    works: &[],
    claims: &[],
    engines: &[OURS, BASELINE, "rocksdb-recycle", "rocksdb-low-priority", "fjall"],
    rivals: &[BASELINE],
};

/// Ten million small records, which a work writes itself.
const FRESH: Data = Data { records: 10_000_000, value_bytes: 100, settled: false };
/// The same, written once.
const SMALL: Data = Data { settled: true, ..FRESH };
/// YCSB's records: 2 GB.
pub const LARGE: Data = Data { records: 2_000_000, value_bytes: 1000, settled: true };

/// What most works have in common. Reads of a store that rests are as fast in the tenth second as in the thirtieth.
pub const WORK: Work = Work {
    name: "",
    workload: "",
    data: SMALL,
    threads: 1,
    seconds: Some(10.0),
    pace: Pace::Closed,
    sync: "os",
    crash_ops: None,
    rounds: 3,
    device: None,
    own: &[],
};

/// One thread fills.
pub const FILL: Experiment = Experiment {
    id: "peers-fill",
    title: "fill 10 M records of 16 + 100 bytes in random order, with a log, as fast as it goes",
    works: &[Work {
        name: "fillrandom",
        workload: "fillrandom",
        data: FRESH,
        seconds: None,
        rounds: 5,
        ..WORK
    }],
    claims: &[
        Claim {
            id: "peers-fill.throughput",
            text: "filling is faster",
            of: ("peers-fill", "fillrandom"),
            take: Take::Throughput,
        },
        Claim {
            id: "peers-fill.worst-put",
            text: "the slowest put of all is no slower",
            of: ("peers-fill", "fillrandom"),
            take: Take::Largest("insert"),
        },
    ],
    ..BESIDE
};

/// Four threads fill, and each write is on the disk before it is acknowledged.
pub const FILL_SYNC: Experiment = Experiment {
    id: "peers-fill-sync",
    title: "4 threads fill, each write synced before it is acknowledged",
    works: &[Work {
        name: "fillrandom-sync",
        workload: "fillrandom",
        data: Data { records: 1_000_000, ..FRESH },
        threads: 4,
        sync: "sync",
        ..WORK
    }],
    claims: &[Claim {
        id: "peers-fill-sync.throughput",
        text: "synced writes of 4 threads are as fast",
        of: ("peers-fill-sync", "fillrandom-sync"),
        take: Take::Throughput,
    }],
    ..BESIDE
};

/// Reads of a settled store.
pub const READ: Experiment = Experiment {
    id: "peers-read",
    title: "read a settled store of 10 M records: gets, misses, scans, gets beside a writer; 1 and 2 threads",
    works: &[
        Work { name: "readrandom-1", workload: "readrandom", ..WORK },
        Work { name: "readrandom-2", workload: "readrandom", threads: 2, ..WORK },
        Work { name: "readmissing-1", workload: "readmissing", ..WORK },
        Work { name: "readmissing-2", workload: "readmissing", threads: 2, ..WORK },
        Work { name: "seekrandom-1", workload: "seekrandom", ..WORK },
        Work { name: "seekrandom-2", workload: "seekrandom", threads: 2, ..WORK },
        Work { name: "readwhilewriting-1", workload: "readwhilewriting", seconds: Some(30.0), ..WORK },
        Work {
            name: "readwhilewriting-2",
            workload: "readwhilewriting",
            threads: 2,
            seconds: Some(30.0),
            ..WORK
        },
    ],
    claims: &[
        read("peers-read.readrandom-1", "gets are faster, 1 thread", "readrandom-1", "read"),
        read("peers-read.readrandom-2", "gets are faster, 2 threads", "readrandom-2", "read"),
        read(
            "peers-read.readmissing-1",
            "gets of missing keys are faster, 1 thread",
            "readmissing-1",
            "read",
        ),
        read(
            "peers-read.readmissing-2",
            "gets of missing keys are faster, 2 threads",
            "readmissing-2",
            "read",
        ),
        read("peers-read.seekrandom-1", "seeks with 50 nexts are faster, 1 thread", "seekrandom-1", "scan"),
        read("peers-read.seekrandom-2", "seeks with 50 nexts are faster, 2 threads", "seekrandom-2", "scan"),
        read(
            "peers-read.readwhilewriting-1",
            "gets beside a writer are faster, 1 reader",
            "readwhilewriting-1",
            "read",
        ),
        read(
            "peers-read.readwhilewriting-2",
            "gets beside a writer are faster, 2 readers",
            "readwhilewriting-2",
            "read",
        ),
    ],
    ..BESIDE
};

const fn read(id: &'static str, text: &'static str, work: &'static str, kind: &'static str) -> Claim {
    Claim { id, text, of: ("peers-read", work), take: Take::PerSecond(kind) }
}

/// YCSB in an open loop: threads enough that a stalled request holds up no other.
pub const YCSB_WORK: Work = Work { data: LARGE, threads: 8, seconds: Some(60.0), rounds: 5, ..WORK };
/// Finds the rate that others take a share of.
pub const SUSTAINED: Pace = Pace::Highest { p99: None, baseline_only: true };

const fn ycsb(name: &'static str, workload: &'static str, pace: Pace) -> Work {
    Work { name, workload, pace, ..YCSB_WORK }
}

const fn share(of: &'static str, percent: u32) -> Pace {
    Pace::Share { of, percent }
}

const fn tail(id: &'static str, text: &'static str, work: &'static str, take: Take) -> Claim {
    Claim { id, text, of: ("peers-ycsb", work), take }
}

/// Tails of YCSB.
pub const YCSB: Experiment = Experiment {
    id: "peers-ycsb",
    title: "YCSB A and F, 1 KB values, open loop: 20 k/s, and 50 % and 80 % of what RocksDB sustains",
    works: &[
        Work { rounds: 1, ..ycsb("a-sustained", "ycsb-a", SUSTAINED) },
        ycsb("a-20k", "ycsb-a", Pace::Rate(20_000)),
        ycsb("a-50", "ycsb-a", share("a-sustained", 50)),
        ycsb("a-80", "ycsb-a", share("a-sustained", 80)),
        Work { rounds: 1, ..ycsb("f-sustained", "ycsb-f", SUSTAINED) },
        ycsb("f-20k", "ycsb-f", Pace::Rate(20_000)),
        ycsb("f-50", "ycsb-f", share("f-sustained", 50)),
        ycsb("f-80", "ycsb-f", share("f-sustained", 80)),
    ],
    claims: &[
        tail("peers-ycsb.a-20k-p99", "A at 20 k/s: p99", "a-20k", Take::P99),
        tail("peers-ycsb.a-20k-p999", "A at 20 k/s: p99.9", "a-20k", Take::P999),
        tail("peers-ycsb.a-20k-worst", "A at 20 k/s: p99 of the worst second", "a-20k", Take::WorstSecond),
        tail("peers-ycsb.a-50-p99", "A at 50 %: p99", "a-50", Take::P99),
        tail("peers-ycsb.a-50-p999", "A at 50 %: p99.9", "a-50", Take::P999),
        tail("peers-ycsb.a-50-worst", "A at 50 %: p99 of the worst second", "a-50", Take::WorstSecond),
        tail("peers-ycsb.a-80-p99", "A at 80 %: p99", "a-80", Take::P99),
        tail("peers-ycsb.a-80-p999", "A at 80 %: p99.9", "a-80", Take::P999),
        tail("peers-ycsb.a-80-worst", "A at 80 %: p99 of the worst second", "a-80", Take::WorstSecond),
        tail("peers-ycsb.f-20k-p99", "F at 20 k/s: p99", "f-20k", Take::P99),
        tail("peers-ycsb.f-20k-p999", "F at 20 k/s: p99.9", "f-20k", Take::P999),
        tail("peers-ycsb.f-20k-worst", "F at 20 k/s: p99 of the worst second", "f-20k", Take::WorstSecond),
        tail("peers-ycsb.f-50-p99", "F at 50 %: p99", "f-50", Take::P99),
        tail("peers-ycsb.f-50-p999", "F at 50 %: p99.9", "f-50", Take::P999),
        tail("peers-ycsb.f-50-worst", "F at 50 %: p99 of the worst second", "f-50", Take::WorstSecond),
        tail("peers-ycsb.f-80-p99", "F at 80 %: p99", "f-80", Take::P99),
        tail("peers-ycsb.f-80-p999", "F at 80 %: p99.9", "f-80", Take::P999),
        tail("peers-ycsb.f-80-worst", "F at 80 %: p99 of the worst second", "f-80", Take::WorstSecond),
    ],
    ..BESIDE
};

/// How much load an engine takes with short tails.
pub const MAX_RATE: Experiment = Experiment {
    id: "peers-max-rate",
    title: "YCSB A, 1 KB values: the highest open-loop rate with p99 within 10 ms in every second",
    works: &[Work {
        rounds: 3,
        ..ycsb("a-10ms", "ycsb-a", Pace::Highest { p99: Some("10ms"), baseline_only: false })
    }],
    claims: &[Claim {
        id: "peers-max-rate.a-10ms",
        text: "more requests a second with p99 within 10 ms in every second",
        of: ("peers-max-rate", "a-10ms"),
        take: Take::HighestRate,
    }],
    ..BESIDE
};

/// 10 GB.
const HUGE: Data = Data { records: 10_000_000, ..LARGE };
/// Half a second of reads, so that there is a run, and long enough to tell whether others were busy; what counts is how long the
/// store took to open.
const OPEN_WORK: Work = Work { workload: "readrandom", data: HUGE, seconds: Some(0.5), ..WORK };

/// How long a store takes to open.
pub const OPEN: Experiment = Experiment {
    id: "peers-open",
    title: "open a store of 10 GB: after it was closed, and after a kill with 30 MB in the log",
    works: &[
        Work { name: "closed", ..OPEN_WORK },
        Work { name: "killed", crash_ops: Some(30_000), ..OPEN_WORK },
    ],
    claims: &[
        Claim {
            id: "peers-open.closed",
            text: "a store that was closed opens as fast",
            of: ("peers-open", "closed"),
            take: Take::OpenSeconds,
        },
        Claim {
            id: "peers-open.killed",
            text: "a store whose process was killed opens as fast",
            of: ("peers-open", "killed"),
            take: Take::OpenSeconds,
        },
    ],
    ..BESIDE
};

const FILLED: (&str, &str) = ("peers-fill", "fillrandom");
const UNDER_LOAD: (&str, &str) = ("peers-ycsb", "a-20k");

const fn cost(id: &'static str, text: &'static str, of: (&'static str, &'static str), take: Take) -> Claim {
    Claim { id, text, of, take }
}

/// What the runs of others cost.
pub const COST: Experiment = Experiment {
    id: "peers-cost",
    title: "what filling and YCSB A at 20 k/s cost: bytes written, bytes kept, memory, CPU",
    claims: &[
        cost(
            "peers-cost.fill-write",
            "fill: write amplification when idle",
            FILLED,
            Take::WriteAmplification,
        ),
        cost(
            "peers-cost.fill-space",
            "fill: space amplification when idle",
            FILLED,
            Take::SpaceAmplification,
        ),
        cost("peers-cost.fill-memory", "fill: peak memory", FILLED, Take::PeakMemory),
        cost("peers-cost.fill-cpu", "fill: CPU of an operation", FILLED, Take::CpuPerOp),
        cost(
            "peers-cost.ycsb-write",
            "YCSB A: write amplification when idle",
            UNDER_LOAD,
            Take::WriteAmplification,
        ),
        cost(
            "peers-cost.ycsb-space",
            "YCSB A: space amplification when idle",
            UNDER_LOAD,
            Take::SpaceAmplification,
        ),
        cost("peers-cost.ycsb-memory", "YCSB A: peak memory", UNDER_LOAD, Take::PeakMemory),
        cost("peers-cost.ycsb-cpu", "YCSB A: CPU of an operation", UNDER_LOAD, Take::CpuPerOp),
    ],
    ..BESIDE
};
