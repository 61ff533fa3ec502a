//! `keel load FILE|-`: writes the records of a file or stdin, in the order of its lines: TSV, CSV or NDJSON.
//!
//! ```text
//! records ─► batch of N records ─► one atomic write ─► `acked LINE` ─► next batch
//! ```
//!
//! Batches are written one after the other, so that whatever stops the load, the store holds exactly the records of the
//! first P lines, and P is at least the last line acknowledged. Memory holds one batch and one record.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;
use evenkeel::WriteBatch;
use evenkeel_lab::base::clock;
use evenkeel_lab::results::report;
use indicatif::ProgressBar;

use crate::csv_records::{Columns, CsvRecords};
use crate::failure::Failure;
use crate::files;
use crate::ndjson_records::{Fields, NdjsonRecords};
use crate::output::{Output, note};
use crate::progress::{Waited, over_bytes, wait_idle};
use crate::records::{Format, Next, Records, TsvRecords};
use crate::store::{EngineArgs, Store, Target};
use crate::tsv::Form;

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
    /// What the file looks like; without it, what its name ends in says so, else tsv.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// TSV: keys and values are escaped: \xNN a byte, \\ a backslash, \e the empty string.
    #[arg(long)]
    escaped: bool,
    /// CSV: the column of the key, by name or by number from 1; the first if not given.
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// CSV: the column of the value; if not given, the value is a JSON object of all columns but the key's.
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<String>,
    /// CSV: the first line is a record; columns have numbers only.
    #[arg(long)]
    no_header: bool,
    /// NDJSON: the field of the key; if not given, the lines are those of `keel dump --format ndjson`.
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,
    /// NDJSON: the field of the value; if not given, the value is the whole line.
    #[arg(long, value_name = "FIELD", requires = "key_field")]
    value_field: Option<String>,
    /// What to do about a line that is no record.
    #[arg(long, value_enum, value_name = "ACTION", default_value = "stop")]
    on_error: OnError,
    /// Print `acked LINE` after each batch that the store has acknowledged. Stops, with exit code 1, if nobody reads it.
    #[arg(long)]
    ack: bool,
    /// Records in a batch.
    #[arg(long, value_name = "RECORDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// The lines are sorted by key, bytewise and without repetition, as `LC_ALL=C sort -u` leaves them: they go straight to
    /// their place in the tree, and become visible all at once at the end.
    #[arg(long, conflicts_with = "batch")]
    sorted: bool,
    /// Return when the records are written; what they make the background want is done while the store is open next.
    #[arg(long)]
    no_wait: bool,
    /// Print the summary as JSON, and acknowledgements as `{"acked":LINE}`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
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
  keel load --db shop.db goods.csv --key-column id                         values are JSON objects
  keel load --db shop.db goods.csv --key-column id --value-column price
  keel load --db shop.db events.ndjson --key-field event_id                values are the lines
  LC_ALL=C sort -u prices.tsv | keel load --db shop.db --sorted -          straight into place, all or nothing

