//! Half-open ranges of user keys, `[lo, hi)`; no `hi` means without an end.
//!
//! A cut after a key c is `c\x00`, the smallest key above it: bounds may be one byte longer than a key.

use std::fmt;
use std::sync::Arc;

/// A range of user keys. Trees are copied to be changed, so copies share the keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key that may be inside.
    pub lo: Arc<[u8]>,
    /// The first key above the range; `None` is above every key.
    pub hi: Option<Arc<[u8]>>,
}

impl KeyRange {
    /// `[lo, hi)`.
    pub fn new(lo: &[u8], hi: Option<&[u8]>) -> KeyRange {
        KeyRange { lo: lo.into(), hi: hi.map(Into::into) }
    }

    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange::new(b"", None)
    }

    /// From the key `first` to the key `last`, both inside.
    pub fn closed(first: &[u8], last: &[u8]) -> KeyRange {
        KeyRange { lo: first.into(), hi: Some(after(last).into()) }
    }

    /// True if no key can be inside.
    pub fn is_empty(&self) -> bool {
        self.hi.as_deref().is_some_and(|hi| hi <= &self.lo[..])
    }

    /// True if `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        &self.lo[..] <= key && self.is_below_end(key)
    }

    /// True if `key` is below the end.
    pub fn is_below_end(&self, key: &[u8]) -> bool {
        self.hi.as_deref().is_none_or(|hi| key < hi)
    }

    /// True if some key may be in both. Empty ranges overlap nothing.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty() && !other.is_empty() && self.is_below_end(&other.lo) && other.is_below_end(&self.lo)
    }

    /// True if every key of `other` is in this range.
    pub fn covers(&self, other: &KeyRange) -> bool {
        other.is_empty() || (self.lo <= other.lo && end_at_most(other.hi.as_deref(), self.hi.as_deref()))
    }

    /// The smallest range around both; an empty one adds nothing.
    #[must_use]
    pub fn hull(&self, other: &KeyRange) -> KeyRange {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        KeyRange {
            lo: self.lo.clone().min(other.lo.clone()),
            hi: if end_at_most(self.hi.as_deref(), other.hi.as_deref()) {
                other.hi.clone()
            } else {
                self.hi.clone()
            },
        }
    }
}

/// The smallest key above `key`.
pub fn after(key: &[u8]) -> Box<[u8]> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// True if the end `a` is not above the end `b`; `None` is above everything.
pub fn end_at_most(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(a), Some(b)) => a <= b,
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, ", String::from_utf8_lossy(&self.lo))?;
        match &self.hi {
            Some(hi) => write!(f, "{})", String::from_utf8_lossy(hi)),
            None => f.write_str("∞)"),
        }
    }
}
