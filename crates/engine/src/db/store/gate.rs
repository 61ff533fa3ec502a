//! Where writers of a keyspace, or of the whole store, wait for their turn: the limit in force, and the condition they wait on.
//!
//! Without pressure a writer looks at one flag of the store and passes. The arithmetic is `scheduler/admission.rs`; who
//! samples is `db/jobs/pressure.rs`, and what writers are told `db/writing/admission.rs`.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::error::Error;
use crate::base::locks::{Condvar, Mutex, MutexGuard};
use crate::scheduler::admission::{Drain, Limit, Pressure, Slowing, Turnstile, wakes};

/// How long what was measured of a flush, or of L0's compactions, counts.
const FLUSH_MEMORY: Duration = Duration::from_secs(4);
const L0_MEMORY: Duration = Duration::from_secs(20);

/// A place to wait at.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// True while there is a limit, or a failure.
    pressed: AtomicBool,
    /// Bytes let in and not yet in a memtable.
    reserved: AtomicU64,
}

/// What the lock guards.
#[derive(Debug, Default)]
pub struct GateState {
    limit: Limit,
    /// The turns.
    pub turnstile: Turnstile,
    /// What presses, and why in words; while there is a limit.
    pub pressures: Vec<(Pressure, String)>,
    /// The limit when those who wait were woken last.
    told: Option<f64>,
    /// When it was looked at last.
    pub sampled_at: Duration,
    /// Set once a writer has been told of this pressure.
    pub announced: bool,
    /// What writers are told instead of waiting: no room is left, and what would make some fails.
    pub failure: Option<Error>,
    /// Set for good when the keyspace is dropped: nobody is held up here any more.
    retired: bool,
}

/// What a sample has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// 1 if writers have to look at this gate now, -1 if they need not any more.
    pub gates: i64,
    /// True if writers fail from now on.
    pub failed_now: bool,
}

impl GateState {
    /// The limit in force.
    pub fn limit_now(&self) -> Option<f64> {
        self.limit.get()
    }

    /// The pressure that asks for the lowest limit, and why.
    pub fn strictest(&self) -> Option<&(Pressure, String)> {
        let aim = |(pressure, _): &&(Pressure, String)| pressure.aim().unwrap_or(f64::MAX);
        self.pressures.iter().min_by(|a, b| aim(a).total_cmp(&aim(b)))
    }
}

impl Gate {
    /// The lock.
    pub fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while there is a limit.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed)
    }

    /// Steers the limit by these pressures; wakes those who wait if it has risen, or if they are to be told of a failure.
    pub fn steer(
        &self,
        now: Duration,
        pressures: Vec<(Pressure, String)>,
        failure: Option<Error>,
    ) -> Steered {
        let mut state = self.lock();
        if state.retired {
            // Measured before the keyspace was dropped, or by a writer who has not noticed.
            return Steered { gates: 0, failed_now: false };
        }
        let plain: Vec<Pressure> = pressures.iter().map(|(pressure, _)| *pressure).collect();
        state.limit.steer(now, &plain);
        let limit = state.limit.get();
        state.turnstile.set_limit(now, limit);
        state.sampled_at = now;
        state.pressures = pressures;
        let failed_now = failure.is_some() && state.failure.is_none();
        state.failure = failure;
        if wakes(state.told, limit) || failed_now {
            self.changed.notify_all();
            state.told = limit;
        } else if state.told.is_none() || limit < state.told {
            state.told = limit;
        }
        let pressed = limit.is_some() || state.failure.is_some();
        if !pressed {
            state.announced = false;
        }
        Steered { gates: self.set_pressed(pressed), failed_now }
    }

    /// Its keyspace is gone: who waits goes on, and nothing presses here ever again. Answers how many more gates writers have to
    /// look at, as `steer` does.
    pub fn retire(&self, now: Duration) -> i64 {
        let mut state = self.lock();
        let mut open = GateState { turnstile: state.turnstile, retired: true, ..GateState::default() };
        open.turnstile.set_limit(now, None);
        *state = open;
        self.changed.notify_all();
        self.set_pressed(false)
    }

    /// Under the lock.
    fn set_pressed(&self, pressed: bool) -> i64 {
        i64::from(pressed) - i64::from(self.pressed.swap(pressed, Ordering::Relaxed))
    }

    /// Something has drained, or failed: who waits looks again. Takes no lock, so that a thread of low priority cannot be stopped
    /// while it holds one that writers need; a wake-up that comes too early is made good by the wait's own end.
    pub fn nudge(&self) {
        self.changed.notify_all();
    }

    /// Wakes everybody who waits: the store is read-only, or closing.
    pub fn wake_all(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits until woken, at most for `longest`.
    pub fn wait<'a>(&self, state: MutexGuard<'a, GateState>, longest: Duration) -> MutexGuard<'a, GateState> {
        self.changed.wait_timeout(state, longest).map_or_else(|e| e.into_inner().0, |s| s.0)
    }

    /// The limit in bytes per second; `None` for none.
    pub fn limit(&self) -> Option<f64> {
        self.lock().limit.get()
    }

    /// Bytes let in and not yet in a memtable.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Lets bytes in, or has them in a memtable.
    pub fn reserve(&self, bytes: u64) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They are in a memtable, or will not come.
    pub fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How fast a keyspace's L0, or the store's memtables, drain.
