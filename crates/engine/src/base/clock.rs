//! Time and threads: the only place that asks the machine what time it is and that starts a thread.
//!
//! The monotone clock orders and measures; the wall clock is never used for order or correctness (`docs/durability.md`,
//! C14). Tests run on [`ManualClock`], which moves only when told to.

#[cfg(test)]
use std::cell::Cell;
use std::fmt::Debug;
use std::sync::OnceLock;
#[cfg(any(test, feature = "testing"))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::error::{Error, Result};
use super::locks::thread::{self, JoinHandle};

/// Where the engine gets its time from.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed moment; never falls.
    fn now(&self) -> Duration;
    /// Milliseconds since 1970 by the wall clock; may jump.
    fn wall_ms(&self) -> u64;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn default() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
    }
}

/// Nanoseconds since this process first asked, by the machine's monotone clock; never 0. For measuring what a client waits
/// for where no [`Clock`] is at hand: nothing is ever decided by it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// A clock that a test moves by hand.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

#[cfg(any(test, feature = "testing"))]
impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn wall_ms(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed) / 1_000_000
    }
}

/// A number of the calling thread: no other thread of the process has it, and the first ones are small.
#[inline]
pub fn thread_number() -> usize {
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| *number)
}

/// Starts a named thread.
///
/// # Errors
/// `Io`: the system starts no more.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let refused = |error| Error::io(format!("start the thread {name}"), error);
    #[cfg(test)]
    refuse().map_err(refused)?;
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(refused)
}

#[cfg(test)]
thread_local! {
    /// How many threads more this one may start.
    static THREADS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// From now on the calling thread may start so many threads and no more; `None` lifts the limit.
#[cfg(test)]
pub fn refuse_threads_after(left: Option<u32>) {
    THREADS_LEFT.set(left);
}

#[cfg(test)]
fn refuse() -> std::io::Result<()> {
    match THREADS_LEFT.get() {
        Some(0) => Err(std::io::ErrorKind::WouldBlock.into()),
        left => {
            THREADS_LEFT.set(left.map(|left| left - 1));
            Ok(())
        }
    }
}
