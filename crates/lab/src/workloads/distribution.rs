//! Which record an operation is about.
//!
//! YCSB's choosers (`UniformLongGenerator`, `ScrambledZipfianGenerator`, `SkewedLatestGenerator`,
//! `HotspotIntegerGenerator`, `ExponentialGenerator`, `SequentialGenerator`), the compaction design space's normal and
//! beta, and sysbench's special, each with the parameters of its author as default.

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::random::Random;
use crate::workloads::zipfian::{Zipfian, fnv64};

/// The shape of a workload's choices, with its parameters. Shares are of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every record as likely as any other.
    Uniform,
    /// Few records get most of the operations; they lie anywhere.
    Zipfian,
    /// The newest records get most of the operations.
    Latest,
    /// The first `records` of all get `operations` of all.
    Hotspot {
        /// The share of the records that is hot.
        records: f64,
        /// The share of the operations that they get.
        operations: f64,
    },
    /// The newer, the likelier: the newest `records` of all get `operations` of all.
    Exponential {
        /// The share of the records …
        records: f64,
        /// … that gets this share of the operations.
        operations: f64,
    },
    /// One record after the other, all threads together, from the first again after the last.
    Sequential,
    /// A bell over the records in the order of their insertion.
    Normal {
        /// Where its middle is.
        mean: f64,
        /// How wide it is.
        deviation: f64,
    },
    /// The beta distribution over the records in the order of their insertion.
    Beta {
        /// The weight of the late ones.
        alpha: f64,
        /// The weight of the early ones.
        beta: f64,
    },
    /// sysbench's: `operations` of all go evenly to `records` of all, in the middle; the others fall in a bell around it.
    Special {
        /// The share of the records that is hot.
        records: f64,
        /// The share of the operations that they get.
        operations: f64,
    },
}

impl Distribution {
    /// All of them, with the names that people type and the parameters unless they say otherwise: YCSB's, the normal
    /// deviation of the compaction paper (§5.2.1), sysbench 1.0's.
    pub const ALL: [(&'static str, Distribution); 9] = [
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("latest", Distribution::Latest),
        ("hotspot", Distribution::Hotspot { records: 0.2, operations: 0.8 }),
        ("exponential", Distribution::Exponential { records: 0.857_142_857_1, operations: 0.95 }),
        ("sequential", Distribution::Sequential),
        ("normal", Distribution::Normal { mean: 0.5, deviation: 0.34 }),
        ("beta", Distribution::Beta { alpha: 2.0, beta: 5.0 }),
        ("special", Distribution::Special { records: 0.01, operations: 0.75 }),
    ];

    /// The distribution of this name, with its usual parameters.
    pub fn find(name: &str) -> Option<Distribution> {
        Distribution::ALL.iter().find(|(known, _)| *known == name).map(|(_, distribution)| *distribution)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let same = |other: &Distribution| std::mem::discriminant(other) == std::mem::discriminant(&self);
        Distribution::ALL.iter().find(|(_, other)| same(other)).map_or("", |(name, _)| *name)
    }
}

impl serde::Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Distribution, D::Error> {
        let name = String::deserialize(deserializer)?;
        Distribution::find(&name).ok_or_else(|| serde::de::Error::custom(format!("no distribution {name}")))
    }
}

/// Draws records by a distribution.
#[derive(Clone, Debug)]
pub enum Chooser<'a> {
    /// Those that need nothing but their parameters.
    Plain(Distribution),
    /// [`Distribution::Zipfian`], spread over this many records, some of which may not be there yet.
    Scrambled(Zipfian, u64),
    /// [`Distribution::Latest`].
    Latest(Zipfian),
    /// [`Distribution::Exponential`] with this mean, in records.
    Exponential(f64),
    /// [`Distribution::Sequential`], counted by all threads together.
    Sequential(&'a AtomicU64),
}

