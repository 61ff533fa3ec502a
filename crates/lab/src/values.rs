//! Values: slices of a pool of bytes that compress about 2 : 1.
//!
//! Handing out slices keeps the generator's cost out of what is measured. The pool alternates 32 random bytes with one
//! byte repeated 32 times, so that any slice of some hundred bytes compresses like the whole. Slices follow each other
//! through the pool, which the processor's cache holds, so a block of 4 KiB never sees the same bytes twice.

use crate::random::Random;

/// The pool is this much larger than a value.
const SLACK_BYTES: usize = 1 << 20;

/// Values of one length.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of `bytes` bytes.
    pub fn new(bytes: usize, seed: u64) -> Values {
        let mut pool = vec![0; bytes + SLACK_BYTES];
        let mut random = Random::new(seed);
        for chunk in pool.chunks_mut(64) {
            let half = chunk.len() / 2;
            let (noise, same) = chunk.split_at_mut(half);
            random.fill(noise);
            same.fill(b'.');
        }
        Values { pool, bytes }
    }

    /// The length of a value.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Draws where a first value starts.
    pub fn draw(&self, random: &mut Random) -> u32 {
        random.below(SLACK_BYTES as u64) as u32
    }

    /// Where the value after the one at `at` starts.
    pub fn after(&self, at: u32) -> u32 {
        ((at as usize + self.bytes.max(1)) % SLACK_BYTES) as u32
    }

    /// The value that starts at `at`, which [`Values::draw`] or [`Values::after`] gave.
    pub fn at(&self, at: u32) -> &[u8] {
        let at = at as usize % SLACK_BYTES;
        &self.pool[at..at + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_value_is_noise_wherever_it_starts() {
        let values = Values::new(1024, 1);
        let mut random = Random::new(2);
        let mut at = values.draw(&mut random);
        for _ in 0..3000 {
            at = if random.below(10) == 0 { values.draw(&mut random) } else { values.after(at) };
            let value = values.at(at);
            assert_eq!(value.len(), 1024);
            let dots = value.iter().filter(|&&b| b == b'.').count();
            assert!((500..550).contains(&dots), "{dots}");
        }
        assert_eq!(Values::new(0, 1).at(9), b"");
    }
}