///
/// Background threads of low priority write it, so writers never wait for its lock: they take what was known last.
#[derive(Debug)]
pub struct DrainMeter {
    drain: Mutex<Drain>,
    /// Bits of the rate as it was known last; none if it was not.
    known: AtomicU64,
    /// That one was sure.
    is_sure: AtomicBool,
}

const UNKNOWN: u64 = u64::MAX;

impl DrainMeter {
    /// For flushes.
    pub fn of_flushes() -> DrainMeter {
        DrainMeter::new(FLUSH_MEMORY)
    }

    /// For compactions out of L0.
    pub fn of_l0() -> DrainMeter {
        DrainMeter::new(L0_MEMORY)
    }

    fn new(memory: Duration) -> DrainMeter {
        DrainMeter {
            drain: Mutex::new(Drain::new(memory)),
            known: AtomicU64::new(UNKNOWN),
            is_sure: AtomicBool::new(false),
        }
    }

    /// There is something to drain, or not any more.
    pub fn set_busy(&self, now: Duration, busy: bool) {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner).set_busy(now, busy);
    }

    /// A plan keeps it from draining as fast as it could, and would as soon as writers needed it; or not any more. Answers whether it
    /// was held before.
    pub fn hold(&self, now: Duration, is_held: bool) -> bool {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner).hold(now, is_held)
    }

    /// The same for writers, who see it again soon.
    pub fn try_set_busy(&self, now: Duration, busy: bool) {
        if let Ok(mut drain) = self.drain.try_lock() {
            drain.set_busy(now, busy);
        }
    }

    /// So many bytes less.
    pub fn drained(&self, now: Duration, bytes: f64) {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner).drained(now, bytes);
    }

    /// Bytes per second.
    pub fn rate(&self, now: Duration) -> Option<f64> {
        if let Ok(drain) = self.drain.try_lock() {
            let rate = drain.rate(now);
            self.known.store(rate.map_or(UNKNOWN, f64::to_bits), Ordering::Relaxed);
            self.is_sure.store(drain.is_sure(now), Ordering::Relaxed);
            return rate;
        }
        Some(self.known.load(Ordering::Relaxed)).filter(|bits| *bits != UNKNOWN).map(f64::from_bits)
    }

    /// The rate to slow writers by: one that is not sure counts only where little of the slack is left.
    pub fn rate_for(&self, now: Duration, debt: u64, slack: u64) -> Option<f64> {
        let rate = self.rate(now)?;
        (self.is_sure.load(Ordering::Relaxed) || Pressure::is_short(debt, slack)).then_some(rate)
    }
}

/// No rate of steps is one of these.
const SLOPE: u64 = 0;
const NEVER: u64 = u64::MAX;

/// What is shared by all keyspaces.
#[derive(Debug)]
pub struct Admission {
    /// For the memory of all memtables.
    pub gate: Gate,
    /// Gates where there is a limit: 0 lets every writer pass.
    pub pressed: AtomicI64,
    /// Writers that wait for their turn at one.
    pub waiting: AtomicI64,
    /// How fast memtables become tables.
    pub flushes: DrainMeter,
    /// The flush under way: bytes of its memtable that are not in tables yet.
    pub flush_left: AtomicU64,
    /// Writers wait for their turn by the clock. Otherwise they step the background, and only where nothing is left.
    pub timed: AtomicBool,
    /// Every writer waits while a compaction is due.
    pub compaction_first: AtomicBool,
    /// The schedule's [`Slowing`]: its rate of steps, or one of the two ends.
    slowing: AtomicU64,
}

impl Admission {
    /// Nobody is slowed.
    pub fn new(timed: bool, compaction_first: bool) -> Admission {
        Admission {
            gate: Gate::default(),
            pressed: AtomicI64::new(0),
            waiting: AtomicI64::new(0),
            flushes: DrainMeter::of_flushes(),
            flush_left: AtomicU64::new(0),
            timed: AtomicBool::new(timed),
            compaction_first: AtomicBool::new(compaction_first),
            slowing: AtomicU64::new(SLOPE),
        }
    }

    /// How writers are slowed for L0.
    pub fn slowing(&self) -> Slowing {
        match self.slowing.load(Ordering::Relaxed) {
            SLOPE => Slowing::Slope,
            NEVER => Slowing::Never,
            bytes_per_sec => Slowing::Steps { bytes_per_sec },
        }
    }

    /// From the next look on.
    pub fn set_slowing(&self, slowing: Slowing) {
        let coded = match slowing {
            Slowing::Slope => SLOPE,
            Slowing::Never => NEVER,
            Slowing::Steps { bytes_per_sec } => bytes_per_sec.clamp(SLOPE + 1, NEVER - 1),
        };
        self.slowing.store(coded, Ordering::Relaxed);
    }
}
