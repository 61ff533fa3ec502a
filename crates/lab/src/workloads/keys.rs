//! Keys of records: fixed length, unique, and either in order or spread evenly over the key space.
//!
//! Record `r` has the even identity `2r`, and `2r + 1` belongs to a key that is never written, so that a missing key lies
//! between present ones in either order. The first (up to) eight bytes are the identity, big-endian, or a bijective mix of
//! it; bytes beyond them are filler that follows from the identity, so a key of the right length has one record at most.

use crate::base::random::mix64;

/// Where the key of the next record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyOrder {
    /// Above the key of the record before.
    Sequential,
    /// Anywhere, evenly.
    Random,
}

/// How the keys of a store look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    bytes: usize,
    order: KeyOrder,
    seed: u64,
}

impl Keys {
    /// Keys of `bytes` bytes each. The seed decides which records lie next to each other.
    ///
    /// # Errors
    /// If `records` keys of that length do not exist, or the length is not in 1..=65536.
    pub fn new(bytes: usize, order: KeyOrder, seed: u64, records: u64) -> Result<Keys, String> {
        if bytes == 0 || bytes > 65_536 {
            return Err(format!("a key has 1 to 65536 bytes, not {bytes}"));
        }
        if bytes < 8 && records > 1 << (8 * bytes - 1) {
            let most = 1u64 << (8 * bytes - 1);
            return Err(format!("keys of {bytes} bytes are enough for {most} records, not for {records}"));
        }
        Ok(Keys { bytes, order, seed })
    }

    /// The length of a key.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The order of the keys.
    pub fn order(&self) -> KeyOrder {
        self.order
    }

    /// Puts the key of record `record` into `key`.
    pub fn present(&self, record: u64, key: &mut Vec<u8>) {
        self.write(record.wrapping_mul(2), key);
    }

    /// Puts a key into `key` that no record has.
    pub fn missing(&self, record: u64, key: &mut Vec<u8>) {
        self.write(record.wrapping_mul(2).wrapping_add(1), key);
    }

    /// Puts a key into `key` that has about `rank` of `records` keys below it: of a store of which so many were inserted.
    pub fn at_rank(&self, rank: u64, records: u64, key: &mut Vec<u8>) {
        match self.order {
            KeyOrder::Sequential => self.present(rank, key),
            KeyOrder::Random => self.bare(self.distance(rank, records), 0, key),
        }
    }

    /// Puts a key into `key` that has about `distance` of `records` keys between it and that of `record`, below it.
    pub fn above(&self, record: u64, distance: u64, records: u64, key: &mut Vec<u8>) {
        match self.order {
            KeyOrder::Sequential => self.present(record.saturating_add(distance), key),
            KeyOrder::Random => {
                let head = self.head(record.wrapping_mul(2)).saturating_add(self.distance(distance, records));
                self.bare(head.min(u64::MAX >> (64 - 8 * self.width())), 0xff, key);
            }
        }
    }

    /// How far apart two keys are that have `rank` of `records` keys between them, if these are spread evenly.
    fn distance(&self, rank: u64, records: u64) -> u64 {
        let all = u128::from(u64::MAX >> (64 - 8 * self.width()));
        (all * u128::from(rank) / u128::from(records.max(1))).min(all) as u64
    }

    /// How many bytes tell keys apart.
    fn width(&self) -> usize {
        self.bytes.min(8)
    }

    fn head(&self, identity: u64) -> u64 {
        match self.order {
            KeyOrder::Sequential => identity,
            KeyOrder::Random => mix_bits(identity, self.width() as u32 * 8, self.seed),
        }
    }

    /// A key that need not be any record's.
    fn bare(&self, head: u64, filler: u8, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&head.to_be_bytes()[8 - self.width()..]);
        key.resize(self.bytes, filler);
    }

    fn write(&self, identity: u64, key: &mut Vec<u8>) {
        let head = self.head(identity);
        key.clear();
        key.extend_from_slice(&head.to_be_bytes()[8 - self.width()..]);
        let mut filler = head;
        while key.len() < self.bytes {
            filler = match self.order {
                KeyOrder::Sequential => 0,
                KeyOrder::Random => mix64(filler.wrapping_add(0x9e37_79b9_7f4a_7c15)),
            };
            let rest = (self.bytes - key.len()).min(8);
            key.extend_from_slice(&filler.to_be_bytes()[..rest]);
        }
    }
}

