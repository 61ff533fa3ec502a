//! A sample of a table's keys that is drawn alike from every table: the keys whose hashes are smallest.
//!
//! A key that is in two tables and in the sample of one is in the sample of the other as well, if that reaches as far. So samples
//! tell what tables have in common without reading them (bottom-k sketches; Cohen, Kaplan).

/// A sample has at most this many keys.
pub const SAMPLE_KEYS_MAX: usize = 128;

/// Hashes are cut to this many bits; the lowest says whether the key's newest entry is a delete.
pub const SAMPLE_BITS: u32 = 48;

/// The sampled keys of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySample {
    /// At most 128, ascending: hash in the upper bits, 1 below for a key whose newest entry in the table is a delete.
    pub keys: Box<[u64]>,
}

impl KeySample {
    /// The sample is complete for keys whose hash is below this.
    pub fn reaches(&self) -> u64 {
        match self.keys.last() {
            Some(last) if self.keys.len() >= SAMPLE_KEYS_MAX => *last,
            _ => 1 << SAMPLE_BITS,
        }
    }
}

/// Draws a sample key by key.
#[derive(Debug)]
pub struct Sampler {
    keys: Vec<u64>,
    below: u64,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { keys: Vec::new(), below: u64::MAX }
    }
}

impl Sampler {
    /// Takes note of a new key by its hash.
    #[inline]
    pub fn add(&mut self, hash: u64, is_delete: bool) {
        let key = (hash >> (64 - SAMPLE_BITS)) & !1 | u64::from(is_delete);
        if key < self.below {
            self.keep(key);
        }
    }

    #[cold]
    fn keep(&mut self, key: u64) {
        self.keys.push(key);
        if self.keys.len() >= 2 * SAMPLE_KEYS_MAX {
            self.keys.sort_unstable();
            self.keys.dedup_by_key(|key| *key >> 1);
            self.keys.truncate(SAMPLE_KEYS_MAX);
            self.below = self.keys.last().copied().unwrap_or(u64::MAX);
        }
    }

    /// The sample so far.
    pub fn sample(&self) -> KeySample {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup_by_key(|key| *key >> 1);
        keys.truncate(SAMPLE_KEYS_MAX);
        KeySample { keys: keys.into() }
    }

    /// Bytes of its buffer.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 40).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn the_sample_is_the_smallest_hashes_in_any_order() {
        let mut sampler = Sampler::default();
        for n in 0..10_000 {
            sampler.add(hash(n), n % 3 == 0);
        }
        let sample = sampler.sample();
        let mut all: Vec<u64> = (0..10_000).map(|n| (hash(n) >> 16) & !1 | u64::from(n % 3 == 0)).collect();
        all.sort_unstable();
        all.truncate(SAMPLE_KEYS_MAX);
        assert_eq!(&*sample.keys, all);
        assert_eq!(sample.reaches(), all[SAMPLE_KEYS_MAX - 1]);
    }

    #[test]
    fn a_small_table_is_sampled_whole() {
        let mut sampler = Sampler::default();
        (0..100).for_each(|n| sampler.add(hash(n), false));
        assert_eq!(sampler.sample().keys.len(), 100);
        assert_eq!(sampler.sample().reaches(), 1 << SAMPLE_BITS);
    }
}
