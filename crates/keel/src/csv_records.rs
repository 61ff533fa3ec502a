//! CSV as RFC 4180 has it: commas, double quotes, line ends within quotes, a header line unless told otherwise.
//!
//! ```text
//! id,name,price            key column `id`:   a1 ─► {"name":"apple","price":"3"}
//! a1,apple,3               value column `price`:  a1 ─► 3
//! ```
//! A column is named by its header or by its number from 1. Every line must have as many columns as the first; blank lines
//! part nothing from nothing; a quote within a field that does not begin with one stands for itself. Read byte by byte, so
//! that what is wrong can be named by line and column.

use std::io::{self, BufRead};

use crate::records::{Next, Records, record};
use crate::tsv::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The fields of a record together are no longer than this.
const RECORD_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// Which columns make a record.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The key's; the first if there is none.
    pub key: Option<String>,
    /// The value's; all others as a JSON object if there is none.
    pub value: Option<String>,
    /// The first line is a record like the others.
    pub no_header: bool,
}

/// Fields of one row, in one piece.
#[derive(Default)]
struct Row {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
    /// A field began with a quote.
    quoted: bool,
}

impl Row {
    fn field(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(i).and_then(|end| self.bytes.get(start..*end)).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.quoted = false;
    }

    /// True of a line without anything on it; a field that is quoted and empty is something.
    fn is_blank(&self) -> bool {
        self.bytes.is_empty() && self.ends.len() == 1 && !self.quoted
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// Where in a row the next byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote within quotes: the end of the field, or the first of two.
    Quote,
    /// After that, a carriage return: the line must end.
    Return,
}

/// Reads rows, and knows where it is.
struct Rows<R> {
    reader: R,
    row: Row,
    bytes: u64,
    /// The place of the next byte, from 1.
    line: u64,
    column: u64,
    /// The lines of the row read last.
    lines: (u64, u64),
}

/// A row that was read, or what stands in its place.
enum Found {
    Row,
    End,
    Malformed(String),
}

impl<R: BufRead> Rows<R> {
    fn new(reader: R) -> Rows<R> {
        Rows { reader, row: Row::default(), bytes: 0, line: 1, column: 1, lines: (0, 0) }
    }

    /// The next byte, counted.
    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = loop {
            match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(buffer) => break buffer.first().copied(),
            }
        };
        if let Some(byte) = byte {
            self.reader.consume(1);
            self.bytes += 1;
            (self.line, self.column) =
                if byte == b'\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        Ok(byte)
    }

    /// Reads a row, blank lines passed over.
    fn next(&mut self) -> io::Result<Found> {
        loop {
            self.row.clear();
            let first = self.line;
            let found = self.row()?;
            // A row ends behind its line end, or at the end of the input.
            let last = if self.column == 1 { self.line.saturating_sub(1) } else { self.line };
            if matches!(found, Found::Row) && self.row.is_blank() {
                continue;
            }
            if !matches!(found, Found::End) {
                self.lines = (first, last.max(first));
            }
            return Ok(found);
        }
    }

    fn row(&mut self) -> io::Result<Found> {
        let mut at = At::FieldStart;
        let mut opened = (0, 0);
        let mut any = false;
        loop {
            let place = (self.line, self.column);
            let Some(byte) = self.byte()? else {
                return Ok(match at {
                    At::Quoted => {
                        let (line, column) = opened;
                        Found::Malformed(format!("the quote at line {line}, column {column} is never closed"))
                    }
                    _ if !any => Found::End,
                    _ => {
                        self.row.end_field();
                        Found::Row
                    }
                });
            };
            any = true;
            at = match (at, byte) {
                (At::FieldStart, b'"') => {
                    opened = place;
                    self.row.quoted = true;
                    At::Quoted
                }
                (At::FieldStart | At::Plain | At::Quote, b',') => {
                    self.row.end_field();
                    At::FieldStart
                }
                (At::FieldStart | At::Plain, b'\n') => {
                    let start = self.row.ends.last().copied().unwrap_or(0);
                    if self.row.bytes.len() > start && self.row.bytes.last() == Some(&b'\r') {
                        self.row.bytes.pop();
                    }
                    self.row.end_field();
                    return Ok(Found::Row);
                }
                (At::Quote | At::Return, b'\n') => {
                    self.row.end_field();
                    return Ok(Found::Row);
                }
                (At::Quoted, b'"') => At::Quote,
                (At::Quote, b'\r') => At::Return,
                (At::Quote | At::Return, byte) if byte != b'"' || at == At::Return => {
                    return self.rest_of_line(place.1);
                }
                (At::Quoted | At::Quote, byte) => self.push(byte, At::Quoted)?,
                (_, byte) => self.push(byte, At::Plain)?,
            };
        }
    }

