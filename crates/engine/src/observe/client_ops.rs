//! Clients' operations one by one, for schedules that estimate the load by them. Counted only while such a schedule is in force: a
//! get pays a look at a flag otherwise.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::clock::thread_number;

/// Threads share a stripe only if there are more of them.
const STRIPES: usize = 16;

/// Reads by clients since counting began.
#[derive(Debug, Default)]
pub struct ClientOps {
    counting: AtomicBool,
    stripes: [Stripe; STRIPES],
}

/// In cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    gets: AtomicU64,
    get_bytes: AtomicU64,
    scans: AtomicU64,
    scan_bytes: AtomicU64,
}

/// Sums of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientReads {
    /// Gets.
    pub gets: u64,
    /// Key and value bytes of what they found.
    pub get_bytes: u64,
    /// Seeks of cursors.
    pub scans: u64,
    /// Key and value bytes that cursors came to.
    pub scan_bytes: u64,
}

impl ClientOps {
    /// True while operations are counted.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counting.load(Ordering::Relaxed)
    }

    /// Begins or ends counting.
    pub fn count(&self, on: bool) {
        self.counting.store(on, Ordering::Relaxed);
    }

    /// A get has found so many bytes of key and value.
    pub fn add_get(&self, bytes: u64) {
        let stripe = self.stripe();
        stripe.gets.fetch_add(1, Ordering::Relaxed);
        stripe.get_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A cursor was sought, or moved on if not, and came to so many bytes of key and value.
    pub fn add_scan(&self, sought: bool, bytes: u64) {
        let stripe = self.stripe();
        stripe.scans.fetch_add(u64::from(sought), Ordering::Relaxed);
        stripe.scan_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The sums.
    pub fn sums(&self) -> ClientReads {
        let sum =
            |of: fn(&Stripe) -> &AtomicU64| self.stripes.iter().map(|s| of(s).load(Ordering::Relaxed)).sum();
        ClientReads {
            gets: sum(|s| &s.gets),
            get_bytes: sum(|s| &s.get_bytes),
            scans: sum(|s| &s.scans),
            scan_bytes: sum(|s| &s.scan_bytes),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of the length is an index")]
    fn stripe(&self) -> &Stripe {
        &self.stripes[thread_number() % STRIPES]
    }
}
