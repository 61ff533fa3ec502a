//! What a simulated table holds: a sample of its entries, each standing for several.
//!
//! A key is in the sample or not for the whole run, so a merge of samples drops what a merge of the tables would: duplicates,
//! superseded entries, deletes. Keys are numbered in their order.

/// A sampled key's number among all sampled keys, in key order. Its bytes are those of the number, so that they sort alike.
pub type KeyNumber = u32;

/// One sampled entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which key.
    pub key: KeyNumber,
    /// When it was written: the number of the sampled write.
    pub seq: u32,
    /// Bytes of key and value.
    pub bytes: u32,
    /// How many entries it stands for.
    pub weight: u16,
    /// It deletes the key.
    pub delete: bool,
}

impl Entry {
    /// The bytes of its key in the simulated tree.
    pub fn key_bytes(&self) -> [u8; 4] {
        self.key.to_be_bytes()
    }

    /// Bytes of keys and values of all that it stands for.
    pub fn user_bytes(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.weight)
    }
}

/// Merges two sorted lists without duplicate keys; where both have a key, the newer entry stays.
pub fn merge_pair(newer: &[Entry], older: &[Entry], out: &mut Vec<Entry>) {
    out.clear();
    out.reserve(newer.len() + older.len());
    let (mut a, mut b) = (newer, older);
    // Many against few: whole stretches lie between two keys of the shorter list.
    if a.len() * 4 < b.len() {
        while let Some((first, rest)) = a.split_first() {
            let below = gallop(b, first.key);
            out.extend_from_slice(&b[..below]);
            out.push(*first);
            b = &b[below..];
            if b.first().is_some_and(|other| other.key == first.key) {
                b = &b[1..];
            }
            a = rest;
        }
    } else {
        while let (Some(x), Some(y)) = (a.first(), b.first()) {
            let newer_first = x.key <= y.key;
            let same = x.key == y.key;
            out.push(if newer_first { *x } else { *y });
            a = &a[usize::from(newer_first)..];
            b = &b[usize::from(!newer_first | same)..];
        }
        out.extend_from_slice(a);
    }
    out.extend_from_slice(b);
}

/// How many of `list` are below `key`: looks near its start first.
fn gallop(list: &[Entry], key: KeyNumber) -> usize {
    let mut step = 1;
    while list.get(step - 1).is_some_and(|e| e.key < key) {
        step *= 2;
    }
    let (from, to) = (step / 2, (step - 1).min(list.len()));
    from + list[from..to].partition_point(|e| e.key < key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[u32], seq: u32) -> Vec<Entry> {
        keys.iter().map(|key| Entry { key: *key, seq, bytes: 1, weight: 1, delete: false }).collect()
    }

    fn merged(newer: &[u32], older: &[u32]) -> Vec<(u32, u32)> {
        let mut out = Vec::new();
        merge_pair(&entries(newer, 2), &entries(older, 1), &mut out);
        out.iter().map(|e| (e.key, e.seq)).collect()
    }

    #[test]
    fn the_newer_entry_stays_whichever_list_is_longer() {
        assert_eq!(merged(&[1, 3], &[1, 2]), [(1, 2), (2, 1), (3, 2)]);
        let many: Vec<u32> = (0..40).collect();
        for few in [vec![], vec![0], vec![17], vec![39], vec![5, 6, 30], vec![50]] {
            let mut expected: Vec<(u32, u32)> = many.iter().map(|k| (*k, 1)).collect();
            for key in &few {
                expected.retain(|(k, _)| k != key);
                expected.push((*key, 2));
            }
            expected.sort_unstable();
            assert_eq!(merged(&few, &many), expected, "{few:?}");
            let back: Vec<u32> = merged(&many, &few).iter().map(|(k, _)| *k).collect();
            assert_eq!(back, expected.iter().map(|(k, _)| *k).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}
