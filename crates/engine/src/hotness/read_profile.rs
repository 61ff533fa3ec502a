//! Which keys are asked for, and how many filter bits that is worth: more where many gets come to few keys, less where few come to
//! many, together as many as if all had the same.
//!
//! A get passes one filter of each run that its key lies in, whether the run is large or small. So with as many bits in all, the
//! fewest gets are let pass in vain where each filter's part of these is in proportion to its keys (Monkey, SIGMOD 2017):
//!
//! ```text
//! gets that pass in vain  Σ ρ·keys·2^(-bits·ln 2)     ρ  gets that come to a part, for each key of it
//! fewest where            bits = (ln ρ + c) / ln² 2   c  such that Σ keys·bits is what it was
//! ```
//! ρ is large where reads are hot, and in runs that hold few of the keys between their first and last: young ones.

use super::key_histogram::{KeySpread, fraction};

/// ln² 2: a filter of `bits` for each key lets e^(-bits · ln² 2) of other keys pass.
const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;
/// Steps of halving until the level is found.
const HALVINGS: usize = 50;

/// See the file's header.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadProfile {
    /// Keys, ascending, with the share of gets that ask for one below each.
    points: Vec<(Box<[u8]>, f64)>,
    /// c.
    level: f64,
    /// Nobody has more bits more, or less, than this.
    span: f64,
}

/// Keys of a filter, and what is between the first and the last of them.
#[derive(Clone, Copy, Debug)]
pub struct FilterKeys<'a> {
    /// None is before this.
    pub from: &'a [u8],
    /// Nor after this.
    pub to: &'a [u8],
    /// How many.
    pub keys: u64,
}

