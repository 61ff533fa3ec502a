//! The distributions against their formulas, by chi-square. Seeds are fixed, so a test passes or fails for good.

use super::*;

const DRAWS: u64 = 200_000;

/// Pearson's statistic of `counts` against `expected` shares.
fn chi_square(counts: &[u64], shares: &[f64]) -> f64 {
    let draws: u64 = counts.iter().sum();
    counts
        .iter()
        .zip(shares)
        .map(|(&count, share)| {
            let expected = share * draws as f64;
            (count as f64 - expected).powi(2) / expected
        })
        .sum()
}

/// The value that chi-square with `freedom` degrees exceeds about once in 10 000 (Wilson and Hilferty).
fn limit(freedom: f64) -> f64 {
    let t = 2.0 / (9.0 * freedom);
    freedom * (1.0 - t + 3.719 * t.sqrt()).powi(3)
}

fn zipf_shares(items: u64) -> Vec<f64> {
    let total = zeta(0, items);
    (0..items).map(|i| zeta(i, i + 1) / total).collect()
}

#[test]
fn uniform_is_uniform() {
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let mut chooser = Chooser::new(Distribution::Uniform, 1000, 0);
        let mut counts = vec![0; 1000];
        for _ in 0..DRAWS {
            counts[chooser.draw(&mut random, 1000) as usize] += 1;
        }
        let chi = chi_square(&counts, &vec![0.001; 1000]);
        assert!(chi < limit(999.0), "seed {seed}: {chi}");
    }
}

#[test]
fn zipfian_has_its_head_exactly_and_its_tail_nearly() {
    // Gray's method draws items 0 and 1 exactly and approximates the rest by an integral, so the head is held to
    // chi-square (items 0, 1 and everything else) and each decade of the tail to 5 %.
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let zipfian = Zipfian::new(1000);
        let mut counts = vec![0u64; 1000];
        for _ in 0..DRAWS {
            counts[zipfian.draw(&mut random) as usize] += 1;
        }
        let shares = zipf_shares(1000);
        let rest = |from: usize| (counts[from..].iter().sum::<u64>(), shares[from..].iter().sum::<f64>());
        let chi = chi_square(&[counts[0], counts[1], rest(2).0], &[shares[0], shares[1], rest(2).1]);
        assert!(chi < limit(2.0), "seed {seed}: {chi}");
        for decade in [10..100, 100..1000] {
            let seen = counts[decade.clone()].iter().sum::<u64>() as f64 / DRAWS as f64;
            let share: f64 = shares[decade.clone()].iter().sum();
            assert!((seen / share - 1.0).abs() < 0.05, "seed {seed} {decade:?}: {seen} for {share}");
        }
    }
}

#[test]
fn growing_equals_starting_larger() {
    let mut grown = Zipfian::new(100);
    grown.grow(5000);
    grown.grow(50);
    let fresh = Zipfian::new(5000);
    let (mut a, mut b) = (Random::new(3), Random::new(3));
    for _ in 0..10_000 {
        assert_eq!(grown.draw(&mut a), fresh.draw(&mut b));
    }
}

#[test]
fn latest_prefers_the_newest() {
    let mut random = Random::new(4);
    let mut chooser = Chooser::new(Distribution::Latest, 100, 0);
    let shares = zipf_shares(1000);
    let mut newest = 0u64;
    for _ in 0..DRAWS {
        let record = chooser.draw(&mut random, 1000);
        assert!(record < 1000);
        newest += u64::from(record == 999);
    }
    let chi = chi_square(&[newest, DRAWS - newest], &[shares[0], 1.0 - shares[0]]);
    assert!(chi < limit(1.0), "{chi}");
}

#[test]
fn scrambled_is_as_skewed_but_spread_out() {
    let mut random = Random::new(5);
    let mut chooser = Chooser::new(Distribution::Zipfian, 10_000, 0);
    let mut counts = vec![0u64; 10_000];
    for _ in 0..DRAWS {
        counts[chooser.draw(&mut random, 10_000) as usize] += 1;
    }
    let hottest = (0..10_000).max_by_key(|&i| counts[i]).unwrap();
    assert_eq!(hottest as u64, fnv64(0) % 10_000);
    // The hottest item has 1 / zeta of the draws, and its share of what collides with it.
    let share = 1.0 / SCRAMBLED_ZETA;
    let seen = counts[hottest] as f64 / DRAWS as f64;
    assert!((seen / share - 1.0).abs() < 0.05, "{seen} for {share}");
    let left = counts[..5000].iter().sum::<u64>() as f64 / DRAWS as f64;
    assert!((0.3..0.7).contains(&left), "{left}");
}

#[test]
fn records_to_come_are_not_chosen_before_they_are_there() {
    for distribution in Distribution::ALL.map(|(_, d)| d) {
        let mut random = Random::new(6);
        let mut chooser = Chooser::new(distribution, 10, 100);
        let drawn: Vec<u64> = (0..2000).map(|_| chooser.draw(&mut random, 10)).collect();
        assert!(drawn.iter().all(|&r| r < 10), "{distribution:?}");
        assert!((0..1000).map(|_| chooser.draw(&mut random, 200)).any(|r| r >= 10), "{distribution:?}");
        assert_eq!(chooser.draw(&mut random, 0), 0, "{distribution:?}");
    }
}

#[test]
fn the_hash_is_ycsb_s() {
    // Utils.fnvhash64 of YCSB, worked out by hand for 0: the offset basis times the prime, eight times.
    let by_hand = (0..8).fold(0xCBF2_9CE4_8422_2325_u64, |h, _| h.wrapping_mul(1_099_511_628_211));
    assert_eq!(fnv64(0), (by_hand as i64).unsigned_abs());
    assert_eq!(fnv64(0), 6_284_781_860_667_377_211);
}
