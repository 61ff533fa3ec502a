//! Evenkeel: an embeddable LSM-tree key-value store that stays on an even keel.
//!
//! ```
//! use evenkeel::{Db, Options, ScanRange};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let db = Db::open(directory.path(), Options::default())?; // made if there is none
//! db.put(b"apple", b"red")?;
//! assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
//! db.set_schedule("paced")?; // when background work may run, on the running store
//! for entry in db.scan(ScanRange::all())? {
//!     let (key, value) = entry?;
//!     assert_eq!((&key[..], &value[..]), (&b"apple"[..], &b"red"[..]));
//! }
//! # Ok(db.close()?)
//! # }
//! ```
//!
//! - [`Db`] and [`Keyspace`] read and write, a [`WriteBatch`] over several keyspaces at once, a [`Snapshot`] reads as of a moment.
//! - [`Builder`] opens with more than [`Options`], whose rows [`Options::names`] lists with ranges. A store is held by one process at a
//!   time; [`Db::open_read_only`] looks at it beside that one.
//! - [`strategy::catalog`] and [`schedule::catalog`] list how the tree is compacted, and when: both are values that change on a running
//!   store.
//! - [`Metrics`], [`Event`] and [`Db::control`] say what it does.
//!
//! Features: `zstd` (a compression that needs a C compiler to build) and `testing` (simulated files and a manual clock).
#![forbid(unsafe_code)]

mod base;
mod compaction;
mod db;
mod execution;
mod hotness;
mod merge;
mod observe;
mod options;
mod scheduler;
mod storage;
mod table;
mod version;
mod write;

pub use base::durability::Durability;
pub use base::error::{Error, Result};
pub use db::background::compact::CompactOptions;
pub use db::database::Db;
pub use db::keyspace::Keyspace;
pub use db::opening::builder::Builder;
pub use db::reading::lookup::Value;
pub use db::reading::scan::{Cursor, Scan, ScanRange};
pub use db::reading::verify::VerifyReport;
pub use db::reports::metrics::{KeyspaceMetrics, LevelMetrics, Metrics};
pub use db::snapshot::Snapshot;
pub use db::writing::bulk_load::BulkLoad;
pub use observe::event::{DiscardedFor, Event, Listener, PreemptedBy};
pub use options::{KeyspaceOptions, OptionInfo, Options};
pub use table::compression::CompressionRule;
pub use write::batch::WriteBatch;

/// Steering background work: what a compaction by hand tells, how it is cancelled, and pausing everything.
pub mod background {
    pub use crate::db::background::compact::{CancelToken, CompactProgress, CompactReport};
    #[cfg(unix)]
    pub use crate::db::background::control_socket::fits as control_socket_fits;
    pub use crate::db::background::pause::Paused;
}

/// Compaction strategies: the catalogue and the text form (CDS §3).
pub mod strategy {
    pub use crate::compaction::catalog::{Row as CatalogRow, name_of, strategy as parse};

    /// Every named strategy.
    pub fn catalog() -> &'static [CatalogRow] {
        crate::compaction::catalog::CATALOG
    }

    pub use crate::compaction::deadline::shortest_ms as shortest_ttl_ms;
    pub use crate::compaction::explanation::{Explained, draw, explain, sizes_in_words};
    pub use crate::compaction::strategy::Strategy;
    pub use crate::compaction::strategy_words::time_text;
    pub use crate::db::settings::strategies::{StrategyCost, with_sizes};
}

/// Deciding what to compact, without doing it: pure functions over a drawn or a real tree. What simulators use, and what answers
/// "what would you do?".
pub mod plan {
    pub use crate::base::class::{Class, L0Permit, Permit};
    pub use crate::base::key_range::KeyRange;
    pub use crate::base::units::{GroupId, JobId, KeyspaceId, RunId, SeqNo, TableId};
    pub use crate::compaction::bulk::load;
    pub use crate::compaction::claims::Claims;
    pub use crate::compaction::commit::{
        CommitPart, Committed, commit_part, end_job, flush, move_tables, recover, set_bounds, set_levels,
    };
    pub use crate::compaction::compaction::{Compaction, InputRun, Slot, SlotPlace};
    pub use crate::compaction::cost_model::{debt, distance, reshaping_bytes};
    pub use crate::compaction::output_bounds::OutputBounds;
    pub use crate::compaction::picker::{Candidate, Pick, Wish, attempt, candidates, manual, pick};
    pub use crate::compaction::placement::Picked;
    pub use crate::compaction::strategy::Trigger;
    pub use crate::compaction::tree_view::{Ids, TreeView};
    pub use crate::scheduler::decide::permitted;
    pub use crate::scheduler::order::{Order, Turn, next_to_step};
    pub use crate::table::key_sample::{KeySample, Sampler as KeySampler};
    pub use crate::table::meta::{Born, KeyHistogram, TableMeta};
    pub use crate::version::check::{OpenClaim, check, check_order, check_shape};
    pub use crate::version::edit::{EditStep, RunPlace, VersionEdit};
    pub use crate::version::group::Group;
    pub use crate::version::level::Level;
    pub use crate::version::picture::{draw, draw_full, summarise};
    pub use crate::version::picture_parse::{fabricated_meta, parse};
    pub use crate::version::run::{SortedRun, TableRef};
    pub use crate::version::version::Version;

