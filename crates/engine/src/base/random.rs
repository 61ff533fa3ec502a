//! Chance from a seed, the only kind the engine knows: the same seed gives the same run.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). It is not for secrets.

/// A stream of numbers that its seed fixes.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

#[cfg(any(test, feature = "testing"))]
impl Random {
    /// The stream of this seed; any seed is as good as another.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number, from all 64-bit ones.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is even enough: its bias is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` draws on average.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Fills `bytes` with numbers of the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Scatters a number over all 64 bits, one to one.
#[inline]
pub fn mix(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        // The first outputs of SplitMix64 for seed 0, as published with the algorithm.
        let mut zero = Random::new(0);
        assert_eq!(zero.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(zero.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn below_reaches_every_number_and_none_beyond() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
