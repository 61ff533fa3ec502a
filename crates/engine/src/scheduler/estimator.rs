//! What clients use of the device: five ways to say it from counters. None looks at the device: the nearest adds up what is asked of files,
//! of which the page cache may answer a part (`device_share.rs`).

use crate::base::class::Class;
use crate::base::error::{Error, Result};

/// Counters since the store was opened, or what they grew by in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Gets by clients.
    pub gets: u64,
    /// Key and value bytes of what those found.
    pub get_bytes: u64,
    /// Seeks of clients' cursors.
    pub scans: u64,
    /// Key and value bytes that cursors came to.
    pub scan_bytes: u64,
    /// Puts, deletes and range deletes.
    pub writes: u64,
    /// Key and value bytes of those.
    pub write_bytes: u64,
    /// Bytes of blocks that clients' reads brought into the block cache, uncompressed. Compactions bring none (DLC §3.2).
    pub cache_fill_bytes: u64,
    /// What those take on disk.
    pub cache_fill_bytes_on_disk: u64,
    /// Bytes that clients read from files.
    pub client_read_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes read and written by background work, by class.
    pub internal: [u64; Class::ALL.len()],
}

impl Usage {
    /// What was used since `before`. Counters that went back count as nothing.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        let mut internal = [0; Class::ALL.len()];
        for ((grown, now), then) in internal.iter_mut().zip(self.internal).zip(before.internal) {
            *grown = now.saturating_sub(then);
        }
        Usage {
            gets: self.gets.saturating_sub(before.gets),
            get_bytes: self.get_bytes.saturating_sub(before.get_bytes),
            scans: self.scans.saturating_sub(before.scans),
            scan_bytes: self.scan_bytes.saturating_sub(before.scan_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            cache_fill_bytes: self.cache_fill_bytes.saturating_sub(before.cache_fill_bytes),
            cache_fill_bytes_on_disk: self
                .cache_fill_bytes_on_disk
                .saturating_sub(before.cache_fill_bytes_on_disk),
            client_read_bytes: self.client_read_bytes.saturating_sub(before.client_read_bytes),
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            internal,
        }
    }

    /// Key and value bytes of one operation, in the mean.
    fn mean_pair(&self) -> f64 {
        let (bytes, count) = (self.get_bytes + self.write_bytes, self.gets + self.writes);
        if count == 0 { 0.0 } else { bytes as f64 / count as f64 }
    }
}

/// DLC Table 2: bytes that a get moves, w'get of Eq 5.
pub const BYTES_PER_GET: u64 = 16_000;

/// How bytes that clients move are estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimator {
    /// Key and value bytes of all operations, also of those that memory answered (DLC Eq 1; SILK's published code).
    OpBytes,
    /// Weights for a get and for a scan, each times the mean pair (DLC Eq 3).
    WeightedOps {
        /// Pairs that a get moves.
        get: f64,
        /// Pairs that a scan moves.
        scan: f64,
    },
    /// So many bytes for each get (DLC Eq 5).
    PerGet(u64),
    /// Blocks added to the cache, times what a byte of them takes on disk (DLC Eq 6).
    CacheFills {
        /// That factor, 1 without compression; `None` for what it is of these very blocks.
        gamma: Option<f64>,
    },
    /// Bytes that clients read from files.
    Device,
}

/// Bytes that a get or a scan may stand for.
const WEIGHTS_MAX: f64 = 1e12;

