//! A block in form C: the keys' common head once, a sorted array of 8-byte key prefixes, then the entries.
//!
//! ```text
//! count: u32 | head length and flags: u32 | stride: u32 | head | prefix: u64 × count | offset × (count + 1) | entries
//! entry = trailer: u64 | length of the key after the head: varint | key after head and prefix | value
//! ```
//! A prefix is the big-endian value of the 8 key bytes after the head (zero-filled), stored little-endian: a search
//! touches the first line, some of the array, and one entry. Entries of one size need no offsets (`stride`).
//! Index blocks have the same form: the key is a separator, the trailer slot the offset of what it points to.
//!
//! [`Layout::check`] is run once when a block comes from disk; afterwards no access can fail or panic, though
//! each is still bounds-checked.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

use crate::base::coding::Decoder;
use crate::base::key::{Kind, Trailer, prefix_u64};

/// Bytes before the head.
pub const HEADER_BYTES: usize = 12;
/// Offsets have four bytes instead of two.
pub const FLAG_WIDE: u32 = 1 << 31;
/// The prefixes are spread evenly enough to guess a position.
pub const FLAG_UNIFORM: u32 = 1 << 30;
const HEAD_MASK: u32 = (1 << 24) - 1;
/// Up to this many prefixes are counted, not searched: their lines come all at once instead of one after the other.
const COUNTED: usize = 48;
/// First step of the search around a guessed position.
const GALLOP: usize = 8;

/// What a block's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Keys with trailers and values: kinds are checked.
    Data,
    /// Separators with handles.
    Index,
}

/// Where the parts of a block are. Cheap to make again from the block's first bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    count: usize,
    head_len: usize,
    stride: usize,
    offsets_at: usize,
    entries_at: usize,
    wide: bool,
    uniform: bool,
}

/// One entry of a block.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Of the key after the head.
    pub prefix: u64,
    /// Sequence and kind; in an index the offset of a block.
    pub trailer: Trailer,
    /// Length of the key after the head.
    pub rest_len: usize,
    /// The key after the head and the prefix.
    pub tail: &'a [u8],
    /// Where the value is in the block.
    pub value: Range<usize>,
}

impl Entry<'_> {
    /// Appends the key's part after the head.
    #[inline]
    pub fn push_rest(&self, key: &mut Vec<u8>) {
        let prefix = self.prefix.to_be_bytes();
        // A copy of a length known here is one store, not a call.
        match prefix.get(..self.rest_len) {
            Some(short) if self.rest_len < 8 => key.extend_from_slice(short),
            _ => key.extend_from_slice(&prefix),
        }
        key.extend_from_slice(self.tail);
    }

    /// Compares the key's part after the head with `rest`, whose prefix is known to be equal.
    #[inline]
    fn cmp_rest(&self, rest: &[u8]) -> Ordering {
        self.rest_len
            .min(8)
            .cmp(&rest.len().min(8))
            .then_with(|| self.tail.cmp(rest.get(8..).unwrap_or_default()))
    }
}

impl Layout {
    /// Finds the parts; `None` if they do not fit into the block.
    #[inline]
    pub fn parse(block: &[u8]) -> Option<Layout> {
        let header = block.first_chunk::<HEADER_BYTES>()?;
        let [c0, c1, c2, c3, h0, h1, h2, h3, s0, s1, s2, s3] = *header;
        let count = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
        let head = u32::from_le_bytes([h0, h1, h2, h3]);
        let stride = u32::from_le_bytes([s0, s1, s2, s3]) as usize;
        let head_len = (head & HEAD_MASK) as usize;
        let wide = head & FLAG_WIDE != 0;
        let offsets_at = HEADER_BYTES.checked_add(head_len)?.checked_add(count.checked_mul(8)?)?;
        let offsets_bytes =
            if stride != 0 { 0 } else { count.checked_add(1)?.checked_mul(2 << usize::from(wide))? };
        let entries_at = offsets_at.checked_add(offsets_bytes)?;
        if entries_at > block.len() {
            return None;
        }
        let uniform = head & FLAG_UNIFORM != 0;
        Some(Layout { count, head_len, stride, offsets_at, entries_at, wide, uniform })
    }

