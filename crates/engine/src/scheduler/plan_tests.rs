//! Plans from what there is to do and how fast clients write, on a clock that the test moves.

use super::*;
use crate::base::random::Random;
use crate::base::units::SeqNo;

const MB: u64 = 1_000_000;
const DEVICE: u64 = 1000 * MB;
const SLOTS: usize = 2;

/// A tree whose clients write at a rate, and what is to be done in it.
struct Bench {
    state: PlanState,
    sample: Sample,
    backlog: Backlog,
}

impl Bench {
    fn new() -> Bench {
        let tree = TreeBacklog {
            l0_room: 500 * MB,
            l0_room_full: 500 * MB,
            l0_round: 250 * MB,
            l0_due: 100 * MB,
            flush_room_wanted: 1,
            flush_room_needed: 1,
            ..TreeBacklog::default()
        };
        Bench {
            state: PlanState::default(),
            sample: Sample { device: Some(DEVICE), ..Sample::default() },
            backlog: Backlog { workers: 1, trees: vec![tree], ..Backlog::default() },
        }
    }

    /// A plan each 10 ms while clients write so many MB a second.
    fn pass(&mut self, seconds: f64, mb: u64) -> Plan {
        let mut plan = Plan::default();
        for _ in 0..(seconds * 100.0) as u64 {
            self.sample.now += PLAN_EVERY;
            self.backlog.trees[0].ingested += mb * MB / 100;
            self.sample.used.write_bytes += mb * MB / 100;
            self.sample.used.log_bytes += mb * MB / 100;
            plan = self.plan();
        }
        plan
    }

    fn plan(&mut self) -> Plan {
        self.state.plan(HORIZON, PLAN_EVERY, &Estimator::OpBytes, &self.sample, &self.backlog, SLOTS)
    }

    fn tree(&mut self) -> &mut TreeBacklog {
        &mut self.backlog.trees[0]
    }

    fn open(&mut self, class: Class, left: u64, below_l0: bool) -> JobId {
        let id = JobId(self.backlog.open.len() as u64);
        let (keyspace, opened_at) = (KeyspaceId(0), self.sample.now);
        self.backlog.open.push(OpenJob {
            id,
            keyspace,
            class,
            paused: false,
            read: 0,
            left,
            opened_at,
            below_l0,
        });
        id
    }
}

fn mb(rate: Option<u64>) -> f64 {
    rate.map_or(f64::INFINITY, |rate| rate as f64 / MB as f64)
}

fn about(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 0.08, "{got}, not {wanted}");
}

/// 10 MB a second: a round of L0 is 25 s, its room 40 s, and 300 MB to read take 600 of device.
#[test]
fn a_job_of_l0_takes_the_time_until_the_next_one() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    bench.open(Class::L0ToL1, 300 * MB, false);
    let plan = bench.pass(0.1, 10);
    about(mb(plan.rate), 600.0 / 25.0 * MARGIN);
    assert!(!plan.urgent);
    // On time it goes on as it began; the due time stays.
    let due = plan.due[0].1;
    bench.backlog.open[0].left = 180 * MB;
    let plan = bench.pass(10.0, 10);
    about(mb(plan.rate), 600.0 / 25.0 * MARGIN);
    about(plan.due[0].1.as_secs_f64(), due.as_secs_f64());
    // Clients that write ten times as fast need it done ten times as soon, at once.
    let plan = bench.pass(0.2, 100);
    assert!(mb(plan.rate) > 100.0, "{plan:?}");
    // It should be done by now: it has all that clients leave, of the device and of CPU.
    let plan = bench.pass(3.0, 100);
    assert!((680.0..740.0).contains(&mb(plan.rate)) && !plan.urgent, "{plan:?}");
    // It must be done in half a second, or by now: its threads are urgent, and in the end nothing limits it.
    bench.tree().l0_room = 50 * MB;
    let plan = bench.pass(0.1, 100);
    assert!(plan.rate.is_some() && plan.urgent, "{plan:?}");
    bench.tree().l0_room = 0;
    let plan = bench.pass(0.1, 100);
    assert_eq!((plan.rate, plan.urgent), (None, true));
}