impl Estimator {
    /// Bytes that clients moved. The log is on the device too, so it counts with all but the first, which has the writes in it
    /// already; DLC leaves it out because its log had a disk of its own.
    pub fn bytes(&self, used: &Usage) -> f64 {
        let pair = used.mean_pair();
        let reads = match *self {
            Estimator::OpBytes => {
                return (used.get_bytes + used.scan_bytes + used.write_bytes) as f64;
            }
            // Of scans alone nobody knows how large a pair is.
            Estimator::WeightedOps { .. } if pair == 0.0 => used.scan_bytes as f64,
            Estimator::WeightedOps { get, scan } => {
                (get * used.gets as f64 + scan * used.scans as f64) * pair
            }
            Estimator::PerGet(bytes) => bytes as f64 * used.gets as f64,
            Estimator::CacheFills { gamma: Some(gamma) } => gamma * used.cache_fill_bytes as f64,
            Estimator::CacheFills { gamma: None } => used.cache_fill_bytes_on_disk as f64,
            Estimator::Device => used.client_read_bytes as f64,
        };
        reads + used.log_bytes as f64
    }

    /// True if it needs the clients' operations counted one by one.
    pub fn counts_operations(&self) -> bool {
        !matches!(self, Estimator::CacheFills { .. } | Estimator::Device)
    }

    /// True if it looks at what clients' reads bring into the block cache.
    pub fn counts_fills(&self) -> bool {
        matches!(self, Estimator::CacheFills { .. })
    }

    /// Refuses weights that make no sense.
    pub fn check(&self) -> Result<()> {
        let makes_sense = match *self {
            Estimator::WeightedOps { get, scan } => {
                get >= 0.0 && scan >= 0.0 && get + scan > 0.0 && get + scan <= WEIGHTS_MAX
            }
            Estimator::PerGet(bytes) => bytes > 0,
            Estimator::CacheFills { gamma } => gamma.is_none_or(|gamma| gamma > 0.0 && gamma <= 1.0),
            Estimator::OpBytes | Estimator::Device => true,
        };
        if makes_sense {
            return Ok(());
        }
        Err(Error::invalid(
            "an estimator's weights are numbers from 0 to 1e12, not both 0, per-get is above 0, and cache-fills' factor above 0 and at most 1",
        ))
    }
}

