//! Builds a block: collects entries as they are, and writes form C (see `block`) when all are known.
//!
//! All buffers are kept from block to block; adding an entry allocates nothing once they have grown.

use super::block::{FLAG_UNIFORM, FLAG_WIDE, HEADER_BYTES};
use crate::base::coding::{put_varint, varint_len};
use crate::base::key::{Trailer, common_head, prefix_u64};

/// Blocks of fewer entries are never searched by guessing.
const UNIFORM_ENTRIES_MIN: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Span {
    key_end: usize,
    value_end: usize,
    trailer: Trailer,
}

/// Collects the entries of a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    spans: Vec<Span>,
    first_len: usize,
    key_len: (usize, usize),
    value_len: (usize, usize),
}

impl BlockBuilder {
    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many entries were added.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// The first key; empty if there is none.
    fn first_key(&self) -> &[u8] {
        self.keys.get(..self.first_len).unwrap_or_default()
    }

    /// The last key; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        let start = self.spans.len().checked_sub(2).and_then(|i| self.spans.get(i)).map_or(0, |s| s.key_end);
        self.keys.get(start..).unwrap_or_default()
    }

    /// About as many bytes as the block takes; costs nothing, and counts the common head in every key.
    pub fn bytes_roughly(&self) -> usize {
        self.keys.len() + self.values.len() + self.spans.len() * 17
    }

    /// At most this many bytes the block takes as it is.
    pub fn bytes(&self) -> usize {
        let head = common_head(self.first_key(), self.last_key());
        self.estimate(
            self.spans.len(),
            head,
            self.keys.len(),
            self.values.len(),
            self.key_len,
            self.value_len,
        )
    }

    /// At most this many bytes the block takes with one entry more.
    pub fn bytes_with(&self, key: &[u8], value_len: usize) -> usize {
        let head = if self.is_empty() { key.len() } else { common_head(self.first_key(), key) };
        self.estimate(
            self.spans.len() + 1,
            head,
            self.keys.len() + key.len(),
            self.values.len() + value_len,
            self.widened(self.key_len, key.len()),
            self.widened(self.value_len, value_len),
        )
    }

    /// Adds an entry, which is above all before it.
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        self.key_len = self.widened(self.key_len, key.len());
        self.value_len = self.widened(self.value_len, value.len());
        if self.is_empty() {
            self.first_len = key.len();
        }
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.spans.push(Span { key_end: self.keys.len(), value_end: self.values.len(), trailer });
    }

    /// Writes the block's payload over `out`, and starts the next block.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let head = common_head(self.first_key(), self.last_key());
        let (stride, entries_bytes) = self.entry_sizes(head);
        let wide = entries_bytes > usize::from(u16::MAX);
        out.extend_from_slice(&(self.spans.len() as u32).to_le_bytes());
        let flags_at = out.len();
        out.extend_from_slice(&(head as u32 | if wide { FLAG_WIDE } else { 0 }).to_le_bytes());
        out.extend_from_slice(&(stride as u32).to_le_bytes());
        out.extend_from_slice(self.keys.get(..head).unwrap_or_default());
        let prefixes_at = out.len();
        for key in keys(&self.keys, &self.spans) {
            out.extend_from_slice(&prefix_u64(key, head).to_le_bytes());
        }
        if self.spans.len() >= UNIFORM_ENTRIES_MIN
            && is_uniform(out.get(prefixes_at..).unwrap_or_default().as_chunks().0)
            && let Some(flags) = out.get_mut(flags_at + 3)
        {
            *flags |= (FLAG_UNIFORM >> 24) as u8;
        }
        if stride == 0 {
            self.put_offsets(head, wide, out);
        }
        let mut value_start = 0;
        for (key, span) in keys(&self.keys, &self.spans).zip(&self.spans) {
            out.extend_from_slice(&span.trailer.0.to_le_bytes());
            put_varint(out, (key.len() - head) as u64);
            out.extend_from_slice(key.get(head + 8..).unwrap_or_default());
            out.extend_from_slice(self.values.get(value_start..span.value_end).unwrap_or_default());
            value_start = span.value_end;
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.spans.clear();
        self.first_len = 0;
    }

    /// The size that all entries have, or 0 if they differ, and the sum of all.
    fn entry_sizes(&self, head: usize) -> (usize, usize) {
        let mut sizes = self.sizes(head);
        let Some(first) = sizes.next() else { return (0, 0) };
        let (same, total) = sizes.fold((true, first), |(same, sum), n| (same && n == first, sum + n));
        (if same { first } else { 0 }, total)
    }

    fn sizes(&self, head: usize) -> impl Iterator<Item = usize> {
        let mut value_start = 0;
        keys(&self.keys, &self.spans).zip(&self.spans).map(move |(key, span)| {
            let value_len = span.value_end - value_start;
            value_start = span.value_end;
            let rest = key.len() - head;
            8 + varint_len(rest as u64) + rest.saturating_sub(8) + value_len
        })
    }

    fn put_offsets(&self, head: usize, wide: bool, out: &mut Vec<u8>) {
        let mut offset = 0usize;
        for size in std::iter::once(0).chain(self.sizes(head)) {
            offset += size;
            if wide {
                out.extend_from_slice(&(offset as u32).to_le_bytes());
            } else {
                out.extend_from_slice(&(offset as u16).to_le_bytes());
            }
        }
    }

    fn widened(&self, (least, most): (usize, usize), n: usize) -> (usize, usize) {
        if self.is_empty() { (n, n) } else { (least.min(n), most.max(n)) }
    }

    fn estimate(
        &self,
        count: usize,
        head: usize,
        keys_bytes: usize,
        values_bytes: usize,
        (key_min, key_max): (usize, usize),
        (value_min, value_max): (usize, usize),
    ) -> usize {
        let tails = keys_bytes - count * key_min.min(head + 8);
        let entries = count * (8 + varint_len(key_max as u64)) + tails + values_bytes;
        let even = key_min == key_max && value_min == value_max;
        let offset = if even { 0 } else { 2 << usize::from(entries > usize::from(u16::MAX)) };
        HEADER_BYTES + head + count * 8 + (count + 1) * offset + entries
    }
}

/// The collected keys in order.
fn keys<'a>(keys: &'a [u8], spans: &'a [Span]) -> impl Iterator<Item = &'a [u8]> {
    let mut start = 0;
    spans.iter().map(move |span| {
        let key = keys.get(start..span.key_end).unwrap_or_default();
        start = span.key_end;
        key
    })
}

/// True if guessing positions from the first and the last prefix is a sixteenth of the block wrong on average at most.
fn is_uniform(prefixes: &[[u8; 8]]) -> bool {
    let word = |p: &[u8; 8]| u64::from_le_bytes(*p);
    let (Some(first), Some(last)) = (prefixes.first().map(word), prefixes.last().map(word)) else {
        return false;
    };
    if first >= last {
        return false;
    }
    let scale = (prefixes.len() - 1) as f64 / (last - first) as f64;
    let wrong: f64 =
        prefixes.iter().enumerate().map(|(i, p)| ((word(p) - first) as f64 * scale - i as f64).abs()).sum();
    wrong <= (prefixes.len() * prefixes.len() / 16) as f64
}
