//! After *SILK: Preventing Latency Spikes in Log-Structured Merge Key-Value Stores* (ATC 2019), lab S: peaks of 1.5 to 2 times
//! what the device sustains of writes, and a mean below it.

use crate::results::document::Document;
use crate::scheduling::row::{Load, Row, S, S_NUTANIX, STRATEGY};
use crate::scheduling::study::{
    Claim, Study, Table, Valid, debt_trend, delayed_flushes, early_median, internal_writes, least_followed,
    longest_queue, lost, median, mirrored, monitor, slow_seconds, stalled_seconds, stalled_share,
    stays_below, stays_fast, steepest, throughput, trend, unevenness, worst_second, worst_seconds,
};

/// Half reads, half updates, evenly.
const HALVES: Row = Row {
    setup: &S,
    workload: "ycsb-a",
    load: Load::Bursts { peak: 100.0, valley: 120.0 },
    seconds: 440.0,
    name: "unlimited",
    schedule: "unlimited",
    strategy: STRATEGY,
    memory: 1,
    zipfian: false,
    hurried: "",
};
/// The production load of Figure 7.
const NUTANIX: Row =
    Row { setup: &S_NUTANIX, workload: "nutanix", load: Load::Nutanix, seconds: 300.0, ..HALVES };
const HOUR: Row = Row { seconds: 3600.0, ..NUTANIX };
/// As much as can be served all the time, so that what is put off comes due.
const STEADY: Row = Row { load: Load::Sustained, seconds: 240.0, ..HALVES };
const TRIAD: Row = Row { strategy: "triad", ..STEADY.named("triad") };
const MEMORY: Row = Row { memory: 8, ..STEADY.named("memory8") };
const FIXED: [Row; 3] = [STEADY.under("fixed:25%"), STEADY.under("fixed:37%"), STEADY.under("fixed:45%")];
/// What nobody can serve for ever.
const ENDLESS: Row = Row { load: Load::Endless, seconds: 300.0, ..HALVES };
/// Some runs on each level but the last, which is merged as a whole: the next thing to PebblesDB that is in the catalogue.
const TIERED: Row = Row { strategy: "l-leveling", ..STEADY.named("l-leveling") };
const YCSB: [&str; 6] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"];
/// Those that YCSB asks for by its zipfian.
const ZIPFIAN: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-e", "ycsb-f"];

/// A workload of YCSB's as fast as it goes.
fn closed(workload: &'static str, schedule: &'static str) -> Row {
    Row { workload, ..HALVES }.probe().under(schedule)
}

/// The same with records as YCSB chooses them.
fn zipfian(workload: &'static str, schedule: &'static str) -> Row {
    Row { zipfian: true, ..closed(workload, schedule) }
}

/// The same with a first level that is merged late: what the paper's figures on YCSB compare.
fn by_triad(row: Row) -> Row {
    let name = if row.schedule == "silk" { "triad-silk" } else { "triad" };
    Row { strategy: "triad", ..row.named(name) }
}

/// A workload of YCSB's at 60 % of what the store can do.
fn open(workload: &'static str) -> Row {
    Row { workload, load: Load::Share(60), seconds: 240.0, ..HALVES }
}

/// 60 % of what it can; and the same without a flush or a compaction: the paper drops full memtables, here they hold all of it.
const CALM: Row = Row { load: Load::Share(60), seconds: 120.0, ..HALVES };
const FLOOR: Row = Row { memory: 48, ..CALM.named("in-memory") };

/// What internal work costs.
pub const FIG1: Study = Study {
    id: "silk-fig1",
    title: "without internal work there are no spikes; the median is alike",
    figure: "Fig 1",
    rows: || vec![CALM, FLOOR],
    valid: Valid::Served,
    claims: &[
        Claim {
            id: "silk-fig1.worst",
            text: "worst second by that without internal work",
            number: |t| t.ratio(&CALM, &FLOOR, worst_second),
        },
        Claim {
            id: "silk-fig1.median",
            text: "median latency, likewise",
            number: |t| t.ratio(&CALM, &FLOOR, median),
        },
        Claim {
            id: "silk-fig1.floor",
            text: "bytes that flushes and compactions wrote where there are to be none",
            number: |t| t.figure(&FLOOR, internal_writes),
        },
    ],
};

