//! The choosers against their exact probabilities, by Pearson's chi-square at a significance of one in ten thousand.
//!
//! Seeds are fixed, so a test passes or fails for good; five of them, so that one that passes by luck is no proof.

use std::collections::BTreeMap;

use super::*;

const DRAWS: u64 = 200_000;

/// Pearson's statistic of `counts` against `shares`, which sum to 1, and its degrees of freedom. Neighbours are taken
/// together until ten are expected in each.
fn chi_square(counts: &[u64], shares: &[f64]) -> (f64, f64) {
    let draws = counts.iter().sum::<u64>() as f64;
    let sum: f64 = shares.iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "the shares sum to {sum}");
    let (mut chi, mut bins) = (0.0, 0.0);
    let (mut seen, mut expected, mut left) = (0.0, 0.0, draws);
    for (count, share) in counts.iter().zip(shares) {
        seen += *count as f64;
        expected += share * draws;
        if expected >= 10.0 && left - expected >= 10.0 {
            chi += (seen - expected).powi(2) / expected;
            bins += 1.0;
            left -= expected;
            (seen, expected) = (0.0, 0.0);
        }
    }
    if expected > 0.0 {
        chi += (seen - expected).powi(2) / expected;
        bins += 1.0;
    }
    (chi, bins - 1.0)
}

/// The value that chi-square with `freedom` degrees exceeds about once in 10 000 (Wilson and Hilferty).
fn limit(freedom: f64) -> f64 {
    let t = 2.0 / (9.0 * freedom);
    freedom * (1.0 - t + 3.719 * t.sqrt()).powi(3)
}

/// Holds a chooser over `records` records to `shares`, for five seeds.
fn check(distribution: Distribution, shares: &[f64]) {
    let records = shares.len() as u64;
    for seed in 0..5 {
        let turns = AtomicU64::new(0);
        let mut chooser = Chooser::new(distribution, records, 0, &turns);
        let mut random = Random::new(seed);
        let mut counts = vec![0; shares.len()];
        for _ in 0..DRAWS {
            counts[chooser.draw(&mut random, records) as usize] += 1;
        }
        let (chi, freedom) = chi_square(&counts, shares);
        assert!(
            chi < limit(freedom),
            "{distribution:?}, seed {seed}: {chi} with {freedom} degrees of freedom"
        );
    }
}

/// The shares that a continuous distribution gives to the pieces between `bound(0)`, `bound(1)` … `bound(n)`.
fn pieces(n: usize, below: impl Fn(f64) -> f64) -> Vec<f64> {
    let (low, high) = (below(0.0), below(n as f64));
    (0..n).map(|i| (below(i as f64 + 1.0) - below(i as f64)) / (high - low)).collect()
}

/// The test itself: a chooser that gives one record of a hundred a quarter too much is caught.
#[test]
fn the_test_has_teeth() {
    let mut random = Random::new(1);
    let mut counts = vec![0u64; 100];
    for _ in 0..DRAWS {
        counts[random.below(100) as usize] += 1;
    }
    let shares = vec![0.01; 100];
    let (chi, freedom) = chi_square(&counts, &shares);
    assert!(freedom == 99.0 && chi < limit(freedom), "{chi}");
    counts[7] += 500;
    assert!(chi_square(&counts, &shares).0 > limit(freedom));
    // The limit against a table: 99.99 % of 10, 100 and 1000 degrees of freedom.
    for (freedom, table) in [(10.0, 35.56), (100.0, 161.3), (1000.0, 1175.3)] {
        assert!((limit(freedom) / table - 1.0).abs() < 0.02, "{freedom}: {}", limit(freedom));
    }
}

#[test]
fn uniform_is_uniform() {
    check(Distribution::Uniform, &vec![0.001; 1000]);
}

/// YCSB's zipfian is Gray's method over ten billion items, folded by the hash. The first two million are folded one by one;
/// what is left, 40 % over almost ten billion, is even over the records to one in a thousand.
#[test]
fn scrambled_zipfian_is_the_zipfian_folded_by_the_hash() {
    let (records, first) = (1000, 2_000_000);
    let zipfian = Zipfian::to_scramble();
    let mut shares = vec![(1.0 - zipfian.below(first)) / (records + 1) as f64; records as usize + 1];
    for item in 0..first {
        shares[(fnv64(item) % (records + 1)) as usize] += zipfian.below(item + 1) - zipfian.below(item);
    }
    // YCSB scrambles over one record more than there are, and draws again when it is chosen.
    shares.pop();
    let there: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= there);
    let hottest = shares.iter().copied().fold(0.0, f64::max);
    assert!(hottest > 0.037, "the hottest record has 1 / 26.47 of all, and more: {hottest}");
    check(Distribution::Zipfian, &shares);
}

#[test]
fn latest_is_a_zipfian_from_the_newest_down() {
    let zipfian = Zipfian::new(1000);
    let shares: Vec<f64> =
        (0..1000).rev().map(|item| zipfian.below(item + 1) - zipfian.below(item)).collect();
    check(Distribution::Latest, &shares);
}

/// Gray's method against the ideal it approximates: the head is exact, each decade of the tail is within 5 %.
#[test]
fn the_zipfian_is_nearly_a_power_law() {
    let zipfian = Zipfian::new(1000);
    let ideal =
        |item: u64| crate::workloads::zipfian::zeta(0, item) / crate::workloads::zipfian::zeta(0, 1000);
    for item in [1, 2] {
        assert!((zipfian.below(item) / ideal(item) - 1.0).abs() < 0.01, "{item}");
    }
    for (from, to) in [(10, 100), (100, 1000)] {
        let off = (zipfian.below(to) - zipfian.below(from)) / (ideal(to) - ideal(from)) - 1.0;
        assert!(off.abs() < 0.05, "{from} to {to}: {off}");
    }
}