A line is KEY<TAB>VALUE; the key ends at the first TAB, the rest of the line is the value. CSV may have line ends within
quotes; the lines named are those of the file. If the load is stopped, even by kill -9, the store holds exactly the first
lines, at least up to the last `acked`. When the records are written, `load` waits until the background has brought the
tree in shape; --no-wait does not, and Ctrl-C ends the wait.";

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
        let mut records = self.records(input)?;
        let store = Store::open_or_create(target, &self.engine.answering())?;
        let mut load = Load::new(self, &store, length);
        let result = if self.sorted { load.run_sorted(&mut *records) } else { load.run(&mut *records) };
        load.bar.finish_and_clear();
        let summary = load.summary;
        // What was acknowledged is in the store, whatever stopped the load; saying so helps to go on from there.
        let seconds = load.started.elapsed().as_secs_f64();
        drop(load);
        result.map_err(|failure| {
            let line = summary.line;
            failure.unread(|| format!("nobody reads the acknowledgements: stopped after line {line}"))
        })?;
        let mut out = Output::new();
        // From here on nothing is lost by an interrupt.
        evenkeel_sys::catch_interrupt();
        if !self.json {
            out.line(&loaded(&summary, seconds))?;
        }
        if self.no_wait {
            store.close()?;
            return if self.json { self.report(&mut out, &summary, seconds, None) } else { Ok(()) };
        }
        let began = clock::now();
        // The close would do it, and leave behind what that makes due.
        store.keyspace.flush()?;
        let waited = wait_idle(&store.db, "waiting for background work")?;
        let (idle, figures) = (began.elapsed().as_secs_f64(), store.figures()?);
        store.close()?;
        self.report(&mut out, &summary, seconds, Some((idle, &figures)))?;
        match waited {
            Waited::Done => Ok(()),
            Waited::Interrupted => Err(Failure::work(
                "interrupted; all is loaded, and background work goes on when the store is opened next",
            )),
        }
    }

    /// The reader of the file's format. A header that does not fit the flags is found here, before a store is made.
    fn records(&self, input: Box<dyn BufRead>) -> Result<Box<dyn Records>, Failure> {
        let format = self.format.unwrap_or_else(|| Format::guess(Path::new(&self.file)));
        let flags = [
            ("--escaped", self.escaped, Format::Tsv),
            ("--key-column", self.key_column.is_some(), Format::Csv),
            ("--value-column", self.value_column.is_some(), Format::Csv),
            ("--no-header", self.no_header, Format::Csv),
            ("--key-field", self.key_field.is_some(), Format::Ndjson),
        ];
        for (flag, given, of) in flags {
            if given && of != format {
                let (name, of) = (format.name(), of.name());
                return Err(Failure::usage(format!("{flag} is for --format {of}, and this is {name}")));
            }
        }
        Ok(match format {
            Format::Tsv => {
                Box::new(TsvRecords::new(input, if self.escaped { Form::Escaped } else { Form::Raw }))
            }
            Format::Csv => {
                let (key, value) = (self.key_column.clone(), self.value_column.clone());
                let columns = Columns { key, value, no_header: self.no_header };
                Box::new(CsvRecords::new(input, &columns).map_err(Failure::usage)?)
            }
            Format::Ndjson => {
                let fields = Fields { key: self.key_field.clone(), value: self.value_field.clone() };
                Box::new(NdjsonRecords::new(input, fields))
            }
        })
    }

    /// The end of the report: what came after the records, if that was waited for.
    fn report(
        &self,
        out: &mut Output,
        summary: &Summary,
        seconds: f64,
        idle: Option<(f64, &serde_json::Value)>,
    ) -> Result<(), Failure> {
        let amplification = idle.and_then(|(_, figures)| figures.pointer("/amplification/write")?.as_f64());
        if self.json {
            let Summary { records, bytes, skipped, .. } = *summary;
            let object = serde_json::json!({
                "records": records, "bytes": bytes, "seconds": seconds, "skipped": skipped,
                "background_seconds": idle.map(|(idle, _)| idle), "write_amplification": amplification,
            });
            return out.line(&object.to_string());
        }
        let idle = idle.map_or(0.0, |(idle, _)| idle);
        let amplification = amplification.map_or_else(|| "unknown".to_owned(), |x| format!("{x:.2}"));
        out.line(&format!(
            "then {} of background work; write amplification {amplification}",
            report::seconds(idle)
        ))
    }
}

fn loaded(summary: &Summary, seconds: f64) -> String {
    let Summary { records, bytes, skipped, .. } = *summary;
    let skipped = if skipped > 0 { format!(", {} skipped", lines(skipped)) } else { String::new() };
    let noun = if records == 1 { "record" } else { "records" };
    // Of an instant no rate can be told.
    let rate = match seconds >= 0.01 {
        true => format!(" ({}/s)", report::rate(records as f64 / seconds)),
        false => String::new(),
    };
    format!(
        "loaded {} {noun}, {}, in {}{rate}{skipped}",
        report::count(records),
        report::bytes(bytes),
        report::seconds(seconds)
    )
}

