//! `keel inspect table`: facts, sizes and bounds of a table; its blocks and entries where asked for.

use std::path::Path;

use evenkeel::Error;
use evenkeel::fs::DiskFileSystem;
use evenkeel::inspect::{TableItem, TableReport, table};
use evenkeel_lab::results::report;
use serde_json::{Map, Value, json};

use super::{Sink, damage_json, damage_lines, entry_text, put_bytes, shown};
use crate::failure::Failure;

/// Shows a table, and answers what is damaged.
pub fn show(sink: &mut Sink, file: &Path, blocks: bool, entries: bool) -> Result<Vec<Error>, Failure> {
    let walked = table(&DiskFileSystem::new(), file, &mut |item| {
        match item {
        TableItem::Block { offset, bytes, unpacked, codec, entries, first } if blocks => sink.put(
            || format!("block at {offset:>10}  {bytes:>8} B  {unpacked:>8} B unpacked  {codec:<5}  {entries:>6} entries from {}", shown(first)),
            || {
                let mut object = Map::new();
                object.insert("type".to_owned(), "block".into());
                for (name, n) in [("offset", offset), ("bytes", bytes.into()), ("unpacked_bytes", unpacked), ("entries", entries)] {
                    object.insert(name.to_owned(), n.into());
                }
                object.insert("codec".to_owned(), codec.into());
                put_bytes(&mut object, "first", first);
                object.into()
            },
        ),
        TableItem::Entry { key, seq, kind, value } if entries => sink.put(
            || format!("{seq:>12} {}", entry_text(kind, key, value)),
            || {
                let mut object = Map::new();
                object.insert("type".to_owned(), "entry".into());
                object.insert("sequence".to_owned(), seq.into());
                object.insert("kind".to_owned(), kind.into());
                put_bytes(&mut object, "key", key);
                put_bytes(&mut object, "value", value);
                object.into()
            },
        ),
        _ => Ok(()),
    }
    });
    let report = sink.outcome(walked)?;
    sink.summary(|| summary_text(file, &report), || summary_json(&report))?;
    Ok(report.damage)
}

fn summary_text(file: &Path, report: &TableReport) -> String {
    let mut lines = Vec::new();
    let id = report.ids.map_or_else(|| "?".to_owned(), |(id, _)| id.to_string());
    lines.push(format!("table {id}  {}", file.display()));
    let unique = report.ids.map_or_else(String::new, |(_, unique)| format!(", unique id {unique:016x}"));
    lines.push(format!("  file          {}{unique}", report::bytes(report.file_bytes)));
    if let Some(facts) = &report.properties {
        lines.push(format!("  first key     {}", shown(&facts.smallest)));
        lines.push(format!("  last key      {}", shown(&facts.largest)));
        lines.push(format!(
            "  entries       {} of {} keys; {} deletes, {} range deletes",
            report::count(facts.entries),
            report::count(facts.keys),
            report::count(facts.tombstones),
            report::count(facts.range_tombstones),
        ));
        lines.push(format!("  sequences     {} .. {}", facts.seqs.0.0, facts.seqs.1.0));
        let born = format!("{:?}", facts.born).to_lowercase();
        lines.push(format!("  made          by a {born} at {}", report::moment(facts.created_ms)));
        if let Some(ms) = facts.oldest_tombstone_ms {
            lines.push(format!("  oldest delete {}", report::moment(ms)));
        }
    }
    if report.partitions > 0 {
        let ratio = report.unpacked_bytes as f64 / report.data_bytes.max(1) as f64;
        let codecs: Vec<String> =
            report.codecs.iter().map(|(name, n)| format!("{name} {}", report::count(*n))).collect();
        lines.push(format!(
            "  data          {} blocks, {}, {} unpacked ({ratio:.2}x)",
            report::count(report.blocks),
            report::bytes(report.data_bytes),
            report::bytes(report.unpacked_bytes),
        ));
        if !codecs.is_empty() {
            lines.push(format!("  by codec      {}", codecs.join(", ")));
        }
        lines.push(format!(
            "  index         {}, partitions {}",
            report::bytes(report.index_bytes),
            report::count(report.partitions),
        ));
        // Of entries that cannot be read no share can be told.
        let of = report.properties.as_ref().map_or(report.entries, |facts| facts.entries);
        let bits = report.filter_bytes as f64 * 8.0 / of.max(1) as f64;
        lines.push(match report.filter_bytes {
            0 => "  filter        none".to_owned(),
            bytes if of == 0 => format!("  filter        {}", report::bytes(bytes)),
            bytes => format!("  filter        {} ({bits:.1} bits an entry)", report::bytes(bytes)),
        });
    }
    format!("{}{}", lines.join("\n"), damage_lines(&report.damage))
}

fn summary_json(report: &TableReport) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("type", "table".into());
    put("file_bytes", report.file_bytes.into());
    put("id", report.ids.map(|(id, _)| id).into());
    put("unique_id", report.ids.map(|(_, unique)| format!("{unique:016x}")).into());
    put("partitions", report.partitions.into());
    put("blocks", report.blocks.into());
    put("entries", report.entries.into());
    put("data_bytes", report.data_bytes.into());
    put("unpacked_bytes", report.unpacked_bytes.into());
    put("index_bytes", report.index_bytes.into());
    put("range_bytes", report.range_bytes.into());
    put("filter_bytes", report.filter_bytes.into());
    put("codecs", json!(report.codecs));
    put("damage", damage_json(&report.damage));
    if let Some(facts) = &report.properties {
        let mut properties = Map::new();
        put_bytes(&mut properties, "smallest", &facts.smallest);
        put_bytes(&mut properties, "largest", &facts.largest);
        let numbers = [
            ("entries", facts.entries),
            ("keys", facts.keys),
            ("tombstones", facts.tombstones),
            ("range_tombstones", facts.range_tombstones),
            ("dense_blocks", facts.dense_blocks),
            ("sequence_first", facts.seqs.0.0),
            ("sequence_last", facts.seqs.1.0),
            ("created_ms", facts.created_ms),
        ];
        numbers.iter().for_each(|(name, n)| drop(properties.insert((*name).to_owned(), (*n).into())));
        properties.insert("oldest_tombstone_ms".to_owned(), facts.oldest_tombstone_ms.into());
        properties.insert("born".to_owned(), format!("{:?}", facts.born).to_lowercase().into());
        object.insert("properties".to_owned(), properties.into());
    }
    object.into()
}
