//! Every schedule as a table: loads in, directives out, on a clock that the test moves.

use std::time::Duration;

use super::*;
use crate::scheduler::catalog::parse;
use crate::scheduler::estimator::Usage;
use crate::scheduler::gates::L0Backlog;

const MB: u64 = 1_000_000;
const T: u64 = 350 * MB;

/// A schedule under a manual clock: loads go in, what it says comes out.
struct Bench {
    policy: SchedulingPolicy,
    state: State,
    sample: Sample,
    backlog: Backlog,
    last_job: u64,
}

impl Bench {
    fn new(schedule: &str) -> Bench {
        let mut bench = Bench {
            policy: parse(schedule).unwrap(),
            state: State::default(),
            sample: Sample { device: Some(T), ..Sample::default() },
            backlog: Backlog {
                workers: 2,
                l0: vec![(KeyspaceId(0), L0Backlog::default())],
                ..Backlog::default()
            },
            last_job: 0,
        };
        bench.decide();
        bench
    }

    /// A second in which clients use so many MB, by every estimator.
    fn second(&mut self, mb: u64) -> Directive {
        self.pass(Duration::from_secs(1), mb)
    }

    fn pass(&mut self, time: Duration, mb: u64) -> Directive {
        let bytes = mb * MB * time.as_millis() as u64 / 1000;
        self.sample.now += time;
        let used = &mut self.sample.used;
        used.gets += 1;
        used.get_bytes += bytes;
        used.cache_fill_bytes += bytes;
        used.cache_fill_bytes_on_disk += bytes;
        used.client_read_bytes += bytes;
        self.decide()
    }

    fn high(&mut self) -> Directive {
        self.second(340)
    }

    fn low(&mut self) -> Directive {
        (0..3).map(|_| self.second(1)).last().unwrap()
    }

    fn decide(&mut self) -> Directive {
        let (state, directive) = decide(&self.policy, self.state.clone(), &self.sample, &self.backlog);
        self.state = state;
        for job in &mut self.backlog.open {
            job.paused = directive.why_aside(job.id).is_some();
        }
        directive
    }

    fn open(&mut self, class: Class) -> JobId {
        self.last_job += 1;
        let id = JobId(self.last_job);
        let (opened_at, below_l0) = (self.sample.now, false);
        let keyspace = KeyspaceId(0);
        let job = OpenJob { id, keyspace, class, paused: false, read: 0, left: 1, opened_at, below_l0 };
        self.backlog.open.push(job);
        self.backlog.l0[0].1.jobs += u32::from(class.is_l0());
        id
    }

    fn close(&mut self, id: JobId) {
        let job = self.backlog.open.iter().position(|job| job.id == id).unwrap();
        let job = self.backlog.open.remove(job);
        self.backlog.l0[0].1.jobs -= u32::from(job.class.is_l0());
    }

    /// Twenty flushed runs beside outputs of so many parts, and the job that is due; also answers what may start then.
    fn part(&mut self, before: u32) -> String {
        self.l0(20 + before, 20);
        let due = may(&self.high());
        let job = self.open(Class::IntraL0);
        self.high();
        self.close(job);
        self.l0(before + 1, 0);
        self.high();
        due
    }

    fn l0(&mut self, runs: u32, flush_born: u32) {
        let l0 = &mut self.backlog.l0[0].1;
        (l0.runs, l0.flush_born) = (runs, flush_born);
        (l0.bytes, l0.flush_born_bytes) = (u64::from(runs) * MB, u64::from(flush_born) * MB);
    }
}

fn may(directive: &Directive) -> String {
    let permit = directive.permit_for(KeyspaceId(0));
    let l0 = match permit.l0 {
        L0Permit::Full => "",
        L0Permit::IntraOnly { flush_born: false } => " within",
        L0Permit::IntraOnly { flush_born: true } => " flushed",
    };
    permit.classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ") + l0
}

fn mb(directive: &Directive) -> Option<u64> {
    directive.plan.rate.map(|rate| rate / MB)
}

