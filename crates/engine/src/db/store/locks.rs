//! The locks of what loom looks at: the engine's, or loom's when the crate is built with `--cfg loom`.
//!
//! Loom runs a test under every order in which threads may take them (`loom_tests.rs`). Only what has nothing to do with files is
//! built on these: the commit queue and the list of snapshots.

#[cfg(not(loom))]
pub use crate::base::locks::{Condvar, Mutex, MutexGuard, thread_local};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub use loom::thread_local;
