//! An emulated device of so many bytes a second, whatever the disk below can do: experiments then mean the same on every
//! machine.
//!
//! ```text
//! request ─► grants of 256 KiB at most ─► start = max(finish, came); finish = start + bytes / T ─► one sleep until finish + latency
//! ```
//! There is one line, served first come, first served, and all there is of it is the moment at which it will be empty. A
//! sleep that ends late so costs nobody else anything. It would cost the sleeper: a caller that comes again at once counts as
//! come when it was due back, so that one caller with small requests gets the whole rate, too. A device that was idle gives
//! nothing for the time before.
//!
//! What the hardware can do is here; what background work grants itself is `execution/rate_limiter.rs`.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(any(test, feature = "testing"))]
use crate::base::clock::ManualClock;
use crate::base::clock::{Clock, SystemClock};
use crate::base::error::{Error, Result};
use crate::base::units::{GIB, KIB};

/// A caller that comes again so soon came at once: this is what it needs between two requests.
const AT_ONCE_NANOS: u64 = 20_000;
/// What a caller is made good for coming back late, at most; later than that the machine is busy with other things.
const LATE_NANOS_MAX: u64 = 10_000_000;
/// A sleep takes so long, however short it is; what is less is waited for awake.
const SLEEP_MIN: Duration = Duration::from_micros(10);
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Moments are in nanoseconds since the clock's start.
type Nanos = u64;

/// A device of a certain speed, shared by all files of the file systems that are given it.
#[derive(Debug)]
pub struct Device {
    line: Line,
    latency: Duration,
    time: Box<dyn Time>,
    charged: AtomicU64,
    /// Nanoseconds that clients' reads ended later than here.
    late: AtomicU64,
    /// How many want it to hold nobody up.
    aside: AtomicU32,
    /// Tells the devices of a process apart.
    number: u64,
}

impl Device {
    /// A request is cut into pieces of this many bytes, so that others get their turn between them.
    pub const GRANT_BYTES: u64 = 256 * KIB;
    /// The slowest and the fastest device there can be, in bytes a second.
    pub const BYTES_PER_SEC: std::ops::RangeInclusive<u64> = KIB..=16 * GIB;

    /// A device that is idle. `latency` is added to each request, read, write or sync; it occupies nothing.
    ///
    /// # Errors
    /// `InvalidArgument`: a rate outside of [`Device::BYTES_PER_SEC`], or a latency above a second.
    pub fn new(bytes_per_sec: u64, latency: Duration) -> Result<Arc<Device>> {
        Device::in_time(bytes_per_sec, latency, Box::new(SystemClock::default()))
    }

    /// The same in a time of its own: whoever would sleep moves the clock forward instead. For one thread.
    ///
    /// # Errors
    /// As for [`Device::new`].
    #[cfg(any(test, feature = "testing"))]
    pub fn on_manual_clock(
        bytes_per_sec: u64,
        latency: Duration,
        clock: Arc<ManualClock>,
    ) -> Result<Arc<Device>> {
        Device::in_time(bytes_per_sec, latency, Box::new(clock))
    }

    fn in_time(bytes_per_sec: u64, latency: Duration, time: Box<dyn Time>) -> Result<Arc<Device>> {
        if !Device::BYTES_PER_SEC.contains(&bytes_per_sec) {
            return Err(Error::invalid(format!(
                "a device has from 1 KiB to 16 GiB a second, like 100MiB, not {bytes_per_sec} bytes"
            )));
        }
        if latency > Duration::from_secs(1) {
            return Err(Error::invalid("a device's latency is at most a second"));
        }
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        let number = DEVICES.fetch_add(1, Ordering::Relaxed);
        let line = Line { bytes_per_sec, finish: AtomicU64::new(0) };
        Ok(Arc::new(Device {
            line,
            latency,
            time,
            charged: AtomicU64::new(0),
            late: AtomicU64::new(0),
            aside: AtomicU32::new(0),
            number,
        }))
    }

    /// Bytes that the device can move in a second.
    pub fn bytes_per_sec(&self) -> u64 {
        self.line.bytes_per_sec
    }