fn lines(count: u64) -> String {
    format!("{} {}", report::count(count), if count == 1 { "line" } else { "lines" })
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
    /// The last line of the last record in `batch`, or that was skipped.
    read: u64,
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
            read: 0,
        }
    }

    fn run(&mut self, records: &mut dyn Records) -> Result<(), Failure> {
        self.show(0);
        loop {
            match records.next() {
                Ok(Next::End) => break,
                Ok(Next::Record { key, value }) => {
                    self.batch.put_in(&self.store.keyspace, &key, &value);
                    self.batch_bytes += key.len() + value.len();
                    self.read = records.last_line();
                }
                Ok(Next::Malformed(what)) => {
                    self.malformed(records.first_line(), &what)?;
                    self.read = records.last_line();
                }
                Err(error) => {
                    self.commit()?;
                    return Err(Failure::work(format!("reading failed after line {}: {error}", self.read)));
                }
            }
            if self.batch.len() as u64 >= self.args.batch || self.batch_bytes >= BATCH_BYTES_MAX {
                self.commit()?;
                self.show(records.bytes());
            }
        }
        self.commit()
    }

    /// Everything or nothing: all records go into one bulk load.
    fn run_sorted(&mut self, records: &mut dyn Records) -> Result<(), Failure> {
        let mut bulk = self.store.keyspace.bulk_load()?;
        let nothing = |what: String| Failure::work(format!("{what}; nothing is loaded"));
        loop {
            match records.next() {
                Ok(Next::End) => break,
                Ok(Next::Record { key, value }) => {
                    let line = records.first_line();
                    bulk.put(&key, &value).map_err(|error| nothing(format!("line {line}: {error}")))?;
                    self.summary.bytes += (key.len() + value.len()) as u64;
                }
                Ok(Next::Malformed(what)) if self.args.on_error == OnError::Stop => {
                    let line = records.first_line();
                    return Err(nothing(format!(
                        "line {line} is no record: {what} (`--on-error skip` leaves it out)"
                    )));
                }
                Ok(Next::Malformed(what)) => self.malformed(records.first_line(), &what)?,
                Err(error) => {
                    return Err(nothing(format!("reading failed after line {}: {error}", self.read)));
                }
            }
            self.read = records.last_line();
            if bulk.records().is_multiple_of(1000) {
                self.summary.records = bulk.records();
                self.show(records.bytes());
            }
        }
        self.summary.records = bulk.records();
        bulk.finish().map_err(|error| nothing(error.to_string()))?;
        self.summary.line = self.read;
        if self.read > 0 { self.acknowledge() } else { Ok(()) }
    }

    /// Says up to which line everything is written, to whoever wants to know.
    fn acknowledge(&mut self) -> Result<(), Failure> {
        let line = self.summary.line;
        match (self.args.ack, self.args.json) {
            (false, _) => Ok(()),
            (true, false) => self.out.line(&format!("acked {line}")),
            (true, true) => self.out.line(&serde_json::json!({ "acked": line }).to_string()),
        }
    }

    fn show(&self, bytes: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_position(bytes);
            self.bar.set_message(format!("{} records", report::count(self.summary.records)));
        }
    }

    /// Writes what is in the batch: all records up to the line read last.
    fn commit(&mut self) -> Result<(), Failure> {
        let line = self.read;
        let first = self.summary.line + 1;
        let records = self.batch.len() as u64;
        if records > 0 {
            let batch = std::mem::take(&mut self.batch);
            let which = match first == line {
                true => format!("line {line} is"),
                false => format!("lines {first} to {line} are"),
            };
            let failed = |error| Failure::work(format!("{which} not written: {error}"));
            self.store.db.write(batch).map_err(failed)?;
            self.summary.records += records;
            self.summary.bytes += self.batch_bytes as u64;
            self.batch_bytes = 0;
        }
        let advanced = line > self.summary.line;
        self.summary.line = line;
        if advanced { self.acknowledge() } else { Ok(()) }
    }

    fn malformed(&mut self, line: u64, what: &str) -> Result<(), Failure> {
        if self.args.on_error == OnError::Stop {
            self.commit()?;
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
