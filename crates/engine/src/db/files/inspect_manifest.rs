//! One manifest by itself, for people and tools: its records in words, and the trees that they add up to.
//!
//! A record that does not fit the trees before it is damage, and is left out of them; the words of the others are shown.

use std::path::Path;
use std::sync::Arc;

use super::inspect_log::{no_header, open_log};
use crate::base::error::{Error, Result};
use crate::observe::words::count;
use crate::storage::file_system::FileSystem;
use crate::storage::record::{LogHeader, LogKind};
use crate::storage::record_reader::{RecordReader, Tail};
use crate::version::edit::{EditStep, RunPlace, VersionEdit};
use crate::version::manifest::ManifestRecord;
use crate::version::picture::{bytes_for_people, draw, summarise};
use crate::version::version_set::VersionSet;

/// Trees of more tables are summarised, not drawn.
const DRAWN_TABLES_MAX: usize = 64;

/// What a manifest holds.
#[derive(Clone, Debug, Default)]
pub struct ManifestReport {
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// Its header; `None` if it cannot be read.
    pub header: Option<LogHeader>,
    /// Records read.
    pub records: u64,
    /// Every sequence number up to here was given out.
    pub last_seq: u64,
    /// Logs with a lower number are no longer needed.
    pub wal_from: u64,
    /// By keyspace its number, its name, up to which sequence its writes are in tables, its tables, their bytes, and its tree as a
    /// picture.
    pub keyspaces: Vec<ManifestKeyspace>,
    /// How it ends; `None` if damage keeps that from being told.
    pub tail: Option<Tail>,
    /// What is damaged.
    pub damage: Vec<Error>,
}

/// A keyspace as the manifest leaves it.
#[derive(Clone, Debug, Default)]
pub struct ManifestKeyspace {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its writes up to this sequence number are in tables.
    pub flushed_through: u64,
    /// Its tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its tree.
    pub picture: String,
}

/// A record, one change of the store.
#[derive(Clone, Debug)]
pub struct ManifestItem {
    /// Where it begins.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// What it changes, a line each.
    pub words: Vec<String>,
    /// Every sequence number up to here was given out before it.
    pub last_seq: u64,
    /// Logs with a lower number are no longer needed.
    pub wal_from: u64,
}

/// Reads the manifest at `path` and tells `see` of its records. `key` prints a key for the words.
///
/// # Errors
/// `Io` if it cannot be opened, `Unsupported` for a newer format, `InvalidArgument` if it is a write-ahead log, and what `see`
/// returns. Damage is in the report.
pub fn manifest(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    key: &dyn Fn(&[u8]) -> String,
    see: &mut dyn FnMut(&ManifestItem) -> Result<()>,
) -> Result<ManifestReport> {
    let file = fs.open(path)?;
    let mut report = ManifestReport { file_bytes: file.len(), ..ManifestReport::default() };
    let mut versions = VersionSet::empty(Arc::clone(fs), path.parent().unwrap_or(path));
    let outcome = open_log(&file, path, LogKind::Manifest, u32::MAX).and_then(|mut reader| {
        report.header = reader.header().cloned();
        while let Some(record) = reader.next()? {
            report.records += 1;
            let (offset, bytes) = (record.offset, record.payload.len() as u64);
            let decoded = ManifestRecord::decode(record.payload);
            let record = match decoded {
                Ok(record) => record,
                Err(what) => {
                    report.damage.push(Error::corruption(path, offset, what.to_string()));
                    continue;
                }
            };
            let words = words(&record, key);
            see(&ManifestItem {
                offset,
                bytes,
                words,
                last_seq: record.last_seq.0,
                wal_from: record.wal_from,
            })?;
            if let Err(error) = versions.apply_unrecorded(&record) {
                report.damage.push(Error::corruption(path, offset, error.to_string()));
            }
        }
        report.tail = reader.tail();
        report.damage.extend(cut_short(path, &reader, report.records));
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(error @ Error::Corruption { .. }) => report.damage.push(error),
        Err(error) => return Err(error),
    }
    report.last_seq = versions.last_seq().0;
    report.wal_from = versions.wal_from();
    report.keyspaces = versions
        .trees()
        .iter()
        .map(|(id, tree)| {
            let tables = tree.version.tables().count();
            let drawn = tables <= DRAWN_TABLES_MAX;
            ManifestKeyspace {
                id: id.0,
                name: tree.name.clone(),
                flushed_through: tree.flushed_through.0,
                tables: tables as u64,
                bytes: tree.version.tables().map(|(_, table)| table.bytes()).sum(),
                picture: if drawn { draw(&tree.version) } else { summarise(&tree.version) },
            }
        })
        .collect();
    Ok(report)
}

/// What cannot be a crash's doing: CURRENT names a manifest once its first record is on the disk. A later record that is lost is
/// damage if whole ones follow it, and the reader has said so.
fn cut_short(path: &Path, reader: &RecordReader, records: u64) -> Option<Error> {
    if reader.header().is_none() {
        return Some(no_header(path, LogKind::Manifest, reader.behind()));
    }
    match reader.tail() {
        Some(Tail::Torn { offset } | Tail::End { offset }) if records == 0 => {
            Some(Error::corruption(path, offset, "the first record, which holds the trees, is not whole"))
        }
        _ => None,
    }
}

fn words(record: &ManifestRecord, key: &dyn Fn(&[u8]) -> String) -> Vec<String> {
    let mut words = Vec::new();
    for created in &record.created {
        words.push(format!("keyspace {} `{}` comes into being", created.id, created.name));
    }
    for (id, edit) in &record.edits {
        words.extend(edit_words(edit, key).into_iter().map(|line| format!("keyspace {id}: {line}")));
    }
    for id in &record.dropped {
        words.push(format!("keyspace {id} is dropped with all its tables"));
    }
    words
}

fn edit_words(edit: &VersionEdit, key: &dyn Fn(&[u8]) -> String) -> Vec<String> {
    let mut words: Vec<String> = edit.steps.iter().map(|step| step_words(step, key)).collect();
    if let Some(seq) = edit.flushed_through {
        words.push(format!("writes up to sequence {} are in tables", seq.0));
    }
    for (level, at) in &edit.cursors {
        words.push(format!("the cursor of level {level} is at {}", key(at)));
    }
    words
}

fn runs(n: u32) -> String {
    count(n.into(), "run")
}

fn entry_count(n: u64) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") }
}

