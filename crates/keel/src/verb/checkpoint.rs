//! `keel checkpoint TARGET`: a copy of the store as of one commit, made of links to its tables.

use std::path::PathBuf;

use evenkeel_lab::results::report;

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::LateBar;
use crate::store::{EngineArgs, Target, find_keyspace, open_db};

/// See `keel checkpoint --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory to make; it must not exist.
    target: PathBuf,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel checkpoint --db shop.db backups/shop-monday
  keel scan --db backups/shop-monday --limit 10      it is a store like any other

All keyspaces are in it, as of one moment. On the same file system tables are hard links, so that it takes next to no room
or time; elsewhere they are copied. An interrupted one leaves TARGET.checkpoint-tmp, which the next one removes.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let db = open_db(target, &EngineArgs { answers: true, ..EngineArgs::default() })?;
        // All keyspaces are in it; a name that does not exist is still a mistake to point out.
        find_keyspace(&db, &target.keyspace)?;
        let mut bar = LateBar::new("copying the store");
        let made = db.checkpoint_with(&self.target, &mut |at| bar.advance(at.bytes_done, at.bytes_total));
        bar.finish();
        let made = made?;
        db.close()?;
        let mut out = Output::new();
        if self.json {
            let object = serde_json::json!({
                "target": self.target.to_string_lossy(), "sequence": made.sequence,
                "tables": {
                    "linked": made.tables_linked, "copied": made.tables_copied, "written": made.tables_written,
                },
                "bytes": {
                    "linked": made.bytes_linked, "copied": made.bytes_copied, "written": made.bytes_written,
                },
            });
            return out.line(&object.to_string());
        }
        let parts = [
            (made.tables_linked, made.bytes_linked, "linked"),
            (made.tables_copied, made.bytes_copied, "copied, because a link cannot leave its file system"),
            (made.tables_written, made.bytes_written, "written from memory"),
        ];
        let parts = parts.iter().filter(|(tables, _, _)| *tables > 0).map(|(tables, bytes, how)| {
            let noun = if *tables == 1 { "table" } else { "tables" };
            format!("{} {noun} ({}) {how}", report::count(*tables), report::bytes(*bytes))
        });
        let parts: Vec<String> = parts.collect();
        let parts = if parts.is_empty() { "no tables".to_owned() } else { parts.join("; ") };
        out.line(&format!("{}: as of sequence {}; {parts}", self.target.display(), made.sequence))
    }
}
