//! Which keys are asked for, and how many filter bits that is worth: more where many gets come to few keys, less where few come to
//! many, together as many as if all had the same.
//!
//! Of a run, the fewest gets are let pass in vain where each part's share of these is in proportion to its keys (Monkey, SIGMOD 2017,
//! which says it of whole runs):
//!
//! ```text
//! gets that pass in vain  Σ ρ·keys·2^(-bits·ln 2)     ρ  gets that come to a part, for each key of it
//! fewest where            bits = (ln ρ + c) / ln² 2   c  such that Σ keys·bits is what it was
//! ```
//! Keys lie alike in all runs, as far as this knows. So whichever runs come and go, each has as many bits as without it: a filter has
//! the mean over the keys between its first and its last.

use super::key_histogram::{KeySpread, fraction};

/// ln² 2: a filter of `bits` for each key lets e^(-bits · ln² 2) of other keys pass.
const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;
/// Steps of halving until the level is found.
const HALVINGS: usize = 50;

/// See the file's header.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadProfile {
    /// Ascending by key.
    points: Vec<Point>,
}

/// What is below a key.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    key: Box<[u8]>,
    /// Of all keys.
    keys: f64,
    /// More bits, for each of all keys.
    bits: f64,
}

impl ReadProfile {
    /// From tables that hold all keys once, ascending, each with its weight among gets; nobody has `span` bits more, or less. `None`
    /// if there is nothing to tell them apart by.
    pub fn of<'a>(asked: impl IntoIterator<Item = (KeySpread<'a>, f64)>, span: f32) -> Option<ReadProfile> {
        // Keys, with the entries and the weight below each.
        let mut below: Vec<(&'a [u8], f64, f64)> = Vec::new();
        let (mut gets, mut entries) = (0.0, 0.0);
        for (table, weight) in asked {
            let parts = (table.quantiles.len() + 1) as f64;
            let keys = table.quantiles.iter().enumerate().map(|(i, key)| (&**key, (i + 1) as f64 / parts));
            for (key, part) in
                std::iter::once((table.smallest, 0.0)).chain(keys).chain([(table.largest, 1.0)])
            {
                // Keys of a description may be cut, and then say nothing.
                if below.last().is_none_or(|last| last.0 < key) && *key <= *table.largest {
                    below.push((key, entries + part * table.entries as f64, gets + part * weight));
                }
            }
            (gets, entries) = (gets + weight, entries + table.entries as f64);
            if let Some(last) = below.last_mut() {
                (last.1, last.2) = (entries, gets);
            }
        }
        if gets <= 0.0 || !gets.is_finite() || entries <= 0.0 {
            return None;
        }
        let (span, steps) = (f64::from(span), steps(&below, gets, entries));
        let level = level(&steps, span);
        let (mut keys, mut bits) = (0.0, 0.0);
        let sums = std::iter::once((0.0, 1.0)).chain(steps).map(|(part, density)| {
            keys += part;
            bits += part * bits_of(density, level, span);
            (keys, bits)
        });
        let points =
            below.iter().zip(sums).map(|((key, ..), (keys, bits))| Point { key: (*key).into(), keys, bits });
        let points = points.collect();
        Some(ReadProfile { points })
    }

    /// What a filter of keys from one to the other has more than the usual bits for each, or less.
    pub fn more_bits(&self, from: &[u8], to: &[u8]) -> f32 {
        let ((keys_before, bits_before), (keys, bits)) = (self.below(from), self.below(to));
        let part = keys - keys_before;
        if part > 0.0 { ((bits - bits_before) / part) as f32 } else { 0.0 }
    }

    fn below(&self, key: &[u8]) -> (f64, f64) {
        let next = self.points.partition_point(|point| *point.key < *key);
        let before = next.checked_sub(1).and_then(|i| self.points.get(i));
        match (before, self.points.get(next)) {
            (Some(lo), Some(hi)) => {
                let part = fraction(&lo.key, &hi.key, key);
                (lo.keys + (hi.keys - lo.keys) * part, lo.bits + (hi.bits - lo.bits) * part)
            }
            (Some(point), None) => (point.keys, point.bits),
            (None, _) => (0.0, 0.0),
        }
    }
}

