//! The plan of `paced`: what has to be done by when, so that nobody ever waits for it, and the least rate at which all of it is.
//!
//! ```text
//! demand              wanted by                                            due by
//! full memtable       a quarter of the last one there may be is used       three quarters of it are
//! work in L0          as much has come in as makes L0 due again,           writers are slowed for it
//!                     or the horizon
//! what L0 lies on     L0 is due again, or the horizon                      the same
//! deeper work         the horizon
//! an open job                                                              four horizons after it was opened, or by a quarter of the device
//! the same of L0, where clients have not rested for as long                one
//! a job, or tables that are due,
//! where deletes have a time                                                half of what is kept for the work
//! ```
//! Time follows from bytes: how much may still come in, over how fast clients write, soon as now and later as in the mean. The
//! rate is that of the earliest deadlines first: the most, over all deadlines, of the bytes due by then over the time until then;
//! of memtables, which become tables in the order of their writes, the bytes of those before count too.
//! What clients use it takes only as L0's room runs out. Beyond it goes only what clients leave when they do less than in the
//! mean, all of it when they do less than half of that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::estimator::Estimator;
use super::situation::{Backlog, OpenJob, Sample, TreeBacklog};
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::units::{JobId, KeyspaceId, MIB};

/// Deeper work is done within so long.
pub const HORIZON: Duration = Duration::from_secs(30);
/// An open job is done within so many horizons, whatever clients do: what it takes is held back from others, and a peak may never end. One
/// that is too large for that has this part of the device.
const PATIENCE: f64 = 4.0;
const PATIENCE_MOST: f64 = 0.25;
/// Where clients have not rested for that long, none is waited for: reads pay for each run in L0, and the longer its merge takes the more
/// there are. It is done within so many horizons then.
const PATIENCE_WITH_L0: f64 = 1.0;
/// The plan is made anew so often.
pub const PLAN_EVERY: Duration = Duration::from_millis(10);

/// What clients do is smoothed over this time; a rise counts at once, over this one.
const SMOOTH: Duration = Duration::from_millis(300);
const RISE: Duration = Duration::from_millis(50);
/// The same for whether they rest: who comes back finds no queue, and that one short moment is taken for that costs nothing.
const END_OF_REST: Duration = Duration::from_millis(15);
/// Whoever does less than this does nothing, bytes per second.
const LEAST: f64 = 65_536.0;
/// What CPU is worth is smoothed over so much CPU time.
const CPU_SMOOTH: Duration = Duration::from_secs(1);
/// The mean is over this time, and clients are expected to go on as they do for this one.
const MEAN: Duration = Duration::from_secs(60);
const GO_ON: Duration = Duration::from_secs(10);
/// A load that is lower than the mean by less than this part of it is only uneven.
const UNEVEN: f64 = 0.2;
/// A load of which so much is missing is a rest.
const REST: f64 = 0.5;
/// From so long on it is one that may come again, and no hiccup.
const A_REST: Duration = Duration::from_secs(1);
/// The plan keeps so much of a rate in hand, for syncs and what bytes do not tell.
const MARGIN: f64 = 1.1;
/// A rate that differs by less from the one in force is not changed.
const CHANGE_MIN: f64 = 0.05;
/// Background threads run as everyone does from where what must be done needs this part of what they can do at most. For what only should
/// be done they have the CPU that clients leave: it comes to be needed if that is too little.
const URGENT: f64 = 0.5;
/// So much of the device is kept free: where all of it is used, requests queue.
const KEPT_FREE: f64 = 0.2;
/// What is wanted has at least this part of the device, whatever clients use.
const WANTED_LEAST: f64 = 0.05;
/// No rate is below this: what is nearly done is not drawn out.
const PLAN_RATE_MIN: u64 = MIB / 2;
/// What was flushed last says as much of how memtables pack as all that was before, byte by byte.
const PACKING_KEPT: f64 = 0.5;
/// No table is expected to take less than this part of its memtable: what comes next may pack worse.
const PACKED_LEAST: f64 = 0.125;
/// What is due is not planned closer than this.
const SOON: f64 = 0.01;
/// When a job has read all, so much of its input stands for what it still has to write, and this at most.
const UNWRITTEN: u64 = 16;
const UNWRITTEN_MOST: u64 = 2 * MIB;

