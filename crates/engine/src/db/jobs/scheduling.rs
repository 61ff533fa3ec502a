//! Carries the schedule out: gathers what it decides by, and does what it says to the limiter and the open jobs. And the monitor,
//! which has it decide each time an interval is over.
//!
//! ```text
//! counters, L0, open jobs ─► decide ─► limiter: rate │ picker: permit │ jobs: set aside, go on, let go
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::device_speed::{self, MEASURED};
use super::planning;
use super::pressure::{L0Debt, let_drain};
use crate::base::class::{Class, IoClass};
use crate::base::error::{Error, Result};
use crate::db::store::background::BackgroundState;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::open_job::OpenJob;
use crate::db::store::priority::Duty;
use crate::db::store::state::Store;
use crate::observe::client_ops::ClientReads;
use crate::observe::event::{Event, PreemptedBy};
use crate::options::Options;
use crate::scheduler::catalog::parse;
use crate::scheduler::classifier::Load;
use crate::scheduler::conflict::LetsGo;
use crate::scheduler::decide::{self, Directive, State};
use crate::scheduler::device_share::{DeviceShare, Reads};
use crate::scheduler::estimator::{Estimator, Usage};
use crate::scheduler::gates::{L0Backlog, Phase};
use crate::scheduler::policy::SchedulingPolicy;
use crate::scheduler::situation::{self, Backlog, Sample};
use crate::table::block_cache::BlockCache;
use crate::table::meta::Born;
use crate::version::level::Level;
use crate::version::run::TableRef;

/// Where no background work is open there is nothing to pace: the monitor looks this seldom, and is woken for the first work.
const AT_REST: Duration = Duration::from_millis(100);

/// Decides, puts it in force, and answers what was in force before. The background's lock is held.
pub fn decide_now(store: &Store, state: &mut BackgroundState) -> Directive {
    let mut share = std::mem::take(&mut state.device_share);
    let (sample, backlog) = (sample(store, state, &mut share), backlog(store, state));
    state.device_share = share;
    let memory = std::mem::take(&mut state.policy_state);
    let before = memory.load.load;
    let (memory, directive) = decide::decide(&state.policy, memory, &sample, &backlog);
    tell(store, before, &memory);
    state.policy_state = memory;
    state.limiter.set_rate(sample.now, directive.plan.rate);
    state.flush_limiter.set_rate(sample.now, directive.plan.flush_rate);
    let urgent = directive.plan.urgent;
    if !store.background.urgent.swap(urgent, Ordering::Relaxed) && urgent {
        store.background.priorities.raise_all();
    } else if urgent {
        // Who was missed then, as one that lowered itself just then.
        store.background.priorities.raise_for(Duty::Compactions);
    }
    set_aside(store, state, &directive);
    hold_gated(store, state, &directive, sample.now);
    let asked = state.jobs.iter_mut().filter(|job| directive.let_go.contains(&job.id));
    for job in asked {
        ask_to_let_go(store, job, LetsGo::KeepsAll);
    }
    std::mem::replace(&mut state.directive, directive)
}

/// What it would decide now.
pub fn would_decide(store: &Store, state: &BackgroundState) -> Directive {
    let mut share = state.device_share.clone();
    let (sample, backlog) = (sample(store, state, &mut share), backlog(store, state));
    decide::decide(&state.policy, state.policy_state.clone(), &sample, &backlog).1
}

/// The job is to let go of its claims at its next step; until then it counts as set aside.
pub fn ask_to_let_go(store: &Store, job: &mut OpenJob, how: LetsGo) {
    let before = job.lets_go;
    job.lets_go = before.max(Some(how));
    if before.is_none() && !std::mem::replace(&mut job.paused, true) {
        store.counters.jobs_preempted.add(1);
        store.event(&Event::Preempted { job: job.id, by: PreemptedBy::Request });
    }
}

