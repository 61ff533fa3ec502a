//! What the lab asks of an engine: a handful of verbs, and the figures only the engine can know.
//!
//! The driver is generic over this trait, so that a call costs nothing more than the engine's own.

/// Whatever an engine reports when it fails.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

/// A key-value engine under measurement. Each method may be called by many threads at once.
pub trait Engine: Sync {
    /// The engine's name, as in `--engine`.
    fn name(&self) -> &'static str;

    /// The engine's version.
    fn version(&self) -> String;

    /// Writes one record.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Reads one record; the length of its value if it is there.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError>;

    /// Reads at most `limit` records upward from `from`.
    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError>;

    /// Reads all records, for no figure: an emulated device does not hold it up.
    fn read_all(&self) -> Result<Scanned, EngineError> {
        self.scan(b"", usize::MAX)
    }

    /// Reads at most `limit` records downward from `from`, which is the first of them if it is there.
    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError>;

    /// Reads all records from `from` to before `to`.
    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        let _ = (from, to);
        Err(format!("{} reads no ranges", self.name()).into())
    }

    /// Deletes one record.
    fn delete(&self, key: &[u8]) -> Result<(), EngineError>;

    /// Deletes all records from `from` to before `to`.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError>;

    /// Makes several changes, all or none of which survive a crash.
    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError>;

    /// What it can do beyond puts, gets, deletes and scans.
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    /// Returns when no background work is left.
    fn wait_idle(&self) -> Result<(), EngineError>;

    /// The engine's own figures.
    fn figures(&self) -> Figures;

    /// The groups of keys that it tells apart now, level by level and ascending; none if it tells none apart.
    fn groups(&self) -> Vec<Group> {
        Vec::new()
    }

    /// What the store occupies on disk, in bytes.
    fn disk_bytes(&self) -> u64;
}

/// What an engine can do. A call of what it cannot do is an error, never something else done instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// [`Engine::delete_range`].
    pub delete_range: bool,
    /// [`Engine::write`] of several changes.
    pub batches: bool,
    /// [`Engine::scan_down`].
    pub scan_down: bool,
}

impl Abilities {
    /// Everything.
    pub const ALL: Abilities = Abilities { delete_range: true, batches: true, scan_down: true };
}

/// A part of [`Engine::write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Writes a record: key, value.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a record.
    Delete(&'a [u8]),
}

impl<'a> Change<'a> {
    /// The key of the record.
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Change::Put(key, _) | Change::Delete(key) => key,
        }
    }
}

/// What a scan read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// How many records.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// A group of a level's keys that is kept in a shape of its own.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Group {
    /// The level.
    pub level: u64,
    /// Its first key, in printable ASCII; empty if it has none.
    pub from: String,
    /// The key that it ends before; empty if it has no end.
    pub to: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its sorted runs, and how many it may have.
    pub runs: u64,
    /// See `runs`.
    pub max_runs: u64,
    /// It is kept as one that is read.
    pub is_hot: bool,
    /// Looks of a get into it, in the mean, if that is known.
    pub looks_per_get: Option<f64>,
}

/// What an engine knows about itself, counted since it was opened. `None` is "this engine does not say".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bytes written to disk for each byte a client wrote.
    pub write_amplification: Option<f64>,
    /// Bytes read from disk for each byte a client read.
    pub read_amplification: Option<f64>,
    /// Bytes on disk for each byte of live data.
    pub space_amplification: Option<f64>,
    /// Compactions that ended.
    pub compactions: Option<u64>,
    /// Bytes that compactions read.
    pub compaction_bytes_read: Option<u64>,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: Option<u64>,
    /// Compactions that only moved tables.
    pub compactions_moved: Option<u64>,
    /// Bytes that compactions wrote and threw away.
    pub wasted_bytes: Option<u64>,
    /// How often a writer had to wait.
    pub stalls: Option<u64>,
    /// How long writers waited altogether.
    pub stall_seconds: Option<f64>,
    /// Bytes of keys and values that clients wrote.
    pub user_bytes: Option<u64>,
    /// Bytes that log, flushes and compactions read and wrote: everything but what clients read.
    pub internal_bytes: Option<u64>,
    /// Bytes that clients' reads took from files.
    pub client_read_bytes: Option<u64>,
    /// What the engine takes clients to use of the device, in bytes a second.
    pub client_estimate: Option<f64>,
    /// Flushes that waited for another one.
    pub flushes_delayed: Option<u64>,
    /// Compactions that are open now, those set aside among them.
    pub jobs_open: Option<u64>,
    /// Full memtables that are not in tables yet, the one that is being flushed among them.
    pub memtables_full: Option<u64>,
    /// Bytes that compactions would have to move now for the tree to be in shape.
    pub debt_bytes: Option<u64>,
    /// CPU seconds of what looks at the load for the schedule.
    pub monitor_cpu_seconds: Option<f64>,
    /// Bytes that flushes wrote.
    pub flush_bytes: Option<u64>,
    /// Bytes that work on the first level wrote: within it, and out of it.
    pub l0_bytes: Option<u64>,
    /// Bytes that work on deeper levels wrote.
    pub deep_bytes: Option<u64>,
    /// Runs in the first level now.
    pub l0_runs: Option<u64>,
    /// Bytes in the first, the second, the third and all deeper levels now.
    pub level_bytes: Option<[u64; 4]>,
    /// What background work may write now, in bytes a second.
    pub internal_limit: Option<f64>,
    /// How much longer clients' reads took than on the emulated device below, all together.
    pub disk_late_seconds: Option<f64>,
}

impl Figures {
    /// Bytes that log, flushes and compactions read and wrote for each byte that clients wrote.
    pub fn moved_per_user_byte(&self) -> Option<f64> {
        let (moved, user) = (self.internal_bytes?, self.user_bytes?);
        (user > 0).then(|| moved as f64 / user as f64)
    }

    /// The same, but for stalls: those that are not in `before`.
    pub(crate) fn with_stalls_since(self, before: &Figures) -> Figures {
        Figures {
            stalls: self.stalls.map(|now| now.saturating_sub(before.stalls.unwrap_or(0))),
            stall_seconds: self.stall_seconds.map(|now| now - before.stall_seconds.unwrap_or(0.0)),
            ..self
        }
    }
}