/// What the plan comes to until the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rate for compactions, bytes per second; `None` for as fast as they go.
    pub rate: Option<u64>,
    /// The rate for flushes, in bytes of memtables.
    pub flush_rate: Option<u64>,
    /// True if background threads must run as everyone does to be in time.
    pub urgent: bool,
    /// True while clients do much less than in the mean: what waits to be worth more may begin.
    pub rests: bool,
    /// By when each open job is to be done.
    pub due: Vec<(JobId, Duration)>,
}

impl Plan {
    /// By when a job is to be done; one that was not planned for has time.
    pub fn due_of(&self, job: JobId) -> Duration {
        self.due.iter().find(|(id, _)| *id == job).map_or(Duration::MAX, |(_, due)| *due)
    }

    /// True if some rate is higher than in the other.
    pub fn is_faster_than(&self, other: &Plan) -> bool {
        let is_higher =
            |now: Option<u64>, then: Option<u64>| now.unwrap_or(u64::MAX) > then.unwrap_or(u64::MAX);
        is_higher(self.rate, other.rate) || is_higher(self.flush_rate, other.flush_rate)
    }
}

/// What is remembered between two plans.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanState {
    before: Option<Sample>,
    writes: BTreeMap<KeyspaceId, (u64, Pace)>,
    /// What clients do, by the estimator: it tells how busy they are.
    client: Pace,
    /// What they use of the device, and what flushes do.
    device: Pace,
    flushes: Pace,
    /// Bytes of memtables that were flushed of late, and of the tables that they became.
    flushed: (f64, f64),
    /// Bytes that compactions move in a second of CPU.
    bytes_per_cpu: f64,
    /// Seconds that clients rest, and since they have rested, or since plans are made.
    rested: f64,
    without_rest: f64,
    rates: [Option<u64>; 2],
    /// Times that a rate was changed.
    pub changes: u64,
}

/// Bytes per second: of late, as it rises, and in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pace {
    smooth: f64,
    rising: f64,
    mean: f64,
    seconds: f64,
}

impl Pace {
    fn moved(&mut self, bytes: f64, elapsed: f64, rise: Duration) {
        self.seconds += elapsed;
        // Until the time is over, of all there was.
        let there_was = self.seconds;
        let towards = |from: f64, over: Duration| {
            let kept = (-elapsed / over.as_secs_f64().min(there_was)).exp();
            from * kept + bytes / elapsed * (1.0 - kept)
        };
        self.smooth = towards(self.smooth, SMOOTH);
        self.rising = towards(self.rising, rise);
        self.mean = towards(self.mean, MEAN);
    }

    fn now(&self) -> f64 {
        self.smooth.max(self.rising)
    }

    /// Seconds until so many bytes have come.
    fn until(&self, bytes: u64) -> f64 {
        let (bytes, now, soon) = (bytes as f64, self.now().max(LEAST), GO_ON.as_secs_f64());
        if bytes <= now * soon { bytes / now } else { soon + (bytes - now * soon) / self.mean.max(LEAST) }
    }

    /// How much less than in the mean, from 0 to 1: 1 in a rest, 0 where the load is only uneven, or nothing is known of it yet: who
    /// has just opened a store is about to use it.
    fn idleness(&self) -> f64 {
        if self.seconds < A_REST.as_secs_f64() {
            return 0.0;
        }
        let less = if self.now() < LEAST { 1.0 } else { 1.0 - self.now() / self.mean };
        ((less - UNEVEN) / (REST - UNEVEN)).clamp(0.0, 1.0)
    }
}

/// Bytes to move, and seconds from now until they should and must have been.
#[derive(Clone, Copy, Debug)]
struct Demand {
    bytes: f64,
    wanted_in: f64,
    /// Until writers are slowed for it.
    slows_in: f64,
    /// Until it is late, whatever clients do.
    must_in: f64,
}

