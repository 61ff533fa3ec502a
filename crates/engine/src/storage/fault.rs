//! Faults that a test plants in the simulated disk: which operation on which file goes wrong, when, and how.

use std::io;
use std::path::Path;

use crate::base::error::{Error, Result};

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `read_at`.
    Read,
    /// `append`; a part of the bytes is written nevertheless.
    Write,
    /// A file's or a directory's sync; what it should have made durable may still become so.
    Sync,
    /// The same, but the system forgets what was dirty, as Linux does: a later sync succeeds and saves nothing of it.
    SyncLosing,
    /// `open`.
    Open,
    /// `create`, `create_log` and `create_dir`.
    Create,
    /// `rename`, `remove` and `truncate`, of directories too.
    Entry,
    /// `hard_link`.
    Link,
}

/// The error that a failing operation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// The device failed.
    Eio,
    /// The disk is full.
    Enospc,
    /// The two names lie on different file systems.
    Exdev,
}

/// One planted fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which operations count.
    pub kind: FaultKind,
    /// Only files whose path contains this; all with the empty string.
    pub path_contains: String,
    /// Which of the matching operations fails, counted from 0 when the fault is planted.
    pub nth: u64,
    /// With what.
    pub error: FaultError,
    /// If every matching operation after it fails too.
    pub sticky: bool,
}

/// The faults of one disk, and how far each has counted.
#[derive(Clone, Debug, Default)]
pub(in crate::storage) struct Faults {
    planted: Vec<(Fault, u64)>,
    fired: u64,
}

impl Faults {
    /// Plants a fault beside those that are there.
    pub(in crate::storage) fn plant(&mut self, fault: Fault) {
        self.planted.push((fault, 0));
    }

    /// Removes all faults.
    pub(in crate::storage) fn clear(&mut self) {
        self.planted.clear();
    }

    /// How many operations have failed so far.
    pub(in crate::storage) fn fired(&self) -> u64 {
        self.fired
    }

    /// Counts an operation against every fault, and fails if it is one's turn.
    pub(in crate::storage) fn check(&mut self, kind: FaultKind, path: &Path) -> Result<()> {
        let mut error = None;
        for (fault, seen) in &mut self.planted {
            if fault.kind != kind || !path.to_string_lossy().contains(&fault.path_contains) {
                continue;
            }
            if *seen == fault.nth || (fault.sticky && *seen > fault.nth) {
                error = Some(fault.error);
            }
            *seen += 1;
        }
        let Some(error) = error else { return Ok(()) };
        self.fired += 1;
        Err(error.of(&format!("{kind:?} {}", path.display())))
    }
}

impl FaultError {
    fn of(self, context: &str) -> Error {
        match self {
            FaultError::Eio => Error::io(context, io::Error::other("an injected device error")),
            FaultError::Exdev => Error::io(context, io::ErrorKind::CrossesDevices.into()),
            FaultError::Enospc => Error::NoSpace { context: context.to_owned() },
        }
    }
}