#[test]
fn less_room_is_less_time() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    bench.open(Class::L0ToL1, 300 * MB, false);
    bench.tree().l0_room = 100 * MB;
    about(mb(bench.pass(0.1, 10).rate), 600.0 / 10.0 * MARGIN);
    bench.tree().l0_room = 0;
    assert_eq!(bench.pass(0.1, 10).rate, None);
}

#[test]
fn deeper_work_has_the_horizon_and_what_l0_lies_on_until_l0_is_due() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    bench.open(Class::Deep, 300 * MB, false);
    about(mb(bench.pass(0.1, 10).rate), 600.0 / 30.0 * MARGIN);
    bench.backlog.open[0].below_l0 = true;
    about(mb(bench.pass(0.1, 10).rate), 600.0 / 10.0 * MARGIN);
    // The earliest first: both are due, one in 10 s and one in 30 s, and the first needs more alone.
    let later = bench.open(Class::Deep, 300 * MB, false);
    let plan = bench.pass(0.1, 10);
    about(mb(plan.rate), 600.0 / 10.0 * MARGIN);
    assert!(plan.due_of(JobId(0)) < plan.due_of(later));
    // Together they need more than the first alone.
    bench.backlog.open[1].left = 1200 * MB;
    about(mb(bench.pass(0.1, 10).rate), 3000.0 / 30.0 * MARGIN);
    // Deletes have a time.
    bench.tree().ttl = Some(Duration::from_secs(15));
    about(mb(bench.pass(0.1, 10).rate), 3000.0 / 14.5 * MARGIN);
}

/// Tables whose deletes are due have their time before a job has them, and take what that needs, whatever clients use.
#[test]
fn what_expires_is_planned_before_it_has_a_place() {
    let mut bench = Bench::new();
    bench.pass(9.0, 990);
    (bench.tree().expiring, bench.tree().expiring_within) = (6000 * MB, Duration::from_secs(60));
    let plan = bench.pass(0.1, 990);
    about(mb(plan.rate), 100.0 * MARGIN);
    assert!(!plan.urgent);
    bench.tree().expiring_within = Duration::from_secs(10);
    assert!(bench.pass(0.1, 990).urgent);
    bench.tree().expiring_within = Duration::ZERO;
    assert_eq!(bench.pass(0.1, 990).rate, None);
}

/// What is wanted takes what clients leave, and a twentieth at least; what is needed takes that.
#[test]
fn deeper_work_never_takes_what_clients_use() {
    let mut bench = Bench::new();
    bench.pass(9.0, 600);
    bench.tree().deep_pending = 100_000 * MB;
    about(mb(bench.pass(0.1, 600).rate), 200.0);
    bench.pass(5.0, 990);
    about(mb(bench.pass(0.1, 990).rate), 50.0);
    // Of what is needed so that writers are not slowed later it takes the more, the less room there is.
    bench.tree().l0_pending = 100 * MB;
    about(mb(bench.pass(0.1, 990).rate), 50.0);
    for (room, used) in [(250, 0.5_f64), (125, 0.75)] {
        bench.tree().l0_room = room * MB;
        let needed = 100.0 / (room as f64 / 990.0) * MARGIN;
        about(mb(bench.pass(0.1, 990).rate), 50.0 + (needed - 50.0) * used.powi(2));
    }
    // A job is done within four horizons: the less of them is left, the more it takes.
    bench.backlog.trees[0] =
        TreeBacklog { l0_room: 1 << 40, l0_room_full: 1 << 40, ..TreeBacklog::default() };
    bench.open(Class::Deep, 2000 * MB, false);
    about(mb(bench.pass(10.0, 990).rate), 50.0);
    about(mb(bench.pass(50.0, 990).rate), 4000.0 / 60.0 * MARGIN);
    about(mb(bench.pass(40.0, 990).rate), 4000.0 / 20.0 * MARGIN);
}

