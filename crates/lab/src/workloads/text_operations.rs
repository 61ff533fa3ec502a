//! Operations as lines of text, in the format of the K-V Workload Generator of the compaction design space's authors.
//!
//! ```text
//! I key value    insert          D key        delete                      Q key        read
//! U key value    update          R from to    delete from … to before to  S from to    scan from … to before to
//! ```
//!
//! Words are apart by blanks; keys and values are the bytes of their words, and keys are ordered by these. The file is read
//! line by line, and never more of it is held than a line.

use std::io::{BufRead, Read as _};

/// The longest line: a key, a value, and what is between them.
const LINE_BYTES_MAX: u64 = (128 << 20) + (64 << 10) + 64;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOperation<'a> {
    /// Writes a record that is not there: key, value.
    Insert(&'a [u8], &'a [u8]),
    /// Writes a record again: key, value.
    Update(&'a [u8], &'a [u8]),
    /// Deletes a record.
    Delete(&'a [u8]),
    /// Deletes the records from one key to before another.
    DeleteRange(&'a [u8], &'a [u8]),
    /// Reads a record.
    Read(&'a [u8]),
    /// Reads the records from one key to before another.
    Scan(&'a [u8], &'a [u8]),
}

/// Reads operations one after the other.
#[derive(Debug)]
pub struct TextOperations<R> {
    input: R,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> TextOperations<R> {
    /// The operations of this text.
    pub fn new(input: R) -> TextOperations<R> {
        TextOperations { input, line: 0, buffer: Vec::new() }
    }

    /// The next operation and the number of its line, `None` at the end. Empty lines are passed over.
    ///
    /// # Errors
    /// What is wrong, with the number of the line.
    #[expect(
        clippy::should_implement_trait,
        reason = "an operation borrows from the reader, which no iterator can say"
    )]
    pub fn next(&mut self) -> Result<Option<(u64, TextOperation<'_>)>, String> {
        loop {
            self.line += 1;
            self.buffer.clear();
            let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|error| format!("line {}: {error}", self.line))?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LINE_BYTES_MAX {
                return Err(format!("line {}: is longer than any record", self.line));
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.line;
        match parse(&self.buffer) {
            Ok(operation) => Ok(Some((line, operation))),
            Err(error) => Err(format!("line {line}: {error}")),
        }
    }
}

fn parse(line: &[u8]) -> Result<TextOperation<'_>, String> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let name = words.next().unwrap_or_default();
    let (first, second, more) = (words.next(), words.next(), words.next());
    let wrong = |what: &str| Err(format!("`{}` takes {what}", String::from_utf8_lossy(name)));
    match (name, first, second, more) {
        (b"I", Some(key), Some(value), None) => Ok(TextOperation::Insert(key, value)),
        (b"U", Some(key), Some(value), None) => Ok(TextOperation::Update(key, value)),
        (b"D", Some(key), None, None) => Ok(TextOperation::Delete(key)),
        (b"Q", Some(key), None, None) => Ok(TextOperation::Read(key)),
        (b"R", Some(from), Some(to), None) => Ok(TextOperation::DeleteRange(from, upward(from, to)?)),
        (b"S", Some(from), Some(to), None) => Ok(TextOperation::Scan(from, upward(from, to)?)),
        (b"I" | b"U", ..) => wrong("a key and a value"),
        (b"D" | b"Q", ..) => wrong("a key"),
        (b"R" | b"S", ..) => wrong("two keys"),
        _ => {
            let name: String = String::from_utf8_lossy(name).chars().take(20).collect();
            Err(format!("`{name}` is no operation; they are I, U, D, R, Q and S"))
        }
    }
}

fn upward<'a>(from: &[u8], to: &'a [u8]) -> Result<&'a [u8], String> {
    if to < from {
        let [from, to] = [from, to].map(String::from_utf8_lossy);
        return Err(format!("the range ends at `{to}`, before `{from}`: keys are compared byte by byte"));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut operations = TextOperations::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some((line, operation)) = operations.next()? {
            let shown = match operation {
                TextOperation::Insert(a, b) => ("insert", a, b),
                TextOperation::Update(a, b) => ("update", a, b),
                TextOperation::Delete(a) => ("delete", a, &b""[..]),
                TextOperation::DeleteRange(a, b) => ("delete range", a, b),
                TextOperation::Read(a) => ("read", a, &b""[..]),
                TextOperation::Scan(a, b) => ("scan", a, b),
            };
            let [a, b] = [shown.1, shown.2].map(String::from_utf8_lossy);
            seen.push(format!("{line} {} {a} {b}", shown.0));
        }
        Ok(seen)
    }

    #[test]
    fn each_line_is_an_operation() {
        // The generator writes a blank after a delete.
        let text = "I k1 v1\nU k1  v2\r\n\nD k1 \n  R a b\nQ\tk1\nS b b";
        assert_eq!(
            all(text).unwrap(),
            [
                "1 insert k1 v1",
                "2 update k1 v2",
                "4 delete k1 ",
                "5 delete range a b",
                "6 read k1 ",
                "7 scan b b"
            ]
        );
        assert!(all("").unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, error) in [
            ("I k v\nI k", "line 2: `I` takes a key and a value"),
            ("U k v w", "line 1: `U` takes a key and a value"),
            ("\n\nD", "line 3: `D` takes a key"),
            ("Q a b", "line 1: `Q` takes a key"),
            ("S a", "line 1: `S` takes two keys"),
            ("X a", "line 1: `X` is no operation; they are I, U, D, R, Q and S"),
            ("R 99 100", "line 1: the range ends at `100`, before `99`: keys are compared byte by byte"),
        ] {
            assert_eq!(all(text).unwrap_err(), error);
        }
    }
}
