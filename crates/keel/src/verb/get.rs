//! `keel get KEY`: prints one value; nothing and exit 1 if there is none.

use std::ffi::OsString;

use crate::escape::escape;
use crate::failure::Failure;
use crate::output::{Output, json_record};
use crate::store::{ReadArgs, Target, bytes};

/// See `keel get --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The key.
    key: OsString,
    /// KEY is escaped, and so is what is printed: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// Print an object with `key` and `value` (`key_hex`, `value_hex` where they are no text).
    #[arg(long, conflicts_with = "escaped")]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel get --db shop.db apple
  keel get --db shop.db --keyspace prices apple

Prints the value and a line end. A key that is not there prints nothing and exits with 1.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let key = bytes(&self.key, self.escaped)?;
        let store = self.read.open(target)?;
        let value = store.keyspace.get(&key)?.map(|value| value.to_vec());
        store.close()?;
        let Some(value) = value else { return Err(Failure::Absent) };
        let mut out = Output::new();
        if self.json {
            return out.line(&json_record(&key, &value));
        }
        let mut line = Vec::new();
        if self.escaped {
            escape(&value, &mut line);
        } else {
            line = value;
        }
        line.push(b'\n');
        out.bytes(&line)?;
        out.flush()
    }
}
