//! Settings of a store, as plain data. Everything has a default that suits most services; most users set nothing, then
//! perhaps `durability` and `cache_bytes`.
//!
//! Each option is one row of `TABLE`: its name on the command line (`--set name=value`), its default and one line for
//! people are derived from there. Sizes may be written `64MiB`, `4k`, `4096`.

use std::str::FromStr;

use strsim::levenshtein;

use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::units::{GIB, KIB, MIB, parse_size};
use crate::hotness::access_window::Counting;
use crate::table::compression::{Compression, CompressionRule};
use crate::table::prefix_rule::PrefixRule;

/// Settings of a store. See [`Options::names`] for what `--set` takes.
///
/// A store remembers what it is opened with, unless `Builder::remember(false)` was said. So a field that is as by default means what the
/// store was last set to; `Builder::set("memtables", "2")` means that value whatever was before.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Make the store if the directory holds none.
    pub create_if_missing: bool,
    /// What `Ok` from a write means unless the write says otherwise.
    pub durability: Durability,
    /// Compaction strategy of the default keyspace: a name of the catalogue or a strategy line. `None`: what the store
    /// was last set to, at first `1-leveling`.
    pub strategy: Option<String>,
    /// When background work may run: a name of the catalogue, with its rate or knobs, like `fixed:50MiB` or `silk:floor=20%`.
    pub schedule: String,
    /// What the device can do, in bytes a second, reads and writes together; 0 for what is measured. Schedules that share the device
    /// with clients need it.
    pub device_bytes_per_sec: u64,
    /// Where such a schedule is set and the speed is not known, it is measured by writing up to 64 MiB in 0.3 s, or 8 MiB for as long
    /// as they take. Without it such a schedule is refused.
    pub device_test: bool,
    /// What was measured, in bytes a second; 0 for nothing yet. It follows what flushes and compactions that go past the page cache
    /// show of the device later.
    pub device_measured_bytes_per_sec: u64,
    /// A memtable is flushed when it holds this many bytes.
    pub memtable_bytes: u64,
    /// Memtables of a keyspace in memory at once, the active one included; at least 2.
    pub memtables: u32,
    /// Block cache, in bytes; holds data blocks, indexes and filters.
    pub cache_bytes: u64,
    /// Memory for everything that grows: memtables (also those being flushed or read), block cache, open tables, cursors, jobs.
    /// The cache gets what the others leave; see `docs/scheduling.md`.
    pub memory_bytes: u64,
    /// Tables are cut at about this size.
    pub table_bytes: u64,
    /// Data blocks are cut at about this size.
    pub block_bytes: u64,
    /// Target size of the first level below L0.
    pub level_base_bytes: u64,
    /// How many times larger each level is than the one above.
    pub level_ratio: u32,
    /// Runs in L0 that start a compaction, where the strategy tiers L0; up to twice as many where the level below is larger
    /// than they are.
    pub l0_trigger: u32,
    /// Runs in L0 there may be, each counted as a memtable. No wall: from half way between what the strategy wants and this on,
    /// writers are slowed; at three quarters they get what drains.
    pub l0_limit: u32,
    /// Threads for compactions; flushes have one of their own. By default as many as there are cores beside one, at least one and
    /// at most two.
    pub workers: u32,
    /// Compaction before writes: a write waits while a memtable is being flushed or a compaction is due or open, in whichever
    /// keyspace. Trees are then always in shape, and the slowest write is as long as the longest row of compactions; for
    /// measuring strategies.
    pub compaction_first: bool,
    /// Bytes of disk kept free for flushes and the manifest.
    pub reserve_bytes: u64,
    /// Tables that are not needed any more are unlinked at this rate, in bytes a second; 0 for at once. Where disk space is
    /// short they are unlinked at once in any case.
    pub unlink_bytes_per_sec: u64,
    /// The log may grow to this size before the keyspace that pins its oldest file is flushed.
    pub wal_bytes_max: u64,
    /// Filter bits per key; 0 for no filters.
    pub filter_bits: f32,
    /// How table blocks are compressed, by level, and in L0 by whether there is time.
    pub compression: CompressionRule,
    /// Which prefixes filters hold beside whole keys: a scan within one prefix skips tables without it.
    pub prefix_filter: PrefixRule,
    /// Flushes write past the page cache (`O_DIRECT`), where the file system can.
    pub direct_flush: bool,
    /// Compactions read and write past the page cache, where the file system can.
    pub direct_compaction: bool,
    /// Gets and scans read past the page cache, where the file system can. Holds for tables opened after it is set.
    pub direct_reads: bool,
    /// A scan that goes on reads ahead up to this much of each run; 0 reads single blocks.
    pub readahead_bytes: u64,
    /// Files that `LOG` is kept in, the one being written included, and `STATS` as well; 0: neither is written.
    pub log_files: u32,
    /// `LOG` and `STATS` go on in a new file at this size.
    pub log_bytes: u64,
    /// Seconds between lines of `STATS`; 0: it is not written.
    pub stats_seconds: u32,
    /// Operations that take so many microseconds or longer are remembered with their causes; 0: nothing is measured.
    pub slow_us: u32,
    /// What makes a table hot: gets that its filter lets pass (`probes`) or all whose key is within its bounds (`candidates`), and
    /// scans that enter it where it says `+scans`.
    pub heat_counts: Counting,
    /// Heat is learnt anew after so many operations that count.
    pub heat_operations: u32,
    /// Or after so many compactions of the keyspace and an eighth of `heat_operations`; 0: however many there are.
    pub heat_compactions: u32,
    /// And after so many seconds at least.
    pub heat_seconds: u32,
    /// Filters differ from `filter_bits` by so many bits a key at most: more where reads come, less elsewhere, together as many; 0:
    /// all alike. Holds for tables written after something was learnt.
    pub filter_heat: f32,
    /// Answer questions at the Unix socket `SOCKET` in the store's directory. Looked at when the store is opened.
    pub control_socket: bool,
}

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        Options {
            create_if_missing: true,
            durability: Durability::Os,
            strategy: None,
            schedule: "unlimited".to_owned(),
            device_bytes_per_sec: 0,
            device_measured_bytes_per_sec: 0,
            device_test: true,
            memtable_bytes: 64 * MIB,
            memtables: 2,
            cache_bytes: 256 * MIB,
            memory_bytes: 512 * MIB,
            table_bytes: 32 * MIB,
            block_bytes: 4 * KIB,
            level_base_bytes: GIB,
            level_ratio: 10,
            l0_trigger: 4,
            l0_limit: 20,
            workers: (cores - 1).clamp(1, 2),
            compaction_first: false,
            reserve_bytes: 128 * MIB,
            unlink_bytes_per_sec: 0,
            wal_bytes_max: GIB,
            filter_bits: 10.0,
            compression: CompressionRule::Auto,
            prefix_filter: PrefixRule::None,
            direct_flush: false,
            direct_compaction: false,
            direct_reads: false,
            readahead_bytes: 256 * KIB,
            log_files: 5,
            log_bytes: 16 * MIB,
            stats_seconds: 1,
            slow_us: 1000,
            heat_counts: Counting::default(),
            heat_operations: 65_536,
            heat_compactions: 0,
            heat_seconds: 10,
            filter_heat: 0.0,
            control_socket: false,
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
    /// True if it can be changed while the store is open; else a change counts from the next open.
    pub live: bool,
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
        row!(@ true, $name, $what, $parse)
    };
    (at open $name:ident, $what:literal, $parse:expr) => {
        row!(@ false, $name, $what, $parse)
    };
    (@ $live:literal, $name:ident, $what:literal, $parse:expr) => {
        OptionInfo {
            name: stringify!($name),
            what: $what,
            live: $live,
            get: |o| o.$name.to_string(),
            set: |o, text| {
                o.$name = $parse(stringify!($name), text)?;
                Ok(())
            },
        }
    };
}