    /// How hot tables will be, learnt from how hot they are, and which of them are hot enough to be leveled (LTG).
    pub mod heat {
        pub use crate::compaction::regroup::{join, regroup};
        pub use crate::hotness::access_window::{AccessWindow, Counting, Looks, LooksOf};
        pub use crate::hotness::key_histogram::{Intervals, KeySpread, Spacing};
        pub use crate::hotness::linear_model::{LinearModel, Moments};
        pub use crate::hotness::predictor::{HeatSample, Learning, Learnt, Predictor};
        pub use crate::hotness::temperature::{Band, HYSTERESIS, Member, Quality, Theta, quality};
    }
}

/// Parts of [`Metrics`].
pub mod metrics {
    pub use crate::db::jobs::memory::MemoryMetrics;
    pub use crate::db::reports::costs::{CostMetrics, SpaceReport};
    pub use crate::db::reports::metric_parts::{
        CompactionMetrics, LATENCY_BOUNDS_NS, LatencyMetrics, SlowMetrics, SnapshotMetrics,
    };
    pub use crate::db::reports::schedule_report::ScheduleMetrics;
    pub use crate::db::store::heat::HeatMetrics;
    pub use crate::observe::waits::Cause;
}

/// Stores that are damaged, set right: see [`Builder::repair`].
pub mod repair {
    pub use crate::db::opening::repair::{Damage, RepairReport};
}

/// Copies of a running store: see [`Db::checkpoint`].
pub mod checkpoint {
    pub use crate::db::opening::checkpoint::{CheckpointProgress, CheckpointReport};
}

/// Single files of a store, looked into without the store: tables, logs, manifests.
pub mod inspect {
    pub use crate::db::files::inspect_log::{LogEntry, LogRecord, LogReport, wal};
    pub use crate::db::files::inspect_manifest::{ManifestItem, ManifestKeyspace, ManifestReport, manifest};
    pub use crate::db::files::inspect_table::{TableItem, TableReport, kind_name, table};
    pub use crate::storage::record::{LogHeader, LogKind, Predecessor};
    pub use crate::storage::record_reader::Tail;
}

/// Operations of a running store, recorded into a file: see [`Db::start_trace`].
pub mod trace {
    pub use crate::db::background::running_trace::RunningTrace;
    pub use crate::db::background::trace::Summary;
    pub use crate::db::files::trace_file::{Action, Change, End, Keys, Kind, Operation, Trace};
}

/// Schedules: when background work may run.
pub mod schedule {
    pub use crate::scheduler::estimator::{Estimator, Usage, fit_weights};

    /// Every schedule: its form, and one line for people.
    pub fn catalog() -> &'static [(&'static str, &'static str)] {
        crate::scheduler::catalog::CATALOG
    }

    /// The knobs that stand after a schedule's name, as in `silk:floor=20%,every=20ms`: each with what it takes.
    pub fn knobs() -> &'static [(&'static str, &'static str)] {
        crate::scheduler::parameters::KNOBS
    }

    /// Those of them that a schedule, like `silk`, has a use for. `fixed` and `autotuned` take a rate instead, and none.
    ///
    /// # Errors
    /// `InvalidArgument` that says what schedules there are.
    pub fn knobs_of(schedule: &str) -> crate::Result<Vec<(&'static str, &'static str)>> {
        crate::scheduler::catalog::knobs_of(schedule)
    }

    /// Says what is wrong with a schedule's text; nothing if [`crate::Db::set_schedule`] would take it.
    ///
    /// # Errors
    /// `InvalidArgument` that says what there is.
    pub fn check(text: &str) -> crate::Result<()> {
        crate::scheduler::catalog::parse(text).map(drop)
    }
}

/// How tables are written: what options of tables are made of.
pub mod tables {
    pub use crate::table::compression::Compression;
    pub use crate::table::prefix_rule::PrefixRule;
}

/// Files as the store sees them: to give it another disk.
pub mod fs {
    pub use crate::base::class::{Class, IoClass};
    pub use crate::base::units::parse_size;
    pub use crate::observe::io_counters::IoCounters;
    pub use crate::storage::device::{Device, StoodAside};
    pub use crate::storage::device_files::DeviceFileSystem;
    pub use crate::storage::disk::DiskFileSystem;
    pub use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, Syncer, WritableFile};
}

/// What tests and simulations need.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    pub use crate::base::clock::{Clock, ManualClock, SystemClock};
    pub use crate::base::random::Random;
    pub use crate::db::testing::decoders::{DECODERS, NamedDecoder};
    pub use crate::db::testing::mending::mend;
    pub use crate::storage::fault::{Fault, FaultError, FaultKind};
    pub use crate::storage::simulated::SimulatedFileSystem;
    pub use crate::storage::simulated_crash::CrashPolicy;
    pub use crate::storage::simulated_disk::{Call, CallKind};
}

/// The README's example, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
