//! The design space by how the tree is tuned: CDS Fig. 8 l to o and 10 to 14.

use super::cds::{change, each, parts};
use crate::design_space::point::{Point, Reads, SMALL};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, median, most, ratio};

const FIVE: [&str; 5] = ["full", "lo+1", "lo+2", "old", "tier"];
const LEVELED: [&str; 4] = ["full", "lo+1", "lo+2", "old"];
const FEW: [&str; 3] = ["full", "lo+1", "tier"];
/// Strategies closer than this to each other have no order.
const ALIKE: f64 = 0.1;

/// Of all pairs of strategies at all of these points, the part that stands in the same order as at the first point; who is
/// alike at one of the two is in order.
fn order_kept(t: &Table<'_>, points: &[Point], strategies: &[&'static str], figure: &str) -> Option<f64> {
    let rows: Vec<Vec<f64>> =
        points.iter().map(|point| t.each(point, strategies, figure)).collect::<Option<_>>()?;
    let (first, others) = rows.split_first()?;
    let before = |row: &[f64], a: usize, b: usize| match ratio(row[a], row[b]) {
        Some(part) if (part - 1.0).abs() <= ALIKE => None,
        Some(part) => Some(part < 1.0),
        None => None,
    };
    let (mut kept, mut all) = (0.0, 0.0);
    for row in others {
        for a in 0..strategies.len() {
            for b in a + 1..strategies.len() {
                let same = match (before(first, a, b), before(row, a, b)) {
                    (Some(first), Some(now)) => first == now,
                    _ => true,
                };
                kept += f64::from(u8::from(same));
                all += 1.0;
            }
        }
    }
    ratio(kept, all)
}

fn varied<T: Copy>(values: &[T], with: impl Fn(T) -> Point) -> Vec<Point> {
    values.iter().map(|value| with(*value)).collect()
}

const BUFFERS: [u64; 5] = [2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20];

const fn buffer(buffer_bytes: u64) -> Point {
    Point { buffer_bytes, ..SMALL }
}

/// A tier's growth from the smallest buffer to the largest by that of leveled.
fn buffer_growth(t: &Table<'_>, figure: &str) -> Option<f64> {
    let (small, large) = (buffer(2 << 20), buffer(32 << 20));
    let tier = parts(t, large, small, &["tier"], figure)?;
    ratio(*tier.first()?, median(&parts(t, large, small, &LEVELED, figure)?)?)
}

