//! Questions to a running store: a line in, a line of JSON out. The control socket and `Db::control` both come here, so that
//! a command answers the same whether it has the store open or asks the process that has.
//!
//! A line is a verb and arguments apart by blanks; in an argument `%NN` is the byte NN (hexadecimal), so that a name may hold
//! a blank. The last argument of `strategy-cost`, `set-strategy`, `set-schedule` and `set-option` is the rest of the line.

use std::path::PathBuf;
use std::sync::Arc;

use super::threads::set_option;
use super::trace;
use crate::base::error::{Error, Result};
use crate::base::units::JobId;
use crate::db::files::trace_file::Keys;
use crate::db::jobs::scheduling::usage_by_all;
use crate::db::reports::audit;
use crate::db::reports::costs;
use crate::db::reports::explain;
use crate::db::reports::level_report;
use crate::db::reports::metrics::metrics;
use crate::db::reports::properties;
use crate::db::reports::schedule_report;
use crate::db::reports::slow_report;
use crate::db::settings::in_force;
use crate::db::settings::strategies;
use crate::db::store::decisions::Decision;
use crate::db::store::keyspace_state::{DEFAULT_NAME, KeyspaceState};
use crate::db::store::state::Store;
use crate::db::store::tracing::Recording;
use crate::observe::json::{Object, list, quoted};
use crate::observe::slow::Second;
use crate::observe::waits::Cause;
use crate::options::Options;

/// What can be asked.
pub const VERBS: &str = "ping stats space prometheus properties levels explain decisions decision slow audit-deletes strategy strategy-cost set-strategy schedule set-schedule set-option options keyspaces events trace";

/// How a trace is asked for.
const TRACE_FORM: &str = "the form is `trace plain|hashed PATH` at the control socket, with an absolute path";

/// Decisions that an answer lists, if it is not asked for a number.
const DECISIONS: usize = 10;
/// Slow operations that an answer lists.
const OPERATIONS_MAX: usize = 64;

/// Answers a line; an error is an answer too: `{"error":{"kind":...,"message":...}}`.
pub fn answer(store: &Arc<Store>, line: &str) -> String {
    request(store, line).unwrap_or_else(|error| error_json(&error))
}

/// An error as an answer.
pub fn error_json(error: &Error) -> String {
    let what = Object::new().text("kind", error.kind()).text("message", &error.to_string());
    Object::new().raw("error", what.end()).end()
}

/// Answers a line.
///
/// # Errors
/// `InvalidArgument` for what is not understood, and whatever the store says.
pub fn request(store: &Arc<Store>, line: &str) -> Result<String> {
    let (verb, rest) = split(line.trim());
    match verb {
        "ping" => nothing_after(verb, rest, || {
            Object::new().raw("pid", std::process::id()).text("identity", store.opened.identity()).end()
        }),
        "stats" => nothing_after(verb, rest, || metrics(store).to_json()),
        "prometheus" => {
            nothing_after(verb, rest, || Object::new().text("text", &metrics(store).prometheus()).end())
        }
        "space" => Ok(costs::measure_space(store, &*keyspace(store, rest)?)?.to_json()),
        "events" => nothing_after(verb, rest, || {
            let (events, _) = store.journal.events_from(0);
            Object::new().raw("events", list(events.iter().map(ToString::to_string))).end()
        }),
        "audit-deletes" => nothing_after(verb, rest, || audit::deletes_json(store)),
        "slow" => nothing_after(verb, rest, || slow(store)),
        "properties" => Ok(all_properties(store, &*keyspace(store, rest)?)),
        "levels" => level_report::report(store, &*keyspace(store, rest)?),
        "explain" => explanation(store, &*keyspace(store, rest)?),
        "decisions" => decisions(store, rest),
        "decision" => {
            let id =
                rest.parse().map_err(|_| Error::invalid("the form is `decision JOB`, a job's number"))?;
            let found = store.decisions.find(JobId(id)).map(|decision| decision.to_json());
            found.ok_or_else(|| {
                Error::invalid(format!(
                    "no decision about job {id} is remembered; `keel explain` lists the last"
                ))
            })
        }
        "strategy" => Ok(strategy(&*keyspace(store, rest)?)),
        "strategy-cost" | "set-strategy" => {
            let (name, text) = split(rest);
            let keyspace = keyspace(store, name)?;
            if text.is_empty() {
                return Err(Error::invalid(format!("the form is `{verb} KEYSPACE STRATEGY`")));
            }
            let cost = strategies::cost(store, &keyspace, text)?;
            if verb == "set-strategy" {
                strategies::set(store, &keyspace, text)?;
            }
            let object = Object::new().text("keyspace", &keyspace.name).text("text", text);
            Ok(cost.to_json(object).end())
        }
        "schedule" => nothing_after(verb, rest, || schedule(store)),
        "options" => nothing_after(verb, rest, || options(&store.options.load())),
        "keyspaces" => nothing_after(verb, rest, || {
            let keyspaces = store.keyspaces.load();
            Object::new().raw("keyspaces", list(keyspaces.by_name.keys().map(|name| quoted(name)))).end()
        }),
        "set-schedule" => {
            if rest.is_empty() {
                return Err(Error::invalid("the form is `set-schedule SCHEDULE`"));
            }
            in_force::change(store, "schedule", rest)?;
            Ok(schedule(store))
        }
        "set-option" => {
            let (name, value) = split(rest);
            if value.is_empty() {
                return Err(Error::invalid("the form is `set-option OPTION VALUE`"));
            }
            set_option(store, &unescape(name)?, value)?;
            Ok(options(&store.options.load()))
        }
        "trace" => Err(Error::invalid(TRACE_FORM)),
        #[cfg(test)]
        "panic" => panic!("asked for by a test"),
        _ => Err(Error::invalid(format!("there is no question `{verb}`; there are: {VERBS}"))),
    }
}

