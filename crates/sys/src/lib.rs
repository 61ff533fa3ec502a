//! The few system calls that have no safe wrapper, each behind a safe function.
//! Together with `evenkeel-arena` this is the only crate of the workspace that contains `unsafe`;
//! everything above it is safe code. Linux is what is tested. Elsewhere each function has a plain
//! fallback: it does nothing where it is only advice, and answers `Unsupported` where the caller has
//! another way to go.
//!
//! ```text
//!   mapped_log     a log file written by memcpy (the write path)
//!   huge_bytes     zeroed memory on huge pages (filters, arena chunks)
//!   populate       pages that are present before they are touched, for both
//!   thread         scheduling class, CPU time (background workers), punctual sleeps (the lab, the emulated device)
//!   interrupt      Ctrl-C as a flag (the command)
//!   hint           cache prefetch, early writeback
//! ```

pub mod hint;
pub mod huge_bytes;
pub mod interrupt;
pub mod mapped_log;
#[cfg(all(target_os = "linux", not(miri)))]
mod populate;
pub mod thread;

pub use hint::{prefetch, prefetch_address, start_writeback};
pub use huge_bytes::HugeBytes;
pub use interrupt::{catch_interrupt, catch_termination, tell_to_end, was_interrupted};
pub use mapped_log::MappedLog;
pub use thread::{
    Priority, ThreadId, can_raise_priority, current_thread_id, give_up_raising_priority, process_cpu_time,
    process_peak_rss_bytes, set_thread_priority, set_timer_slack, sleep_punctually, thread_cpu_time,
    thread_priority, timer_slack, yield_now,
};