/// A peak may be over within four horizons. One that was not is not waited for: L0 is done within one then, or by a quarter of the device.
#[test]
fn l0_is_not_kept_for_a_rest_that_never_comes() {
    let mut bench = Bench::new();
    (bench.tree().l0_room, bench.tree().l0_room_full) = (1 << 40, 1 << 40);
    let begun = |bench: &mut Bench, class, left| {
        bench.backlog.open.clear();
        bench.open(class, left * MB, false);
        mb(bench.pass(0.1, 990).rate)
    };
    bench.pass(118.0, 990);
    about(begun(&mut bench, Class::L0ToL1, 1500), 50.0);
    bench.pass(2.0, 990);
    about(begun(&mut bench, Class::L0ToL1, 1500), 3000.0 / 30.0 * MARGIN);
    about(begun(&mut bench, Class::IntraL0, 1500), 3000.0 / 30.0 * MARGIN);
    about(begun(&mut bench, Class::L0ToL1, 6000), 1000.0 * PATIENCE_MOST);
    // Deeper work costs reads nothing, but where L0 waits for it.
    about(begun(&mut bench, Class::Deep, 1500), 50.0);
    bench.backlog.open[0].below_l0 = true;
    about(mb(bench.pass(0.1, 990).rate), 50.0);
    bench.tree().l0_pending = MB;
    about(mb(bench.pass(0.1, 990).rate), 3000.0 / 30.0 * MARGIN);
    bench.tree().l0_pending = 0;
    // Others do not take its time.
    bench.open(Class::Deep, 30_000 * MB, false);
    let l0 = bench.open(Class::L0ToL1, 1500 * MB, false);
    let plan = bench.pass(0.1, 990);
    assert!(plan.due_of(l0) - bench.sample.now < HORIZON, "{plan:?}");
    // After a rest there may be another; a hiccup is none.
    bench.pass(0.5, 0);
    bench.pass(5.0, 990);
    about(begun(&mut bench, Class::L0ToL1, 1500), 3000.0 / 30.0 * MARGIN);
    bench.pass(2.0, 100);
    bench.pass(5.0, 990);
    about(begun(&mut bench, Class::L0ToL1, 1500), 50.0);
}

#[test]
fn what_clients_leave_when_they_do_less_is_used() {
    let mut bench = Bench::new();
    // A load that is uneven is no rest.
    bench.pass(20.0, 200);
    about(mb(bench.pass(2.0, 180).rate), PLAN_RATE_MIN as f64 / MB as f64);
    // Peaks and valleys: the first valley is one already.
    let valley = mb(bench.pass(4.0, 110).rate);
    assert!((250.0..650.0).contains(&valley), "{valley}");
    let rest = mb(bench.pass(12.0, 20).rate);
    assert!(rest > 750.0, "{rest}");
    // They come back: at once there is no more than is needed.
    let plan = bench.pass(0.01, 200);
    assert!(mb(plan.rate) < 100.0 && !plan.rests, "{plan:?}");
}

#[test]
fn a_full_memtable_is_gone_when_its_room_is() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    (bench.tree().flush_left, bench.tree().flush_room_wanted, bench.tree().flush_room_needed) =
        (64 * MB, 16 * MB, 32 * MB);
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 1.6 * MARGIN);
    // Beside clients who leave less than that it has what they leave, at least what it must.
    bench.sample.device = Some(40 * MB);
    about(mb(bench.pass(0.1, 10).flush_rate), 40.0 * (1.0 - KEPT_FREE) - 10.0);
    bench.sample.device = Some(20 * MB);
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 3.2 * MARGIN);
    bench.tree().flush_room_wanted = 0;
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 3.2 * MARGIN);
    bench.tree().flush_room_needed = 0;
    assert_eq!(bench.pass(0.1, 10).flush_rate, None);
    (bench.tree().flush_room_wanted, bench.tree().flush_room_needed) = (16 * MB, 32 * MB);
    bench.backlog.flushes_waited_for = true;
    assert_eq!(bench.pass(0.1, 10).flush_rate, None);
}

