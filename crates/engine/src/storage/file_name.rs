//! The names of a store's files: which file is what, by name alone (RocksDB's conventions).
//!
//! ```text
//! CURRENT  MANIFEST-000001  000012.log  000013.sst  OPTIONS-000005  000006.dbtmp  LOCK  IDENTITY
//! LOG  LOG.old.000001  STATS  STATS.old.000001  SOCKET  HEAT
//! ```
//!
//! What refers to a file holds its number, never a path, so nothing on disk can point outside the directory. A name
//! that is not exactly what we print, or has a number that no store gets to, is not ours and is left alone.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::units::COUNT_MAX;

/// A name that the store gives to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// Says which manifest is in force.
    Current,
    /// The log of the tree's edits.
    Manifest(u64),
    /// A write-ahead log.
    Wal(u64),
    /// A table.
    Table(u64),
    /// The options in force.
    Options(u64),
    /// A file under construction that gets another name when it is whole.
    Temp(u64),
    /// The lock that says who owns the store. Its content means nothing.
    Lock,
    /// What happened, for people.
    Log,
    /// An earlier `LOG`.
    OldLog(u64),
    /// The store's figures, a line each second.
    Stats,
    /// An earlier `STATS`.
    OldStats(u64),
    /// Where a running store answers questions.
    Socket,
    /// The store's unique name.
    Identity,
    /// What reads have taught.
    Heat,
}

impl FileName {
    /// What `name` is, or `None` if the store did not give it.
    pub fn parse(name: &str) -> Option<FileName> {
        let parsed = match name {
            "CURRENT" => FileName::Current,
            "LOCK" => FileName::Lock,
            "LOG" => FileName::Log,
            "STATS" => FileName::Stats,
            "SOCKET" => FileName::Socket,
            "IDENTITY" => FileName::Identity,
            "HEAT" => FileName::Heat,
            _ => parse_numbered(name)?,
        };
        // One file must have one name: `12.sst` or `+00012.sst` are not ours.
        let believed = parsed.number().is_none_or(|number| number <= 2 * COUNT_MAX);
        (believed && parsed.to_string() == name).then_some(parsed)
    }

    /// The file's number, if it has one.
    pub fn number(self) -> Option<u64> {
        match self {
            FileName::Manifest(n)
            | FileName::Wal(n)
            | FileName::Table(n)
            | FileName::Options(n)
            | FileName::Temp(n) => Some(n),
            // Those of files for people are counted apart.
            FileName::OldLog(_) | FileName::OldStats(_) => None,
            FileName::Current
            | FileName::Lock
            | FileName::Log
            | FileName::Stats
            | FileName::Socket
            | FileName::Identity
            | FileName::Heat => None,
        }
    }

    /// The file of this name in `dir`.
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Current => f.write_str("CURRENT"),
            FileName::Manifest(n) => write!(f, "MANIFEST-{n:06}"),
            FileName::Wal(n) => write!(f, "{n:06}.log"),
            FileName::Table(n) => write!(f, "{n:06}.sst"),
            FileName::Options(n) => write!(f, "OPTIONS-{n:06}"),
            FileName::Temp(n) => write!(f, "{n:06}.dbtmp"),
            FileName::Lock => f.write_str("LOCK"),
            FileName::Log => f.write_str("LOG"),
            FileName::OldLog(n) => write!(f, "LOG.old.{n:06}"),
            FileName::Stats => f.write_str("STATS"),
            FileName::OldStats(n) => write!(f, "STATS.old.{n:06}"),
            FileName::Socket => f.write_str("SOCKET"),
            FileName::Identity => f.write_str("IDENTITY"),
            FileName::Heat => f.write_str("HEAT"),
        }
    }
}

fn parse_numbered(name: &str) -> Option<FileName> {
    if let Some(n) = name.strip_prefix("MANIFEST-") {
        return n.parse().ok().map(FileName::Manifest);
    }
    if let Some(n) = name.strip_prefix("OPTIONS-") {
        return n.parse().ok().map(FileName::Options);
    }
    if let Some(n) = name.strip_prefix("LOG.old.") {
        return n.parse().ok().map(FileName::OldLog);
    }
    if let Some(n) = name.strip_prefix("STATS.old.") {
        return n.parse().ok().map(FileName::OldStats);
    }
    let (n, ending) = name.split_once('.')?;
    let n = n.parse().ok()?;
    match ending {
        "log" => Some(FileName::Wal(n)),
        "sst" => Some(FileName::Table(n)),
        "dbtmp" => Some(FileName::Temp(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT_MAX, FileName};

    #[test]
    fn every_name_reads_back() {
        for n in [0, 1, 12, 999_999, 1_000_000, 2 * COUNT_MAX] {
            for name in [
                FileName::Manifest(n),
                FileName::Wal(n),
                FileName::Table(n),
                FileName::Options(n),
                FileName::Temp(n),
            ] {
                assert_eq!(FileName::parse(&name.to_string()), Some(name));
                assert_eq!(name.number(), Some(n));
            }
        }
        for name in [
            FileName::Current,
            FileName::Lock,
            FileName::Log,
            FileName::OldLog(3),
            FileName::Stats,
            FileName::OldStats(4),
            FileName::Socket,
            FileName::Identity,
            FileName::Heat,
        ] {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
            assert_eq!(name.number(), None);
        }
        assert_eq!(FileName::Manifest(1).to_string(), "MANIFEST-000001");
        assert_eq!(FileName::Wal(12).to_string(), "000012.log");
    }

    #[test]
    fn names_that_are_not_ours_are_nothing() {
        for name in [
            "",
            "12.log",
            "0000012.log",
            "+00012.log",
            "-00012.log",
            "000012.LOG",
            "000012.log.bak",
            "000012",
            "000012.",
            ".log",
            "MANIFEST-",
            "MANIFEST-1",
            "MANIFEST-../etc",
            "../000012.log",
            "current",
            "CURRENT ",
            "18446744073709551616.sst",
            "18446744073709551615.sst",
            "72057594037927937.sst",
            "99999999999999999999999999.sst",
            "notes.txt",
            "000001.dbtmp~",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