/// Every preset: what may start at low load and at high load, and at which rate.
#[test]
fn every_schedule_under_low_and_high_load() {
    let all = "flush intra-l0 l0-to-l1 deep upkeep";
    let table = [
        ("unlimited", all, None, all, None),
        ("fixed:10MB", all, Some(10), all, Some(10)),
        ("fixed:50%", all, Some(175), all, Some(175)),
        ("autotuned", all, Some(175), all, Some(175)),
        ("silk", all, Some(331), "flush intra-l0 l0-to-l1", Some(87)),
        ("silk-bandwidth", all, Some(331), all, Some(87)),
        ("silk-priority", all, None, all, None),
        ("silk-star", all, Some(331), "flush intra-l0 l0-to-l1", Some(87)),
        ("silk-artifact", all, Some(349), "flush intra-l0 l0-to-l1", Some(17)),
        ("dlc-full", all, Some(331), "flush deep", Some(87)),
        ("dlc-part", all, Some(331), "flush intra-l0 deep within", Some(87)),
        ("dlc-burst-full", all, Some(331), "flush deep", Some(87)),
        ("dlc-burst-part", all, Some(331), "flush deep", Some(87)),
    ];
    let names: Vec<&str> = crate::scheduler::catalog::CATALOG.iter().map(|(form, _)| *form).collect();
    // A plan's rate does not follow from the load alone: see below.
    for form in names.into_iter().filter(|form| *form != "paced") {
        let name = form.split([':', '[']).next().unwrap();
        assert!(table.iter().any(|row| row.0.split(':').next() == Some(name)), "{name} is not in the table");
    }
    for (name, low, low_rate, high, high_rate) in table {
        let mut bench = Bench::new(name);
        let at_low = bench.low();
        // Nobody there yet, then one MB a second, which is no change worth making.
        let at_first = low_rate.map(|rate| rate + u64::from(low_rate != high_rate));
        assert_eq!((may(&at_low), mb(&at_low)), (low.to_owned(), at_first), "{name}, low");
        let at_high = bench.high();
        assert_eq!((may(&at_high), mb(&at_high)), (high.to_owned(), high_rate), "{name}, high");
        let again = bench.low();
        assert_eq!((may(&again), mb(&again)), (low.to_owned(), low_rate), "{name}, low again");
        assert_eq!(
            bench.policy.needs_device(),
            !matches!(name, "unlimited" | "fixed:10MB" | "silk-priority")
        );
    }
}

/// A plan holds nothing back, at any load; how fast it goes follows from what is due, and by when (`plan_tests.rs`).
#[test]
fn a_plan_decides_how_fast_and_never_what() {
    let mut bench = Bench::new("paced");
    let all = "flush intra-l0 l0-to-l1 deep upkeep";
    for directive in [bench.low(), bench.high(), bench.low()] {
        assert_eq!(may(&directive), all);
    }
    bench.high();
    let (deep, idle) = (bench.open(Class::Deep), bench.open(Class::Upkeep));
    bench.backlog.open[0].left = 3000 * MB;
    let directive = bench.high();
    // Thirty seconds for it, of which one is over, or what is left at the least.
    assert_eq!(mb(&directive), Some(17), "{directive:?}");
    bench.backlog.open[0].left = 200 * MB;
    assert_eq!(mb(&bench.high()), Some(15));
    let directive = bench.decide();
    assert!(directive.plan.due_of(deep) <= directive.plan.due_of(idle) && directive.aside.is_empty());
    // Places are one more than workers: what is left over makes room for L0, and then what has most left.
    bench.open(Class::L0ToL1);
    assert!(bench.high().aside.is_empty());
    bench.open(Class::Deep);
    assert_eq!(bench.high().aside, [(idle, Aside::Place)]);
    bench.close(idle);
    bench.open(Class::Deep);
    assert_eq!(bench.high().aside, [(deep, Aside::Place)]);
    assert!(bench.policy.wants_device() && !bench.policy.needs_device());
}