    /// Checks every entry's form, so that later accesses cannot fail.
    pub fn check(block: &[u8], content: Content) -> Result<Layout, &'static str> {
        let Some(layout) = Layout::parse(block) else { return Err("the block's header makes no sense") };
        if layout.count == 0 {
            return Err("the block is empty");
        }
        if !layout.prefixes(block).is_sorted_by_key(|p| u64::from_le_bytes(*p)) {
            return Err("the block's prefixes are out of order");
        }
        let mut end = layout.entries_at;
        for i in 0..layout.count {
            let span = layout.span(block, i);
            let Some(entry) = (span.start == end).then(|| layout.entry(block, i)).flatten() else {
                return Err("an entry does not fit into its block");
            };
            end = span.end;
            if content == Content::Data && Kind::from_u8(entry.trailer.kind_byte()).is_none() {
                return Err("an entry is of an unknown kind");
            }
        }
        if end == block.len() { Ok(layout) } else { Err("the block has bytes that belong to no entry") }
    }

    /// How many entries there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// What all keys begin with.
    #[inline]
    pub fn head<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block.get(HEADER_BYTES..HEADER_BYTES + self.head_len).unwrap_or_default()
    }

    /// The prefix array, little-endian words.
    #[inline]
    fn prefixes<'a>(&self, block: &'a [u8]) -> &'a [[u8; 8]] {
        block.get(HEADER_BYTES + self.head_len..self.offsets_at).unwrap_or_default().as_chunks().0
    }

    /// The bytes of entry `i`.
    #[inline]
    fn span(&self, block: &[u8], i: usize) -> Range<usize> {
        let (start, end) = if self.stride != 0 {
            (i.saturating_mul(self.stride), i.saturating_add(1).saturating_mul(self.stride))
        } else {
            let offsets = block.get(self.offsets_at..self.entries_at).unwrap_or_default();
            if self.wide {
                let offsets = offsets.as_chunks::<4>().0;
                let at = |i: usize| offsets.get(i).map_or(usize::MAX, |o| u32::from_le_bytes(*o) as usize);
                (at(i), at(i + 1))
            } else {
                let offsets = offsets.as_chunks::<2>().0;
                let at = |i: usize| offsets.get(i).map_or(usize::MAX, |o| u16::from_le_bytes(*o) as usize);
                (at(i), at(i + 1))
            }
        };
        self.entries_at.saturating_add(start)..self.entries_at.saturating_add(end)
    }

    /// Entry `i`; `None` only for an `i` that is not there, or in a block that was not checked.
    #[expect(
        clippy::inline_always,
        reason = "a scan's step is a tenth dearer where it is a call (`cargo xtask instructions`)"
    )]
    #[inline(always)]
    pub fn entry<'a>(&self, block: &'a [u8], i: usize) -> Option<Entry<'a>> {
        let prefix = u64::from_le_bytes(*self.prefixes(block).get(i)?);
        let span = self.span(block, i);
        let bytes = block.get(span.clone())?;
        let (trailer, rest) = bytes.split_first_chunk::<8>()?;
        let trailer = Trailer(u64::from_le_bytes(*trailer));
        // Nearly every length takes one byte.
        let (rest_len, after_len) = match rest.split_first()? {
            (&len, after) if len < 0x80 => (usize::from(len), after),
            _ => {
                let mut from = Decoder::new(rest);
                (usize::try_from(from.varint()?).ok()?, from.rest())
            }
        };
        let (tail, value) = after_len.split_at_checked(rest_len.saturating_sub(8))?;
        Some(Entry { prefix, trailer, rest_len, tail, value: span.end - value.len()..span.end })
    }

    /// The position of the first entry at or above (key, trailer) in the tree's order; `count` if all are below.
    #[inline]
    pub fn lower_bound(&self, block: &[u8], key: &[u8], trailer: Trailer) -> usize {
        let head = self.head(block);
        let rest = match key.split_at_checked(head.len()) {
            Some((start, rest)) => match start.cmp(head) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.count,
                Ordering::Equal => rest,
            },
            None if key < head => return 0,
            None => return self.count,
        };
        let prefix = prefix_u64(rest, 0);
        let prefixes = self.prefixes(block);
        let from = search(prefixes, prefix, self.uniform);
        let wanted = prefix.to_le_bytes();
        if prefixes.get(from) != Some(&wanted) {
            return from;
        }
        // Within the tie the whole keys decide, then the trailers.
        let mut low = from;
        let mut high = from + 1;
        if prefixes.get(high) == Some(&wanted) {
            high = from + prefixes.get(from..).unwrap_or_default().partition_point(|p| *p == wanted);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let below = self.entry(block, middle).is_some_and(|entry| match entry.cmp_rest(rest) {
                Ordering::Less => true,
                Ordering::Equal => entry.trailer > trailer,
                Ordering::Greater => false,
            });
            (low, high) = if below { (middle + 1, high) } else { (low, middle) };
        }
        low
    }

    /// True if entry `i`'s key is `key`.
    #[inline]
    pub fn is_key(&self, block: &[u8], i: usize, key: &[u8]) -> bool {
        let Some(rest) = key.strip_prefix(self.head(block)) else { return false };
        self.entry(block, i).is_some_and(|entry| {
            entry.rest_len == rest.len()
                && entry.prefix == prefix_u64(rest, 0)
                && entry.tail == rest.get(8..).unwrap_or_default()
        })
    }

    /// Writes entry `i`'s whole key to `key`.
    pub fn key_into(&self, block: &[u8], i: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.head(block));
        if let Some(entry) = self.entry(block, i) {
            entry.push_rest(key);
        }
    }
}

