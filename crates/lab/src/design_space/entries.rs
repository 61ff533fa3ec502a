//! The entries of a cell: keys of four bytes, each inserted once, and which of them operations go to.
//!
//! ```text
//! key (big-endian)   bucket, 10 bits │ place within it, 21 bits │ 0: may be inserted, 1: never is
//! ```
//! A spread of inserts is over the 1024 buckets, and even within each, as in the authors' generator (CDS §4.3). So empty gets
//! ask for keys between those that are there.

use super::point::Spread;
use crate::base::random::{Random, mix64};

const BUCKETS: usize = 1024;
const PLACE_BITS: u32 = 21;
const PLACES: u32 = 1 << PLACE_BITS;

/// The deviation of a normal spread, in parts of the key space (CDS §5.2.1).
const DEVIATION: f64 = 0.34;

/// What was inserted so far.
pub struct Entries {
    random: Random,
    seed: u64,
    /// Up to which part of 1 the draws of each bucket go.
    bounds: Vec<f64>,
    filled: Vec<u32>,
    keys: Vec<u32>,
    deleted: Vec<bool>,
    alive: u64,
    /// The keys in order, once somebody asks for them by place.
    sorted: Vec<u32>,
}

impl Entries {
    /// Nothing yet.
    pub fn new(inserts: Spread, records: u64, seed: u64) -> Entries {
        let capacity = records as usize;
        Entries {
            random: Random::new(seed),
            seed,
            bounds: bounds(inserts, seed),
            filled: vec![0; BUCKETS],
            keys: Vec::with_capacity(capacity),
            deleted: Vec::with_capacity(capacity),
            alive: 0,
            sorted: Vec::new(),
        }
    }

    /// A key that was never inserted.
    pub fn insert(&mut self) -> [u8; 4] {
        let draw = self.random.unit();
        let mut bucket = self.bounds.partition_point(|bound| *bound <= draw).min(BUCKETS - 1);
        // A bucket that is full passes on what comes.
        while self.filled[bucket] >= PLACES {
            bucket = (bucket + 1) % BUCKETS;
        }
        let key = self.key(bucket, self.filled[bucket]);
        self.filled[bucket] += 1;
        self.keys.push(key);
        self.deleted.push(false);
        self.alive += 1;
        key.to_be_bytes()
    }

    /// One of the keys that are there; `None` if there is none.
    pub fn present(&mut self) -> Option<[u8; 4]> {
        self.pick().map(|at| self.keys[at].to_be_bytes())
    }

    /// The same, and it is there no more.
    pub fn delete(&mut self) -> Option<[u8; 4]> {
        let at = self.pick()?;
        self.deleted[at] = true;
        self.alive -= 1;
        Some(self.keys[at].to_be_bytes())
    }

    fn pick(&mut self) -> Option<usize> {
        while self.alive > 0 {
            let at = self.random.below(self.keys.len() as u64) as usize;
            if !self.deleted[at] {
                return Some(at);
            }
        }
        None
    }

    /// A key to ask for: one that was inserted, by `spread`, or one from anywhere that was not.
    pub fn ask(&mut self, spread: Spread, empty: bool) -> Option<[u8; 4]> {
        if empty {
            return Some((self.random.bits() as u32 | 1).to_be_bytes());
        }
        let n = self.keys.len();
        if n == 0 {
            return None;
        }
        match spread {
            Spread::Uniform => self.present(),
            Spread::Zipfian => {
                // Exponent 1: the inverse of ln(rank) / ln(n). Ranks are in the order of insertion, so anywhere in the key space.
                let rank = ((n as f64 + 1.0).powf(self.random.unit()) - 1.0) as usize;
                Some(self.keys[rank.min(n - 1)].to_be_bytes())
            }
            Spread::Normal => {
                if self.sorted.len() != n {
                    self.sorted = self.keys.clone();
                    self.sorted.sort_unstable();
                }
                let at = (normal(&mut self.random) * n as f64) as usize;
                Some(self.sorted[at.min(n - 1)].to_be_bytes())
            }
        }
    }

    /// The key that was inserted as the `n`th, from 0.
    pub fn nth(&self, n: u64) -> Option<[u8; 4]> {
        self.keys.get(n as usize).map(|key| key.to_be_bytes())
    }

    /// Keys that were inserted.
    pub fn count(&self) -> u64 {
        self.keys.len() as u64
    }

    /// One of the keys of a part of the key space, given in thousands of it; none of those may have been deleted.
    pub fn within(&mut self, from: u64, parts: u64) -> Option<[u8; 4]> {
        let first = from as usize * BUCKETS / 1000;
        let buckets = (parts as usize * BUCKETS / 1000).clamp(1, BUCKETS - first);
        let filled: Vec<usize> = (first..first + buckets).filter(|bucket| self.filled[*bucket] > 0).collect();
        let bucket = *filled.get(self.random.below(filled.len().max(1) as u64) as usize)?;
        let n = self.random.below(u64::from(self.filled[bucket])) as u32;
        Some(self.key(bucket, n).to_be_bytes())
    }

    fn key(&self, bucket: usize, n: u32) -> u32 {
        (bucket as u32) << (PLACE_BITS + 1) | scatter(n, self.seed ^ bucket as u64) << 1
    }

    /// Where a scan over a part of the key space begins and ends.
    pub fn range(&mut self, part: f64) -> ([u8; 4], [u8; 4]) {
        let length = (part * f64::from(u32::MAX)) as u32;
        let from = self.random.below(u64::from(u32::MAX - length)) as u32;
        (from.to_be_bytes(), (from + length).to_be_bytes())
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }
}