/// Begins the trace that the arguments of `trace` ask for.
///
/// # Errors
/// `InvalidArgument` for arguments that are none, and as `trace::start`.
pub fn start_trace(store: &Arc<Store>, arguments: &str) -> Result<Arc<Recording>> {
    let (keys, path) = split(arguments.trim());
    let keys = match keys {
        "plain" => Keys::Plain,
        "hashed" => Keys::Hashed,
        _ => return Err(Error::invalid(TRACE_FORM)),
    };
    let path = PathBuf::from(unescape(path)?);
    // Whoever asks has another working directory.
    if !path.is_absolute() {
        return Err(Error::invalid(TRACE_FORM));
    }
    trace::start(store, &path, keys)
}

fn split(line: &str) -> (&str, &str) {
    let (first, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    (first, rest.trim())
}

fn nothing_after(verb: &str, rest: &str, answer: impl FnOnce() -> String) -> Result<String> {
    if rest.is_empty() {
        Ok(answer())
    } else {
        Err(Error::invalid(format!("`{verb}` takes nothing after it")))
    }
}

/// The keyspace of an argument; the default one if it is empty.
fn keyspace(store: &Store, argument: &str) -> Result<Arc<KeyspaceState>> {
    let name = if argument.is_empty() { DEFAULT_NAME.to_owned() } else { unescape(argument)? };
    let found = store.keyspaces.load().by_name.get(&name).cloned();
    found.ok_or_else(|| Error::invalid(format!("there is no keyspace `{name}`")))
}

/// An argument with its `%NN` read.
fn unescape(text: &str) -> Result<String> {
    let wrong = || Error::invalid(format!("`{text}` is no argument: a `%` is written %25, a blank %20"));
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(wrong)?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| wrong())
}

fn all_properties(store: &Store, keyspace: &KeyspaceState) -> String {
    let metrics = metrics(store);
    let object = properties::list().fold(Object::new(), |object, (name, _)| {
        match properties::property(&metrics, &keyspace.name, &name) {
            Some(value) => object.text(&name, &value),
            None => object,
        }
    });
    let levels = keyspace.view.load().version.levels.len();
    (0..levels)
        .map(|level| format!("evenkeel.num-files-at-level{level}"))
        .fold(object, |object, name| {
            let value = properties::property(&metrics, &keyspace.name, &name).unwrap_or_default();
            object.text(&name, &value)
        })
        .end()
}

fn explanation(store: &Store, keyspace: &KeyspaceState) -> Result<String> {
    let lines = explain::lines(&explain::gather(store, keyspace)?);
    Ok(Object::new().text("keyspace", &keyspace.name).raw("lines", texts(&lines)).end())
}

