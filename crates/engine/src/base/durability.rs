//! What a write promises when it returns, and the words for it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::error::{Error, Result};

/// What `Ok` from a write means (`docs/durability.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The write is in the hands of the kernel: it survives the death of this process, not of the machine.
    #[default]
    Os,
    /// As `Os`, and a sync of the log begins in the background at most this long after the write: whole milliseconds, up to an
    /// hour.
    Interval(Duration),
    /// The write is on the disk: it survives a power cut, and so does every earlier write that was logged. Writers that wait
    /// together share one sync; writes behind a sync become visible when it has ended.
    Sync,
    /// The write is in memory only until its memtable is flushed, or the store closed. For keyspaces made without a log
    /// ([`KeyspaceOptions::no_wal`](crate::KeyspaceOptions::no_wal)), of which it is the only mode.
    NoWal,
}

/// The longest interval between syncs, in milliseconds.
const INTERVAL_MS_MAX: u64 = 3_600_000;

impl Durability {
    /// Refuses an interval that is none.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Durability::Interval(interval) => {
                let whole = interval.subsec_nanos().is_multiple_of(1_000_000);
                match u64::try_from(interval.as_millis()) {
                    Ok(1..=INTERVAL_MS_MAX) if whole => Ok(()),
                    _ => Err(Error::invalid(format!(
                        "an interval between syncs has 1 to {INTERVAL_MS_MAX} whole milliseconds; `sync` syncs each write"
                    ))),
                }
            }
            Durability::Os | Durability::Sync | Durability::NoWal => Ok(()),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        match text {
            "os" => Ok(Durability::Os),
            "sync" => Ok(Durability::Sync),
            "no-wal" => Ok(Durability::NoWal),
            _ => {
                let Some(ms) = text.strip_prefix("interval:") else {
                    return Err(Error::invalid(format!(
                        "unknown durability `{text}`; use `os`, `sync`, `interval:MS` or `no-wal`"
                    )));
                };
                let interval = ms.parse().map(Duration::from_millis).map_err(|_| {
                    Error::invalid(format!(
                        "`{text}`: give the milliseconds between syncs, like interval:100"
                    ))
                })?;
                let durability = Durability::Interval(interval);
                durability.check().map(|()| durability)
            }
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Os => f.write_str("os"),
            Durability::Interval(interval) => write!(f, "interval:{}", interval.as_millis()),
            Durability::Sync => f.write_str("sync"),
            Durability::NoWal => f.write_str("no-wal"),
        }
    }
}
