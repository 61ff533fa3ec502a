//! After *DLC: A New Compaction Scheme for LSM-tree with High Stability and Low Latency* (EDBT 2021), lab D: sysbench's
//! transactions at 90 % of what the store can do, and at a quarter of that in between.

use crate::scheduling::row::{D, Load, Row, STRATEGY};
use crate::scheduling::study::{
    Claim, Study, Table, Valid, decay, estimate_error, first_burst_dip, first_merge, longest_dip, most_runs,
    reset, served_in_peaks, short_seconds_from,
};

const OLTP: Row = Row {
    setup: &D,
    workload: "oltp",
    load: Load::High { peak: 100.0, valley: 20.0 },
    seconds: 420.0,
    name: "unlimited",
    schedule: "unlimited",
    strategy: STRATEGY,
    memory: 1,
    zipfian: false,
    hurried: "",
};
const CALM: Row = Row { load: Load::Share(60), seconds: 60.0, ..OLTP };
/// SILK's code's and DLC's other estimates, and what is really read from files.
const BY_BYTES: Row = CALM.under("silk:estimator=op-bytes").named("op-bytes");
const BY_GET: Row = CALM.under("silk-star:estimator=per-get").named("per-get");
const BY_DEVICE: Row = CALM.under("silk-star:estimator=device").named("device");
const HALF_READS: Row = Row { workload: "oltp-5-5", ..OLTP };
const FEW_READS: Row = Row { workload: "oltp-1-9", ..OLTP };
const MOST_READS: Row = Row { workload: "oltp-9-1", ..OLTP };
const LONG: Row = Row { load: Load::High { peak: 110.0, valley: 10.0 }, ..OLTP };
const LONGER: Row = Row { load: Load::High { peak: 220.0, valley: 10.0 }, seconds: 620.0, ..OLTP };
const SUSTAINED: Row = Row { load: Load::Sustained, seconds: 240.0, ..OLTP };
/// DLC looks at the load once a second, and the third low look in a row makes it low: where six minutes are one, that is all of a valley.
const HURRIED: &str = "every=167ms";
const UNRESUMED: Row =
    SUSTAINED.under("dlc-full:low=45%,high=70%,floor=5%").named("dlc-full").hurried(HURRIED);
/// The paper's threshold of 20 runs is reached after 40 minutes, and four parts and all of L0 take three hours; with 4, and two parts
/// before all, both are through in these ten. A burst goes at SILK's floor: at a twentieth of the device, as elsewhere, a full one would last for minutes, and there would be no dip to compare.
const BURSTS: Row = Row { load: Load::Sustained, seconds: 600.0, ..OLTP };
const FULL: Row =
    BURSTS.under("dlc-burst-full:low=45%,high=70%,burst-runs=4").named("dlc-burst-full").hurried(HURRIED);
const PARTS: Row = BURSTS
    .under("dlc-burst-part:low=45%,high=70%,burst-runs=4,parts=2")
    .named("dlc-burst-part")
    .hurried(HURRIED);
const THRESHOLD: u64 = 4;

/// SILK with DLC's estimate.
const SILK: &str = "silk-star";

/// DLC as in most of its figures. Its limits are set for the workload (§4.1): clients use 86 to 97 % of the device in peaks here, around
/// Table 2's 86 %, and 23 % in valleys. It names no floor, and in peaks only flushes would use SILK's, which is for L0 as well: by a
/// twentieth of the device, as in SILK's code, they end in a sixth of the time in which the next memtable fills.
const fn dlc(row: Row) -> Row {
    row.under("dlc-burst-part:low=45%,high=70%,floor=5%").named("dlc-burst-part").hurried(HURRIED)
}

/// What has lasted for four horizons is not expected to end: peaks of 100 seconds are shorter, where six minutes are one as well.
const fn paced(row: Row) -> Row {
    row.under("paced").hurried("horizon=5s")
}

fn three(row: Row) -> Vec<Row> {
    vec![row, row.under(SILK), dlc(row)]
}

