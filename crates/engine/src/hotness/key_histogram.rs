//! φ, what a model knows of a table: how many of its keys lie in each of e intervals of the key space (LTG §III.B).
//!
//! A table is described by its keys at equal depths, so that φ over any intervals follows without reading the table again. Between
//! two keys of a description, the entries are taken to lie evenly: both are read as numbers, from where they begin to differ.
//!
//! ```text
//! description   user…a ─────── 1/4 ── 2/4 ─────────── 3/4 ── user…z      entries below a key: along this line
//! intervals         │    φ₁   │       φ₂       │   φ₃   │                sum of φ = entries
//! ```
//!
//! The paper's intervals have the same width. Keys of text use few of the bytes that there are, so most such intervals are
//! empty; intervals of equal depth hold about as many keys each.

use std::borrow::Cow;

/// Where a table's keys lie.
#[derive(Clone, Copy, Debug)]
pub struct KeySpread<'a> {
    /// The smallest key.
    pub smallest: &'a [u8],
    /// The largest key.
    pub largest: &'a [u8],
    /// Ascending: of n keys, the i-th from 0 has (i + 1) / (n + 1) of the entries below it. May be cut, to nothing even.
    pub quantiles: &'a [Box<[u8]>],
    /// Entries.
    pub entries: u64,
}

/// How the key space is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Intervals of the same width, as numbers (LTG §III.B).
    Width,
    /// Intervals with about the same number of entries.
    #[default]
    Depth,
}

/// Intervals of the key space. They cover all of it: the first has no beginning, the last no end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// Where one ends and the next begins, strictly ascending.
    bounds: Vec<Box<[u8]>>,
}

