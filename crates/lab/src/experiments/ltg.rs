//! Hot ranges leveled, cold ones tiered: lab L, after LTG-LSM (§IV, Fig. 5 to 12), and two loads that the paper lacks.
//!
//! The paper's engine is LevelDB with and without its groups; here the same engine runs `ltg` beside `1-leveling`, which is LevelDB's
//! tree, `tier` and `l-leveling`. What is claimed of compaction I/O is counted, and of reads both counted (pages) and timed.

use crate::design_space::heat_load::{Asked, HeatLoad, Theta, USUAL};
use crate::design_space::point::{HEAT, Point, Reads};
use crate::design_space::study::{Claim, Over, Plot, PlotUnit, Study, Table, least, most, ratio};

const RATIOS: [u32; 4] = [4, 6, 8, 10];
/// Where what is not T is varied. The paper's is 12 (§IV.C); this one's cells are there already.
const EXTENDED: u32 = 10;
const LEVELDB: &str = "1-leveling";
const THREE: [&str; 3] = ["ltg", LEVELDB, "tier"];

const fn sized(ratio: u32) -> Point {
    Point { ratio, ..HEAT }
}

const fn asked(asked: Asked) -> Point {
    Point { reads: Reads::Heat(HeatLoad { asked, ..USUAL }), ..HEAT }
}

const fn by(theta: Theta) -> Point {
    Point { reads: Reads::Heat(HeatLoad { theta, ..USUAL }), ..sized(EXTENDED) }
}

const fn mixed(get_tenths: u32) -> Point {
    Point { reads: Reads::Heat(HeatLoad { get_tenths, ..USUAL }), ..sized(EXTENDED) }
}

const fn records(records: u64) -> Point {
    Point { records, ..sized(EXTENDED) }
}

fn three(points: impl IntoIterator<Item = Point>) -> Vec<Point> {
    points.into_iter().flat_map(|point| THREE.map(|strategy| point.with(strategy))).collect()
}

/// The figure of `ltg` by that of another strategy, at a point.
fn by_other(t: &Table<'_>, point: &Point, other: &'static str, figure: &str) -> Option<f64> {
    ratio(t.of(point, figure)?, t.of(&point.with(other), figure)?)
}

/// The same at each of these points.
fn all_by(t: &Table<'_>, points: &[Point], other: &'static str, figure: &str) -> Option<Vec<f64>> {
    points.iter().map(|point| by_other(t, point, other, figure)).collect()
}

/// The part that is saved of another's figure.
fn saved(t: &Table<'_>, points: &[Point], other: &'static str, figure: &str) -> Option<Vec<f64>> {
    Some(all_by(t, points, other, figure)?.into_iter().map(|part| 1.0 - part).collect())
}

/// How much more is done in the same time than by another whose operations take so long.
fn gained(t: &Table<'_>, points: &[Point], figure: &str) -> Option<Vec<f64>> {
    points.iter().map(|point| Some(1.0 / by_other(t, point, LEVELDB, figure)? - 1.0)).collect()
}

/// The smallest rise from one to the next; below 0 if it falls somewhere.
fn rise(values: &[f64]) -> Option<f64> {
    least(&values.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>())
}

fn at_ratios() -> Vec<Point> {
    RATIOS.map(sized).to_vec()
}

fn ratios(point: &Point) -> Option<f64> {
    (*point == sized(point.ratio).with(point.strategy)).then_some(f64::from(point.ratio))
}

