//! One log file by itself, for people and tools: its header, its records with what they promise, and how it ends.
//!
//! Which log it is comes from its own header, so that a copy under any name can be read. A log ends where recovery would
//! end it: nothing behind a bad record is shown as if it were good.

use std::path::Path;
use std::sync::Arc;

use super::inspect_table::kind_name;
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::observe::words::count as count_of;
use crate::storage::file_name::FileName;
use crate::storage::file_system::{FileSystem, ReadFile};
use crate::storage::record::{FRAME_LEN, LogHeader, LogKind};
use crate::storage::record_reader::{LogToRead, RecordReader, Tail};
use crate::write::batch::{BATCH_BYTES_MAX, decode_batch};

/// A header's payload is shorter than this.
const HEADER_BYTES_MAX: u64 = 4096;

/// What a log file holds.
#[derive(Clone, Debug, Default)]
pub struct LogReport {
    /// The file's length in bytes; a log is made longer than what is in it.
    pub file_bytes: u64,
    /// Its header; `None` if it was never written or cannot be read.
    pub header: Option<LogHeader>,
    /// Records read.
    pub records: u64,
    /// Entries in them.
    pub entries: u64,
    /// First and last sequence number.
    pub seqs: Option<(u64, u64)>,
    /// The highest promise: bytes known to have been synced when a later record was written.
    pub promised: u64,
    /// How it ends; `None` if damage keeps that from being told.
    pub tail: Option<Tail>,
    /// Whole records behind a torn end, which recovery leaves out: where the first is, and how many.
    pub behind: Option<(u64, u64)>,
    /// What is damaged.
    pub damage: Vec<Error>,
}

/// A record: one write batch.
#[derive(Clone, Debug)]
pub struct LogRecord<'a> {
    /// Where it begins.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// Sequence number of its first entry, and of its last.
    pub seqs: (u64, u64),
    /// The highest promise up to this record.
    pub promised: u64,
    /// Its entries.
    pub entries: Vec<LogEntry<'a>>,
}

/// An entry of a batch.
#[derive(Clone, Copy, Debug)]
pub struct LogEntry<'a> {
    /// The keyspace's number.
    pub keyspace: u64,
    /// Its kind, in a word.
    pub kind: &'static str,
    /// The key; of a range delete the first.
    pub key: &'a [u8],
    /// The value; empty where the kind has none; of a range delete the first key that stays.
    pub value: &'a [u8],
}

