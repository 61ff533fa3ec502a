//! NDJSON, also called JSON Lines: an object a line.
//!
//! Without a key field the objects are those of `dump --format ndjson`: `key` or `key_hex`, `value` or `value_hex`. With
//! one, its text or number is the key, and the value is the whole line, byte for byte, or another field. A number is the digits
//! that were written, so that no two that differ become one.

use std::collections::HashMap;
use std::io::{self, BufRead};

use serde_json::value::RawValue;

use crate::records::{Next, Records, record};
use crate::tsv::{Form, Lines};

/// Which fields make a record.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// The key's.
    pub key: Option<String>,
    /// The value's.
    pub value: Option<String>,
}

/// Reads NDJSON.
pub struct NdjsonRecords {
    lines: Lines<Box<dyn BufRead>>,
    line: Vec<u8>,
    fields: Fields,
}

impl NdjsonRecords {
    /// Records of these fields.
    pub fn new(input: Box<dyn BufRead>, fields: Fields) -> NdjsonRecords {
        // Escapes may make a line longer than what it says.
        NdjsonRecords { lines: Lines::new(input, Form::Escaped), line: Vec::new(), fields }
    }

    fn parse(&self) -> Result<Next, String> {
        // Some programs begin a file so.
        let line = self.line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.lines.number() == 1);
        let line = line.unwrap_or(&self.line).trim_ascii();
        let object: Fieldset<'_> = serde_json::from_slice(line).map_err(|error| malformed(&error, line))?;
        let Some(field) = &self.fields.key else {
            return Ok(record(dumped(&object, "key")?, dumped(&object, "value")?));
        };
        let raw = get(&object, field)?;
        let key = match text(raw) {
            Some(text) => text.into_bytes(),
            None if is_number(raw) => raw.get().as_bytes().to_vec(),
            None => return Err(format!("field `{field}`, the key, is neither text nor a number")),
        };
        let value = match &self.fields.value {
            None => line.to_vec(),
            Some(field) => {
                let raw = get(&object, field)?;
                text(raw).unwrap_or_else(|| raw.get().to_owned()).into_bytes()
            }
        };
        Ok(record(key, value))
    }
}

/// The fields of a line, each as it is written there.
type Fieldset<'a> = HashMap<String, &'a RawValue>;

/// What is wrong with a line, in our words where those of the parser are about programs.
fn malformed(error: &serde_json::Error, line: &[u8]) -> String {
    if line.first() != Some(&b'{') {
        return "column 1: a line is a JSON object, {...}".to_owned();
    }
    let said = error.to_string();
    let what = match said.split(" at line ").next().unwrap_or(&said) {
        "expected ident" => "this is no JSON value",
        what => what,
    };
    format!("column {}: {what}", error.column())
}

fn get<'a>(object: &Fieldset<'a>, field: &str) -> Result<&'a RawValue, String> {
    object.get(field).copied().ok_or_else(|| format!("there is no field `{field}`"))
}

/// What a string says; `None` for another value.
fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn is_number(raw: &RawValue) -> bool {
    raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// A key or value as a dump prints it: text, or hex digits under `NAME_hex`.
fn dumped(object: &Fieldset<'_>, name: &str) -> Result<Vec<u8>, String> {
    let hex = format!("{name}_hex");
    match (object.get(name), object.get(&hex)) {
        (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{hex}`")),
        (Some(raw), None) => text(raw).map(String::into_bytes).ok_or_else(|| {
            format!("field `{name}` is no text; --key-field and --value-field take other records")
        }),
        (None, Some(raw)) => {
            let digits = text(raw).and_then(|digits| unhex(&digits));
            digits.ok_or_else(|| format!("field `{hex}` is no hex"))
        }
        (None, None) => {
            Err(format!("there is no field `{name}` and no `{hex}`; --key-field says which field is the key"))
        }
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[a, b]| Some(digit(*a)? << 4 | digit(*b)?)).collect()).flatten()
}

impl Records for NdjsonRecords {
    fn next(&mut self) -> io::Result<Next> {
        loop {
            if !self.lines.next(&mut self.line)? {
                return Ok(Next::End);
            }
            if self.lines.too_long(&self.line) {
                return Ok(Next::Malformed("it is longer than any record can be".to_owned()));
            }
            // Blank lines part nothing from nothing.
            if !self.line.trim_ascii().is_empty() {
                return Ok(self.parse().unwrap_or_else(Next::Malformed));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::json_record;

    fn one(line: &str, fields: &Fields) -> Next {
        let input = Box::new(io::Cursor::new(line.as_bytes().to_vec()));
        NdjsonRecords::new(input, fields.clone()).next().unwrap()
    }

    #[test]
    fn what_a_dump_prints_is_read_again() {
        let tricky: [&[u8]; 6] = [b"", b"a", "\u{e4}\n\t\"".as_bytes(), b"\x00\xff", b"\\e", b"\x7f"];
        for key in tricky {
            for value in tricky {
                let read = one(&json_record(key, value), &Fields::default());
                assert_eq!(read, Next::Record { key: key.to_vec(), value: value.to_vec() });
            }
        }
    }

    #[test]
    fn fields_are_taken_and_the_line_is_kept() {
        let line = " {\"id\": 7, \"price\": 1.50, \"tags\": [\"a\"], \"name\": \"x\"} ";
        let fields =
            |key: &str, value: Option<&str>| Fields { key: Some(key.into()), value: value.map(Into::into) };
        let record = |key: &str, value: &str| Next::Record { key: key.into(), value: value.into() };
        assert_eq!(one(line, &fields("id", None)), record("7", line.trim()));
        assert_eq!(one(line, &fields("name", Some("tags"))), record("x", "[\"a\"]"));
        assert_eq!(one(line, &fields("name", Some("name"))), record("x", "x"));
        assert_eq!(one(line, &fields("id", Some("price"))), record("7", "1.50"));
        assert_eq!(one("\u{feff}{\"id\":1}", &fields("id", None)), record("1", "{\"id\":1}"));
        assert_eq!(one("\n\n", &fields("id", None)), Next::End);
        for (wrong, what) in [
            (one(line, &fields("tags", None)), "neither text nor a number"),
            (one(line, &fields("none", None)), "no field `none`"),
            (one(line, &Fields::default()), "--key-field"),
            (one("{\"key\": \"a\", \"value\": 1}", &Fields::default()), "--value-field"),
            (one("{\"key\": \"a\", \"value_hex\": \"0\"}", &Fields::default()), "no hex"),
            (one("{\"a\": 1", &fields("a", None)), "column 7"),
            (one("[1]", &fields("a", None)), "column"),
            (one(&"[".repeat(100_000), &fields("a", None)), "column"),
        ] {
            assert!(matches!(&wrong, Next::Malformed(said) if said.contains(what)), "{wrong:?}");
        }
    }
}