/// Fixed limits.
pub const FIG4: Study = Study {
    id: "silk-fig4",
    title: "fixed limits on background work, and more memory, only postpone the first spike",
    figure: "Fig 4",
    rows: || [STEADY, MEMORY].into_iter().chain(FIXED).collect(),
    valid: Valid::Overload,
    claims: &[
        Claim {
            id: "silk-fig4.25-37",
            text: "seconds from the first spike at a limit of 25 % to that at 37 %",
            number: |t| later(t, &FIXED[1], &FIXED[0]),
        },
        Claim {
            id: "silk-fig4.37-45",
            text: "seconds from the first spike at a limit of 37 % to that at 45 %",
            number: |t| later(t, &FIXED[2], &FIXED[1]),
        },
        Claim {
            id: "silk-fig4.memory",
            text: "seconds from the first spike to that with 8 times the memory",
            number: |t| later(t, &MEMORY, &STEADY),
        },
    ],
};

fn later(t: &Table<'_>, row: &Row, than: &Row) -> Option<f64> {
    stays_fast(t.of(row)?, t.of(than)?)
}

/// TRIAD.
pub const FIG5: Study = Study {
    id: "silk-fig5",
    title: "TRIAD's first level is merged late: spikes come later, and are no smaller",
    figure: "Fig 5",
    rows: || vec![STEADY, TRIAD],
    valid: Valid::Overload,
    claims: &[
        Claim {
            id: "silk-fig5.later",
            text: "seconds from the first spike to that of TRIAD",
            number: |t| later(t, &TRIAD, &STEADY),
        },
        Claim {
            id: "silk-fig5.as-high",
            text: "worst second of TRIAD by that without",
            number: |t| t.ratio(&TRIAD, &STEADY, worst_second),
        },
    ],
};

/// A tree that is merged late.
pub const FIG6: Study = Study {
    id: "silk-fig6",
    title: "a tree that is tiered but for its last level: quiet until that is merged",
    figure: "Fig 6",
    rows: || vec![STEADY, TIERED],
    valid: Valid::Overload,
    claims: &[
        Claim {
            id: "silk-fig6.later",
            text: "seconds from the first spike to that of lazy leveling",
            number: |t| later(t, &TIERED, &STEADY),
        },
        Claim {
            id: "silk-fig6.halt",
            text: "p99 of lazy leveling's worst second by that of its median second",
            number: |t| t.figure(&TIERED, unevenness),
        },
    ],
};

