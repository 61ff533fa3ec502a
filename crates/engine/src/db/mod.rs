//! Floor 11: the paths, wired. The face of an open store is here; each folder is a part of what is behind it, and imports
//! only those before it.
//!
//! ```text
//! files ─► store ─► reading ─► jobs ─► settings ─► recovery ─► reports ─► background ─► writing ─► opening ─► the face
//! ```

pub mod background;
pub mod database;
pub mod files;
pub mod jobs;
pub mod keyspace;
#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
pub mod opening;
pub mod reading;
pub mod recovery;
pub mod reports;
pub mod settings;
#[cfg(shuttle)]
#[cfg(test)]
mod shuttle_tests;
pub mod snapshot;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod write_path_tests;
pub mod writing;