impl ReadProfile {
    /// From tables that hold all keys once, ascending, each with its weight among gets, for all tables of a tree. `None` if there is
    /// nothing to tell them apart by.
    pub fn of<'a>(
        asked: impl IntoIterator<Item = (KeySpread<'a>, f64)>,
        all: &[FilterKeys<'_>],
        span: f32,
    ) -> Option<ReadProfile> {
        let mut points: Vec<(Box<[u8]>, f64)> = Vec::new();
        let mut below = 0.0;
        for (table, weight) in asked {
            let parts = (table.quantiles.len() + 1) as f64;
            let keys = table.quantiles.iter().enumerate().map(|(i, key)| (&**key, (i + 1) as f64 / parts));
            for (key, part) in
                std::iter::once((table.smallest, 0.0)).chain(keys).chain([(table.largest, 1.0)])
            {
                // Keys of a description may be cut, and then say nothing.
                if points.last().is_none_or(|(last, _)| **last < *key) && *key <= *table.largest {
                    points.push((key.into(), below + part * weight));
                }
            }
            below += weight;
            if let Some(last) = points.last_mut() {
                last.1 = below;
            }
        }
        if below <= 0.0 || !below.is_finite() {
            return None;
        }
        points.iter_mut().for_each(|(_, share)| *share /= below);
        let mut profile = ReadProfile { points, level: 0.0, span: f64::from(span) };
        profile.level = profile.find_level(all)?;
        Some(profile)
    }

    /// What a filter of these keys has more than the usual bits for each, or less.
    pub fn more_bits(&self, filter: &FilterKeys<'_>) -> f32 {
        self.density(filter).map_or(0.0, |density| self.bits_of(density, self.level)) as f32
    }

    fn bits_of(&self, density: f64, level: f64) -> f64 {
        ((density.ln() + level) / LN2_SQUARED).clamp(-self.span, self.span)
    }

    /// ρ, at least a gets' share so small that it has the fewest bits.
    fn density(&self, filter: &FilterKeys<'_>) -> Option<f64> {
        let share = self.share_below(filter.to) - self.share_below(filter.from);
        (filter.keys > 0).then(|| share.max(1e-12) / filter.keys as f64)
    }

    fn share_below(&self, key: &[u8]) -> f64 {
        let next = self.points.partition_point(|(point, _)| **point < *key);
        let before = next.checked_sub(1).and_then(|i| self.points.get(i));
        match (before, self.points.get(next)) {
            (Some((lo, from)), Some((hi, to))) => from + (to - from) * fraction(lo, hi, key),
            (None, _) => 0.0,
            (Some(_), None) => 1.0,
        }
    }

    /// c: what is given to some is taken from others.
    fn find_level(&self, all: &[FilterKeys<'_>]) -> Option<f64> {
        let found: Vec<(f64, f64)> =
            all.iter().filter_map(|filter| Some((self.density(filter)?, filter.keys as f64))).collect();
        if found.is_empty() {
            return None;
        }
        let given = |level: f64| found.iter().map(|(d, keys)| keys * self.bits_of(*d, level)).sum::<f64>();
        // Densities are from 1e-12 by the number of keys to 1.
        let (mut low, mut high) = (-100.0, 100.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if given(middle) > 0.0 { high = middle } else { low = middle }
        }
        Some(f64::midpoint(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    /// Ten tables of a thousand keys, the third of which gets most of the gets, and a young run of a hundred keys over all of them.
    fn profile(span: f32) -> (ReadProfile, Vec<([u8; 8], [u8; 8], u64)>) {
        let mut tables: Vec<([u8; 8], [u8; 8], u64)> =
            (0..10).map(|i| (key(i * 1000), key(i * 1000 + 999), 1000)).collect();
        let spread = |(from, to, entries): &([u8; 8], [u8; 8], u64)| (*from, *to, *entries);
        let ten: Vec<_> = tables.iter().map(spread).collect();
        tables.push((key(0), key(9999), 100));
        let all: Vec<FilterKeys<'_>> =
            tables.iter().map(|(from, to, keys)| FilterKeys { from, to, keys: *keys }).collect();
        let asked = ten.iter().enumerate().map(|(i, (smallest, largest, entries))| {
            let table = KeySpread { smallest, largest, quantiles: &[], entries: *entries };
            (table, if i == 2 { 91.0 } else { 1.0 })
        });
        let found = ReadProfile::of(asked, &all, span).unwrap();
        (found, tables)
    }

    #[test]
    fn what_is_read_has_more_bits_and_so_has_a_run_of_few_keys_and_the_sum_stays() {
        let (profile, tables) = profile(6.0);
        let more = |(from, to, keys): &([u8; 8], [u8; 8], u64)| {
            f64::from(profile.more_bits(&FilterKeys { from, to, keys: *keys }))
        };
        let bits: Vec<f64> = tables.iter().map(more).collect();
        assert!(bits[2] > bits[1] + 5.0 && bits[10] > bits[1] + 5.0, "{bits:?}");
        let sum: f64 = tables.iter().zip(&bits).map(|(table, bits)| table.2 as f64 * bits).sum();
        assert!(sum.abs() < 1.0, "{sum} bits more than without");
        // Fewer gets pass in vain than with the same bits everywhere.
        let passed = |bits: &dyn Fn(usize) -> f64| {
            let share = |i: usize| {
                if i == 10 {
                    1.0
                } else if i == 2 {
                    0.91
                } else {
                    0.01
                }
            };
            (0..11).map(|i| share(i) * (-(10.0 + bits(i)) * LN2_SQUARED).exp()).sum::<f64>()
        };
        let (alike, by_heat) = (passed(&|_| 0.0), passed(&|i| bits[i]));
        assert!(by_heat < 0.5 * alike, "{by_heat} instead of {alike}");
    }

    #[test]
    fn bits_stay_within_their_span() {
        for span in [0.5, 2.0] {
            let (profile, tables) = profile(span);
            for (from, to, keys) in &tables {
                let more = profile.more_bits(&FilterKeys { from, to, keys: *keys });
                assert!(more.abs() <= span, "{more}");
            }
            assert_eq!(profile.more_bits(&FilterKeys { from: b"", to: b"\xff", keys: 0 }), 0.0);
        }
    }

    #[test]
    fn nothing_is_told_where_nothing_is_asked() {
        let (from, to) = (key(0), key(9));
        let table = KeySpread { smallest: &from, largest: &to, quantiles: &[], entries: 10 };
        let all = [FilterKeys { from: &from, to: &to, keys: 10 }];
        assert_eq!(ReadProfile::of([(table, 0.0)], &all, 4.0), None);
        assert_eq!(ReadProfile::of([(table, f64::NAN)], &all, 4.0), None);
        assert_eq!(ReadProfile::of([], &all, 4.0), None);
        assert_eq!(ReadProfile::of([(table, 1.0)], &[], 4.0), None);
    }
}
