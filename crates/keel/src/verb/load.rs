//! `keel load FILE|-`: writes the records of a file or stdin, in the order of its lines.
//!
//! ```text
//! lines ─► batch of N lines ─► one atomic write ─► `acked LINE` ─► next batch
//! ```
//!
//! Batches are written one after the other, so that whatever stops the load, the store holds exactly the records of the
//! first P lines, and P is at least the last line acknowledged. Memory holds one batch and one line.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;
use evenkeel::WriteBatch;
use evenkeel_lab::{clock, report};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::files;
use crate::output::{Output, note};
use crate::progress::{Spinner, over_bytes};
use crate::store::{EngineArgs, Store, Target};
use crate::tsv::{Form, Lines, parse};

/// A batch is written at this size even if it has fewer lines than asked for.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// So many skipped lines are explained one by one.
const EXPLAINED_MAX: u64 = 10;
const BUFFER_BYTES: usize = 256 << 10;

/// See `keel load --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file; `-` is stdin.
    file: OsString,
    /// What the lines look like.
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// Keys and values are escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// What to do about a line that is no record.
    #[arg(long, value_enum, value_name = "ACTION", default_value = "stop")]
    on_error: OnError,
    /// Print `acked LINE` after each batch that the store has acknowledged.
    #[arg(long)]
    ack: bool,
    /// Lines in a batch.
    #[arg(long, value_name = "LINES", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// `KEY<TAB>VALUE`
    Tsv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Write the lines before it and stop
    Stop,
    /// Leave it out and go on
    Skip,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel load --db shop.db prices.tsv
  zcat prices.tsv.gz | keel load --db shop.db --batch 100 --ack -
  keel dump --db shop.db --escaped | keel load --db copy.db --escaped -

A line is KEY<TAB>VALUE; the key ends at the first TAB, the rest of the line is the value. If the load is stopped, even
by kill -9, the store holds exactly the first lines, at least up to the last `acked`.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        // Wrong flags are found before anything is opened.
        self.engine.options()?;
        let (input, length): (Box<dyn BufRead>, Option<u64>) = if self.file == "-" {
            (Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())), None)
        } else {
            let path = Path::new(&self.file);
            let failed = |error| Failure::work(format!("cannot read {}: {error}", path.display()));
            let (file, length) = files::open(path).map_err(failed)?;
            (Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), length)
        };
        let store = Store::open_or_create(target, &self.engine)?;
        let mut load = Load::new(self, &store, length);
        let result = load.run(input);
        load.bar.finish_and_clear();
        let summary = load.summary;
        // What was acknowledged is in the store, whatever stopped the load; saying so helps to go on from there.
        let seconds = load.started.elapsed().as_secs_f64();
        result?;
        let spinner = Spinner::start("waiting for background work");
        store.db.wait_idle()?;
        spinner.finish();
        let figures = store.figures()?;
        store.close()?;
        self.report(&summary, seconds, &figures)
    }

    fn report(&self, summary: &Summary, seconds: f64, figures: &serde_json::Value) -> Result<(), Failure> {
        let write_amplification = figures.pointer("/amplification/write").and_then(serde_json::Value::as_f64);
        let Summary { records, bytes, skipped, .. } = *summary;
        let mut out = Output::new();
        if self.json {
            let object = serde_json::json!({
                "records": records, "bytes": bytes, "seconds": seconds, "skipped": skipped,
                "write_amplification": write_amplification,
            });
            return out.line(&object.to_string());
        }
        let amplification = write_amplification.map_or_else(|| "unknown".to_owned(), |x| format!("{x:.2}"));
        let skipped =
            if skipped > 0 { format!(", {} lines skipped", report::count(skipped)) } else { String::new() };
        out.line(&format!(
            "loaded {} records, {}, in {} ({}/s), write amplification {amplification}{skipped}",
            report::count(records),
            report::bytes(bytes),
            report::seconds(seconds),
            report::rate(records as f64 / seconds.max(1e-6)),
        ))
    }
}

#[derive(Clone, Copy, Default)]
struct Summary {
    /// Records acknowledged.
    records: u64,
    /// Bytes of their keys and values.
    bytes: u64,
    /// Lines that were no records.
    skipped: u64,
    /// The last line that is acknowledged, or was skipped.
    line: u64,
}

struct Load<'a> {
    args: &'a Args,
    store: &'a Store,
    out: Output,
    bar: ProgressBar,
    started: Instant,
    summary: Summary,
    batch: WriteBatch,
    /// Bytes of keys and values in `batch`.
    batch_bytes: usize,
}

impl<'a> Load<'a> {
    fn new(args: &'a Args, store: &'a Store, length: Option<u64>) -> Load<'a> {
        Load {
            args,
            store,
            out: Output::new(),
            bar: over_bytes(length),
            started: clock::now(),
            summary: Summary::default(),
            batch: WriteBatch::new(),
            batch_bytes: 0,
        }
    }

    fn run(&mut self, input: Box<dyn BufRead>) -> Result<(), Failure> {
        let form = if self.args.escaped { Form::Escaped } else { Form::Raw };
        let mut lines = Lines::new(input, form);
        let mut line = Vec::new();
        self.show(0);
        loop {
            match lines.next(&mut line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.commit(lines.number())?;
                    let after = lines.number();
                    return Err(Failure::work(format!("reading failed after line {after}: {error}")));
                }
            }
            let record = match lines.too_long(&line) {
                true => Err("it is longer than any record can be".to_owned()),
                false => parse(&line, form),
            };
            match record {
                Ok((key, value)) => {
                    self.batch.put_in(&self.store.keyspace, &key, &value);
                    self.batch_bytes += key.len() + value.len();
                }
                Err(what) => self.malformed(lines.number(), &what)?,
            }
            if self.batch.len() as u64 >= self.args.batch || self.batch_bytes >= BATCH_BYTES_MAX {
                self.commit(lines.number())?;
                self.show(lines.bytes());
            }
        }
        self.commit(lines.number())
    }

    fn show(&self, bytes: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_position(bytes);
            self.bar.set_message(format!("{} records", report::count(self.summary.records)));
        }
    }

    /// Writes what is in the batch: all records up to line `line`.
    fn commit(&mut self, line: u64) -> Result<(), Failure> {
        let first = self.summary.line + 1;
        let records = self.batch.len() as u64;
        if records > 0 {
            let batch = std::mem::take(&mut self.batch);
            let failed = |error| Failure::work(format!("lines {first} to {line} are not written: {error}"));
            self.store.db.write(batch).map_err(failed)?;
            self.summary.records += records;
            self.summary.bytes += self.batch_bytes as u64;
            self.batch_bytes = 0;
        }
        if self.args.ack && line > self.summary.line {
            self.out.line(&format!("acked {line}"))?;
        }
        self.summary.line = line;
        Ok(())
    }

    fn malformed(&mut self, line: u64, what: &str) -> Result<(), Failure> {
        if self.args.on_error == OnError::Stop {
            self.commit(line - 1)?;
            return Err(Failure::work(format!(
                "line {line} is no record: {what}; the lines before it are written, `--on-error skip` leaves it out"
            )));
        }
        self.summary.skipped += 1;
        if self.summary.skipped <= EXPLAINED_MAX {
            self.bar.suspend(|| note(&format!("keel: line {line} skipped: {what}")));
        } else if self.summary.skipped == EXPLAINED_MAX + 1 {
            self.bar.suspend(|| note("keel: further skipped lines are only counted"));
        }
        Ok(())
    }
}