#[test]
fn an_l0_job_starts_beside_any_number_of_deep_ones() {
    assert_eq!(permitted(&[], 1), Class::ALL);
    assert_eq!(permitted(&[Class::Deep], 1), [Class::Flush, Class::IntraL0, Class::L0ToL1]);
    assert_eq!(permitted(&[Class::Deep, Class::L0ToL1], 2), [Class::Flush, Class::IntraL0, Class::L0ToL1]);
    // So many are opened by hand alone.
    assert_eq!(permitted(&[Class::Upkeep; OPEN_JOBS_MAX], 64), [Class::IntraL0, Class::L0ToL1]);
    assert_eq!(permitted(&[Class::L0ToL1; OPEN_JOBS_MAX], 64), []);
    for schedule in ["unlimited", "silk", "silk-priority", "silk-artifact", "dlc-full"] {
        let mut bench = Bench::new(schedule);
        bench.open(Class::Deep);
        bench.open(Class::Deep);
        bench.open(Class::Upkeep);
        assert!(may(&bench.low()).starts_with("flush intra-l0 l0-to-l1"), "{schedule}");
    }
    // As many deep ones as there can be leave a place for it, also while they are paused.
    for schedule in ["silk:jobs=8", "silk-artifact:jobs=8", "dlc-burst-full:jobs=8"] {
        let mut bench = Bench::new(schedule);
        let mut deep = 0;
        while bench.low().classes.contains(&Class::Deep) {
            deep += 1;
            bench.open(Class::Deep);
        }
        assert_eq!(deep, OPEN_JOBS_MAX - 1, "{schedule}");
        bench.l0(20, 20);
        assert!(may(&bench.high()).starts_with("flush intra-l0 l0-to-l1"), "{schedule}");
    }
    assert_eq!(permitted(&[Class::Deep; OPEN_JOBS_MAX - 1], OPEN_JOBS_MAX), Class::ALL[..3]);
    // Without priorities it waits for a place.
    let mut bench = Bench::new("silk-bandwidth:jobs=2");
    bench.open(Class::Deep);
    let second = bench.open(Class::Deep);
    assert_eq!(may(&bench.low()), "flush");
    bench.close(second);
    assert_eq!(may(&bench.low()), "flush intra-l0 l0-to-l1 deep upkeep");
    // What is paused for the load has none: L0 would wait for the load too.
    let mut bench = Bench::new("silk:victim=none,jobs=2");
    bench.open(Class::Deep);
    bench.open(Class::Deep);
    assert_eq!(may(&bench.low()), "flush");
    assert_eq!(may(&bench.high()), "flush intra-l0 l0-to-l1");
}

/// One is set aside for it, stays so, and has its place back afterwards.
#[test]
fn an_l0_job_takes_the_place_of_a_deep_one() {
    let mut bench = Bench::new("silk:jobs=2");
    let deep = [bench.open(Class::Deep), bench.open(Class::Deep)];
    assert_eq!(bench.low().aside, []);
    let l0 = bench.open(Class::L0ToL1);
    let aside = bench.low().aside;
    assert!(matches!(aside[..], [(id, Aside::Place)] if deep.contains(&id)), "{aside:?}");
    assert_eq!(bench.low().aside, aside, "it is the same one as long as it lasts");
    bench.close(l0);
    assert_eq!(bench.low().aside, []);
    for (victim, expected) in [("youngest", 1), ("least-progress", 0), ("largest-remaining", 0)] {
        let mut bench = Bench::new(&format!("silk:jobs=2,victim={victim}"));
        let deep = [bench.open(Class::Deep), bench.open(Class::Deep)];
        (bench.backlog.open[0].left, bench.backlog.open[1].read) = (100, 50);
        bench.open(Class::L0ToL1);
        assert_eq!(bench.low().aside, [(deep[expected], Aside::Place)], "{victim}");
    }
}

