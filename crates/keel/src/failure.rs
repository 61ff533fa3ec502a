//! How a verb can end other than well, and which exit code that is.

use std::io;
use std::path::{Path, PathBuf};

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The work failed: exit 1 with this message.
    Work(String),
    /// The command was called wrongly: exit 2 with this message.
    Usage(String),
    /// A file of the store is damaged: exit 1 with this message, and how to see the extent.
    Damaged(String),
    /// Another process has the store open: exit 1 with who it is, and what can be done.
    Locked {
        /// What can be done.
        hint: String,
        /// The store's directory.
        dir: PathBuf,
    },
    /// What was asked for is not there: exit 1 and nothing to say.
    Absent,
    /// Whoever read our output has enough: exit 0.
    OutputClosed,
}

impl Failure {
    /// The work failed.
    pub fn work(message: impl Into<String>) -> Failure {
        Failure::Work(message.into())
    }

    /// The command was called wrongly.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::Usage(message.into())
    }

    /// The same for a verb that shows the extent itself.
    pub fn without_verify(self) -> Failure {
        match self {
            Failure::Damaged(message) => Failure::Work(message),
            other => other,
        }
    }

    /// The same for a verb that stops in the middle of its work when nobody reads its answers.
    pub fn unread(self, what: impl FnOnce() -> String) -> Failure {
        match self {
            Failure::OutputClosed => Failure::Work(what()),
            other => other,
        }
    }

    /// Writing to stdout failed.
    pub fn output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Work(format!("cannot write the output: {error}")),
        }
    }
}

/// True for the files that say what a store is: damage to one is more than a table's.
fn is_of_a_store(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "CURRENT"
        || ["MANIFEST-", "OPTIONS-"].iter().any(|kind| name.starts_with(kind))
        || name.ends_with(".log")
}

impl From<evenkeel::Error> for Failure {
    fn from(error: evenkeel::Error) -> Failure {
        match error {
            evenkeel::Error::Locked { dir } => {
                let hint = "one process at a time may write to a store".to_owned();
                Failure::Locked { hint, dir }
            }
            evenkeel::Error::Corruption { ref file, .. }
                if file.extension().is_some_and(|end| end == "sst") =>
            {
                Failure::Damaged(error.to_string())
            }
            evenkeel::Error::Corruption { ref file, .. } if is_of_a_store(file) => {
                Failure::Work(format!("{error}; `keel repair` says what can be saved"))
            }
            _ => Failure::Work(error.to_string()),
        }
    }
}
