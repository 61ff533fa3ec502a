//! `keel dump`: prints every record of a keyspace as `load` reads them.

use evenkeel::ScanRange;

use crate::escape::escaped;
use crate::failure::Failure;
use crate::output::{Output, json_record};
use crate::records::Format;
use crate::store::{ReadArgs, Target};
use crate::tsv::{Form, print};

/// See `keel dump --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Escape keys and values, so that any bytes can be carried: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// What to print; ndjson is an object a line with `key` and `value` (`key_hex`, `value_hex` where they are no text).
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// The same as `--format ndjson`.
    #[arg(long, conflicts_with_all = ["escaped", "format"])]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel dump --db shop.db > shop.tsv
  keel dump --db shop.db --escaped | keel load --db copy.db --escaped -
  keel dump --db shop.db --format ndjson | keel load --db copy.db --format ndjson -
  keel dump --db shop.db --format csv > shop.csv      with the header key,value
  keel load --db copy.db --key-column key --value-column value shop.csv

Lines are KEY<TAB>VALUE in key order. What such a line cannot carry (a TAB or line end in a key, a line end in a
value) is an error; `--escaped`, csv and ndjson carry anything.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let format = if self.json { Format::Ndjson } else { self.format };
        if self.escaped && format != Format::Tsv {
            return Err(Failure::usage(
                "--escaped is for --format tsv; csv and ndjson carry any bytes as they are",
            ));
        }
        let form = if self.escaped { Form::Escaped } else { Form::Raw };
        let store = self.read.open(target)?;
        let mut out = Output::new();
        let mut line = Vec::new();
        if format == Format::Csv {
            out.bytes(b"key,value\n")?;
        }
        for record in store.keyspace.scan(ScanRange::all())? {
            let (key, value) = record?;
            line.clear();
            let printed = match format {
                Format::Tsv => print(&key, &value, form, &mut line),
                Format::Ndjson => {
                    line.extend_from_slice(json_record(&key, &value).as_bytes());
                    line.push(b'\n');
                    Ok(())
                }
                Format::Csv => {
                    csv_line(&key, &value, &mut line);
                    Ok(())
                }
            };
            if let Err(what) = printed {
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

/// Both fields in quotes, so that an empty key is no empty line and no byte means anything else.
fn csv_line(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for (field, end) in [(key, b','), (value, b'\n')] {
        out.push(b'"');
        for byte in field {
            // A quote is written twice.
            out.extend(std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'"')));
        }
        out.extend_from_slice(&[b'"', end]);
    }
}
