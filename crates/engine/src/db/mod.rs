//! Floor 11: the paths, wired: commit, lookup, scan, recovery, background work, and the face of it all.

pub mod admission;
#[cfg(test)]
mod admission_tests;
pub mod ahead;
pub mod audit;
pub mod background;
pub mod builder;
pub mod bulk_load;
#[cfg(any(test, feature = "testing"))]
mod byte_history;
pub mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
pub mod commit;
pub mod commit_queue;
pub mod commit_state;
pub mod compact;
pub mod compaction_first;
pub mod control;
pub mod control_protocol;
#[cfg(unix)]
pub mod control_socket;
pub mod costs;
pub mod covered;
pub mod database;
pub mod decisions;
#[cfg(any(test, feature = "testing"))]
pub mod decoders;
#[cfg(test)]
mod decoders_tests;
pub mod deletes;
pub mod device_speed;
pub mod explain;
pub mod file_ids;
pub mod flushing;
pub mod gate;
pub mod grouping;
pub mod handle;
pub mod heat;
pub mod heat_file;
pub mod identity;
pub mod inline_flush;
pub mod inspect_log;
pub mod inspect_manifest;
pub mod inspect_table;
#[cfg(test)]
mod inspect_tests;
pub mod install;
pub mod job_begin;
pub mod job_search;
pub mod job_state;
#[cfg(test)]
mod job_tests;
pub mod jobs;
pub mod journal;
pub mod keyspace;
pub mod keyspace_state;
pub mod keyspaces;
pub mod lane;
pub mod learning;
pub mod level_report;
pub mod locks;
pub mod logged_deletes;
pub mod lookup;
#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
pub mod memory;
#[cfg(any(test, feature = "testing"))]
pub mod mending;
pub mod metric_parts;
pub mod metrics;
#[cfg(test)]
mod opening_tests;
pub mod options_file;
pub mod outbox;
pub mod pause;
pub mod planning;
pub mod pressure;
pub mod priority;
pub mod prometheus;
pub mod properties;
pub mod read_only;
#[cfg(test)]
mod read_only_tests;
pub mod recovery;
pub mod repair;
pub mod rotating_file;
pub mod running_trace;
pub mod salvage;
pub mod scan;
pub mod schedule_report;
pub mod scheduling;
pub mod settings;
pub mod settling;
#[cfg(shuttle)]
#[cfg(test)]
mod shuttle_tests;
pub mod slow_report;
pub mod snapshot;
pub mod snapshots;
pub mod state;
pub mod strategies;
pub mod threads;
pub mod ticker;
pub mod ticker_state;
pub mod trace;
pub mod trace_file;
pub mod tracing;
pub mod unlinks;
pub mod untrusted;
#[cfg(test)]
mod untrusted_tests;
pub mod verify;
#[cfg(test)]
mod write_path_tests;
