//! Reading a record log back, whatever a crash or rot has made of it (`docs/durability.md`, C11).
//!
//! ```text
//! header | record | record | BAD ...... record (promise) ......
//!                            ▲ below a promise: Corruption     ▲ at or beyond every promise: a torn tail, stop at BAD
//! ```
//!
//! A promise is an offset below which everything was durable, so damage there is no crash's doing. Promises come from
//! the records (also from those behind the damage, which a search by tag finds), from a seal, and from the caller, who
//! knows the length that the successor's header states. Memory is bounded by the largest record allowed, and by the
//! file; no length is believed before it is compared with both.

use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::random::mix;
use crate::storage::file_system::ReadFile;
use crate::storage::record::{
    FRAME_LEN, Frame, HeaderError, LogHeader, LogKind, RecordKind, TAG_AT, tag_matches_at,
};

/// Bytes read at a time.
const WINDOW: u64 = 64 << 10;

/// What the caller knows of a log before reading it.
#[derive(Clone, Copy, Debug)]
pub struct LogToRead {
    /// What it should hold.
    pub kind: LogKind,
    /// Its id; records of another log count as garbage.
    pub id: u64,
    /// The length to which it is known to have been durable: what its successor's header states, else 0.
    pub promised: u64,
    /// The longest payload there can be. Must not be less than what the writer allowed.
    pub payload_max: u32,
    /// Whose reads these are.
    pub class: IoClass,
}

/// A record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins.
    pub offset: u64,
    /// What was appended.
    pub payload: &'a [u8],
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Ended cleanly, with this length; nothing of it is missing.
    Sealed {
        /// The length, the seal included.
        len: u64,
    },
    /// A record at this offset is broken, as a crash leaves one; it and what follows never happened.
    Torn {
        /// The log's good length.
        offset: u64,
    },
    /// No record follows; the log was not sealed.
    End {
        /// The log's good length.
        offset: u64,
    },
}

#[cfg(test)]
impl Tail {
    /// Bytes of the log that are good.
    pub fn good_len(self) -> u64 {
        match self {
            Tail::Sealed { len } => len,
            Tail::Torn { offset } | Tail::End { offset } => offset,
        }
    }
}

/// Reads a log from its start.
#[derive(Debug)]
pub struct RecordReader {
    window: Window,
    log: LogToRead,
    header: Option<LogHeader>,
    /// Where the next record begins.
    next: u64,
    /// The highest promise seen so far, the caller's included.
    promise: u64,
    tail: Option<Tail>,
    /// Whole records found behind the end: where the first is, and how many.
    behind: Option<(u64, u64)>,
}

/// What is found at an offset.
enum Probe {
    Record(Frame),
    /// It carries our tag, but is not whole.
    Broken,
    /// Nothing of this log.
    Foreign,
}

impl RecordReader {
    /// Reads the header. A log whose header was never written, as after a crash right at its start, has none and no
    /// records either.
    pub fn open(file: Arc<dyn ReadFile>, log: LogToRead) -> Result<RecordReader> {
        let window = Window { file, class: log.class, start: 0, bytes: Vec::new() };
        let mut reader = RecordReader {
            window,
            log,
            header: None,
            next: 0,
            promise: log.promised,
            tail: None,
            behind: None,
        };
        match reader.probe(0)? {
            Probe::Record(frame) => reader.read_header(frame)?,
            Probe::Broken => reader.end_at(0, true)?,
            Probe::Foreign => reader.end_at(0, false)?,
        }
        Ok(reader)
    }

    /// The log's header, if it has one.
    pub fn header(&self) -> Option<&LogHeader> {
        self.header.as_ref()
    }