impl Demand {
    fn of(bytes: f64, wanted_in: f64, slows_in: f64, must_in: f64) -> Demand {
        let (slows_in, must_in) = (slows_in.max(0.0), must_in.max(0.0));
        Demand { bytes, wanted_in: wanted_in.min(slows_in).min(must_in).max(0.0), slows_in, must_in }
    }

    /// One of nothing, with all the time there is.
    fn none() -> Demand {
        Demand::of(0.0, f64::INFINITY, f64::INFINITY, f64::INFINITY)
    }

    /// The same, with no more time than the other one has.
    fn no_later(&self, than: &Demand) -> Demand {
        Demand {
            bytes: self.bytes,
            wanted_in: self.wanted_in.min(than.wanted_in),
            slows_in: self.slows_in.min(than.slows_in),
            must_in: self.must_in.min(than.must_in),
        }
    }

    /// Until it is late, or writers are slowed for it.
    fn due_in(&self) -> f64 {
        self.slows_in.min(self.must_in)
    }
}

/// Refuses a horizon that makes no plan.
pub fn check(horizon: Duration, every: Duration) -> Result<()> {
    if horizon < Duration::from_secs(1) || horizon > Duration::from_secs(24 * 3600) {
        return Err(Error::invalid("horizon is from 1 s to a day, like 30s"));
    }
    if every < Duration::from_millis(1) || every > Duration::from_secs(1) {
        return Err(Error::invalid("a plan is made each 1 ms to 1 s, like every=10ms"));
    }
    Ok(())
}

impl PlanState {
    /// What clients use of the device, bytes per second.
    pub fn client(&self) -> f64 {
        self.device.smooth
    }

    /// Plans for the next `every`, where so many jobs run side by side.
    pub fn plan(
        &mut self,
        horizon: Duration,
        every: Duration,
        by: &Estimator,
        sample: &Sample,
        backlog: &Backlog,
        slots: usize,
    ) -> Plan {
        self.measure(by, sample, backlog);
        let l0_open = backlog.open.iter().filter(|job| job.class.is_l0()).count();
        let place = if l0_open < slots { Demand::none() } else { self.place_wanted(horizon, backlog) };
        // Of what all of them have to do, so that the sum is no more than that.
        let open = backlog.open.len();
        let part =
            self.at_most(sample.device, backlog.workers.min(open)).map(|most| most * PATIENCE_MOST / MARGIN);
        let by_part = |bytes: f64| part.map_or(0.0, |part| bytes / part.max(1.0));
        let holds_up = |job: &OpenJob| holds_l0_up(job, backlog);
        let all = by_part(backlog.open.iter().map(to_move).sum());
        let of_l0 = by_part(backlog.open.iter().filter(|job| holds_up(job)).map(to_move).sum());
        let lasts = self.without_rest >= PATIENCE * horizon.as_secs_f64();
        let of_job = |job: &OpenJob| {
            let patience = if lasts && holds_up(job) { (PATIENCE_WITH_L0, of_l0) } else { (PATIENCE, all) };
            let demand = self.of_job(job, horizon, sample.now, backlog, patience);
            if job.class.is_l0() { demand.no_later(&place) } else { demand }
        };
        let jobs: Vec<Demand> = backlog.open.iter().map(of_job).collect();
        let pending = backlog.trees.iter().flat_map(|tree| self.of_tree(tree, horizon));
        let demands: Vec<Demand> = jobs.iter().copied().chain(pending).filter(|d| d.bytes > 0.0).collect();
        let wanted = rate(demands.iter().map(|demand| (demand.wanted_in, demand.bytes)));
        let due = rate(demands.iter().map(|demand| (demand.due_in(), demand.bytes)));
        let left_beside = |used: f64| {
            sample.device.map(|speed| {
                let speed = speed as f64;
                (speed * (1.0 - KEPT_FREE) - used).max(speed * WANTED_LEAST)
            })
        };
        let left = left_beside(self.device.now() + self.flushes.now());
        let is_squeezed = left.is_some_and(|left| wanted > left);
        let needed = left.map_or(due, |left| {
            let must = rate(demands.iter().map(|demand| (demand.must_in, demand.bytes)));
            eased(due, left, backlog.trees.iter().map(scarcity).fold(0.0, f64::max)).max(must)
        });
        let planned = needed.max(left.map_or(wanted, |left| wanted.min(left)));
        let idle = self.idleness();
        let rest = left.map_or(if idle >= 1.0 { f64::INFINITY } else { 0.0 }, |left| left * idle);
        let late = demands.iter().any(|demand| demand.due_in() <= SOON);
        // A job has one thread at a time.
        let at_most = self.at_most(sample.device, backlog.workers.min(demands.len()));
        let unlimited = backlog.waited_for || late;
        // Where there is too little for what is wanted, what is needed goes first.
        let goes_by = |demand: &Demand| if is_squeezed { demand.due_in() } else { demand.wanted_in };
        Plan {
            rate: self.settle(0, if unlimited { f64::INFINITY } else { planned.max(rest) }),
            flush_rate: self.flush_rate(backlog, left_beside(self.device.now()), rest, every),
            rests: idle >= 1.0,
            urgent: late || at_most.is_some_and(|most| needed > most * URGENT),
            due: backlog
                .open
                .iter()
                .zip(&jobs)
                .map(|(job, demand)| (job.id, sample.now.saturating_add(seconds(goes_by(demand)))))
                .collect(),
        }
    }

