//! Stdout and stderr without panics: a closed pipe ends the command quietly.

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use crate::failure::Failure;
use crate::wrap::wrap;

/// Buffered stdout.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes stdout.
    pub fn new() -> Output {
        Output { out: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes a line and hands everything on.
    pub fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")?;
        self.flush()
    }

    /// Writes text as it is and hands everything on.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.flush()
    }

    /// Writes prose: no line longer than the terminal is wide.
    pub fn wrapped(&mut self, text: &str) -> Result<(), Failure> {
        self.text(&wrap(text, columns()))
    }

    /// Writes text whose lines mean something to programs: as prose to a terminal, else as it is.
    pub fn shown(&mut self, text: &str) -> Result<(), Failure> {
        if io::stdout().is_terminal() { self.wrapped(text) } else { self.text(text) }
    }

    /// A line for people as it is printed here: broken for a terminal.
    pub fn fitted(&self, line: String) -> String {
        if io::stdout().is_terminal() { wrap(&line, columns()) } else { line }
    }

    /// Hands on what is buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::output(&error))
    }
}

/// Whether stdout is a terminal that may be coloured: nobody asked for none (<https://no-color.org>), and it is not dumb.
pub fn is_coloured() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && unset("NO_COLOR") && !dumb
}

/// Columns of the terminal, as the shell says or the terminal itself; 80 if neither does.
pub fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    said.or_else(terminal).unwrap_or(80).clamp(60, 160)
}

/// A line for people on stderr. If nobody can read it, nobody misses it.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A record as a JSON object on one line: `key` and `value` where they are UTF-8, `key_hex` and `value_hex` where not.
pub fn json_record(key: &[u8], value: &[u8]) -> String {
    let mut object = serde_json::Map::new();
    for (name, bytes) in [("key", key), ("value", value)] {
        match std::str::from_utf8(bytes) {
            Ok(text) => object.insert(name.to_owned(), text.into()),
            Err(_) => {
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                object.insert(format!("{name}_hex"), hex.into())
            }
        };
    }
    serde_json::Value::Object(object).to_string()
}
