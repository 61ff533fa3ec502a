//! JSON for lines that programs read: an object written field by field, in the order given. Only what the store itself
//! prints; nothing here reads JSON.

use std::fmt::{Display, Write};

/// An object under construction.
#[derive(Clone, Debug)]
pub struct Object(String);

impl Default for Object {
    fn default() -> Object {
        Object::new()
    }
}

impl Object {
    /// No fields yet.
    pub fn new() -> Object {
        Object("{".to_owned())
    }

    /// A number, `true`, `false`, or JSON made elsewhere: printed as it is.
    #[must_use]
    pub fn raw(mut self, name: &str, value: impl Display) -> Object {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{comma}{}:{value}", quoted(name));
        self
    }

    /// A text.
    #[must_use]
    pub fn text(self, name: &str, value: &str) -> Object {
        self.raw(name, quoted(value))
    }

    /// A fraction; what is no number is `null`.
    #[must_use]
    pub fn fraction(self, name: &str, value: f64) -> Object {
        if value.is_finite() { self.raw(name, format_args!("{value:.6}")) } else { self.raw(name, "null") }
    }

    /// The object.
    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A list of JSON values.
pub fn list(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_texts_are_escaped() {
        let object = Object::new().raw("n", 3).text("t", "a\"b\\c\n\u{1}é").fraction("f", 0.5);
        let object = object.fraction("none", f64::NAN).raw("list", list(["1".to_owned(), quoted("x")]));
        let expected = r#"{"n":3,"t":"a\"b\\c\n\u0001é","f":0.500000,"none":null,"list":[1,"x"]}"#;
        assert_eq!(object.end(), expected);
        assert_eq!(Object::new().end(), "{}");
    }
}