/// Compaction I/O over T.
pub const FIG5: Study = Study {
    id: "ltg-fig5",
    title: "bytes that compactions read and write at size ratios of 4 to 10",
    points: || three(at_ratios()),
    claims: &[
        Claim {
            id: "ltg-fig5.saved",
            observation: "Fig 5",
            text: "compaction I/O at T = 10: the part of 1-leveling's that ltg saves",
            number: |t| saved(t, &[sized(10)], LEVELDB, "moved")?.pop(),
            reason: "",
        },
        Claim {
            id: "ltg-fig5.grows",
            observation: "Fig 5",
            text: "that part: its smallest rise from one T to the next",
            number: |t| rise(&saved(t, &at_ratios(), LEVELDB, "moved")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig5.space",
            observation: "bound",
            text: "superseded bytes per other byte with ltg: the most at any time, at any T",
            number: |t| {
                let at = |point: &Point| t.of(point, "space_max");
                most(&at_ratios().iter().map(at).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
        Claim {
            id: "ltg-fig5.turned",
            observation: "turns",
            text: "groups turned: the fewer of those to hot and to cold, the least of all T",
            number: |t| {
                let at = |point: &Point| Some(t.of(point, "turned_hot")?.min(t.of(point, "turned_cold")?));
                least(&at_ratios().iter().map(at).collect::<Option<Vec<f64>>>()?)
            },
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "5: bytes moved for each byte written",
        figure: "moved",
        unit: PlotUnit::Number,
        over: Over::Parameter(ratios, "T"),
    }],
};

/// Writes over T.
pub const FIG6: Study = Study {
    id: "ltg-fig6",
    title: "writes at size ratios of 4 to 10",
    points: || three(at_ratios()),
    claims: &[
        Claim {
            id: "ltg-fig6.gained",
            observation: "Fig 6",
            text: "writes a second: what ltg gains on 1-leveling, the least of all T",
            number: |t| least(&gained(t, &at_ratios(), "write_us")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig6.grows",
            observation: "Fig 6",
            text: "that gain: its smallest rise from one T to the next",
            number: |t| rise(&gained(t, &at_ratios(), "write_us")?),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "6: mean write, compactions included",
        figure: "write_us",
        unit: PlotUnit::Micros,
        over: Over::Parameter(ratios, "T"),
    }],
};

/// Reads over T.
pub const FIG7: Study = Study {
    id: "ltg-fig7",
    title: "gets, half of them of keys that are not there, at size ratios of 4 to 10",
    points: || [three(at_ratios()), vec![by(Theta::Absolute(70))]].concat(),
    claims: &[
        Claim {
            id: "ltg-fig7.pages",
            observation: "Fig 7",
            text: "pages of a get: ltg by 1-leveling, the most of all T",
            number: |t| most(&all_by(t, &at_ratios(), LEVELDB, "read_pages")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig7.pages-by-tier",
            observation: "Fig 7",
            text: "pages of a get: ltg by tier, the most of all T",
            number: |t| most(&all_by(t, &at_ratios(), "tier", "read_pages")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig7.lost",
            observation: "Fig 7",
            text: "gets a second: what ltg loses to 1-leveling, the most of all T",
            number: |t| Some(-least(&gained(t, &at_ratios(), "read_us")?)?),
            reason: "",
        },
        Claim {
            id: "ltg-fig7.by-tier",
            observation: "Fig 7",
            text: "mean get: ltg by tier, the most of all T",
            number: |t| most(&all_by(t, &at_ratios(), "tier", "read_us")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig7.absolute",
            observation: "Fig 7",
            text: "pages of a get at T = 10 with the paper's own θ, 0.7 of all gets: ltg by 1-leveling",
            number: |t| {
                let absolute = t.of(&by(Theta::Absolute(70)), "read_pages")?;
                ratio(absolute, t.of(&sized(EXTENDED).with(LEVELDB), "read_pages")?)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "7: mean get",
            figure: "read_us",
            unit: PlotUnit::Micros,
            over: Over::Parameter(ratios, "T"),
        },
        Plot {
            title: "7: pages of 4 KiB read by a get",
            figure: "read_pages",
            unit: PlotUnit::Number,
            over: Over::Parameter(ratios, "T"),
        },
    ],
};

const RECORDS: [u64; 3] = [1_000_000, 2_000_000, 4_000_000];

fn scales(point: &Point) -> Option<f64> {
    (*point == records(point.records).with(point.strategy)).then_some(point.records as f64 / 1e6)
}

/// How much is there, by what writing costs.
pub const FIG8: Study = Study {
    id: "ltg-fig8",
    title: "write amplification over 1, 2 and 4 GB",
    points: || three(RECORDS.map(records)),
    claims: &[Claim {
        id: "ltg-fig8.saved",
        observation: "Fig 8",
        text: "bytes written by compactions: the part of 1-leveling's that ltg saves, the least of all scales",
        number: |t| least(&saved(t, &RECORDS.map(records), LEVELDB, "write_amplification")?),
        reason: "",
    }],
    plots: &[Plot {
        title: "8: write amplification",
        figure: "write_amplification",
        unit: PlotUnit::Number,
        over: Over::Parameter(scales, "million records"),
    }],
};

/// The same by what reading costs.
pub const FIG9: Study = Study {
    id: "ltg-fig9",
    title: "gets over 1, 2 and 4 GB",
    points: || three(RECORDS.map(records)),
    claims: &[
        Claim {
            id: "ltg-fig9.pages",
            observation: "Fig 9",
            text: "pages of a get: ltg by 1-leveling, the most of all scales",
            number: |t| most(&all_by(t, &RECORDS.map(records), LEVELDB, "read_pages")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig9.lost",
            observation: "Fig 9",
            text: "gets a second: what ltg loses to 1-leveling, the most of all scales",
            number: |t| Some(-least(&gained(t, &RECORDS.map(records), "read_us")?)?),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "9: mean get",
        figure: "read_us",
        unit: PlotUnit::Micros,
        over: Over::Parameter(scales, "million records"),
    }],
};

const MIXES: [u32; 5] = [1, 3, 5, 7, 9];

fn mixes(point: &Point) -> Option<f64> {
    let load = point.heat()?;
    (*point == mixed(load.get_tenths).with(point.strategy)).then_some(f64::from(load.get_tenths) / 10.0)
}

/// How much is read.
pub const FIG10: Study = Study {
    id: "ltg-fig10",
    title: "reads and writes mixed: a tenth to nine tenths of gets",
    points: || three(MIXES.map(mixed)),
    claims: &[
        Claim {
            id: "ltg-fig10.gained",
            observation: "Fig 10",
            text: "operations a second: what ltg gains on 1-leveling, the least of all mixes",
            number: |t| least(&gained(t, &MIXES.map(mixed), "ingest_seconds")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig10.falls",
            observation: "Fig 10",
            text: "that gain as the share of gets rises: its smallest fall from one to the next",
            number: |t| {
                let gained: Vec<f64> = gained(t, &MIXES.map(mixed), "ingest_seconds")?;
                rise(&gained.iter().map(|gain| -gain).collect::<Vec<_>>())
            },
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "10: seconds for all operations",
        figure: "ingest_seconds",
        unit: PlotUnit::Number,
        over: Over::Parameter(mixes, "share of gets"),
    }],
};

const THETAS: [u32; 4] = [30, 50, 70, 90];

fn thetas() -> Vec<Point> {
    THETAS.map(|part| by(Theta::Relative(part))).to_vec()
}

fn theta(point: &Point) -> Option<f64> {
    match point.heat()?.theta {
        Theta::Relative(part) => Some(f64::from(part) / 100.0),
        _ => None,
    }
}

/// θ.
pub const FIG11: Study = Study {
    id: "ltg-fig11",
    title: "θ of 0.3 to 0.9 of a level's bytes: between leveling and tiering",
    points: thetas,
    claims: &[
        Claim {
            id: "ltg-fig11.moved",
            observation: "Fig 11",
            text: "compaction I/O as θ rises: the most by which one is that of the θ before",
            number: |t| steps(&thetas().iter().map(|p| t.of(p, "moved")).collect::<Option<Vec<_>>>()?, most),
            reason: "",
        },
        Claim {
            id: "ltg-fig11.pages",
            observation: "Fig 11",
            text: "pages of a get as θ rises: the least by which one is that of the θ before",
            number: |t| {
                steps(&thetas().iter().map(|p| t.of(p, "read_pages")).collect::<Option<Vec<_>>>()?, least)
            },
            reason: "",
        },
    ],
    plots: &[
        Plot {
            title: "11: bytes moved for each byte written",
            figure: "moved",
            unit: PlotUnit::Number,
            over: Over::Parameter(theta, "θ"),
        },
        Plot {
            title: "11: pages of 4 KiB read by a get",
            figure: "read_pages",
            unit: PlotUnit::Number,
            over: Over::Parameter(theta, "θ"),
        },
    ],
};

/// Of each by the one before it, the least or the most.
fn steps(values: &[f64], of: fn(&[f64]) -> Option<f64>) -> Option<f64> {
    of(&values.windows(2).map(|two| ratio(two[1], two[0])).collect::<Option<Vec<_>>>()?)
}

const LARGE_RATIOS: [u32; 2] = [8, 10];

/// Against lazy leveling.
pub const FIG12: Study = Study {
    id: "ltg-fig12",
    title: "compaction I/O beside lazy leveling at size ratios of 4 to 10",
    points: || {
        let lazy = at_ratios().into_iter().map(|point| point.with("l-leveling"));
        three(at_ratios()).into_iter().chain(lazy).collect()
    },
    claims: &[
        Claim {
            id: "ltg-fig12.moved",
            observation: "Fig 12",
            text: "compaction I/O: ltg by l-leveling, the most of T from 8 on",
            number: |t| most(&all_by(t, &LARGE_RATIOS.map(sized), "l-leveling", "moved")?),
            reason: "",
        },
        Claim {
            id: "ltg-fig12.pages",
            observation: "Fig 12",
            text: "pages of a get: ltg by l-leveling, the most of T from 8 on",
            number: |t| most(&all_by(t, &LARGE_RATIOS.map(sized), "l-leveling", "read_pages")?),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "12: bytes moved for each byte written",
        figure: "moved",
        unit: PlotUnit::Number,
        over: Over::Parameter(ratios, "T"),
    }],
};

/// Hot keys that move.
pub const MOVED: Study = Study {
    id: "ltg-moved",
    title: "nine of ten gets from a tenth of the key space, and from another tenth later",
    points: || three([asked(Asked::Moving)]),
    claims: &[
        Claim {
            id: "ltg-moved.lessons",
            observation: "moved",
            text: "trainings until most of what is hot now is leveled",
            number: |t| t.of(&asked(Asked::Moving), "lessons_to_follow"),
            reason: "",
        },
        Claim {
            id: "ltg-moved.saved",
            observation: "moved",
            text: "compaction I/O: the part of 1-leveling's that ltg saves meanwhile",
            number: |t| saved(t, &[asked(Asked::Moving)], LEVELDB, "moved")?.pop(),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "bytes moved for each byte written",
        figure: "moved",
        unit: PlotUnit::Number,
        over: Over::Strategies(|point| *point == asked(Asked::Moving).with(point.strategy)),
    }],
};

/// Nothing to learn.
pub const UNIFORM: Study = Study {
    id: "ltg-uniform",
    title: "all keys are asked for alike: nothing to learn",
    points: || three([asked(Asked::Uniform)]),
    claims: &[
        Claim {
            id: "ltg-uniform.pages",
            observation: "uniform",
            text: "pages of a get: ltg by 1-leveling",
            number: |t| by_other(t, &asked(Asked::Uniform), LEVELDB, "read_pages"),
            reason: "",
        },
        Claim {
            id: "ltg-uniform.moved",
            observation: "uniform",
            text: "compaction I/O: ltg by 1-leveling",
            number: |t| by_other(t, &asked(Asked::Uniform), LEVELDB, "moved"),
            reason: "",
        },
    ],
    plots: &[Plot {
        title: "bytes moved for each byte written",
        figure: "moved",
        unit: PlotUnit::Number,
        over: Over::Strategies(|point| *point == asked(Asked::Uniform).with(point.strategy)),
    }],
};
