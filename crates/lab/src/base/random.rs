//! The random numbers of a run: xoshiro256++, the same stream for a seed in every release and on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A stream of its own for one of several threads.
    pub fn for_thread(seed: u64, thread: usize) -> Random {
        Random::new(mix64(seed ^ mix64(thread as u64 + 1)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..n`, or 0 if there is none. The bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.bits().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit moves every output bit.
pub fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_threads_differ() {
        let draw = |mut r: Random| [r.bits(), r.bits(), r.below(1000)];
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::for_thread(7, 0)), draw(Random::for_thread(7, 1)));
    }

    #[test]
    fn bounds_hold() {
        let mut r = Random::new(1);
        assert_eq!(r.below(0), 0);
        for _ in 0..10_000 {
            assert!(r.below(3) < 3);
            assert!((0.0..1.0).contains(&r.unit()));
        }
    }
}