/// The production load.
pub const FIG8A: Study = Study {
    id: "silk-fig8a",
    title: "the production load under SILK, an auto-tuned limit, none, and a plan",
    figure: "Fig 8a",
    rows: || ["unlimited", "autotuned", "silk", "paced"].map(|name| NUTANIX.under(name)).into(),
    valid: Valid::Bursts,
    claims: &[
        Claim {
            id: "silk-fig8a.autotuned",
            text: "p99 of the worst 5 % of seconds, SILK by auto-tuned",
            number: |t| t.ratio(&NUTANIX.under("silk"), &NUTANIX.under("autotuned"), worst_seconds),
        },
        Claim {
            id: "silk-fig8a.unlimited",
            text: "p99 of the worst 5 % of seconds, SILK by unlimited",
            number: |t| t.ratio(&NUTANIX.under("silk"), &NUTANIX, worst_seconds),
        },
        Claim {
            id: "silk-fig8a.follows",
            text: "what SILK ended of what came, in the second where that is least",
            number: |t| t.figure(&NUTANIX.under("silk"), least_followed),
        },
        Claim {
            id: "silk-fig8a.lost",
            text: "bytes that SILK wrote and threw away when work was preempted, by all that compactions wrote",
            number: |t| t.figure(&NUTANIX.under("silk"), lost),
        },
        Claim {
            id: "silk-fig8a.monitor",
            text: "cores that SILK's monitor used, looking each 10 ms",
            number: |t| t.figure(&NUTANIX.under("silk"), monitor),
        },
        Claim {
            id: "silk-fig8a.paced-monitor",
            text: "cores that paced's monitor used, planning each 10 ms",
            number: |t| t.figure(&NUTANIX.under("paced"), monitor),
        },
        Claim {
            id: "silk-fig8a.paced",
            text: "p99 of the worst 5 % of seconds, paced by unlimited",
            number: |t| t.ratio(&NUTANIX.under("paced"), &NUTANIX, worst_seconds),
        },
        Claim {
            id: "silk-fig8a.paced-even",
            text: "p99 of paced's worst second by that of its median second",
            number: |t| t.figure(&NUTANIX.under("paced"), unevenness),
        },
        Claim {
            id: "silk-fig8a.paced-follows",
            text: "what paced ended of what came, in the second where that is least",
            number: |t| t.figure(&NUTANIX.under("paced"), least_followed),
        },
        Claim {
            id: "silk-fig8a.paced-lost",
            text: "bytes that paced wrote and threw away, by all that compactions wrote",
            number: |t| t.figure(&NUTANIX.under("paced"), lost),
        },
    ],
};

/// Peaks without an end.
pub const FIG8B: Study = Study {
    id: "silk-fig8b",
    title: "a peak without an end: how long it takes until latencies rise",
    figure: "Fig 8b",
    rows: || ["unlimited", "autotuned", "silk", "paced"].map(|name| ENDLESS.under(name)).into(),
    valid: Valid::Overload,
    claims: &[
        Claim {
            id: "silk-fig8b.later",
            text: "seconds until a p99 is ten times the median of the calmer run's first tenth, SILK less unlimited",
            number: |t| holds_longer(t, "silk", &["unlimited"]),
        },
        Claim {
            id: "silk-fig8b.autotuned",
            text: "the same, SILK less auto-tuned",
            number: |t| holds_longer(t, "silk", &["autotuned"]),
        },
        Claim {
            id: "silk-fig8b.paced",
            text: "the same, paced less whichever of the others is longest",
            number: |t| holds_longer(t, "paced", &["silk", "autotuned", "unlimited"]),
        },
        Claim {
            id: "silk-fig8b.paced-slope",
            text: "how many times as high p99 was in ten seconds as in the ten before, at most, paced",
            number: |t| t.figure(&ENDLESS.under("paced"), steepest),
        },
    ],
};