/// Between each two points the part of keys, and ρ of them: at least so small that they have the fewest bits.
fn steps(below: &[(&[u8], f64, f64)], gets: f64, entries: f64) -> Vec<(f64, f64)> {
    let step = |((_, keys_before, before), (_, keys, upto)): (&(&[u8], f64, f64), &(&[u8], f64, f64))| {
        let keys = (keys - keys_before) / entries;
        let share = ((upto - before) / gets).max(1e-12);
        (keys.max(0.0), if keys > 0.0 { share / keys } else { 1.0 })
    };
    below.iter().zip(below.iter().skip(1)).map(step).collect()
}

fn bits_of(density: f64, level: f64, span: f64) -> f64 {
    ((density.ln() + level) / LN2_SQUARED).clamp(-span, span)
}

/// c: what is given to some is taken from others.
fn level(steps: &[(f64, f64)], span: f64) -> f64 {
    let given = |level: f64| steps.iter().map(|(keys, d)| keys * bits_of(*d, level, span)).sum::<f64>();
    let (mut low, mut high) = (-100.0, 100.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if given(middle) > 0.0 { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    /// The first and last keys of ten tables of a thousand keys.
    fn tables() -> Vec<([u8; 8], [u8; 8])> {
        (0..10).map(|i| (key(i * 1000), key(i * 1000 + 999))).collect()
    }

    /// The third of them gets most of the gets.
    fn share(table: usize) -> f64 {
        if table == 2 { 0.91 } else { 0.01 }
    }

    fn profile(span: f32) -> ReadProfile {
        let tables = tables();
        let asked = tables.iter().enumerate().map(|(i, (smallest, largest))| {
            (KeySpread { smallest, largest, quantiles: &[], entries: 1000 }, share(i))
        });
        ReadProfile::of(asked, span).unwrap()
    }

    #[test]
    fn what_is_read_has_more_bits_and_the_sum_stays_however_a_run_is_cut() {
        let (profile, tables) = (profile(6.0), tables());
        let more = |from: &[u8], to: &[u8]| f64::from(profile.more_bits(from, to));
        let bits: Vec<f64> = tables.iter().map(|(from, to)| more(from, to)).collect();
        assert!(bits[2] > bits[1] + 5.0, "{bits:?}");
        assert!(bits.iter().sum::<f64>().abs() < 0.1, "{bits:?}");
        assert!(more(&key(0), &key(9999)).abs() < 0.01, "a filter of all keys has what is usual");
        for cut in [500, 2500, 7000] {
            let (left, right) = (more(&key(0), &key(cut)), more(&key(cut), &key(9999)));
            assert!((left * cut as f64 + right * (9999 - cut) as f64).abs() < 20.0, "{cut}: {left} {right}");
        }
        // Fewer gets pass in vain than with the same bits everywhere.
        let passed = |bits: &dyn Fn(usize) -> f64| {
            (0..10).map(|i| share(i) * (-(10.0 + bits(i)) * LN2_SQUARED).exp()).sum::<f64>()
        };
        let (alike, by_heat) = (passed(&|_| 0.0), passed(&|i| bits[i]));
        assert!(by_heat < 0.5 * alike, "{by_heat} instead of {alike}");
    }

    #[test]
    fn bits_stay_within_their_span() {
        for span in [0.5, 2.0] {
            let profile = profile(span);
            for (from, to) in tables() {
                let more = profile.more_bits(&from, &to);
                assert!(more.abs() <= span + 1e-6, "{more}");
            }
            assert_eq!(profile.more_bits(&key(5), &key(5)), 0.0);
            assert_eq!(profile.more_bits(b"\xff", b"\xff\xff"), 0.0, "nobody knows of these");
        }
    }

    #[test]
    fn nothing_is_told_where_nothing_is_asked() {
        let (from, to) = (key(0), key(9));
        let table = |entries| KeySpread { smallest: &from, largest: &to, quantiles: &[], entries };
        assert_eq!(ReadProfile::of([(table(10), 0.0)], 4.0), None);
        assert_eq!(ReadProfile::of([(table(10), f64::NAN)], 4.0), None);
        assert_eq!(ReadProfile::of([(table(0), 1.0)], 4.0), None);
        assert_eq!(ReadProfile::of([], 4.0), None);
    }
}
