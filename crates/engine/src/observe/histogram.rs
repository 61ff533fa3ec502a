//! A histogram that many threads add to: log-linear, eight steps an octave, so any value is off by at most an eighth.

use std::sync::atomic::{AtomicU64, Ordering};

const STEPS: usize = 8;
const BUCKETS: usize = 61 * STEPS;

/// Counts of values, in any unit the owner names.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, max: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds one value.
    pub fn add(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The sum of all values added.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// For each of the ascending `bounds`, how many values are surely not above it: a bucket counts with its end.
    pub fn cumulative(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for (i, bucket) in self.buckets.iter().enumerate() {
            let at = bounds.partition_point(|bound| *bound < bucket_end(i));
            if let Some(count) = counts.get_mut(at) {
                *count += bucket.load(Ordering::Relaxed);
            }
        }
        let mut sum = 0;
        counts
            .iter()
            .map(|n| {
                sum += n;
                sum
            })
            .collect()
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).sum()
    }

    /// The largest value added.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The value that the share `q` (0 to 1) of all values do not exceed, rounded up to its bucket's end; 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = (self.count() as f64 * q).ceil() as u64;
        let mut seen = 0;
        for (i, b) in self.buckets.iter().enumerate() {
            seen += b.load(Ordering::Relaxed);
            if seen >= wanted && seen > 0 {
                return bucket_end(i).min(self.max());
            }
        }
        self.max()
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as usize;
    let step = (value >> (octave - 3)) as usize & (STEPS - 1);
    (octave - 2) * STEPS + step
}

fn bucket_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (octave, step) = (bucket / STEPS + 2, (bucket % STEPS) as u64);
    let width = 1u64 << (octave - 3);
    ((STEPS as u64 + step) * width).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_an_eighth_of_its_bucket() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) + (1 << shift) / 3, u64::MAX >> (63 - shift)] {
                let end = bucket_end(bucket(value));
                assert!(end >= value && end - value <= value / 8, "{value} -> {end}");
            }
        }
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let h = Histogram::default();
        (1..=1000).for_each(|v| h.add(v));
        assert_eq!((h.count(), h.max()), (1000, 1000));
        assert!((500..=563).contains(&h.quantile(0.5)), "{}", h.quantile(0.5));
        assert_eq!(h.quantile(1.0), 1000);
        assert_eq!(h.sum(), 500_500);
        let counts = h.cumulative(&[0, 7, 511, 2000]);
        assert_eq!(counts, [0, 7, 511, 1000]);
    }
}