/// By how many seconds one holds such a peak longer than each of the others, at least: by one limit for all of them.
fn holds_longer(t: &Table<'_>, name: &'static str, than: &[&'static str]) -> Option<f64> {
    let of = |name| t.of(&ENDLESS.under(name));
    let one = of(name)?;
    let others: Vec<&Document> = than.iter().copied().map(of).collect::<Option<_>>()?;
    let calmest = others.iter().copied().chain([one]).map(early_median).collect::<Option<Vec<f64>>>()?;
    stays_below(one, &others, 10.0 * calmest.into_iter().reduce(f64::min)?)
}

/// SILK's halves.
pub const FIG8C: Study = Study {
    id: "silk-fig8c",
    title: "SILK's two halves apart, under peaks of 100 seconds",
    figure: "Fig 8c",
    rows: || ["unlimited", "silk", "silk-bandwidth", "silk-priority"].map(|name| HALVES.under(name)).into(),
    valid: Valid::Bursts,
    claims: &[
        Claim {
            id: "silk-fig8c.bandwidth",
            text: "share of seconds above 50 ms, bandwidth alone less both",
            number: |t| more(t, "silk-bandwidth"),
        },
        Claim {
            id: "silk-fig8c.priority",
            text: "share of seconds above 50 ms, priority alone less both",
            number: |t| more(t, "silk-priority"),
        },
        Claim {
            id: "silk-fig8c.unlimited",
            text: "share of seconds above 50 ms, unlimited less both",
            number: |t| more(t, "unlimited"),
        },
        Claim {
            id: "silk-fig8c.delayed",
            text: "delayed flushes of SILK",
            number: |t| t.figure(&HALVES.under("silk"), delayed_flushes),
        },
    ],
};

fn more(t: &Table<'_>, half: &'static str) -> Option<f64> {
    let both = t.figure(&HALVES.under("silk"), slow_seconds);
    Some(t.figure(&HALVES.under(half), slow_seconds)? - both?)
}

/// Flushes that wait.
pub const FIG9: Study = Study {
    id: "silk-fig9",
    title: "flushes that wait for another one, and writers that wait, under the production load",
    figure: "Fig 9",
    rows: FIG8A.rows,
    valid: Valid::Bursts,
    claims: &[
        Claim {
            id: "silk-fig9.silk",
            text: "delayed flushes of SILK",
            number: |t| t.figure(&NUTANIX.under("silk"), delayed_flushes),
        },
        Claim {
            id: "silk-fig9.stalled",
            text: "seconds that writers waited under SILK",
            number: |t| t.figure(&NUTANIX.under("silk"), stalled_seconds),
        },
        Claim {
            id: "silk-fig9.paced",
            text: "delayed flushes of paced",
            number: |t| t.figure(&NUTANIX.under("paced"), delayed_flushes),
        },
        Claim {
            id: "silk-fig9.paced-stalled",
            text: "seconds that writers waited under paced",
            number: |t| t.figure(&NUTANIX.under("paced"), stalled_seconds),
        },
        Claim {
            id: "silk-fig9.autotuned",
            text: "share of the seconds in which writers waited, auto-tuned less SILK",
            number: |t| {
                let silk = t.figure(&NUTANIX.under("silk"), stalled_share);
                Some(t.figure(&NUTANIX.under("autotuned"), stalled_share)? - silk?)
            },
        },
        Claim {
            id: "silk-fig9.between",
            text: "delayed flushes, unlimited less auto-tuned",
            number: |t| {
                let tuned = t.figure(&NUTANIX.under("autotuned"), delayed_flushes);
                Some(t.figure(&NUTANIX, delayed_flushes)? - tuned?)
            },
        },
        Claim {
            id: "silk-fig9.unlimited",
            text: "delayed flushes without a limit",
            number: |t| t.figure(&NUTANIX, delayed_flushes),
        },
    ],
};

/// For long.
pub const FIG10: Study = Study {
    id: "silk-fig10",
    title: "an hour of the production load: nothing piles up",
    figure: "Fig 10",
    rows: || vec![HOUR, HOUR.under("silk")],
    valid: Valid::Bursts,
    claims: &[
        Claim {
            id: "silk-fig10.queue",
            text: "open compactions, and memtables that wait behind another's flush, at most",
            number: |t| t.figure(&HOUR.under("silk"), longest_queue),
        },
        Claim {
            id: "silk-fig10.debt",
            text: "bytes that compactions owe, in the seconds of the second half by the first's",
            number: |t| t.figure(&HOUR.under("silk"), debt_trend),
        },
        Claim {
            id: "silk-fig10.trend",
            text: "p99 of the seconds of the second half by the first's",
            number: |t| t.figure(&HOUR.under("silk"), trend),
        },
    ],
};

/// What background work does while clients do.
pub const FIG11: Study = Study {
    id: "silk-fig11",
    title: "what background work moves mirrors what clients do",
    figure: "Fig 11",
    rows: FIG8A.rows,
    valid: Valid::Bursts,
    claims: &[Claim {
        id: "silk-fig11.mirror",
        text: "correlation of clients' and background bytes from second to second, SILK",
        number: |t| t.figure(&NUTANIX.under("silk"), mirrored),
    }],
};

/// Throughput of YCSB.
pub const FIG12: Study = Study {
    id: "silk-fig12",
    title: "YCSB as fast as it goes: what SILK costs",
    figure: "Fig 12",
    rows: || {
        let under = |schedule| YCSB.into_iter().map(move |name| closed(name, schedule));
        let zipfian = |schedule| ZIPFIAN.into_iter().map(move |name| zipfian(name, schedule));
        let triad = |schedule| YCSB.into_iter().map(move |name| by_triad(closed(name, schedule)));
        let even = ["unlimited", "silk", "paced"].into_iter().flat_map(under);
        let pair = || ["unlimited", "silk"].into_iter();
        even.chain(pair().flat_map(zipfian)).chain(pair().flat_map(triad)).collect()
    },
    valid: Valid::Served,
    claims: &[
        Claim {
            id: "silk-fig12.loss",
            text: "throughput until background work is done too, SILK by unlimited, of the workload that loses most",
            number: |t| least_kept(t, &YCSB, |name| ["silk", "unlimited"].map(|by| closed(name, by))),
        },
        Claim {
            id: "silk-fig12.zipfian",
            text: "the same where YCSB chooses the records",
            number: |t| least_kept(t, &ZIPFIAN, |name| ["silk", "unlimited"].map(|by| zipfian(name, by))),
        },
        Claim {
            id: "silk-fig12.triad",
            text: "the same, evenly chosen, TRIAD with SILK by TRIAD",
            number: |t| {
                least_kept(t, &YCSB, |name| ["silk", "unlimited"].map(|by| by_triad(closed(name, by))))
            },
        },
        Claim {
            id: "silk-fig12.paced",
            text: "the same, paced by unlimited",
            number: |t| least_kept(t, &YCSB, |name| ["paced", "unlimited"].map(|by| closed(name, by))),
        },
    ],
};

fn least_kept(
    t: &Table<'_>,
    workloads: &[&'static str],
    of_by: impl Fn(&'static str) -> [Row; 2],
) -> Option<f64> {
    let ratio = |name: &&'static str| {
        let [of, by] = of_by(name);
        t.ratio(&of, &by, throughput)
    };
    let all: Option<Vec<f64>> = workloads.iter().map(ratio).collect();
    all?.into_iter().reduce(f64::min)
}

/// Latencies of YCSB.
pub const FIG13: Study = Study {
    id: "silk-fig13",
    title: "YCSB A and F at 60 % of what the store can do",
    figure: "Fig 13",
    rows: || {
        let under = |schedule| ["ycsb-a", "ycsb-f"].map(|name| open(name).under(schedule));
        let triad = |schedule| under(schedule).map(by_triad);
        let plain = ["unlimited", "silk", "paced"].into_iter().flat_map(under);
        plain.chain(["unlimited", "silk"].into_iter().flat_map(triad)).collect()
    },
    valid: Valid::Served,
    claims: &[
        Claim {
            id: "silk-fig13.p99",
            text: "p99 of the worst 5 % of seconds, SILK by unlimited, of the workload where it is more",
            number: |t| most(t, worst_seconds, |row| [row.under("silk"), row]),
        },
        Claim {
            id: "silk-fig13.triad",
            text: "p99 of the worst 5 % of seconds, TRIAD with SILK by TRIAD, of the workload where it is more",
            number: |t| most(t, worst_seconds, |row| [by_triad(row.under("silk")), by_triad(row)]),
        },
        Claim {
            id: "silk-fig13.median",
            text: "p50, SILK by unlimited, of the workload where it is more",
            number: |t| most(t, median, |row| [row.under("silk"), row]),
        },
        Claim {
            id: "silk-fig13.paced-median",
            text: "the same, paced by unlimited",
            number: |t| most(t, median, |row| [row.under("paced"), row]),
        },
    ],
};

fn most(t: &Table<'_>, figure: fn(&Document) -> Option<f64>, of_by: impl Fn(Row) -> [Row; 2]) -> Option<f64> {
    let ratio = |name: &'static str| {
        let [of, by] = of_by(open(name));
        t.ratio(&of, &by, figure)
    };
    Some(ratio("ycsb-a")?.max(ratio("ycsb-f")?))
}
