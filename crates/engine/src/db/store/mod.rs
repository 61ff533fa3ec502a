//! What an open store is, in memory: its parts, their locks, and what each of them remembers.

pub mod background;
pub mod commit_queue;
pub mod commit_state;
pub mod decisions;
pub mod failing;
pub mod flush_slot;
pub mod gate;
pub mod heat;
pub mod journal;
pub mod keyspace_state;
pub mod lane;
pub mod locks;
pub mod logged_deletes;
pub mod open_job;
pub mod outbox;
pub mod priority;
pub mod snapshots;
pub mod state;
pub mod ticker_state;
pub mod tracing;
