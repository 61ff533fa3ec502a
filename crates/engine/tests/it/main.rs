//! The engine's integration tests, one binary. Each module names its suite.

/// A crash before every call that changes the disk.
mod crash;
/// One random history gives the model's answers under every strategy.
mod model;
/// Jobs side by side: on one thread, and on real threads with a real disk.
mod side_by_side;
