//! Events for programs: `{"time_micros":...,"event":"flush_finished","keyspace":"default",...}`. Names and fields are stable;
//! where RocksDB's event log has a word for the same thing, it is that word.

use super::event::Event;
use super::json::{Object, list, quoted};
use super::waits::Cause;

/// One line. `keyspace` is the name of the keyspace that the event is about.
pub fn event_json(event: &Event, keyspace: Option<&str>, wall_ms: u64) -> String {
    let object = Object::new().raw("time_micros", wall_ms.saturating_mul(1000)).text("event", name(event));
    let object = match keyspace {
        Some(name) => object.text("keyspace", name),
        None => object,
    };
    fields(object, event).end()
}

/// The stable name.
pub fn name(event: &Event) -> &'static str {
    match event {
        Event::Opened { .. } => "opened",
        Event::Closed { .. } => "closed",
        Event::FlushBegun { .. } => "flush_started",
        Event::Flushed { .. } => "flush_finished",
        Event::CompactionPicked { .. } => "compaction_started",
        Event::CompactionEnded { .. } => "compaction_finished",
        Event::Moved { .. } => "trivial_move",
        Event::Regrouped { .. } => "groups_changed",
        Event::Covered { .. } => "tables_covered",
        Event::Committed { .. } => "compaction_committed",
        Event::Yielded { .. } => "compaction_yielded",
        Event::Discarded { .. } => "compaction_discarded",
        Event::LoadChanged { .. } => "load_changed",
        Event::BurstBegun { .. } => "burst_started",
        Event::Preempted { .. } => "compaction_preempted",
        Event::Resumed { .. } => "compaction_resumed",
        Event::Refused { .. } => "compaction_refused",
        Event::Stalling { .. } => "write_stall",
        Event::Stopping { .. } => "write_stop",
        Event::Loaded { .. } => "bulk_load_finished",
        Event::DirectRefused { .. } => "direct_io_refused",
        Event::StrategyChanged { .. } => "strategy_changed",
        Event::DeadlineTooShort { .. } => "deadline_too_short",
        Event::OptionChanged { .. } => "option_changed",
        Event::SlowOperations { .. } => "slow_operations",
        Event::NotWritten { .. } => "not_written",
        Event::DeviceTooSlow { .. } => "device_too_slow",
        Event::Untold { .. } => "events_untold",
        Event::TornTail { .. } => "torn_tail",
        Event::BackgroundError { .. } => "background_error",
    }
}

fn fields(object: Object, event: &Event) -> Object {
    match event {
        Event::Opened { sequence, tables, bytes, logs, micros } => {
            let object = object.raw("sequence", sequence).raw("tables", tables).raw("bytes", bytes);
            object.raw("logs", logs).raw("micros", micros)
        }
        Event::Closed { clean } => object.raw("clean", clean),
        Event::FlushBegun { reason, bytes, .. } => object.text("reason", reason).raw("bytes", bytes),
        Event::Flushed { tables, bytes, micros, .. } => {
            let tables = list(tables.iter().map(ToString::to_string));
            object.raw("tables", tables).raw("bytes", bytes).raw("micros", micros)
        }
        Event::CompactionPicked { job, class, reason, score, bytes, predicted_bytes, rejected, .. } => {
            let object = object.raw("job", job).text("class", &class.to_string());
            let object = object.text("reason", reason).fraction("score", *score).raw("bytes", bytes);
            let rejected = list(rejected.iter().map(|words| quoted(words)));
            object.raw("predicted_bytes", predicted_bytes).raw("rejected", rejected)
        }
        Event::CompactionEnded { job, class, levels, bytes_read, bytes_written, micros, yielded, .. } => {
            let object = object.raw("job", job).text("class", &class.to_string());
            let object = object.raw("level", levels.0).raw("output_level", levels.1);
            let object = object.raw("bytes_read", bytes_read).raw("bytes_written", bytes_written);
            object.raw("micros", micros).raw("yielded", yielded)
        }
        Event::Moved { job, reason, bytes, .. } => {
            object.raw("job", job).text("reason", reason).raw("bytes", bytes)
        }
        Event::Regrouped { splits, joins, to_hot, to_cold, .. } => {
            let object = object.raw("splits", splits).raw("joins", joins);
            object.raw("turned_hot", to_hot).raw("turned_cold", to_cold)
        }
        Event::Covered { tables, bytes, .. } => {
            object.raw("tables", list(tables.iter().map(ToString::to_string))).raw("bytes", bytes)
        }
        Event::Committed { job, tables, prefix } => {
            let tables = list(tables.iter().map(ToString::to_string));
            object.raw("job", job).raw("tables", tables).raw("prefix", prefix)
        }
        Event::Yielded { job } | Event::Resumed { job } => object.raw("job", job),
        Event::LoadChanged { high, client_bytes_per_sec } => {
            let load = if *high { "high" } else { "low" };
            object.text("load", load).raw("client_bytes_per_sec", client_bytes_per_sec)
        }
        Event::BurstBegun { whole, .. } => object.text("phase", if *whole { "whole" } else { "part" }),
        Event::Preempted { job, by } => object.raw("job", job).text("by", by.word()),
        Event::Discarded { job, bytes, why } => {
            object.raw("job", job).raw("bytes", bytes).text("why", why.word())
        }
        Event::Refused { needs_bytes, free_bytes, .. } => {
            object.raw("needs_bytes", needs_bytes).raw("free_bytes", free_bytes)
        }
        Event::Stalling { reason, bytes_per_sec, ends_in, .. } => {
            let ends_in = ends_in.map_or_else(|| "null".to_owned(), |time| time.as_millis().to_string());
            object.text("reason", reason).raw("bytes_per_sec", bytes_per_sec).raw("ends_in_ms", ends_in)
        }
        Event::Stopping { reason } => object.text("reason", reason),
        Event::Loaded { tables, records, bytes, .. } => {
            let tables = list(tables.iter().map(ToString::to_string));
            object.raw("tables", tables).raw("records", records).raw("bytes", bytes)
        }
        Event::DirectRefused { dir } => object.text("dir", dir),
        Event::StrategyChanged { strategy, .. } => object.text("strategy", strategy),
        Event::DeadlineTooShort { ttl_ms, shortest_ms, .. } => {
            object.raw("ttl_ms", ttl_ms).raw("shortest_ms", shortest_ms)
        }
        Event::OptionChanged { name, was, now } => {
            object.text("option", name).text("was", was).text("now", now)
        }
        Event::SlowOperations { count, nanos } => {
            let causes = Cause::ALL.iter().zip(nanos);
            let causes = causes.fold(Object::new(), |o, (cause, n)| o.raw(cause.name(), n / 1000));
            object.raw("count", count).raw("micros", causes.end())
        }
        Event::NotWritten { file, error } => object.text("file", file).text("error", error),
        Event::DeviceTooSlow { bytes_per_sec, gone_by, error } => {
            object.raw("bytes_per_sec", bytes_per_sec).raw("gone_by", gone_by).text("error", error)
        }
        Event::Untold { count } => object.raw("count", count),
        Event::TornTail { file, offset } => object.text("file", file).raw("offset", offset),
        Event::BackgroundError { error } => object.text("error", error),
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