/// The share of the seconds in which less than 95 % of what came ended, from when L0 is merged for the first time without a schedule:
/// before that nobody has trouble.
fn short(t: &Table<'_>, row: &Row) -> Option<f64> {
    let (document, baseline) = (t.of(row), t.of(&row.under("unlimited")));
    short_seconds_from(document?, first_merge(baseline?)?)
}

/// How much more of that one row has than another.
fn less(t: &Table<'_>, of: Row, by: Row) -> Option<f64> {
    let by = short(t, &by);
    Some(short(t, &of)? - by?)
}

/// Drops of the baseline.
pub const FIG1: Study = Study {
    id: "dlc-fig1",
    title: "without a schedule, throughput drops at high load",
    figure: "Fig 1",
    rows: || three(OLTP),
    valid: Valid::Drops,
    claims: &[Claim {
        id: "dlc-fig1.drops",
        text: "from the first merge of L0, share of the seconds in which less than 95 % of what came ended, unlimited",
        number: |t| short(t, &OLTP),
    }],
};

/// Drops of SILK.
pub const FIG2: Study = Study {
    id: "dlc-fig2",
    title: "SILK drops, too, once the first level is merged at high load",
    figure: "Fig 2",
    rows: || three(OLTP),
    valid: Valid::High,
    claims: &[Claim {
        id: "dlc-fig2.drops",
        text: "from the first merge of L0, share of the seconds in which less than 95 % of what came ended, SILK*",
        number: |t| short(t, &OLTP.under(SILK)),
    }],
};

/// Estimates of what clients use.
pub const FIG3: Study = Study {
    id: "dlc-fig3",
    title: "what clients use of the device, as SILK and as DLC estimate it",
    figure: "Fig 3",
    rows: || vec![CALM, BY_BYTES, CALM.under(SILK), BY_GET, BY_DEVICE],
    valid: Valid::Served,
    claims: &[
        Claim {
            id: "dlc-fig3.dlc",
            text: "how far the estimate by cache fills is off, over the run",
            number: |t| t.figure(&CALM.under(SILK), estimate_error),
        },
        Claim {
            id: "dlc-fig3.silk",
            text: "how far the estimate by bytes of operations is off",
            number: |t| t.figure(&BY_BYTES, estimate_error),
        },
        Claim {
            id: "dlc-fig3.per-get",
            text: "the same by a constant for each get, less that by cache fills",
            number: |t| {
                Some(t.figure(&BY_GET, estimate_error)? - t.figure(&CALM.under(SILK), estimate_error)?)
            },
        },
        Claim {
            id: "dlc-fig3.device",
            text: "how far what is counted at the files is off, as the schedule sees it",
            number: |t| t.figure(&BY_DEVICE, estimate_error),
        },
    ],
};

/// No bursts.
pub const FIG4: Study = Study {
    id: "dlc-fig4",
    title: "high load without an end, and nothing resumed: the first level grows",
    figure: "Fig 4",
    rows: || vec![SUSTAINED, SUSTAINED.under(SILK), UNRESUMED],
    valid: Valid::Overload,
    claims: &[Claim {
        id: "dlc-fig4.decay",
        text: "operations a second in the last quarter by those in the second",
        number: |t| t.figure(&UNRESUMED, decay),
    }],
};

/// The default transactions.
pub const FIG6: Study = Study {
    id: "dlc-fig6",
    title: "sysbench's default transactions, 100 seconds high and 20 low",
    figure: "Fig 6",
    rows: || three(OLTP).into_iter().chain([paced(OLTP)]).collect(),
    valid: Valid::High,
    claims: &[
        Claim {
            id: "dlc-fig6.dlc",
            text: "from the first merge of L0, share of the seconds in which less than 95 % of what came ended, DLC",
            number: |t| short(t, &dlc(OLTP)),
        },
        Claim { id: "dlc-fig6.paced", text: "the same share, paced", number: |t| short(t, &paced(OLTP)) },
        Claim {
            id: "dlc-fig6.silk",
            text: "the same share, SILK* less DLC",
            number: |t| less(t, OLTP.under(SILK), dlc(OLTP)),
        },
        Claim {
            id: "dlc-fig6.unlimited",
            text: "the same share, unlimited less SILK*",
            number: |t| less(t, OLTP, OLTP.under(SILK)),
        },
    ],
};

