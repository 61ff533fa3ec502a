//! NDJSON, also called JSON Lines: an object a line.
//!
//! Without a key field the objects are those of `dump --format ndjson`: `key` or `key_hex`, `value` or `value_hex`. With
//! one, its text or number is the key, and the value is the whole line, byte for byte, or another field.

use std::io::{self, BufRead};

use serde_json::{Map, Value};

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
        let object: Map<String, Value> = serde_json::from_slice(&self.line).map_err(|error| {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or(&text);
            format!("column {}: {what}", error.column())
        })?;
        let Some(field) = &self.fields.key else {
            return Ok(record(dumped(&object, "key")?, dumped(&object, "value")?));
        };
        let key = match get(&object, field)? {
            Value::String(text) => text.clone().into_bytes(),
            Value::Number(number) => number.to_string().into_bytes(),
            _ => return Err(format!("field `{field}`, the key, is neither text nor a number")),
        };
        let value = match &self.fields.value {
            None => self.line.trim_ascii().to_vec(),
            Some(field) => match get(&object, field)? {
                Value::String(text) => text.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            },
        };
        Ok(record(key, value))
    }
}

fn get<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a Value, String> {
    object.get(field).ok_or_else(|| format!("there is no field `{field}`"))
}

/// A key or value as a dump prints it: text, or hex digits under `NAME_hex`.
fn dumped(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let hex = format!("{name}_hex");
    match (object.get(name), object.get(&hex)) {
        (Some(Value::String(text)), None) => Ok(text.clone().into_bytes()),
        (None, Some(Value::String(digits))) => {
            unhex(digits).ok_or_else(|| format!("field `{hex}` is no hex"))
        }
        (None, None) => {
            Err(format!("there is no field `{name}` and no `{hex}`; --key-field says which field is the key"))
        }
        (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{hex}`")),
        _ => Err(format!("field `{name}` is no text; --key-field and --value-field take other records")),
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