/// What clients leave is bytes of files, and a memtable becomes fewer of those: by what was flushed of late, and never slower for it.
#[test]
fn a_memtable_that_packs_well_goes_as_much_faster() {
    let table: [(&[(u64, u64)], f64); 6] = [
        (&[], 1.0),
        (&[(64, 32)], 0.5),
        (&[(64, 80)], 1.0),
        (&[(64, 1)], PACKED_LEAST),
        // Half of the one before counts, and little says little.
        (&[(64, 32), (64, 64)], (16.0 + 64.0) / (32.0 + 64.0)),
        (&[(64, 32), (2, 0)], 16.0 / (32.0 + 2.0)),
    ];
    for (flushes, part) in table {
        let mut bench = Bench::new();
        bench.pass(5.0, 10);
        (bench.tree().flush_left, bench.tree().flush_room_wanted, bench.tree().flush_room_needed) =
            (64 * MB, MB, 320 * MB);
        bench.sample.device = Some(40 * MB);
        for (memtable, tables) in flushes {
            bench.sample.flushed_memtables += memtable * MB;
            bench.sample.flushed_tables += tables * MB;
            bench.pass(0.01, 10);
        }
        about(mb(bench.pass(0.1, 10).flush_rate), (40.0 * (1.0 - KEPT_FREE) - 10.0) / part);
    }
}

/// Memtables become tables in the order of their writes: what lies before one counts, whoseever it is.
#[test]
fn a_memtable_waits_for_those_before_it() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    (bench.tree().flush_left, bench.tree().flush_room_wanted, bench.tree().flush_room_needed) =
        (64 * MB, 16 * MB, 32 * MB);
    bench.tree().flush_order = SeqNo(2);
    bench.backlog.trees.push(TreeBacklog {
        keyspace: KeyspaceId(1),
        flush_left: 100 * MB,
        flush_room_wanted: 1000 * MB,
        flush_room_needed: 2000 * MB,
        flush_order: SeqNo(1),
        ..TreeBacklog::default()
    });
    about(mb(bench.pass(0.1, 10).flush_rate), 164.0 / 1.6 * MARGIN);
    bench.backlog.trees[1].flush_order = SeqNo(3);
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 1.6 * MARGIN);
}

/// Where deletes have a time a memtable with one goes in time, however much room there is, and whatever clients use.
#[test]
fn a_memtable_with_deletes_is_gone_in_their_time() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    (bench.tree().flush_left, bench.tree().flush_room_wanted, bench.tree().flush_room_needed) =
        (64 * MB, 1000 * MB, 1000 * MB);
    bench.tree().flush_ttl = Some(Duration::from_secs(4));
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 4.0 * MARGIN);
    bench.sample.device = Some(10 * MB);
    about(mb(bench.pass(0.1, 10).flush_rate), 64.0 / 4.0 * MARGIN);
}

/// L0 that is due and finds no place has one when a job of another tree's L0 is done: that has no more time then.
#[test]
fn work_in_l0_ends_in_time_for_who_waits_for_its_place() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    let other = TreeBacklog { keyspace: KeyspaceId(1), ..*bench.tree() };
    bench.backlog.trees.push(other);
    bench.open(Class::L0ToL1, 300 * MB, false);
    bench.backlog.open[0].keyspace = KeyspaceId(1);
    about(mb(bench.pass(0.1, 10).rate), 600.0 / 30.0 * MARGIN);
    (bench.tree().l0_round, bench.tree().l0_pending) = (50 * MB, 100 * MB);
    // There is a place, and something else in the way.
    about(mb(bench.pass(0.1, 10).rate), 700.0 / 30.0 * MARGIN);
    bench.open(Class::IntraL0, 0, false);
    bench.backlog.open[1].keyspace = KeyspaceId(2);
    let plan = bench.pass(0.1, 10);
    about(mb(plan.rate), 700.0 / 5.0 * MARGIN);
    about(plan.due[0].1.saturating_sub(bench.sample.now).as_secs_f64(), 5.0);
    // Deeper ones give it theirs.
    bench.backlog.open[0].class = Class::Deep;
    about(mb(bench.pass(0.1, 10).rate), 700.0 / 30.0 * MARGIN);
}

