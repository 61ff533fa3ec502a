//! Floor 11: the paths, wired.
