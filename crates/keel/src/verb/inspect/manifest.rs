//! `keel inspect manifest`: the changes of a store in words, and the trees they lead to.

use std::path::Path;
use std::sync::Arc;

use evenkeel::Error;
use evenkeel::fs::{DiskFileSystem, FileSystem};
use evenkeel::inspect::{ManifestItem, ManifestReport, manifest};
use evenkeel_lab::results::report;
use serde_json::{Value, json};

use super::{Sink, damage_json, damage_lines, shown, tail_json, tail_text};
use crate::failure::Failure;

/// Shows a manifest, and answers what is damaged.
pub fn show(sink: &mut Sink, file: &Path) -> Result<Vec<Error>, Failure> {
    let fs: Arc<dyn FileSystem> = Arc::new(DiskFileSystem::new());
    let walked = manifest(&fs, file, &shown, &mut |item| sink.put(|| item_text(item), || item_json(item)));
    let report = sink.outcome(walked)?;
    sink.summary(|| summary_text(file, &report), || summary_json(&report))?;
    Ok(report.damage)
}

fn item_text(item: &ManifestItem) -> String {
    let words: String = item.words.iter().map(|line| format!("\n  {line}")).collect();
    format!(
        "record at {:>8}  {:>6} B  last sequence {}, logs from {:06} on{words}",
        item.offset, item.bytes, item.last_seq, item.wal_from
    )
}

fn item_json(item: &ManifestItem) -> Value {
    json!({
        "type": "record", "offset": item.offset, "bytes": item.bytes, "changes": item.words,
        "last_sequence": item.last_seq, "wal_from": item.wal_from,
    })
}

fn summary_text(file: &Path, report: &ManifestReport) -> String {
    let number = report.header.as_ref().map_or_else(|| "?".to_owned(), |header| header.id.to_string());
    let mut lines = vec![format!("manifest {number}  {}", file.display())];
    lines.push(format!(
        "  file          {}, {} {}",
        report::bytes(report.file_bytes),
        report::count(report.records),
        if report.records == 1 { "record" } else { "records" },
    ));
    lines.push(format!(
        "  logs          needed from {:06} on; last sequence recorded {}",
        report.wal_from, report.last_seq
    ));
    if report.damage.is_empty() {
        lines.push(format!("  end           {}", tail_text(report.tail)));
    }
    for keyspace in &report.keyspaces {
        lines.push(format!(
            "\nkeyspace {} `{}`: {} {}, {}, flushed through sequence {}",
            keyspace.id,
            keyspace.name,
            report::count(keyspace.tables),
            if keyspace.tables == 1 { "table" } else { "tables" },
            report::bytes(keyspace.bytes),
            keyspace.flushed_through,
        ));
        lines.push(keyspace.picture.trim_end().to_owned());
    }
    format!("{}{}", lines.join("\n"), damage_lines(&report.damage))
}

fn summary_json(report: &ManifestReport) -> Value {
    let keyspaces: Vec<Value> = report
        .keyspaces
        .iter()
        .map(|k| {
            json!({
                "id": k.id, "name": k.name, "flushed_through": k.flushed_through, "tables": k.tables,
                "bytes": k.bytes, "picture": k.picture,
            })
        })
        .collect();
    json!({
        "type": "manifest", "file_bytes": report.file_bytes, "id": report.header.as_ref().map(|h| h.id),
        "records": report.records, "last_sequence": report.last_seq, "wal_from": report.wal_from,
        "keyspaces": keyspaces, "tail": tail_json(report.tail), "damage": damage_json(&report.damage),
    })
}