/// Has the jobs set aside that are to be, and the others go on.
fn set_aside(store: &Store, state: &mut BackgroundState, directive: &Directive) {
    let running = state.jobs.iter().filter(|job| !job.paused && job.waits_since.is_none());
    let least = running.map(|job| job.served).min().unwrap_or(0);
    let keyspaces = store.keyspaces.load();
    for job in &mut state.jobs {
        // What is not wanted any more ends at its next step, whoever waits.
        job.aside = directive.why_aside(job.id).filter(|_| keyspaces.has(&job.keyspace));
        job.due = directive.plan.due_of(job.id);
        if job.lets_go.is_some() {
            continue;
        }
        if let (Some(why), false, true) = (job.aside, job.paused, job.waits_since.is_none()) {
            job.paused = true;
            store.counters.jobs_preempted.add(1);
            let by = match why {
                decide::Aside::Gate => PreemptedBy::Load,
                decide::Aside::Place => PreemptedBy::Urgency,
            };
            store.event(&Event::Preempted { job: job.id, by });
        } else if job.aside.is_none() && std::mem::take(&mut job.paused) {
            // It has not saved up turns.
            job.served = job.served.max(least);
            store.counters.jobs_resumed.add(1);
            store.event(&Event::Resumed { job: job.id });
        }
    }
}

/// L0 that may not begin is no measure of how fast it drains: it would, if writers needed it.
fn hold_gated(store: &Store, state: &BackgroundState, directive: &Directive, now: Duration) {
    let is_held = |by: &Directive, id| by.gates(id, Class::L0ToL1) && !by.l0_open.contains(&id);
    for keyspace in store.keyspaces.load().by_name.values() {
        if is_held(directive, keyspace.id) {
            keyspace.l0_drain.hold(now, true);
        } else if is_held(&state.directive, keyspace.id) {
            let_drain(store, keyspace, now);
        }
    }
}

fn tell(store: &Store, before: Load, now: &State) {
    if now.load.load != before {
        let client_bytes_per_sec = now.clients.last() as u64;
        store.event(&Event::LoadChanged { high: now.load.load == Load::High, client_bytes_per_sec });
    }
    for (keyspace, phase) in &now.bursts.begun_now {
        store.event(&Event::BurstBegun { keyspace: *keyspace, whole: *phase == Phase::Full });
    }
}

fn sample(store: &Store, state: &BackgroundState, share: &mut DeviceShare) -> Sample {
    let now = store.clock.now();
    // Whoever never looks at the load has no use for it.
    let used = state.policy.every.map(|_| usage(store, &state.policy.estimator));
    Sample {
        now,
        device: device_speed::known(&store.options.load()),
        used: used.map_or_else(Usage::default, |used| share.count(now, &used, || reads(store))),
        drains: state.limiter.drains(),
        compaction_cpu: compaction_cpu(store),
        flushed_memtables: store.counters.flushed_memtable_bytes.get(),
        flushed_tables: store.counters.flushed_table_bytes.get(),
    }
}

/// What was read of files that the page cache may answer for, and from devices; `None` where clients read past it, or nobody tells.
fn reads(store: &Store) -> Option<Reads> {
    let options = store.options.load();
    if options.direct_reads {
        return None;
    }
    let (io, device) = (store.fs.counters(), store.fs.device_reads()?);
    let clients = io.read(IoClass::Client);
    let compactions: u64 = Class::ALL.into_iter().map(|class| io.read(IoClass::Background(class))).sum();
    Some(match options.direct_compaction {
        true => Reads { files: clients, device: device.saturating_sub(compactions) },
        false => Reads { files: clients + compactions, device },
    })
}

fn compaction_cpu(store: &Store) -> Duration {
    let of = |class: Class| store.counters.cpu_nanos[class as usize].get();
    Duration::from_nanos(Class::ALL.into_iter().filter(|class| *class > Class::Flush).map(of).sum())
}

/// What clients and background work have used since the store was opened, as far as an estimator looks at it: sums over all threads
/// are read from lines that clients write.
pub fn usage(store: &Store, by: &Estimator) -> Usage {
    sums(store, by.counts_operations(), by.counts_fills())
}

