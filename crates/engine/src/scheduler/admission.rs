//! How fast writers may go, from bytes of debt: pure arithmetic, time comes in as an argument.
//!
//! ```text
//! limit
//!   ∞ ────────┐                          debt below half the slack: no limit
//!             └╮                         from there on a slope: room left / bytes to relief × measured drain
//!   drain      ╰───────╮                 room and relief run out together: what is admitted equals what drains
//!                      ╰──────────╮      more debt, less; never 0
//!        0       half     slack   bound
//! ```
//! A limit changes at most twofold within a second ([`Limit`]), so where memory must hold whatever the drain does, it is
//! also at most ln 2 × the room to the bound: what then still comes in halves that room each second and never fills it.
//! [`Turnstile`] hands out turns at the limit: each writer learns when it may go, and waits once.

use std::time::Duration;

use crate::base::error::{Error, Result};

/// How writers are slowed for what L0 holds too much. Full memtables always slow them on a slope: memory is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowing {
    /// The less room is left, the slower.
    Slope,
    /// From half the slack on to one rate, and at its end nearly to a halt: RocksDB's slowdown and stop.
    Steps {
        /// The rate.
        bytes_per_sec: u64,
    },
    /// Not at all: L0 has no limit.
    Never,
}

/// RocksDB's `delayed_write_rate`.
pub const STEP_RATE: u64 = 16 << 20;

impl Slowing {
    /// The rate of steps, if it is those.
    pub fn step(self) -> Option<u64> {
        match self {
            Slowing::Steps { bytes_per_sec } => Some(bytes_per_sec),
            Slowing::Slope | Slowing::Never => None,
        }
    }

    /// Refuses a rate at which nobody gets on.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(self) -> Result<()> {
        match self.step() {
            Some(rate) if rate < LIMIT_MIN as u64 => {
                Err(Error::invalid("admission=steps lets in 1 KiB a second or more, like steps@16MiB"))
            }
            _ => Ok(()),
        }
    }
}

/// Where writers meet a limit: bytes written and not yet drained, against the bytes there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Bytes of debt now.
    pub debt: u64,
    /// Bytes of debt there should be at most.
    pub slack: u64,
    /// Bytes that must drain before the debt falls.
    pub relief: u64,
    /// Bytes left up to a bound that must not be passed, if there is one.
    pub room: Option<u64>,
    /// Measured drain, bytes per second; `None` before anything was measured.
    pub drain: Option<f64>,
    /// No slope: this many bytes per second, until the slack is gone.
    pub step: Option<u64>,
}

/// The least limit, bytes per second: a limit is never 0, and from here it is soon back where it was.
pub const LIMIT_MIN: f64 = 1024.0;

impl Pressure {
    /// The debt at which what is let in equals what drains.
    pub fn balance(slack: u64) -> u64 {
        slack / 4 * 3
    }

    /// True where little of the slack is left: then any measure of the drain is better than none.
    pub fn is_short(debt: u64, slack: u64) -> bool {
        debt >= Pressure::balance(slack)
    }

    /// True from half the slack on.
    pub fn is_pressed(&self) -> bool {
        self.debt > 0 && self.debt >= self.slack / 2
    }

    /// The limit to aim at, bytes per second: falls with the debt, never 0. `None` for no limit.
    pub fn aim(&self) -> Option<f64> {
        if !self.is_pressed() {
            return None;
        }
        if let Some(step) = self.step {
            return Some(if self.debt < self.slack { (step as f64).max(LIMIT_MIN) } else { LIMIT_MIN });
        }
        let grace = self.grace();
        let left = self.slack as f64 - self.debt as f64;
        // Beyond the slack the room left goes on falling, and stays above nothing.
        let left = if left >= 0.0 { left + grace } else { grace * grace / (grace - left) };
        let paced = self.drain.map(|drain| drain * left / (self.relief as f64 + grace));
        // Before anything is measured nobody is held up, unless the slack is gone.
        let unknown = self.drain.is_none() && self.debt < self.slack;
        let bounded = self.room.filter(|_| !unknown).map(|room| room as f64 * std::f64::consts::LN_2);
        let aim = paced.into_iter().chain(bounded).reduce(f64::min)?;
        Some(aim.max(LIMIT_MIN))
    }

