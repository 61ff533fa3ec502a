//! Which record an operation is about: uniform, and YCSB's zipfian and latest, formula for formula.
//!
//! The zipfian ones follow YCSB 0.17 (`ZipfianGenerator`, `ScrambledZipfianGenerator`, `SkewedLatestGenerator`), which
//! follow Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994. Results compare with
//! published ones only if these agree, so there is no library here.

use crate::random::Random;

/// YCSB's skew.
pub const THETA: f64 = 0.99;
/// YCSB scrambles a zipfian over this many items, whose zeta it keeps as a constant because summing takes minutes.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// The shape of a workload's choices, as one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Every record as likely as any other.
    Uniform,
    /// Few records get most of the operations; they lie anywhere.
    Zipfian,
    /// The newest records get most of the operations.
    Latest,
}

impl Distribution {
    /// All of them, with the names that people type.
    pub const ALL: [(&'static str, Distribution); 3] = [
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("latest", Distribution::Latest),
    ];
}

/// Draws records by a distribution.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// See [`Distribution::Uniform`].
    Uniform,
    /// See [`Distribution::Zipfian`]. Spread over this many records, some of which may not be there yet.
    Scrambled(Zipfian, u64),
    /// See [`Distribution::Latest`].
    Latest(Zipfian),
}

impl Chooser {
    /// A chooser over `records` records, to which about `inserts` are added during the run.
    pub fn new(distribution: Distribution, records: u64, inserts: u64) -> Chooser {
        match distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipfian => Chooser::Scrambled(
                Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA),
                // As YCSB does: twice what is expected, so that records inserted late are chosen as well.
                records.saturating_add(inserts.saturating_mul(2)).max(1),
            ),
            Distribution::Latest => Chooser::Latest(Zipfian::new(records.max(1))),
        }
    }

    /// A record below `records`, the number of records there are now.
    pub fn draw(&mut self, random: &mut Random, records: u64) -> u64 {
        let records = records.max(1);
        match self {
            Chooser::Uniform => random.below(records),
            Chooser::Scrambled(zipfian, items) => loop {
                let record = fnv64(zipfian.draw(random)) % *items;
                if record < records {
                    return record;
                }
            },
            Chooser::Latest(zipfian) => {
                zipfian.grow(records);
                records - 1 - zipfian.draw(random).min(records - 1)
            }
        }
    }
}

/// Item `i` of `0..items` with a likelihood in proportion to `1 / (i + 1)^theta`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
    eta: f64,
    /// `0.5^theta`, which splits item 1 from the rest.
    half: f64,
}

impl Zipfian {
    /// Sums zeta, which takes about 30 ns an item.
    pub fn new(items: u64) -> Zipfian {
        Zipfian::with_zeta(items, zeta(0, items))
    }

    fn with_zeta(items: u64, zeta: f64) -> Zipfian {
        Zipfian { items, zeta, eta: eta(items, zeta), half: 0.5f64.powf(THETA) }
    }

    /// Takes items up to `items` in; a smaller number changes nothing.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += zeta(self.items, items);
            self.items = items;
            self.eta = eta(items, self.zeta);
        }
    }

    /// Draws an item.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + self.half {
            return 1.min(self.items - 1);
        }
        let alpha = 1.0 / (1.0 - THETA);
        let item = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(alpha);
        (item as u64).min(self.items - 1)
    }
}

/// The part of zeta that items `from..to` add.
fn zeta(from: u64, to: u64) -> f64 {
    (from..to).map(|i| 1.0 / ((i + 1) as f64).powf(THETA)).sum()
}

fn eta(items: u64, zeta_items: f64) -> f64 {
    (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0, 2) / zeta_items)
}

/// YCSB's hash: FNV-1a over the eight bytes, least significant first, made positive.
fn fnv64(mut value: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for _ in 0..8 {
        hash ^= value & 0xff;
        hash = hash.wrapping_mul(1_099_511_628_211);
        value >>= 8;
    }
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