/// At high load all deep jobs are set aside and none of L0.
#[test]
fn silk_pauses_the_pool_and_never_l0() {
    let mut bench = Bench::new("silk");
    let l0 = bench.open(Class::L0ToL1);
    let deep = [bench.open(Class::Deep), bench.open(Class::Upkeep)];
    let high = bench.high();
    assert_eq!(high.aside, deep.map(|id| (id, Aside::Gate)));
    assert_eq!((high.why_aside(l0), high.let_go.len()), (None, 0));
    assert_eq!(bench.low().why_aside(deep[0]), None);
    // Whoever waits for compactions does not wait for the load.
    bench.high();
    bench.backlog.waited_for = true;
    assert_eq!(bench.decide().why_aside(deep[0]), None);
}

/// Of the clock: an interval is ten milliseconds.
#[test]
fn silk_follows_a_step_of_load_within_three_intervals() {
    let mut bench = Bench::new("silk");
    bench.pass(Duration::from_millis(10), 0);
    let rates: Vec<_> = (0..3).map(|_| mb(&bench.pass(Duration::from_millis(10), 210))).collect();
    assert_eq!(rates.last(), Some(&Some(122)), "{rates:?}");
}

/// What clients leave is for flushes and compactions together.
#[test]
fn a_flush_has_half_of_the_rate_beside_a_compaction() {
    let mut bench = Bench::new("silk");
    let of_flushes = |directive: &Directive| directive.plan.flush_rate.map(|rate| rate / MB);
    let low = bench.second(100);
    assert_eq!((mb(&low), of_flushes(&low)), (Some(232), Some(232)));
    let deep = bench.open(Class::Deep);
    assert_eq!(of_flushes(&bench.second(100)), Some(116));
    // One that is set aside takes nothing.
    assert_eq!(of_flushes(&bench.high()), Some(87));
    bench.close(deep);
    bench.open(Class::L0ToL1);
    assert_eq!(of_flushes(&bench.high()), Some(43));
    for other in ["unlimited", "fixed:25%", "autotuned", "silk-priority"] {
        let mut bench = Bench::new(other);
        bench.open(Class::L0ToL1);
        assert_eq!(of_flushes(&bench.high()), None, "{other}");
    }
}

/// While a flush takes the device clients seem to use little; that is no low load.
#[test]
fn a_dip_during_a_flush_opens_no_gate() {
    let mut bench = Bench::new("dlc-full");
    bench.high();
    for mb in [100, 50, 320, 90, 90, 310] {
        assert_eq!(may(&bench.second(mb)), "flush deep", "{mb} MB");
    }
}

/// What runs when the load rises commits what it has and lets go, where it may not have started.
#[test]
fn work_in_l0_lets_go_when_the_load_rises() {
    for (schedule, class, lets_go) in [
        ("dlc-full", Class::L0ToL1, true),
        ("dlc-full", Class::IntraL0, true),
        ("dlc-part", Class::L0ToL1, true),
        ("dlc-part", Class::IntraL0, false),
        ("silk", Class::L0ToL1, false),
        ("unlimited", Class::L0ToL1, false),
    ] {
        let mut bench = Bench::new(schedule);
        let job = bench.open(class);
        assert_eq!(bench.low().let_go, []);
        let expected = if lets_go { vec![job] } else { Vec::new() };
        assert_eq!(bench.high().let_go, expected, "{schedule}, {class}");
    }
}

#[test]
fn at_high_load_one_deep_job_goes_on() {
    let mut bench = Bench::new("dlc-full");
    let deep = [bench.open(Class::Deep), bench.open(Class::Deep)];
    assert_eq!(bench.low().aside, []);
    let high = bench.high();
    assert_eq!(high.aside, [(deep[1], Aside::Gate)]);
    assert_eq!(may(&high), "flush");
    bench.close(deep[0]);
    assert_eq!(bench.high().aside, [], "the other has its turn");
}

