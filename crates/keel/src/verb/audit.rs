//! `keel audit deletes`: what deletes have left behind, and by when it is gone.

use std::time::Duration;

use clap::Subcommand;
use evenkeel::strategy::time_text;
use serde_json::Value;

use super::ActionArgs;
use crate::failure::Failure;
use crate::live::ask;
use crate::output::{Output, note};
use crate::store::{ReadArgs, Target};

/// See `keel audit --help`.
pub type Args = ActionArgs<Action>;

/// What it can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show the oldest delete of each keyspace of which there is a trace, where it is, and when it is gone at the latest.
    Deletes {
        #[command(flatten)]
        read: ReadArgs,
    },
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel audit deletes --db shop.db
  keel audit deletes --db shop.db --json

A keyspace has its deletes gone in time if its strategy says so: keel strategy show tsa";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let Action::Deletes { read } = &self.action;
        target.without_keyspace("audit")?;
        let answer = ask(target, read, "audit-deletes")?.value();
        let mut out = Output::new();
        if self.json {
            return out.line(&answer.to_string());
        }
        let keyspaces = answer["keyspaces"].as_array();
        out.shown(
            &keyspaces.into_iter().flatten().flat_map(lines).map(|line| line + "\n").collect::<String>(),
        )
    }
}

/// A line for the keyspace, and one for each place that holds a trace.
fn lines(keyspace: &Value) -> Vec<String> {
    let name = keyspace["keyspace"].as_str().unwrap_or_default();
    let ttl = keyspace["ttl_ms"].as_u64();
    let within = ttl.map_or("no time is set for deletes".to_owned(), |ms| {
        format!("deletes are gone within {}", time(ms))
    });
    let state = match (keyspace["oldest_age_ms"].as_u64(), keyspace["left_ms"].as_i64()) {
        (None, _) => "there is no trace of any".to_owned(),
        (Some(age), None) => {
            format!("the oldest counts as {} old and goes when a compaction comes by", time(age))
        }
        (Some(age), Some(left)) => format!("the oldest counts as {} old, {}", time(age), left_words(left)),
    };
    let mut out = vec![format!("{name}: {within}; {state}")];
    for place in keyspace["places"].as_array().into_iter().flatten() {
        let (age, left) = (place["oldest_age_ms"].as_u64(), place["left_ms"].as_i64());
        let left = left.map(|left| format!(", {}", left_words(left))).unwrap_or_default();
        let what =
            match (place["place"].as_str(), place["tombstones"].as_u64(), place["trimmed_tables"].as_u64()) {
                (Some("memory and log"), ..) => "unflushed deletes".to_owned(),
                (_, tombstones, Some(0) | None) => format!("{} tombstones", tombstones.unwrap_or(0)),
                (_, tombstones, Some(trimmed)) => {
                    format!("{} tombstones, {trimmed} trimmed tables", tombstones.unwrap_or(0))
                }
            };
        let place = place["place"].as_str().unwrap_or_default();
        out.push(format!("  {place}: {what}, the oldest {} old{left}", time(age.unwrap_or(0))));
    }
    if let (Some(ttl), Some(shortest)) = (ttl, keyspace["shortest_ttl_ms"].as_u64())
        && ttl < shortest
    {
        out.push(format!(
            "  too short: the shortest time that can be kept as the keyspace is now is {}",
            time(shortest)
        ));
    }
    out
}

/// Says so where a keyspace cannot have its deletes gone in time, by the audit of them; `planned`: a keyspace and the time that it
/// would have.
pub fn warn_of_short_ttls(audit: &Value, planned: Option<(&str, u64)>) {
    short_ttls(audit, planned).iter().for_each(|line| note(line));
}

fn short_ttls(audit: &Value, planned: Option<(&str, u64)>) -> Vec<String> {
    let words = |row: &Value| {
        let name = row["keyspace"].as_str()?;
        let ttl_ms = match planned {
            None => row["ttl_ms"].as_u64()?,
            Some((keyspace, ttl_ms)) => (keyspace == name).then_some(ttl_ms)?,
        };
        let shortest_ms = row["shortest_ttl_ms"].as_u64().filter(|shortest_ms| ttl_ms < *shortest_ms)?;
        // In whole seconds, upward.
        let [ttl, shortest] = [ttl_ms, shortest_ms.div_ceil(1000).saturating_mul(1000)].map(time_text);
        Some(format!(
            "keel: ttl:{ttl} cannot be kept as {name} is now; the shortest that can be kept is ttl:{shortest}"
        ))
    };
    audit["keyspaces"].as_array().into_iter().flatten().filter_map(words).collect()
}

fn left_words(left_ms: i64) -> String {
    let time = time(left_ms.unsigned_abs());
    if left_ms >= 0 { format!("gone in {time} at the latest") } else { format!("overdue by {time}") }
}

fn time(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0..60 => format!("{:.1} s", ms as f64 / 1000.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_delete_and_the_worst_case_left_are_said_for_each_keyspace() {
        let of = |text: &str| lines(&serde_json::from_str(text).unwrap());
        assert_eq!(
            of(
                r#"{"keyspace":"a","ttl_ms":3600000,"shortest_ttl_ms":20000,"oldest_age_ms":600000,"left_ms":3000000,"places":[
                {"place":"memory and log","tombstones":1,"trimmed_tables":0,"oldest_age_ms":1500,"left_ms":3598500},
                {"place":"L1","tombstones":7,"trimmed_tables":2,"oldest_age_ms":600000,"left_ms":3000000}]}"#
            ),
            [
                "a: deletes are gone within 1 h 0 min; the oldest counts as 10 min 0 s old, gone in 50 min 0 s at the latest",
                "  memory and log: unflushed deletes, the oldest 1.5 s old, gone in 59 min 58 s at the latest",
                "  L1: 7 tombstones, 2 trimmed tables, the oldest 10 min 0 s old, gone in 50 min 0 s at the latest",
            ]
        );
        assert_eq!(
            of(
                r#"{"keyspace":"b","ttl_ms":1000,"shortest_ttl_ms":20000,"oldest_age_ms":3000,"left_ms":-2000,"places":[]}"#
            ),
            [
                "b: deletes are gone within 1.0 s; the oldest counts as 3.0 s old, overdue by 2.0 s",
                "  too short: the shortest time that can be kept as the keyspace is now is 20.0 s",
            ]
        );
        let audit = serde_json::json!({"keyspaces": [
            {"keyspace": "a", "ttl_ms": null, "shortest_ttl_ms": 9},
            {"keyspace": "b", "ttl_ms": 5000, "shortest_ttl_ms": 20_001},
        ]});
        let said = |ttl: &str| {
            vec![format!(
                "keel: ttl:{ttl} cannot be kept as b is now; the shortest that can be kept is ttl:21s"
            )]
        };
        assert_eq!(short_ttls(&audit, None), said("5s"));
        assert_eq!(short_ttls(&audit, Some(("b", 20_000))), said("20s"));
        assert!([("b", 20_001), ("a", 9)].iter().all(|kept| short_ttls(&audit, Some(*kept)).is_empty()));
        let none = r#"{"keyspace":"c","ttl_ms":null,"shortest_ttl_ms":9,"oldest_age_ms":null,"left_ms":null,"places":[]}"#;
        assert_eq!(of(none), ["c: no time is set for deletes; there is no trace of any"]);
    }
}
