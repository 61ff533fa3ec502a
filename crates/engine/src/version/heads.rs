//! The heads of ascending keys: the eight bytes after what all of them share, side by side as numbers. A search among thousands of
//! keys that lie all over memory follows only those that begin like the one that is sought.

use std::ops::Range;
use std::sync::Arc;

/// Heads of keys that ascend.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// Of each key.
    heads: Box<[u64]>,
    /// The first key, which begins with what all share.
    first: Arc<[u8]>,
    /// How much they share.
    shared: usize,
}

impl Heads {
    /// Of these keys, which ascend.
    pub fn new<'a>(keys: impl DoubleEndedIterator<Item = &'a Arc<[u8]>> + Clone) -> Heads {
        let mut ends = keys.clone();
        let Some(first) = ends.next() else { return Heads::default() };
        let last = ends.next_back().unwrap_or(first);
        let shared = first.iter().zip(last.iter()).take_while(|(a, b)| a == b).count();
        Heads { heads: keys.map(|key| head(key, shared)).collect(), first: Arc::clone(first), shared }
    }

    /// The keys that begin like `key`: those before are below it, those after above. The first `from` are known to be below it, or
    /// to begin like it, and are left out; what is sought is expected soon after.
    pub fn like(&self, key: &[u8], from: usize) -> Range<usize> {
        let prefix = self.prefix();
        if !key.starts_with(prefix) {
            let end = if key < prefix { from } else { self.heads.len() };
            return end..end;
        }
        self.headed(head(key, self.shared), from)
    }

    /// The same for a key whose head is known: one of heads that [share](Self::shares_with) what these do.
    pub fn headed(&self, wanted: u64, from: usize) -> Range<usize> {
        let rest = self.heads.get(from..).unwrap_or_default();
        let below = leading(rest, |head| head < wanted);
        let alike = leading(&rest[below..], |head| head == wanted);
        from + below..from + below + alike
    }

    /// True if all keys of both begin alike, so that heads of the one are heads for the other.
    pub fn shares_with(&self, other: &Heads) -> bool {
        self.prefix() == other.prefix()
    }

    /// The head of the key at this index.
    pub fn get(&self, index: usize) -> Option<u64> {
        self.heads.get(index).copied()
    }

    fn prefix(&self) -> &[u8] {
        &self.first[..self.shared]
    }
}

/// The eight bytes after `shared`, as a number that is ordered as they are.
fn head(key: &[u8], shared: usize) -> u64 {
    let rest = key.get(shared..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// So many heads are looked at one by one: of that a processor guesses all but the end.
const STRIDE: usize = 24;

/// How many of the first ones hold, where all that hold come first. It is often few of many: the first are looked at in turn, the
/// others in steps that double.
fn leading(heads: &[u64], holds: impl Fn(u64) -> bool) -> usize {
    let near = &heads[..heads.len().min(STRIDE)];
    if let Some(end) = near.iter().position(|head| !holds(*head)) {
        return end;
    }
    let (mut known, mut step) = (near.len(), 1);
    while heads.get(known + step - 1).is_some_and(|head| holds(*head)) {
        known += step;
        step *= 2;
    }
    let end = heads.len().min(known + step - 1);
    known + heads.get(known..end).map_or(0, |rest| rest.partition_point(|head| holds(*head)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn keys_before_are_below_and_keys_after_above(
            prefix in prop::collection::vec(0u8..3, 0..12),
            keys in prop::collection::btree_set(prop::collection::vec(0u8..3, 0..11), 0..200),
            (bare, key) in (any::<bool>(), prop::collection::vec(0u8..4, 0..14)),
        ) {
            let whole = |end: &[u8]| [&prefix[..], end].concat();
            let keys: Vec<Arc<[u8]>> = keys.iter().map(|key| whole(key).into()).collect();
            let key = if bare { key } else { whole(&key) };
            let heads = Heads::new(keys.iter());
            prop_assert_eq!(heads.heads.len(), keys.len());
            let below = keys.iter().filter(|k| k[..] < key[..]).count();
            for from in 0..=below {
                let like = heads.like(&key, from);
                prop_assert!(from <= like.start && like.start <= like.end && like.end <= keys.len());
                prop_assert!(keys[from..like.start].iter().all(|k| k[..] < key[..]));
                prop_assert!(keys[like.end..].iter().all(|k| k[..] > key[..]));
            }
        }
    }
}
