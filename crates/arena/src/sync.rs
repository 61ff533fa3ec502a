//! The atomics in use: the standard ones, or loom's when the crate is built with `--cfg loom`.
//!
//! Loom runs a test under every order of threads and every value a relaxed load may see. It does not know
//! of plain memory, so each entry carries a [`Guard`] there, through which loom notices an entry that is
//! read without having been published to the reader; in an ordinary build the guard is nothing.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// What a reader does between two looks at a node that the writer is changing. The writer needs some tens
/// of nanoseconds, unless it has lost its core: then a yield lets it come back.
#[derive(Default)]
pub(crate) struct Backoff {
    looks: u32,
}

impl Backoff {
    #[cfg(not(loom))]
    pub(crate) fn wait(&mut self) {
        const LOOKS_BEFORE_YIELD: u32 = 64;
        self.looks += 1;
        if self.looks < LOOKS_BEFORE_YIELD {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    #[cfg(loom)]
    pub(crate) fn wait(&mut self) {
        self.looks += 1;
        loom::thread::yield_now();
    }
}

/// Stands in front of an entry's bytes and lets loom watch the accesses to them.
#[cfg(not(loom))]
pub(crate) struct Guard;

#[cfg(not(loom))]
impl Guard {
    pub(crate) fn new() -> Self {
        Self
    }
    #[inline]
    pub(crate) fn written(&self) {}
    #[inline]
    pub(crate) fn read(&self) {}
}

/// Stands in front of an entry's bytes and lets loom watch the accesses to them.
#[cfg(loom)]
pub(crate) struct Guard(loom::cell::UnsafeCell<()>);

#[cfg(loom)]
impl Guard {
    pub(crate) fn new() -> Self {
        Self(loom::cell::UnsafeCell::new(()))
    }
    pub(crate) fn written(&self) {
        self.0.with_mut(|_| ());
    }
    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }
}
