//! How hard writers press on what drains: measures debt, room and drain, and steers the limits at the gates.
//!
//! Called by the leader each time a memtable has grown by a part, by writers at a pressed gate, once a millisecond, and once a second while
//! anybody is slowed. Flushes and compactions only note what they drain. Those who wait are in `db/writing/admission.rs`, the arithmetic
//! in `scheduler/admission.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::memory::in_use;
use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::units::{KeyspaceId, MIB};
use crate::compaction::level_sizes::runs_max;
use crate::db::store::gate::Gate;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::priority::Duty;
use crate::db::store::state::Store;
use crate::observe::event::Event;
use crate::observe::words;
use crate::scheduler::admission::{Pressure, Slowing};

/// A limit is measured anew after this long.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);

/// Measures again what was last measured a while ago: a keyspace's gate, or the store's.
pub fn resample(store: &Store, gate: &Gate, keyspace: Option<&Arc<KeyspaceState>>, now: Duration) {
    let sampled_at = gate.lock().sampled_at;
    if now.saturating_sub(sampled_at) >= SAMPLE_EVERY {
        match keyspace {
            Some(keyspace) => sample(store, keyspace),
            None => sample_memory(store),
        }
    }
}

/// Measures the debt of a keyspace and steers its limit.
pub fn sample(store: &Store, keyspace: &KeyspaceState) {
    if !store.admission.timed.load(Ordering::Relaxed) {
        return;
    }
    let now = store.clock.now();
    let mut pressures = Vec::new();
    let failures = Failures::look(store, &keyspace.gate, Some(keyspace.id));
    let memtables = memtable_pressure(store, keyspace, now);
    let l0 = l0_pressure(store, keyspace, now);
    let (fills, l0_presses) = (memtable_fills(keyspace), l0.0.is_pressed());
    let mut failure = None;
    for ((pressure, why), error) in [(memtables, failures.flush), (l0, failures.compaction)] {
        match error {
            // What fails is no measure of speed: writers go on while there is room, and are told when there is none.
            Some(error) if pressure.slack > 0 && pressure.debt >= pressure.slack => {
                failure.get_or_insert(error);
            }
            Some(_) => {}
            None if pressure.is_pressed() => pressures.push((pressure, why())),
            None => {}
        }
    }
    steer(store, &keyspace.gate, now, pressures, failure);
    if l0_presses {
        store.background.priorities.raise_for(Duty::Compactions);
    }
    if fills {
        store.background.priorities.raise_for(Duty::Flushes);
    }
}

/// Measures the memory of all memtables and steers the store's limit.
pub fn sample_memory(store: &Store) {
    if !store.admission.timed.load(Ordering::Relaxed) {
        return;
    }
    let now = store.clock.now();
    let memory = in_use(store);
    let slack = memory.for_memtables();
    let pressure = Pressure {
        debt: memory.memtables,
        slack,
        relief: store.admission.flush_left.load(Ordering::Relaxed),
        room: Some(slack.saturating_sub(memory.memtables)),
        drain: store.admission.flushes.rate_for(now, memory.memtables, slack),
        step: None,
    };
    let failures = Failures::look(store, &store.admission.gate, None);
    // As for a keyspace: what fails is no measure of speed.
    let pressed = pressure.is_pressed() && failures.flush.is_none();
    let failure = failures.flush.filter(|_| pressure.debt >= pressure.slack);
    let mut pressures = Vec::new();
    if pressed {
        let (used, of) = (mib(memory.memtables), mib(slack));
        pressures.push((pressure, format!("because memtables take {used} MiB of the {of} MiB of memory")));
    }
    let began = !store.admission.gate.is_pressed() && !pressures.is_empty();
    steer(store, &store.admission.gate, now, pressures, failure);
    if began {
        store.background.priorities.raise_for(Duty::Flushes);
        // The flush lane sends the largest memtable early.
        store.background.wake_flusher();
    }
}

/// What has changed may have changed for others too: measures a keyspace, those that are slowed, and the memory they share.
pub fn sample_all(store: &Store, keyspace: &KeyspaceState) {
    sample(store, keyspace);
    let keyspaces = store.keyspaces.load();
    let others = keyspaces.by_name.values().filter(|k| k.id != keyspace.id && k.gate.is_pressed());
    others.for_each(|other| sample(store, other));
    sample_memory(store);
}