    fn push(&mut self, byte: u8, at: At) -> io::Result<At> {
        if self.row.bytes.len() >= RECORD_BYTES_MAX {
            let what = "a record is longer than any can be; is a quote left open?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.row.bytes.push(byte);
        Ok(at)
    }

    /// Passes over what makes no sense, up to the end of the line.
    fn rest_of_line(&mut self, column: u64) -> io::Result<Found> {
        while self.column != 1 && self.byte()?.is_some_and(|byte| byte != b'\n') {}
        Ok(Found::Malformed(format!(
            "column {column}: there is something between a closing quote and the comma"
        )))
    }
}

/// Reads CSV.
pub struct CsvRecords {
    rows: Rows<Box<dyn BufRead>>,
    key: usize,
    value: Option<usize>,
    /// Names of the columns, as JSON strings.
    names: Vec<String>,
    /// A first line that is no header has been read already.
    pending: bool,
}

impl CsvRecords {
    /// Reads the first line, and finds the columns.
    ///
    /// # Errors
    /// What is wrong with the header, or with the columns asked for.
    pub fn new(input: Box<dyn BufRead>, columns: &Columns) -> Result<CsvRecords, String> {
        let mut rows = Rows::new(input);
        let there = match rows.next().map_err(|error| format!("the first line cannot be read: {error}"))? {
            Found::Row => true,
            Found::End => false,
            Found::Malformed(what) => return Err(format!("line {}: {what}", rows.lines.0)),
        };
        let mut records =
            CsvRecords { rows, key: 0, value: None, names: Vec::new(), pending: columns.no_header && there };
        if !there {
            // Nothing to load, and nothing to look columns up in.
            return Ok(records);
        }
        let header = records.header(columns.no_header)?;
        records.names =
            header.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
        records.key = columns.key.as_deref().map_or(Ok(0), |name| column(&header, name))?;
        records.value = columns.value.as_deref().map(|name| column(&header, name)).transpose()?;
        Ok(records)
    }

    /// Names of the columns: numbers if there is no header.
    fn header(&self, no_header: bool) -> Result<Vec<String>, String> {
        let count = self.rows.row.ends.len();
        if no_header {
            return Ok((1..=count).map(|n| n.to_string()).collect());
        }
        let mut names: Vec<String> = Vec::new();
        for i in 0..count {
            let field = self.rows.row.field(i);
            let field = field.strip_prefix(b"\xef\xbb\xbf").filter(|_| i == 0).unwrap_or(field);
            let name = std::str::from_utf8(field)
                .map_err(|_| format!("the header's column {} is not UTF-8", i + 1))?;
            if names.iter().any(|other| other == name) {
                return Err(format!(
                    "the header has two columns `{name}`; --no-header takes the first line as a record"
                ));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    fn take_row(&self) -> Next {
        let row = &self.rows.row;
        if row.ends.len() != self.names.len() {
            let (there, wanted) = (row.ends.len(), self.names.len());
            return Next::Malformed(format!("column {there} is the last, the first line has {wanted}"));
        }
        let key = row.field(self.key).to_vec();
        if let Some(value) = self.value {
            return record(key, row.field(value).to_vec());
        }
        let mut object = String::from("{");
        for (i, name) in self.names.iter().enumerate().filter(|(i, _)| *i != self.key) {
            let Ok(text) = std::str::from_utf8(row.field(i)) else {
                return Next::Malformed(format!(
                    "column {} is not UTF-8; --value-column takes any bytes",
                    i + 1
                ));
            };
            let comma = if object.len() > 1 { "," } else { "" };
            object += &format!("{comma}{name}:{}", serde_json::Value::from(text));
        }
        object.push('}');
        record(key, object.into_bytes())
    }
}

/// A column by its name, or by its number from 1.
fn column(header: &[String], name: &str) -> Result<usize, String> {
    let number = || name.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < header.len());
    let found = header.iter().position(|other| other == name).or_else(number);
    found.ok_or_else(|| format!("there is no column `{name}`; there are: {}", header.join(", ")))
}

impl Records for CsvRecords {
    fn next(&mut self) -> io::Result<Next> {
        if std::mem::take(&mut self.pending) {
            return Ok(self.take_row());
        }
        Ok(match self.rows.next()? {
            Found::Row => self.take_row(),
            Found::End => Next::End,
            Found::Malformed(what) => Next::Malformed(what),
        })
    }

    fn first_line(&self) -> u64 {
        self.rows.lines.0
    }

    fn last_line(&self) -> u64 {
        self.rows.lines.1
    }

    fn bytes(&self) -> u64 {
        self.rows.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static [u8], columns: &Columns) -> Vec<(u64, u64, Next)> {
        let mut records = CsvRecords::new(Box::new(text), columns).unwrap();
        let mut all = Vec::new();
        loop {
            match records.next().unwrap() {
                Next::End => return all,
                next => all.push((records.first_line(), records.last_line(), next)),
            }
        }
    }

    fn row(key: &str, value: &str) -> Next {
        Next::Record { key: key.into(), value: value.into() }
    }

    #[test]
    fn columns_are_found_and_lines_are_counted() {
        let text = b"\xef\xbb\xbfid,name,price\r\na1,\"a, \"\"b\"\"\nc\",3\r\n\nb2,pear,\"4\"";
        let all = read(text, &Columns::default());
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], (2, 3, row("a1", "{\"name\":\"a, \\\"b\\\"\\nc\",\"price\":\"3\"}")));
        assert_eq!((all[1].0, all[1].1), (5, 5));
        assert_eq!(all[1].2, row("b2", "{\"name\":\"pear\",\"price\":\"4\"}"));
        let columns = Columns { key: Some("name".into()), value: Some("3".into()), no_header: false };
        assert_eq!(read(text, &columns)[1].2, row("pear", "4"));
        let columns = Columns { key: Some("2".into()), value: None, no_header: true };
        assert_eq!(
            read(b"1,x,\xc3\xa4\n2,y,\n", &columns)[0],
            (1, 1, row("x", "{\"1\":\"1\",\"3\":\"\u{e4}\"}"))
        );
        assert_eq!(read(b"", &columns), []);
        assert_eq!(read(b"id,name\n", &Columns::default()), []);
    }

