//! `keel compact`: brings a range of keys, or everything, into its final place.

use std::ffi::OsString;

use evenkeel::background::{CancelToken, CompactReport};
use evenkeel::{CompactOptions, ScanRange};
use evenkeel_lab::results::report;

use crate::child::catch_interrupts;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Waited, over_bytes, wait_idle};
use crate::store::{Store, Target, WriteArgs, bytes, range};

/// See `keel compact --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// From this key on.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Up to this key, without it.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only this level, into the next; 0 is the first on disk.
    #[arg(long, value_name = "N")]
    level: Option<usize>,
    /// Bounds are escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel compact --db shop.db
  keel compact --db shop.db --from apple --to cherry
  keel compact --db shop.db --level 0                    flushes, and empties the first level into the next

Ctrl-C ends it cleanly: what is finished is kept, and the exit code is 1.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let bound = |arg: &Option<OsString>| arg.as_deref().map(|arg| bytes(arg, self.escaped)).transpose();
        let (from, to) = (bound(&self.from)?, bound(&self.to)?);
        catch_interrupts();
        let store = Store::open(target, &self.write.engine.answering())?;
        let report = self.compact(&store, range(from.as_ref(), to.as_ref()))?;
        let mut waited = Waited::Done;
        if !report.cancelled {
            waited = wait_idle(&store.db, "waiting for background work")?;
        }
        let picture = store.keyspace.picture();
        store.close()?;
        self.print(&report, &picture)?;
        if report.cancelled || waited == Waited::Interrupted {
            return Err(Failure::work(
                "interrupted; what was finished is kept, `keel compact` does the rest",
            ));
        }
        Ok(())
    }

    fn compact(&self, store: &Store, range: ScanRange) -> Result<CompactReport, Failure> {
        let (bar, token) = (over_bytes(Some(0)), CancelToken::new());
        let mut options = CompactOptions::new().range(range).cancel(&token);
        if let Some(level) = self.level {
            options = options.from_level(level).to_level(level + 1);
        }
        bar.set_message("flushing");
        let shown = bar.clone();
        let options = options.progress(move |progress| {
            if evenkeel_sys::was_interrupted() {
                token.cancel();
            }
            shown.set_length(progress.total_bytes);
            shown.set_position(progress.done_bytes);
            shown.set_message(format!("level {}", progress.level));
        });
        let outcome = store.keyspace.compact(options);
        bar.finish_and_clear();
        Ok(outcome?)
    }

    fn print(&self, report: &CompactReport, picture: &str) -> Result<(), Failure> {
        let mut out = Output::new();
        if self.write.json {
            let object = serde_json::json!({
                "ok": !report.cancelled, "cancelled": report.cancelled, "compactions": report.compactions,
                "bytes_read": report.bytes_read, "bytes_written": report.bytes_written,
                "bytes_moved": report.bytes_moved, "tables_written": report.tables_written,
                "seconds": report.seconds, "picture": picture,
            });
            return out.line(&object.to_string());
        }
        let picture = if picture.trim().is_empty() { "no tables yet" } else { picture.trim_end() };
        out.shown(&format!("{picture}\n"))?;
        out.line(&format!(
            "read {}, wrote {} in {} tables, moved {}, in {}",
            report::bytes(report.bytes_read),
            report::bytes(report.bytes_written),
            report::count(report.tables_written),
            report::bytes(report.bytes_moved),
            report::seconds(report.seconds),
        ))
    }
}
