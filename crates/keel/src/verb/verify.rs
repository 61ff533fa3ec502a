//! `keel verify`: reads every byte of the store and checks it against its checksums and the tree's rules.

use evenkeel_lab::report;

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Spinner;
use crate::store::{ReadArgs, Target};

/// See `keel verify --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print an object with `tables`, `entries` and `bytes`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel verify --db shop.db

Checks all keyspaces. Exits with 1 at the first damage, and names the file and the place in it.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let db = self.read.open_db(target)?;
        // All keyspaces are checked; a name that does not exist is still a mistake to point out.
        crate::store::find_keyspace(&db, &target.keyspace)?;
        let spinner = Spinner::start("reading every byte");
        let report = db.verify()?;
        spinner.finish();
        db.close()?;
        let mut out = Output::new();
        if self.json {
            let (tables, entries, bytes) = (report.tables, report.entries, report.bytes);
            let object = serde_json::json!({ "tables": tables, "entries": entries, "bytes": bytes });
            return out.line(&object.to_string());
        }
        out.line(&format!(
            "sound: {} tables, {} entries, {}",
            report::count(report.tables),
            report::count(report.entries),
            report::bytes(report.bytes)
        ))
    }
}