#[test]
fn hotspot_has_two_even_parts() {
    for (records, operations) in [(0.2, 0.8), (0.01, 1.0), (0.5, 0.1)] {
        let hot = (1000.0 * records) as usize;
        let mut shares = vec![operations / hot as f64; hot];
        shares.resize(1000, (1.0 - operations) / (1000 - hot) as f64);
        check(Distribution::Hotspot { records, operations }, &shares);
    }
}

#[test]
fn exponential_falls_from_the_newest_down() {
    let (records, operations) = (0.2, 0.95);
    let mean = 1000.0 * records / -f64::ln(1.0 - operations);
    let mut shares = pieces(1000, |x| 1.0 - (-x / mean).exp());
    // What its parameters say: the newest fifth gets 95 %.
    let newest: f64 = shares[..200].iter().sum();
    assert!((newest - 0.95).abs() < 1e-6, "{newest}");
    shares.reverse();
    check(Distribution::Exponential { records, operations }, &shares);
}

#[test]
fn normal_is_a_bell_cut_at_the_ends() {
    // Abramowitz and Stegun 7.1.26: off by 1.5e-7 at most.
    fn erf(x: f64) -> f64 {
        let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
        let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
        let sum = series.iter().fold(0.0, |sum, c| (sum + c) * t);
        x.signum() * (1.0 - sum * (-x * x).exp())
    }
    for (mean, deviation) in [(0.5, 0.34), (0.3, 0.05)] {
        // A number is rounded to a record, so a record's piece is around it.
        let below =
            |x: f64| (1.0 + erf((x - 0.5 - 1000.0 * mean) / (1000.0 * deviation * 2f64.sqrt()))) / 2.0;
        check(Distribution::Normal { mean, deviation }, &pieces(1000, below));
    }
}

#[test]
fn beta_has_its_closed_form() {
    // For whole parameters a beta is an order statistic, so its distribution is a binomial sum.
    let below = |x: f64| {
        let x = x / 1000.0;
        1.0 - (1.0 - x).powi(6) - 6.0 * x * (1.0 - x).powi(5)
    };
    check(Distribution::Beta { alpha: 2.0, beta: 5.0 }, &pieces(1000, below));
    // Below 1 by the other branch: one half and one half is the arcsine's.
    let arcsine = |x: f64| (x / 1000.0).sqrt().asin() * 2.0 / std::f64::consts::PI;
    check(Distribution::Beta { alpha: 0.5, beta: 0.5 }, &pieces(1000, arcsine));
}

#[test]
fn special_is_sysbench_s() {
    let draws: Vec<u64> = {
        let turns = AtomicU64::new(0);
        let special = Distribution::Special { records: 0.01, operations: 0.75 };
        let mut chooser = Chooser::new(special, 100_001, 0, &turns);
        let mut random = Random::new(3);
        (0..DRAWS).map(|_| chooser.draw(&mut random, 100_001)).collect()
    };
    // The hot hundredth lies in the middle, and sysbench leaves its first quarter out.
    let hot = draws.iter().filter(|r| (49_750..=50_501).contains(*r)).count() as u64;
    let others = draws.len() as u64 - hot;
    // A bell of twelve evens has a deviation of a twelfth of the range: 3.6 % of it fall here.
    let share = 0.75 + 0.25 * 0.0359;
    let (chi, freedom) = chi_square(&[hot, others], &[share, 1.0 - share]);
    assert!(chi < limit(freedom), "{hot} are hot: {chi}");
    let even: Vec<u64> =
        draws.into_iter().filter(|r| (49_750..50_500).contains(r)).map(|r| (r - 49_750) / 75).collect();
    let counts: BTreeMap<u64, u64> = even.iter().fold(BTreeMap::new(), |mut counts, bin| {
        *counts.entry(*bin).or_default() += 1;
        counts
    });
    let (chi, freedom) = chi_square(&counts.into_values().collect::<Vec<_>>(), &[0.1; 10]);
    assert!(chi < limit(freedom), "{chi}");
}

#[test]
fn sequential_takes_turns_across_threads() {
    let turns = AtomicU64::new(0);
    let mut choosers = [0, 1].map(|_| Chooser::new(Distribution::Sequential, 3, 0, &turns));
    let mut random = Random::new(1);
    let drawn: Vec<u64> = (0..8).map(|i| choosers[i % 2].draw(&mut random, 3)).collect();
    assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0, 1]);
}

#[test]
fn records_to_come_are_not_chosen_before_they_are_there() {
    for distribution in Distribution::ALL.map(|(_, d)| d) {
        let mut random = Random::new(6);
        let turns = AtomicU64::new(0);
        let mut chooser = Chooser::new(distribution, 10, 100, &turns);
        let drawn: Vec<u64> = (0..2000).map(|_| chooser.draw(&mut random, 10)).collect();
        assert!(drawn.iter().all(|&r| r < 10), "{distribution:?}");
        assert!((0..1000).map(|_| chooser.draw(&mut random, 200)).any(|r| r >= 10), "{distribution:?}");
        assert_eq!(chooser.draw(&mut random, 0), 0, "{distribution:?}");
    }
}

#[test]
fn names_are_found_again() {
    for (name, distribution) in Distribution::ALL {
        assert_eq!((Distribution::find(name), distribution.name()), (Some(distribution), name));
    }
    assert_eq!(Distribution::Hotspot { records: 0.5, operations: 0.5 }.name(), "hotspot");
    assert_eq!(Distribution::find("gaussian"), None);
}