    fn measure(&mut self, by: &Estimator, sample: &Sample, backlog: &Backlog) {
        let Some(before) = self.before else {
            self.before = Some(*sample);
            self.writes = backlog.trees.iter().map(|t| (t.keyspace, (t.ingested, Pace::default()))).collect();
            return;
        };
        let elapsed = sample.now.saturating_sub(before.now);
        if elapsed < Duration::from_millis(1) {
            return;
        }
        self.before = Some(*sample);
        let elapsed = elapsed.as_secs_f64();
        let grown = sample.used.since(&before.used);
        self.client.moved(by.bytes(&grown), elapsed, END_OF_REST);
        self.device.moved(Estimator::Device.bytes(&grown), elapsed, RISE);
        self.flushes.moved(grown.internal[Class::Flush as usize] as f64, elapsed, RISE);
        self.rested = if self.idleness() < 1.0 { 0.0 } else { self.rested + elapsed };
        let is_rest = self.rested >= A_REST.as_secs_f64();
        self.without_rest = if is_rest { 0.0 } else { self.without_rest + elapsed };
        for tree in &backlog.trees {
            let (before, pace) = self.writes.entry(tree.keyspace).or_insert((tree.ingested, Pace::default()));
            // One that is being switched seems to have less for a moment.
            pace.moved(tree.ingested.saturating_sub(*before) as f64, elapsed, RISE);
            *before = tree.ingested.max(*before);
        }
        if self.writes.len() > backlog.trees.len() {
            let known: BTreeSet<KeyspaceId> = backlog.trees.iter().map(|tree| tree.keyspace).collect();
            self.writes.retain(|id, _| known.contains(id));
        }
        let memtables = sample.flushed_memtables.saturating_sub(before.flushed_memtables);
        let tables = sample.flushed_tables.saturating_sub(before.flushed_tables);
        if memtables > 0 {
            let kept = |bytes: f64, more: u64| bytes * PACKING_KEPT + more as f64;
            self.flushed = (kept(self.flushed.0, memtables), kept(self.flushed.1, tables));
        }
        let cpu = sample.compaction_cpu.saturating_sub(before.compaction_cpu).as_secs_f64();
        let moved: u64 = Class::ALL.iter().zip(grown.internal).skip(1).map(|(_, bytes)| bytes).sum();
        if cpu > 0.0 && moved > 0 {
            let kept = (-cpu / CPU_SMOOTH.as_secs_f64()).exp();
            let now = moved as f64 / cpu;
            self.bytes_per_cpu =
                if self.bytes_per_cpu > 0.0 { self.bytes_per_cpu * kept + now * (1.0 - kept) } else { now };
        }
    }