const TABLE: &[OptionInfo] = &[
    row!(durability, "what Ok from a write means: os, sync, or interval:MS (1 to 3600000)", durability),
    row!(
        schedule,
        "when background work may run: unlimited, fixed:RATE, silk, dlc-full, ... (keel schedule list)",
        text
    ),
    row!(
        device_bytes_per_sec,
        "what the device can do; 0 for what is measured, or 1 KiB to 1 TiB a second",
        speed
    ),
    row!(device_test, "measure the device where a schedule needs its speed: true or false", yes_or_no),
    row!(
        device_measured_bytes_per_sec,
        "what was measured, kept up to date with direct_flush or direct_compaction; 0 to measure anew, or 1 KiB to 1 TiB a second",
        speed
    ),
    row!(memtable_bytes, "a memtable is flushed at this size (1 KiB to 4 GiB)", |n, t| size(
        n,
        t,
        KIB,
        4 * GIB
    )),
    row!(memtables, "memtables in memory at once (2 to 64)", |n, t| count(n, t, 2, 64)),
    row!(cache_bytes, "block cache (0 to 1 TiB)", |n, t| size(n, t, 0, 1024 * GIB)),
    row!(
        memory_bytes,
        "memory for memtables, cache, open tables, cursors, jobs (16 KiB to 1 TiB)",
        |n, t| size(n, t, 16 * KIB, 1024 * GIB)
    ),
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
    row!(
        l0_limit,
        "runs in L0 there may be; writers slow from half way between those wanted and this (2 to 100000)",
        |n, t| count(n, t, 2, 100_000)
    ),
    row!(workers, "compaction threads; flushes have one of their own (1 to 64)", |n, t| count(n, t, 1, 64)),
    row!(compaction_first, "writes wait while a flush or a compaction is due: true or false", yes_or_no),
    row!(reserve_bytes, "disk kept free for flushes (0 to 1 TiB)", |n, t| size(n, t, 0, 1024 * GIB)),
    row!(
        unlink_bytes_per_sec,
        "tables no longer needed are unlinked at this rate; 0 for at once (0 to 1 TiB)",
        |n, t| size(n, t, 0, 1024 * GIB)
    ),
    row!(wal_bytes_max, "largest log before a flush (64 KiB to 1 TiB)", |n, t| size(
        n,
        t,
        64 * KIB,
        1024 * GIB
    )),
    row!(filter_bits, "filter bits per key (0 to 32)", |n, t| bits(n, t, 32.0)),
    row!(
        compression,
        "auto (lz4; none in L0 while flushes are in a hurry), none, lz4, zstd:LEVEL (1 to 19; where built with the feature zstd), or one per level: none,none,lz4",
        parsed
    ),
    row!(
        prefix_filter,
        "prefixes in filters, so that scans within one skip tables: none, fixed:BYTES (1 to 255) or delimiter:C",
        parsed
    ),
    row!(direct_flush, "flushes write past the page cache: true or false", yes_or_no),
    row!(direct_compaction, "compactions read and write past the page cache: true or false", yes_or_no),
    row!(
        direct_reads,
        "gets and scans read past the page cache: true or false; for tables opened from then on",
        yes_or_no
    ),
    row!(readahead_bytes, "most that a scan reads ahead of each run (0 to 16 MiB)", |n, t| size(
        n,
        t,
        0,
        16 * MIB
    )),
    row!(log_files, "files of LOG and of STATS that are kept; 0 writes none (0 to 1000)", |n, t| count(
        n, t, 0, 1000
    )),
    row!(log_bytes, "LOG and STATS go on in a new file at this size (4 KiB to 1 TiB)", |n, t| size(
        n,
        t,
        4 * KIB,
        1024 * GIB
    )),
    row!(stats_seconds, "seconds between lines of STATS; 0 writes none (0 to 3600)", |n, t| count(
        n, t, 0, 3600
    )),
    row!(
        slow_us,
        "microseconds from which on an operation is slow; 0 measures nothing (0 to 1000000000)",
        |n, t| count(n, t, 0, 1_000_000_000)
    ),
    row!(heat_counts, "what makes a table hot: probes, candidates, probes+scans or candidates+scans", parsed),
    row!(
        heat_operations,
        "heat is learnt anew after so many operations that count (64 to 1000000000)",
        |n, t| count(n, t, 64, 1_000_000_000)
    ),
    row!(
        heat_compactions,
        "or after so many compactions and an eighth of heat_operations; 0: whatever they are (0 to 1000000)",
        |n, t| count(n, t, 0, 1_000_000)
    ),
    row!(heat_seconds, "and after so many seconds at least (0 to 3600)", |n, t| count(n, t, 0, 3600)),
    row!(
        filter_heat,
        "filters may differ from filter_bits by so many bits a key, more where reads come; 0: all alike (0 to 8)",
        |n, t| bits(n, t, 8.0)
    ),
    row!(at open control_socket, "answer questions at the socket SOCKET (true or false)", yes_or_no),
];