/// In 10 ms a load that is high all the time seems low for a moment: a fall counts when three intervals show it.
#[test]
fn a_short_fall_of_the_load_is_none() {
    let mut bench = Bench::new("silk:low=75%,high=75%");
    let mut loads = String::new();
    for mb in [100, 300, 300, 200, 300, 100] {
        bench.pass(Duration::from_millis(10), mb);
        loads.push(if bench.state.load.load == Load::High { 'H' } else { 'l' });
    }
    assert_eq!(loads, "lHHHHl");
}

#[test]
fn a_clock_that_stands_still_or_jumps_decides_nothing_wrong() {
    let mut bench = Bench::new("dlc-full:estimator=device");
    let mut look = |secs: u64, bytes: u64| {
        bench.sample.now = Duration::from_secs(secs);
        bench.sample.used.client_read_bytes = bytes;
        bench.decide();
        (bench.state.load.load, bench.state.clients.last())
    };
    look(5, 0);
    // No time has passed: no rate can be told.
    assert_eq!(look(5, 900 * MB).0, Load::Low);
    assert_eq!(look(6, 900 * MB).0, Load::High);
    // An hour later a mean of the hour.
    assert_eq!(look(3606, 1260 * MB), (Load::High, 0.1 * MB as f64));
    // Backwards it waits until time is where it was.
    assert_eq!(look(3000, 9000 * MB).0, Load::High);
}

/// Within an interval of low load.
#[test]
fn delayed_work_resumes_with_the_low_sample() {
    let mut bench = Bench::new("dlc-full");
    bench.high();
    assert_eq!(may(&bench.second(1)), "flush deep");
    assert_eq!(may(&bench.second(1)), "flush deep");
    assert_eq!(may(&bench.second(1)), "flush intra-l0 l0-to-l1 deep upkeep");
}

/// A burst brings L0 down, once, from the threshold on.
#[test]
fn a_full_burst_begins_at_the_threshold_and_ends_with_its_job() {
    let mut bench = Bench::new("dlc-burst-full");
    bench.l0(19, 19);
    assert_eq!(may(&bench.high()), "flush deep");
    bench.l0(20, 20);
    assert_eq!(may(&bench.high()), "flush intra-l0 l0-to-l1 deep");
    let job = bench.open(Class::L0ToL1);
    let during = bench.high();
    assert_eq!((may(&during), during.let_go.len()), ("flush deep".to_owned(), 0));
    bench.close(job);
    bench.l0(1, 1);
    assert_eq!(may(&bench.high()), "flush deep");
    assert_eq!(bench.state.bursts.begun, [0, 1]);
    // As long as there are too many, one burst follows the other.
    bench.l0(23, 23);
    bench.high();
    let job = bench.open(Class::L0ToL1);
    bench.high();
    bench.close(job);
    assert_eq!(may(&bench.high()), "flush intra-l0 l0-to-l1 deep");
    assert_eq!(bench.state.bursts.begun, [0, 3]);
    // Low load ends it.
    assert_eq!(may(&bench.low()), "flush intra-l0 l0-to-l1 deep upkeep");
    assert_eq!(bench.state.bursts.under_way().count(), 0);
}

/// A burst is told once, when it begins, whatever others do.
#[test]
fn bursts_are_told_when_they_begin() {
    let mut bench = Bench::new("dlc-burst-full");
    let l0 = |runs| L0Backlog { runs, flush_born: runs, ..L0Backlog::default() };
    let mut begun = |first, second| {
        bench.backlog.l0 = vec![(KeyspaceId(0), l0(first)), (KeyspaceId(1), l0(second))];
        bench.high();
        bench.state.bursts.begun_now.clone()
    };
    assert_eq!(begun(20, 3), [(KeyspaceId(0), Phase::Full)]);
    assert_eq!(begun(21, 3), []);
    assert_eq!(begun(22, 20), [(KeyspaceId(1), Phase::Full)]);
    assert_eq!(begun(22, 21), []);
}

