//! Load traces in, rates out.

use super::*;
use crate::scheduler::client_use::ClientUse;
use crate::scheduler::estimator::{Estimator, Usage};

const MB: u64 = 1_000_000;
const T: u64 = 200 * MB;

fn leftover() -> Budget {
    Budget::Leftover {
        epsilon: Rate::OfDevice(SILK_EPSILON),
        floor: Rate::OfDevice(SILK_FLOOR),
        min_change: Rate::OfDevice(SILK_MIN_CHANGE),
    }
}

/// Client MB a second, interval by interval of 10 ms, in; the rate in MB a second after each of them out.
fn trace(rates: &[u64]) -> (Vec<u64>, BudgetState) {
    let (mut state, mut clients, mut now) = (BudgetState::default(), ClientUse::default(), Duration::ZERO);
    let (mut used, mut out, every) = (Usage::default(), Vec::new(), Duration::from_millis(10));
    for rate in [0].iter().chain(rates) {
        used.client_read_bytes += rate * MB / 100;
        let is_over = clients.look(&Estimator::Device, now, &used, every);
        let sample = Sample { now, device: Some(T), ..Sample::default() };
        state.look(&leftover(), is_over, clients.counts_as(every), &sample);
        out.push(state.rate.unwrap() / MB);
        now += every;
    }
    (out.split_off(1), state)
}

/// A step from nothing to 60 % of the device.
#[test]
fn a_step_of_load_is_followed_within_three_intervals() {
    let (rates, state) = trace(&[0, 0, 120, 120, 120, 120]);
    assert_eq!(rates, [190, 190, 70, 70, 70, 70]);
    assert_eq!(state.changes, 1);
    // Down again it counts by the mean of three.
    let (rates, _) = trace(&[120, 120, 120, 0, 0, 0, 0]);
    assert_eq!(rates, [70, 70, 70, 110, 150, 190, 190]);
}

/// A moment in which few requests end leaves no room for work; one in which many do counts at once.
#[test]
fn an_uneven_load_counts_by_its_upper_side() {
    let load: Vec<u64> = (0..300).map(|i| [100, 60, 140, 80, 120][i % 5]).collect();
    let (rates, _) = trace(&load);
    let mean = rates[3..].iter().sum::<u64>() / (rates.len() as u64 - 3);
    assert!((65..85).contains(&mean), "{mean}, and T - C - epsilon is 90");
}

/// The limiter is left alone while the load varies by less than it takes.
#[test]
fn small_changes_change_nothing() {
    let load: Vec<u64> = (0..300).map(|i| 100 + [0, 9, 3, 7, 1, 8][i % 6]).collect();
    let (rates, state) = trace(&load);
    assert!(rates[1..].iter().all(|rate| *rate == rates[1]), "{rates:?}");
    assert_eq!(state.changes, 1, "the first look at a busy client, and none after it");
    let (_, state) = trace(&[100, 110, 120, 130, 140]);
    assert_eq!(state.changes, 5, "a change of the least size is made each time");
    let (_, state) = trace(&[100, 110, 100, 110, 100]);
    assert_eq!(state.changes, 2, "up and down again is a change upwards");
}

#[test]
fn the_floor_holds_however_much_clients_use() {
    let (rates, _) = trace(&[199, 200, 400, 10_000, 0, 0, 0]);
    assert_eq!(rates, [50, 50, 50, 50, 50, 50, 190]);
}

#[test]
fn without_a_known_device_there_is_no_limit() {
    let mut state = BudgetState::default();
    let on = |device| Sample { device, ..Sample::default() };
    for budget in
        [leftover(), Budget::Fixed(Rate::OfDevice(0.5)), Budget::AutoTuned { max: Rate::OfDevice(1.0) }]
    {
        state.look(&budget, true, 0.0, &on(None));
        assert_eq!(state.rate, None, "{budget:?}");
    }
    state.look(&Budget::Fixed(Rate::OfDevice(0.5)), false, 0.0, &on(Some(T)));
    assert_eq!(state.rate, Some(T / 2));
}

/// RocksDB's `Tune`: share of refills used up in, rate out.
#[test]
fn the_auto_tuned_limiter_goes_up_and_down_by_a_twentieth() {
    let (mut state, mut now, mut drains) = (BudgetState::default(), Duration::ZERO, 0);
    let budget = Budget::AutoTuned { max: Rate::Bytes(T) };
    let mut look = |used_up: u64| {
        drains += used_up;
        state.look(&budget, false, 0.0, &Sample { now, drains, ..Sample::default() });
        now += TUNE_EVERY;
        state.rate.unwrap() / MB
    };
    assert_eq!(look(0), 100);
    let rates: Vec<u64> = [95, 95, 70, 30, 0, 100].into_iter().map(&mut look).collect();
    assert_eq!(rates, [105, 110, 110, 105, 10, 10]);
    let rates: Vec<u64> = (0..100).map(|_| look(100)).collect();
    assert_eq!(rates.last(), Some(&200), "never above its maximum");
}

#[test]
fn rates_that_stop_everything_are_refused() {
    let bad = [
        Budget::Fixed(Rate::Bytes(0)),
        Budget::Fixed(Rate::Bytes(1023)),
        Budget::Fixed(Rate::OfDevice(0.0)),
        Budget::AutoTuned { max: Rate::Bytes(0) },
        Budget::Leftover {
            epsilon: Rate::OfDevice(0.0),
            floor: Rate::OfDevice(0.0),
            min_change: Rate::Bytes(0),
        },
        Budget::Leftover {
            epsilon: Rate::OfDevice(0.0),
            floor: Rate::Bytes(T + 1),
            min_change: Rate::Bytes(0),
        },
        Budget::Leftover { epsilon: Rate::OfDevice(1.5), floor: Rate::Bytes(MB), min_change: Rate::Bytes(0) },
    ];
    for budget in bad {
        assert_eq!(budget.check(Some(T)).unwrap_err().kind(), "InvalidArgument", "{budget:?}");
    }
    assert!(leftover().check(None).is_ok() && Budget::Fixed(Rate::Bytes(1024)).check(None).is_ok());
}

/// Between the floor and what epsilon leaves there has to be something, and no change may be too small for it.
#[test]
fn rates_that_could_never_change_are_refused() {
    let part = Rate::OfDevice;
    let cases = [
        (part(0.05), part(0.25), part(0.69), true),
        (part(0.05), part(0.25), part(0.71), false),
        (part(0.75), part(0.25), part(0.05), false),
        (part(0.8), part(0.25), part(0.05), false),
        // All of it, whatever clients do.
        (part(0.05), part(1.0), part(0.05), true),
        // What bytes come to changes with what is known of the device, and a store is to be opened all the same; it is told.
        (Rate::Bytes(160 * MB), Rate::Bytes(50 * MB), part(0.05), true),
        (part(0.05), part(0.25), Rate::Bytes(160 * MB), true),
    ];
    for (epsilon, floor, min_change, makes_sense) in cases {
        let budget = Budget::Leftover { epsilon, floor, min_change };
        for device in [None, Some(T)] {
            assert_eq!(budget.check(device).is_ok(), makes_sense, "{budget:?}");
        }
    }
}
