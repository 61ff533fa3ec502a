//! Waits with an end, under shuttle, which knows no time: they end when a test says that time has passed, and not before.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, LockResult};
use std::time::Duration;

use shuttle::rand::Rng as _;
use shuttle::sync::{Condvar as Untimed, MutexGuard, WaitTimeoutResult};

std::thread_local! {
    /// Who waits for time too. One for all of a test's threads, which are one to the system.
    static SLEEPERS: RefCell<Vec<Sleeper>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Debug)]
struct Sleeper {
    thread: shuttle::thread::Thread,
    /// `None` if it is parked.
    at: Option<Arc<Untimed>>,
}

/// The calling thread is among the sleepers until this is dropped.
struct Asleep(shuttle::thread::ThreadId);

impl Asleep {
    fn at(at: Option<Arc<Untimed>>) -> Asleep {
        let thread = shuttle::thread::current();
        let id = thread.id();
        SLEEPERS.with_borrow_mut(|all| all.push(Sleeper { thread, at }));
        Asleep(id)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        SLEEPERS.with_borrow_mut(|all| all.retain(|sleeper| sleeper.thread.id() != self.0));
    }
}

/// Every wait with an end that is under way ends. Answers how many there were.
pub fn time_passes() -> usize {
    // Waking is a point at which others go on, so nothing is held meanwhile.
    let all = SLEEPERS.with_borrow(Clone::clone);
    for sleeper in &all {
        match &sleeper.at {
            Some(condition) => condition.notify_all(),
            None => sleeper.thread.unpark(),
        }
    }
    all.len()
}

/// As the standard one, with the ends above. A wait never says that it has timed out: who waits looks at its clock.
#[derive(Debug, Default)]
pub struct Condvar(Arc<Untimed>);

impl Condvar {
    /// Nobody waits.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// See the standard one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// See the standard one.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// See the standard one.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Until notified, or time passes.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let _asleep = Asleep::at(Some(Arc::clone(&self.0)));
        self.0.wait_timeout(guard, longest)
    }

    /// Until `quiet` is false.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        quiet: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait_while(guard, quiet)
    }

    /// Until `quiet` is false, or time passes, which it does here at each notification too.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        longest: Duration,
        mut quiet: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let _asleep = Asleep::at(Some(Arc::clone(&self.0)));
        // Once, if at all.
        let mut waits = quiet(&mut guard);
        self.0.wait_timeout_while(guard, longest, |_| std::mem::take(&mut waits))
    }
}

/// Of so many times a thread that may be interrupted is away for long in one.
const LONG_ONE_IN: u32 = 16;

/// So many steps of others: enough for a memtable to be filled and flushed.
const LONG_TURNS: usize = 1000;

/// Each load of shuttle's is a point at which others may go on. A system takes the processor from a thread for thousands of their steps,
/// which drawing each step by itself would never do.
pub fn others_may_go_on() {
    let long = shuttle::rand::thread_rng().gen_ratio(1, LONG_ONE_IN);
    let point = shuttle::sync::atomic::AtomicBool::new(false);
    for _ in 0..if long { LONG_TURNS } else { 1 } {
        point.load(std::sync::atomic::Ordering::SeqCst);
    }
}

/// One of two ways, at random.
pub fn drawn() -> Option<bool> {
    Some(shuttle::rand::thread_rng().r#gen())
}

/// Of shuttle's threads nobody knows it before they are joined.
pub fn has_ended<T>(_thread: &thread::JoinHandle<T>) -> bool {
    false
}

/// As the standard ones.
pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, Thread, current, park};

    use super::{Asleep, Duration};

    /// Until unparked, or time passes.
    pub fn park_timeout(_longest: Duration) {
        let _asleep = Asleep::at(None);
        park();
    }
}