/// Measures again what writers are slowed for: those who would notice that it is gone may write no more.
pub fn sample_pressed(store: &Store) {
    if store.admission.pressed.load(Ordering::Relaxed) <= 0 {
        return;
    }
    let keyspaces = store.keyspaces.load();
    keyspaces.by_name.values().filter(|k| k.gate.is_pressed()).for_each(|keyspace| sample(store, keyspace));
    if store.admission.gate.is_pressed() {
        sample_memory(store);
    }
}

/// L0 is another. Whether there is anything to drain is noted at once: a meter that nobody tells counts the time without writers as
/// one in which nothing drained.
pub fn l0_changed(store: &Store, keyspace: &KeyspaceState) {
    if store.admission.timed.load(Ordering::Relaxed) {
        let any = L0Debt::of(store, keyspace).debt > 0;
        keyspace.l0_drain.set_busy(store.clock.now(), any);
    }
}

/// No plan keeps this L0 from draining any more.
pub fn let_drain(store: &Store, keyspace: &KeyspaceState, now: Duration) {
    if keyspace.l0_drain.hold(now, false) {
        l0_changed(store, keyspace);
    }
}

fn steer(
    store: &Store,
    gate: &Gate,
    now: Duration,
    pressures: Vec<(Pressure, String)>,
    failure: Option<Error>,
) {
    let stopping = failure.as_ref().map(ToString::to_string);
    let steered = gate.steer(now, pressures, failure);
    store.admission.pressed.fetch_add(steered.gates, Ordering::Relaxed);
    if let (true, Some(reason)) = (steered.failed_now, stopping) {
        store.event(&Event::Stopping { reason });
    }
}

/// A keyspace was dropped: its writers are held up no longer, and it counts no more among those that are slowed.
pub fn retire(store: &Store, keyspace: &KeyspaceState) {
    let gates = keyspace.gate.retire(store.clock.now());
    store.admission.pressed.fetch_add(gates, Ordering::Relaxed);
}

/// The strictest limit of all, bytes per second.
pub fn limit(store: &Store) -> Option<f64> {
    let keyspaces = store.keyspaces.load();
    let gates = keyspaces.by_name.values().map(|k| &k.gate).chain([&store.admission.gate]);
    gates.filter_map(Gate::limit).reduce(f64::min)
}

/// The background has drained something, or failed: writers that wait look again. They measure, not the background: its threads
/// run below everyone, and must not hold what writers need.
pub fn drained(store: &Store) {
    store.keyspaces.load().by_name.values().for_each(|keyspace| keyspace.gate.nudge());
    store.admission.gate.nudge();
}

/// True if a keyspace's active memtable is half full while another one waits for its flush: it is to end soon.
pub fn memtable_fills(keyspace: &KeyspaceState) -> bool {
    let view = keyspace.view.load();
    !view.immutable.is_empty() && view.active.bytes() >= keyspace.memtable_bytes() / 2
}

/// The flush under way has so many bytes of its memtable left; `drained` of them since the last call.
pub fn flush_went_on(store: &Store, left: u64, drained: f64) {
    store.admission.flush_left.store(left, Ordering::Relaxed);
    store.admission.flushes.drained(store.clock.now(), drained);
}

/// There are memtables to flush, or none.
pub fn flushes_wait(store: &Store, any: bool) {
    store.admission.flushes.set_busy(store.clock.now(), any);
}

/// The background's failures that writers are to be told of when they need what fails.
struct Failures {
    flush: Option<Error>,
    compaction: Option<Error>,
}

impl Failures {
    /// Background threads may be stopped for long while they hold the lock, for they run below everyone: then what a gate was last
    /// told still holds.
    fn look(store: &Store, gate: &Gate, of: Option<KeyspaceId>) -> Failures {
        let Some(state) = store.background.try_lock() else {
            let told = gate.lock().failure.clone();
            return Failures { flush: told.clone(), compaction: told };
        };
        let matters = |keyspace, class: Class| Some(keyspace) == of && class.is_l0();
        Failures {
            flush: state.failed_flush.error().cloned(),
            compaction: state.lasting_error(matters).cloned(),
        }
    }
}

type Why = Box<dyn Fn() -> String>;