/// How many of the sorted prefixes are below `prefix`. Free of branches that depend on the data, but for the gallop.
#[inline]
fn search(prefixes: &[[u8; 8]], prefix: u64, uniform: bool) -> usize {
    let window = if uniform { gallop(prefixes, prefix) } else { 0..prefixes.len() };
    let mut base = window.start;
    let mut rest = prefixes.get(window).unwrap_or_default();
    while rest.len() > COUNTED {
        let (low, high) = rest.split_at(rest.len() / 2);
        let right = high.first().is_some_and(|p| u64::from_le_bytes(*p) < prefix);
        base += select_unpredictable(right, low.len(), 0);
        rest = select_unpredictable(right, high, low);
    }
    base + rest.iter().map(|p| usize::from(u64::from_le_bytes(*p) < prefix)).sum::<usize>()
}

/// A window of positions that holds the answer, found around the place where evenly spread prefixes would have it.
fn gallop(prefixes: &[[u8; 8]], prefix: u64) -> Range<usize> {
    let word = |i: usize| prefixes.get(i).map_or(u64::MAX, |p| u64::from_le_bytes(*p));
    let n = prefixes.len();
    let (first, last) = (word(0), word(n.saturating_sub(1)));
    if prefix <= first {
        return 0..0;
    }
    if prefix > last {
        return n..n;
    }
    let share = (prefix - first) as f64 / (last - first) as f64;
    let guess = ((share * (n - 1) as f64) as usize).min(n - 1);
    let mut step = GALLOP;
    if word(guess) < prefix {
        let mut low = guess + 1;
        let mut high = guess.saturating_add(step);
        while high < n && word(high) < prefix {
            low = high + 1;
            step *= 2;
            high = high.saturating_add(step);
        }
        low..high.min(n)
    } else {
        let mut high = guess;
        let mut low = guess.saturating_sub(step);
        while low > 0 && word(low) >= prefix {
            high = low;
            step *= 2;
            low = low.saturating_sub(step);
        }
        low..high
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
