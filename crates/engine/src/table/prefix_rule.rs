//! Which part of a key is its prefix, for filters that also hold prefixes (RocksDB's prefix extractor): a scan within one
//! prefix then skips the tables whose filters deny it.
//!
//! All keys of one prefix are neighbours: whatever lies between two of them has the same prefix. A filter records the rule
//! that it was made by, and is asked by that rule only.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::key_range::KeyRange;

/// What of a key is its prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixRule {
    /// Nothing: filters hold whole keys only.
    #[default]
    None,
    /// The first bytes, so many; a shorter key has no prefix.
    Fixed(u8),
    /// Everything up to and with the first of these bytes; a key without one has no prefix.
    Delimiter(u8),
}

/// Bytes of an encoded rule.
pub const RULE_BYTES: usize = 2;

impl PrefixRule {
    /// The key's prefix, if it has one.
    #[inline]
    pub fn prefix_of(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            PrefixRule::None => None,
            PrefixRule::Fixed(n) => key.get(..usize::from(n)),
            PrefixRule::Delimiter(c) => key.get(..=key.iter().position(|b| *b == c)?),
        }
    }

    /// The prefix that every key of `range` has, if there is one.
    pub fn prefix_of_all(self, range: &KeyRange) -> Option<&[u8]> {
        let prefix = self.prefix_of(&range.lo)?;
        let hi = range.hi.as_deref()?;
        // Everything below `hi` and at or above `lo` begins with the prefix, also where `hi` is the first key after it.
        let inside = hi.starts_with(prefix) || is_successor(prefix, hi);
        inside.then_some(prefix)
    }

    /// As it stands in a filter; `None` is not written.
    pub fn encode(self) -> Option<[u8; RULE_BYTES]> {
        match self {
            PrefixRule::None => None,
            PrefixRule::Fixed(n) => Some([1, n]),
            PrefixRule::Delimiter(c) => Some([2, c]),
        }
    }

    /// Reads what `encode` wrote; `None` if it makes no sense.
    pub fn decode(bytes: [u8; RULE_BYTES]) -> Option<PrefixRule> {
        match bytes {
            [1, n] if n > 0 => Some(PrefixRule::Fixed(n)),
            [2, c] => Some(PrefixRule::Delimiter(c)),
            _ => None,
        }
    }
}

/// True if `key` is the first one above all that begin with `prefix`.
fn is_successor(prefix: &[u8], key: &[u8]) -> bool {
    let Some(last) = prefix.iter().rposition(|b| *b < 0xff) else { return false };
    let (Some(head), Some(byte)) = (prefix.get(..last), prefix.get(last)) else { return false };
    key.split_last().is_some_and(|(end, rest)| rest == head && *end == byte + 1)
}

impl FromStr for PrefixRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<PrefixRule> {
        let wrong = || {
            Error::invalid(format!(
                "unknown prefix rule `{text}`; use `none`, `fixed:BYTES` (1 to 255) or `delimiter:C` \
                 (an ASCII character, or 0xNN)"
            ))
        };
        match text.split_once(':') {
            None if text == "none" => Ok(PrefixRule::None),
            Some(("fixed", n)) => n.parse().ok().filter(|n| *n > 0).map(PrefixRule::Fixed).ok_or_else(wrong),
            Some(("delimiter", c)) => match (c.as_bytes(), c.strip_prefix("0x")) {
                ([c], _) if c.is_ascii_graphic() => Ok(PrefixRule::Delimiter(*c)),
                (_, Some(digits)) if digits.len() == 2 => {
                    u8::from_str_radix(digits, 16).map(PrefixRule::Delimiter).map_err(|_| wrong())
                }
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixRule::None => f.write_str("none"),
            PrefixRule::Fixed(n) => write!(f, "fixed:{n}"),
            PrefixRule::Delimiter(c) if c.is_ascii_graphic() => write!(f, "delimiter:{}", char::from(*c)),
            PrefixRule::Delimiter(c) => write!(f, "delimiter:0x{c:02x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_print_what_they_read_and_mistakes_are_explained() {
        for text in ["none", "fixed:1", "fixed:255", "delimiter:/", "delimiter::", "delimiter:0x00"] {
            let rule: PrefixRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(rule.encode().map(PrefixRule::decode), rule.encode().map(|_| Some(rule)));
        }
        assert_eq!("delimiter:0x2f".parse::<PrefixRule>().unwrap(), PrefixRule::Delimiter(b'/'));
        for wrong in
            ["", "fixed", "fixed:0", "fixed:256", "fixed:x", "delimiter:", "delimiter:ab", "delimiter:é"]
        {
            let error = wrong.parse::<PrefixRule>().unwrap_err().to_string();
            assert!(error.contains("fixed:BYTES"), "{wrong}: {error}");
        }
        for bad in [[0, 1], [1, 0], [3, 7]] {
            assert_eq!(PrefixRule::decode(bad), None);
        }
    }

    #[test]
    fn prefixes_of_keys_and_of_ranges() {
        let fixed = PrefixRule::Fixed(2);
        let cut = PrefixRule::Delimiter(b'/');
        assert_eq!(fixed.prefix_of(b"abc"), Some(&b"ab"[..]));
        assert_eq!(fixed.prefix_of(b"a"), None);
        assert_eq!(cut.prefix_of(b"a/b/c"), Some(&b"a/"[..]));
        assert_eq!(cut.prefix_of(b"abc"), None);
        let cases: [(PrefixRule, &[u8], Option<&[u8]>, Option<&[u8]>); 11] = [
            (fixed, b"ab", Some(b"ac"), Some(b"ab")),
            (fixed, b"abc", Some(b"abd"), Some(b"ab")),
            (fixed, b"ab", Some(b"ab\x07"), Some(b"ab")),
            (fixed, b"ab", Some(b"ac\x00"), None),
            (fixed, b"a", Some(b"b"), None),
            (fixed, b"ab", None, None),
            (fixed, b"a\xff", Some(b"b"), Some(b"a\xff")),
            (fixed, b"\xff\xff", None, None),
            (cut, b"u/1", Some(b"u/2"), Some(b"u/")),
            (cut, b"u/", Some(b"u0"), Some(b"u/")),
            (cut, b"u", Some(b"v"), None),
        ];
        for (rule, lo, hi, wanted) in cases {
            assert_eq!(rule.prefix_of_all(&KeyRange::new(lo, hi)), wanted, "{rule} {lo:?} {hi:?}");
        }
    }

    /// Whatever lies in a range that has a prefix has that prefix.
    #[test]
    fn every_key_of_a_range_with_a_prefix_has_it() {
        let bytes = [0u8, b'/', b'0', 0xff];
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..=3usize {
            for n in 0..bytes.len().pow(len as u32) {
                keys.push((0..len).map(|i| bytes[n / bytes.len().pow(i as u32) % bytes.len()]).collect());
            }
        }
        let mut found = 0;
        for rule in [PrefixRule::Fixed(1), PrefixRule::Fixed(2), PrefixRule::Delimiter(b'/')] {
            for lo in &keys {
                for hi in &keys {
                    let range = KeyRange::new(lo, Some(hi));
                    let Some(prefix) = rule.prefix_of_all(&range) else { continue };
                    found += 1;
                    for key in keys.iter().filter(|key| range.contains(key)) {
                        assert_eq!(rule.prefix_of(key), Some(prefix), "{rule} {lo:?} {hi:?} {key:?}");
                    }
                }
            }
        }
        assert!(found > 500, "{found}");
    }
}