/// The weights for the estimator `weighted`, of a get and of a scan, that explain best, by least squares, what clients read from
/// files in these intervals, whether the page cache or the device answered. No weight is below 0, and what never came has none. `None` if
/// they do not tell: nothing was read, or gets and scans always came in the same proportion.
pub fn fit_weights(intervals: &[Usage]) -> Option<(f64, f64)> {
    // Normal equations of bytes = get x + scan y, where x and y are counts times the mean pair.
    let (mut xx, mut xy, mut yy, mut xb, mut yb) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for used in intervals {
        let pair = used.mean_pair();
        let (x, y, b) = (used.gets as f64 * pair, used.scans as f64 * pair, used.client_read_bytes as f64);
        xx += x * x;
        xy += x * y;
        yy += y * y;
        xb += x * b;
        yb += y * b;
    }
    // The best by gets alone, and by scans alone: that of both, if both tell and are above 0.
    let (gets, scans) = ((xx > 0.0).then(|| xb / xx), (yy > 0.0).then(|| yb / yy));
    let fitted = match (gets, scans) {
        (Some(get), Some(scan)) => {
            let determinant = xx * yy - xy * xy;
            if determinant <= 1e-9 * xx * yy {
                return None;
            }
            match ((xb * yy - yb * xy) / determinant, (yb * xx - xb * xy) / determinant) {
                (below, _) if below < 0.0 => (0.0, scan),
                (_, below) if below < 0.0 => (get, 0.0),
                both => both,
            }
        }
        (get, scan) => (get.unwrap_or(0.0), scan.unwrap_or(0.0)),
    };
    (fitted.0 + fitted.1 > 0.0).then_some(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used() -> Usage {
        Usage {
            gets: 100,
            get_bytes: 100 * 1000,
            scans: 10,
            scan_bytes: 50_000,
            writes: 100,
            write_bytes: 100 * 1000,
            cache_fill_bytes: 400_000,
            cache_fill_bytes_on_disk: 250_000,
            client_read_bytes: 300_000,
            log_bytes: 101_000,
            internal: [9; Class::ALL.len()],
        }
    }

    /// The same interval by each of them.
    #[test]
    fn each_estimator_counts_what_its_equation_says() {
        let table = [
            (Estimator::OpBytes, 250_000.0),
            (Estimator::WeightedOps { get: 2.0, scan: 10.0 }, 300_000.0 + 101_000.0),
            (Estimator::PerGet(BYTES_PER_GET), 1_600_000.0 + 101_000.0),
            (Estimator::CacheFills { gamma: Some(0.5) }, 200_000.0 + 101_000.0),
            (Estimator::CacheFills { gamma: None }, 250_000.0 + 101_000.0),
            (Estimator::Device, 300_000.0 + 101_000.0),
        ];
        for (estimator, bytes) in table {
            assert_eq!(estimator.bytes(&used()), bytes, "{estimator:?}");
            assert_eq!(estimator.bytes(&Usage::default()), 0.0, "{estimator:?}");
        }
    }

    /// Nobody knows how large a pair is where nothing is written or got; what scans gave back is known.
    #[test]
    fn weights_do_not_hide_clients_that_only_scan() {
        let scans = Usage { scans: 10, scan_bytes: 50_000, ..Usage::default() };
        assert_eq!(Estimator::WeightedOps { get: 2.0, scan: 10.0 }.bytes(&scans), 50_000.0);
    }

    #[test]
    fn what_background_work_moves_is_no_client_s() {
        let idle = Usage { internal: [1 << 30; Class::ALL.len()], ..Usage::default() };
        for estimator in [Estimator::OpBytes, Estimator::CacheFills { gamma: None }, Estimator::Device] {
            assert_eq!(estimator.bytes(&idle), 0.0);
        }
    }

    /// The fitted weights foretell within 15 %, beside noise of 10 %.
    #[test]
    fn weights_are_fitted_from_intervals() {
        let interval = |gets: u64, scans: u64, noise: f64| Usage {
            gets,
            get_bytes: gets * 200,
            scans,
            client_read_bytes: ((gets as f64 * 3.0 + scans as f64 * 20.0) * 200.0 * noise) as u64,
            ..Usage::default()
        };
        let learned: Vec<Usage> = (1..40)
            .map(|i| interval(100 + 37 * i % 900, 10 + 53 * i % 300, if i % 2 == 0 { 1.1 } else { 0.9 }))
            .collect();
        let (get, scan) = fit_weights(&learned).unwrap();
        let estimator = Estimator::WeightedOps { get, scan };
        for (gets, scans) in [(100, 0), (500, 100), (1000, 300)] {
            let real = interval(gets, scans, 1.0);
            let error = estimator.bytes(&real) / real.client_read_bytes as f64 - 1.0;
            assert!(error.abs() < 0.15, "{gets} gets, {scans} scans: off by {error}");
        }
        let same: Vec<Usage> = (1..10).map(|i| interval(10 * i, i, 1.0)).collect();
        assert_eq!(fit_weights(&same), None, "always ten gets a scan");
        let alone: Vec<Usage> = (1..10).map(|i| interval(10 * i, 0, 1.0)).collect();
        let (get, scan) = fit_weights(&alone).unwrap();
        assert!((get - 3.0).abs() < 0.01 && scan == 0.0, "{get} and {scan}");
        let cached = |i: u64| Usage { client_read_bytes: i * 4000 - 900 / i, ..interval(900 / i, i, 1.0) };
        let (get, scan) = fit_weights(&(1..10).map(cached).collect::<Vec<_>>()).unwrap();
        assert!(
            get == 0.0 && (18.0..21.0).contains(&scan),
            "{get} and {scan}: what memory answers reads nothing"
        );
        assert_eq!(fit_weights(&[Usage { client_read_bytes: 0, ..interval(10, 0, 1.0) }]), None);
        assert_eq!(fit_weights(&[]), None);
    }
}
