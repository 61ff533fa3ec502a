//! `keel compact`: brings a range of keys, or everything, into its final place.

use std::ffi::OsString;

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Spinner;
use crate::store::{EngineArgs, Store, Target, bytes, range};

/// See `keel compact --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// From this key on.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Up to this key, without it.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Bounds are escaped: \xNN a byte, \\ a backslash, \e the empty string.
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
  keel compact --db shop.db
  keel compact --db shop.db --from apple --to cherry";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let bound = |arg: &Option<OsString>| arg.as_deref().map(|arg| bytes(arg, self.escaped)).transpose();
        let (from, to) = (bound(&self.from)?, bound(&self.to)?);
        let store = Store::open_with(target, &self.engine)?;
        let spinner = Spinner::start("compacting");
        store.keyspace.compact_range(range(from.as_ref(), to.as_ref()))?;
        store.db.wait_idle()?;
        spinner.finish();
        let picture = store.keyspace.picture();
        store.close()?;
        let mut out = Output::new();
        if self.json {
            return out.line(&serde_json::json!({ "ok": true, "picture": picture }).to_string());
        }
        out.line(if picture.trim().is_empty() { "no tables yet" } else { picture.trim_end() })
    }
}
