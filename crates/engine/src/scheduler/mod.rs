//! Floor 9: who may use disk and CPU, and when.