    /// What each request takes longer.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Bytes asked of it so far, reads and writes.
    pub fn charged_bytes(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// How much longer clients' reads took than here, all together, but for those that took a hundredth of a second longer at most: the
    /// disk below has the bytes no sooner, or the machine stood still.
    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.late.load(Ordering::Relaxed))
    }

    /// Until the answer is dropped requests move at once, whoever makes them: for what belongs to no measurement.
    #[must_use = "it holds nobody up until this is dropped"]
    pub fn stand_aside(self: &Arc<Device>) -> StoodAside {
        self.aside.fetch_add(1, Ordering::Relaxed);
        StoodAside(Arc::clone(self))
    }

    /// Puts the first piece of a request of `bytes` into the line.
    pub(in crate::storage) fn begin(&self, bytes: u64) -> Request {
        let piece = bytes.min(Device::GRANT_BYTES);
        let (due, lag) = self.enter(piece);
        Request { due, lag, rest: bytes - piece }
    }

    /// Waits for all of a request, a piece at a time.
    pub(in crate::storage) fn finish(&self, mut request: Request) {
        loop {
            self.come_back(request.due, request.lag);
            if request.rest == 0 {
                return;
            }
            request = self.begin(request.rest);
        }
    }

    /// The same of a client's read, whose bytes are there: notes how much later than they would be.
    pub(in crate::storage) fn finish_read(&self, request: Request) {
        let late = nanos(self.time.now()).saturating_sub(request.lag).saturating_sub(request.due.0);
        if request.due.0 > 0 && late > LATE_NANOS_MAX {
            self.late.fetch_add(late, Ordering::Relaxed);
        }
        self.finish(request);
    }

    /// Puts `bytes` into the line as one piece; answers when they will be through. Nothing is in no line.
    pub(in crate::storage) fn charge(&self, bytes: u64) -> Due {
        self.enter(bytes).0
    }

    /// Sleeps until then, or not at all if that is over.
    pub(in crate::storage) fn wait_until(&self, due: Due) {
        self.come_back(due, 0);
    }

    /// The same, with how much later than it counts the caller has come.
    fn enter(&self, bytes: u64) -> (Due, Nanos) {
        if bytes == 0 {
            return (Due(0), 0);
        }
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        if self.aside.load(Ordering::Relaxed) > 0 {
            return (Due(0), 0);
        }
        let back = BACK.get();
        let now = nanos(self.time.now());
        let came = if back.device == self.number { back.counts_from(now) } else { now };
        (Due(self.line.take(came, bytes) + nanos(self.latency)), now - came)
    }

    /// Waits; what is left of a caller's `lag`, or the lateness of its sleep, is good for its next request.
    fn come_back(&self, due: Due, lag: Nanos) {
        if due.0 == 0 {
            return;
        }
        let now = nanos(self.time.now());
        let (due, at) = if now < due.0 {
            self.time.sleep_until(Duration::from_nanos(due.0));
            (due.0, nanos(self.time.now()))
        } else {
            (due.0.max(now.saturating_sub(lag)), now)
        };
        BACK.set(Back { device: self.number, due, at });
    }
}

/// While it is there the device holds nobody up.
#[derive(Debug)]
pub struct StoodAside(Arc<Device>);

impl Drop for StoodAside {
    fn drop(&mut self) {
        self.0.aside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When bytes will be through; 0 for at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::storage) struct Due(pub(in crate::storage) Nanos);

/// A request that was begun.
#[derive(Debug)]
pub(in crate::storage) struct Request {
    due: Due,
    /// How much later than it counts the caller came.
    lag: Nanos,
    /// Bytes that are not in the line yet.
    rest: u64,
}

/// Who comes is served when all before are.
#[derive(Debug)]
struct Line {
    bytes_per_sec: u64,
    finish: AtomicU64,
}

impl Line {
    /// Puts `bytes` at its end; answers when they will be through.
    ///
    /// Without a lock, which a thread of low priority could hold for long.
    fn take(&self, came: Nanos, bytes: u64) -> Nanos {
        let exact = u128::from(bytes) * u128::from(NANOS_PER_SEC);
        let rate = u128::from(self.bytes_per_sec);
        let needed = u64::try_from((exact + rate / 2) / rate).unwrap_or(u64::MAX);
        let end = |finish: Nanos| finish.max(came).saturating_add(needed);
        let before =
            self.finish.fetch_update(Ordering::AcqRel, Ordering::Acquire, |finish| Some(end(finish)));
        end(before.unwrap_or_else(|finish| finish))
    }
}

thread_local! {
    static BACK: Cell<Back> = const { Cell::new(Back { device: 0, due: 0, at: 0 }) };
}

/// How this thread came back from its last request.
#[derive(Clone, Copy, Debug)]
struct Back {
    device: u64,
    /// When it should have.
    due: Nanos,
    /// When it did.
    at: Nanos,
}

impl Back {
    /// From when on a request counts that the thread makes now.
    fn counts_from(self, now: Nanos) -> Nanos {
        if now.saturating_sub(self.at) > AT_ONCE_NANOS {
            return now;
        }
        self.due.clamp(now.saturating_sub(LATE_NANOS_MAX), now)
    }
}

/// A clock, and how to let its time pass.
trait Time: Send + Sync + Debug {
    fn now(&self) -> Duration;
    fn sleep_until(&self, at: Duration);
}

impl Time for SystemClock {
    fn now(&self) -> Duration {
        Clock::now(self)
    }

    fn sleep_until(&self, at: Duration) {
        let left = at.saturating_sub(Clock::now(self));
        if left >= SLEEP_MIN {
            evenkeel_sys::sleep_punctually(left);
        }
        while Clock::now(self) < at {
            std::hint::spin_loop();
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Time for Arc<ManualClock> {
    fn now(&self) -> Duration {
        Clock::now(&**self)
    }

    fn sleep_until(&self, at: Duration) {
        self.advance(at.saturating_sub(Clock::now(&**self)));
    }
}

fn nanos(moment: Duration) -> Nanos {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
