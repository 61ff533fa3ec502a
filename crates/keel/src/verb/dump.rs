//! `keel dump`: prints every record of a keyspace as `load` reads them.

use evenkeel::ScanRange;

use crate::escape::escaped;
use crate::failure::Failure;
use crate::output::{Output, json_record};
use crate::store::{Store, Target};
use crate::tsv::{Form, print};

/// See `keel dump --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Escape keys and values, so that any bytes can be carried: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// Print an object a line with `key` and `value` (`key_hex`, `value_hex` where they are no text).
    #[arg(long, conflicts_with = "escaped")]
    json: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel dump --db shop.db > shop.tsv
  keel dump --db shop.db --escaped | keel load --db copy.db --escaped -

Lines are KEY<TAB>VALUE in key order. What such a line cannot carry (a TAB or line end in a key, a line end in a
value) is an error; `--escaped` carries anything.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let form = if self.escaped { Form::Escaped } else { Form::Raw };
        let store = Store::open(target)?;
        let mut out = Output::new();
        let mut line = Vec::new();
        for record in store.keyspace.scan(ScanRange::all())? {
            let (key, value) = record?;
            if self.json {
                out.bytes(json_record(&key, &value).as_bytes())?;
                out.bytes(b"\n")?;
                continue;
            }
            line.clear();
            if let Err(what) = print(&key, &value, form, &mut line) {
                out.flush()?;
                let key = escaped(&key[..key.len().min(40)]);
                return Err(Failure::work(format!(
                    "the record `{key}` {what}, which plain lines cannot carry; use `keel dump --escaped`"
                )));
            }
            out.bytes(&line)?;
        }
        out.flush()?;
        store.close()
    }
}
