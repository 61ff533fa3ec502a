//! `keel verify`: reads every byte of the store and checks it against its checksums and the tree's rules.

use evenkeel::VerifyReport;
use evenkeel_lab::results::report;

use crate::escape::one_line;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Spinner;
use crate::store::{ReadArgs, Target};

/// See `keel verify --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print an object with `tables`, `entries` and `bytes` of what is sound, and `damage`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel verify --db shop.db

Checks all keyspaces. Each damaged table is named with the first damaged place in it, and the exit code is 1. Beside a
process that has the store open, --read-only checks it as it is now.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let db = self.read.open_db(target).map_err(Failure::without_verify)?;
        // All keyspaces are checked; a name that does not exist is still a mistake to point out.
        crate::store::find_keyspace(&db, &target.keyspace)?;
        let spinner = Spinner::start("reading every byte");
        let mut damage = Vec::new();
        let report = db.verify_all(&mut |error| damage.push(error.to_string()));
        spinner.finish();
        let report = report.map_err(|error| Failure::from(error).without_verify())?;
        db.close()?;
        let mut out = Output::new();
        self.print(&mut out, &report, &damage)?;
        match &damage[..] {
            [] => Ok(()),
            [only] => Err(Failure::work(only)),
            [first, more @ ..] => {
                let files = if more.len() == 1 { "file is" } else { "files are" };
                Err(Failure::work(format!("{first} (and {} more {files} damaged)", more.len())))
            }
        }
    }

    fn print(&self, out: &mut Output, report: &VerifyReport, damage: &[String]) -> Result<(), Failure> {
        let VerifyReport { tables, entries, bytes, .. } = *report;
        if self.json {
            let object =
                serde_json::json!({ "tables": tables, "entries": entries, "bytes": bytes, "damage": damage });
            return out.line(&object.to_string());
        }
        damage.iter().try_for_each(|what| out.line(&one_line(what)))?;
        let noun = |n: u64, one: &str, more: &str| {
            format!("{} {}", report::count(n), if n == 1 { one } else { more })
        };
        out.line(&format!(
            "sound: {}, {}, {}",
            noun(tables, "table", "tables"),
            noun(entries, "entry", "entries"),
            report::bytes(bytes)
        ))
    }
}
