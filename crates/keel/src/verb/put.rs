//! `keel put KEY VALUE`: writes one record.

use std::ffi::OsString;

use crate::failure::Failure;
use crate::store::{Store, Target, WriteArgs, bytes};

/// See `keel put --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The key; put `--` before keys and values that begin with a dash.
    key: OsString,
    /// The value.
    value: OsString,
    /// KEY and VALUE are escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel put --db shop.db apple 3
  keel put --db shop.db --sync sync apple 3       on disk before it returns
  keel put --db shop.db --sync interval:100 a 3   on disk soon, at the latest when `put` returns
  keel put --db shop.db --escaped 'a\\x00b' '\\e'   any bytes";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let (key, value) = (bytes(&self.key, self.escaped)?, bytes(&self.value, self.escaped)?);
        let store = Store::open_or_create(target, &self.write.engine)?;
        store.keyspace.put(&key, &value)?;
        self.write.done(store)
    }
}
