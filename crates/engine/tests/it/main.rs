//! The engine's integration tests, one binary. Each module names its suite.
