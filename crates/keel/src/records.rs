//! Records of a file to load, whatever its format: each with the lines it takes, so that an acknowledgement and an error can
//! name them. `tsv.rs`, `csv_records.rs` and `ndjson_records.rs` read one format each.

use std::io::{self, BufRead};
use std::path::Path;

use clap::ValueEnum;

use crate::tsv::{Form, KEY_BYTES_MAX, Lines, VALUE_BYTES_MAX, parse};

/// What a file of records looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `KEY<TAB>VALUE`
    Tsv,
    /// Comma-separated values, with quotes and a header
    Csv,
    /// A JSON object a line
    Ndjson,
}

impl Format {
    /// What the name of a file says.
    pub fn guess(file: &Path) -> Format {
        match file.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Format::Csv,
            Some("ndjson" | "jsonl") => Format::Ndjson,
            _ => Format::Tsv,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Tsv => "tsv",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        }
    }
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A record.
    Record {
        /// Its key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// Lines that are no record, and why.
    Malformed(String),
    /// There is nothing more.
    End,
}

/// Reads records one after the other. Memory holds one of them.
pub trait Records {
    /// The next one.
    ///
    /// # Errors
    /// A failed read, after which nothing more can be read.
    fn next(&mut self) -> io::Result<Next>;
    /// The line, from 1, on which what was read last begins.
    fn first_line(&self) -> u64;
    /// The line on which it ends.
    fn last_line(&self) -> u64;
    /// Bytes read so far, or a little more.
    fn bytes(&self) -> u64;
}

/// A key and a value, if a store takes them.
pub fn record(key: Vec<u8>, value: Vec<u8>) -> Next {
    for (what, bytes, max) in [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)] {
        if bytes > max {
            return Next::Malformed(format!("the {what} has {bytes} bytes, the limit is {max}"));
        }
    }
    Next::Record { key, value }
}

/// Lines of `KEY<TAB>VALUE`.
pub struct TsvRecords {
    lines: Lines<Box<dyn BufRead>>,
    line: Vec<u8>,
    form: Form,
}

impl TsvRecords {
    /// Records of this form.
    pub fn new(input: Box<dyn BufRead>, form: Form) -> TsvRecords {
        TsvRecords { lines: Lines::new(input, form), line: Vec::new(), form }
    }
}

impl Records for TsvRecords {
    fn next(&mut self) -> io::Result<Next> {
        if !self.lines.next(&mut self.line)? {
            return Ok(Next::End);
        }
        if self.lines.too_long(&self.line) {
            return Ok(Next::Malformed("it is longer than any record can be".to_owned()));
        }
        Ok(match parse(&self.line, self.form) {
            Ok((key, value)) => Next::Record { key, value },
            Err(what) => Next::Malformed(what),
        })
    }

    fn first_line(&self) -> u64 {
        self.lines.number()
    }

    fn last_line(&self) -> u64 {
        self.lines.number()
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes()
    }
}