    /// Where a limit begins: so far above the drain that halving each second still spends no more than the grace.
    pub fn begin(&self) -> Option<f64> {
        let aim = self.aim()?;
        if self.step.is_some() {
            return Some(aim);
        }
        let (drain, grace) = (self.drain.unwrap_or(0.0), self.grace());
        // From s × drain, halved each second down to the drain, at most (s - 1)² / 2 ln 2 seconds of drain are let in too many;
        // from s, halved to nothing, s / ln 2.
        let ln2 = std::f64::consts::LN_2;
        let above = drain + (2.0 * ln2 * grace * drain).sqrt();
        let begin = above.max(grace * ln2).max(aim);
        Some(self.room.map_or(begin, |room| begin.min(room as f64 * ln2)).max(LIMIT_MIN))
    }

    /// Time until the debt falls, at the measured drain.
    pub fn forecast(&self) -> Option<Duration> {
        let drain = self.drain.filter(|drain| *drain > 0.0)?;
        Duration::try_from_secs_f64(self.relief as f64 / drain).ok()
    }

    fn grace(&self) -> f64 {
        (self.slack as f64 / 8.0).max(1.0)
    }
}

/// What drains, measured while there is something to drain, the recent past counting most.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    bytes: f64,
    seconds: f64,
    /// Since when time counts; `None` while there is nothing to drain.
    since: Option<Duration>,
    /// There is something, and it is kept from draining for the time being.
    is_held: bool,
    /// The latest time it was told: who was stopped after asking for the time comes late, and counts nothing twice.
    at: Duration,
    memory: Duration,
}

/// Less busy time than this measures nothing, and a whole second without a byte that nothing drains.
const MEASURED_SECONDS_MIN: f64 = 0.01;
const HANGING_SECONDS: f64 = 1.0;
/// From so much time or so many bytes on a rate is sure: what a thread does in its first turns says little of what it will.
const SURE_SECONDS: f64 = 0.1;
const SURE_BYTES: f64 = 4e6;

impl Drain {
    /// Nothing measured; what is older than some `memory` of busy time counts little.
    pub fn new(memory: Duration) -> Drain {
        Drain { bytes: 0.0, seconds: 0.0, since: None, is_held: false, at: Duration::ZERO, memory }
    }

    /// There is something to drain, or not any more.
    pub fn set_busy(&mut self, now: Duration, busy: bool) {
        let now = self.latest(now);
        match (self.since, busy && !self.is_held) {
            (None, true) => self.since = Some(now),
            (Some(_), false) => {
                self.drained(now, 0.0);
                self.since = None;
            }
            _ => {}
        }
    }

    /// It is kept from draining, which is no measure of how fast it would: no time counts until it is told to be busy after the hold.
    /// Answers whether it was held before.
    pub fn hold(&mut self, now: Duration, is_held: bool) -> bool {
        let was_held = std::mem::replace(&mut self.is_held, is_held);
        if is_held {
            self.set_busy(now, false);
        }
        was_held
    }

    /// So many bytes less. What goes while there is nothing to drain, as a compaction before its time, took no time that counts,
    /// and does not count either.
    pub fn drained(&mut self, now: Duration, bytes: f64) {
        let now = self.latest(now);
        let Some(since) = self.since else { return };
        let elapsed = now.saturating_sub(since).as_secs_f64();
        // Until the very first byte a file is made, and a thread gets its first turn: a limit by a rate with that in it would take
        // seconds to rise to the rate.
        let is_first = self.bytes == 0.0 && self.seconds == 0.0 && bytes > 0.0;
        let elapsed = if is_first { 0.0 } else { elapsed };
        self.since = Some(now);
        let kept = (-elapsed / self.memory.as_secs_f64()).exp();
        self.bytes = self.bytes * kept + bytes;
        // Of a long time without a step, as behind a gate or while the process was stopped, no more than is remembered.
        self.seconds = self.seconds * kept + elapsed.min(self.memory.as_secs_f64());
    }

    /// Bytes per second, the time since something drained last included.
    pub fn rate(&self, now: Duration) -> Option<f64> {
        let seconds = self.busy_seconds(now);
        let enough = if self.bytes > 0.0 { MEASURED_SECONDS_MIN } else { HANGING_SECONDS };
        (seconds >= enough).then(|| self.bytes / seconds)
    }

