//! One entry as it lies in the arena, written once before anybody can reach it and never changed.
//!
//! ```text
//!   trailer 8 | lengths 4 (key 12 bits, value 20 bits)            | key | value
//!   trailer 8 | u32::MAX 4 | key length 4 | value length 4        | key | value     when they do not fit
//! ```
//! The short form is 12 bytes above key and value; it fits keys under 4 KiB and values under 1 MiB.

use std::cmp::Ordering;
use std::ptr;

use crate::prefix::Probe;
use crate::sync::Guard;

const VALUE_BITS: u32 = 20;
const LONG: u32 = u32::MAX;
const GUARD_BYTES: usize = size_of::<Guard>();
const SHORT_HEADER_BYTES: usize = 12;
const LONG_HEADER_BYTES: usize = 20;

/// An entry, borrowed from the tree.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) trailer: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Entry<'_> {
    /// Where the entry stands relative to a probe, in the tree's order.
    #[inline]
    pub(crate) fn cmp(&self, probe: &Probe<'_>) -> Ordering {
        self.key.cmp(probe.key).then_with(|| probe.trailer.cmp(&self.trailer))
    }
}

/// Bytes an entry takes, before rounding.
///
/// # Panics
/// When key and value exceed what a length of 32 bits can say.
pub(crate) fn size(key: &[u8], value: &[u8]) -> usize {
    assert!(key.len() < LONG as usize && value.len() < LONG as usize, "an entry of 4 GiB or more");
    let header = if short_lengths(key, value).is_some() { SHORT_HEADER_BYTES } else { LONG_HEADER_BYTES };
    GUARD_BYTES + header + key.len() + value.len()
}

/// Writes an entry.
///
/// # Safety
/// `at` points to `size(key, value)` writable bytes, aligned to 8, that no one else reads or writes yet.
pub(crate) unsafe fn write(at: *mut u8, key: &[u8], trailer: u64, value: &[u8]) {
    // SAFETY: all writes stay within `size(key, value)` bytes from `at`, which the caller owns. The guard
    // (zero bytes but under loom) and the trailer are aligned as `at` is, the rest is written unaligned.
    unsafe {
        let guard = at.cast::<Guard>();
        guard.write(Guard::new());
        (*guard).written();
        let at = at.add(GUARD_BYTES);
        at.cast::<u64>().write(trailer);
        let data = match short_lengths(key, value) {
            Some(lengths) => {
                at.add(8).cast::<u32>().write(lengths);
                at.add(SHORT_HEADER_BYTES)
            }
            None => {
                at.add(8).cast::<u32>().write(LONG);
                at.add(12).cast::<u32>().write(key.len() as u32);
                at.add(16).cast::<u32>().write(value.len() as u32);
                at.add(LONG_HEADER_BYTES)
            }
        };
        ptr::copy_nonoverlapping(key.as_ptr(), data, key.len());
        ptr::copy_nonoverlapping(value.as_ptr(), data.add(key.len()), value.len());
    }
}

/// Reads the entry at `at`.
///
/// # Safety
/// `at` points to an entry that `write` finished before it was published to the calling thread, and whose
/// memory stays as it is for `'a`.
#[inline]
pub(crate) unsafe fn read<'a>(at: *const u8) -> Entry<'a> {
    // SAFETY: the caller promises a finished entry, so the header says how far key and value reach.
    unsafe {
        (*at.cast::<Guard>()).read();
        let at = at.add(GUARD_BYTES);
        let trailer = at.cast::<u64>().read();
        let lengths = at.add(8).cast::<u32>().read();
        let (data, key_len, value_len) = if lengths == LONG {
            let key_len = at.add(12).cast::<u32>().read();
            let value_len = at.add(16).cast::<u32>().read();
            (at.add(LONG_HEADER_BYTES), key_len as usize, value_len as usize)
        } else {
            let value_len = lengths & ((1 << VALUE_BITS) - 1);
            (at.add(SHORT_HEADER_BYTES), (lengths >> VALUE_BITS) as usize, value_len as usize)
        };
        Entry {
            trailer,
            key: std::slice::from_raw_parts(data, key_len),
            value: std::slice::from_raw_parts(data.add(key_len), value_len),
        }
    }
}

/// Both lengths in one word, if they fit (and are not taken for the mark of the long form).
#[inline]
fn short_lengths(key: &[u8], value: &[u8]) -> Option<u32> {
    if key.len() >= 1 << (32 - VALUE_BITS) || value.len() >= 1 << VALUE_BITS {
        return None;
    }
    let lengths = (key.len() as u32) << VALUE_BITS | value.len() as u32;
    (lengths != LONG).then_some(lengths)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_lengths_is_read_back() {
        let lengths = [0, 1, 7, 4094, 4095, 4096, 65_536];
        let values = [0, 1, 100, (1 << 20) - 2, (1 << 20) - 1, 1 << 20];
        for key_len in lengths {
            for value_len in values {
                let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                let size = size(&key, &value);
                assert!(size - key_len - value_len <= LONG_HEADER_BYTES);
                let mut memory = vec![0u64; size.div_ceil(8)];
                // SAFETY: `memory` has the size and alignment asked for and outlives the entry.
                let entry = unsafe {
                    write(memory.as_mut_ptr().cast(), &key, u64::MAX - 5, &value);
                    read(memory.as_ptr().cast())
                };
                assert_eq!(entry.trailer, u64::MAX - 5);
                assert!(entry.key == key && entry.value == value, "{key_len} {value_len}");
            }
        }
    }

    #[test]
    fn order_is_key_upward_then_trailer_downward() {
        let entry = Entry { trailer: 5, key: b"k", value: b"" };
        let order = |key, trailer| entry.cmp(&Probe { prefix: 0, key, trailer });
        assert_eq!(order(b"j", 5), Ordering::Greater);
        assert_eq!(order(b"l", 5), Ordering::Less);
        assert_eq!(order(b"k", 6), Ordering::Greater);
        assert_eq!(order(b"k", 4), Ordering::Less);
        assert_eq!(order(b"k", 5), Ordering::Equal);
    }
}