/// RocksDB's words for options that mean the same here. [`Options::set`] takes them too.
const ROCKSDB_WORDS: &[(&str, &str)] = &[
    ("write_buffer_size", "memtable_bytes"),
    ("max_write_buffer_number", "memtables"),
    ("block_cache_size", "cache_bytes"),
    ("target_file_size_base", "table_bytes"),
    ("block_size", "block_bytes"),
    ("max_bytes_for_level_base", "level_base_bytes"),
    ("max_bytes_for_level_multiplier", "level_ratio"),
    ("level0_file_num_compaction_trigger", "l0_trigger"),
    ("level0_stop_writes_trigger", "l0_limit"),
    ("max_background_compactions", "workers"),
    ("max_total_wal_size", "wal_bytes_max"),
    ("bloom_bits_per_key", "filter_bits"),
];

impl Options {
    /// Every option that [`Options::set`] takes.
    pub fn names() -> &'static [OptionInfo] {
        TABLE
    }

    /// The option of this name, or of this name in RocksDB.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name; the nearest is suggested.
    pub fn info(name: &str) -> Result<&'static OptionInfo> {
        let ours = ROCKSDB_WORDS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
        TABLE.iter().find(|row| row.name == ours).ok_or_else(|| {
            let words =
                TABLE.iter().map(|row| row.name).chain(ROCKSDB_WORDS.iter().map(|(theirs, _)| *theirs));
            let near = |word: &&str| levenshtein(word, name) <= word.len() / 3;
            let nearest = words.filter(near).min_by_key(|word| levenshtein(word, name));
            let hint = nearest.map_or_else(
                || "`keel option list` shows what there is".to_owned(),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            Error::invalid(format!("unknown option `{name}`; {hint}"))
        })
    }

    /// Sets an option by its name, as `--set name=value` does. RocksDB's words are taken where the meaning is the same, like
    /// `write_buffer_size`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name (the nearest is suggested) or a value out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        (Options::info(name)?.set)(self, value)
    }

    /// Names and values of the options that are not as by default.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let defaults = Options::default();
        TABLE.iter().filter_map(move |row| {
            let value = row.value(self);
            (value != row.value(&defaults)).then_some((row.name, value))
        })
    }

    /// Refuses a value that makes no sense by itself.
    pub(crate) fn check_values(&self) -> Result<()> {
        TABLE.iter().try_for_each(|row| (row.set)(&mut self.clone(), &row.value(self)))
    }

    /// The same, and refuses settings that contradict each other.
    pub(crate) fn validate(&self) -> Result<()> {
        self.check_values()?;
        if self.l0_limit <= self.l0_trigger {
            return Err(Error::invalid(format!(
                "l0_limit ({}) must be above l0_trigger ({}): writers would be slowed before a compaction may start",
                self.l0_limit, self.l0_trigger
            )));
        }
        Ok(())
    }

    /// A log file's largest capacity: a quarter of the log's limit, and no more than a memtable takes, at most 4 MiB.
    /// The one that is written and those made ahead are mapped whole, and so in memory.
    pub(crate) fn wal_file_bytes(&self) -> u64 {
        (self.wal_bytes_max / 4).min(self.memtable_bytes).clamp(16 * KIB, 4 * MIB)
    }
}

