//! A strategy in a TOML file: the keys of the text form, a table for each part of the tree that differs.
//!
//! ```toml
//! when = ["ttl:1d", "saturation"]
//! how = "runs:1"
//! much = "file"
//! which = ["expired", "least-overlap-parent"]
//! [L0]
//! when = ["ttl:1d", "runs"]
//! how = "runs:4"
//! much = "runs"
//! [size]
//! ratio = 8
//! ```

use std::path::Path;

use toml::{Table, Value};

use crate::failure::Failure;
use crate::files;

/// The strategy of a file, as one line.
pub fn line_of(path: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let text = match files::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(wrong("there is no such file".to_owned())),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(one_line(&error, &text)))?;
    let line = line(&table).map_err(wrong)?;
    match evenkeel::strategy::parse(&line) {
        Ok(_) => Ok(line),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The parser's message without the picture it draws.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| text.chars().take(span.start).filter(|c| *c == '\n').count() + 1);
    let what = error.message().lines().collect::<Vec<_>>().join(" ");
    line.map_or(what.clone(), |line| format!("line {line}: {what}"))
}

fn line(table: &Table) -> Result<String, String> {
    let fields = |table: &Table| -> Result<Vec<String>, String> {
        let plain = table.iter().filter(|(_, value)| !value.is_table());
        plain.map(|(key, value)| Ok(format!("{key}={}", value_text(key, value)?))).collect()
    };
    // The grammar wants a field to begin with.
    let mut out = fields(table)?.join(" ");
    for (name, part) in table {
        if let Value::Table(part) = part {
            if let Some((inner, _)) = part.iter().find(|(_, value)| value.is_table()) {
                return Err(format!("[{name}.{inner}]: a part has keys, no parts of its own"));
            }
            out.push_str(&format!("; {name}: {}", fields(part)?.join(" ")));
        }
    }
    Ok(out)
}

fn value_text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.contains([';', ' ']) => Err(format!(
            "{key} = \"{text}\": a list is written with brackets, as in [\"runs\", \"saturation\"]"
        )),
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Array(list) => {
            let texts: Result<Vec<String>, String> = list.iter().map(|one| value_text(key, one)).collect();
            Ok(texts?.join(","))
        }
        _ => Err(format!("{key} is a {}: a text, a number or a list of texts is wanted", value.type_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, String> {
        line(&text.parse::<Table>().map_err(|error| error.message().to_owned())?)
    }

    #[test]
    fn keys_are_those_of_the_line_and_tables_its_parts() {
        let text = "when = [\"ttl:1d\", \"saturation\"]\nhow = \"runs:1\"\nmuch = \"file\"\nwhich = \"expired\"\nbits = 7.5\n\
                    [L0]\nwhen = [\"ttl:1d\", \"runs\"]\nhow = \"runs:4\"\n[size]\nratio = 8\n";
        let line = of(text).unwrap();
        let want = "when=ttl:1d,saturation how=runs:1 much=file which=expired bits=7.5; L0: when=ttl:1d,runs how=runs:4; size: ratio=8";
        assert_eq!(
            evenkeel::strategy::parse(&line).unwrap(),
            evenkeel::strategy::parse(want).unwrap(),
            "{line}"
        );
    }

    #[test]
    fn what_is_no_text_number_or_list_is_named() {
        for (text, want) in [
            ("when = true", "when is a boolean: a text, a number or a list of texts is wanted"),
            ("when = \"runs saturation\"", "a list is written with brackets"),
            ("[L0.deep]\nhow = \"runs:1\"", "[L0.deep]: a part has keys, no parts of its own"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
