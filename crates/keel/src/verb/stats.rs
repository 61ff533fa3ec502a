//! `keel stats`: the engine's figures, as a table or as the engine's JSON.
//!
//! The table is made from the JSON, whatever is in it, so a figure the engine adds appears here by itself.

use serde_json::Value;

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Store, Target};

/// See `keel stats --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON, on one line.
    #[arg(long)]
    json: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel stats --db shop.db
  keel stats --db shop.db --json

Counters start when the store is opened; `keel shell` and `keel bench` show them after work.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let store = Store::open(target)?;
        let figures = store.figures()?;
        store.close()?;
        let mut out = Output::new();
        if self.json { out.line(&figures.to_string()) } else { out.text(&table(&figures)) }
    }
}

/// Single figures as `name  value`, lists of objects as tables below them.
fn table(figures: &Value) -> String {
    let (mut single, mut lists) = (Vec::new(), Vec::new());
    flatten("", figures, &mut single, &mut lists);
    let width = single.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, value) in single {
        out.push_str(&format!("{name:<width$}  {value}\n"));
    }
    for (name, rows) in lists {
        out.push_str(&format!("\n{name}\n"));
        columns(&rows, &mut out);
    }
    out
}

fn flatten(
    name: &str,
    value: &Value,
    single: &mut Vec<(String, String)>,
    lists: &mut Vec<(String, Vec<Value>)>,
) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&name, value, single, lists);
            }
        }
        Value::Array(rows) if rows.iter().any(Value::is_object) => {
            lists.push((name.to_owned(), rows.clone()));
        }
        _ => single.push((name.to_owned(), cell(name, value))),
    }
}

fn columns(rows: &[Value], out: &mut String) {
    let mut names: Vec<&String> = Vec::new();
    // What has rows itself does not fit into a cell; `--json` has it.
    let is_nested = |field: &&String| rows.iter().any(|row| row[field.as_str()].is_array());
    for field in rows.iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys) {
        if !names.contains(&field) && !is_nested(&field) {
            names.push(field);
        }
    }
    let mut lines = vec![names.iter().map(ToString::to_string).collect::<Vec<String>>()];
    for row in rows {
        lines.push(names.iter().map(|name| row.get(name).map_or(String::new(), |v| cell(name, v))).collect());
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    for line in &lines {
        for (text, width) in line.iter().zip(&widths) {
            out.push_str(&format!("  {text:>width$}"));
        }
        out.push('\n');
    }
}

/// A value for people: bytes in a unit that fits, fractions in three digits.
fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        Value::Number(n) => match (n.as_u64(), n.as_f64()) {
            (Some(n), _) if name.ends_with("bytes") || name.contains("bytes_") || name.starts_with("io.") => {
                evenkeel_lab::report::bytes(n)
            }
            (Some(n), _) => evenkeel_lab::report::count(n),
            (None, Some(x)) => format!("{x:.3}"),
            (None, None) => n.to_string(),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_json_becomes_a_table() {
        let json = r#"{"files":{"live":1234,"bytes":2048},"amplification":{"write":1.5,"read":null},
                       "levels":[{"level":0,"bytes":1024},{"level":1,"runs":2}],"empty":[]}"#;
        let expected = "\
amplification.read   unknown
amplification.write  1.500
empty                []
files.bytes          2.0 KiB
files.live           1 234

levels
    bytes  level  runs
  1.0 KiB      0      
               1     2
";
        assert_eq!(table(&serde_json::from_str(json).unwrap()), expected);
    }
}
