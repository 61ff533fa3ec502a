//! Settings of a store, as plain data. Everything has a default that suits most services; most users set nothing, then
//! perhaps `durability` and `cache_bytes`.
//!
//! Each option is one row of `TABLE`: its name on the command line (`--set name=value`), its default and one line for
//! people are derived from there. Sizes may be written `64MiB`, `4k`, `4096`.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::units::{GIB, KIB, MIB, parse_size};

/// What `Ok` from a write means (`docs/durability.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The write is in the hands of the kernel: it survives the death of this process, not of the machine.
    #[default]
    Os,
    /// The write is on the disk: it survives a power cut. Writers that wait together share one sync.
    Sync,
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        match text {
            "os" => Ok(Durability::Os),
            "sync" => Ok(Durability::Sync),
            _ if text == "no-wal" || text.starts_with("interval") => {
                Err(Error::Unsupported(format!("durability `{text}` is not there yet; use `os` or `sync`")))
            }
            _ => Err(Error::invalid(format!("unknown durability `{text}`; use `os` or `sync`"))),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Os => "os",
            Durability::Sync => "sync",
        })
    }
}

/// How the blocks of tables are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionRule {
    /// None on the first two levels, lz4 below: those levels are rewritten soon.
    #[default]
    Deep,
    /// Nowhere.
    None,
    /// Everywhere.
    Lz4,
}

impl FromStr for CompressionRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<CompressionRule> {
        match text {
            "deep" => Ok(CompressionRule::Deep),
            "none" => Ok(CompressionRule::None),
            "lz4" => Ok(CompressionRule::Lz4),
            _ => Err(Error::invalid(format!("unknown compression `{text}`; use `deep`, `none` or `lz4`"))),
        }
    }
}

impl fmt::Display for CompressionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompressionRule::Deep => "deep",
            CompressionRule::None => "none",
            CompressionRule::Lz4 => "lz4",
        })
    }
}

/// Settings of a store. See [`Options::names`] for what `--set` takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Make the store if the directory holds none.
    pub create_if_missing: bool,
    /// What `Ok` from a write means unless the write says otherwise.
    pub durability: Durability,
    /// Compaction strategy of the default keyspace: a name of the catalogue or a strategy line. `None`: what the store
    /// was last set to, at first `1-leveling`.
    pub strategy: Option<String>,
    /// When background work may run: `unlimited` or `fixed:BYTES_PER_SECOND`.
    pub schedule: String,
    /// A memtable is flushed when it holds this many bytes.
    pub memtable_bytes: u64,
    /// Memtables of a keyspace in memory at once, the active one included; at least 2.
    pub memtables: u32,
    /// Block cache, in bytes; holds data blocks, indexes and filters.
    pub cache_bytes: u64,
    /// Memtables of all keyspaces and block cache together; the cache gets what the memtables leave.
    pub memory_bytes: u64,
    /// Tables are cut at about this size.
    pub table_bytes: u64,
    /// Data blocks are cut at about this size.
    pub block_bytes: u64,
    /// Target size of the first level below L0.
    pub level_base_bytes: u64,
    /// How many times larger each level is than the one above.
    pub level_ratio: u32,
    /// Runs in L0 that start a compaction, where the strategy tiers L0.
    pub l0_trigger: u32,
    /// Runs in L0 at which writers wait.
    pub l0_limit: u32,
    /// Threads for compactions.
    pub workers: u32,
    /// Bytes of disk kept free for flushes and the manifest.
    pub reserve_bytes: u64,
    /// The log may grow to this size before the keyspace that pins its oldest file is flushed.
    pub wal_bytes_max: u64,
    /// Filter bits per key; 0 for no filters.
    pub filter_bits: f32,
    /// How table blocks are compressed.
    pub compression: CompressionRule,
}

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        Options {
            create_if_missing: true,
            durability: Durability::Os,
            strategy: None,
            schedule: "unlimited".to_owned(),
            memtable_bytes: 64 * MIB,
            memtables: 2,
            cache_bytes: 256 * MIB,
            memory_bytes: 512 * MIB,
            table_bytes: 32 * MIB,
            block_bytes: 4 * KIB,
            level_base_bytes: 256 * MIB,
            level_ratio: 10,
            l0_trigger: 4,
            l0_limit: 20,
            workers: cores.min(2),
            reserve_bytes: 128 * MIB,
            wal_bytes_max: GIB,
            filter_bits: 10.0,
            compression: CompressionRule::Deep,
        }
    }
}

/// One option, for help texts and tables.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// The name that [`Options::set`] takes.
    pub name: &'static str,
    /// One line for people, with the range.
    pub what: &'static str,
    get: fn(&Options) -> String,
    set: fn(&mut Options, &str) -> Result<()>,
}

impl OptionInfo {
    /// The value in `options`, in the form that [`Options::set`] reads.
    pub fn value(&self, options: &Options) -> String {
        (self.get)(options)
    }
}

macro_rules! row {
    ($name:ident, $what:literal, $parse:expr) => {
        OptionInfo {
            name: stringify!($name),
            what: $what,
            get: |o| o.$name.to_string(),
            set: |o, text| {
                o.$name = $parse(stringify!($name), text)?;
                Ok(())
            },
        }
    };
}

