//! The engine's integration tests, one binary. Each module names its suite.

/// A crash before every call that changes the disk.
mod crash;