    /// How much less clients do than in the mean. Gets of little, or of keys that are not there, are few bytes, and may keep a device busy.
    fn idleness(&self) -> f64 {
        self.client.idleness().min(self.device.idleness())
    }

    /// Seconds until so many bytes will have come into a tree.
    fn until(&self, keyspace: KeyspaceId, bytes: u64) -> f64 {
        self.writes.get(&keyspace).map_or_else(Pace::default, |(_, pace)| *pace).until(bytes)
    }

    /// Of an open job. It is given so many horizons, and so many seconds at least, whenever it was opened.
    fn of_job(
        &self,
        job: &OpenJob,
        horizon: Duration,
        now: Duration,
        backlog: &Backlog,
        (horizons, at_least): (f64, f64),
    ) -> Demand {
        let open = now.saturating_sub(job.opened_at).as_secs_f64();
        let bytes = to_move(job);
        let horizon = horizon.as_secs_f64();
        let Some(tree) = backlog.trees.iter().find(|tree| tree.keyspace == job.keyspace) else {
            return Demand::of(bytes, horizon - open, f64::INFINITY, f64::INFINITY);
        };
        let until = |bytes| self.until(tree.keyspace, bytes);
        let ttl = tree.ttl.map_or(f64::INFINITY, |ttl| ttl.as_secs_f64() - open);
        let must_in = ttl.min((horizons * horizon - open).max(at_least).max(2.0 * SOON));
        match job.class {
            Class::Flush | Class::IntraL0 | Class::L0ToL1 => {
                let wanted_in = (until(tree.l0_round) - open).min(horizon - open);
                Demand::of(bytes, wanted_in, until(tree.l0_room), must_in)
            }
            Class::Deep if job.below_l0 => {
                let wanted_in = (horizon - open).min(until(tree.l0_due));
                Demand::of(bytes, wanted_in, until(tree.l0_room), must_in)
            }
            Class::Deep | Class::Upkeep => Demand::of(bytes, horizon - open, f64::INFINITY, must_in),
        }
    }

    /// Of what no job has yet, in L0 and below.
    fn of_tree(&self, tree: &TreeBacklog, horizon: Duration) -> [Demand; 3] {
        let horizon = horizon.as_secs_f64();
        let until = |bytes| self.until(tree.keyspace, bytes);
        let ttl = tree.ttl.map_or(f64::INFINITY, |ttl| ttl.as_secs_f64());
        let expires = tree.expiring_within.as_secs_f64();
        let (l0, deep) = (tree.l0_pending as f64, tree.deep_pending as f64);
        [
            Demand::of(l0, until(tree.l0_round).min(horizon), until(tree.l0_room), ttl),
            Demand::of(deep, horizon, f64::INFINITY, ttl),
            Demand::of(tree.expiring as f64, horizon, f64::INFINITY, expires),
        ]
    }

    /// When L0 has to have a place where it is due and no job takes it.
    fn place_wanted(&self, horizon: Duration, backlog: &Backlog) -> Demand {
        let waiting = backlog.trees.iter().filter(|tree| tree.l0_pending > 0);
        waiting.fold(Demand::none(), |all, tree| all.no_later(&self.of_tree(tree, horizon)[0]))
    }

