//! Floor 11: the paths, wired: commit, lookup, scan, recovery, background work, and the face of it all.

pub mod background;
pub mod builder;
pub mod commit;
pub mod commit_queue;
pub mod commit_state;
pub mod control;
pub mod database;
pub mod flushing;
pub mod handle;
pub mod install;
pub mod jobs;
pub mod keyspace;
pub mod keyspace_state;
pub mod keyspaces;
pub mod lane;
pub mod lookup;
pub mod metrics;
pub mod options_file;
pub mod recovery;
pub mod scan;
pub mod snapshot;
pub mod snapshots;
pub mod state;
pub mod strategies;
pub mod threads;
pub mod verify;
#[cfg(test)]
mod write_path_tests;
