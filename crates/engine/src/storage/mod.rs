//! Floor 3: files. One trait is the only way to them; a real disk, and a simulated one that crashes.

pub mod file_system;