/// Settings of a keyspace that differ from the store's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Its compaction strategy; `None` for `1-leveling`, whatever the default keyspace has.
    pub strategy: Option<String>,
    /// Its memtable size in bytes, 1 KiB to 4 GiB; `None` for the store's, also when that changes.
    pub memtable_bytes: Option<u64>,
    /// How its tables are compressed; `None` for the store's.
    pub compression: Option<CompressionRule>,
    /// Which prefixes its filters hold; `None` for the store's.
    pub prefix_filter: Option<PrefixRule>,
    /// Its writes do not go to the log: a crash loses those since its last flush. Fixed for good when the keyspace is made.
    pub no_wal: bool,
}

impl KeyspaceOptions {
    /// Refuses what the store's own options would be refused for.
    pub(crate) fn check(&self) -> Result<()> {
        match self.memtable_bytes {
            Some(bytes) => Options::default().set("memtable_bytes", &bytes.to_string()),
            None => Ok(()),
        }
    }
}

/// How a keyspace's tables are written: its own settings, else the store's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableStyle {
    compression: Option<CompressionRule>,
    prefix_filter: Option<PrefixRule>,
}

impl TableStyle {
    /// What a keyspace's options say of it.
    ///
    /// # Errors
    /// As for the words that spell it: `Unsupported` for a method that this build has not.
    pub(crate) fn of(options: &KeyspaceOptions) -> Result<TableStyle> {
        let compression = options.compression.clone();
        if let Some(rule) = &compression {
            rule.to_string().parse::<CompressionRule>()?;
        }
        Ok(TableStyle { compression, prefix_filter: options.prefix_filter })
    }

