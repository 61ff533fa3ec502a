//! Floor 3: what reads teach.
