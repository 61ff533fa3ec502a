//! The two ways to set up engines that are compared, and what they have in common.
//!
//! ```text
//! recommended   each engine as its own documentation advises; the same memory for all
//! equal         the same memory, blocks, filters, threads, no compression; all else as the engine has it
//! ```
//!
//! The numbers are here, once; each engine's file translates them into its own words.

use std::collections::BTreeMap;

/// The engine that is compared with the others.
pub const OURS: &str = "evenkeel";

/// The others, as `--engine` takes them: variants of an engine are engines of their own here.
pub const PEERS: [&str; 9] = [
    "rocksdb",
    "rocksdb-recycle",
    "rocksdb-low-priority",
    "rocksdb-rate-limited",
    "rocksdb-auto-tuned",
    "fjall",
    "redb",
    "lmdb",
    "coordinode",
];

/// How engines are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Each by its own advice.
    Recommended,
    /// All alike, as far as they can be.
    Equal,
}

impl Settings {
    /// Both, with the names that people type.
    pub const ALL: [(&'static str, Settings); 2] =
        [("equal", Settings::Equal), ("recommended", Settings::Recommended)];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Settings::Equal => "equal",
            Settings::Recommended => "recommended",
        }
    }

    /// The settings of this name.
    pub fn parse(text: &str) -> Option<Settings> {
        Settings::ALL.iter().find(|(name, _)| *name == text).map(|(_, settings)| *settings)
    }
}

/// What all engines are given. Memory holds for both settings, the rest for `equal` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// A memtable is full at this size.
    pub memtable_bytes: u64,
    /// Memtables in memory at once.
    pub memtables: u64,
    /// Cache for blocks.
    pub cache_bytes: u64,
    /// Blocks of tables.
    pub block_bytes: u64,
    /// Bits of a Bloom filter for each key.
    pub filter_bits: u64,
    /// Threads for flushes and compactions together.
    pub background_threads: u64,
}

impl Default for Common {
    fn default() -> Common {
        Common {
            memtable_bytes: 64 << 20,
            memtables: 2,
            cache_bytes: 256 << 20,
            block_bytes: 4 << 10,
            filter_bits: 10,
            background_threads: 2,
        }
    }
}

impl Common {
    /// The names, with whether one counts in `recommended` too.
    pub const NAMES: [(&'static str, bool); 6] = [
        ("memtable_bytes", true),
        ("memtables", true),
        ("cache_bytes", true),
        ("block_bytes", false),
        ("filter_bits", false),
        ("background_threads", false),
    ];

    /// Sets one by its name; `Ok(false)` if there is none of that name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let (place, least) = match name {
            "memtable_bytes" => (&mut self.memtable_bytes, 1 << 20),
            "memtables" => (&mut self.memtables, 2),
            "cache_bytes" => (&mut self.cache_bytes, 1 << 20),
            "block_bytes" => (&mut self.block_bytes, 512),
            "filter_bits" => (&mut self.filter_bits, 1),
            "background_threads" => (&mut self.background_threads, 2),
            _ => return Ok(false),
        };
        *place = size(value)
            .filter(|size| *size >= least)
            .ok_or_else(|| format!("{name}={value}: give a whole number from {least} on, like 64MiB"))?;
        Ok(true)
    }

    /// Why one of this name is not common to all engines under `settings`, if it is not.
    ///
    /// # Errors
    /// What to do instead.
    pub fn check(name: &str, settings: Settings) -> Result<(), String> {
        let counts = |(known, both): &(&str, bool)| *known == name && (*both || settings == Settings::Equal);
        if Common::NAMES.iter().any(counts) {
            return Ok(());
        }
        Err(format!(
            "--set {name}: with the recommended settings only memory is common; see --settings equal"
        ))
    }

    /// Memory for writes and blocks together, for engines that know no difference.
    pub fn memory_bytes(&self) -> u64 {
        self.memtable_bytes * self.memtables + self.cache_bytes
    }

    /// All that holds under `settings`, for documents.
    pub fn rows(&self, settings: Settings) -> BTreeMap<String, serde_json::Value> {
        let values = [
            self.memtable_bytes,
            self.memtables,
            self.cache_bytes,
            self.block_bytes,
            self.filter_bits,
            self.background_threads,
        ];
        let holds = |both: bool| both || settings == Settings::Equal;
        let named = Common::NAMES.iter().zip(values).filter(|((_, both), _)| holds(*both));
        named.map(|((name, _), value)| ((*name).to_owned(), value.into())).collect()
    }
}

/// A size as people write it: `4096`, `64MiB`, `1GiB`.
fn size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let split = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = split.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| *size < 1 << 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_settings_are_set_by_name() {
        let mut common = Common::default();
        assert_eq!(common.set("memtable_bytes", "8MiB"), Ok(true));
        assert_eq!(common.memtable_bytes, 8 << 20);
        assert_eq!(common.set("workers", "3"), Ok(false));
        for (name, _) in Common::NAMES {
            assert_eq!(common.set(name, "1048576"), Ok(true), "{name}");
            for wrong in ["", "0", "-1", "x", "99999999999GiB"] {
                assert!(common.set(name, wrong).unwrap_err().contains(name), "{name}={wrong}");
            }
        }
        assert_eq!(common.rows(Settings::Equal).len(), Common::NAMES.len());
        assert_eq!(common.rows(Settings::Recommended).len(), 3);
        for (name, settings) in Settings::ALL {
            assert_eq!((settings.name(), Settings::parse(name)), (name, Some(settings)));
        }
    }
}
