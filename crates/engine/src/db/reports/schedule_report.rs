//! What the schedule does, as numbers and as JSON.

use crate::db::jobs::device_speed;
use crate::db::jobs::pressure::L0Debt;
use crate::db::store::background::BackgroundState;
use crate::db::store::state::Store;
use crate::observe::json::{Object, quoted};
use crate::observe::words::bytes;
use crate::scheduler::classifier::Load;
use crate::scheduler::estimator::Usage;
use crate::scheduler::gates::{Burst, RUNS_MAX};
use crate::scheduler::rate::Rate;

/// What the schedule does, and has done since the store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleMetrics {
    /// The schedule, as it was given.
    pub name: String,
    /// Bytes per second for compactions; 0 for no limit.
    pub limit_bytes_per_sec: u64,
    /// The same for flushes: under a plan in bytes of memtables, else of files.
    pub flush_limit_bytes_per_sec: u64,
    /// True while the schedule has background threads run as everyone does, to be in time.
    pub is_urgent: bool,
    /// What the device can do, bytes per second; 0 if that is not known.
    pub device_bytes_per_sec: u64,
    /// True while the clients' load is high; `None` where it is not judged.
    pub load_is_high: Option<bool>,
    /// What clients use of the device, as the schedule estimates it, bytes per second; `None` where it does not.
    pub client_bytes_per_sec: Option<u64>,
    /// Times that the load became high, since the schedule was set.
    pub high_loads: u64,
    /// Times that the rate was changed, since the schedule was set.
    pub limit_changes: u64,
    /// Bursts since the schedule was set: merges of flushed tables among themselves, and of all of L0.
    pub bursts: [u64; 2],
    /// Flushes that waited for another one.
    pub flushes_delayed: u64,
    /// CPU seconds of the thread that looks at the load.
    pub monitor_cpu_seconds: f64,
    /// What was used, as estimators count it. Gets and scans only grow while `counts_operations`.
    pub used: Usage,
    /// True while the schedule looks at operations one by one.
    pub counts_operations: bool,
    /// Jobs: set aside, gone on with, that let go, and that threw work away. The first is the sum of the others and of `jobs_paused`.
    pub jobs_preempted: u64,
    /// Gone on with.
    pub jobs_resumed: u64,
    /// That let go of their claims and kept what they had.
    pub jobs_yielded: u64,
    /// That threw their work away for a more urgent one.
    pub jobs_discarded: u64,
    /// Set aside now.
    pub jobs_paused: u64,
}

/// The numbers at one moment, but for what was used: the lock under which all others change is held.
pub fn schedule(store: &Store, state: &BackgroundState, used: Usage) -> ScheduleMetrics {
    let (c, memory) = (&store.counters, &state.policy_state);
    let judged = state.policy.load.is_some();
    let client = if state.policy.plans() { memory.plan.client() } else { memory.clients.last() };
    ScheduleMetrics {
        name: state.policy_text.clone(),
        limit_bytes_per_sec: state.limiter.rate().unwrap_or(0),
        flush_limit_bytes_per_sec: state.flush_limiter.rate().unwrap_or(0),
        is_urgent: state.directive.plan.urgent,
        device_bytes_per_sec: device_speed::known(&store.options.load()).unwrap_or(0),
        load_is_high: judged.then_some(memory.load.load == Load::High),
        client_bytes_per_sec: state.policy.every.map(|_| client as u64),
        high_loads: memory.load.rises,
        limit_changes: memory.budget.changes + memory.plan.changes,
        bursts: memory.bursts.begun,
        flushes_delayed: c.flushes_delayed.get(),
        monitor_cpu_seconds: c.monitor_nanos.get() as f64 / 1e9,
        used,
        counts_operations: state.policy.counts_operations(),
        jobs_preempted: c.jobs_preempted.get(),
        jobs_resumed: c.jobs_resumed.get(),
        jobs_yielded: c.jobs_yielded.get(),
        jobs_discarded: c.jobs_discarded.get(),
        jobs_paused: state.jobs.iter().filter(|job| job.paused).count() as u64,
    }
}

