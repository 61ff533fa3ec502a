//! Admission without a store: arithmetic, and writers simulated beside a drain on a clock that only the test moves.

use super::*;
use crate::base::random::Random;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn pressure(debt: u64) -> Pressure {
    Pressure {
        debt,
        slack: 128 * MIB,
        relief: 64 * MIB,
        room: Some((512 * MIB).saturating_sub(debt)),
        drain: Some(5e7),
        step: None,
    }
}

#[test]
fn below_half_the_slack_there_is_no_limit_and_at_the_balance_it_is_the_drain() {
    assert_eq!(pressure(64 * MIB - 1).aim(), None);
    // As much room as bytes to relief: both run out together at the rate of the drain.
    assert_eq!(pressure(64 * MIB).aim(), Some(5e7));
    assert_eq!(Pressure::default().aim(), None, "nothing written, nothing held up");
}

#[test]
fn the_limit_falls_with_the_debt_and_is_never_zero() {
    let mut random = Random::new(7);
    for _ in 0..2000 {
        let base = Pressure {
            debt: random.below(1 << 34),
            slack: random.below(1 << 32),
            relief: random.below(1 << 32),
            room: (random.below(2) == 0).then(|| random.below(1 << 33)),
            drain: (random.below(4) > 0).then(|| random.below(1 << 31) as f64),
            step: None,
        };
        let more = Pressure {
            debt: base.debt + random.below(1 << 32),
            room: base.room.map(|room| room.saturating_sub(random.below(1 << 32))),
            ..base
        };
        if let Some(limit) = base.aim() {
            assert!(limit >= LIMIT_MIN, "{base:?}");
            assert!(more.aim().is_some_and(|less| less <= limit && less >= LIMIT_MIN), "{base:?} {more:?}");
            assert!(base.begin().is_some_and(|begin| begin >= LIMIT_MIN), "{base:?}");
        }
    }
}

/// Whatever is measured, two limits within a second are at most twofold apart: the promise of the slope.
#[test]
fn a_limit_changes_at_most_twofold_within_a_second() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut limit, mut now) = (Limit::default(), Duration::ZERO);
        let mut seen: Vec<(Duration, f64)> = Vec::new();
        for _ in 0..3000 {
            now += Duration::from_micros(random.below(40_000));
            let wild = Pressure {
                debt: random.below(200 * MIB),
                slack: 128 * MIB,
                relief: random.below(64 * MIB),
                room: Some(random.below(512 * MIB)),
                drain: (random.below(3) > 0).then(|| random.below(1 << 30) as f64),
                step: None,
            };
            limit.steer(now, &[wild]);
            let Some(rate) = limit.get() else { continue };
            assert!(rate >= LIMIT_MIN);
            for (then, before) in seen.iter().rev().take_while(|(then, _)| now - *then <= SECOND) {
                let fold = (now - *then).as_secs_f64().exp2() * 1.000_001;
                assert!(rate <= before * fold && before / fold <= rate, "seed {seed}: {before} then {rate}");
            }
            seen.push((now, rate));
        }
    }
}

/// Who asks for the time and is stopped before he steers comes with an old one. The second that has been used is not used again.
#[test]
fn a_late_steer_and_a_late_drain_turn_no_time_back() {
    let at = |debt: u64, drain: f64| Pressure {
        debt: debt * MIB,
        slack: 128 * MIB,
        relief: 64 * MIB,
        room: None,
        drain: Some(drain),
        step: None,
    };
    let mut limit = Limit::default();
    limit.steer(10 * SECOND, &[at(100, 1e8)]);
    let before = limit.get().unwrap();
    for i in 0..10 {
        limit.steer(9 * SECOND, &[at(127, 1e3)]);
        limit.steer(10 * SECOND + Duration::from_millis(i), &[at(127, 1e3)]);
    }
    let after = limit.get().unwrap();
    assert!(after > before * 0.99, "{before} then {after}, 9 ms later");

    let mut drain = Drain::new(4 * SECOND);
    drain.set_busy(SECOND, true);
    drain.drained(SECOND, 1.0);
    drain.drained(2 * SECOND, 1e6);
    let rate = drain.rate(2 * SECOND).unwrap();
    drain.drained(SECOND, 0.0);
    drain.drained(2 * SECOND, 0.0);
    assert_eq!(drain.rate(2 * SECOND), Some(rate));
    drain.set_busy(2 * SECOND, false);
    drain.set_busy(SECOND, true);
    drain.drained(2 * SECOND, 0.0);
    assert_eq!(drain.rate(2 * SECOND), Some(rate));
}