    /// The rate at which full memtables are gone in time, with what clients leave when they should be and whatever those use when they
    /// must. Where the caller waits, or there is no room, there is no limit.
    fn flush_rate(
        &mut self,
        backlog: &Backlog,
        left: Option<f64>,
        rest: f64,
        every: Duration,
    ) -> Option<u64> {
        let mut waiting: Vec<&TreeBacklog> =
            backlog.trees.iter().filter(|tree| tree.flush_left > 0).collect();
        waiting.sort_by_key(|tree| tree.flush_order);
        let in_time = |room: fn(&TreeBacklog) -> u64| {
            let (mut bytes, mut most) = (0.0, 0.0_f64);
            for tree in &waiting {
                bytes += tree.flush_left as f64;
                let ttl = tree.flush_ttl.map_or(f64::INFINITY, |ttl| ttl.as_secs_f64());
                let time = self.until(tree.keyspace, room(tree)).min(ttl);
                // A rate that is only looked at when there is no time left comes too late.
                let is_late = time <= 2.0 * every.as_secs_f64();
                most = most.max(if is_late { f64::INFINITY } else { bytes / time });
            }
            most * MARGIN
        };
        let (wanted, needed) =
            (in_time(|tree| tree.flush_room_wanted), in_time(|tree| tree.flush_room_needed));
        // What is left of the device is bytes of files.
        let packing = self.packing();
        let (left, rest) = (left.map(|left| left / packing), rest / packing);
        let planned = needed.max(left.map_or(wanted, |left| wanted.min(left)));
        self.settle(1, if backlog.flushes_waited_for { f64::INFINITY } else { planned.max(rest) })
    }

    /// The part of a memtable's bytes that its tables take of the device: there is less beside an entry there, and blocks are compressed.
    /// By what was flushed of late; never more than all, so that no flush goes slower for it.
    fn packing(&self) -> f64 {
        let (memtables, tables) = self.flushed;
        if memtables > 0.0 { (tables / memtables).clamp(PACKED_LEAST, 1.0) } else { 1.0 }
    }

    /// What compactions can move at most, with all the CPU they may have.
    fn at_most(&self, device: Option<u64>, workers: usize) -> Option<f64> {
        let by_cpu = (self.bytes_per_cpu > 0.0).then_some(self.bytes_per_cpu * workers as f64);
        let by_device = device.map(|speed| speed as f64);
        by_cpu.into_iter().chain(by_device).reduce(f64::min)
    }

    /// The rate in force from now on: the old one where the new one is about the same.
    fn settle(&mut self, which: usize, wanted: f64) -> Option<u64> {
        let rate = &mut self.rates[which];
        let new = wanted.is_finite().then(|| (wanted as u64).max(PLAN_RATE_MIN));
        let same = match (*rate, new) {
            (Some(old), Some(new)) => (new as f64 - old as f64).abs() < old as f64 * CHANGE_MIN,
            (old, new) => old == new,
        };
        if !same {
            *rate = new;
            self.changes += 1;
        }
        *rate
    }
}

/// True if L0 goes down with this job, or waits for it.
fn holds_l0_up(job: &OpenJob, backlog: &Backlog) -> bool {
    let waits = |tree: &TreeBacklog| tree.keyspace == job.keyspace && tree.l0_pending > 0;
    job.class.is_l0() || (job.below_l0 && backlog.trees.iter().any(waits))
}

/// Bytes that an open job has to move still: what is read is written.
fn to_move(job: &OpenJob) -> f64 {
    let unwritten = (job.read.saturating_add(job.left) / UNWRITTEN).min(UNWRITTEN_MOST);
    2.0 * job.left as f64 + unwritten as f64
}

/// The least rate at which all of these bytes, the earliest first, are moved in time.
fn rate(demands: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut demands: Vec<(f64, f64)> = demands.collect();
    demands.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut bytes, mut most) = (0.0, 0.0_f64);
    for (due_in, of_it) in demands {
        bytes += of_it;
        most = most.max(bytes / due_in.max(SOON));
    }
    most * MARGIN
}

/// What is done so that writers are not slowed later. Where it is more than clients leave, taking it slows them now, and a peak may be
/// over before it is needed: so it is taken the more, the less room there is.
fn eased(needed: f64, left: f64, scarcity: f64) -> f64 {
    if needed <= left { needed } else { left + (needed - left) * scarcity }
}

/// How much of L0's room is used up, from 0 to 1, small until most of it is.
fn scarcity(tree: &TreeBacklog) -> f64 {
    let used = 1.0 - tree.l0_room as f64 / tree.l0_room_full.max(1) as f64;
    used.clamp(0.0, 1.0).powi(2)
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
