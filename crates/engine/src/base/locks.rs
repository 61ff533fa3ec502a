//! Locks and threads: the only place from which the engine takes what one thread may wait for another with.
//!
//! They are the standard ones. Built with `--cfg shuttle` they are those of shuttle, which runs all threads on one and draws who goes on
//! at each of them (`db/shuttle_tests.rs`). What nobody waits for, atomics among it, stays the standard one there too.

use std::sync::TryLockError;
#[cfg(not(shuttle))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(shuttle))]
pub use std::thread;
// With loom only what takes loom's has any.
#[cfg(not(any(shuttle, loom)))]
pub use std::thread_local;

#[cfg(shuttle)]
pub use shuttle::sync::{Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub use shuttle::thread_local;

#[cfg(shuttle)]
pub use super::drawn_waits::{Condvar, drawn, has_ended, others_may_go_on, thread};

/// The lock, unless somebody has it. Whoever panicked with it is no reason to leave it.
pub fn try_lock<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// True if this thread has ended.
#[cfg(not(shuttle))]
pub fn has_ended<T>(thread: &thread::JoinHandle<T>) -> bool {
    thread.is_finished()
}

/// Nothing. Under shuttle others may go on here: between two steps that hang together without a lock.
#[cfg(not(shuttle))]
#[inline(always)]
pub fn others_may_go_on() {}

/// Nothing. Under shuttle one of two ways, at random.
#[cfg(not(shuttle))]
pub fn drawn() -> Option<bool> {
    None
}