/// A bijection of `0..2^bits`: multiplying by an odd number, adding, and xoring with a shift to the right each are one.
fn mix_bits(x: u64, bits: u32, seed: u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let shift = bits / 2;
    let mut x = x.wrapping_add(mix64(seed)) & mask;
    for odd in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb, 0x2545_f491_4f6c_dd1d] {
        x = x.wrapping_mul(odd) & mask;
        x ^= x >> shift;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(keys: &Keys, record: u64, present: bool) -> Vec<u8> {
        let mut key = Vec::new();
        if present {
            keys.present(record, &mut key);
        } else {
            keys.missing(record, &mut key);
        }
        key
    }

    #[test]
    fn all_keys_of_two_bytes_are_used_once() {
        let keys = Keys::new(2, KeyOrder::Random, 5, 1 << 15).unwrap();
        let all: HashSet<Vec<u8>> =
            (0..1 << 15).flat_map(|r| [key(&keys, r, true), key(&keys, r, false)]).collect();
        assert_eq!(all.len(), 1 << 16);
        assert!(Keys::new(2, KeyOrder::Random, 5, (1 << 15) + 1).is_err());
        assert!(Keys::new(0, KeyOrder::Random, 5, 1).is_err());
    }

    #[test]
    fn lengths_hold_and_order_is_what_it_says() {
        for bytes in [1, 7, 8, 16, 17, 100] {
            let random = Keys::new(bytes, KeyOrder::Random, 5, 10).unwrap();
            assert_eq!(key(&random, 3, true).len(), bytes);
            let sequential = Keys::new(bytes, KeyOrder::Sequential, 5, 10).unwrap();
            assert!(key(&sequential, 3, true) < key(&sequential, 3, false));
            assert!(key(&sequential, 3, false) < key(&sequential, 4, true));
        }
        let (one, other) = (Keys::new(16, KeyOrder::Random, 1, 10), Keys::new(16, KeyOrder::Random, 2, 10));
        assert_ne!(key(&one.unwrap(), 3, true), key(&other.unwrap(), 3, true));
    }

    #[test]
    fn ranks_and_distances_are_about_right() {
        for (order, off) in [(KeyOrder::Sequential, 0), (KeyOrder::Random, 150)] {
            for bytes in [4, 16] {
                let keys = Keys::new(bytes, order, 5, 10_000).unwrap();
                let all: Vec<Vec<u8>> = (0..10_000).map(|r| key(&keys, r, true)).collect();
                let below = |from: &[u8]| all.iter().filter(|key| key[..] < *from).count() as u64;
                let mut at = Vec::new();
                for rank in [0, 1000, 5000, 9999] {
                    keys.at_rank(rank, 10_000, &mut at);
                    assert_eq!(at.len(), bytes);
                    assert!(below(&at).abs_diff(rank) <= off, "{order:?} {rank}: {}", below(&at));
                }
                for record in [0, 77, 5000] {
                    keys.above(record, 500, 10_000, &mut at);
                    let from = below(&all[record as usize]);
                    let there = (below(&at) - from).abs_diff(500.min(10_000 - from));
                    assert!(there <= off, "{order:?} {record}: {there}");
                }
            }
        }
    }

    #[test]
    fn random_keys_are_spread_evenly() {
        // 256 buckets by first byte, 256 keys expected in each: chi-square has 255 degrees of freedom,
        // so a value above 360 happens once in 100 000 seeds.
        for seed in 0..5 {
            let keys = Keys::new(16, KeyOrder::Random, seed, 1 << 16).unwrap();
            let mut count = [0f64; 256];
            for r in 0..1 << 16 {
                count[key(&keys, r, true)[0] as usize] += 1.0;
            }
            let chi: f64 = count.iter().map(|n| (n - 256.0).powi(2) / 256.0).sum();
            assert!(chi < 360.0, "seed {seed}: {chi}");
        }
    }
}
