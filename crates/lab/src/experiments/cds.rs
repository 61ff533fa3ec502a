//! The design space by what strategies do and are asked for: CDS Fig. 4 to 7 and 9.
//!
//! The preset `cds` is the paper's default setup (§5): compaction before writes, one compaction thread, direct I/O, an 8 MB cache
//! that filters and indexes share with data, fixed level sizes. `cold-write` stands for Cold, as in the authors' artifact:
//! nothing is read while entries are written, so recency of access says nothing.

use crate::design_space::point::{LARGE, Point, Reads, SMALL, Spread};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, median, most, ratio};

/// At most one run a level.
pub const LEVELED: [&str; 6] = ["full", "lo+1", "lo+2", "rr", "cold-write", "old"];
/// Of those, the ones that take single files.
const PARTIAL: [&str; 5] = ["lo+1", "lo+2", "rr", "cold-write", "old"];
/// All without deletes.
const ALL: [&str; 7] = ["full", "lo+1", "lo+2", "rr", "cold-write", "old", "tier"];
const EMPTY: [(&str, f64); 6] =
    [("get_0", 0.0), ("get_2", 0.2), ("get_4", 0.4), ("get_6", 0.6), ("get_8", 0.8), ("get_10", 1.0)];

/// A point with each of these strategies.
pub fn each(point: Point, strategies: &[&'static str]) -> Vec<Point> {
    strategies.iter().map(|strategy| point.with(strategy)).collect()
}

/// The largest change of a figure from one point to another, over strategies.
pub fn change(
    t: &Table<'_>,
    from: Point,
    to: Point,
    strategies: &[&'static str],
    figure: &str,
) -> Option<f64> {
    let parts = parts(t, to, from, strategies, figure)?;
    most(&parts.iter().map(|part| (part - 1.0).abs()).collect::<Vec<_>>())
}

/// A figure at one point by the same at another, for each strategy.
pub fn parts(
    t: &Table<'_>,
    part: Point,
    whole: Point,
    strategies: &[&'static str],
    figure: &str,
) -> Option<Vec<f64>> {
    ratios(t.each(&part, strategies, figure)?, t.each(&whole, strategies, figure)?)
}

fn ratios(parts: Vec<f64>, wholes: Vec<f64>) -> Option<Vec<f64>> {
    parts.into_iter().zip(wholes).map(|(part, whole)| ratio(part, whole)).collect()
}

fn large(t: &Table<'_>, strategies: &[&'static str], figure: &str) -> Option<Vec<f64>> {
    t.each(&LARGE, strategies, figure)
}

fn one(t: &Table<'_>, strategy: &'static str, figure: &str) -> Option<f64> {
    t.of(&LARGE.with(strategy), figure)
}

/// One strategy's figure by that of others.
fn against(t: &Table<'_>, strategy: &'static str, others: &[&'static str], figure: &str) -> Option<f64> {
    ratio(one(t, strategy, figure)?, most(&large(t, others, figure)?)?)
}

fn is_large(point: &Point) -> bool {
    *point == LARGE.with(point.strategy)
}

/// Writing, then reading.
pub const FIG4: Study = Study {
    id: "cds-fig4",
    title: "10 M entries written under each strategy, then gets and scans: movement, jobs, tails, reads",
    points: || each(LARGE, &ALL),
    claims: &[
        Claim {
            id: "cds-fig4.a-tier-least",
            observation: "O1",
            text: "data moved: the least of leveled by Tier",
            number: |t| ratio(least(&large(t, &LEVELED, "moved")?)?, one(t, "tier", "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig4.a-tier-most",
            observation: "O1",
            text: "data moved: the most of leveled by Tier",
            number: |t| ratio(most(&large(t, &LEVELED, "moved")?)?, one(t, "tier", "moved")?),
            reason: "",
        },
        Claim {
            id: "cds-fig4.a-partial-by-full",
            observation: "O2",
            text: "data moved: the most of partial by Full",
            number: |t| ratio(most(&large(t, &PARTIAL, "moved")?)?, one(t, "full", "moved")?),
            reason: FULL_IS_ONE_MERGE,
        },
        Claim {
            id: "cds-fig4.a-lo1-by-others",
            observation: "O2",
            text: "data moved: LO+1 by the least of RR, Cold and Old",
            number: |t| {
                ratio(one(t, "lo+1", "moved")?, least(&large(t, &["rr", "cold-write", "old"], "moved")?)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig4.a-lo2-by-others",
            observation: "O2",
            text: "data moved: LO+2 by the least of RR, Cold and Old",
            number: |t| {
                ratio(one(t, "lo+2", "moved")?, least(&large(t, &["rr", "cold-write", "old"], "moved")?)?)
            },
            reason: LO2_CROWDS,
        },
        Claim {
            id: "cds-fig4.b-jobs",
            observation: "O3",
            text: "compactions: partial, in the median, by Full",
            number: |t| ratio(median(&large(t, &PARTIAL, "jobs")?)?, one(t, "full", "jobs")?),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4.b-job-bytes",
            observation: "O3",
            text: "bytes of a compaction: Full by partial, in the median",
            number: |t| {
                ratio(one(t, "full", "bytes_per_job")?, median(&large(t, &PARTIAL, "bytes_per_job")?)?)
            },
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4.c-full-by-partial",
            observation: "O4",
            text: "mean time of a compaction: Full by the most of partial",
            number: |t| against(t, "full", &PARTIAL, "job_us"),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4.c-full-by-tier",
            observation: "O4",
            text: "mean time of a compaction: Full by Tier",
            number: |t| against(t, "full", &["tier"], "job_us"),
            reason: FLUSHES_COUNT,
        },
        Claim {
            id: "cds-fig4.d-tier-by-full",
            observation: "O5",
            text: "slowest write: Tier by Full",
            number: |t| against(t, "tier", &["full"], "write_max_us"),
            reason: NO_COLLAPSE,
        },
        Claim {
            id: "cds-fig4.d-tier-by-partial",
            observation: "O5",
            text: "slowest write: Tier by the most of partial",
            number: |t| against(t, "tier", &PARTIAL, "write_max_us"),
            reason: NO_COLLAPSE,
        },
        Claim {
            id: "cds-fig4.d-full-by-partial",
            observation: "O5",
            text: "slowest write: Full by the most of partial",
            number: |t| against(t, "full", &PARTIAL, "write_max_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig4.e-full-best",
            observation: "O6",
            text: "mean get of a key that is there: Full by the least of partial",
            number: |t| ratio(one(t, "full", "get_0_us")?, least(&large(t, &PARTIAL, "get_0_us")?)?),
            reason: "",
        },
        Claim {
            id: "cds-fig4.e-tier-found",
            observation: "O6",
            text: "mean get of a key that is there: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "get_0_us")?, median(&large(t, &LEVELED, "get_0_us")?)?),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4.e-tier-empty",
            observation: "O6",
            text: "mean get of a key that is not there: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "get_10_us")?, median(&large(t, &LEVELED, "get_10_us")?)?),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4.h-peak",
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
            id: "cds-fig4.f-tier-found",
            observation: "O8",
            text: "pages of a get, none empty: Tier by the most of leveled",
            number: |t| against(t, "tier", &LEVELED, "get_0_pages"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4.f-tier-mostly-empty",
            observation: "O8",
            text: "pages of a get, 0.8 empty: Tier by the most of leveled",
            number: |t| against(t, "tier", &LEVELED, "get_8_pages"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig4.g-leveled",
            observation: "O9",
            text: "mean scan of a thousandth: the most of leveled by the least",
            number: |t| {
                let scans = large(t, &LEVELED, "scan_3_us")?;
                ratio(most(&scans)?, least(&scans)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig4.g-tier",
            observation: "O9",
            text: "mean scan of a thousandth: Tier by leveled, in the median",
            number: |t| ratio(one(t, "tier", "scan_3_us")?, median(&large(t, &LEVELED, "scan_3_us")?)?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "4a: bytes moved for each byte written",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "4b: compactions",
            figure: "jobs",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "4b: bytes of a compaction",
            figure: "bytes_per_job",
            unit: PlotUnit::Bytes,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "4c: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "4d: slowest write",
            figure: "write_max_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_large),
        },
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
const FEW_RUNS: &str = "195 flushes are three runs of 64 and three of one under Tier: three large runs, as many as leveled has levels, and small ones \
     whose filters stay in the cache. The paper's universal compaction has runs of any size";
const FULL_IS_ONE_MERGE: &str =
    "Full is one merge of two levels here; the paper's took a level's files one by one, which moves more";
const NO_COLLAPSE: &str = "the paper's Tier is RocksDB's universal compaction, which now and then merges everything into one run; this one merges \
                           four runs of a level";
const SMALL_FILTERS: &str = "filters are read in partitions and not by the file, and a get of a key that is there reads its page however cheap the filters are";

const BESIDE: Point = Point { gets_beside: Some(false), reads: Reads::Nothing, ..LARGE };
const EMPTY_BESIDE: Point = Point { gets_beside: Some(true), ..BESIDE };
const FEW: [&str; 3] = ["full", "lo+1", "tier"];

/// Gets between the writes.
pub const FIG5: Study = Study {
    id: "cds-fig5",
    title: "the same with a get for every ten writes between them: compactions, slowest write, gets, time",
    points: || [each(LARGE, &ALL), each(BESIDE, &ALL), each(EMPTY_BESIDE, &FEW)].concat(),
    claims: &[
        Claim {
            id: "cds-fig5.a-job-time",
            observation: "O10",
            text: "mean time of a compaction: beside gets by without, median of strategies",
            number: |t| median(&parts(t, BESIDE, LARGE, &ALL, "job_us")?),
            reason: "",
        },
        Claim {
            id: "cds-fig5.c-write-amplification",
            observation: "O10",
            text: "write amplification: the largest change by gets beside, over strategies",
            number: |t| change(t, LARGE, BESIDE, &ALL, "write_amplification"),
            reason: "",
        },
        Claim {
            id: "cds-fig5.d-slowest-write",
            observation: "O10",
            text: "slowest write: beside gets by without, median of strategies",
            number: |t| median(&parts(t, BESIDE, LARGE, &ALL, "write_max_us")?),
            reason: "a write waits for compactions, and those are as long beside gets: one thread asks for one thing after the other, so \
                     no get goes on while a write waits",
        },
        Claim {
            id: "cds-fig5.e-found",
            observation: "O11",
            text: "mean get of a key that is there: between writes by after them, median of strategies",
            number: |t| {
                let after = large(t, &ALL, "get_0_us")?;
                median(&ratios(t.each(&BESIDE, &ALL, "beside_us")?, after)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig5.e-empty",
            observation: "O11",
            text: "mean get of a key that is not there: between writes by after them, median of strategies",
            number: |t| {
                let after = large(t, &FEW, "get_10_us")?;
                median(&ratios(t.each(&EMPTY_BESIDE, &FEW, "beside_us")?, after)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig5.f-time",
            observation: "O11",
            text: "time of all: interleaved by one after the other, median of strategies",
            number: |t| {
                let part = |strategy: &&'static str| {
                    let of = |figure: &str| t.of(&BESIDE.with(strategy), figure);
                    let after = of("beside_count")? * one(t, strategy, "get_0_us")? / 1e6;
                    ratio(of("ingest_seconds")?, one(t, strategy, "ingest_seconds")? + after)
                };
                median(&ALL.iter().map(part).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "5a: mean time of a compaction beside gets",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_beside),
        },
        Plot {
            title: "5c: write amplification beside gets",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_beside),
        },
        Plot {
            title: "5d: slowest write beside gets",
            figure: "write_max_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_beside),
        },
        Plot {
            title: "5e: mean get between writes",
            figure: "beside_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_beside),
        },
    ],
};

fn is_beside(point: &Point) -> bool {
    *point == BESIDE.with(point.strategy)
}

const EVEN: Point = Point { reads: Reads::Gets, ..SMALL };
const ZIPFIAN: Point = Point { inserts: Spread::Zipfian, ..EVEN };
const NORMAL: Point = Point { inserts: Spread::Normal, ..EVEN };

/// Which keys are inserted.
pub const FIG6: Study = Study {
    id: "cds-fig6",
    title: "inserts that are uniform, Zipfian or normal: movement stays, gets change",
    points: || [each(EVEN, &ALL), each(ZIPFIAN, &ALL), each(NORMAL, &ALL)].concat(),
    claims: &[
        Claim {
            id: "cds-fig6.a-zipfian",
            observation: "O12",
            text: "data moved: the largest change from uniform to Zipfian inserts, over strategies",
            number: |t| change(t, EVEN, ZIPFIAN, &ALL, "moved"),
            reason: "",
        },
        Claim {
            id: "cds-fig6.e-normal",
            observation: "O12",
            text: "data moved: the largest change from uniform to normal inserts, over strategies",
            number: |t| change(t, EVEN, NORMAL, &ALL, "moved"),
            reason: "",
        },
        Claim {
            id: "cds-fig6.c-close",
            observation: "O13",
            text: "mean get, 0.8 empty, Zipfian inserts: the most of strategies by the least",
            number: |t| {
                let gets = t.each(&ZIPFIAN, &ALL, "get_8_us")?;
                ratio(most(&gets)?, least(&gets)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig6.d-zipfian-pages",
            observation: "O13",
            text: "pages of a get, 0.8 empty: Zipfian inserts by uniform ones, median of strategies",
            number: |t| median(&parts(t, ZIPFIAN, EVEN, &ALL, "get_8_pages")?),
            reason: "",
        },
        Claim {
            id: "cds-fig6.h-normal-pages",
            observation: "O13",
            text: "pages of a get, 0.8 empty: normal inserts by uniform ones, median of strategies",
            number: |t| median(&parts(t, NORMAL, EVEN, &ALL, "get_8_pages")?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "6a: bytes moved for each byte written, Zipfian inserts",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Strategies(|p| *p == ZIPFIAN.with(p.strategy)),
        },
        Plot {
            title: "6d: pages of 4 KiB read by a get, 0.8 empty, Zipfian inserts",
            figure: "get_8_pages",
            unit: PlotUnit::Number,
            over: Over::Strategies(|p| *p == ZIPFIAN.with(p.strategy)),
        },
        Plot {
            title: "6e: bytes moved for each byte written, normal inserts",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Strategies(|p| *p == NORMAL.with(p.strategy)),
        },
        Plot {
            title: "6h: pages of 4 KiB read by a get, 0.8 empty, normal inserts",
            figure: "get_8_pages",
            unit: PlotUnit::Number,
            over: Over::Strategies(|p| *p == NORMAL.with(p.strategy)),
        },
    ],
};

/// Which keys are asked for.
pub const FIG7: Study = Study {
    id: "cds-fig7",
    title: "gets that are Zipfian or normal, of uniform data",
    points: || each(LARGE, &ALL),
    claims: &[
        Claim {
            id: "cds-fig7.a-zipfian",
            observation: "O14",
            text: "mean get: Zipfian by uniform, median of strategies",
            number: |t| {
                let part = |strategy: &&'static str| {
                    ratio(one(t, strategy, "get_zipf_us")?, one(t, strategy, "get_0_us")?)
                };
                median(&ALL.iter().map(part).collect::<Option<Vec<f64>>>()?)
            },
            reason: "Zipfian ranks are scattered over the key space: an 8 MB cache of 16 KB pages holds few of the popular keys",
        },
        Claim {
            id: "cds-fig7.c-tier-normal",
            observation: "O14",
            text: "mean get, normal: Tier by the most of leveled",
            number: |t| against(t, "tier", &LEVELED, "get_normal_us"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig7.d-tier-normal-pages",
            observation: "O14",
            text: "pages of a get, normal: Tier by the most of leveled",
            number: |t| against(t, "tier", &LEVELED, "get_normal_pages"),
            reason: FEW_RUNS,
        },
    ],
    plots: &[
        Plot {
            title: "7a: mean get, Zipfian",
            figure: "get_zipf_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "7b: pages of 4 KiB read by a get, Zipfian",
            figure: "get_zipf_pages",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "7c: mean get, normal",
            figure: "get_normal_us",
            unit: PlotUnit::Micros,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "7d: pages of 4 KiB read by a get, normal",
            figure: "get_normal_pages",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_large),
        },
    ],
};

/// The CPU of compactions.
pub const FIG9: Study = Study {
    id: "cds-fig9",
    title: "CPU of compactions as a part of their time",
    points: || each(LARGE, &ALL),
    claims: &[
        Claim {
            id: "cds-fig9.b-cpu",
            observation: "O4",
            text: "CPU of compactions by their time, median of strategies",
            number: |t| median(&large(t, &ALL, "cpu_share")?),
            reason: "",
        },
        Claim {
            id: "cds-fig9.b-alike",
            observation: "O4",
            text: "CPU of compactions by their time: the most of strategies by the least",
            number: |t| {
                let shares = large(t, &ALL, "cpu_share")?;
                ratio(most(&shares)?, least(&shares)?)
            },
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "9b: CPU of compactions as a part of their time",
        figure: "cpu_share",
        unit: PlotUnit::Number,
        over: Over::Strategies(is_large),
    }],
};