/// A thread that is given too little CPU falls behind, and so becomes urgent before it is late.
#[test]
fn what_falls_behind_becomes_urgent_in_time() {
    [1, 4].into_iter().for_each(falls_behind);
}

/// A job has one thread at a time, of however many.
fn falls_behind(workers: usize) {
    let mut bench = Bench::new();
    bench.backlog.workers = workers;
    bench.sample.compaction_cpu = Duration::from_secs(1);
    bench.pass(5.0, 10);
    // 300 MB for a second of CPU.
    bench.sample.compaction_cpu += Duration::from_secs(1);
    bench.sample.used.internal[Class::Deep as usize] += 300 * MB;
    bench.open(Class::L0ToL1, 300 * MB, false);
    assert!(!bench.pass(0.1, 10).urgent);
    let mut waited = 0.0;
    while !bench.pass(0.1, 10).urgent {
        bench.tree().l0_room -= MB;
        waited += 0.1;
    }
    // 600 MB to move, at 150 of the 300 it can: four seconds of fifty are left.
    assert!((44.0..47.0).contains(&waited), "{waited}");
}

#[test]
fn who_waits_for_compactions_lifts_the_rate() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    bench.backlog.waited_for = true;
    assert_eq!(bench.pass(0.1, 10).rate, None);
}

/// Clocks that stand still or jump, counters that go back, and numbers without measure make no plan that stops work.
#[test]
fn whatever_comes_in_there_is_a_rate() {
    let mut random = Random::new(7);
    let mut bench = Bench::new();
    for _ in 0..20_000 {
        let mut any = || match random.next_u64() % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => random.next_u64() % 1000,
            _ => random.next_u64() % (1 << 40),
        };
        bench.sample.now = Duration::from_micros(any());
        bench.sample.device = Some(any()).filter(|speed| speed % 3 > 0);
        bench.sample.used.write_bytes = any();
        bench.sample.compaction_cpu = Duration::from_nanos(any());
        (bench.sample.flushed_memtables, bench.sample.flushed_tables) = (any(), any());
        bench.sample.used.internal[Class::Deep as usize] = any();
        let ttl = Some(Duration::from_micros(any())).filter(|ttl| ttl.as_micros() % 2 == 0);
        bench.backlog.trees[0] = TreeBacklog {
            keyspace: KeyspaceId(0),
            ingested: any(),
            flush_left: any(),
            flush_order: SeqNo(any()),
            flush_ttl: ttl,
            flush_room_wanted: any(),
            flush_room_needed: any(),
            l0_room: any(),
            l0_room_full: any(),
            l0_round: any(),
            l0_due: any(),
            l0_pending: any(),
            deep_pending: any(),
            expiring: any(),
            expiring_within: Duration::from_micros(any()),
            ttl,
        };
        bench.backlog.open.clear();
        let (class, left) = (Class::ALL[1 + (any() % 4) as usize], any());
        bench.open(class, left, true);
        bench.backlog.open[0].opened_at = Duration::from_micros(any());
        let plan = bench.plan();
        for rate in [plan.rate, plan.flush_rate] {
            assert!(rate.is_none_or(|rate| rate >= PLAN_RATE_MIN), "{plan:?}");
        }
    }
}