    #[test]
    fn quotes_and_line_ends_are_read_as_written() {
        let rows = |text: &'static [u8]| -> Vec<Vec<Vec<u8>>> {
            let mut rows = Rows::new(text);
            let mut all = Vec::new();
            while let Found::Row = rows.next().unwrap() {
                all.push((0..rows.row.ends.len()).map(|i| rows.row.field(i).to_vec()).collect());
            }
            all
        };
        let cases: [(&[u8], &[&[&[u8]]]); 9] = [
            (b"a,b\r\nc,d", &[&[b"a", b"b"], &[b"c", b"d"]]),
            (b"\"a\",\"\"\r\n", &[&[b"a", b""]]),
            (b"\"\"\n\"\"", &[&[b""], &[b""]]),
            (b"\n\r\n\na\n\n", &[&[b"a"]]),
            (b",\n", &[&[b"", b""]]),
            (b"\"a\"\"b\",\"c\r\nd\"", &[&[b"a\"b", b"c\r\nd"]]),
            (b"5\" pipe,x\ry", &[&[b"5\" pipe", b"x\ry"]]),
            (b"a,", &[&[b"a", b""]]),
            (b"\"a\r\"\n", &[&[b"a\r"]]),
        ];
        for (text, wanted) in cases {
            assert_eq!(rows(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let all = read(b"id,name\na,1\nb\nc,2,3\n\xff,\xff\nd,4", &Columns::default());
        let lines: Vec<u64> = all.iter().map(|(line, _, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6]);
        let what: Vec<bool> = all.iter().map(|(_, _, next)| matches!(next, Next::Malformed(_))).collect();
        assert_eq!(what, [false, true, true, true, false]);
        assert!(format!("{:?}", all[1]).contains("column 1 is the last, the first line has 2"), "{all:?}");
        let wrong = |text: &'static [u8], key: &str| {
            let columns = Columns { key: Some(key.into()), ..Columns::default() };
            CsvRecords::new(Box::new(text), &columns).err().unwrap()
        };
        assert!(wrong(b"id,name\n", "x").contains("id, name"));
        assert!(wrong(b"id,name\n", "0").contains("`0`") && wrong(b"id,name\n", "3").contains("`3`"));
        assert!(wrong(b"id,id\n", "id").contains("two columns `id`"));
        assert!(wrong(b"id,\xff\n", "id").contains("column 2"));
        let all = read(b"id,name\n\"a\"x,1\nb,2\nc,\"3\nd,4\n", &Columns::default());
        let lines: Vec<_> = all.iter().map(|(first, last, _)| (*first, *last)).collect();
        assert_eq!(lines, [(2, 2), (3, 3), (4, 5)]);
        assert!(format!("{:?}", all[0]).contains("column 4:"), "{all:?}");
        assert!(format!("{:?}", all[2]).contains("the quote at line 4, column 3 is never closed"), "{all:?}");
    }
}