fn step_words(step: &EditStep, key: &dyn Fn(&[u8]) -> String) -> String {
    match step {
        EditStep::AddLevel { group, run_bound } => {
            format!("a new last level of group {group}, shaped for {}", runs(*run_bound))
        }
        EditStep::RemoveLastLevel => "the last level, which is empty, goes".to_owned(),
        EditStep::InsertLevel { level, group, run_bound } => {
            let runs = runs(*run_bound);
            format!("a new level {level} above what was there, of group {group}, shaped for {runs}")
        }
        EditStep::RemoveLevel { level } => format!("level {level}, which is empty, goes"),
        EditStep::AddRun { level, group, run, place } => {
            let place = match place {
                RunPlace::Newest => "the newest".to_owned(),
                RunPlace::Oldest => "the oldest".to_owned(),
                RunPlace::Above(other) => format!("just newer than run {other}"),
                RunPlace::Below(other) => format!("just older than run {other}"),
            };
            format!("run {run} joins level {level}, group {group}, as {place}")
        }
        EditStep::RemoveRun { run } => format!("run {run}, which is empty, goes"),
        EditStep::AddTable { run, table } => {
            let (meta, id) = (&table.meta, table.id());
            let range = format!("[{} - {}]", key(&meta.smallest), key(&meta.largest));
            let size = bytes_for_people(meta.bytes);
            let consumed = match table.consumed {
                0 => String::new(),
                n => format!(", {n} of them consumed"),
            };
            let entries = entry_count(meta.entries);
            format!("table {id} joins run {run}: {size}, {entries}{consumed}, {range}")
        }
        EditStep::TrimTable { table, bounds, consumed, .. } => {
            format!("table {table} is visible from {} on, {consumed} entries are consumed", key(&bounds.lo))
        }
        EditStep::DropTable { table } => format!("table {table} goes"),
        EditStep::FuseRuns { newer, older } => format!("run {newer} becomes part of run {older}"),
        EditStep::SplitGroup { group, at, new_group, new_run } => {
            format!(
                "group {group} is split at {}: group {new_group} with run {new_run} takes the rest",
                key(at)
            )
        }
        EditStep::MergeGroups { left, right } => format!("group {right} becomes part of group {left}"),
        EditStep::SetRunBound { group, run_bound } => {
            format!("group {group} is shaped for {}", runs(*run_bound))
        }
    }
}
