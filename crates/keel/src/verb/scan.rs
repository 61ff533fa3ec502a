//! `keel scan`: prints records in key order, up or down, within bounds.

use std::ffi::OsString;

use evenkeel::ScanRange;

use crate::escape::escape;
use crate::failure::Failure;
use crate::output::{Output, json_record};
use crate::store::{ReadArgs, Target, bytes, range};

/// See `keel scan --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// From this key on.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Up to this key, without it.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin with this.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// From the last key to the first.
    #[arg(long)]
    reverse: bool,
    /// At most so many records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Bounds are escaped, and so is what is printed: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// Print an object a line with `key` and `value` (`key_hex`, `value_hex` where they are no text).
    #[arg(long, conflicts_with = "escaped")]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel scan --db shop.db
  keel scan --db shop.db --from apple --to cherry
  keel scan --db shop.db --prefix user: --reverse --limit 10

Prints KEY<TAB>VALUE lines. Bytes are printed as they are; `--escaped` keeps each record on one line.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let bound = |arg: &Option<OsString>| arg.as_deref().map(|arg| bytes(arg, self.escaped)).transpose();
        let (from, to, prefix) = (bound(&self.from)?, bound(&self.to)?, bound(&self.prefix)?);
        let range = match &prefix {
            Some(prefix) => ScanRange::prefix(prefix),
            None => range(from.as_ref(), to.as_ref()),
        };
        let store = self.read.open(target)?;
        let limit = self.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let scan = store.keyspace.scan(range)?;
        if self.reverse {
            self.print(scan.rev().take(limit))?;
        } else {
            self.print(scan.take(limit))?;
        }
        store.close()
    }

    fn print(
        &self,
        records: impl Iterator<Item = evenkeel::Result<(Vec<u8>, Vec<u8>)>>,
    ) -> Result<(), Failure> {
        let mut out = Output::new();
        let mut line = Vec::new();
        for record in records {
            let (key, value) = record?;
            line.clear();
            if self.json {
                line.extend_from_slice(json_record(&key, &value).as_bytes());
            } else if self.escaped {
                escape(&key, &mut line);
                line.push(b'\t');
                escape(&value, &mut line);
            } else {
                line.extend_from_slice(&key);
                line.push(b'\t');
                line.extend_from_slice(&value);
            }
            line.push(b'\n');
            out.bytes(&line)?;
        }
        out.flush()
    }
}
