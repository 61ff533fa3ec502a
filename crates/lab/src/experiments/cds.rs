//! The design space by what strategies do and are asked for: CDS Fig. 5 to 7 and 9, and what all of these have in common.
//!
//! The preset `cds` is the paper's default setup (§5): compaction before writes, one compaction thread, direct I/O, an 8 MB cache
//! that filters and indexes share with data, fixed level sizes. `cold-write` stands for Cold, as in the authors' artifact:
//! nothing is read while entries are written, so recency of access says nothing.

use crate::design_space::point::{LARGE, Point, Reads, SMALL, Spread};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, median, most, ratio};

/// At most one run a level.
pub const LEVELED: [&str; 6] = ["full", "lo+1", "lo+2", "rr", "cold-write", "old"];
/// Of those, the ones that take single files.
pub const PARTIAL: [&str; 5] = ["lo+1", "lo+2", "rr", "cold-write", "old"];
/// All without deletes.
pub const ALL: [&str; 7] = ["full", "lo+1", "lo+2", "rr", "cold-write", "old", "tier"];

/// Figures of gets, and how many of these ask for what is not there.
pub const EMPTY: [(&str, f64); 6] =
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

pub fn large(t: &Table<'_>, strategies: &[&'static str], figure: &str) -> Option<Vec<f64>> {
    t.each(&LARGE, strategies, figure)
}

pub fn one(t: &Table<'_>, strategy: &'static str, figure: &str) -> Option<f64> {
    t.of(&LARGE.with(strategy), figure)
}

/// One strategy's figure by that of others, at one point.
pub fn against(
    t: &Table<'_>,
    point: Point,
    strategy: &'static str,
    others: &[&'static str],
    figure: &str,
) -> Option<f64> {
    ratio(t.of(&point.with(strategy), figure)?, most(&t.each(&point, others, figure)?)?)
}

pub fn is_large(point: &Point) -> bool {
    *point == LARGE.with(point.strategy)
}

/// Of Tier in this tree.
pub const FEW_RUNS: &str = "195 flushes are three runs of 64 and three of one under Tier: three large runs, as many as leveled has levels, and small ones \
     whose filters stay in the cache. The paper's universal compaction has runs of any size";

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
            number: |t| against(t, LARGE, "tier", &LEVELED, "get_normal_us"),
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig7.d-tier-normal-pages",
            observation: "O14",
            text: "pages of a get, normal: Tier by the most of leveled",
            number: |t| against(t, LARGE, "tier", &LEVELED, "get_normal_pages"),
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

/// At each share of empty gets, what one misses.
fn misses(t: &Table<'_>, strategy: &'static str, what: &str) -> Option<Vec<f64>> {
    EMPTY.iter().map(|(get, _)| one(t, strategy, &format!("{get}_{what}"))).collect()
}

/// What compactions and gets are made of.
pub const FIG9: Study = Study {
    id: "cds-fig9",
    title: "CPU of compactions as a part of their time; filters and indexes that gets miss",
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
        Claim {
            id: "cds-fig9.c-filters-alike",
            observation: "O7",
            text: "parts of filters that a get misses, over shares of empty gets: the most by the least, median of strategies",
            number: |t| {
                let spread = |strategy: &&'static str| {
                    let missed = misses(t, strategy, "filter_misses")?;
                    ratio(most(&missed)?, least(&missed)?)
                };
                median(&ALL.iter().map(spread).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig9.c-filters-tier",
            observation: "O7",
            text: "parts of filters that a get misses, none empty: Tier by leveled, in the median",
            number: |t| {
                ratio(
                    one(t, "tier", "get_0_filter_misses")?,
                    median(&large(t, &LEVELED, "get_0_filter_misses")?)?,
                )
            },
            reason: FEW_RUNS,
        },
        Claim {
            id: "cds-fig9.d-indexes-fall",
            observation: "O7",
            text: "parts of indexes that a get misses: all empty by none, median of strategies",
            number: |t| {
                let falls = |strategy: &&'static str| {
                    ratio(one(t, strategy, "get_10_index_misses")?, one(t, strategy, "get_0_index_misses")?)
                };
                median(&ALL.iter().map(falls).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "9b: CPU of compactions as a part of their time",
            figure: "cpu_share",
            unit: PlotUnit::Number,
            over: Over::Strategies(is_large),
        },
        Plot {
            title: "9c: parts of filters that a get misses",
            figure: "filter_misses",
            unit: PlotUnit::Number,
            over: Over::Figures(is_large, &EMPTY, "share of empty gets"),
        },
        Plot {
            title: "9d: parts of indexes that a get misses",
            figure: "index_misses",
            unit: PlotUnit::Number,
            over: Over::Figures(is_large, &EMPTY, "share of empty gets"),
        },
    ],
};