#[test]
fn time_in_which_a_plan_has_it_wait_is_no_measure_of_a_drain() {
    let mut drain = Drain::new(20 * SECOND);
    drain.set_busy(Duration::ZERO, true);
    drain.drained(Duration::ZERO, 1.0);
    drain.drained(SECOND, 1e6);
    let about_a_million = |drain: &Drain, at: u32| {
        let rate = drain.rate(at * SECOND).unwrap();
        assert!((rate / 1e6 - 1.0).abs() < 0.01, "{rate} after {at} s");
    };
    assert!(!drain.hold(SECOND, true));
    // Who writes sees that there is something to drain, and not that it waits.
    drain.set_busy(5 * SECOND, true);
    about_a_million(&drain, 9);
    assert!(drain.hold(9 * SECOND, false));
    drain.set_busy(9 * SECOND, true);
    drain.drained(10 * SECOND, 1e6);
    about_a_million(&drain, 10);
    assert!(drain.rate(20 * SECOND).unwrap() < 0.5e6, "and what nobody has wait counts");
}

#[test]
fn the_drain_is_what_was_measured_lately_pauses_included() {
    let mut drain = Drain::new(Duration::from_secs(4));
    // What went before there was anything to drain took no time that anybody knows of.
    drain.drained(SECOND / 2, 1e12);
    assert_eq!(drain.rate(SECOND), None);
    let mut hanging = drain;
    hanging.set_busy(SECOND, true);
    assert_eq!((hanging.rate(3 * SECOND / 2), hanging.rate(2 * SECOND)), (None, Some(0.0)));
    drain.set_busy(SECOND, true);
    for i in 1..=100 {
        drain.drained(SECOND + SECOND / 100 * i, 1e6);
    }
    let rate = drain.rate(2 * SECOND).unwrap();
    assert!((0.9e8..1.1e8).contains(&rate), "{rate}");
    // It hangs: the rate falls with the time.
    assert!(drain.rate(3 * SECOND).unwrap() < 0.6 * rate);
    drain.set_busy(2 * SECOND, false);
    // Nothing to drain is no sign of slowness.
    assert!((drain.rate(9 * SECOND).unwrap() - rate).abs() < rate * 0.01);
}

/// A lane that has just been woken makes a file and has hardly had a turn: a limit made of that would rise from there by no more
/// than twofold a second.
#[test]
fn the_time_until_the_first_byte_is_no_measure_of_a_drain() {
    let mut drain = Drain::new(4 * SECOND);
    drain.set_busy(SECOND, true);
    let at = |ms| SECOND + Duration::from_millis(ms);
    drain.drained(at(20), 1e5);
    assert_eq!(drain.rate(at(20)), None);
    drain.drained(at(40), 2e6);
    let rate = drain.rate(at(40)).unwrap();
    assert!(
        !drain.is_sure(at(40)) && !drain.is_sure(at(119)) && drain.is_sure(at(120)),
        "a tenth of a second is enough"
    );
    assert!((1e8..1.1e8).contains(&rate), "{rate}");
    // Later it is: each flush has it, and writers wait for it.
    drain.set_busy(at(40), false);
    drain.set_busy(at(100), true);
    drain.drained(at(120), 1e5);
    assert!(drain.rate(at(120)).unwrap() < 0.6 * rate);
    drain.drained(at(121), 3e6);
    assert!(drain.is_sure(at(121)), "and so are four megabytes");
}

/// Writers beside a flush lane, on a clock of its own: what `db` does with threads.
struct World {
    now: Duration,
    limit: Limit,
    turnstile: Turnstile,
    drain: Drain,
    /// Bytes per second that the lane really does.
    real_drain: f64,
    active: u64,
    immutable: Vec<u64>,
    flushed: f64,
    memtable: u64,
    memory: u64,
    /// The limit when waiting writers were last woken before their time.
    told: Option<f64>,
}

