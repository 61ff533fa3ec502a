//! The engine's integration tests, one binary. Each module names its suite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

/// Cores that others keep busy.
mod busy_cores;
/// Stores that are closed, dropped, or left by who has listened to them.
mod closing;
/// Compactions by hand, pauses, bulk loads, paced unlinks.
mod control;
/// The corpora of the fuzz targets.
mod corpora;
/// Damage to every byte and every file.
mod corruption;
/// What compaction costs and leaves behind.
mod costs;
/// A crash before every call that changes the disk.
mod crash;
/// Deletes that are gone in time, from every file.
mod deletes;
/// Emulated devices.
mod device;
/// Durability modes and the log.
mod durability;
/// Manifests that end early.
mod early_ends;
/// What estimators make of clients' reads on a real store.
mod estimates;
/// What failures may do and what not.
mod failures;
/// Any call that fails, once or from then on.
mod fault_sweep;
/// Failing disks, damaged and newer files, second openers.
mod faults;
/// What flushes and L0 have at least.
mod floor;
/// What DLC holds back at high load, and bursts.
mod gates;
/// Stores that released formats have written.
mod golden;
/// Levels in groups of keys by heat.
mod groups;
/// What the papers' ideas could break.
mod hazards;
/// What reads teach, across restarts.
mod heat;
/// Strategies changed under a thread that keeps writing.
mod live_switching;
/// One random history gives the model's answers under every strategy and schedule.
mod model;
/// LOG, STATS and IDENTITY, properties, snapshots, slow operations.
mod observe;
/// What an opening may find, and what it may not do then.
mod openings;
/// Every option makes a difference that one can see.
mod options;
/// Panics, listeners, and a clock that jumps.
mod panics;
/// Links, pipes, modes, and what errors tell.
#[cfg(unix)]
mod planted;
/// Range deletes: what is gone, what it costs, what goes by metadata.
mod ranges;
/// What readers and kills see is one order that time allows.
mod real_time;
/// Damaged stores set right.
mod repair;
/// Schedules: load that rises and falls, preemptions, bursts, odd clocks.
mod schedules;
/// Jobs side by side: on one thread, and on real threads with a real disk.
mod side_by_side;
/// Load that flips, schedules that change, kills in between; and chance that is the same twice.
mod storms;
/// Strategies changed on a live store.
mod switching;
/// How tables are written and read: compression, direct I/O, readahead, prefixes.
mod tables;
/// Operations recorded into a file, and what may go wrong with it.
mod trace;
/// Seeds, figures and progress of the layers that `cargo xtask trust` runs.
mod trust;
/// Keyspaces beside each other in the background.
mod turns;
/// A store that one thread steps, beside what it should hold.
mod world;
