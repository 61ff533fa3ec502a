//! Keys cut down to one word, so that a search in a node compares integers.
//!
//! The prefix is the eight bytes after a head that (nearly) all keys share, as a big-endian number, padded
//! with zeros. A key off the head maps to 0 when it sorts before the keys on it and to `u64::MAX` when after.
//! So `a < b` implies `prefix(a) <= prefix(b)`, and only equal prefixes need the full keys.
//!
//! ```text
//!   head "user:"   user:0000017 -> "0000017\0"    team:1 -> 0    zone:1 -> MAX
//! ```

/// The common head of a tree's keys, fixed when the tree is made.
pub(crate) struct Head(Box<[u8]>);

impl Head {
    pub(crate) fn new(head: &[u8]) -> Self {
        Self(head.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    pub(crate) fn prefix(&self, key: &[u8]) -> u64 {
        match key.strip_prefix(&*self.0) {
            Some(rest) => first_word(rest),
            None if *key < *self.0 => 0,
            None => u64::MAX,
        }
    }
}

/// A place in the tree's order: what searches look for.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) prefix: u64,
    pub(crate) key: &'a [u8],
    pub(crate) trailer: u64,
}

#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        None => bytes.iter().fold((0, 56), |(word, shift), &b| (word | u64::from(b) << shift, shift - 8)).0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_keep_the_order_of_keys() {
        let mut keys: Vec<Vec<u8>> = vec![vec![], b"us".to_vec(), b"user:".to_vec(), b"zone".to_vec()];
        for tail in
            [&b""[..], b"\0", b"\0\0", b"a", b"aaaaaaaa", b"aaaaaaaab", b"\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            for head in [&b""[..], b"a", b"user", b"user:", b"user:1", b"user;", b"\xff"] {
                keys.push([head, tail].concat());
            }
        }
        keys.sort();
        for head in [&b""[..], b"u", b"user:", b"user:1aaaaaaaab"] {
            let head = Head::new(head);
            assert!(keys.is_sorted_by_key(|key| head.prefix(key)), "head {:?}", head.bytes());
        }
    }

    #[test]
    fn the_prefix_is_what_follows_the_head() {
        let head = Head::new(b"user:");
        assert_eq!(head.prefix(b"user:12345678x"), u64::from_be_bytes(*b"12345678"));
        assert_eq!(head.prefix(b"user:12"), u64::from_be_bytes(*b"12\0\0\0\0\0\0"));
        assert_eq!(head.prefix(b"user:"), 0);
        assert_eq!(head.prefix(b"team"), 0);
        assert_eq!(head.prefix(b"user"), 0);
        assert_eq!(head.prefix(b"zone"), u64::MAX);
    }
}