/// The last decisions about a keyspace: its name and how many, each with words of it.
fn decisions(store: &Store, arguments: &str) -> Result<String> {
    let (name, n) = split(arguments);
    let n = if n.is_empty() { Ok(DECISIONS) } else { n.parse() };
    let n = n.map_err(|_| Error::invalid("the form is `decisions KEYSPACE NUMBER`"))?;
    let found = store.decisions.last(keyspace(store, name)?.id, n);
    let lines: Vec<String> = found.iter().map(Decision::line).collect();
    let all = list(found.iter().map(Decision::to_json));
    Ok(Object::new().raw("decisions", all).raw("lines", texts(&lines)).end())
}

fn texts(lines: &[String]) -> String {
    list(lines.iter().map(|line| quoted(line)))
}

fn slow(store: &Store) -> String {
    let (seconds, last) = (store.slow.seconds(), store.slow.last(usize::MAX));
    let threshold = store.slow.threshold_us();
    let lines = match store.read_only {
        true => slow_report::nothing_of_a_store_at_rest(),
        false => slow_report::lines(&seconds, &last, threshold, store.clock.wall_ms() / 1000),
    };
    let object = Object::new().raw("threshold_us", threshold).raw("lines", texts(&lines));
    let seconds = list(seconds.iter().filter(|s| s.operations > 0).map(second_json));
    let last = last.iter().skip(last.len().saturating_sub(OPERATIONS_MAX)).map(|op| {
        let object = Object::new().raw("ended_ms", op.ended_ms).text("op", op.op.name());
        object.raw("micros", causes(op.nanos)).raw("block_reads", op.block_reads).end()
    });
    object.raw("seconds", seconds).raw("last", list(last)).end()
}

fn second_json(second: &Second) -> String {
    let a = &second.around;
    let around = Object::new().raw("client_bytes", a.client_bytes).raw("wal_bytes", a.wal_bytes);
    let around = around.raw("flush_bytes", a.flush_bytes).raw("compaction_bytes", a.compaction_bytes);
    let around = around.raw("cache_misses", a.cache_misses).raw("l0_runs", a.l0_runs);
    let around = around.raw("background_cpu_micros", a.background_cpu_nanos / 1000);
    let object = Object::new().raw("at", second.at).raw("operations", second.operations);
    object.raw("micros", causes(second.nanos)).raw("around", around.end()).end()
}

fn causes(nanos: [u64; 5]) -> String {
    Cause::ALL.iter().zip(nanos).fold(Object::new(), |o, (cause, n)| o.raw(cause.name(), n / 1000)).end()
}

fn strategy(keyspace: &KeyspaceState) -> String {
    Object::new().text("keyspace", &keyspace.name).text("text", &keyspace.strategy.load().text).end()
}

fn options(options: &Options) -> String {
    let defaults = Options::default();
    let rows = Options::names().iter().map(|row| {
        let (value, default) = (row.value(options), row.value(&defaults));
        let object = Object::new().text("name", row.name).text("value", &value).text("default", &default);
        object.raw("live", row.live).text("what", row.what).end()
    });
    Object::new().raw("options", list(rows)).end()
}

fn schedule(store: &Store) -> String {
    let used = usage_by_all(store);
    let now = schedule_report::schedule(store, &store.background.lock(), used);
    let limit = Some(now.limit_bytes_per_sec).filter(|rate| *rate > 0);
    let limit = limit.map_or("null".to_owned(), |rate| rate.to_string());
    let note = schedule_report::note(store).map_or_else(|| "null".to_owned(), |note| quoted(&note));
    let object = Object::new().text("text", &now.name).raw("limit_bytes_per_sec", limit);
    object.raw("note", note).raw("now", now.to_json()).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_hold_any_text() {
        assert_eq!(unescape("a%20b%25%C3%A9é").unwrap(), "a b%éé");
        for text in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert_eq!(unescape(text).unwrap_err().kind(), "InvalidArgument", "{text}");
        }
    }

    #[test]
    fn an_error_is_an_answer() {
        let json = error_json(&Error::invalid("no \"such\" thing"));
        assert_eq!(json, r#"{"error":{"kind":"InvalidArgument","message":"no \"such\" thing"}}"#);
    }
}