/// In a peak that may end, and did before, there is more time than if it went on for ever; while it goes on there is less and less.
#[test]
fn a_peak_is_not_expected_to_last() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.pass(10.0, 100);
        bench.pass(10.0, 10);
    }
    bench.pass(1.0, 100);
    bench.open(Class::L0ToL1, 1000 * MB, false);
    (bench.tree().l0_room, bench.tree().l0_round) = (2000 * MB, 2000 * MB);
    let first = mb(bench.pass(0.1, 100).rate);
    // 2000 MB at 100 would be 20 s; ten like that and the rest at the mean of 55 are 28.
    assert!((72.0..85.0).contains(&first), "{first}");
    let mut last = first;
    for _ in 0..5 {
        bench.tree().l0_room -= 200 * MB;
        let now = mb(bench.pass(2.0, 100).rate);
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

#[test]
fn a_rest_is_when_much_of_the_load_is_missing() {
    let mut bench = Bench::new();
    assert!(!bench.pass(30.0, 100).rests);
    assert!(!bench.pass(4.0, 70).rests);
    assert!(bench.pass(5.0, 10).rests);
    assert!(!bench.pass(0.2, 100).rests);
}

/// Between the opening of a store and its first client are some milliseconds in which nobody does anything.
#[test]
fn who_has_just_opened_a_store_does_not_rest() {
    let mut bench = Bench::new();
    bench.open(Class::Deep, 300 * MB, false);
    let plan = bench.pass(0.5, 0);
    assert!(!plan.rests && mb(plan.rate) < 600.0 / 30.0 * MARGIN * 1.1, "{plan:?}");
    let plan = bench.pass(0.6, 0);
    assert!(plan.rests && mb(plan.rate) > 700.0, "{plan:?}");
}

/// Nothing is known at first, and that is no rest; nor is it one where clients find nothing and read much for it.
#[test]
fn who_reads_in_vain_does_not_rest() {
    let mut bench = Bench::new();
    assert!(!bench.plan().rests);
    let mut reads = |bytes: u64| {
        bench.sample.now += PLAN_EVERY;
        bench.sample.used.client_read_bytes += bytes;
        bench.plan().rests
    };
    assert!((0..1000).all(|_| !reads(MB)));
    assert!((0..100).any(|_| reads(0)));
}

/// A job that is too large for four horizons has what it can have without being felt, alone or with others.
#[test]
fn patience_asks_for_a_quarter_and_raises_nobody() {
    let mut bench = Bench::new();
    bench.backlog.trees[0] =
        TreeBacklog { l0_room: 1 << 40, l0_room_full: 1 << 40, ..TreeBacklog::default() };
    for jobs in 1..=3_u64 {
        bench.open(Class::Deep, 100_000 * MB, false);
        let plan = bench.pass(130.0, 990);
        about(mb(plan.rate), 250.0);
        assert!(!plan.urgent, "{jobs} jobs");
    }
}

/// What lies in L0's way takes more as L0's room runs out, as L0 itself would; and who has read all has to write the rest.
#[test]
fn what_is_in_the_way_of_l0_has_no_more_time_than_l0() {
    let mut bench = Bench::new();
    bench.pass(9.0, 990);
    bench.open(Class::Deep, 2000 * MB, true);
    about(mb(bench.pass(0.1, 990).rate), 50.0);
    bench.tree().l0_room = 250 * MB;
    assert!(mb(bench.pass(0.1, 990).rate) > 1000.0);
    bench.backlog.open[0] =
        OpenJob { class: Class::L0ToL1, read: 2000 * MB, left: 0, ..bench.backlog.open[0] };
    bench.tree().l0_room = 0;
    let plan = bench.pass(0.1, 990);
    assert_eq!((plan.rate, plan.urgent), (None, true));
}

/// A rate is found anew at the next plan: where the room does not last so long nothing is limited.
#[test]
fn a_small_memtable_does_not_wait_for_the_next_plan() {
    let mut bench = Bench::new();
    bench.pass(5.0, 10);
    bench.tree().flush_left = MB;
    (bench.tree().flush_room_wanted, bench.tree().flush_room_needed) = (MB / 5, MB / 4);
    assert!(bench.pass(0.01, 10).flush_rate.is_some());
    bench.tree().flush_room_needed = MB / 6;
    assert_eq!(bench.pass(0.01, 10).flush_rate, None);
}