    /// Writes it to a keyspace's options.
    pub(crate) fn write_to(&self, options: &mut KeyspaceOptions) {
        options.compression.clone_from(&self.compression);
        options.prefix_filter = self.prefix_filter;
    }

    /// How tables for `level` are compressed, while flushes are in a hurry or not.
    pub(crate) fn compression_at(&self, level: usize, in_a_hurry: bool, store: &Options) -> Compression {
        self.compression.as_ref().unwrap_or(&store.compression).at(level, in_a_hurry)
    }

    /// Which prefixes filters hold.
    pub(crate) fn prefix_rule(&self, store: &Options) -> PrefixRule {
        self.prefix_filter.unwrap_or(store.prefix_filter)
    }
}

fn durability(_name: &str, text: &str) -> Result<Durability> {
    match text.parse()? {
        Durability::NoWal => Err(Error::invalid(
            "`no-wal` is not for a whole store: make a keyspace with it (`keel keyspace create --no-wal`)",
        )),
        durability => Ok(durability),
    }
}

fn parsed<T: FromStr<Err = Error>>(_name: &str, text: &str) -> Result<T> {
    text.parse()
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every parser in the table")]
fn text(_name: &str, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

fn speed(name: &str, text: &str) -> Result<u64> {
    match parse_size(text) {
        Some(0) => Ok(0),
        _ => size(name, text, KIB, 1024 * GIB),
    }
}

fn yes_or_no(name: &str, text: &str) -> Result<bool> {
    text.parse().map_err(|_| Error::invalid(format!("{name} must be true or false, not `{text}`")))
}

fn bits(name: &str, text: &str, max: f32) -> Result<f32> {
    match text.parse::<f32>() {
        Ok(n) if (0.0..=max).contains(&n) => Ok(n),
        _ => Err(Error::invalid(format!("{name} must be a number from 0 to {max}, not `{text}`"))),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn durabilities_print_what_they_read_and_refuse_the_rest() {
        for text in ["os", "sync", "no-wal", "interval:1", "interval:3600000"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "Sync",
            "interval",
            "interval:",
            "interval:0",
            "interval:-1",
            "interval:1.5",
            "interval:3600001",
        ] {
            assert_eq!(text.parse::<Durability>().unwrap_err().kind(), "InvalidArgument", "{text}");
        }
        let odd = Durability::Interval(Duration::from_micros(1500));
        assert_eq!(odd.check().unwrap_err().kind(), "InvalidArgument");
        assert_eq!(Options::default().set("durability", "no-wal").unwrap_err().kind(), "InvalidArgument");
    }

    #[test]
    fn words_of_rocksdb_mean_our_options() {
        for (theirs, ours) in ROCKSDB_WORDS {
            assert_eq!(Options::info(theirs).unwrap().name, *ours);
            assert!(TABLE.iter().all(|row| row.name != *theirs), "{theirs} would be two options");
        }
        let mut options = Options::default();
        options.set("write_buffer_size", "8MiB").unwrap();
        assert_eq!(options.memtable_bytes, 8 * MIB);
        let error = options.set("write_buffer_sizes", "8MiB").unwrap_err();
        assert!(error.to_string().contains("`write_buffer_size`"), "{error}");
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