impl Intervals {
    /// At most `count` intervals, at least one, over the keys of these tables.
    pub fn over(spacing: Spacing, count: usize, tables: &[KeySpread<'_>]) -> Intervals {
        let bounds = match spacing {
            Spacing::Width => bounds_of_equal_width(count, tables),
            Spacing::Depth => bounds_of_equal_depth(count, tables),
        };
        Intervals { bounds }
    }

    /// Between these bounds, unless they do not ascend.
    pub fn between(bounds: Vec<Box<[u8]>>) -> Option<Intervals> {
        bounds.is_sorted_by(|a, b| a < b).then_some(Intervals { bounds })
    }

    /// Where intervals meet, ascending; one less than there are intervals.
    pub fn bounds(&self) -> &[Box<[u8]>] {
        &self.bounds
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// φ: the table's entries in each interval, estimated.
    pub fn histogram(&self, table: &KeySpread<'_>) -> Vec<f64> {
        let curve = Curve::of(table);
        let entries = table.entries as f64;
        let below = self.bounds.iter().map(|bound| entries * curve.share_below(bound)).chain([entries]);
        let mut before = 0.0;
        below.map(|below| below - std::mem::replace(&mut before, below)).collect()
    }

    /// The part of all these tables' entries that lies in the fullest interval; 0 without entries.
    pub fn fullest(&self, tables: &[KeySpread<'_>]) -> f64 {
        let mut sums = vec![0.0; self.count()];
        for table in tables {
            sums.iter_mut().zip(self.histogram(table)).for_each(|(sum, entries)| *sum += entries);
        }
        let all: f64 = sums.iter().sum();
        if all > 0.0 { sums.into_iter().fold(0.0, f64::max) / all } else { 0.0 }
    }
}

/// The share of a table's entries below a key, as a line through what is known.
struct Curve<'a> {
    /// Keys, strictly ascending, with the share of the entries below each. The last is the largest key, with all.
    points: Vec<(Cow<'a, [u8]>, f64)>,
}

impl<'a> Curve<'a> {
    /// Keys that were cut to what they share with the smallest say nothing and are left out, as are all but the first that were
    /// cut alike.
    fn of(table: &KeySpread<'a>) -> Curve<'a> {
        let mut points = vec![(Cow::Borrowed(table.smallest), 0.0)];
        let parts = (table.quantiles.len() + 1) as f64;
        for (i, key) in table.quantiles.iter().enumerate() {
            let rises = points.last().is_none_or(|(last, _)| **key > **last);
            if rises && **key < *table.largest {
                points.push((Cow::Borrowed(key), (i + 1) as f64 / parts));
            }
        }
        points.push((Cow::Borrowed(table.largest), 1.0));
        Curve { points }
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

    /// Its keys, each with half the share between it and either neighbour.
    fn weights(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let share = |i: usize| self.points.get(i).map_or(1.0, |(_, share)| *share);
        let weigh = move |i: usize| (share(i + 1) - share(i.saturating_sub(1))) / 2.0;
        self.points.iter().enumerate().map(move |(i, (key, _))| (&**key, weigh(i)))
    }
}

/// How far `key` is from `lo` to `hi`, from 0 to 1: as numbers, from where `lo` and `hi` begin to differ.
pub(super) fn fraction(lo: &[u8], hi: &[u8], key: &[u8]) -> f64 {
    let shared = shared_prefix(lo, hi);
    let [lo, hi, key] = [lo, hi, key].map(|key| number(key.get(shared..).unwrap_or_default()));
    if hi <= lo {
        return 0.5;
    }
    key.clamp(lo, hi).abs_diff(lo) as f64 / (hi - lo) as f64
}

/// The first eight bytes as a number, zeros for those that are missing.
fn number(key: &[u8]) -> u64 {
    key.iter().chain(std::iter::repeat(&0)).take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn bounds_of_equal_width(count: usize, tables: &[KeySpread<'_>]) -> Vec<Box<[u8]>> {
    let lo = tables.iter().map(|t| t.smallest).min().unwrap_or_default();
    let hi = tables.iter().map(|t| t.largest).max().unwrap_or_default();
    let (shared, rest) = lo.split_at(shared_prefix(lo, hi));
    let from = number(rest);
    let width = number(hi.get(shared.len()..).unwrap_or_default()).saturating_sub(from);
    let at = |i: usize| from + (u128::from(width) * i as u128 / count.max(1) as u128) as u64;
    let mut numbers: Vec<u64> = (1..count).map(at).filter(|number| *number > from).collect();
    numbers.dedup();
    numbers.iter().map(|number| [shared, &number.to_be_bytes()[..]].concat().into()).collect()
}

fn bounds_of_equal_depth(count: usize, tables: &[KeySpread<'_>]) -> Vec<Box<[u8]>> {
    let curves: Vec<(Curve<'_>, u64)> = tables.iter().map(|t| (Curve::of(t), t.entries)).collect();
    let weighed = |(curve, entries): &'_ (Curve<'_>, u64)| -> Vec<(Box<[u8]>, f64)> {
        curve.weights().map(|(key, weight)| (key.into(), weight * *entries as f64)).collect()
    };
    let mut keys: Vec<(Box<[u8]>, f64)> = curves.iter().flat_map(weighed).collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    let all: f64 = keys.iter().map(|(_, weight)| weight).sum();
    let Some(first) = keys.first().map(|(key, _)| key.clone()) else { return Vec::new() };
    let mut bounds: Vec<Box<[u8]>> = Vec::new();
    let (mut below, mut wanted) = (0.0, 1.0);
    for (key, weight) in keys {
        below += weight;
        let is_new = key > *bounds.last().unwrap_or(&first);
        if wanted < count as f64 && is_new && below * count as f64 >= wanted * all {
            wanted = (below * count as f64 / all).floor() + 1.0;
            bounds.push(key);
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table with these keys, described by as many quantiles, cut to so many bytes.
    struct Table {
        keys: Vec<Vec<u8>>,
        quantiles: Vec<Box<[u8]>>,
    }

    impl Table {
        fn new(mut keys: Vec<Vec<u8>>, quantiles: usize, cut: usize) -> Table {
            keys.sort();
            keys.dedup();
            let at = |i: usize| &keys[keys.len() * (i + 1) / (quantiles + 1)];
            let quantiles = (0..quantiles).map(|i| at(i)[..at(i).len().min(cut)].into()).collect();
            Table { keys, quantiles }
        }

        fn spread(&self) -> KeySpread<'_> {
            KeySpread {
                smallest: &self.keys[0],
                largest: &self.keys[self.keys.len() - 1],
                quantiles: &self.quantiles,
                entries: self.keys.len() as u64,
            }
        }

        /// φ by counting.
        fn counted(&self, intervals: &Intervals) -> Vec<f64> {
            let mut counts = vec![0.0; intervals.count()];
            for key in &self.keys {
                counts[intervals.bounds().partition_point(|bound| **bound <= **key)] += 1.0;
            }
            counts
        }
    }

    fn key_sets() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let digits = proptest::collection::vec(0..=u64::MAX, 16..400)
            .prop_map(|ns| ns.iter().map(|n| format!("user{:020}", n >> 1).into_bytes()).collect::<Vec<_>>());
        let bytes = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 16..400);
        let clustered = proptest::collection::vec((0..4u64, 0..1000u64), 16..400)
            .prop_map(|ns| ns.iter().map(|(a, b)| (a << 50 | b).to_be_bytes().to_vec()).collect::<Vec<_>>());
        prop_oneof![digits, bytes, clustered]
    }

    proptest! {
        #[test]
        fn the_histogram_is_off_by_no_more_than_the_description(
            keys in key_sets(), others in key_sets(), e in 1usize..80, depth in any::<bool>(),
        ) {
            let (table, other) = (Table::new(keys, 15, 32), Table::new(others, 15, 32));
            let spacing = if depth { Spacing::Depth } else { Spacing::Width };
            let intervals = Intervals::over(spacing, e, &[table.spread(), other.spread()]);
            prop_assert!(intervals.count() <= e);
            prop_assert!(intervals.bounds().is_sorted_by(|a, b| a < b));
            let phi = intervals.histogram(&table.spread());
            prop_assert_eq!(phi.len(), intervals.count());
            prop_assert!((phi.iter().sum::<f64>() - table.keys.len() as f64).abs() < 1e-6);
            // Each end of an interval is known to within what lies between two keys of the description.
            let off = 2.0 * (table.keys.len() as f64 / 16.0 + 2.0);
            for (got, want) in phi.iter().zip(table.counted(&intervals)) {
                prop_assert!(*got >= 0.0 && (got - want).abs() <= off, "{phi:?}");
            }
        }

        #[test]
        fn intervals_of_equal_depth_hold_about_as_many_keys_each(keys in key_sets(), e in 1usize..9) {
            let table = Table::new(keys, 63, 32);
            let intervals = Intervals::over(Spacing::Depth, e, &[table.spread()]);
            let n = table.keys.len() as f64;
            for count in table.counted(&intervals) {
                prop_assert!(count <= n / e as f64 + 2.0 * (n / 64.0 + 2.0), "{count} of {n} in one of {e}");
            }
        }
    }

    /// Paths, URLs and tenants' keys begin alike for longer than a description's keys are.
    #[test]
    fn keys_that_share_a_long_prefix_are_told_apart() {
        let prefix = "tenants/9f8e7d6c-0000-4000-8000-1234567890ab/orders/2026/";
        let keys = |of: std::ops::Range<u32>| of.map(|n| format!("{prefix}{n:06}").into_bytes()).collect();
        let low = Table::new(keys(0..5_000), 15, 32);
        let high = Table::new(keys(5_000..10_000), 15, 32);
        let tables = [low.spread(), high.spread()];
        for (spacing, least) in [(Spacing::Width, 16), (Spacing::Depth, 2)] {
            let intervals = Intervals::over(spacing, 64, &tables);
            assert!(intervals.count() >= least, "{spacing:?}: {}", intervals.count());
            let [a, b] = [&low, &high].map(|table| intervals.histogram(&table.spread()));
            let common: f64 = a.iter().zip(&b).map(|(a, b)| a.min(*b)).sum();
            assert!(common <= 5_000.0 / 8.0, "{spacing:?}: {common} of 5000 entries look the same");
        }
    }

    #[test]
    fn drawn_intervals_count_as_by_hand() {
        let quantiles: Vec<Box<[u8]>> = ["c", "e", "g"].map(|key| key.as_bytes().into()).to_vec();
        let table = KeySpread { smallest: b"a", largest: b"i", quantiles: &quantiles, entries: 80 };
        let over = |bounds: &[&str]| {
            let bounds = bounds.iter().map(|b| b.as_bytes().into()).collect();
            Intervals::between(bounds).unwrap().histogram(&table)
        };
        assert_eq!(over(&["c", "e", "g"]), [20.0; 4]);
        assert_eq!(over(&["b", "h", "x"]), [10.0, 60.0, 10.0, 0.0]);
        assert_eq!(over(&[]), [80.0]);
        assert!(Intervals::between(vec![b"b"[..].into(), b"b"[..].into()]).is_none());
        // A table of one key is in one interval, and none at all makes one interval.
        let one = KeySpread { smallest: b"d", largest: b"d", quantiles: &[], entries: 3 };
        assert_eq!(Intervals::between(vec![b"d"[..].into()]).unwrap().histogram(&one), [0.0, 3.0]);
        for spacing in [Spacing::Width, Spacing::Depth] {
            assert_eq!(Intervals::over(spacing, 64, &[]).count(), 1);
            assert_eq!(Intervals::over(spacing, 64, &[one]).count(), 1);
        }
    }

    #[test]
    fn the_fullest_interval_tells_how_well_intervals_fit() {
        let table = |lo: &'static [u8], hi: &'static [u8]| KeySpread {
            smallest: lo,
            largest: hi,
            quantiles: &[],
            entries: 100,
        };
        let intervals = Intervals::between(vec![b"e"[..].into()]).unwrap();
        assert_eq!(intervals.fullest(&[table(b"a", b"e"), table(b"e", b"i")]), 0.5);
        assert_eq!(intervals.fullest(&[table(b"x", b"y")]), 1.0);
        assert_eq!(intervals.fullest(&[]), 0.0);
    }
}