/// Reads to writes.
pub const FIG7: Study = Study {
    id: "dlc-fig7",
    title: "as many reads as writes, and one to nine",
    figure: "Fig 7",
    rows: || [three(HALF_READS), three(FEW_READS)].concat(),
    valid: Valid::High,
    claims: &[
        Claim {
            id: "dlc-fig7.5-5",
            text: "share of seconds with less than 95 % of what came, unlimited less DLC, 5:5",
            number: |t| less(t, HALF_READS, dlc(HALF_READS)),
        },
        Claim { id: "dlc-fig7.1-9", text: "the same, 1:9", number: |t| less(t, FEW_READS, dlc(FEW_READS)) },
        Claim {
            id: "dlc-fig7.silk",
            text: "the same, SILK* less DLC, the lesser of both",
            number: |t| {
                let both = [HALF_READS, FEW_READS].map(|row| less(t, row.under(SILK), dlc(row)));
                let [half, few] = both;
                Some(half?.min(few?))
            },
        },
        Claim {
            id: "dlc-fig7.gap",
            text: "unlimited less DLC at 1:9, less that at 5:5",
            number: |t| {
                let few = less(t, FEW_READS, dlc(FEW_READS));
                Some(few? - less(t, HALF_READS, dlc(HALF_READS))?)
            },
        },
    ],
};

/// Long peaks.
pub const FIG8: Study = Study {
    id: "dlc-fig8",
    title: "high for 110 and for 220 seconds, low for 10",
    figure: "Fig 8",
    rows: || [three(LONG), three(LONGER)].concat(),
    valid: Valid::High,
    claims: &[
        Claim {
            id: "dlc-fig8.long",
            text: "share of seconds with less than 95 % of what came, DLC, 110 s",
            number: |t| short(t, &dlc(LONG)),
        },
        Claim { id: "dlc-fig8.longer", text: "the same, 220 s", number: |t| short(t, &dlc(LONGER)) },
        Claim {
            id: "dlc-fig8.runs",
            text: "most runs in L0, 220 s by 110 s: about twice",
            number: |t| t.ratio(&dlc(LONGER), &dlc(LONG), most_runs),
        },
    ],
};

/// Bursts.
pub const FIG9: Study = Study {
    id: "dlc-fig9",
    title: "high load without an end: all of the first level resumed, or parts and then all",
    figure: "Fig 9",
    rows: || vec![BURSTS, BURSTS.under(SILK), FULL, PARTS, paced(BURSTS)],
    valid: Valid::Overload,
    claims: &[
        Claim {
            id: "dlc-fig9.dip",
            text: "seconds with less than 95 % of what came from when L0 first has 4 runs until it first has fewer, full less part",
            number: |t| {
                let dip = |row| first_burst_dip(t.of(row)?, THRESHOLD);
                let (full, parts) = (dip(&FULL), dip(&PARTS));
                Some(full? - parts?)
            },
        },
        Claim {
            id: "dlc-fig9.paced",
            text: "the longest row of seconds with less than 95 % of what came, paced",
            number: |t| t.figure(&paced(BURSTS), longest_dip),
        },
        Claim {
            id: "dlc-fig9.reset",
            text: "the fewest runs in L0 after the most, by those, part: after two parts all goes down",
            number: |t| t.figure(&PARTS, reset),
        },
        Claim {
            id: "dlc-fig9.runs",
            text: "most runs in L0, full: the threshold is 4",
            number: |t| t.figure(&FULL, most_runs),
        },
    ],
};

/// Many reads.
pub const FIG10: Study = Study {
    id: "dlc-fig10",
    title: "nine reads for a write",
    figure: "Fig 10",
    rows: || three(MOST_READS),
    valid: Valid::Served,
    claims: &[Claim {
        id: "dlc-fig10.throughput",
        text: "what ended in peaks of what came in them, DLC by SILK*",
        number: |t| t.ratio(&dlc(MOST_READS), &MOST_READS.under(SILK), served_in_peaks),
    }],
};
