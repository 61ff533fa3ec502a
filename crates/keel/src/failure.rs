//! How a verb can end other than well, and which exit code that is.

use std::io;
use std::path::PathBuf;

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The work failed: exit 1 with this message.
    Work(String),
    /// The command was called wrongly: exit 2 with this message.
    Usage(String),
    /// Another process has the store open: exit 1 with this message, and who it is.
    Locked {
        /// What the engine says.
        message: String,
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

    /// Writing to stdout failed.
    pub fn output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Work(format!("cannot write the output: {error}")),
        }
    }
}

impl From<evenkeel::Error> for Failure {
    fn from(error: evenkeel::Error) -> Failure {
        match error {
            evenkeel::Error::Locked { ref dir } => {
                Failure::Locked { message: error.to_string(), dir: dir.clone() }
            }
            _ => Failure::Work(error.to_string()),
        }
    }
}