/// Four parts, which count flushed runs alone, then all.
#[test]
fn after_four_parts_comes_a_full_burst() {
    let mut bench = Bench::new("dlc-burst-part");
    let mut phases = Vec::new();
    for round in 0..10 {
        // Outputs of the parts before are runs, and do not count.
        let (before, after) = (round % 5, (round + 1) % 5);
        bench.l0(20 + before, 20);
        let due = bench.high();
        phases.push(may(&due));
        let job = bench.open(Class::IntraL0);
        assert_eq!(may(&bench.high()).trim_end_matches(" flushed"), "flush deep", "one at a time");
        bench.close(job);
        bench.l0(after, 0);
        assert_eq!(may(&bench.high()), "flush deep");
        bench.l0(19 + after, 19);
        assert_eq!(may(&bench.high()), "flush deep", "outputs count in no threshold");
    }
    let part = "flush intra-l0 deep flushed";
    let full = "flush intra-l0 l0-to-l1 deep";
    assert_eq!(phases, [part, part, part, part, full, part, part, part, part, full]);
    assert_eq!(bench.state.bursts.begun, [8, 2]);
}

/// A merge of L0 into L1 that runs when the load rises lets go of the runs that a part is to merge: it is none itself.
#[test]
fn a_part_is_no_job_that_ran_before() {
    let mut bench = Bench::new("dlc-burst-part");
    bench.l0(24, 24);
    let down = bench.open(Class::L0ToL1);
    bench.low();
    let high = bench.high();
    assert_eq!((may(&high), &high.let_go[..]), ("flush deep".to_owned(), &[down][..]));
    assert_eq!(bench.state.bursts.begun, [0, 0]);
    bench.close(down);
    assert_eq!(may(&bench.high()), "flush intra-l0 deep flushed");
    assert_eq!(bench.state.bursts.begun, [1, 0]);
    // Where one is opened all the same, by who has looked just before, it lets go.
    let down = bench.open(Class::L0ToL1);
    assert_eq!(bench.high().let_go, [down]);
    bench.close(down);
    // A full burst goes on with what is there.
    let mut bench = Bench::new("dlc-burst-full");
    bench.l0(24, 24);
    bench.open(Class::L0ToL1);
    bench.low();
    assert_eq!(bench.high().let_go, []);
    assert_eq!(bench.state.bursts.begun, [0, 1]);
}

/// Four parts are between two times that L0 is brought down, by whatever it is.
#[test]
fn parts_are_counted_from_when_l0_was_brought_down() {
    let mut bench = Bench::new("dlc-burst-part");
    let (some, all) = ("flush intra-l0 deep flushed", "flush intra-l0 l0-to-l1 deep");
    assert_eq!([0, 1, 2].map(|before| bench.part(before)), [some; 3]);
    // Writers were slowed for it, say.
    bench.l0(1, 1);
    bench.high();
    assert_eq!([0, 1, 2, 3, 4].map(|before| bench.part(before)), [some, some, some, some, all]);
}

/// What parts have written is in no threshold, so it must not be forgotten while it is there.
#[test]
fn parts_count_on_after_a_rest_that_did_not_bring_l0_down() {
    let mut bench = Bench::new("dlc-burst-part");
    let (some, all) = ("flush intra-l0 deep flushed", "flush intra-l0 l0-to-l1 deep");
    assert_eq!([0, 1].map(|before| bench.part(before)), [some; 2]);
    bench.low();
    assert_eq!([2, 3, 4].map(|before| bench.part(before)), [some, some, all]);
    // One that did.
    assert_eq!([0, 1].map(|before| bench.part(before)), [some; 2]);
    bench.l0(1, 1);
    bench.low();
    assert_eq!([0, 1, 2, 3, 4].map(|before| bench.part(before)), [some, some, some, some, all]);
}

