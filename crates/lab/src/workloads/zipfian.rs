//! YCSB's zipfian numbers, formula for formula, and its hash that scatters them.
//!
//! They follow YCSB 0.17 (`ZipfianGenerator`, `ScrambledZipfianGenerator`), which follow Gray et al., "Quickly Generating
//! Billion-Record Synthetic Databases", SIGMOD 1994. Results compare with published ones only if these agree, so there is
//! no library here. The one difference: when items are added, eta follows the number there are now (YCSB keeps the first).

use crate::base::random::Random;

/// YCSB's skew.
pub const THETA: f64 = 0.99;
/// YCSB scrambles a zipfian over 0 to ten billion, both included …
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// … whose zeta it keeps as a constant, because summing takes minutes.
pub const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

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

    /// The one that YCSB scrambles, without summing.
    pub fn to_scramble() -> Zipfian {
        Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
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

    /// The likelihood that [`Zipfian::draw`] gives an item below `item`: Gray's method, not the ideal it approximates.
    #[cfg(test)]
    pub fn below(&self, item: u64) -> f64 {
        let head = (1.0 + self.half) / self.zeta;
        let at =
            |item: u64| ((item as f64 / self.items as f64).powf(1.0 - THETA) - 1.0 + self.eta) / self.eta;
        match item {
            0 => 0.0,
            // The curve for the rest may give items 0 and 1 a little more.
            1 => 1.0 / self.zeta + (at(1) - head).max(0.0),
            item if item >= self.items => 1.0,
            item => at(item).max(head),
        }
    }
}

/// The part of zeta that items `from..to` add.
pub fn zeta(from: u64, to: u64) -> f64 {
    (from..to).map(|i| 1.0 / ((i + 1) as f64).powf(THETA)).sum()
}

fn eta(items: u64, zeta_items: f64) -> f64 {
    (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0, 2) / zeta_items)
}

/// YCSB's hash: FNV-1 as YCSB writes it, over the eight bytes, least significant first, made positive.
pub fn fnv64(mut value: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for _ in 0..8 {
        hash ^= value & 0xff;
        hash = hash.wrapping_mul(1_099_511_628_211);
        value >>= 8;
    }
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_equals_starting_larger() {
        let mut grown = Zipfian::new(100);
        grown.grow(5000);
        grown.grow(50);
        let fresh = Zipfian::new(5000);
        let (mut a, mut b) = (Random::new(3), Random::new(3));
        for _ in 0..10_000 {
            assert_eq!(grown.draw(&mut a), fresh.draw(&mut b));
        }
    }

    #[test]
    fn the_hash_is_ycsb_s() {
        // The keys of the first records of every hashed YCSB table: user6284781860667377211 and so on.
        let first = [6_284_781_860_667_377_211, 8_517_097_267_634_966_620, 1_820_151_046_732_198_393];
        assert_eq!([0, 1, 2].map(fnv64), first);
    }

    #[test]
    fn ycsb_s_zeta_is_that_of_ten_billion_items() {
        // Euler and Maclaurin: the sum of n terms is the Riemann zeta plus n^(1-t)/(1-t) + n^-t/2 - …; the Riemann zeta
        // comes from the same formula over a number of terms that can be summed.
        let integral = |n: f64| n.powf(1.0 - THETA) / (1.0 - THETA) + n.powf(-THETA) / 2.0;
        let riemann = zeta(0, 100_000) - integral(1e5);
        assert!((riemann + integral(1e10) - SCRAMBLED_ZETA).abs() < 1e-8, "{}", riemann + integral(1e10));
        // By hand: 1 + 2^-0.99.
        assert!((zeta(0, 2) - 1.503_477_775_028_359_4).abs() < 1e-12, "{}", zeta(0, 2));
    }

    #[test]
    fn a_zipfian_of_one_or_two_items_stays_within() {
        let mut random = Random::new(1);
        for items in [1, 2, 3] {
            let zipfian = Zipfian::new(items);
            assert!((0..1000).all(|_| zipfian.draw(&mut random) < items));
        }
    }
}
