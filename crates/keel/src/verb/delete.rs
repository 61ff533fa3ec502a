//! `keel delete KEY`: deletes one record, whether it is there or not.

use std::ffi::OsString;

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{EngineArgs, Store, Target, bytes};

/// See `keel delete --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The key.
    key: OsString,
    /// KEY is escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel delete --db shop.db apple
  keel delete --db shop.db --escaped 'a\\x00b'

Deleting a key that is not there is no error.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let key = bytes(&self.key, self.escaped)?;
        let store = Store::open_with(target, &self.engine)?;
        store.keyspace.delete(&key)?;
        store.close()?;
        if self.json { Output::new().line("{\"ok\":true}") } else { Ok(()) }
    }
}
