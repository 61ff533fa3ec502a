//! What goes on beside the callers: the threads with their flushes, ticks and unlinks, and what users ask of them.

pub mod ahead;
pub mod compact;
pub mod control;
pub mod control_protocol;
#[cfg(unix)]
pub mod control_socket;
pub mod flushing;
pub mod handle;
pub mod learning;
pub mod pause;
pub mod running_trace;
pub mod threads;
pub mod ticker;
pub mod trace;
pub mod unlinks;