/// All of it. Gets and scans are what they were while they were last counted.
pub fn usage_by_all(store: &Store) -> Usage {
    sums(store, true, true)
}

fn sums(store: &Store, operations: bool, fills: bool) -> Usage {
    let (io, cache) = (store.fs.counters(), store.tables.block_cache());
    let reads = if operations { store.client_ops.sums() } else { ClientReads::default() };
    let fills = |sum: fn(&BlockCache) -> u64| if fills { sum(cache) } else { 0 };
    let both = |class| io.read(class) + io.written(class);
    Usage {
        gets: reads.gets,
        get_bytes: reads.get_bytes,
        scans: reads.scans,
        scan_bytes: reads.scan_bytes,
        writes: store.counters.writes.get(),
        write_bytes: store.counters.user_bytes.get(),
        cache_fill_bytes: fills(BlockCache::filled_bytes),
        cache_fill_bytes_on_disk: fills(BlockCache::filled_bytes_on_disk),
        client_read_bytes: io.read(IoClass::Client),
        log_bytes: both(IoClass::Wal),
        internal: Class::ALL.map(|class| both(IoClass::Background(class))),
    }
}

fn backlog(store: &Store, state: &BackgroundState) -> Backlog {
    let open = state.jobs.iter().map(|job| situation::OpenJob {
        id: job.id,
        keyspace: job.keyspace.id,
        class: job.class,
        paused: job.paused,
        read: job.read_bytes,
        left: job.bytes_left(),
        opened_at: job.picked_at,
        below_l0: job.below_l0,
    });
    // Only what delays L0 looks at it.
    let keyspaces = state.policy.delays_l0().then(|| store.keyspaces.load_full());
    let keyspaces = || keyspaces.iter().flat_map(|keyspaces| keyspaces.by_name.values());
    let bursting = keyspaces().filter(|_| state.policy.burst.is_some());
    let slowed = keyspaces().filter(|keyspace| L0Debt::of(store, keyspace).slows());
    Backlog {
        open: open.collect(),
        workers: store.options.load().workers as usize,
        l0: bursting.map(|keyspace| (keyspace.id, l0_of(keyspace, state))).collect(),
        slowed: slowed.map(|keyspace| keyspace.id).collect(),
        trees: if state.policy.plans() { planning::trees(store, state) } else { Vec::new() },
        waited_for: store.background.jobs_are_waited_for(),
        flushes_waited_for: store.background.is_waited_for(),
    }
}

fn l0_of(keyspace: &KeyspaceState, state: &BackgroundState) -> L0Backlog {
    let of_l0 = |job: &&OpenJob| job.keyspace.id == keyspace.id && job.class.is_l0();
    let mut l0 = L0Backlog { jobs: state.jobs.iter().filter(of_l0).count() as u32, ..L0Backlog::default() };
    let view = keyspace.view.load();
    for run in view.version.levels.first().into_iter().flat_map(Level::runs) {
        let bytes: u64 = run.tables.iter().map(TableRef::bytes).sum();
        if run.tables.is_empty() {
            continue;
        }
        (l0.runs, l0.bytes) = (l0.runs + 1, l0.bytes + bytes);
        let all_are = |born| run.tables.iter().all(|table| table.meta.born == born);
        if all_are(Born::Flush) {
            (l0.flush_born, l0.flush_born_bytes) = (l0.flush_born + 1, l0.flush_born_bytes + bytes);
        }
        l0.part_born += u32::from(all_are(Born::Burst));
    }
    l0
}

/// The schedule of these options. Refuses one that they cannot have; one that needs the device's speed may still lack it.
///
/// # Errors
/// `InvalidArgument` with the reason.
pub fn check_schedule(options: &Options) -> Result<SchedulingPolicy> {
    let policy = parse(&options.schedule)?;
    let device = device_speed::known(options);
    if policy.needs_device() && device.is_none() && !options.device_test {
        return Err(Error::invalid(format!(
            "schedule `{}` needs the device's speed: set device_bytes_per_sec, like 200MiB, or device_test=true to have it measured",
            options.schedule
        )));
    }
    policy.check(device)?;
    Ok(policy)
}

