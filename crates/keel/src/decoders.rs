//! Every reader of people's files and lines, as one function of bytes that must end well whatever they are, like the engine's
//! `evenkeel::testing::DECODERS`: no panic, nothing longer than a store takes, and what is printed is read the same again.

use std::io::{BufRead, Cursor};

use crate::csv_records::{Columns, CsvRecords};
use crate::escape::{escaped, unescape};
use crate::ndjson_records::{Fields, NdjsonRecords};
use crate::records::{Next, Records, TsvRecords};
use crate::shell_command;
use crate::tsv::{self, Form, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A decoder by name.
pub type NamedDecoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[NamedDecoder] = &[("shell", shell), ("tsv", tabs), ("csv", csv), ("ndjson", ndjson)];

/// Reads everything; what it finds is a record that a store takes, and one that `dump` would write so that `load` reads it again.
fn read(mut records: impl Records) {
    let mut line = Vec::new();
    let mut before = 0;
    loop {
        match records.next() {
            Ok(Next::Record { key, value }) => {
                assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX);
                line.clear();
                assert!(tsv::print(&key, &value, Form::Escaped, &mut line).is_ok());
                let again = line.strip_suffix(b"\n").map(|line| tsv::parse(line, Form::Escaped));
                assert_eq!(again, Some(Ok((key, value))));
            }
            Ok(Next::Malformed(what)) => {
                assert!(!what.is_empty());
                return;
            }
            Ok(Next::End) | Err(_) => return,
        }
        assert!(records.first_line() > before && records.last_line() >= records.first_line());
        before = records.last_line();
    }
}

fn input(bytes: &[u8]) -> Box<dyn BufRead> {
    Box::new(Cursor::new(bytes.to_vec()))
}

/// Lines of the shell.
fn shell(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = shell_command::parse(line);
        if let Ok(token) = unescape(line) {
            assert_eq!(unescape(escaped(&token).as_bytes()), Ok(token));
        }
    }
}

fn tabs(bytes: &[u8]) {
    [Form::Raw, Form::Escaped].into_iter().for_each(|form| read(TsvRecords::new(input(bytes), form)));
}

/// With a header and without, columns named and not.
fn csv(bytes: &[u8]) {
    let columns = |key: Option<&str>, value: Option<&str>, no_header| Columns {
        key: key.map(str::to_owned),
        value: value.map(str::to_owned),
        no_header,
    };
    for columns in [
        columns(None, None, false),
        columns(Some("id"), Some("price"), false),
        columns(Some("2"), None, true),
    ] {
        if let Ok(records) = CsvRecords::new(input(bytes), &columns) {
            read(records);
        }
    }
}

/// As `dump` writes it, and by names of fields.
fn ndjson(bytes: &[u8]) {
    let fields = |key: Option<&str>, value: Option<&str>| Fields {
        key: key.map(str::to_owned),
        value: value.map(str::to_owned),
    };
    for fields in [fields(None, None), fields(Some("id"), None), fields(Some("id"), Some("price"))] {
        read(NdjsonRecords::new(input(bytes), fields));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "reads its own test data")]

    use std::path::Path;

    use evenkeel_lab::base::random::Random;

    use super::*;

    /// Changed inputs of each decoder.
    const CHANGED: u64 = 3_000;

    /// What these formats are made of.
    const PIECES: [&[u8]; 12] =
        [b"\t", b"\n", b"\r\n", b"\"", b"\"\"", b",", b"\\", b"\\x", b"{", b"}", b"\\u00", b"\xff"];

    fn changed(input: &[u8], random: &mut Random) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            let end = (at + random.below(4) as usize).min(bytes.len());
            let piece = PIECES[random.below(PIECES.len() as u64) as usize];
            bytes.splice(at..end, piece.iter().copied());
        }
        bytes
    }

    #[test]
    fn every_reader_takes_its_corpus_and_changes_of_it() {
        for (name, decode) in DECODERS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
            let files = std::fs::read_dir(&folder).unwrap();
            let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            paths.sort();
            let inputs: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
            inputs.iter().for_each(|input| decode(input));
            let mut random = Random::new(7);
            for n in 0..CHANGED {
                let input = &inputs[n as usize % inputs.len()];
                decode(&changed(input, &mut random));
            }
        }
    }
}