/// What a schedule promises and cannot do in this store as it is, in a sentence for people: it limits no rate without the device's speed,
/// rates in bytes may leave nothing to change on this device, and bursts may come later than the moment from which on writers are slowed,
/// where all of L0 goes down anyway. Where nothing else ends a delay it says how long that is.
pub fn note(store: &Store) -> Option<String> {
    let (needs_device, budget, delays_l0, burst) = {
        let state = store.background.lock();
        (state.policy.needs_device(), state.policy.budget, state.policy.delays_l0(), state.policy.burst)
    };
    let device = device_speed::known(&store.options.load());
    if needs_device && device.is_none() {
        let told = "the device's speed is not known, so no rate is limited: set device_bytes_per_sec, like 200MiB, or free space and set the \
                    schedule again, which measures it";
        return Some(told.to_owned());
    }
    if let Some(speed) = device
        && let Some(why) = budget.never_changes(device)
    {
        return Some(format!("on this device, of {}, {why}", Rate::Bytes(speed)));
    }
    if !delays_l0 {
        return None;
    }
    let keyspaces = store.keyspaces.load();
    let Some(burst) = burst else {
        let slowed_from =
            keyspaces.by_name.values().filter_map(|keyspace| L0Debt::of(store, keyspace).slowed_from());
        return slowed_from.min().map(|runs| {
            format!(
                "L0 is delayed up to {runs} runs, or the bytes of as many memtables: from there on writers are slowed and it goes down; \
                 a higher l0_limit delays it longer"
            )
        });
    };
    let late = keyspaces.by_name.values().filter_map(|keyspace| {
        let (needed, told) = late_burst(&burst, &L0Debt::of(store, keyspace))?;
        Some((needed, format!("keyspace {}: {told}", keyspace.name)))
    });
    // One for all of them: the limit is the same.
    late.max_by_key(|(needed, _)| *needed).map(|(_, told)| told)
}

/// The `l0_limit` that it needs, and words.
fn late_burst(burst: &Burst, l0: &L0Debt) -> Option<(u64, String)> {
    let slowed_from = l0.slowed_from()?;
    // What a part leaves has the bytes of what it took, for which writers are slowed as for runs.
    let bursts = u64::from(burst.parts.unwrap_or(0)) + 1;
    let parts =
        burst.parts.map_or_else(String::new, |parts| format!(", and each of {parts} parts leaves as much"));
    let slowed_from_bytes = l0.slowed_from_bytes();
    if burst.bytes.is_some_and(|each| each.saturating_mul(bursts) < slowed_from_bytes) {
        return None;
    }
    let Some(runs) = burst.runs.map(u64::from) else {
        let (from, slowed) = (bytes(burst.bytes?), bytes(slowed_from_bytes));
        let told = format!(
            "a burst is from {from} of L0 on{parts}, but from {slowed} on writers are slowed and all of it goes down: set l0_limit higher, or \
             burst-bytes lower"
        );
        return Some((0, told));
    };
    let most = runs.saturating_mul(bursts);
    let needed = (2 * most + 1).saturating_sub(l0.wanted);
    let higher = if needed <= u64::from(RUNS_MAX) {
        format!("l0_limit to {needed} or more, or ")
    } else {
        String::new()
    };
    (most >= slowed_from).then(|| {
        let told = format!(
            "a burst is from {runs} runs of L0 on{parts}, but from {slowed_from} on writers are slowed and all of it goes down: \
             set {higher}burst-runs lower"
        );
        (needed, told)
    })
}

impl ScheduleMetrics {
    /// As JSON; what there is not is `null`.
    pub fn to_json(&self) -> String {
        let known = |n: Option<u64>| n.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let unless_0 = |n: u64| known(Some(n).filter(|n| *n > 0));
        let load = self.load_is_high.map(|high| if high { "high" } else { "low" });
        let object = Object::new().text("name", &self.name);
        let object = object.raw("limit_bytes_per_sec", unless_0(self.limit_bytes_per_sec));
        let object = object.raw("flush_limit_bytes_per_sec", unless_0(self.flush_limit_bytes_per_sec));
        let object = object.raw("urgent", self.is_urgent);
        let object = object.raw("device_bytes_per_sec", unless_0(self.device_bytes_per_sec));
        let object = object.raw("load", load.map_or_else(|| "null".to_owned(), quoted));
        let object = object.raw("client_bytes_per_sec", known(self.client_bytes_per_sec));
        let object = object.raw("high_loads", self.high_loads).raw("limit_changes", self.limit_changes);
        let [parts, whole] = self.bursts;
        let object = object.raw("bursts", Object::new().raw("part", parts).raw("whole", whole).end());
        let object = object.raw("flushes_delayed", self.flushes_delayed);
        let object = object.fraction("monitor_cpu_seconds", self.monitor_cpu_seconds);
        object.raw("used", self.used_json()).end()
    }

    fn used_json(&self) -> String {
        let used = &self.used;
        let if_counted = |n: u64| if self.counts_operations { n.to_string() } else { "null".to_owned() };
        let object =
            Object::new().raw("gets", if_counted(used.gets)).raw("get_bytes", if_counted(used.get_bytes));
        let object =
            object.raw("scans", if_counted(used.scans)).raw("scan_bytes", if_counted(used.scan_bytes));
        let object = object.raw("writes", used.writes).raw("write_bytes", used.write_bytes);
        let object = object.raw("cache_fill_bytes", used.cache_fill_bytes);
        let object = object.raw("cache_fill_bytes_on_disk", used.cache_fill_bytes_on_disk);
        object.raw("client_read_bytes", used.client_read_bytes).raw("log_bytes", used.log_bytes).end()
    }
}