/// The same, and has the speed measured that the schedule goes by and nobody knows: the options say it then, and answers what is to be
/// told. A device that cannot be measured is told too, where the schedule needs no speed, or a store is opened: it keeps none closed.
///
/// # Errors
/// `InvalidArgument` with the reason, also where what was measured is it; those of [`device_speed::measure`].
pub fn settle_schedule(
    options: &mut Options,
    at_open: bool,
    measure: impl FnOnce() -> Result<u64>,
) -> Result<(SchedulingPolicy, Option<Event>)> {
    let policy = check_schedule(options)?;
    if device_speed::known(options).is_some() || !options.device_test || !policy.wants_device() {
        return Ok((policy, None));
    }
    let speed = match measure() {
        Ok(speed) => speed,
        Err(error) if policy.needs_device() && !at_open => return Err(error),
        Err(error) => {
            let without = match policy.needs_device() {
                true => "until it is known the schedule limits no rate".to_owned(),
                false => format!("`{}` goes on without it", options.schedule),
            };
            return Ok((policy, Some(Event::BackgroundError { error: format!("{error}; {without}") })));
        }
    };
    let row = Options::info(MEASURED)?;
    let was = row.value(options);
    options.device_measured_bytes_per_sec = speed;
    let policy = check_schedule(options)?;
    Ok((policy, Some(Event::OptionChanged { name: MEASURED.to_owned(), was, now: row.value(options) })))
}

/// Changes the schedule; the next decision is made by it.
pub fn set_schedule(store: &Store, text: &str) -> Result<()> {
    let policy = parse(text)?;
    store.client_ops.count(policy.counts_operations());
    store.admission.set_slowing(policy.admission);
    {
        let mut state = store.background.lock();
        state.policy = policy;
        state.policy_state = State::default();
        state.look_at = Duration::ZERO;
        text.clone_into(&mut state.policy_text);
        // The rates of the one before hold until somebody decides, and where time alone is no reason to nobody would.
        decide_now(store, &mut state);
    }
    let now = store.clock.now();
    store.keyspaces.load().by_name.values().for_each(|keyspace| let_drain(store, keyspace, now));
    store.background.work_changed();
    store.background.wake_monitor();
    Ok(())
}

/// An interval may be over: decides anew. Answers how soon the next one is; `None` where the schedule never decides because of the time.
pub fn look(store: &Store) -> Option<Duration> {
    let mut state = store.background.lock();
    let every = state.policy.decides_each()?;
    let mut before = decide_now(store, &mut state);
    let is_at_rest = state.jobs.is_empty() && state.flush.is_free();
    let next = if is_at_rest { every.max(AT_REST) } else { every };
    let after = &state.directive;
    if *after == before {
        return Some(next);
    }
    let rests = after.plan.rests && !before.plan.rests;
    let faster = after.plan.is_faster_than(&before.plan);
    // A plan's rates change nothing that is looked for, but a thread may be asleep until the old rate lets it go on.
    before.plan.clone_from(&after.plan);
    let same_but_plan = *after == before;
    drop(state);
    if !same_but_plan || rests {
        store.background.work_changed();
    } else if faster {
        store.background.wake();
    }
    Some(next)
}

/// The same where a test steps, once an interval.
pub fn look_if_due(store: &Store) {
    let now = store.clock.now();
    let mut state = store.background.lock();
    let due = state.policy.decides_each().filter(|_| now >= state.look_at);
    if let Some(every) = due {
        state.look_at = now.saturating_add(every);
        drop(state);
        look(store);
    }
}

/// The monitor's body: it sleeps until an interval is over, for good where the schedule looks at nothing.
pub fn monitor(store: &Store) {
    store.background.be_monitor();
    while !store.background.is_stopping() {
        let next = look(store);
        store.counters.monitor_nanos.set(evenkeel_sys::thread_cpu_time().as_nanos() as u64);
        store.background.sleep_as_monitor(next);
    }
}