/// Reads the write-ahead log at `path` and tells `see` of its records.
///
/// # Errors
/// `Io` if it cannot be opened, `Unsupported` for a newer format, `InvalidArgument` if it is a manifest, and what `see` returns.
/// Damage is in the report.
pub fn wal(
    fs: &dyn FileSystem,
    path: &Path,
    see: &mut dyn FnMut(&LogRecord<'_>) -> Result<()>,
) -> Result<LogReport> {
    let file = fs.open(path)?;
    let mut report = LogReport { file_bytes: file.len(), ..LogReport::default() };
    let payload_max = (BATCH_BYTES_MAX + 1024) as u32;
    let mut reader = match open_log(&file, path, LogKind::Wal, payload_max) {
        Ok(reader) => reader,
        Err(error) => return damaged(report, error),
    };
    report.header = reader.header().cloned();
    loop {
        let (offset, payload) = match reader.next() {
            Ok(None) => break,
            Ok(Some(record)) => (record.offset, record.payload.to_vec()),
            Err(error) => return damaged(report, error),
        };
        report.promised = reader.promised();
        match decode(offset, &payload, report.promised) {
            Ok(record) => {
                report.records += 1;
                report.entries += record.entries.len() as u64;
                let first = report.seqs.map_or(record.seqs.0, |(first, _)| first);
                report.seqs = Some((first, record.seqs.1));
                see(&record)?;
            }
            Err(what) => report.damage.push(Error::corruption(path, offset, what)),
        }
    }
    report.promised = reader.promised();
    report.tail = reader.tail();
    report.behind = reader.behind();
    if report.header.is_none() && !is_blank(&*file)? {
        report.damage.push(no_header(path, LogKind::Wal, report.behind));
    }
    Ok(report)
}

/// What is said of a file that has bytes, and does not begin with the header of a log.
pub fn no_header(path: &Path, kind: LogKind, behind: Option<(u64, u64)>) -> Error {
    let kind = match kind {
        LogKind::Wal => "log",
        LogKind::Manifest => "manifest",
        LogKind::Trace => "trace",
    };
    Error::corruption(
        path,
        0,
        match behind {
            None => {
                format!("this is no header of a {kind}, and no record of one follows: it may be another file")
            }
            Some((at, count)) => {
                let records = count_of(count, "whole record");
                format!("the header of the {kind} is damaged; {records} of it follow, the first at byte {at}")
            }
        },
    )
}

/// True if the file holds nothing but zeros: it was made, and never written to.
fn is_blank(file: &dyn ReadFile) -> Result<bool> {
    let mut piece = vec![0; 64 << 10];
    let mut at = 0;
    while at < file.len() {
        let part = piece.len().min((file.len() - at) as usize);
        let Some(part) = piece.get_mut(..part) else { break };
        file.read_at(at, part, IoClass::Client)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}

/// Damage belongs into the report; everything else is an error.
fn damaged(mut report: LogReport, error: Error) -> Result<LogReport> {
    match error {
        Error::Corruption { .. } => {
            report.damage.push(error);
            Ok(report)
        }
        other => Err(other),
    }
}

fn decode(offset: u64, payload: &[u8], promised: u64) -> Result<LogRecord<'_>, &'static str> {
    let (first, batch) = decode_batch(payload).ok_or("a batch is cut short")?;
    let entries: Option<Vec<LogEntry<'_>>> = batch
        .map(|entry| {
            let entry = entry?;
            let kind = kind_name(Some(entry.kind));
            Some(LogEntry { keyspace: entry.keyspace.0, kind, key: entry.key, value: entry.value })
        })
        .collect();
    let entries = entries.ok_or("a batch is malformed")?;
    let last = first.0.saturating_add((entries.len() as u64).saturating_sub(1));
    Ok(LogRecord { offset, bytes: payload.len() as u64, seqs: (first.0, last), promised, entries })
}

/// Opens a record log that says itself which one it is.
///
/// # Errors
/// `InvalidArgument` if it is a log of another kind.
pub fn open_log(
    file: &Arc<dyn ReadFile>,
    path: &Path,
    kind: LogKind,
    payload_max: u32,
) -> Result<RecordReader> {
    let header = read_header(file)?;
    if let Some(other) = header.as_ref().filter(|header| header.kind != kind) {
        let is = match other.kind {
            LogKind::Wal => "a write-ahead log; use `inspect wal`",
            LogKind::Manifest => "a manifest; use `inspect manifest`",
            LogKind::Trace => "a trace; use `trace show`",
        };
        return Err(Error::invalid(format!("{} is {is}", path.display())));
    }
    let named = path.file_name().and_then(|name| FileName::parse(name.to_str()?)?.number());
    let id = header.map(|header| header.id).or(named).unwrap_or_default();
    let log = LogToRead { kind, id, promised: 0, payload_max, class: IoClass::Client };
    RecordReader::open(Arc::clone(file), log)
}

/// What the first bytes say the log is, unchecked; the reader then checks them against it.
fn read_header(file: &Arc<dyn ReadFile>) -> Result<Option<LogHeader>> {
    let mut bytes = vec![0; file.len().min(HEADER_BYTES_MAX) as usize];
    file.read_at(0, &mut bytes, IoClass::Client)?;
    let len =
        bytes.get(8..12).and_then(|word| word.first_chunk()).map(|word| u32::from_le_bytes(*word) as usize);
    let payload = len.and_then(|len| bytes.get(FRAME_LEN..FRAME_LEN.checked_add(len)?));
    Ok(payload.and_then(|payload| LogHeader::decode(payload).ok()))
}
