//! What can go wrong, in the words a user can act on.
//!
//! One enum for the whole engine, with stable kinds (`ErrorKind`-like names that `keel shell` prints and
//! scripts rely on). An error names the file and the offset where there is one. It never holds values, and
//! of a key only how it begins. This file imports nothing of the engine.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of everything in the engine that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a closed store takes nothing any more.
pub const CLOSED: &str = "the store is closed";
/// How damage begins in words that is the want of a whole file.
const MISSING: &str = "this file is missing";

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk are not what was written there. Healthy files stay readable.
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The operating system refused or failed an operation.
    Io {
        /// The operation and the file, for instance `read /data/000012.sst at 4096`.
        context: String,
        /// The error as the system gave it.
        source: Arc<io::Error>,
    },
    /// The disk is full, or its reserve is reached. Reads go on; writes resume when there is space.
    NoSpace {
        /// The operation that found no space.
        context: String,
    },
    /// The store takes no writes any more: it was closed, a write of the log or the manifest failed, or a thread panicked. Reopen it to go
    /// on.
    Poisoned {
        /// The first error.
        cause: String,
    },
    /// The store was opened read-only: nothing about it can be changed.
    ReadOnly {
        /// The store's directory.
        dir: PathBuf,
    },
    /// Another opener, in this or another process, holds the store.
    Locked {
        /// The store's directory.
        dir: PathBuf,
    },
    /// Something is larger than the store takes: a key, a value, a batch, or what a read-only open would hold in memory. Nothing was
    /// written.
    Limit {
        /// What is too large, for instance `key`.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size allowed, in bytes.
        max: u64,
    },
    /// Background work is paused, and without it the call could not finish. What was asked for has not been done.
    Paused,
    /// A store without threads of its own ([`Builder::without_threads`](crate::Builder::without_threads)) has nothing to do
    /// now, and what the call waits for is not done: only time brings it. Let time pass, and call again.
    Idle,
    /// The call makes no sense as it is. Nothing was changed.
    InvalidArgument(String),
    /// The store uses something this version does not know, for instance a newer format.
    Unsupported(String),
}

impl Error {
    /// Bytes of `file` at `offset` are damaged.
    pub fn corruption(file: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { file: file.as_ref().to_path_buf(), offset, what: what.into() }
    }

    /// Wraps a system error; a full disk becomes [`Error::NoSpace`].
    pub fn io(context: impl Into<String>, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::NoSpace { context: context.into() }
            }
            _ => Error::Io { context: context.into(), source: Arc::new(source) },
        }
    }

    /// The same error, unless it says that `path` is not there: then it is damage, for something refers to the file.
    #[must_use]
    pub fn or_missing(self, path: &std::path::Path) -> Error {
        match self {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Error::corruption(path, 0, MISSING)
            }
            other => other,
        }
    }

    /// A call that makes no sense.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument(what.into())
    }

    /// A call on a closed store.
    pub fn closed() -> Error {
        Error::Poisoned { cause: CLOSED.to_owned() }
    }

    /// The kind's stable name, one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Corruption { .. } => "Corruption",
            Error::Io { .. } => "Io",
            Error::NoSpace { .. } => "NoSpace",
            Error::Poisoned { .. } => "Poisoned",
            Error::ReadOnly { .. } => "ReadOnly",
            Error::Locked { .. } => "Locked",
            Error::Limit { .. } => "Limit",
            Error::Paused => "Paused",
            Error::Idle => "Idle",
            Error::InvalidArgument(_) => "InvalidArgument",
            Error::Unsupported(_) => "Unsupported",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // There is no place in a file that is not there.
            Error::Corruption { file, what, .. } if what.starts_with(MISSING) => {
                write!(f, "{}: {what}", file.display())
            }
            Error::Corruption { file, offset, what } => {
                write!(f, "{} is damaged at byte {offset}: {what}", file.display())
            }
            Error::Io { context, source } => write!(f, "{context}: {source}"),
            Error::NoSpace { context } => {
                write!(f, "{context}: no space left; nothing is lost, free some and go on")
            }
            Error::Poisoned { cause } if cause == CLOSED => f.write_str("the store is closed; open it again"),
            Error::Poisoned { cause } => {
                write!(f, "the store is read-only since an earlier failure ({cause}); close and reopen it")
            }
            Error::ReadOnly { dir } => {
                write!(f, "{} was opened read-only; open it for writing to change it", dir.display())
            }
            Error::Locked { dir } => {
                write!(f, "{} is open elsewhere (the lock on {}/LOCK is held)", dir.display(), dir.display())
            }
            Error::Limit { what, bytes, max } => {
                write!(f, "the {what} has {bytes} bytes, the limit is {max}")
            }
            Error::Paused => f.write_str("background work is paused; resume it, and ask again"),
            Error::Idle => f.write_str(
                "nothing is to be done now and what is waited for is not done; let time pass, and ask again",
            ),
            Error::InvalidArgument(what) | Error::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// At most 24 bytes of a key, for messages, as [`escaped`].
pub fn key_start(key: &[u8]) -> String {
    match key.get(..24) {
        Some(start) if key.len() > 24 => escaped(start) + "..",
        _ => escaped(key),
    }
}

/// A key in printable ASCII, as the command prints keys: `\xNN` for other bytes and blanks, `\\`, and `\e` for none.
pub fn escaped(key: &[u8]) -> String {
    let byte = |b: &u8| match b {
        b'\\' => "\\\\".to_owned(),
        b'!'..=b'~' => char::from(*b).to_string(),
        _ => format!("\\x{b:02x}"),
    };
    if key.is_empty() { "\\e".to_owned() } else { key.iter().map(byte).collect() }
}