/// The buffer.
pub const FIG8_BUFFER: Study = Study {
    id: "cds-fig8l",
    title: "buffers, and so tables, of 2 to 32 MB (8 l to n)",
    points: || BUFFERS.iter().flat_map(|bytes| each(buffer(*bytes), &FIVE)).collect(),
    claims: &[
        Claim {
            id: "cds-fig8l.mean",
            observation: "O21",
            text: "mean time of a compaction: 32 MB by 2 MB, the least of strategies",
            number: |t| least(&parts(t, buffer(32 << 20), buffer(2 << 20), &FIVE, "job_us")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8l.tier-mean",
            observation: "O21",
            text: "growth of a compaction's mean time from 2 to 32 MB: Tier by leveled, in the median",
            number: |t| buffer_growth(t, "job_us"),
            reason: "a buffer of 32 MB takes a sixteenth of the data: leveled trees have one level then, and compactions as long as it",
        },
        Claim {
            id: "cds-fig8l.tier-tail",
            observation: "O21",
            text: "growth of the longest compaction from 2 to 32 MB: Tier by leveled, in the median",
            number: |t| buffer_growth(t, "job_max_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig8l.old",
            observation: "O21",
            text: "write amplification: Old by LO+1, the least of buffers up to 8 MB",
            number: |t| {
                let at = |bytes: &u64| {
                    let point = buffer(*bytes);
                    let of = |strategy| t.of(&point.with(strategy), "write_amplification");
                    ratio(of("old")?, of("lo+1")?)
                };
                least(&[2 << 20, 4 << 20, 8 << 20].iter().map(at).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "8l: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(buffers, "buffer, MB"),
        },
        Plot {
            title: "8m: longest compaction",
            figure: "job_max_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(buffers, "buffer, MB"),
        },
        Plot {
            title: "8n: write amplification",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Parameter(buffers, "buffer, MB"),
        },
    ],
};

fn buffers(point: &Point) -> Option<f64> {
    (*point == buffer(point.buffer_bytes).with(point.strategy)).then_some((point.buffer_bytes >> 20) as f64)
}

const PAGES: [u64; 4] = [16 << 10, 4 << 10, 8 << 10, 32 << 10];

const fn page(page_bytes: u64) -> Point {
    Point { page_bytes, ..SMALL }
}

fn pages(point: &Point) -> Option<f64> {
    (*point == page(point.page_bytes).with(point.strategy)).then_some((point.page_bytes >> 10) as f64)
}

/// The page, by the time of compactions.
pub const FIG8_PAGE: Study = Study {
    id: "cds-fig8o",
    title: "pages of 4 to 32 KB (8 o)",
    points: || PAGES.iter().flat_map(|bytes| each(page(*bytes), &FIVE)).collect(),
    claims: &[
        Claim {
            id: "cds-fig8o.mean",
            observation: "O22",
            text: "mean time of a compaction: pages of 32 KB by 4 KB, the most of strategies",
            number: |t| most(&parts(t, page(32 << 10), page(4 << 10), &FIVE, "job_us")?),
            reason: "",
        },
        Claim {
            id: "cds-fig8o.order",
            observation: "O22",
            text: "mean time of a compaction: pairs of strategies in the same order at each page size",
            number: |t| order_kept(t, &varied(&PAGES, page), &FIVE, "job_us"),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "8o: mean time of a compaction",
        figure: "job_us",
        unit: PlotUnit::Micros,
        over: Over::Parameter(pages, "page, KB"),
    }],
};

/// The page, by what is written.
pub const FIG12: Study = Study {
    id: "cds-fig12",
    title: "pages of 4 to 32 KB: write amplification and the longest compaction",
    points: || PAGES.iter().flat_map(|bytes| each(page(*bytes), &FIVE)).collect(),
    claims: &[
        Claim {
            id: "cds-fig12.write-amplification",
            observation: "O22",
            text: "write amplification: the largest change from 4 to 32 KB, over strategies",
            number: |t| change(t, page(4 << 10), page(32 << 10), &FIVE, "write_amplification"),
            reason: "",
        },
        Claim {
            id: "cds-fig12.order",
            observation: "O22",
            text: "longest compaction: pairs of strategies in the same order at each page size",
            number: |t| order_kept(t, &varied(&PAGES, page), &FIVE, "job_max_us"),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "12: write amplification",
            figure: "write_amplification",
            unit: PlotUnit::Number,
            over: Over::Parameter(pages, "page, KB"),
        },
        Plot {
            title: "12: longest compaction",
            figure: "job_max_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(pages, "page, KB"),
        },
    ],
};

const CACHES: [u64; 4] = [4 << 20, 8 << 20, 32 << 20, 128 << 20];

const fn cache(cache_bytes: u64) -> Point {
    Point { cache_bytes, ..SMALL }
}

const fn cache_beside(cache_bytes: u64) -> Point {
    Point { gets_beside: Some(false), ..cache(cache_bytes) }
}

/// The cache, where nobody reads.
pub const FIG10: Study = Study {
    id: "cds-fig10",
    title: "block caches of 4 to 128 MB, writes alone",
    points: || CACHES.iter().flat_map(|bytes| each(cache(*bytes), &FEW)).collect(),
    claims: &[
        Claim {
            id: "cds-fig10.order",
            observation: "O23",
            text: "mean time of a compaction: pairs of strategies in the same order at each cache size",
            number: |t| order_kept(t, &varied(&CACHES, cache), &FEW, "job_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig10.larger-is-slower",
            observation: "O23",
            text: "mean time of a compaction: 128 MB by 8 MB, median of strategies",
            number: |t| median(&parts(t, cache(128 << 20), cache(8 << 20), &FEW, "job_us")?),
            reason: "compactions do not go through the block cache here, so its size is nothing to them; the paper leaves its finding unexplained",
        },
    ],
    plots: &[Plot {
        title: "10a: mean time of a compaction, writes alone",
        figure: "job_us",
        unit: PlotUnit::Micros,
        over: Over::Parameter(
            |p| (*p == cache(p.cache_bytes).with(p.strategy)).then_some((p.cache_bytes >> 20) as f64),
            "cache, MB",
        ),
    }],
};

/// The cache, beside gets.
pub const FIG11: Study = Study {
    id: "cds-fig11",
    title: "block caches of 4 to 128 MB, a get for every ten writes",
    points: || CACHES.iter().flat_map(|bytes| each(cache_beside(*bytes), &FEW)).collect(),
    claims: &[
        Claim {
            id: "cds-fig11.stable",
            observation: "O23",
            text: "mean time of a compaction: the largest change from 8 to 128 MB, over strategies",
            number: |t| change(t, cache_beside(8 << 20), cache_beside(128 << 20), &FEW, "job_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig11.gets",
            observation: "O23",
            text: "mean get: 128 MB by 4 MB, median of strategies",
            number: |t| median(&parts(t, cache_beside(128 << 20), cache_beside(4 << 20), &FEW, "beside_us")?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "11a: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(caches_beside, "cache, MB"),
        },
        Plot {
            title: "11: mean get between writes",
            figure: "beside_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(caches_beside, "cache, MB"),
        },
    ],
};

fn caches_beside(point: &Point) -> Option<f64> {
    let belongs = *point == cache_beside(point.cache_bytes).with(point.strategy);
    belongs.then_some((point.cache_bytes >> 20) as f64)
}

const RATIOS: [u32; 4] = [10, 4, 6, 8];

const fn sized(ratio: u32) -> Point {
    Point { ratio, reads: Reads::Gets, ..SMALL }
}

fn ratios(point: &Point) -> Option<f64> {
    (*point == sized(point.ratio).with(point.strategy)).then_some(f64::from(point.ratio))
}

/// The size ratio, by compactions.
pub const FIG13: Study = Study {
    id: "cds-fig13",
    title: "size ratios of 4 to 10: mean and longest compaction",
    points: || RATIOS.iter().flat_map(|size| each(sized(*size), &FIVE)).collect(),
    claims: &[
        Claim {
            id: "cds-fig13.tier-small-ratio",
            observation: "O23",
            text: "mean time of a compaction at ratio 4: Tier by the most of leveled",
            number: |t| {
                ratio(t.of(&sized(4).with("tier"), "job_us")?, most(&t.each(&sized(4), &LEVELED, "job_us")?)?)
            },
            reason: "Full merges whole levels in one compaction here, so its mean is the highest at every ratio",
        },
        Claim {
            id: "cds-fig13.full-large-ratio",
            observation: "O23",
            text: "mean time of a compaction at ratio 10: Full by the most of the others",
            number: |t| {
                let others = t.each(&sized(10), &["lo+1", "lo+2", "old", "tier"], "job_us")?;
                ratio(t.of(&sized(10).with("full"), "job_us")?, most(&others)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig13.old-large-ratio",
            observation: "O23",
            text: "mean time of a compaction at ratio 10: Old by the more of LO+1 and LO+2",
            number: |t| {
                let others = t.each(&sized(10), &["lo+1", "lo+2"], "job_us")?;
                ratio(t.of(&sized(10).with("old"), "job_us")?, most(&others)?)
            },
            reason: "",
        },
        Claim {
            id: "cds-fig13.tier-tail",
            observation: "O23",
            text: "longest compaction: Tier by the most of leveled, the least of ratios",
            number: |t| {
                let at = |size: &u32| {
                    let leveled = t.each(&sized(*size), &LEVELED, "job_max_us")?;
                    ratio(t.of(&sized(*size).with("tier"), "job_max_us")?, most(&leveled)?)
                };
                least(&RATIOS.iter().map(at).collect::<Option<Vec<f64>>>()?)
            },
            reason: "Tier merges four runs of a level, and never everything, as the paper's does now and then; Full merges its last two levels",
        },
    ],
    plots: &[
        Plot {
            title: "13a: mean time of a compaction",
            figure: "job_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(ratios, "size ratio"),
        },
        Plot {
            title: "13b: longest compaction",
            figure: "job_max_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(ratios, "size ratio"),
        },
    ],
};

const BITS: [u32; 3] = [10, 5, 16];

const fn filtered(filter_bits: u32) -> Point {
    Point { filter_bits, reads: Reads::Gets, ..SMALL }
}

fn bits(point: &Point) -> Option<f64> {
    (*point == filtered(point.filter_bits).with(point.strategy)).then_some(f64::from(point.filter_bits))
}

/// Size ratio and filter bits, by gets.
pub const FIG14: Study = Study {
    id: "cds-fig14",
    title: "gets by size ratio (4 to 10) and by filter bits (5 to 16)",
    points: || {
        let mut points: Vec<Point> = RATIOS.iter().flat_map(|size| each(sized(*size), &FIVE)).collect();
        points.extend(BITS.iter().skip(1).flat_map(|bits| each(filtered(*bits), &FIVE)));
        points
    },
    claims: &[
        Claim {
            id: "cds-fig14.c-order",
            observation: "O23",
            text: "mean get of a key that is not there: pairs of strategies in the same order at each ratio",
            number: |t| order_kept(t, &varied(&RATIOS, sized), &FIVE, "get_10_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig14.d-order",
            observation: "O23",
            text: "mean get of a key that is there: pairs of strategies in the same order at each ratio",
            number: |t| order_kept(t, &varied(&RATIOS, sized), &FIVE, "get_0_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig14.bits-order",
            observation: "O23",
            text: "mean get of a key that is there: pairs of strategies in the same order at 5, 10 and 16 bits",
            number: |t| order_kept(t, &varied(&BITS, filtered), &FIVE, "get_0_us"),
            reason: "",
        },
        Claim {
            id: "cds-fig14.bits-slower",
            observation: "O23",
            text: "mean get of a key that is not there: 16 bits by 10, the most of strategies",
            number: |t| most(&parts(t, filtered(16), filtered(10), &FIVE, "get_10_us")?),
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "14c: mean get of a key that is not there",
            figure: "get_10_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(ratios, "size ratio"),
        },
        Plot {
            title: "14d: mean get of a key that is there",
            figure: "get_0_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(ratios, "size ratio"),
        },
        Plot {
            title: "A.4: mean get of a key that is not there",
            figure: "get_10_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(bits, "filter bits for each key"),
        },
    ],
};