/// By count, by bytes, or whichever comes first.
#[test]
fn bursts_begin_by_count_or_by_bytes() {
    for (knobs, runs, flush_born, begins) in [
        ("full:burst-runs=5", 4, 4, false),
        ("full:burst-runs=5", 5, 5, true),
        ("full:burst-runs=0,burst-bytes=6000000", 5, 5, false),
        ("full:burst-runs=0,burst-bytes=6000000", 6, 2, true),
        ("full:burst-runs=9,burst-bytes=6000000", 6, 6, true),
        // Of parts, what they have written counts in neither.
        ("part:burst-runs=5", 9, 4, false),
        ("part:burst-runs=5", 9, 5, true),
        ("part:burst-runs=0,burst-bytes=6000000", 9, 5, false),
        ("part:burst-runs=0,burst-bytes=6000000", 9, 6, true),
    ] {
        let mut bench = Bench::new(&format!("dlc-burst-{knobs}"));
        bench.l0(runs, flush_born);
        bench.high();
        assert_eq!(bench.state.bursts.under_way().count() == 1, begins, "{knobs}, {runs} runs, {flush_born}");
    }
}

#[test]
fn a_burst_of_one_keyspace_is_none_of_another() {
    let mut bench = Bench::new("dlc-burst-full");
    bench.backlog.l0.push((KeyspaceId(1), L0Backlog { runs: 21, ..L0Backlog::default() }));
    let high = bench.high();
    assert_eq!(may(&high), "flush deep");
    assert!(high.permit_for(KeyspaceId(1)).allows(Class::L0ToL1));
}

/// Writers are not slowed for what is delayed to keep them fast: there L0 goes down, one job at a time, and nowhere else.
#[test]
fn where_l0_slows_writers_no_gate_keeps_it() {
    for (schedule, elsewhere) in [
        ("dlc-full", "flush deep"),
        ("dlc-part", "flush intra-l0 deep within"),
        ("dlc-burst-part", "flush deep"),
    ] {
        let mut bench = Bench::new(schedule);
        bench.backlog.slowed = vec![KeyspaceId(0)];
        let free = "flush intra-l0 l0-to-l1 deep";
        assert_eq!(may(&bench.low()), format!("{free} upkeep"), "{schedule}");
        bench.l0(20, 20);
        let high = bench.high();
        assert_eq!(may(&high), free, "{schedule}");
        assert!(!high.permit_for(KeyspaceId(1)).allows(Class::L0ToL1), "{schedule}");
        let job = bench.open(Class::L0ToL1);
        let during = bench.high();
        assert_eq!((may(&during), during.let_go.len()), ("flush deep".to_owned(), 0), "{schedule}");
        bench.close(job);
        bench.backlog.slowed.clear();
        bench.l0(5, 5);
        bench.high();
        assert_eq!(may(&bench.high()), elsewhere, "{schedule}");
        assert_eq!(bench.state.bursts.begun, [0, 0], "{schedule}: what goes down is no part");
    }
}

/// Time that jumps, forward or not at all, and counters that begin anew.
#[test]
fn odd_samples_do_no_harm() {
    for (form, _) in crate::scheduler::catalog::CATALOG {
        let name = form.split(['[']).next().unwrap().replace("RATE", "10MB");
        let mut bench = Bench::new(&name);
        bench.high();
        for _ in 0..5 {
            bench.decide();
        }
        bench.pass(Duration::from_secs(1 << 30), 0);
        bench.sample.used = Usage::default();
        let directive = bench.pass(Duration::from_secs(1), 0);
        assert!(directive.plan.rate.is_none_or(|rate| rate >= 1024), "{name}");
        assert!(directive.classes.contains(&Class::Flush), "{name}");
    }
}

/// What a gate keeps is delayed on purpose, and no longer where writers are slowed for it.
#[test]
fn a_gate_keeps_l0_until_writers_are_slowed_for_it() {
    let table = [("dlc-full", true), ("dlc-part", true), ("silk", false), ("unlimited", false)];
    for (schedule, is_gated) in table {
        let mut bench = Bench::new(schedule);
        let gates = |directive: &Directive| directive.gates(KeyspaceId(0), Class::L0ToL1);
        assert!(!gates(&bench.low()), "{schedule}");
        assert_eq!(gates(&bench.high()), is_gated, "{schedule}");
        bench.backlog.slowed = vec![KeyspaceId(0)];
        assert!(!gates(&bench.high()), "{schedule}");
    }
}
