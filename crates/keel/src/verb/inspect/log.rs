//! `keel inspect wal`: the records of a write-ahead log with what they promise, and how it ends.

use std::path::Path;

use evenkeel::Error;
use evenkeel::fs::DiskFileSystem;
use evenkeel::inspect::{LogEntry, LogHeader, LogRecord, LogReport, wal};
use evenkeel_lab::results::report;
use serde_json::{Map, Value, json};

use super::{Sink, behind_text, damage_json, damage_lines, entry_text, put_bytes, tail_json, tail_text};
use crate::failure::Failure;

/// Shows a log, and answers what is damaged.
pub fn show(sink: &mut Sink, file: &Path, entries: bool) -> Result<Vec<Error>, Failure> {
    let walked = wal(&DiskFileSystem::new(), file, &mut |record| {
        sink.put(|| record_text(record, entries), || record_json(record, entries))
    });
    let report = sink.outcome(walked)?;
    sink.summary(|| summary_text(file, &report), || summary_json(&report))?;
    Ok(report.damage)
}

fn record_text(record: &LogRecord<'_>, entries: bool) -> String {
    let (first, last) = record.seqs;
    let noun = if record.entries.len() == 1 { "entry" } else { "entries" };
    let sequences =
        if first == last { format!("sequence {first}") } else { format!("sequences {first} .. {last}") };
    let mut text = format!(
        "record at {:>10} {:>9} B  {sequences}, {} {noun}",
        record.offset,
        record.bytes,
        record.entries.len(),
    );
    if record.promised > 0 {
        text += &format!(", synced below {}", record.promised);
    }
    if entries {
        for (entry, seq) in record.entries.iter().zip(first..) {
            text += &format!(
                "\n  {seq:>12} keyspace {} {}",
                entry.keyspace,
                entry_text(entry.kind, entry.key, entry.value)
            );
        }
    }
    text
}

fn record_json(record: &LogRecord<'_>, entries: bool) -> Value {
    let mut object = json!({
        "type": "record", "offset": record.offset, "bytes": record.bytes, "sequence_first": record.seqs.0,
        "sequence_last": record.seqs.1, "promised": record.promised, "entries": record.entries.len(),
    });
    if entries {
        let one = |entry: &LogEntry<'_>| {
            let mut object = Map::new();
            object.insert("keyspace".to_owned(), entry.keyspace.into());
            object.insert("kind".to_owned(), entry.kind.into());
            put_bytes(&mut object, "key", entry.key);
            put_bytes(&mut object, "value", entry.value);
            Value::from(object)
        };
        object["batch"] = record.entries.iter().map(one).collect();
    }
    object
}

fn summary_text(file: &Path, report: &LogReport) -> String {
    let number = report.header.as_ref().map_or_else(|| "?".to_owned(), |header| header.id.to_string());
    let mut lines = vec![format!("log {number}  {}", file.display())];
    lines.push(format!("  file          {}", report::bytes(report.file_bytes)));
    lines.push(match &report.header {
        None if report.damage.is_empty() => "  header        none: nothing was ever written to it".to_owned(),
        None => "  header        none".to_owned(),
        Some(header) => format!("  header        {}", header_text(header)),
    });
    let seqs = report.seqs.map_or_else(String::new, |(first, last)| format!(", sequences {first} .. {last}"));
    lines.push(format!(
        "  records       {} with {} {}{seqs}",
        report::count(report.records),
        report::count(report.entries),
        if report.entries == 1 { "entry" } else { "entries" },
    ));
    lines.push(format!("  synced below  {} at least", report.promised));
    // Without a header nothing of it is a log.
    if report.header.is_some() || report.damage.is_empty() {
        lines.push(format!("  end           {}{}", tail_text(report.tail), behind_text(report.behind)));
    }
    format!("{}{}", lines.join("\n"), damage_lines(&report.damage))
}

fn header_text(header: &LogHeader) -> String {
    let before = match header.predecessor {
        None => "begins a chain".to_owned(),
        Some(before) => match before.sealed_len {
            Some(len) => format!("follows log {}, sealed at {len}", before.id),
            None => format!("follows log {}, which was still being synced", before.id),
        },
    };
    format!("{before}; first sequence {}", header.first_seq)
}

fn summary_json(report: &LogReport) -> Value {
    let header = report.header.as_ref().map(|header| {
        json!({
            "id": header.id, "first_sequence": header.first_seq, "allocated": header.allocated,
            "predecessor": header.predecessor.map(|p| json!({ "id": p.id, "sealed_len": p.sealed_len })),
        })
    });
    json!({
        "type": "wal", "file_bytes": report.file_bytes, "header": header, "records": report.records,
        "entries": report.entries, "sequence_first": report.seqs.map(|(first, _)| first),
        "sequence_last": report.seqs.map(|(_, last)| last), "promised": report.promised,
        "tail": tail_json(report.tail),
        "behind": report.behind.map(|(at, count)| json!({ "offset": at, "records": count })), "damage": damage_json(&report.damage),
    })
}
