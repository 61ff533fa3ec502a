//! `keel inspect table|wal|manifest FILE`: what a single file of a store holds. Needs no store and takes no lock.
//!
//! For people: facts first or last, details where asked for. With `--json`: an object a line, the details first and the
//! summary last, so that a file of any size can be piped. Damage is listed, and makes the exit code 1.

mod log;
mod manifest;
mod table;

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel::Error;
use evenkeel::inspect::Tail;
use serde_json::Value;

use crate::escape::escaped;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::Target;

/// Keys for people are cut to this many bytes, and values to this many.
const SHOWN_BYTES: usize = 48;

/// See `keel inspect --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    file: File,
    /// Print JSON: an object a line, the summary last.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum File {
    /// A table, NNNNNN.sst: facts, sizes, bounds.
    Table {
        /// The file, under any name.
        file: PathBuf,
        /// List the data blocks.
        #[arg(long)]
        blocks: bool,
        /// List the entries.
        #[arg(long)]
        entries: bool,
    },
    /// A write-ahead log, NNNNNN.log: records, promises, how it ends.
    Wal {
        /// The file, under any name.
        file: PathBuf,
        /// List the entries of each record.
        #[arg(long)]
        entries: bool,
    },
    /// A manifest, MANIFEST-NNNNNN: its changes in words, and the trees they lead to.
    Manifest {
        /// The file, under any name.
        file: PathBuf,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel inspect table shop.db/000012.sst --blocks
  keel inspect wal shop.db/000015.log --entries
  keel inspect manifest shop.db/MANIFEST-000014 --json

Reads the file only: works on a lone copy, and beside a process that has the store open. Keys are printed as the shell
does (\\xNN, \\\\, \\e) and cut. What is damaged is listed, the rest is shown all the same, and the exit code is 1.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        target.without_keyspace("inspect")?;
        if target.db.is_some() {
            return Err(Failure::usage(
                "`keel inspect` takes a FILE, not --db; `keel verify` looks at a store",
            ));
        }
        let mut sink = Sink { out: Output::new(), json: self.json, failed: None };
        let damage = match &self.file {
            File::Table { file, blocks, entries } => table::show(&mut sink, file, *blocks, *entries),
            File::Wal { file, entries } => log::show(&mut sink, file, *entries),
            File::Manifest { file } => manifest::show(&mut sink, file),
        };
        let damage = damage.map_err(Failure::without_verify)?;
        sink.out.flush()?;
        match &damage[..] {
            [] => Ok(()),
            [only] => Err(Failure::work(only.to_string())),
            [first, more @ ..] => {
                let places = if more.len() == 1 { "place" } else { "places" };
                Err(Failure::work(format!("{first} (and {} more {places})", more.len())))
            }
        }
    }
}

/// Where lines go. The engine's walk is stopped by an error of its own; what writing said is kept here.
struct Sink {
    out: Output,
    json: bool,
    failed: Option<Failure>,
}

impl Sink {
    /// Prints a line for people, or the object for programs.
    fn put(&mut self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> evenkeel::Result<()> {
        let line = if self.json { json().to_string() } else { self.out.fitted(text()) };
        let printed = self.out.bytes(line.as_bytes()).and_then(|()| self.out.bytes(b"\n"));
        printed.map_err(|failure| {
            self.failed = Some(failure);
            Error::InvalidArgument("the output ended".to_owned())
        })
    }

    /// The outcome of a walk: if writing failed, that is why it ended.
    fn outcome<T>(&mut self, walked: evenkeel::Result<T>) -> Result<T, Failure> {
        walked.map_err(|error| self.failed.take().unwrap_or_else(|| error.into()))
    }

    /// Prints the last lines for people, or the summary for programs.
    fn summary(
        &mut self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        let put = self.put(text, json);
        self.outcome(put)
    }
}

/// A key or value for people: escaped, and cut.
fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if head.len() < bytes.len() { ".." } else { "" };
    format!("{}{more}", escaped(head))
}

/// An entry for people, without its sequence number.
fn entry_text(kind: &str, key: &[u8], value: &[u8]) -> String {
    match kind {
        "delete" => format!("delete {}", shown(key)),
        "range-delete" => format!("range-delete {} up to {}", shown(key), shown(value)),
        _ => format!("{kind} {}  {} ({} B)", shown(key), shown(value), value.len()),
    }
}

/// `name` for bytes that are text, `name_hex` for others.
fn put_bytes(object: &mut serde_json::Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            object.insert(format!("{name}_hex"), hex.into())
        }
    };
}

fn damage_lines(damage: &[Error]) -> String {
    damage.iter().map(|error| format!("\n  DAMAGE        {error}")).collect()
}

fn damage_json(damage: &[Error]) -> Value {
    let object = |error: &Error| match error {
        Error::Corruption { offset, what, .. } => serde_json::json!({ "offset": offset, "what": what }),
        other => serde_json::json!({ "what": other.to_string() }),
    };
    damage.iter().map(object).collect()
}

/// What lies behind a torn end.
fn behind_text(behind: Option<(u64, u64)>) -> String {
    behind.map_or_else(String::new, |(at, count)| {
        let records =
            if count == 1 { "1 whole record lies".to_owned() } else { format!("{count} whole records lie") };
        format!("\n  behind it     {records} there, the first at byte {at}; recovery leaves them out")
    })
}

fn tail_text(tail: Option<Tail>) -> String {
    match tail {
        None => "damaged, see below".to_owned(),
        Some(Tail::Sealed { len }) => format!("sealed at byte {len}: nothing is missing"),
        Some(Tail::Torn { offset }) => {
            format!("torn at byte {offset}: an unfinished write, beyond all that was promised")
        }
        Some(Tail::End { offset }) => format!("open at byte {offset}: no record follows, and no seal"),
    }
}

fn tail_json(tail: Option<Tail>) -> Value {
    match tail {
        None => Value::Null,
        Some(Tail::Sealed { len }) => serde_json::json!({ "state": "sealed", "offset": len }),
        Some(Tail::Torn { offset }) => serde_json::json!({ "state": "torn", "offset": offset }),
        Some(Tail::End { offset }) => serde_json::json!({ "state": "open", "offset": offset }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_for_people() {
        assert_eq!(shown(b"a b"), "a\\x20b");
        assert_eq!(shown(b""), "\\e");
        assert_eq!(shown(&[b'x'; 49]), format!("{}..", "x".repeat(48)));
    }
}
