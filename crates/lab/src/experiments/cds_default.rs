//! The design space in the paper's default setup: CDS Fig. 4. Written, then read.

use super::cds::{ALL, EMPTY, FEW_RUNS, LEVELED, PARTIAL, against, each, is_large, large, one};
use crate::design_space::point::{LARGE, Point, Reads};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, median, most, ratio};

/// The paper's default, and nothing read.
const WRITTEN: Point = Point { reads: Reads::Nothing, ..LARGE };

fn written(t: &Table<'_>, strategies: &[&'static str], figure: &str) -> Option<Vec<f64>> {
    t.each(&WRITTEN, strategies, figure)
}

fn wrote(t: &Table<'_>, strategy: &'static str, figure: &str) -> Option<f64> {
    t.of(&WRITTEN.with(strategy), figure)
}

fn is_written(point: &Point) -> bool {
    *point == WRITTEN.with(point.strategy)
}

/// Writing alone, which takes a part of the time of both.
pub const FIG4_WRITES: Study = Study {
    id: "cds-fig4a",
    title: "10 M entries written under each strategy: movement, jobs, tails (4 a to d)",
    points: || each(WRITTEN, &ALL),
    claims: &[
        Claim {
            id: "cds-fig4a.a-tier-least",
            observation: "O1",
            text: "data moved: the least of leveled by Tier",
            number: |t| ratio(least(&written(t, &LEVELED, "moved")?)?, wrote(t, "tier", "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig4a.a-tier-most",
            observation: "O1",
            text: "data moved: the most of leveled by Tier",
            number: |t| ratio(most(&written(t, &LEVELED, "moved")?)?, wrote(t, "tier", "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig4a.a-partial-by-full",
            observation: "O2",
            text: "data moved: the most of partial by Full",
            number: |t| ratio(most(&written(t, &PARTIAL, "moved")?)?, wrote(t, "full", "moved")?),
            reason: FULL_IS_ONE_MERGE,
        },
        Claim {
            id: "cds-fig4a.a-lo1-by-others",
            observation: "O2",
            text: "data moved: LO+1 by the least of RR, Cold and Old",
            number: |t| {
                ratio(wrote(t, "lo+1", "moved")?, least(&written(t, &["rr", "cold-write", "old"], "moved")?)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig4a.a-lo2-by-others",
            observation: "O2",
            text: "data moved: LO+2 by the least of RR, Cold and Old",
            number: |t| {
                ratio(wrote(t, "lo+2", "moved")?, least(&written(t, &["rr", "cold-write", "old"], "moved")?)?)
            },
            reason: LO2_CROWDS,
        },
        Claim {
            id: "cds-fig4a.b-jobs",
            observation: "O3",
            text: "compactions: partial, in the median, by Full",
            number: |t| ratio(median(&written(t, &PARTIAL, "jobs")?)?, wrote(t, "full", "jobs")?),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4a.b-job-bytes",
            observation: "O3",
            text: "bytes of a compaction: Full by partial, in the median",
            number: |t| {
                ratio(wrote(t, "full", "bytes_per_job")?, median(&written(t, &PARTIAL, "bytes_per_job")?)?)
            },
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4a.c-full-by-partial",
            observation: "O4",
            text: "mean time of a compaction: Full by the most of partial",
            number: |t| against(t, WRITTEN, "full", &PARTIAL, "job_us"),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4a.c-full-by-tier",
            observation: "O4",
            text: "mean time of a compaction: Full by Tier",
            number: |t| against(t, WRITTEN, "full", &["tier"], "job_us"),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4a.d-tier-by-full",
            observation: "O5",
            text: "slowest write: Tier by Full",
            number: |t| against(t, WRITTEN, "tier", &["full"], "write_max_us"),
            reason: NO_COLLAPSE,
        },
        Claim {
            id: "cds-fig4a.d-tier-by-partial",
            observation: "O5",
            text: "slowest write: Tier by the most of partial",
            number: |t| against(t, WRITTEN, "tier", &PARTIAL, "write_max_us"),
            reason: NO_COLLAPSE,
        },
        Claim {
            id: "cds-fig4a.d-full-by-partial",
            observation: "O5",
            text: "slowest write: Full by the most of partial",
            number: |t| against(t, WRITTEN, "full", &PARTIAL, "write_max_us"),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "4a: bytes moved for each byte written",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_written),
        },
        Plot {
            title: "4b: compactions",
            figure: "jobs",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_written),
        },
        Plot {
            title: "4b: bytes of a compaction",
            figure: "bytes_per_job",
            unit: PlotUnit::Bytes,
            over: Over::Strategies(is_written),
        },
        Plot {
            title: "4c: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_written),
        },
        Plot {
            title: "4d: slowest write",
            figure: "write_max_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_written),
        },
    ],
};

/// Reading what was written.
pub const FIG4_READS: Study = Study {
    id: "cds-fig4e",
    title: "10 M entries written under each strategy, then gets and scans (4 e to h)",
    points: || each(LARGE, &ALL),
    claims: &[
        Claim {
            id: "cds-fig4e.e-full-best",
            observation: "O6",
            text: "mean get of a key that is there: Full by the least of partial",
            number: |t| ratio(one(t, "full", "get_0_us")?, least(&large(t, &PARTIAL, "get_0_us")?)?),
            reason: "",
        },
        Claim {
            id: "cds-fig4e.e-tier-found",
            observation: "O6",
            text: "mean get of a key that is there: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "get_0_us")?, median(&large(t, &LEVELED, "get_0_us")?)?),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4e.e-tier-empty",
            observation: "O6",
            text: "mean get of a key that is not there: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "get_10_us")?, median(&large(t, &LEVELED, "get_10_us")?)?),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4e.h-peak",
            observation: "O7",
            text: "mean get: the most with some empty by the more of none and all empty, median of strategies",
            number: |t| {
                let peak = |strategy: &&'static str| {
                    let at = |figure: &str| one(t, strategy, figure);
                    let inner = most(&[at("get_2_us")?, at("get_4_us")?, at("get_6_us")?, at("get_8_us")?])?;
                    ratio(inner, most(&[at("get_0_us")?, at("get_10_us")?])?)
                };
                median(&ALL.iter().map(peak).collect::<Option<Vec<f64>>>()?)
            },
            reason: SMALL_FILTERS,
        },
        Claim {
            id: "cds-fig4e.f-tier-found",
            observation: "O8",
            text: "pages of a get, none empty: Tier by the most of leveled",
            number: |t| against(t, LARGE, "tier", &LEVELED, "get_0_pages"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4e.f-tier-mostly-empty",
            observation: "O8",
            text: "pages of a get, 0.8 empty: Tier by the most of leveled",
            number: |t| against(t, LARGE, "tier", &LEVELED, "get_8_pages"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4e.g-leveled",
            observation: "O9",
            text: "mean scan of a thousandth: the most of leveled by the least",
            number: |t| {
                let scans = large(t, &LEVELED, "scan_3_us")?;
                ratio(most(&scans)?, least(&scans)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig4e.g-tier",
            observation: "O9",
            text: "mean scan of a thousandth: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "scan_3_us")?, median(&large(t, &LEVELED, "scan_3_us")?)?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "4e: mean get",
            figure: "us",
            unit: PlotUnit::Micros,
            over: Over::Figures(is_large, &EMPTY, "share of empty gets"),
        },
        Plot {
            title: "4f: pages of 4 KiB read by a get",
            figure: "pages",
            unit: PlotUnit::Number,
            over: Over::Figures(is_large, &EMPTY, "share of empty gets"),
        },
        Plot {
            title: "4g: mean scan of a thousandth of the key space",
            figure: "scan_3_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "4h: p90 of gets",
            figure: "p90_us",
            unit: PlotUnit::Micros,
            over: Over::Figures(is_large, &EMPTY, "share of empty gets"),
        },
    ],
};
/// Of LO+2, which other experiments have too.
pub const LO2_CROWDS: &str = "LO+2 looks at the level after the next alone, and that is small yet: it goes on choosing where the last level is sparse, and the \
     next one grows dense there; with the next one's overlap deciding between equals it moves a sixth less, still more than LO+1";
const FLUSHES_COUNT: &str = "every leveled strategy merges each flush into the first level, and those merges are most of Full's compactions and alike for all: \
     below that level partial has about ten times as many as Full. The tree has three levels on disk, and moves by metadata alone \
     are not counted";
const FULL_IS_ONE_MERGE: &str =
    "Full is one merge of two levels here; the paper's took a level's files one by one, which moves more";
const NO_COLLAPSE: &str = "the paper's Tier is RocksDB's universal compaction, which now and then merges everything into one run; this one merges \
                           four runs of a level";
const SMALL_FILTERS: &str = "filters are read in partitions and not by the file, and a get of a key that is there reads its page however cheap the filters are";