    /// The next record, or `None` at the log's end; then `tail` says what the end is like.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let offset = self.next;
        match self.probe(offset)? {
            Probe::Record(frame) => match frame.kind {
                RecordKind::Data => {
                    self.promise = self.promise.max(frame.promise);
                    self.next = offset + frame.record_len();
                    let payload = self.window.payload(offset, frame)?;
                    return Ok(Some(Record { offset, payload }));
                }
                RecordKind::Seal => self.read_seal(offset, frame)?,
                RecordKind::Header => return Err(self.corruption(offset, "a second header")),
            },
            Probe::Broken => self.end_at(offset, true)?,
            Probe::Foreign => self.end_at(offset, false)?,
        }
        Ok(None)
    }

    /// The length to which the log is known to have been durable, by what was read of it.
    pub fn promised(&self) -> u64 {
        self.promise
    }

    /// How the log ends; `None` until `next` has said that it does.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Whole records behind the end, where the first is and how many: a crash may leave them behind one that it lost, and so may
    /// damage.
    pub fn behind(&self) -> Option<(u64, u64)> {
        self.behind
    }

    fn read_header(&mut self, frame: Frame) -> Result<()> {
        if frame.kind != RecordKind::Header {
            return Err(self.corruption(0, "the first record is no header"));
        }
        let header = match LogHeader::decode(self.window.payload(0, frame)?) {
            Ok(header) => header,
            Err(HeaderError::Version(version)) => {
                return Err(Error::Unsupported(format!(
                    "{} is of log format {version}, which this version does not know",
                    self.window.file.path().display()
                )));
            }
            Err(HeaderError::Malformed) => return Err(self.corruption(0, "a malformed header")),
        };
        if header.id != self.log.id || header.kind != self.log.kind {
            return Err(self.corruption(0, "the header is of another log"));
        }
        self.next = frame.record_len();
        self.header = Some(header);
        Ok(())
    }

    fn read_seal(&mut self, offset: u64, frame: Frame) -> Result<()> {
        if self.window.payload(offset, frame)? != offset.to_le_bytes() {
            return Err(self.corruption(offset, "a seal of another length"));
        }
        let len = offset + frame.record_len();
        if self.promise > len {
            return Err(self.corruption(len, "the log is shorter than was promised"));
        }
        self.tail = Some(Tail::Sealed { len });
        Ok(())
    }

    /// Decides what it means that there is no good record at `offset`.
    fn end_at(&mut self, offset: u64, broken: bool) -> Result<()> {
        let mut torn = broken;
        if self.promise <= offset {
            torn |= self.search_behind(offset)?;
        }
        if self.promise > offset {
            return Err(self.corruption(offset, "there is no whole record where one was known to be durable"));
        }
        let allocated = self.header.as_ref().map_or(0, |header| header.allocated);
        // A promise is proof of a sync, and with it of the length that the file was made with.
        if self.promise > 0 && self.window.len() < allocated {
            return Err(self.corruption(self.window.len(), "the file is shorter than it was made"));
        }
        self.tail = Some(if torn { Tail::Torn { offset } } else { Tail::End { offset } });
        Ok(())
    }

    /// Looks for records behind a bad one, until one promises that the bad one was good. True if there is any.
    fn search_behind(&mut self, bad: u64) -> Result<bool> {
        let mut found = false;
        let mut at = bad + 1;
        // What a log really holds is hashed once. A file made to be slow, record within record, ends here.
        let mut budget = self.window.len().saturating_mul(4).saturating_add(WINDOW);
        while let Some(bytes) = self.window.some_from(at)? {
            let Some(skip) = find_tag(bytes, self.log.id, at) else {
                at += (bytes.len() - FRAME_LEN + 1) as u64;
                continue;
            };
            at += skip as u64;
            let claimed = self.claimed_len(at)?;
            if claimed > budget {
                return Err(self.corruption(bad, "too many broken records to tell what was durable"));
            }
            budget -= claimed;
            match self.probe(at)? {
                Probe::Record(frame) => {
                    found = true;
                    let (_, count) = self.behind.get_or_insert((at, 0));
                    *count += 1;
                    self.promise = self.promise.max(frame.promise);
                    if self.promise > bad {
                        return Ok(true);
                    }
                    at += frame.record_len();
                }
                Probe::Broken | Probe::Foreign => at += 1,
            }
        }
        Ok(found)
    }

    /// The bytes that `probe` would have to read at `at`.
    fn claimed_len(&mut self, at: u64) -> Result<u64> {
        let frame = Frame::parse(self.window.get(at, FRAME_LEN as u64)?, self.log.id, at);
        let fits = |frame: &Frame| frame.len <= self.log.payload_max;
        Ok(frame.filter(fits).map_or(FRAME_LEN as u64, |frame| frame.record_len()))
    }

    fn probe(&mut self, offset: u64) -> Result<Probe> {
        let rest = self.window.len().saturating_sub(offset);
        if rest < FRAME_LEN as u64 {
            return Ok(Probe::Foreign);
        }
        let Some(frame) = Frame::parse(self.window.get(offset, FRAME_LEN as u64)?, self.log.id, offset)
        else {
            return Ok(Probe::Foreign);
        };
        if frame.len > self.log.payload_max || frame.record_len() > rest {
            return Ok(Probe::Broken);
        }
        let id = self.log.id;
        let whole = frame.holds(self.window.payload(offset, frame)?, id, offset);
        Ok(if whole { Probe::Record(frame) } else { Probe::Broken })
    }

    fn corruption(&self, offset: u64, what: &str) -> Error {
        Error::corruption(self.window.file.path(), offset, what)
    }
}

