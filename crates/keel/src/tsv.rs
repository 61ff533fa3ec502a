//! Lines of `KEY<TAB>VALUE`, as `load` reads and `dump` writes them.
//!
//! Raw by default: the key ends at the first TAB, the rest of the line is the value, and nothing is interpreted (a carriage
//! return stays part of the value). With escapes any bytes can be carried. Reading holds one line in memory, and never more
//! than the longest line that can be a record.

use std::io::{self, BufRead};

use crate::escape::{escape, unescape};

/// The longest key a store takes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value a store takes.
pub const VALUE_BYTES_MAX: usize = 128 << 20;

/// How keys and values stand in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    Raw,
    /// See [`crate::escape`].
    Escaped,
}

/// A line's key and value, or what is wrong with it.
pub fn parse(line: &[u8], form: Form) -> Result<(Vec<u8>, Vec<u8>), String> {
    let Some(tab) = line.iter().position(|&b| b == b'\t') else {
        return Err("there is no TAB between key and value".to_owned());
    };
    let (key, value) = (&line[..tab], &line[tab + 1..]);
    let (key, value) = match form {
        Form::Raw => (key.to_vec(), value.to_vec()),
        Form::Escaped => (unescape(key)?, unescape(value)?),
    };
    for (what, bytes, max) in [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)] {
        if bytes > max {
            return Err(format!("the {what} has {bytes} bytes, the limit is {max}"));
        }
    }
    Ok((key, value))
}

/// Appends a line, or says why a raw line cannot carry this record.
pub fn print(key: &[u8], value: &[u8], form: Form, out: &mut Vec<u8>) -> Result<(), &'static str> {
    match form {
        Form::Raw => {
            if key.contains(&b'\t') {
                return Err("has a TAB in it");
            }
            if key.contains(&b'\n') {
                return Err("has a line end in it");
            }
            if value.contains(&b'\n') {
                return Err("has a value with a line end in it");
            }
            out.extend_from_slice(key);
            out.push(b'\t');
            out.extend_from_slice(value);
        }
        Form::Escaped => {
            escape(key, out);
            out.push(b'\t');
            escape(value, out);
        }
    }
    out.push(b'\n');
    Ok(())
}

/// Reads line by line and counts.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    bytes_max: usize,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines that can be records of this form.
    pub fn new(reader: R, form: Form) -> Lines<R> {
        let record = KEY_BYTES_MAX + 1 + VALUE_BYTES_MAX;
        let bytes_max = if form == Form::Raw { record } else { 4 * record };
        Lines { reader, bytes_max, number: 0, bytes: 0 }
    }

    /// The number of the line read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts the next line into `line`, without its line end. `Ok(false)` at the end of input. A line too long to be a record
    /// is passed over, and `line` then holds one byte more than allowed.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let mut started = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                self.number += u64::from(started);
                return Ok(started);
            }
            started = true;
            let end = chunk.iter().position(|&b| b == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = (self.bytes_max + 1).saturating_sub(line.len());
            line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            self.bytes += used as u64;
            if end.is_some() {
                self.number += 1;
                return Ok(true);
            }
        }
    }

    /// True if the line read last was too long to be a record.
    pub fn too_long(&self, line: &[u8]) -> bool {
        line.len() > self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], buffer: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer, input), Form::Raw);
        let (mut all, mut line) = (Vec::new(), Vec::new());
        while lines.next(&mut line).unwrap() {
            all.push(line.clone());
        }
        assert_eq!(lines.number(), all.len() as u64);
        assert_eq!(lines.bytes(), input.len() as u64);
        all
    }

    #[test]
    fn lines_end_where_they_end_whatever_the_buffer() {
        for buffer in 1..10 {
            assert_eq!(lines(b"", buffer), Vec::<Vec<u8>>::new());
            assert_eq!(lines(b"a\tb\n\nc\r\nd", buffer), [&b"a\tb"[..], b"", b"c\r", b"d"]);
            assert_eq!(lines(b"a\n", buffer), [b"a"]);
        }
    }

    #[test]
    fn a_line_that_cannot_be_a_record_is_passed_over() {
        let mut reader = Lines::new(&b"aaaaaaaa\nbb\n"[..], Form::Raw);
        reader.bytes_max = 4;
        let mut line = Vec::new();
        assert!(reader.next(&mut line).unwrap());
        assert!(reader.too_long(&line));
        assert_eq!(line.len(), 5);
        assert!(reader.next(&mut line).unwrap());
        assert_eq!((line.as_slice(), reader.number(), reader.too_long(&line)), (&b"bb"[..], 2, false));
    }

    #[test]
    fn the_first_tab_divides() {
        let raw = |line: &[u8]| parse(line, Form::Raw);
        assert_eq!(raw(b"k\tv\tw\r").unwrap(), (b"k".to_vec(), b"v\tw\r".to_vec()));
        assert_eq!(raw(b"\t").unwrap(), (vec![], vec![]));
        assert_eq!(raw(b"\\x41\t\\e").unwrap(), (b"\\x41".to_vec(), b"\\e".to_vec()));
        assert!(raw(b"no tab").unwrap_err().contains("TAB"));
        assert!(raw(b"").is_err());
        let long = [vec![b'k'; KEY_BYTES_MAX + 1], b"\tv".to_vec()].concat();
        assert!(raw(&long).unwrap_err().contains("65537 bytes"));
        assert!(raw(&long[1..]).is_ok());
        assert_eq!(parse(b"\\x09\t\\e", Form::Escaped).unwrap(), (b"\t".to_vec(), vec![]));
        assert!(parse(b"\\q\tv", Form::Escaped).is_err());
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let tricky: [&[u8]; 6] = [b"", b"a", b"a\tb", b"a\nb", b"\r", b"\\e\x00\xff "];
        for key in tricky {
            for value in tricky {
                let mut line = Vec::new();
                print(key, value, Form::Escaped, &mut line).unwrap();
                assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
                let read = parse(&line[..line.len() - 1], Form::Escaped).unwrap();
                assert_eq!(read, (key.to_vec(), value.to_vec()));

                line.clear();
                match print(key, value, Form::Raw, &mut line) {
                    Ok(()) => {
                        let read = parse(&line[..line.len() - 1], Form::Raw).unwrap();
                        assert_eq!(read, (key.to_vec(), value.to_vec()));
                    }
                    Err(_) => assert!(key.iter().any(|b| b"\t\n".contains(b)) || value.contains(&b'\n')),
                }
            }
        }
    }
}
