//! `keel delete KEY`: deletes one record, whether it is there or not; with `--to`, all from KEY to below another key.

use std::ffi::OsString;

use crate::failure::Failure;
use crate::store::{Store, Target, WriteArgs, bytes};

/// See `keel delete --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The key; with --to the first one.
    key: OsString,
    /// Delete every key from KEY to below this one, in one write, however many there are.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// The keys are escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel delete --db shop.db apple
  keel delete --db shop.db --escaped 'a\\x00b'
  keel delete --db shop.db user:1000 --to user:2000

Deleting a key that is not there is no error; nor is a range that ends where or before it begins, which is empty.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let key = bytes(&self.key, self.escaped)?;
        let to = self.to.as_deref().map(|to| bytes(to, self.escaped)).transpose()?;
        let store = Store::open(target, &self.write.engine)?;
        match &to {
            Some(to) => store.keyspace.delete_range(&key, to)?,
            None => store.keyspace.delete(&key)?,
        }
        self.write.done(store)
    }
}