/// The first place in `bytes`, which begin at offset `at`, that carries the tag of a record of log `id`.
fn find_tag(bytes: &[u8], id: u64, at: u64) -> Option<usize> {
    // Most of what follows a log's end is zeros. A tag's first byte is never 0, so none begins among them.
    let zeros = bytes.chunks_exact(8).take_while(|word| **word == [0; 8]).count() * 8;
    let skip = zeros.saturating_sub(TAG_AT);
    let id = mix(id);
    // The rest of a frame follows its tag.
    let tags = bytes.get(skip + TAG_AT..(bytes.len() + TAG_AT + 4).checked_sub(FRAME_LEN)?)?.windows(4);
    let found = tags.zip(at + skip as u64..).position(|(word, offset)| tag_matches_at(word, id, offset))?;
    Some(skip + found)
}

/// The part of the file that is in memory.
#[derive(Debug)]
struct Window {
    file: Arc<dyn ReadFile>,
    class: IoClass,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn len(&self) -> u64 {
        self.file.len()
    }

    /// The payload behind a frame that was found at `offset` and lies within the file.
    fn payload(&mut self, offset: u64, frame: Frame) -> Result<&[u8]> {
        self.get(offset + FRAME_LEN as u64, u64::from(frame.len))
    }

    /// What is at hand from `offset` on, at least a frame; `None` if the file has no more than a part of one.
    fn some_from(&mut self, offset: u64) -> Result<Option<&[u8]>> {
        if self.len().saturating_sub(offset) < FRAME_LEN as u64 {
            return Ok(None);
        }
        self.get(offset, FRAME_LEN as u64)?;
        Ok(self.bytes.get((offset - self.start) as usize..))
    }

    /// `len` bytes at `offset`; the caller has compared both with the file's length.
    fn get(&mut self, offset: u64, len: u64) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + len > end {
            let want = len.max(WINDOW).min(self.len().saturating_sub(offset)) as usize;
            if self.bytes.capacity() as u64 > WINDOW && (want as u64) <= WINDOW {
                self.bytes = Vec::new();
            }
            self.start = offset;
            self.bytes.clear();
            self.bytes.resize(want, 0);
            let read = self.file.read_at(offset, &mut self.bytes, self.class);
            if let Err(error) = read {
                self.bytes.clear();
                return Err(error);
            }
        }
        let from = (offset - self.start) as usize;
        let bytes = from.checked_add(len as usize).and_then(|to| self.bytes.get(from..to));
        bytes.ok_or_else(|| Error::corruption(self.file.path(), offset, "the file ends within a record"))
    }
}

#[cfg(test)]
#[path = "record_log_tests.rs"]
mod tests;