/// A bijection of the places of a bucket.
fn scatter(n: u32, seed: u64) -> u32 {
    let mask = PLACES - 1;
    let mut x = n ^ (mix64(seed) as u32 & mask);
    for multiplier in [0x9_e375, 0x1_b873] {
        x = x.wrapping_mul(multiplier) & mask;
        x ^= x >> 11;
    }
    x
}

/// A number in `[0, 1)` from a bell around the middle; what falls outside is drawn again.
fn normal(random: &mut Random) -> f64 {
    loop {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        let x = 0.5 + DEVIATION * radius * (std::f64::consts::TAU * random.unit()).cos();
        if (0.0..1.0).contains(&x) {
            return x;
        }
    }
}

fn bounds(inserts: Spread, seed: u64) -> Vec<f64> {
    let mut weights: Vec<f64> = match inserts {
        Spread::Uniform => vec![1.0; BUCKETS],
        Spread::Zipfian => (1..=BUCKETS).map(|rank| 1.0 / rank as f64).collect(),
        Spread::Normal => {
            let at = |bucket: usize| (bucket as f64 + 0.5) / BUCKETS as f64 - 0.5;
            (0..BUCKETS).map(|bucket| (-(at(bucket) / DEVIATION).powi(2) / 2.0).exp()).collect()
        }
    };
    if inserts == Spread::Zipfian {
        let mut random = Random::new(mix64(seed));
        for last in (1..BUCKETS).rev() {
            weights.swap(last, random.below(last as u64 + 1) as usize);
        }
    }
    let sum: f64 = weights.iter().sum();
    let mut below = 0.0;
    weights
        .into_iter()
        .map(|weight| {
            below += weight / sum;
            below
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_inserted_once_and_empty_gets_ask_for_none_of_them() {
        for spread in [Spread::Uniform, Spread::Zipfian, Spread::Normal] {
            let mut entries = Entries::new(spread, 20_000, 7);
            let inserted: BTreeSet<[u8; 4]> = (0..20_000).map(|_| entries.insert()).collect();
            assert_eq!(inserted.len(), 20_000, "{spread:?}");
            for ask in [Spread::Uniform, Spread::Zipfian, Spread::Normal] {
                assert!((0..2000).all(|_| inserted.contains(&entries.ask(ask, false).unwrap())));
                assert!((0..2000).all(|_| !inserted.contains(&entries.ask(ask, true).unwrap())));
            }
        }
        let places: BTreeSet<u32> = (0..PLACES).map(|n| scatter(n, 3)).collect();
        assert_eq!(places.len(), PLACES as usize, "a bijection");
    }

    #[test]
    fn keys_of_a_part_of_the_key_space_were_inserted_and_lie_there() {
        let mut entries = Entries::new(Spread::Uniform, 20_000, 7);
        assert_eq!(entries.within(400, 100), None);
        let inserted: BTreeSet<[u8; 4]> = (0..20_000).map(|_| entries.insert()).collect();
        assert!(entries.nth(20_000).is_none() && inserted.contains(&entries.nth(7).unwrap()));
        for from in [0, 400, 990] {
            let share = |key: [u8; 4]| f64::from(u32::from_be_bytes(key)) / f64::from(u32::MAX) * 1000.0;
            for _ in 0..500 {
                let key = entries.within(from, 100).unwrap();
                let lies = share(key) - from as f64;
                assert!(inserted.contains(&key) && (-1.5..101.5).contains(&lies), "{from}: {lies}");
            }
        }
    }

    #[test]
    fn a_deleted_key_is_chosen_no_more() {
        let mut entries = Entries::new(Spread::Uniform, 100, 7);
        (0..100).for_each(|_| _ = entries.insert());
        let gone: BTreeSet<[u8; 4]> = (0..60).map(|_| entries.delete().unwrap()).collect();
        assert_eq!(gone.len(), 60);
        assert!((0..1000).all(|_| !gone.contains(&entries.present().unwrap())));
        (0..40).for_each(|_| _ = entries.delete().unwrap());
        assert_eq!((entries.delete(), entries.present()), (None, None));
    }

    /// Chi-square over sixteen parts of the key space, at one in ten thousand (15 degrees of freedom: 44.3).
    #[test]
    fn spreads_are_what_they_say() {
        for spread in [Spread::Uniform, Spread::Normal] {
            let n = 100_000;
            let mut entries = Entries::new(spread, n, 11);
            let mut seen = [0.0; 16];
            for _ in 0..n {
                seen[usize::from(entries.insert()[0] >> 4)] += 1.0;
            }
            let wanted = |part: usize| {
                let from = if part == 0 { 0.0 } else { entries.bounds[part * 64 - 1] };
                (entries.bounds[part * 64 + 63] - from) * n as f64
            };
            let chi: f64 = (0..16).map(|i| (seen[i] - wanted(i)).powi(2) / wanted(i)).sum();
            assert!(chi < 44.3, "{spread:?}: {chi}");
        }
        let mut zipf = Entries::new(Spread::Zipfian, 10_000, 11);
        (0..10_000).for_each(|_| _ = zipf.insert());
        let most = f64::from(*zipf.filled.iter().max().unwrap());
        // The first of 1024 ranks has 1 / H(1024) = 13.3 %.
        assert!((1200.0..1460.0).contains(&most), "{most}");
    }
}