impl<'a> Chooser<'a> {
    /// A chooser over `records` records, to which about `inserts` are added during the run. `turns` counts those that are
    /// drawn in turn.
    pub fn new(distribution: Distribution, records: u64, inserts: u64, turns: &'a AtomicU64) -> Chooser<'a> {
        match distribution {
            Distribution::Zipfian => Chooser::Scrambled(
                Zipfian::to_scramble(),
                // As YCSB does: twice what is expected, so that records inserted late are chosen as well, and one more.
                records.saturating_add(inserts.saturating_mul(2)).saturating_add(1),
            ),
            Distribution::Latest => Chooser::Latest(Zipfian::new(records.max(1))),
            Distribution::Exponential { records: share, operations } => {
                Chooser::Exponential(records.max(1) as f64 * share / -(1.0 - operations).ln())
            }
            Distribution::Sequential => Chooser::Sequential(turns),
            plain => Chooser::Plain(plain),
        }
    }

    /// A record below `records`, the number of records there are now.
    pub fn draw(&mut self, random: &mut Random, records: u64) -> u64 {
        let records = records.max(1);
        match self {
            Chooser::Plain(distribution) => plain(*distribution, random, records),
            Chooser::Scrambled(zipfian, items) => {
                until_below(records, || fnv64(zipfian.draw(random)) % *items)
            }
            Chooser::Latest(zipfian) => {
                zipfian.grow(records);
                records - 1 - zipfian.draw(random).min(records - 1)
            }
            Chooser::Exponential(mean) => {
                records - 1 - until_below(records, || (-(1.0 - random.unit()).ln() * *mean) as u64)
            }
            Chooser::Sequential(turns) => turns.fetch_add(1, Ordering::Relaxed) % records,
        }
    }
}

fn plain(distribution: Distribution, random: &mut Random, records: u64) -> u64 {
    let all = records as f64;
    match distribution {
        Distribution::Hotspot { records: share, operations } => {
            let hot = ((all * share) as u64).clamp(1, records);
            if random.unit() < operations || hot == records {
                random.below(hot)
            } else {
                hot + random.below(records - hot)
            }
        }
        Distribution::Normal { mean, deviation } => {
            within(records, || (all * mean + all * deviation * normal(random)).round())
        }
        Distribution::Beta { alpha, beta } => {
            let (x, y) = (gamma(random, alpha), gamma(random, beta));
            within(records, || (all * x / (x + y)).floor().min(all - 1.0))
        }
        Distribution::Special { records: share, operations } => {
            let range = all - 1.0;
            let u = random.unit();
            let drawn = if u < 1.0 - operations {
                (0..12).map(|_| random.unit()).sum::<f64>() / 12.0 * range
            } else {
                // sysbench uses the number again, which lies above the share of the bell.
                u * (range * share + 1.0) + range / 2.0 - range * share / 2.0
            };
            (drawn as u64).min(records - 1)
        }
        _ => random.below(records),
    }
}

/// Draws until it is below `records`.
fn until_below(records: u64, mut draw: impl FnMut() -> u64) -> u64 {
    loop {
        let record = draw();
        if record < records {
            return record;
        }
    }
}

/// Draws until it is a record; after a thousand draws beside them all, the nearest.
fn within(records: u64, mut draw: impl FnMut() -> f64) -> u64 {
    let mut drawn = 0.0;
    for _ in 0..1000 {
        drawn = draw();
        if drawn >= 0.0 && drawn < records as f64 {
            break;
        }
    }
    (drawn as u64).min(records - 1)
}

/// The standard normal distribution, by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (TAU * random.unit()).cos()
}

/// The gamma distribution of this shape, by Marsaglia and Tsang.
fn gamma(random: &mut Random, shape: f64) -> f64 {
    if shape < 1.0 {
        return gamma(random, shape + 1.0) * (1.0 - random.unit()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    loop {
        let x = normal(random);
        let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
        if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