    /// True if it was measured for long enough that writers may be slowed for it while there is much room.
    pub fn is_sure(&self, now: Duration) -> bool {
        self.bytes >= SURE_BYTES || self.busy_seconds(now) >= SURE_SECONDS
    }

    fn busy_seconds(&self, now: Duration) -> f64 {
        self.seconds + self.since.map_or(0.0, |since| now.saturating_sub(since).as_secs_f64())
    }

    fn latest(&mut self, now: Duration) -> Duration {
        self.at = self.at.max(now);
        self.at
    }
}

/// A limit that changes at most twofold within a second, also across a time without one; but for steps, which are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    now: Option<f64>,
    /// The last limit there was, and when.
    last: Option<(f64, Duration)>,
}

impl Limit {
    /// Bytes per second; `None` for no limit.
    pub fn get(&self) -> Option<f64> {
        self.now
    }

    /// Goes towards what these pressures ask for, the strictest first; without any, the limit ends.
    pub fn steer(&mut self, now: Duration, pressures: &[Pressure]) {
        // Of two who steer at once, the one who asked for the time first may come last.
        let now = self.last.map_or(now, |(_, at)| at.max(now));
        let aims = pressures.iter().filter_map(|pressure| Some((pressure.aim()?, pressure.step)));
        let Some((aim, step)) = aims.reduce(|a, b| if b.0 < a.0 { b } else { a }) else {
            self.now = None;
            return;
        };
        if step.is_some() {
            (self.now, self.last) = (Some(aim), None);
            return;
        }
        let wanted = match self.now {
            Some(_) => aim,
            None => pressures.iter().filter_map(Pressure::begin).reduce(f64::min).unwrap_or(aim),
        };
        let limit = match self.last {
            Some((last, at)) => {
                let fold = now.saturating_sub(at).as_secs_f64().exp2();
                wanted.clamp(last / fold, last * fold)
            }
            None => wanted,
        };
        let limit = limit.clamp(LIMIT_MIN, 1e15);
        self.now = Some(limit);
        self.last = Some((limit, now));
    }
}

/// True if writers that wait had better ask again: the limit is half as high again as when they were told last, or gone.
pub fn wakes(told: Option<f64>, limit: Option<f64>) -> bool {
    match (told, limit) {
        (Some(told), Some(limit)) => limit >= told * 1.5,
        (told, limit) => told.is_some() && limit.is_none(),
    }
}

/// Time at the full limit that may be saved up, and that writers may run ahead before one of them waits.
const AHEAD: Duration = Duration::from_millis(1);

/// Turns at a limit, in the order in which they were asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turnstile {
    limit: Option<f64>,
    /// Bytes asked for, and bytes granted up to `at`.
    issued: f64,
    granted: f64,
    at: Duration,
}

/// A place in the order: the bytes asked for before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place(f64);

impl Turnstile {
    /// Changes the limit from `now` on. Without one, everybody goes.
    pub fn set_limit(&mut self, now: Duration, limit: Option<f64>) {
        self.refresh(now);
        self.limit = limit;
        if limit.is_none() {
            self.granted = self.issued;
        }
    }

    /// Asks for `bytes`: go (`Ok`), or ask again when told to.
    pub fn enter(&mut self, now: Duration, bytes: u64) -> Result<(), (Place, Duration)> {
        self.refresh(now);
        let place = Place(self.issued);
        self.issued += bytes as f64;
        let Some(limit) = self.limit else {
            self.granted = self.issued;
            return Ok(());
        };
        if place.0 <= self.granted + limit * AHEAD.as_secs_f64() {
            return Ok(());
        }
        self.ask(now, place).map_err(|when| (place, when))
    }

    /// Asks again: go, or ask again then.
    pub fn ask(&mut self, now: Duration, place: Place) -> Result<(), Duration> {
        self.refresh(now);
        let Some(limit) = self.limit else { return Ok(()) };
        let missing = place.0 - self.granted;
        if missing <= 0.0 {
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64(missing / limit.max(LIMIT_MIN)).unwrap_or(Duration::MAX);
        // A clock of nanoseconds must show it: else a turn that is due would be asked for again and again.
        Err(now.saturating_add(wait).saturating_add(Duration::from_nanos(100)))
    }

    fn refresh(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        if let Some(limit) = self.limit {
            let saved = self.issued + limit * AHEAD.as_secs_f64();
            self.granted = (self.granted + limit * elapsed).min(saved.max(self.granted));
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
