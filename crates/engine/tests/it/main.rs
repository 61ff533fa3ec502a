//! The engine's integration tests, one binary. Each module names its suite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

/// A crash before every call that changes the disk.
mod crash;
/// Failing disks, damaged and newer files, second openers.
mod faults;
/// One random history gives the model's answers under every strategy.
mod model;
/// Jobs side by side: on one thread, and on real threads with a real disk.
mod side_by_side;
