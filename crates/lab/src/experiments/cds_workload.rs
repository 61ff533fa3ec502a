//! The design space by what is written: CDS Fig. 8 a to k.

use super::cds::{each, parts};
use super::cds_default::LO2_CROWDS;
use crate::design_space::point::{Point, SMALL};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, median, ratio};

const MOST: [&str; 6] = ["full", "lo+1", "lo+2", "rr", "old", "tier"];

/// Updates for each insert, and the inserts: 4 M writes in all.
const UPDATES: [(u32, u64); 4] = [(0, 4_000_000), (1, 2_000_000), (3, 1_000_000), (8, 444_444)];
const ONCE: Point = SMALL;
const OFTEN: Point = Point { updates: 8, records: 444_444, ..SMALL };

fn updates(point: &Point) -> Option<f64> {
    let (updates, records) = *UPDATES.iter().find(|(updates, _)| *updates == point.updates)?;
    (*point == Point { updates, records, ..SMALL.with(point.strategy) }).then_some(f64::from(updates))
}

/// Updates.
pub const FIG8_UPDATES: Study = Study {
    id: "cds-fig8a",
    title: "4 M writes, from none to eight updates for each insert (8 a to c)",
    points: || {
        UPDATES
            .iter()
            .flat_map(|(updates, records)| {
                each(Point { updates: *updates, records: *records, ..SMALL }, &MOST)
            })
            .collect()
    },
    claims: &[
        Claim {
            id: "cds-fig8a.tier-moves-less",
            observation: "O15",
            text: "data moved by Tier: eight updates for each insert by none",
            number: |t| ratio(t.of(&OFTEN.with("tier"), "moved")?, t.of(&ONCE.with("tier"), "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8a.tier-job-time",
            observation: "O15",
            text: "mean time of Tier's compactions: eight updates for each insert by none",
            number: |t| ratio(t.of(&OFTEN.with("tier"), "job_us")?, t.of(&ONCE.with("tier"), "job_us")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8a.lo2-by-others",
            observation: "O15",
            text: "data moved, eight updates for each insert: LO+2 by the others that are leveled, in the median",
            number: |t| {
                let others = t.each(&OFTEN, &["full", "lo+1", "rr", "old"], "moved")?;
                ratio(t.of(&OFTEN.with("lo+2"), "moved")?, median(&others)?)
            },
            reason: LO2_CROWDS,
        },
        Claim {
            id: "cds-fig8a.tails-converge",
            observation: "O16",
            text: "longest compaction, Tier by Full: with eight updates for each insert by with none",
            number: |t| {
                let tail = |point: Point| {
                    ratio(t.of(&point.with("tier"), "job_max_us")?, t.of(&point.with("full"), "job_max_us")?)
                };
                ratio(tail(OFTEN)?, tail(ONCE)?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "8a: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(updates, "updates for each insert"),
        },
        Plot {
            title: "8b: write amplification",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Parameter(updates, "updates for each insert"),
        },
        Plot {
            title: "8c: longest compaction",
            figure: "job_max_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(updates, "updates for each insert"),
        },
    ],
};

const DELETES: [u32; 3] = [20, 50, 100];
const TENTH: Point = Point { deletes: 100, ..SMALL };
const HALF: Point = Point { ttl_percent: 50, ..TENTH.with("tsa") };
const THIRD: Point = Point { ttl_percent: 33, ..TENTH.with("tsa") };

fn deletes(point: &Point) -> Option<f64> {
    (point.deletes > 0 && point.ttl_percent != 33).then_some(f64::from(point.deletes) / 10.0)
}

fn tenth(t: &Table<'_>, part: &'static str, whole: &'static str, figure: &str) -> Option<f64> {
    ratio(t.of(&TENTH.with(part), figure)?, t.of(&TENTH.with(whole), figure)?)
}

/// Deletes.
pub const FIG8_DELETES: Study = Study {
    id: "cds-fig8d",
    title: "2, 5 and 10 % deletes: tombstones left, superseded bytes, data moved (8 d to f)",
    points: || {
        let share = |deletes: &u32| {
            let point = Point { deletes: *deletes, ..SMALL };
            let mut points = each(point, &["lo+1", "full", "tsd", "tier"]);
            points.extend([33, 50].map(|ttl_percent| Point { ttl_percent, ..point.with("tsa") }));
            points
        };
        DELETES.iter().flat_map(share).collect()
    },
    claims: &[
        Claim {
            id: "cds-fig8d.full-by-tsa",
            observation: "O17",
            text: "tombstones left, 10 % deletes: Full by TSA50",
            number: |t| ratio(t.of(&TENTH.with("full"), "tombstones")?, t.of(&HALF, "tombstones")?),
            reason: TIME_RULES,
        },
        Claim {
            id: "cds-fig8d.tsa-by-tsd",
            observation: "O17",
            text: "tombstones left, 10 % deletes: TSA50 by TSD",
            number: |t| ratio(t.of(&HALF, "tombstones")?, t.of(&TENTH.with("tsd"), "tombstones")?),
            reason: TIME_RULES,
        },
        Claim {
            id: "cds-fig8d.tsa33-by-tsa50",
            observation: "O17",
            text: "tombstones left, 10 % deletes: TSA33 by TSA50",
            number: |t| ratio(t.of(&THIRD, "tombstones")?, t.of(&HALF, "tombstones")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8d.tsd-by-lo1",
            observation: "O17",
            text: "tombstones left, 10 % deletes: TSD by LO+1",
            number: |t| tenth(t, "tsd", "lo+1", "tombstones"),
            reason: FALLS_BACK,
        },
        Claim {
            id: "cds-fig8d.lo1-by-tier",
            observation: "O17",
            text: "tombstones left, 10 % deletes: LO+1 by Tier",
            number: |t| tenth(t, "lo+1", "tier", "tombstones"),
            reason: "",
        },
        Claim {
            id: "cds-fig8d.tsd-space",
            observation: "O17",
            text: "superseded bytes, 10 % deletes: TSD by LO+1",
            number: |t| tenth(t, "tsd", "lo+1", "space"),
            reason: "",
        },
        Claim {
            id: "cds-fig8d.tsd-cost",
            observation: "O18",
            text: "data moved, 10 % deletes: TSD by LO+1",
            number: |t| tenth(t, "tsd", "lo+1", "moved"),
            reason: FALLS_BACK,
        },
        Claim {
            id: "cds-fig8d.tsa-cost",
            observation: "O18",
            text: "data moved, 10 % deletes: TSA50 by LO+1",
            number: |t| ratio(t.of(&HALF, "moved")?, t.of(&TENTH, "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8d.tsa-shorter",
            observation: "O18",
            text: "data moved, 10 % deletes: TSA33 by TSA50",
            number: |t| ratio(t.of(&THIRD, "moved")?, t.of(&HALF, "moved")?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "8d: tombstones left (TSA with half of the time)",
            figure: "tombstones",
            unit: PlotUnit::Number,
            over: Over::Parameter(deletes, "deletes, % of inserts"),
        },
        Plot {
            title: "8e: superseded bytes for each other byte",
            figure: "space",
            unit: PlotUnit::Number,
            over: Over::Parameter(deletes, "deletes, % of inserts"),
        },
        Plot {
            title: "8f: bytes moved for each byte written",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Parameter(deletes, "deletes, % of inserts"),
        },
    ],
};

const TIME_RULES: &str = "deletes are gone in time here, from tables and the log, and by three quarters of it; the artifact looks at whole files";

const FALLS_BACK: &str =
    "deletes spread evenly make hardly a table mostly tombstones, and TSD is LO+1 then (decision 052)";

const COUNTS: [u64; 3] = [1_000_000, 4_000_000, 8_000_000];
const GROWN: [&str; 5] = ["full", "lo+1", "rr", "old", "tier"];
const GROWN_LEVELED: [&str; 4] = ["full", "lo+1", "rr", "old"];
const FEWEST: Point = Point { records: 1_000_000, ..SMALL };
const MANY: Point = Point { records: 8_000_000, ..SMALL };

fn counts(point: &Point) -> Option<f64> {
    (*point == Point { records: point.records, ..SMALL.with(point.strategy) })
        .then_some(point.records as f64 / 1e6)
}

/// How Tier grows by how the leveled ones do.
fn tier_growth(t: &Table<'_>, figure: &str) -> Option<f64> {
    let tier = parts(t, MANY, FEWEST, &["tier"], figure)?;
    ratio(*tier.first()?, median(&parts(t, MANY, FEWEST, &GROWN_LEVELED, figure)?)?)
}

/// How much is written.
pub const FIG8_COUNT: Study = Study {
    id: "cds-fig8g",
    title: "1, 4 and 8 M entries (8 g to i)",
    points: || COUNTS.iter().flat_map(|records| each(Point { records: *records, ..SMALL }, &GROWN)).collect(),
    claims: &[
        Claim {
            id: "cds-fig8g.mean",
            observation: "O19",
            text: "growth of a compaction's mean time from 1 to 8 M: Tier by leveled, in the median",
            number: |t| tier_growth(t, "job_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig8g.tail",
            observation: "O19",
            text: "growth of the longest compaction from 1 to 8 M: Tier by leveled, in the median",
            number: |t| tier_growth(t, "job_max_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig8g.order",
            observation: "O19",
            text: "data moved at 8 M: the least of leveled by Tier",
            number: |t| {
                ratio(least(&t.each(&MANY, &GROWN_LEVELED, "moved")?)?, t.of(&MANY.with("tier"), "moved")?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "8g: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(counts, "million entries"),
        },
        Plot {
            title: "8h: write amplification",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Parameter(counts, "million entries"),
        },
        Plot {
            title: "8i: longest compaction",
            figure: "job_max_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(counts, "million entries"),
        },
    ],
};

/// Bytes of an entry, and the entries: 128 MB in all.
const ENTRIES: [(u64, u64); 4] = [(8, 16_000_000), (32, 4_000_000), (128, 1_000_000), (256, 500_000)];
const FEW: [&str; 3] = ["full", "lo+1", "tier"];
const TINY: Point = Point { entry_bytes: 8, records: 16_000_000, ..SMALL };
const WIDE: Point = Point { entry_bytes: 256, records: 500_000, ..SMALL };

fn entries(point: &Point) -> Option<f64> {
    let (entry_bytes, records) = *ENTRIES.iter().find(|(bytes, _)| *bytes == point.entry_bytes)?;
    (*point == Point { entry_bytes, records, ..SMALL.with(point.strategy) }).then_some(entry_bytes as f64)
}

/// How large entries are.
pub const FIG8_ENTRY: Study = Study {
    id: "cds-fig8j",
    title: "128 MB in entries of 8 to 256 bytes (8 j and k)",
    points: || {
        let size = |(entry_bytes, records): &(u64, u64)| {
            each(Point { entry_bytes: *entry_bytes, records: *records, ..SMALL }, &FEW)
        };
        ENTRIES.iter().flat_map(size).collect()
    },
    claims: &[
        Claim {
            id: "cds-fig8j.time",
            observation: "O20",
            text: "compaction time of a byte: entries of 8 bytes by 256, the least of strategies",
            number: |t| least(&parts(t, TINY, WIDE, &FEW, "job_per_byte_us")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8j.write-amplification",
            observation: "O20",
            text: "write amplification: entries of 8 bytes by 256, the least of strategies",
            number: |t| least(&parts(t, TINY, WIDE, &FEW, "write_amplification")?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "8j: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(entries, "bytes of an entry"),
        },
        Plot {
            title: "8k: write amplification",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Parameter(entries, "bytes of an entry"),
        },
    ],
};