fn memtable_pressure(store: &Store, keyspace: &KeyspaceState, now: Duration) -> (Pressure, Why) {
    let admission = &store.admission;
    let view = keyspace.view.load();
    let debt = view.bytes_in_memory() + keyspace.gate.reserved();
    let slack = keyspace.memtable_bytes().saturating_mul(store.options.load().memtables.into());
    // Its own oldest memtable is flushed now, or after the one that is.
    let left = admission.flush_left.load(Ordering::Relaxed);
    let own = view.immutable.last();
    let relief = match own {
        Some(memtable) if !memtable.is_being_flushed() => left + memtable.bytes(),
        Some(_) => left,
        None => 0,
    };
    let memory = in_use(store);
    let room = memory.for_memtables().saturating_sub(memory.memtables);
    let sharing = admission.pressed.load(Ordering::Relaxed).max(1) as u64;
    let drain = admission.flushes.rate_for(now, debt, slack);
    let pressure = Pressure { debt, slack, relief, room: Some(room / sharing), drain, step: None };
    let (count, used, of) = (view.immutable.len(), mib(debt), mib(slack));
    (
        pressure,
        Box::new(move || {
            let memtables = words::count(count as u64, "memtable");
            format!("because we have {memtables} waiting for a flush ({used} of {of} MiB)")
        }),
    )
}

/// What L0 of a keyspace has beyond what the strategy wants there.
#[derive(Clone, Debug, Default)]
pub struct L0Debt {
    /// Bytes too many; runs too many count as a memtable each.
    pub debt: u64,
    /// How much of it there may be; all there are where nobody is slowed for it.
    pub slack: u64,
    /// Runs there.
    pub runs: u64,
    /// Runs that there may be.
    pub wanted: u64,
    /// Bytes there.
    pub bytes: u64,
    /// Bytes that there may be before they are too many.
    pub capacity: u64,
    /// Runs at which the slack ends.
    pub limit: u64,
}

impl L0Debt {
    /// As it is now.
    pub fn of(store: &Store, keyspace: &KeyspaceState) -> L0Debt {
        let (runs, bytes) = keyspace.l0();
        let strategy = keyspace.strategy.load();
        let layout = strategy.strategy.levels.first.layout.max_runs();
        let wanted = u64::from(runs_max(&strategy.strategy.size, &keyspace.view.load().version, 0, layout));
        let unit = keyspace.memtable_bytes();
        let limit = u64::from(store.options.load().l0_limit).max(wanted + 2);
        let capacity = strategy.strategy.size.l0_bytes.max(wanted.saturating_mul(unit));
        let debt = bytes.saturating_sub(capacity).max(runs.saturating_sub(wanted).saturating_mul(unit));
        let slack = match store.admission.slowing() {
            Slowing::Never => u64::MAX,
            _ => (limit - wanted).saturating_mul(unit),
        };
        L0Debt { debt, slack, runs, wanted, bytes, capacity, limit }
    }

    /// The runs from which on writers are slowed, if they ever are.
    pub fn slowed_from(&self) -> Option<u64> {
        (self.slack < u64::MAX).then(|| self.wanted + (self.limit - self.wanted).div_ceil(2))
    }

    /// The bytes from which on they are, however few runs have them.
    pub fn slowed_from_bytes(&self) -> u64 {
        self.capacity.saturating_add(self.slack / 2)
    }

    /// True if writers are slowed for it.
    pub fn slows(&self) -> bool {
        Pressure { debt: self.debt, slack: self.slack, ..Pressure::default() }.is_pressed()
    }

    /// True from three quarters of the debt on at which writers are slowed: compactions run as everyone does then.
    pub fn fills(&self) -> bool {
        self.debt > 0 && self.debt >= self.slack / 8 * 3
    }
}

fn l0_pressure(store: &Store, keyspace: &KeyspaceState, now: Duration) -> (Pressure, Why) {
    let L0Debt { debt, slack, runs, bytes, limit, .. } = L0Debt::of(store, keyspace);
    keyspace.l0_drain.try_set_busy(now, debt > 0);
    let pressure = Pressure {
        debt,
        slack,
        relief: debt.saturating_sub(slack / 2),
        room: None,
        drain: keyspace.l0_drain.rate_for(now, debt, slack),
        step: store.admission.slowing().step(),
    };
    let bytes = mib(bytes);
    (
        pressure,
        Box::new(move || format!("because we have {runs} level-0 runs of {bytes} MiB (l0_limit {limit})")),
    )
}

fn mib(bytes: u64) -> f64 {
    (bytes as f64 / MIB as f64 * 10.0).round() / 10.0
}