const TABLE: &[OptionInfo] = &[
    row!(durability, "what Ok from a write means: os or sync", parsed),
    row!(schedule, "when background work may run: unlimited or fixed:BYTES_PER_SECOND", text),
    row!(memtable_bytes, "a memtable is flushed at this size (1 KiB to 4 GiB)", |n, t| size(
        n,
        t,
        KIB,
        4 * GIB
    )),
    row!(memtables, "memtables in memory at once (2 to 64)", |n, t| count(n, t, 2, 64)),
    row!(cache_bytes, "block cache (0 to 1 TiB)", |n, t| size(n, t, 0, 1024 * GIB)),
    row!(memory_bytes, "memtables and block cache together (16 KiB to 1 TiB)", |n, t| size(
        n,
        t,
        16 * KIB,
        1024 * GIB
    )),
    row!(table_bytes, "tables are cut at this size (1 KiB to 4 GiB)", |n, t| size(n, t, KIB, 4 * GIB)),
    row!(block_bytes, "data blocks are cut at this size (128 B to 1 MiB)", |n, t| size(n, t, 128, MIB)),
    row!(level_base_bytes, "target size of the level below L0 (1 KiB to 1 TiB)", |n, t| size(
        n,
        t,
        KIB,
        1024 * GIB
    )),
    row!(level_ratio, "each level is this much larger (2 to 1000)", |n, t| count(n, t, 2, 1000)),
    row!(l0_trigger, "runs in L0 that start a compaction (1 to 1000)", |n, t| count(n, t, 1, 1000)),
    row!(l0_limit, "runs in L0 at which writers wait (2 to 100000)", |n, t| count(n, t, 2, 100_000)),
    row!(workers, "compaction threads (1 to 64)", |n, t| count(n, t, 1, 64)),
    row!(reserve_bytes, "disk kept free for flushes (0 to 1 TiB)", |n, t| size(n, t, 0, 1024 * GIB)),
    row!(wal_bytes_max, "largest log before a flush (64 KiB to 1 TiB)", |n, t| size(
        n,
        t,
        64 * KIB,
        1024 * GIB
    )),
    row!(filter_bits, "filter bits per key (0 to 32)", bits),
    row!(compression, "deep (lz4 below the first two levels), none or lz4", parsed),
];

impl Options {
    /// Every option that [`Options::set`] takes.
    pub fn names() -> &'static [OptionInfo] {
        TABLE
    }

    /// Sets an option by its name, as `--set name=value` does.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name (the nearest is suggested) or a value out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match TABLE.iter().find(|row| row.name == name) {
            Some(row) => (row.set)(self, value),
            None => {
                let nearest =
                    TABLE.iter().min_by_key(|row| distance(row.name, name)).map_or("", |row| row.name);
                Err(Error::invalid(format!("unknown option `{name}`; did you mean `{nearest}`?")))
            }
        }
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn validate(&self) -> Result<()> {
        for row in TABLE {
            let mut copy = self.clone();
            (row.set)(&mut copy, &row.value(self))?;
        }
        if self.l0_limit <= self.l0_trigger {
            return Err(Error::invalid(format!(
                "l0_limit ({}) must be above l0_trigger ({}): writers would wait before a compaction may start",
                self.l0_limit, self.l0_trigger
            )));
        }
        Ok(())
    }

    /// A log file's largest capacity: a quarter of the log's limit, and no more than a memtable takes, at most 64 MiB.
    pub(crate) fn wal_file_bytes(&self) -> u64 {
        (self.wal_bytes_max / 4).min(self.memtable_bytes).clamp(16 * KIB, 64 * MIB)
    }

    /// The cache's capacity within the memory budget, beside active memtables of these sizes.
    pub(crate) fn cache_capacity(&self, memtable_bytes: impl Iterator<Item = u64>) -> u64 {
        let all = |sum: u64, bytes: u64| sum.saturating_add(bytes.saturating_mul(self.memtables.into()));
        self.cache_bytes.min(self.memory_bytes.saturating_sub(memtable_bytes.fold(0, all)))
    }
}

/// Settings of a keyspace that differ from the store's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Its compaction strategy; `None` for the default one.
    pub strategy: Option<String>,
    /// Its memtable size in bytes; `None` for the store's.
    pub memtable_bytes: Option<u64>,
}

fn parsed<T: FromStr<Err = Error>>(_name: &str, text: &str) -> Result<T> {
    text.parse()
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every parser in the table")]
fn text(_name: &str, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

fn bits(name: &str, text: &str) -> Result<f32> {
    match text.parse::<f32>() {
        Ok(n) if (0.0..=32.0).contains(&n) => Ok(n),
        _ => Err(Error::invalid(format!("{name} must be a number from 0 to 32, not `{text}`"))),
    }
}

fn count(name: &str, text: &str, min: u32, max: u32) -> Result<u32> {
    match text.parse::<u32>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(Error::invalid(format!("{name} must be a number from {min} to {max}, not `{text}`"))),
    }
}

fn size(name: &str, text: &str, min: u64, max: u64) -> Result<u64> {
    match parse_size(text) {
        Some(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(Error::invalid(format!(
            "{name} must be a size from {min} to {max} bytes, like 64MiB, not `{text}`"
        ))),
    }
}

/// Edit distance, for suggestions.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("4k", 4096), ("64MiB", 64 * MIB), ("1 GB", GIB)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "-1", "4x", "99999999999999999999", "16777216T"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn every_option_prints_what_it_reads() {
        let defaults = Options::default();
        for row in Options::names() {
            let mut other = defaults.clone();
            other.set(row.name, &row.value(&defaults)).unwrap();
            assert_eq!(other, defaults, "{}", row.name);
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_name() {
        let error = Options::default().set("memtable_byte", "1k").unwrap_err();
        assert_eq!(error.to_string(), "unknown option `memtable_byte`; did you mean `memtable_bytes`?");
    }

    #[test]
    fn contradictions_are_refused() {
        let options = Options { l0_limit: 4, ..Options::default() };
        assert_eq!(options.validate().unwrap_err().kind(), "InvalidArgument");
        let options = Options { block_bytes: 1, ..Options::default() };
        assert_eq!(options.validate().unwrap_err().kind(), "InvalidArgument");
        assert!(Options::default().validate().is_ok());
    }
}