/// What came of a run.
#[derive(Debug, Default)]
struct Outcome {
    longest_wait: Duration,
    asks: u64,
    waited: u64,
    writes: u64,
    most_bytes: u64,
    limits: Vec<f64>,
}

impl World {
    fn new(memtable: u64, memory: u64, real_drain: f64) -> World {
        World {
            now: Duration::ZERO,
            limit: Limit::default(),
            turnstile: Turnstile::default(),
            drain: Drain::new(Duration::from_secs(4)),
            real_drain,
            active: 0,
            immutable: Vec::new(),
            flushed: 0.0,
            memtable,
            memory,
            told: None,
        }
    }

    fn bytes(&self) -> u64 {
        self.active + self.immutable.iter().sum::<u64>()
    }

    fn advance(&mut self, to: Duration) {
        while self.now < to {
            let step = (to - self.now).min(Duration::from_millis(1));
            self.now += step;
            self.drain.set_busy(self.now - step, !self.immutable.is_empty());
            if let Some(oldest) = self.immutable.last().copied() {
                let moved = self.real_drain * step.as_secs_f64();
                self.drain.drained(self.now, moved.min(oldest as f64 - self.flushed));
                self.flushed += moved;
                if self.flushed >= oldest as f64 {
                    self.immutable.pop();
                    self.flushed = 0.0;
                }
            }
            self.sample();
        }
    }

    fn sample(&mut self) {
        let debt = self.bytes();
        let being = self.immutable.last().map_or(0, |m| m - self.flushed.min(*m as f64) as u64);
        let pressure = Pressure {
            debt,
            slack: 2 * self.memtable,
            relief: being,
            room: Some(self.memory.saturating_sub(debt)),
            drain: self
                .drain
                .rate(self.now)
                .filter(|_| self.drain.is_sure(self.now) || Pressure::is_short(debt, 2 * self.memtable)),
            step: None,
        };
        self.limit.steer(self.now, &[pressure]);
        self.turnstile.set_limit(self.now, self.limit.get());
    }

    /// `threads` writers, each writing `bytes` again and again, 1 µs apart, until `end`.
    fn run(&mut self, threads: usize, bytes: u64, end: Duration) -> Outcome {
        let mut outcome = Outcome::default();
        // Each writer: when it acts, since when it has waited, and its place.
        let mut writers = vec![(self.now, self.now, None::<Place>); threads];
        let mut second = self.now + SECOND;
        while self.now < end {
            let Some(next) = (0..threads).min_by_key(|i| writers[*i].0) else { return outcome };
            let (when, since, place) = writers[next];
            self.advance(when);
            if wakes(self.told, self.limit.get()) {
                self.told = self.limit.get();
                writers.iter_mut().filter(|w| w.2.is_some()).for_each(|w| w.0 = self.now);
            }
            outcome.asks += 1;
            let asked = match place {
                None => self.turnstile.enter(self.now, bytes),
                Some(place) => self.turnstile.ask(self.now, place).map_err(|when| (place, when)),
            };
            match asked {
                Ok(()) => {
                    outcome.writes += 1;
                    outcome.longest_wait = outcome.longest_wait.max(self.now.saturating_sub(since));
                    self.active += bytes;
                    if self.active >= self.memtable {
                        self.immutable.insert(0, std::mem::take(&mut self.active));
                    }
                    let next_write = self.now + Duration::from_micros(1);
                    writers[next] = (next_write, next_write, None);
                }
                Err((new, when)) => {
                    outcome.waited += u64::from(place.is_none());
                    writers[next] = (when, since, Some(new));
                }
            }
            outcome.most_bytes = outcome.most_bytes.max(self.bytes());
            while self.now >= second {
                outcome.limits.extend(self.limit.get());
                second += SECOND;
            }
        }
        outcome
    }
}

