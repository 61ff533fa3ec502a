//! `keel stats`: the engine's figures: for people the important first, else JSON or Prometheus' text.
//!
//! `--all` is made from the JSON, whatever is in it, so a figure the engine adds appears there by itself.

use std::time::Duration;

use evenkeel_lab::base::clock;
use serde_json::Value;

use crate::failure::Failure;
use crate::live::{Answered, argument, ask, ask_running, last_stats};
use crate::output::{Output, note};
use crate::stats_view;
use crate::store::{ReadArgs, Target, existing};

/// See `keel stats --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON, on one line.
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print Prometheus' text format.
    #[arg(long)]
    prometheus: bool,
    /// Print every figure by its name.
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    all: bool,
    /// Read everything the keyspace holds and print how much of it is superseded. Takes as long as reading takes.
    #[arg(long, conflicts_with_all = ["prometheus", "all", "watch"])]
    space: bool,
    /// Look again every so many seconds at a store that another process has open, and print what changed.
    #[arg(long, value_name = "SECONDS", value_parser = interval, conflicts_with_all = ["prometheus", "all", "read_only"])]
    watch: Option<f64>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel stats --db shop.db
  keel stats --db shop.db --json
  keel stats --db shop.db --prometheus
  keel stats --db shop.db --watch 1
  keel stats --db shop.db --space     space amplification, exactly

A store that another process has open is asked at its control socket. Counters start when the store is opened, so they
tell most of a running one.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if let Some(seconds) = self.watch {
            return self.watch(target, seconds);
        }
        let mut out = Output::new();
        if self.space {
            let answer = ask(target, &self.read, &format!("space {}", argument(&target.keyspace)))?.value();
            let text = || stats_view::space(&answer);
            return if self.json { out.line(&answer.to_string()) } else { out.line(&text()) };
        }
        if self.prometheus {
            let answer = ask(target, &self.read, "prometheus")?.value();
            return out.text(answer["text"].as_str().unwrap_or_default());
        }
        match ask(target, &self.read, "stats") {
            Ok(answer) => {
                let live = matches!(answer, Answered::Live(_));
                let mut figures = answer.value();
                figures["live"] = live.into();
                known_keyspace(&figures, &target.keyspace)?;
                if live && !self.json && !self.all {
                    out.line("of the running store")?;
                }
                self.print(&mut out, &figures, now_ms())
            }
            Err(Failure::Locked { hint, dir }) => {
                // The last thing the store said of itself is better than nothing.
                if let Some(mut line) = last_stats(&dir) {
                    if let Some(figures) = line.get_mut("metrics").and_then(Value::as_object_mut) {
                        figures.insert("live".to_owned(), false.into());
                    }
                    let (time, now_ms) = (line["time"].as_str().unwrap_or("?"), line["time_ms"].as_u64());
                    known_keyspace(&line["metrics"], &target.keyspace)?;
                    self.print(&mut out, &line["metrics"], now_ms.unwrap_or(0))?;
                    let hint = format!("the figures are the last line of STATS, of {time}; {hint}");
                    return Err(Failure::Locked { hint, dir });
                }
                Err(Failure::Locked { hint, dir })
            }
            Err(failure) => Err(failure),
        }
    }

    fn print(&self, out: &mut Output, figures: &Value, now_ms: u64) -> Result<(), Failure> {
        match (self.json, self.all) {
            (true, _) => out.line(&figures.to_string()),
            (_, true) => out.text(&table(figures)),
            _ => out.shown(&stats_view::view(figures, now_ms)),
        }
    }

    /// A line each time, under a head every screenful, until nobody reads or the store is closed.
    fn watch(&self, target: &Target, seconds: f64) -> Result<(), Failure> {
        let mut out = Output::new();
        let look = || ask_running(target, "stats");
        existing(target)?;
        let Some(mut before) = look()? else {
            return Err(Failure::work(
                "no process answers at the store's control socket; --watch looks at a running store",
            ));
        };
        let mut lines = 0;
        loop {
            clock::pause(Duration::from_secs_f64(seconds));
            let Some(now) = look()? else {
                note("keel: the store was closed");
                return Ok(());
            };
            let open = |figures: &Value| figures["uptime_seconds"].as_f64().unwrap_or(0.0);
            if self.json {
                out.line(&now.to_string())?;
            } else {
                if lines % 20 == 0 {
                    out.line(stats_view::CHANGE_HEAD)?;
                }
                out.line(&stats_view::change(&before, &now, open(&now) - open(&before)))?;
            }
            before = now;
            lines += 1;
        }
    }
}

/// The figures are of all keyspaces; a name that is none of theirs is a slip all the same.
fn known_keyspace(figures: &Value, name: &str) -> Result<(), Failure> {
    let names = || figures["keyspaces"].as_array().into_iter().flatten().filter_map(|k| k["name"].as_str());
    if names().any(|known| known == name) {
        return Ok(());
    }
    let there = names().collect::<Vec<_>>().join(" ");
    Err(Failure::work(format!("there is no keyspace `{name}` (there are: {there})")))
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.01 to 86400".to_owned()),
    }
}

fn now_ms() -> u64 {
    clock::wall_ms()
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
                evenkeel_lab::results::report::bytes(n)
            }
            (Some(n), _) => evenkeel_lab::results::report::count(n),
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
