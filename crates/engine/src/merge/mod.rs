//! Floor 7: sorted streams.