#[test]
fn a_fill_far_faster_than_the_drain_is_slowed_to_it_and_never_stopped() {
    // A gigabyte a second asked for, 20 MB/s drained.
    let mut world = World::new(16 * MIB, 128 * MIB, 2e7);
    let outcome = world.run(4, 256, Duration::from_secs(20));
    let admitted = outcome.writes as f64 * 256.0 / 20.0;
    assert!((1.9e7..2.5e7).contains(&admitted), "{admitted} bytes a second of 20 MB");
    assert!(outcome.longest_wait < Duration::from_millis(10), "{outcome:?}");
    assert!(outcome.most_bytes <= 3 * 16 * MIB, "{outcome:?}");
    let steps = outcome.limits.windows(2).map(|w| (w[0] / w[1]).max(w[1] / w[0]));
    assert!(outcome.limits.len() >= 15 && steps.fold(1.0, f64::max) <= 2.0, "{:?}", outcome.limits);
}

/// Writers wait once, for a moment that was computed: nobody looks again and again.
#[test]
fn a_write_asks_a_few_times_at_most() {
    let mut world = World::new(16 * MIB, 128 * MIB, 2e7);
    let outcome = world.run(8, 1024, Duration::from_secs(5));
    assert!(outcome.waited > 1000, "{outcome:?}");
    // One ask each, and one after each wait; a limit that falls meanwhile may cost another.
    assert!(outcome.asks - outcome.writes <= 2 * outcome.waited, "{outcome:?}");
}

/// The drain hangs for good: what is still let in halves the room each second, and never fills it.
#[test]
fn memory_holds_even_if_nothing_drains() {
    let mut world = World::new(16 * MIB, 64 * MIB, 2e7);
    world.run(4, 1024, Duration::from_secs(3));
    world.real_drain = 0.0;
    let outcome = world.run(4, 1024, Duration::from_secs(120));
    assert!(outcome.most_bytes <= 64 * MIB, "{outcome:?}");
    assert!(world.limit.get().unwrap() >= LIMIT_MIN);
    // And when it goes on, so do they.
    world.real_drain = 2e7;
    let outcome = world.run(4, 1024, Duration::from_secs(150));
    assert!(outcome.writes as f64 * 1024.0 > 1e7, "{outcome:?}");
}

#[test]
fn turns_come_in_order_and_a_limit_that_goes_lets_all_go() {
    let mut gate = Turnstile::default();
    assert_eq!(gate.enter(SECOND, 1 << 30), Ok(()));
    gate.set_limit(SECOND, Some(2000.0));
    assert_eq!(gate.enter(SECOND, 1000), Ok(()), "one may run ahead");
    let (first, when) = gate.enter(SECOND, 1000).unwrap_err();
    let (second, later) = gate.enter(SECOND, 1000).unwrap_err();
    assert!(when > SECOND * 3 / 2 - SECOND / 100 && when < later);
    assert!(gate.ask(when, first).is_ok() && gate.ask(when, second).is_err());
    gate.set_limit(when, None);
    assert!(gate.ask(when, second).is_ok());
    // What was not used is not saved up.
    gate.set_limit(when, Some(2000.0));
    assert_eq!(gate.enter(when + 60 * SECOND, 1000), Ok(()));
    assert!(gate.enter(when + 60 * SECOND, 1000).is_err());
}

/// RocksDB's slowdown and stop: a rate from half the slack on, and nearly nothing where it is gone, at once; a slope after it begins anew.
#[test]
fn steps_are_no_slope() {
    let at = |debt: u64| Pressure { step: Some(16 * MIB), ..pressure(debt * MIB) };
    let rate = (16 * MIB) as f64;
    for (debt, aim) in
        [(63, None), (64, Some(rate)), (127, Some(rate)), (128, Some(LIMIT_MIN)), (900, Some(LIMIT_MIN))]
    {
        assert_eq!((at(debt).aim(), at(debt).begin()), (aim, aim), "{debt}");
    }
    let mut limit = Limit::default();
    for (debt, expected) in [(64, Some(rate)), (128, Some(LIMIT_MIN)), (100, Some(rate)), (10, None)] {
        limit.steer(SECOND, &[at(debt)]);
        assert_eq!(limit.get(), expected, "{debt}");
    }
    limit.steer(SECOND, &[pressure(70 * MIB)]);
    assert!(limit.get().unwrap() > 4e7, "{limit:?}");
    // The stricter of the two counts.
    limit.steer(SECOND, &[pressure(70 * MIB), at(130)]);
    assert_eq!(limit.get(), Some(LIMIT_MIN));
}
